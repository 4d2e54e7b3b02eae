//! Plain jobs where GPUs are leased for rounds, from the spec through the components to results.

use sandtable_results::schema::{JobRecord, Seconds};

use crate::help::{planned, results};

/// Seconds at which each job ended on nodes of one GPU.
fn ends(fleet: &str, jobs: &str, policy: &str) -> Vec<f64> {
    let text = format!(
        "Experiment(title: \"leases\", fleet: Model(gpus: 1, kind: \"g\", {fleet}), workload: Jobs([{jobs}]), \
         semantics: Semantics(preset: \"shockwave\"), policies: [{policy}], \
         predictors: {{\"remaining\": Oracle, \"throughput\": Oracle}})"
    );
    let (_, rows) = results::<JobRecord>(&planned(&text).unwrap_or_else(|error| panic!("{error}")));
    rows.iter().map(|row| row.end_s.map_or(f64::NAN, Seconds::f64)).collect()
}

fn job(at: u32, seconds: u32) -> String {
    format!("Job(submit: \"{at}s\", gpus: 1, duration: \"{seconds}s\"), ")
}

fn named(policy: &str) -> String {
    format!("Policy(name: {policy:?})")
}

const ONE: &str = "nodes: 1, speed: 1.0";

#[test]
fn a_job_that_has_no_share_yet_waits_for_the_next_and_no_longer() {
    // The second comes after shares were computed at 5 s, which hold for 1000 s: when the first has ended nothing happens but rounds without leases,
    // every 120 s.
    let jobs = job(5, 300) + &job(200, 100);
    let found = ends(ONE, &jobs, &named("gavel-leases"));
    assert!(found[0] == 305.0 && (1105.0..=1305.0).contains(&found[1]), "{found:?}");
    assert_eq!(ends(ONE, &jobs, &named("fifo")), [305.0, 405.0]);
}

#[test]
fn a_round_of_leases_with_nothing_to_do_is_one_too() {
    // The first job has no work: its fifth lease ends it, all at 0 s; then the other has the GPU.
    for policy in [
        named("gavel-leases"),
        "Policy(name: \"gavel-leases\", with: {\"objective\": \"allox\"})".into(),
        named("fifo"),
    ] {
        let found = ends(ONE, &(job(0, 0) + &job(0, 100)), &policy);
        assert!(found.iter().all(|end| end.is_finite()), "{policy}: {found:?}");
    }
}

#[test]
fn every_policy_ends_every_job_and_time_goes_on() {
    let jobs: String = (0..24).map(|at| job(at * 53, 100 + at * 37)).collect();
    let policies = [
        "fifo",
        "sjf",
        "srtf",
        "las",
        "edf",
        "priority",
        "gavel",
        "gandiva-fair",
        "allox",
        "gavel-leases",
        "shockwave",
    ];
    for policy in policies {
        let found = ends("nodes: 3, speed: 1.0", &jobs, &named(policy));
        assert!(found.iter().all(|end| end.is_finite()), "{policy}: {found:?}");
    }
    // Two jobs in turn on one GPU: the policy preempts in every round.
    let found = ends(ONE, &(job(0, 1000) + &job(0, 1000)), &named("gandiva-fair"));
    assert!(found.iter().all(|end| (1000.0..3000.0).contains(end)), "{found:?}");
}

#[test]
fn slow_gpus_cut_no_job_off() {
    assert_eq!(ends("nodes: 1, speed: 0.5", &job(0, 1000), &named("fifo")), [2000.0]);
}

#[test]
fn a_node_that_fails_costs_the_lease_and_a_restart() {
    // Node 0 is taken down at 300 s, in the middle of the third lease: 60 s of it are lost. From then on the job has the other node, and 20 s of its
    // first lease there are a restart.
    let down = |at: u32| {
        format!("nodes: 2, speed: 1.0, maintenance: [Maintenance(nodes: [0], from: \"{at}s\", to: \"9999s\")]")
    };
    assert_eq!(ends(&down(300), &job(0, 1000), &named("fifo")), [1000.0 + 120.0 + 20.0]);
    // At 240 s the second lease is over, and nothing of it is lost.
    assert_eq!(ends(&down(240), &job(0, 1000), &named("fifo")), [1000.0 + 20.0]);
}

#[test]
fn a_long_run_goes_on_when_its_node_is_back() {
    let fleet = "nodes: 1, speed: 1.0, maintenance: [Maintenance(nodes: [0], from: \"1500000s\", to: \"1503600s\")]";
    for policy in ["fifo", "gavel-leases", "shockwave"] {
        let found = ends(fleet, &job(0, 2_000_000), &named(policy));
        assert!((2_003_600.0..2_004_000.0).contains(&found[0]), "{policy}: {found:?}");
    }
}

#[test]
fn what_leases_do_not_have_is_refused_at_its_place() {
    let refused = |fleet: &str, more: &str| {
        let text = format!(
            "Experiment(title: \"leases\", fleet: Model(nodes: 1, gpus: 1, kind: \"V100\", speed: 1.0{fleet}), {more}, \
             semantics: Semantics(preset: \"shockwave\"), policies: [Policy(name: \"fifo\")])"
        );
        match planned(&text).and_then(|plan| plan.cells[0].jobs().map_err(|error| error.to_string())) {
            Err(error) => error.replace('\\', ""),
            Ok(_) => panic!("{more} is taken"),
        }
    };
    let jobs = format!("workload: Jobs([{}])", job(0, 1));
    for (fleet, more, says) in [
        (", sharing: Shares", jobs.clone(), "GPUs are leased to one job each"),
        ("", format!("{jobs}, costs: Costs(restore: \"1s\")"), "a restart costs part of a lease"),
        ("", format!("{jobs}, costs: Costs(relaunch: \"9s\")"), "a restart costs part of a lease"),
    ] {
        assert!(refused(fleet, &more).contains(says), "{more}: {}", refused(fleet, &more));
    }
    let regime = |rates: &str, job: &str| {
        format!(
            "profile: Inline((about: \"r\", workloads: [(name: \"w\", family: \"w\", regime: Regime(samples: 100, most_batch: 40, \
             growth: Fixed, rates: {{1: {{10: {rates}}}}}))], gpus: [(kind: \"V100\", sources: {{}}, solo: {{}})])), \
             workload: Jobs([Job(submit: \"0s\", gpus: 1, workload: \"w\", {job})])"
        )
    };
    for (rate, job, says) in [
        ("5.0", "duration: \"10s\"", "job \"0\" has no batch: those of \"w\" change theirs"),
        ("5.0", "batch: 10", "job \"0\" has no duration"),
        ("5.0", "batch: 20, duration: \"10s\"", "the profile has no rate of \"w\" so"),
        ("1e9", "batch: 10, duration: \"10s\"", "its duration is 1000000000 epochs, expected at most 1000000"),
        ("1e-6", "batch: 10, duration: \"10s\"", "w: 0.000001 steps a second are none in a lease of 120 s"),
    ] {
        assert!(refused("", &regime(rate, job)).contains(says), "{job}: {}", refused("", &regime(rate, job)));
    }
    let continuous = regime("5.0", "batch: 10, duration: \"10s\"");
    let text = format!(
        "Experiment(title: \"r\", fleet: Model(nodes: 1, gpus: 1, kind: \"V100\", speed: 1.0), {continuous}, policies: [Policy(name: \"fifo\")])"
    );
    let error = planned(&text).err().expect("an error");
    assert!(error.contains("change their batch between leases"), "{error}");
}
