//! Published per-job schedules, to the second for every job: start, end, preemptions and, where it is known, placement.
//!
//! The data are beside the checkout; without them these tests are ignored. A slice of each simulator's ships in `goldens`
//! and is compared everywhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandtable::execute::execute;
use sandtable::plan::{Options, plan};

use crate::help::{compiled, data, root};
use sandtable_needs::needs;

/// One published schedule.
struct Golden<'a> {
    trace: &'a Path,
    nodes: u32,
    gpus: u32,
    preset: &'a str,
    policy: &'a str,
    with: &'a str,
    /// What the trace's format says beside the file.
    format: &'a str,
}

type Rows = BTreeMap<String, BTreeMap<String, String>>;

/// Compares every job; says how many there were.
#[expect(clippy::print_stderr, reason = "says how much was compared")]
fn check(golden: &Golden<'_>, theirs: &Rows) {
    let Golden { trace, nodes, gpus, preset, policy, with, format } = golden;
    let spec = format!(
        "Experiment(title: \"golden\", fleet: Model(nodes: {nodes}, gpus: {gpus}, kind: \"any\", speed: 1.0), \
         workload: Trace(file: {trace:?}, {format}), semantics: Semantics(preset: {preset:?}), \
         policies: [Policy(name: {policy:?}, with: {{{with}}})], predictors: {{\"remaining\": Oracle}})",
    );
    let ours = jobs(&spec);
    let what = format!("{} under {preset}, {policy}", trace.display());
    let columns = [
        ("start_s", "first_start_s"),
        ("end_s", "end_s"),
        ("preemptions", "preemptions"),
        ("last_placement", "last_placement"),
    ];
    let mut mismatches = Vec::new();
    for (job, expected) in theirs {
        let found = ours.get(job);
        for (column, name) in columns {
            let Some(expected) = expected.get(column) else { continue };
            let found = found.and_then(|row| row.get(name));
            if found != Some(expected) {
                mismatches.push(format!("job {job}: {column} {found:?}, expected {expected}"));
            }
        }
    }
    assert!(mismatches.is_empty(), "{what}: {} mismatches, the first: {}", mismatches.len(), mismatches[0]);
    assert_eq!(ours.len(), theirs.len(), "{what}");
    eprintln!("{what}: {} jobs compared, 0 mismatches", theirs.len());
}

/// The jobs of a spec's only cell.
fn jobs(spec: &str) -> Rows {
    let here = tempfile::tempdir().expect("a folder");
    let path = here.path().join("golden.ron");
    std::fs::write(&path, spec).expect("written");
    let options = Options { policies: Some(root().join("policies/dist")), ..Options::default() };
    let plan = plan(&path, &options).expect("a plan");
    let compiled = compiled(&plan);
    let files = execute(&plan.cells[0], &compiled).expect("a result").files().expect("files");
    rows(files.iter().find(|(name, _)| name == "jobs.csv").map(|(_, bytes)| bytes.as_slice()).expect("jobs.csv"))
}

/// A table by job.
fn rows(bytes: &[u8]) -> Rows {
    let mut reader = csv::Reader::from_reader(bytes);
    let names = reader.headers().expect("a header").clone();
    let id = if names.iter().any(|name| name == "job_id") { "job_id" } else { "name" };
    let mut rows = BTreeMap::new();
    for record in reader.records() {
        let record = record.expect("a row");
        let row: BTreeMap<String, String> =
            names.iter().zip(&record).map(|(k, v)| (k.to_string(), v.to_string())).collect();
        rows.insert(row[id].clone(), row);
    }
    rows
}

fn table(file: &Path) -> Rows {
    rows(&std::fs::read(file).expect("the golden"))
}

/// A preset's policies: the simulator's name, ours, and its parameters.
type Policies = &'static [(&'static str, &'static str, &'static str)];

const TIRESIAS: Policies = &[
    ("fifo", "fifo", ""),
    ("fjf", "fifo", "\"backfill\": \"skip\""),
    ("srtf", "srtf", ""),
    ("srsf", "srsf", ""),
    ("dlas_gpu", "las", ""),
];
const LUCID: Policies = &[("fifo", "fifo", ""), ("sjf", "sjf", ""), ("srtf", "srtf", ""), ("tiresias", "las", "")];
const PAI: Policies = &[("fifo_skip", "fifo", ""), ("sjf_skip", "sjf", "")];

const HUNDREDTHS: &str = "format: Csv, columns: {\"name\": \"job_id\", \"submit\": \"submit_s\", \"hundredths\": \
                          \"gpu_centi\", \"duration\": \"duration_s\"}";

/// The native format takes no columns that it doesn't know.
const WIDE: &str = "format: Csv, columns: {\"name\": \"job_id\", \"submit\": \"submit_s\", \"gpus\": \"gpus\", \
                    \"duration\": \"duration_s\"}";

/// Compares a trace's outcome under each policy, each in a file of its own.
fn compare(folder: &Path, trace: &str, (nodes, gpus): (u32, u32), preset: &str, policies: Policies, format: &str) {
    for (published, policy, with) in policies {
        let theirs = table(&folder.join(format!("{trace}.{published}.csv")));
        let trace = &folder.join(format!("{trace}.trace.csv"));
        check(&Golden { trace, nodes, gpus, preset, policy, with, format }, &theirs);
    }
}

