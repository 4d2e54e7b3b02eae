//! What a network is told of the cluster and of its jobs.

use sandtable_policy::{Cluster, GpuTypeId, Instant, Job, NEVER, Node};
use serde::{Deserialize, Serialize};

/// What a network is told of a job that waits, or of the cluster.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// ln(1 + GPUs that it asks for).
    Gpus,
    /// ln(1 + seconds that it would take by the bound estimate); a job without one takes for ever, 2^53 µs.
    Seconds,
    /// ln(1 + seconds since it last held GPUs, or since it was submitted).
    Waited,
    /// Its priority.
    Priority,
    /// ln(1 + seconds to its deadline), 0 once that is past; without one 2^53 µs.
    Due,
    /// The part of the GPUs on nodes that are up that no job holds, 0 to 1.
    Free,
    /// ln(1 + jobs that wait).
    Queue,
    /// Of each node the part of its GPUs that no job holds, 0 to 1; 0 for one that is down. Only where jobs start in turns.
    Nodes,
}

impl Input {
    /// All of them.
    pub const ALL: [Input; 8] = [
        Input::Gpus,
        Input::Seconds,
        Input::Waited,
        Input::Priority,
        Input::Due,
        Input::Free,
        Input::Queue,
        Input::Nodes,
    ];

    /// Whether it is the same for every job.
    pub fn is_of_cluster(&self) -> bool {
        matches!(self, Input::Free | Input::Queue | Input::Nodes)
    }

    /// How many numbers it is in a cluster of so many nodes.
    pub fn width(self, nodes: usize) -> usize {
        if self == Input::Nodes { nodes } else { 1 }
    }

    /// The least and the greatest number that it may be.
    pub fn bounds(self) -> (f64, f64) {
        match self {
            Input::Free | Input::Nodes => (0.0, 1.0),
            Input::Priority => (f64::from(i32::MIN), f64::from(i32::MAX)),
            Input::Gpus | Input::Queue => (0.0, libm::log1p(f64::from(u32::MAX))),
            Input::Seconds | Input::Waited | Input::Due => (0.0, log_seconds(NEVER)),
        }
    }
}

/// The part of a node's GPUs that no job holds.
pub(crate) fn free_on(cluster: &Cluster, node: &Node) -> f64 {
    let free = (node.first_gpu..node.first_gpu + node.gpus).filter(|gpu| cluster.is_free(*gpu)).count();
    if cluster.is_up(node.id) { free as f64 / f64::from(node.gpus.max(1)) } else { 0.0 }
}

fn log_seconds(micros: u64) -> f64 {
    libm::log1p(micros as f64 / 1e6)
}

/// What is the same for every job.
pub struct Known {
    free: f64,
    queue: f64,
}

impl Known {
    /// Of a cluster, and of how many jobs wait.
    pub fn of(cluster: &Cluster, waiting: usize) -> Known {
        let types = 0..cluster.types() as GpuTypeId;
        let (free, up) = types.fold((0, 0), |(free, up), kind| {
            (free + u64::from(cluster.free_gpus(kind)), up + u64::from(cluster.up_gpus(kind)))
        });
        Known { free: free as f64 / up.max(1) as f64, queue: libm::log1p(waiting as f64) }
    }

    /// A number of the cluster; [`Input::Nodes`], of which each node has one, is none of these.
    pub fn of_cluster(&self, input: Input) -> f64 {
        match input {
            Input::Free => self.free,
            Input::Queue => self.queue,
            _ => 0.0,
        }
    }

    /// A number of a job that would take so many seconds; NaN: unknown.
    pub fn of_job(&self, input: Input, job: &Job, now: Instant, seconds: f64) -> f64 {
        match input {
            Input::Gpus => libm::log1p(f64::from(job.gpus)),
            Input::Seconds if seconds.is_nan() => log_seconds(NEVER),
            Input::Seconds => libm::log1p(seconds),
            Input::Waited => log_seconds(job.waited(now)),
            Input::Priority => f64::from(job.priority),
            Input::Due => log_seconds(job.deadline.map_or(NEVER, |at| at.saturating_sub(now))),
            Input::Free | Input::Queue | Input::Nodes => self.of_cluster(input),
        }
    }
}
