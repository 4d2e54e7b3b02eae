//! The specs of which fields are edited: together they say all that a spec may.

/// Sharing, interference, communication, predictors, failures: all that a model of one's own may say.
pub(super) const SHARED: &str = r#"Experiment(
    title: "a", about: "b",
    fleet: Model(
        nodes: 4, gpus: 4, kind: "V100-SXM2-16GB", failures: Failures(mtbf: "40h", repair: "1h"), levels: [Level(name: "rack", nodes: 2)],
        cpus: 16, host_memory: "64GiB", revocable: Revocable(held: "50h", away: "2h", notice: "3min"),
        maintenance: [Maintenance(nodes: [0], from: "2h", to: "3h", notice: "1h")],
        sharing: Packed(2), links: NvlinkPairs, network: 1.5, slots: 1,
    ),
    profile: File("PROFILES/gavel-fit.ron"),
    interference: Interference(law: Profile, scale: 1.25, noise: true, mode: TimeSlice),
    communication: Communication(overlap: 0.25, latency: 0.0001),
    references: ["A3C"],
    durations_on: "V100-SXM2-16GB",
    workload: Generate(
        jobs: 5, arrivals: Poisson(load: 0.5), durations: LogNormal(median: "10min", sigma: 1.0, least: "1min", most: "2h"),
        gpus: {1: 2, 2: 1}, workloads: {"A3C": 2, "CycleGAN": 1}, users: {"u": 1, "v": 1}, declared: 0.5,
        deadlines: Deadlines(least: 0.5, most: 1.5, share: 0.5), priorities: {0: 3, 1: 1}, queues: {"x": 2, "y": 1},
        gpus_per_node: 2, hosts: [Host(cpus: 1, memory: "1GiB", weight: 2), Host(cpus: 2)], near: Near(),
    ),
    queues: [Queue(name: "x"), Queue(name: "y")],
    semantics: Semantics(ties: Shuffled, judge: Strict),
    costs: Costs(
        start: "5s", checkpoint: "6s", restore: "7s", relaunch: "8s", checkpoint_every: "10min", batch: "1ms",
    ),
    policies: [Policy(name: "clwp-nlwp", label: "x", with: {"delta": 0.1}, weights: "iasp-synthetic.json", predictors: {"pair-speed": Noisy(sigma: 0.25)})],
    predictors: {"similarity": Component(name: "iasp", with: {}), "utilisation": Oracle},
    reveal: [SoloProfile, ModelFacts, Progress],
    seeds: Range(3, 9),
    limits: Limits(fuel: 1000000000, run_fuel: 90000000000, memory: "100MiB", actions: 900),
    claims: [
        Claim(
            says: "s", of: "x", metric: "jct_mean_s", published: 0.5, reference: Reference(value: 0.5, by: "c"),
            holds: AtMost(0.5), at: {}, over: [],
        ),
    ],
    test: {"workload.jobs": 2},
)"#;

/// A profile with utilisations.
pub(super) const CATALOGUE: &str = r#"Experiment(
    title: "a",
    fleet: Model(nodes: 2, gpus: 4, kind: "RTX-3090", sharing: Packed(2)),
    profile: File("PROFILES/synthetic.ron"),
    interference: Interference(law: Profile),
    workload: Generate(jobs: 5, arrivals: AtOnce),
    policies: [Policy(name: "fifo")],
)"#;

/// GPUs that are cut into parts of one's own.
pub(super) const CUT: &str = r#"Experiment(
    title: "a",
    fleet: Model(
        nodes: 2, gpus: 4, kind: "T4", sharing: Parts,
        parts: {"T4": {"small": Part(slices: 1, memory: "4GiB", starts: [0, 1]), "large": Part(slices: 2, starts: [0, 2])}},
    ),
    workload: Generate(jobs: 5, gpus: {1: 1}, parts: {"small": 2, "large": 1}),
    policies: [Policy(name: "fifo")],
)"#;

/// A job that is written down and asks for a part.
pub(super) const PART: &str = r#"Experiment(
    title: "a",
    fleet: Model(nodes: 2, gpus: 4, kind: "A100-SXM4-40GB", sharing: Parts),
    workload: Jobs([Job(submit: "0s", gpus: 1, duration: "1h", part: "3g.20gb")]),
    policies: [Policy(name: "fifo")],
)"#;

