//! What a waiting job lacks on the GPUs of a run: what no policy could change at that instant.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_core::error::Error;
use sandtable_hardware::{Duration, HostResources, Instant, Job, JobId, NodeId, Sharing};
use sandtable_inputs::state::{Holder, Modelled, ModelledNode, Waits};
use sandtable_inputs::trace::Row;
use sandtable_plan::Cell;
use sandtable_results::reader;
use sandtable_results::store::Store;

/// What a waiting job lacks at an instant, and which jobs end until it is there; none: as far as free GPUs go it could start, or
/// that does not say it, since jobs slow each other down on GPUs, nodes go away, or the job is elastic.
///
/// # Errors
/// A result that can't be read.
pub(super) fn lacks(cell: &Cell, store: &Store, job: JobId, at: Instant) -> Result<Option<Waits>, Error> {
    let fleet = &cell.fleet;
    let jobs = cell.jobs()?;
    let asked = &jobs[job.index()].request;
    let counted = matches!(fleet.sharing, Sharing::Exclusive | Sharing::Shares) && fleet.slots == 1;
    let counted = counted && asked.gpus > 0 && asked.part.is_none();
    let fails = fleet.failures.is_some() || !fleet.maintenance.is_empty();
    let revocable = fleet.nodes.iter().any(|node| node.revocable.is_some());
    if !counted || fails || revocable || asked.batch.is_some() || asked.service.is_some() {
        return Ok(None);
    }
    // Where jobs without GPUs are is not said of stays: it is known of those of a cluster as it is, which stay there.
    let state = cell.setting.workload.state().map(|state| &state.modelled);
    let without: BTreeMap<&str, usize> = state
        .iter()
        .flat_map(|modelled| &modelled.holders)
        .filter_map(|holder| Some((holder.job.as_str(), holder.node?)))
        .collect();
    let known = jobs.iter().all(|job| job.gpus > 0 || without.contains_key(job.name.as_str()));
    let host = |of: HostResources| if known { of } else { HostResources::UNKNOWN };
    let node = |node: &sandtable_hardware::Node| ModelledNode {
        name: node.name.clone(),
        gpus: node.gpus,
        kind: fleet.types[node.gpu_type].name.clone(),
        host: host(node.host),
        closed: Vec::new(),
    };
    let stays = reader::stays(store, &cell.id)?;
    let there = stays.iter().filter(|stay| stay.from_s.0 <= at.as_micros() && at.as_micros() < stay.to_s.0);
    let holder = |stay: &sandtable_results::schema::StayRecord| {
        let on = stay.gpus.0.iter().map(|gpu| {
            let node: NodeId = fleet.node_of(*gpu);
            (node.index(), gpu.number() - fleet.nodes[node].first_gpu.number())
        });
        let (since, done) = (Instant::from_micros(stay.from_s.0), Duration::ZERO);
        let node = without.get(stay.job_id.as_str()).copied();
        Holder { job: stay.job_id.clone(), on: on.collect(), node, since, done }
    };
    let row = |name: &str, of: &Job| {
        let mut row = Row::new(name.to_string(), at, of.gpus, Duration::ZERO);
        row.host = host(of.host);
        row.share = of.share;
        row
    };
    let held: BTreeSet<&str> = there.clone().map(|stay| stay.job_id.as_str()).collect();
    let holding = jobs.iter().filter(|job| held.contains(job.name.as_str())).map(|job| row(&job.name, job)).collect();
    let mut row = row("", &jobs[job.index()]);
    row.kinds = asked.gpu_types.iter().map(|kind| fleet.types[*kind].name.clone()).collect();
    row.gpus_per_node = asked.gpus_per_node;
    let modelled = Modelled {
        at,
        nodes: fleet.nodes.iter().map(node).collect(),
        rows: holding,
        holders: there.clone().map(holder).collect(),
        known: Default::default(),
        after: Vec::new(),
        not_modelled: Default::default(),
    };
    let left = |name: &str| {
        let stay = there.clone().find(|stay| stay.job_id == name);
        stay.map_or(f64::INFINITY, |stay| stay.to_s.0.saturating_sub(at.as_micros()) as f64)
    };
    Ok(modelled.reasons(left).waits(&row))
}
