//! The table of `docs/src/reference/speed.md`, which `just bench-table` writes: whole runs on one core, by workload, policy, size of
//! the cluster and way of calling a policy. Times are of the machine; ratios and how a time grows are what to read.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock, and prints")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sandtable::execute::{Compiled, Extras, simulate};
use sandtable::plan::{Cell, Options, plan};
use sandtable_run::native::Native;
use sandtable_runtime::sandbox::{Sandbox, Sandboxed, Settings, Variation};
use sandtable_runtime::{Policy, Summary};

/// Runs of each way in turn, of which the least counts: what else the machine does hits all ways.
const ROUNDS: usize = 9;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The cells of a spec with the components of the checkout.
fn cells(text: &str) -> Vec<Cell> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("speed.ron");
    let policies = Some(root().join("policies/dist"));
    std::fs::write(&path, text.replace("SPECS", &root().join("experiments/specs").display().to_string()))
        .expect("written");
    plan(&path, &Options { policies, ..Options::default() }).unwrap_or_else(|error| panic!("{error}\n{text}")).cells
}

/// Calls of a run, its seconds, and what came of it.
fn once(cell: &Cell, compiled: &Compiled, policy: &mut dyn Policy) -> (u64, f64, Summary) {
    let (jobs, predictors) = (cell.jobs().expect("jobs"), compiled.predictors(cell).expect("predictors"));
    let began = Instant::now();
    let finished = black_box(simulate(cell, jobs, policy, predictors, Extras::default()).expect("conservation"));
    let seconds = began.elapsed().as_secs_f64();
    assert_eq!(finished.fault, None, "{}", cell.label);
    (finished.calls, seconds, Summary::of(&finished.ledger))
}

fn sandbox(component: bool) -> Sandbox {
    let variation = Variation { component, ..Variation::default() };
    Sandbox::new(&Settings { variation, ..Settings::default() }).expect("an engine")
}

fn native(name: &str) -> Box<dyn Policy> {
    match name {
        "fifo" => Box::new(Native::<fifo::Fifo>::new()),
        "las" => Box::new(Native::<las::Las>::new()),
        _ => Box::new(Native::<srtf::Srtf>::new()),
    }
}

/// A policy compiled in, called through its component's core module as runs do, and through wasmtime's component layer.
fn ways(out: &mut String, workload: &str, text: &str) {
    let sandboxes = [sandbox(false), sandbox(true)];
    for cell in cells(text) {
        let components = sandboxes.each_ref().map(|sandbox| sandbox.load(&cell.policy.bytes).expect("a policy"));
        let compiled = Compiled::new(&Settings::default(), std::iter::once(&cell)).expect("components");
        let (mut least, mut first) = ([f64::INFINITY; 3], None);
        for _ in 0..ROUNDS {
            for (way, least) in least.iter_mut().enumerate() {
                let mut policy: Box<dyn Policy> = match way {
                    0 => native(&cell.label),
                    way => Box::new(Sandboxed::new(&components[way - 1], cell.setting.limits).expect("an instance")),
                };
                let (calls, seconds, summary) = once(&cell, &compiled, policy.as_mut());
                *least = least.min(seconds);
                let found = (calls, summary);
                assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "the schedules differ");
            }
        }
        let [native, core, layered] = least;
        let calls = first.map_or(0, |(calls, _)| calls);
        let ratio = |seconds: f64| format!("{:.0} ({:.2})", seconds * 1e3, seconds / native);
        let (core, layered, native) = (ratio(core), ratio(layered), native * 1e3);
        writeln!(out, "| {workload} | {} | {calls} | {native:.0} | {core} | {layered} |", cell.label)
            .expect("a string");
    }
}

/// Seconds of each cell of a spec, once.
fn seconds(text: &str) -> Vec<(String, f64)> {
    let sandbox = sandbox(false);
    let of = |cell: Cell| {
        let compiled = Compiled::new(&Settings::default(), std::iter::once(&cell)).expect("components");
        let component = sandbox.load(&cell.policy.bytes).expect("a policy");
        let mut policy = Sandboxed::new(&component, cell.setting.limits).expect("an instance");
        let (_, seconds, _) = once(&cell, &compiled, &mut policy);
        (cell.label.clone(), seconds)
    };
    cells(text).into_iter().map(of).collect()
}

const SIZES: &str = "gpus: {1: 0.6, 2: 0.15, 4: 0.15, 8: 0.1}, durations: LogNormal(median: \"10min\", sigma: 1.8)";

fn generated(jobs: u32, nodes: u32, load: f64, policies: &str) -> String {
    format!(
        "Experiment(title: \"speed\", fleet: Model(nodes: {nodes}, gpus: 8, kind: \"P100-PCIE-16GB\"), \
         workload: Generate(jobs: {jobs}, arrivals: Poisson(load: {load}), {SIZES}), policies: [{policies}], \
         predictors: {{\"remaining\": Oracle}})"
    )
}

