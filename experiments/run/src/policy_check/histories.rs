//! Random legal histories: a fleet, its jobs and its failures, drawn from a seed.

use std::path::Path;

use sandtable_core::error::Error;
use sandtable_core::output;
use sandtable_hardware::random::Stream;
use sandtable_inputs::profile;

/// What random histories have shown so far.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) ran: u64,
    pub(super) calls: u64,
    /// Most fuel of a call.
    pub(super) fuel: u64,
    /// Most bytes of memory.
    pub(super) memory: usize,
    /// Runs whose plans follow the seed.
    pub(super) follows: usize,
    /// Runs that gave other plans when they were repeated.
    pub(super) unlike: Vec<String>,
    /// Runs of a policy that is not called for ends while no job waits.
    pub(super) saving: u64,
    /// Those that had another schedule when it was.
    pub(super) woken: Vec<String>,
}

/// How a random history ended.
#[derive(Clone, Copy)]
pub(super) enum Ended {
    /// With all of its jobs, but for gangs wider than a node.
    All {
        /// How many of those there were.
        wide: usize,
    },
    /// In a way that is in the report.
    Reported,
    /// Not at all: nothing else can be tried.
    Never,
}

/// What jobs do to each other, and what they may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetKind {
    /// One job a GPU, two types of GPU at times, nodes that fail.
    Exclusive,
    /// Two jobs a GPU, with profiles, facts and every predictor.
    Shared,
    /// Jobs that grow, shrink and change their batch.
    Elastic,
    /// Jobs that take CPU and memory of their nodes, have a number of GPUs on each, and nodes of one rack.
    Nodes,
    /// Jobs of queues with guarantees, weights and limits.
    Queues,
    /// Jobs that ask for parts of GPUs.
    Parts,
    /// Jobs that ask for shares of GPUs, or for CPU and memory alone.
    CpuJobs,
}

/// The fitted profile of elastic workloads.
const POLLUX: &str = include_str!("../../../specs/profiles/pollux-fit.ron");

/// How jobs are spread over [`queues`].
const IN_QUEUES: &str = "queues: {\"a\": 2, \"b\": 1, \"c\": 1}, priorities: {0: 3, 1: 1}";

/// How jobs of one GPU are spread over its parts.
const PARTS: &str =
    "\"1g.5gb\": 3, \"1g.10gb\": 1, \"2g.10gb\": 2, \"3g.20gb\": 2, \"4g.20gb\": 1, \"7g.40gb\": 1, \"whole\": 1";

/// Owners who take nodes back every few hours.
const OWNED: &str = ", revocable: Revocable(held: \"3h\", away: \"10min\", notice: \"2min\")";

/// Two queues of a group and one more; every second group has a limit. Without one any policy may begin, and this one take over from it.
fn queues(seed: u64, limit: u64) -> String {
    let limit = if seed % 2 == 1 { format!(", limit: {limit}") } else { String::new() };
    format!(
        "queues: [Queue(name: \"lab\"{limit}), Queue(name: \"a\", parent: \"lab\", guaranteed: 1, weight: 2), \
         Queue(name: \"b\", parent: \"lab\"), Queue(name: \"c\", guaranteed: 1, priority: {})]",
        seed / 2 % 2
    )
}

/// Writes the profiles that histories name.
pub(super) fn write_profiles(folder: &Path) -> Result<(), Error> {
    let mut profile = profile::synthetic();
    profile.gpus[0].solo.values_mut().for_each(|solo| solo.throughput = [(1, 100.0), (4, 350.0)].into());
    let text = profile::write(&profile)?;
    for (name, text) in [("synthetic.ron", text.as_str()), ("pollux.ron", POLLUX)] {
        let path = folder.join(name);
        output::write(&path, text)?;
    }
    Ok(())
}

impl FleetKind {
    /// Every kind.
    pub const ALL: [FleetKind; 7] = [
        FleetKind::Exclusive,
        FleetKind::Shared,
        FleetKind::Elastic,
        FleetKind::Nodes,
        FleetKind::Queues,
        FleetKind::Parts,
        FleetKind::CpuJobs,
    ];

