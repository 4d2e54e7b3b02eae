//! Clusters at one instant, and runs that go on from there: against what a real Slurm then did, and by hand.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_needs::needs;
use serde_json::{Value, json};

use crate::help::{data, dist, sandtable, text_of};

/// A job of a real run: its times are seconds from the first submission.
pub(crate) struct Real {
    pub(crate) id: String,
    pub(crate) submit: f64,
    pub(crate) nodes: u32,
    pub(crate) each: u32,
    pub(crate) sleep: f64,
    /// The time limit.
    pub(crate) limit: f64,
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) on: Vec<String>,
}

pub(crate) fn real(run: &str) -> Vec<Real> {
    run_of(&std::fs::read_to_string(data(&format!("cluster-state/slurm-runs/{run}.csv"))).expect("a run"))
}

/// A run of a real Slurm, as a table.
pub(crate) fn run_of(table: &str) -> Vec<Real> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split(',').collect();
        let number = |at: usize| words[at].parse::<f64>().expect("a number");
        Real {
            id: words[0].into(),
            submit: number(1),
            nodes: number(2) as u32,
            each: number(3) as u32,
            limit: number(4),
            sleep: number(5),
            start: number(6),
            end: number(7),
            on: words[8].split('|').map(str::to_string).collect(),
        }
    };
    table.lines().skip(1).map(row).collect()
}

/// What of a run was there at an instant. Limits are the true run times: half a second more than a job sleeps.
pub(crate) fn captured(run: &[Real], at: f64) -> Value {
    let there = run.iter().filter(|job| job.submit <= at && job.end > at);
    let job = |job: &Real| {
        let mut value = json!({
            "id": job.id, "state": "waiting", "gpus": job.nodes * job.each, "submitted_s": job.submit - at,
            "nodes": {"least": job.nodes, "most": job.nodes, "gpus_each": job.each}, "limit_s": job.sleep + 0.5,
        });
        if job.start <= at {
            value["state"] = "running".into();
            (value["started_s"], value["held_s"]) = (json!(job.start - at), json!(at - job.start));
            value["on"] = job.on.iter().map(|node| json!({"node": node, "count": job.each})).collect();
        }
        value
    };
    let nodes: Vec<Value> =
        (0..4).map(|node| json!({"name": format!("n{node}"), "kind": "fake", "gpus": 4, "state": "up"})).collect();
    document(&nodes, &there.map(job).collect::<Vec<_>>())
}

pub(crate) fn document(nodes: &[Value], jobs: &[Value]) -> Value {
    json!({
        "sandtable": "state@1", "at": "2026-11-20T01:05:32Z", "source": {"kind": "other"}, "nodes": nodes, "queues": [],
        "jobs": jobs, "reservations": [], "unknown": [], "ignored": [],
    })
}

const SPEC: &str = "Experiment(title: \"t\", fleet: Model(list: NodeList(file: \"now.json\", format: State), speed: 1.0), \
    workload: State(file: \"now.json\"), policies: [Policy(name: \"fifo\")])";

