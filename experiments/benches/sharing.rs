//! 10,000 jobs that share 512 GPUs, a month on 1,024, and 160 elastic jobs beside tasks on 64: wall time of a run, and
//! what part of it the policy takes, predictors included.

use std::path::Path;
use std::time::{Duration, Instant};

use sandtable::execute::{Compiled, Extras, simulate};
use sandtable::plan::{Cell, Options, plan};
use sandtable_runtime::contract::{Batch, Descriptor, Plan, Readiness, Setup};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::sandbox::{Sandbox, Sandboxed, Settings};
use sandtable_runtime::{DecisionContext, Policy};

/// A policy under a stop-watch.
struct Timed<P> {
    inner: P,
    spent: Duration,
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> Instant {
    Instant::now()
}

impl<P: Policy> Policy for Timed<P> {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        self.inner.describe()
    }
    fn init(&mut self, setup: &Setup) -> Result<Readiness, Fault> {
        self.inner.init(setup)
    }
    fn decide(&mut self, batch: &Batch, world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        let begun = now();
        let answer = self.inner.decide(batch, world);
        self.spent += begun.elapsed();
        answer
    }
}

/// A spec of `experiments/specs`, and what is set in it.
type Case = (&'static str, &'static [(&'static str, &'static str)]);

const CASES: [Case; 3] = [
    ("geng2020/v100.ron", &[("fleet.nodes", "128"), ("workload.jobs", "10000"), ("seeds", "Range(0, 1)")]),
    ("horus2022/month.ron", &[]),
    ("deepboot2023/loan.ron", &[("seeds", "Range(0, 1)")]),
];

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn main() {
    println!("{:<20} {:<6} {:<19} wall s  in the policy  calls", "spec", "load", "policy");
    for (spec, set) in CASES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("specs").join(spec);
        let set = set.iter().map(|(path, value)| ((*path).to_string(), (*value).to_string())).collect();
        let plan = plan(&path, &Options { set, ..Options::default() }).expect("a plan");
        for cell in &plan.cells {
            measure(spec, cell);
        }
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn measure(spec: &str, cell: &Cell) {
    let sandbox = Sandbox::new(&Settings::default()).expect("an engine");
    let component = sandbox.load(&cell.policy.bytes).expect("a component");
    let inner = Sandboxed::new(&component, cell.setting.limits).expect("an instance");
    let mut policy = Timed { inner, spent: Duration::ZERO };
    let compiled = Compiled::new(&Settings::default(), std::iter::once(cell)).expect("components");
    let predictors = compiled.predictors(cell).expect("predictors");
    let begun = now();
    let finished =
        simulate(cell, cell.jobs().expect("jobs"), &mut policy, predictors, Extras::default()).expect("a run");
    let wall = begun.elapsed().as_secs_f64();
    assert!(finished.fault.is_none(), "{:?}", finished.fault);
    let part = policy.spent.as_secs_f64() / wall * 100.0;
    let load = cell.variant.first().map_or("", |(_, value)| value.as_str());
    println!("{spec:<20} {load:<6} {:<19} {wall:>6.2} {part:>12.0} % {:>6}", cell.label, finished.calls);
}
