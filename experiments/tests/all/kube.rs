//! Reading Kubernetes clusters: objects of Kueue, Volcano and KAI, and pods alone.

use std::path::Path;

use sandtable_needs::needs;
use serde_json::{Value, json};

use crate::help::{Ran, data, dist, sandtable};

const AT: &str = "2026-01-05T10:00:00Z";

fn capture(folder: &Path, file: &str) -> Ran {
    sandtable(folder, &["capture", "kube", file, "--at", AT, "-o", "state.json"])
}

fn document(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("state.json")).expect("a document")).expect("JSON")
}

/// A value with all numbers as such: 4 is 4.0.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(all) => all.iter().map(plain).collect(),
        Value::Object(all) => all.iter().map(|(key, value)| (key.clone(), plain(value))).collect(),
        other => other.clone(),
    }
}

/// Objects that were written by hand from the schedulers' types, against documents that another program made of them.
#[needs("data:cluster-state")]
#[test]
fn dumps_of_three_schedulers_are_read() {
    for (source, file) in [
        ("kai", "kai-snapshot.zip"),
        ("kai", "kai-snapshot.json"),
        ("kueue", "kueue-dump.json"),
        ("volcano", "volcano-dump.json"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let ran = capture(folder.path(), &data(&format!("cluster-state/kubernetes/{file}")).display().to_string());
        assert!(ran.code == 0 && !ran.stderr.contains("no run can begin"), "{source}: {}", ran.stderr);
        let found = document(folder.path());
        let expected = data(&format!("cluster-state/expected/{source}.state.json"));
        // Its name in the catalogue.
        let expected =
            std::fs::read_to_string(expected).expect("read").replace("\"H100-SXM-80GB\"", "\"H100-SXM5-80GB\"");
        let expected: Value = serde_json::from_str(&expected).expect("JSON");
        // Without what pods of no job ask for, which the other program does not read.
        let bare = |document: &Value, part: &str| {
            let mut value = plain(&document[part]);
            for node in value.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
                node.retain(|key, _| !matches!(key.as_str(), "cpus" | "ram_mib"));
            }
            value
        };
        for part in ["sandtable", "at", "source", "levels", "nodes", "queues"] {
            assert_eq!(bare(&found, part), bare(&expected, part), "{source} {part}");
        }
        let last = |document: &Value| document["nodes"][3]["cpus"].as_f64();
        let less = if source == "kai" { 8.0 } else { 0.0 };
        assert_eq!(last(&found).map(|cpus| cpus + less), last(&expected), "{source}");
        let (jobs, others) = (found["jobs"].as_array().expect("jobs"), expected["jobs"].as_array().expect("jobs"));
        assert_eq!(jobs.len(), others.len(), "{source}");
        for job in jobs {
            let other = others.iter().find(|other| other["id"] == job["id"]).expect("it");
            let mut job = job.clone();
            // What the other program did not read.
            let host = job.as_object_mut().map(|job| (job.remove("cpus"), job.remove("ram_mib"))).expect("a job");
            assert_eq!(plain(&job), plain(other), "{source}");
            match (source, job["id"].as_str()) {
                ("kueue", Some("team-a/job-run")) => assert_eq!(host, (Some(json!(16)), None)),
                ("kai", Some("team-a/pg-a-run")) => assert_eq!(host, (Some(json!(16)), Some(json!(131_072)))),
                _ => {}
            }
        }
    }
}