/// The workload on which every policy of packed GPUs runs; one that shares by queues gets four in two groups.
fn packed(policy: &str) -> String {
    let (queues, drawn) = match policy {
        "kai-like" | "kueue-like" => (
            "queues: [Queue(name: \"x\", guaranteed: 512), Queue(name: \"a\", parent: \"x\"), Queue(name: \"b\", parent: \"x\", weight: 3), \
             Queue(name: \"y\"), Queue(name: \"c\", parent: \"y\", guaranteed: 256), Queue(name: \"d\", parent: \"y\")], ",
            ", queues: {\"a\": 1, \"b\": 1, \"c\": 1, \"d\": 1}",
        ),
        _ => ("", ""),
    };
    format!(
        "Experiment(title: \"speed\", fleet: Model(nodes: 128, gpus: 8, kind: \"RTX-3090\", sharing: Packed(2)), \
         profile: File(\"SPECS/profiles/synthetic.ron\"), {queues}\
         workload: Generate(jobs: 20000{drawn}, arrivals: Poisson(load: 1.1), gpus: {{1: 0.80, 2: 0.10, 4: 0.07, 8: 0.03}}, \
         durations: LogNormal(median: \"1h\", sigma: 1.4, most: \"5d\")), reveal: [SoloProfile, Memory], \
         policies: [Policy(name: \"{policy}\")], predictors: {{\"remaining\": Oracle, \"utilisation\": Oracle, \
         \"memory\": Oracle, \"similarity\": Oracle, \"pair-speed\": Oracle, \"throughput\": Oracle}})"
    )
}

/// Elastic jobs beside tasks, `scale` times 160 jobs on 32 + 32 GPUs.
fn elastic(scale: u32) -> String {
    let (nodes, jobs, trough, peak) = (8 * scale, 160 * scale, 2 * scale, 20 * scale);
    let service = |name: &str, cold: u32| format!("\"{name}\": Service(cold_start: \"{cold}s\", slo: \"10s\")");
    let services = [service("chat", 8), service("detect", 6), service("rank", 4), service("speech", 4)].join(", ");
    format!(
        "Experiment(title: \"speed\", fleet: Model(groups: [Group(nodes: {nodes}, gpus: 4, kind: \"T4\"), \
         Group(nodes: {nodes}, gpus: 4, kind: \"T4\", pool: Inference)]), profile: File(\"SPECS/profiles/pollux-fit.ron\"), \
         workload: Generate(jobs: {jobs}, arrivals: Poisson(load: 0.5), workloads: {{\"cifar10\": 0.387, \"ncf\": 0.393, \
         \"deepspeech2\": 0.087, \"bert\": 0.067, \"yolov3\": 0.046, \"imagenet\": 0.02}}), \
         serving: Serving(services: {{{services}}}, demand: Diurnal(trough: {trough}, peak: {peak}, period: \"6h\", \
         over: \"18h\", seconds: (60, 300))), costs: Costs(rescale: Afe), predictors: {{\"steps\": Oracle}}, \
         policies: [Policy(name: \"ats\")])"
    )
}

const PACKING: [&str; 28] = [
    "fifo",
    "sjf",
    "srtf",
    "srsf",
    "las",
    "edf",
    "priority",
    "chronus-like",
    "slurm-backfill",
    "share",
    "packer",
    "horus",
    "horus-plus",
    "clwp-nlwp",
    "gandiva-like",
    "antman-like",
    "lucid-like",
    "schedtune-like",
    "gavel",
    "allox",
    "gandiva-fair",
    "gavel-leases",
    "shockwave",
    "muri",
    "kai-like",
    "kueue-like",
    "fgd",
    "hived",
];

const THREE: &str = "Policy(name: \"fifo\"), Policy(name: \"las\"), Policy(name: \"srtf\")";
const FOUR: &str = "Policy(name: \"fifo\"), Policy(name: \"las\"), Policy(name: \"srtf\"), Policy(name: \"srsf\")";

fn philly() -> Option<String> {
    let philly = std::fs::read_to_string(root().join("experiments/specs/philly/speed.ron")).expect("a spec");
    let data = root().join("../shared");
    let there = data.join("data/philly/philly_jobs.csv.gz").exists();
    there.then(|| philly.replace("../../../../shared", &data.display().to_string()))
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("a string");
}

fn by_policy(out: &mut String, rows: impl IntoIterator<Item = (String, f64)>) {
    line(out, "| policy | seconds |\n|---|---|");
    rows.into_iter().for_each(|(policy, seconds)| line(out, &format!("| {policy} | {seconds:.2} |")));
}

