//! Queues.

use schemars::JsonSchema;
use serde::Deserialize;

/// A queue that jobs are submitted to, or a group of queues. GPUs are counted over all kinds; a share of one counts as that part of it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename = "Queue", deny_unknown_fields)]
pub struct QueueSpec {
    /// What jobs call it.
    pub name: String,
    /// The group that it is in, which comes before it in the list; by default it is at the top.
    #[serde(default)]
    pub parent: Option<String>,
    /// GPUs that it may always have; 0 by default. Under `kai-like` jobs that may not be preempted start within these alone, of their queue and
    /// of every group above it.
    #[serde(default)]
    pub guaranteed: f64,
    /// Its part, among the queues of its group, of the GPUs that no queue is guaranteed; 1 by default.
    #[serde(default = "one")]
    pub weight: f64,
    /// Most GPUs that its jobs may hold together; no limit by default. Only policies that keep to limits run then.
    #[serde(default)]
    pub limit: Option<f64>,
    /// The queue with the higher number is served first, within its group; 0 by default.
    #[serde(default)]
    pub priority: i32,
}

fn one() -> f64 {
    1.0
}
