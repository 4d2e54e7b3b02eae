//! The grammar of a spec's file. The root of this crate gives it its meaning.

mod claim;
mod expected;
pub(crate) mod json;
mod machines;
mod places;
mod queues;
mod serving;
mod sharing;
mod source;
mod state;
pub mod tree;
mod typed;
mod window;

use std::collections::BTreeMap;

use sandtable_core::units::{Bytes, Span};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;

pub use claim::{AtSpec, ClaimSpec, EachSpec, FigureSpec, HoldsSpec, ReferenceSpec};
pub use json::value_as_ron;
pub use machines::{
    DevicesSpec, FailuresSpec, FleetSpec, Group, LevelSpec, MaintenanceSpec, NodeListSpec, PartSpec, RevocableSpec,
};
pub use places::{Places, short_name};
pub use queues::QueueSpec;
pub use sandtable_inputs::state::Change;
pub use sandtable_inputs::trace::{
    Arrivals, Deadlines, DemandBursts, DemandSpec, Durations, Host, Near, QueueOf, TraceFormat,
};
pub use serving::{RescaleSpec, ServiceSpec, ServingSpec};
pub use sharing::{CommunicationSpec, InterferenceSpec, LawSpec, LinksSpec, ProfileSpec};
pub use source::Source;
pub use state::RunTimesSpec;
pub use window::{UntilSpec, WindowSpec};

/// An experiment.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "Experiment", deny_unknown_fields)]
pub struct Spec {
    /// What it asks, in a line.
    pub title: String,
    /// More about it.
    #[serde(default)]
    pub about: Option<String>,
    /// The machines.
    pub fleet: FleetSpec,
    /// What starting and stopping costs; nothing by default.
    #[serde(default)]
    pub costs: CostsSpec,
    /// What workloads do alone and beside each other.
    #[serde(default)]
    pub profile: Option<ProfileSpec>,
    /// How jobs on one GPU slow each other down.
    #[serde(default)]
    pub interference: InterferenceSpec,
    /// What exchanging gradients costs.
    #[serde(default)]
    pub communication: CommunicationSpec,
    /// Workloads of the profile that the site has measured: policies are told their facts and throughputs.
    #[serde(default)]
    pub references: Vec<String>,
    /// The kind of GPU on which durations hold, where kinds differ by throughputs or by the catalogue; by default one as fast as the geometric
    /// mean of the fleet's kinds.
    #[serde(default)]
    pub durations_on: Option<String>,
    /// Queues that share the GPUs, a group before those in it; none by default.
    #[serde(default)]
    pub queues: Vec<QueueSpec>,
    /// The jobs.
    pub workload: WorkloadSpec,
    /// Services beside them, and what is asked of those.
    #[serde(default)]
    pub serving: Option<ServingSpec>,
    /// How ties are broken, plans judged, and published simulators matched.
    #[serde(default)]
    pub semantics: SemanticsSpec,
    /// The policies: one result each.
    pub policies: Vec<PolicySpec>,
    /// What answers for each predicted quantity.
    #[serde(default)]
    pub predictors: BTreeMap<String, PredictorSpec>,
    /// What policies are told beside what every scheduler sees.
    #[serde(default)]
    pub reveal: Vec<RevealSpec>,
    /// The seeds: one result each; 0 by default.
    #[serde(default)]
    pub seeds: Option<SeedsSpec>,
    /// Values to try, by path: every combination. Read from the source, since a value may be anything.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Vec<serde_json::Value>>")]
    pub sweep: BTreeMap<String, Vec<IgnoredAny>>,
    /// The part of a run that is measured; from its beginning to the last submission by default.
    #[serde(default)]
    pub measure: Option<WindowSpec>,
    /// What a policy may use.
    #[serde(default)]
    pub limits: LimitsSpec,
    /// What a paper says, to be compared with what is measured.
    #[serde(default)]
    pub claims: Vec<ClaimSpec>,
    /// Values, by path, that cut the experiment down to a test.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub test: BTreeMap<String, IgnoredAny>,
}

