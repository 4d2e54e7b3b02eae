//! Plan files, shards, merges, and stores that many write: nothing here needs an engine.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::help::{Ran, cells, command, dist, rewrite, sandtable};

/// 2 policies x 20 seeds, milliseconds each.
pub(crate) const SPEC: &str = r#"Experiment(
    title: "a sweep",
    fleet: Model(nodes: 2, gpus: 4, kind: "T4", speed: 1.0),
    workload: Generate(jobs: 20, arrivals: Poisson(load: 1.1), durations: LogNormal(median: "20min", sigma: 1.0)),
    policies: [Policy(name: "fifo"), Policy(name: "./mine.wasm", label: "mine")],
    predictors: {"remaining": Oracle},
    seeds: Range(0, 20),
)"#;

pub(crate) struct Sweep {
    pub(crate) folder: tempfile::TempDir,
}

impl Sweep {
    pub(crate) fn new(name: &str) -> Sweep {
        let folder = tempfile::Builder::new().prefix(name).tempdir().expect("a folder");
        std::fs::write(folder.path().join("sweep.ron"), SPEC).expect("written");
        std::fs::copy(Path::new(&dist()).join("srtf.wasm"), folder.path().join("mine.wasm")).expect("copied");
        Sweep { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command on the spec.
    pub(crate) fn on_spec(&self, verb: &str, more: &[&str]) -> Ran {
        let dist = dist();
        let mut args = vec![verb, "sweep.ron", "--policies", &dist];
        args.extend(more);
        sandtable(self.folder.path(), &args)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        sandtable(self.folder.path(), args)
    }

    pub(crate) fn edit(&self, old: &str, new: &str) {
        let text = std::fs::read_to_string(self.path("sweep.ron")).expect("the spec");
        assert!(text.contains(old));
        std::fs::write(self.path("sweep.ron"), text.replacen(old, new, 1)).expect("written");
    }

    /// The merged rows of a store.
    pub(crate) fn merged(&self, store: &str) -> String {
        let ran = self.on_spec("merge", &["--store", store, "--format", "csv"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    }
}

#[test]
fn shards_of_a_plan_give_what_one_run_gives() {
    let sweep = Sweep::new("shards");
    assert_eq!(sweep.on_spec("run", &["--store", "one", "--no-progress"]).code, 0);
    let planned = sweep.on_spec("plan", &["--store", "many", "-o", "p.jsonl"]);
    assert_eq!((planned.code, planned.stdout.as_str()), (0, "40\n"), "{}", planned.stderr);
    for shard in ["0/3", "1/3", "2/3"] {
        let ran = sweep.run(&["run", "--plan", "p.jsonl", "--shard", shard, "--store", "many"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    }
    let again = sweep.run(&["run", "--plan", "p.jsonl", "--shard", "2/3", "--store", "many"]);
    assert!(again.stderr.contains("a sweep, shard 2/3: 13 cells, 13 cached"), "{}", again.stderr);
    assert_eq!(cells(&sweep.path("one")), cells(&sweep.path("many")));
    let rows = sweep.merged("one");
    assert_eq!(rows, sweep.merged("many"));
    assert_eq!(rows.lines().count(), 41);
    let ids: Vec<&str> = rows.lines().skip(1).map(|row| &row[..64]).collect();
    assert!(ids.is_sorted() && !rows.contains(",missing,"));
    // Without a plan file the shards are of the spec's own cells.
    for shard in ["0/2", "1/2"] {
        assert_eq!(sweep.on_spec("run", &["--shard", shard, "--store", "halves"]).code, 0);
    }
    assert_eq!(rows, sweep.merged("halves"));
    // And a plan of what is missing has nothing to hand over.
    assert_eq!(sweep.on_spec("plan", &["--store", "many", "-o", "p.jsonl"]).stdout, "0\n");
    assert_eq!(sweep.run(&["run", "--plan", "p.jsonl", "--store", "many"]).code, 0);
}

#[test]
fn what_was_changed_underneath_is_said_by_every_shard() {
    let sweep = Sweep::new("underneath");
    let planned = || assert_eq!(sweep.on_spec("plan", &["-o", "p.jsonl"]).code, 0);
    let shard = |which: &str| sweep.run(&["run", "--plan", "p.jsonl", "--shard", which]);
    let refused = |expected: &str| {
        for which in ["0/2", "1/2"] {
            let ran = shard(which);
            assert_eq!(ran.code, 2, "{}", ran.stderr);
            assert!(ran.stderr.contains("changed underneath") && ran.stderr.contains(expected), "{}", ran.stderr);
            assert!(ran.stderr.contains("hint: submit again"), "{}", ran.stderr);
            assert!(!sweep.path("store/cells").is_dir() || cells(&sweep.path("store")).is_empty());
        }
    };
    planned();
    sweep.edit("jobs: 20", "jobs: 21");
    refused("changed: workload.generate.jobs");
    sweep.edit("jobs: 21", "jobs: 20");
    sweep.edit("Range(0, 20)", "Range(0, 10)");
    refused("the spec has no such cell now");
    sweep.edit("Range(0, 10)", "Range(0, 20)");
    std::fs::copy(Path::new(&dist()).join("las.wasm"), sweep.path("mine.wasm")).expect("copied");
    refused(") is another since the plan was made: policy changed\n");
    planned();
    let text = std::fs::read_to_string(sweep.path("p.jsonl")).expect("the plan");
    let program = text.split("\"program\":\"").nth(1).expect("a digest")[..64].to_string();
    std::fs::write(sweep.path("p.jsonl"), text.replace(&program, &"0".repeat(64))).expect("written");
    refused("was 0000000000… when the plan was made");
    std::fs::write(sweep.path("p.jsonl"), &text).expect("written");
    // What moves no result may change.
    sweep.edit("a sweep", "the same sweep");
    assert_eq!(shard("0/2").code, 0);
}

#[test]
fn bad_plan_files_and_shards_are_shown_at_their_line() {
    let sweep = Sweep::new("bad");
    assert_eq!(sweep.on_spec("plan", &["-o", "p.jsonl"]).code, 0);
    let text = std::fs::read_to_string(sweep.path("p.jsonl")).expect("the plan");
    let with = |text: &str| {
        std::fs::write(sweep.path("p.jsonl"), text).expect("written");
        let ran = sweep.run(&["run", "--plan", "p.jsonl"]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        ran.stderr
    };
    assert!(with("").contains("p.jsonl:1: expected a plan, found nothing"));
    assert!(with("{}").contains("p.jsonl:1: missing field `plan`"));
    assert!(with(&text.replacen("\"plan\":2", "\"plan\":9", 1)).contains("expected version 2 of the format, found 9"));
    assert!(with(&text[..text.len() - 20]).contains("p.jsonl:41: EOF while parsing"));
    assert!(with(&(text.clone() + "\u{0}")).contains("p.jsonl:42: "));
    let cut: String = text.lines().take(5).map(|line| format!("{line}\n")).collect();
    assert!(with(&cut).contains("p.jsonl:5: expected 40 cells, found 4"));
    let id = text.split("\"id\":\"").nth(1).expect("an id")[..64].to_string();
    let other = text.replacen(&id, "123456789é", 1);
    assert!(with(&other).contains("changed underneath: cell 123456789é ("));
    // Whatever stands where the inputs of the cell were.
    let (before, after) = other.split_once("\"cell\":{").expect("inputs");
    let after = after.split_once("\n").expect("a line").1;
    let error = with(&format!("{before}\"cell\":\"none\"}}\n{after}"));
    assert!(error.contains("the spec or the policy's component was changed"), "{error}");
    for shard in ["2/2", "x", "-1/2", "1/0"] {
        let ran = sweep.on_spec("run", &[&format!("--shard={shard}")]);
        assert_eq!(ran.code, 2);
        assert!(ran.stderr.contains("expected I/N with I from 0 to N-1"), "{}", ran.stderr);
    }
    let ran = sweep.on_spec("run", &["--plan", "p.jsonl"]);
    assert!(ran.code == 2 && ran.stderr.contains("cannot be used with"), "{}", ran.stderr);
}

#[test]
fn a_merge_says_what_is_missing_and_what_failed() {
    let sweep = Sweep::new("merge");
    std::fs::write(sweep.path("mine.wasm"), b"\0asm\x01\0\0\0").expect("written");
    let part = sweep.on_spec("run", &["--shard", "0/2"]);
    assert_eq!(part.code, 3, "{}", part.stderr);
    let ran = sweep.on_spec("merge", &["--format", "csv"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 21, "{}", ran.stdout);
    assert!(ran.stderr.contains("20 rows of 40 cells"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("error: failed: cell ").count(), 10, "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("error: missing: cell ").count(), 10, "{}", ran.stderr);
    assert!(ran.stderr.contains("error: missing: 10 more"), "{}", ran.stderr);
    assert_eq!(sweep.on_spec("run", &["--shard", "1/2"]).code, 3);
    let ran = sweep.on_spec("merge", &["--format", "json"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("error: failed: 10 more") && ran.stderr.contains("(mine seed "), "{}", ran.stderr);
    let states = ran.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let failed: Vec<serde_json::Value> = states.filter(|row| row["state"] == "failed").collect();
    assert_eq!(failed.len(), 20);
    assert!(failed.iter().all(|row| row["metrics"].as_object().is_some_and(serde_json::Map::is_empty)));
    let status = sweep.on_spec("status", &["--format", "csv"]);
    let line = status.stdout.lines().nth(1).expect("a row").split_once(',').expect("a name").1;
    assert_eq!(line, "40,20,0,20,,");
}

#[test]
fn stores_of_machines_without_a_common_file_system_are_merged() {
    let sweep = Sweep::new("stores");
    for (shard, store) in [("0/2", "a"), ("1/2", "b")] {
        assert_eq!(sweep.on_spec("run", &["--shard", shard, "--store", store]).code, 0);
    }
    let ran = sweep.on_spec("merge", &["--store", "a", "--from", "b", "--format", "csv"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("20 cells and 0 observations taken in from b"), "{}", ran.stderr);
    assert_eq!(sweep.on_spec("run", &["--store", "c"]).code, 0);
    assert_eq!(sweep.merged("c"), ran.stdout);
    assert!(
        sweep
            .on_spec("merge", &["--store", "a", "--from", "b"])
            .stderr
            .contains("0 cells and 0 observations taken in from b")
    );
    // Another's result of the same cell is kept beside ours, and said.
    let (path, bytes) = cells(&sweep.path("b")).into_iter().find(|(path, _)| path.ends_with("jobs.csv")).expect("one");
    let edited = [bytes.as_slice(), b"x"].concat();
    rewrite(&sweep.path("b"), &path, &edited);
    let ran = sweep.on_spec("merge", &["--store", "a", "--from", "b"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("nondeterministic: cell ") && sweep.path("a/conflicts").is_dir(), "{}", ran.stderr);
    assert!(cells(&sweep.path("a")).contains(&(path.clone(), bytes)), "kept");
    // It is said until somebody has looked at it.
    for verb in ["merge", "status"] {
        let ran = sweep.on_spec(verb, &["--store", "a"]);
        assert!(
            ran.code == i32::from(verb == "merge") && ran.stderr.contains("error: nondeterministic: "),
            "{}",
            ran.stderr
        );
    }
    let ran = sweep.on_spec("merge", &["--store", "a", "--from", "nowhere"]);
    assert!(ran.code == 2 && ran.stderr.contains("nowhere: expected a store"), "{}", ran.stderr);
    // Of a store in which a table is cut short all others are taken in.
    let packed = sweep.path("b").join(path.with_extension("csv.zst"));
    let whole = std::fs::read(&packed).expect("the table");
    std::fs::write(&packed, &whole[..whole.len() / 2]).expect("written");
    for (store, more, rows) in [("e", &["--from", "b"][..], 20), ("b", &[], 20)] {
        let ran = sweep.on_spec("merge", &[&["--store", store, "--format", "csv"], more].concat());
        assert_eq!((ran.code, ran.stdout.lines().count()), (1, rows), "{}", ran.stderr);
        assert!(ran.stderr.contains("19 rows of 40 cells, blake3 not known: 1 damaged"), "{}", ran.stderr);
        assert_eq!(ran.stderr.matches("error: cannot unpack ").count(), 1, "{}", ran.stderr);
    }
    std::fs::write(&packed, whole).expect("written");
    // A copy that was interrupted is no result.
    std::fs::remove_file(sweep.path("b").join(path.with_file_name("timeline.csv.zst"))).expect("removed");
    let ran = sweep.on_spec("merge", &["--store", "d", "--from", "b"]);
    assert!(ran.code == 2 && ran.stderr.contains("expected a whole cell, found no timeline.csv"), "{}", ran.stderr);
}

#[test]
fn observations_of_other_stores_are_taken_in_once() {
    let sweep = Sweep::new("observed");
    let spec = "Experiment(title: \"live\", fleet: Nvidia(devices: StandIn(1), commands: {\"*\": [\"true\"]}), \
        workload: Jobs([Job(submit: \"0s\", gpus: 1, duration: \"1s\")]), policies: [Policy(name: \"fifo\")])";
    std::fs::write(sweep.path("sweep.ron"), spec).expect("written");
    for store in ["a", "b", "b"] {
        assert_eq!(sweep.on_spec("run", &["--store", store, "--allow-commands"]).code, 0);
    }
    for expected in ["0 cells and 2 observations", "0 cells and 0 observations"] {
        let ran = sweep.on_spec("merge", &["--store", "a", "--from", "b", "--format", "csv"]);
        assert!(ran.code == 0 && ran.stderr.contains(expected), "{}", ran.stderr);
        let rows: Vec<&str> = ran.stdout.lines().skip(1).map(|row| &row[65..69]).collect();
        assert_eq!(rows, ["0001", "0002", "0003"]);
    }
}

#[test]
fn a_plan_file_says_where_its_spec_and_its_store_are() {
    let sweep = Sweep::new("where");
    // Through a link what a spec names is beside the link.
    std::fs::create_dir_all(sweep.path("links")).expect("made");
    std::os::unix::fs::symlink("../sweep.ron", sweep.path("links/sweep.ron")).expect("linked");
    std::fs::copy(Path::new(&dist()).join("las.wasm"), sweep.path("links/mine.wasm")).expect("copied");
    let dist = dist();
    let there = sweep.path("links");
    let planned = sandtable(&there, &["plan", "sweep.ron", "--policies", &dist, "--store", "kept", "-o", "../p.jsonl"]);
    assert_eq!(planned.code, 0, "{}", planned.stderr);
    let ran = sandtable(&std::env::temp_dir(), &["run", "--plan", &sweep.path("p.jsonl").display().to_string()]);
    assert!(ran.code == 0 && ran.stderr.contains("40 cells executed"), "{}", ran.stderr);
    assert_eq!(sandtable(&there, &["merge", "sweep.ron", "--policies", &dist, "--store", "kept"]).code, 0);
    // A path that is no text can't be told to anybody.
    use std::os::unix::ffi::OsStringExt;
    let odd = sweep.path("").join(std::ffi::OsString::from_vec(b"odd\xff.ron".to_vec()));
    std::fs::write(&odd, SPEC).expect("written");
    let mut planned = command(sweep.folder.path(), &["plan", "--policies", &dist, "-o", "odd.jsonl"]);
    let planned = planned.arg(&odd).output().expect("it runs");
    let said = String::from_utf8_lossy(&planned.stderr);
    assert!(planned.status.code() == Some(2) && said.contains("the paths of a plan file are text"), "{said}");
    assert!(!sweep.path("odd.jsonl").exists());
}

#[test]
fn a_recheck_runs_a_share_again_and_finds_what_is_not_as_it_was() {
    let sweep = Sweep::new("recheck");
    assert_eq!(sweep.on_spec("run", &[]).code, 0);
    for (share, draw, expected) in
        [("1%", "0", 1), ("25%", "0", 10), ("25%", "1", 10), ("100%", "0", 40), ("0%", "0", 0)]
    {
        let ran = sweep.on_spec("run", &["--recheck", share, "--draw", draw]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let said = format!("{expected} of 40 cells with results run again");
        assert!(
            ran.stderr.contains(&said) && ran.stderr.contains(&format!("{expected} cells executed")),
            "{}",
            ran.stderr
        );
    }
    let broken = sweep.on_spec("run", &["--recheck", "101%"]);
    assert!(broken.code == 2 && broken.stderr.contains("from 0% to 100%"), "{}", broken.stderr);
    let (path, bytes) =
        cells(&sweep.path("store")).into_iter().find(|(path, _)| path.ends_with("jobs.csv")).expect("one");
    rewrite(&sweep.path("store"), &path, &[bytes.as_slice(), b"x"].concat());
    let ran = sweep.on_spec("run", &["--recheck", "100%"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("nondeterministic: cell "), "{}", ran.stderr);
    assert_eq!(sandtable::input::sorted(&sweep.path("store/conflicts")).expect("there").len(), 1);
}

#[test]
fn many_that_write_at_once_leave_one_result_each_and_nothing_else() {
    let sweep = Sweep::new("race");
    let dist = dist();
    let args = ["run", "sweep.ron", "--policies", &dist, "--store", "raced"];
    let all: Vec<_> = (0..4)
        .map(|_| {
            let mut command = command(sweep.folder.path(), &args);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
        })
        .collect();
    for one in all {
        let ended = one.wait_with_output().expect("its end");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert_eq!(sweep.on_spec("run", &["--store", "alone"]).code, 0);
    assert_eq!(cells(&sweep.path("raced")), cells(&sweep.path("alone")));
    assert!(sandtable::input::sorted(&sweep.path("raced/tmp")).expect("there").is_empty());
    assert!(!sweep.path("raced/conflicts").exists());
}

#[test]
fn what_other_machines_have_on_the_way_is_left_to_them() {
    let sweep = Sweep::new("foreign");
    assert_eq!(sweep.on_spec("run", &["--shard", "0/40"]).code, 0);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name").trim().replace('.', "-");
    let names = ["aa.1.elsewhere.x".to_string(), format!("bb.999999999.{host}.x"), format!("cc.1.{host}.x")];
    for name in &names {
        std::fs::create_dir(sweep.path("store/tmp").join(name)).expect("made");
    }
    let ran = sweep.run(&["store", "gc", "--store", "store"]);
    assert!(ran.stdout.contains("1 unfinished ones swept"), "{}", ran.stdout);
    assert!(ran.stderr.contains("1 unfinished ones are of other machines"), "{}", ran.stderr);
    let ran = sweep.run(&["store", "gc", "--store", "store", "--everywhere"]);
    assert!(ran.stdout.contains("1 unfinished ones swept"), "{}", ran.stdout);
    // Process 1 of this machine lives.
    let left = sandtable::input::sorted(&sweep.path("store/tmp")).expect("there");
    assert_eq!(left.iter().filter(|path| path.ends_with(&names[2])).count(), left.len());
}
