//! Policies that are scripts.

use std::path::Path;

use sandtable::execute::{Compiled, execute};
use sandtable::plan::{Options, Plan, plan};
use sandtable_hardware::random::Stream;

use crate::help::{cells, dist, planned, sandtable};

fn spec(jobs: u32, policies: &str) -> String {
    format!(
        "Experiment(title: \"scripts\", fleet: Model(nodes: 4, gpus: 4, kind: \"g\", speed: 1.0), workload: Generate(jobs: {jobs}, \
         arrivals: Poisson(load: 1.1), users: {{\"a\": 2, \"b\": 1}}), policies: [{policies}], \
         predictors: {{\"remaining\": Oracle}}, seeds: Range(0, 2))"
    )
}

/// A policy whose script stands in the spec.
fn inline(source: &str, more: &str) -> String {
    format!("Policy(name: \"script\", label: \"script\", with: {{\"source\": {source:?}{more}}})")
}

/// The rows of jobs and of the timeline of every cell of a policy.
fn tables(plan: &Plan) -> Vec<Vec<u8>> {
    let compiled = crate::help::compiled(plan);
    let mut all = Vec::new();
    for cell in &plan.cells {
        let executed = execute(cell, &compiled).expect("a result");
        assert!(
            executed.outcome.is_ok(),
            "{}: {:?}",
            cell.label,
            executed.outcome.as_ref().err().map(|of| &of.message)
        );
        let files = executed.files().expect("files");
        let named = |name: &&(String, Vec<u8>)| matches!(name.0.as_str(), "jobs.csv" | "timeline.csv");
        all.extend(files.iter().filter(named).map(|(_, bytes)| bytes.clone()));
    }
    all
}

#[test]
fn scripts_give_the_schedules_of_shipped_policies_to_the_byte() {
    let pairs = [
        ("Policy(name: \"fifo\")", "def key(job, c): return job.submitted", ", \"backfill\": \"none\""),
        (
            "Policy(name: \"fifo\", with: {\"backfill\": \"easy\"})",
            "def order(job, c): return job.submitted",
            ", \"backfill\": \"easy\"",
        ),
        (
            "Policy(name: \"fifo\")",
            "def decide(waiting, running, nodes, c):\n    actions, free = [], c.free\n    for job in waiting:\n        \
             if job.gpus > free: break\n        free -= job.gpus\n        actions.append(start(job))\n    return actions",
            "",
        ),
        ("Policy(name: \"sjf\")", "def key(job, c): return job.remaining", ""),
        ("Policy(name: \"sjf\")", "def key(job, c): return (job.remaining, 0)", ""),
        ("Policy(name: \"srtf\")", "PREEMPT = True\ndef order(job, c): return job.remaining", ""),
        (
            "Policy(name: \"las\", with: {\"round\": 60, \"within\": \"submitted\"})",
            "PREEMPT = True\nEVERY = 60\nON_EVENTS = False\ndef order(job, c):\n    \
             return (len([limit for limit in params[\"limits\"] if job.attained >= limit]), job.submitted)",
            ", \"params\": {\"limits\": [3250, 7200]}",
        ),
    ];
    for (shipped, source, more) in pairs {
        let tables = |policy: &str| tables(&planned(&spec(300, policy)).unwrap_or_else(|error| panic!("{error}")));
        assert!(tables(shipped) == tables(&inline(source, more)), "{shipped} and {source} differ");
    }
}

fn planned_in(folder: &Path) -> Result<Plan, String> {
    let options = Options { policies: Some(dist().into()), ..Options::default() };
    plan(&folder.join("spec.ron"), &options).map_err(|error| error.to_string())
}

