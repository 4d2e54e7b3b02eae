//! Every metric, as a pure function of a ledger.

use sandtable_hardware::{Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::distribution::{Distribution, quantile, ratio};
use crate::fragments::UNIT;
use crate::ledger::{Ledger, TimeIntegrals};
use crate::predict::Score;
use crate::queue_use::QueueUse;
use crate::row::{JobRow, Outcome};
use crate::serving::Serving;

/// The metrics of one run. Times in seconds, shares in 0..=1. Jobs are those that were submitted in the
/// [`Window`](crate::Window).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// Jobs that count.
    pub jobs: usize,
    /// Jobs that were submitted outside the window.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: usize,
    /// Length of the window.
    pub window: f64,
    /// Length of the run, until the last job let its GPUs go.
    pub run: f64,
    /// The work of the hundredth of the jobs that has the most (rounded up), over all work: GPU-time alone.
    pub heaviest: f64,
    /// Those that did all their work.
    pub completed: usize,
    /// Those that could never run on this fleet.
    pub rejected: usize,
    /// Those that the policy refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: usize,
    /// How jobs with a deadline fared; none where no job has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlines: Option<Deadlines>,
    /// Those whose process failed; only on real machines.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub crashed: usize,
    /// Those that the run left behind.
    pub unfinished: usize,
    /// Job completion time of completed jobs: end less submission.
    pub jct: Distribution,
    /// Time without GPUs before the end, of completed jobs: completion time less the time with all its GPUs.
    pub waiting_total: Distribution,
    /// The part of that before the first GPUs.
    pub first_wait: Distribution,
    /// The rest of it: after a preemption, a failure or for want of memory.
    pub suspended: Distribution,
    /// Bounded slowdown of completed jobs (Feitelson et al. 1997): completion time over the time that the job takes where it is
    /// alone on its best type, its start with it, and at least 10 s; at least 1.
    pub bounded_slowdown: Distribution,
    /// From the first submission to the last end, of all jobs.
    pub makespan: f64,
    /// GPU-time held, over all GPU-time of the run until the last job let its GPUs go.
    pub utilisation: f64,
    /// The same in the window.
    pub utilisation_window: f64,
    /// Progress over what all GPUs would make with one job alone on each, until the last job let its GPUs go; above 1
    /// where sharing pays.
    pub throughput: f64,
    /// The same in the window.
    pub throughput_window: f64,
    /// What GPUs would show as their utilisation, until the last job let its GPUs go; none where it is not known of the
    /// jobs.
    pub gpu_utilisation: Option<f64>,
    /// The same in the window.
    pub gpu_utilisation_window: Option<f64>,
    /// Time with progress over time alone on the best type, of completed jobs: the mean. What sharing and slower types cost,
    /// without any wait.
    pub stretch: f64,
    /// Its 95th percentile.
    pub stretch_p95: f64,
    /// Times that jobs ran out of memory.
    pub out_of_memory: u64,
    /// Time of jobs with progress that lasted, over all GPU-time until the last job let its GPUs go; every job on a
    /// shared GPU counts.
    pub productive: f64,
    /// The same in the window.
    pub productive_window: f64,
    /// Free GPU-time on partly used nodes, over all free GPU-time (reconstruction: papers differ).
    pub fragmentation: f64,
    /// Free GPU-time that typical jobs have no use for (Weng et al., ATC 2023), over all GPU-time until the last job let its GPUs go. Typical are
    /// the most common jobs that are 95 % of all; none where no time passes, and in results of before it was measured.
    #[serde(default)]
    pub fragments: Option<f64>,
    /// The same in the window.
    #[serde(default)]
    pub fragments_window: Option<f64>,
    /// Times that policies took GPUs from jobs.
    pub preemptions: u64,
    /// Times that elastic jobs went on with other GPUs; none where no job is elastic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reassignments: Option<u64>,
    /// The inference side, where there is one: jobs, above, are those that train.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<Serving>,
    /// How queues and groups fared; empty where a fleet has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueUse>,
    /// Times that nodes failed under jobs.
    pub failures: u64,
    /// Jain's index over fair shares received (1/ρ): 1 is perfectly fair.
    pub fairness_jain: f64,
    /// 95th percentile of finish-time fairness ρ: completion time over what a fair share of the contended cluster would have
    /// given (Themis, NSDI 2020; contention is the mean demand over the job's life, in clusters, at least 1). What a job can't
    /// avoid, its first start, is part of what it would have taken.
    pub fairness_p95: f64,
    /// Its 99th percentile.
    pub fairness_p99: f64,
    /// Its greatest.
    pub fairness_worst: f64,
    /// How good the predictors were that policies asked.
    #[serde(default)]
    pub predictors: Vec<Score>,
}

