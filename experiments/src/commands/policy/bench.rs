//! `sandtable policy bench`: what a policy's decisions cost.

use std::path::PathBuf;
use std::time::Instant;

use sandtable_core::frame::{Column, Frame, Value};
use sandtable_core::output;
use sandtable_plan::artifact::{Finder, SCRIPT, is_script};
use sandtable_plan::{MAX_WEIGHTS, Options, plan};
use sandtable_run::execute::{Compiled, Extras, simulate};
use sandtable_run::observed_policy::{Call, ObservedPolicy};
use sandtable_runtime::Policy as _;
use sandtable_runtime::sandbox::{Sandboxed, Settings};

use super::{Error, ExitCode, sandbox, ui};
use crate::commands::Format;

/// Measure a policy: fuel, time and memory by the size of the cluster and the number of jobs that arrive at once.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// A shipped policy's name, or a file.
    policy: String,
    /// Number of jobs that arrive at once.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [10, 100, 1000])]
    jobs: Vec<u32>,
    /// Number of GPUs of the fleet, in nodes of 8.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [32, 256, 2048])]
    gpus: Vec<u32>,
    /// Weights, if the policy wants some.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const COLUMNS: [&str; 8] = ["gpus", "jobs", "calls", "fuel_mean", "fuel_most", "us_mean", "memory_kib", "run_ms"];

pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, Error> {
    let sandbox = sandbox()?;
    let name = if is_script(&args.policy) { SCRIPT } else { &args.policy };
    let file = Finder::new(std::path::Path::new("."), None).find(name).map_err(Error::usage)?;
    let failed = |fault: sandtable_runtime::fault::Fault| Error {
        exit: ExitCode::PolicyFailed,
        ..Error::usage(format!("{}: {fault}", args.policy))
    };
    #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    let now = Instant::now;
    let begun = now();
    let component = sandbox.load(&file.bytes).map_err(failed)?;
    ui::note(&format!("compiled in {:.1} ms", begun.elapsed().as_secs_f64() * 1e3));
    // The experiment is a file, since that is what a plan is made of.
    let folder = output::scratch()?;
    let component_path = folder.path().join("policy.wasm");
    output::write(&component_path, &file.bytes)?;
    let weights = super::weights(args.weights.as_deref())?;
    output::write(&folder.path().join("weights"), &weights)?;
    let mut given = if weights.is_empty() { String::new() } else { ", weights: \"./weights\"".to_string() };
    if is_script(&args.policy) {
        let script = sandtable_core::input::text(std::path::Path::new(&args.policy), MAX_WEIGHTS as u64)?;
        given.push_str(&format!(", with: {{\"source\": {script:?}}}"));
    }
    let mut table = Frame::new(COLUMNS.map(Column::number));
    let mut code = ExitCode::Done;
    for (gpus, jobs) in args.gpus.iter().flat_map(|gpus| args.jobs.iter().map(move |jobs| (gpus, jobs))) {
        let nodes = gpus.div_ceil(8);
        let text = format!(
            "Experiment(title: \"bench\", fleet: Model(nodes: {nodes}, gpus: 8, kind: \"bench\", speed: 1.0), \
             workload: Generate(jobs: {jobs}, arrivals: AtOnce), policies: [Policy(name: \"./policy.wasm\"{given})], \
             predictors: {{\"remaining\": Oracle, \"similarity\": Oracle, \"pair-speed\": Oracle}}, \
             reveal: [DeclaredRunTime, SoloProfile])"
        );
        let path = folder.path().join("bench.ron");
        output::write(&path, text)?;
        let plan = plan(&path, &Options::default())?;
        let cell = &plan.cells[0];
        let mut policy = Sandboxed::new(&component, cell.setting.limits).map_err(failed)?;
        policy.describe().map_err(failed)?;
        let mut observed = ObservedPolicy::new(policy, |_: &Call<'_>| true);
        let compiled = Compiled::new(&Settings::default(), std::iter::empty())?;
        let predictors = compiled.predictors(cell).map_err(failed)?;
        let begun = now();
        let finished = simulate(cell, cell.jobs()?, &mut observed, predictors, Extras::default())?;
        let whole = begun.elapsed().as_secs_f64();
        let calls = observed.calls.max(1);
        let mut row: Vec<Value> = vec![nodes.saturating_mul(8).into(), (*jobs).into(), observed.calls.into()];
        if let Some(fault) = finished.fault {
            // A size that it does not bear is a result too.
            let memory = (observed.memory() >> 10).into();
            row.extend([Value::Unknown, Value::Unknown, Value::Unknown, memory, Value::Unknown]);
            ui::note(&format!("{gpus} GPUs, {jobs} jobs: {fault}"));
            code = ExitCode::PolicyFailed;
        } else {
            let digits = |x: f64| Value::Number(libm::rint(x * 100.0) / 100.0).shown(format!("{x:.2}"));
            row.extend([
                (observed.fuel_used() / calls).into(),
                observed.most_fuel.into(),
                digits(whole * 1e6 / calls as f64),
                (observed.memory() >> 10).into(),
                digits(whole * 1e3),
            ]);
        }
        table.push(row);
    }
    ui::result(&args.format.of(&table));
    Ok(code)
}
