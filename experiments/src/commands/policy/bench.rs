//! `sandtable policy bench`: what a policy's decisions cost.

use std::time::Instant;

use sandtable_runtime::Policy as _;
use sandtable_runtime::sandbox::{Sandboxed, Settings};

use super::{Error, ExitCode, sandbox, ui};
use crate::artifact::Finder;
use crate::execute::{Compiled, simulate};
use crate::plan::{Options, plan};

/// Measure a policy.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// A shipped policy's name, or a file.
    policy: String,
    /// Jobs that arrive at once.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 10, 100, 1000, 10000])]
    jobs: Vec<u32>,
    /// GPUs of the fleet, in nodes of 8.
    #[arg(long, default_value_t = 256)]
    gpus: u32,
}

pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, Error> {
    let sandbox = sandbox()?;
    let mut finder = Finder::new(std::path::Path::new("."), None);
    let file = finder.find(&args.policy).map_err(Error::usage)?;
    let failed = |fault: sandtable_runtime::sandbox::Fault| Error::usage(fault.to_string());
    #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    let now = Instant::now;
    let begun = now();
    let component = sandbox.load(&file.bytes).map_err(failed)?;
    let compiled = begun.elapsed();
    ui::result(&format!("compiled in {:.1} ms\n", compiled.as_secs_f64() * 1e3));
    ui::result("jobs at once   calls   fuel a call   µs a call   whole run ms\n");
    // The experiment is a file, since that is what a plan is made of.
    let folder = tempfile::tempdir().map_err(|error| Error::internal(error.to_string()))?;
    let component_path = folder.path().join("policy.wasm");
    std::fs::write(&component_path, &file.bytes).map_err(|error| Error::file("write", &component_path, &error))?;
    for jobs in &args.jobs {
        let nodes = args.gpus.div_ceil(8);
        let text = format!(
            "Experiment(title: \"bench\", fleet: Model(nodes: {nodes}, gpus: 8, kind: \"bench\", speed: 1.0), \
             workload: Generate(jobs: {jobs}, arrivals: AtOnce), policies: [Policy(name: \"./policy.wasm\")], \
             predictors: {{\"remaining\": Oracle, \"similarity\": Oracle, \"pair-speed\": Oracle}}, \
             reveal: [DeclaredRunTime, SoloProfile])"
        );
        let path = folder.path().join("bench.ron");
        std::fs::write(&path, text).map_err(|error| Error::file("write", &path, &error))?;
        let plan = plan(&path, &Options::default())?;
        let cell = &plan.cells[0];
        let mut policy = Sandboxed::new(&component, cell.setting.limits).map_err(failed)?;
        policy.describe().map_err(failed)?;
        let list = cell.jobs()?;
        let predictors = Compiled::new(&Settings::default(), plan.cells.iter())?.predictors(cell).map_err(failed)?;
        let begun = now();
        let finished = simulate(cell, list, &mut policy, predictors, None)?;
        let whole = begun.elapsed().as_secs_f64();
        if let Some(fault) = finished.fault {
            return Err(failed(fault));
        }
        let calls = finished.calls.max(1);
        ui::result(&format!(
            "{jobs:>12} {calls:>7} {:>13} {:>11.2} {:>14.2}\n",
            policy.fuel_used() / calls,
            whole * 1e6 / calls as f64,
            whole * 1e3
        ));
    }
    Ok(ExitCode::Done)
}
