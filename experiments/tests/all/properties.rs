//! What must hold for any workload: the order of a trace's rows does not matter where nothing ties, and what does not
//! enter a result does not enter its identity.

use std::collections::BTreeMap;

use sandtable::execute::{Compiled, execute};
use sandtable::plan::{Options, Plan, plan};
use sandtable_hardware::random::Stream;
use sandtable_runtime::sandbox::Settings;

use crate::help::root;

fn expand(folder: &std::path::Path, spec: &str) -> Plan {
    let path = folder.join("spec.ron");
    std::fs::write(&path, spec).expect("written");
    let options = Options { policies: Some(root().join("policies/dist")), ..Options::default() };
    plan(&path, &options).expect("a plan")
}

/// Ends by name.
fn ends(plan: &Plan) -> Vec<BTreeMap<String, String>> {
    let compiled = Compiled::new(&Settings::default(), plan.cells.iter()).expect("compiled");
    let of = |cell| {
        let files = execute(cell, &compiled).expect("a result").files;
        let (_, bytes) = files.iter().find(|(name, _)| name == "jobs.csv").expect("jobs.csv");
        let mut reader = csv::Reader::from_reader(bytes.as_slice());
        let rows = reader.records().map(|row| row.expect("a row"));
        rows.map(|row| (row[0].to_string(), row[4].to_string())).collect()
    };
    plan.cells.iter().map(of).collect()
}

#[test]
fn without_ties_the_order_of_rows_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    for seed in 0..4 {
        let mut stream = Stream::new(seed, "test");
        let mut rows: Vec<String> = (0..80)
            .map(|job| {
                let (gpus, seconds) = (1 << (stream.integer() % 4), 30 + stream.integer() % 4000);
                // Primes keep submissions and ends from ever meeting.
                format!("j{job},{}.{:03},{gpus},{seconds}.{:03}", job * 97, job % 89, (job * 7) % 83)
            })
            .collect();
        let mut results = Vec::new();
        for _ in 0..3 {
            let text = format!("job_id,submit_s,gpus,duration_s\n{}\n", rows.join("\n"));
            std::fs::write(folder.path().join("t.csv"), text).expect("written");
            let spec = "Experiment(title: \"p\", fleet: Model(nodes: 3, gpus: 8, kind: \"K80\"), \
                workload: Trace(file: \"t.csv\"), predictors: {\"remaining\": Oracle}, policies: [Policy(name: \"fifo\"), \
                Policy(name: \"sjf\"), Policy(name: \"srtf\"), Policy(name: \"srsf\"), Policy(name: \"las\")])";
            results.push(ends(&expand(folder.path(), spec)));
            for index in (1..rows.len()).rev() {
                rows.swap(index, (stream.integer() % (index as u64 + 1)) as usize);
            }
        }
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}");
    }
}

#[test]
fn the_identity_is_what_moves_the_result_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = "Experiment(title: \"a\", fleet: Model(nodes: 3, gpus: 8, kind: \"K80\"), \
        workload: Generate(jobs: 9, arrivals: Poisson(load: 0.5)), policies: [Policy(name: \"fifo\")])";
    let id = |from: &str, to: &str| expand(folder.path(), &base.replace(from, to)).cells[0].id.clone();
    let first = id("", "");
    for (from, to) in [
        ("\"a\"", "\"b\""),
        ("name: \"fifo\"", "name: \"fifo\", label: \"x\""),
        ("0.5", "0.50"),
        ("(title", "( /* c */ title"),
    ] {
        assert_eq!(first, id(from, to), "{to}");
    }
    for (from, to) in [
        ("nodes: 3", "nodes: 4"),
        ("0.5", "0.6"),
        ("K80", "T4"),
        ("\"fifo\"", "\"las\""),
        ("\"fifo\"", "\"fifo\", with: {\"backfill\": \"skip\"}"),
        ("title", "seeds: List([1]), title"),
        ("title", "semantics: Semantics(ties: JobName), title"),
        ("title", "costs: Costs(start: \"1s\"), title"),
        ("title", "predictors: {\"remaining\": Oracle}, title"),
        ("title", "limits: Limits(fuel: 5), title"),
    ] {
        assert_ne!(first, id(from, to), "{to}");
    }
}
