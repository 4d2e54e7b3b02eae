//! What policies would have started beside what a real Slurm started, poll by poll; and by hand.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_needs::needs;
use serde_json::{Value, json};

use crate::help::{Ran, dist, sandtable, told};
use crate::states::{Real, captured, document, real};

/// What `shadow report` says of a folder.
fn report(folder: &Path, more: &[&str]) -> Ran {
    let dist = dist();
    let mut args = vec!["shadow", "report", "polls", "--policies", &dist, "--no-progress"];
    args.extend(more);
    sandtable(folder, &args)
}

/// When Slurm's backfill looks: seconds between two looks, and of the first; and what its plans are rounded to.
type Looks = Option<[f64; 3]>;

/// Documents of a run, one each so many seconds: with its declared limits or what jobs took, and the jobs that have ended.
fn polled(run: &[Real], folder: &Path, every: f64, looks: Looks, declared: bool) {
    std::fs::create_dir_all(folder.join("polls")).expect("made");
    let begin: jiff::Timestamp = "2026-11-20T00:00:00Z".parse().expect("a time");
    let last = run.iter().map(|job| job.start).fold(0.0, f64::max) + 30.0;
    for at in (0..).map(|poll| f64::from(poll) * every).take_while(|at| *at <= last) {
        let mut state = captured(run, at);
        state["at"] = (begin + jiff::SignedDuration::from_millis((at * 1000.0) as i64)).to_string().into();
        state["source"] = json!({"kind": "slurm", "scheduler": {"backfill": looks.is_some()}});
        if let Some([tick, phase, resolution]) = looks {
            let looked = phase + ((at - phase) / tick).floor() * tick - at;
            state["source"]["scheduler"] = json!({
                "backfill": true, "backfill_tick_s": tick, "backfilled_s": looked, "resolution_s": resolution,
            });
        }
        let jobs = state["jobs"].as_array_mut().expect("jobs");
        for job in jobs.iter_mut().filter(|_| declared) {
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
fn agreement(run: &str, every: f64, looks: Looks) -> BTreeMap<String, (f64, f64, f64)> {
    let folder = tempfile::tempdir().expect("a folder");
    polled(&real(run), folder.path(), every, looks, true);
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
    let (each_second, defaults) = (Some([1.0, 0.5, 1.0]), Some([30.0, 26.0, 60.0]));
    let runs = [
        ("f3", 5.0, None, "fifo", 0.0),
        ("f3", 30.0, None, "fifo", 83.0),
        ("b4", 5.0, each_second, "slurm-backfill", 64.0),
        ("b4", 30.0, each_second, "slurm-backfill", 74.0),
        ("b3", 5.0, defaults, "slurm-backfill", 34.0),
        ("b3", 30.0, defaults, "slurm-backfill", 66.0),
    ];
    for (run, every, looks, own, floor) in runs {
        let all = agreement(run, every, looks);
        let (same, alone, next) = all[own];
        assert!(same >= floor, "{run} each {every} s: {same} %");
        assert!(
            all.iter().all(|(policy, (other, ..))| policy == own || *other < same),
            "{run} each {every} s: {all:?}"
        );
        if run == "f3" {
            // Slurm takes up to four seconds to see that GPUs are free, and 5 s are not many more.
            assert!(alone == next && alone <= 8.0, "{alone} {next}");
        }
    }
}

#[needs("data:cluster-state")]
#[test]
fn forecasts_from_polls_are_compared_with_what_later_ones_say() {
    let folder = tempfile::tempdir().expect("a folder");
    polled(&real("f3"), folder.path(), 30.0, None, false);
    let ran = report(folder.path(), &["--forecasts", "4"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let rows: Vec<&str> = ran.stdout.lines().skip_while(|line| !line.starts_with("forecast")).collect();
    told(&format!("f3:\n{}", rows.join("\n")));
    let words: Vec<&str> = rows[1].split("  ").filter(|word| !word.is_empty()).map(str::trim).collect();
    let jobs: u32 = words[1].parse().expect("a number");
    // The page's: all starts within 5 s.
    let off = |at: usize| words[at].strip_suffix(" s").expect("seconds").parse::<f64>().expect("a number");
    assert!(words[0] == "fifo" && jobs > 40 && off(2) <= 3.0 && off(3) <= 5.0, "{}", rows[1]);
}

/// Two nodes; a job runs, and one waits for it.
fn before_and_after() -> [Value; 2] {
    let node = |name: &str| json!({"name": name, "kind": "A100-SXM4-80GB", "gpus": 2, "state": "up"});
    let runs = |id: &str, since: i32, node: &str| {
        json!({"id": id, "state": "running", "gpus": 2, "submitted_s": since, "started_s": since, "held_s": -since, "limit_s": 3600,
            "on": [{"node": node, "count": 2}]})
    };
    let waits = |id: &str, since: i32, gpus: u32| json!({"id": id, "state": "waiting", "gpus": gpus, "submitted_s": since, "limit_s": 600, "nodes": {"gpus_each": gpus}});
    let nodes = [node("a"), node("b")];
    let before = document(&nodes, &[runs("r", -60, "a"), runs("q", -60, "b"), waits("w", -9, 2), waits("x", -8, 1)]);
    let mut after = document(&nodes, &[runs("r", -120, "a"), runs("w", -20, "b"), waits("x", -68, 1)]);
    after["at"] = "2026-11-20T01:06:32Z".into();
    [before, after]
}

fn folder_of(documents: &[Value]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("polls")).expect("made");
    for (at, document) in documents.iter().enumerate() {
        std::fs::write(folder.path().join(format!("polls/{at}.json")), document.to_string()).expect("written");
    }
    folder
}

#[test]
fn a_report_says_what_was_started_and_what_would_have_been() {
    let folder = folder_of(&before_and_after());
    let row = |policy: &str| -> Value {
        let ran = report(folder.path(), &["--policy", policy, "--format", "json"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
        serde_json::from_str(&ran.stdout).expect("JSON")
    };
    // `q` was gone when `w` began: no job else.
    let fifo = row("fifo");
    assert_eq!((&fifo["real"], &fifo["would"], &fifo["same_nodes"]), (&json!(["w"]), &json!(["w"]), &json!(1)));
    // By the least work the small job starts first, and the gang finds no place.
    let other = row("fifo,backfill=skip");
    assert_eq!((&other["real"], &other["would"]), (&json!(["w"]), &json!(["w"])));
    assert_eq!((&fifo["from"], &fifo["to"]), (&json!("2026-11-20T01:05:32Z"), &json!("2026-11-20T01:06:32Z")));
}

#[test]
fn what_can_not_be_compared_is_said() {
    let [before, after] = before_and_after();
    // Too far apart.
    let folder = folder_of(&[before.clone(), after.clone()]);
    let ran = report(folder.path(), &["--gap", "30s"]);
    assert!(ran.code == 2 && ran.stderr.contains("no two documents at most 30.0 s apart, of 2"), "{}", ran.stderr);
    // A document that contradicts itself stops nothing, and neither does a file that is none.
    let (mut broken, mut last) = (after.clone(), after);
    broken["jobs"][0]["on"][0]["node"] = "nowhere".into();
    last["at"] = "2026-11-20T01:07:32Z".into();
    let folder = folder_of(&[before, broken, last]);
    std::fs::write(folder.path().join("polls/other.json"), "{\"a\": 1}").expect("written");
    let ran = report(folder.path(), &["--policy", "fifo"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("2 of them could not be compared"), "{}", ran.stdout);
    assert!(ran.stderr.contains("no node \"nowhere\""), "{}", ran.stderr);
    // A policy that does not begin is an error before anything runs.
    let ran = report(folder.path(), &["--policy", "fifo,backfill=never"]);
    assert!(ran.code == 2 && ran.stderr.contains("does not begin"), "{}", ran.stderr);
    let ran = sandtable(folder.path(), &["shadow", "slurm", "-o", "x", "--every", "10ms"]);
    assert!(ran.code == 2 && ran.stderr.contains("expected at least 1s"), "{}", ran.stderr);
    let mut without = crate::help::command(folder.path(), &["shadow", "slurm", "-o", "x"]);
    let ran = crate::help::ran(without.env("PATH", "/nonexistent"));
    assert!(ran.code == 5 && ran.stderr.contains("`scontrol` can't be run"), "{}", ran.stderr);
}
