//! Jobs that ask for no GPU: what the contract says of them, and how they are drawn. Quotations are of `wit/policy.wit`.

use sandtable_hardware::{HostResources, Job, JobId, Nearness, NodeId, Request};
use sandtable_runtime::cluster::{Cluster, Phase};
use sandtable_runtime::contract::RejectCode::{self, *};
use sandtable_runtime::contract::{Abilities, Action, Demand, Setup, StartOn};

use crate::oracle::Site;
use crate::oracle_nodes::lacks_host;

/// Of some jobs «the job takes CPU and memory of one node alone».
pub fn some_without_gpus(seconds: u64, request: Request) -> Request {
    if seconds % 11 != 3 || request.batch.is_some() || request.service.is_some() {
        return request;
    }
    let host = HostResources { cpu_milli: 1 + (seconds % 6) as u32, memory_mib: (seconds % 4) as u32 };
    let (batch, service, part, workload, memory_mib) = Default::default();
    let request = Request { host, near: Nearness::ANY, share: Job::WHOLE, ..request };
    Request { gpus: 0, gpus_per_node: 0, batch, service, part, workload, memory_mib, ..request }
}

/// All that is demanded of the node of a job that asks for no GPU.
pub fn on_node(site: &Site, state: &Cluster, it: &StartOn) -> Vec<RejectCode> {
    let job = site.announced.get(&it.job);
    // V08: «the job may not have this number of GPUs».
    let mut broken = Vec::from_iter(job.is_some_and(|job| job.gpus > 0).then_some(NotElastic));
    // V04: «there is no such GPU or node.»
    let Some(node) = site.setup.topology.nodes.get(it.node as usize) else {
        broken.push(UnknownGpu);
        return broken;
    };
    // V13: «the node is down or draining».
    let drains = site.uses.contains(Abilities::DRAIN) && state.draining.contains_key(&NodeId::new(it.node));
    broken.extend((!state.up[it.node as usize] || drains).then_some(GpuUnavailable));
    let Some(job) = job else { return broken };
    // V12: «the job does not allow the GPU type».
    let allowed = job.gpu_types.is_empty() || job.gpu_types.contains(&node.gpu_type);
    broken.extend((!allowed).then_some(GpuTypeNotAllowed));
    let takes = (u64::from(job.host.cpu_milli), u64::from(job.host.memory_mib));
    broken.extend(lacks_host(site, state, it.node, takes).then_some(HostOverCommitted));
    broken
}

/// CPU and memory of a node that such jobs take.
pub fn taken_without_gpus(site: &Site, state: &Cluster, node: u32) -> (u64, u64) {
    let there = |(job, on): &(&JobId, &NodeId)| {
        on.number() == node && matches!(state.phase[**job], Phase::Starting | Phase::Running)
    };
    let hosts = state.cpu_jobs.iter().filter(there).map(|(job, _)| site.announced[&job.number()].host);
    hosts.fold((0, 0), |(cpu, memory), of| (cpu + u64::from(of.cpu_milli), memory + u64::from(of.memory_mib)))
}

/// Everywhere that one may begin.
pub fn nodes_for(setup: &Setup, job: u32) -> impl Iterator<Item = Action> {
    (0..setup.topology.nodes.len() as u32).map(move |node| Action::StartOn(StartOn { job, node }))
}

/// Such a job that waits, if there is one.
pub fn waiting<'a>(jobs: impl Iterator<Item = (&'a u32, &'a Demand)>, state: &Cluster) -> Vec<u32> {
    let waits = |(job, of): &(&u32, &Demand)| of.gpus == 0 && state.phase[**job as usize] == Phase::Queued;
    jobs.filter(waits).map(|(job, _)| *job).collect()
}
