//! KAI's published rounds of scheduling: which jobs run after some rounds, case by case.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_needs::needs;
use sandtable_policy::driver::Driver;
use sandtable_policy::host::{Host, stand_in};
use sandtable_policy::testing::{arrival, data, demand, setup, topology};
use sandtable_policy::{
    Action, Arrival, Batch, ChangeCause, Event, Fresh, GpuId, GpuTypeId, Introductions, JobId, JobPhase, PhaseChange,
    Quantity, Queue, QueueId, Setup, Trigger,
};
use serde_json::Value;

use crate::KaiLike;

/// Cases whose outcome is another here, and why.
const OTHERWISE: [(&str, &str); 2] = [
    (
        "consolidation_and_reclaim_consolidation_and_reclaim/01",
        "what KAI moves and reclaims in one round takes three here",
    ),
    (
        "reclaim_reclaim/08",
        "KAI leaves GPUs that allocation would give back, as the case says; here they are reclaimed",
    ),
];

/// The time from a round to the next, µs.
const SECOND: u64 = 1_000_000;

/// Who is where when a policy takes over.
struct Places(Vec<(GpuId, JobId)>);

impl Host for Places {
    fn estimate(&self, _: Quantity, jobs: &[JobId], _: &[GpuTypeId]) -> Vec<f64> {
        vec![f64::NAN; jobs.len()]
    }

    fn occupancy(&self) -> (Vec<GpuId>, Vec<JobId>) {
        self.0.iter().copied().unzip()
    }
}

/// One job of a case.
struct Listed {
    name: String,
    queue: QueueId,
    priority: i32,
    /// GPUs of each task, and how many tasks.
    each: u32,
    tasks: u32,
    held: Vec<GpuId>,
}

/// Whether a case has only what can be said here: whole GPUs, gangs that run or wait as a whole, nothing else of a job or a node.
fn is_expressible(case: &Value) -> bool {
    let only = |of: &Value, known: &[&str]| {
        of.as_object().is_some_and(|fields| fields.keys().all(|field| known.contains(&field.as_str())))
    };
    let list = |field: &str| case[field].as_array().cloned().unwrap_or_default();
    let of_job = |job: &Value| {
        let states: BTreeSet<&str> =
            job["tasks"].as_array().expect("tasks").iter().map(|task| text(task, "state")).collect();
        let known = ["name", "queue", "priority", "gpus_per_task", "tasks"];
        let state = states.first().copied().unwrap_or_default();
        only(job, &known)
            && job["gpus_per_task"].as_f64().is_some_and(|gpus| gpus.fract() == 0.0)
            && states.len() == 1
            && (state == "running" || state == "pending")
    };
    list("jobs").iter().all(of_job)
        && list("queues").iter().all(|queue| queue.get("other").is_none())
        && case["nodes"].as_object().is_some_and(|nodes| nodes.values().all(|node| only(node, &["gpus"])))
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_else(|| panic!("{field} of {of}"))
}

/// The queues of a case by name; departments are groups at the top, where none is named one without limits.
fn queues_of(case: &Value) -> (Vec<Queue>, BTreeMap<String, QueueId>) {
    let any = |number: Option<f64>| number.filter(|number| *number >= 0.0);
    let mut listed: Vec<(Value, Option<String>)> = Vec::new();
    let departments = case["departments"].as_array().cloned().unwrap_or_default();
    listed.extend(departments.into_iter().map(|department| (department, None)));
    let own = case["queues"].as_array().cloned().unwrap_or_default();
    let alone = case["no_default_department"].as_bool() == Some(true);
    if listed.is_empty() && !alone {
        listed.push((serde_json::json!({"name": "default", "weight": 0}), None));
    }
    let default = (!alone).then(|| "default".to_string());
    listed.extend(own.into_iter().map(|queue| {
        let parent = queue["parent"].as_str().map(str::to_string).or_else(|| default.clone());
        (queue, parent)
    }));
    let mut ids = BTreeMap::new();
    let queues = listed.iter().zip(0..).map(|((queue, parent), id)| {
        let name = text(queue, "name").to_string();
        ids.insert(name.clone(), id);
        Queue {
            id,
            name,
            parent: parent.as_ref().map(|group| ids[group]),
            guaranteed: any(queue["deserved"].as_f64()).unwrap_or(f64::INFINITY),
            weight: queue["weight"].as_f64().unwrap_or(0.0),
            limit: any(queue["limit"].as_f64()).unwrap_or(f64::INFINITY),
            priority: 0,
        }
    });
    (queues.collect(), ids)
}

