//! Specs in JSON, and from standard input.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use sandtable::plan::{Options, plan};

use crate::help::{Ran, command, dist, root};

fn ids(path: &Path) -> Vec<String> {
    let options = Options { policies: Some(dist().into()), ..Options::default() };
    let plan = plan(path, &options).unwrap_or_else(|error| panic!("{error}"));
    plan.cells.iter().map(|cell| cell.id.clone()).collect()
}

#[test]
fn json_gives_the_cells_that_ron_gives() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let ron = "Experiment(title: \"t\", fleet: Model(nodes: 2, gpus: 4, kind: \"T4\", sharing: Packed(2)), \
        workload: Generate(jobs: 5, arrivals: Poisson(load: 0.9), gpus: {1: 3, 2: 1}, users: {\"a\": 1}, declared: 0.5), \
        policies: [Policy(name: \"sjf\", with: {\"backfill\": \"none\"}), Policy(name: \"las\", with: {\"limits\": [1, 2.5]})], \
        predictors: {\"remaining\": Noisy(sigma: 0.5)}, reveal: [DeclaredRunTime], costs: Costs(start: \"5s\"), \
        semantics: Semantics(ties: Shuffled), sweep: {\"fleet.nodes\": [1, 2]}, seeds: Range(0, 2))";
    let json = r#"{"title": "t", "fleet": {"Model": {"nodes": 2, "gpus": 4, "kind": "T4", "sharing": {"Packed": 2}}},
        "workload": {"Generate": {"jobs": 5, "arrivals": {"Poisson": {"load": 0.9}}, "gpus": {"1": 3, "2": 1}, "users": {"a": 1},
            "declared": 0.5}},
        "policies": [{"name": "sjf", "with": {"backfill": "none"}}, {"name": "las", "with": {"limits": [1, 2.5]}}],
        "predictors": {"remaining": {"Noisy": {"sigma": 0.5}}}, "reveal": ["DeclaredRunTime"], "costs": {"start": "5s"},
        "semantics": {"ties": "Shuffled"}, "sweep": {"fleet.nodes": [1, 2]}, "seeds": {"Range": [0, 2]}}"#;
    let found = ids(&write("spec.json", json));
    assert_eq!(found, ids(&write("spec.ron", ron)));
    assert_eq!(found.len(), 8);
}

fn piped(text: &str, args: &[&str]) -> Ran {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = command(folder.path(), args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command runs");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
    let ran = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: ran.status.code().unwrap_or(-1), stdout: text(ran.stdout), stderr: text(ran.stderr) }
}

#[test]
fn a_spec_may_come_from_standard_input() {
    let quickstart = std::fs::read_to_string(root().join("experiments/specs/quickstart.ron")).expect("a spec");
    let dist = dist();
    let args = ["run", "-", "--test", "--store", "store", "--policies", &dist];
    let ran = piped(&quickstart, &args);
    assert!(ran.code == 0 && ran.stdout.contains("JCT mean"), "{}{}", ran.stdout, ran.stderr);
    let json = r#"{"title": "t", "fleet": {"Model": {"nodes": 1, "gpus": 4, "kind": "T4"}}, "workload": {"Generate": {"jobs": 5}},
        "policies": [{"name": "fifo"}]}"#;
    let ran = piped(json, &args);
    assert!(ran.code == 0 && ran.stderr.contains("1 cells executed"), "{}{}", ran.stdout, ran.stderr);
    // A mistake has its place in what was written.
    let ran = piped(&json.replace("\"jobs\": 5", "\"jobs\": \"five\""), &args);
    assert!(
        ran.code == 2 && ran.stderr.contains("workload.Generate.jobs: invalid type") && ran.stderr.contains("-:1:"),
        "{}",
        ran.stderr
    );
    // So has one of what it means.
    let ran = piped(&json.replace("\"gpus\": 4", "\"gpus\": 0"), &args);
    assert!(
        ran.code == 2 && ran.stderr.contains("found 0") && ran.stderr.contains("{\"nodes\": 1, \"gpus\": 0"),
        "{}",
        ran.stderr
    );
    let ran = piped("{\"title\"", &args);
    assert!(ran.code == 2 && ran.stderr.contains("no JSON: EOF"), "{}", ran.stderr);
}
