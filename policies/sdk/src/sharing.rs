//! What the mirror says of nodes and of GPUs that several jobs may be on.

use std::rc::Rc;

use crate::{
    Cluster, Event, GpuId, GpuTypeId, Job, JobId, JobPhase, NodeId, Placement, QueueId, Reason, WorkloadProfile,
};

impl Cluster {
    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The GPUs of a node; none while it is down.
    pub fn node_gpus(&self, node: NodeId) -> std::ops::Range<GpuId> {
        let entry = &self.nodes[node as usize];
        entry.first..if entry.up { entry.first + entry.gpus } else { entry.first }
    }

    /// The type of a node's GPUs.
    pub fn node_type(&self, node: NodeId) -> GpuTypeId {
        self.nodes[node as usize].gpu_type
    }

    /// Free GPUs of a node; none while it is down.
    pub fn free_on(&self, node: NodeId) -> u32 {
        let entry = &self.nodes[node as usize];
        if entry.up { entry.free } else { 0 }
    }

    /// The lowest `count` free GPUs of a node, which must have them.
    pub fn take_from(&self, node: NodeId, count: u32) -> Vec<GpuId> {
        let mut gpus = Vec::with_capacity(count as usize);
        self.lowest_free(node, count, &mut gpus);
        gpus
    }

    /// The domains of a node, one for each level of the topology.
    pub fn domains(&self, node: NodeId) -> &[u32] {
        &self.nodes[node as usize].domains
    }

    /// GB/s between the GPUs of a node, row by row; empty: unknown.
    pub fn links(&self, node: NodeId) -> &[f64] {
        &self.nodes[node as usize].links
    }

    /// Jobs on a GPU, in the order of their starts; always empty where GPUs are not shared.
    pub fn residents(&self, gpu: GpuId) -> &[JobId] {
        self.residents.on(gpu)
    }

    /// How many jobs a GPU has.
    pub fn tasks(&self, gpu: GpuId) -> usize {
        let known = self.residents(gpu).len();
        if known == 0 && !self.is_free(gpu) { 1 } else { known }
    }

    /// Most jobs that the host lets share a packed GPU; 1 where GPUs are not packed.
    pub fn tenancy(&self) -> u32 {
        self.residents.tenancy
    }

    /// Device memory of a type, MiB; 0: unknown.
    pub fn memory_of(&self, gpu_type: GpuTypeId) -> u32 {
        self.residents.memory[gpu_type as usize]
    }

    /// MiB that the jobs on a GPU need, as far as known.
    pub fn memory_used(&self, gpu: GpuId) -> u64 {
        self.residents(gpu).iter().map(|id| u64::from(self.job(*id).memory_mib)).sum()
    }

    /// Whether the jobs on a GPU leave this much memory, as far as known, and none of them must be alone.
    pub(crate) fn has_memory(&self, gpu: GpuId, mib: u32) -> bool {
        let capacity = u64::from(self.memory_of(self.nodes[self.node_of(gpu)].gpu_type));
        // Parts have their own memory.
        let fits = capacity == 0 || self.can_cut() || self.memory_used(gpu) + u64::from(mib) <= capacity;
        fits && self.residents(gpu).iter().all(|id| self.job(*id).out_of_memory == 0)
    }

    /// GPUs of the largest node of these types.
    pub fn largest_node(&self, gpu_types: &[GpuTypeId]) -> u32 {
        gpu_types.iter().map(|gpu_type| self.pools[*gpu_type as usize].node_size).max().unwrap_or(0)
    }

    /// The node that lacks the fewest GPUs for a gang, of those that could hold it; ties by number.
    pub fn nearest_node(&self, job: &Job) -> Option<NodeId> {
        let able = |node: &NodeId| {
            job.gpu_types.contains(&self.node_type(*node)) && self.node_gpus(*node).len() >= job.gpus as usize
        };
        let nodes = (0..self.node_count() as NodeId).filter(able);
        nodes.max_by_key(|node| (self.free_on(*node), u32::MAX - node))
    }

    /// The profile of a workload.
    pub fn workload(&self, workload: u32) -> &Rc<WorkloadProfile> {
        &self.workloads[workload as usize]
    }

    /// Whether GPUs can be cut into parts.
    pub(crate) fn can_cut(&self) -> bool {
        self.residents.parts.can_cut()
    }

    /// Whether a job of this share asks for room beside others instead of for a whole GPU.
    pub fn is_fraction(&self, share: u32) -> bool {
        share < 1000 && self.residents.by_share
    }

    /// Whether a GPU takes one task of a job: it is empty, or it has few enough residents and enough memory, and neither
    /// the job nor a resident ran out of memory before.
    pub fn takes(&self, job: &Job, gpu: GpuId, max_share: u32) -> bool {
        let residents = self.residents(gpu);
        if residents.is_empty() {
            return self.is_free(gpu);
        }
        let most = max_share.min(self.tenancy()) as usize;
        residents.len() < most && job.out_of_memory == 0 && self.has_memory(gpu, job.memory_mib)
    }

    /// GPU utilisation of a job alone, on the type that it holds or would hold; 1 if unknown.
    pub fn utilisation(&self, job: &Job) -> f64 {
        let kind = self.type_of(job) as usize;
        let known = job.profile.as_ref().and_then(|profile| profile.gpu_utilisation.get(kind).copied());
        known.filter(|u| !u.is_nan()).unwrap_or(1.0)
    }

    /// The jobs that an event of the current batch puts into the queue: one that arrived or lost its GPUs, or those
    /// whose starts were refused (under lenient judging).
    pub fn queued_by(&self, event: &Event) -> impl Iterator<Item = &Job> {
        let (job, rejected) = match event {
            Event::JobArrived(arrival) => (Some(arrival.job), false),
            Event::JobChanged(change) if change.phase == JobPhase::Queued => (Some(change.job), false),
            Event::Rejected(_) => (None, true),
            _ => (None, false),
        };
        let ids = job.into_iter().chain(rejected.then(|| self.rejected_jobs()).into_iter().flatten());
        ids.filter_map(|id| self.get(id)).filter(|job| job.waits())
    }

    /// Gangs get their GPUs by this rule.
    pub(crate) fn placed_by(mut self, rule: Placement) -> Cluster {
        self.rule = rule;
        self
    }

    /// Why there is no place for a job that waits, by the policy's parameter `placement` where it has one; where there is a place, that
    /// the policy gave it none.
    pub fn why(&self, job: &Job) -> Reason {
        let full = |queue: &QueueId| self.queues.held(*queue) + job.asked_milli() > self.queues.limit(*queue);
        if let Some(queue) = job.queue.and_then(|queue| self.queues.path(queue).find(full)) {
            return Reason::OverLimit(queue);
        }
        if self.rule.find_any(self, &job.gpu_types, job.ask()).is_some() {
            return Reason::Policy("there is room for it, which the policy did not give it".into());
        }
        let enough = |gpu_type: &GpuTypeId| {
            let slices = job.part.is_some() && self.residents.has_left(*gpu_type, job.share);
            slices || self.free_gpus(*gpu_type) >= job.gpus
        };
        if job.gpu_types.iter().any(enough) { Reason::Fragmented } else { Reason::NoFreeGpus }
    }

    /// Jobs with an action in the previous plan that was rejected.
    pub fn rejected_jobs(&self) -> impl Iterator<Item = JobId> {
        self.rejections.iter().filter_map(|rejection| rejection.job)
    }
}
