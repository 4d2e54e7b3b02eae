//! Questions to a real Slurm whose partitions preempt each other.

use std::path::Path;

use serde_json::{Value, json};

use super::{folder_with, golden, off, rows, what_if};
use crate::help::told;

/// Captured while 47 jobs of three tiers waited, some of them to begin anew, and when they started in the end; none was preempted.
#[test]
fn a_forecast_follows_the_tiers_of_a_real_slurm() {
    let folder = folder_with("slurm-tiers");
    let off = |policy: &[&str]| off(folder.path(), 47, policy);
    let (follows, fifo) = (off(&[]), off(&["--policy", "fifo"]));
    told(&format!("off by {:.1} and {:.1} s; {:.1} and {:.1} s under fifo", follows.0, follows.1, fifo.0, fifo.1));
    assert!(follows.0 <= 2.0 && follows.1 <= 15.0);
    assert!(fifo.0 >= 60.0);
}

/// A job of a higher tier takes the GPUs of running ones, unless their partition keeps them.
#[test]
fn an_added_job_takes_the_gpus_of_lower_tiers() {
    let mut state: Value = serde_json::from_str(&golden("slurm-tiers-now.json")).expect("a document");
    let jobs = state["jobs"].as_array_mut().expect("jobs");
    jobs.retain(|job| job["state"] == json!("running"));
    // A job that has all of a node is of the lowest tier.
    let fourth = jobs.iter_mut().find(|job| job["id"] == json!("46")).expect("it runs");
    fourth["queues"] = json!(["low"]);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("now.json"), state.to_string()).expect("written");
    let start = |folder: &Path, queue: &str, more: &[&str]| {
        let add = format!("name=mine,gpus=8,gpus_per_node=4,limit=1min{queue}");
        let found = rows(folder, &[&["--add", &add, "--job", "mine"], more].concat());
        let (_, row) = found.iter().find(|((job, ..), _)| job == "mine").expect("its row");
        row["start_p50_s"].as_f64().expect("it starts")
    };
    // In no queue it is where the lowest partition's jobs are.
    for (queue, takes) in
        [(",queue=high", true), (",queue=mid", true), (",queue=low", false), (",queue=kept", false), ("", false)]
    {
        let at = start(folder.path(), queue, &[]);
        assert_eq!(at <= 1.0, takes, "{queue}: {at}");
    }
    assert!(start(folder.path(), ",queue=high", &["--policy", "slurm-backfill,preempt=false"]) > 1.0);
    let jobs = state["jobs"].as_array_mut().expect("jobs");
    jobs.iter_mut().find(|job| job["id"] == json!("46")).expect("it runs")["preemptible"] = json!(false);
    std::fs::write(folder.path().join("now.json"), state.to_string()).expect("written");
    assert!(start(folder.path(), ",queue=high", &[]) > 1.0);
    let refused = what_if(folder.path(), &["--add", "name=mine,gpus=1,limit=1min,queue=hig"]);
    assert!(
        refused.code == 2 && refused.stderr.contains("job \"mine\": no queue \"hig\": did you mean \"high\"?"),
        "{}",
        refused.stderr
    );
    let refused = what_if(folder.path(), &["--add", "name=mine,gpus=1,limit=1min,queue=batch"]);
    assert!(refused.stderr.contains("no queue \"batch\": expected one of low, kept, mid, high"), "{}", refused.stderr);
}
