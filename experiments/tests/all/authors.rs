//! Those who write policies: a new one in each language builds, passes the check, runs, and gives FIFO's schedule.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::help::{cells, dist, root, sandtable};
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
    let schedules = schedules(&folder.path().join("store"), "timeline.csv");
    assert_eq!(schedules.len(), 3);
    for (seed, both) in schedules {
        assert!(both.len() == 2 && both[0] == both[1], "seed {seed}: another schedule than fifo's");
    }
}

/// These files of a store's cells, by seed.
fn schedules(store: &Path, file: &str) -> std::collections::BTreeMap<u64, Vec<Vec<u8>>> {
    let mut schedules: std::collections::BTreeMap<u64, Vec<Vec<u8>>> = Default::default();
    let all = cells(store);
    for (path, bytes) in &all {
        if path.ends_with("cell.json") {
            let inputs: Value = serde_json::from_slice(bytes).expect("JSON");
            let jobs = all.iter().find(|(other, _)| *other == path.with_file_name(file)).expect("a schedule");
            schedules.entry(inputs["seed"].as_u64().expect("a seed")).or_default().push(jobs.1.clone());
        }
    }
    schedules
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
        let mut words = vec!["policy", "build", &name];
        if (language, build) == ("python", "two") {
            words.push("--quick");
        }
        let built = sandtable(folder.path(), &words);
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
            "const order = cluster.waiting.sort((a, b) => a.submitted - b.submitted || a.id - b.id);",
            "const { waiting } = cluster;\n    const keys = new Map(waiting.map((job) => [job.id, random()]));\n    if \
             (waiting.length === 12) console.log('drawing for', waiting.length, 'jobs', 1n, new Map());\n    const order = \
             waiting.sort((a, b) => keys.get(a.id) - keys.get(b.id));",
        ),
        ("import { scheduler as policy }", "const { random } = Math;\nimport { scheduler as policy }"),
        ("export const scheduler =", "const mine ="),
        ("  },\n});\n", "  },\n});\nexport { mine as scheduler };\n"),
    ];
    follow_the_seed_and_no_build(&drawn_orders("js", &edits));
}

#[needs("tool:componentize-py")]
#[test]
fn chance_in_python_is_the_seeds() {
    let edits = [
        (
            "order = sorted(cluster.waiting, key=lambda job: (job.submitted, job.id))",
            "if len(cluster.waiting) == 12:\n            print('drawing for', len(cluster.waiting), 'jobs')\n        keys = {job.id: \
             DRAWS.random() + random() for job in cluster.waiting}\n        order = sorted(cluster.waiting, key=lambda job: \
             keys[job.id])",
        ),
        // One that nobody seeded, and a name that the wrapping needs too.
        (
            "from sandtable_policy import Policy, scheduler\n",
            "import logging\nfrom random import Random, random\n\nfrom sandtable_policy import Policy, scheduler\n\nDRAWS = Random()\n",
        ),
    ];
    follow_the_seed_and_no_build(&drawn_orders("python", &edits));
}

const WHOLE: &[&[&str]] = &[&[]];
const QUICK: &[&str] = &["--quick"];

/// Clocks and entropy are asked for in vain, and say so; an error keeps its text.
fn ends_with(ways: &[&[&str]], language: &str, line: (&str, &str), why: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let name = begin(folder.path(), language);
    let file = folder.path().join(&name).join(if language == "js" { "policy.js" } else { "policy.py" });
    let text = std::fs::read_to_string(&file).expect("a policy");
    assert!(text.contains(line.0), "{text}");
    std::fs::write(&file, text.replacen(line.0, line.1, 1)).expect("written");
    for way in ways {
        let built = sandtable(folder.path(), &[&["policy", "build", &name], *way].concat());
        assert_eq!(built.code, 0, "{}", built.stderr);
        fails_with(folder.path(), &name, why);
    }
}