/// Jobs that are written down, on GPUs of one's own that are given by shares.
pub(super) const WRITTEN: &str = r#"Experiment(
    title: "a",
    fleet: Model(
        groups: [
            Group(nodes: 2, gpus: 4, kind: "mine", speed: 1.5, memory: "16GiB"),
            Group(nodes: 1, gpus: 4, kind: "T4", speed: 1.0, pool: Inference),
        ],
        sharing: Shares,
    ),
    workload: Jobs([
        Job(
            submit: "1s", gpus: 1, duration: "1h", name: "n", kinds: ["mine"], preemptible: false, declared: "2h", user: "u",
            share: 0.5, memory: "1GiB", queue: "a",
        ),
        Job(submit: "1s", gpus: 1, duration: "3s", queue: "b"),
    ]),
    queues: [
        Queue(name: "lab"), Queue(name: "a", parent: "lab", guaranteed: 1, weight: 2, priority: 1), Queue(name: "b"),
    ],
    predictors: {"remaining": Declared},
    reveal: [DeclaredRunTime, Memory],
    policies: [Policy(name: "fifo")],
)"#;

/// Tasks that are written down.
pub(super) const SERVED: &str = r#"Experiment(
    title: "a",
    fleet: Model(groups: [Group(nodes: 1, gpus: 4, kind: "T4"), Group(nodes: 1, gpus: 4, kind: "T4", pool: Inference)]),
    workload: Jobs([Job(submit: "1s", gpus: 1, duration: "3s", service: "a")]),
    serving: Serving(services: {"a": Service(cold_start: "6s", slo: "10s")}, keeps_models: true),
    policies: [Policy(name: "fifo")],
)"#;

/// One type of GPU without groups.
pub(super) const PLAIN: &str = r#"Experiment(
    title: "a",
    fleet: Model(nodes: 2, gpus: 4, kind: "mine", speed: 1.5, memory: "16GiB"),
    workload: Generate(jobs: 5, arrivals: Poisson(load: 0.5), durations: Fixed("1h")),
    semantics: Semantics(preset: "tiresias-count"),
    measure: Window(warm_up: "1min", until: LastArrival),
    policies: [Policy(name: "fifo")],
)"#;

/// Elastic training beside tasks that are drawn.
pub(super) const ELASTIC: &str = r#"Experiment(
    title: "a",
    fleet: Model(groups: [Group(nodes: 2, gpus: 4, kind: "T4"), Group(nodes: 2, gpus: 4, kind: "T4", pool: Inference)]),
    profile: File("PROFILES/pollux-fit.ron"),
    workload: Jobs([Job(submit: "0s", gpus: 1, workload: "cifar10", batch: 128)]),
    serving: Serving(
        services: {"a": Service(cold_start: "6s", slo: "10s"), "b": Service(cold_start: "4s")},
        demand: Diurnal(
            trough: 1, peak: 4, period: "1h", over: "2h", seconds: (20, 200),
            bursts: Bursts(every: "20min", lasting: "1min", times: 1.5),
        ),
    ),
    costs: Costs(rescale: Afe),
    predictors: {"steps": Oracle},
    policies: [Policy(name: "ats")],
)"#;

/// As before, with as many tasks at any time.
pub(super) const UNIFORM: &str = r#"Experiment(
    title: "a",
    fleet: Model(groups: [Group(nodes: 2, gpus: 4, kind: "T4"), Group(nodes: 2, gpus: 4, kind: "T4", pool: Inference)]),
    profile: File("PROFILES/pollux-fit.ron"),
    workload: Jobs([Job(submit: "0s", gpus: 1, workload: "cifar10", batch: 128)]),
    serving: Serving(services: {"a": Service(cold_start: "6s")}, demand: Uniform(tasks: 20, over: "1h", seconds: (2, 9))),
    policies: [Policy(name: "ats")],
)"#;

