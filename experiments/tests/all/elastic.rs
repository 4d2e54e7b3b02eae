//! Elastic jobs and services, end to end: published schedules to the second, mistakes of a spec, and that nobody is
//! lost.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable::execute::execute;
use sandtable::plan::{Options, Plan, plan};
use sandtable::profile::pollux;
use sandtable_hardware::elastic::Steps;
use sandtable_runtime::{Summary, Use};

use crate::help::{compiled, data, root};
use sandtable_needs::needs;

fn expand(folder: &Path, spec: &str) -> Result<Plan, String> {
    let path = folder.join("spec.ron");
    std::fs::write(&path, spec).expect("written");
    let options = Options { policies: Some(root().join("policies/dist")), ..Options::default() };
    plan(&path, &options).map_err(|error| error.to_string())
}

/// Rows of a file of a result, by their first column.
fn rows(files: &[(String, Vec<u8>)], name: &str) -> Vec<BTreeMap<String, String>> {
    let (_, bytes) = files.iter().find(|(known, _)| known == name).expect("a file of the result");
    let mut reader = csv::Reader::from_reader(bytes.as_slice());
    let names = reader.headers().expect("a header").clone();
    let row = |record: csv::StringRecord| names.iter().map(String::from).zip(record.iter().map(String::from)).collect();
    reader.records().map(|record| row(record.expect("a row"))).collect()
}

