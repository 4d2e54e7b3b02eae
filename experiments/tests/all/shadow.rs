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

#[test]
fn every_start_is_counted_however_it_came_about() {
    let [before, after] = before_and_after();
    let running = |id: &str, since: i32, node: &str| json!({"id": id, "state": "running", "gpus": 2, "submitted_s": -100, "started_s": since, "limit_s": 3600, "on": [{"node": node, "count": 2}]});
    let other = |id: &str, of: Value| {
        let mut job = json!({"id": id, "gpus": 2, "submitted_s": -9, "limit_s": 600});
        of.as_object().expect("fields").iter().for_each(|(key, value)| job[key] = value.clone());
        job
    };
    // What runs or waits before, what does after; which starts are seen, and of how many jobs that the model has not.
    let cases: [(&str, Value, Value, &[&str], u32); 8] = [
        ("held", json!([other("d", json!({"state": "held"}))]), json!([running("d", -20, "a")]), &["d"], 0),
        ("dependent", json!([other("d", json!({"state": "dependent"}))]), json!([running("d", -20, "a")]), &["d"], 0),
        (
            "listed before it began",
            json!([other("w", json!({"state": "waiting"}))]),
            json!([running("w", -61, "a")]),
            &["w"],
            0,
        ),
        ("came before the listing", json!([]), json!([running("x", -61, "a")]), &["x"], 0),
        ("begun once more", json!([running("r", -30, "a")]), json!([running("r", -20, "b")]), &["r (again)"], 0),
        (
            "another queue",
            json!([]),
            json!([other(
                "q",
                json!({"state": "running", "started_s": -5, "queues": ["new"],
            "on": [{"node": "a", "count": 2}]})
            )]),
            &["q"],
            0,
        ),
        (
            "never",
            json!([other("n", json!({"state": "waiting", "why": {"code": "never"}}))]),
            json!([running("n", -20, "a")]),
            &[],
            1,
        ),
        ("cancelled", json!([other("c", json!({"state": "waiting"}))]), json!([]), &[], 0),
    ];
    for (case, jobs, later, real, not_modelled) in cases {
        let (mut before, mut after) = (before.clone(), after.clone());
        (before["jobs"], after["jobs"]) = (jobs, later);
        after["queues"] = json!([{"name": "new", "kind": "qos"}]);
        // That another waits or not must not matter.
        for waits in [false, true] {
            let (mut before, mut after) = (before.clone(), after.clone());
            if waits {
                for document in [&mut before, &mut after] {
                    let big = json!({"id": "z", "state": "waiting", "gpus": 4, "submitted_s": 0, "limit_s": 600, "nodes": {"gpus_each": 4}});
                    document["jobs"].as_array_mut().expect("jobs").push(big);
                }
            }
            let folder = folder_of(&[before, after]);
            let ran = report(folder.path(), &["--policy", "fifo", "--format", "json"]);
            assert_eq!(ran.code, 0, "{case}: {}", ran.stderr);
            let row: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{case}: {}", ran.stderr));
            assert_eq!(
                (&row["real"], &row["not_modelled"]),
                (&json!(real), &json!(not_modelled)),
                "{case}, {waits}: {row}"
            );
        }
    }
}

