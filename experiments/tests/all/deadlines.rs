//! Deadlines, priorities and refusals, from the spec through the components to results, against schedules worked out by hand.

use sandtable::plan::{Options, plan};
use sandtable_results::schema::JobRecord;
use sandtable_runtime::{JobOutcome, Summary};

use crate::help::{dist, planned, results, sandtable};

/// Runs jobs on one node of two GPUs.
fn ran(policy: &str, workload: &str) -> (Summary, Vec<JobRecord>) {
    let spec = format!(
        "Experiment(title: \"due\", fleet: Model(nodes: 1, gpus: 2, kind: \"g\", speed: 1.0), workload: {workload}, \
         policies: [{policy}], predictors: {{\"remaining\": Oracle}})"
    );
    results(&planned(&spec).unwrap_or_else(|error| panic!("{error}")))
}

/// Seconds at which each job ended or was refused, and whether it was refused.
fn ends(rows: &[JobRecord]) -> Vec<(f64, bool)> {
    let of = |row: &JobRecord| {
        (row.end_s.map_or(f64::NAN, sandtable_results::schema::Seconds::f64), row.outcome == JobOutcome::Refused)
    };
    rows.iter().map(of).collect()
}

/// Two GPUs. The second and the third can't both be done by 200 s; the fourth could, beside one of them.
const DUE: &str = "Jobs([
    Job(submit: \"0s\", gpus: 2, duration: \"100s\"),
    Job(submit: \"10s\", gpus: 2, duration: \"100s\", deadline: \"200s\"),
    Job(submit: \"20s\", gpus: 2, duration: \"100s\", deadline: \"190s\"),
    Job(submit: \"30s\", gpus: 1, duration: \"50s\", deadline: \"300s\"),
])";

#[test]
fn the_earliest_deadline_comes_first_and_takes_gpus() {
    // The first stops at 10 s, the second at 20 s; then 20 to 120, 120 to 210, and 210 on for the fourth.
    let (summary, rows) = ran("Policy(name: \"edf\")", DUE);
    assert_eq!(ends(&rows), [(350.0, false), (210.0, false), (120.0, false), (260.0, false)]);
    let deadlines = summary.deadlines.expect("some have one");
    assert_eq!((deadlines.jobs, deadlines.met, deadlines.tardiness_max), (3, 2, 10.0));
    assert!((deadlines.tardiness_mean - 10.0 / 3.0).abs() < 1e-9);
    assert_eq!((summary.refused, summary.completed, summary.unfinished), (0, 4, 0));
    let (_, rows) = ran("Policy(name: \"edf\", with: {\"preempt\": false})", DUE);
    assert_eq!(ends(&rows), [(100.0, false), (300.0, false), (200.0, false), (350.0, false)]);
}

#[test]
fn a_job_that_can_not_meet_its_deadline_any_more_is_refused() {
    // Not preempting: at 100 s the third would end at 200 s, after its deadline; the second ends just in time.
    let (summary, rows) = ran("Policy(name: \"edf\", with: {\"preempt\": false, \"admission\": \"hopeful\"})", DUE);
    assert_eq!(ends(&rows), [(100.0, false), (200.0, false), (100.0, true), (250.0, false)]);
    assert_eq!((summary.refused, summary.completed, summary.unfinished), (1, 3, 0));
    let deadlines = summary.deadlines.expect("some have one");
    assert_eq!((deadlines.jobs, deadlines.met, deadlines.tardiness_max), (3, 2, 0.0));
}

#[test]
fn a_job_that_would_make_another_miss_its_deadline_is_refused_as_it_comes() {
    let (summary, rows) = ran("Policy(name: \"edf\", with: {\"admission\": \"feasible\"})", DUE);
    // The third would push the second from 110 s to 210 s.
    assert_eq!(ends(&rows), [(250.0, false), (110.0, false), (20.0, true), (160.0, false)]);
    assert_eq!((summary.refused, summary.deadlines.map(|of| of.met)), (1, Some(2)));
    assert_eq!(rows[2].first_start_s, None);
}

#[test]
fn a_job_is_admitted_to_the_microsecond_and_refused_from_the_first_instant_on() {
    let jobs = "Jobs([
        Job(submit: \"0s\", gpus: 2, duration: \"10s\", deadline: \"5s\"),
        Job(submit: \"100s\", gpus: 2, duration: \"8.3s\", deadline: \"108.3s\"),
    ])";
    for admission in ["hopeful", "feasible"] {
        let policy = format!("Policy(name: \"edf\", with: {{\"admission\": {admission:?}}})");
        let (summary, rows) = ran(&policy, jobs);
        assert_eq!(ends(&rows), [(0.0, true), (108.3, false)], "{admission}");
        assert_eq!(summary.deadlines.map(|of| (of.jobs, of.completed, of.met)), Some((2, 1, 1)));
    }
}

#[test]
fn admission_needs_to_be_told_how_long_jobs_take() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 1, kind: \"K80\"), workload: Generate(jobs: 3), \
        policies: [Policy(name: \"edf\", with: {\"admission\": \"feasible\"})])";
    std::fs::write(folder.path().join("spec.ron"), text).expect("written");
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--store", "s", "--policies", &dist()]);
    assert_ne!(ran.code, 0);
    assert!(ran.stderr.contains("admission \"feasible\" needs to be told `remaining`"), "{}", ran.stderr);
}

#[test]
fn the_higher_priority_takes_gpus_and_equals_wait_their_turn() {
    let jobs = "Jobs([
        Job(submit: \"0s\", gpus: 2, duration: \"100s\"),
        Job(submit: \"10s\", gpus: 1, duration: \"100s\", priority: -1),
        Job(submit: \"20s\", gpus: 2, duration: \"50s\", priority: 7),
        Job(submit: \"30s\", gpus: 2, duration: \"50s\", priority: 7),
    ])";
    let (summary, rows) = ran("Policy(name: \"priority\")", jobs);
    assert_eq!(ends(&rows), [(200.0, false), (300.0, false), (70.0, false), (120.0, false)]);
    assert_eq!((summary.preemptions, summary.deadlines), (1, None));
    let (summary, rows) = ran("Policy(name: \"priority\", with: {\"preempt\": false})", jobs);
    assert_eq!(ends(&rows), [(100.0, false), (300.0, false), (150.0, false), (200.0, false)]);
    assert_eq!(summary.preemptions, 0);
}

#[test]
fn drawn_deadlines_follow_submissions_by_run_times_and_priorities_have_their_weights() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("spec.ron");
    let text = "Experiment(title: \"t\", fleet: Model(nodes: 8, gpus: 8, kind: \"K80\"), seeds: List([3]), workload: Generate(jobs: 4000, \
        durations: Fixed(\"100s\"), deadlines: Deadlines(least: 0.5, most: 1.5, share: 0.75), priorities: {0: 3, 10: 1}), \
        policies: [Policy(name: \"fifo\")])";
    std::fs::write(&path, text).expect("written");
    let plan = plan(&path, &Options { policies: Some(dist().into()), ..Options::default() }).expect("a plan");
    let jobs = plan.cells[0].jobs().expect("jobs");
    let slack: Vec<f64> =
        jobs.iter().filter_map(|job| Some((job.deadline? - job.submit).as_secs_f64() / 100.0)).collect();
    assert!(slack.iter().all(|factor| (0.5..=1.5).contains(factor)));
    assert!((slack.len() as f64 / 4000.0 - 0.75).abs() < 0.03, "{} have a deadline", slack.len());
    assert!((slack.iter().sum::<f64>() / slack.len() as f64 - 1.0).abs() < 0.02);
    let high = jobs.iter().filter(|job| job.priority == 10).count();
    assert!((high as f64 / 4000.0 - 0.25).abs() < 0.03, "{high} have priority 10");
    assert!(jobs.iter().all(|job| [0, 10].contains(&job.priority)));
}

#[test]
fn a_deadline_beyond_the_end_of_time_is_none_to_a_policy() {
    let endless =
        "Generate(jobs: 3, gpus: {1: 1}, durations: Fixed(\"8760h\"), deadlines: Deadlines(least: 1e6, most: 1e6))";
    let (summary, _) = ran("Policy(name: \"edf\")", endless);
    assert_eq!(summary.deadlines.map(|of| (of.jobs, of.met)), Some((3, 3)));
}

#[test]
fn what_is_wrong_with_deadlines_and_priorities_is_said_at_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("spec.ron");
    let error = |workload: &str| {
        let text = format!(
            "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 1, kind: \"K80\"), workload: {workload}, \
             policies: [Policy(name: \"fifo\")])"
        );
        std::fs::write(&path, text).expect("written");
        let planned = plan(&path, &Options { policies: Some(dist().into()), ..Options::default() });
        planned.map(|_| ()).expect_err("a mistake").to_string()
    };
    for (workload, why) in [
        ("Generate(jobs: 1, deadlines: Deadlines(least: -1, most: 1))", "from 0 to 10^6, found -1"),
        ("Generate(jobs: 1, deadlines: Deadlines(least: 2, most: 1))", "from `least`, 2, to 10^6, found 1"),
        ("Generate(jobs: 1, deadlines: Deadlines(least: 1, most: 1, share: 0))", "above 0 and at most 1, found 0"),
        ("Generate(jobs: 1, priorities: {0: -1})", "expected weights of at least 0"),
        ("Generate(jobs: 1, priorities: {0: 0})", "expected weights of at least 0, not all of them 0"),
    ] {
        let found = error(workload);
        assert!(found.contains(why), "{workload}: {found}");
    }
    let trace = folder.path().join("t.csv");
    std::fs::write(&trace, "submit_s,gpus,duration_s,job_priority,deadline_s\n0,1,1,high,2\n").expect("written");
    let found = error("Trace(file: \"t.csv\")");
    assert!(found.contains("t.csv:2") && found.contains("found \"high\""), "{found}");
}