/// How jobs with a deadline fared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Deadlines {
    /// Jobs with a deadline.
    pub jobs: usize,
    /// Those that completed.
    pub completed: usize,
    /// Those that completed by then.
    pub met: usize,
    /// How long after their deadlines jobs completed, 0 where before: the mean over those that completed, in seconds.
    pub tardiness_mean: f64,
    /// The longest of these times.
    pub tardiness_max: f64,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Summary {
    /// Jobs that the policy left unfinished or refused: times are those of the others.
    pub fn left_by_policy(&self) -> usize {
        self.unfinished + self.refused
    }

    /// These metrics, with how good the predictors of the run were.
    #[must_use]
    pub fn with_scores(self, predictors: Vec<Score>) -> Summary {
        Summary { predictors, ..self }
    }

    /// Of a closed ledger.
    pub fn of(ledger: &Ledger) -> Summary {
        let total = f64::from(ledger.total_gpus());
        let share = |area: u128, areas: &TimeIntegrals| ratio(area as f64, areas.time.as_micros_f64() * total);
        let given_away =
            |areas: &TimeIntegrals| ratio(areas.allocated as f64, areas.time.as_micros_f64() * total * 1000.0);
        let of_all = |areas: &TimeIntegrals| ratio(areas.fragments as f64 * UNIT, areas.time.as_micros_f64() * total);
        let fragments = |areas: &TimeIntegrals| (!areas.time.is_zero()).then(|| of_all(areas));
        let done_of = |part: f64, areas: &TimeIntegrals| ratio(part, areas.time.as_micros_f64() * total);
        let (whole, window) = (&ledger.measured.active, &ledger.measured.in_window());
        // One after the other: a run may have millions of jobs, and these are numbers of each.
        let (counts, times) = counted(ledger);
        let [jct, waiting_total, first_wait, suspended] = times.distributions();
        let Ratios { bounded, rho, stretch, work } = Ratios::of(ledger, total);
        let given = rho.iter().map(|rho| 1.0 / rho);
        let (sum, squares) = given.fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        let first = counts.first.unwrap_or_default();
        Summary {
            jobs: counts.jobs,
            left_out: counts.left_out,
            window: window.time.as_secs_f64(),
            run: whole.time.as_secs_f64(),
            heaviest: heaviest(work),
            completed: counts.completed,
            rejected: counts.rejected,
            refused: counts.refused,
            deadlines: counts.deadlines(),
            crashed: counts.crashed,
            unfinished: counts.unfinished,
            jct,
            waiting_total,
            first_wait,
            suspended,
            bounded_slowdown: Distribution::of_numbers(bounded),
            makespan: (counts.last_end.unwrap_or(first) - first).as_secs_f64(),
            utilisation: given_away(whole),
            utilisation_window: given_away(window),
            throughput: done_of(whole.progress, whole),
            throughput_window: done_of(window.progress, window),
            gpu_utilisation: ledger.busy.as_ref().map(|_| done_of(whole.busy, whole)),
            gpu_utilisation_window: ledger.busy.as_ref().map(|_| done_of(window.busy, window)),
            stretch: ratio(stretch.iter().sum(), stretch.len() as f64),
            stretch_p95: quantile(&stretch, 0.95),
            out_of_memory: counts.out_of_memory,
            productive: share(whole.productive, whole),
            productive_window: share(window.productive, window),
            fragmentation: ratio(whole.fragmented as f64, whole.free as f64),
            fragments: fragments(whole),
            fragments_window: fragments(window),
            reassignments: ledger.elastic.then_some(counts.reassignments),
            serving: Serving::of(ledger),
            queues: QueueUse::of(ledger),
            preemptions: counts.preemptions,
            failures: counts.failures,
            fairness_jain: ratio(sum * sum, rho.len() as f64 * squares),
            fairness_p95: quantile(&rho, 0.95),
            fairness_p99: quantile(&rho, 0.99),
            fairness_worst: quantile(&rho, 1.0),
            predictors: Vec::new(),
        }
    }
}

/// What is counted of the jobs of a run.
#[derive(Default)]
struct Counts {
    /// When the first job was submitted, outside the window too.
    first: Option<Instant>,
    /// When the last one ended that completed.
    last_end: Option<Instant>,
    left_out: usize,
    jobs: usize,
    completed: usize,
    rejected: usize,
    refused: usize,
    crashed: usize,
    unfinished: usize,
    out_of_memory: u64,
    reassignments: u64,
    preemptions: u64,
    failures: u64,
    /// Jobs with a deadline.
    due: usize,
    due_completed: usize,
    /// Those that completed by then.
    due_met: usize,
    /// How long after their deadlines jobs completed, all together.
    late: Duration,
    latest: Duration,
}

