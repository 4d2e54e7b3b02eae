//! The mirror's nodes: which of their GPUs are free, and the index by which a placement finds them.

use std::rc::Rc;

use super::Cluster;
use crate::node_set::NodeSet;
use crate::{GpuId, GpuTypeId, NodeId};

pub(crate) struct MirrorNode {
    pub(crate) gpu_type: GpuTypeId,
    pub(crate) first: GpuId,
    pub(crate) gpus: u32,
    pub(crate) up: bool,
    pub(crate) free: u32,
    /// Bit i of word i / 64: GPU `first + i` is free.
    pub(super) mask: Vec<u64>,
    pub(crate) links: Rc<[f64]>,
    pub(crate) rack: u32,
}

/// Nodes of one GPU type, and the index by which they are found.
#[derive(Default)]
pub(crate) struct TypePool {
    /// GPUs of the type on nodes that are up.
    pub(crate) up_gpus: u32,
    /// Free ones among them.
    pub(crate) free: u32,
    /// GPUs of the largest node.
    pub(crate) node_size: u32,
    /// Nodes that are up, by free GPUs.
    pub(crate) by_free: Vec<NodeSet>,
}

impl Cluster {
    /// Marks GPUs free or held, those of one node together.
    pub(super) fn flip_all(&mut self, gpus: &[GpuId], free: bool) {
        let mut from = 0;
        while from < gpus.len() {
            let node = self.node_of(gpus[from]);
            let first = self.nodes[node].first;
            let own = first..first + self.nodes[node].gpus;
            let upto = from + gpus[from..].iter().take_while(|gpu| own.contains(gpu)).count();
            self.flip(node, &gpus[from..upto], free);
            from = upto;
        }
    }

    /// Whether a GPU is free.
    pub fn is_free(&self, gpu: GpuId) -> bool {
        let entry = &self.nodes[self.node_of(gpu)];
        let bit = gpu - entry.first;
        entry.mask[bit as usize / 64] & (1 << (bit % 64)) != 0
    }

    pub(crate) fn node_of(&self, gpu: GpuId) -> usize {
        self.nodes.partition_point(|node| node.first <= gpu) - 1
    }

    /// Marks GPUs of one node free or held and keeps the index.
    pub(super) fn flip(&mut self, node: usize, gpus: &[GpuId], free: bool) {
        let entry = &mut self.nodes[node];
        let before = entry.free;
        for gpu in gpus {
            let bit = gpu - entry.first;
            let word = &mut entry.mask[bit as usize / 64];
            let flag = 1u64 << (bit % 64);
            assert!((*word & flag == 0) == free, "GPU {gpu} is already {}", if free { "free" } else { "held" });
            *word ^= flag;
        }
        let count = gpus.len() as u32;
        entry.free = if free { before + count } else { before - count };
        let (after, up) = (entry.free, entry.up);
        if up && after != before {
            let pool = &mut self.pools[self.nodes[node].gpu_type as usize];
            pool.by_free[before as usize].flip(node as NodeId, false);
            pool.by_free[after as usize].flip(node as NodeId, true);
            pool.free = pool.free + after - before;
        }
    }

    pub(super) fn set_up(&mut self, node: NodeId, up: bool) {
        let entry = &mut self.nodes[node as usize];
        if entry.up == up {
            return;
        }
        entry.up = up;
        let pool = &mut self.pools[entry.gpu_type as usize];
        if up {
            pool.up_gpus += entry.gpus;
            pool.free += entry.free;
            pool.by_free[entry.free as usize].flip(node, true);
        } else {
            pool.up_gpus -= entry.gpus;
            pool.free -= entry.free;
            pool.by_free[entry.free as usize].flip(node, false);
        }
    }

    /// The lowest `count` free GPUs of a node.
    pub(crate) fn lowest_free(&self, node: NodeId, count: u32, into: &mut Vec<GpuId>) {
        let entry = &self.nodes[node as usize];
        let mut left = count;
        for (index, word) in entry.mask.iter().enumerate() {
            let mut word = *word;
            while word != 0 && left > 0 {
                into.push(entry.first + index as u32 * 64 + word.trailing_zeros());
                word &= word - 1;
                left -= 1;
            }
        }
    }
}

/// A word whose lowest `count` bits are set; `count` is at most 64.
pub(super) fn ones(count: u32) -> u64 {
    if count == 64 { u64::MAX } else { (1 << count) - 1 }
}
