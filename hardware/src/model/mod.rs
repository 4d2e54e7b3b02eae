//! The simulated fleet. Completion times are computed, never ticked: an event costs O(log n) and touches only the
//! jobs concerned.
//!
//! Between events a job does `rate` microseconds of work a microsecond. Sums of integers below 2^53 are exact in
//! f64, so alone on GPUs of speed 1 nothing is ever rounded; elsewhere a job ends at the first microsecond at which its
//! work is done. What several jobs on a GPU do to each other is in `sharing`.

mod failures;
mod leases;
mod redeploy;
mod resize;
mod sharing;
mod starting;
mod states;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_leases;
#[cfg(test)]
mod tests_redeploy;
#[cfg(test)]
mod tests_sharing;
mod work;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use crate::{
    Backend, BackendEvent, Beginning, Cause, Duration, EpochsOfBatch, Fleet, GpuId, Instant, Job, JobId, Move, NodeId,
    PerformanceModel, Progress, SECOND, Sample, ServiceId, Sharing, Split, StopMode, TimedEvent, TypeId,
};
use failures::NodeState;
use leases::Rounds;
use states::States;
use work::Work;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Waiting,
    Starting,
    Running,
    Stopping,
    Ended,
}

struct JobState {
    phase: Phase,
    work: Work,
    /// Work left when progress last began, in the unit of `work`.
    left: f64,
    /// Work left at the last checkpoint.
    saved: f64,
    /// Time of progress since then, up to when progress last began.
    unsaved: Duration,
    started_before: bool,
    progress_from: Instant,
    /// Most work that it does from then on, until its lease is over.
    most: f64,
    /// Time from then on in which it makes no progress, unless it ends first.
    redeploys: Duration,
    gpus: Vec<GpuId>,
    /// The node that it is on, or was last, where it asks for no GPU.
    node: Option<NodeId>,
    /// Speed of its GPUs; 1 without any.
    speed: f64,
    /// Its progress now, throttle and neighbours included.
    rate: f64,
    /// Part of its own speed that it is held to.
    throttle: f64,
    /// It ran out of memory and holds its GPUs until it has been cleared away.
    died: bool,
    /// Events of an earlier generation are void.
    generation: u32,
}

/// What is to happen; the order of the cases is the order within an instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Due {
    End(JobId),
    RoundOver,
    NodeDown(NodeId),
    NodeUp(NodeId),
    /// Maintenance, by its index: over, begun, announced.
    BringBack(usize),
    TakeDown(usize),
    Announce(usize),
    /// By its owner: back, taken, asked for.
    HandBack(NodeId),
    TakeBack(NodeId),
    AskBack(NodeId),
    Release(JobId),
    Run(JobId),
}

/// The simulated fleet.
pub struct SimulatedBackend {
    fleet: Fleet,
    jobs: Arc<[Job]>,
    states: States,
    /// When a GPU has finished saving the state of the job that it ran last.
    drained: Vec<Instant>,
    nodes: Vec<NodeState>,
    laws: PerformanceModel,
    /// Jobs on each device, in the order of their starts, once for each of its GPUs; empty where GPUs are not shared.
    there: Vec<Vec<JobId>>,
    /// The service whose model each GPU holds; empty where nothing is served.
    loaded: Vec<Option<ServiceId>>,
    /// Gangs of elastic jobs that there have been, by their first GPU and their size.
    gangs: BTreeSet<(GpuId, u32)>,
    due: BinaryHeap<Reverse<(Instant, Due, u32)>>,
    rounds: Rounds,
    /// What the first call of `advance` tells.
    opening: Vec<TimedEvent>,
    now: Instant,
}