impl Counts {
    /// Counts a job; whether its times count.
    fn add(&mut self, row: &JobRow, counts: bool) -> bool {
        self.first = Some(self.first.map_or(row.submit, |first| first.min(row.submit)));
        let completed = row.outcome == Outcome::Completed;
        if completed {
            self.last_end = self.last_end.max(row.end);
        }
        if !counts {
            self.left_out += 1;
            return false;
        }
        self.jobs += 1;
        *match row.outcome {
            Outcome::Completed => &mut self.completed,
            Outcome::Rejected(_) => &mut self.rejected,
            Outcome::Refused => &mut self.refused,
            Outcome::Failed(_) => &mut self.crashed,
            Outcome::Unfinished(_) => &mut self.unfinished,
        } += 1;
        self.out_of_memory += u64::from(row.out_of_memory);
        self.reassignments += u64::from(row.reassignments);
        self.preemptions += u64::from(row.preemptions);
        self.failures += u64::from(row.failures);
        self.due += usize::from(row.deadline.is_some());
        if let (true, Some(end), Some(deadline)) = (completed, row.end, row.deadline) {
            let late = end.saturating_since(deadline);
            self.due_completed += 1;
            self.due_met += usize::from(late.is_zero());
            self.late += late;
            self.latest = self.latest.max(late);
        }
        completed
    }

    fn deadlines(&self) -> Option<Deadlines> {
        (self.due > 0).then(|| Deadlines {
            jobs: self.due,
            completed: self.due_completed,
            met: self.due_met,
            tardiness_mean: ratio(self.late.as_secs_f64(), self.due_completed as f64),
            tardiness_max: self.latest.as_secs_f64(),
        })
    }
}

/// The times of jobs that completed, each list by job.
#[derive(Default)]
struct Times {
    jct: Vec<Duration>,
    waited: Vec<Duration>,
    first_wait: Vec<Duration>,
}

impl Times {
    /// Of all three, and of the wait after the first.
    fn distributions(self) -> [Distribution; 4] {
        let jct = Distribution::of(self.jct);
        let both = self.waited.iter().zip(&self.first_wait);
        let suspended = Distribution::of(both.map(|(waited, first)| *waited - *first).collect());
        [jct, Distribution::of(self.waited), Distribution::of(self.first_wait), suspended]
    }
}

/// The jobs of a run that train.
fn training(ledger: &Ledger) -> impl Iterator<Item = JobRow> {
    ledger.rows().filter(|row| row.service.is_none())
}

fn counted(ledger: &Ledger) -> (Counts, Times) {
    let (mut counts, mut times) = (Counts::default(), Times::default());
    for row in training(ledger) {
        if counts.add(&row, ledger.measured.window.has(row.submit)) {
            let jct = row.jct();
            let waited = jct - row.held.min(jct);
            // One that got GPUs which still drained waited for them.
            let first_wait = row.began.unwrap_or(row.submit).saturating_since(row.submit).min(waited);
            times.jct.push(jct);
            times.waited.push(waited);
            times.first_wait.push(first_wait);
        }
    }
    (counts, times)
}

/// Ratios of jobs that completed, and the work of all.
#[derive(Default)]
struct Ratios {
    bounded: Vec<f64>,
    /// Finish-time fairness, ascending.
    rho: Vec<f64>,
    /// Time with progress over time alone, ascending.
    stretch: Vec<f64>,
    /// Of each job that counts, in GPU-µs.
    work: Vec<f64>,
}

impl Ratios {
    fn of(ledger: &Ledger, total: f64) -> Ratios {
        let mut of = Ratios::default();
        for row in training(ledger).filter(|row| ledger.measured.window.has(row.submit)) {
            of.work.push(row.solo.as_micros_f64() * f64::from(row.gpus));
            if row.outcome != Outcome::Completed {
                continue;
            }
            let jct = row.jct();
            of.bounded.push(bounded(&row, jct));
            of.rho.push(unfairness(&row, total));
            if !row.solo.is_zero() {
                of.stretch.push(stretched(&row));
            }
        }
        of.rho.sort_unstable_by(f64::total_cmp);
        of.stretch.sort_unstable_by(f64::total_cmp);
        of
    }
}

/// Time with progress over time alone.
fn stretched(row: &JobRow) -> f64 {
    (row.productive + row.lost).as_micros_f64() / row.solo.as_micros_f64()
}

/// What bounded slowdown takes the shortest jobs for.
const SHORTEST: Duration = Duration::from_secs(10);

/// Bounded slowdown of a completed job.
fn bounded(row: &JobRow, jct: Duration) -> f64 {
    (jct.as_micros_f64() / (row.solo + row.startup).max(SHORTEST).as_micros_f64()).max(1.0)
}

/// The work of the heaviest hundredth of the jobs over that of all.
fn heaviest(mut work: Vec<f64>) -> f64 {
    work.sort_unstable_by(|a, b| b.total_cmp(a));
    ratio(work.iter().take(work.len().div_ceil(100)).sum(), work.iter().sum())
}

/// Finish-time fairness ρ of a completed job.
fn unfairness(row: &JobRow, total: f64) -> f64 {
    row.fair_micros(total).map_or(1.0, |fair| row.jct().as_micros_f64() / fair)
}
