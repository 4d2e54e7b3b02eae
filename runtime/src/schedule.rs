//! The loop: advance, collect events, decide, judge, apply, record. The same for every backend.
//!
//! Within an instant: ends, node changes, releases, starts of progress (the backend's order), then submissions, then
//! timers, each by id; then one decision. Events that only tell a policy that its wish was carried out wait for the
//! next batch.

mod deciding;
mod dependent;
mod happening;
mod leased;
mod reports;
mod succession;
mod taking_up;

use sandtable_hardware::{Backend, Duration, Fleet, Instant, Job, JobId, TimedEvent};

use crate::capacity::Capacities;
use crate::capsule::{Capsule, Step};
use crate::cluster::Phase;
use crate::context::DecisionContext;
use crate::contract::{Abilities, Cadence, Event, Knowledge, PolicyError, Readiness, Setup, Trigger, Wake};
use crate::decision_log::{Agreement, DecisionLog, ReplayScript};
use crate::fault::{Fault, Place};
use crate::inputs::{Inputs, Takeover};
use crate::ledger::{AccountingError, Ledger};
use crate::limits::Limits;
use crate::policy::Policy;
use crate::predict::Score;
pub use crate::visibility::gpu_types;
use crate::visibility::{Introduced, setup, told, utilisation};
use dependent::Dependents;
use leased::Rounds;

/// What came of a run.
#[non_exhaustive]
pub struct Finished {
    /// What happened; closed, unless the policy failed.
    pub ledger: Ledger,
    /// Calls of `decide`.
    pub calls: u64,
    /// Actions refused under lenient judging.
    pub rejections: u64,
    /// How good the predictors were.
    pub scores: Vec<Score>,
    /// What the policy did wrong, if it did.
    pub fault: Option<Fault>,
    /// The failed run for replay, if recorded.
    pub capsule: Option<Capsule>,
    /// Which policies took over.
    pub takeovers: Vec<Takeover>,
    /// The plans that were carried out, if they were asked for.
    pub decision_log: Option<DecisionLog>,
    /// How the policy's plans compare with those of the recorded run, if it follows one.
    pub agreement: Option<Agreement>,
}

/// Calls in a row, of its own making, that did nothing: then the policy is in a livelock.
pub const IDLE_CALLS: u64 = 10_000;

/// Calls in a row during which no job came or ended: then none will, as where nodes fail more often than any job needs to
/// end, and the jobs that are left are unfinished; or the policy has itself called too often, which is its fault.
pub const CALLS_WITHOUT_AN_END: u64 = 10_000_000;