    /// A word for tables.
    pub fn name(self) -> &'static str {
        match self {
            FleetKind::Exclusive => "exclusive GPUs",
            FleetKind::Shared => "shared GPUs",
            FleetKind::Elastic => "elastic jobs",
            FleetKind::Nodes => "demands on nodes",
            FleetKind::Queues => "queues",
            FleetKind::Parts => "parts of GPUs",
            FleetKind::CpuJobs => "jobs without GPUs",
        }
    }

    /// The truth for every question.
    pub(super) fn oracles(self) -> &'static str {
        match self {
            FleetKind::Exclusive | FleetKind::Nodes | FleetKind::Queues | FleetKind::Parts | FleetKind::CpuJobs => {
                "\"remaining\": Oracle"
            }
            FleetKind::Shared => {
                "\"remaining\": Oracle, \"throughput\": Oracle, \"utilisation\": Oracle, \"memory\": Oracle, \
                 \"pair-speed\": Oracle, \"similarity\": Oracle"
            }
            FleetKind::Elastic => "\"remaining\": Oracle, \"steps\": Oracle",
        }
    }

    /// Answers that are far off.
    pub(super) fn noise(self) -> &'static str {
        match self {
            FleetKind::Exclusive | FleetKind::Nodes | FleetKind::Queues | FleetKind::Parts | FleetKind::CpuJobs => {
                "\"remaining\": Noisy(sigma: 2.0)"
            }
            FleetKind::Shared => {
                "\"remaining\": Noisy(sigma: 2.0), \"throughput\": Oracle, \"utilisation\": Noisy(sigma: 1.0), \
                 \"memory\": Noisy(sigma: 1.0), \"pair-speed\": Noisy(sigma: 1.0), \"similarity\": Noisy(sigma: 1.0)"
            }
            FleetKind::Elastic => "\"remaining\": Noisy(sigma: 2.0), \"steps\": Oracle",
        }
    }
}

