//! What a spec says of nodes beside their GPUs: CPU, memory, which are near each other, when they are taken down, and how their
//! owners take them back.

use std::path::Path;

use sandtable_core::error::Error;
use sandtable_core::text::nearest;
use sandtable_core::units::Bytes;
use sandtable_hardware::{
    Duration, Fleet, HostResources, Instant, Job, Maintenance, Nearness, NodeId, Pool, Revocable, SECOND,
};
use sandtable_inputs::nodes::NodeRow;
use sandtable_inputs::state::Change;
use sandtable_inputs::trace::{Near, Row};
use serde_json::{Value, json};

use crate::spec::{FleetSpec, Group, LevelSpec, MaintenanceSpec, NodeListSpec, RevocableSpec, Source};

/// Longer ones lead out of the time that a run has.
const LONGEST_NOTICE: Duration = Duration::from_secs(365 * 86_400);
/// Most levels of a fleet.
const MOST_LEVELS: usize = 16;

/// The fleet with the CPU and memory of its nodes, and with its levels.
pub(super) fn equip(source: &Source, spec: &FleetSpec, groups: &[Group], fleet: Fleet) -> Result<Fleet, Error> {
    let FleetSpec::Model { levels, maintenance, .. } = spec else { return Ok(fleet) };
    let (mut hosts, mut terms) = (Vec::new(), Vec::new());
    let of_all = matches!(spec, FleetSpec::Model { groups, .. } if groups.is_empty());
    let place = |index, field| match of_all {
        true => format!("fleet.{field}"),
        false => format!("fleet.groups.{index}.{field}"),
    };
    for (index, group) in groups.iter().enumerate() {
        let host = host(group.cpus, group.host_memory)
            .map_err(|message| source.error(&place(index, "cpus"), &message, "here"))?;
        hosts.extend((0..group.nodes).map(|_| host));
        let owner = group.revocable.map(revocable).transpose();
        let owner = owner.map_err(|message| source.error(&place(index, "revocable"), &message, "here"))?;
        terms.extend((0..group.nodes).map(|_| owner));
    }
    if levels.len() > MOST_LEVELS {
        let message = format!("expected at most {MOST_LEVELS} levels, found {}", levels.len());
        return Err(source.error("fleet.levels", &message, "here"));
    }
    if let Some(at) = levels.iter().position(|level| level.name.is_empty() || level.name.contains(char::is_control)) {
        let message = format!("expected a name without control characters, found {:?}", levels[at].name);
        return Err(source.error(&format!("fleet.levels.{at}.name"), &message, "here"));
    }
    if let Some(twice) = (1..levels.len()).find(|at| levels[..*at].iter().any(|before| before.name == levels[*at].name))
    {
        let message = format!("two levels are called {:?}", levels[twice].name);
        return Err(source.error(&format!("fleet.levels.{twice}"), &message, "the second"));
    }
    let levels: Vec<(String, u32)> = levels.iter().map(|LevelSpec { name, nodes }| (name.clone(), *nodes)).collect();
    let fleet = fleet.hosted(&hosts).owned(&terms).levelled(&levels);
    let fleet = fleet.map_err(|error| source.error("fleet.levels", &error.to_string(), "here"))?;
    let mut all = Vec::new();
    for (index, planned) in maintenance.iter().enumerate() {
        let found = maintained(planned, &fleet);
        all.extend(found.map_err(|why| source.error(&format!("fleet.maintenance.{index}"), &why, "here"))?);
    }
    let mut first = 0;
    for group in groups {
        let nodes = || (first..first + group.nodes).map(NodeId::new);
        let closed = |(from, to): &(Instant, Instant)| {
            let (from, to) = (*from, *to);
            nodes().map(move |node| Maintenance { node, announced: from, from, to, jobs_go_on: true })
        };
        all.extend(group.closed.iter().flat_map(closed));
        first += group.nodes;
    }
    Ok(fleet.maintained(all))
}

