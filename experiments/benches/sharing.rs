//! 10,000 jobs that share 512 GPUs: wall time of a run, and what part of it the policy takes, predictors included.

use std::path::Path;
use std::time::{Duration, Instant};

use sandtable::execute::{Compiled, simulate};
use sandtable::plan::{Options, plan};
use sandtable_runtime::contract::{Batch, Descriptor, Plan, Readiness, Setup};
use sandtable_runtime::sandbox::{Fault, Sandbox, Sandboxed, Settings};
use sandtable_runtime::{Policy, World};

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
    fn decide(&mut self, batch: &Batch, world: Box<World>) -> (Box<World>, Result<Plan, Fault>) {
        let begun = now();
        let answer = self.inner.decide(batch, world);
        self.spent += begun.elapsed();
        answer
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn main() {
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("specs/geng2020/v100.ron");
    let set = [("fleet.nodes", "128"), ("workload.jobs", "10000"), ("seeds", "Range(0, 1)")];
    let set = set.map(|(path, value)| (path.to_string(), value.to_string())).to_vec();
    let plan = plan(&spec, &Options { set, ..Options::default() }).expect("a plan");
    let sandbox = Sandbox::new(&Settings::default()).expect("an engine");
    println!("load  policy              wall s  in the policy  calls");
    for cell in &plan.cells {
        let component = sandbox.load(&cell.policy.bytes).expect("a component");
        let inner = Sandboxed::new(&component, cell.setting.limits).expect("an instance");
        let mut policy = Timed { inner, spent: Duration::ZERO };
        let compiled = Compiled::new(&Settings::default(), std::iter::once(cell)).expect("components");
        let predictors = compiled.predictors(cell).expect("predictors");
        let begun = now();
        let finished = simulate(cell, cell.jobs().expect("jobs"), &mut policy, predictors, None).expect("a run");
        let wall = begun.elapsed().as_secs_f64();
        assert!(finished.fault.is_none(), "{:?}", finished.fault);
        let part = policy.spent.as_secs_f64() / wall * 100.0;
        let load = cell.variant.first().map_or("", |(_, value)| value.as_str());
        println!("{load:<5} {:<19} {wall:>6.2} {part:>12.0} % {:>6}", cell.label, finished.calls);
    }
}