fn node(name: &str, gpus: u32) -> Value {
    json!({"kind": "Node", "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}}, "spec": {},
        "status": {"allocatable": {"nvidia.com/gpu": gpus.to_string(), "cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn pod(name: &str, gpus: u32, on: Option<&str>) -> Value {
    let mut pod = json!({"kind": "Pod", "metadata": {"name": name, "namespace": "team", "creationTimestamp": "2026-01-05T09:00:00Z"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": gpus.to_string()}}}], "priority": 5,
            "activeDeadlineSeconds": 7200},
        "status": {"phase": if on.is_some() { "Running" } else { "Pending" }, "conditions": []}});
    match on {
        Some(node) => {
            pod["spec"]["nodeName"] = node.into();
            pod["status"]["conditions"] =
                json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-05T09:30:00Z"}]);
        }
        None => {
            pod["status"]["conditions"] =
                json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        }
    }
    pod
}

fn dumped(folder: &Path, items: &[Value]) {
    std::fs::write(folder.join("dump.json"), json!({"kind": "List", "items": items}).to_string()).expect("written");
}

/// A pod that asks for cores and memory too.
fn asking(mut pod: Value, cpu: &str, memory: &str) -> Value {
    let requests = &mut pod["spec"]["containers"][0]["resources"]["requests"];
    (requests["cpu"], requests["memory"]) = (cpu.into(), memory.into());
    pod
}

#[test]
fn pods_wait_for_cores_that_others_hold_of_a_node() {
    let folder = tempfile::tempdir().expect("a folder");
    // Of eight cores a pod without GPUs holds half of one, and one with GPUs five.
    let mut limited = asking(pod("limited", 1, None), "2", "1Gi");
    limited["spec"]["containers"][0]["resources"]["limits"] =
        limited["spec"]["containers"][0]["resources"]["requests"].take();
    let items = [
        node("a", 4),
        asking(pod("daemon", 0, Some("a")), "500m", "100Mi"),
        asking(pod("runs", 1, Some("a")), "5", "1Gi"),
        asking(pod("waits", 2, None), "2500m", "2Gi"),
        limited,
    ];
    dumped(folder.path(), &items);
    assert_eq!(capture(folder.path(), "dump.json").code, 0);
    let found = document(folder.path());
    assert_eq!(found["nodes"][0]["cpus"], json!(7));
    let of = |job: &str| found["jobs"].as_array().and_then(|all| all.iter().find(|of| of["id"] == job)).expect("it");
    let host = |job: &str| [&of(job)["cpus"], &of(job)["ram_mib"]].map(Clone::clone);
    assert_eq!((host("team/waits"), host("team/limited")), ([json!(2.5), json!(2048)], [json!(2), json!(1024)]));
    let dist = dist();
    let asked = ["what-if", "state.json", "--policy", "fifo,backfill=skip", "--policies", &dist, "--format", "json"];
    let said = sandtable(folder.path(), &[&asked[..], &["--store", "store"]].concat());
    let rows: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let row = |job: &str| rows.iter().find(|row| row["job"] == job).expect("it");
    // Two cores are left: the second goes first.
    assert_eq!((&row("team/limited")["start_p50_s"], &row("team/waits")["why"]), (&json!(0.0), &json!("no-free-cpus")));
    assert!(row("team/waits")["start_p50_s"].as_f64().is_some_and(|at| at > 1000.0), "{:?}", row("team/waits"));
}

#[test]
fn pods_alone_are_jobs_and_a_forecast_goes_on_from_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut gated = pod("gated", 1, None);
    gated["status"]["conditions"][0]["reason"] = "SchedulingGated".into();
    let mut over = pod("over", 1, Some("a"));
    over["status"]["phase"] = "Succeeded".into();
    dumped(
        folder.path(),
        &[
            node("a", 4),
            node("b", 4),
            pod("runs", 3, Some("a")),
            pod("waits", 4, None),
            pod("wide", 8, None),
            gated,
            over,
            pod("none", 0, None),
        ],
    );
    let ran = capture(folder.path(), "dump.json");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.starts_with("2 nodes that take jobs, 8 GPUs, 1 running and 2 waiting jobs\n"), "{}", ran.stdout);
    let found = document(folder.path());
    assert_eq!(found["nodes"][0]["kind"], "A100-SXM4-80GB");
    let ignored = |what: &str| {
        let all = found["ignored"].as_array().expect("a list");
        all.iter().find(|of| of["what"] == what).map(|of| of["count"].clone())
    };
    assert_eq!(ignored("pods that are over"), Some(json!(1)));
    assert_eq!(ignored("pods without GPUs"), Some(json!(1)));
    assert_eq!(ignored("Pod.spec.containers.image"), Some(json!(6)));
    let asked = [
        "what-if",
        "state.json",
        "--policy",
        "fifo,backfill=skip",
        "--policies",
        &dist(),
        "--store",
        "store",
        "--format",
        "json",
    ];
    let said = sandtable(folder.path(), &asked);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let rows: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |job: &str| rows.iter().find(|row| row["job"] == job).expect("it");
    assert_eq!((&of("team/waits")["start_p50_s"], &of("team/waits")["waited_s"]), (&json!(0.0), &json!(3600.0)));
    // A pod is on one node, and none has eight GPUs.
    assert_eq!((&of("team/wide")["why"], &of("team/wide")["started_share"]), (&json!("never"), &json!(0.0)));
}

#[test]
fn every_key_is_read_or_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut odd = pod("p", 1, None);
    odd["spec"]["oddity"] = json!({"deep": [1, 2]});
    dumped(folder.path(), &[node("a", 4), odd, json!({"kind": "Oddity", "metadata": {"name": "o"}})]);
    assert_eq!(capture(folder.path(), "dump.json").code, 0);
    let found = document(folder.path());
    let all: Vec<&str> =
        found["ignored"].as_array().expect("a list").iter().filter_map(|of| of["what"].as_str()).collect();
    assert!(all.contains(&"Pod.spec.oddity") && all.contains(&"objects of the kind Oddity"), "{all:?}");
}

#[test]
fn what_is_wrong_with_a_dump_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = |value: &Value, expected: &str| {
        std::fs::write(folder.path().join("dump.json"), value.to_string()).expect("written");
        let ran = capture(folder.path(), "dump.json");
        assert!(ran.code == 2 && ran.stderr.contains(expected), "expected {expected}, found {}", ran.stderr);
    };
    let list = |items: &[Value]| json!({"items": items});
    wrong(&json!({"x": 1}), "dump.json: expected objects of Kubernetes, each with its `kind`");
    wrong(&list(&[pod("p", 1, None)]), "no Node among the objects");
    let mut many = node("a", 4);
    many["status"]["allocatable"]["nvidia.com/gpu"] = "many".into();
    wrong(&list(&[many]), "Node a: nvidia.com/gpu: expected a quantity such as");
    let mut half = pod("p", 1, None);
    half["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "500m".into();
    wrong(&list(&[node("a", 4), half]), "Pod team/p: expected a whole number of GPUs, found 0.5");
    let mut late = pod("p", 1, Some("a"));
    late["status"]["conditions"][0]["lastTransitionTime"] = "noon".into();
    wrong(&list(&[node("a", 4), late]), "expected a time as 2026-01-05T10:00:00Z, found \"noon\"");
    wrong(&list(&[node("a", 2), pod("p", 3, Some("a"))]), "node \"a\" has 2 GPUs, and jobs hold 3");
    std::fs::write(folder.path().join("dump.json"), b"PK\x03\x04nothing").expect("written");
    let ran = capture(folder.path(), "dump.json");
    assert!(ran.code == 2 && ran.stderr.contains("dump.json"), "{}", ran.stderr);
}
