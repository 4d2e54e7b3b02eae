//! A job as a policy sees it.

use std::rc::Rc;

use crate::{
    Elasticity, GpuId, GpuTypeId, HostResources, Instant, JobId, JobPhase, Nearness, NodeId, PartId, QueueId,
    ServiceId, WorkloadProfile,
};

/// A live job as the policy sees it.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its id: the tie-break of last resort.
    pub id: JobId,
    /// When it was submitted.
    pub submitted: Instant,
    /// Size of its gang; 0: it takes CPU and memory of one node alone.
    pub gpus: u32,
    /// Its GPUs on each of its nodes; 0: split in any way.
    pub gpus_per_node: u32,
    /// CPU and memory that the whole gang takes of its nodes.
    pub host: HostResources,
    /// How near to each other its nodes are.
    pub near: Nearness,
    /// Thousandths of a GPU that it asks for.
    pub share: u32,
    /// The part of a GPU that it asks for, if it asks for one.
    pub part: Option<PartId>,
    /// MiB that it needs on each GPU; 0: unknown.
    pub memory_mib: u32,
    /// What running alone has shown of its workload, if that is revealed.
    pub profile: Option<Rc<WorkloadProfile>>,
    /// Jobs of one number are of one workload; numbered in the order of their first arrival. None without a profile.
    pub workload: Option<u32>,
    /// Times that it ran out of memory.
    pub out_of_memory: u32,
    /// The types that it may run on; never empty.
    pub gpu_types: Rc<[GpuTypeId]>,
    /// Whether it may be preempted.
    pub preemptible: bool,
    /// Run time that its user declared, µs.
    pub declared_run_time: Option<u64>,
    /// When it should have ended.
    pub deadline: Option<Instant>,
    /// Higher is more important.
    pub priority: i32,
    /// The queue that it was submitted to; none: it is in no queue.
    pub queue: Option<QueueId>,
    /// Its user; empty: unknown.
    pub user: Rc<str>,
    /// How it may change its size, if it may.
    pub elastic: Option<Elasticity>,
    /// Which service it is a task of; none: it trains.
    pub serves: Option<ServiceId>,
    /// Its phase.
    pub phase: JobPhase,
    /// What it holds, in the order in which it was given; empty while it waits.
    pub held: Vec<GpuId>,
    /// The node that it is on, where it asks for no GPU.
    pub node: Option<NodeId>,
    pub(crate) attained: u64,
    pub(crate) given_at: Instant,
    pub(crate) run_time: u64,
    pub(crate) running_since: Option<Instant>,
    pub(crate) waiting_since: Instant,
    /// The first slice of the part that it holds.
    pub slice: Option<u32>,
    /// Its index among the holders.
    pub(crate) slot: usize,
}

impl Job {
    /// Microseconds that it has run so far, restarts included.
    pub fn run_time(&self, now: Instant) -> u64 {
        self.run_time + self.running_since.map_or(0, |since| now.saturating_sub(since))
    }

    /// Thousandths of a GPU that it asks for, over all of its gang.
    pub fn asked_milli(&self) -> u64 {
        u64::from(self.gpus) * u64::from(self.share)
    }

    /// Since when it makes progress; none: it makes none.
    pub fn runs_since(&self) -> Option<Instant> {
        self.running_since
    }

    /// Attained service: GPU-microseconds.
    pub fn service(&self, now: Instant) -> u64 {
        self.run_time(now) * u64::from(self.gpus)
    }

    /// GPU-microseconds for which it has held GPUs, whether it made progress or not.
    pub fn attained(&self, now: Instant) -> u64 {
        self.attained + now.saturating_sub(self.given_at) * self.held.len() as u64
    }

    /// Microseconds since it last held GPUs, or since it was submitted.
    pub fn waited(&self, now: Instant) -> u64 {
        if self.holds() { 0 } else { now.saturating_sub(self.waiting_since) }
    }

    /// Whether it holds GPUs, or has its place on a node without any.
    pub fn holds(&self) -> bool {
        !self.held.is_empty() || self.node.is_some()
    }

    /// Whether a policy may take its GPUs from it now: it may be preempted, and runs.
    pub fn may_be_moved(&self) -> bool {
        self.preemptible && self.phase == JobPhase::Running
    }

    /// Whether it waits: only then can it be started.
    pub fn waits(&self) -> bool {
        self.phase == JobPhase::Queued
    }

    /// Stops the clock of its run time.
    pub(crate) fn pause(&mut self, at: Instant) {
        self.run_time = self.run_time(at);
        self.running_since = None;
    }

    pub(crate) fn stop_clock(&mut self, at: Instant) {
        self.pause(at);
        self.waiting_since = at;
    }
}

/// What a job asks of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Size of its gang.
    pub gpus: u32,
    /// Its GPUs on each node; 0: split in any way.
    pub gpus_per_node: u32,
    /// Thousandths of a core that the whole gang takes of its nodes; 0: unknown.
    pub cpu_milli: u32,
    /// MiB beside GPUs that the whole gang takes of its nodes; 0: unknown.
    pub host_memory_mib: u32,
    /// The level within one domain of which its nodes must be.
    pub required: Option<u32>,
    /// The level within one domain of which its nodes should be.
    pub preferred: Option<u32>,
    /// Thousandths of each GPU.
    pub share: u32,
    /// The part of a GPU; none: whole GPUs, or a share.
    pub part: Option<PartId>,
    /// MiB on each GPU; 0: unknown.
    pub memory_mib: u32,
    /// Whether it may not be preempted: nodes that no owner may take back come first.
    pub pinned: bool,
    /// Whether it must be alone, because it ran out of memory beside other jobs.
    pub alone: bool,
}

impl Job {
    /// What it asks of a place.
    pub fn ask(&self) -> Ask {
        Ask {
            gpus: self.gpus,
            gpus_per_node: self.gpus_per_node,
            cpu_milli: self.host.cpu_milli,
            host_memory_mib: self.host.memory_mib,
            required: self.near.required,
            preferred: self.near.preferred,
            share: self.share,
            part: self.part,
            memory_mib: self.memory_mib,
            pinned: !self.preemptible,
            alone: self.out_of_memory > 0,
        }
    }
}

impl Ask {
    /// So many whole GPUs, on any nodes.
    pub fn whole(gpus: u32) -> Ask {
        Ask {
            gpus,
            gpus_per_node: 0,
            cpu_milli: 0,
            host_memory_mib: 0,
            required: None,
            preferred: None,
            share: 1000,
            part: None,
            memory_mib: 0,
            pinned: false,
            alone: false,
        }
    }

    /// Whether any GPUs will do.
    pub fn is_unbound(&self) -> bool {
        let nowhere = self.required.is_none() && self.preferred.is_none();
        nowhere && self.gpus_per_node == 0 && self.cpu_milli == 0 && self.host_memory_mib == 0
    }
}