/// The spec of a history.
pub(super) fn spec(kind: FleetKind, seed: u64, predictors: &str, with: &str) -> String {
    let mut stream = Stream::new(seed, kind.name());
    let mut below = |bound: u64| stream.integer() % bound;
    let nodes = 1 + below(4);
    let gpus = [2, 4, 8][below(3) as usize];
    let jobs = 12 + below(24);
    let load = ["0.5", "0.9", "1.5", "3.0"][below(4) as usize];
    let failing = below(2) == 1;
    let failures = if failing { ", failures: (mtbf: \"4h\", repair: \"10min\")" } else { "" };
    let two = below(2) == 1;
    // Most gangs fit a node, some need several; none is larger than the smaller type's part of the fleet.
    let gangs = if nodes > 1 { format!("1: 5, 2: 3, {}: 1", gpus * 2) } else { "1: 5, 2: 2".to_string() };
    let arrivals = if below(4) == 0 { "AtOnce".to_string() } else { format!("Poisson(load: {load})") };
    let costs = ["", "costs: Costs(start: \"5s\", checkpoint: \"10s\", restore: \"20s\"), "][below(2) as usize];
    let durations = "durations: LogNormal(median: \"10min\", sigma: 1.2)";
    let policy = format!(
        "policies: [Policy(name: \"./policy.wasm\", with: {with})], predictors: {{{predictors}}}, seeds: Range({seed}, {})",
        seed + 1
    );
    match kind {
        FleetKind::Exclusive => {
            let fleet = exclusive(nodes, gpus, two);
            format!(
                "Experiment(title: \"history\", fleet: Model({fleet}{failures}), {costs}reveal: [DeclaredRunTime], \
                 workload: Generate(jobs: {jobs}, arrivals: {arrivals}, {durations}, gpus: {{{gangs}}}), {policy})",
            )
        }
        FleetKind::Shared => format!(
            "Experiment(title: \"history\", fleet: Model(nodes: {nodes}, gpus: {gpus}, kind: \"RTX-3090\", sharing: Packed(2)), \
             {costs}profile: File(\"synthetic.ron\"), references: [\"small-cnn/b32\"], \
             reveal: [ModelFacts, SoloProfile, Memory, DeclaredRunTime], \
             workload: Generate(jobs: {jobs}, arrivals: {arrivals}, {durations}, gpus: {{1: 4, 2: 2}}), {policy})",
        ),
        FleetKind::Nodes => format!(
            "Experiment(title: \"history\", fleet: Model(nodes: {}, gpus: 4, kind: \"T4\", cpus: 32, host_memory: \"64GiB\", \
             levels: [Level(name: \"rack\", nodes: 2)], \
             maintenance: [Maintenance(nodes: [1], from: \"30min\", to: \"50min\", notice: \"20min\")]{}{failures}), {costs}reveal: [DeclaredRunTime], \
             workload: Generate(jobs: {jobs}, arrivals: {arrivals}, {durations}, gpus: {{1: 5, 2: 2, 4: 1}}, gpus_per_node: 2, \
             hosts: [Host(cpus: 4, memory: \"4GiB\", weight: 2), Host(cpus: 14.5, memory: \"20GiB\")], \
             near: Near({}: \"rack\")), {policy})",
            nodes + 1,
            if seed % 2 == 1 { OWNED } else { "" },
            if two { "required" } else { "preferred" },
        ),
        FleetKind::Queues => format!(
            "Experiment(title: \"history\", fleet: Model(nodes: {nodes}, gpus: {gpus}, kind: \"T4\"{failures}), {costs}reveal: [DeclaredRunTime], \
             {}, workload: Generate(jobs: {jobs}, arrivals: {arrivals}, {durations}, gpus: {{1: 5, 2: 2}}, {IN_QUEUES}), {policy})",
            queues(seed, 2 + nodes * gpus / 2),
        ),
        FleetKind::Parts => format!(
            "Experiment(title: \"history\", fleet: Model(nodes: {nodes}, gpus: {gpus}, kind: \"A100-SXM4-40GB\", sharing: Parts{failures}), \
             {costs}reveal: [DeclaredRunTime], workload: Generate(jobs: {}, arrivals: {arrivals}, {durations}, \
             gpus: {{1: 6, 2: 1}}, parts: {{{PARTS}}}), {policy})",
            2 * jobs,
        ),
        FleetKind::CpuJobs => {
            let fleet = format!("nodes: {nodes}, gpus: {gpus}, kind: \"T4\"{failures}");
            let drawn = format!("jobs: {}, arrivals: {arrivals}, {durations}", 2 * jobs);
            cpu_jobs(&fleet, &drawn, &format!("{costs}{policy}"))
        }
        FleetKind::Elastic => format!(
            "Experiment(title: \"history\", fleet: Model(nodes: {nodes}, gpus: 4, kind: \"T4\"), profile: File(\"pollux.ron\"), \
             costs: Costs(rescale: Constant(\"20s\"), checkpoint: \"5s\"), reveal: [DeclaredRunTime], \
             workload: Generate(jobs: {}, arrivals: Poisson(load: 0.8), gpus: {{1: 5, 2: 2, 4: 1}}, \
             workloads: {{\"cifar10\": 0.6, \"ncf\": 0.4}}), \
             {policy})",
            4 + jobs / 4,
        ),
    }
}

/// Nodes of one type of GPU, or as many of each of two.
fn exclusive(nodes: u64, gpus: u64, two: bool) -> String {
    match two {
        true => format!(
            "groups: [(nodes: {nodes}, gpus: {gpus}, kind: \"T4\"), (nodes: {nodes}, gpus: {gpus}, kind: \"V100-SXM2-16GB\")]"
        ),
        false => format!("nodes: {nodes}, gpus: {gpus}, kind: \"T4\""),
    }
}

/// Jobs that ask for shares of GPUs, or for CPU and memory alone.
fn cpu_jobs(fleet: &str, jobs: &str, rest: &str) -> String {
    format!(
        "Experiment(title: \"history\", fleet: Model({fleet}, cpus: 32, host_memory: \"64GiB\", sharing: Shares), \
         reveal: [DeclaredRunTime], workload: Generate({jobs}, gpus: {{0: 3, 1: 5, 2: 2}}, shares: {{200: 1, 500: 2, 1000: 2}}, \
         hosts: [Host(cpus: 4, memory: \"4GiB\", weight: 2), Host(cpus: 14.5, memory: \"20GiB\")]), {rest})"
    )
}
