//! The jobs on each GPU, where several may share it; empty and free of cost otherwise.

use std::collections::BTreeSet;

use crate::{GpuId, GpuTypeId, JobId, Sharing, Topology};

/// The residents of shared GPUs.
pub(crate) struct Residents {
    on: Vec<Vec<JobId>>,
    /// GPUs by what is left of them, those with something taken and something left; by type.
    partly: Vec<BTreeSet<(u32, GpuId)>>,
    /// Thousandths left of each GPU, where shares count.
    left: Vec<u32>,
    pub(crate) by_share: bool,
    pub(crate) tenancy: u32,
    /// Device memory by type.
    pub(crate) memory: Vec<u32>,
}

impl Residents {
    pub(crate) fn new(topology: &Topology) -> Residents {
        let by_share = topology.gpu_types.iter().any(|kind| matches!(kind.sharing, Sharing::Shares));
        let tenancy = topology.gpu_types.iter().map(|kind| match kind.sharing {
            Sharing::Packed(most) => most,
            Sharing::Exclusive | Sharing::Shares => 1,
        });
        let tenancy = tenancy.max().unwrap_or(1);
        let gpus = topology.nodes.iter().map(|node| node.gpus as usize).sum();
        let shared = by_share || tenancy > 1;
        Residents {
            on: vec![Vec::new(); if shared { gpus } else { 0 }],
            partly: topology.gpu_types.iter().map(|_| BTreeSet::new()).collect(),
            left: vec![1000; if by_share { gpus } else { 0 }],
            by_share,
            tenancy,
            memory: topology.gpu_types.iter().map(|kind| kind.memory_mib).collect(),
        }
    }

    pub(crate) fn is_shared(&self) -> bool {
        !self.on.is_empty()
    }

    pub(crate) fn on(&self, gpu: GpuId) -> &[JobId] {
        self.on.get(gpu as usize).map_or(&[], Vec::as_slice)
    }

    /// Whether the GPU was empty.
    pub(crate) fn come(&mut self, gpu: GpuId, gpu_type: GpuTypeId, job: JobId, share: u32) -> bool {
        let residents = &mut self.on[gpu as usize];
        residents.push(job);
        let first = residents.len() == 1;
        self.give(gpu, gpu_type, |left| left.saturating_sub(share));
        first
    }

    /// Whether the GPU is empty now.
    pub(crate) fn leave(&mut self, gpu: GpuId, gpu_type: GpuTypeId, job: JobId, share: u32) -> bool {
        let residents = &mut self.on[gpu as usize];
        residents.retain(|other| *other != job);
        let empty = residents.is_empty();
        self.give(gpu, gpu_type, |left| (left + share).min(1000));
        empty
    }

    fn give(&mut self, gpu: GpuId, gpu_type: GpuTypeId, change: impl Fn(u32) -> u32) {
        let Some(left) = self.left.get_mut(gpu as usize) else { return };
        let partly = &mut self.partly[gpu_type as usize];
        partly.remove(&(*left, gpu));
        *left = change(*left);
        if *left > 0 && *left < 1000 {
            partly.insert((*left, gpu));
        }
    }

    /// The GPU with the least left that takes a share; among those the lowest.
    pub(crate) fn best_fit(&self, gpu_type: GpuTypeId, share: u32, usable: impl Fn(GpuId) -> bool) -> Option<GpuId> {
        let fits = self.partly[gpu_type as usize].range((share, 0)..);
        fits.map(|(_, gpu)| *gpu).find(|gpu| usable(*gpu))
    }
}