impl SimulatedBackend {
    /// A fleet at rest, with the jobs that will be started on it. `seed` draws the failures, and the errors of the
    /// laws.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use sandtable_hardware::{
    ///     Backend, BackendEvent, Costs, Fleet, GpuId, GpuType, Instant, Job, JobId, PerformanceModel, SECOND,
    ///     SimulatedBackend,
    /// };
    ///
    /// let fleet = Fleet::new(&[(1, 2, GpuType::new("V100", 1.0))], Costs::default(), None)?;
    /// let jobs: Arc<[Job]> = [Job::new("a", Instant::START, 2, 60 * SECOND)].into();
    /// let mut backend = SimulatedBackend::new(fleet, jobs, &PerformanceModel::none(), 0);
    /// let (job, mut happened) = (JobId::new(0), Vec::new());
    /// backend.start(job, &[GpuId::new(0), GpuId::new(1)], None, &mut happened);
    /// backend.advance(None, &mut happened);
    /// assert_eq!(happened.last().map(|event| (event.at, event.what)), Some((Instant::at(60 * SECOND), BackendEvent::Ended(job))));
    /// # Ok::<(), sandtable_hardware::FleetError>(())
    /// ```
    pub fn new(fleet: Fleet, jobs: Arc<[Job]>, laws: &PerformanceModel, seed: u64) -> SimulatedBackend {
        SimulatedBackend::beginning(fleet, jobs, laws, seed, &Beginning::default())
    }

    /// A fleet on which jobs make progress already: what follows at once is told by the first [`Backend::advance`]. Jobs that
    /// hold GPUs keep to their own batch, and fleets whose GPUs are leased have none.
    pub fn beginning(
        fleet: Fleet,
        jobs: Arc<[Job]>,
        laws: &PerformanceModel,
        seed: u64,
        beginning: &Beginning,
    ) -> SimulatedBackend {
        let alone = fleet.sharing == Sharing::Exclusive && fleet.slots == 1;
        let mut model = SimulatedBackend {
            states: States::new(jobs.clone()),
            drained: vec![Instant::START; fleet.gpus() as usize],
            nodes: Vec::new(),
            laws: laws.under(seed),
            there: vec![Vec::new(); if alone { 0 } else { (fleet.gpus() / fleet.slots) as usize }],
            gangs: BTreeSet::new(),
            loaded: vec![None; if fleet.services.is_empty() { 0 } else { fleet.gpus() as usize }],
            due: BinaryHeap::new(),
            rounds: Rounds::default(),
            opening: Vec::new(),
            now: beginning.at,
            fleet,
            jobs,
        };
        model.begin_training();
        model.begin_regimes();
        model.begin_failures(seed);
        model.go_on_from(beginning);
        model
    }

    fn schedule(&mut self, at: Instant, due: Due, generation: u32) {
        self.due.push(Reverse((at, due, generation)));
    }

    fn is_void(&self, due: Due, generation: u32) -> bool {
        match due {
            Due::End(job) | Due::Release(job) | Due::Run(job) => self.states[job].generation != generation,
            Due::NodeDown(_)
            | Due::NodeUp(_)
            | Due::BringBack(_)
            | Due::TakeDown(_)
            | Due::Announce(_)
            | Due::HandBack(_)
            | Due::TakeBack(_)
            | Due::AskBack(_)
            | Due::RoundOver => false,
        }
    }

    /// Drops void events and tells when the next one is due.
    fn next_due(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, due, generation))) = self.due.peek().copied() {
            if !self.is_void(due, generation) {
                return Some(at);
            }
            self.due.pop();
        }
        None
    }

    fn happen(&mut self, due: Due, happened: &mut Vec<TimedEvent>) {
        match due {
            Due::End(id) => {
                let at = self.nominal_end(id);
                if self.next_epoch(id, at) {
                    happened.push(TimedEvent { at, what: BackendEvent::Epoch(id) });
                    return self.schedule_end(id);
                }
                let state = &mut self.states[id];
                state.phase = Phase::Ended;
                state.generation += 1;
                let gpus = std::mem::take(&mut state.gpus);
                self.load(id, &gpus);
                happened.push(TimedEvent { at, what: BackendEvent::Ended(id) });
                self.leave(id, &gpus, happened);
                self.states.end(id);
            }
            Due::NodeDown(node) => self.fail(node, happened),
            Due::NodeUp(node) => self.repair(node, happened),
            Due::BringBack(at) => self.bring_back(at, happened),
            Due::TakeDown(at) => self.take_down(at, happened),
            Due::Announce(at) => self.announce(at, happened),
            Due::HandBack(node) => self.hand_back(node, happened),
            Due::TakeBack(node) => self.take_back(node, happened),
            Due::AskBack(node) => self.ask_back(node, happened),
            Due::Release(id) => {
                let state = &mut self.states[id];
                let cause = if std::mem::take(&mut state.died) { Cause::OutOfMemory } else { Cause::Asked };
                state.saved = state.left;
                state.unsaved = Duration::ZERO;
                self.let_go(id, cause, Duration::ZERO, happened);
            }
            Due::Run(id) => self.begin(id, happened),
            Due::RoundOver => self.end_leases(happened),
        }
    }

    /// The job waits again.
    fn let_go(&mut self, id: JobId, cause: Cause, lost: Duration, happened: &mut Vec<TimedEvent>) {
        self.break_lease(id, cause);
        let state = &mut self.states[id];
        state.phase = Phase::Waiting;
        state.died = false;
        state.generation += 1;
        let gpus = std::mem::take(&mut state.gpus);
        happened.push(TimedEvent { at: self.now, what: BackendEvent::Released { job: id, cause, lost } });
        self.leave(id, &gpus, happened);
    }
}

