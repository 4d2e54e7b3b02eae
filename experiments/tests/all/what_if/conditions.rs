//! What keeps jobs from starting beside room: other jobs, reservations, queues.

use serde_json::{Value, json};

use super::{cluster, folder_of, rows, what_if};

#[test]
fn what_waits_for_others_starts_when_they_have_ended() {
    let mut state = cluster();
    let jobs = state["jobs"].as_array_mut().expect("jobs");
    // Room on node b.
    jobs.retain(|job| job["id"] != "w3");
    let waits = |id: &str, after: Value| json!({"id": id, "user": "eve", "state": "dependent", "gpus": 1, "submitted_s": -30, "limit_s": 60, "after": after});
    jobs.extend([
        waits("d1", json!([{"job": "r1", "when": "ok"}])),
        // At whatever depth; and so long after.
        waits("d2", json!([{"job": "d1", "when": "ended", "plus_s": 600}])),
        waits("d3", json!([{"job": "r1", "when": "ended", "any": true}, {"job": "r2", "when": "ended", "any": true}])),
        // It runs: ten minutes and a half after its start are from now on half a minute.
        waits("d4", json!([{"job": "r1", "when": "started", "plus_s": 630}])),
        // What the model has not can't be waited for.
        waits("d5", json!([{"job": "gone", "when": "ok"}])),
        waits("d6", json!([{"job": "r1", "when": "failed"}])),
        waits("d7", json!([{"job": "d5", "when": "ok"}])),
        waits("d8", json!([{"job": "gone", "when": "ok", "any": true}, {"job": "r2", "when": "ok", "any": true}])),
    ]);
    let mut late = waits("d9", json!([{"job": "r2", "when": "ended"}]));
    late["not_before_s"] = 9000.into();
    jobs.push(late);
    let folder = folder_of(&state);
    let found = rows(folder.path(), &["--policy", "fifo,backfill=skip"]);
    let start = |job: &str| {
        let row = found.get(&(job.to_string(), "fifo backfill=skip".into(), false))?;
        row["start_p50_s"].as_f64()
    };
    // r1 ends after 6,600 s, r2 after 5,400 s.
    let starts = ["d1", "d2", "d3", "d4", "d5", "d6", "d7"].map(start);
    assert_eq!(starts, [Some(6600.0), Some(7260.0), Some(5400.0), Some(30.0), None, None, None]);
    // d8 a minute behind d3: w1 has taken what r2 had, and one GPU is left.
    assert_eq!((start("d8"), start("d9")), (Some(5460.0), Some(9000.0)));
    let why = &found[&("d2".into(), "fifo backfill=skip".into(), false)];
    assert_eq!(
        (&why["why"], &why["why_text"], &why["after"]),
        (&json!("dependency"), &json!("other jobs: d1"), &json!(["d1"]))
    );
    // What is killed has ended, and not well; w1 has its GPUs at once, and w2 the one that is left.
    let killed = rows(folder.path(), &["--policy", "fifo,backfill=skip", "--kill", "r2"]);
    let start = |job: &str| {
        killed.get(&(job.to_string(), "fifo backfill=skip".into(), true)).map(|row| row["start_p50_s"].as_f64())
    };
    assert_eq!((start("d3"), start("d8")), (Some(Some(3600.0)), None));
    let said = what_if(folder.path(), &["--policy", "fifo"]);
    assert!(said.stdout.contains("3 jobs that wait for others that are not in the model"), "{}", said.stdout);
}