/// Runs a policy until every job has ended, or nothing can happen any more.
///
/// ```
/// use std::sync::Arc;
///
/// use sandtable_hardware::{Costs, Fleet, GpuType, Instant, Job, PerformanceModel, SECOND, SimulatedBackend};
/// use sandtable_runtime::contract::{Abilities, Action, Batch, Cadence, Descriptor, Event, Plan, Readiness, Setup, Start};
/// use sandtable_runtime::fault::Fault;
/// use sandtable_runtime::inputs::Inputs;
/// use sandtable_runtime::limits::Limits;
/// use sandtable_runtime::schedule::run;
/// use sandtable_runtime::{DecisionContext, Policy, Summary};
///
/// /// Starts every job on GPU 0 as soon as it arrives.
/// struct First;
///
/// impl Policy for First {
///     fn describe(&mut self) -> Result<Descriptor, Fault> {
///         Ok(Descriptor::stand_in("first", Abilities::empty()))
///     }
///
///     fn init(&mut self, _: &Setup) -> Result<Readiness, Fault> {
///         Ok(Readiness::of(Cadence::EVENTS))
///     }
///
///     fn decide(&mut self, batch: &Batch, world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Plan, Fault>) {
///         let start = |event: &Event| match event {
///             Event::JobArrived(arrival) => Some(Action::Start(Start { job: arrival.job, gpus: vec![0], batch: None })),
///             _ => None,
///         };
///         let actions = batch.events.iter().filter_map(start).collect();
///         (world, Ok(Plan { base: batch.seq, actions }))
///     }
/// }
///
/// let fleet = Fleet::new(&[(1, 1, GpuType::new("V100", 1.0))], Costs::default(), None)?;
/// let job = |name, seconds, work| Job::new(name, Instant::at(seconds * SECOND), 1, work * SECOND);
/// let jobs: Arc<[Job]> = [job("a", 0, 60), job("b", 100, 30)].into();
/// let backend = SimulatedBackend::new(fleet, jobs.clone(), &PerformanceModel::none(), 0);
/// let finished = run(&mut First, Box::new(backend), Inputs::plain(jobs, Limits::default()))?;
/// let summary = Summary::of(&finished.ledger);
/// assert_eq!((summary.completed, summary.jct.mean), (2, 45.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A balance that does not close: a defect of this crate or of the backend.
pub fn run(policy: &mut dyn Policy, backend: Box<dyn Backend>, inputs: Inputs) -> Result<Finished, AccountingError> {
    let (mut run, setup) = Run::new(backend, inputs);
    run.take_up()?;
    let fault = match begin(policy, &setup, run.follow) {
        Ok(Begun { uses, needs, cadence }) => {
            // What is recorded was allowed to the policy that did it.
            let uses = if run.inputs.script.is_some() { Abilities::all() } else { uses };
            run.world().serve(uses, needs);
            run.until_the_end(policy, cadence, &setup)?.err()
        }
        Err(fault) if run.inputs.script.is_some() && !fault.is_no_guests() => {
            run.inputs.script.iter_mut().for_each(|script| script.failed(Instant::START));
            run.world().serve(Abilities::all(), Knowledge::empty());
            let cadence = Cadence::EVENTS;
            run.until_the_end(policy, cadence, &setup)?.err()
        }
        Err(fault) => match run.fall_back(fault, &setup) {
            Ok(cadence) => run.until_the_end(policy, cadence, &setup)?.err(),
            Err(fault) => Some(fault),
        },
    };
    if fault.is_none() {
        run.ledger.close()?;
    }
    let capsule = fault.clone().zip(run.inputs.record.take()).map(|(fault, digest)| {
        let steps = std::mem::take(&mut run.steps);
        Capsule { component: digest, limits: run.inputs.limits, setup: setup.clone(), steps, fault }
    });
    let scores = run.world().scores();
    let (calls, rejections, takeovers) = (run.calls, run.rejections, run.takeovers);
    let agreement = run.inputs.script.map(ReplayScript::agreement);
    Ok(Finished {
        ledger: run.ledger,
        calls,
        rejections,
        scores,
        fault,
        capsule,
        takeovers,
        decision_log: run.inputs.decision_log,
        agreement,
    })
}

impl Run {
    /// A run at its beginning, and what its policy is told first.
    fn new(backend: Box<dyn Backend>, mut inputs: Inputs) -> (Run, Setup) {
        let ledger = Ledger::new(backend.fleet(), &inputs.jobs, inputs.keep_segments);
        let mut ledger = ledger.measuring(inputs.measured).beginning(inputs.beginning.at);
        ledger.alone_by(inputs.laws.clone(), backend.fleet().clone());
        ledger.elastic = inputs.jobs.iter().any(|job| inputs.laws.elastic(job).is_some());
        let told = told(backend.fleet(), &inputs);
        if let Some(of_job) = utilisation(backend.fleet(), &inputs) {
            ledger = ledger.with_utilisation(backend.fleet(), of_job);
        }
        let predictors = std::mem::take(&mut inputs.predictors);
        let introduced = Introduced::new(&told.profiles, inputs.reveal);
        let world = DecisionContext::new(
            backend,
            (inputs.jobs.clone(), inputs.laws.clone()),
            predictors,
            told,
            inputs.limits.actions,
        );
        let setup = setup(&world, &inputs);
        let capacities = Capacities::of(world.fleet());
        let leased = Rounds::of(world.fleet());
        let recorded = inputs.script.is_some();
        let follow = if recorded { Abilities::empty() } else { inputs.follow | demanded(&inputs, world.fleet()) };
        let run = Run {
            world: Some(Box::new(world)),
            ledger,
            happened: Vec::new(),
            events: Vec::new(),
            wake: false,
            ended: false,
            epoch: false,
            leased,
            next_job: 0,
            dependents: Dependents::new(inputs.after.clone()),
            capacities,
            follow,
            introduced,
            fresh: Vec::new(),
            live: 0,
            calls: 0,
            rejections: 0,
            idle: 0,
            barren: 0,
            steps: Vec::new(),
            recorded: 0,
            resync: false,
            replacement: None,
            takeovers: Vec::new(),
            inputs,
        };
        (run, setup)
    }
}