/// Overheads.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "Costs", deny_unknown_fields)]
pub struct CostsSpec {
    /// GPUs held without progress at the first start.
    #[serde(default)]
    pub start: Option<Span>,
    /// GPUs held while a preempted job saves its state.
    #[serde(default)]
    pub checkpoint: Option<Span>,
    /// GPUs held without progress at a later start.
    #[serde(default)]
    pub restore: Option<Span>,
    /// GPUs held by a job that ran out of memory; a minute by default.
    #[serde(default)]
    pub relaunch: Option<Span>,
    /// Progress after which a job saves its state by itself.
    #[serde(default)]
    pub checkpoint_every: Option<Span>,
    /// What a change of an elastic job's GPUs costs; by default `start` at first, then `restore`.
    #[serde(default)]
    pub rescale: Option<RescaleSpec>,
    /// GPUs held without progress while an elastic job goes over to another batch.
    #[serde(default)]
    pub batch: Option<Span>,
}

/// Jobs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub enum WorkloadSpec {
    /// Drawn from the seed.
    Generate {
        /// How many.
        jobs: u32,
        /// When they come; independently at a load of 0.8 by default.
        #[serde(default)]
        arrivals: Arrivals,
        /// How long they run on a GPU of speed 1; by default as Philly's (log-normal, median 1058 s, sigma 2.13).
        #[serde(default)]
        durations: Durations,
        /// Weight of each gang size; Philly's mix by default. Gangs of 0 take what one GPU goes with in `hosts`.
        #[serde(default)]
        gpus: BTreeMap<u32, f64>,
        /// Weight of each workload of the profile; all alike by default.
        #[serde(default)]
        workloads: BTreeMap<String, f64>,
        /// Weight of each user; by default jobs have no user.
        #[serde(default)]
        users: BTreeMap<String, f64>,
        /// Users declare their job's run time times a log-normal error of this sigma; none: they declare nothing.
        #[serde(default)]
        declared: Option<f64>,
        /// When jobs should have ended; none: they have no deadlines.
        #[serde(default)]
        deadlines: Option<Deadlines>,
        /// Weight of each priority, a whole number of which the higher is more important; by default all have 0.
        #[serde(default)]
        priorities: BTreeMap<i32, f64>,
        /// Weight of each queue that jobs are submitted to; by default they are in none.
        #[serde(default)]
        queues: BTreeMap<String, f64>,
        /// Gangs of a multiple of this many GPUs have so many on each node; by default GPUs are split over nodes in any way.
        #[serde(default)]
        gpus_per_node: Option<u32>,
        /// CPU and memory that jobs take of their nodes for each GPU, with weights; nothing by default.
        #[serde(default)]
        hosts: Vec<Host>,
        /// How near to each other the nodes of gangs of several GPUs are; anywhere by default.
        #[serde(default)]
        near: Near,
        /// Weight of each share that jobs of one GPU ask for, in thousandths of it, 1 to 1000; by default they ask for all of it.
        #[serde(default)]
        shares: BTreeMap<u32, f64>,
        /// Weight of each part that jobs of one GPU ask for, where GPUs are cut into parts; `whole` is one that is not. By default they
        /// ask for whole GPUs.
        #[serde(default)]
        parts: BTreeMap<String, f64>,
    },
    /// Read from a file.
    Trace {
        /// Relative to the spec.
        file: String,
        /// Native by default.
        #[serde(default)]
        format: TraceFormat,
        /// The first so many.
        #[serde(default)]
        jobs: Option<u32>,
        /// Only rows whose column has this value.
        #[serde(default, rename = "where")]
        filter: BTreeMap<String, String>,
        /// For `Csv`: columns by what they hold.
        #[serde(default)]
        columns: BTreeMap<String, String>,
        /// For `Gavel`, `Shockwave` and `ElasticFlow`: the user's copy of the table of throughputs, relative to the spec.
        #[serde(default)]
        throughputs: Option<String>,
        /// For `Openb` and `Csv`: also jobs that ask for no GPU, which take CPU and memory of one node; left out by default.
        #[serde(default)]
        cpu_jobs: bool,
        /// What of the log the queue of a job is, in place of what the trace says of queues; a job without it is an error.
        #[serde(default)]
        queue: Option<QueueOf>,
        /// The jobs come one after the other and never end, until they ask for more GPUs than this; by default they come when the trace says.
        #[serde(default)]
        fill: Option<FillSpec>,
        /// Jobs are drawn from those of the trace, and come as this says; by default all come when the trace says.
        #[serde(default)]
        resample: Option<ResampleSpec>,
    },
    /// Written down.
    Jobs(Vec<JobSpec>),
    /// The jobs of a cluster at one instant: those that run go on where they are, those that wait wait. The run begins then, and its
    /// fleet is `Model(list: NodeList(file: …, format: State))`.
    State {
        /// A document `sandtable/state@1`, compressed or not; relative to the spec.
        file: String,
        /// How long jobs really take; as long as their limit by default.
        #[serde(default)]
        run_times: RunTimesSpec,
        /// What would be otherwise in the cluster; nothing by default. Of nodes too, where the fleet is of the same file.
        #[serde(default)]
        changes: Vec<Change>,
        /// Whether GPUs are shared out among the queues of the document, in place of those of the experiment; not by default.
        #[serde(default)]
        queues: bool,
        /// Whether jobs hold the CPU cores and the memory of nodes that they ask for beside GPUs, as far as the document says both: not by default, and only
        /// policies that follow them begin then. Jobs that ask for no GPU and run hold theirs until they end.
        #[serde(default)]
        hosts: bool,
        /// With `hosts`, whether jobs that ask for no GPU and wait for one node are in it too: not by default, and only policies that start them begin then.
        #[serde(default)]
        cpu_jobs: bool,
        /// The run ends so long after the document's instant, and what has not ended by then is unfinished; by default it goes on until all jobs have ended.
        #[serde(default)]
        until: Option<Span>,
        /// A later document of the cluster, compressed or not; relative to the spec. The run ends at its instant: jobs come until then and end as it shows, and
        /// the policy is asked what it would have begun. Without `until`, and of `run_times` only with the limit of jobs that have none.
        #[serde(default)]
        next: Option<String>,
    },
}

