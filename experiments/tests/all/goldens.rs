//! Published per-job schedules, to the second for every job: start, end, preemptions and, where it is known, placement.
//!
//! The data is beside the checkout and never in it; without it these tests say so and pass.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable::execute::{Compiled, execute};
use sandtable::plan::{Options, plan};
use sandtable_runtime::sandbox::Settings;

use crate::help::{data, root};
use sandtable_needs::needs;

/// One published schedule.
struct Golden<'a> {
    trace: &'a str,
    outcome: &'a str,
    nodes: u32,
    gpus: u32,
    preset: &'a str,
    policy: &'a str,
    with: &'a str,
    /// What the trace's format says beside the file.
    format: &'a str,
}

/// Compares; the number of jobs.
fn check(folder: &Path, golden: &Golden<'_>) -> usize {
    let Golden { trace, outcome, nodes, gpus, preset, policy, with, format } = golden;
    let spec = format!(
        "Experiment(title: \"golden\", fleet: Model(nodes: {nodes}, gpus: {gpus}, kind: \"any\", speed: 1.0), \
         workload: Trace(file: {trace:?}, {format}), semantics: Semantics(preset: {preset:?}), \
         policies: [Policy(name: {policy:?}, with: {{{with}}})], predictors: {{\"remaining\": Oracle}})",
        trace = folder.join(trace).display().to_string(),
    );
    let here = tempfile::tempdir().expect("a folder");
    let path = here.path().join("golden.ron");
    std::fs::write(&path, spec).expect("written");
    let options = Options { policies: Some(root().join("policies/dist")), ..Options::default() };
    let plan = plan(&path, &options).expect("a plan");
    let compiled = Compiled::new(&Settings::default(), plan.cells.iter()).expect("compiled");
    let files = execute(&plan.cells[0], &compiled).expect("a result").files;
    let ours = files.iter().find(|(name, _)| name == "jobs.csv").map(|(_, bytes)| bytes.as_slice()).expect("jobs.csv");
    let ours = rows(ours);
    let theirs = rows(&std::fs::read(folder.join(outcome)).expect("the golden"));
    let columns = [
        ("start_s", "first_start_s"),
        ("end_s", "end_s"),
        ("preemptions", "preemptions"),
        ("last_placement", "last_placement"),
    ];
    let mut mismatches = Vec::new();
    for (job, expected) in &theirs {
        let found = ours.get(job);
        for (column, name) in columns {
            let Some(expected) = expected.get(column) else { continue };
            let found = found.and_then(|row| row.get(name));
            if found != Some(expected) {
                mismatches.push(format!("job {job}: {column} {found:?}, expected {expected}"));
            }
        }
    }
    assert!(mismatches.is_empty(), "{outcome}: {} mismatches, the first: {}", mismatches.len(), mismatches[0]);
    assert_eq!(ours.len(), theirs.len(), "{outcome}");
    theirs.len()
}

fn rows(bytes: &[u8]) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(bytes);
    let names = reader.headers().expect("a header").clone();
    let mut rows = BTreeMap::new();
    for record in reader.records() {
        let record = record.expect("a row");
        let row: BTreeMap<String, String> =
            names.iter().zip(&record).map(|(k, v)| (k.to_string(), v.to_string())).collect();
        rows.insert(row["job_id"].clone(), row);
    }
    rows
}

#[expect(clippy::print_stderr, reason = "says how much was compared")]
fn tell(outcome: &str, jobs: usize) {
    eprintln!("{outcome}: {jobs} jobs compared, 0 mismatches");
}

#[needs("data:golden-tiresias")]
#[test]
fn tiresias() {
    let folder = data("golden-tiresias");
    let policies = [
        ("fifo", "fifo", ""),
        ("fjf", "fifo", "\"backfill\": \"skip\""),
        ("srtf", "srtf", ""),
        ("srsf", "srsf", ""),
        ("dlas_gpu", "las", ""),
    ];
    for (trace, nodes) in [("ee9e8c_w4", 16), ("ee9e8c_all", 16), ("11cb48_w7", 4)] {
        for (published, policy, with) in policies {
            let (trace, outcome) = (format!("{trace}.trace.csv"), format!("{trace}.{published}.csv"));
            let preset = "tiresias-count";
            let golden = Golden { trace: &trace, outcome: &outcome, nodes, gpus: 8, preset, policy, with, format: "" };
            tell(&outcome, check(&folder, &golden));
        }
    }
}

#[needs("data:golden-lucid")]
#[test]
fn lucid() {
    let folder = data("golden-lucid");
    let policies = [("fifo", "fifo"), ("sjf", "sjf"), ("srtf", "srtf"), ("tiresias", "las")];
    for (trace, nodes) in [("ee9e8c_w4", 16), ("11cb48_w7", 4)] {
        for (published, policy) in policies {
            let (trace, outcome) = (format!("{trace}.trace.csv"), format!("{trace}.{published}.csv"));
            let preset = "lucid-consolidate";
            let golden =
                Golden { trace: &trace, outcome: &outcome, nodes, gpus: 8, preset, policy, with: "", format: "" };
            tell(&outcome, check(&folder, &golden));
        }
    }
}

#[needs("data:golden-pai")]
#[test]
fn pai() {
    let folder = data("golden-pai");
    for (published, policy) in [("fifo_skip", "fifo"), ("sjf_skip", "sjf")] {
        let outcome = format!("openb_d139to144.{published}.csv");
        let golden = Golden {
            trace: "openb_d139to144.trace.csv",
            outcome: &outcome,
            nodes: 1,
            gpus: 8,
            preset: "pai-1node",
            policy,
            with: "",
            format: "format: Csv, columns: {\"name\": \"job_id\", \"submit\": \"submit_s\", \"hundredths\": \"gpu_centi\", \"duration\": \"duration_s\"}",
        };
        tell(&outcome, check(&folder, &golden));
    }
}
