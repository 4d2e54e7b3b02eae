//! What a spec says of its machines: modelled, real, or recorded.

use std::collections::BTreeMap;

use sandtable_core::units::{Bytes, Span};
use sandtable_inputs::nodes::NodeFormat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sharing::{LinksSpec, SharingSchema};
use sandtable_hardware::Sharing;
use sandtable_hardware::live::Level;

/// Machines.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub enum FleetSpec {
    /// Simulated nodes: equal ones, or groups of equal ones.
    Model {
        /// How many nodes, where all are alike.
        #[serde(default)]
        nodes: Option<u32>,
        /// GPUs of each.
        #[serde(default)]
        gpus: Option<u32>,
        /// Their kind: a name of the catalogue (`sandtable hardware list`), or one of your own.
        #[serde(default)]
        kind: Option<String>,
        /// How fast jobs run on it, 1 being the speed of their durations; 1 by default.
        #[serde(default)]
        speed: Option<f64>,
        /// Nodes of several kinds, in the order of their numbers, in place of `nodes`, `gpus`, `kind` and `speed`.
        #[serde(default)]
        groups: Vec<Group>,
        /// The nodes of a file, in place of groups; `speed` beside it is that of all of its kinds.
        #[serde(default)]
        list: Option<NodeListSpec>,
        /// Device memory of a kind of one's own.
        #[serde(default)]
        memory: Option<Bytes>,
        /// How often nodes fail; never by default.
        #[serde(default)]
        failures: Option<FailuresSpec>,
        /// CPU cores of each node, where jobs take them; unknown by default, and then not counted.
        #[serde(default)]
        cpus: Option<f64>,
        /// Memory of each node beside that of its GPUs; as `cpus`.
        #[serde(default)]
        host_memory: Option<Bytes>,
        /// How their owner takes nodes back; never by default.
        #[serde(default)]
        revocable: Option<RevocableSpec>,
        /// Levels at which nodes are near each other, from wide to near; none by default.
        #[serde(default)]
        levels: Vec<LevelSpec>,
        /// When nodes are taken down; never by default.
        #[serde(default)]
        maintenance: Vec<MaintenanceSpec>,
        /// Which jobs may be on a GPU together; one at a time by default.
        #[serde(default)]
        #[schemars(with = "SharingSchema")]
        sharing: Sharing,
        /// What GPUs of a kind can be cut into where `sharing` is `Parts`, by kind and by name of the part; by default the catalogue's
        /// MIG instances.
        #[serde(default)]
        parts: BTreeMap<String, BTreeMap<String, PartSpec>>,
        /// None: communication costs nothing.
        #[serde(default)]
        links: Option<LinksSpec>,
        /// GB/s between nodes; 1.25 by default.
        #[serde(default)]
        network: Option<f64>,
        /// Virtual slots: so many GPUs of a node are one device, whose jobs slow each other down; 1 by default.
        #[serde(default)]
        slots: Option<u32>,
    },
    /// The GPUs of this machine: results are observations.
    Nvidia {
        /// Which of this machine.
        #[serde(default)]
        devices: DevicesSpec,
        /// Virtual slots: each device counts as so many GPUs; 1 by default.
        #[serde(default)]
        slots: Option<u32>,
        /// Which jobs may be on a GPU together; one at a time by default.
        #[serde(default)]
        #[schemars(with = "SharingSchema")]
        sharing: Sharing,
        /// Commands of workloads, beside the built-in families; `*` is for every other. `{steps}`, `{seconds}`, `{gpus}`
        /// and `{job}` stand for what the job asks for.
        #[serde(default)]
        commands: BTreeMap<String, Vec<String>>,
        /// Names of this process' environment that jobs are given beside those that every job is: `PATH`, `HOME`, `LANG`,
        /// `CUDA_*` and the like.
        #[serde(default)]
        environment: Vec<String>,
        /// A file that a job writes may have so many bytes; 64GiB by default.
        #[serde(default)]
        file_size: Option<Bytes>,
        /// How a preempted job is put aside: what works first. By default built-in work saves, commands are suspended or
        /// paused.
        #[serde(default)]
        #[schemars(with = "Vec<String>", extend("items" = serde_json::json!({"type": "string", "enum": ["Save", "Suspend", "Pause", "Kill"]})))]
        preempt: Option<Vec<Level>>,
        /// A command that says nothing for so long is taken to run; 2 s by default.
        #[serde(default)]
        quiet: Option<Span>,
        /// A job that is asked to save may take so long; 30 s by default.
        #[serde(default)]
        patience: Option<Span>,
        /// After this everything is ended; 8 min by default.
        #[serde(default)]
        limit: Option<Span>,
        /// A decision that takes longer is a fault of the policy; 1 s by default.
        #[serde(default)]
        decide: Option<Span>,
        /// Also where others compute on the devices.
        #[serde(default)]
        shared: bool,
    },
    /// A recorded run; relative to the spec.
    Replay(String),
}