/// The jobs of a case, on nodes of these many GPUs.
fn jobs_of(case: &Value, sizes: &[u32], ids: &BTreeMap<String, QueueId>) -> Vec<Listed> {
    let names: Vec<&String> = case["nodes"].as_object().expect("nodes").keys().collect();
    let mut free: Vec<Vec<GpuId>> = Vec::new();
    let mut first = 0;
    for size in sizes {
        free.push((first..first + size).rev().collect());
        first += size;
    }
    let mut jobs: Vec<Listed> = Vec::new();
    for job in case["jobs"].as_array().expect("jobs") {
        let each = job["gpus_per_task"].as_f64().expect("GPUs") as u32;
        let tasks = job["tasks"].as_array().expect("tasks");
        let mut held = Vec::new();
        for task in tasks.iter().filter(|task| task["node"].is_string()) {
            let node = names.iter().position(|name| *name == text(task, "node")).expect("a node");
            held.extend((0..each).map(|_| free[node].pop().expect("a free GPU")));
        }
        let priority = job["priority"].as_i64().expect("a priority") as i32;
        let (name, queue) = (text(job, "name").to_string(), ids[text(job, "queue")]);
        jobs.push(Listed { name, queue, priority, each, tasks: tasks.len() as u32, held });
    }
    jobs
}

/// Which jobs run after so many rounds: each round is a call, and what was preempted waits in the next. The policy takes over in a call before them, since it can't know for how long jobs have
/// run then.
fn running_after(case: &Value, rounds: usize) -> BTreeMap<String, bool> {
    let nodes = case["nodes"].as_object().expect("nodes");
    let sizes: Vec<u32> = nodes.values().map(|node| node["gpus"].as_u64().unwrap_or(0) as u32).collect();
    let (queues, ids) = queues_of(case);
    let jobs = jobs_of(case, &sizes, &ids);
    let mut places: Vec<(GpuId, JobId)> =
        jobs.iter().zip(0..).flat_map(|(job, id)| job.held.iter().map(move |gpu| (*gpu, id))).collect();
    places.sort_unstable();
    stand_in(Box::new(Places(places)));
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let setup = Setup { topology: topology(&sizes), queues, ..setup("{}", &sizes, 1000) };
    let (mut driver, _) = Driver::<KaiLike>::new(setup).expect("a policy");
    let (mut events, mut classes) = (Vec::new(), Vec::new());
    for (job, id) in jobs.iter().zip(0..) {
        // The host does not announce what no node could hold.
        if job.each > largest {
            continue;
        }
        classes.push(sandtable_policy::Demand {
            preemptible: job.priority < 100,
            // A task is on one node.
            gpus_per_node: if job.tasks == 1 { job.each } else { 0 },
            ..demand(job.each * job.tasks)
        });
        let told = arrival(id, classes.len() as u32 - 1, 0);
        events.push(Event::JobArrived(Arrival { priority: job.priority, queue: job.queue, ..told }));
    }
    let change = |job, phase, at| {
        Event::JobChanged(PhaseChange { job, phase, at, cause: ChangeCause::Asked, remaining: sandtable_policy::NEVER })
    };
    events.extend(
        (0..).zip(&jobs).filter(|(_, job)| !job.held.is_empty()).map(|(id, _)| change(id, JobPhase::Running, 0)),
    );
    let mut new = Introductions { classes, users: vec![String::new()], ..Introductions::default() };
    let mut runs: Vec<bool> = jobs.iter().map(|job| !job.held.is_empty()).collect();
    for round in 0..=rounds as u64 {
        let trigger = if round == 0 { Trigger::Resync } else { Trigger::Round };
        let batch = Batch {
            seq: round,
            now: round * SECOND,
            trigger,
            fresh: Fresh::all(),
            events: std::mem::take(&mut events),
        };
        let plan = driver.decide(&batch, std::mem::take(&mut new)).expect("a plan");
        let mut placed = BTreeSet::new();
        for action in plan.actions {
            match action {
                Action::Start(start) => {
                    assert!(placed.insert(start.job), "job {} twice in one plan", start.job);
                    runs[start.job as usize] = true;
                    events.push(change(start.job, JobPhase::Running, round * SECOND));
                }
                Action::Preempt(preempt) => {
                    assert!(placed.insert(preempt.job), "job {} twice in one plan", preempt.job);
                    runs[preempt.job as usize] = false;
                    events.push(change(preempt.job, JobPhase::Queued, round * SECOND));
                }
                _ => {}
            }
        }
    }
    jobs.into_iter().zip(runs).map(|(job, runs)| (job.name, runs)).collect()
}

