//! A run that begins in the middle: at an instant at which jobs have been submitted, hold GPUs and have done a part of their work.

use std::collections::BTreeMap;

use crate::{Duration, GpuId, Instant, JobId, NodeId};

/// Where a run begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beginning {
    /// When. Jobs that were submitted by then and have no entry in `jobs` wait, and never had GPUs.
    pub at: Instant,
    /// How far jobs are that have had GPUs, by job.
    pub jobs: BTreeMap<JobId, Standing>,
}

impl Beginning {
    /// Whether there is nothing before it: no job has been submitted.
    pub fn is_plain(&self) -> bool {
        self.at == Instant::START && self.jobs.is_empty()
    }

    /// The jobs that have their place, in the order in which they were given it.
    pub fn holders(&self) -> Vec<(JobId, &Standing)> {
        let mut holders: Vec<_> = self.jobs.iter().filter(|(_, standing)| standing.holds()).collect();
        holders.sort_by_key(|(job, standing)| (standing.since, **job));
        holders.into_iter().map(|(job, standing)| (*job, standing)).collect()
    }
}

/// How far a job is when a run begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// The GPUs on which it makes progress; empty: it waits, or has none.
    pub gpus: Vec<GpuId>,
    /// The node of a job that asks for no GPU.
    pub node: Option<NodeId>,
    /// When it was given its place.
    pub since: Instant,
    /// When it was first given any.
    pub first_start: Instant,
    /// Work that it has done, of its own.
    pub done: Duration,
    /// As much of it as was saved: where it is killed, it goes on from there.
    pub saved: Duration,
    /// Time with all its GPUs so far.
    pub held: Duration,
    /// Time in which it has made progress.
    pub productive: Duration,
    /// GPU-time that it has held.
    pub gpu_time: Duration,
    /// Times that its GPUs were taken from it.
    pub preemptions: u32,
}

impl Standing {
    /// Whether it has its place, where it makes progress.
    pub fn holds(&self) -> bool {
        !self.gpus.is_empty() || self.node.is_some()
    }
}
