//! Which job is where, as the contract defines it: a preempted job's GPUs are free at once for the job that starts next,
//! which then waits for them to drain. The judge's scratch copy is this very state with a journal: undoing costs what was
//! done, copying would cost the whole fleet for every plan.

mod held;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use held::Held;
use sandtable_hardware::{
    Fleet, GpuId, HostResources, HostUse, Instant, Job, JobId, Node, NodeId, ServiceId, queue_and_groups,
};

/// Where a job is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Not submitted yet: no policy has heard of it.
    Future,
    /// Waits.
    Queued,
    /// Holds GPUs and makes no progress yet.
    Starting,
    /// Makes progress.
    Running,
    /// Saves its state.
    Stopping,
    /// Done, or never begun.
    Ended,
}

/// The state.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The instant.
    pub now: Instant,
    /// The number of the latest batch.
    pub seq: u64,
    /// The jobs that each GPU is given to, ascending.
    pub residents: Vec<Vec<JobId>>,
    /// Phase of each job; changed by [`Cluster::set_phase`].
    pub phase: Vec<Phase>,
    /// How many jobs are in each phase.
    counts: [usize; 6],
    /// GPUs given to each job.
    pub held: Held,
    /// First slices of the parts of GPUs that jobs hold.
    pub slices: BTreeMap<JobId, u32>,
    /// The nodes of jobs that ask for no GPU and are on one.
    pub cpu_jobs: BTreeMap<JobId, NodeId>,
    /// Whether each node is up.
    pub up: Vec<bool>,
    /// Nodes that are up and going down, and when they do.
    pub draining: BTreeMap<NodeId, Instant>,
    /// GPUs of each node that no job has, also where the node is down.
    pub free: Vec<u32>,
    /// Timers by token.
    pub timers: BTreeMap<u64, Instant>,
    /// What jobs take of CPU and memory; none where no node's are known.
    pub hosts: Option<Hosts>,
    /// What the jobs of each queue hold; none where no queue has a limit.
    pub queues: Option<QueueUse>,
    /// What each GPU keeps of the service that it served; empty where nothing is served.
    pub pods: Vec<Pod>,
}

/// CPU and memory that jobs have taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Hosts {
    jobs: Arc<[Job]>,
    /// By node.
    pub taken: Vec<HostUse>,
}

impl Hosts {
    /// What a job takes of the nodes of its GPUs.
    pub fn parts<'a>(
        fleet: &'a Fleet,
        job: &'a Job,
        gpus: &'a [GpuId],
    ) -> impl Iterator<Item = (NodeId, HostResources)> + 'a {
        let gpus = if job.host.is_unknown() { &[] } else { gpus };
        split(fleet, gpus).map(|(node, count)| (node, job.host.part(count, job.gpus)))
    }
}

/// GPUs that the jobs of queues hold together.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueUse {
    jobs: Arc<[Job]>,
    /// Thousandths of a GPU by queue, those of the queues in a group included.
    pub held: Vec<u64>,
}

impl QueueUse {
    fn new(fleet: &Fleet, jobs: &Arc<[Job]>) -> Option<QueueUse> {
        fleet.limits_queues().then(|| QueueUse { jobs: jobs.clone(), held: vec![0; fleet.queues.len()] })
    }

    /// Counts GPUs that a job gets or gives up.
    fn count(&mut self, fleet: &Fleet, job: JobId, gpus: usize, gets: bool) {
        let Some(queue) = self.jobs[job].queue else { return };
        let milli = u64::from(self.jobs[job].share) * gpus as u64;
        for queue in queue_and_groups(&fleet.queues, queue) {
            let held = &mut self.held[queue];
            *held = if gets { *held + milli } else { *held - milli };
        }
    }
}

/// The nodes of a gang, and its GPUs on each.
pub(crate) fn split(fleet: &Fleet, gpus: &[GpuId]) -> impl Iterator<Item = (NodeId, u32)> + use<> {
    let mut nodes: Vec<NodeId> = gpus.iter().map(|gpu| fleet.node_of(*gpu)).collect();
    nodes.sort_unstable();
    let counts: Vec<(NodeId, u32)> = nodes.chunk_by(|a, b| a == b).map(|of| (of[0], of.len() as u32)).collect();
    counts.into_iter()
}