impl Backend for SimulatedBackend {
    fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn advance(&mut self, until: Option<Instant>, happened: &mut Vec<TimedEvent>) {
        if !self.opening.is_empty() {
            return happened.append(&mut self.opening);
        }
        loop {
            let next = self.next_due();
            let Some(to) = next.into_iter().chain(until).min() else { return };
            assert!(to >= self.now, "time would go back from {} to {to}", self.now);
            self.now = to;
            while self.next_due() == Some(to) {
                if let Some(Reverse((_, due, _))) = self.due.pop() {
                    self.happen(due, happened);
                }
            }
            // A node that fails while it is away changes nothing.
            if !happened.is_empty() || until == Some(to) {
                return;
            }
        }
    }

    fn start(&mut self, job: JobId, gpus: &[GpuId], split: Option<Split>, happened: &mut Vec<TimedEvent>) {
        let overhead = self.overhead(job, gpus);
        let speed = self.own_speed(job, self.fleet.type_of(gpus[0]));
        let drained = gpus.iter().map(|gpu| self.drained[*gpu]).max().unwrap_or(self.now).max(self.now);
        self.states[job].gpus = gpus.to_vec();
        self.prepare(job, speed, drained + overhead);
        self.settle_in(job, split);
        self.come(job);
        self.begin_or_wait(job, happened);
    }

    fn start_on(&mut self, job: JobId, node: NodeId, happened: &mut Vec<TimedEvent>) {
        let overhead = self.overhead(job, &[]);
        self.states[job].node = Some(node);
        self.prepare(job, 1.0, self.now + overhead);
        self.begin_or_wait(job, happened);
    }

    fn begin_round(&mut self) -> bool {
        self.begin_leases()
    }

    fn decided(&mut self) {
        self.redeploy();
    }

    fn forget(&mut self, job: JobId) {
        self.states.end(job);
    }

    fn reassign(&mut self, moves: Vec<Move>, happened: &mut Vec<TimedEvent>) {
        self.carry_over(moves, happened);
    }

    fn set_batch(&mut self, job: JobId, split: Split, happened: &mut Vec<TimedEvent>) {
        self.change_batch(job, split, happened);
    }

    fn sample(&self, job: JobId) -> Option<Sample> {
        self.report(job)
    }

    fn ends_epoch(&self, job: JobId) -> bool {
        self.at_epochs_end(job).is_some()
    }

    fn steps(&self, job: JobId, gpu_type: TypeId, gpus: u32) -> (f64, f64) {
        if let Work::Stepped(steps) = self.states[job].work {
            return self.step_of_regime(job, steps, gpu_type, gpus);
        }
        self.step_and_left(job, gpu_type, gpus)
    }

    fn epochs_done(&self, job: JobId) -> Option<(f64, u32)> {
        let Work::Stepped(steps) = self.states[job].work else { return None };
        let (regime, _) = self.laws.regime(&self.jobs[job])?;
        Some((regime.done(steps), steps.batch))
    }

    fn epochs_planned(&self, job: JobId, gpu_type: TypeId) -> Vec<EpochsOfBatch> {
        let job = &self.jobs[job];
        let Some((regime, first)) = self.laws.regime(job) else { return Vec::new() };
        let all = regime.steps(first, job.work.as_secs_f64()).unwrap_or(0.0);
        regime.plan(first, all as u64, self.fleet.types[gpu_type].speed)
    }