/// What a run from a state says of each job: its first start and end in seconds of the model, and where it was.
fn continued(folder: &Path, state: &Value) -> BTreeMap<String, (f64, f64, String)> {
    std::fs::write(folder.join("now.json"), state.to_string()).expect("written");
    std::fs::write(folder.join("spec.ron"), SPEC).expect("written");
    let ran = sandtable(folder, &["run", "spec.ron", "--store", "store", "--policies", &dist()]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let mut cell = folder.join("store/cells");
    for _ in 0..2 {
        cell = sandtable::input::sorted(&cell).expect("a cell").pop().expect("one");
    }
    let jobs = text_of(&cell, "jobs.csv");
    let row = |line: &str| {
        let words: Vec<&str> = line.split(',').collect();
        let number = |at: usize| words[at].parse::<f64>().expect("a number");
        let place = words[words.len() - 1].to_string();
        (words[0].to_string(), (number(3), number(4), place))
    };
    jobs.lines().skip(1).map(row).collect()
}

/// The instant of a document of the last hour, in seconds of the model.
const AT: f64 = 3600.0;

/// The waiting jobs of a real Slurm (`sched/builtin`) start when it then started them, `within` seconds, and where, but for so many.
fn agrees(run: &str, at: f64, within: f64, elsewhere: usize) {
    let real = real(run);
    let folder = tempfile::tempdir().expect("a folder");
    let found = continued(folder.path(), &captured(&real, at));
    let (mut waiting, mut worst, mut same, mut all) = (0, 0.0f64, 0, 0);
    for job in real.iter().filter(|job| job.submit <= at && job.end > at) {
        let (start, end, place) = &found[&job.id];
        let nodes: Vec<String> =
            place.split(';').map(|part| format!("n{}", part.split(':').next().expect("a node"))).collect();
        same += usize::from(nodes == job.on);
        all += 1;
        let late = (start - AT) - (job.start - at);
        if job.start <= at {
            assert!(late.abs() < 1e-3 && (end - AT - (job.end - at)).abs() < 1.0, "{run}: job {} runs", job.id);
        } else {
            waiting += 1;
            worst = worst.max(late.abs());
            assert!(late.abs() <= within, "{run}: job {} starts {late:.2} s late", job.id);
        }
    }
    crate::help::told(&format!(
        "{run} at {at} s: {waiting} jobs waited, starts at most {worst:.2} s off, {same} of {all} on the same nodes"
    ));
    assert!(waiting >= 10 && all - same <= elsewhere);
}

#[needs("data:cluster-state")]
#[test]
fn waiting_jobs_start_when_and_where_a_real_slurm_started_them() {
    // Ticks of 1 s, and Slurm's defaults: the bounds are the page's. Where several nodes have room Slurm takes not always the one
    // with the least, as `fifo` does: 4 jobs of the first run are on other nodes.
    agrees("f1", 75.0, 2.0, 4);
    agrees("f3", 200.0, 5.0, 0);
}

#[needs("data:cluster-state")]
#[test]
fn documents_of_four_sources_are_read() {
    for source in ["slurm", "kueue", "volcano", "kai"] {
        let file = data(&format!("cluster-state/expected/{source}.state.json"));
        let state = sandtable_inputs::state::read(&file, 1 << 30).expect("a state");
        let otherwise = Some(sandtable_hardware::SECOND);
        let modelled = state
            .modelled(sandtable_inputs::state::RunTimes { of_limit: 1.0, otherwise, without_limits: false })
            .expect("modelled");
        assert!(!modelled.holders.is_empty() && modelled.rows.len() > modelled.holders.len(), "{source}");
        // Every job is there or is counted.
        let words = [
            "jobs that are held",
            "jobs that wait for others",
            "jobs that wait for a reservation",
            "jobs without GPUs",
            "jobs that can never start",
            "jobs in closed queues",
            "jobs whose kinds of GPU no node has that takes jobs",
            "running jobs that hold nothing another could have",
        ];
        let out: u32 = words.iter().filter_map(|what| modelled.not_modelled.get(*what)).sum();
        assert_eq!(modelled.rows.len() + out as usize, state.jobs.len(), "{source}: {:?}", modelled.not_modelled);
    }
}

#[test]
fn nodes_that_take_no_jobs_and_what_others_hold_are_not_there() {
    let node =
        |name: &str, state: &str, taken: &[u32]| json!({"name": name, "gpus": 4, "state": state, "taken": taken});
    let nodes = [node("drains", "draining", &[]), node("up", "up", &[1]), node("down", "down", &[])];
    let job = |id: &str, more: Value| {
        let mut job = json!({"id": id, "state": "waiting", "gpus": 1, "submitted_s": -10, "limit_s": 100});
        more.as_object().expect("fields").iter().for_each(|(key, value)| job[key] = value.clone());
        job
    };
    let jobs = [
        // It holds two GPUs of a node that takes no jobs, and the last two of the other.
        job(
            "spans",
            json!({"state": "running", "gpus": 4, "started_s": -60, "held_s": 40, "submitted_s": -70, "on": [
            {"node": "drains", "count": 2}, {"node": "up", "gpus": [2, 3], "count": 2}]}),
        ),
        job("elsewhere", json!({"state": "running", "started_s": -60, "on": [{"node": "drains", "count": 1}]})),
        job(
            "over",
            json!({"state": "running", "started_s": -500, "held_s": 500, "submitted_s": -500,
            "on": [{"node": "up", "count": 1}]}),
        ),
        job("waits", json!({"gpus": 3})),
        job("later", json!({"state": "not-before", "not_before_s": 200})),
        job("held", json!({"state": "held"})),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let found = continued(folder.path(), &document(&nodes, &jobs));
    let of = |job: &str| found[job].clone();
    // 40 s of 100 are done; what it held before counts as its own.
    assert_eq!(of("spans"), (AT - 60.0, AT + 60.0, "0:2".into()));
    assert_eq!(of("over"), (AT - 500.0, AT + 1.0, "0:1".into()), "beyond its limit it ends within a second");
    assert_eq!(of("waits"), (AT + 60.0, AT + 160.0, "0:3".into()));
    assert_eq!(of("later"), (AT + 200.0, AT + 300.0, "0:1".into()));
    assert!(!found.contains_key("elsewhere") && !found.contains_key("held"));
    let plan = sandtable(folder.path(), &["plan", "spec.ron", "--policies", &dist()]);
    let words = "begins with 2 running and 2 waiting jobs; not modelled: 1 GPUs that others hold, 1 jobs that are held, 2 nodes that take no jobs, \
                 1 running jobs of which a part is here, which keep it, 1 running jobs that hold nothing another could have";
    assert!(plan.stdout.contains(words), "{}", plan.stdout);
}

#[test]
fn what_contradicts_itself_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = [json!({"name": "n", "gpus": 2, "state": "up"})];
    let on = |gpus: &[u32]| json!([{"node": "n", "gpus": gpus, "count": gpus.len()}]);
    let running = |id: &str, gpus: &[u32]| json!({"id": id, "state": "running", "gpus": gpus.len(), "started_s": -1, "limit_s": 9, "on": on(gpus)});
    let with = |key: &str, value: Value| {
        let mut job = running("a", &[0]);
        job[key] = value;
        document(&nodes, &[job])
    };
    let mut newer = document(&nodes, &[]);
    newer["sandtable"] = "state@2".into();
    let mut loops = document(&nodes, &[running("a", &[0])]);
    loops["queues"] =
        json!([{"name": "p", "kind": "queue", "parent": "q"}, {"name": "q", "kind": "queue", "parent": "p"}]);
    let cases = [
        (json!({}), "no state of a cluster: it has no `sandtable: \"state@1\"`"),
        (json!("x"), "expected a state of a cluster: invalid type: string \"x\""),
        (newer, "expected a document \"state@1\", found \"state@2\""),
        (with("gpuz", json!(1)), "unknown field `gpuz`"),
        (with("state", json!("runs")), "unknown variant `runs`"),
        (with("started_s", json!(5)), "job \"a\": started_s: expected at most 0, found 5"),
        (with("held_s", json!(1e300)), "job \"a\": held_s: expected at most 1e10 s"),
        (with("queues", json!(["q"])), "job \"a\": no queue \"q\""),
        (with("on", json!([{"node": "m", "count": 1}])), "job \"a\": on: no node \"m\""),
        (with("on", on(&[2])), "job \"a\": GPU 2 of node \"n\", which has 2"),
        (with("on", on(&[0, 1])), "job \"a\": it has 1 GPUs, and holds 2"),
        (
            with("limit_s", Value::Null),
            "job \"a\": it has no time limit: `otherwise` of the run times is for such jobs",
        ),
        (with("share_milli", json!(500)), "job \"a\" asks for 500 thousandths of a GPU, which the fleet does not give"),
        (with("state", json!("waiting")), "job \"a\": it does not run, and holds GPUs"),
        (with("id", json!("")), "jobs: one has no name"),
        (loops, "queue \"p\" is in itself"),
        (document(&nodes, &[running("a", &[0]), running("a", &[1])]), "jobs: two are called \"a\""),
        (
            document(&nodes, &[running("a", &[0, 1]), running("b", &[1])]),
            "job \"b\": GPU 1 of node \"n\" is held by job \"a\" too",
        ),
        (
            document(
                &nodes,
                &[
                    running("a", &[0]),
                    json!({"id": "b", "state": "running", "gpus": 2, "limit_s": 9, "on": [{"node": "n", "count": 2}]}),
                ],
            ),
            "node \"n\" has 2 GPUs, and jobs hold 3",
        ),
        (
            document(&[json!({"name": "n", "gpus": 4_000_000_000u32, "state": "up"})], &[]),
            "node \"n\": expected at most 1024 GPUs",
        ),
        (with("limit_s", json!(0)), "job \"a\": its time limit is 0"),
        (document(&nodes, &[]), "no job that waits or holds GPUs"),
    ];
    for (state, expected) in cases {
        std::fs::write(folder.path().join("now.json"), state.to_string()).expect("written");
        std::fs::write(folder.path().join("spec.ron"), SPEC).expect("written");
        let ran = sandtable(folder.path(), &["plan", "spec.ron", "--policies", &dist()]);
        assert!(ran.code == 2 && ran.stderr.contains(expected), "expected {expected}, found {}", ran.stderr);
    }
    // Of another fleet than the state's.
    std::fs::write(folder.path().join("now.json"), document(&nodes, &[running("a", &[0])]).to_string())
        .expect("written");
    let other = SPEC.replace("list: NodeList(file: \"now.json\", format: State)", "nodes: 3, gpus: 2, kind: \"g\"");
    std::fs::write(folder.path().join("spec.ron"), other).expect("written");
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--policies", &dist(), "--store", "store"]);
    assert!(
        ran.stderr.contains("the jobs of a state run on its own nodes, and the fleet has others"),
        "{}",
        ran.stderr
    );
}

#[test]
fn queues_kinds_shapes_and_deadlines_are_kept_or_counted() {
    let node = |name: &str, kind: &str, queue: &str, state: &str| json!({"name": name, "kind": kind, "gpus": 4, "state": state, "queues": [queue]});
    let nodes = [node("a", "x", "p", "up"), node("b", "x", "q", "up"), node("c", "z", "q", "down")];
    let job = |id: &str, more: Value| {
        let mut job = json!({"id": id, "state": "waiting", "gpus": 1, "submitted_s": -10, "limit_s": 100});
        more.as_object().expect("fields").iter().for_each(|(key, value)| job[key] = value.clone());
        job
    };
    let jobs = [
        job("part", json!({"queues": ["q"]})),
        job("closed", json!({"queues": ["shut"]})),
        job("never", json!({"why": {"code": "never"}})),
        job("gone", json!({"kinds": ["z"]})),
        job("quota", json!({"why": {"code": "quota"}})),
        job("shape", json!({"gpus": 6, "nodes": {"least": 2, "most": 2, "gpus_each": 4}})),
        // It asks for a kind that its node no longer is said to be.
        job(
            "runs",
            json!({"state": "running", "started_s": -5, "held_s": 5, "kinds": ["z"], "on": [{"node": "b", "gpus": [3], "count": 1}]}),
        ),
        job("past", json!({"state": "not-before", "submitted_s": -7, "not_before_s": -90})),
    ];
    let mut state = document(&nodes, &jobs);
    state["queues"] = json!([{"name": "p", "kind": "queue"}, {"name": "q", "kind": "queue"}, {"name": "shut", "kind": "queue", "open": false}]);
    let folder = tempfile::tempdir().expect("a folder");
    let found = continued(folder.path(), &state);
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, ["part", "past", "quota", "runs", "shape"]);
    let plan = sandtable(folder.path(), &["plan", "spec.ron", "--policies", &dist()]);
    let words = "begins with 1 running and 4 waiting jobs; not modelled: 1 jobs in closed queues, 1 jobs that can never start, 1 jobs that may not be on \
                 all nodes, by their queue, 1 jobs that wait for a quota, which start as others, 1 jobs whose kinds of GPU no node has that takes jobs, \
                 1 nodes that take no jobs, 1 numbers of nodes that jobs ask for, 3 queues: their limits, weights and order";
    assert!(plan.stdout.contains(words), "{}", plan.stdout);
    // Other nodes, and GPUs that are said to be faster.
    let other = json!([node("b", "y", "q", "up"), node("a", "x", "p", "up")]);
    state["nodes"] = other;
    std::fs::write(folder.path().join("other.json"), state.to_string()).expect("written");
    for (from, to, expected) in [
        ("NodeList(file: \"now.json\"", "NodeList(file: \"other.json\"", "the jobs of a state run on its own nodes"),
        ("speed: 1.0", "speed: 2.0", "the run times of a state are those on its own GPUs"),
    ] {
        std::fs::write(folder.path().join("wrong.ron"), SPEC.replacen(from, to, 1)).expect("written");
        let ran = sandtable(folder.path(), &["run", "wrong.ron", "--policies", &dist(), "--store", "wrong"]);
        assert!(ran.code == 2 && ran.stderr.contains(expected), "{}", ran.stderr);
    }
}
