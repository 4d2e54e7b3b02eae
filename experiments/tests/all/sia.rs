//! Sia, through the component.

use std::collections::BTreeMap;

use sandtable_results::schema::{JobRecord, Seconds};

use crate::help::{planned, results, root};

/// Seconds and last place of jobs of a net on nodes of four T4 and of eight A100.
fn of_jobs(t4: u32, a100: u32, with: &str, jobs: &[(u32, &str)]) -> BTreeMap<String, (f64, u32, String)> {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("jobs.csv");
    let row = |(at, (submit, net)): (usize, &(u32, &str))| format!("{submit},{net}-{at},1,128\n");
    let rows: String = jobs.iter().enumerate().map(row).collect();
    std::fs::write(&trace, format!("time,name,num_replicas,batch_size,application\n{}", with_application(&rows)))
        .expect("a file");
    let profile = root().join("experiments/specs/profiles/pollux-types.ron");
    let group = |nodes: u32, gpus: u32, kind: &str| match nodes {
        0 => String::new(),
        _ => format!("Group(nodes: {nodes}, gpus: {gpus}, kind: {kind:?}, speed: 1.0), "),
    };
    let spec = format!(
        "Experiment(title: \"sia\", fleet: Model(groups: [{}{}]), profile: File({profile:?}), \
         workload: Trace(file: {trace:?}, format: Pollux), costs: Costs(rescale: Full), predictors: {{\"steps\": Oracle}}, \
         policies: [Policy(name: \"sia\", with: {{{with}}})])",
        group(t4, 4, "T4"),
        group(a100, 8, "A100-SXM4-40GB"),
    );
    let plan = planned(&spec).unwrap_or_else(|error| panic!("{error}"));
    let (_, rows) = results::<JobRecord>(&plan);
    let of = |row: JobRecord| {
        let end = row.end_s.map_or(f64::NAN, Seconds::f64);
        (row.job_id, (end - row.submit_s.f64(), row.reassignments, row.last_placement.to_string()))
    };
    rows.into_iter().map(of).collect()
}

/// The column `application` behind each row: the name without its number.
fn with_application(rows: &str) -> String {
    let of = |row: &str| {
        let net = row.split([',', '-']).nth(1).unwrap_or_default();
        format!("{row},{net}\n")
    };
    rows.lines().map(of).collect()
}

#[test]
fn a_job_goes_where_its_goodput_is_and_grows_by_what_it_has_shown() {
    // BERT is three to five times as fast on an A100; alone it grows from one GPU on, twice at a time, until a whole node.
    let found = of_jobs(2, 1, "", &[(0, "bert")]);
    let (_, reassignments, place) = &found["bert-0"];
    assert!(place.starts_with("2:") && *reassignments >= 2, "{found:?}");
    // Where it is not asked what a job takes on a type that it has not been on, a job starts on the first and knows no other.
    let blind = of_jobs(2, 1, "\"bootstrap\": \"none\"", &[(0, "bert")]);
    assert!(!blind["bert-0"].2.starts_with("2:") && blind["bert-0"].0 > found["bert-0"].0, "{blind:?}");
}

#[test]
fn who_gains_the_most_gets_the_faster_type() {
    // One node of each: BERT gains three to five times, YOLOv3 nothing.
    let found = of_jobs(1, 1, "", &[(0, "yolov3"), (0, "bert")]);
    assert!(found["bert-1"].2.starts_with("1:"), "{found:?}");
}

#[test]
fn no_job_is_left_behind_where_there_are_more_than_gpus() {
    let jobs: Vec<(u32, &str)> = (0..20).map(|at| (at * 10, ["cifar10", "ncf"][at as usize % 2])).collect();
    let found = of_jobs(2, 0, "", &jobs);
    assert!(found.len() == 20 && found.values().all(|(seconds, ..)| *seconds > 0.0), "{found:?}");
}
