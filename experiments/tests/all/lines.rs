//! Lines by type: jobs of one partition of a cluster start as if they had it to themselves.

use std::collections::BTreeMap;
use std::fmt::Write;

use sandtable_policy::Draws;
use sandtable_results::schema::JobRecord;

use crate::help::{dist, planned, results, sandtable};

/// When the jobs of a trace start on these kinds of GPU, a node of 8 each.
fn starts(kinds: &[&str], jobs: &str, with: &str) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("jobs.csv");
    std::fs::write(&trace, format!("job_id,submit_s,gpus,duration_s,gpu_types\n{jobs}")).expect("a file");
    let group = |kind: &&str| format!("Group(nodes: 1, gpus: 8, kind: {kind:?}, speed: 1.0)");
    let spec = format!(
        "Experiment(title: \"lines\", fleet: Model(groups: [{}]), workload: Trace(file: {trace:?}, format: Native), \
         predictors: {{\"remaining\": Oracle}}, policies: [Policy(name: \"fifo\", with: {{{with}}})])",
        kinds.iter().map(group).collect::<Vec<_>>().join(", "),
    );
    let plan = planned(&spec).unwrap_or_else(|error| panic!("{error}"));
    let (_, rows) = results::<JobRecord>(&plan);
    rows.into_iter().map(|row| (row.job_id, format!("{:?}", row.first_start_s))).collect()
}

/// The rows of 60 jobs that may run on one type of GPU or the other, a list for each.
fn drawn(seed: u64) -> (String, [String; 2]) {
    let mut draws = Draws::new(seed);
    let (mut all, mut parts, mut at) = (String::new(), [String::new(), String::new()], 0);
    for job in 0..60 {
        at += draws.below(60);
        let kind = draws.below(2);
        let row = format!("j{job},{at},{},{},{}\n", 1 + draws.below(8), 1 + draws.below(300), ["V100", "T4"][kind]);
        write!(all, "{row}").expect("a string");
        write!(parts[kind], "{row}").expect("a string");
    }
    (all, parts)
}

#[test]
fn each_partition_is_as_if_it_were_alone() {
    let mut differ = 0;
    for (seed, backfill) in (0..6).flat_map(|seed| ["none", "skip", "easy", "conservative"].map(|way| (seed, way))) {
        let (all, parts) = drawn(seed);
        let with = |lines: &str| format!("\"backfill\": {backfill:?}, \"lines\": {lines:?}");
        let together = starts(&["V100", "T4"], &all, &with("by-type"));
        let mut apart = starts(&["V100"], &parts[0], &with("one"));
        apart.extend(starts(&["T4"], &parts[1], &with("one")));
        assert_eq!(together, apart, "{seed} {backfill}");
        differ += u32::from(starts(&["V100", "T4"], &all, &with("one")) != apart);
    }
    // In one line they hold each other up, but for those who skip and those who plan.
    assert_eq!(differ, 12);
}

#[test]
fn what_can_not_be_planned_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |sharing: &str, predictors: &str| {
        let spec = format!(
            "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 1, kind: \"T4\"{sharing}), workload: Generate(jobs: 2, arrivals: AtOnce), \
             {predictors} policies: [Policy(name: \"fifo\", with: {{\"backfill\": \"conservative\"}})])"
        );
        std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
        let ran = sandtable(folder.path(), &["run", "spec.ron", "--policies", &dist(), "--no-progress"]);
        assert_ne!(ran.code, 0);
        ran.stderr
    };
    let told = "predictors: {\"remaining\": Oracle},";
    assert!(refused("", "").contains("backfill \"conservative\" needs to be told `remaining`"));
    assert!(refused(", sharing: Shares", told).contains("counts whole GPUs, not shares or parts of them"));
}

/// In one line jobs of two types are asked about once each, and not again whenever the other type has its turn.
#[test]
fn a_long_line_of_two_types_is_planned_within_a_calls_fuel() {
    let row = |at: u64| format!("j{at},0,{},{},{}\n", 1 + at % 8, 60 + at % 977, ["V100", "T4"][at as usize % 2]);
    let jobs: String = (0..3000).map(row).collect();
    let found = starts(&["V100", "T4"], &jobs, "\"backfill\": \"conservative\"");
    assert_eq!(found.len(), 3000);
}