#[needs("data:golden-tiresias")]
#[test]
fn tiresias() {
    for (trace, nodes) in [("ee9e8c_w4", 16), ("ee9e8c_all", 16), ("11cb48_w7", 4)] {
        compare(&data("golden-tiresias"), trace, (nodes, 8), "tiresias-count", TIRESIAS, "");
    }
}

#[needs("data:golden-lucid")]
#[test]
fn lucid() {
    for (trace, nodes) in [("ee9e8c_w4", 16), ("11cb48_w7", 4)] {
        compare(&data("golden-lucid"), trace, (nodes, 8), "lucid-consolidate", LUCID, "");
    }
}

#[needs("data:golden-pai")]
#[test]
fn pai() {
    compare(&data("golden-pai"), "openb_d139to144", (1, 8), "pai-1node", PAI, HUNDREDTHS);
}

/// The folder of slices that ship.
fn shipped() -> PathBuf {
    root().join("experiments/tests/goldens")
}

/// One table: the trace, and every policy's outcome in columns `POLICY.COLUMN`.
fn compare_shipped(file: &str, (nodes, gpus): (u32, u32), preset: &str, policies: Policies, format: &str) {
    let trace = &shipped().join(file);
    let all = table(trace);
    for (published, policy, with) in policies {
        let of = |(column, value): (&String, &String)| {
            let column = column.strip_prefix(published)?.strip_prefix('.')?;
            Some((column.to_string(), value.clone()))
        };
        let theirs = all.iter().map(|(job, row)| (job.clone(), row.iter().filter_map(of).collect())).collect();
        check(&Golden { trace, nodes, gpus, preset, policy, with, format }, &theirs);
    }
}

#[test]
fn shipped_tiresias() {
    compare_shipped("tiresias.csv", (16, 8), "tiresias-count", TIRESIAS, WIDE);
}

#[test]
fn shipped_lucid() {
    compare_shipped("lucid.csv", (16, 8), "lucid-consolidate", LUCID, WIDE);
}

#[test]
fn shipped_pai() {
    compare_shipped("pai.csv", (1, 8), "pai-1node", PAI, HUNDREDTHS);
}

/// Every completion time of those jobs of a table that have one.
#[expect(clippy::print_stderr, reason = "says how much was compared")]
fn same_jcts(file: &Path, spec: &str, jobs_expected: usize) {
    let ours = jobs(spec);
    let mut compared = 0;
    for (job, row) in table(file).iter().filter(|(_, row)| !row["tiresias.jct_s"].is_empty()) {
        let number = |column: &str| ours[job][column].parse::<f64>().expect("a number");
        let expected: f64 = row["tiresias.jct_s"].parse().expect("a number");
        assert_eq!(number("end_s") - number("submit_s"), expected, "{job}");
        compared += 1;
    }
    assert_eq!(compared, jobs_expected);
    eprintln!("{}: {compared} completion times compared, 0 mismatches", file.display());
}

/// Rows that Tiresias never asks for are left out of the shipped tables.
#[test]
fn shipped_pollux() {
    let (profile, file) = (shipped().join("pollux"), shipped().join("pollux/workload-1.csv"));
    let spec = format!(
        "Experiment(title: \"golden\", fleet: Model(nodes: 16, gpus: 4, kind: \"T4\"), profile: Pollux({profile:?}), \
         workload: Trace(file: {file:?}, format: Pollux), semantics: Semantics(preset: \"pollux\"), \
         predictors: {{\"steps\": Oracle}}, policies: [Policy(name: \"tiresias\")])"
    );
    same_jcts(&file, &spec, 160);
}

#[test]
fn shipped_deepboot() {
    let (profile, file) = (shipped().join("pollux"), shipped().join("deepboot.csv"));
    let cold = [("bert", 8), ("cifar10", 6), ("deepspeech2", 4), ("imagenet", 6), ("ncf", 4), ("yolov3", 4)];
    let service = |(name, s): &(&str, u32)| format!("\"infer-{name}-1\": Service(cold_start: \"{s}s\", slo: \"10s\"),");
    let services: String = cold.iter().map(service).collect();
    let spec = format!(
        "Experiment(title: \"golden\", fleet: Model(groups: [Group(nodes: 8, gpus: 4, kind: \"T4\"), \
         Group(nodes: 8, gpus: 4, kind: \"T4\", pool: Inference)]), profile: Pollux({profile:?}), \
         workload: Trace(file: {file:?}, format: Pollux), serving: Serving(services: {{{services}}}, keeps_models: false), \
         semantics: Semantics(preset: \"deepboot\"), costs: Costs(rescale: Full), predictors: {{\"steps\": Oracle}}, \
         policies: [Policy(name: \"tiresias\", with: {{\"protect_least\": 0, \"protect_bonus\": 0, \"protect_most\": 0}})])"
    );
    same_jcts(&file, &spec, 30);
}
