//! The form of `sandtable/state@1`: a cluster at one instant. What is absent is unknown. All times but `at` are seconds from there,
//! negative before it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::jobs::StateJob;

/// A cluster at one instant.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// `state@1`.
    pub sandtable: String,
    /// UTC. All other times are seconds from here.
    pub at: String,
    /// Where it is from.
    pub source: Source,
    /// Names of the levels of the topology, from the widest down; the node itself is none.
    #[serde(default)]
    pub levels: Vec<String>,
    /// Its nodes.
    pub nodes: Vec<StateNode>,
    /// Queues.
    pub queues: Vec<StateQueue>,
    /// Accounts, an account before those in it, and users with their parts of them.
    #[serde(default)]
    pub associations: Vec<Association>,
    /// Its jobs: by submission, then by id. Of those that are over, the ones that the source still tells of.
    pub jobs: Vec<StateJob>,
    /// Its reservations.
    pub reservations: Vec<Reservation>,
    /// What a policy may want and the source does not tell.
    pub unknown: Vec<Unknown>,
    /// What the source tells and this document has no place for. Nothing is dropped silently.
    pub ignored: Vec<Ignored>,
    /// Things that could not be understood at all.
    #[serde(default)]
    pub refused: Vec<Refused>,
    /// When nodes are to take no jobs: no part of the document, but of a change to it.
    #[serde(skip)]
    pub drains: Vec<Drain>,
    /// The instant on the clock of a model, where a change does not move it.
    #[serde(skip)]
    pub clock_from: Option<sandtable_hardware::Instant>,
}

/// A node takes no jobs for a while; those that run there go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Drain {
    /// Its name.
    pub node: String,
    /// From, at least 0.
    pub from_s: f64,
    /// To; none: for good.
    pub to_s: Option<f64>,
}

/// Where the document is from.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its kind.
    pub kind: SourceKind,
    /// Its version.
    pub version: Option<String>,
    /// The form of its answers, as `v0.0.38`.
    pub api: Option<String>,
    /// How long reading took: the document is not more exact than that.
    pub took_s: Option<f64>,
    /// What was read, each when.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// How it schedules.
    pub scheduler: Option<Scheduler>,
    /// Which names are pseudonyms.
    pub pseudonyms: Option<Pseudonyms>,
}

/// A node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateNode {
    /// Its name.
    pub name: String,
    /// GPU kind in the catalogue's spelling; the source's word where none fits.
    pub kind: Option<String>,
    /// The source's own word for it.
    pub source_kind: Option<String>,
    /// GPUs.
    pub gpus: u32,
    /// Of each GPU.
    pub memory_mib: Option<u32>,
    /// CPU cores.
    pub cpus: Option<u32>,
    /// Memory beside that of GPUs, MiB.
    pub ram_mib: Option<u64>,
    /// Words that jobs may ask for.
    #[serde(default)]
    pub features: Vec<String>,
    /// One for each of `levels`.
    #[serde(default)]
    pub levels: Vec<Option<String>>,
    /// Lower is used first.
    pub weight: Option<f64>,
    /// How it is.
    pub state: NodeState,
    /// When it is expected back.
    pub back_s: Option<f64>,
    /// Why it is so.
    pub reason: Option<String>,
    /// Queues.
    #[serde(default)]
    pub queues: Vec<String>,
    /// GPUs that are held by no job of this document.
    #[serde(default)]
    pub taken: Vec<u32>,
    /// How jobs share its GPUs.
    pub sharing: Option<NodeSharing>,
}