/// The nodes that a line of a spec takes down.
fn maintained(planned: &MaintenanceSpec, fleet: &Fleet) -> Result<Vec<Maintenance>, String> {
    let MaintenanceSpec { nodes, domain, from, to, notice } = planned;
    if to.0 <= from.0 {
        return Err("expected an end after the beginning".into());
    }
    let count = fleet.nodes.len();
    let nodes: Vec<NodeId> = match domain {
        None => nodes.iter().copied().map(NodeId::new).collect(),
        Some(_) if !nodes.is_empty() => return Err("expected `nodes` or a `domain`, found both".into()),
        Some((level, number)) => {
            let at = fleet.levels.iter().position(|name| name == level);
            let at = at.ok_or_else(|| format!("the fleet has no level {level:?}"))?;
            let last = fleet.nodes.last().map_or(0, |node| node.domains[at]);
            if *number > last {
                return Err(format!("no domain {number} of the level {level}: the last is {last}"));
            }
            NodeId::first(count).filter(|node| fleet.nodes[*node].domains[at] == *number).collect()
        }
    };
    if let Some(node) = nodes.iter().find(|node| node.index() >= count) {
        return Err(format!("no node {node}: the last is {}", count - 1));
    }
    if nodes.is_empty() {
        return Err("expected at least one node, found none".into());
    }
    let (from, to) = (Instant::at(from.0), Instant::at(to.0));
    let announced = Instant::at(from.since_start().saturating_sub(notice.map_or(Duration::ZERO, |notice| notice.0)));
    Ok(nodes.into_iter().map(|node| Maintenance { node, announced, from, to, jobs_go_on: false }).collect())
}

/// How nodes are taken back.
///
/// # Errors
/// Times that are next to nothing.
fn revocable(of: RevocableSpec) -> Result<Revocable, String> {
    let RevocableSpec { held, away, notice } = of;
    if held.0 < SECOND || away.0 < SECOND {
        return Err("the mean times that a node is held and away must be at least 1 s".into());
    }
    if notice.is_some_and(|notice| notice.0 > LONGEST_NOTICE) {
        return Err("expected a notice of at most 365d".into());
    }
    Ok(Revocable { notice: notice.map_or(Duration::ZERO, |notice| notice.0), held: held.0, away: away.0 })
}

/// CPU and memory, where they are stated.
///
/// # Errors
/// Cores that no job or node has.
pub(super) fn host(cpus: Option<f64>, memory: Option<Bytes>) -> Result<HostResources, String> {
    // What would count as none is unknown to all that follows.
    if let Some(cpus) = cpus.filter(|cpus| !(0.001..=4e6).contains(cpus)) {
        return Err(format!("expected a number of CPU cores from 0.001 to 4000000, found {cpus}"));
    }
    if let Some(Bytes(bytes)) = memory.filter(|bytes| bytes.0 < 1 << 20) {
        return Err(format!("expected at least 1MiB of memory, found {bytes} B"));
    }
    let memory_mib = u32::try_from(memory.map_or(0, |bytes| bytes.0 >> 20)).unwrap_or(u32::MAX);
    Ok(HostResources { cpu_milli: (cpus.unwrap_or(0.0) * 1000.0).round() as u32, memory_mib })
}

/// The groups of a list of nodes: nodes that are alike, one after the other, are one.
pub(super) fn listed(
    source: &Source,
    list: &NodeListSpec,
    folder: &Path,
    speed: Option<f64>,
    of_state: (&[Change], bool),
) -> Result<Vec<Group>, Error> {
    let rows = sandtable_inputs::nodes::read(&folder.join(&list.file), list.format, of_state).map_err(|error| {
        let shown = source.error("fleet.list", &error.message, "this list");
        Error { hint: error.hint, ..shown }
    })?;
    if speed.is_some() && rows.iter().any(|row| row.speed.is_some()) {
        return Err(source.error("fleet.speed", "the list of nodes says how fast each is", "here"));
    }
    let kinds: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
    if speed.is_none() && kinds.len() > 1 && rows.iter().all(|row| row.speed.is_none()) {
        let error =
            source.error("fleet.list", "nodes of several kinds of GPU, and none says how fast it is", "this list");
        return Err(error.hint("a column `speed` in a native list, or `speed: 1.0` beside it for all"));
    }
    let group = |of: &[NodeRow]| {
        let NodeRow { gpus, kind, host, speed: own, closed } = &of[0];
        let HostResources { cpu_milli, memory_mib } = *host;
        Group {
            nodes: of.len() as u32,
            gpus: *gpus,
            kind: kind.clone(),
            speed: own.or(speed),
            memory: None,
            cpus: (cpu_milli > 0).then(|| f64::from(cpu_milli) / 1000.0),
            host_memory: (memory_mib > 0).then_some(Bytes((memory_mib as usize) << 20)),
            revocable: None,
            pool: Pool::Training,
            closed: closed.clone(),
        }
    };
    Ok(rows.chunk_by(NodeRow::eq).map(group).collect())
}

