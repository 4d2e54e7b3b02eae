//! Resolves the fleet of a spec: its nodes and links, and its profile.

use std::path::{Component, Path};
use std::sync::Arc;

use sandtable_core::error::Error;
use sandtable_core::text::nearest;
use sandtable_hardware::{
    Costs, Duration, Failures, Fleet, FleetError, GpuType, Links, Pool, Profile, Rescale, SECOND, Sharing, TypeId,
    WorkloadId, catalogue,
};
use sandtable_inputs::profile;
use serde_json::{Value, json};

use super::backend::{self, CellBackend};
use super::number;
use super::preset::Preset;
use crate::spec::RescaleSpec;
use crate::spec::{FleetSpec, Group, LinksSpec, ProfileSpec, Source, Spec, WorkloadSpec};

/// Links between the GPUs of all nodes together.
const MOST_LINKS: u64 = 16_000_000;
/// GB/s between nodes where a spec does not say: 10 Gbit/s Ethernet.
const NETWORK: f64 = 1.25;

/// The groups of equal nodes, with speeds.
pub(super) fn groups(
    source: &Source,
    spec: &Spec,
    folder: &Path,
    backend: &dyn CellBackend,
    profile: Option<&Profile>,
) -> Result<Vec<Group>, Error> {
    if let Some(group) = backend::group(backend) {
        return Ok(vec![group]);
    }
    let FleetSpec::Model { nodes, gpus, kind, speed, memory, cpus, host_memory, revocable, groups, list, .. } =
        &spec.fleet
    else {
        return Ok(Vec::new());
    };
    // Of nodes that are all alike.
    let host = cpus.is_some() || host_memory.is_some();
    let alone = speed.is_none() && memory.is_none() && !host && revocable.is_none();
    let (groups, places): (Vec<Group>, Vec<String>) = match (nodes, gpus, kind, groups.is_empty(), list) {
        (None, None, None, true, Some(list)) if memory.is_none() && !host && revocable.is_none() => {
            let of_state = match &spec.workload {
                WorkloadSpec::State { file, changes, hosts, .. } if is_same(file, &list.file) => {
                    (changes.as_slice(), *hosts)
                }
                _ => (&[][..], false),
            };
            let groups = super::nodes::listed(source, list, folder, *speed, of_state)?;
            let places = vec!["fleet.list".to_string(); groups.len()];
            (groups, places)
        }
        (Some(nodes), Some(gpus), Some(kind), true, None) => {
            let one = Group {
                nodes: *nodes,
                gpus: *gpus,
                kind: kind.clone(),
                speed: *speed,
                memory: *memory,
                cpus: *cpus,
                host_memory: *host_memory,
                revocable: *revocable,
                pool: Pool::Training,
                closed: Vec::new(),
            };
            (vec![one], vec!["fleet".into()])
        }
        (None, None, None, false, None) if alone => {
            (groups.clone(), (0..groups.len()).map(|index| format!("fleet.groups.{index}")).collect())
        }
        _ => {
            let message = "a fleet has either `nodes`, `gpus` and `kind`, or `groups`, or a `list`";
            let error = source.error("fleet", message, "here");
            return Err(error.hint(
                "beside `groups`, `speed`, `memory`, `cpus`, `host_memory` and `revocable` are said of each group; beside a `list` only `speed`",
            ));
        }
    };
    for (group, place) in groups.iter().zip(places) {
        if group.speed.is_none() && catalogue::find(&group.kind).is_none() {
            let known = catalogue::catalogue().models.iter().map(|model| model.name.as_str());
            let message = format!("no GPU {:?} in the catalogue", group.kind);
            let hint = match nearest(&group.kind, known) {
                Some(near) => format!("did you mean {near:?}?"),
                None => "another name needs a `speed`".to_string(),
            };
            let place = if list.is_some() { place } else { format!("{place}.kind") };
            return Err(source.error(&place, &message, "this kind").hint(hint));
        }
    }
    with_speeds(source, spec, groups, profile)
}