fn fails_with(folder: &Path, name: &str, why: &str) {
    let spec = format!("{name}/try.ron");
    let ran = sandtable(folder, &["run", &spec, "--policies", &dist(), "--store", "store", "--only", name]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    // The hint that it prints works as it stands.
    let hint = ran.stderr.lines().find_map(|line| line.split('`').nth(1).filter(|_| line.contains("replay it with")));
    let words: Vec<&str> = hint.expect("a hint").split(' ').skip(1).collect();
    let replayed = sandtable(folder, &words);
    assert!(replayed.stdout.contains("calls replayed"), "{words:?}: {}{}", replayed.stdout, replayed.stderr);
}

#[needs("tool:componentize-qjs")]
#[test]
fn a_policy_in_javascript_has_no_clock_and_errors_keep_their_text() {
    // What is not used is not in the component.
    let first = "cluster.startInOrder(order, this.options.skip);";
    ends_with(WHOLE, "js", (first, "order.push(Date.now());"), "a policy has no clock: use batch.now");
    ends_with(WHOLE, "js", (first, "order.push(new Date());"), "a policy has no clock: use batch.now");
    // The line of policy.js itself.
    let template = std::fs::read_to_string(root().join("policies/templates/js/policy.js")).expect("the template");
    let line = 1 + template.lines().position(|line| line.contains(first)).expect("the line");
    ends_with(WHOLE, "js", (first, "order.push(null.x);"), "cannot read property 'x' of null");
    ends_with(WHOLE, "js", (first, "order.push(null.x);"), &format!("policy.js:{line}:"));
    // An id that stands for none is none: jobs of the template's spec have neither.
    let thrown = "throw { tag: `mine, ${order[0].queue}, ${order[0].workload}` };";
    ends_with(WHOLE, "js", (first, thrown), "thrown: {\"tag\":\"mine, undefined, undefined\"}");
}

#[needs("tool:componentize-py")]
#[test]
fn a_policy_in_python_has_no_clock_and_errors_keep_their_text() {
    let first = "order = sorted(cluster.waiting";
    let with = |line: &str| format!("{line}\n        {first}");
    // Both ways to build end alike.
    ends_with(
        &[&[], QUICK],
        "python",
        (first, &with("import time; time.time()")),
        "a policy has no clock: use batch.now",
    );
    let today = "import datetime; datetime.datetime.now()";
    ends_with(&[QUICK], "python", (first, &with(today)), "a policy has no clock: use batch.now");
    ends_with(
        &[QUICK],
        "python",
        (first, &with("len(3)")),
        "TypeError: object of type 'int' has no len() at decide (sandtable_policy.py:",
    );
    ends_with(&[QUICK], "python", (first, &with("open('notes')")), "OSError: a policy has no files");
}

/// The template's own tests pass without WebAssembly, with the bindings that it carries, which are those of the tool.
#[needs("tool:python3.11|python3.12|python3.13")]
#[test]
fn a_policy_in_python_is_tested_without_webassembly() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join(begin(folder.path(), "python"));
    let run = |python: &&str| {
        Command::new(python).args(["-m", "unittest", "discover", "tests"]).current_dir(&own).output().ok()
    };
    let tested = ["python3.11", "python3.12", "python3.13"].iter().find_map(run).expect("one of them");
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));
}

/// The book's policy, which preempts, runs each job when `srtf` does on one node, under costs and failures.
#[needs("tool:componentize-py")]
#[test]
fn shortest_first_in_python_is_srtf() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = begin(folder.path(), "python");
    let page = std::fs::read_to_string(root().join("docs/src/policies/python.md")).expect("the page");
    let text = page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).expect("its policy");
    std::fs::write(folder.path().join(&name).join("policy.py"), text).expect("written");
    let built = sandtable(folder.path(), &["policy", "build", &name, "--quick"]);
    assert_eq!(built.code, 0, "{}", built.stderr);
    let checked = sandtable(folder.path(), &["policy", "check", &format!("{name}/{name}.wasm"), "--histories", "2"]);
    assert_eq!(checked.code, 0, "{}", checked.stdout);
    let spec = format!(
        "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 8, kind: \"g\", speed: 1.0, failures: Failures(mtbf: \"20h\", repair: \"30min\")), costs: Costs(start: \"20s\", checkpoint: \
         \"10s\", restore: \"30s\"), workload: Generate(jobs: 120, arrivals: Poisson(load: 1.1), gpus: {{1: 0.6, 2: 0.2, 4: 0.15, 8: \
         0.05}}), policies: [Policy(name: \"srtf\"), \
         Policy(name: \"./{name}/{name}.wasm\")], predictors: {{\"remaining\": Oracle}}, seeds: Range(0, 3))"
    );
    std::fs::write(folder.path().join("beside.ron"), spec).expect("written");
    let ran = sandtable(folder.path(), &["run", "beside.ron", "--policies", &dist(), "--store", "store"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // When each job runs, not which of the node's GPUs it has.
    for (seed, both) in schedules(&folder.path().join("store"), "jobs.csv") {
        assert!(both.len() == 2 && both[0] == both[1], "seed {seed}: another schedule than srtf's");
    }
    let stays = schedules(&folder.path().join("store"), "timeline.csv");
    let lines: Vec<usize> = stays.values().flatten().map(|file| file.split(|byte| *byte == b'\n').count()).collect();
    assert!(lines.iter().all(|lines| *lines > 200), "of 120 jobs many are preempted: {lines:?}");
}

#[needs("tool:node")]
#[test]
fn a_policy_in_javascript_is_tested_without_webassembly() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join(begin(folder.path(), "js"));
    let tested = Command::new("node").args(["--test", "tests/policy.test.js"]).current_dir(own).output().expect("node");
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stdout));
}

