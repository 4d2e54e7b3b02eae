//! The jobs of `sandtable/state@1`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// A job that has not ended, or not long ago.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateJob {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// Its user.
    pub user: Option<String>,
    /// Its account.
    pub account: Option<String>,
    /// Where it waits: alternatives, in their order; of a running job the one that it runs in.
    #[serde(default)]
    pub queues: Vec<String>,
    /// Queues whose limits count it.
    #[serde(default)]
    pub charges: Vec<String>,
    /// How it is.
    pub state: JobState,
    /// Why it waits, or why not.
    pub why: Option<Why>,
    /// Higher is more important.
    pub priority: Option<f64>,
    /// What its user gave up of its priority.
    pub nice: Option<f64>,
    /// When it was submitted, as the source counts: a requeue moves it in Slurm.
    pub submitted_s: Option<f64>,
    /// Since when it could have started.
    pub eligible_s: Option<f64>,
    /// Not before.
    pub not_before_s: Option<f64>,
    /// When it got its GPUs.
    pub started_s: Option<f64>,
    /// How long it has made progress on them: without suspension.
    pub held_s: Option<f64>,
    /// When it ended, of one that is over.
    pub ended_s: Option<f64>,
    /// It must have ended.
    pub deadline_s: Option<f64>,
    /// In all.
    pub gpus: u32,
    /// It starts with so many; absent: with all.
    pub least_gpus: Option<u32>,
    /// The shape: absent, any nodes do.
    pub nodes: Option<Shape>,
    /// Thousandths of a GPU.
    pub share_milli: Option<u32>,
    /// Device memory, MiB.
    pub memory_mib: Option<u32>,
    /// CPU cores.
    pub cpus: Option<f64>,
    /// Memory beside that of GPUs, MiB.
    pub ram_mib: Option<f64>,
    /// Kinds of GPU that it may run on.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Any of these sets.
    #[serde(default)]
    pub features: Vec<Vec<String>>,
    /// All of these.
    #[serde(default)]
    pub nodes_in: Vec<String>,
    /// None of these nodes.
    #[serde(default)]
    pub nodes_out: Vec<String>,
    /// Whether no other job may be on its nodes.
    pub whole_nodes: Option<bool>,
    /// How near its nodes are.
    pub level: Option<Level>,
    /// Most time that it may run.
    pub limit_s: Option<f64>,
    /// The limit may be cut to this.
    pub least_limit_s: Option<f64>,
    /// Whether it may be preempted.
    pub preemptible: Option<bool>,
    /// Whether it waits again after a failure.
    pub requeues: Option<bool>,
    /// Times that it was started again.
    pub restarts: Option<u32>,
    /// What it holds, or held last.
    #[serde(default)]
    pub on: Vec<On>,
    /// The source's own forecast.
    pub planned_s: Option<f64>,
    /// Where the source plans it.
    #[serde(default)]
    pub planned_on: Vec<String>,
    /// What it waits for.
    #[serde(default)]
    pub after: Vec<After>,
    /// Whether its user runs one of its name at a time.
    pub single: Option<bool>,
    /// The array that it is of.
    pub array: Option<Array>,
    /// Jobs with this word start in one instant or not at all (heterogeneous parts).
    pub together: Option<String>,
    /// The reservation that it runs in.
    pub reservation: Option<String>,
    /// Parts of the priority.
    #[serde(default)]
    pub factors: BTreeMap<String, f64>,
}

impl StateJob {
    /// Whether it waits to start, now or from some time on, and for nothing else.
    pub fn waits(&self) -> bool {
        matches!(self.state, JobState::Waiting | JobState::NotBefore)
    }
}

/// Why a job waits.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Why {
    /// In our words.
    pub code: WhyCode,
    /// The source's own word.
    pub said: Option<String>,
    /// Which queue, job or reservation.
    pub of: Option<String>,
}

/// How many nodes a gang has, and of what shape.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// At least.
    pub least: Option<u32>,
    /// At most.
    pub most: Option<u32>,
    /// GPUs on each node.
    pub gpus_each: Option<u32>,
}

/// How near to each other the nodes of a gang are.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// Which way.
    pub mode: LevelMode,
    /// How long it waits for that.
    pub wait_s: Option<f64>,
    /// GPUs that are to be within one domain.
    pub slice_gpus: Option<u32>,
}

/// GPUs of a node that a job holds.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct On {
    /// The node.
    pub node: String,
    /// GPUs.
    #[serde(default)]
    pub gpus: Vec<u32>,
    /// How many.
    pub count: u32,
    /// Thousandths of each.
    pub milli: Option<u32>,
}

/// What a job waits for.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// The job.
    pub job: String,
    /// What of it.
    pub when: AfterWhen,
    /// And so long after.
    pub plus_s: Option<f64>,
    /// Any of them will do.
    pub any: Option<bool>,
}

/// The array of jobs that a job is of.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// Its id.
    pub id: String,
    /// Its place in it.
    pub index: u32,
    /// Most that run at a time.
    pub at_most: Option<u32>,
}

/// `state` of a job.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the document's own")]
pub enum JobState {
    #[default]
    Waiting,
    Running,
    Suspended,
    Ending,
    Held,
    Dependent,
    NotBefore,
    Reserved,
    Ended,
}

impl JobState {
    /// The word of a document.
    pub fn word(self) -> &'static str {
        match self {
            JobState::Waiting => "waiting",
            JobState::Running => "running",
            JobState::Suspended => "suspended",
            JobState::Ending => "ending",
            JobState::Held => "held",
            JobState::Dependent => "dependent",
            JobState::NotBefore => "not-before",
            JobState::Reserved => "reserved",
            JobState::Ended => "ended",
        }
    }
}

/// `code` of a why.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the document's own")]
pub enum WhyCode {
    NoFreeGpus,
    NoFreeCpus,
    NoFreeMemory,
    Fragmented,
    Behind,
    Quota,
    Priority,
    Dependency,
    NotBefore,
    Held,
    Reservation,
    Topology,
    NodeNamed,
    NodeDown,
    Licence,
    QueueClosed,
    Never,
    Unknown,
}

/// `mode` of a level.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the document's own")]
pub enum LevelMode {
    Required,
    Preferred,
}

/// `when` of a after.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the document's own")]
pub enum AfterWhen {
    Started,
    Ended,
    Ok,
    Failed,
    SameIndex,
}