#[test]
fn a_reserved_node_takes_no_jobs_meanwhile_and_a_released_job_waits() {
    let mut state = cluster();
    state["reservations"] = json!([
        {"name": "m", "nodes": ["a"], "from_s": -10, "to_s": 9000, "maintenance": true},
        {"name": "over", "nodes": ["b"], "from_s": -99, "to_s": -9},
    ]);
    let jobs = state["jobs"].as_array_mut().expect("jobs");
    let more = |id: &str, of: Value| {
        let mut job = json!({"id": id, "user": "eve", "gpus": 1, "submitted_s": -30, "limit_s": 60});
        of.as_object().expect("fields").iter().for_each(|(key, value)| job[key] = value.clone());
        job
    };
    jobs.push(more("h", json!({"state": "held"})));
    jobs.push(more("in", json!({"state": "waiting", "reservation": "m"})));
    let folder = folder_of(&state);
    let found = rows(folder.path(), &["--policy", "fifo", "--release", "h"]);
    let start = |job: &str, changed: bool| {
        found.get(&(job.to_string(), "fifo".into(), changed)).and_then(|row| row["start_p50_s"].as_f64())
    };
    // Of a three GPUs come free after 6,600 s, and it is reserved until 9,000 s; on b there are four after 5,400 s.
    assert_eq!((start("w1", false), start("w1", true)), (Some(5400.0), Some(5400.0)));
    assert_eq!((start("w2", false), start("h", false), start("in", false)), (Some(9000.0), None, None));
    assert!(start("h", true).is_some_and(|at| at >= 9000.0), "{:?}", start("h", true));
    // One that is held and waits for another goes on waiting for that.
    let mut held = state.clone();
    held["jobs"]
        .as_array_mut()
        .expect("jobs")
        .push(more("hd", json!({"state": "held", "after": [{"job": "r2", "when": "ended"}]})));
    let found = rows(folder_of(&held).path(), &["--policy", "fifo,backfill=skip", "--release", "hd"]);
    let row = &found[&("hd".to_string(), "fifo backfill=skip".to_string(), true)];
    assert!(row["start_p50_s"].as_f64().is_some_and(|at| at >= 5400.0), "{row}");
    let said = what_if(folder.path(), &["--policy", "fifo", "--release", "w1"]);
    assert!(said.code == 2 && said.stderr.contains("job \"w1\" is not held"), "{}", said.stderr);
}

#[test]
fn queues_of_a_document_share_its_gpus_out() {
    let mut state = cluster();
    state["source"] = json!({"kind": "kueue"});
    state["queues"] = json!([
        // A group may come after what is in it; a local queue is the one that it is of.
        {"name": "a", "kind": "cluster-queue", "parent": "all", "guaranteed": {"A100-SXM4-80GB": 4, "T4": 9}, "borrow": {"A100-SXM4-80GB": 0}},
        {"name": "b", "kind": "cluster-queue", "parent": "all", "guaranteed": {"A100-SXM4-80GB": 4}},
        {"name": "all", "kind": "cohort"},
        {"name": "team/a", "kind": "local-queue", "parent": "a"},
    ]);
    // r1 has three GPUs of a's four, r2 two of b's.
    let queues = [("r1", "team/a"), ("r2", "b"), ("w1", "a"), ("w2", "a"), ("w3", "team/a")];
    for job in state["jobs"].as_array_mut().expect("jobs") {
        let id = job["id"].as_str().expect("an id").to_string();
        job["queues"] = json!([queues.iter().find(|(job, _)| *job == id).expect("it").1]);
        job["preemptible"] = false.into();
    }
    let folder = folder_of(&state);
    let start = |more: &[&str], job: &str, changed: bool| {
        let found = rows(folder.path(), more);
        let row = found.get(&(job.into(), "kueue-like".into(), changed)).unwrap_or_else(|| panic!("{job}: {found:?}"));
        row["start_p50_s"].as_f64()
    };
    // Without a policy it is the one of Kueue. Three GPUs are free, and a may have one more: w2 takes it. When r1 has ended w1 has all four for an
    // hour, and then w3 its two.
    let at = |job: &str| start(&[], job, false);
    assert_eq!((at("w2"), at("w1"), at("w3")), (Some(0.0), Some(6600.0), Some(10200.0)));
    // With a limit of six, w3 starts at once too: on b two are free.
    let changed = |job: &str| start(&["--limit", "a=6"], job, true);
    assert_eq!((changed("w2"), changed("w3")), (Some(0.0), Some(0.0)));
    let said = |more: &[&str]| what_if(folder.path(), more);
    let plain = said(&[]);
    assert!(plain.code == 0 && !plain.stdout.contains("queues: their limits"), "{}", plain.stdout);
    let wrong = said(&["--limit", "c=6"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("no queue \"c\""), "{}", wrong.stderr);
    let wrong = said(&["--policy", "fifo", "--limit", "a=6"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("queues limit nothing under these policies"), "{}", wrong.stderr);
    // Without a cohort a queue has its quota and no more.
    let mut alone = state.clone();
    alone["queues"] = json!([{"name": "a", "kind": "cluster-queue", "guaranteed": {"A100-SXM4-80GB": 5}}, {"name": "b", "kind": "cluster-queue",
        "guaranteed": {"A100-SXM4-80GB": 3}}, {"name": "team/a", "kind": "local-queue", "parent": "a"}]);
    let found = rows(folder_of(&alone).path(), &[]);
    let of = |job: &str| found[&(job.to_string(), "kueue-like".to_string(), false)]["start_p50_s"].as_f64();
    assert_eq!((of("w2"), of("w3")), (Some(0.0), Some(3600.0)));
    // A policy that knows no queues does not begin where they limit.
    let wrong = said(&["--policy", "fifo", "--queues"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("does not begin"), "{}", wrong.stderr);
}
