//! Policies that choose who shares a GPU by what predictors say, through the component.

use std::collections::BTreeMap;

use sandtable_results::schema::{JobRecord, Seconds};

use crate::help::{planned, results};

/// Start, end and last place of the jobs of a trace: on so many nodes of one RTX 3090 (24,576 MiB), of which two may share one.
fn of_jobs(nodes: u32, policy: &str, jobs: &str) -> BTreeMap<String, (f64, f64, String)> {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("jobs.csv");
    std::fs::write(&trace, format!("job_id,submit_s,gpus,duration_s,workload\n{jobs}")).expect("a file");
    let workload = |name: &str| format!("Workload(name: {name:?}, family: {name:?})");
    let names = ["light", "middling", "heavy", "large"];
    let spec = format!(
        "Experiment(title: \"pairs\", fleet: Model(nodes: {nodes}, gpus: 1, kind: \"RTX-3090\", sharing: Packed(2)), \
         profile: Inline(Profile(about: \"\", workloads: [{}], gpus: [Gpu(kind: \"RTX-3090\", sources: {{}}, solo: {{\
         \"light\": Solo(memory_mib: 2000), \"middling\": Solo(memory_mib: 2000), \"heavy\": Solo(memory_mib: 2000), \
         \"large\": Solo(memory_mib: 11700)}}, pairs: [\
         Pair(\"light\", \"light\", 0.99, 0.99), Pair(\"light\", \"middling\", 0.96, 0.9), Pair(\"light\", \"heavy\", 0.95, 0.8), \
         Pair(\"middling\", \"middling\", 0.9, 0.9), Pair(\"middling\", \"heavy\", 0.88, 0.7), Pair(\"heavy\", \"heavy\", 0.5, 0.5), \
         Pair(\"large\", \"large\", 0.98, 0.98)])])), reveal: [SoloProfile, Memory], workload: Trace(file: {trace:?}, format: Native), \
         predictors: {{\"remaining\": Oracle, \"memory\": Oracle, \"pair-speed\": Oracle}}, policies: [{policy}])",
        names.map(workload).join(", "),
    );
    let plan = planned(&spec).unwrap_or_else(|error| panic!("{error}"));
    let (_, rows) = results::<JobRecord>(&plan);
    let seconds = |at: Option<Seconds>| at.map_or(f64::NAN, Seconds::f64);
    let of =
        |row: JobRecord| (row.job_id, (seconds(row.first_start_s), seconds(row.end_s), row.last_placement.to_string()));
    rows.into_iter().map(of).collect()
}

const LUCID: &str = "Policy(name: \"lucid-like\", with: {\"quiet\": 0})";

#[test]
fn scores_say_who_may_share() {
    // A heavy job scores 2 and shares with a light one (0) alone.
    let found = of_jobs(1, LUCID, "a,0,1,1000,heavy\nb,1,1,900,heavy\nc,2,1,800,light\n");
    assert_eq!((found["a"].0, found["c"].0), (0.0, 2.0), "{found:?}");
    assert_eq!(found["b"].0, found["a"].1, "{found:?}");
    // Two middling ones (1 each) may, a middling and a heavy one (3) may not.
    let found = of_jobs(1, LUCID, "a,0,1,1000,middling\nb,1,1,900,middling\n");
    assert_eq!(found["b"].0, 1.0, "{found:?}");
    let found = of_jobs(1, LUCID, "a,0,1,1000,middling\nb,1,1,900,heavy\n");
    assert_eq!(found["b"].0, found["a"].1, "{found:?}");
    // Of a job without a workload nothing is known.
    let found = of_jobs(1, LUCID, "a,0,1,1000,light\nb,1,1,900,\n");
    assert_eq!(found["b"].0, found["a"].1, "{found:?}");
}

#[test]
fn a_job_joins_the_first_that_started_and_none_that_is_done_much_sooner() {
    let found = of_jobs(3, LUCID, "a,0,1,800,heavy\nb,1,1,1000,heavy\nc,2,1,1000,light\n");
    assert_eq!(found["c"].2, found["a"].2, "{found:?}");
    // Its 1,700 s are more than twice the 800, and not more than twice the 1,000.
    let found = of_jobs(3, LUCID, "a,0,1,800,heavy\nb,1,1,1000,heavy\nc,2,1,1700,light\n");
    assert_eq!(found["c"].2, found["b"].2, "{found:?}");
    let last = "Policy(name: \"lucid-like\", with: {\"quiet\": 0, \"join\": \"last\"})";
    let found = of_jobs(3, last, "a,0,1,800,heavy\nb,1,1,1000,heavy\nc,2,1,1000,light\n");
    assert!(found["c"].2 != found["a"].2 && found["c"].2 != found["b"].2, "{found:?}");
    // In a quiet hour none shares.
    let quiet = "Policy(name: \"lucid-like\", with: {\"quiet\": 9})";
    let found = of_jobs(1, quiet, "a,0,1,1000,heavy\nb,2,1,800,light\n");
    assert_eq!(found["b"].0, found["a"].1, "{found:?}");
}

