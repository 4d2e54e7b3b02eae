//! What part of the time each job is due, by objectives of Gavel's (all GPUs alike).
//!
//! `gandiva-fair` and `allox` are as published. The others have many best answers, of which a published run has a solver's: here each job gets the least that the
//! objective asks for, and what is left over is shared out so that all have the same multiple of that, up to all of their time.

use std::collections::BTreeMap;

use sandtable_policy::{Cluster, JobId, Knowledge, PolicyError, host};

use crate::allox::{Candidate, first_of_queues};
use crate::given::Given;

/// The part of the jobs that AlloX matches, the oldest first, where that is more than there are GPUs.
const ALPHA: f64 = 0.2;

/// Seconds assumed for an unknown run time.
const UNKNOWN: f64 = 3600.0;

/// What is known of a job.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The job.
    pub id: JobId,
    /// Size of its gang.
    pub gpus: u32,
    /// Its share so far; none: it is new.
    pub share: Option<f64>,
    /// Seconds since it came.
    pub age: f64,
}

/// What shares are the best for.
pub enum Objective {
    /// The same time for all, whatever their gangs: Gandiva_fair without users and types.
    GandivaFair,
    /// Short completion times: a job runs to its end, or not at all.
    AlloX,
    /// The same GPU-time for all.
    MaxMin,
    /// Steps a second of all jobs together.
    MaxSumThroughput,
    /// The time until all jobs have ended.
    MinTotalDuration,
    /// The worst ratio of a job's completion time to that with its own part of the cluster (Themis' metric).
    FinishTimeFairness(Isolated),
    /// Shares that a solver has computed elsewhere.
    Given(Given),
}

/// Seconds that jobs would have taken so far with their own parts of the cluster; those that they had left at the last computation, and their parts then.
#[derive(Default)]
pub struct Isolated(BTreeMap<JobId, [f64; 3]>);

impl Objective {
    /// The words by which configurations name them.
    pub const WORDS: &'static [&'static str] = &[
        "gandiva-fair",
        "allox",
        "max-min",
        "max-sum-throughput",
        "min-total-duration",
        "finish-time-fairness",
        "given",
    ];

    /// That of a word; `weights` are the shares of the one that is given.
    ///
    /// # Errors
    /// Where those are missing, can't be read, or belong to another.
    pub fn named(word: &str, weights: &[u8]) -> Result<Objective, PolicyError> {
        if word != "given" && !weights.is_empty() {
            let why = format!("weights: shares are for the objective \"given\", and not for {word:?}");
            return Err(PolicyError::BadConfig(why));
        }
        Ok(match word {
            "given" => Objective::Given(Given::read(weights)?),
            "allox" => Objective::AlloX,
            "max-min" => Objective::MaxMin,
            "max-sum-throughput" => Objective::MaxSumThroughput,
            "min-total-duration" => Objective::MinTotalDuration,
            "finish-time-fairness" => Objective::FinishTimeFairness(Isolated::default()),
            _ => Objective::GandivaFair,
        })
    }

    /// What it has to know.
    pub fn needs(&self) -> Knowledge {
        match self {
            Objective::GandivaFair | Objective::MaxMin | Objective::Given(_) => Knowledge::empty(),
            Objective::MaxSumThroughput => Knowledge::STEPS,
            _ => Knowledge::REMAINING,
        }
    }

    /// The shares of these jobs, in their order; so many GPUs are up.
    ///
    /// # Errors
    /// Where shares are given, and not these.
    pub fn shares(&mut self, jobs: &[View], gpus: u32, cluster: &Cluster) -> Result<Vec<f64>, PolicyError> {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let left = || {
            let known = |left: f64| if left.is_finite() { left } else { UNKNOWN };
            cluster.remaining(&ids).into_iter().map(known).collect::<Vec<f64>>()
        };
        let each = f64::from(gpus) / jobs.len() as f64;
        Ok(match self {
            Objective::Given(given) => given.next(&ids)?,
            Objective::GandivaFair => vec![each.min(1.0); jobs.len()],
            Objective::AlloX => allox(jobs, &left(), gpus),
            Objective::MaxMin => jobs.iter().map(|job| each.min(1.0) / f64::from(job.gpus)).collect(),
            Objective::MaxSumThroughput => max_sum_throughput(jobs, &rates(jobs, cluster), gpus),
            Objective::MinTotalDuration => spread(jobs, &left(), gpus),
            Objective::FinishTimeFairness(isolated) => isolated.shares(jobs, &left(), gpus),
        })
    }
}

