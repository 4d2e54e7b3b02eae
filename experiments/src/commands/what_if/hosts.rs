//! Whether jobs of a cluster hold CPU and memory of its nodes in a model: where its document says both, and all policies that are asked follow them.

use std::path::Path;

use sandtable_core::error::Error;
use sandtable_inputs::state::State;
use sandtable_plan::{Cell, Options, Plan, plan_text};
use sandtable_run::code;
use sandtable_run::execute::Compiled;

use crate::commands::begin;
use crate::ui;

/// What of a `State` in a spec says that jobs hold CPU and memory.
pub(in crate::commands) fn said(hosts: bool) -> &'static str {
    if hosts { ", hosts: true" } else { "" }
}

/// A plan of a cluster, whose spec is asked for with CPU and memory, where these are known or `added` jobs ask for them, or without; and why these are left out,
/// where a policy does not follow them.
///
/// # Errors
/// What is wrong with the spec.
pub(in crate::commands) fn planned(
    origin: &str,
    (state, added): (&State, bool),
    options: &Options,
    spec: impl Fn(bool) -> Result<String, Error>,
) -> Result<(Plan, Option<String>), Error> {
    let plan = |hosts| plan_text(Path::new(origin), spec(hosts)?, options);
    if !state.knows_hosts() && !added {
        return Ok((plan(false)?, None));
    }
    let with = plan(true)?;
    let Err(error) = begins(&with)? else { return Ok((with, None)) };
    let without = plan(false)?;
    // What does not begin either way is said where it is to run.
    let why = begins(&without)?.is_ok().then(|| {
        let why = error.message.lines().next().unwrap_or_default();
        let why = why.trim_start_matches(origin).trim_start_matches(": ");
        format!("warning: CPU and memory of nodes are left out, since {why}")
    });
    Ok((without, why))
}

/// Whether all policies of a plan begin; else what the first says.
fn begins(plan: &Plan) -> Result<Result<(), Error>, Error> {
    let cells: Vec<&Cell> = plan.cells.iter().collect();
    let compiled = Compiled::new(&code::settings(ui::note), plan.cells.iter())?;
    Ok(begin::all_begin(plan, &cells, &compiled))
}
