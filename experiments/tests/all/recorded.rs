//! The policy `recorded`: what a cluster did, as one more row of an experiment.

use std::path::Path;

use sandtable_needs::needs;
use serde_json::{Value, json};

use crate::help::{cells, dist, planned, sandtable, told};
use crate::states::{captured, document, real};

/// Jobs that a log says started late, out of order and, of one, never.
const LOG: &str =
    "job_id,submit_s,gpus,duration_s,start_s\na,0,2,100,0\nb,10,4,50,120\nc,20,2,30,20\nd,30,1,10,400\ne,40,1,10,\n";

const RECORDED: &str = "Policy(name: \"recorded\", starts: Log)";

const CLAIMS: &str = ", claims: [Claim(says: \"the log is slower\", of: \"recorded\", against: \"fifo\", metric: \"jct_mean_s\", \
    holds: AtLeast(0.5))]";

fn spec(policies: &str, more: &str) -> String {
    format!(
        "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 4, kind: \"T4\"), \
         workload: Trace(file: \"log.csv\", format: Native), policies: [{policies}]{more})"
    )
}

/// The first starts and the last places of jobs in the only result of a store.
fn starts(store: &Path) -> Vec<(String, f64, String)> {
    let all = cells(store);
    let (_, jobs) = all.iter().find(|(path, _)| path.ends_with("jobs.csv")).expect("a result");
    let mut rows = csv::Reader::from_reader(jobs.as_slice());
    let head = rows.headers().expect("a head").clone();
    let column = |name: &str| head.iter().position(|column| column == name).expect("a column");
    let (job, start, place) = (column("job_id"), column("first_start_s"), column("last_placement"));
    let row = |row: Result<csv::StringRecord, csv::Error>| {
        let row = row.expect("a row");
        (row[job].to_string(), row[start].parse().expect("it starts"), row[place].to_string())
    };
    rows.records().map(row).collect()
}

#[test]
fn jobs_start_when_the_log_of_a_trace_says() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("log.csv"), LOG).expect("written");
    let dist = dist();
    let with = |more: &[&str]| {
        let args: Vec<&str> = more.iter().copied().chain(["--store", "store", "--policies", &dist]).collect();
        let ran = sandtable(folder.path(), &args);
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        ran.stdout
    };
    std::fs::write(folder.path().join("spec.ron"), spec(RECORDED, "")).expect("written");
    with(&["run", "spec.ron"]);
    // Of `e` no start is recorded: it waits for the last that is.
    let found: Vec<(String, f64)> =
        starts(&folder.path().join("store")).into_iter().map(|(job, start, _)| (job, start)).collect();
    let expected = [("a", 0.0), ("b", 120.0), ("c", 20.0), ("d", 400.0), ("e", 400.0)];
    assert_eq!(found, expected.map(|(job, start)| (job.to_string(), start)));
    // It is a row as any other: compared, claimed about, and run again.
    std::fs::write(folder.path().join("spec.ron"), spec(&format!("{RECORDED}, Policy(name: \"fifo\")"), CLAIMS))
        .expect("written");
    with(&["run", "spec.ron"]);
    let compared = with(&["compare", "recorded", "fifo", "--spec", "spec.ron"]);
    assert!(compared.contains("jct_mean_s"), "{compared}");
    let claims = sandtable(folder.path(), &["claims", "spec.ron", "--store", "store"]);
    assert!(claims.code == 0 && claims.stdout.contains("holds"), "{}{}", claims.stdout, claims.stderr);
    with(&["verify", "spec.ron"]);
    with(&["report", "spec.ron", "-o", "report.html"]);
}

#[test]
fn a_start_that_has_no_room_yet_waits_for_it() {
    // The log says that `b` started while `a` still ran there.
    let found = of_log("job_id,submit_s,gpus,duration_s,start_s\na,0,4,100,0\nb,10,4,50,90\n", "");
    assert_eq!(found.iter().map(|(_, start)| *start).collect::<Vec<_>>(), [0.0, 100.0]);
}