/// Where a spec does not say how fast several kinds are: speeds by the catalogue, 1 on `durations_on` or on the geometric mean.
fn with_speeds(
    source: &Source,
    spec: &Spec,
    mut groups: Vec<Group>,
    profile: Option<&Profile>,
) -> Result<Vec<Group>, Error> {
    let mut kinds: Vec<String> = Vec::new();
    for group in &groups {
        if !kinds.contains(&group.kind) {
            kinds.push(group.kind.clone());
        }
    }
    if let Some(base) = spec.durations_on.as_ref().filter(|base| !kinds.contains(base)) {
        return Err(no_such_kind(source, base, &kinds));
    }
    if groups.iter().any(|group| group.speed.is_some()) {
        if let (Some(base), None) = (&spec.durations_on, &spec.profile) {
            let message = format!("durations hold on a GPU of speed 1, not on {base}: the fleet states speeds");
            return Err(source.error("durations_on", &message, "here"));
        }
        // Of kinds without a profile that tells them apart.
        let silent = groups.iter().position(|group| group.speed.is_none()).filter(|_| kinds.len() > 1);
        if let Some(at) = silent.filter(|_| !knows_throughputs(profile)) {
            let message = format!("other groups say their `speed`, {} does not", groups[at].kind);
            let of_list = matches!(&spec.fleet, FleetSpec::Model { list: Some(_), .. });
            let place = if of_list { "fleet.list".into() } else { format!("fleet.groups.{at}") };
            return Err(source.error(&place, &message, "how fast?").hint("say all of them, or none"));
        }
        return Ok(groups);
    }
    if kinds.len() < 2 || knows_throughputs(profile) {
        return Ok(groups);
    }
    let of = |kind: &str| catalogue::find(kind).map_or(1.0, catalogue::GpuModel::relative_speed);
    let base = match &spec.durations_on {
        Some(base) => of(base),
        None => libm::exp(kinds.iter().map(|kind| libm::log(of(kind))).sum::<f64>() / kinds.len() as f64),
    };
    // Four digits: what is estimated pretends to no more.
    groups.iter_mut().for_each(|group| group.speed = Some((of(&group.kind) / base * 1e4).round() / 1e4));
    Ok(groups)
}

/// Whether a profile says how fast workloads are by type: better than any estimate.
fn knows_throughputs(profile: Option<&Profile>) -> bool {
    let solos = profile.into_iter().flat_map(|profile| &profile.gpus).flat_map(|gpu| gpu.solo.values());
    solos.into_iter().any(|solo| !solo.throughput.is_empty())
}

pub(super) fn no_such_kind(source: &Source, kind: &str, known: &[String]) -> Error {
    let message = format!("no GPU of kind {kind:?} in the fleet: it has {}", known.join(", "));
    source.error("durations_on", &message, "this kind")
}

/// In words, where [`with_speeds`] estimated how fast the kinds of a fleet are.
pub(super) fn estimated_speeds(spec: &Spec, fleet: &Fleet, profile: Option<&Profile>) -> Option<String> {
    let FleetSpec::Model { groups, list, .. } = &spec.fleet else { return None };
    // A list of several kinds says how fast they are.
    let unsaid = list.is_none() && groups.iter().all(|group| group.speed.is_none());
    let estimated = fleet.types.len() > 1 && unsaid && !knows_throughputs(profile);
    let of: Vec<String> = fleet.types.iter().map(|kind| format!("{} {}", kind.name, kind.speed)).collect();
    estimated.then(|| format!("speeds estimated from the catalogue: {}", of.join(", ")))
}

