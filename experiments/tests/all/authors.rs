//! Those who write policies: a new one in each language builds, passes the check, runs, and gives FIFO's schedule; and what the
//! check says of policies that are evil, or ours.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::guest::{Act, HEAP, Parts, endless, guest, raw_plan, refuse, then_decide};
use crate::help::{cells, dist, root, sandtable};
use sandtable::policy_check::{Effort, Verdict, check};
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
    // A template follows no limits of queues, and only that in Rust what jobs ask of places: on such histories it does not begin.
    let of_places = ["histories, demands on nodes", "histories, parts of GPUs", "histories, jobs without GPUs"];
    let passes = |line: &&str| {
        let places = language != "rust" && of_places.iter().any(|histories| line.contains(histories));
        let unfollowed =
            places || ["histories, queues", "histories, jobs without GPUs"].iter().any(|of| line.contains(of));
        line.contains(if unfollowed { "\"verdict\":\"skipped\"" } else { "\"verdict\":\"ok\"" })
    };
    let bad = checked.stdout.lines().filter(|line| !passes(line)).collect::<Vec<_>>();
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

/// A policy that draws its order: by seed, the jobs of its run in the order of their first GPUs. Built twice.
fn drawn_orders(language: &str, edits: &[(&str, &str)]) -> Vec<Vec<(u64, Vec<String>)>> {
    let folder = tempfile::tempdir().expect("a folder");
    let name = begin(folder.path(), language);
    let file = folder.path().join(&name).join(if language == "js" { "policy.js" } else { "policy.py" });
    let mut text = std::fs::read_to_string(&file).expect("a policy");
    for (from, to) in edits {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    std::fs::write(&file, text).expect("written");
    let spec = folder.path().join(&name).join("draws.ron");
    let policy = format!("Policy(name: \"./{name}.wasm\")");
    let text = format!(
        "Experiment(title: \"draws\", fleet: Model(nodes: 1, gpus: 1, kind: \"g\", speed: 1.0), workload: Generate(jobs: 12, \
         arrivals: AtOnce, gpus: {{1: 1.0}}), policies: [{policy}], seeds: Range(1, 4))"
    );
    std::fs::write(&spec, text).expect("written");
    let mut builds = Vec::new();
    for build in ["one", "two"] {
        let built = sandtable(folder.path(), &["policy", "build", &name]);
        assert_eq!(built.code, 0, "{}", built.stderr);
        let spec = format!("{name}/draws.ron");
        let ran = sandtable(folder.path(), &["run", &spec, "--store", build, "--log"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stderr.contains("drawing for 12 jobs"), "what it prints is in its log: {}", ran.stderr);
        let mut orders = Vec::new();
        let all = cells(&folder.path().join(build));
        for (path, bytes) in all.iter().filter(|(path, _)| path.ends_with("cell.json")) {
            let inputs: Value = serde_json::from_slice(bytes).expect("JSON");
            let beside = path.with_file_name("timeline.csv");
            let lines = all.iter().find(|(other, _)| *other == beside).expect("a timeline");
            let jobs = std::str::from_utf8(&lines.1)
                .expect("a text")
                .lines()
                .skip(1)
                .map(|line| line.split(',').next().unwrap_or_default().to_string());
            orders.push((inputs["seed"].as_u64().expect("a seed"), jobs.collect::<Vec<_>>()));
        }
        orders.sort();
        builds.push(orders);
    }
    builds
}

fn follow_the_seed_and_no_build(orders: &[Vec<(u64, Vec<String>)>]) {
    assert_eq!(orders[0], orders[1], "two builds draw the same");
    let [(_, first), (_, second), (_, third)] = orders[0].as_slice() else { panic!("{orders:?}") };
    assert!(first.len() == 12 && first != second && second != third && first != third, "{orders:?}");
}

#[needs("tool:componentize-qjs")]
#[test]
fn chance_in_javascript_is_the_seeds() {
    let edits = [
        (
            "const order = [...waiting].sort((a, b) => jobs.get(a).submitted - jobs.get(b).submitted || a - b);",
            "const keys = new Map([...waiting].map((job) => [job, random()]));\n    if (waiting.size === 12) \
         console.log('drawing for', waiting.size, 'jobs', 1n, new Map());\n    const order = [...waiting].sort((a, b) => \
         keys.get(a) - keys.get(b));",
        ),
        ("let options, types", "const { random } = Math;\nlet options, types"),
        ("export const scheduler =", "const mine ="),
        ("actions };\n  },\n};\n", "actions };\n  },\n};\nexport { mine as scheduler };\n"),
    ];
    follow_the_seed_and_no_build(&drawn_orders("js", &edits));
}

#[needs("tool:componentize-py")]
#[test]
fn chance_in_python_is_the_seeds() {
    let edits = [
        (
            "for job in sorted(self.waiting, key=lambda job: (self.jobs[job].submitted, job)):",
            "if len(self.waiting) == 12:\n            print('drawing for', len(self.waiting), 'jobs')\n        keys = {job: \
             DRAWS.random() + random() for job in sorted(self.waiting)}\n        for job in sorted(self.waiting, key=keys.get):",
        ),
        // One that nobody seeded, and a name that the wrapping needs too.
        ("import json\n", "import json\nimport logging\nfrom random import Random, random\n\nDRAWS = Random()\n"),
    ];
    follow_the_seed_and_no_build(&drawn_orders("python", &edits));
}

/// Clocks and entropy are asked for in vain, and say so; an error keeps its text.
fn ends_with(language: &str, line: (&str, &str), why: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let name = begin(folder.path(), language);
    let file = folder.path().join(&name).join(if language == "js" { "policy.js" } else { "policy.py" });
    let text = std::fs::read_to_string(&file).expect("a policy");
    assert!(text.contains(line.0), "{text}");
    std::fs::write(&file, text.replacen(line.0, line.1, 1)).expect("written");
    let built = sandtable(folder.path(), &["policy", "build", &name]);
    assert_eq!(built.code, 0, "{}", built.stderr);
    let spec = format!("{name}/try.ron");
    let ran = sandtable(folder.path(), &["run", &spec, "--policies", &dist(), "--store", "store", "--only", &name]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    // The hint that it prints works as it stands.
    let hint = ran.stderr.lines().find_map(|line| line.split('`').nth(1).filter(|_| line.contains("replay it with")));
    let words: Vec<&str> = hint.expect("a hint").split(' ').skip(1).collect();
    let replayed = sandtable(folder.path(), &words);
    assert!(replayed.stdout.contains("calls replayed"), "{words:?}: {}{}", replayed.stdout, replayed.stderr);
}

#[needs("tool:componentize-qjs")]
#[test]
fn a_policy_in_javascript_has_no_clock_and_errors_keep_their_text() {
    // What is not used is not in the component.
    let first = "batch.events.forEach(takeIn);";
    ends_with("js", (first, "waiting.add(Date.now());"), "a policy has no clock: use batch.now");
    ends_with("js", (first, "waiting.add(new Date());"), "a policy has no clock: use batch.now");
    // The line of policy.js itself: the 94th of the template.
    let template = std::fs::read_to_string(root().join("policies/templates/js/policy.js")).expect("the template");
    let line = 1 + template.lines().position(|line| line.contains(first)).expect("the line");
    ends_with("js", (first, "waiting.add(null.x);"), "cannot read property 'x' of null");
    ends_with("js", (first, "waiting.add(null.x);"), &format!("policy.js:{line}:"));
    ends_with("js", (first, "throw { tag: 'mine' };"), "thrown: {\"tag\":\"mine\"}");
}

#[needs("tool:componentize-py")]
#[test]
fn a_policy_in_python_has_no_clock_and_errors_keep_their_text() {
    let first = "for event in batch.events:";
    let with = |line: &str| format!("{line}\n        {first}");
    ends_with("python", (first, &with("import time; time.time()")), "a policy has no clock: use batch.now");
    let today = "import datetime; datetime.datetime.now()";
    ends_with("python", (first, &with(today)), "a policy has no clock: use batch.now");
    ends_with("python", (first, &with("len(3)")), "TypeError: object of type 'int' has no len()");
}

#[needs("tool:componentize-qjs")]
#[test]
fn a_component_that_is_older_than_its_source_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = begin(folder.path(), "js");
    let run = || {
        let spec = format!("{name}/try.ron");
        sandtable(folder.path(), &["run", &spec, "--policies", &dist(), "--store", "store"])
    };
    assert_eq!(sandtable(folder.path(), &["policy", "build", &name]).code, 0);
    assert_eq!(run().code, 0);
    let file = folder.path().join(&name).join("policy.js");
    let sound = std::fs::read_to_string(&file).expect("a policy");
    std::fs::write(&file, format!("{sound}\nthis is no JavaScript")).expect("written");
    assert_ne!(sandtable(folder.path(), &["policy", "build", &name]).code, 0);
    let ran = run();
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("is not of its sources"), "{}", ran.stderr);
    std::fs::write(&file, sound).expect("written");
    assert_eq!(run().code, 0);
    // It is called as its package, whatever the folder is called.
    std::fs::rename(folder.path().join(&name), folder.path().join("elsewhere")).expect("renamed");
    let built = sandtable(folder.path(), &["policy", "build", "elsewhere"]);
    assert!(built.stdout.contains(&format!("elsewhere/{name}.wasm")), "{}", built.stdout);
    let checked = sandtable(folder.path(), &["policy", "check", "elsewhere", "--histories", "1"]);
    assert!(checked.stdout.contains("two builds") && checked.stdout.contains("decide alike"), "{}", checked.stdout);
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
    let files = sandtable::authoring::template::SDK;
    fn walk(folder: &Path, from: &Path, found: &mut Vec<String>) {
        for path in sandtable::input::sorted(folder).expect("a folder") {
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
        let report = check(name, &bytes, &Effort { histories: 1, ..Effort::default() }).expect("a report");
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

/// A network that prefers jobs that are small or have waited.
const SHORT_AND_OLD: &str =
    r#"{"inputs": ["gpus", "waited"], "hidden": "relu", "layers": [{"weights": [[-1, 0.5]], "bias": [0]}]}"#;

/// Every shipped policy passes; what it is warned of is known.
#[test]
fn shipped_policies_pass_the_check() {
    let mut out = String::new();
    for name in sandtable::artifact::shipped() {
        let bytes = std::fs::read(root().join(format!("policies/dist/{name}.wasm"))).expect("a component");
        let weights = match name {
            "mlp" => SHORT_AND_OLD.as_bytes().to_vec(),
            "recorded" => b"starts 1\n0 5000000\n2 90000000\n".to_vec(),
            _ => Vec::new(),
        };
        let report = check(name, &bytes, &Effort { histories: 2, weights, script: None }).expect("a report");
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