/// Jobs drawn from those of a trace by the seed, with replacement, each as likely as any other: as many as offer the load over the span. Those that ask for no GPU, or for more than the fleet's largest type has, are left out.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename = "Resample", deny_unknown_fields)]
pub struct ResampleSpec {
    /// For how long they come.
    pub span: Span,
    /// How they arrive; not `AtOnce`.
    pub arrivals: Arrivals,
    /// Jobs that ask for more GPUs are left out too.
    #[serde(default)]
    pub most_gpus: Option<u32>,
    /// Weight of each workload of the profile, for jobs of which the trace says none; by default they are of none.
    #[serde(default)]
    pub workloads: BTreeMap<String, f64>,
}

/// How jobs fill a cluster: in an order that the seed draws, each for 10,000 days. Where all together ask for less, jobs are drawn again until the next would
/// ask for too much; where they ask for more, those that do so alone and then the last are left out.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename = "Fill", deny_unknown_fields)]
pub struct FillSpec {
    /// GPUs that they ask for, over those of the fleet.
    pub share: f64,
    /// From one job to the next; a second by default.
    #[serde(default)]
    pub every: Option<Span>,
}

/// One job, written down.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "Job", deny_unknown_fields)]
pub struct JobSpec {
    /// When it is submitted, from the start of the experiment.
    pub submit: Span,
    /// 0: it takes CPU and memory of one node alone.
    pub gpus: u32,
    /// An elastic job has a batch instead.
    #[serde(default)]
    pub duration: Option<Span>,
    /// Samples of a step: then the job is elastic, as its workload is; or those of the first steps, where its workload changes its batch.
    #[serde(default)]
    pub batch: Option<u32>,
    /// It is a task of this service.
    #[serde(default)]
    pub service: Option<String>,
    /// What results call it; by default its place in the list.
    #[serde(default)]
    pub name: Option<String>,
    /// Names of GPU kinds of the fleet.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Whether its GPUs may be taken before it ends; they may by default.
    #[serde(default)]
    pub preemptible: Option<bool>,
    /// What its user says that it will take.
    #[serde(default)]
    pub declared: Option<Span>,
    /// When it should have ended, from the start of the experiment.
    #[serde(default)]
    pub deadline: Option<Span>,
    /// Higher is more important; 0 by default.
    #[serde(default)]
    pub priority: i32,
    /// The queue that it is submitted to, where the experiment has queues.
    #[serde(default)]
    pub queue: Option<String>,
    /// GPUs on each of its nodes; by default they are split over nodes in any way.
    #[serde(default)]
    pub gpus_per_node: Option<u32>,
    /// CPU cores that the whole gang takes of its nodes, each as large a part as it has of the GPUs.
    #[serde(default)]
    pub cpus: Option<f64>,
    /// Memory beside that of GPUs, likewise.
    #[serde(default)]
    pub host_memory: Option<Bytes>,
    /// How near to each other its nodes are.
    #[serde(default)]
    pub near: Option<Near>,
    /// A name of the profile.
    #[serde(default)]
    pub workload: Option<String>,
    /// Whose it is.
    #[serde(default)]
    pub user: Option<String>,
    /// Share of one GPU.
    #[serde(default)]
    pub share: Option<f64>,
    /// Name of the part of one GPU that it asks for, where GPUs are cut into parts.
    #[serde(default)]
    pub part: Option<String>,
    /// Device memory on each GPU.
    #[serde(default)]
    pub memory: Option<Bytes>,
}

