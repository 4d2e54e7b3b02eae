//! Jobs that move under `kai-like`, so that another finds its GPUs on one node.

use sandtable_results::schema::{JobRecord, Seconds};

use crate::help::{planned, results};

/// Starts, and ends, of jobs of one queue on nodes of four GPUs where a preemption costs a minute; how often each was preempted.
fn moved(consolidate: u32, jobs: &str) -> Vec<(f64, f64, u32)> {
    let text = format!(
        "Experiment(title: \"queues\", fleet: Model(nodes: 2, gpus: 4, kind: \"g\", speed: 1.0), queues: [Queue(name: \"a\", guaranteed: 8)], \
         costs: Costs(checkpoint: \"30s\", restore: \"30s\"), workload: Jobs([{jobs}]), \
         policies: [Policy(name: \"kai-like\", with: {{\"consolidate\": {consolidate}}})])"
    );
    let (_, rows) = results::<JobRecord>(&planned(&text).unwrap_or_else(|error| panic!("{error}")));
    let seconds = |at: Option<Seconds>| at.map_or(f64::NAN, Seconds::f64);
    rows.iter().map(|row| (seconds(row.first_start_s), seconds(row.end_s), row.preemptions)).collect()
}

/// The first of two jobs is started though its queue has no weight, and goes once it has run for the least time, whatever else happens.
#[test]
fn what_has_just_started_is_taken_back_after_the_least_run() {
    let starts = |with: &str| {
        let job = |queue: &str| format!("Job(submit: \"0s\", gpus: 4, duration: \"1000s\", queue: {queue:?}),");
        let text = format!(
            "Experiment(title: \"queues\", fleet: Model(nodes: 1, gpus: 4, kind: \"g\", speed: 1.0), workload: Jobs([{}{}]), \
             queues: [Queue(name: \"a\", weight: 0, priority: 1), Queue(name: \"b\", weight: 1)], policies: [Policy(name: \"kai-like\"{with})])",
            job("a"),
            job("b")
        );
        let (_, rows) = results::<JobRecord>(&planned(&text).unwrap_or_else(|error| panic!("{error}")));
        rows.iter().map(|row| row.first_start_s.map_or(f64::NAN, Seconds::f64)).collect::<Vec<f64>>()
    };
    assert_eq!(starts(""), [0.0, 1.0]);
    assert_eq!(starts(", with: {\"least_run\": 20}"), [0.0, 20.0]);
}

/// Of eight GPUs that none is guaranteed each queue has a half; one that has had three quarters of the cluster lately has a quarter of them.
#[test]
fn a_queue_that_has_used_more_has_less_of_what_none_is_guaranteed() {
    let at_once = |with: &str| {
        let job = |queue: &str| format!("Job(submit: \"0s\", gpus: 1, duration: \"10s\", queue: {queue:?}),").repeat(8);
        let text = format!(
            "Experiment(title: \"queues\", fleet: Model(nodes: 1, gpus: 8, kind: \"g\", speed: 1.0), workload: Jobs([{}{}]), \
             queues: [Queue(name: \"a\"), Queue(name: \"b\")], policies: [Policy(name: \"kai-like\"{with})])",
            job("a"),
            job("b")
        );
        let (_, rows) = results::<JobRecord>(&planned(&text).unwrap_or_else(|error| panic!("{error}")));
        rows[..8].iter().filter(|row| row.first_start_s.map(Seconds::f64) == Some(0.0)).count()
    };
    let used = |more: &str| format!(", with: {{\"usage\": {{\"a\": 0.75, \"b\": 0.25}}{more}}}");
    assert_eq!([at_once(""), at_once(&used("")), at_once(&used(", \"k\": 0"))], [4, 2, 4]);
}

#[test]
fn jobs_move_so_that_one_finds_its_gpus_on_one_node() {
    let job = |at: u32, gpus: u32, duration: u32, more: &str| {
        format!("Job(submit: \"{at}s\", gpus: {gpus}, duration: \"{duration}s\", queue: \"a\"{more}),")
    };
    // From 50 s on two GPUs of the first node and three of the second are free; the job on the latter moves.
    let four = job(100, 4, 100, ", gpus_per_node: 4");
    let jobs = [job(0, 2, 1000, ""), job(0, 2, 50, ""), job(1, 1, 1000, "")].concat() + &four;
    let (before, after) = (moved(0, &jobs), moved(16, &jobs));
    assert_eq!(before[3], (1000.0, 1100.0, 0));
    // It saves until 130 s and goes on at 160 s; the other has waited for its GPUs.
    assert_eq!(after, [(0.0, 1000.0, 0), (0.0, 50.0, 0), (1.0, 1061.0, 1), (100.0, 230.0, 0)]);
    // What is kept for the one that moves goes to no other, neither in the same call nor later.
    let others = job(100, 2, 500, ", gpus_per_node: 2") + &job(110, 2, 500, ", gpus_per_node: 2");
    let after = moved(16, &(jobs.clone() + &others));
    assert_eq!(after[2].2, 1);
    assert!(after[2].1 <= 1061.0, "{after:?}");
    // A job that may not be preempted does not move, nor does any for one.
    let firm = jobs.replace("\"1000s\", queue: \"a\"", "\"1000s\", queue: \"a\", preemptible: false");
    assert_eq!(moved(16, &firm), moved(0, &firm));
}
