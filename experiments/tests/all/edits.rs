//! What moves the identity of a cell: for every field of the spec's schema an edit that must move it, or must not. A new
//! field without an edit fails here.

mod examples;
mod files;
mod specs;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sandtable::plan::{Options, plan};
use serde_json::Value;

use crate::help::root;
use specs::{
    BEGINS, BEGUN, CATALOGUE, CHANGED, CHANGES, CUT, DRAWN, ELASTIC, FILLED, FILLS, KNOWN, KNOWS, LIVE, NOISES, NOISY,
    OF_A_LOG, PART, PLAIN, RESAMPLED, RESAMPLES, SERVED, SHARED, TABLE, UNIFORM, WRITTEN,
};

/// A spec, and edits of it: the field or case of the schema, the text that goes, and the text that comes.
type Edits = (&'static str, &'static [(&'static str, &'static str, &'static str)]);

/// Field or case of the schema, and what is written in its place: an edit that moves the identity.
const MOVES: &[Edits] = &[
    (FILLED, FILLS),
    (BEGUN, BEGINS),
    (CHANGED, CHANGES),
    (NOISY, NOISES),
    (KNOWN, KNOWS),
    (RESAMPLED, RESAMPLES),
    (DRAWN, &[("WorkloadSpec.Generate.shares", "shares: {300: 1, 1000: 1}, ", "")]),
    (
        SHARED,
        &[
            ("Experiment.communication", "communication: Communication(overlap: 0.25, latency: 0.0001),", ""),
            ("Communication.overlap", "overlap: 0.25", "overlap: 0.5"),
            ("Communication.latency", "latency: 0.0001", "latency: 0.0002"),
            ("Experiment.costs", "start: \"5s\", checkpoint: \"6s\",", ""),
            ("Costs.start", "start: \"5s\"", "start: \"6s\""),
            ("Costs.checkpoint", "checkpoint: \"6s\"", "checkpoint: \"9s\""),
            ("Costs.restore", "restore: \"7s\"", "restore: \"9s\""),
            ("Costs.relaunch", "relaunch: \"8s\"", "relaunch: \"9s\""),
            ("Costs.checkpoint_every", "checkpoint_every: \"10min\"", "checkpoint_every: \"11min\""),
            ("Costs.batch", "batch: \"1ms\"", "batch: \"2ms\""),
            ("Experiment.durations_on", "durations_on: \"V100-SXM2-16GB\",", ""),
            ("Experiment.fleet", "nodes: 4, gpus: 4", "nodes: 3, gpus: 4"),
            ("FleetSpec.Model.nodes", "nodes: 4", "nodes: 3"),
            ("FleetSpec.Model.gpus", "gpus: 4", "gpus: 2"),
            ("FleetSpec.Model.failures", "failures: Failures(mtbf: \"40h\", repair: \"1h\"),", ""),
            ("Failures.mtbf", "mtbf: \"40h\"", "mtbf: \"41h\""),
            ("Failures.repair", "repair: \"1h\"", "repair: \"2h\""),
            ("FleetSpec.Model.levels", "levels: [Level(name: \"rack\", nodes: 2)],", ""),
            ("Level.name", "Level(name: \"rack\"", "Level(name: \"row\""),
            ("Level.nodes", "nodes: 2)", "nodes: 1)"),
            (
                "FleetSpec.Model.maintenance",
                "[Maintenance(nodes: [0], from: \"2h\", to: \"3h\", notice: \"1h\")]",
                "[]",
            ),
            ("Maintenance.nodes", "nodes: [0]", "nodes: [1]"),
            ("Maintenance.domain", "nodes: [0]", "domain: (\"rack\", 0)"),
            ("Maintenance.from", "from: \"2h\"", "from: \"1h\""),
            ("Maintenance.to", "to: \"3h\"", "to: \"4h\""),
            ("Maintenance.notice", "notice: \"1h\"", "notice: \"2h\""),
            ("FleetSpec.Model.cpus", "cpus: 16", "cpus: 16.5"),
            ("FleetSpec.Model.host_memory", "host_memory: \"64GiB\"", "host_memory: \"65GiB\""),
            ("FleetSpec.Model.revocable", "revocable: Revocable(held: \"50h\", away: \"2h\", notice: \"3min\"),", ""),
            ("Revocable.held", "held: \"50h\"", "held: \"51h\""),
            ("Revocable.away", "away: \"2h\"", "away: \"3h\""),
            ("Revocable.notice", "notice: \"3min\"", "notice: \"4min\""),
            ("FleetSpec.Model.sharing", "Packed(2)", "Packed(3)"),
            ("FleetSpec.Model.links", "links: NvlinkPairs, network: 1.5,", ""),
            ("LinksSpec.NvlinkPairs", "NvlinkPairs", "Pcie"),
            ("LinksSpec.Pcie", "NvlinkPairs", "Pcie"),
            ("LinksSpec.Matrix", "NvlinkPairs", "Matrix([[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]])"),
            ("FleetSpec.Model.network", "network: 1.5", "network: 2.5"),
            (
                "Experiment.interference",
                "interference: Interference(law: Profile, scale: 1.25, noise: true, mode: TimeSlice),",
                "",
            ),
            ("Interference.law", "law: Profile", "law: Fitted"),
            ("LawSpec.Profile", "law: Profile", "law: Fitted"),
            ("LawSpec.Fitted", "law: Profile", "law: Fitted"),
            ("LawSpec.Constant", "law: Profile, scale: 1.25, noise: true", "law: Constant(0.5), scale: 1.25"),
            ("LawSpec.Zero", "law: Profile, scale: 1.25, noise: true", "law: Zero, scale: 1.25"),
            ("Interference.scale", "scale: 1.25", "scale: 1.5"),
            ("Interference.noise", "noise: true", "noise: false"),
            ("Experiment.limits", "fuel: 1000000000", "fuel: 2000000000"),
            ("Limits.fuel", "fuel: 1000000000", "fuel: 2000000000"),
            ("Limits.run_fuel", "run_fuel: 90000000000", "run_fuel: 80000000000"),
            ("Limits.memory", "memory: \"100MiB\"", "memory: \"90MiB\""),
            ("Limits.actions", "actions: 900", "actions: 901"),
            ("Experiment.policies", "clwp-nlwp", "similarity"),
            ("Policy.name", "clwp-nlwp", "similarity"),
            ("Policy.with", "\"delta\": 0.1", "\"delta\": 0.2"),
            ("Policy.predictors", ", predictors: {\"pair-speed\": Noisy(sigma: 0.25)}", ""),
            ("PredictorSpec.Noisy.sigma", "Noisy(sigma: 0.25)", "Noisy(sigma: 0.5)"),
            ("Experiment.predictors", "\"utilisation\": Oracle", ""),
            ("PredictorSpec.Oracle", "\"utilisation\": Oracle", "\"utilisation\": Noisy(sigma: 0.5)"),
            ("PredictorSpec.Component.name", "Component(name: \"iasp\", with: {})", "Component(name: \"cosine\")"),
            (
                "PredictorSpec.Component.weights",
                "name: \"iasp\"",
                "name: \"iasp\", weights: \"iasp-gavel-fit-held-out.json\"",
            ),
            (
                "PredictorSpec.Component.with",
                "\"similarity\": Component(name: \"iasp\", with: {})",
                "\"similarity\": Component(name: \"bias\", with: {\"a\": 1})",
            ),
            ("Experiment.references", "references: [\"A3C\"]", "references: [\"CycleGAN\"]"),
            ("Experiment.reveal", "reveal: [SoloProfile, ModelFacts, Progress]", "reveal: []"),
            ("RevealSpec.SoloProfile", "[SoloProfile, ModelFacts, Progress]", "[ModelFacts, Progress]"),
            ("RevealSpec.ModelFacts", "[SoloProfile, ModelFacts, Progress]", "[SoloProfile, Progress]"),
            ("RevealSpec.Progress", "[SoloProfile, ModelFacts, Progress]", "[SoloProfile, ModelFacts]"),
            ("Policy.weights", "weights: \"iasp-synthetic.json\", ", ""),
            ("Experiment.seeds", "Range(3, 9)", "Range(4, 9)"),
            ("SeedsSpec.Range", "Range(3, 9)", "Range(4, 9)"),
            ("SeedsSpec.List", "Range(3, 9)", "List([4])"),
            ("Experiment.semantics", "ties: Shuffled", "ties: JobName"),
            ("Semantics.ties", "ties: Shuffled", "ties: JobName"),
            ("Ties.RowOrder", "ties: Shuffled", "ties: RowOrder"),
            ("Ties.JobName", "ties: Shuffled", "ties: JobName"),
            ("Ties.ShortestFirst", "ties: Shuffled", "ties: ShortestFirst"),
            ("Ties.LongestFirst", "ties: Shuffled", "ties: LongestFirst"),
            ("Ties.Shuffled", "ties: Shuffled", "ties: RowOrder"),
            ("Semantics.judge", "judge: Strict", "judge: Lenient"),
            ("Judge.Strict", "judge: Strict", "judge: Lenient"),
            ("Judge.Lenient", "judge: Strict", "judge: Lenient"),
            ("Experiment.workload", "jobs: 5", "jobs: 6"),
            ("WorkloadSpec.Generate.jobs", "jobs: 5", "jobs: 6"),
            ("WorkloadSpec.Generate.arrivals", "Poisson(load: 0.5)", "AtOnce"),
            ("Arrivals.AtOnce", "Poisson(load: 0.5)", "AtOnce"),
            ("Arrivals.Poisson.load", "load: 0.5", "load: 0.6"),
            ("Arrivals.Bursts.load", "Poisson(load: 0.5)", "Bursts(load: 0.5, size: 2)"),
            ("Arrivals.Bursts.size", "Poisson(load: 0.5)", "Bursts(load: 0.5, size: 3)"),
            ("Arrivals.Diurnal.load", "Poisson(load: 0.5)", "Diurnal(load: 0.5, peak: 2)"),
            ("Arrivals.Diurnal.peak", "Poisson(load: 0.5)", "Diurnal(load: 0.5, peak: 1.5)"),
            ("WorkloadSpec.Generate.durations", "sigma: 1.0", "sigma: 1.5"),
            ("Durations.LogNormal.median", "median: \"10min\"", "median: \"11min\""),
            ("Durations.LogNormal.sigma", "sigma: 1.0", "sigma: 1.5"),
            ("Durations.LogNormal.least", "least: \"1min\"", "least: \"2min\""),
            ("Durations.LogNormal.most", "most: \"2h\"", "most: \"3h\""),
            ("WorkloadSpec.Generate.gpus", "{1: 2, 2: 1}", "{1: 2, 2: 2}"),
            ("WorkloadSpec.Generate.workloads", "\"CycleGAN\": 1", "\"CycleGAN\": 2"),
            ("WorkloadSpec.Generate.users", "\"v\": 1", "\"w\": 1"),
            ("WorkloadSpec.Generate.declared", "declared: 0.5", "declared: 0.6"),
            ("WorkloadSpec.Generate.deadlines", "deadlines: Deadlines(least: 0.5, most: 1.5, share: 0.5),", ""),
            ("WorkloadSpec.Generate.priorities", "{0: 3, 1: 1}", "{0: 3, 2: 1}"),
            ("WorkloadSpec.Generate.queues", "\"x\": 2", "\"x\": 3"),
            ("WorkloadSpec.Generate.gpus_per_node", "gpus_per_node: 2", "gpus_per_node: 1"),
            ("WorkloadSpec.Generate.hosts", ", Host(cpus: 2)", ""),
            ("Host.cpus", "Host(cpus: 2)", "Host(cpus: 3)"),
            ("Host.memory", "memory: \"1GiB\"", "memory: \"2GiB\""),
            ("Host.weight", "weight: 2", "weight: 3"),
            ("WorkloadSpec.Generate.near", "near: Near()", "near: Near(required: \"rack\")"),
            ("Near.required", "near: Near()", "near: Near(required: \"rack\")"),
            ("Near.preferred", "near: Near()", "near: Near(preferred: \"rack\")"),
            ("Deadlines.least", "least: 0.5", "least: 0.6"),
            ("Deadlines.most", "most: 1.5", "most: 1.6"),
            ("Deadlines.share", "share: 0.5", "share: 0.6"),
        ],
    ),
    (CATALOGUE, &[("LawSpec.Utilisation", "law: Profile", "law: Utilisation(0.5)")]),
    (
        CUT,
        &[
            (
                "FleetSpec.Model.parts",
                "\"large\": Part(slices: 2",
                "\"huge\": Part(slices: 4, starts: [0]), \"large\": Part(slices: 2",
            ),
            ("Part.slices", "slices: 1", "slices: 2"),
            ("Part.memory", "4GiB", "5GiB"),
            ("Part.starts", "starts: [0, 1]", "starts: [0]"),
            ("WorkloadSpec.Generate.parts", "\"large\": 1", "\"large\": 3"),
        ],
    ),
    (PART, &[("Job.part", "3g.20gb", "4g.20gb")]),
    (
        PLAIN,
        &[
            ("FleetSpec.Model.kind", "kind: \"mine\"", "kind: \"thine\""),
            ("Experiment.measure", "measure: Window(warm_up: \"1min\", until: LastArrival),", ""),
            ("Window.warm_up", "warm_up: \"1min\"", "warm_up: \"2min\""),
            ("Window.until", "until: LastArrival", "until: AllEnded"),
            ("UntilSpec.LastArrival", "until: LastArrival", "until: AllEnded"),
            ("UntilSpec.AllEnded", "until: LastArrival", "until: AllEnded"),
            ("UntilSpec.At", "until: LastArrival", "until: At(\"1h\")"),
            ("FleetSpec.Model.speed", "speed: 1.5", "speed: 2.5"),
            ("Sharing.Shares", "speed: 1.5", "speed: 1.5, sharing: Shares"),
            ("FleetSpec.Model.memory", "memory: \"16GiB\"", "memory: \"17GiB\""),
            ("FleetSpec.Model.slots", "speed: 1.5", "speed: 1.5, slots: 2"),
            ("Semantics.preset", "tiresias-count", "lucid-consolidate"),
            ("Durations.Fixed", "Fixed(\"1h\")", "Fixed(\"2h\")"),
            ("Durations.Empirical", "Fixed(\"1h\")", "Empirical([\"1h\", \"2h\"])"),
            ("Durations.Pareto.least", "Fixed(\"1h\")", "Pareto(least: \"1h\", shape: 2.0)"),
            ("Durations.Pareto.shape", "Fixed(\"1h\")", "Pareto(least: \"1h\", shape: 3.0)"),
        ],
    ),
    (
        WRITTEN,
        &[
            ("FleetSpec.Model.groups", "nodes: 1, gpus: 4", "nodes: 2, gpus: 4"),
            ("Group.nodes", "nodes: 2", "nodes: 3"),
            ("Group.gpus", "nodes: 2, gpus: 4", "nodes: 2, gpus: 2"),
            ("Group.kind", "kind: \"T4\"", "kind: \"K80\""),
            ("Group.speed", "speed: 1.5", "speed: 2.5"),
            ("Group.memory", "memory: \"16GiB\"", "memory: \"17GiB\""),
            ("Group.cpus", "speed: 1.5", "speed: 1.5, cpus: 8"),
            ("Group.host_memory", "speed: 1.5", "speed: 1.5, host_memory: \"8GiB\""),
            ("Group.revocable", "speed: 1.5", "speed: 1.5, revocable: Revocable(held: \"50h\", away: \"2h\")"),
            ("Group.pool", "speed: 1.5", "speed: 1.5, pool: Inference"),
            ("WorkloadSpec.Jobs", "duration: \"1h\"", "duration: \"2h\""),
            ("Job.submit", "submit: \"1s\", gpus: 1, duration: \"3s\"", "submit: \"2s\", gpus: 1, duration: \"3s\""),
            ("Job.gpus", "gpus: 1, duration: \"3s\"", "gpus: 2, duration: \"3s\""),
            ("Job.duration", "duration: \"1h\"", "duration: \"2h\""),
            ("Job.name", "name: \"n\"", "name: \"m\""),
            ("Job.kinds", "kinds: [\"mine\"], ", ""),
            ("Job.preemptible", "preemptible: false", "preemptible: true"),
            ("Job.declared", "declared: \"2h\"", "declared: \"3h\""),
            ("Job.user", "user: \"u\"", "user: \"v\""),
            ("Job.gpus_per_node", "user: \"u\"", "user: \"u\", gpus_per_node: 1"),
            ("Job.cpus", "user: \"u\"", "user: \"u\", cpus: 0.5"),
            ("Job.host_memory", "user: \"u\"", "user: \"u\", host_memory: \"1GiB\""),
            ("Job.near", "user: \"u\"", "user: \"u\", near: Near(required: \"rack\")"),
            ("Job.deadline", "user: \"u\"", "user: \"u\", deadline: \"9h\""),
            ("Job.priority", "user: \"u\"", "user: \"u\", priority: -1"),
            ("Job.queue", "queue: \"a\"", "queue: \"b\""),
            ("Experiment.queues", "Queue(name: \"b\"),", "Queue(name: \"c\"), Queue(name: \"b\"),"),
            ("Queue.name", "name: \"b\"", "name: \"c\""),
            ("Queue.parent", "parent: \"lab\", ", ""),
            ("Queue.guaranteed", "guaranteed: 1", "guaranteed: 2"),
            ("Queue.weight", "weight: 2", "weight: 3"),
            ("Queue.limit", "priority: 1", "priority: 1, limit: 9"),
            ("Queue.priority", "priority: 1", "priority: 2"),
            ("Job.share", "share: 0.5", "share: 0.25"),
            ("Job.memory", "memory: \"1GiB\"", "memory: \"2GiB\""),
            ("PredictorSpec.Declared", "{\"remaining\": Declared}", "{}"),
            ("RevealSpec.DeclaredRunTime", "[DeclaredRunTime, Memory]", "[Memory]"),
            ("RevealSpec.Memory", "[DeclaredRunTime, Memory]", "[DeclaredRunTime]"),
        ],
    ),
    (
        SERVED,
        &[
            ("Job.service", ", service: \"a\"", ""),
            ("Experiment.serving", "cold_start: \"6s\"", "cold_start: \"7s\""),
            (
                "Serving.services",
                "{\"a\": Service(cold_start: \"6s\", slo: \"10s\")",
                "{\"b\": Service(cold_start: \"6s\"), \"a\": Service(cold_start: \"6s\", slo: \"10s\")",
            ),
            ("Service.cold_start", "cold_start: \"6s\"", "cold_start: \"7s\""),
            ("Service.slo", "slo: \"10s\"", "slo: \"11s\""),
            ("Serving.keeps_models", "keeps_models: true", "keeps_models: false"),
        ],
    ),
    (
        ELASTIC,
        &[
            ("Job.workload", "workload: \"cifar10\"", "workload: \"ncf\""),
            ("Job.batch", "batch: 128", "batch: 256"),
            ("Costs.rescale", "Afe", "Full"),
            ("RescaleSpec.Afe", "Afe", "Full"),
            ("RescaleSpec.Full", "Afe", "Full"),
            ("RescaleSpec.Constant", "Afe", "Constant(\"30s\")"),
            ("Serving.demand", "trough: 1", "trough: 2"),
            ("DemandSpec.Diurnal.trough", "trough: 1", "trough: 2"),
            ("DemandSpec.Diurnal.peak", "peak: 4", "peak: 5"),
            ("DemandSpec.Diurnal.period", "period: \"1h\"", "period: \"2h\""),
            ("DemandSpec.Diurnal.over", "over: \"2h\"", "over: \"3h\""),
            ("DemandSpec.Diurnal.seconds", "(20, 200)", "(20, 300)"),
            ("DemandSpec.Diurnal.bursts", "bursts: Bursts(every: \"20min\", lasting: \"1min\", times: 1.5),", ""),
            ("Bursts.every", "every: \"20min\"", "every: \"21min\""),
            ("Bursts.lasting", "lasting: \"1min\"", "lasting: \"2min\""),
            ("Bursts.times", "times: 1.5", "times: 2.5"),
        ],
    ),
    (
        UNIFORM,
        &[
            ("Experiment.profile", "profile: File(\"PROFILES/pollux-fit.ron\")", "profile: File(\"other.ron\")"),
            ("ProfileSpec.File", "profile: File(\"PROFILES/pollux-fit.ron\")", "profile: File(\"other.ron\")"),
            ("DemandSpec.Uniform.tasks", "tasks: 20", "tasks: 21"),
            ("DemandSpec.Uniform.over", "over: \"1h\"", "over: \"2h\""),
            ("DemandSpec.Uniform.seconds", "(2, 9)", "(2, 10)"),
            (
                "DemandSpec.Recorded",
                ", demand: Uniform(tasks: 20, over: \"1h\", seconds: (2, 9))",
                ", demand: Recorded",
            ),
        ],
    ),
    (
        TABLE,
        &[
            ("WorkloadSpec.Trace.file", "t.csv", "u.csv"),
            ("WorkloadSpec.Trace.jobs", "jobs: 3", "jobs: 2"),
            ("WorkloadSpec.Trace.queue", "\"s\"}", "\"s\", \"user\": \"vc\"}, queue: User"),
            ("QueueOf.User", "\"s\"}", "\"s\", \"user\": \"vc\"}, queue: User"),
            ("QueueOf.Partition", "\"s\"}", "\"s\", \"partition\": \"vc\"}, queue: Partition"),
            ("QueueOf.Account", OF_A_LOG, "file: \"a.txt\", format: Sacct, queue: Account,"),
            ("QueueOf.Qos", OF_A_LOG, "file: \"a.txt\", format: Sacct, queue: Qos,"),
            ("WorkloadSpec.Trace.where", "where: {\"vc\": \"a\"}", "where: {\"vc\": \"b\"}"),
            ("WorkloadSpec.Trace.columns", "\"duration\": \"s\"", "\"duration\": \"n\""),
        ],
    ),
    (
        LIVE,
        &[
            ("DevicesSpec.StandIn", "StandIn(2)", "StandIn(1)"),
            ("FleetSpec.Nvidia.devices", "StandIn(2)", "StandIn(1)"),
            ("FleetSpec.Nvidia.slots", "slots: 1, sharing: Packed(2)", "slots: 2"),
            ("FleetSpec.Nvidia.sharing", "Packed(2)", "Exclusive"),
            ("Sharing.Exclusive", "Packed(2)", "Exclusive"),
            ("Sharing.Packed", "Packed(2)", "Packed(3)"),
            ("FleetSpec.Nvidia.commands", "[\"true\"]", "[\"false\"]"),
            ("FleetSpec.Nvidia.environment", "[\"A\"]", "[\"B\"]"),
            ("FleetSpec.Nvidia.file_size", "file_size: \"1GiB\"", "file_size: \"2GiB\""),
            ("FleetSpec.Nvidia.preempt", "[Save]", "[Kill]"),
            ("FleetSpec.Nvidia.quiet", "quiet: \"3s\"", "quiet: \"4s\""),
            ("FleetSpec.Nvidia.patience", "patience: \"4s\"", "patience: \"5s\""),
            ("FleetSpec.Nvidia.limit", "limit: \"5min\"", "limit: \"6min\""),
            ("FleetSpec.Nvidia.decide", "decide: \"6s\"", "decide: \"7s\""),
        ],
    ),
];

/// Edits that must not move it: words, claims about it, and what only chooses cells.
const STAYS: &[Edits] = &[
    (
        SHARED,
        &[
            ("Experiment.title", "title: \"a\"", "title: \"c\""),
            ("Experiment.about", "about: \"b\"", "about: \"c\""),
            ("Experiment.claims", "says: \"s\"", "says: \"t\""),
            ("Claim.says", "says: \"s\"", "says: \"t\""),
            ("Claim.metric", "jct_mean_s", "makespan_s"),
            ("Claim.published", "published: 0.5, ", "published: (0.25, 0.5), "),
            ("Claim.reference", "reference: Reference(value: 0.5, by: \"c\"),", ""),
            ("Reference.value", "value: 0.5", "value: 0.75"),
            ("Reference.by", "by: \"c\"", "by: \"d\""),
            ("Claim.holds", "AtMost(0.5)", "AtLeast(0.5)"),
            ("HoldsSpec.AtMost", "AtMost(0.5)", "AtMost(0.6)"),
            ("HoldsSpec.AtLeast", "AtMost(0.5)", "AtLeast(0.5)"),
            ("HoldsSpec.Between", "AtMost(0.5)", "Between(0.5, 0.6)"),
            ("Claim.at", "at: {}", "at: Each"),
            ("EachSpec.Each", "at: {}", "at: Each"),
            ("Claim.over", ", over: []", ""),
            ("Experiment.test", "\"workload.jobs\": 2", "\"workload.jobs\": 3"),
        ],
    ),
    (
        PLAIN,
        &[
            ("Policy.label", "name: \"fifo\"", "name: \"fifo\", label: \"x\""),
            ("Experiment.sweep", "policies:", "sweep: {\"workload.jobs\": [5, 6]}, policies:"),
            (
                "Claim.of",
                "policies:",
                "claims: [Claim(says: \"s\", of: \"fifo\", metric: \"jct_mean_s\", holds: AtMost(1))], policies:",
            ),
            (
                "Claim.against",
                "policies:",
                "claims: [Claim(says: \"s\", of: \"fifo\", against: \"fifo\", metric: \"jct_mean_s\", holds: AtMost(1))], policies:",
            ),
        ],
    ),
    (LIVE, &[("FleetSpec.Nvidia.shared", "shared: false", "shared: true")]),
];

/// What needs files that a test here does not have, or a machine. Of a trace in any format the jobs that were read are in the
/// identity, of a profile what it says.
const ELSEWHERE: &[&str] = &[
    "Sharing.Parts",
    "DevicesSpec.All",
    "DevicesSpec.Only",
    "DevicesSpec.Count",
    "FleetSpec.Replay",
    "Interference.mode",
    "LawSpec.Stages",
    "ProfileSpec.Gavel",
    "ProfileSpec.GavelSimulation",
    "ProfileSpec.Inline",
    "ProfileSpec.Lucid",
    "ProfileSpec.Pollux",
    "ProfileSpec.Shockwave",
    "ProfileSpec.ElasticFlow",
    "ProfileSpec.Muri",
    "ProfileSpec.Throughputs",
    "ProfileSpec.Torchvision.file",
    "ProfileSpec.Torchvision.precision",
    "TraceFormat.Csv",
    "TraceFormat.Gavel",
    "TraceFormat.Lucid",
    "TraceFormat.Muri",
    "TraceFormat.MuriSteps",
    "TraceFormat.Native",
    "TraceFormat.Openb",
    "TraceFormat.Pai",
    "TraceFormat.Philly",
    "TraceFormat.Pollux",
    "TraceFormat.Sacct",
    "TraceFormat.Shockwave",
    "TraceFormat.ElasticFlow",
    "TraceFormat.Swf",
    "TraceFormat.Tiresias",
    "WorkloadSpec.Trace.format",
    "WorkloadSpec.Trace.throughputs",
];

/// Fields and cases of the schema: `Type.field`, `Type.Case`, `Type.Case.field`.
fn points() -> BTreeSet<String> {
    fn of(name: &str, schema: &Value, found: &mut BTreeSet<String>) {
        let fields = |at: &Value| at["properties"].as_object().cloned().unwrap_or_default();
        for field in fields(schema).keys() {
            found.insert(format!("{name}.{field}"));
        }
        let cases = ["oneOf", "anyOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten();
        for case in cases {
            let named = case["enum"].as_array().into_iter().flatten().chain([&case["const"]]).filter_map(Value::as_str);
            found.extend(named.map(|case| format!("{name}.{case}")));
            for (case, inner) in fields(case) {
                let inner = fields(&inner);
                if inner.is_empty() {
                    found.insert(format!("{name}.{case}"));
                }
                found.extend(inner.keys().map(|field| format!("{name}.{case}.{field}")));
            }
        }
        for case in schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            found.insert(format!("{name}.{case}"));
        }
    }
    let here = tempfile::tempdir().expect("a folder");
    let schema = crate::help::sandtable(here.path(), &["reference", "spec"]).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let mut found = BTreeSet::new();
    of("Experiment", &schema, &mut found);
    for (name, schema) in schema["$defs"].as_object().expect("definitions") {
        of(name, schema, &mut found);
    }
    found
}

/// The identity of the first cell.
fn id(folder: &Path, spec: &str) -> Result<String, String> {
    let path = folder.join("spec.ron");
    let profiles = root().join("experiments/specs/profiles").display().to_string();
    std::fs::write(&path, spec.replace("PROFILES", &profiles)).expect("written");
    let options = Options { policies: Some(root().join("policies/dist")), ..Options::default() };
    plan(&path, &options).map(|plan| plan.cells[0].id.clone()).map_err(|error| error.to_string())
}

#[test]
fn every_field_of_a_spec_is_edited_here() {
    let mut edited: BTreeMap<&str, u32> = ELSEWHERE.iter().map(|point| (*point, 1)).collect();
    for (point, ..) in MOVES.iter().chain(STAYS).flat_map(|(_, edits)| *edits) {
        *edited.entry(point).or_default() += 1;
    }
    let points = points();
    let edited: BTreeSet<String> = edited.keys().map(ToString::to_string).collect();
    let missing: Vec<&String> = points.difference(&edited).collect();
    let unknown: Vec<&String> = edited.difference(&points).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "without an edit: {missing:?}; not in the schema: {unknown:?}");
}

#[test]
fn the_identity_is_what_moves_the_result_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    files::write(folder.path());
    let mut wrong = Vec::new();
    for (edits, moves) in [(MOVES, true), (STAYS, false)] {
        for (base, edits) in edits {
            let first = id(folder.path(), base).unwrap_or_else(|error| panic!("{error}\n{base}"));
            for (point, from, to) in *edits {
                assert!(base.contains(from), "{point}: {from:?} is not in its spec");
                match id(folder.path(), &base.replacen(from, to, 1)) {
                    Ok(found) if (found != first) == moves => {}
                    Ok(_) => wrong.push(format!("{point}: {to:?} {}", if moves { "stays" } else { "moves" })),
                    Err(error) => wrong.push(format!("{point}: {to:?}: {error}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