/// The fleet, with what a preset does to it under a policy.
pub(super) fn fleet(
    source: &Source,
    spec: &Spec,
    preset: Option<&Preset>,
    (groups, backend): (&[Group], &dyn CellBackend),
    policy: &str,
) -> Result<Fleet, Error> {
    if let Some(fleet) = backend::fleet(backend, source) {
        return super::queues::share_out(source, spec, fleet?);
    }
    let FleetSpec::Model { failures, sharing, links, network, slots: virtual_slots, .. } = &spec.fleet else {
        unreachable!("every other fleet is not modelled")
    };
    let costs = costs(source, spec)?;
    let costs = preset.map_or(costs, |preset| preset.costs(policy, costs));
    if costs.leases.is_some() {
        leases_alone(source, spec, *sharing)?;
    }
    let failures = failures.map(|failures| Failures { mtbf: failures.mtbf.0, repair: failures.repair.0 });
    let slots = preset.map_or(1, |preset| preset.slots_per_gpu);
    let wide = |group: &Group| {
        let own = group.memory.map(|bytes| (bytes.0 >> 20) as u32);
        let memory = own.or_else(|| catalogue::find(&group.kind).map(catalogue::GpuModel::memory)).unwrap_or(0);
        let kind = GpuType { memory_mib: memory, ..GpuType::new(&group.kind, group.speed.unwrap_or(1.0)) };
        (group.nodes, group.gpus.saturating_mul(slots), kind)
    };
    let sizes: Vec<(u32, u32, GpuType)> = groups.iter().map(wide).collect();
    let at = |place: &str, error: FleetError| source.error(place, &error.to_string(), "here");
    let fleet = Fleet::new(&sizes, costs, failures).map_err(|error| at("fleet", error))?;
    let fleet = match sharing {
        Sharing::Parts => fleet,
        _ => fleet.shared(*sharing).map_err(|error| at("fleet.sharing", error))?,
    };
    let fleet = super::parts::cut(source, &spec.fleet, slots, fleet)?;
    let fleet = fleet.slotted(virtual_slots.unwrap_or(1)).map_err(|error| at("fleet.slots", error))?;
    let fleet = super::serving::serve(source, spec, groups, fleet)?;
    let fleet = super::nodes::equip(source, &spec.fleet, groups, fleet)?;
    let fleet = super::queues::share_out(source, spec, fleet)?;
    if let (None, Some(_)) = (links, network) {
        let message = "a network between nodes counts only beside `links` within them";
        return Err(source.error("fleet.network", message, "here"));
    }
    match links {
        Some(links) => linked(source, fleet, links, network.unwrap_or(NETWORK)),
        None => Ok(fleet),
    }
}

/// Checks that nothing is asked for that GPUs which are leased for rounds do not have.
fn leases_alone(source: &Source, spec: &Spec, sharing: Sharing) -> Result<(), Error> {
    let costs = &spec.costs;
    let own = [costs.start, costs.checkpoint, costs.restore, costs.checkpoint_every, costs.relaunch, costs.batch];
    if own.iter().any(Option::is_some) || costs.rescale.is_some() {
        let message = "under this preset a restart costs part of a lease, and nothing else does";
        return Err(source.error("costs", message, "these costs"));
    }
    if spec.serving.is_some() {
        return Err(source.error(
            "serving",
            "under this preset GPUs are leased for rounds, which tasks do not wait for",
            "here",
        ));
    }
    if sharing != Sharing::Exclusive {
        return Err(source.error("fleet.sharing", "under this preset GPUs are leased to one job each", "here"));
    }
    Ok(())
}

