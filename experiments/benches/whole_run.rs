//! A whole run: the policy compiled in, its component called through its core module (as runs do), and through wasmtime's
//! component layer (`verify --abi component`); times in milliseconds, and ratios to the policy compiled in.
//!
//! The workload is the Philly trace on 2,500 GPUs where a copy is in `../shared/data`, else a drawn one of its shape.
//! Results must be equal: a ratio between different schedules would mean nothing.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock, and prints")]

mod native;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use native::Native;
use sandtable::execute::{Extras, simulate};
use sandtable::plan::{Cell, Options, plan};
use sandtable_hardware::Job;
use sandtable_runtime::contract::Quantity;
use sandtable_runtime::sandbox::{Sandbox, Sandboxed, Settings, Variation};
use sandtable_runtime::{Policy, Predictors, Summary};

fn cells() -> (&'static str, Vec<Cell>) {
    let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("specs/philly");
    match plan(&specs.join("speed.ron"), &Options::default()) {
        Ok(plan) => ("philly-2500-gpus", plan.cells),
        Err(_) => {
            let plan = plan(&specs.join("shape.ron"), &Options::default()).expect("the generated workload");
            ("philly-shape-2500-gpus", plan.cells)
        }
    }
}

fn once(cell: &Cell, jobs: &Arc<[Job]>, policy: &mut dyn Policy) -> (u64, Summary) {
    let remaining = cell.predictors.of(Quantity::Remaining).remaining(cell.seed);
    let predictors = Predictors::new(remaining);
    let finished = simulate(cell, jobs.clone(), policy, predictors, Extras::default()).expect("conservation");
    assert_eq!(finished.fault, None);
    (finished.calls, Summary::of(&finished.ledger))
}

fn native(name: &str) -> Box<dyn Policy> {
    match name {
        "fifo" => Box::new(Native::<fifo::Fifo>::new()),
        "las" => Box::new(Native::<las::Las>::new()),
        _ => Box::new(Native::<srtf::Srtf>::new()),
    }
}

/// Whole runs of each way, one after the other: what else the machine does hits all of them.
const ROUNDS: usize = 9;

fn main() {
    let sandbox = |component| {
        let variation = Variation { component, ..Variation::default() };
        Sandbox::new(&Settings { variation, ..Settings::default() }).expect("an engine")
    };
    let (direct, layered) = (sandbox(false), sandbox(true));
    let (workload, cells) = cells();
    println!("{workload}, the least of {ROUNDS} runs in turn");
    println!("{:<8}{:>10}{:>12}{:>18}{:>18}", "policy", "calls", "native ms", "core module ms", "component ms");
    for cell in &cells {
        let [direct, layered] = [&direct, &layered].map(|sandbox| sandbox.load(&cell.policy.bytes).expect("a policy"));
        let jobs = cell.jobs().expect("jobs");
        let mut least = [f64::INFINITY; 3];
        let mut first = None;
        for _ in 0..ROUNDS {
            for (way, least) in least.iter_mut().enumerate() {
                let mut policy: Box<dyn Policy> = match way {
                    0 => native(&cell.label),
                    1 => Box::new(Sandboxed::new(&direct, cell.setting.limits).expect("an instance")),
                    _ => Box::new(Sandboxed::new(&layered, cell.setting.limits).expect("an instance")),
                };
                let began = Instant::now();
                let found = black_box(once(cell, &jobs, policy.as_mut()));
                *least = least.min(began.elapsed().as_secs_f64() * 1e3);
                assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "the schedules differ");
            }
        }
        let [native, direct, layered] = least;
        let calls = first.map_or(0, |(calls, _)| calls);
        let ratio = |ms: f64| format!("{ms:.0} ({:.2})", ms / native);
        println!("{:<8}{calls:>10}{native:>12.0}{:>18}{:>18}", cell.label, ratio(direct), ratio(layered));
    }
}