/// What the next names of its file.
pub(super) const OF_A_LOG: &str = r#"file: "t.csv", format: Csv, jobs: 3, where: {"vc": "a"},
        columns: {"name": "id", "submit": "at", "gpus": "n", "duration": "s"},"#;

/// A table.
pub(super) const TABLE: &str = r#"Experiment(
    title: "a",
    fleet: Model(nodes: 2, gpus: 4, kind: "mine", speed: 1.0),
    workload: Trace(
        file: "t.csv", format: Csv, jobs: 3, where: {"vc": "a"},
        columns: {"name": "id", "submit": "at", "gpus": "n", "duration": "s"},
    ),
    policies: [Policy(name: "fifo")],
)"#;

/// Jobs of a table that fill the nodes of a list, some of them without GPUs.
pub(super) const FILLED: &str = r#"Experiment(
    title: "a",
    fleet: Model(list: NodeList(file: "n.csv", format: Native), speed: 1.0, sharing: Shares),
    workload: Trace(
        file: "t.csv", format: Csv, columns: {"name": "id", "submit": "at", "gpus": "n", "duration": "s"}, cpu_jobs: false,
        fill: Fill(share: 1.3, every: "1s"),
    ),
    policies: [Policy(name: "fgd")],
)"#;

/// Edits of it.
pub(super) const FILLS: &[(&str, &str, &str)] = &[
    ("FleetSpec.Model.list", "list: NodeList(file: \"n.csv\", format: Native)", "nodes: 1, gpus: 4, kind: \"T4\""),
    ("NodeList.file", "n.csv", "m.csv"),
    ("NodeList.format", "\"n.csv\", format: Native", "\"o.csv\", format: Openb"),
    ("NodeFormat.Native", "\"n.csv\", format: Native", "\"o.csv\", format: Openb"),
    ("NodeFormat.Openb", "\"n.csv\", format: Native", "\"o.csv\", format: Openb"),
    ("WorkloadSpec.Trace.cpu_jobs", "cpu_jobs: false", "cpu_jobs: true"),
    ("WorkloadSpec.Trace.fill", "fill: Fill(share: 1.3, every: \"1s\"),", ""),
    ("Fill.share", "share: 1.3", "share: 1.4"),
    ("Fill.every", "every: \"1s\"", "every: \"2s\""),
];

/// Jobs drawn from those of a trace.
pub(super) const RESAMPLED: &str = r#"Experiment(
    title: "a",
    fleet: Model(nodes: 1, gpus: 4, kind: "RTX-3090"),
    profile: File("PROFILES/synthetic.ron"),
    workload: Trace(
        file: "t.csv", format: Csv, columns: {"name": "id", "submit": "at", "gpus": "n", "duration": "s"},
        resample: Resample(span: "1h", arrivals: Poisson(load: 0.5), most_gpus: 2, workloads: {"gan/b32": 2, "gan/b64": 1}),
    ),
    policies: [Policy(name: "fifo")],
)"#;

/// Edits of it.
pub(super) const RESAMPLES: &[(&str, &str, &str)] = &[
    (
        "WorkloadSpec.Trace.resample",
        "resample: Resample(span: \"1h\", arrivals: Poisson(load: 0.5), most_gpus: 2, workloads: {\"gan/b32\": 2, \"gan/b64\": 1}),",
        "",
    ),
    ("Resample.span", "span: \"1h\"", "span: \"2h\""),
    ("Resample.arrivals", "load: 0.5", "load: 0.6"),
    ("Resample.most_gpus", "most_gpus: 2", "most_gpus: 1"),
    ("Resample.workloads", "\"gan/b64\": 1", "\"gan/b64\": 2"),
];

/// Jobs that ask for shares of GPUs, or for none.
pub(super) const DRAWN: &str = r#"Experiment(
    title: "a",
    fleet: Model(nodes: 2, gpus: 4, kind: "T4", cpus: 32, sharing: Shares),
    workload: Generate(jobs: 5, gpus: {0: 1, 1: 1}, shares: {300: 1, 1000: 1}, hosts: [Host(cpus: 2)]),
    policies: [Policy(name: "fgd")],
)"#;