/// What starting and stopping jobs costs.
fn costs(source: &Source, spec: &Spec) -> Result<Costs, Error> {
    let span = |span: Option<sandtable_core::units::Span>| span.map_or(Duration::ZERO, |span| span.0);
    let costs = Costs {
        start: span(spec.costs.start),
        checkpoint: span(spec.costs.checkpoint),
        restore: span(spec.costs.restore),
        relaunch: spec.costs.relaunch.map_or(60 * SECOND, |span| span.0),
        checkpoint_every: spec.costs.checkpoint_every.map(|span| span.0),
        rescale: spec.costs.rescale.map(|rescale| match rescale {
            RescaleSpec::Constant(cost) => Rescale::Constant(cost.0),
            RescaleSpec::Full => Rescale::Full,
            RescaleSpec::Afe => Rescale::Afe,
        }),
        batch: span(spec.costs.batch),
        ..Costs::default()
    };
    if costs.checkpoint_every == Some(Duration::ZERO) {
        return Err(source.error("costs.checkpoint_every", "expected a time above 0", "here"));
    }
    if costs.relaunch < SECOND {
        let message = "expected at least 1s: a job that ran out of memory takes time to find out";
        return Err(source.error("costs.relaunch", message, "here"));
    }
    Ok(costs)
}

/// A fleet whose nodes have these links between their GPUs, and a network of so many GB/s between them.
fn linked(source: &Source, fleet: Fleet, links: &LinksSpec, network: f64) -> Result<Fleet, Error> {
    let size = fleet.nodes[0].gpus;
    // A policy is told them node by node.
    let told = (fleet.nodes.len() as u64).saturating_mul(u64::from(size) * u64::from(size));
    if told > MOST_LINKS {
        let nodes = fleet.nodes.len();
        let message = format!("{told} links of {nodes} nodes of {size} GPUs, expected at most {MOST_LINKS}");
        let error = source.error("fleet.links", &message, "these links");
        return Err(error.hint("fewer GPUs of a node, or no links between them"));
    }
    let within = match links {
        LinksSpec::NvlinkPairs => Links::nvlink_pairs(size),
        LinksSpec::Pcie => Links::pcie(size),
        LinksSpec::Matrix(rows) => {
            if let Some(row) = rows.iter().find(|row| row.len() != rows.len()) {
                let message = format!("expected {} numbers in every row, found {}", rows.len(), row.len());
                return Err(source.error("fleet.links", &message, "this matrix"));
            }
            rows.concat()
        }
    };
    if !(network > 0.0 && network.is_finite()) {
        return Err(source.error("fleet.network", &format!("expected GB/s above 0, found {network}"), "here"));
    }
    fleet.linked(Links { within, network }).map_err(|error| source.error("fleet.links", &error.to_string(), "here"))
}

/// A fleet's part of a cell's identity.
pub(super) fn fleet_key(fleet: &Fleet) -> Value {
    let mut runs: Vec<(u32, u32, TypeId)> = Vec::new();
    for node in &fleet.nodes {
        match runs.last_mut() {
            Some((count, gpus, kind)) if *gpus == node.gpus && *kind == node.gpu_type => *count += 1,
            _ => runs.push((1, node.gpus, node.gpu_type)),
        }
    }
    let types: Vec<Value> =
        fleet.types.iter().map(|kind| json!([kind.name, number(kind.speed), kind.memory_mib])).collect();
    let mut key = json!({
        "types": types, "nodes": runs, "costs": fleet.costs, "failures": fleet.failures,
        "sharing": fleet.sharing, "links": fleet.links,
    });
    super::nodes::fleet_key(fleet, &mut key);
    super::parts::fleet_key(fleet, &mut key);
    if !fleet.queues.is_empty() {
        key["queues"] = super::queues::key(&fleet.queues);
    }
    let serving = super::serving::fleet_key(fleet);
    if !serving.is_null() {
        key["serving"] = serving;
    }
    if fleet.slots > 1 {
        key["slots"] = json!(fleet.slots);
    }
    key
}

/// A kind of GPU on which a spec has a meaning: one that its profile has measured as the spec wants to share it, if it has one.
pub(super) fn measured(profile: Option<&Profile>, spec: &Spec) -> String {
    let gpus = profile.map_or(&[][..], |profile| &profile.gpus);
    let shared = gpus.iter().find(|gpu| gpu.mode == spec.interference.mode).or(gpus.first());
    let known = || sandtable_hardware::catalogue::catalogue().models[0].name.clone();
    shared.map_or_else(known, |gpu| gpu.kind.clone())
}