#[test]
fn what_came_next_came_in_the_next_interval() {
    // A job that fits waits, and starts half an hour later.
    let [mut first, _] = before_and_after();
    first["jobs"] = json!([{"id": "w", "state": "waiting", "gpus": 2, "submitted_s": -9, "limit_s": 600}]);
    let at = |document: &Value, time: &str| {
        let mut document = document.clone();
        document["at"] = format!("2026-11-20T{time}Z").into();
        document
    };
    let mut started = first.clone();
    started["jobs"][0] = json!({"id": "w", "state": "running", "gpus": 2, "submitted_s": -9, "started_s": -1, "on": [{"node": "a", "count": 2}]});
    let next = |documents: &[Value]| {
        let ran = report(folder_of(documents).path(), &["--policy", "fifo"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let rows: Vec<&str> = ran.stdout.lines().skip_while(|line| !line.starts_with("policy")).collect();
        let word = |line: &str, at: usize| {
            line.split("  ").filter(|word| !word.is_empty()).nth(at).expect("a word").trim().to_string()
        };
        assert_eq!((word(rows[0], 7), word(rows[0], 8)), ("started by it alone".into(), "which came next".into()));
        (word(rows[1], 7), word(rows[1], 8))
    };
    let (one, two) = (at(&first, "01:00:00"), at(&first, "01:01:00"));
    assert_eq!(next(&[one.clone(), two.clone(), at(&started, "01:02:00")]), ("1".into(), "1".into()));
    let (three, four) = (at(&first, "01:40:00"), at(&started, "01:41:00"));
    assert_eq!(next(&[one, two, three, four]), ("1".into(), "0".into()));
}

/// Commands that stand in for Slurm's: at the second look a job is on a node that there is not, and at the fourth none answers.
const COMMANDS: &str = r#"#!/bin/bash
cd "$(dirname "$0")"
case "$1 $2" in
"show config")
    echo x >>looks
    looks=$(wc -l <looks)
    [ "$looks" -lt 4 ] || { touch hangs; exec sleep 600; }
    printf 'Configuration data as of 2026-11-20T01:00:%02d\n' "$((looks * 10))" ;;
"show node") echo "NodeName=n0 Gres=gpu:a100:4 State=MIXED CPUTot=8" ;;
"show partition") echo "PartitionName=p State=UP DefaultTime=00:10:00 PriorityTier=1" ;;
"show job")
    node=n0
    [ "$(wc -l <looks)" != 2 ] || node=gone
    echo "JobId=1 JobName=a UserId=u(1) JobState=RUNNING SubmitTime=2026-11-20T00:00:00 StartTime=2026-11-20T00:00:00 RunTime=01:00:00 TimeLimit=02:00:00 Partition=p NumNodes=1 TresPerNode=gres:gpu:1 Nodes=$node CPU_IDs=0 Mem=0 GRES=gpu:a100:1(IDX:0)"
    echo "JobId=2 JobName=b UserId=u(1) JobState=PENDING Reason=Resources SubmitTime=2026-11-20T00:30:00 TimeLimit=00:30:00 Partition=p NumNodes=1 TresPerNode=gres:gpu:4" ;;
esac
"#;

#[test]
fn a_watch_goes_on_when_a_poll_makes_no_sense_and_ends_when_a_command_hangs() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["scontrol", "sdiag"] {
        let path = folder.path().join(name);
        std::fs::write(&path, COMMANDS).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
    }
    let dist = dist();
    let args = ["shadow", "slurm", "-o", "polls", "--every", "1s", "--policies", &dist, "--policy", "fifo"];
    let mut command = crate::help::command(folder.path(), &args);
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    command.env("PATH", path).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("it begins");
    for _ in 0..1200 {
        if folder.path().join("hangs").exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("told");
    let ended = child.wait_with_output().expect("it ended");
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("no node \"gone\"; the next poll is in 2.00 s"), "{stderr}");
    // The first and the third look were compared.
    let row: Vec<&str> = stdout.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!((row[0], row[1]), ("fifo", "1"), "{stdout}{stderr}");
    assert_eq!(sandtable::input::sorted(&folder.path().join("polls")).expect("documents").len(), 2);
}

#[test]
fn what_a_later_document_says_is_not_said_otherwise() {
    let folder = folder_of(&before_and_after());
    let said = |more: &str| {
        let spec = format!(
            "Experiment(title: \"t\", fleet: Model(list: NodeList(file: \"polls/0.json\", format: State), speed: 1.0), \
             workload: State(file: \"polls/0.json\", next: \"polls/1.json\"{more}), policies: [Policy(name: \"fifo\")])"
        );
        std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
        sandtable(folder.path(), &["run", "spec.ron", "--check", "--store", "store", "--policies", &dist()])
    };
    // It ends at the instant of the later document: that jobs are left is as it should be.
    let ran = said("");
    assert!(ran.code == 0 && !ran.stderr.contains("unfinished"), "{}", ran.stderr);
    for (more, why) in [
        (", until: \"1h\"", "a run ends at the instant of that document"),
        (", changes: [Kill(\"w\")]", "the cluster is as it was"),
        (", run_times: Limits(part: 0.5)", "jobs take as long as that document shows"),
    ] {
        let ran = said(more);
        assert!(ran.code == 2 && ran.stderr.contains(why), "{}", ran.stderr);
    }
}