/// Their part of a fleet's identity.
pub(super) fn fleet_key(fleet: &Fleet, key: &mut Value) {
    if !fleet.levels.is_empty() {
        let level = |(at, name): (usize, &String)| {
            // Where each domain begins.
            let begins = |id: &usize| *id > 0 && fleet.nodes[*id].domains[at] != fleet.nodes[*id - 1].domains[at];
            json!([name, (0..fleet.nodes.len()).filter(begins).collect::<Vec<_>>()])
        };
        key["levels"] = fleet.levels.iter().enumerate().map(level).collect();
    }
    if !fleet.maintenance.is_empty() {
        let of = |of: &Maintenance| match of.jobs_go_on {
            false => json!([of.node, of.announced, of.from, of.to]),
            true => json!([of.node, "closed", of.from, of.to]),
        };
        key["maintenance"] = fleet.maintenance.iter().map(of).collect();
    }
    if fleet.nodes.iter().any(|node| node.revocable.is_some()) {
        let owned = fleet.nodes.iter().enumerate().filter_map(|(id, node)| Some((id, node.revocable?)));
        key["revocable"] = owned.map(|(id, of)| json!([id, of.notice, of.held, of.away])).collect();
    }
    if fleet.knows_hosts() {
        let mut runs: Vec<(u32, HostResources)> = Vec::new();
        for node in &fleet.nodes {
            match runs.last_mut() {
                Some((count, host)) if *host == node.host => *count += 1,
                _ => runs.push((1, node.host)),
            }
        }
        key["hosts"] = runs.iter().map(|(count, host)| json!([count, host.cpu_milli, host.memory_mib])).collect();
    }
}

/// How near to each other the nodes of a job are.
pub(super) fn near(row: &Row, fleet: &Fleet) -> Result<Nearness, Error> {
    let Some(Near { required, preferred }) = row.near.as_deref() else { return Ok(Nearness::ANY) };
    let level = |name: &Option<String>| {
        let Some(name) = name else { return Ok(None) };
        let found = fleet.levels.iter().position(|level| level == name);
        found.map(|at| Some(at as u32)).ok_or_else(|| {
            let error = Error::usage(format!(
                "job {:?} asks for nodes of one {name:?}, a level that the fleet lacks",
                row.name
            ));
            error.hint(match (fleet.levels.is_empty(), nearest(name, fleet.levels.iter().map(String::as_str))) {
                (true, _) => format!("a modelled fleet may have levels: levels: [Level(name: {name:?}, nodes: 16)]"),
                (_, Some(near)) => format!("did you mean {near:?}?"),
                (_, None) => format!("it has {}", fleet.levels.join(", ")),
            })
        })
    };
    Ok(Nearness { required: level(required)?, preferred: level(preferred)? })
}

/// Whether not every GPU will do for a job.
pub(super) fn is_bound(job: &Job) -> bool {
    job.gpus_per_node > 0 || !job.host.is_unknown() || job.near.required.is_some()
}

/// GPUs on each node of a job that is a gang of so many, which are parts of GPUs where a preset counts those; 0 where they may be split
/// in any way, or can't be.
///
/// # Errors
/// An elastic job or a gang that can't have this shape.
pub(super) fn gpus_per_node(row: &Row, gpus: u32) -> Result<u32, Error> {
    let each = row.gpus_per_node;
    let why = if each > 0 && row.batch.is_some() {
        "an elastic job may have any number on each node".to_string()
    } else if each > 0 && !row.gpus.is_multiple_of(each) {
        format!("expected a divisor of its {} GPUs", row.gpus)
    } else {
        let nodes = row.gpus.checked_div(each).unwrap_or(0);
        return Ok(if gpus > 1 { gpus.checked_div(nodes).unwrap_or(0) } else { 0 });
    };
    Err(Error::usage(format!("job {:?} asks for {each} GPUs on each node: {why}", row.name)))
}
