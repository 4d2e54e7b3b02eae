//! Changes of a queue, and what becomes of it.

use serde_json::{Value, json};

use super::{cluster, folder_of, rows, what_if};

fn job(id: &str, state: &str, gpus: u32, more: Value) -> Value {
    let mut job = json!({"id": id, "user": "eve", "state": state, "gpus": gpus, "submitted_s": -30, "limit_s": 600});
    more.as_object().expect("fields").iter().for_each(|(key, value)| job[key] = value.clone());
    job
}

/// A node of four GPUs with these jobs.
fn one_node(jobs: &Value) -> Value {
    json!({"sandtable": "state@1", "at": "2026-11-20T00:00:00Z", "source": {"kind": "other"},
        "nodes": [{"name": "a", "gpus": 4, "state": "up"}], "queues": [], "reservations": [], "unknown": [], "ignored": [],
        "jobs": jobs})
}

#[test]
fn a_released_job_that_is_to_run_alone_of_its_name_waits_for_the_others() {
    let on = json!([{"node": "a", "count": 1}]);
    let runs = job("5", "running", 1, json!({"name": "x", "started_s": -10, "held_s": 10, "on": on}));
    let held = |more: Value| job("6", "held", 1, more);
    let start = |held: Value| {
        let folder = folder_of(&one_node(&json!([runs, held])));
        let found = rows(folder.path(), &["--policy", "fifo", "--release", "6"]);
        found[&("6".to_string(), "fifo".to_string(), true)]["start_p50_s"].as_f64()
    };
    assert_eq!(start(held(json!({"name": "x", "single": true}))), Some(590.0));
    assert_eq!(start(held(json!({"name": "y", "single": true}))), Some(0.0));
    assert_eq!(start(held(json!({"name": "x"}))), Some(0.0));
}

#[test]
fn what_is_killed_begins_anew_with_all_of_its_work() {
    // The job of the lower tier has run for 3,000 of 3,600 s; the other takes its GPUs for 600 s, and two minutes pass until it is back.
    let mut state = one_node(&json!([
        job(
            "1",
            "running",
            4,
            json!({"queues": ["lo"], "preemptible": true, "limit_s": 3600, "started_s": -3000,
            "held_s": 3000, "on": [{"node": "a", "count": 4}]})
        ),
        job("2", "waiting", 4, json!({"queues": ["hi"], "preemptible": false, "priority": 9}))
    ]));
    state["source"] = json!({"kind": "slurm", "scheduler": {"kind": "backfill", "preempts": "tier"}});
    state["queues"] = json!([
        {"name": "lo", "kind": "partition", "tier": 1, "preempt": "requeue"},
        {"name": "hi", "kind": "partition", "tier": 2}
    ]);
    let folder = folder_of(&state);
    let found = rows(folder.path(), &["--job", "1", "--job", "2", "--policy", "slurm-backfill,preempt=true"]);
    let of = |job: &str, what: &str| {
        let (_, row) = found.iter().find(|((name, ..), _)| name == job).expect("a row");
        row[what].as_f64()
    };
    assert!(of("2", "start_p50_s").is_some_and(|at| at <= 1.0), "{found:?}");
    let end = of("1", "end_p50_s").expect("it ends");
    assert!((4200.0..4210.0).contains(&end), "{end}: 600 s of the other, and all of its hour");
}

#[test]
fn a_running_job_whose_place_is_not_told_has_one() {
    let runs = job("1", "running", 2, json!({"started_s": -10, "held_s": 10}));
    let folder = folder_of(&one_node(&json!([runs, job("2", "waiting", 4, json!({}))])));
    let said = what_if(folder.path(), &["--policy", "fifo"]);
    assert!(
        said.stdout.contains("1 running jobs of which no place is told, put where there is room"),
        "{}",
        said.stdout
    );
    let found = rows(folder.path(), &["--policy", "fifo"]);
    assert_eq!(found[&("2".to_string(), "fifo".to_string(), false)]["start_p50_s"].as_f64(), Some(590.0));
    let large = job("1", "running", 5, json!({"started_s": -10, "held_s": 10}));
    let folder = folder_of(&one_node(&json!([large, job("2", "waiting", 4, json!({}))])));
    let said = what_if(folder.path(), &["--policy", "fifo"]);
    assert!(said.stdout.contains("1 running jobs of which no place is told, and that find none"), "{}", said.stdout);
}

