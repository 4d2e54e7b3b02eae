//! `sandtable score`: candidates in, scores out.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use sandtable_hardware::random::Stream;
use serde_json::{Value, json};

use crate::help::{cells, command, dist, sandtable};

const SPEC: &str = "Experiment(title: \"scores\", fleet: Model(nodes: 2, gpus: 4, kind: \"g\", speed: 1.0), \
    workload: Generate(jobs: 200, arrivals: Poisson(load: 1.1), gpus: {1: 3, 2: 1, 4: 1}), predictors: {\"remaining\": Oracle}, \
    policies: [Policy(name: \"fifo\"), Policy(name: \"sjf\")], seeds: Range(0, 4))";

/// The answers to requests, by their ids.
fn asked(folder: &Path, requests: &[Value], more: &[&str]) -> BTreeMap<String, Value> {
    std::fs::write(folder.join("spec.ron"), SPEC).expect("written");
    asked_of(folder, "spec.ron", requests, more)
}

fn asked_of(folder: &Path, spec: &str, requests: &[Value], more: &[&str]) -> BTreeMap<String, Value> {
    let dist = dist();
    let mut score = command(folder, &[&["score", spec, "--policies", &dist], more].concat());
    let mut child =
        score.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command runs");
    let lines: String = requests.iter().map(|request| format!("{request}\n")).collect();
    child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("written");
    let ran = child.wait_with_output().expect("it ends");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let answer = |line: &str| {
        let answer: Value = serde_json::from_str(line).expect("JSON");
        (answer["id"].to_string(), answer)
    };
    String::from_utf8(ran.stdout).expect("text").lines().map(answer).collect()
}

#[test]
fn a_candidate_has_the_results_of_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let requests = [
        json!({"id": 1, "source": "def key(job, c): return job.remaining", "with": {"backfill": "skip"}}),
        json!({"id": 2, "policy": "sjf", "keep": true}),
        json!({"id": "louder", "policy": "sjf", "set": {"workload.arrivals": "Poisson(load: 0.5)", "seeds": "Range(0, 1)"}}),
        json!({"id": 4, "policy": "sjf", "held_out": true}),
    ];
    let more = ["--baseline", "fifo", "--store", "store", "--hold-out", "1"];
    let found = asked(folder.path(), &requests[..2], &more);
    let (script, sjf) = (&found["1"], &found["2"]);
    assert_eq!((&script["metrics"], &script["score"]), (&sjf["metrics"], &sjf["score"]), "{script}\n{sjf}");
    assert_eq!(sjf["score"].as_f64(), sjf["metrics"]["jct_mean_s"].as_f64().map(|mean| -mean));
    assert_eq!(sjf["cells"].as_array().map(Vec::len), Some(3), "one of four seeds is kept out");
    let change = &sjf["against"]["fifo"]["jct_mean_s"];
    assert!(change["change"].as_f64() < Some(-0.05) && change["low"].as_f64() < change["high"].as_f64(), "{change}");
    // What is kept is an ordinary cell.
    let kept = cells(&folder.path().join("store"));
    assert_eq!(kept.iter().filter(|(path, _)| path.ends_with("jobs.csv")).count(), 3);
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--store", "store", "--policies", &dist()]);
    assert!(ran.code == 0 && ran.stderr.contains("5 cells executed"), "{}", ran.stderr);
    let alone = asked(folder.path(), &requests[2..3], &[]);
    assert!(alone["\"louder\""]["ok"] == true && alone["\"louder\""]["score"] != sjf["score"], "{alone:?}");
    // Seeds that are kept out are not to be had by setting them.
    let set = json!({"id": 5, "policy": "sjf", "set": {"seeds": "List([2, 3])"}});
    assert_eq!(asked(folder.path(), &[set], &more)["5"]["cells"].as_array().map(Vec::len), Some(1));
    let held = asked(folder.path(), &requests[3..], &more);
    assert!(held["4"]["cells"].as_array().map(Vec::len) == Some(1) && held["4"]["score"] != sjf["score"], "{held:?}");
}