#[test]
fn what_is_of_no_use_where_it_is_keeps_no_queue_from_its_own() {
    let running = |name: &str, node: &str| serde_json::json!({"name": name, "queue": "a", "priority": 50, "gpus_per_task": 1, "tasks": [{"state": "running", "node": node}]});
    // The latest jobs of `a` are on the first node, of which two are all that it would let go; one that asks for four
    // GPUs of a node finds them on the other, which two of the oldest jobs are on.
    let mut jobs: Vec<Value> = ["0", "1"].map(|name| running(name, "second")).to_vec();
    jobs.extend(["2", "3", "4", "5"].map(|name| running(name, "first")));
    jobs.push(serde_json::json!({"name": "6", "queue": "b", "priority": 50, "gpus_per_task": 4, "tasks": [{"state": "pending"}]}));
    let queue = |name: &str| serde_json::json!({"name": name, "deserved": 4, "weight": 0});
    let mut case = serde_json::json!({
        "nodes": {"first": {"gpus": 4}, "second": {"gpus": 4}}, "queues": [queue("a"), queue("b")], "jobs": jobs,
    });
    let runs = |case: &Value| {
        running_after(case, 2).into_iter().filter(|(_, runs)| *runs).map(|(name, _)| name).collect::<String>()
    };
    assert_eq!(runs(&case), "23456");
    // With one more GPU guaranteed to `a`, taking two is not fair.
    case["queues"] = serde_json::json!([{"name": "a", "deserved": 5, "weight": 0}, queue("b")]);
    assert_eq!(runs(&case), "012345");
}

#[test]
fn a_queue_that_gives_no_more_keeps_its_jobs_where_others_give_theirs() {
    let job = |name: String, queue: &str, gpus: u32, node: &str| {
        let priority = if queue == "n" { 100 } else { 50 };
        let task = match node {
            "" => serde_json::json!({"state": "pending"}),
            node => serde_json::json!({"state": "running", "node": node}),
        };
        serde_json::json!({"name": name, "queue": queue, "priority": priority, "gpus_per_task": gpus, "tasks": [task]})
    };
    // `q1` is one GPU above its own, `q2` three: on the second node four of theirs may go, of which `q1` has but one.
    let mut jobs: Vec<Value> = (0..4).map(|at| job(format!("a{at}"), "q1", 1, "second")).collect();
    jobs.extend((0..7).map(|at| job(format!("c{at}"), "q2", 1, if at < 4 { "second" } else { "first" })));
    jobs.push(job("n".into(), "n", 5, "first"));
    jobs.push(job("b".into(), "b", 4, ""));
    let queue = |(name, deserved): (&str, u32)| serde_json::json!({"name": name, "deserved": deserved, "weight": 0});
    let queues = [("q1", 3), ("q2", 4), ("n", 5), ("b", 4)].map(queue);
    let case = serde_json::json!({
        "nodes": {"first": {"gpus": 8}, "second": {"gpus": 8}}, "queues": queues, "jobs": jobs,
    });
    let runs = running_after(&case, 2);
    let count = |queue: &str| runs.iter().filter(|(name, runs)| name.starts_with(queue) && **runs).count();
    assert_eq!([count("a"), count("c"), count("n"), count("b")], [3, 4, 1, 1]);
}

#[needs("data:kai")]
#[test]
fn published_rounds_end_as_published_or_otherwise_for_a_known_reason() {
    let cases: Vec<Value> =
        serde_json::from_slice(&std::fs::read(data("kai/rounds.json")).expect("the cases")).expect("cases");
    let (mut same, mut otherwise) = (0, Vec::new());
    for case in cases.iter().filter(|case| is_expressible(case)) {
        let rounds = case["rounds"]["until"].as_u64().unwrap_or(2) as usize;
        // What is published holds for five rounds more.
        let found = [running_after(case, rounds), running_after(case, rounds + 5)];
        let expected = |of: &BTreeMap<String, bool>| {
            let jobs = case["expect_jobs"].as_object().expect("what is expected");
            jobs.iter().all(|(name, job)| of[name] == (text(job, "status") == "running"))
        };
        match found.iter().all(expected) {
            true => same += 1,
            false => otherwise.push(text(case, "id")),
        }
    }
    assert_eq!(otherwise, OTHERWISE.map(|(id, _)| id), "{same} as published");
    assert_eq!(same, 32);
}