/// The shipped profile that a spec of this folder names, where no file of that name is beside the spec.
pub fn shipped(folder: &Path, name: &str) -> Option<String> {
    (!name.contains('/') && !folder.join(name).exists()).then(|| crate::artifact::data::profile(name))?
}

/// The profile that a spec names, if it names one.
pub(super) fn profile(source: &Source, spec: &Spec, folder: &Path) -> Result<Option<Arc<Profile>>, Error> {
    let Some(named) = &spec.profile else { return Ok(None) };
    let open = |file: &String| {
        let path = folder.join(file);
        if path.exists() {
            return Ok(path);
        }
        let message = format!("cannot read {}: there is no such file", path.display());
        Err(source.error("profile", &message, "this profile"))
    };
    let (profile, beside) = match named {
        ProfileSpec::Inline(profile) => {
            let checked = profile.check();
            checked.map_err(|error| source.error("profile", &error.to_string(), "this profile"))?;
            let filled = sandtable_inputs::facts::fill((**profile).clone(), folder);
            return Ok(Some(Arc::new(filled.map_err(|error| source.locate(error, "profile"))?)));
        }
        // A bare name is a file beside the spec, or else a profile that ships.
        ProfileSpec::File(file) if shipped(folder, file).is_some() => {
            let text = shipped(folder, file).unwrap_or_default();
            (profile::parse(&text, format!("the shipped profile {file}"))?, file)
        }
        ProfileSpec::File(file) => (profile::read(&open(file)?)?, file),
        ProfileSpec::Gavel(file) => (profile::gavel(&open(file)?)?, file),
        ProfileSpec::Pollux(folder) => (profile::pollux(&open(folder)?)?, folder),
        ProfileSpec::Shockwave(file) => (profile::shockwave(&open(file)?)?, file),
        ProfileSpec::ElasticFlow(file) => (profile::elasticflow(&open(file)?)?, file),
        ProfileSpec::Muri(file) => (profile::muri(&open(file)?)?, file),
        ProfileSpec::Lucid(file) => (profile::lucid(&open(file)?)?, file),
        ProfileSpec::GavelSimulation(file) => (profile::gavel_simulation(&open(file)?)?, file),
        ProfileSpec::Throughputs(file) => (profile::throughputs(&open(file)?)?, file),
        ProfileSpec::Torchvision { file, precision } => {
            let read = profile::torchvision(&open(file)?, precision);
            (read.map_err(|error| source.locate(error, "profile.precision"))?, file)
        }
    };
    // Models that are files are named from where the profile is.
    let profile = sandtable_inputs::facts::fill(profile, folder.join(beside).parent().unwrap_or(folder))?;
    Ok(Some(Arc::new(profile)))
}

/// The workloads that a spec calls references, by number.
pub(super) fn references(source: &Source, spec: &Spec, profile: Option<&Profile>) -> Result<Vec<WorkloadId>, Error> {
    let find = |(index, name): (usize, &String)| {
        let at = format!("references.{index}");
        let Some(profile) = profile else {
            return Err(source.error(&at, "references are workloads of a `profile`, the spec names none", "here"));
        };
        profile.id(name).ok_or_else(|| {
            let known = profile.workloads.iter().map(|workload| workload.name.as_str());
            let error = source.error(&at, &format!("the profile has no workload {name:?}"), "this reference");
            nearest(name, known).map(|near| format!("did you mean {near:?}?")).into_iter().fold(error, Error::hint)
        })
    };
    spec.references.iter().enumerate().map(find).collect()
}

/// Whether two paths that are relative to the same folder are one, however they are written.
fn is_same(one: &str, other: &str) -> bool {
    let parts = |path| Path::new(path).components().filter(|part| *part != Component::CurDir).collect::<Vec<_>>();
    parts(one) == parts(other)
}
