//! Whether jobs of a cluster hold CPU and memory of its nodes in a model: where its document says both, and all policies that are asked follow them.

use std::path::Path;

use sandtable_core::error::Error;
use sandtable_inputs::state::State;
use sandtable_plan::{Cell, Options, Plan, plan_text};
use sandtable_run::code;
use sandtable_run::execute::Compiled;

use crate::commands::begin;
use crate::ui;

/// What of CPU and memory of nodes is in a model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Hosts {
    /// What jobs hold, and jobs without GPUs that wait for some.
    AndCpuJobs,
    /// What jobs hold.
    Held,
    /// Nothing.
    LeftOut,
}

impl Hosts {
    /// How a `State` in a spec says it.
    pub(in crate::commands) fn said(self) -> &'static str {
        match self {
            Hosts::AndCpuJobs => ", hosts: true, cpu_jobs: true",
            Hosts::Held => ", hosts: true",
            Hosts::LeftOut => "",
        }
    }
}

/// A plan of a cluster, whose spec is asked for with as much of CPU and memory as is known, or `added` jobs ask for, and all policies follow; and what is left out, and
/// why, where one does not.
///
/// # Errors
/// What is wrong with the spec.
pub(in crate::commands) fn planned(
    origin: &str,
    (state, added): (&State, bool),
    options: &Options,
    spec: impl Fn(Hosts) -> Result<String, Error>,
) -> Result<(Plan, Option<String>), Error> {
    let plan = |hosts| plan_text(Path::new(origin), spec(hosts)?, options);
    let mut why = None;
    let known = state.knows_hosts() || added;
    let more = [
        (known && state.has_cpu_jobs(), Hosts::AndCpuJobs, "jobs without GPUs that wait"),
        (known, Hosts::Held, "CPU and memory of nodes"),
    ];
    for (_, hosts, what) in more.into_iter().filter(|(known, ..)| *known) {
        let with = plan(hosts)?;
        let Err(error) = begins(&with)? else { return Ok((with, why)) };
        let because = error.message.lines().next().unwrap_or_default();
        let because = because.trim_start_matches(origin).trim_start_matches(": ");
        why = Some(format!("warning: {what} are left out, since {because}"));
    }
    let without = plan(Hosts::LeftOut)?;
    // What does not begin either way is said where it is to run.
    if why.is_some() && begins(&without)?.is_err() {
        why = None;
    }
    Ok((without, why))
}

/// Whether all policies of a plan begin; else what the first says.
fn begins(plan: &Plan) -> Result<Result<(), Error>, Error> {
    let cells: Vec<&Cell> = plan.cells.iter().collect();
    let compiled = Compiled::new(&code::settings(ui::note), plan.cells.iter())?;
    Ok(begin::all_begin(plan, &cells, &compiled))
}