fn calling(out: &mut String) {
    line(out, "\n## Ways to call a policy\n");
    line(
        out,
        &format!("The least of {ROUNDS} runs of each way in turn. Schedules are equal, or the benchmark fails.\n"),
    );
    line(
        out,
        "| workload | policy | calls | compiled in, ms | core module, ms (ratio) | component layer, ms (ratio) |",
    );
    line(out, "|---|---|---|---|---|---|");
    if let Some(philly) = philly() {
        ways(out, "Philly, 71,149 jobs, 2,500 GPUs", &philly);
    }
    ways(out, "20,000 jobs, 400 GPUs, load 0.95", &generated(20_000, 50, 0.95, THREE));
}

fn by_size(out: &mut String) {
    line(out, "\n## By size of the cluster\n\n50,000 jobs at load 0.95, nodes of 8 GPUs; seconds.\n");
    line(out, "| policy | 50 nodes | 200 | 800 | 3,200 |\n|---|---|---|---|---|");
    let by_size = [50, 200, 800, 3200].map(|nodes| seconds(&generated(50_000, nodes, 0.95, FOUR)));
    for (at, (policy, _)) in by_size[0].iter().enumerate() {
        let row: Vec<String> = by_size.iter().map(|size| format!("{:.2}", size[at].1)).collect();
        line(out, &format!("| {policy} | {} |", row.join(" | ")));
    }
}

fn by_jobs(out: &mut String) {
    line(out, "\n## By number of jobs\n\n6,504 GPUs, load 0.7; seconds.\n");
    line(out, "| policy | 100,000 jobs | 1,000,000 | 10,000,000 |\n|---|---|---|---|");
    let by_jobs = [100_000, 1_000_000, 10_000_000].map(|jobs| seconds(&generated(jobs, 813, 0.7, FOUR)));
    for (at, (policy, _)) in by_jobs[0].iter().enumerate() {
        let row: Vec<String> = by_jobs.iter().map(|jobs| format!("{:.2}", jobs[at].1)).collect();
        line(out, &format!("| {policy} | {} |", row.join(" | ")));
    }
}

fn large(out: &mut String) {
    line(out, "\n## A large cluster\n\n1,000,000 jobs at load 0.95, 100,000 GPUs; seconds.\n");
    by_policy(out, seconds(&generated(1_000_000, 12_500, 0.95, FOUR)));
}

fn long_queue(out: &mut String) {
    line(out, "\n## A long queue\n\n5,000 jobs that come almost at once, 128 GPUs, EASY backfilling; seconds.\n");
    let easy = ["fifo", "sjf"].map(|name| format!("Policy(name: \"{name}\", with: {{\"backfill\": \"easy\"}})"));
    by_policy(out, seconds(&generated(5_000, 16, 1000.0, &easy.join(", "))));
}

fn packing(out: &mut String) {
    line(out, "\n## Every policy of packed GPUs\n\n20,000 jobs at load 1.1, 1,024 GPUs, two jobs a GPU; seconds.\n");
    by_policy(out, PACKING.into_iter().flat_map(|policy| seconds(&packed(policy))));
}

fn elastic_jobs(out: &mut String) {
    line(out, "\n## Elastic jobs beside inference tasks\n\n`ats`; seconds.\n");
    line(out, "| jobs | GPUs | seconds |\n|---|---|---|");
    for scale in [1, 4, 16] {
        for (_, seconds) in seconds(&elastic(scale)) {
            line(out, &format!("| {} | {} | {seconds:.2} |", 160 * scale, 64 * scale));
        }
    }
}

/// Writes a part of the page.
type Part = fn(&mut String);

/// The parts of the page; `cargo bench --bench speed -- NAME` runs those that are named.
const PARTS: [(&str, Part); 7] = [
    ("calling", calling),
    ("by-size", by_size),
    ("by-jobs", by_jobs),
    ("large", large),
    ("long-queue", long_queue),
    ("packing", packing),
    ("elastic", elastic_jobs),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo bench` passes `--bench`; `cargo test --benches` does not, and only wants to see that it builds.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let named: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("", |name| name.trim_start_matches([' ', '\t', ':']));
    let mut out = format!(
        "# Reference: speed\n\nWritten by `just bench-table`. Each time is of a whole run on one core, from the first arrival to the \
         ledger's balance, without\ncompiling the policy, reading the trace and writing the result. Seconds are of one machine and one \
         day: read ratios, and how a\ntime grows. Measured on: {cpu}.\n"
    );
    for (name, part) in PARTS {
        if named.is_empty() || named.iter().any(|wanted| *wanted == name) {
            part(&mut out);
        }
    }
    print!("{out}");
}