/// The first starts under `recorded` of the jobs of a log, by name and size.
fn of_log(log: &str, more: &str) -> Vec<(String, f64)> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("log.csv"), log).expect("written");
    std::fs::write(folder.path().join("spec.ron"), spec(RECORDED, more)).expect("written");
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--store", "store", "--policies", &dist()]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let all = starts(&folder.path().join("store"));
    all.into_iter().map(|(job, start, place)| (format!("{job} {place}"), start)).collect()
}

#[test]
fn a_start_before_its_submission_is_at_the_submission() {
    let found = of_log("job_id,submit_s,gpus,duration_s,start_s\na,100,1,10,99\nb,0,1,10,5000\n", "");
    assert_eq!(found.iter().find(|(job, _)| job.starts_with('a')).map(|(_, start)| *start), Some(100.0));
}

#[test]
fn jobs_of_one_name_have_their_own_starts_in_any_order() {
    let log = "job_id,submit_s,gpus,duration_s,start_s\na,0,1,10,5\na,0,2,20,100\na,0,3,30,50\n";
    for seed in 0..3 {
        let mut found = of_log(log, &format!(", semantics: Semantics(ties: Shuffled), seeds: List([{seed}])"));
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = [("a 0:1", 5.0), ("a 0:2", 100.0), ("a 0:3", 50.0)];
        assert_eq!(found, expected.map(|(job, start)| (job.to_string(), start)), "seed {seed}");
    }
}

#[test]
fn a_later_document_says_how_many_gpus_a_job_has_on_each_node() {
    let node = |name: &str| json!({"name": name, "kind": "A100-SXM4-80GB", "gpus": 4, "state": "up"});
    let waits =
        |id: &str, gpus: u32| json!({"id": id, "state": "waiting", "gpus": gpus, "submitted_s": -60, "limit_s": 3600});
    let runs = |id: &str, gpus: u32, on: Value| json!({"id": id, "state": "running", "gpus": gpus, "submitted_s": -160, "limit_s": 3600, "started_s": -50, "held_s": 50, "on": on});
    let now = document(&[node("a"), node("b")], &[waits("wide", 4), waits("one", 3)]);
    let on = json!([{"node": "a", "count": 1}, {"node": "b", "count": 3}]);
    let mut later =
        document(&[node("a"), node("b")], &[runs("wide", 4, on), runs("one", 3, json!([{"node": "a", "count": 3}]))]);
    later["at"] = "2026-11-20T01:07:12Z".into();
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("now.json", &now.to_string());
    write("later.json", &later.to_string());
    let text = "Experiment(title: \"t\", fleet: Model(list: NodeList(file: \"now.json\", format: State), speed: 1.0), \
        workload: State(file: \"now.json\"), policies: [Policy(name: \"recorded\", starts: File(\"later.json\"))])";
    write("spec.ron", text);
    let dist = dist();
    let run = || sandtable(folder.path(), &["run", "spec.ron", "--store", "store", "--policies", &dist]);
    let ran = run();
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let mut found = starts(&folder.path().join("store"));
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("one", 3650.0, "0:3"), ("wide", 3650.0, "0:1;1:3")];
    assert_eq!(found, expected.map(|(job, start, place)| (job.to_string(), start, place.to_string())));
    // A file of other jobs is not what happened.
    later["jobs"] = json!([runs("other", 1, json!([{"node": "a", "count": 1}]))]);
    write("later.json", &later.to_string());
    let ran = run();
    assert!(ran.code == 2 && ran.stderr.contains("no start of a job that waits"), "{}", ran.stderr);
}