#[test]
fn a_cascade_goes_on_with_what_is_better_and_changed_jobs_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let requests = [
        json!({"id": 1, "policy": "sjf", "jobs": 3}),
        json!({"id": 2, "source": "def key(job, c): return -job.remaining", "with": {"backfill": "none"}}),
        json!({"id": 3, "policy": "fifo", "jobs": 2}),
        json!({"id": 4, "policy": "sjf", "test": true}),
    ];
    let cut = SPEC.replace("seeds: Range(0, 4))", "seeds: Range(0, 4), test: {\"seeds\": Range(0, 1)})");
    std::fs::write(folder.path().join("cut.ron"), cut).expect("written");
    let found = asked_of(folder.path(), "cut.ron", &requests, &["--baseline", "fifo", "--cascade"]);
    let cells = |id: &str| found[id]["cells"].as_array().map(Vec::len);
    assert_eq!((&found["1"]["stage"], cells("1")), (&"full".into(), Some(4)));
    assert_eq!((&found["2"]["stage"], cells("2")), (&"test".into(), Some(1)));
    assert_eq!((&found["4"]["stage"], cells("4")), (&"test".into(), Some(1)));
    let jobs = found["1"]["jobs"].as_array().expect("jobs");
    let changes: Vec<f64> =
        jobs.iter().filter_map(|job| Some((job["jct_s"].as_f64()? - job["baseline_jct_s"].as_f64()?).abs())).collect();
    assert!(changes.len() == 3 && changes[0] >= changes[1] && changes[1] >= changes[2] && changes[2] > 0.0, "{jobs:?}");
    // The baseline itself is no better than it is, and changes nothing.
    assert_eq!(found["3"]["stage"], "test");
    assert!(found["3"]["jobs"].as_array().expect("jobs").iter().all(|job| job["jct_s"] == job["baseline_jct_s"]));
    let alone = asked(folder.path(), &requests[..1], &[]);
    assert!(alone["1"]["message"].as_str().is_some_and(|why| why.contains("compared with a baseline's")), "{alone:?}");
}

#[test]
fn a_fault_is_an_answer_and_the_next_request_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let endless = "def key(job, c):\n    n = 0\n    for a in range(1000000):\n        for b in range(1000000):\n            n += 1\n    return n\n";
    let requests = [
        json!({"id": 1, "source": endless}),
        json!({"id": 2, "source": "def key(job, c): return job.nope"}),
        json!({"id": 3, "source": "def key(job, c): return 0", "policy": "fifo"}),
        json!({"id": 4, "policy": "fifi"}),
        json!({"id": 5, "policy": "fifo", "with": {"backfil": "skip"}}),
        json!({"id": 6, "policy": "fifo", "sett": {}}),
        json!({"id": 7, "policy": "fifo", "set": {"fleet.nodez": 3}}),
        json!({"id": 8, "policy": "fifo", "keep": true}),
        json!({"id": 9, "policy": "fifo", "held_out": true}),
        json!([1, 2]),
        json!({"id": 11, "policy": "fifo"}),
        json!({"id": 12, "source": "def key(job, c): return 0\ndef place(job, nodes, c):\n    n = nodes[0]\n    return [n.id] if job.gpus == 1 and n.free else None"}),
        json!({"id": 13, "source": "def key(job, c): return 0", "with": {"source": ""}}),
        json!({"id": 14, "policy": "fifo", "set": {"policies.0.name": "las"}}),
        json!({"id": 15, "source": "def key(job, c): return 0 # \u{c}\u{1b}\n", "with": {"params": {"a\u{1}": "\u{7f}"}}}),
    ];
    let found = asked(folder.path(), &requests, &["-j", "1"]);
    let faults = [
        ("1", "out-of-fuel", "fuel"),
        ("2", "refused-internal", "line 1, column 25, at `job.nope`"),
        ("3", "request", "expected `source` or `policy`, and not both"),
        ("4", "request", "did you mean `fifo`?"),
        ("5", "refused-configuration", "no parameter `backfil`"),
        ("6", "request", "unknown field `sett`"),
        ("7", "request", "no field `nodez`"),
        ("9", "request", "`--hold-out N`"),
        ("null", "request", "expected an object, found a list"),
        ("12", "unfinished", "never end"),
        ("13", "request", "said twice"),
        ("14", "request", "its parameters are `with`"),
    ];
    for (id, kind, words) in faults {
        let answer = &found[id];
        assert!(answer["ok"] == false && answer["score"] == -1e308, "{answer}");
        let said = answer["message"].as_str().unwrap_or_default();
        assert!(answer["fault"] == kind && said.contains(words), "{id}: {answer}");
    }
    let place = json!({"line": 1, "column": 25, "text": "def key(job, c): return job.nope"});
    assert!(found["2"]["at"] == place && found["3"].get("at").is_none(), "{} {}", found["2"], found["3"]);
    // One of the statements that it makes without end.
    assert!([4, 5].iter().any(|line| found["1"]["at"]["line"] == *line), "{}", found["1"]);
    assert_eq!(found["11"]["ok"], true);
    // What is kept is where a run would put it.
    let kept = found["8"]["cells"][0].as_str().expect("an id");
    assert!(folder.path().join("store/cells").join(&kept[..2]).join(kept).is_dir(), "{}", found["8"]);
    assert!(found["15"]["ok"] == true, "escapes of RON are not those of JSON: {}", found["15"]);
    let deadlines = asked(folder.path(), &requests[10..11], &["--metric", "deadlines_met"]);
    assert!(deadlines["11"]["fault"] == "no-metric" && deadlines["11"]["message"].is_string(), "{deadlines:?}");
    // In any number of threads the answers are the same.
    assert_eq!(asked(folder.path(), &requests, &["-j", "2"]), found);
}

