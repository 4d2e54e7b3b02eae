//! Free GPUs beside used ones, and those that typical jobs have no use for.

use sandtable_hardware::{GpuId, Job, Sharing};

use super::Ledger;

impl Ledger {
    /// A GPU of a node is used, or free again: those that are free beside used ones are counted.
    pub(super) fn use_node(&mut self, gpu: GpuId, change: i32) {
        let node = self.node_of[gpu];
        let size = self.node_size[node];
        let beside = |used: u32| if used == 0 { 0 } else { u64::from(size - used) };
        let before = self.node_used[node];
        let after = before.wrapping_add_signed(change);
        self.node_used[node] = after;
        self.rates.fragmented = self.rates.fragmented + beside(after) - beside(before);
    }

    /// Looks at what is free.
    pub(super) fn look_at_fragments(&mut self) {
        let Ledger { fragments, there, rows, sharing, .. } = self;
        self.rates.fragments = fragments.sum(|gpu| match (&there[gpu][..], *sharing) {
            ([], _) => Job::WHOLE,
            (jobs, Sharing::Shares | Sharing::Parts) => {
                Job::WHOLE.saturating_sub(jobs.iter().map(|job| rows[*job].share).sum())
            }
            _ => 0,
        });
    }
}
