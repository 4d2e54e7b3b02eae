//! Free GPUs beside used ones, and those that typical jobs have no use for.

use std::collections::BTreeMap;

use sandtable_hardware::{GpuId, Job, JobId, NodeId, Sharing};

use super::Ledger;

impl Ledger {
    /// A job holds what it was given.
    pub(super) fn hold_cpu(&mut self, job: JobId) {
        let mut nodes: BTreeMap<NodeId, u32> = BTreeMap::new();
        for gpu in &self.rows[job].last_gpus {
            *nodes.entry(self.node_of[*gpu]).or_default() += 1;
        }
        let without = self.cpu_node(job);
        self.fragments.hold(job, &nodes, without);
    }

    /// A GPU of a node is used, or free again: those that are free beside used ones are counted.
    pub(super) fn use_node(&mut self, gpu: GpuId, change: i32) {
        let node = self.node_of[gpu];
        let size = self.node_size[node];
        let stranded = |used: u32| if used == 0 { 0 } else { u64::from(size - used) };
        let before = self.node_used[node];
        let after = before.wrapping_add_signed(change);
        self.node_used[node] = after;
        self.rates.fragmented = self.rates.fragmented + stranded(after) - stranded(before);
    }

    /// Looks at what is free.
    pub(super) fn look_at_fragments(&mut self) {
        let Ledger { fragments, there, rows, sharing, .. } = self;
        self.rates.stranded = fragments.sum(|gpu| match (&there[gpu][..], *sharing) {
            ([], _) => Job::WHOLE,
            (jobs, Sharing::Shares | Sharing::Parts) => {
                Job::WHOLE.saturating_sub(jobs.iter().map(|job| rows[*job].share).sum())
            }
            _ => 0,
        });
    }
}