/// A policy that gives GPUs out by rounds keeps to the nodes that are there, also where a job that stays is on another.
#[test]
fn a_node_that_takes_no_jobs_is_none_for_rounds() {
    let stays = job(
        "1",
        "running",
        4,
        json!({"preemptible": false, "started_s": -10, "held_s": 10, "on": [{"node": "b", "count": 4}]}),
    );
    let mut state = one_node(&json!([stays, job("2", "waiting", 4, json!({}))]));
    state["nodes"] = json!([{"name": "a", "gpus": 4, "state": "up"}, {"name": "b", "gpus": 4, "state": "up"}]);
    let folder = folder_of(&state);
    for policy in ["shockwave", "gavel-leases"] {
        let found = rows(folder.path(), &["--policy", policy, "--drain", "b"]);
        let start = found[&("2".to_string(), policy.to_string(), true)]["start_p50_s"].as_f64();
        // At the latest when that job has ended.
        assert!(start.is_some_and(|at| at <= 600.0), "{policy}: {start:?}");
    }
}

#[test]
fn a_condition_fails_of_a_job_that_a_change_leaves_out() {
    let folder = folder_of(&cluster());
    let code = |more: &[&str]| {
        let ran = what_if(folder.path(), &[&["--policy", "fifo", "--check", "p50(start) <= 300h"], more].concat());
        (ran.code, ran.stderr)
    };
    assert_eq!(code(&[]).0, 0);
    let (failed, said) = code(&["--add", "name=mine,gpus=1,kind=NONE-SUCH,limit=1h"]);
    assert!(failed == 1 && said.contains("mine (left out)"), "{said}");
    // What is held or killed on purpose is no failure, unless it is asked for.
    assert_eq!(code(&["--hold", "w1"]).0, 0);
    let (failed, said) = code(&["--hold", "w1", "--job", "w1"]);
    assert!(failed == 1 && said.contains("w1 (left out)"), "{said}");
    let (failed, said) = code(&["--hold", "w1", "--job", "nothing"]);
    assert!(failed == 2 && said.contains("no job \"nothing\" waits or runs"), "{said}");
}

#[test]
fn a_local_queue_has_no_limit_of_its_own_and_a_node_that_is_down_may_come_back() {
    let mut state = one_node(&json!([job("1", "waiting", 4, json!({"queues": ["lq"]}))]));
    state["source"] = json!({"kind": "kueue"});
    state["queues"] = json!([
        {"name": "cq", "kind": "cluster-queue", "guaranteed": {"*": 4}},
        {"name": "lq", "kind": "local-queue", "parent": "cq"}
    ]);
    let folder = folder_of(&state);
    let refused = what_if(folder.path(), &["--limit", "lq=2"]);
    let said = "queue \"lq\" has no limit of its own: its jobs are in \"cq\"";
    assert!(refused.code == 2 && refused.stderr.contains(said), "{}", refused.stderr);
    let mut state = one_node(&json!([job("1", "waiting", 4, json!({})), job("h", "held", 1, json!({}))]));
    state["nodes"] = json!([{"name": "a", "gpus": 4, "state": "down"}, {"name": "b", "gpus": 1, "state": "up"}]);
    let folder = folder_of(&state);
    let found = rows(folder.path(), &["--policy", "fifo", "--drain", "a@0h..2h"]);
    assert_eq!(found[&("1".to_string(), "fifo".to_string(), true)]["start_p50_s"].as_f64(), Some(7200.0));
    let refused = what_if(folder.path(), &["--policy", "fifo", "--job", "h"]);
    assert!(refused.stderr.contains("it is held in the document, and not in the model"), "{}", refused.stderr);
}
