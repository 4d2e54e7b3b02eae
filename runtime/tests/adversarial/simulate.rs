//! Runs a guest over a small cluster, and says in one line how that ended.

use std::sync::{Arc, LazyLock};

use sandtable_hardware::{Costs, Fleet, GpuType, Instant, Job, PerformanceModel, SECOND, SimulatedBackend, TypeId};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::inputs::{Inputs, Reveal};
use sandtable_runtime::limits::Limits;
use sandtable_runtime::sandbox::{Sandbox, Sandboxed, Settings, Variation};
use sandtable_runtime::schedule::{Finished, run};
use sandtable_runtime::{Policy, Predictors, Remaining};

use crate::guest::{Parts, guest};

/// One engine for all tests.
pub static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| Sandbox::new(&Settings::default()).expect("an engine"));

/// One that calls through wasmtime's component layer.
pub static LAYERED: LazyLock<Sandbox> = LazyLock::new(|| {
    let variation = Variation { component: true, ..Variation::default() };
    Sandbox::new(&Settings { variation, ..Settings::default() }).expect("an engine")
});

/// When the last job comes: until then a policy has a reason to wait.
pub const LAST: u64 = 3_600_000_000;

/// The usual limits with little fuel, so that endless loops end soon.
pub fn limits() -> Limits {
    Limits { start_fuel: 10_000_000, init_fuel: 10_000_000, decide_fuel: 10_000_000, ..Limits::default() }
}

/// GPUs 0 to 3 are of type a, 4 to 7 of type b.
pub fn fleet() -> Fleet {
    let kind = |name: &str| GpuType::new(name, 1.0);
    Fleet::new(&[(1, 4, kind("a")), (1, 4, kind("b"))], Costs::default(), None).expect("a fleet")
}

/// 0: small. 1: two GPUs of type a. 2: must not be preempted, ends first. 3: two GPUs. 4: comes last.
pub fn jobs() -> Arc<[Job]> {
    let job = |submit, gpus, seconds, gpu_types: &[u32], preemptible| {
        Job::new("", submit, gpus, seconds * SECOND).asking(|request| {
            request.gpu_types = TypeId::list(gpu_types.to_vec());
            request.preemptible = preemptible;
        })
    };
    Arc::new([
        job(Instant::START, 1, 10, &[], true),
        job(Instant::START, 2, 10, &[0], true),
        job(Instant::START, 1, 5, &[], false),
        job(Instant::START, 2, 10, &[], true),
        job(Instant::from_micros(LAST), 1, 10, &[], true),
    ])
}

/// What a run is given.
pub fn inputs(limits: Limits) -> Inputs {
    Inputs {
        seed: 7,
        predictors: Predictors::new(Remaining::Oracle),
        reveal: Reveal { declared_run_time: true, ..Reveal::default() },
        keep_segments: false,
        ..Inputs::plain(jobs(), limits)
    }
}

/// Runs an instance.
pub fn simulate(policy: &mut dyn Policy, inputs: Inputs) -> Finished {
    let backend = Box::new(SimulatedBackend::new(fleet(), inputs.jobs.clone(), &PerformanceModel::none(), 0));
    run(policy, backend, inputs).expect("the ledger balances")
}

/// Brings these bytes to life.
pub fn instance(bytes: &[u8], limits: Limits) -> Result<Sandboxed, Fault> {
    Sandboxed::new(&SANDBOX.load(bytes)?, limits)
}

/// Runs these bytes; the instance too, where there is one. Called through the component layer they end in the same way.
pub fn play_bytes(bytes: &[u8], inputs: Inputs) -> (Option<Sandboxed>, Result<Finished, Fault>) {
    // All that a test changes.
    let Inputs { strict, limits, .. } = inputs;
    let (_, layered) = play_in(&LAYERED, bytes, Inputs { strict, ..self::inputs(limits) });
    let (policy, outcome) = play_in(&SANDBOX, bytes, inputs);
    assert_eq!(line("direct", &outcome), line("direct", &layered), "direct, and through the component layer");
    (policy, outcome)
}

fn play_in(sandbox: &Sandbox, bytes: &[u8], inputs: Inputs) -> (Option<Sandboxed>, Result<Finished, Fault>) {
    let instance = sandbox.load(bytes).and_then(|component| Sandboxed::new(&component, inputs.limits));
    let mut policy = match instance {
        Ok(policy) => policy,
        Err(fault) => return (None, Err(fault)),
    };
    let mut finished = simulate(&mut policy, inputs);
    let outcome = match finished.fault.take() {
        Some(fault) => Err(fault),
        None => Ok(finished),
    };
    (Some(policy), outcome)
}

/// Runs a guest.
pub fn play(parts: &Parts, inputs: Inputs) -> (Option<Sandboxed>, Result<Finished, Fault>) {
    play_bytes(&guest(parts), inputs)
}

/// `case | kind | what the user reads`.
pub fn line(case: &str, outcome: &Result<Finished, Fault>) -> String {
    match outcome {
        Ok(ran) => format!("{case} | none | {} calls, {} rejections\n", ran.calls, ran.rejections),
        Err(fault) => format!("{case} | {} | {fault}\n", fault.kind()),
    }
}