/// Two cores of the CPU in place of GPUs.
pub(super) const LIVE: &str = r#"Experiment(
    title: "a",
    fleet: Nvidia(
        devices: StandIn(2), slots: 1, sharing: Packed(2), commands: {"*": ["true"]}, environment: ["A"], file_size: "1GiB", preempt: [Save], quiet: "3s",
        patience: "4s", limit: "5min", decide: "6s", shared: false,
    ),
    workload: Jobs([Job(submit: "0s", gpus: 1, duration: "1s")]),
    policies: [Policy(name: "fifo")],
)"#;

/// A run that begins with the jobs of a cluster.
pub(super) const BEGUN: &str = r#"Experiment(
    title: "a",
    fleet: Model(list: NodeList(file: "s.json", format: State), speed: 1.0),
    workload: State(file: "s.json", run_times: Limits(part: 0.5, otherwise: "1h")),
    policies: [Policy(name: "fifo")],
)"#;

/// Edits of it.
pub(super) const BEGINS: &[(&str, &str, &str)] = &[
    ("WorkloadSpec.State.file", "State(file: \"s.json\"", "State(file: \"r.json\""),
    ("WorkloadSpec.State.run_times", ", run_times: Limits(part: 0.5, otherwise: \"1h\")", ""),
    ("WorkloadSpec.State.next", "run_times: Limits(part: 0.5, otherwise: \"1h\")", "next: \"r.json\""),
    ("RunTimesSpec.Limits.part", "part: 0.5, ", ""),
    ("RunTimesSpec.Limits.otherwise", "1h", "2h"),
    ("NodeFormat.State", "list: NodeList(file: \"s.json\", format: State)", "list: NodeList(file: \"s.csv\")"),
];

/// One whose run times are drawn from ended jobs, with every change.
pub(super) const CHANGED: &str = r#"Experiment(
    title: "a",
    fleet: Model(list: NodeList(file: "s.json", format: State), speed: 1.0),
    workload: State(file: "s.json", run_times: History(file: "h.csv", format: Native, least: 2, otherwise: "1h"), changes: [
        Add(name: "x", gpus: 2, gpus_per_node: 1, limit: "3h", at: "5min", user: "u", account: "a", kinds: ["g"], priority: 3, cpus: 2, host_memory: "1GiB"),
        AddNodes(nodes: 3, gpus: 4, kind: "g"),
        Drain(node: "n", from: "6h", to: "7h"),
        Resume("m"),
        Hold("k"),
        Release("k"),
        Kill("l"),
        Priority("j", 9),
        Limit("q", 5),
    ], queues: true, hosts: true, cpu_jobs: true),
    policies: [Policy(name: "fifo")],
)"#;

/// Edits of it.
pub(super) const CHANGES: &[(&str, &str, &str)] = &[
    ("RunTimesSpec.History.file", "h.csv", "i.csv"),
    ("RunTimesSpec.History.format", "file: \"h.csv\", format: Native", "file: \"h.txt\", format: Sacct"),
    ("RunTimesSpec.History.least", "least: 2", "least: 3"),
    ("RunTimesSpec.History.otherwise", "otherwise: \"1h\"", "otherwise: \"2h\""),
    ("WorkloadSpec.State.changes", "        Priority(\"j\", 9),\n", ""),
    ("Change.Add.name", "name: \"x\"", "name: \"y\""),
    ("Change.Add.gpus", "gpus: 2, gpus_per_node", "gpus: 3, gpus_per_node"),
    ("Change.Add.gpus_per_node", "gpus_per_node: 1", "gpus_per_node: 2"),
    ("Change.Add.limit", "3h", "4h"),
    ("Change.Add.at", "5min", "6min"),
    ("Change.Add.user", "user: \"u\"", "user: \"v\""),
    ("Change.Add.account", "account: \"a\"", "account: \"b\""),
    ("Change.Add.queue", "priority: 3", "priority: 3, queue: \"q\""),
    ("Change.Add.kinds", "kinds: [\"g\"]", "kinds: []"),
    ("Change.Add.priority", "priority: 3", "priority: 4"),
    ("Change.Add.cpus", "cpus: 2", "cpus: 3"),
    ("Change.Add.host_memory", "1GiB", "2GiB"),
    ("Change.AddNodes.nodes", "nodes: 3", "nodes: 4"),
    ("Change.AddNodes.gpus", "gpus: 4", "gpus: 5"),
    ("Change.AddNodes.kind", "gpus: 4, kind: \"g\"", "gpus: 4, kind: \"h\""),
    ("Change.Drain.node", "Drain(node: \"n\"", "Drain(node: \"m\""),
    ("Change.Drain.from", "6h", "5h"),
    ("Change.Drain.to", "7h", "8h"),
    ("Change.Resume", "Resume(\"m\")", "Resume(\"n\")"),
    ("Change.Hold", "        Hold(\"k\"),\n        Release(\"k\"),\n", "        Hold(\"j\"),\n"),
    ("Change.Release", "        Release(\"k\"),\n", ""),
    ("Change.Kill", "Kill(\"l\")", "Kill(\"k\")"),
    ("Change.Limit", "Limit(\"q\", 5)", "Limit(\"q\", 6)"),
    ("WorkloadSpec.State.queues", ", queues: true", ""),
    ("WorkloadSpec.State.hosts", ", hosts: true", ""),
    ("WorkloadSpec.State.cpu_jobs", ", cpu_jobs: true", ""),
    ("Change.Priority", "Priority(\"j\", 9)", "Priority(\"j\", 8)"),
];