/// What a policy says before it decides.
struct Begun {
    uses: Abilities,
    needs: Knowledge,
    cadence: Cadence,
}

/// What not every policy follows: demands of these jobs, and limits of queues.
fn demanded(inputs: &Inputs, fleet: &Fleet) -> Abilities {
    // What has its node, and stays there, no policy has to start.
    let stays = |id: JobId, job: &Job| {
        let has_node = inputs.beginning.jobs.get(&id).is_some_and(|standing| standing.node.is_some());
        has_node && !job.preemptible && fleet.failures.is_none()
    };
    let of = |(at, job): (usize, &Job)| {
        let shape = if job.gpus_per_node > 0 { Abilities::SHAPE } else { Abilities::empty() };
        let host = if job.host.is_unknown() { Abilities::empty() } else { Abilities::HOST };
        let part = if job.part.is_some() { Abilities::PARTS } else { Abilities::empty() };
        let starts = job.gpus == 0 && !stays(JobId::at(at), job);
        let cpu = if starts { Abilities::CPU_JOBS } else { Abilities::empty() };
        shape | host | part | cpu | if job.near.is_any() { Abilities::empty() } else { Abilities::NEAR }
    };
    let limits = if fleet.limits_queues() { Abilities::QUEUES } else { Abilities::empty() };
    inputs.jobs.iter().enumerate().map(of).fold(limits, |all, of| all | of)
}

fn begin(policy: &mut dyn Policy, setup: &Setup, follow: Abilities) -> Result<Begun, Fault> {
    let descriptor = policy.describe()?;
    // A demand that it never follows is what it is refused for, whatever its configuration.
    check_follows(follow, descriptor.uses)?;
    let Readiness { cadence, uses } = policy.init(setup)?;
    let uses = descriptor.uses & uses;
    check_follows(follow, uses)?;
    let why = match cadence.round {
        Some(0) => Some("the cadence has rounds of 0 µs"),
        Some(round) if round >= Instant::END.as_micros() => Some("the cadence has rounds of 2^53 µs or more"),
        None if !cadence.on_events => Some("the cadence never calls it: no round and no events"),
        _ => None,
    };
    match why.map(str::to_string) {
        Some(message) => Err(Fault::BadValue { place: Place::Init, message }),
        None => Ok(Begun { uses, needs: descriptor.needs, cadence }),
    }
}

/// Whether a policy follows what jobs demand and queues limit.
fn check_follows(follow: Abilities, uses: Abilities) -> Result<(), Fault> {
    let demands = [
        (Abilities::SHAPE, "its placements do not follow the number of GPUs that gangs ask for on each node"),
        (Abilities::HOST, "its placements do not follow the CPU and memory that jobs ask for"),
        (Abilities::NEAR, "its placements do not follow how near to each other gangs ask their nodes to be"),
        (Abilities::PARTS, "its placements do not follow the parts of GPUs that jobs ask for"),
        (Abilities::CPU_JOBS, "it does not start jobs that ask for no GPU"),
        (Abilities::QUEUES, "it does not keep to the limits of queues"),
    ];
    let unmet = |(demand, _): &&(Abilities, _)| follow.contains(*demand) && !uses.contains(*demand);
    match demands.iter().find(unmet) {
        Some((_, why)) => Err(Fault::Refused { place: Place::Init, error: PolicyError::Unsupported((*why).into()) }),
        None => Ok(()),
    }
}

