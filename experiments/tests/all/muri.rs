//! Muri's simulator: from the spec through the component, each job of its SRTF and SRSF starts and ends when it does there.

use std::collections::BTreeMap;

use sandtable_needs::needs;
use sandtable_results::schema::{JobRecord, Seconds};

use crate::elastic::summaries;
use crate::help::{data, planned, results, told};

/// A cell of 8 nodes of 8 GPUs under the preset.
fn cell(order: &str, jobs: u32) -> sandtable::plan::Plan {
    let trace = data("muri/trace1.csv.gz");
    let spec = format!(
        "Experiment(title: \"muri\", fleet: Model(nodes: 8, gpus: 8, kind: \"V100\", speed: 1.0, sharing: Packed(4)), \
         profile: Muri({trace:?}), interference: (law: Stages), workload: Trace(file: {trace:?}, format: MuriSteps), \
         semantics: Semantics(preset: \"muri\"), predictors: {{\"remaining\": Oracle}}, reveal: [SoloProfile], \
         policies: [Policy(name: \"muri\", with: {{\"order\": {order:?}, \"jobs\": {jobs}}})])"
    );
    planned(&spec).unwrap_or_else(|error| panic!("{error}"))
}

/// Start and end of each job, as the simulator says, in seconds.
fn theirs(file: &str) -> BTreeMap<String, (f64, f64)> {
    let packed = std::fs::File::open(data(file)).expect("the results");
    let mut reader = csv::Reader::from_reader(flate2::read::GzDecoder::new(packed));
    let of = |record: csv::StringRecord| {
        let number = |at: usize| record[at].parse::<f64>().expect("seconds");
        (record[1].to_string(), (number(4), number(5)))
    };
    reader.records().map(|record| of(record.expect("a row"))).collect()
}

/// Compares every job; its clock is of doubles, ours of microseconds.
fn is_met(order: &str, file: &str) {
    let (_, rows) = results::<JobRecord>(&cell(order, 1));
    let theirs = theirs(file);
    assert_eq!(rows.len(), theirs.len());
    let off = |ours: &JobRecord| {
        let (start, end) = theirs[&ours.job_id];
        let of = |ours: Option<Seconds>, theirs: f64| ours.map_or(f64::INFINITY, |ours| (ours.f64() - theirs).abs());
        of(ours.first_start_s, start).max(of(ours.end_s, end))
    };
    let worst = rows.iter().map(off).fold(0.0, f64::max);
    told(&format!("Muri's simulator, {order}: {} jobs, the furthest {worst:.6} s off", rows.len()));
    assert!(worst < 1e-2, "{worst}");
}

#[needs("data:muri")]
#[test]
fn srtf_is_met_job_by_job() {
    is_met("time", "muri/simres_trace1_shortest.csv.gz");
}

#[needs("data:muri")]
#[test]
fn srsf_is_met_job_by_job() {
    is_met("service", "muri/simres_trace1_shortest-gpu.csv.gz");
}

/// A gang that finds no place displaces few: jobs end as under `srsf`, whose order it is where nothing is grouped, for less than twice its preemptions.
#[test]
fn a_larger_gang_moves_few_jobs() {
    let spec = "Experiment(title: \"moves\", fleet: Model(nodes: 16, gpus: 8, kind: \"RTX-3090\", sharing: Packed(2)), \
                workload: Generate(jobs: 1500, arrivals: Poisson(load: 1.1), gpus: {1: 0.80, 2: 0.10, 4: 0.07, 8: 0.03}, \
                durations: LogNormal(median: \"1h\", sigma: 1.4, most: \"5d\")), predictors: {\"remaining\": Oracle}, \
                policies: [Policy(name: \"muri\"), Policy(name: \"srsf\")])";
    let all = summaries(spec);
    let (muri, srsf) = (&all[0].1, &all[1].1);
    assert!((muri.jct.mean / srsf.jct.mean - 1.0).abs() < 1e-3, "{} s, {} s", muri.jct.mean, srsf.jct.mean);
    assert!(
        srsf.preemptions > 100 && muri.preemptions < 2 * srsf.preemptions,
        "{} {}",
        muri.preemptions,
        srsf.preemptions
    );
}