/// Jobs that run to their end keep all of their time; of the others the oldest are matched with the GPUs that are left.
fn allox(jobs: &[View], left: &[f64], gpus: u32) -> Vec<f64> {
    let mut shares: Vec<f64> = jobs.iter().map(|job| job.share.unwrap_or(0.0)).collect();
    let mut others: Vec<usize> = (0..jobs.len()).filter(|at| jobs[*at].share != Some(1.0)).collect();
    let free = (gpus as usize).saturating_sub(jobs.len() - others.len());
    others.sort_by(|a, b| jobs[*b].age.total_cmp(&jobs[*a].age));
    others.truncate(((ALPHA * others.len() as f64) as usize).max(free));
    let candidate = |at: &usize| Candidate { left: left[*at], age: jobs[*at].age };
    let candidates: Vec<Candidate> = others.iter().map(candidate).collect();
    for first in first_of_queues(&candidates, free) {
        shares[others[first]] = 1.0 / f64::from(jobs[others[first]].gpus);
    }
    shares
}

/// Steps a second of each job.
fn rates(jobs: &[View], cluster: &Cluster) -> Vec<f64> {
    let types = jobs.iter().map(|job| cluster.type_of(cluster.job(job.id))).collect();
    let gpus = jobs.iter().map(|job| job.gpus).collect();
    let steps = host::step_times(jobs.iter().map(|job| job.id).collect(), types, gpus);
    steps.into_iter().map(|step| if step > 0.0 { 1.0 / step } else { 0.0 }).collect()
}

/// Those with the most steps a second of each GPU get all of their time.
fn max_sum_throughput(jobs: &[View], rates: &[f64], gpus: u32) -> Vec<f64> {
    let of_gpu = |at: usize| rates[at] / f64::from(jobs[at].gpus);
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by(|a, b| of_gpu(*b).total_cmp(&of_gpu(*a)));
    let (mut left, mut shares) = (f64::from(gpus), vec![0.0; jobs.len()]);
    for at in order {
        let gang = f64::from(jobs[at].gpus);
        shares[at] = (left / gang).clamp(0.0, 1.0);
        left -= shares[at] * gang;
    }
    shares
}

/// The same multiple of these needs for all, the largest that the GPUs allow; no job gets more than all of its time.
fn spread(jobs: &[View], needs: &[f64], gpus: u32) -> Vec<f64> {
    let gang = |at: usize| f64::from(jobs[at].gpus);
    // The jobs that get all of their time first, as the multiple grows.
    let mut order: Vec<usize> = (0..jobs.len()).filter(|at| needs[*at] > 0.0).collect();
    order.sort_by(|a, b| needs[*b].total_cmp(&needs[*a]));
    let mut shares = vec![0.0; jobs.len()];
    let mut free = f64::from(gpus);
    let mut asked: f64 = order.iter().map(|at| needs[*at] * gang(*at)).sum();
    for (index, at) in order.iter().enumerate() {
        let times = free / asked;
        if times * needs[*at] < 1.0 {
            order[index..].iter().for_each(|at| shares[*at] = times * needs[*at]);
            break;
        }
        shares[*at] = 1.0;
        (free, asked) = (free - gang(*at), asked - needs[*at] * gang(*at));
    }
    shares
}