#[test]
fn a_job_that_is_alone_again_is_joined_again() {
    // The first joins; it ends; the next of the same kind, which was refused before, joins.
    let found = of_jobs(1, LUCID, "a,0,1,4000,heavy\nb,1,1,500,light\nc,2,1,700,light\nd,3,1,900,light\n");
    assert_eq!((found["b"].0, found["c"].0, found["d"].0), (1.0, found["b"].1, found["c"].1), "{found:?}");
}

#[test]
fn where_a_job_is_foretold_to_be_done_first_it_goes() {
    let policy = |margin: &str| format!("Policy(name: \"schedtune-like\", with: {{\"margin\": {margin}}})");
    // Beside nobody, then beside the one that slows it down the least.
    let found = of_jobs(2, &policy("0.1"), "a,0,1,5000,heavy\nb,1,1,5000,light\nc,2,1,100,light\n");
    assert!(found["b"].2 != found["a"].2 && found["c"].2 == found["b"].2, "{found:?}");
    // Twice 11,700 MiB fit, but not with a tenth more each.
    let jobs = "a,0,1,1000,large\nb,1,1,1000,large\n";
    let found = of_jobs(1, &policy("0.1"), jobs);
    assert_eq!(found["b"].0, found["a"].1, "{found:?}");
    assert_eq!(of_jobs(1, &policy("0"), jobs)["b"].0, 1.0);
}

#[test]
fn a_job_that_joins_keeps_to_its_shape_and_to_what_nodes_have_left() {
    let run = |nodes: u32, jobs: &str| {
        let spec = format!(
            "Experiment(title: \"pairs\", fleet: Model(nodes: {nodes}, gpus: 2, kind: \"RTX-3090\", cpus: 8, host_memory: \"64GiB\", \
             sharing: Packed(2), levels: [Level(name: \"rack\", nodes: 1)]), profile: Inline(Profile(about: \"\", workloads: [Workload(name: \"light\", \
             family: \"light\")], gpus: [Gpu(kind: \"RTX-3090\", sources: {{}}, solo: {{}}, pairs: [Pair(\"light\", \"light\", 0.99, 0.99)])])), \
             reveal: [SoloProfile], workload: Jobs([{jobs}]), policies: [{LUCID}], \
             predictors: {{\"remaining\": Oracle, \"pair-speed\": Oracle}})"
        );
        let plan = planned(&spec).unwrap_or_else(|error| panic!("{error}"));
        let (_, rows) = results::<JobRecord>(&plan);
        rows.into_iter().map(|row| row.first_start_s.map_or(f64::NAN, Seconds::f64)).collect::<Vec<f64>>()
    };
    let job = |at: u32, gpus: u32, more: &str| {
        format!("Job(submit: \"{at}s\", gpus: {gpus}, duration: \"1h\", workload: \"light\"{more}), ")
    };
    // Two jobs of 6 of 8 CPUs do not share; two of 4 do.
    let starts = run(1, &(job(0, 1, ", cpus: 6") + &job(1, 1, ", cpus: 6")));
    assert_eq!(starts, [0.0, 3600.0]);
    let starts = run(1, &(job(0, 1, ", cpus: 4") + &job(1, 1, ", cpus: 4")));
    assert_eq!(starts, [0.0, 1.0]);
    // A gang over two nodes is not joined by one that asks for one node, or for one rack.
    let wide = job(0, 2, ", gpus_per_node: 1") + &job(0, 1, "") + &job(0, 1, "");
    for asks in [", gpus_per_node: 2", ", near: Near(required: \"rack\")"] {
        let starts = run(2, &(wide.clone() + &job(1, 2, asks)));
        assert!(starts[3] >= 3600.0, "{asks}: {starts:?}");
    }
    assert_eq!(run(2, &(wide + &job(1, 2, ", gpus_per_node: 1")))[3], 1.0);
}