    fn stop(&mut self, job: JobId, mode: StopMode, happened: &mut Vec<TimedEvent>) {
        let costs = self.fleet.costs;
        if costs.leases.is_some() {
            // What is done in a lease that is cut short is lost.
            self.states[job].most = 0.0;
        }
        let state = &self.states[job];
        let running = state.phase == Phase::Running;
        match mode {
            StopMode::Kill => {
                let lost = self.roll_back(job);
                self.let_go(job, Cause::Asked, lost, happened);
            }
            StopMode::Checkpoint => {
                let left = state.left - self.done(state);
                let small = |rule: &crate::RestartRule| self.jobs[job].gpus <= rule.small_gpus;
                let added = costs
                    .restart_adds_work
                    .map_or(Duration::ZERO, |rule| if small(&rule) { rule.small } else { rule.large });
                let unsaved = self.since_saved(state);
                let state = &mut self.states[job];
                state.unsaved = unsaved;
                // The work of an elastic job is counted in steps.
                let work_per_microsecond = match state.work {
                    Work::Rigid => 1.0,
                    Work::Elastic(_) | Work::Stepped(_) => state.speed,
                };
                state.left = left + added.as_micros_f64() * work_per_microsecond;
                // A job that starts again after a change has something to save too.
                if (running || left != state.saved) && costs.checkpoint > Duration::ZERO {
                    state.phase = Phase::Stopping;
                    state.generation += 1;
                    let generation = state.generation;
                    let until = self.now + costs.checkpoint;
                    for gpu in &state.gpus {
                        let drained = &mut self.drained[*gpu];
                        *drained = (*drained).max(until);
                    }
                    self.schedule(until, Due::Release(job), generation);
                    self.neighbours_repace(job, happened);
                } else {
                    state.saved = state.left;
                    state.unsaved = Duration::ZERO;
                    self.let_go(job, Cause::Asked, Duration::ZERO, happened);
                }
            }
        }
    }

    fn throttle(&mut self, job: JobId, milli: u32, happened: &mut Vec<TimedEvent>) {
        self.states[job].throttle = f64::from(milli) / 1000.0;
        self.repace(job, happened);
        self.neighbours_repace(job, happened);
    }

    fn speed(&self, job: JobId) -> f64 {
        let state = &self.states[job];
        if state.phase == Phase::Running { state.rate / state.speed } else { f64::NAN }
    }

    fn alone(&self, job: JobId, gpu_type: TypeId) -> f64 {
        self.laws.speed(&self.fleet, gpu_type, &self.jobs[job])
    }

    fn pair_speed(&self, gpu_type: TypeId, job: JobId, residents: &[JobId]) -> f64 {
        self.speed_beside(gpu_type, job, residents)
    }

    fn remaining(&self, job: JobId, gpu_type: TypeId) -> f64 {
        let state = &self.states[job];
        match state.work {
            Work::Elastic(_) => return self.training_left(job, gpu_type),
            Work::Stepped(_) => return self.steps_left_s(job, gpu_type),
            Work::Rigid => {}
        }
        let micros = match state.phase {
            Phase::Ended => 0.0,
            Phase::Running => (state.left - self.done(state)) / state.rate,
            Phase::Starting => {
                state.left / state.speed + state.progress_from.saturating_since(self.now).as_micros_f64()
            }
            Phase::Waiting | Phase::Stopping => {
                let speed = if self.jobs[job].gpus == 0 { 1.0 } else { self.own_speed(job, gpu_type) };
                state.left / speed + self.start_cost(job).as_micros_f64()
            }
        };
        micros / SECOND.as_micros_f64()
    }

    fn progress(&self, job: JobId) -> Progress {
        let state = &self.states[job];
        if state.phase == Phase::Ended {
            return Progress::UNKNOWN;
        }
        let left = state.left - self.done(state);
        let done = match state.work {
            Work::Rigid => (1.0 - left / self.jobs[job].work.as_micros_f64()).max(0.0),
            Work::Elastic(_) => self.training_done(job, left),
            Work::Stepped(steps) => 1.0 - left / steps.all as f64,
        };
        Progress { done, unsaved: Some(self.after_a_kill(state).1) }
    }

    /// Elastic jobs learn faster and slower as they go; leased ones and those that are redeployed lose time to restarts, and leased ones go over to other batches.
    fn remaining_is_steady(&self) -> bool {
        let costs = &self.fleet.costs;
        !costs.redeploy && costs.leases.is_none() && self.jobs.iter().all(|job| self.laws.elastic(job).is_none())
    }
}
