//! Every metric, as a pure function of a ledger.

use sandtable_hardware::Duration;
use serde::{Deserialize, Serialize};

use crate::distribution::{Distribution, quantile, ratio};
use crate::ledger::{Ledger, TimeIntegrals};
use crate::predict::Score;
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
    /// Times that policies took GPUs from jobs.
    pub preemptions: u64,
    /// Times that elastic jobs went on with other GPUs; none where no job is elastic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reassignments: Option<u64>,
    /// The inference side, where there is one: jobs, above, are those that train.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<Serving>,
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

impl Deadlines {
    fn of(rows: &[&JobRow]) -> Option<Deadlines> {
        let due = rows.iter().filter_map(|row| Some((row, row.deadline?)));
        let mut of = Deadlines { jobs: 0, completed: 0, met: 0, tardiness_mean: 0.0, tardiness_max: 0.0 };
        let (mut sum, mut most) = (Duration::ZERO, Duration::ZERO);
        for (row, deadline) in due {
            of.jobs += 1;
            if let (Outcome::Completed, Some(end)) = (&row.outcome, row.end) {
                let late = end.saturating_since(deadline);
                of.completed += 1;
                of.met += usize::from(late.is_zero());
                (sum, most) = (sum + late, most.max(late));
            }
        }
        of.tardiness_mean = ratio(sum.as_secs_f64(), of.completed as f64);
        of.tardiness_max = most.as_secs_f64();
        (of.jobs > 0).then_some(of)
    }
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
        let all = || ledger.rows.iter().filter(|row| row.service.is_none());
        let rows: Vec<&JobRow> = all().filter(|row| ledger.measured.window.has(row.submit)).collect();
        let done: Vec<&JobRow> = rows.iter().copied().filter(|row| row.outcome == Outcome::Completed).collect();
        let jct = |row: &JobRow| row.end.unwrap_or(row.submit) - row.submit;
        let total = f64::from(ledger.total_gpus());
        let share = |area: u128, areas: &TimeIntegrals| ratio(area as f64, areas.time.as_micros_f64() * total);
        let given_away =
            |areas: &TimeIntegrals| ratio(areas.allocated as f64, areas.time.as_micros_f64() * total * 1000.0);
        let done_of = |part: f64, areas: &TimeIntegrals| ratio(part, areas.time.as_micros_f64() * total);
        let (whole, window) = (&ledger.measured.active, &ledger.measured.in_window());
        let mut rho: Vec<f64> = done.iter().map(|row| unfairness(row, jct(row), total)).collect();
        rho.sort_by(f64::total_cmp);
        let given: Vec<f64> = rho.iter().map(|rho| 1.0 / rho).collect();
        let (sum, squares) = given.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        let mut stretch: Vec<f64> = done.iter().filter(|row| !row.solo.is_zero()).map(|row| stretched(row)).collect();
        stretch.sort_by(f64::total_cmp);
        let first = all().map(|row| row.submit).min().unwrap_or_default();
        let ended = all().filter(|row| row.outcome == Outcome::Completed).filter_map(|row| row.end);
        let last = ended.max().unwrap_or(first);
        let waited = |row: &JobRow| jct(row) - row.held.min(jct(row));
        // One that got GPUs which still drained waited for them.
        let first_wait = |row: &JobRow| row.began.unwrap_or(row.submit).saturating_since(row.submit).min(waited(row));
        let [rejected, refused, crashed, unfinished] = without_completion(&rows);
        let of = |time: &dyn Fn(&JobRow) -> Duration| Distribution::of(done.iter().map(|row| time(row)).collect());
        Summary {
            jobs: rows.len(),
            left_out: all().count() - rows.len(),
            window: window.time.as_secs_f64(),
            run: whole.time.as_secs_f64(),
            heaviest: heaviest(&rows),
            completed: done.len(),
            rejected,
            refused,
            deadlines: Deadlines::of(&rows),
            crashed,
            unfinished,
            jct: of(&jct),
            waiting_total: of(&waited),
            first_wait: of(&first_wait),
            suspended: of(&|row| waited(row) - first_wait(row)),
            bounded_slowdown: Distribution::of_numbers(done.iter().map(|row| bounded(row, jct(row))).collect()),
            makespan: (last - first).as_secs_f64(),
            utilisation: given_away(whole),
            utilisation_window: given_away(window),
            throughput: done_of(whole.progress, whole),
            throughput_window: done_of(window.progress, window),
            gpu_utilisation: ledger.busy.as_ref().map(|_| done_of(whole.busy, whole)),
            gpu_utilisation_window: ledger.busy.as_ref().map(|_| done_of(window.busy, window)),
            stretch: ratio(stretch.iter().sum(), stretch.len() as f64),
            stretch_p95: quantile(&stretch, 0.95),
            out_of_memory: rows.iter().map(|row| u64::from(row.out_of_memory)).sum(),
            productive: share(whole.productive, whole),
            productive_window: share(window.productive, window),
            fragmentation: ratio(whole.fragmented as f64, whole.free as f64),
            reassignments: ledger.elastic.then(|| rows.iter().map(|row| u64::from(row.reassignments)).sum()),
            serving: Serving::of(ledger),
            preemptions: rows.iter().map(|row| u64::from(row.preemptions)).sum(),
            failures: rows.iter().map(|row| u64::from(row.failures)).sum(),
            fairness_jain: ratio(sum * sum, given.len() as f64 * squares),
            fairness_p95: quantile(&rho, 0.95),
            fairness_p99: quantile(&rho, 0.99),
            fairness_worst: quantile(&rho, 1.0),
            predictors: Vec::new(),
        }
    }
}

/// Jobs that were rejected, refused by the policy, failed, or were left behind.
fn without_completion(rows: &[&JobRow]) -> [usize; 4] {
    let [mut rejected, mut refused, mut crashed, mut unfinished] = [0; 4];
    for row in rows {
        match row.outcome {
            Outcome::Completed => {}
            Outcome::Rejected(_) => rejected += 1,
            Outcome::Refused => refused += 1,
            Outcome::Failed(_) => crashed += 1,
            Outcome::Unfinished(_) => unfinished += 1,
        }
    }
    [rejected, refused, crashed, unfinished]
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
fn heaviest(rows: &[&JobRow]) -> f64 {
    let mut work: Vec<f64> = rows.iter().map(|row| row.solo.as_micros_f64() * f64::from(row.gpus)).collect();
    work.sort_by(|a, b| b.total_cmp(a));
    ratio(work.iter().take(work.len().div_ceil(100)).sum(), work.iter().sum())
}

/// Finish-time fairness ρ of a completed job.
fn unfairness(row: &JobRow, jct: Duration, total: f64) -> f64 {
    if jct.is_zero() || row.solo.is_zero() {
        return 1.0;
    }
    let contention = (row.contention as f64 / jct.as_micros_f64() / total).max(1.0);
    jct.as_micros_f64() / ((row.solo + row.startup).as_micros_f64() * contention)
}
