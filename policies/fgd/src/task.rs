//! What a job asks of one node, and what is left of one.

use std::collections::BTreeMap;
use std::rc::Rc;

use sandtable_policy::{Cluster, GpuTypeId, Job};

/// What is left of a node.
#[derive(Clone, Debug, Default)]
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
    /// MiB of each GPU; 0: unknown.
    pub memory_mib: u32,
    gpu_types: Rc<[GpuTypeId]>,
}

/// What a job is to the score that clusters jobs: a share (0), or so many whole GPUs; none without any.
pub fn kind(gpus: u32, milli: u32) -> Option<u32> {
    (gpus > 0).then_some(if milli < 1000 { 0 } else { gpus })
}

impl Task {
    pub fn of(job: &Job) -> Task {
        Task {
            gpus: job.gpus,
            milli: if job.gpus == 0 { 0 } else { job.share },
            host: [u64::from(job.host.cpu_milli), u64::from(job.host.memory_mib)],
            memory_mib: job.memory_mib,
            gpu_types: job.gpu_types.clone(),
        }
    }

    /// Whether a job is asked to be on one node, and may be.
    pub fn is_of_one_node(job: &Job, cluster: &Cluster) -> bool {
        (job.gpus_per_node == 0 || job.gpus_per_node == job.gpus) && job.gpus <= cluster.largest_node(&job.gpu_types)
    }

    /// Thousandths of a GPU that it takes in all.
    pub fn all_milli(&self) -> u64 {
        u64::from(self.gpus) * u64::from(self.milli)
    }

    /// What it is to the score that clusters jobs.
    pub fn kind(&self) -> Option<u32> {
        kind(self.gpus, self.milli)
    }

    /// Whether a node has room for it.
    pub fn fits(&self, room: &Room) -> bool {
        let enough = room.left.iter().filter(|left| **left >= self.milli.max(1)).count();
        room.up
            && self.gpu_types.contains(&room.gpu_type)
            && self.host.iter().zip(room.host).all(|(asked, left)| *asked <= left)
            && enough >= self.gpus as usize
    }

    /// The GPUs of a node that it takes, by their index there: whole ones, the lowest that are free; or the one with the least left that
    /// takes its share.
    pub fn places(&self, room: &Room) -> Vec<usize> {
        let there = room.left.iter().enumerate().filter(|(_, left)| **left >= self.milli);
        match self.milli {
            1000 => there.map(|(at, _)| at).take(self.gpus as usize).collect(),
            _ => there.min_by_key(|(_, left)| **left).map(|(at, _)| at).into_iter().take(self.gpus as usize).collect(),
        }
    }
}
