//! What the contract says of gangs on nodes: shape, nearness, CPU and memory. Quotations are of `wit/policy.wit`.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_runtime::cluster::Cluster;
use sandtable_runtime::contract::Demand;
use sandtable_runtime::contract::RejectCode::{self, *};

use crate::cpu::taken_without_gpus;
use crate::oracle::{Site, node};

/// V21: «a node has another number of the gang's GPUs than `demand.gpus-per-node`», of which 0 means «any way».
pub fn wrong_shape(site: &Site, job: &Demand, gpus: &BTreeSet<u32>) -> Option<RejectCode> {
    let counts = on_nodes(site, gpus.iter().copied());
    (job.gpus_per_node > 0 && counts.values().any(|count| *count != job.gpus_per_node)).then_some(WrongShape)
}

/// V18: «the gang's nodes are not within one domain of the level that `demand.near` requires.»
pub fn too_far(site: &Site, job: &Demand, gpus: &BTreeSet<u32>) -> Option<RejectCode> {
    let level = job.near.required?;
    let domains: BTreeSet<u32> = gpus.iter().map(|gpu| node(site, *gpu).domains[level as usize]).collect();
    (domains.len() > 1).then_some(NotNearEnough)
}

/// V19: «the jobs need more CPU or memory than the node has beside its GPUs», each «0 if unknown, and then not checked».
pub fn too_little_host(site: &Site, state: &Cluster, job: &Demand, gpus: &BTreeSet<u32>) -> Option<RejectCode> {
    let lacks = |(id, count): (&u32, &u32)| lacks_host(site, state, *id, part(job, *count));
    on_nodes(site, gpus.iter().copied()).iter().any(lacks).then_some(HostOverCommitted)
}

/// Whether a node has too little left for so much CPU and memory more.
pub fn lacks_host(site: &Site, state: &Cluster, node: u32, (more_cpu, more_memory): (u64, u64)) -> bool {
    let has = site.setup.topology.nodes[node as usize].host;
    let (cpu, memory) = taken_of(site, state, node);
    has.cpu_milli > 0 && cpu + more_cpu > u64::from(has.cpu_milli)
        || has.memory_mib > 0 && memory + more_memory > u64::from(has.memory_mib)
}

/// GPUs by node.
pub fn on_nodes(site: &Site, gpus: impl Iterator<Item = u32>) -> BTreeMap<u32, u32> {
    let mut counts = BTreeMap::new();
    gpus.for_each(|gpu| *counts.entry(node(site, gpu).id).or_default() += 1);
    counts
}

/// «A node with some of its GPUs provides as large a part, rounded up»: of CPU and of memory.
fn part(job: &Demand, gpus: u32) -> (u64, u64) {
    let of = |all: u32| (u64::from(all) * u64::from(gpus)).div_ceil(u64::from(job.gpus.max(1)));
    (of(job.host.cpu_milli), of(job.host.memory_mib))
}

/// CPU and memory of a node that the jobs on its GPUs take, and those without.
pub fn taken_of(site: &Site, state: &Cluster, id: u32) -> (u64, u64) {
    let node = &site.setup.topology.nodes[id as usize];
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for gpu in node.first_gpu..node.first_gpu + node.gpus {
        state.residents[gpu as usize].iter().for_each(|job| *counts.entry(job.number()).or_default() += 1);
    }
    let parts = counts.iter().map(|(job, count)| part(&site.announced[job], *count));
    parts.fold(taken_without_gpus(site, state, id), |(cpu, memory), part| (cpu + part.0, memory + part.1))
}