/// A model that is loaded on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pod {
    /// Whose; none: nothing is loaded.
    pub service: Option<ServiceId>,
    /// No other job gets the GPU before this.
    pub until: Instant,
}

/// One step back.
#[derive(Debug)]
pub(crate) enum Undo {
    /// With the pods that it evicted.
    Start(JobId, Vec<(GpuId, Pod)>),
    Preempt(JobId, Phase),
    /// The job that it moved, from where and in which phase; and the pods that it evicted.
    Reassign(Vec<(JobId, Vec<GpuId>, Phase)>, Vec<(GpuId, Pod)>),
    Protect(GpuId, Instant),
    Refuse(JobId),
    Set(u64),
    Cancel(u64, Instant),
    Nothing,
}

impl Cluster {
    /// An empty cluster and jobs that are still to come.
    pub fn new(fleet: &Fleet, jobs: &Arc<[Job]>) -> Cluster {
        let hosts = || Hosts { jobs: jobs.clone(), taken: vec![HostUse::default(); fleet.nodes.len()] };
        let (hosts, queues) = (fleet.knows_hosts().then(hosts), QueueUse::new(fleet, jobs));
        let jobs = jobs.len();
        Cluster {
            hosts,
            queues,
            now: Instant::START,
            seq: 0,
            residents: vec![Vec::new(); fleet.gpus() as usize],
            phase: vec![Phase::Future; jobs],
            counts: [jobs, 0, 0, 0, 0, 0],
            held: Held::new(jobs),
            slices: BTreeMap::new(),
            cpu_jobs: BTreeMap::new(),
            up: vec![true; fleet.nodes.len()],
            draining: BTreeMap::new(),
            free: fleet.nodes.iter().map(|node| node.gpus).collect(),
            timers: BTreeMap::new(),
            pods: vec![Pod::default(); if fleet.services.is_empty() { 0 } else { fleet.gpus() as usize }],
        }
    }

    /// Changes the phase of a job.
    pub fn set_phase(&mut self, job: JobId, phase: Phase) {
        let before = std::mem::replace(&mut self.phase[job], phase);
        self.counts[before as usize] -= 1;
        self.counts[phase as usize] += 1;
    }

    /// How many jobs are in a phase.
    pub fn count(&self, phase: Phase) -> usize {
        self.counts[phase as usize]
    }

    /// Gives a job these GPUs, or a part of one, from this slice on.
    pub(crate) fn give(&mut self, fleet: &Fleet, job: JobId, gpus: Vec<GpuId>, slice: Option<u32>) -> Undo {
        if let Some(slice) = slice {
            self.slices.insert(job, slice);
        }
        for gpu in &gpus {
            let there = &mut self.residents[*gpu];
            if there.is_empty() {
                self.free[fleet.node_of(*gpu)] -= 1;
            }
            let at = there.partition_point(|other| *other < job);
            assert_ne!(there.get(at), Some(&job), "GPU {gpu} is given to job {job} twice");
            there.insert(at, job);
        }
        if let Some(Hosts { jobs, taken }) = &mut self.hosts {
            Hosts::parts(fleet, &jobs[job], &gpus).for_each(|(node, part)| taken[node] += part);
        }
        if let Some(queues) = &mut self.queues {
            queues.count(fleet, job, gpus.len(), true);
        }
        let evicted = self.evict(&gpus);
        self.held.set(job, gpus);
        self.set_phase(job, Phase::Starting);
        Undo::Start(job, evicted)
    }

    /// Puts a job that asks for no GPU on this node.
    pub(crate) fn put(&mut self, job: JobId, node: NodeId) -> Undo {
        if let Some(Hosts { jobs, taken }) = &mut self.hosts {
            taken[node] += jobs[job].host;
        }
        self.cpu_jobs.insert(job, node);
        self.set_phase(job, Phase::Starting);
        Undo::Start(job, Vec::new())
    }

