//! Those who write policies: a new one in each language builds, passes the check, runs, and gives FIFO's schedule; and what the
//! check says of policies that are evil, or ours.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::guest::{Act, HEAP, Parts, endless, guest, raw_plan, refuse, then_decide};
use crate::help::{cells, dist, root, sandtable};
use sandtable::conform::{Effort, Verdict, check};
use sandtable_needs::needs;

fn begin(folder: &Path, language: &str) -> String {
    let name = format!("my-{language}");
    let begun = sandtable(folder, &["policy", "new", &name, "--lang", language]);
    assert_eq!(begun.code, 0, "{}", begun.stderr);
    name
}

/// The schedules of a template and of the shipped FIFO, on the same jobs.
fn compared_with_fifo(language: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let name = begin(folder.path(), language);
    let built = sandtable(folder.path(), &["policy", "build", &name]);
    assert_eq!(built.code, 0, "{}", built.stderr);
    let component = format!("{name}/{name}.wasm");
    let checked = sandtable(folder.path(), &["policy", "check", &component, "--histories", "2", "--format", "json"]);
    assert_eq!(checked.code, 0, "{}", checked.stdout);
    let bad = checked.stdout.lines().filter(|line| !line.contains("\"verdict\":\"ok\"")).collect::<Vec<_>>();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    let ran = sandtable(folder.path(), &["run", &format!("{name}/try.ron"), "--policies", &dist(), "--store", "store"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // By seed: what FIFO's folder holds, the policy's holds too.
    let mut schedules: std::collections::BTreeMap<u64, Vec<Vec<u8>>> = Default::default();
    let all = cells(&folder.path().join("store"));
    for (path, bytes) in &all {
        if path.ends_with("cell.json") {
            let inputs: Value = serde_json::from_slice(bytes).expect("JSON");
            let jobs = all.iter().find(|(other, _)| *other == path.with_file_name("timeline.csv")).expect("a timeline");
            schedules.entry(inputs["seed"].as_u64().expect("a seed")).or_default().push(jobs.1.clone());
        }
    }
    assert_eq!(schedules.len(), 3);
    for (seed, both) in schedules {
        assert!(both.len() == 2 && both[0] == both[1], "seed {seed}: another schedule than fifo's");
    }
}

#[needs("tool:componentize-py")]
#[test]
fn a_policy_in_python_gives_the_same_schedule() {
    compared_with_fifo("python");
}

#[needs("tool:componentize-qjs")]
#[test]
fn a_policy_in_javascript_gives_the_same_schedule() {
    compared_with_fifo("js");
}

#[needs("file:/usr/lib/wasm32-wasi/libc.a", "tool:wasm-ld")]
#[test]
fn a_policy_in_c_gives_the_same_schedule() {
    compared_with_fifo("c");
}

#[needs("env:SANDTABLE_SLOW_TESTS")]
#[test]
fn a_policy_in_rust_gives_the_same_schedule() {
    compared_with_fifo("rust");
}

/// Without the Wasm tool chain: the template's own test passes natively, with the SDK that it carries.
#[test]
fn a_new_rust_policy_carries_the_whole_sdk() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = begin(folder.path(), "rust");
    let files = sandtable::artifact::template::SDK;
    fn walk(folder: &Path, from: &Path, found: &mut Vec<String>) {
        for path in sandtable::store::sorted(folder).expect("a folder") {
            match path.is_dir() {
                true => walk(&path, from, found),
                false => found.push(path.strip_prefix(from).expect("below").display().to_string()),
            }
        }
    }
    let sdk = root().join("policies/sdk");
    let mut there = Vec::new();
    walk(&sdk.join("src"), &sdk, &mut there);
    there.sort();
    let mut shipped: Vec<String> = files.iter().map(|(name, _)| (*name).to_string()).collect();
    shipped.sort();
    assert_eq!(shipped, there, "the template's list of the SDK's files");
    // The versions that it asks for are the workspace's.
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).expect("a manifest");
    let own = folder.path().join(&name).join("vendor/sandtable-policy/Cargo.toml");
    let own = std::fs::read_to_string(own).expect("a manifest");
    for line in own.lines().filter(|line| line.starts_with("wit-bindgen") || line.starts_with("serde_json")) {
        assert!(workspace.contains(line), "{line}");
    }
}