/// One whose run times are drawn around the limits.
pub(super) const NOISY: &str = r#"Experiment(
    title: "a",
    fleet: Model(list: NodeList(file: "s.json", format: State), speed: 1.0),
    workload: State(file: "s.json", run_times: Noisy(part: 0.5, sigma: 0.25, otherwise: "1h")),
    policies: [Policy(name: "fifo")],
)"#;

/// Edits of it.
pub(super) const NOISES: &[(&str, &str, &str)] = &[
    ("WorkloadSpec.State.until", "otherwise: \"1h\"))", "otherwise: \"1h\"), until: \"3h\")"),
    ("RunTimesSpec.Noisy.part", "part: 0.5", "part: 0.6"),
    ("RunTimesSpec.Noisy.sigma", "sigma: 0.25", "sigma: 0.35"),
    ("RunTimesSpec.Noisy.otherwise", "1h", "2h"),
];

/// One whose run times are known.
pub(super) const KNOWN: &str = r#"Experiment(
    title: "a",
    fleet: Model(list: NodeList(file: "s.json", format: State), speed: 1.0),
    workload: State(file: "s.json", run_times: Known(file: "h.csv", format: Native, otherwise: "1h")),
    policies: [Policy(name: "fifo")],
)"#;

/// Edits of it.
pub(super) const KNOWS: &[(&str, &str, &str)] = &[
    ("Policy.starts", "name: \"fifo\"", "name: \"fifo\", starts: File(\"r.json\")"),
    ("StartsSpec.File", "name: \"fifo\"", "name: \"fifo\", starts: File(\"r.json\")"),
    (
        "StartsSpec.Log",
        "workload: State(file: \"s.json\", run_times: Known(file: \"h.csv\", format: Native, otherwise: \"1h\")),\n    policies: [Policy(name: \"fifo\")]",
        "workload: Trace(file: \"t.csv\", format: Csv, columns: {\"submit\": \"at\", \"gpus\": \"n\", \"duration\": \"s\", \"recorded_start\": \"s\"}, jobs: 2), policies: [Policy(name: \"recorded\", starts: Log)]",
    ),
    ("RunTimesSpec.Known.file", "h.csv", "i.csv"),
    ("RunTimesSpec.Known.format", "file: \"h.csv\", format: Native", "file: \"h.txt\", format: Sacct"),
    ("RunTimesSpec.Known.otherwise", "1h", "2h"),
];

/// A later document of the same cluster: one of its jobs has started.
pub(super) fn later(state: &str) -> String {
    let runs = r#""id": "l", "started_s": -1, "held_s": 1, "on": [{"node": "n", "count": 1}], "state": "running""#;
    state.replace("60", "61").replace("T00:", "T01:").replace(r#""id": "l", "state": "waiting""#, runs)
}