    /// GPUs of a node that failed hold nothing any more.
    pub(crate) fn unload(&mut self, node: &Node) {
        if !self.pods.is_empty() {
            self.pods[node.gpu_indices()].fill(Pod::default());
        }
    }

    /// Whatever was loaded on these GPUs is gone.
    fn evict(&mut self, gpus: &[GpuId]) -> Vec<(GpuId, Pod)> {
        if self.pods.is_empty() {
            return Vec::new();
        }
        let pods = gpus.iter().map(|gpu| (*gpu, std::mem::take(&mut self.pods[*gpu])));
        pods.filter(|(_, pod)| pod.service.is_some()).collect()
    }

    /// Jobs go on with other GPUs, all of them at once; what they leave is free.
    pub(crate) fn reassign(&mut self, fleet: &Fleet, moves: &[(JobId, &[GpuId])]) -> Undo {
        let mut before = Vec::new();
        for (job, _) in moves {
            let phase = self.phase[*job];
            self.take(fleet, *job);
            before.push((*job, self.held.take(*job), phase));
        }
        let mut evicted = Vec::new();
        for (job, gpus) in moves {
            if let Undo::Start(_, pods) = self.give(fleet, *job, gpus.to_vec(), None) {
                evicted.extend(pods);
            }
        }
        Undo::Reassign(before, evicted)
    }

    /// Frees a job's GPUs; `held` keeps them for an undo.
    pub(crate) fn take(&mut self, fleet: &Fleet, job: JobId) -> Undo {
        let before = self.phase[job];
        for gpu in &self.held[job] {
            let there = &mut self.residents[*gpu];
            there.retain(|other| *other != job);
            if there.is_empty() {
                self.free[fleet.node_of(*gpu)] += 1;
            }
        }
        if let Some(Hosts { jobs, taken }) = &mut self.hosts {
            Hosts::parts(fleet, &jobs[job], &self.held[job]).for_each(|(node, part)| taken[node] -= part);
            self.cpu_jobs.get(&job).into_iter().for_each(|node| taken[*node] -= jobs[job].host);
        }
        if let Some(queues) = &mut self.queues {
            queues.count(fleet, job, self.held[job].len(), false);
        }
        self.set_phase(job, Phase::Stopping);
        Undo::Preempt(job, before)
    }

    /// A job no longer holds what `take` left it, or lost what it held.
    pub(crate) fn release(&mut self, fleet: &Fleet, job: JobId, phase: Phase) {
        if matches!(self.phase[job], Phase::Starting | Phase::Running) {
            self.take(fleet, job);
        }
        self.held.take(job);
        self.slices.remove(&job);
        self.cpu_jobs.remove(&job);
        self.set_phase(job, phase);
    }

    pub(crate) fn undo(&mut self, fleet: &Fleet, undo: Undo) {
        match undo {
            Undo::Start(job, pods) => {
                self.take(fleet, job);
                self.held.take(job);
                self.slices.remove(&job);
                self.cpu_jobs.remove(&job);
                self.set_phase(job, Phase::Queued);
                self.restore(pods);
            }
            Undo::Reassign(before, pods) => {
                for (job, ..) in &before {
                    self.take(fleet, *job);
                }
                for (job, gpus, phase) in before {
                    self.give(fleet, job, gpus, None);
                    self.set_phase(job, phase);
                }
                self.restore(pods);
            }
            Undo::Protect(gpu, until) => self.pods[gpu].until = until,
            Undo::Refuse(job) => self.set_phase(job, Phase::Queued),
            Undo::Preempt(job, before) => {
                if let Some(node) = self.cpu_jobs.get(&job).copied() {
                    self.put(job, node);
                } else {
                    let gpus = self.held.take(job);
                    self.give(fleet, job, gpus, None);
                }
                self.set_phase(job, before);
            }
            Undo::Set(token) => {
                self.timers.remove(&token);
            }
            Undo::Cancel(token, at) => {
                self.timers.insert(token, at);
            }
            Undo::Nothing => {}
        }
    }

    fn restore(&mut self, pods: Vec<(GpuId, Pod)>) {
        for (gpu, pod) in pods {
            self.pods[gpu] = pod;
        }
    }
}
