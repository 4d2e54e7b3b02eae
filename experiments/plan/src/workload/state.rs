//! The jobs of a cluster at one instant: what of them runs, and where.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_hardware::{Beginning, Fleet, GpuId, Job, JobId, Sharing, Standing};
use sandtable_inputs::state::{Modelled, RunTimes, State};
use sandtable_inputs::trace::{self, Packed, ReadLimits, Trace};
use serde_json::json;

use super::{From, Keyed, Workload};
use crate::number;
use crate::spec::{RunTimesSpec, Source};

/// Reads the jobs of a state; the second is their part of the identity.
pub(super) fn read(
    source: &Source,
    path: &Path,
    RunTimesSpec::Limits { part, otherwise }: RunTimesSpec,
    limits: ReadLimits,
) -> Result<(Keyed, Option<Arc<Modelled>>), Error> {
    let of_limit = part.unwrap_or(1.0);
    if !(of_limit > 0.0 && of_limit <= 1.0) {
        let message = format!("expected a part of the limit above 0 and at most 1, found {of_limit}");
        return Err(source.error("workload.run_times", &message, "here"));
    }
    let here = |error: Error| {
        let shown = source.error("workload.file", &error.message, "this file");
        Error { hint: error.hint, ..shown }
    };
    let bytes = trace::read_bytes(path, limits.bytes).map_err(here)?;
    let state: State = sandtable_inputs::state::of_bytes(path, &bytes).map_err(here)?;
    let otherwise = otherwise.map(|span| span.0);
    let modelled = state.modelled(RunTimes { of_limit, otherwise });
    let modelled = modelled.map_err(|why| here(Error::usage(format!("{}: {why}", path.display()))))?;
    if modelled.rows.is_empty() {
        return Err(here(Error::usage(format!("{}: no job that waits or holds GPUs", path.display()))));
    }
    let key = json!({"state": {"blake3": digest(&bytes), "of_limit": number(of_limit), "otherwise": otherwise}});
    let trace = Trace { rows: modelled.rows.clone(), ..Trace::default() };
    Ok(((From::Fixed(Arc::new(Packed::of(trace))), key), Some(Arc::new(modelled))))
}

impl Workload {
    /// What of a cluster's state is left out or not modelled, in words.
    pub(crate) fn state_in_words(&self) -> Option<String> {
        let state = self.state.as_ref()?;
        let not: Vec<String> = state.not_modelled.iter().map(|(what, count)| format!("{count} {what}")).collect();
        let (jobs, running) = (state.rows.len(), state.holders.len());
        let not = if not.is_empty() { String::new() } else { format!("; not modelled: {}", not.join(", ")) };
        Some(format!("begins with {running} running and {} waiting jobs{not}", jobs - running))
    }

    /// Where a run of these jobs begins.
    ///
    /// # Errors
    /// A fleet that is not the state's, or one on which a run can't begin in the middle.
    pub(crate) fn beginning(&self, jobs: &[Job], fleet: &Fleet) -> Result<Beginning, Error> {
        let Some(state) = &self.state else { return Ok(Beginning::default()) };
        let same = fleet.nodes.len() == state.nodes.len()
            && fleet
                .nodes
                .iter()
                .zip(&state.nodes)
                .all(|(node, of)| node.gpus == of.gpus && fleet.types[node.gpu_type].name == of.kind);
        if !same {
            let error = Error::usage("the jobs of a state run on its own nodes, and the fleet has others");
            return Err(
                error.hint("fleet: Model(list: NodeList(file: …, format: State), speed: 1.0), of the same file")
            );
        }
        if fleet.types.iter().any(|kind| kind.speed != 1.0) {
            let error = Error::usage(
                "the run times of a state are those on its own GPUs, and the fleet says that they are faster or slower",
            );
            return Err(error.hint("fleet: Model(list: NodeList(file: …, format: State), speed: 1.0)"));
        }
        if fleet.sharing != Sharing::Exclusive || fleet.slots > 1 || fleet.costs.leases.is_some() {
            let message =
                "a run that begins with running jobs needs a fleet of whole GPUs, which are not leased for rounds";
            return Err(Error::usage(message));
        }
        let ids: BTreeMap<&str, JobId> =
            jobs.iter().enumerate().map(|(at, job)| (job.name.as_str(), JobId::at(at))).collect();
        let mut beginning = Beginning { at: state.at, jobs: BTreeMap::new() };
        for holder in &state.holders {
            let Some(id) = ids.get(holder.job.as_str()) else { continue };
            let gpu = |(node, gpu): &(usize, u32)| {
                GpuId::new(fleet.nodes[sandtable_hardware::NodeId::at(*node)].first_gpu.number() + gpu)
            };
            let gpus: Vec<GpuId> = holder.on.iter().map(gpu).collect();
            let standing = Standing {
                since: holder.since,
                first_start: holder.since,
                done: holder.done,
                held: state.at.saturating_since(holder.since),
                productive: holder.done,
                gpu_time: holder.done * gpus.len() as u64,
                preemptions: 0,
                gpus,
            };
            beginning.jobs.insert(*id, standing);
        }
        Ok(beginning)
    }
}
