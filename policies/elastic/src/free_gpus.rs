//! Which GPUs are taken while an allocation is carried out.

use std::ops::Range;

use sandtable_policy::{Cluster, GpuId, NodeId};

/// The GPUs that are left.
pub struct FreeGpus {
    taken: Vec<bool>,
    /// Those of sleeping pods: the last to be taken.
    pub asleep: Vec<GpuId>,
}

impl FreeGpus {
    /// None is taken of so many.
    pub fn new(gpus: u32, asleep: Vec<GpuId>) -> FreeGpus {
        FreeGpus { taken: vec![false; gpus as usize], asleep }
    }

    /// Marks a GPU as taken.
    pub fn mark(&mut self, gpu: GpuId) {
        self.taken[gpu as usize] = true;
    }

    /// For each node of a list a GPU that its job holds there, as long as it has one; marks them as taken.
    pub fn keep(&mut self, cluster: &Cluster, mut held: Vec<GpuId>, list: &[NodeId]) -> Vec<Option<GpuId>> {
        let keep = |node: &NodeId| {
            let gpu = held.remove(held.iter().position(|gpu| cluster.node(*gpu) == *node)?);
            self.mark(gpu);
            Some(gpu)
        };
        list.iter().map(keep).collect()
    }

    /// Takes a GPU of these.
    pub fn take(&mut self, of: Range<GpuId>) -> Option<GpuId> {
        let mut all = of.filter(|gpu| !self.taken[*gpu as usize]);
        let gpu = all.clone().find(|gpu| !self.asleep.contains(gpu)).or_else(|| all.next())?;
        self.mark(gpu);
        Some(gpu)
    }
}