#[needs("tool:componentize-py")]
#[test]
fn the_stubs_in_python_are_those_of_the_tool() {
    let (made, wit) = (tempfile::tempdir().expect("a folder"), root().join("wit"));
    let made = made.path();
    let words = ["-w", "policy", "bindings"];
    let done = Command::new("componentize-py").arg("-d").arg(wit).args(words).arg(made.join("b")).status();
    assert!(done.expect("componentize-py").success());
    let stubs = root().join("policies/templates/python/tests/stubs");
    let mut open = vec![stubs.clone()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(sandtable_core::input::sorted(&path).expect("a folder"));
        } else if path.extension().is_some_and(|ending| ending == "py") {
            let inside = path.strip_prefix(&stubs).expect("inside");
            let read = |path: &Path| std::fs::read_to_string(path).expect("a text");
            assert_eq!(read(&path), read(&made.join("b").join(inside)), "{}", inside.display());
        }
    }
}

/// Each edit is seen, also one of a module beside the policy, and the interpreter is built once.
#[needs("tool:componentize-py")]
#[test]
fn a_quick_build_is_of_the_texts_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = begin(folder.path(), "python");
    let write = |file: &str, text: &str| {
        let path = folder.path().join(&name).join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    let build = || sandtable(folder.path(), &["policy", "build", &name, "--quick"]);
    let run = || {
        let spec = format!("{name}/try.ron");
        let words = ["run", &spec, "--policies", &dist(), "--store", "store", "--only", &name, "--log"];
        sandtable(folder.path(), &words)
    };
    let policy = std::fs::read_to_string(folder.path().join(&name).join("policy.py")).expect("a policy");
    let begins = policy.replace("class Mine(Policy):", "from words.say import said\n\n\nclass Mine(Policy):");
    let begins =
        begins.replace("    def decide(self, cluster):", "    def decide(self, cluster):\n        print(said())");
    assert!(begins.contains("import said") && begins.contains("print(said())"));
    write("policy.py", &begins);
    write("words/__init__.py", "");
    for word in ["one", "two"] {
        write("words/say.py", &format!("def said():\n    return 'the word is {word}'\n"));
        let built = build();
        assert_eq!(built.code, 0, "{}", built.stderr);
        let ran = run();
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("the word is {word}")), "{}", ran.stderr);
        let again = build();
        assert!(!again.stderr.contains("interpreter"), "{}", again.stderr);
        assert_eq!(again.stdout, built.stdout, "the same texts give the same bytes");
    }
    write("words/say.py", "def said(:\n");
    assert_eq!(build().code, 0);
    let ran = run();
    assert!(
        ran.code == 3 && ran.stderr.contains("SyntaxError") && ran.stderr.contains("say.py, line 1"),
        "{}",
        ran.stderr
    );
    write("words/say.py", "import no_such_module\n");
    assert_eq!(build().code, 0);
    let ran = run();
    assert!(ran.code == 3 && ran.stderr.contains("No module named 'no_such_module'"), "{}", ran.stderr);
    // As in a whole build: what is imported later is imported at the top too, and Python's own modules keep their names.
    let later = begins.replace("        print(said())", "        import calendar\n        print(said())");
    write("words/say.py", "def said():\n    return 'the word'\n");
    write("policy.py", &later);
    assert_eq!(build().code, 0);
    let ran = run();
    let why = "No module named 'calendar': what is imported in a function is to be imported at the top too at";
    assert!(ran.code == 3 && ran.stderr.contains(why), "{}", ran.stderr);
    assert!(ran.stderr.contains("> decide (policy.py:"), "{}", ran.stderr);
    write(
        "policy.py",
        &later.replace("from words.say", "try: import calendar\nexcept ImportError: pass\nfrom words.say"),
    );
    assert_eq!(build().code, 0);
    assert_eq!(run().code, 0);
    write("queue.py", "");
    let taken = "queue: Python's library has a module of that name";
    assert_eq!(build().code, 0);
    let ran = run();
    assert!(ran.code == 3 && ran.stderr.contains(taken), "{}", ran.stderr);
    let whole = sandtable(folder.path(), &["policy", "build", &name]);
    assert!(whole.code == 2 && whole.stderr.contains(taken), "{}", whole.stderr);
    assert!(!whole.stderr.contains("anyhow"), "{}", whole.stderr);
    std::fs::remove_file(folder.path().join(&name).join("queue.py")).expect("removed");
    let latin = folder.path().join(&name).join("words/latin.py");
    std::fs::write(&latin, b"# -*- coding: latin-1 -*-\nWORD = 'caf\xe9'\n").expect("written");
    let built = build();
    assert!(
        built.code == 2 && built.stderr.contains("words/latin.py: expected UTF-8, found other bytes at byte 37"),
        "{}",
        built.stderr
    );
    std::fs::remove_file(latin).expect("removed");
    write("words/say.py", &"#".repeat(300_000));
    let built = build();
    assert!(built.code == 2 && built.stderr.contains("there is room for"), "{}", built.stderr);
}

#[test]
fn only_policies_in_python_are_built_quickly() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = begin(folder.path(), "rust");
    let built = sandtable(folder.path(), &["policy", "build", &name, "--quick"]);
    assert!(built.code == 2 && built.stderr.contains("--quick is for policies in Python"), "{}", built.stderr);
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
