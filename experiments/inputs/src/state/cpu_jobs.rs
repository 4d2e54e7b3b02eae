//! Jobs without GPUs that wait, and the nodes that they wait for.

use std::collections::BTreeSet;

use super::document::State;
use super::jobs::{JobState, StateJob};

impl StateJob {
    /// Whether a job without GPUs waits for CPU or memory of one node.
    fn waits_on_one_node(&self) -> bool {
        let waits = matches!(self.state, JobState::Waiting | JobState::NotBefore | JobState::Dependent);
        let one = self.nodes.as_ref().is_none_or(|shape| shape.least.unwrap_or(1) <= 1);
        let asks = self.cpus > Some(0.0) || self.ram_mib > Some(0.0);
        self.gpus == 0 && waits && one && asks
    }
}

/// Where jobs without GPUs may be: a model has the nodes with GPUs alone, and all of them are alike to such a job.
#[derive(Default)]
pub(super) struct CpuQueues<'a> {
    /// The queues that nodes with GPUs are in, and those of others: of many nodes there are few of either.
    with_gpus: BTreeSet<&'a [String]>,
    without: BTreeSet<&'a [String]>,
}

impl<'a> CpuQueues<'a> {
    fn of(state: &'a State) -> CpuQueues<'a> {
        let mut all = CpuQueues::default();
        for node in &state.nodes {
            let of = if node.gpus > 0 { &mut all.with_gpus } else { &mut all.without };
            of.insert(&node.queues);
        }
        all
    }

    /// Whether a job without GPUs waits for CPU or memory of one node, which may be any that has GPUs, and no other.
    pub(super) fn waits(&self, job: &StateJob) -> bool {
        let takes = |queues: &&[String]| {
            queues.is_empty() || job.queues.is_empty() || queues.iter().any(|of| job.queues.contains(of))
        };
        job.waits_on_one_node() && self.with_gpus.iter().all(takes) && !self.without.iter().any(takes)
    }
}

impl State {
    /// Where jobs without GPUs may be.
    pub(super) fn cpu_queues(&self) -> CpuQueues<'_> {
        CpuQueues::of(self)
    }

    /// Whether jobs without GPUs wait that could be in a model.
    pub fn has_cpu_jobs(&self) -> bool {
        let queues = self.cpu_queues();
        self.jobs.iter().any(|job| queues.waits(job))
    }
}