/// Five GPUs are to be had only where four run: those move, and what they leave serves the two that come too.
#[test]
fn what_a_gang_that_moves_leaves_is_open() {
    let job = |name: &str, at: u32, gpus: u32, seconds: u32| {
        format!("Job(name: {name:?}, submit: \"{at}s\", gpus: {gpus}, duration: \"{seconds}s\"), ")
    };
    let mut jobs: String = (0..8).map(|at| job(&format!("s{at}"), 0, 1, 10_000)).collect();
    for (name, at, gpus, seconds) in [
        ("b", 1, 4, 5000),
        ("f", 2, 4, 100),
        ("k", 3, 4, 5000),
        ("g", 4, 4, 100),
        ("x", 200, 5, 1000),
        ("n", 200, 2, 1000),
    ] {
        jobs += &job(name, at, gpus, seconds);
    }
    let spec = format!(
        "Experiment(title: \"open\", fleet: Model(nodes: 3, gpus: 8, kind: \"V100-SXM2-16GB\"), workload: Jobs([{jobs}]), \
         predictors: {{\"remaining\": Oracle}}, policies: [Policy(name: \"muri\", with: {{\"jobs\": 1}})])"
    );
    assert_eq!(summaries(&spec)[0].1.preemptions, 1);
}

/// When the jobs of a trace start and end under `muri` on a fleet, in seconds.
fn of_jobs(fleet: &str, more: &str, jobs: &str) -> BTreeMap<String, (f64, f64)> {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("jobs.csv");
    std::fs::write(&trace, format!("job_id,submit_s,gpus,duration_s,workload,gpu_types,preemptible\n{jobs}"))
        .expect("a file");
    let spec = format!(
        "Experiment(title: \"muri\", fleet: Model({fleet}, sharing: Packed(4)), profile: Inline(Profile(about: \"\", workloads: [\
         Workload(name: \"reads\", family: \"r\", stages: {{1: Stages(step_s: 0.5, uses_s: [0.4, 0.1, 0.0], start_s: 4)}}), \
         Workload(name: \"computes\", family: \"c\", stages: {{1: Stages(step_s: 0.5, uses_s: [0.1, 0.3, 0.1], start_s: 10)}})], \
         gpus: [Gpu(kind: \"V100\", sources: {{}}, solo: {{}}), Gpu(kind: \"T4\", sources: {{}}, solo: {{}})])), \
         interference: (law: Stages), workload: Trace(file: {trace:?}, format: Native), predictors: {{\"remaining\": Oracle}}, \
         reveal: [SoloProfile], {more})"
    );
    let plan = planned(&spec).unwrap_or_else(|error| panic!("{error}"));
    let (_, rows) = results::<JobRecord>(&plan);
    let seconds = |at: Option<Seconds>| at.map_or(f64::NAN, Seconds::f64);
    rows.into_iter().map(|row| (row.job_id, (seconds(row.first_start_s), seconds(row.end_s)))).collect()
}

const MURI: &str = "policies: [Policy(name: \"muri\")]";
const ONE: &str = "nodes: 1, gpus: 1, kind: \"V100\", speed: 1.0";

#[test]
fn a_group_of_which_one_starts_stays_and_takes_others_in_at_the_next_decision() {
    // The second starts until 10 s.
    let jobs = "a,0,1,1000,reads,,\nb,0,1,1000,computes,,\nc,6,1,5000,computes,,\nd,30,1,5000,computes,,\n";
    let found = of_jobs(ONE, MURI, jobs);
    assert_eq!((found["a"].0, found["b"].0, found["c"].0), (0.0, 0.0, 30.0), "{found:?}");
}

