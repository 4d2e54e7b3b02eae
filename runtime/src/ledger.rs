//! What happened, per job and per GPU: the one source of every metric.
//!
//! GPU-time is counted where it is physical: a GPU that drains belongs to the job that saves its state, even where it is
//! promised to another. All sums that must balance are integers, so they balance exactly or not at all.

mod balance;
mod beginning;
mod cpu;
mod free;
mod integrals;
mod moves;
mod queued;
mod rows;
mod stays;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fragments::FragmentTracker;
use crate::pools::Pools;
use crate::queue_tracker::QueueTracker;
use crate::row::{JobRow, Outcome, Segment, Unfinished};
use crate::utilisation::UtilisationTracker;
use crate::window::Window;
pub(crate) use integrals::TimeIntegrals;
use integrals::{Measured, Rates};
use rows::Rows;
use sandtable_hardware::{
    Duration, Fleet, GpuId, Instant, Job, JobId, NodeId, PerformanceModel, SECOND, Sharing, TypeId,
};
use stays::Stays;

/// A balance that does not close: a defect of ours, never a policy's.
#[expect(missing_docs, reason = "the texts of the cases say what their fields are")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AccountingError {
    #[error("GPU {gpu} was given to job {job} while job {other} had it")]
    GivenTwice { gpu: GpuId, job: JobId, other: JobId },
    #[error("jobs held {jobs} GPU-µs, GPUs were held {gpus} GPU-µs, the clock says {clock} GPU-µs")]
    GpuTime { jobs: i128, gpus: i128, clock: i128 },
    #[error("GPU {gpu} was held {held} job-µs in a run of {run} µs, more than it takes")]
    TooLong { gpu: GpuId, held: Duration, run: Duration },
    #[error("job {job} ended {times} times")]
    Ends { job: JobId, times: u32 },
    #[error("time went back from {from} to {to} µs")]
    TimeBack { from: Instant, to: Instant },
}

/// The ledger of one run.
pub struct Ledger {
    rows: Rows,
    /// Kept only if asked for.
    stays: Option<Stays>,
    /// Stays that are kept, and the GPUs of each.
    stay_size: usize,
    /// When the run began.
    began: Instant,
    now: Instant,
    total: u32,
    /// What a start takes, as the fleet has it.
    start_cost: Duration,
    pub(crate) measured: Measured,
    rates: Rates,
    sharing: Sharing,
    /// GPU utilisation, where it is known of the jobs.
    pub(crate) busy: Option<UtilisationTracker>,
    /// What GPUs are used for, where some serve.
    pub pools: Option<Pools>,
    /// What queues have, where there are any.
    pub(crate) queues: Option<QueueTracker>,
    /// Whether any job is elastic.
    pub(crate) elastic: bool,
    /// The job that is physically on each GPU.
    there: Vec<Vec<JobId>>,
    gpu_since: Vec<Instant>,
    /// Job-time of each GPU.
    gpu_held: Vec<Duration>,
    /// The job that a draining GPU goes to.
    promised: Vec<Vec<Promise>>,
    node_of: Vec<NodeId>,
    node_used: Vec<u32>,
    node_size: Vec<u32>,
    pub(crate) segment_count: u64,
    fragments: FragmentTracker,
    /// The last nodes of jobs that ask for no GPU.
    cpu_jobs: BTreeMap<JobId, NodeId>,
}

/// A GPU that a job gets when the jobs that drained there at the time of the plan have let it go.
struct Promise {
    job: JobId,
    after: Vec<JobId>,
}

impl Ledger {
    /// Counts GPU utilisation too, from that of each job alone by type of GPU; 0 to 1.
    pub fn with_utilisation(mut self, fleet: &Fleet, of_job: Vec<Vec<f64>>) -> Ledger {
        self.busy = Some(UtilisationTracker::new(fleet, of_job));
        self
    }

    /// Measures this part of the run; by default all until the last submission.
    pub fn measuring(mut self, window: Window) -> Ledger {
        let (first, last) = self.rows.submissions();
        self.measured = Measured::new(window, first, last);
        self
    }

    /// What jobs would take alone on the fastest type that each may run on.
    pub(crate) fn alone_by(&mut self, laws: Arc<PerformanceModel>, fleet: Fleet) {
        self.rows.set_solo(Box::new(move |job| {
            let allows = |kind: &TypeId| job.gpu_types.is_empty() || job.gpu_types.contains(kind);
            let types = TypeId::first(fleet.types.len()).filter(allows);
            let speed = types.map(|kind| laws.speed(&fleet, kind, job)).fold(0.0, f64::max);
            // Where no batch changes, whole microseconds stay whole.
            let work = match laws.regime(job) {
                Some(_) => laws.planned_s(job) * SECOND.as_micros_f64(),
                None => job.work.as_micros_f64(),
            };
            if speed > 0.0 && job.gpus > 0 { Duration::from_micros_f64((work / speed).ceil()) } else { job.work }
        }));
    }