#[test]
fn a_random_search_finds_an_order_that_beats_first_come_first_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut stream = Stream::new(3, "search");
    let mut draw = || (stream.integer() % 2001) as f64 / 1000.0 - 1.0;
    let mut candidate = |id: usize| {
        let (gpus, left, age) = (draw(), draw(), draw());
        let source = format!(
            "def key(job, c):\n    return {gpus} * job.gpus + {left} * math.log(1 + job.remaining) + {age} * job.submitted / 3600\n"
        );
        json!({"id": id, "source": source})
    };
    let requests: Vec<Value> = (0..60).map(&mut candidate).collect();
    let more = ["--baseline", "fifo", "--hold-out", "2"];
    let found = asked(folder.path(), &requests, &more);
    let score = |answer: &Value| answer["score"].as_f64().expect("a score");
    let best = found.values().max_by(|a, b| score(a).total_cmp(&score(b))).expect("candidates");
    assert!(best["against"]["fifo"]["jct_mean_s"]["change"].as_f64() < Some(-0.1), "{best}");
    // And on seeds that the search has not seen.
    let id = best["id"].as_u64().expect("an id") as usize;
    let mut last = requests[id].clone();
    last["held_out"] = true.into();
    let held = asked(folder.path(), &[last], &more);
    let change = &held[&id.to_string()]["against"]["fifo"]["jct_mean_s"]["change"];
    assert!(change.as_f64() < Some(-0.05), "{held:?}");
}

#[test]
fn mistakes_of_the_spec_and_of_options_are_said_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spec.ron"), SPEC).expect("written");
    let refused = |more: &[&str], words: &str| {
        let ran = sandtable(folder.path(), &[&["score", "spec.ron", "--policies", &dist()], more].concat());
        assert!(ran.code == 2 && ran.stderr.contains(words), "{} {}", ran.code, ran.stderr);
    };
    refused(&["--metric", "jct"], "no metric `jct`");
    refused(&["--metric", "reassignments"], "no value of it is better than another");
    refused(&["--baseline", "fif"], "--baseline");
    refused(&["--hold-out", "4"], "no seed is left");
    refused(&["--set", "fleet.nodes=none"], "nodes");
    refused(&["--only", "fifo"], "--only: candidates take the place");
    refused(&["--sweep", "policies.1.name=sjf,las"], "the sweep has `policies.1.name`");
}