#[test]
fn a_group_with_a_job_that_may_not_be_preempted_stays() {
    let found = of_jobs(ONE, MURI, "a,0,1,1000,reads,,false\nb,0,1,1000,computes,,\nc,500,1,100,computes,,\n");
    assert!(found["b"].1 < 1900.0 && found["c"].0 > 1000.0, "{found:?}");
}

#[test]
fn gangs_find_places_on_nodes_of_different_sizes_and_in_any_order() {
    let group = |nodes: u32, gpus: u32| format!("Group(nodes: {nodes}, gpus: {gpus}, kind: \"V100\", speed: 1.0)");
    let uneven = format!("groups: [{}, {}]", group(1, 8), group(2, 4));
    assert_eq!(of_jobs(&uneven, MURI, "a,0,16,100,reads,,\n")["a"].0, 0.0);
    // Largest first they would not all fit.
    let jobs = "last,0,2,100,reads,,\na4,0,4,200,reads,,\nb2,0,2,500,reads,,\nc3,0,3,500,reads,,\nd3,0,3,550,reads,,\ne2,0,2,1000,reads,,\n";
    let found = of_jobs("nodes: 2, gpus: 8, kind: \"V100\", speed: 1.0", MURI, jobs);
    assert!(found.values().all(|(start, _)| *start == 0.0), "{found:?}");
}

#[test]
fn jobs_share_where_their_type_is_crowded() {
    let fleet = "groups: [Group(nodes: 1, gpus: 1, kind: \"V100\", speed: 1.0), Group(nodes: 1, gpus: 4, kind: \"T4\", speed: 1.0)]";
    let found = of_jobs(fleet, MURI, "a,0,1,1000,reads,V100,\nb,0,1,1000,computes,V100,\n");
    assert!(found.values().all(|(start, _)| *start == 0.0), "{found:?}");
}

#[test]
fn a_round_in_which_nothing_changes_starts_no_job_again() {
    let more =
        "semantics: Semantics(preset: \"muri\"), policies: [Policy(name: \"muri\", with: {\"round\": 4, \"jobs\": 1})]";
    let found = of_jobs(ONE, more, "a,0,1,100,reads,,\n");
    assert_eq!(found["a"], (0.0, 101.5));
}

#[test]
fn a_decision_about_many_jobs_ends() {
    // 160 GPUs for 900 jobs.
    let jobs: String =
        (0..900).map(|at| format!("{at},0,1,{},{},,\n", 100 + at, ["reads", "computes"][at % 2])).collect();
    let found = of_jobs("nodes: 20, gpus: 8, kind: \"V100\", speed: 1.0", MURI, &jobs);
    assert!(found.len() == 900 && found.values().all(|(_, end)| end.is_finite()));
}

#[test]
fn what_turns_can_not_be_told_of_is_refused() {
    let refused = |with: &str, law: &str| {
        let spec = format!(
            "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 1, kind: \"V100\", speed: 1.0, sharing: Packed(2)), profile: Inline(Profile(about: \"\", \
             workloads: [Workload(name: \"w\", family: \"w\"{with})], gpus: [Gpu(kind: \"V100\", sources: {{}}, solo: {{}})])), \
             interference: ({law}), workload: Generate(jobs: 2, arrivals: AtOnce, workloads: {{\"w\": 1}}), policies: [Policy(name: \"fifo\")])"
        );
        planned(&spec).map(|_| ()).expect_err("it is refused").to_string()
    };
    let wrong = refused("", "law: Stages");
    assert!(wrong.contains("the profile does not say what a step of w takes: it has no `stages`"), "{wrong}");
    let stages = ", stages: {1: Stages(step_s: 1, uses_s: [1, 1, 1])}";
    assert!(refused(stages, "law: Stages, scale: 2").contains("expected 1, found 2: jobs that take turns"));
    let wrong = refused(&stages.replace("[1, 1, 1]", "[1, 1]"), "law: Stages");
    assert!(wrong.contains("w on 1 GPUs: `uses_s` must have 3 or 4 times, found 2"), "{wrong}");
}