    /// An empty ledger for these jobs; `keep_segments`: with every stay on GPUs.
    pub fn new(fleet: &Fleet, jobs: &Arc<[Job]>, keep_segments: bool) -> Ledger {
        let gpus = fleet.gpus() as usize;
        Ledger {
            rows: Rows::new(jobs.clone()),
            stays: keep_segments.then(Stays::default),
            stay_size: 0,
            began: Instant::START,
            now: Instant::START,
            total: fleet.gpus(),
            start_cost: fleet.costs.start,
            measured: Measured::default(),
            rates: Rates { free: u64::from(fleet.gpus()), ..Rates::default() },
            sharing: fleet.sharing,
            busy: None,
            pools: Pools::of(fleet, jobs),
            queues: QueueTracker::of(fleet),
            elastic: false,
            there: vec![Vec::new(); gpus],
            gpu_since: vec![Instant::START; gpus],
            gpu_held: vec![Duration::ZERO; gpus],
            promised: (0..gpus).map(|_| Vec::new()).collect(),
            node_of: (0..gpus as u32).map(|gpu| fleet.node_of(GpuId::new(gpu))).collect(),
            node_used: vec![0; fleet.nodes.len()],
            node_size: fleet.nodes.iter().map(|node| node.gpus).collect(),
            segment_count: 0,
            fragments: FragmentTracker::of(fleet, jobs),
            cpu_jobs: BTreeMap::new(),
        }
        .measuring(Window::default())
    }

    /// The rows, one a job, by job.
    pub fn rows(&self) -> impl Iterator<Item = JobRow> {
        self.rows.iter()
    }

    /// The row of a job.
    pub fn row(&self, job: JobId) -> JobRow {
        self.rows.get(job)
    }

    /// Every stay, in the order of their ends; none where they are not kept.
    pub fn segments(&self) -> impl Iterator<Item = Segment> {
        self.stays.iter().flat_map(Stays::iter)
    }

    /// GPUs of the fleet.
    pub fn total_gpus(&self) -> u32 {
        self.total
    }

    /// Moves the clock.
    ///
    /// # Errors
    /// Where time would go back.
    pub fn advance(&mut self, now: Instant) -> Result<(), AccountingError> {
        if now < self.now {
            return Err(AccountingError::TimeBack { from: self.now, to: now });
        }
        if now == self.now {
            return Ok(());
        }
        self.look_at_fragments();
        self.rates.busy = self.busy.as_ref().map_or(0.0, UtilisationTracker::sum);
        if let Some(queues) = &mut self.queues {
            queues.advance(self.measured.inside(self.now, now));
        }
        self.measured.advance(self.now, now, &self.rates);
        self.now = now;
        if let Some(pools) = &mut self.pools {
            pools.advance(now);
        }
        Ok(())
    }

    /// A job is in the system.
    pub fn submitted(&mut self, job: JobId) {
        let row = self.rows.begin(job);
        row.outcome = Outcome::Unfinished(Unfinished::Waited);
        row.contention = self.measured.all.demanded;
        self.demand(job, true);
    }

    /// A job can never run.
    pub fn rejected(&mut self, job: JobId, reason: String) {
        self.rows.begin(job).outcome = Outcome::Rejected(reason.into());
        self.rows.end(job);
    }

    /// The policy refused a job that waited.
    pub fn refused(&mut self, job: JobId) {
        self.wait_ends(job);
        let row = &mut self.rows[job];
        (row.outcome, row.end) = (Outcome::Refused, Some(self.now));
        self.demand(job, false);
        self.rows.end(job);
    }

    /// A job is given GPUs; those that drain come to it when they have.
    ///
    /// # Errors
    /// Where one is promised to another.
    pub fn given(&mut self, job: JobId, gpus: &[GpuId]) -> Result<(), AccountingError> {
        self.wait_ends(job);
        let mut awaited = 0;
        for gpu in gpus {
            let slot = gpu.index();
            let heirs = self.promised[slot].iter().map(|promise| promise.job);
            let drains = |other: &JobId| self.rows[*other].draining;
            let (after, others): (Vec<_>, Vec<_>) = self.there[slot].iter().copied().chain(heirs).partition(drains);
            if let Some(other) = others.first().filter(|_| !self.takes(job, &others)) {
                return Err(AccountingError::GivenTwice { gpu: *gpu, job, other: *other });
            }
            if after.is_empty() {
                self.occupy(*gpu, job);
            } else {
                self.promised[slot].push(Promise { job, after });
                awaited += 1;
            }
        }
        let row = &mut self.rows[job];
        row.first_start.get_or_insert(self.now);
        row.given_at = self.now;
        row.awaited = awaited;
        if awaited == 0 {
            row.began.get_or_insert(self.now);
        }
        row.last_gpus = gpus.to_vec();
        row.size = gpus.len() as u32;
        row.outcome = Outcome::Unfinished(Unfinished::HeldGpus);
        self.hold_cpu(job);
        Ok(())
    }