#[needs("data:pollux")]
#[test]
#[expect(clippy::print_stderr, reason = "says how much was compared")]
fn published_jcts_of_tiresias_and_optimus_are_exact() {
    let data = data("pollux");
    let folder = tempfile::tempdir().expect("a folder");
    let mut published: BTreeMap<(String, String), BTreeMap<String, String>> = BTreeMap::new();
    let mut reader = csv::Reader::from_path(data.join("published_job_jct.csv")).expect("the published JCTs");
    for row in reader.records().map(|row| row.expect("a row")) {
        let jobs = published.entry((row[0].to_string(), row[1].to_string())).or_default();
        jobs.insert(row[2].to_string(), row[3].to_string());
    }
    let mut compared = 0;
    for workload in 1..=8 {
        let spec = format!(
            "Experiment(title: \"golden\", fleet: Model(nodes: 16, gpus: 4, kind: \"T4\"), profile: Pollux({data:?}), \
             workload: Trace(file: {file:?}, format: Pollux), semantics: Semantics(preset: \"pollux\"), \
             predictors: {{\"steps\": Oracle}}, policies: [Policy(name: \"tiresias\"), Policy(name: \"optimus\")])",
            file = data.join(format!("workloads/workload-{workload}.csv")),
        );
        let plan = expand(folder.path(), &spec).expect("a plan");
        let compiled = compiled(&plan);
        for cell in &plan.cells {
            let files = execute(cell, &compiled).expect("a result").files().expect("files");
            let theirs = &published[&(format!("{}-1.0", cell.label), format!("workload-{workload}"))];
            for row in rows(&files, "jobs.csv") {
                let number = |column: &str| row[column].parse::<f64>().expect("a number");
                let jct = number("end_s") - number("submit_s");
                let expected: f64 = theirs[&row["job_id"]].parse().expect("a number");
                assert_eq!(jct, expected, "{} of workload {workload}: {}", cell.label, row["job_id"]);
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 2560);
    eprintln!("Pollux' simulator: {compared} published JCTs compared, 0 mismatches");
}

#[needs("data:pollux")]
#[test]
fn measured_steps_are_the_published_ones() {
    let data = data("pollux");
    let profile = pollux(&data).expect("a profile");
    let vectors = std::fs::read(data.join("reference_vectors.json")).expect("the vectors");
    let vectors: serde_json::Value = serde_json::from_slice(&vectors).expect("JSON");
    let mut compared = 0;
    for case in vectors["oracle"].as_array().expect("cases") {
        let list = |key: &str| case[key].as_array().expect("a list").iter();
        let placement: Vec<u32> = list("placement").map(|gpus| gpus.as_u64().expect("GPUs") as u32).collect();
        // Beyond four nodes the artifact interpolates otherwise than the shared grid.
        if placement.len() > 4 || case.get("error").is_some() {
            continue;
        }
        let id = profile.id(case["app"].as_str().expect("a name")).expect("a workload");
        let elastic = profile.workloads[id].elastic.as_ref().expect("an elastic one");
        let Steps::Measured(_) = &elastic.steps else { panic!("not measured") };
        let found = elastic.steps.of_pass(&placement, case["local_bsz"].as_u64().expect("a batch") as u32);
        for (found, key) in [(found.step, "step_time"), (found.sync, "sync_time")] {
            let expected = case[key].as_f64().expect("a time");
            assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{case}: {found}");
        }
        compared += 1;
    }
    assert!(compared > 150, "{compared}");
}

/// Elastic work of the shipped profile and tasks that come and go, on eight nodes.
const DRAWN: &str = r#"Experiment(
    title: "t",
    fleet: Model(groups: [
        Group(nodes: 4, gpus: 4, kind: "T4"), Group(nodes: 4, gpus: 4, kind: "T4", pool: Inference),
    ]),
    profile: File("PROFILE"),
    workload: Generate(jobs: 14, arrivals: Poisson(load: 0.9), workloads: {"cifar10": 0.6, "ncf": 0.2, "deepspeech2": 0.2}),
    serving: Serving(
        services: {"a": Service(cold_start: "6s", slo: "10s"), "b": Service(cold_start: "4s")},
        demand: Diurnal(trough: 1, peak: 9, period: "1h", over: "2h", seconds: (20, 200)),
    ),
    costs: Costs(rescale: Afe),
    predictors: {"steps": Oracle},
    limits: Limits(fuel: 20000000000),
    policies: [POLICIES],
    seeds: Range(0, 2),
)"#;

fn drawn(policies: &str) -> String {
    let profile = root().join("experiments/specs/profiles/pollux-fit.ron").display().to_string();
    DRAWN.replace("PROFILE", &profile).replace("POLICIES", policies)
}

pub(crate) fn summaries(spec: &str) -> Vec<(String, Summary)> {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = expand(folder.path(), spec).unwrap_or_else(|error| panic!("{error}"));
    let compiled = compiled(&plan);
    let run =
        |cell| execute(cell, &compiled).expect("a result").outcome.unwrap_or_else(|why| panic!("{}", why.message));
    plan.cells.iter().map(|cell| (cell.label.clone(), run(cell))).collect()
}

#[test]
fn nobody_is_lost_under_any_rules_and_through_failures() {
    let mut policies = String::new();
    for (name, more) in [
        ("ats", ""),
        ("pollux", ", \"search\": \"greedy\""),
        ("pollux", ", \"population\": 8, \"generations\": 3"),
        ("optimus", ""),
        ("afs", ""),
        ("afs", ", \"variant\": \"afs-l\""),
        ("lyra-like", ""),
        ("lyra-like", ", \"variant\": \"aryl\""),
        ("tiresias", ""),
    ] {
        for (rules, of) in [
            ("apart", "\"partition\": \"apart\""),
            ("shared", "\"partition\": \"shared\", \"reclaim\": \"random\""),
            ("owned", "\"partition\": \"owned\", \"reclaim\": \"node\""),
            ("never", "\"reclaim\": \"never\""),
            ("compat", "\"compat\": true, \"partition\": \"shared\""),
        ] {
            let label = format!("{name} {rules}{more}").replace('"', "'").replace(',', "");
            policies += &format!("Policy(name: {name:?}, label: \"{label}\", with: {{{of}{more}}}), ");
        }
    }
    let failing = drawn(&policies)
        .replace("groups: [", "failures: Failures(mtbf: \"6h\", repair: \"10min\"), groups: [")
        .replace("rescale: Afe", "rescale: Full, checkpoint: \"7s\", batch: \"2s\"")
        .replace("Range(0, 2)", "Range(1, 2)");
    let calm = drawn(&policies).replace("Range(0, 2)", "Range(0, 1)");
    // So short that protection would outlive it.
    let flickering = failing.replace("mtbf: \"6h\", repair: \"10min\"", "mtbf: \"30min\", repair: \"5s\"");
    // Nodes of others, which go with and without notice.
    let taken_back = |notice: &str| {
        let owner = format!("revocable: Revocable(held: \"2h\", away: \"10min\"{notice})");
        calm.replace("kind: \"T4\"", &format!("kind: \"T4\", {owner}"))
    };
    let (sudden, announced) = (taken_back(""), taken_back(", notice: \"1min\""));
    assert!(sudden.contains("revocable"), "{sudden}");
    for (label, summary) in [&calm, &failing, &flickering, &sudden, &announced].map(|spec| summaries(spec)).concat() {
        assert_eq!((summary.completed, summary.unfinished), (14, 0), "{label}");
        let tasks = summary.serving.expect("services").all;
        assert!(tasks.tasks > 100 && tasks.done == tasks.tasks, "{label}: {} of {}", tasks.done, tasks.tasks);
    }
}

#[test]
fn what_is_borrowed_is_seen_and_what_serving_pays_too() {
    let policies = "Policy(name: \"ats\"), Policy(name: \"ats\", label: \"alone\", with: {\"partition\": \"apart\"})";
    let found = summaries(&drawn(policies));
    let of = |label: &str| found.iter().filter(|(known, _)| known == label).map(|(_, summary)| summary).collect();
    let (both, none): (Vec<&Summary>, Vec<&Summary>) = (of("ats"), of("alone"));
    assert_eq!((both.len(), none.len()), (2, 2));
    for (ats, alone) in both.into_iter().zip(none) {
        let serving = |summary: &Summary| summary.serving.clone().expect("services");
        assert!(serving(ats).uses[Use::Loaned as usize] > 0.05);
        assert_eq!(serving(alone).uses[Use::Loaned as usize], 0.0);
        assert!(ats.jct.mean < alone.jct.mean);
        assert!(serving(ats).all.warm < serving(alone).all.warm);
        assert!(serving(ats).reclaimed > 0 && serving(alone).reclaimed == 0);
        let all: f64 = serving(ats).uses.iter().sum();
        assert!((all - 1.0).abs() < 1e-9);
    }
}

#[test]
fn the_uses_of_gpus_add_up_at_every_instant() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = expand(folder.path(), &drawn("Policy(name: \"ats\")")).expect("a plan");
    let compiled = compiled(&plan);
    let files = execute(&plan.cells[0], &compiled).expect("a result").files().expect("files");
    let uses = rows(&files, "uses.csv");
    assert!(uses.len() > 100);
    let mut before = -1.0;
    for row in uses {
        let number = |column: &str| row[column].parse::<f64>().expect("a number");
        assert_eq!(Use::ALL.map(Use::name).map(number).iter().sum::<f64>(), 32.0);
        assert!(number("from_s") > before);
        before = number("from_s");
    }
}