#[test]
fn a_file_is_part_of_what_a_cell_is_and_goes_into_its_bundle() {
    let folder = tempfile::tempdir().expect("a folder");
    let id = |script: &str| {
        std::fs::write(folder.path().join("mine.star"), script).expect("written");
        std::fs::write(folder.path().join("spec.ron"), spec(20, "Policy(name: \"mine.star\")")).expect("written");
        let plan = planned_in(folder.path()).expect("a plan");
        assert_eq!(plan.cells[0].label, "mine");
        (plan.cells[0].id.clone(), plan.files)
    };
    let (first, files) = id("def key(job, c): return job.gpus\n");
    assert!(files.contains("mine.star"), "{files:?}");
    assert_ne!(first, id("def key(job, c): return -job.gpus\n").0);
    // It is the same policy as one that has the text itself.
    std::fs::write(folder.path().join("spec.ron"), spec(20, &inline("def key(job, c): return -job.gpus\n", "")))
        .expect("written");
    let within = planned_in(folder.path()).expect("a plan").cells[0].id.clone();
    assert_eq!(within, id("def key(job, c): return -job.gpus\n").0);
    let dist = dist();
    let run = |args: &[&str]| {
        let ran = sandtable(folder.path(), args);
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        ran.stdout
    };
    run(&["run", "spec.ron", "--store", "store", "--policies", &dist]);
    assert_eq!(cells(&folder.path().join("store")).iter().filter(|(path, _)| path.ends_with("jobs.csv")).count(), 2);
    run(&["bundle", "spec.ron", "--store", "store", "--policies", &dist, "-o", "b.tar.zst"]);
    let twice = spec(20, "Policy(name: \"mine.star\", with: {\"source\": \"\"})");
    std::fs::write(folder.path().join("spec.ron"), twice).expect("written");
    assert!(planned_in(folder.path()).err().is_some_and(|why| why.contains("the script is said twice")));
    std::fs::write(folder.path().join("spec.ron"), spec(20, "Policy(name: \"none.star\")")).expect("written");
    assert!(planned_in(folder.path()).err().is_some_and(|why| why.contains("none.star")));
}

/// The interpreter, compiled once.
fn compiled() -> Compiled {
    let plan = planned(&spec(1, "Policy(name: \"script\")")).unwrap_or_else(|error| panic!("{error}"));
    crate::help::compiled(&plan)
}

/// What came of a script: nothing, or a fault's kind and words.
fn fault(compiled: &Compiled, source: &str) -> Option<(String, String)> {
    let plan = planned(&spec(30, &inline(source, ""))).unwrap_or_else(|error| panic!("{error}"));
    let executed = execute(&plan.cells[0], compiled).unwrap_or_else(|error| panic!("{source:?}: {error}"));
    executed.outcome.err().map(|failure| (failure.kind, failure.message))
}

#[test]
fn faults_have_their_place_and_no_script_goes_on_for_ever() {
    let compiled = compiled();
    let fault = |source: &str| fault(&compiled, source);
    let (kind, words) = fault("def key(job, c):\n    x = job.gpus\n    return x + job.nope\n").expect("a fault");
    let place = "`key`: line 3, column 16, at `job.nope`: Object of type `job` has no attribute `nope`";
    assert!(kind == "refused-internal" && words.contains(place), "{kind}: {words}");
    let endless = "def key(job, c):\n    n = 0\n    for a in range(1000000):\n        for b in range(1000000):\n            n += 1\n    return n\n";
    let (kind, words) = fault(endless).expect("a fault");
    assert_eq!(kind, "out-of-fuel");
    let inner = ["line 4, column 9, at `for b in range(1000000):`: ", "line 5, column 13, at `n += 1`: "];
    assert!(inner.iter().any(|place| words.starts_with(&format!("{place}ran out of fuel in decide"))), "{words}");
    // One statement of a few.
    let heavy =
        "def order(job, c):\n    x = job.gpus\n    y = sum([a * a for a in range(1000000000)])\n    return x + y\n";
    let (kind, words) = fault(heavy).expect("a fault");
    assert!(kind == "memory" || kind == "out-of-fuel", "{kind}");
    assert!(words.starts_with("line 3, column 5, at `y = sum("), "{words}");
    // As it is read.
    let (_, words) = fault("a = 1\nb = [a for n in range(1000000000)]\ndef key(job, c): return 0").expect("a fault");
    assert!(words.starts_with("line 2, column 1, at `b = [a for n in range(1000000000)]`: "), "{words}");
    let (_, words) = fault("def key(job, c): return math.log(-1.0)").expect("a fault");
    assert!(words.contains("`key`: of job 0: expected a number, found NaN"), "{words}");
    let (_, words) = fault("def key(job, c): return \"soon\"").expect("a fault");
    assert!(words.contains("expected a number, up to 4 of them, or None, found \"soon\""), "{words}");
    // Values that nothing refers to are given back: this makes some 100 MB of them in all.
    assert_eq!(fault("def order(job, c): return len([n for n in range(20000)]) + job.gpus"), None);
}

