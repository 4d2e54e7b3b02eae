//! The same bytes however code is made and instances are kept, and on however many threads: 64 ways for one experiment with
//! policies, predictors and floats, wasmtime's interpreter for the cuts of all.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use sandtable::error::Error;
use sandtable::execute::{Compiled, Workers, execute, in_parallel};
use sandtable::input::sorted;
use sandtable::plan::{Cell, Options, Plan, plan};
use sandtable_needs::needs;
use sandtable_runtime::sandbox::{Settings, Variation};

use crate::help::{dist, root, settings, told};

/// A policy that asks a predictor, on a profile of measured pairs.
const SPEC: &str = "Experiment(title: \"ways\", fleet: Model(nodes: 2, gpus: 4, kind: \"RTX-3090\", speed: 1.0, sharing: Packed(2)), \
    profile: File(\"synthetic.ron\"), interference: Interference(noise: true), reveal: [SoloProfile, Memory], \
    workload: Generate(jobs: 20, arrivals: Poisson(load: 1.2), durations: LogNormal(median: \"30min\", sigma: 1.0), gpus: {1: 0.7, 2: 0.3}), \
    policies: [Policy(name: \"clwp-nlwp\")], seeds: Range(0, 2), \
    predictors: {\"similarity\": Component(name: \"bias\", weights: \"bias-synthetic.json\"), \
    \"pair-speed\": Component(name: \"bias\", weights: \"bias-synthetic.json\")})";

/// The cells of a spec's cut, some of each label.
fn cut(spec: &Path, of_each: usize) -> Plan {
    // What really runs on devices is left out.
    let options = Options { test: true, policies: Some(dist().into()), elsewhere: true, ..Options::default() };
    let mut plan = plan(spec, &options).expect("a plan");
    let mut kept: Vec<String> = Vec::new();
    plan.cells.retain(|cell| {
        kept.push(cell.label.clone());
        kept.iter().filter(|label| **label == cell.label).count() <= of_each && cell.backend.is_reproducible()
    });
    plan
}

fn compiled(plan: &Plan, variation: Variation) -> Compiled {
    let settings = Settings { variation, ..settings() };
    Compiled::new(&settings, plan.cells.iter()).expect("compiled")
}

/// blake3 of every file of every cell.
fn hash(plan: &Plan, compiled: &Compiled, threads: usize) -> String {
    let cells: Vec<&Cell> = plan.cells.iter().collect();
    assert!(!cells.is_empty());
    let workers = Workers { threads, stop: &AtomicBool::new(false), done: &|_| {} };
    let of = |cell: &Cell| -> Result<blake3::Hash, Error> {
        let mut hasher = blake3::Hasher::new();
        let executed = execute(cell, compiled)?;
        // Ways that fail alike are not compared.
        assert!(executed.outcome.is_ok(), "{} seed {}", cell.label, cell.seed);
        for (name, bytes) in executed.files()? {
            hasher.update(name.as_bytes()).update(blake3::hash(&bytes).as_bytes());
        }
        Ok(hasher.finalize())
    };
    let all = in_parallel(&cells, &workers, of).expect("results");
    let mut hasher = blake3::Hasher::new();
    for one in all.iter().flatten() {
        hasher.update(one.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

#[test]
fn a_hundred_and_twenty_eight_ways_to_run_give_one_hash() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = folder.path().join("spec.ron");
    std::fs::write(&spec, SPEC).expect("written");
    let plan = cut(&spec, 2);
    let expected = hash(&plan, &compiled(&plan, Variation::default()), 1);
    for way in 0..64_u32 {
        let on = |bit: u32| way >> bit & 1 == 1;
        let variation = Variation {
            canonical_nan: on(0),
            plain: on(1),
            interpreted: on(2),
            pooled: on(3),
            copied: on(4),
            component: on(5),
        };
        let compiled = compiled(&plan, variation);
        for threads in [1, 2] {
            assert_eq!(hash(&plan, &compiled, threads), expected, "{variation:?} on {threads} threads");
        }
    }
}

/// What no code of this machine computes is what all snapshots are of; and so is what crosses by wasmtime's component layer.
#[needs("env:SANDTABLE_SLOW_TESTS")]
#[test]
fn the_interpreter_and_the_component_layer_give_the_results_of_every_spec() {
    fn specs(folder: &Path, found: &mut Vec<PathBuf>) {
        for path in sorted(folder).expect("a folder") {
            if path.is_dir() && !path.ends_with("profiles") {
                specs(&path, found);
            // Whoever has a GPU measures that spec's profile first.
            } else if path.extension().is_some_and(|end| end == "ron") && !path.ends_with("hardware/gpu.ron") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    specs(&root().join("experiments/specs"), &mut found);
    let interpreted = Variation { interpreted: true, ..Variation::default() };
    let layered = Variation { component: true, ..Variation::default() };
    let mut cells = 0;
    for spec in found {
        let plan = cut(&spec, usize::MAX);
        if plan.cells.is_empty() {
            continue;
        }
        cells += plan.cells.len();
        let [usual, interpreted, layered] =
            [Variation::default(), interpreted, layered].map(|way| hash(&plan, &compiled(&plan, way), 2));
        assert_eq!(usual, interpreted, "{}, interpreted", spec.display());
        assert_eq!(usual, layered, "{}, through the component layer", spec.display());
    }
    assert!(cells > 400, "{cells} cells were compared");
    told(&format!("{cells} cells gave the same bytes in the interpreter and through the component layer"));
}