#[test]
fn what_no_log_says_is_refused_with_the_place() {
    let refused = |text: &str, why: &str| {
        let error = planned(text).err().unwrap_or_default();
        assert!(error.contains(why), "{text}: {error}");
    };
    let generated = |policy: &str| {
        format!(
            "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 4, kind: \"T4\"), \
             workload: Generate(jobs: 5, arrivals: AtOnce), policies: [Policy(name: \"recorded\", {policy})])"
        )
    };
    refused(&generated("starts: Log"), "no job of the workload has a recorded start");
    refused(&generated("starts: File(\"later.json\")"), "only of a cluster's state another file says");
    let both = "starts: Log, weights: \"iasp-synthetic.json\"";
    refused(&generated(both), "a policy is told of starts or has weights, not both");
    // Without any it does not begin, and says what it lacks.
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spec.ron"), generated("")).expect("written");
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--store", "store", "--policies", &dist()]);
    assert!(ran.code == 2 && ran.stderr.contains("`starts` of the policy"), "{} {}", ran.code, ran.stderr);
}

#[needs("data:cluster-state")]
#[test]
fn what_a_real_slurm_did_is_a_row_beside_policies() {
    // A run under `sched/builtin`, captured in the middle; accounting says later when and where jobs ran, in whole seconds.
    let (real, at) = (real("f1"), 75.0);
    let state = captured(&real, at);
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("now.json", &state.to_string());
    let now: jiff::Timestamp = state["at"].as_str().expect("a time").parse().expect("a time");
    let time = |of: f64| {
        let at = now + jiff::SignedDuration::from_millis(((of - at) * 1000.0) as i64);
        at.strftime("%Y-%m-%dT%H:%M:%S").to_string()
    };
    let mut log = String::from("JobID|Submit|Start|End|State|Timelimit|ReqTRES|AllocTRES|NodeList\n");
    for job in &real {
        let (gpus, nodes) = (job.nodes * job.each, job.on.join(","));
        let (submit, start, end) = (time(job.submit), time(job.start), time(job.end));
        let tres = format!("gres/gpu={gpus}|gres/gpu={gpus}");
        log.push_str(&format!("{}|{submit}|{start}|{end}|COMPLETED|00:05:00|{tres}|{nodes}\n", job.id));
    }
    write("log.txt", &log);
    let text = "Experiment(title: \"t\", fleet: Model(list: NodeList(file: \"now.json\", format: State), speed: 1.0), \
        workload: State(file: \"now.json\", run_times: Known(file: \"log.txt\", format: Sacct)), \
        policies: [Policy(name: \"recorded\", starts: File(\"log.txt\"))])";
    write("spec.ron", text);
    let dist = dist();
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--store", "store", "--policies", &dist]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let origin = starts(&folder.path().join("store"));
    // The clock of the run begins an hour before the instant.
    let since = |start: f64| start - 3600.0;
    let (mut waited, mut worst, mut same) = (0, 0.0f64, 0);
    for job in real.iter().filter(|job| job.submit <= at && job.start > at) {
        let (_, start, place) = origin.iter().find(|(id, ..)| *id == job.id).expect("a row");
        waited += 1;
        worst = worst.max((since(*start) - (job.start - at)).abs());
        same += usize::from(job.on.iter().all(|node| place.contains(&node.replace('n', ""))));
    }
    told(&format!(
        "what Slurm did as a policy: {waited} jobs start within {worst:.2} s of the log, {same} on its nodes"
    ));
    assert!(waited == 16 && worst <= 2.0 && same == waited, "{origin:?}");
    // The table of `what-if` has a row of it too, of waits alone.
    let asked = ["what-if", "now.json", "--policy", "fifo", "--run-times", "known=log.txt", "--recorded", "log.txt"];
    let said = sandtable(folder.path(), &[&asked[..], &["--policies", &dist, "--store", "store"]].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    let row = said.stdout.lines().find(|line| line.starts_with("what happened")).expect("a row");
    assert_eq!(row.split_whitespace().nth(2), Some("16"), "{}", said.stdout);
    // A state by itself does not say what becomes of it.
    write("log.ron", &text.replace("File(\"log.txt\"))", "Log)"));
    let refused = sandtable(folder.path(), &["plan", "log.ron", "--policies", &dist]);
    assert!(
        refused.code == 2 && refused.stderr.contains("does not say when its waiting jobs start"),
        "{}",
        refused.stderr
    );
}