#[test]
fn a_script_is_checked_inspected_and_measured_by_its_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("mine.star", "\u{feff}def key(job, c): return job.submitted\n");
    write("empty.star", "");
    let run = |args: &[&str]| sandtable(folder.path(), args);
    let checked = run(&["policy", "check", "mine.star", "--histories", "1"]);
    assert_eq!(checked.code, 0, "{}", checked.stdout);
    let empty = run(&["policy", "check", "empty.star", "--histories", "1"]);
    assert!(empty.code == 1 && empty.stdout.contains("found none"), "{}", empty.stdout);
    // What is wrong is drawn at its place, once for all checks that fall over it; so it is before a run, and after one.
    write("wrong.star", "def key(job, c):\n    return job.nope\n");
    let wrong = run(&["policy", "check", "wrong.star", "--histories", "1"]);
    let place = "wrong.star:2:12\n  |\n2 |     return job.nope\n  |            ^^^^^^^^ here";
    assert!(wrong.code == 1 && wrong.stderr.matches(place).count() == 1, "{}", wrong.stderr);
    write("spec.ron", &spec(2, "Policy(name: \"./wrong.star\")"));
    let ran = run(&["run", "spec.ron", "--store", "store"]);
    assert!(ran.code == 3 && ran.stderr.contains("script of wrong:2:12"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("at function"), "the interpreter has no names: {}", ran.stderr);
    let store = folder.path().join("store");
    let capsule = cells(&store).into_iter().find(|(path, _)| path.ends_with("capsule.json.zst")).expect("a capsule");
    let replayed = run(&["policy", "replay", &store.join(capsule.0).display().to_string()]);
    assert!(replayed.code == 0 && replayed.stdout.contains("script:2:12"), "{}{}", replayed.stdout, replayed.stderr);
    write("wrong.star", "def key(job, c)\n");
    let planned = run(&["plan", "spec.ron", "--store", "store"]);
    assert!(planned.code != 0 && planned.stderr.contains("script of wrong:1:16"), "{}", planned.stderr);
    assert!(run(&["policy", "inspect", "mine.star"]).stdout.contains("script"));
    let bench = run(&["policy", "bench", "mine.star", "--jobs", "10", "--gpus", "8"]);
    assert!(bench.code == 0 && bench.stdout.contains("fuel"), "{}{}", bench.stdout, bench.stderr);
}

#[test]
fn changed_scripts_end_in_results_or_in_faults_that_have_a_name() {
    let whole = "LIMITS = [3250, 7200]\ndef order(job, c):\n    x = [1.0, math.log2(job.gpus), (job.remaining or 60.0) / 3600, job.waited]\n    \
                 return (sum([a * b for a, b in zip(x, [1, 2, 3, -1])]), len([l for l in LIMITS if job.attained >= l]))\n\
                 def place(job, nodes, c):\n    for node in nodes:\n        if node.free >= job.gpus: return [node.id] * job.gpus\n    return None\n";
    let compiled = compiled();
    let (mut stream, mut kinds) = (Stream::new(7, "scripts"), std::collections::BTreeMap::new());
    for _ in 0..500 {
        let mut text: Vec<u8> = whole.bytes().collect();
        for _ in 0..1 + stream.integer() % 3 {
            let at = (stream.integer() % text.len() as u64) as usize;
            match stream.integer() % 3 {
                0 => drop(text.remove(at)),
                1 => text[at] = b" \n()[]+-*/:=,.0129abcdefjlnorstuvwx\"#%<>"[(stream.integer() % 40) as usize],
                _ => {
                    let other = (stream.integer() % text.len() as u64) as usize;
                    text.swap(at, other);
                }
            }
        }
        let text = String::from_utf8(text).expect("letters");
        let kind = fault(&compiled, &text).map_or_else(|| "none".to_string(), |(kind, _)| kind);
        *kinds.entry(kind).or_insert(0) += 1;
    }
    let known = ["none", "refused-configuration", "refused-internal", "bad-plan", "out-of-fuel"];
    assert!(kinds.keys().all(|kind| known.contains(&kind.as_str())), "{kinds:?}");
    assert!(kinds.get("none").is_some_and(|count| *count > 10), "{kinds:?}");
}
