//! What must hold for any workload: the order of a trace's rows does not matter where nothing ties.

use std::collections::BTreeMap;

use sandtable::execute::execute;
use sandtable::plan::{Options, Plan, plan};
use sandtable_hardware::random::Stream;

use crate::help::{compiled, root};

fn expand(folder: &std::path::Path, spec: &str) -> Plan {
    let path = folder.join("spec.ron");
    std::fs::write(&path, spec).expect("written");
    let options = Options { policies: Some(root().join("policies/dist")), ..Options::default() };
    plan(&path, &options).expect("a plan")
}

/// Ends by name.
fn ends(plan: &Plan) -> Vec<BTreeMap<String, String>> {
    let compiled = compiled(plan);
    let of = |cell| {
        let files = execute(cell, &compiled).expect("a result").files().expect("files");
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
                let (due, priority) = (job * 97 + stream.integer() % 9000, stream.integer() % 3);
                format!(
                    "j{job},{}.{:03},{gpus},{seconds}.{:03},{due}.{job:03},{priority}",
                    job * 97,
                    job % 89,
                    (job * 7) % 83
                )
            })
            .collect();
        let mut results = Vec::new();
        for _ in 0..3 {
            let text = format!("job_id,submit_s,gpus,duration_s,deadline_s,job_priority\n{}\n", rows.join("\n"));
            std::fs::write(folder.path().join("t.csv"), text).expect("written");
            let spec = "Experiment(title: \"p\", fleet: Model(nodes: 3, gpus: 8, kind: \"K80\"), \
                workload: Trace(file: \"t.csv\"), predictors: {\"remaining\": Oracle}, policies: [Policy(name: \"fifo\"), \
                Policy(name: \"sjf\"), Policy(name: \"srtf\"), Policy(name: \"srsf\"), Policy(name: \"las\"), Policy(name: \"edf\"), Policy(name: \"priority\")])";
            results.push(ends(&expand(folder.path(), spec)));
            stream.shuffle(&mut rows);
        }
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}");
    }
}
