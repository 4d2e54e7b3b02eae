//! What would become of a queue: forecasts against what a real Slurm then did, and changes by hand.

mod asked;
mod changes;
mod conditions;
mod fair_share;
mod hosts;
mod parts;
mod qos;
mod tiers;

use std::path::Path;

use sandtable_needs::needs;
use serde_json::{Value, json};

use crate::help::{dist, sandtable, told};
use crate::states::{captured, document, real};
use asked::{folder_with, golden, off, rows, what_if};

#[needs("data:cluster-state")]
#[test]
fn a_forecast_that_knows_of_a_drain_is_nearer_to_what_a_real_slurm_did() {
    // Thirty jobs under `sched/builtin`; n3 was drained when this was captured. The bound is the page's.
    let (real, at) = (real("f4"), 20.3);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("now.json"), captured(&real, at).to_string()).expect("written");
    let found = rows(folder.path(), &["--policy", "fifo", "--drain", "n3"]);
    let mut worst = [0.0f64; 2];
    let mut waiting = 0;
    for job in real.iter().filter(|job| job.submit <= at && job.start > at) {
        waiting += 1;
        for (side, worst) in worst.iter_mut().enumerate() {
            let start = &found[&(job.id.clone(), "fifo".into(), side == 1)]["start_p50_s"];
            *worst = worst.max((start.as_f64().expect("it starts") - (job.start - at)).abs());
        }
    }
    told(&format!(
        "f4 at {at} s: {waiting} jobs waited, starts at most {:.1} s off, {:.1} s without the drain",
        worst[1], worst[0]
    ));
    assert!(waiting >= 15 && worst[1] <= 14.0 && worst[1] < worst[0]);
}

#[needs("data:cluster-state")]
#[test]
fn a_forecast_is_compared_with_what_happened() {
    // What accounting would have said of a real run: whole seconds.
    let (real, at) = (real("f1"), 75.0);
    let state = captured(&real, at);
    let folder = folder_of(&state);
    let now: jiff::Timestamp = state["at"].as_str().expect("a time").parse().expect("a time");
    let mut log = String::from("JobID|Submit|Start|End|State|Timelimit|ReqTRES|AllocTRES\n");
    let time = |of: f64| {
        let at = now + jiff::SignedDuration::from_millis(((of - at) * 1000.0) as i64);
        at.strftime("%Y-%m-%dT%H:%M:%S").to_string()
    };
    for job in &real {
        let gpus = job.nodes * job.each;
        let (submit, start, end) = (time(job.submit), time(job.start), time(job.end));
        log.push_str(&format!(
            "{}|{submit}|{start}|{end}|COMPLETED|00:05:00|gres/gpu={gpus}|gres/gpu={gpus}\n",
            job.id
        ));
    }
    std::fs::write(folder.path().join("log.txt"), log).expect("written");
    let asked = ["--policy", "fifo", "--run-times", "known=log.txt", "--recorded", "log.txt"];
    let said = what_if(folder.path(), &asked);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let accuracy: Vec<&str> = said.stdout.lines().rev().take(2).collect();
    assert!(accuracy[1].starts_with("forecast  jobs  P50 off: median  90th percentile"), "{}", said.stdout);
    assert!(accuracy[0].starts_with("fifo        16 "), "{}", said.stdout);
    for row in rows(folder.path(), &asked).values() {
        let (forecast, real) =
            (row["start_p50_s"].as_f64().expect("a time"), row["recorded_start_s"].as_f64().expect("a time"));
        assert!((forecast - real).abs() <= 2.0, "{row}");
    }
    // A later document knows of those that run then.
    let mut later = captured(&real, 100.0);
    later["at"] = (now + jiff::SignedDuration::from_secs(25)).to_string().into();
    std::fs::write(folder.path().join("later.json"), later.to_string()).expect("written");
    let found = rows(folder.path(), &["--policy", "fifo", "--recorded", "later.json"]);
    let known = found.values().filter(|row| !row["recorded_start_s"].is_null()).count();
    assert!(known > 0 && known < found.len(), "{known} of {}", found.len());
    // Of the others it is not known when they start, and the row is not of them.
    let said = what_if(folder.path(), &["--policy", "fifo", "--recorded", "later.json"]).stdout;
    let row = said.lines().find(|line| line.starts_with("what happened")).expect("a row");
    let jobs = row.split_whitespace().nth(2).and_then(|count| count.parse::<usize>().ok());
    assert_eq!(jobs, Some(known), "{said}");
    let earlier = what_if(folder.path(), &["--policy", "fifo", "--recorded", "now.json"]);
    assert!(earlier.code == 2 && earlier.stderr.contains("expected a document later"), "{}", earlier.stderr);
    std::fs::write(folder.path().join("bare.csv"), "submit_s,gpus,duration_s\n0,1,30\n").expect("written");
    let bare = what_if(folder.path(), &["--policy", "fifo", "--recorded", "bare.csv"]);
    assert!(bare.code == 2 && bare.stderr.contains("its times have no date"), "{}", bare.stderr);
}

