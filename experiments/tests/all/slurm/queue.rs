//! Forecasts of a real queue.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::daemons::Slurm;
use super::watched::Shadow;
use crate::help::{command, dist, ran};

/// Jobs of a queue on 2 nodes of 2 GPUs: nodes, GPUs on each, seconds.
const QUEUE: [(u32, u32, u32); 16] = [
    (1, 1, 3),
    (1, 2, 5),
    (1, 1, 4),
    (2, 2, 2),
    (1, 1, 3),
    (1, 1, 6),
    (1, 2, 3),
    (1, 2, 2),
    (1, 1, 5),
    (2, 1, 3),
    (1, 2, 4),
    (1, 1, 2),
    (2, 2, 3),
    (1, 1, 4),
    (1, 2, 2),
    (1, 1, 1),
];

/// Submits these jobs of the queue, and waits until some of them have started: so many still wait, or fewer.
fn submitted(slurm: &Slurm, queue: &[(u32, u32, u32)], waiting: usize) {
    for (nodes, gpus, seconds) in queue {
        let (nodes, gres, script) = (format!("-N{nodes}"), format!("--gres=gpu:{gpus}"), format!("sleep {seconds}"));
        slurm.tool(&["sbatch", "--parsable", "-t", "5", "-o", "/dev/null", &nodes, &gres, "--wrap", &script]);
    }
    for _ in 0..600 {
        if slurm.tool(&["squeue", "-h", "-t", "PD", "-o", "%i"]).lines().count() <= waiting {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Gives the jobs of a captured state the limits that they then turned out to need; how many waited.
fn with_run_times(slurm: &Slurm, folder: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.join("now.json")).expect("a document");
    let mut state: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for job in state["jobs"].as_array_mut().expect("jobs") {
        // What Slurm did not know then.
        job["limit_s"] = slurm.held_s(job["id"].as_str().expect("an id")).into();
    }
    std::fs::write(folder.join("now.json"), state.to_string()).expect("written");
    state
}

/// How far the forecasts of waiting jobs are off, seconds: the greatest; and how many waited.
fn worst(slurm: &Slurm, folder: &Path, state: &serde_json::Value, more: &[&str]) -> (f64, u32) {
    let dist = dist();
    let asked =
        ["what-if", "now.json", "--policies", &dist, "--store", "store", "--policy", "fifo", "--format", "json"];
    let said = ran(&mut command(folder, &[&asked[..], more].concat()));
    assert_eq!(said.code, 0, "{}", said.stderr);
    let cluster = if more.is_empty() { "as it is" } else { "changed" };
    let at: jiff::Timestamp = state["at"].as_str().expect("an instant").parse().expect("a time");
    let (mut worst, mut waited) = (0.0f64, 0);
    for line in said.stdout.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        if row["cluster"] != cluster {
            continue;
        }
        let real = slurm.ran(row["job"].as_str().expect("an id"))[0].duration_since(at).as_secs_f64();
        let late = row["start_p50_s"].as_f64().expect("it starts") - real;
        assert!(late.abs() <= 2.0, "job {} starts {late} s late: {row}", row["job"]);
        (worst, waited) = (worst.max(late.abs()), waited + 1);
    }
    (worst, waited)
}

/// The queue is captured while it runs, and continued under `fifo` with the run times that then came: all that wait then start within 2 s of when
/// the real Slurm started them. The same where a node is drained just after.
/// All the while a shadow watches, and the controller is away once.
pub(super) fn a_capture_in_the_middle_tells_when_waiting_jobs_start() {
    let slurm = Slurm::up("sched/builtin");
    let folder = tempfile::tempdir().expect("a folder");
    let capture = || {
        let captured = ran(slurm.with(&mut command(folder.path(), &["capture", "slurm", "-o", "now.json"])));
        assert_eq!(captured.code, 0, "{}", captured.stderr);
    };
    let shadow = Shadow::of(&slurm);
    let mut jobs = QUEUE.len();
    submitted(&slurm, &QUEUE, QUEUE.len() - 5);
    capture();
    slurm.rests();
    let state = with_run_times(&slurm, folder.path());
    let (off, waited) = worst(&slurm, folder.path(), &state, &[]);
    assert!(waited >= 5);
    writeln!(std::io::stderr(), "of a real queue {waited} waiting jobs start within {off:.2} s of the forecast")
        .expect("stderr");
    shadow.survives_the_controller(&slurm);
    slurm.is_idle();
    // On one node: those of two would wait for ever.
    let narrow: Vec<(u32, u32, u32)> = QUEUE.into_iter().filter(|(nodes, ..)| *nodes == 1).take(7).collect();
    for attempt in 1.. {
        jobs += narrow.len();
        submitted(&slurm, &narrow, narrow.len() - 3);
        capture();
        slurm.tool(&["scontrol", "update", "nodename=n1", "state=drain", "reason=test"]);
        let holds = |job: &str| slurm.tool(&["squeue", "-h", "-j", job, "-o", "%N"]).trim() == "n1";
        let text = std::fs::read_to_string(folder.path().join("now.json")).expect("a document");
        let state: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let jobs = state["jobs"].as_array().expect("jobs").iter();
        // A job that got the node between the capture and the drain: of that the forecast can't know.
        let between = jobs.filter(|job| job["state"] == "waiting").any(|job| holds(job["id"].as_str().expect("an id")));
        slurm.rests();
        slurm.tool(&["scontrol", "update", "nodename=n1", "state=resume"]);
        if between && attempt < 5 {
            continue;
        }
        let state = with_run_times(&slurm, folder.path());
        let (off, waited) = worst(&slurm, folder.path(), &state, &["--drain", "n1"]);
        assert!(waited >= 3);
        writeln!(
            std::io::stderr(),
            "with a node drained {waited} waiting jobs start within {off:.2} s of the forecast"
        )
        .expect("stderr");
        break;
    }
    shadow.ends(jobs);
}
