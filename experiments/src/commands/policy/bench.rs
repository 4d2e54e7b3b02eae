//! `sandtable policy bench`: what a policy's decisions cost.

use std::time::Instant;

use sandtable_runtime::Policy as _;
use sandtable_runtime::sandbox::{Sandboxed, Settings};

use serde_json::json;

use super::{Error, ExitCode, sandbox, ui};
use crate::artifact::Finder;
use crate::columns::columns;
use crate::execute::{Compiled, Extras, simulate};
use crate::output;
use crate::plan::{Options, plan};
use crate::table::Format;
use crate::witness::Witness;

/// Measure a policy: fuel, time and memory by the size of the cluster and the number of jobs that arrive at once.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// A shipped policy's name, or a file.
    policy: String,
    /// Jobs that arrive at once.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [10, 100, 1000])]
    jobs: Vec<u32>,
    /// GPUs of the fleet, in nodes of 8.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [32, 256, 2048])]
    gpus: Vec<u32>,
    /// How rows are printed.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const COLUMNS: [&str; 8] = ["gpus", "jobs", "calls", "fuel_mean", "fuel_most", "us_mean", "memory_kib", "run_ms"];

pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, Error> {
    let sandbox = sandbox()?;
    let mut finder = Finder::new(std::path::Path::new("."), None);
    let file = finder.find(&args.policy).map_err(Error::usage)?;
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
    let mut rows: Vec<Vec<String>> = vec![COLUMNS.map(str::to_string).to_vec()];
    let mut code = ExitCode::Done;
    for (gpus, jobs) in args.gpus.iter().flat_map(|gpus| args.jobs.iter().map(move |jobs| (gpus, jobs))) {
        let nodes = gpus.div_ceil(8);
        let text = format!(
            "Experiment(title: \"bench\", fleet: Model(nodes: {nodes}, gpus: 8, kind: \"bench\", speed: 1.0), \
             workload: Generate(jobs: {jobs}, arrivals: AtOnce), policies: [Policy(name: \"./policy.wasm\")], \
             predictors: {{\"remaining\": Oracle, \"similarity\": Oracle, \"pair-speed\": Oracle}}, \
             reveal: [DeclaredRunTime, SoloProfile])"
        );
        let path = folder.path().join("bench.ron");
        output::write(&path, text)?;
        let plan = plan(&path, &Options::default())?;
        let cell = &plan.cells[0];
        let mut policy = Sandboxed::new(&component, cell.setting.limits).map_err(failed)?;
        policy.describe().map_err(failed)?;
        let mut witness = Witness::new(policy, |_: &_, _: &_| true);
        let compiled = Compiled::new(&Settings::default(), std::iter::empty())?;
        let predictors = compiled.predictors(cell).map_err(failed)?;
        let begun = now();
        let finished = simulate(cell, cell.jobs()?, &mut witness, predictors, Extras::default())?;
        let whole = begun.elapsed().as_secs_f64();
        let calls = witness.calls.max(1);
        let mut row = vec![nodes.saturating_mul(8).to_string(), jobs.to_string(), witness.calls.to_string()];
        if let Some(fault) = finished.fault {
            // A size that it does not bear is a result too.
            row.extend(["-".into(), "-".into(), "-".into(), (witness.memory() >> 10).to_string(), "-".into()]);
            ui::note(&format!("{gpus} GPUs, {jobs} jobs: {fault}"));
            code = ExitCode::PolicyFailed;
        } else {
            row.extend([
                (witness.fuel_used() / calls).to_string(),
                witness.most_fuel.to_string(),
                format!("{:.2}", whole * 1e6 / calls as f64),
                (witness.memory() >> 10).to_string(),
                format!("{:.2}", whole * 1e3),
            ]);
        }
        rows.push(row);
    }
    ui::result(&match args.format {
        Format::Table => columns(&rows),
        Format::Csv => rows.iter().map(|row| row.join(",") + "\n").collect(),
        Format::Json => {
            let object = |row: &Vec<String>| {
                let pairs =
                    COLUMNS.iter().zip(row).map(|(name, text)| ((*name).to_string(), json!(text.parse::<f64>().ok())));
                serde_json::Value::Object(pairs.collect()).to_string() + "\n"
            };
            rows.iter().skip(1).map(object).collect()
        }
    });
    Ok(code)
}
