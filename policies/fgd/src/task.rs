//! What a job asks of one node, and what is left of one.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use sandtable_policy::{GpuTypeId, Job, Topology};

/// What is left of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Room {
    pub gpu_type: GpuTypeId,
    /// Thousandths of a core, and MiB; [`u64::MAX`] where it is not known what it has.
    pub host: [u64; 2],
    /// Thousandths of each GPU; none of a node that is not up.
    pub left: Vec<u32>,
    /// Jobs on its GPUs by what they ask for: a share (0), or so many whole GPUs.
    pub kinds: BTreeMap<u32, u32>,
    pub up: bool,
}

/// What a job asks of one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    pub gpus: u32,
    /// Thousandths of each GPU.
    pub milli: u32,
    /// Thousandths of a core, and MiB.
    pub host: [u64; 2],
    /// MiB of each GPU; 0: unknown, or it has none.
    pub memory_mib: u32,
    /// It ran out of memory: it takes GPUs that no other job is on.
    pub alone: bool,
    gpu_types: Rc<[GpuTypeId]>,
}

/// What a job is to the score that clusters jobs: a share (0), or so many whole GPUs; none without any.
pub fn kind(gpus: u32, milli: u32) -> Option<u32> {
    (gpus > 0).then_some(if milli < 1000 { 0 } else { gpus })
}

/// What nodes have where nothing runs: types, GPUs, and thousandths of a core and MiB, 0 where it is not known.
pub fn nodes_at_rest(topology: &Topology) -> BTreeSet<(GpuTypeId, u32, [u32; 2])> {
    let nodes = topology.nodes.iter();
    nodes.map(|node| (node.gpu_type, node.gpus, [node.host.cpu_milli, node.host.memory_mib])).collect()
}

impl Task {
    pub fn of(job: &Job) -> Task {
        Task {
            gpus: job.gpus,
            milli: if job.gpus == 0 { 0 } else { job.share },
            host: [u64::from(job.host.cpu_milli), u64::from(job.host.memory_mib)],
            memory_mib: if job.gpus == 0 { 0 } else { job.memory_mib },
            alone: job.out_of_memory > 0,
            gpu_types: job.gpu_types.clone(),
        }
    }

    /// Whether any node where nothing runs has all that it asks for.
    pub fn fits_one(&self, nodes: &BTreeSet<(GpuTypeId, u32, [u32; 2])>) -> bool {
        nodes.iter().any(|(gpu_type, gpus, host)| {
            let enough = |(asked, has): (&u64, &u32)| *has == 0 || *asked <= u64::from(*has);
            self.gpu_types.contains(gpu_type) && self.gpus <= *gpus && self.host.iter().zip(host).all(enough)
        })
    }

    /// Thousandths of a GPU that it takes in all.
    pub fn all_milli(&self) -> u64 {
        u64::from(self.gpus) * u64::from(self.milli)
    }

    /// What it is to the score that clusters jobs.
    pub fn kind(&self) -> Option<u32> {
        kind(self.gpus, self.milli)
    }

    /// Whether a node has room for it on its open GPUs.
    pub fn fits(&self, room: &Room, open: Open<'_>) -> bool {
        room.up
            && self.gpu_types.contains(&room.gpu_type)
            && self.host.iter().zip(room.host).all(|(asked, left)| *asked <= left)
            && self.takes(room, open).count() >= self.gpus as usize
    }

    /// GPUs of a node that have as much left as it asks of each, by their index there.
    pub fn takes<'a>(&self, room: &'a Room, open: Open<'a>) -> impl Iterator<Item = usize> + 'a {
        let least = self.milli.max(1);
        (0..room.left.len()).filter(move |at| room.left[*at] >= least && open.is_none_or(|open| open[*at]))
    }

    /// The GPUs of a node that it takes: whole ones, the lowest that are free; or the one with the least left that takes its share.
    pub fn places(&self, room: &Room, open: Open<'_>) -> Vec<usize> {
        let there = self.takes(room, open);
        match self.milli {
            0 => vec![],
            1000 => there.take(self.gpus as usize).collect(),
            _ => there.min_by_key(|at| room.left[*at]).into_iter().collect(),
        }
    }
}

/// Which GPUs of a node a job may have, whatever is left of them; none: all of them.
pub type Open<'a> = Option<&'a [bool]>;
