//! What is known of one training job.
//
// Follows AdaptDL's simulator (github.com/petuum/adaptdl, branch osdi21-artifact, simulator/), goodput.py, speedup.py and simulator.py, which is
// Copyright 2020 Petuum, Inc. All Rights Reserved. Licensed under the Apache License, Version 2.0 (LICENSE-APACHE).
// Changed: written anew in Rust; see THIRD-PARTY.md.

use std::collections::BTreeMap;

use sandtable_policy::{Elasticity, Instant, JobId, NodeId, Sample};

use crate::fit::{Observation, fit};
use crate::goodput::{Best, Goodput, Split, Theta, clipped, split_of};

/// What is known of one training job; an id beyond its reports is not needed.
pub struct ElasticJob {
    /// Its id.
    pub id: JobId,
    /// When it was submitted.
    pub submitted: Instant,
    /// GPUs that its user asks for.
    pub gpus: u32,
    /// How it may change.
    pub elastic: Elasticity,
    /// Restarts so far; none: it never started.
    pub restarts: Option<u32>,
    /// The nodes of its GPUs in the order of its ring; none: it never had any.
    pub list: Option<Vec<NodeId>>,
    /// How it works through its batch, where it was told to.
    pub split: Option<Split>,
    seen: Vec<Observation>,
    theta: Option<Theta>,
    gradient: Option<(f64, f64)>,
    /// What was worked out since it last reported.
    known: BTreeMap<(u32, u32), Best>,
}

impl ElasticJob {
    /// A job of which nothing is known but what it may do.
    pub fn new(id: JobId, submitted: Instant, gpus: u32, elastic: Elasticity) -> ElasticJob {
        ElasticJob {
            id,
            submitted,
            gpus,
            elastic,
            restarts: None,
            list: None,
            split: None,
            seen: Vec::new(),
            theta: None,
            gradient: None,
            known: BTreeMap::new(),
        }
    }

    /// Takes in what it reports: of each shape the first time counts, and a new shape is fitted.
    pub fn report(&mut self, sample: &Sample) {
        let gradient = Some((sample.gradient_sqr, sample.gradient_variance));
        if self.gradient != gradient {
            self.gradient = gradient;
            self.known.clear();
        }
        let shape = (sample.nodes, sample.gpus, sample.local);
        if self.seen.iter().any(|at| (at.nodes, at.gpus, at.local) == shape) {
            return;
        }
        let (nodes, gpus, local) = shape;
        let compute = sample.step_time - sample.sync_time;
        // Times of nothing tell nothing.
        if !(compute > 0.0 && sample.step_time > 0.0) {
            return;
        }
        self.seen.push(Observation { nodes, gpus, local, compute, step: sample.step_time });
        self.theta = Some(fit(&self.seen));
        self.known.clear();
    }

    /// Takes in what the job says of its gradient while it is on other GPUs.
    pub fn learn_gradient(&mut self, sample: &Sample) {
        self.gradient = Some((sample.gradient_sqr, sample.gradient_variance));
        self.known.clear();
    }

    /// Sets goodputs by nodes and GPUs until it reports again, for a job whose speed is known without a fit.
    pub fn assume(&mut self, goodputs: impl Iterator<Item = ((u32, u32), f64)>) {
        let split = Split { local: 0, accumulation: 0 };
        self.known = goodputs.map(|(shape, goodput)| (shape, Best { goodput, split })).collect();
    }

    /// Most GPUs that it has reported from.
    pub fn shown(&self) -> u32 {
        self.seen.iter().map(|at| at.gpus).max().unwrap_or(0)
    }

    /// Most GPUs that it may try: twice what it has reported, and no more than it may have; one that keeps its batch has no more than there are least
    /// passes in it.
    pub fn reach(&self, total: u32) -> u32 {
        let job = &self.elastic;
        let by_batch = if job.tunable { u32::MAX } else { job.batch / job.least_local.max(1) };
        (2 * self.shown()).min(by_batch).max(1).min(total).min(job.most_gpus)
    }

    /// Its best on so many GPUs of so many nodes; none while it has not reported.
    pub fn best(&mut self, nodes: u32, gpus: u32) -> Option<Best> {
        let (theta, (sqr, variance)) = (self.theta?, self.gradient?);
        let job = self.elastic;
        let goodput = Goodput { theta, sqr, variance };
        Some(*self.known.entry((nodes, gpus)).or_insert_with(|| goodput.best(&job, nodes, gpus)))
    }

    /// Its goodput there with its user's batch; none while it has not reported, 0 where the batch can't be had.
    pub fn at_batch(&self, nodes: u32, gpus: u32) -> Option<f64> {
        let (theta, (sqr, variance)) = (self.theta?, self.gradient?);
        let (job, split) = (&self.elastic, split_of(&self.elastic, f64::from(self.elastic.batch), gpus));
        let fits = split.local >= job.least_local && split.local <= job.most_local;
        Some(if fits { Goodput { theta, sqr, variance }.at(job, nodes, gpus, split) } else { 0.0 })
    }

    /// Its goodput on so many GPUs of so many nodes over that on `share` of one.
    pub fn speedup(&mut self, nodes: u32, gpus: u32, share: u32) -> f64 {
        if gpus == 0 {
            return 0.0;
        }
        let base = self.best(1, share).map(|best| best.goodput);
        match (self.best(nodes, gpus), base) {
            (Some(best), Some(base)) if base > 0.0 => best.goodput / base,
            (Some(_), _) => 0.0,
            (None, _) => f64::from(gpus) / f64::from(share),
        }
    }

    /// How it works best through its batch there; none: as its user asked.
    pub fn split(&mut self, list: &[NodeId]) -> Option<Split> {
        if !self.elastic.tunable || list.is_empty() {
            return None;
        }
        let gpus = list.len() as u32;
        let best = self.best(crate::place::nodes_of(list), gpus).map(|best| best.split).filter(|split| split.local > 0);
        let job = &self.elastic;
        let first = f64::from(job.initial_batch.max(job.least_local * gpus));
        Some(clipped(job, best.unwrap_or_else(|| split_of(job, first, gpus)), gpus))
    }

    /// Seconds since it was submitted.
    pub fn age(&self, now: Instant) -> f64 {
        now.saturating_sub(self.submitted) as f64 / 1e6
    }
}

/// What a change is worth after so many restarts (Pollux, OSDI 2021, §4.2): the part of a job's life that they left.
pub fn restart_factor(age: f64, restarts: u32, delay: f64) -> f64 {
    (age - f64::from(restarts) * delay).max(0.0) / (age + delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_keeps_its_batch_has_no_more_gpus_than_it_can_divide_it_among() {
        let elastic = |tunable| Elasticity {
            most_gpus: 16,
            batch: 256,
            tunable,
            initial_batch: 256,
            most_batch: 4096,
            least_local: 100,
            most_local: 1024,
        };
        let reach = |tunable| {
            let mut job = ElasticJob::new(0, 0, 1, elastic(tunable));
            let of = |gpus| Sample {
                job: 0,
                nodes: 1,
                gpus,
                local: 128,
                step_time: 0.2,
                sync_time: 0.1,
                gradient_sqr: 1.0,
                gradient_variance: 1.0,
            };
            let before = job.reach(64);
            job.report(&of(4));
            (before, job.reach(64))
        };
        assert_eq!((reach(true), reach(false)), ((1, 8), (1, 2)));
    }
}
