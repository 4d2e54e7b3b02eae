//! What gangs ask of their nodes beside free GPUs.

use sandtable_hardware::{Fleet, GpuId, Job, JobId, NodeId};

use super::Refusal;
use crate::cluster::{Cluster, Hosts, split};
use crate::contract::RejectCode;

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
    Hosts::parts(fleet, asked, gpus).try_for_each(|(node, part)| {
        let has = fleet.nodes[node].host;
        let left = has.less(hosts.taken[node]);
        check_host(job, node, ("thousandths of a CPU", has.cpu_milli, left.cpu_milli, part.cpu_milli))?;
        check_host(job, node, ("MiB of host memory", has.memory_mib, left.memory_mib, part.memory_mib))
    })
}

/// Whether a node has as much left as a job takes of it.
fn check_host(job: JobId, node: NodeId, (what, has, left, takes): (&str, u32, u64, u32)) -> Result<(), Refusal> {
    if has == 0 || u64::from(takes) <= left {
        return Ok(());
    }
    let message = format!("V19: job {job} takes {takes} {what} of node {node}, which has {left} left of {has}");
    Err((RejectCode::HostOverCommitted, message))
}