/// A file of nodes: a row each, numbered from 0 in their order.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename = "NodeList", deny_unknown_fields)]
pub struct NodeListSpec {
    /// A CSV, compressed or not; relative to the spec.
    pub file: String,
    /// Native by default.
    #[serde(default)]
    pub format: NodeFormat,
}

/// A part that a GPU can be cut into.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename = "Part", deny_unknown_fields)]
pub struct PartSpec {
    /// Slices of the GPU that it takes.
    pub slices: u32,
    /// Its memory; unknown by default: as much as the GPU has.
    #[serde(default)]
    pub memory: Option<Bytes>,
    /// Slices at which it may begin, from 0, ascending. The GPU ends where the last of its parts can end.
    pub starts: Vec<u32>,
}

/// Equal nodes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// How many.
    pub nodes: u32,
    /// GPUs of each.
    pub gpus: u32,
    /// A model of the catalogue, or with `speed` any name.
    pub kind: String,
    /// Work done in a second; 1 is the GPU on which the workload's durations hold. Where no group of several kinds says it, and
    /// no profile has throughputs by type, speeds are estimated from the catalogue's bandwidths and peak rates, 1 on the spec's
    /// `durations_on` or on the geometric mean of the kinds.
    #[serde(default)]
    pub speed: Option<f64>,
    /// Device memory, of a kind of one's own.
    #[serde(default)]
    pub memory: Option<Bytes>,
    /// CPU cores of each, where jobs take them.
    #[serde(default)]
    pub cpus: Option<f64>,
    /// Memory of each beside that of its GPUs.
    #[serde(default)]
    pub host_memory: Option<Bytes>,
    /// How their owner takes them back; never by default.
    #[serde(default)]
    pub revocable: Option<RevocableSpec>,
    /// What they are for: `Training` by default, or `Inference`.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["Training", "Inference"]))]
    pub pool: sandtable_hardware::Pool,
    /// When they take no jobs: no field of a spec, but what a cluster's state or a change to it says.
    #[serde(skip)]
    pub closed: Vec<(sandtable_hardware::Instant, sandtable_hardware::Instant)>,
}

/// A level at which nodes are near each other: blocks, racks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename = "Level", deny_unknown_fields)]
pub struct LevelSpec {
    /// What one of its domains is called.
    pub name: String,
    /// Nodes of each domain, in their order: a divisor of those of the level before.
    pub nodes: u32,
}

/// Nodes that are taken down for a while: what runs there is lost, but for what was saved.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename = "Maintenance", deny_unknown_fields)]
pub struct MaintenanceSpec {
    /// Which, numbered from 0.
    #[serde(default)]
    pub nodes: Vec<u32>,
    /// Or all of a domain: the name of its level, and its number from 0.
    #[serde(default)]
    pub domain: Option<(String, u32)>,
    /// When they go down.
    pub from: Span,
    /// When they are back.
    pub to: Span,
    /// How long before that it is announced, to policies that ask to be told; not at all by default.
    #[serde(default)]
    pub notice: Option<Span>,
}

/// Nodes that belong to others, as spot instances do: each is taken back, and handed over again, by itself, at exponential times.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename = "Revocable", deny_unknown_fields)]
pub struct RevocableSpec {
    /// Mean time from when a node is handed over until its owner wants it back.
    pub held: Span,
    /// Mean time until it is handed over again.
    pub away: Span,
    /// How long before it goes that is announced, to policies that ask to be told; not at all by default.
    #[serde(default)]
    pub notice: Option<Span>,
}

/// How nodes fail.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename = "Failures", deny_unknown_fields)]
pub struct FailuresSpec {
    /// Mean time between failures of a node.
    pub mtbf: Span,
    /// Mean time to repair.
    pub repair: Span,
}

/// Devices of this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum DevicesSpec {
    /// All that this process may use: `CUDA_VISIBLE_DEVICES`, where it is set, says which.
    #[default]
    All,
    /// Those with these UUIDs.
    Only(Vec<String>),
    /// So many of those that this process may use, the first.
    Count(u32),
    /// None: so many cores of the CPU stand in for them.
    StandIn(u32),
}