#[test]
fn what_goes_wrong_with_a_new_policy_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = begin(folder.path(), "c");
    for (args, why) in [
        (vec!["policy", "new", "My_Policy"], "can't be a policy's name"),
        (vec!["policy", "new", "../evil"], "can't be a policy's name"),
        (vec!["policy", "new", "x", "--path", "y"], "must be called so"),
        (vec!["policy", "new", &name], "there is something in this folder already"),
        (vec!["policy", "build", "./nowhere"], "no such folder"),
        (vec!["policy", "build", "."], "no policy there"),
        (vec!["policy", "check", "nobody"], "no policy or predictor `nobody`"),
    ] {
        let ran = sandtable(folder.path(), &args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(why), "{args:?}: {}", ran.stderr);
    }
    // Without any tool the command says what to install.
    for language in ["rust", "python", "js", "c"] {
        let name = format!("other-{language}");
        assert_eq!(sandtable(folder.path(), &["policy", "new", &name, "--lang", language]).code, 0);
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandtable"));
        let output =
            command.args(["policy", "build", &name]).current_dir(folder.path()).env("PATH", "/nowhere").output();
        let output = output.expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let debian = language == "rust" && Path::new("/usr/bin/wasm-ld-19").exists();
        assert!(debian || (output.status.code() == Some(2) && said.contains("hint: ")), "{language}: {said}");
    }
}

/// The report on each evil guest, as its author would read it.
#[test]
fn the_check_tells_authors_of_evil_policies_what_to_fix() {
    let parts = |decide: String| Parts { decide, ..Parts::default() };
    let plan = |acts: Vec<Act>| Parts { plans: vec![acts], ..parts(then_decide("")) };
    let words = "(call $panic (i32.const 4096) (i32.const 14)) (unreachable)";
    let memory = "(loop $again (drop (memory.grow (i32.const 64))) (br $again)) (unreachable)";
    let sound = guest(&Parts::default());
    let evil: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("core-module", wat::parse_str("(module)").expect("a module")),
        ("wrong-world", wat::parse_str("(component)").expect("a component")),
        ("truncated", sound[..200].to_vec()),
        ("accepts-any-configuration", sound.clone()),
        ("endless-loop", guest(&parts(endless("")))),
        ("endless-allocation", guest(&parts(memory.into()))),
        (
            "recursion",
            guest(&Parts {
                declare: "(func $deeper (call $deeper) (call $deeper))".into(),
                ..parts("(call $deeper) (unreachable)".into())
            }),
        ),
        ("panic", guest(&Parts { text: b"boom at x.rs:1".to_vec(), ..parts(words.into()) })),
        ("trap", guest(&parts("(unreachable)".into()))),
        ("million-actions", guest(&Parts { memory: "512".into(), ..parts(raw_plan(HEAP as u32, 1_000_000)) })),
        ("unknown-job", guest(&plan(vec![Act::Start(99, vec![0])]))),
        ("unknown-gpu", guest(&plan(vec![Act::Start(0, vec![4_000_000])]))),
        (
            "refuses-everything",
            guest(&Parts { init: refuse(ANSWER_OF_INIT, 0, 4096, 5), text: b"never".to_vec(), ..Parts::default() }),
        ),
    ];
    let mut out = String::new();
    for (name, bytes) in evil {
        let report = check(name, &bytes, Effort { histories: 1 }).expect("a report");
        assert!(!report.passed(), "{name} passed");
        out.push_str(&format!("{name}\n"));
        for one in report.checks.iter().filter(|one| one.verdict != Verdict::Ok) {
            out.push_str(&format!("  {} {}: {}\n", one.verdict.word(), one.what, one.found));
            if !one.advice.is_empty() {
                out.push_str(&format!("    {}\n", one.advice));
            }
        }
    }
    insta::with_settings!({filters => vec![(r"offset 0x[0-9a-f]+", "offset [cut]")]}, {
        insta::assert_snapshot!(out);
    });
}

/// Where the guests' `init` puts its answer.
const ANSWER_OF_INIT: usize = crate::guest::ANSWER;

/// Every shipped policy passes; what it is warned of is known.
#[test]
fn shipped_policies_pass_the_check() {
    let mut out = String::new();
    for name in sandtable::artifact::shipped() {
        let bytes = std::fs::read(root().join(format!("policies/dist/{name}.wasm"))).expect("a component");
        let report = check(name, &bytes, Effort { histories: 2 }).expect("a report");
        let (ok, skipped) = (report.count(Verdict::Ok), report.count(Verdict::Skip));
        out.push_str(&format!("{name}: {ok} ok, {skipped} skipped\n"));
        for one in report.checks.iter().filter(|one| matches!(one.verdict, Verdict::Warn | Verdict::Fail)) {
            // Fuel depends on wasmtime's version.
            let found = if one.what == "budget" { "-" } else { &one.found };
            out.push_str(&format!("  {} {}: {found}\n", one.verdict.word(), one.what));
        }
        assert!(report.passed(), "{out}");
    }
    insta::assert_snapshot!(out);
}
