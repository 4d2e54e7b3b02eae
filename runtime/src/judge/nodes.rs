//! What gangs ask of their nodes beside free GPUs.

use sandtable_hardware::{Fleet, GpuId, HostResources, Job, JobId, NodeId};

use super::{Bench, Refusal};
use crate::cluster::{Cluster, Hosts, split};
use crate::contract::{Abilities, RejectCode, StartOn};

/// A gang has as many GPUs on each node as it asks for, on nodes as near to each other as it requires.
pub(super) fn check_shape(fleet: &Fleet, job: JobId, asked: &Job, gpus: &[GpuId]) -> Result<(), Refusal> {
    if asked.gpus_per_node > 0
        && let Some((node, found)) = split(fleet, gpus).find(|(_, count)| *count != asked.gpus_per_node)
    {
        let each = asked.gpus_per_node;
        let message = format!("V21: job {job} has {found} GPUs on node {node}, it asked for {each} on each node");
        return Err((RejectCode::WrongShape, message));
    }
    let Some(level) = asked.near.required else { return Ok(()) };
    let domain = |gpu: &GpuId| fleet.nodes[fleet.node_of(*gpu)].domains.get(level as usize).copied();
    let mut domains = gpus.iter().map(domain);
    let first = domains.next().flatten();
    if first.is_some() && domains.all(|domain| domain == first) {
        return Ok(());
    }
    let name = fleet.levels.get(level as usize).map_or("a level that the fleet lacks", String::as_str);
    Err((RejectCode::NotNearEnough, format!("V18: job {job} is not within one {name}, as it requires")))
}

/// Nodes have as much CPU and memory left as a job takes of them.
pub(super) fn check_hosts(
    fleet: &Fleet,
    cluster: &Cluster,
    job: JobId,
    asked: &Job,
    gpus: &[GpuId],
) -> Result<(), Refusal> {
    let Some(hosts) = &cluster.hosts else { return Ok(()) };
    Hosts::parts(fleet, asked, gpus).try_for_each(|(node, part)| check_host(fleet, hosts, job, node, part))
}

/// The node that takes a job which asks for no GPU, if it does.
pub(super) fn check_node(bench: &Bench<'_>, cluster: &Cluster, job: JobId, it: &StartOn) -> Result<NodeId, Refusal> {
    let (node, asked, nodes) = (NodeId::new(it.node), &bench.jobs[job], &bench.fleet.nodes);
    if asked.gpus > 0 {
        let message = format!("V08: job {job} is placed on no GPU, it asked for {}", asked.gpus);
        return Err((RejectCode::NotElastic, message));
    }
    if node.index() >= nodes.len() {
        return Err((RejectCode::UnknownGpu, format!("V04: node {node}, the last is {}", nodes.len() - 1)));
    }
    if !asked.gpu_types.is_empty() && !asked.gpu_types.contains(&nodes[node].gpu_type) {
        let name = &bench.fleet.types[nodes[node].gpu_type].name;
        return Err((RejectCode::GpuTypeNotAllowed, format!("V12: job {job} does not allow nodes with {name}")));
    }
    if !cluster.up[node] {
        return Err((RejectCode::GpuUnavailable, format!("V13: node {node} is down")));
    }
    if bench.uses.contains(Abilities::DRAIN) && cluster.draining.contains_key(&node) {
        return Err((RejectCode::GpuUnavailable, format!("V13: node {node} is draining")));
    }
    cluster.hosts.iter().try_for_each(|hosts| check_host(bench.fleet, hosts, job, node, asked.host))?;
    Ok(node)
}

/// Whether a node has as much left as a job takes of it.
fn check_host(fleet: &Fleet, hosts: &Hosts, job: JobId, node: NodeId, part: HostResources) -> Result<(), Refusal> {
    let has = fleet.nodes[node].host;
    let left = has.less(hosts.taken[node]);
    check_resource(job, node, ("thousandths of a CPU", has.cpu_milli, left.cpu_milli, part.cpu_milli))?;
    check_resource(job, node, ("MiB of host memory", has.memory_mib, left.memory_mib, part.memory_mib))
}

/// Whether a node has as much of one thing left as a job takes of it.
fn check_resource(job: JobId, node: NodeId, (what, has, left, takes): (&str, u32, u64, u32)) -> Result<(), Refusal> {
    if has == 0 || u64::from(takes) <= left {
        return Ok(());
    }
    let message = format!("V19: job {job} takes {takes} {what} of node {node}, which has {left} left of {has}");
    Err((RejectCode::HostOverCommitted, message))
}
