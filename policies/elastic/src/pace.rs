//! How long fixed-batch jobs take by the number of their GPUs, according to the experiment's predictor of `steps`.

use sandtable_policy::{JobId, Quantity, host};

use crate::Round;

/// What is foretold of a job at its user's batch.
pub struct Pace {
    /// Steps that it has left.
    pub left: f64,
    /// Seconds of a step with 1, 2, … GPUs, packed.
    pub steps: Vec<f64>,
}

impl Pace {
    /// Most GPUs that are worth asking for.
    pub fn most(&self) -> u32 {
        self.steps.len() as u32
    }

    /// Seconds of a step; one without GPUs never ends.
    pub fn step(&self, gpus: u32) -> f64 {
        gpus.checked_sub(1).map_or(f64::INFINITY, |at| self.steps[at as usize])
    }

    /// Seconds left with so many GPUs.
    pub fn remaining(&self, gpus: u32) -> f64 {
        self.step(gpus) * self.left
    }
}

/// The paces of a round's jobs: up to as many GPUs as there are least local batches in the batch, until one is
/// unknown.
pub fn paces(round: &Round<'_>) -> Vec<Pace> {
    let most = |job: &crate::ElasticJob| {
        let by_batch = job.elastic.batch / job.elastic.least_local.max(1);
        by_batch.min(job.elastic.most_gpus).min(round.total).max(1)
    };
    let (mut ids, mut gpus): (Vec<JobId>, Vec<u32>) = (Vec::new(), Vec::new());
    for job in round.jobs.iter() {
        ids.extend((0..most(job)).map(|_| job.id));
        gpus.extend(1..=most(job));
    }
    let types = vec![0; ids.len()];
    let mut times = host::step_times(ids, types, gpus).into_iter();
    let jobs: Vec<JobId> = round.jobs.iter().map(|job| job.id).collect();
    let types = vec![0; jobs.len()];
    let left = host::estimate(Quantity::Steps, jobs, types);
    let pace = |(job, left): (&crate::ElasticJob, f64)| {
        let all: Vec<f64> = times.by_ref().take(most(job) as usize).collect();
        let known = all.iter().take_while(|time| !time.is_nan()).count();
        Pace { left, steps: all[..known.max(1)].to_vec() }
    };
    round.jobs.iter().zip(left).map(pace).collect()
}