/// Semantics of the host.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "Semantics", deny_unknown_fields)]
pub struct SemanticsSpec {
    /// The published simulator whose rules hold.
    #[serde(default)]
    pub preset: Option<String>,
    /// Which job comes first among those submitted at one instant.
    #[serde(default)]
    pub ties: Option<Ties>,
    /// What happens to an action that the rules forbid.
    #[serde(default)]
    pub judge: Option<Judge>,
}

/// Which job comes first among those submitted at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub enum Ties {
    /// The order of the trace.
    #[default]
    RowOrder,
    /// By the job's name.
    JobName,
    /// The shorter.
    ShortestFirst,
    /// The longer.
    LongestFirst,
    /// As the seed has it.
    Shuffled,
}

/// What happens to an action that the rules forbid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, serde::Serialize)]
pub enum Judge {
    /// The run fails.
    #[default]
    Strict,
    /// It is skipped, and the policy told.
    Lenient,
}

/// One policy.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "Policy", deny_unknown_fields)]
pub struct PolicySpec {
    /// A shipped policy, or with a slash, `.wasm` or `.star` a path relative to the spec: of a component, or of a script in Starlark.
    pub name: String,
    /// What results call it; its name by default.
    #[serde(default)]
    pub label: Option<String>,
    /// Its parameters.
    #[serde(default)]
    pub with: BTreeMap<String, serde_json::Value>,
    /// Its weights, where it wants some: with a slash a path relative to the spec, else a name in `policies/predictors/weights`.
    #[serde(default)]
    pub weights: Option<String>,
    /// When the jobs really started, where it wants to know, as `recorded` does.
    #[serde(default)]
    pub starts: Option<StartsSpec>,
    /// Instead of the experiment's.
    #[serde(default)]
    pub predictors: BTreeMap<String, PredictorSpec>,
}

/// When, and where, jobs really started.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub enum StartsSpec {
    /// As the log says of which the workload is a trace: its column `start_s`.
    Log,
    /// As a later document of the cluster shows whose state the workload is, or a trace with dates, such as what `sacct --parsable2` printed; a path
    /// relative to the spec.
    File(String),
}

/// What answers for a quantity.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub enum PredictorSpec {
    /// The truth.
    Oracle,
    /// The truth times a log-normal error whose mean is 1, one for each job.
    Noisy {
        /// Standard deviation of the error's logarithm, above 0.
        sigma: f64,
    },
    /// What the user declared, less the progress made.
    Declared,
    /// A predictor component.
    Component {
        /// A shipped predictor, or with a slash or `.wasm` a path relative to the spec.
        name: String,
        /// Its weights: a name in `policies/predictors/weights`, or with a slash a path relative to the spec.
        #[serde(default)]
        weights: Option<String>,
        /// Its parameters.
        #[serde(default)]
        with: BTreeMap<String, serde_json::Value>,
    },
}

/// Something that policies may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum RevealSpec {
    /// What the user said that the job would take.
    DeclaredRunTime,
    /// What running alone has shown of workloads.
    SoloProfile,
    /// What the computation graphs of workloads show.
    ModelFacts,
    /// The device memory that jobs need; the judge then holds policies to it.
    Memory,
    /// What part of their work jobs have done, and what of it they would lose if they were killed. Nothing is known of that on real
    /// GPUs.
    Progress,
}

/// Seeds.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub enum SeedsSpec {
    /// From the first up to, not including, the second.
    Range(u64, u64),
    /// These.
    List(Vec<u64>),
}

/// What a policy may use.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "Limits", deny_unknown_fields)]
pub struct LimitsSpec {
    /// Fuel of each `decide`.
    #[serde(default)]
    pub fuel: Option<u64>,
    /// Fuel of all calls of a run together; 10^13 by default.
    #[serde(default)]
    pub run_fuel: Option<u64>,
    /// Linear memory.
    #[serde(default)]
    pub memory: Option<Bytes>,
    /// Actions of one plan.
    #[serde(default)]
    pub actions: Option<u32>,
}
