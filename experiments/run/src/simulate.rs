//! A policy on the backend of a cell.

use std::sync::Arc;

use sandtable_core::error::Error;
use sandtable_hardware::Job;
use sandtable_plan::Cell;
use sandtable_plan::spec::Judge;
use sandtable_runtime::fault::Fault;
use sandtable_runtime::inputs::{Inputs, Watch};
use sandtable_runtime::sandbox::{Component, Sandboxed};
use sandtable_runtime::schedule::{Finished, run};
use sandtable_runtime::{Policy, Predictors};

/// What a run does beside what its cell says.
#[derive(Default)]
pub struct Extras {
    /// Keep all that the policy is told, for a capsule should it fail; holds the component's digest.
    pub record: Option<String>,
    /// Told before each decision.
    pub watch: Option<Watch>,
    /// Another configuration of the policy than the cell's.
    pub config: Option<String>,
}

/// Runs a policy, sandboxed or not, on the backend of a cell.
///
/// # Errors
/// See `CellBackend::start` and `CellBackend::finish` of `sandtable-plan`.
pub fn simulate(
    cell: &Cell,
    jobs: Arc<[Job]>,
    policy: &mut dyn Policy,
    predictors: Predictors,
    extras: Extras,
) -> Result<Finished, Error> {
    let Extras { record, watch, config } = extras;
    let mut inputs = Inputs { record, watch, ..inputs(cell, jobs.clone(), predictors) };
    inputs.config = config.unwrap_or(inputs.config);
    let backend = cell.backend.start(cell, jobs, &mut inputs)?;
    cell.backend.finish(run(policy, backend, inputs))
}

/// What the loop is given for a cell.
pub fn inputs(cell: &Cell, jobs: Arc<[Job]>, predictors: Predictors) -> Inputs {
    Inputs {
        config: cell.config.clone(),
        weights: cell.weights_for(&jobs),
        seed: cell.seed,
        laws: cell.setting.laws.clone(),
        predictors,
        reveal: cell.setting.reveal,
        references: cell.setting.references.clone(),
        strict: cell.setting.judge == Judge::Strict,
        measured: cell.setting.measured,
        follow: cell.setting.workload.follow(&cell.fleet),
        ..Inputs::plain(jobs, cell.setting.limits)
    }
}

/// Where a script was when its call ran out of fuel or memory, by one more run, in which it tells. None: it is no script, or nothing was told.
///
/// # Errors
/// See [`simulate`].
pub(crate) fn place_in_script(
    cell: &Cell,
    recorded: &Finished,
    component: &Component,
    predictors: Predictors,
) -> Result<Option<String>, Error> {
    let config = serde_json::from_str::<serde_json::Value>(&cell.config).ok();
    let script = config.filter(|config| config["source"].is_string() && config.get("trace").is_none());
    let spent = |fault: &Fault| matches!(fault, Fault::OutOfFuel { .. } | Fault::Memory { .. });
    let (true, Some(mut config)) = (recorded.fault.as_ref().is_some_and(spent), script) else { return Ok(None) };
    let last = recorded.capsule.as_ref().and_then(|capsule| capsule.steps.last());
    config["trace"] = last.map_or(0, |step| step.batch.seq).into();
    let mut policy =
        Sandboxed::new(component, cell.setting.limits).map_err(|fault| Error::internal(fault.to_string()))?;
    let extras = Extras { config: Some(config.to_string()), ..Extras::default() };
    let traced = simulate(cell, cell.jobs()?, &mut policy, predictors, extras)?;
    let told = policy.log().into_iter().rev().find_map(|line| Some(line.strip_prefix("warn: ")?.to_string()));
    Ok(told.filter(|place| traced.fault.as_ref().is_some_and(spent) && place.starts_with("line ")))
}