/// A change of [`drawn`] and what the error must say.
const MISTAKES: &[(&str, &str, &str)] = &[
    (
        "peak: 9",
        "peak: 60",
        "tasks would keep 30.5 GPUs busy in the mean, the nodes of the inference pool have 16: they would wait ever longer",
    ),
    ("(20, 200)", "(200, 20)", "expected whole seconds from at least 1 up, found 200 to 20"),
    ("trough: 1", "trough: 10", "expected 0 <= trough <= peak, found 10 and 9"),
    (
        "Generate(jobs: 14, arrivals: Poisson(load: 0.9), workloads: {\"cifar10\": 0.6, \"ncf\": 0.2, \"deepspeech2\": 0.2})",
        "Jobs([Job(submit: \"0s\", gpus: 4, workload: \"cifar10\", batch: 100)])",
        "job \"0\" asks for 4 GPUs and a batch of 100: a pass on a GPU takes 32 to 1024 samples, found 25",
    ),
    (
        "Generate(jobs: 14, arrivals: Poisson(load: 0.9), workloads: {\"cifar10\": 0.6, \"ncf\": 0.2, \"deepspeech2\": 0.2})",
        "Jobs([Job(submit: \"0s\", gpus: 1, duration: \"5s\", service: \"c\")])",
        "\"0\" is a task of the service \"c\", which `serving` does not name",
    ),
    (
        "Generate(jobs: 14, arrivals: Poisson(load: 0.9), workloads: {\"cifar10\": 0.6, \"ncf\": 0.2, \"deepspeech2\": 0.2})",
        "Jobs([Job(submit: \"0s\", gpus: 1)])",
        "job 0 needs a `duration`, or as an elastic one a `batch`",
    ),
    (
        "Generate(jobs: 14, arrivals: Poisson(load: 0.9), workloads: {\"cifar10\": 0.6, \"ncf\": 0.2, \"deepspeech2\": 0.2})",
        "Jobs([Job(submit: \"0s\", gpus: 1, batch: 4)])",
        "job \"0\" has a batch of 4, its workload is none",
    ),
    (
        "Generate(jobs: 14, arrivals: Poisson(load: 0.9), workloads: {\"cifar10\": 0.6, \"ncf\": 0.2, \"deepspeech2\": 0.2})",
        "Jobs([Job(submit: \"0s\", gpus: 1, workload: \"cifar10\", batch: 0)])",
        "job \"0\" asks for 1 GPUs and a batch of 0: a step takes at least one sample",
    ),
    (
        "Generate(jobs: 14, arrivals: Poisson(load: 0.9), workloads: {\"cifar10\": 0.6, \"ncf\": 0.2, \"deepspeech2\": 0.2})",
        "Jobs([Job(submit: \"0s\", gpus: 1, workload: \"cifar10\", batch: 128, service: \"a\")])",
        "\"0\" is a task of a service: it has one GPU and no batch, found a batch of 128",
    ),
];

