//! Jobs scored by a neural network whose weights are a file that the spec names.

use std::path::Path;

use sandtable::plan::{Options, Plan, plan};
use sandtable_results::schema::JobRecord;

use crate::help::{dist, results, sandtable};

/// A network of one layer: the weight of each input.
fn network(inputs: &[(&str, f64)]) -> String {
    let (names, weights): (Vec<&str>, Vec<f64>) = inputs.iter().copied().unzip();
    format!(r#"{{"inputs": {names:?}, "hidden": "tanh", "layers": [{{"weights": [{weights:?}], "bias": [0]}}]}}"#)
}

/// Writes weights and a spec in which a policy of that name is asked for with them.
fn written(folder: &Path, weights: &str, policy: &str) {
    std::fs::write(folder.join("weights.json"), weights).expect("written");
    let spec = format!(
        "Experiment(title: \"scores\", fleet: Model(nodes: 2, gpus: 4, kind: \"g\", speed: 1.0), workload: Generate(jobs: 300, \
         arrivals: Poisson(load: 1.2), gpus: {{1: 3, 2: 1, 4: 1}}), policies: [{policy}], predictors: {{\"remaining\": Oracle}})"
    );
    std::fs::write(folder.join("spec.ron"), spec).expect("written");
}

fn planned(folder: &Path) -> Plan {
    let options = Options { policies: Some(dist().into()), ..Options::default() };
    plan(&folder.join("spec.ron"), &options).unwrap_or_else(|error| panic!("{error}"))
}

/// When each job started, under a policy.
fn starts(weights: &str, policy: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    written(folder.path(), weights, policy);
    let (_, rows) = results::<JobRecord>(&planned(folder.path()));
    rows.iter().map(|row| format!("{:?} on {}", row.first_start_s, row.last_placement)).collect()
}

const MLP: &str = "Policy(name: \"mlp\", weights: \"./weights.json\")";

#[test]
fn a_network_that_knows_one_thing_is_the_policy_of_that_order() {
    let shortest = network(&[("gpus", 0.0), ("seconds", -1.0)]);
    let sjf = starts(&shortest, "Policy(name: \"sjf\")");
    assert_eq!(starts(&shortest, MLP), sjf);
    let longest_waiting = network(&[("waited", 0.5), ("free", 3.0)]);
    let fifo = starts(&longest_waiting, "Policy(name: \"fifo\", with: {\"backfill\": \"skip\"})");
    assert_eq!(starts(&longest_waiting, MLP), fifo);
    assert_ne!(fifo, sjf, "the workload tells them apart");
    let blocking = "Policy(name: \"mlp\", weights: \"./weights.json\", with: {\"backfill\": \"none\"})";
    assert_eq!(
        starts(&longest_waiting, blocking),
        starts("", "Policy(name: \"fifo\", with: {\"backfill\": \"none\"})")
    );
}

#[test]
fn weights_are_part_of_what_a_cell_is_and_go_into_its_bundle() {
    let folder = tempfile::tempdir().expect("a folder");
    let id = |weights: &str| {
        written(folder.path(), weights, MLP);
        planned(folder.path()).cells[0].id.clone()
    };
    let (one, other) = (network(&[("gpus", 1.0)]), network(&[("gpus", 1.5)]));
    assert_ne!(id(&one), id(&other));
    assert_eq!(id(&one), id(&one));
    let run = |args: &[&str]| sandtable(folder.path(), args);
    let dist = dist();
    let ran = run(&["run", "spec.ron", "--policies", &dist, "--store", "store"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let bundled = run(&["bundle", "spec.ron", "--policies", &dist, "--store", "store", "-o", "a.tar.zst"]);
    assert_eq!(bundled.code, 0, "{}", bundled.stderr);
    // Elsewhere, where the file is gone.
    std::fs::remove_file(folder.path().join("weights.json")).expect("removed");
    let verified = run(&["verify", "a.tar.zst"]);
    assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
}
