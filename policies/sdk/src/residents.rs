//! The jobs on each GPU, where several may share it; empty and free of cost otherwise.

use std::collections::BTreeSet;

use crate::parts::Parts;
use crate::{Ask, GpuId, GpuTypeId, JobId, Sharing, Topology};

/// The residents of shared GPUs.
pub(crate) struct Residents {
    on: Vec<Vec<JobId>>,
    /// What is left of each GPU, where shares or parts count.
    left: Vec<Left>,
    /// GPUs by what is left of them, those with something taken and something left; by type.
    partly: Vec<BTreeSet<(Left, GpuId)>>,
    /// Whether jobs may ask for less than a GPU.
    pub(crate) by_share: bool,
    pub(crate) parts: Parts,
    pub(crate) tenancy: u32,
    /// Device memory by type.
    pub(crate) memory: Vec<u32>,
}

/// What is left of a GPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Left {
    milli: u32,
    /// Slices that are taken, where it is cut into parts: a bit each.
    taken: u64,
}

impl Left {
    pub(crate) fn milli(self) -> u32 {
        self.milli
    }

    /// When a job that takes this has come.
    fn without(self, take: Take) -> Left {
        Left { milli: self.milli.saturating_sub(take.milli), taken: self.taken | take.slices }
    }

    /// When a job that took this has gone.
    pub(crate) fn with(self, take: Take) -> Left {
        Left { milli: (self.milli + take.milli).min(1000), taken: self.taken & !take.slices }
    }
}

/// What a job takes of a GPU.
#[derive(Clone, Copy)]
pub(crate) struct Take {
    pub(crate) milli: u32,
    pub(crate) slices: u64,
}

impl Residents {
    pub(crate) fn new(topology: &Topology) -> Residents {
        let parts = Parts::new(topology);
        let by_share = parts.can_cut() || topology.gpu_types.iter().any(|kind| matches!(kind.sharing, Sharing::Shares));
        let tenancy = topology.gpu_types.iter().map(|kind| match kind.sharing {
            Sharing::Packed(most) => most,
            Sharing::Exclusive | Sharing::Shares | Sharing::Parts(_) => 1,
        });
        let tenancy = tenancy.max().unwrap_or(1);
        let gpus = topology.nodes.iter().map(|node| node.gpus as usize).sum();
        let shared = by_share || tenancy > 1;
        Residents {
            on: vec![Vec::new(); if shared { gpus } else { 0 }],
            partly: topology.gpu_types.iter().map(|_| BTreeSet::new()).collect(),
            left: vec![Left { milli: 1000, taken: 0 }; if by_share { gpus } else { 0 }],
            by_share,
            parts,
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

    /// Whether so much is left of a GPU of a type that is not empty.
    pub(crate) fn has_left(&self, gpu_type: GpuTypeId, milli: u32) -> bool {
        let from = (Left { milli, taken: 0 }, 0);
        self.partly[gpu_type as usize].range(from..).next().is_some()
    }

    /// What is left of a GPU.
    pub(crate) fn left(&self, gpu: GpuId) -> Left {
        self.left.get(gpu as usize).copied().unwrap_or(Left { milli: 1000, taken: 0 })
    }

    /// Whether so much is left as a job asks for, in a place where it may begin.
    pub(crate) fn fits(&self, gpu_type: GpuTypeId, ask: Ask, left: Left) -> bool {
        left.milli >= ask.share && ask.part.is_none_or(|part| self.parts.fits(gpu_type, part, left.taken))
    }

    /// Slices of a GPU that are taken: a bit each.
    pub(crate) fn taken(&self, gpu: GpuId) -> u64 {
        self.left.get(gpu as usize).map_or(0, |left| left.taken)
    }

    /// Whether the GPU was empty.
    pub(crate) fn come(&mut self, gpu: GpuId, gpu_type: GpuTypeId, job: JobId, take: Take) -> bool {
        let residents = &mut self.on[gpu as usize];
        residents.push(job);
        let first = residents.len() == 1;
        self.give(gpu, gpu_type, |left| {
            assert!(left.taken & take.slices == 0, "job {job} is started on slices of GPU {gpu} that are taken");
            left.without(take)
        });
        first
    }

    /// Whether the GPU is empty now.
    pub(crate) fn leave(&mut self, gpu: GpuId, gpu_type: GpuTypeId, job: JobId, take: Take) -> bool {
        let residents = &mut self.on[gpu as usize];
        residents.retain(|other| *other != job);
        let empty = residents.is_empty();
        self.give(gpu, gpu_type, |left| left.with(take));
        empty
    }

    fn give(&mut self, gpu: GpuId, gpu_type: GpuTypeId, change: impl Fn(Left) -> Left) {
        let Some(left) = self.left.get_mut(gpu as usize) else { return };
        let partly = &mut self.partly[gpu_type as usize];
        partly.remove(&(*left, gpu));
        *left = change(*left);
        if left.milli > 0 && left.milli < 1000 {
            partly.insert((*left, gpu));
        }
    }

    /// The GPU with the least left that takes a share, or has a place for a part; among those the lowest of the first slices taken.
    pub(crate) fn best_fit(&self, gpu_type: GpuTypeId, ask: Ask, usable: impl Fn(GpuId) -> bool) -> Option<GpuId> {
        let partly = &self.partly[gpu_type as usize];
        let mut from = (Left { milli: ask.share, taken: 0 }, 0);
        loop {
            let (left, gpu) = *partly.range(from..).next()?;
            if !self.fits(gpu_type, ask, left) {
                // Nor has any other GPU of which the same slices are taken.
                let next = left.taken.checked_add(1).map(|taken| Left { taken, ..left });
                from = (next.unwrap_or(Left { milli: left.milli + 1, taken: 0 }), 0);
            } else if usable(gpu) {
                return Some(gpu);
            } else {
                from = (left, gpu + 1);
            }
        }
    }
}
