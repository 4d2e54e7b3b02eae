//! Questions to a cluster on which jobs have parts of GPUs.

use sandtable_needs::needs;
use serde_json::{Value, json};

use super::{folder_of, rows, what_if};
use crate::help::data;

/// Two GPUs: a half each of the first is held for 10 and 15 min more, the second for 2,000 s.
fn halves() -> Value {
    let runs = |id: &str, milli: u32, since: u32, limit: u32| {
        json!({"id": id, "state": "running", "gpus": 1, "share_milli": milli, "started_s": -f64::from(since), "held_s": since,
            "limit_s": limit, "on": [{"node": "a", "count": 1, "milli": if milli < 1000 { json!(milli) } else { Value::Null }}]})
    };
    let waits = |id: &str, milli: u32, since: u32| json!({"id": id, "state": "waiting", "gpus": 1, "share_milli": milli, "submitted_s": -f64::from(since), "limit_s": 600});
    json!({"sandtable": "state@1", "at": "2026-11-20T00:00:00Z", "source": {"kind": "other"},
        "nodes": [{"name": "a", "gpus": 2, "state": "up"}], "queues": [], "reservations": [], "unknown": [], "ignored": [],
        "jobs": [runs("h1", 500, 600, 1200), runs("h2", 500, 300, 1200), runs("w", 1000, 100, 2100),
            waits("q1", 500, 50), waits("q2", 1000, 40), waits("q3", 400, 30)]})
}

#[test]
fn jobs_with_parts_of_gpus_share_them() {
    let folder = folder_of(&halves());
    let found = rows(folder.path(), &["--policy", "fifo", "--policy", "fifo,backfill=skip"]);
    let of = |job: &str, policy: &str| &found[&(job.to_string(), policy.to_string(), false)];
    let start = |job: &str, policy: &str| of(job, policy)["start_p50_s"].as_f64();
    // A half is free after 600 s, a whole GPU once the half that starts then has ended, and the last comes after that one.
    let fifo = ["q1", "q2", "q3"].map(|job| start(job, "fifo"));
    assert_eq!(fifo, [Some(600.0), Some(1200.0), Some(1800.0)]);
    // With skipping the last has what is left of the GPU once the other half of it is free, and the whole one waits for both.
    let skip = ["q1", "q2", "q3"].map(|job| start(job, "fifo backfill=skip"));
    assert_eq!(skip, [Some(600.0), Some(1500.0), Some(900.0)]);
    let why = |job: &str| (of(job, "fifo")["why_text"].as_str().expect("words"), &of(job, "fifo")["after"]);
    assert_eq!(why("q1"), ("no GPU has 500 thousandths free", &json!(["h1"])));
    assert_eq!(why("q2"), ("0 of 1 GPUs free", &json!(["h1", "h2"])));
    let said = what_if(folder.path(), &["--policy", "fifo", "-o", "page.html"]);
    assert!(said.stdout.starts_with("3 waiting and 3 running jobs"), "{}", said.stdout);
    // What asks for whole GPUs alone is on a fleet that gives no others.
    let mut whole = halves();
    whole["jobs"].as_array_mut().expect("jobs").retain(|job| job["share_milli"] == json!(1000));
    let spec = |state: &Value| what_if(folder_of(state).path(), &["--policy", "fifo", "--print-spec"]).stdout;
    assert!(spec(&halves()).contains("sharing: Shares") && !spec(&whole).contains("sharing: Shares"));
}

/// The fixture of KAI, by its own rules: the gang of eight is within what its queue is guaranteed, and takes the GPUs of the other's.
#[needs("data:cluster-state")]
#[test]
fn a_cluster_of_kai_with_a_part_of_a_gpu_is_asked() {
    let text = std::fs::read_to_string(data("cluster-state/expected/kai.state.json")).expect("read");
    let folder = folder_of(&serde_json::from_str(&text).expect("JSON"));
    let found = rows(folder.path(), &["--otherwise", "2h"]);
    let row = &found[&("team-b/pg-b-wait".to_string(), "kai-like".to_string(), false)];
    assert_eq!((found.len(), row["start_p50_s"].as_f64()), (1, Some(1.0)));
}
