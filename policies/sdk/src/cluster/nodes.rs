//! The mirror's nodes: which of their GPUs are free, and the index by which a placement finds them.

use std::rc::Rc;

use super::Cluster;
use crate::node_set::NodeSet;
use crate::{GpuId, GpuTypeId, HostResources, Job, JobId, Node, NodeHealth, NodeId};

pub(crate) struct MirrorNode {
    pub(crate) gpu_type: GpuTypeId,
    pub(crate) first: GpuId,
    pub(crate) gpus: u32,
    /// Up, and not draining: jobs may start there.
    pub(crate) up: bool,
    /// What runs there goes on; nothing starts.
    draining: bool,
    /// Its owner may take it back.
    pub(crate) revocable: bool,
    pub(crate) free: u32,
    /// Bit i of word i / 64: GPU `first + i` is free.
    pub(super) mask: Vec<u64>,
    pub(crate) links: Rc<[f64]>,
    pub(crate) domains: Vec<u32>,
    pub(crate) host: HostResources,
    /// Of its CPU, thousandths of a core, and of its memory, MiB, that jobs have.
    pub(crate) taken: [u64; 2],
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

impl MirrorNode {
    /// A node of which jobs hold nothing yet, down until it is said to be up.
    pub(super) fn new(node: &Node) -> MirrorNode {
        let words = node.gpus.div_ceil(64);
        MirrorNode {
            gpu_type: node.gpu_type,
            first: node.first_gpu,
            gpus: node.gpus,
            up: false,
            draining: false,
            revocable: node.revocable.is_some(),
            free: node.gpus,
            mask: (0..words).map(|word| ones((node.gpus - word * 64).min(64))).collect(),
            links: node.links.as_slice().into(),
            domains: node.domains.clone(),
            host: node.host,
            taken: [0; 2],
        }
    }
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

    /// Whether a node is up, and not draining.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.nodes[node as usize].up
    }

    /// The node of a GPU.
    pub fn node(&self, gpu: GpuId) -> NodeId {
        self.node_of[gpu as usize]
    }

    /// Whether a GPU is free.
    pub fn is_free(&self, gpu: GpuId) -> bool {
        let entry = &self.nodes[self.node_of(gpu)];
        let bit = gpu - entry.first;
        entry.mask[bit as usize / 64] & (1 << (bit % 64)) != 0
    }

    pub(crate) fn node_of(&self, gpu: GpuId) -> usize {
        self.node_of[gpu as usize] as usize
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

    /// Notes that jobs have more, or less, of the CPU and memory of the nodes of a gang.
    pub(super) fn take_host(&mut self, host: HostResources, all: u32, gpus: &[GpuId], takes: bool) {
        if host.cpu_milli == 0 && host.memory_mib == 0 {
            return;
        }
        let mut nodes: Vec<usize> = gpus.iter().map(|gpu| self.node_of(*gpu)).collect();
        nodes.sort_unstable();
        for of in nodes.chunk_by(|a, b| a == b) {
            let part = |whole: u32| (u64::from(whole) * of.len() as u64).div_ceil(u64::from(all.max(1)));
            let taken = &mut self.nodes[of[0]].taken;
            for (taken, part) in taken.iter_mut().zip([part(host.cpu_milli), part(host.memory_mib)]) {
                *taken = if takes { *taken + part } else { *taken - part };
            }
        }
    }

    pub(super) fn set_health(&mut self, node: NodeId, health: NodeHealth) {
        let entry = &mut self.nodes[node as usize];
        let (up, drains) = (health == NodeHealth::Up, health == NodeHealth::Draining);
        let (was_up, drained) = (std::mem::replace(&mut entry.up, up), std::mem::replace(&mut entry.draining, drains));
        self.draining = self.draining + usize::from(drains) - usize::from(drained);
        if drains && !drained {
            self.drained.push(node);
        }
        if up == was_up {
            return;
        }
        let pool = &mut self.pools[entry.gpu_type as usize];
        if up {
            pool.up_gpus += entry.gpus;
            pool.free += entry.free;
        } else {
            pool.up_gpus -= entry.gpus;
            pool.free -= entry.free;
        }
        pool.by_free[entry.free as usize].flip(node, up);
    }

    /// Whether a quota leaves a job what it holds: it may not be preempted, or a node of it drains, whose GPUs no other job gets.
    pub fn stays(&self, job: &Job) -> bool {
        let drains = |gpu: &GpuId| self.nodes[self.node_of(*gpu)].draining;
        !job.preemptible || (self.draining > 0 && job.held.iter().any(drains))
    }

    /// GPUs of a job on nodes that are up and do not drain: those that other jobs get when it lets go.
    pub fn gpus_on_up(&self, job: &Job) -> u32 {
        match self.draining {
            0 => job.held.len() as u32,
            _ => job.held.iter().filter(|gpu| self.nodes[self.node_of(**gpu)].up).count() as u32,
        }
    }

    /// Nodes that have begun to drain, in that order, a node once for each time.
    pub(crate) fn drained(&self) -> &[NodeId] {
        &self.drained
    }

    /// Jobs that hold GPUs of a node, by id.
    pub fn holders_on(&self, node: NodeId) -> Vec<JobId> {
        let entry = &self.nodes[node as usize];
        let gpus = entry.first..entry.first + entry.gpus;
        let there = self.holders().filter(|job| job.held.iter().any(|gpu| gpus.contains(gpu)));
        let mut ids: Vec<JobId> = there.map(|job| job.id).collect();
        ids.sort_unstable();
        ids
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
fn ones(count: u32) -> u64 {
    if count == 64 { u64::MAX } else { (1 << count) - 1 }
}
