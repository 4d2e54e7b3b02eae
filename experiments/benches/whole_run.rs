//! A whole run, sandboxed against the same policy compiled in. The throughput printed is in calls of `decide`.
//!
//! The workload is the Philly trace on 2,500 GPUs where a copy is in `../shared/data`, else a drawn one of its shape.
//! Results must be equal: a ratio between different schedules would mean nothing.

mod native;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput};
use native::Native;
use sandtable::execute::{Extras, simulate};
use sandtable::plan::{Cell, Options, plan};
use sandtable_hardware::Job;
use sandtable_runtime::contract::Quantity;
use sandtable_runtime::sandbox::{Sandbox, Sandboxed, Settings};
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

fn whole_run(criterion: &mut Criterion) {
    let sandbox = Sandbox::new(&Settings::default()).expect("an engine");
    let (workload, cells) = cells();
    let mut group = criterion.benchmark_group(workload);
    group.sample_size(10);
    for cell in &cells {
        let component = sandbox.load(&cell.policy.bytes).expect("a policy");
        let fresh = || Sandboxed::new(&component, cell.setting.limits).expect("an instance");
        let jobs = cell.jobs().expect("jobs");
        let sandboxed = once(cell, &jobs, &mut fresh());
        group.throughput(Throughput::Elements(sandboxed.0));
        assert_eq!(sandboxed, once(cell, &jobs, native(&cell.label).as_mut()), "the schedules differ");
        group.bench_function(BenchmarkId::new(&cell.label, "sandboxed"), |b| {
            b.iter(|| black_box(once(cell, &jobs, &mut fresh())));
        });
        group.bench_function(BenchmarkId::new(&cell.label, "native"), |b| {
            b.iter(|| black_box(once(cell, &jobs, native(&cell.label).as_mut())));
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    whole_run(&mut criterion);
    criterion.final_summary();
}
