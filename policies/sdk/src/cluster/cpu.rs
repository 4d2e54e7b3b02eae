//! What jobs take of nodes beside GPUs, and jobs that ask for no GPU.

use std::collections::BTreeMap;

use super::Cluster;
use crate::{Action, GpuId, HostResources, JobId, NodeId, StartOn, host};

impl Cluster {
    /// Starts a waiting job that asks for no GPU on a node.
    ///
    /// # Panics
    /// Where the job is not live, or has its place already.
    pub fn start_on(&mut self, id: JobId, node: NodeId) {
        self.hold_on(id, node);
        self.actions.push(Action::StartOn(StartOn { job: id, node }));
    }

    pub(super) fn hold_on(&mut self, id: JobId, node: NodeId) {
        self.take_host_of(node, self.job(id).host, true);
        self.begin_stay(id, &[]);
        if let Some(job) = self.job_mut(id) {
            job.node = Some(node);
        }
    }

    /// Notes that a job without GPUs has more, or less, of the CPU and memory of a node.
    pub(super) fn take_host_of(&mut self, node: NodeId, host: HostResources, takes: bool) {
        let taken = &mut self.nodes[node as usize].taken;
        for (taken, part) in taken.iter_mut().zip([host.cpu_milli, host.memory_mib]) {
            *taken = if takes { *taken + u64::from(part) } else { *taken - u64::from(part) };
        }
    }

    /// The nodes of jobs that ask for no GPU, as the host has them.
    pub(super) fn cpu_nodes(&self) -> BTreeMap<JobId, NodeId> {
        if self.jobs().all(|job| job.gpus > 0) {
            return BTreeMap::new();
        }
        let (nodes, jobs) = host::cpu_jobs();
        jobs.into_iter().zip(nodes).collect()
    }

    /// Thousandths of a GPU that no job has: those that are left to shares, or all or none of one that is not shared so.
    pub fn left_milli(&self, gpu: GpuId) -> u32 {
        match self.residents.by_share {
            true => self.residents.left(gpu).milli(),
            false if self.is_free(gpu) => 1000,
            false => 0,
        }
    }

    /// Thousandths of a core, and MiB of memory, that jobs have left of a node; [`u64::MAX`] where it is not known what it has.
    pub fn host_left(&self, node: NodeId) -> [u64; 2] {
        let of = &self.nodes[node as usize];
        let left = |has: u32, taken: u64| if has == 0 { u64::MAX } else { u64::from(has).saturating_sub(taken) };
        [left(of.host.cpu_milli, of.taken[0]), left(of.host.memory_mib, of.taken[1])]
    }
}