/// A queue, or whatever else limits jobs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateQueue {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: QueueKind,
    /// The queue that it is in.
    pub parent: Option<String>,
    /// Whether jobs may start from it.
    pub open: Option<bool>,
    /// Higher is looked at first, whatever priorities say.
    pub tier: Option<f64>,
    /// Higher is more important.
    pub priority: Option<f64>,
    /// Its weight.
    pub weight: Option<f64>,
    /// GPUs by kind; `*`: of any kind.
    #[serde(default)]
    pub guaranteed: BTreeMap<String, f64>,
    /// GPUs by kind; `*`: of any kind.
    #[serde(default)]
    pub limit: BTreeMap<String, f64>,
    /// GPUs by kind; `*`: of any kind.
    #[serde(default)]
    pub borrow: BTreeMap<String, f64>,
    /// GPUs by kind; `*`: of any kind.
    #[serde(default)]
    pub lend: BTreeMap<String, f64>,
    /// GPUs by kind; `*`: of any kind.
    #[serde(default)]
    pub limit_per_user: BTreeMap<String, f64>,
    /// Decayed usage as the source counts it.
    pub used: Option<f64>,
    /// The fair-share factor, 0 to 1.
    pub share: Option<f64>,
    /// Most nodes of a job.
    pub most_nodes: Option<u32>,
    /// Most time of a job.
    pub most_s: Option<f64>,
    /// The limit of jobs that say none.
    pub default_s: Option<f64>,
    /// How its jobs are preempted.
    pub preempt: Option<QueuePreempts>,
    /// Queues whose limits count its jobs, in place of those that the jobs name.
    #[serde(default)]
    pub charges: Vec<String>,
    /// Queues whose jobs lose their GPUs to those of this one.
    #[serde(default)]
    pub preempts: Vec<String>,
    /// Time that a preempted job has.
    pub grace_s: Option<f64>,
    /// Not preempted before.
    pub least_run_s: Option<f64>,
    /// In which order jobs are looked at.
    pub order: Option<QueueOrder>,
    /// Who may use it.
    pub who: Option<Who>,
}

/// Nodes that are kept for some users.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// Its name.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<String>,
    /// GPUs.
    pub gpus: Option<u32>,
    /// From.
    pub from_s: f64,
    /// To.
    pub to_s: f64,
    /// Users.
    #[serde(default)]
    pub users: Vec<String>,
    /// Accounts.
    #[serde(default)]
    pub accounts: Vec<String>,
    /// Whether nodes go down.
    pub maintenance: Option<bool>,
    /// Whether running jobs are ended.
    pub over_running: Option<bool>,
    /// It comes again after.
    pub repeats_s: Option<f64>,
}

/// What the source does not tell.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unknown {
    /// A path: `jobs.level`.
    pub what: String,
    /// How many.
    pub count: Option<u32>,
    /// Why it waits, or why not.
    pub why: String,
}

/// What the source tells in vain.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ignored {
    /// What.
    pub what: String,
    /// How many.
    pub count: u32,
    /// Why it waits, or why not.
    pub why: Option<String>,
}

/// What could not be read.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// What.
    pub what: String,
    /// Its id.
    pub id: Option<String>,
    /// Why it waits, or why not.
    pub why: String,
}

/// A part of what was read.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// When.
    pub at_s: Option<f64>,
    /// Digest of what was read.
    pub blake3: Option<String>,
}

/// How the source schedules.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Scheduler {
    /// Its kind.
    pub kind: Option<String>,
    /// In which order jobs are looked at.
    pub order: Option<Order>,
    /// Whether later jobs may start first.
    pub backfill: Option<bool>,
    /// Time between two looks.
    pub tick_s: Option<f64>,
    /// Time between two looks of the backfill.
    pub backfill_tick_s: Option<f64>,
    /// When it last looked: its looks are so many ticks from there.
    pub backfilled_s: Option<f64>,
    /// What times are rounded to.
    pub resolution_s: Option<f64>,
    /// How far it looks ahead.
    pub window_s: Option<f64>,
    /// How many jobs it looks at.
    pub depth: Option<u32>,
    /// Which GPUs a gang gets.
    pub placement: Option<NodeChoice>,
    /// Whether jobs get CPU cores of their own; they do where it does not say.
    pub counts_cpus: Option<bool>,
    /// How priorities change; none: they do not.
    pub priority: Option<Multifactor>,
    /// Which jobs lose their GPUs to others, and begin anew later; none: no job does.
    pub preempts: Option<Preempts>,
}

