//! Nodes, their GPUs, and what it costs to start and to stop on them.

use serde::Serialize;

use crate::{GpuId, Micros, NodeId, SECOND, TypeId};

/// A type of GPU in a fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuType {
    /// Its name in the [catalogue](crate::catalogue), or the user's own.
    pub name: String,
    /// Work done in a microsecond; 1 is the GPU on which the workload's durations hold.
    pub speed: f64,
}

/// A node: GPUs of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Index into [`Fleet::types`].
    pub gpu_type: TypeId,
    /// Its GPUs are `first_gpu .. first_gpu + gpus`.
    pub first_gpu: GpuId,
    /// How many.
    pub gpus: u32,
}

/// What a restart after a preemption costs, where it is not a matter of the clock alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RestartRule {
    /// Added to the work left of a preempted gang of at most `small_gpus` GPUs.
    pub small: Micros,
    /// Added to the work left of a larger one.
    pub large: Micros,
    /// The size up to which a gang is small.
    pub small_gpus: u32,
}

/// What starting and stopping costs. All zero: free and at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Costs {
    /// GPUs held without progress at the first start.
    pub start: Micros,
    /// GPUs held without progress while the state is saved.
    pub checkpoint: Micros,
    /// GPUs held without progress at a later start.
    pub restore: Micros,
    /// A job saves its state by itself each time it has progressed so far, at no cost; none: only when preempted.
    pub checkpoint_every: Option<Micros>,
    /// Lucid's simulator adds seconds to the work of a preempted job (its `restore` is 0).
    pub restart_adds_work: Option<RestartRule>,
    /// A job holds its GPUs so long after its last step (Lucid's simulator: one tick).
    pub linger: Micros,
}

/// How nodes fail: each by itself, exponential times to failure and to repair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Failures {
    /// Mean time from repair to the next failure of a node.
    pub mtbf: Micros,
    /// Mean time to repair.
    pub repair: Micros,
}

/// The machines.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// Types of GPU, in the order in which they were first named.
    pub types: Vec<GpuType>,
    /// Nodes; GPUs are numbered node by node.
    pub nodes: Vec<Node>,
    /// What starting and stopping costs.
    pub costs: Costs,
    /// How nodes fail, if they do.
    pub failures: Option<Failures>,
}

/// Why a fleet can't be.
#[expect(missing_docs, reason = "the texts of the cases say what their fields are")]
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum FleetError {
    /// Nothing to schedule on.
    #[error("a fleet needs at least one node, found none")]
    Empty,
    /// A node without GPUs.
    #[error("a node needs at least one GPU, found 0")]
    NoGpus,
    /// A type that does nothing, or does it infinitely fast.
    #[error("the speed of {name} must be a number above 0 and at most 1000, found {speed}")]
    Speed { name: String, speed: f64 },
    /// One name for two things.
    #[error("{name} has two speeds, {other} and {speed}: give one of them another name")]
    TwoSpeeds { name: String, speed: f64, other: f64 },
    /// More than the tool is meant for.
    #[error("a fleet has at most {} GPUs, found {found}", Fleet::MAX_GPUS)]
    TooLarge { found: u64 },
    /// A mean time of zero.
    #[error("the mean times to failure and to repair must be at least 1 s")]
    Failures,
}

impl Fleet {
    /// Most GPUs of a fleet.
    pub const MAX_GPUS: u64 = 1_000_000;

    /// A fleet of groups of equal nodes: (nodes, GPUs of each, type).
    ///
    /// # Errors
    /// See [`FleetError`].
    pub fn new(groups: &[(u32, u32, GpuType)], costs: Costs, failures: Option<Failures>) -> Result<Fleet, FleetError> {
        // A node without GPUs is refused below: here it counts as one.
        let size = |(nodes, gpus, _): &(u32, u32, GpuType)| u64::from(*nodes) * u64::from((*gpus).max(1));
        let total = groups.iter().map(size).fold(0, u64::saturating_add);
        if total > Fleet::MAX_GPUS {
            return Err(FleetError::TooLarge { found: total });
        }
        if failures.is_some_and(|failures| failures.mtbf < SECOND || failures.repair < SECOND) {
            return Err(FleetError::Failures);
        }
        let mut fleet = Fleet { types: Vec::new(), nodes: Vec::new(), costs, failures };
        let mut first_gpu = 0;
        for (nodes, gpus, kind) in groups {
            if !(kind.speed > 0.0 && kind.speed <= 1000.0) {
                return Err(FleetError::Speed { name: kind.name.clone(), speed: kind.speed });
            }
            if *gpus == 0 && *nodes > 0 {
                return Err(FleetError::NoGpus);
            }
            let known = fleet.types.iter().position(|known| known.name == kind.name);
            if let Some(other) = known.map(|index| fleet.types[index].speed).filter(|other| *other != kind.speed) {
                return Err(FleetError::TwoSpeeds { name: kind.name.clone(), speed: kind.speed, other });
            }
            let gpu_type = known.unwrap_or_else(|| {
                fleet.types.push(kind.clone());
                fleet.types.len() - 1
            });
            for _ in 0..*nodes {
                let name = format!("node{}", fleet.nodes.len());
                fleet.nodes.push(Node { name, gpu_type: gpu_type as TypeId, first_gpu, gpus: *gpus });
                first_gpu += gpus;
            }
        }
        if fleet.nodes.is_empty() { Err(FleetError::Empty) } else { Ok(fleet) }
    }

    /// All GPUs.
    pub fn gpus(&self) -> u32 {
        self.nodes.last().map_or(0, |node| node.first_gpu + node.gpus)
    }

    /// GPUs of a type.
    pub fn gpus_of(&self, gpu_type: TypeId) -> u32 {
        self.nodes.iter().filter(|node| node.gpu_type == gpu_type).map(|node| node.gpus).sum()
    }

    /// The node of a GPU, which must exist.
    pub fn node_of(&self, gpu: GpuId) -> NodeId {
        (self.nodes.partition_point(|node| node.first_gpu <= gpu) - 1) as NodeId
    }
}
