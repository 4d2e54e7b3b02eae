//! What engines are handed, and what is said where none is there: by stand-ins for their commands, and HyperQueue's own server.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::engine::{SPEC, Sweep};
use crate::help::{Ran, command, dist, root};
use sandtable_needs::needs;

/// The name under which an engine would know what is submitted.
fn name(sweep: &Sweep, more: &[&str]) -> String {
    let ran = sweep.on_spec("submit", &[&["--engine", "slurm", "--print"], more].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.stdout.split("--job-name=").nth(1).expect("a name")[..20].to_string()
}

#[test]
fn what_is_not_the_same_sweep_is_known_by_another_name() {
    let sweep = Sweep::new("names");
    let own = name(&sweep, &[]);
    assert_eq!(own, name(&sweep, &["--shards", "3"]));
    let others = [
        name(&sweep, &["--store", "other"]),
        name(&sweep, &["--only", "mine"]),
        name(&sweep, &["--set", "policies.mine.label=\"yours\""]),
        name(&sweep, &["--set", "workload.jobs=21"]),
    ];
    let gpus = |devices: &str| {
        let text = SPEC.replace(
            "fleet: Model(nodes: 2, gpus: 4, kind: \"T4\", speed: 1.0)",
            &format!("fleet: Nvidia(devices: {devices}, commands: {{\"*\": [\"true\"]}})"),
        );
        std::fs::write(sweep.path("sweep.ron"), text).expect("written");
        name(&sweep, &[])
    };
    let on_gpus = ["Count(1)", "Count(2)", "Only([\"GPU-aa\"])", "Count(1), slots: 2"].map(gpus);
    let all: std::collections::BTreeSet<&String> = [&own].into_iter().chain(&others).chain(&on_gpus).collect();
    assert_eq!(all.len(), 9, "{own} {others:?} {on_gpus:?}");
    // Two labels of the same cells are two rows.
    let twice =
        SPEC.replace("Policy(name: \"./mine.wasm\", label: \"mine\")", "Policy(name: \"fifo\", label: \"twin\")");
    std::fs::write(sweep.path("sweep.ron"), twice).expect("written");
    assert!(sweep.on_spec("run", &[]).stderr.contains("20 cells executed"));
    let rows = sweep.merged("store");
    assert_eq!((rows.matches(",fifo,").count(), rows.matches(",twin,").count()), (20, 20), "{rows}");
}

#[test]
fn what_an_engine_can_not_be_told_is_refused() {
    let sweep = Sweep::new("refused");
    for (argument, hint) in [
        ("--array=0-3", "`--shards`"),
        ("-Jmine", "by its name"),
        ("--wait", "the merge waits"),
        ("--wrap=true", "is ours"),
    ] {
        let ran = sweep.on_spec("submit", &["--engine", "slurm", "--print", "--", argument]);
        assert!(ran.code == 2 && ran.stderr.contains(&format!("`{argument}` is not handed on")), "{}", ran.stderr);
        assert!(ran.stderr.contains(hint), "{}", ran.stderr);
    }
    let ran = sweep.on_spec("submit", &["--engine", "slurm", "--print", "--store", "a\\b"]);
    assert!(
        ran.code == 2 && ran.stderr.contains("without backslashes") && ran.stderr.contains("--store"),
        "{}",
        ran.stderr
    );
}

/// A second array that is refused leaves the first one, and says so; an edit leaves what was submitted before it.
#[test]
fn what_was_taken_is_not_lost_sight_of() {
    let sweep = Sweep::new("sight");
    let sbatch = "n=$(cat count 2>/dev/null || echo 0); echo $((n+1)) >count; test $n -eq 0 && echo 41 || { echo no such gres >&2; exit 1; }";
    let tools = tools(&sweep, &[("squeue", ""), ("scancel", ""), ("sbatch", sbatch)]);
    let spec = "Experiment(title: \"gpus\", fleet: Nvidia(devices: Count(1), commands: {\"*\": [\"true\"]}), \
        workload: Jobs([Job(submit: \"0s\", gpus: 1, duration: \"1s\")]), policies: [Policy(name: \"fifo\")], \
        sweep: {\"fleet.devices\": [Count(1), Count(2)]})";
    std::fs::write(sweep.path("sweep.ron"), spec).expect("written");
    let ran = with_path(&sweep, &tools, "submit", &["--engine", "slurm", "--allow-commands"]);
    assert!(ran.code == 2 && ran.stderr.contains("sbatch ended with 1: no such gres"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("hint: job 41 was taken and is not merged after: `sandtable cancel` ends it"),
        "{}",
        ran.stderr
    );
    let name = name(&sweep, &[]);
    sweep.edit("title: \"gpus\", ", "title: \"gpus\", seeds: Range(0, 2), ");
    let ran = with_path(&sweep, &tools, "cancel", &[]);
    assert!(ran.code == 2 && ran.stderr.contains(&format!("read otherwise it was, as {name}")), "{}", ran.stderr);
    let ran = with_path(&sweep, &tools, "submit", &["--engine", "slurm"]);
    assert!(ran.stderr.contains(&format!("was submitted before as {name}")), "{}", ran.stderr);
}

/// A folder that is all of `PATH`, with these scripts.
fn tools(sweep: &Sweep, scripts: &[(&str, &str)]) -> PathBuf {
    let folder = sweep.path("tools");
    std::fs::create_dir_all(&folder).expect("made");
    for (name, text) in scripts {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\nPATH=/usr/bin:/bin\n{text}\n")).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
    }
    folder
}

fn with_path(sweep: &Sweep, path: &Path, verb: &str, more: &[&str]) -> Ran {
    let dist = dist();
    let mut args = vec![verb, "sweep.ron", "--policies", &dist];
    args.extend(more);
    let output = command(sweep.folder.path(), &args).env("PATH", path).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn a_machine_without_an_engine_says_so_and_does_all_else() {
    let sweep = Sweep::new("none");
    let empty = tools(&sweep, &[]);
    for verb in ["status", "cancel"] {
        with_path(&sweep, &empty, verb, &[]);
    }
    with_path(&sweep, &empty, "submit", &["--engine", "slurm", "--print"]);
    assert!(!sweep.path("store").exists(), "who only asks makes nothing");
    for (engine, tool) in [("slurm", "squeue"), ("hyperqueue", "hq")] {
        let ran = with_path(&sweep, &empty, "submit", &["--engine", engine]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("error: `{tool}` can't be run on this machine")), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("hint: go where the engine is") && ran.stderr.contains("submit --print"),
            "{}",
            ran.stderr
        );
    }
    let ran = with_path(&sweep, &empty, "status", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "a sweep: 40 cells, 0 have results, 40 missing, 0 failed\n"));
    let ran = with_path(&sweep, &empty, "cancel", &[]);
    assert!(
        ran.code == 2 && ran.stderr.contains("sweep.ron, as it is read now, was never submitted"),
        "{}",
        ran.stderr
    );
    assert_eq!(with_path(&sweep, &empty, "run", &[]).code, 0);
    // What needs no engine asks for none.
    let ran = with_path(&sweep, &empty, "submit", &["--engine", "slurm"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("all 40 cells have results"), "{}", ran.stderr);
}

#[test]
fn what_would_be_handed_over_is_printed_without_an_engine() {
    let sweep = Sweep::new("print");
    let empty = tools(&sweep, &[]);
    let mut all = String::new();
    for more in [
        &["--engine", "slurm", "--", "--account=me", "--time=2:00:00", "--comment=two words"][..],
        &["--engine", "slurm", "--store", "my 100% store", "--shards", "3", "--settle", "5s"],
        &["--engine", "slurm", "--shards", "5000", "--only", "fifo", "--sweep", "workload.jobs=20,30"],
        &["--engine", "hyperqueue", "--shards", "4", "--", "--time-limit=10m"],
    ] {
        let mut args = vec!["--print"];
        args.extend(more);
        let ran = with_path(&sweep, &empty, "submit", &args);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        all.push_str(&format!("=== {}\n{}{}\n", more.join(" "), ran.stderr, ran.stdout));
    }
    assert!(
        !sweep.path("store/plans").exists()
            || sandtable::input::sorted(&sweep.path("store/plans")).is_ok_and(|all| all.is_empty())
    );
    let here = sweep.folder.path().canonicalize().expect("a path").display().to_string();
    let all = all.replace(&here, "HERE").replace(env!("CARGO_BIN_EXE_sandtable"), "SANDTABLE");
    insta::with_settings!({filters => vec![(r"\b[0-9a-f]{10}\b", "[digest]")]}, {
        insta::assert_snapshot!(all);
    });
}

/// A stand-in for `hq` that runs every task at once, one after the other: what reaches a task is what is tested.
#[test]
fn hyperqueue_is_handed_tasks_that_run() {
    let sweep = Sweep::new("h q's");
    let script = r#"
        name= array= out= err=
        while [ "$1" != -- ]; do
            case $1 in --name) name=$2;; --array) array=$2;; --stdout) out=$2;; --stderr) err=$2;; esac; shift
        done; shift
        last=${array#0-}
        for i in $(seq 0 $last); do
            log=$(printf %s "$err" | sed "s/%{TASK_ID}/$i/")
            HQ_TASK_ID=$i "$@" >/dev/null 2>"$log" || echo "$name $i failed" >&2
        done
        echo 7"#;
    let tools = tools(&sweep, &[("hq", script)]);
    let ran = with_path(&sweep, &tools, "submit", &["--engine", "hyperqueue", "--shards", "3"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "7\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("40 of 40 cells in 3 shards"), "{}", ran.stderr);
    let here = sweep.merged("store");
    assert_eq!(sweep.on_spec("run", &["--store", "one"]).code, 0);
    assert_eq!(here, sweep.merged("one"));
    let status = sweep.on_spec("status", &[]);
    assert!(status.stderr.contains("HyperQueue is not asked: `hq job list`"), "{}", status.stderr);
    let cancelled = sweep.on_spec("cancel", &[]);
    assert!(cancelled.code == 2 && cancelled.stderr.contains("hq job cancel NUMBER"), "{}", cancelled.stderr);
}

#[test]
fn failures_are_sent_again_when_asked() {
    let sweep = Sweep::new("failed");
    std::fs::write(sweep.path("mine.wasm"), b"\0asm\x01\0\0\0").expect("written");
    assert_eq!(sweep.on_spec("run", &["--shard", "0/2"]).code, 3);
    let planned = |more: &[&str]| sweep.on_spec("submit", &[&["--engine", "slurm", "--print"], more].concat()).stderr;
    assert!(
        planned(&[]).contains("10 cells failed before and are not sent again (`--retry-failed`)\na sweep: 20 of 40")
    );
    assert!(planned(&["--retry-failed"]).starts_with("a sweep: 30 of 40 cells"));
    let tools = tools(&sweep, &[("squeue", ""), ("sbatch", "echo no such partition >&2; exit 1")]);
    let counts = || sweep.on_spec("status", &[]).stdout;
    // Printed, or refused, is not done: the records of failures are there until a shard runs.
    assert_eq!(with_path(&sweep, &tools, "submit", &["--engine", "slurm", "--retry-failed"]).code, 2);
    assert!(counts().contains("10 have results, 20 missing, 10 failed"));
    let tools = self::tools(&sweep, &[("sbatch", "echo 1")]);
    assert_eq!(with_path(&sweep, &tools, "submit", &["--engine", "slurm", "--retry-failed"]).code, 0);
    let page = sandtable::input::sorted(&sweep.path("store/plans")).expect("plans").remove(0);
    let plan = sandtable::input::sorted(&page)
        .expect("a page")
        .into_iter()
        .find(|path| path.extension().is_some_and(|e| e == "jsonl"));
    let ran = sweep.run(&["run", "--plan", &plan.expect("a plan").display().to_string()]);
    assert!(ran.code == 3 && ran.stderr.contains("30 cells executed"), "{}", ran.stderr);
    assert!(counts().contains("20 have results, 0 missing, 20 failed"));
    let ran = sweep.on_spec("submit", &["--engine", "slurm", "--print"]);
    assert!(ran.stderr.contains("all 40 cells have results or failed"), "{}", ran.stderr);
}

/// What engines print is not believed.
#[test]
fn an_engine_that_prints_something_else_is_an_error() {
    let sweep = Sweep::new("odd");
    let tools = tools(
        &sweep,
        &[("squeue", ""), ("sbatch", "echo Submitted batch job 7"), ("scancel", "echo no right >&2; exit 3")],
    );
    let ran = with_path(&sweep, &tools, "submit", &["--engine", "slurm"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("expected to print a job's number, printed \"Submitted batch job 7\""),
        "{}",
        ran.stderr
    );
    let tools = self::tools(&sweep, &[("sbatch", "echo '12;site'")]);
    let ran = with_path(&sweep, &tools, "submit", &["--engine", "slurm"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "12\n"), "{}", ran.stderr);
    let ran = with_path(&sweep, &tools, "cancel", &[]);
    assert!(ran.code == 2 && ran.stderr.contains("scancel ended with 3: no right"), "{}", ran.stderr);
    let tools = self::tools(&sweep, &[("squeue", "echo RUNNING; echo PENDING")]);
    let ran = with_path(&sweep, &tools, "submit", &["--engine", "slurm"]);
    assert!(ran.code == 2 && ran.stderr.contains("is there already: 2 of its shards run or wait"), "{}", ran.stderr);
    assert_eq!(with_path(&sweep, &tools, "submit", &["--engine", "slurm", "--again"]).code, 0);
    let status = with_path(&sweep, &tools, "status", &[]);
    assert!(status.stdout.contains("1 shards run, 1 wait"), "{}", status.stdout);
    let tools = self::tools(&sweep, &[("squeue", "echo cannot connect >&2; exit 1")]);
    let status = with_path(&sweep, &tools, "status", &[]);
    assert_eq!(status.code, 0);
    assert!(
        status.stderr.contains("the engine does not answer: squeue ended with 1: cannot connect"),
        "{}",
        status.stderr
    );
    assert!(status.stdout.contains("40 missing"), "{}", status.stdout);
}

/// The real server and workers of HyperQueue, by its Python package where that is.
#[needs("python:hyperqueue")]
#[test]
fn hyperqueue_itself_runs_shards() {
    let sweep = Sweep::new("hq");
    assert_eq!(sweep.on_spec("plan", &["-o", "p.jsonl"]).code, 0);
    let script = root().join("experiments/tests/on_hyperqueue.py");
    let mut command = std::process::Command::new("python3");
    command.arg(script).args([env!("CARGO_BIN_EXE_sandtable"), "p.jsonl", "5"]).current_dir(sweep.folder.path());
    let ran = command.output().expect("Python");
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let there = sweep.merged("store");
    assert_eq!(sweep.on_spec("run", &["--store", "one"]).code, 0);
    assert_eq!(there, sweep.merged("one"));
}