#[test]
fn mistakes_are_errors_that_say_what_was_expected() {
    let folder = tempfile::tempdir().expect("a folder");
    for (from, to, why) in MISTAKES {
        let spec = drawn("Policy(name: \"ats\")");
        assert!(spec.contains(from), "{from}");
        let found = expand(folder.path(), &spec.replace(from, to));
        let found = found.and_then(|plan| plan.cells[0].jobs().map(|_| ()).map_err(|error| error.to_string()));
        let found = found.expect_err(to);
        assert!(found.contains(why), "{to}: {found}");
    }
}

#[test]
fn a_service_without_capacity_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = drawn("Policy(name: \"ats\")").replace(", pool: Inference", "");
    let plan = expand(folder.path(), &spec).expect("a plan");
    let compiled = compiled(&plan);
    let failure = execute(&plan.cells[0], &compiled).expect("an outcome").outcome.expect_err("a refusal");
    assert!(
        failure.message.contains("no node belongs to the inference pool: set `pool: Inference`"),
        "{}",
        failure.message
    );
}

#[needs("data:pollux")]
#[test]
fn a_table_with_a_hole_is_an_error_of_the_profile() {
    let data = data("pollux");
    let folder = tempfile::tempdir().expect("a folder");
    let spec = |gpus: u32| {
        format!(
            "Experiment(title: \"t\", fleet: Model(nodes: 3, gpus: {gpus}, kind: \"T4\"), profile: Pollux({data:?}), \
             workload: Jobs([Job(submit: \"0s\", gpus: 1, workload: \"cifar10\", batch: 128)]), \
             policies: [Policy(name: \"ats\")])"
        )
    };
    assert!(expand(folder.path(), &spec(4)).is_ok());
    // The artifact measured nodes of four.
    let found = expand(folder.path(), &spec(5)).map(|_| ()).expect_err("a hole");
    assert!(found.contains("cifar10: placement [5] was not measured"), "{found}");
}