    /// Whether a GPU with these jobs may take one more.
    fn takes(&self, job: JobId, others: &[JobId]) -> bool {
        let share = |id: JobId| u64::from(self.rows[id].share);
        match self.sharing {
            Sharing::Exclusive => others.is_empty(),
            Sharing::Packed(most) => others.len() < most as usize,
            Sharing::Shares | Sharing::Parts => {
                others.iter().map(|other| share(*other)).sum::<u64>() + share(job) <= u64::from(Job::WHOLE)
            }
        }
    }

    /// A job makes progress.
    pub fn running(&mut self, job: JobId) {
        let row = &mut self.rows[job];
        row.running_since = Some(self.now);
        if row.first_run.is_none() {
            row.first_run = Some(self.now);
            let uncut = row.began == Some(row.given_at);
            row.startup = if uncut { self.now - row.given_at } else { self.start_cost };
        }
        row.pace = 1.0;
        self.rates.progressing += u64::from(row.size);
        self.rates.progress += weight(row);
        self.look(job);
    }

    /// A job that makes progress makes it at this pace from now on: 1 is its own alone.
    pub fn pace(&mut self, job: JobId, pace: f64) {
        let row = &mut self.rows[job];
        self.rates.progress += (pace - row.pace) * weight(row);
        row.pace = pace;
    }

    /// A job ran out of memory.
    pub fn died(&mut self, job: JobId) {
        self.stopped(job, false);
        let row = &mut self.rows[job];
        row.out_of_memory += 1;
        row.draining = true;
    }

    /// Looks again at what a job's GPUs show.
    fn look(&mut self, job: JobId) {
        let Some(busy) = &mut self.busy else { return };
        for gpu in &self.rows[job].last_gpus {
            let slot = gpu.index();
            let works = |id: &JobId| self.rows[*id].running_since.is_some();
            busy.set(*gpu, self.there[slot].iter().copied().filter(works));
        }
    }

    /// A job stops making progress; `preempted` by the policy, or by a failure.
    pub fn stopped(&mut self, job: JobId, preempted: bool) {
        if preempted {
            self.taken(job);
        }
        let row = &mut self.rows[job];
        if preempted {
            row.preemptions += 1;
            row.draining = true;
        }
        if let Some(since) = row.running_since.take() {
            row.productive += self.now - since;
            row.stopped_at = self.now;
            self.rates.progressing -= u64::from(row.size);
            self.rates.progress -= row.pace * weight(row);
            if self.rates.progressing == 0 {
                // No job is left: neither is what rounding left.
                self.rates.progress = 0.0;
            }
            self.look(job);
        }
    }

    /// A GPU is kept for the service whose model it holds.
    pub fn protected(&mut self, gpu: GpuId, until: Instant) {
        if let Some(pools) = &mut self.pools {
            pools.protect(gpu, until);
        }
    }

    /// A job has let its GPUs go; `lost`: progress that it must repeat.
    pub fn released(&mut self, job: JobId, lost: Duration) {
        let gpus = std::mem::take(&mut self.rows[job].last_gpus);
        self.rows[job].draining = false;
        for gpu in &gpus {
            let slot = gpu.index();
            if self.there[slot].contains(&job) {
                self.vacate(*gpu, job);
            }
            let promised = &mut self.promised[slot];
            promised.retain(|promise| promise.job != job);
            promised.iter_mut().for_each(|promise| promise.after.retain(|other| *other != job));
            let due = promised.extract_if(.., |promise| promise.after.is_empty());
            for Promise { job: next, .. } in due.collect::<Vec<_>>() {
                self.occupy(*gpu, next);
                let heir = &mut self.rows[next];
                heir.awaited -= 1;
                heir.given_at = self.now;
                if heir.awaited == 0 {
                    heir.began.get_or_insert(self.now);
                }
            }
        }
        let row = &self.rows[job];
        self.measured.lose(lost, row.stopped_at, row.size);
        let row = &mut self.rows[job];
        // One that still waited for GPUs to drain never had them all.
        let had_all = std::mem::take(&mut row.awaited) == 0;
        let held = if had_all { self.now - row.given_at } else { Duration::ZERO };
        row.held += held;
        row.lost += lost;
        row.productive -= lost.min(row.productive);
        row.outcome = Outcome::Unfinished(Unfinished::Waited);
        let from = row.given_at;
        if had_all {
            self.keep_stay(job, from, &gpus);
        }
        self.segment_count += 1;
        self.fragments.let_go(job);
        if !gpus.is_empty() {
            self.let_go();
        }
        self.rows[job].last_gpus = gpus;
    }