/// An account that shares the cluster with others, or a user that shares an account with others.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Association {
    /// The account; none: the user is in none.
    pub account: Option<String>,
    /// The account that the account is in.
    pub within: Option<String>,
    /// The user; none: it is the account itself.
    pub user: Option<String>,
    /// Its shares.
    pub shares: Option<f64>,
    /// Decayed usage as the source counts it.
    pub used: Option<f64>,
    /// The fair-share factor, 0 to 1.
    pub factor: Option<f64>,
}

/// How priorities are made of the age of jobs and of what their users have used, by Slurm's priority/multifactor.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Multifactor {
    /// What a job's priority grows by as it waits.
    pub age: Option<f64>,
    /// Until it has waited so long.
    pub most_age_s: Option<f64>,
    /// What the user has more that has had least of its part.
    pub fair_share: Option<f64>,
    /// Whether users are ranked (Fair Tree).
    pub tree: Option<bool>,
    /// By what usage over shares is divided, where they are not.
    pub damping: Option<f64>,
    /// In which usage counts half as much; 0: it always counts.
    pub half_life_s: Option<f64>,
    /// Time between two computations.
    pub period_s: Option<f64>,
    /// Whether usage counts until a job ends.
    pub counts_ends: Option<bool>,
}

/// Whose names are pseudonyms.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pseudonyms {
    /// How.
    pub method: String,
    /// Whose, or what of.
    pub of: Vec<String>,
}

/// How jobs share the GPUs of a node.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeSharing {
    /// Which way.
    pub mode: SharingMode,
    /// Most jobs on a GPU.
    pub tenants: Option<u32>,
    /// Parts that GPUs are cut into.
    #[serde(default)]
    pub profiles: Vec<String>,
}

/// Who may use a queue.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Who {
    /// Users.
    #[serde(default)]
    pub users: Vec<String>,
    /// Accounts.
    #[serde(default)]
    pub accounts: Vec<String>,
    /// Qualities of service.
    #[serde(default)]
    pub qos: Vec<String>,
    /// Groups.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// `kind` of a source.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the document's own")]
pub enum SourceKind {
    Slurm,
    Kai,
    Kueue,
    Volcano,
    Kubernetes,
    Sandtable,
    Other,
}

/// `state` of a node.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the document's own")]
pub enum NodeState {
    #[default]
    Up,
    Down,
    Draining,
    Drained,
    Unknown,
}

/// `kind` of a queue.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the document's own")]
pub enum QueueKind {
    Partition,
    Qos,
    Association,
    Queue,
    ClusterQueue,
    Cohort,
    LocalQueue,
}

/// `preempt` of a queue.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the document's own")]
pub enum QueuePreempts {
    Off,
    Requeue,
    Suspend,
    Cancel,
    Checkpoint,
    Reclaim,
    LowerPriority,
}

impl QueuePreempts {
    /// Whether a job that is preempted so loses its GPUs; a suspended one keeps them.
    pub(super) fn frees(self) -> bool {
        matches!(self, QueuePreempts::Requeue | QueuePreempts::Cancel)
    }
}

/// `order` of a queue.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the document's own")]
pub enum QueueOrder {
    Strict,
    BestEffort,
}

/// `order` of a scheduler.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the document's own")]
pub enum Order {
    Fifo,
    Priority,
    FairShare,
    Queues,
}

/// `preempts` of a scheduler.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub enum Preempts {
    /// Those of queues of a lower tier.
    Tier,
    /// Those of the qualities of service that another's names.
    Qos,
}

/// `placement` of a scheduler.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the document's own")]
pub enum NodeChoice {
    Packed,
    Spread,
    First,
    Consolidate,
    Topology,
}

/// `mode` of a nodesharing.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the document's own")]
pub enum SharingMode {
    Exclusive,
    Shares,
    Packed,
    Mig,
}
