//! What policies would have started beside what a real Slurm started, poll by poll; and by hand.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_needs::needs;
use serde_json::{Value, json};

use crate::help::{Ran, dist, sandtable, told};
use crate::states::{Real, captured, real};

/// What `shadow report` says of a folder.
fn report(folder: &Path, more: &[&str]) -> Ran {
    let dist = dist();
    let mut args = vec!["shadow", "report", "polls", "--policies", &dist, "--no-progress"];
    args.extend(more);
    sandtable(folder, &args)
}

/// When Slurm's backfill looks: seconds between two looks, and of the first.
type Ticks = Option<(f64, f64)>;

/// Documents of a run, one each so many seconds: with its declared limits, and the jobs that have ended.
fn polled(run: &[Real], folder: &Path, every: f64, ticks: Ticks) {
    std::fs::create_dir_all(folder.join("polls")).expect("made");
    let begin: jiff::Timestamp = "2026-11-20T00:00:00Z".parse().expect("a time");
    let last = run.iter().map(|job| job.start).fold(0.0, f64::max) + 30.0;
    for at in (0..).map(|poll| f64::from(poll) * every).take_while(|at| *at <= last) {
        let mut state = captured(run, at);
        state["at"] = (begin + jiff::SignedDuration::from_millis((at * 1000.0) as i64)).to_string().into();
        state["source"] = json!({"kind": "slurm", "scheduler": {"backfill": ticks.is_some()}});
        if let Some((tick, phase)) = ticks {
            let looked = phase + ((at - phase) / tick).floor() * tick - at;
            let resolution = tick.clamp(1.0, 60.0) * if tick > 1.0 { 2.0 } else { 1.0 };
            state["source"]["scheduler"] = json!({
                "backfill": true, "backfill_tick_s": tick, "backfilled_s": looked, "resolution_s": resolution,
            });
        }
        let jobs = state["jobs"].as_array_mut().expect("jobs");
        for job in jobs.iter_mut() {
            let id = job["id"].as_str().expect("an id");
            job["limit_s"] = json!(run.iter().find(|of| of.id == id).expect("it is of the run").limit);
        }
        for job in run.iter().filter(|job| job.end <= at) {
            let on: Vec<Value> = job.on.iter().map(|node| json!({"node": node, "count": job.each})).collect();
            jobs.push(json!({
                "id": job.id, "state": "ended", "gpus": job.nodes * job.each, "submitted_s": job.submit - at,
                "nodes": {"least": job.nodes, "most": job.nodes, "gpus_each": job.each}, "limit_s": job.limit,
                "started_s": job.start - at, "ended_s": job.end - at, "on": on,
            }));
        }
        std::fs::write(folder.join(format!("polls/{at:09.3}.json")), state.to_string()).expect("written");
    }
}

/// Of each policy: starts in common over starts of either; that it alone made, and of these the ones that came next.
fn agreement(run: &str, every: f64, ticks: Ticks) -> BTreeMap<String, (f64, f64, f64)> {
    let folder = tempfile::tempdir().expect("a folder");
    polled(&real(run), folder.path(), every, ticks);
    let mut all = BTreeMap::new();
    let others = ["--policy", "fifo", "--policy", "fifo,backfill=skip", "--policy", "fifo,backfill=easy"];
    // Without a policy it is the one that the documents say.
    for asked in [&[][..], &others] {
        let ran = report(folder.path(), asked);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        told(&format!("{run}, each {every} s:\n{}", ran.stdout.trim_end()));
        let table: Vec<&str> = ran.stdout.lines().skip_while(|line| !line.starts_with("policy")).collect();
        let columns: Vec<&str> = table[0].split("  ").filter(|word| !word.is_empty()).collect();
        for line in &table[1..] {
            let words: Vec<&str> = line.split("  ").filter(|word| !word.is_empty()).map(str::trim).collect();
            let of = |name: &str| {
                let at = columns.iter().position(|column| column.trim() == name).expect("a column");
                words[at].trim_end_matches(" %").parse::<f64>().expect("a number")
            };
            let values = (of("same starts"), of("started by it alone"), of("which came next"));
            all.insert(words[0].to_string(), values);
        }
    }
    all
}

/// The floors are the design page's, of polls that are so far apart.
#[needs("data:cluster-state")]
#[test]
fn the_policy_that_a_real_slurm_follows_agrees_with_it_best() {
    // `sched/builtin`; and the backfill each second, and with Slurm's defaults.
    let (each_second, defaults) = (Some((1.0, 0.5)), Some((30.0, 26.0)));
    let runs = [
        ("f3", 5.0, None, "fifo", 0.0),
        ("f3", 30.0, None, "fifo", 83.0),
        ("b4", 5.0, each_second, "slurm-backfill", 64.0),
        ("b4", 30.0, each_second, "slurm-backfill", 74.0),
        ("b3", 5.0, defaults, "slurm-backfill", 34.0),
        ("b3", 30.0, defaults, "slurm-backfill", 66.0),
    ];
    for (run, every, ticks, own, floor) in runs {
        let all = agreement(run, every, ticks);
        let (same, alone, next) = all[own];
        assert!(same >= floor, "{run} each {every} s: {same} %");
        assert!(all.iter().all(|(policy, (other, ..))| policy == own || *other < same), "{run} each {every} s: {all:?}");
        if run == "f3" {
            // Slurm takes up to four seconds to see that GPUs are free, and 5 s are not many more.
            assert!(alone == next && alone <= 8.0, "{alone} {next}");
        }
    }
}