/// Two nodes of four GPUs; three running and four waiting jobs.
fn cluster() -> Value {
    let node = |name: &str| json!({"name": name, "kind": "A100-SXM4-80GB", "gpus": 4, "state": "up"});
    let runs = |id: &str, user: &str, node: &str, count: u32, age: u32| {
        json!({"id": id, "user": user, "state": "running", "gpus": count, "submitted_s": -(f64::from(age)), "limit_s": 7200,
            "started_s": -(f64::from(age)), "held_s": age, "on": [{"node": node, "count": count}]})
    };
    let waits = |id: &str, user: &str, gpus: u32| {
        json!({"id": id, "user": user, "state": "waiting", "gpus": gpus, "submitted_s": -60, "limit_s": 3600,
            "nodes": {"gpus_each": gpus}})
    };
    document(
        &[node("a"), node("b")],
        &[
            runs("r1", "ada", "a", 3, 600),
            runs("r2", "bob", "b", 2, 1800),
            waits("w1", "ada", 4),
            waits("w2", "bob", 1),
            waits("w3", "bob", 2),
        ],
    )
}

fn folder_of(state: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("now.json"), state.to_string()).expect("written");
    folder
}

#[test]
fn draws_are_the_same_under_every_policy_and_every_change() {
    let folder = folder_of(&cluster());
    let policies = ["--policy", "fifo", "--policy", "fifo,backfill=easy", "--run-times", "noisy=0.5", "--seeds", "9"];
    let found = rows(
        folder.path(),
        &[&policies[..], &["--job", "r1", "--job", "r2", "--job", "w1", "--add-nodes", "1x4"]].concat(),
    );
    assert_eq!(found.len(), 12);
    // What runs ends when it ends.
    for job in ["r1", "r2"] {
        let ends: Vec<&Value> =
            found.iter().filter(|((name, ..), _)| name == job).map(|(_, row)| &row["end_p50_s"]).collect();
        assert!(ends.len() == 4 && ends.iter().all(|end| *end == ends[0]), "{job}: {ends:?}");
    }
    // A job takes as long wherever it starts: with a node more at once, without it later.
    let of = |policy: &str, changed: bool, key: &str| {
        found[&("w1".into(), policy.into(), changed)][key].as_f64().expect("a time")
    };
    assert_eq!(of("fifo", true, "start_p90_s"), 0.0);
    assert!(of("fifo", false, "start_p10_s") > 0.0);
    assert_eq!(of("fifo", true, "end_p90_s"), of("fifo backfill=easy", true, "end_p90_s"));
    // Threads change nothing.
    for threads in ["1", "2"] {
        let dist = dist();
        let asked = ["what-if", "now.json", "--policies", &dist, "--store", &format!("store-{threads}"), "-j", threads];
        let ran = sandtable(folder.path(), &[&asked[..], &policies[..]].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        std::fs::write(folder.path().join(threads), ran.stdout).expect("written");
    }
    let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("written");
    assert_eq!(text("1"), text("2"));
}

#[test]
fn every_change_does_what_it_says() {
    let folder = folder_of(&cluster());
    let start = |job: &str, more: &[&str]| {
        let found = rows(folder.path(), &[&["--policy", "fifo"], more].concat());
        found.get(&(job.to_string(), "fifo".into(), true)).map(|row| row["start_p50_s"].as_f64())
    };
    // As it is w1 starts when r2 ends, after 5,400 s.
    let plain = rows(folder.path(), &["--policy", "fifo"]);
    let of = |job: &str| &plain[&(job.to_string(), "fifo".into(), false)];
    assert_eq!(of("w1")["start_p50_s"], 5400.0);
    assert_eq!(
        (of("w1")["why"].as_str(), of("w1")["why_text"].as_str()),
        (Some("no-free-gpus"), Some("3 of 4 GPUs free"))
    );
    assert_eq!((&of("w1")["after"], of("w2")["why"].as_str()), (&json!(["r2"]), Some("behind")));
    assert_eq!(of("w2")["waited_s"], 60.0);
    assert_eq!(start("w1", &["--add-nodes", "1x4"]), Some(Some(0.0)));
    assert_eq!(start("w1", &["--kill", "r2"]), Some(Some(0.0)));
    // Without the first of the queue the others have room.
    assert_eq!(start("w2", &["--hold", "w1"]), Some(Some(0.0)));
    assert_eq!(start("w1", &["--hold", "w1"]), None);
    // b is closed when r2 ends: w1 waits for a. From half past on it takes jobs again.
    assert_eq!(start("w1", &["--drain", "b@1h"]), Some(Some(6600.0)));
    assert_eq!(start("w1", &["--drain", "b@+1h..+95min"]), Some(Some(5700.0)));
    // r2 goes on although its node is closed from now on.
    assert_eq!(start("w1", &["--drain", "b"]), Some(Some(6600.0)));
    let closed = rows(folder.path(), &["--policy", "fifo", "--drain", "b@10min", "--job", "r2"]);
    assert_eq!(closed[&("r2".into(), "fifo".into(), true)]["end_p50_s"], 5400.0);
    // A job more comes last, or at its time.
    assert_eq!(start("mine", &["--add", "name=mine,gpus=1,limit=1h", "--hold", "w1"]), Some(Some(3600.0)));
    assert_eq!(start("mine", &["--add", "name=mine,gpus=1,limit=1h,at=2h,user=eve"]), Some(Some(7200.0)));
    let found = rows(folder.path(), &["--policy", "priority", "--priority", "w3=7", "--priority", "w2=5"]);
    assert_eq!(found[&("w3".into(), "priority".into(), true)]["start_p50_s"], 0.0);
}

/// The table of policies below the jobs: of each its words between two blanks or more.
fn summary(folder: &Path, more: &[&str]) -> Vec<Vec<String>> {
    let said = what_if(folder, more);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let from = said.stdout.lines().skip_while(|line| !line.starts_with("policy "));
    let words =
        |line: &str| line.split("  ").map(str::trim).filter(|word| !word.is_empty()).map(str::to_string).collect();
    from.map(words).collect()
}

#[test]
fn a_change_is_judged_by_the_jobs_that_are_on_both_sides() {
    let folder = folder_of(&cluster());
    // The last of the queue is held, which changes nothing for those before it.
    let held =
        summary(folder.path(), &["--policy", "fifo", "--run-times", "noisy=0.5", "--seeds", "9", "--hold", "w3"]);
    assert_eq!((held[0][3].as_str(), held[0][4].as_str()), ("mean wait", "by the change"));
    assert_eq!((held[2][1].as_str(), held[2][4].as_str()), ("2", "0.00 ± 0.00 s"), "{held:?}");
    // A job that never starts is counted, and in no mean.
    let closed = summary(folder.path(), &["--policy", "fifo,backfill=skip", "--drain", "a", "--drain", "b@2h"]);
    assert_eq!(closed[2][2], "1", "{closed:?}");
}

#[test]
fn a_drain_is_the_same_however_it_is_said() {
    let mut state = cluster();
    // A gang on both nodes.
    let on = json!([{"node": "a", "count": 1}, {"node": "b", "count": 1}]);
    let gang = json!({"id": "gang", "state": "running", "gpus": 2, "submitted_s": -700, "started_s": -650, "held_s": 650,
        "limit_s": 1000, "on": on});
    state["jobs"].as_array_mut().expect("jobs").push(gang);
    let folder = folder_of(&state);
    let forecast = |drain: &str| {
        let found = rows(
            folder.path(),
            &["--policy", "fifo", "--policy", "srtf", "--drain", drain, "--job", "gang", "--job", "w1", "--job", "w2"],
        );
        let of = |((job, policy, changed), row): (&(String, String, bool), &Value)| {
            (
                job.clone(),
                policy.clone(),
                *changed,
                row["start_p50_s"].clone(),
                row["end_p50_s"].clone(),
                row["gpus"].clone(),
            )
        };
        found.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(forecast("a"), forecast("a@0s..9d"));
}

#[test]
fn changes_move_neither_the_clock_nor_the_priorities_of_other_jobs() {
    let mut state = cluster();
    state["jobs"][4]["priority"] = json!(-5);
    // Submitted two hours before the others, and held: no job of the model, but the oldest.
    let old = json!({"id": "old", "state": "held", "gpus": 1, "submitted_s": -7300, "limit_s": 60});
    state["jobs"].as_array_mut().expect("jobs").push(old);
    let folder = folder_of(&state);
    let forecast = |more: &[&str], changed: bool| {
        let found = rows(folder.path(), more);
        let jobs =
            ["w1", "w2", "w3"].map(|job| found.iter().find(|((name, _, side), _)| name == job && *side == changed));
        jobs.map(|job| job.expect("it").1["start_p50_s"].clone())
    };
    let ticks = ["--policy", "slurm-backfill,tick=7001", "--kill", "old"];
    assert_eq!(forecast(&ticks, true), forecast(&ticks, false));
    let ranks = ["--policy", "priority", "--priority", "old=0.5"];
    assert_eq!(forecast(&ranks, true), forecast(&ranks, false));
}

#[test]
fn jobs_of_odd_names_keep_what_they_hold() {
    let mut state = cluster();
    state["jobs"][1]["id"] = "r\n2".into();
    state["jobs"][1]["user"] = "b\u{1b}[1mob\nx".into();
    let folder = folder_of(&state);
    let found = rows(folder.path(), &["--policy", "fifo"]);
    assert!(found.keys().all(|(job, ..)| job.starts_with('w')), "{:?}", found.keys());
    assert_eq!(found[&("w1".into(), "fifo".into(), false)]["start_p50_s"], 5400.0);
}

#[test]
fn reasons_are_of_the_kinds_and_nodes_that_a_job_may_have() {
    let mut state = cluster();
    let node = json!({"name": "c", "kind": "H100-SXM5-80GB", "gpus": 8, "state": "up"});
    state["nodes"].as_array_mut().expect("nodes").push(node);
    let job = |id: &str, gpus: u32, kinds: &[&str]| json!({"id": id, "state": "waiting", "gpus": gpus, "submitted_s": -5, "limit_s": 60, "kinds": kinds});
    let more = [
        job("a8", 8, &["A100-SXM4-80GB"]),
        job("any10", 10, &[]),
        job("h9", 9, &["H100-SXM5-80GB"]),
        json!({"id": "later", "state": "not-before", "not_before_s": 7200, "submitted_s": -5, "gpus": 1, "limit_s": 60}),
    ];
    state["jobs"].as_array_mut().expect("jobs").extend(more);
    let folder = folder_of(&state);
    let found =
        rows(folder.path(), &["--policy", "slurm-backfill", "--policy", "fifo,backfill=skip", "--drain", "c@0s..1h"]);
    let of = |job: &str, changed: bool| &found[&(job.to_string(), "slurm-backfill".to_string(), changed)];
    let why = |job: &str| {
        (of(job, false)["why"].as_str().expect("a code"), of(job, false)["why_text"].as_str().expect("words"))
    };
    assert_eq!(why("a8"), ("no-free-gpus", "3 of 8 GPUs free"));
    assert_eq!(of("a8", false)["after"], json!(["r2", "r1"]));
    // A gang is on one kind, and no kind has so many.
    assert_eq!(why("any10").0, "never");
    assert_eq!(why("h9"), ("never", "9 GPUs as it asks for them are not there"));
    assert_eq!(why("later").0, "not-before");
    // w1 may be on the third node, which when it is closed opens before any job ends.
    assert_eq!((why("w1"), of("w1", true)["why"].as_str()), (("none", "has room"), Some("reservation")));
    // Eight GPUs of its kind are two nodes of four, although another kind has nodes of eight.
    assert!(of("a8", false)["start_p50_s"].as_f64().is_some_and(|start| start >= 6600.0), "{}", of("a8", false));
}

#[test]
fn the_printed_spec_is_what_is_run() {
    let folder = folder_of(&cluster());
    let asked = ["--run-times", "noisy=0.5", "--seeds", "3", "--drain", "b@1h", "--add", "name=mine,gpus=2,limit=1h"];
    assert_eq!(what_if(folder.path(), &asked).code, 0);
    let spec = what_if(folder.path(), &[&asked[..], &["--print-spec"]].concat());
    std::fs::write(folder.path().join("asked.ron"), spec.stdout).expect("written");
    let ran = sandtable(folder.path(), &["run", "asked.ron", "--policies", &dist(), "--store", "store"]);
    assert!(ran.code == 0 && ran.stderr.contains("12 cells, 12 cached"), "{}", ran.stderr);
    let verified = sandtable(folder.path(), &["verify", "asked.ron", "--policies", &dist(), "--store", "store"]);
    assert_eq!(verified.code, 0, "{}", verified.stderr);
}

#[test]
fn run_times_come_from_ended_jobs() {
    let folder = folder_of(&cluster());
    // Ada's jobs of three GPUs took an hour or more, Bob's of two 40 min; others are not like them.
    let mut log = String::from("JobID|JobName|User|Submit|Start|End|State|Timelimit|ReqTRES|AllocTRES\n");
    for (user, gpus, minutes) in [("ada", 3, 60), ("bob", 2, 40)] {
        for more in 0..6u32 {
            let end = minutes + more;
            log.push_str(&format!(
                "{user}{more}|x|{user}|2026-11-18T00:00:00|2026-11-18T00:00:00|2026-11-18T{:02}:{:02}:00|COMPLETED|04:00:00|gres/gpu={gpus}|gres/gpu={gpus}\n",
                end / 60, end % 60,
            ));
        }
    }
    // One that ended after the cluster's instant is not known yet.
    log.push_str("late|x|bob|2026-11-18T00:00:00|2026-11-18T00:00:00|2026-11-25T00:00:00|COMPLETED|04:00:00|gres/gpu=2|gres/gpu=2\n");
    std::fs::write(folder.path().join("log.txt"), log).expect("written");
    let asked = ["--policy", "fifo", "--run-times", "history=log.txt", "--job", "r1", "--job", "r2"];
    let found = rows(folder.path(), &asked);
    let ends = |job: &str| {
        let row = &found[&(job.to_string(), "fifo".into(), false)];
        ["end_p10_s", "end_p50_s", "end_p90_s"].map(|key| row[key].as_f64().expect("a time") / 60.0)
    };
    // r1 has run for 10 min, r2 for 30.
    assert_eq!((ends("r1")[0], ends("r1")[2]), (50.0, 55.0));
    assert_eq!((ends("r2")[0], ends("r2")[2]), (10.0, 15.0));
    let said = what_if(folder.path(), &asked);
    let words = "run times: history of 12 jobs (by user and GPUs 3, all 2; too few to say how good it is)";
    assert!(said.stdout.contains(words), "{}", said.stdout);
    // Known by name: what is not named takes its limit.
    std::fs::write(folder.path().join("known.csv"), "job_id,submit_s,gpus,duration_s\nr2,0,2,2400\n").expect("written");
    let found =
        rows(folder.path(), &["--policy", "fifo", "--run-times", "known=known.csv", "--job", "r1", "--job", "r2"]);
    assert_eq!(found[&("r2".into(), "fifo".into(), false)]["end_p50_s"], 600.0);
    assert_eq!(found[&("r1".into(), "fifo".into(), false)]["end_p50_s"], 6600.0);
}

#[test]
fn conditions_fail_the_command_and_mistakes_are_named() {
    let folder = folder_of(&cluster());
    let asked = |more: &[&str]| what_if(folder.path(), &[&["--policy", "fifo"], more].concat());
    assert_eq!(asked(&["--check", "p90(wait) <= 2h"]).code, 0);
    let failed = asked(&["--check", "p50(start) < 1h", "--check", "p90(end) <= 9d"]);
    assert_eq!(failed.code, 1);
    assert!(
        failed.stderr.contains("error: p50(start) < 1h does not hold under fifo: w1 (90.0 min), w2 (90.0 min), w3"),
        "{}",
        failed.stderr
    );
    let cases: [(&[&str], &str); 14] = [
        (&["--job", "w11"], "--job: no job \"w11\" waits or runs"),
        (&["--kill", "r3"], "no job \"r3\": did you mean \"r"),
        (&["--drain", "c"], "no node \"c\""),
        (&["--drain", "a@soon"], "--drain: \"a@soon\": expected a time"),
        (&["--drain", "a@2h..1h"], "expected an end of the drain after its beginning"),
        (&["--hold", "r1"], "job \"r1\" does not wait"),
        (&["--add", "name=w1,gpus=1,limit=1h"], "jobs: two are called \"w1\""),
        (&["--add", "gpus=1,size=3"], "--add: expected KEY=VALUE, found \"size=3\""),
        (&["--add-nodes", "4"], "--add-nodes: expected NxGPUS"),
        (&["--run-times", "history"], "--run-times: expected a model of run times, found \"history\""),
        (&["--run-times", "history=none.csv"], "none.csv"),
        (&["--check", "wait < 2h"], "expected a condition such as"),
        (&["--priority", "w1=inf"], "job \"w1\": expected a number as its priority, found inf"),
        (&["--add", "gpus=6,gpus_per_node=4,limit=1h"], "a divisor of its GPUs on each node"),
    ];
    for (more, expected) in cases {
        let ran = asked(more);
        assert!(ran.code == 2 && ran.stderr.contains(expected), "{more:?}: expected {expected}, found {}", ran.stderr);
    }
    // Without a limit, and not named.
    let mut state = cluster();
    state["jobs"][2]["limit_s"] = Value::Null;
    std::fs::write(folder.path().join("now.json"), state.to_string()).expect("written");
    std::fs::write(folder.path().join("known.csv"), "job_id,submit_s,gpus,duration_s\nr2,0,2,2400\n").expect("written");
    let silent = asked(&["--run-times", "known=known.csv"]);
    assert!(silent.code == 2 && silent.stderr.contains("job \"w1\" has no time limit"), "{}", silent.stderr);
    assert_eq!(asked(&["--run-times", "known=known.csv", "--otherwise", "1h"]).code, 0);
    let gone = sandtable(folder.path(), &["what-if", "none.json"]);
    assert!(gone.code == 2 && gone.stderr.contains("none.json"), "{}", gone.stderr);
}

#[test]
fn a_page_has_each_waiting_job_and_each_node_and_runs_nothing() {
    let mut state = cluster();
    state["unknown"] = json!([{"what": "jobs.checkpoint", "why": "<b>nothing</b> is told"}]);
    state["jobs"][2]["name"] = "x".into();
    state["jobs"][2]["user"] = "<script>alert(1)</script>".into();
    state["jobs"][3]["planned_s"] = 60.into();
    let folder = folder_of(&state);
    let asked = ["--policy", "fifo", "--policy", "srtf", "--run-times", "noisy=0.5", "--seeds", "5", "--drain", "b"];
    let ran = what_if(folder.path(), &[&asked[..], &["-o", "page.html"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("wrote page.html"), "{}", ran.stderr);
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("a page");
    // What strangers call things is text, and nothing is fetched or run.
    assert!(!page.contains("<script") && !page.contains("<b>") && !page.contains("://"), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
    // A row a waiting job and a row a node, each with its drawing; two policies, each as it is and changed.
    let rows = page.matches("<td class=\"board\"><svg").count();
    assert_eq!(rows, 3 + 2, "{page}");
    let of_w2 = page.lines().find(|line| line.contains("scope=\"row\">w2</th>")).expect("its row");
    assert_eq!((of_w2.matches("<rect").count(), of_w2.matches("class=\"own\"").count()), (4, 1), "{of_w2}");
    for text in [
        "fifo, as it is",
        "srtf, changed",
        "r1 ",
        "1 of 4",
        "unknown: jobs.checkpoint",
        "log-normal around 1 of the limit",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    // The same question has the same page.
    let again = what_if(folder.path(), &[&asked[..], &["-o", "again.html"]].concat());
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(page, std::fs::read_to_string(folder.path().join("again.html")).expect("a page"));
    let ran = what_if(folder.path(), &["-o", "nowhere/page.html"]);
    assert!(ran.code == 2 && ran.stderr.contains("nowhere"), "{}", ran.stderr);
}

#[test]
fn what_comes_after_the_end_of_the_runs_is_not_known() {
    let folder = folder_of(&cluster());
    let said = |more: &[&str]| what_if(folder.path(), &[&["--policy", "fifo", "--until", "80min"], more].concat());
    // w1 starts after 5,400 s; the runs end before.
    let ran = said(&[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("the runs end after 80.0 min") && ran.stdout.contains("after 80.0 min"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains("never") && !ran.stderr.contains("unfinished"), "{}{}", ran.stdout, ran.stderr);
    for check in ["p90(start) <= 5h", "p90(start) > 1h"] {
        let ran = said(&["--job", "w1", "--check", check]);
        assert!(ran.code == 1 && ran.stderr.contains("w1 (after 80.0 min)"), "{check}: {}", ran.stderr);
    }
    let found = rows(folder.path(), &["--policy", "fifo", "--until", "80min"]);
    let row = &found[&("w1".to_string(), "fifo".to_string(), false)];
    assert_eq!((&row["until_s"], &row["start_p50_s"]), (&json!(4800.0), &Value::Null));
}