impl Isolated {
    fn shares(&mut self, jobs: &[View], left: &[f64], gpus: u32) -> Vec<f64> {
        let each = f64::from(gpus) / jobs.len() as f64;
        let mut before = std::mem::take(&mut self.0);
        let mut alone = Vec::with_capacity(jobs.len());
        for (job, left) in jobs.iter().zip(left) {
            let own = (each / f64::from(job.gpus)).min(1.0);
            let [time, then, part] = before.remove(&job.id).unwrap_or([0.0, *left, own]);
            let time = time + (then - left).max(0.0) / part;
            alone.push(time + left / own);
            self.0.insert(job.id, [time, *left, own]);
        }
        // The least share with which a job keeps to a ratio; none: it can't.
        let least = |at: usize, ratio: f64| {
            let until_then = ratio * alone[at] - jobs[at].age;
            Some(left[at] / until_then).filter(|share| until_then > 0.0 && *share <= 1.0)
        };
        let needs = |ratio: f64| (0..jobs.len()).map(|at| least(at, ratio)).collect::<Option<Vec<f64>>>();
        let fits = |needs: &Vec<f64>| {
            needs.iter().zip(jobs).map(|(share, job)| share * f64::from(job.gpus)).sum::<f64>() <= f64::from(gpus)
        };
        let keeps = |ratio: f64| needs(ratio).filter(fits);
        let (mut low, mut high) = (0.0, 1.0);
        while keeps(high).is_none() && high < 1e9 {
            (low, high) = (high, high * 2.0);
        }
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if keeps(middle).is_some() { high = middle } else { low = middle }
        }
        let found = keeps(high).unwrap_or_else(|| vec![1.0; jobs.len()]);
        spread(jobs, &found, gpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views(gangs: &[u32]) -> Vec<View> {
        (0..).zip(gangs).map(|(id, gpus)| View { id, gpus: *gpus, share: None, age: 0.0 }).collect()
    }

    #[test]
    fn the_most_steps_of_a_gpu_come_first() {
        // Three GPUs: the second has 4 steps of each of its GPUs, the first 3, the third 1.
        assert_eq!(max_sum_throughput(&views(&[2, 1, 1]), &[6.0, 4.0, 1.0], 3), [1.0, 1.0, 0.0]);
        assert_eq!(max_sum_throughput(&views(&[4, 1]), &[8.0, 4.0], 3), [0.5, 1.0]);
    }

    #[test]
    fn needs_are_met_by_one_multiple_up_to_all_of_the_time() {
        let shares = spread(&views(&[1, 1, 1]), &[100.0, 1.0, 3.0], 2);
        assert_eq!(shares, [1.0, 0.25, 0.75]);
        assert_eq!(spread(&views(&[1, 2]), &[5.0, 1.0], 8), [1.0, 1.0]);
        assert_eq!(spread(&views(&[1]), &[0.0], 8), [0.0]);
    }

    #[test]
    fn jobs_keep_to_the_least_worst_ratio() {
        // Alone each of two jobs on one GPU would have half of it: with half of it each ends as it would, the ratio is 1.
        let mut isolated = Isolated::default();
        assert_eq!(isolated.shares(&views(&[1, 1]), &[100.0, 100.0], 1), [0.5, 0.5]);
        // A job that has waited for as long as it would have taken is due more.
        let jobs = [View { age: 200.0, ..views(&[1])[0] }, View { id: 1, ..views(&[1])[0] }];
        let shares = isolated.shares(&jobs, &[100.0, 100.0], 1);
        assert!(shares[0] > 0.6 && (shares[0] + shares[1] - 1.0).abs() < 1e-6, "{shares:?}");
    }

    #[test]
    fn allox_keeps_what_runs_and_matches_the_oldest() {
        let job = |id, share, age| View { id, gpus: 1, share, age };
        let jobs = [job(0, Some(1.0), 9.0), job(1, None, 5.0), job(2, None, 7.0)];
        // One GPU is left: of the two others the shorter gets it, were both matched; only the older one is.
        assert_eq!(allox(&jobs, &[50.0, 10.0, 90.0], 2), [1.0, 0.0, 1.0]);
        assert_eq!(allox(&jobs, &[50.0, 10.0, 90.0], 1), [1.0, 0.0, 0.0]);
    }
}