struct Run {
    /// Away only while the policy decides.
    world: Option<Box<DecisionContext>>,
    ledger: Ledger,
    happened: Vec<TimedEvent>,
    /// What the policy has not been told yet.
    events: Vec<Event>,
    wake: bool,
    /// A job has ended that the policy has not been told of.
    ended: bool,
    /// An epoch has ended where jobs look at their batch then.
    epoch: bool,
    /// Where GPUs are leased for rounds: policies are called between them alone.
    leased: Option<Rounds>,
    next_job: usize,
    /// Jobs that wait for others.
    dependents: Dependents,
    capacities: Capacities,
    /// The demands of jobs that a policy must follow.
    follow: Abilities,
    introduced: Introduced,
    /// Elastic jobs that have something new to report.
    fresh: Vec<JobId>,
    live: usize,
    calls: u64,
    rejections: u64,
    /// Calls in a row of the policy's own making that did nothing.
    idle: u64,
    /// Calls since a job came or ended.
    barren: u64,
    steps: Vec<Step>,
    /// Bytes of the recording so far.
    recorded: usize,
    /// The next batch tells everything.
    resync: bool,
    /// The policy that took over from the one that the run began with.
    replacement: Option<Box<dyn Policy>>,
    takeovers: Vec<Takeover>,
    inputs: Inputs,
}

impl Run {
    fn world(&mut self) -> &mut DecisionContext {
        match &mut self.world {
            Some(world) => world,
            None => unreachable!("the world is lent only to a call"),
        }
    }

    fn until_the_end(
        &mut self,
        policy: &mut dyn Policy,
        cadence: Cadence,
        setup: &Setup,
    ) -> Result<Result<(), Fault>, AccountingError> {
        let mut cadence = self.inputs.script.as_ref().map_or(cadence, |script| script.cadence);
        self.tell_of_beginning();
        self.enter(|decision_log| decision_log.begins(cadence));
        // No round is called twice at one instant.
        let mut no_round_before = Instant::START;
        while self.live > 0 || self.more_come() {
            let ended = self.next_job.saturating_sub(self.live);
            if self.inputs.watch.as_ref().is_some_and(|watch| watch(ended)) {
                return Ok(Err(Fault::Stopped));
            }
            if self.inputs.until.is_some_and(|until| self.world().cluster.now >= until) {
                return Ok(Ok(()));
            }
            if let Err(fault) = self.change_policy(&mut cadence, setup) {
                return Ok(Err(fault));
            }
            let round = cadence.round.filter(|_| self.leased.is_none()).map(Duration::from_micros);
            let until = self.until(round, no_round_before, cadence);
            let happened = self.advance(until)?;
            let now = self.world().cluster.now;
            if now >= Instant::END {
                return Ok(Ok(()));
            }
            self.submit(now);
            let timed = self.fire(now);
            // A round merges with what happens at its instant, a submission just now included.
            let rounds = round.filter(|period| self.live > 0 && now >= no_round_before && now.is_multiple_of(*period));
            let Some(trigger) = self.trigger(now, rounds.is_some(), cadence, timed) else {
                self.begin_round();
                if until.is_none() && !happened && !self.happens_by_itself() {
                    return Ok(Ok(()));
                }
                continue;
            };
            if let Some(period) = rounds {
                no_round_before = now + period;
            }
            if let Err(fault) = self.decide(policy, now, trigger)? {
                self.enter(|decision_log| decision_log.decided(now, trigger, Vec::new()));
                match self.fall_back(fault, setup) {
                    Ok(next) => {
                        cadence = next;
                        self.enter(|decision_log| decision_log.begins(next));
                    }
                    Err(fault) => return Ok(Err(fault)),
                }
            }
            self.begin_round();
            if let Some(end) = self.is_over(trigger) {
                return Ok(end);
            }
        }
        Ok(Ok(()))
    }

    /// Hands over to another policy where one is due.
    ///
    /// # Errors
    /// A fault that is no guest's.
    fn change_policy(&mut self, cadence: &mut Cadence, setup: &Setup) -> Result<(), Fault> {
        match self.try_handover(setup) {
            Some(Ok(next)) => {
                *cadence = next;
                self.enter(|decision_log| decision_log.begins(next));
            }
            Some(Err(fault)) if fault.is_no_guests() => return Err(fault),
            // The policy that was asked for can't begin: the one before goes on.
            Some(Err(_)) | None => {}
        }
        let now = self.world().cluster.now;
        if let Some(next) = self.inputs.script.as_mut().and_then(|script| script.takeover(now)) {
            self.world().cluster.timers.clear();
            self.resync = true;
            *cadence = next;
        }
        Ok(())
    }