    /// A job lets GPUs go now that it has held, all of them, from then on.
    fn keep_stay(&mut self, job: JobId, from: Instant, gpus: &[GpuId]) {
        if let Some(stays) = &mut self.stays {
            self.stay_size += 1 + gpus.len();
            stays.push(job, from, self.now, gpus);
        }
    }

    /// A node failed under a job.
    pub fn failed(&mut self, job: JobId) {
        self.rows[job].failures += 1;
    }

    /// A job did all its work, and is said to have ended `at`, which may be earlier.
    ///
    /// # Errors
    /// Where it had ended before.
    pub fn ended(&mut self, job: JobId, at: Instant) -> Result<(), AccountingError> {
        if self.rows.is_over(job) {
            return Err(AccountingError::Ends { job, times: 2 });
        }
        self.stopped(job, false);
        self.released(job, Duration::ZERO);
        let demanded = self.measured.all.demanded;
        let row = &mut self.rows[job];
        row.end = Some(at);
        row.outcome = Outcome::Completed;
        row.contention = demanded - row.contention;
        self.demand(job, false);
        self.rows.end(job);
        Ok(())
    }

    /// A job gave up by itself: its process ended with this status, or minus this signal.
    pub fn crashed(&mut self, job: JobId, status: i32) {
        self.stopped(job, false);
        self.released(job, Duration::ZERO);
        let row = &mut self.rows[job];
        row.outcome = Outcome::Failed(match status {
            status if status < 0 => format!("signal {}", -status).into(),
            status => format!("exit code {status}").into(),
        });
        self.demand(job, false);
        self.rows.end(job);
    }

    /// Stays that are kept, and the GPUs of each, all together.
    pub(crate) fn stay_size(&self) -> usize {
        self.stay_size
    }

    fn occupy(&mut self, gpu: GpuId, job: JobId) {
        self.settle(gpu);
        self.count(gpu, -1);
        self.there[gpu].push(job);
        self.count(gpu, 1);
        self.rows[job].gpu_time -= i128::from(self.now.as_micros());
        self.rates.resident += 1;
        self.hold(gpu, job, true);
        if self.there[gpu].len() == 1 {
            self.rates.free -= 1;
            self.use_node(gpu, 1);
            if let Some(pools) = &mut self.pools {
                pools.occupy(gpu, job);
            }
        }
    }

    fn vacate(&mut self, gpu: GpuId, job: JobId) {
        self.settle(gpu);
        self.count(gpu, -1);
        self.there[gpu].retain(|other| *other != job);
        self.count(gpu, 1);
        // Less the instant at which it came, which `occupy` has taken off.
        self.rows[job].gpu_time += i128::from(self.now.as_micros());
        self.rates.resident -= 1;
        self.hold(gpu, job, false);
        if self.there[gpu].is_empty() {
            self.rates.free += 1;
            self.use_node(gpu, -1);
            if let Some(pools) = &mut self.pools {
                pools.vacate(gpu, job);
            }
        }
    }

    /// Adds the job-time of a GPU up to now.
    fn settle(&mut self, gpu: GpuId) {
        let slot = gpu.index();
        self.gpu_held[slot] += (self.now - self.gpu_since[slot]) * self.there[slot].len() as u64;
        self.gpu_since[slot] = self.now;
        self.fragments.touch(self.node_of[gpu]);
    }

    /// Counts what of a GPU is given away, or takes it back.
    fn count(&mut self, gpu: GpuId, sign: i64) {
        let there = &self.there[gpu];
        let milli = match self.sharing {
            Sharing::Shares | Sharing::Parts => there.iter().map(|job| u64::from(self.rows[*job].share)).sum(),
            _ if there.is_empty() => 0,
            _ => u64::from(Job::WHOLE),
        };
        self.rates.allocated = self.rates.allocated.wrapping_add_signed(sign * milli as i64);
    }
}

/// GPUs' worth of a job.
fn weight(row: &JobRow) -> f64 {
    f64::from(row.size) * f64::from(row.share) / f64::from(Job::WHOLE)
}
