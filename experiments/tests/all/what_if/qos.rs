//! Questions to a real Slurm whose qualities of service preempt each other.

use serde_json::Value;

use super::{folder_with, golden, off, rows, what_if};
use crate::help::told;

/// Captured while 19 jobs of four qualities of service waited, some of them to begin anew, and when they started in the end; none was preempted.
#[test]
fn a_forecast_follows_the_qualities_of_service_of_a_real_slurm() {
    let folder = folder_with("slurm-qos");
    let off = |policy: &[&str]| off(folder.path(), 19, policy);
    let (follows, fifo) = (off(&[]), off(&["--policy", "fifo"]));
    told(&format!("off by {:.1} and {:.1} s; {:.1} and {:.1} s under fifo", follows.0, follows.1, fifo.0, fifo.1));
    assert!(follows.0 <= 2.0 && follows.1 <= 5.0);
    assert!(fifo.1 >= 60.0);
    // A job of the highest is where its priority puts it.
    for (priority, starts) in [(1, false), (1000, true)] {
        let add = format!("name=mine,gpus=4,limit=1h,queue=qos/high,priority={priority}");
        let found = rows(folder.path(), &["--run-times", "known=log.txt", "--add", &add, "--job", "mine"]);
        let (_, row) = found.iter().find(|((job, ..), _)| job == "mine").expect("its row");
        assert_eq!(row["start_p50_s"].as_f64().is_some_and(|at| at <= 1.0), starts, "{priority}: {row}");
    }
}

/// A job takes the GPUs of running ones whose quality of service its own names, and of no others.
#[test]
fn an_added_job_takes_the_gpus_of_those_that_its_quality_of_service_names() {
    let mut state: Value = serde_json::from_str(&golden("slurm-qos-now.json")).expect("a document");
    state["jobs"].as_array_mut().expect("jobs").retain(|job| job["state"] == "running");
    let folder = tempfile::tempdir().expect("a folder");
    let start = |state: &Value, queue: &str| {
        std::fs::write(folder.path().join("now.json"), state.to_string()).expect("written");
        let add = format!("name=mine,gpus=8,gpus_per_node=4,limit=1min{queue}");
        let found = rows(folder.path(), &["--add", &add, "--job", "mine"]);
        let (_, row) = found.iter().find(|((job, ..), _)| job == "mine").expect("its row");
        row["start_p50_s"].as_f64()
    };
    let all_of = |state: &mut Value, quality: &str| {
        state["jobs"].as_array_mut().expect("jobs").iter_mut().for_each(|job| {
            job["charges"] = serde_json::json!([quality]);
            job["preemptible"] = (quality != "qos/kept").into();
        });
    };
    for (running, own, takes) in [
        ("qos/low", "high", true),
        ("qos/low", "normal", true),
        ("qos/low", "kept", false),
        ("qos/normal", "high", true),
        ("qos/normal", "normal", false),
        ("qos/kept", "high", false),
    ] {
        all_of(&mut state, running);
        let at = start(&state, &format!(",queue=qos/{own}"));
        assert_eq!(at.is_some_and(|at| at <= 1.0), takes, "{own} on {running}: {at:?}");
    }
    // Six GPUs are what jobs of this one may have in all: it asks for eight, and waits for ever.
    all_of(&mut state, "qos/low");
    assert_eq!((start(&state, ",queue=qos/kept"), start(&state, ",queue=qos/low").is_some()), (None, true));
    let refused = what_if(folder.path(), &["--add", "name=mine,gpus=1,limit=1min,queue=qos/hig"]);
    assert!(refused.stderr.contains("no queue \"qos/hig\": did you mean \"qos/high\"?"), "{}", refused.stderr);
}