    /// When the loop has something to do of its own accord: a submission, a timer, a round or a takeover.
    fn until(&mut self, round: Option<Duration>, no_round_before: Instant, cadence: Cadence) -> Option<Instant> {
        let now = self.world().cluster.now;
        if self.takes_over() {
            return Some(now);
        }
        let call = self.call_due(now, cadence);
        let submission = self.inputs.jobs.get(self.next_job).map(|job| job.submit).into_iter();
        let submission = submission.chain(self.dependents.next().map(|at| at.max(now)));
        // Without live jobs a round has nothing to decide.
        let next_round =
            round.filter(|_| self.live > 0).map(|period| no_round_before.max(now.next_multiple_of(period)));
        let timer = self.world().cluster.timers.values().min().copied();
        let due = self.inputs.succession.as_ref().and_then(|succession| succession.due());
        let all = submission.chain(timer).chain(next_round).chain(call).chain(due).chain(self.inputs.until);
        all.min().filter(|at| *at < Instant::END)
    }

    /// Whether a policy takes over now: not while a round goes on.
    fn takes_over(&self) -> bool {
        self.resync && !self.leased.as_ref().is_some_and(Rounds::goes_on)
    }

    /// Why the policy is called now, if it is.
    fn trigger(&mut self, now: Instant, is_round: bool, cadence: Cadence, timed: bool) -> Option<Trigger> {
        let always = cadence.ends == Wake::Always || self.inputs.every_end_calls;
        let ended = self.ended && (always || self.world().cluster.count(Phase::Queued) > 0);
        if self.takes_over() {
            Some(Trigger::Resync)
        } else if self.leased.is_some() {
            self.leased_trigger(now, cadence, timed)
        } else if is_round {
            Some(Trigger::Round)
        } else if cadence.on_events && (self.wake || self.epoch || ended) {
            Some(Trigger::Event)
        } else {
            timed.then_some(Trigger::Timer)
        }
    }

    /// How the run ends after a call, if it does.
    fn is_over(&mut self, trigger: Trigger) -> Option<Result<(), Fault>> {
        if self.calls >= self.inputs.limits.calls {
            return Some(Err(Fault::Livelock { calls: self.calls }));
        }
        if self.ledger.stay_size() > Limits::STAYS {
            return Some(Err(Fault::TooManyStays { limit: Limits::STAYS }));
        }
        if self.barren >= CALLS_WITHOUT_AN_END {
            // It has itself called so often that no job's end is reached; else it is the machines on which none ends.
            let own = matches!(trigger, Trigger::Timer | Trigger::Round);
            return Some(if own { Err(Fault::Livelock { calls: self.barren }) } else { Ok(()) });
        }
        if self.idle < IDLE_CALLS {
            return None;
        }
        // Rounds and timers go on by themselves; a job that will never start does not.
        if !self.more_come() && !self.happens_by_itself() {
            return Some(Ok(()));
        }
        (trigger == Trigger::Timer).then_some(Err(Fault::Livelock { calls: self.idle }))
    }

    /// Whether jobs are to be submitted whatever the policy does.
    fn more_come(&self) -> bool {
        self.next_job < self.inputs.jobs.len() || self.dependents.next().is_some()
    }

    /// Enters a decision into the log, if one is kept.
    fn enter(&mut self, entry: impl FnOnce(&mut DecisionLog)) {
        if let Some(decision_log) = &mut self.inputs.decision_log {
            entry(decision_log);
        }
    }

    /// Whether a job is on the machines: then something is still to happen there.
    fn happens_by_itself(&mut self) -> bool {
        let cluster = &self.world().cluster;
        [Phase::Starting, Phase::Running, Phase::Stopping].into_iter().any(|phase| cluster.count(phase) > 0)
    }
}
