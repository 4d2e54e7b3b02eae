//! The mirror of the cluster that a policy keeps from its batches: which jobs wait, which hold which GPUs, and which
//! GPUs are free.
//!
//! It shows what the host's judge would see while the plan is being made: GPUs of a preempted job are free for the
//! next start of the same plan. Speeds, remaining work and anything else that only the host knows are not here.

mod cpu;
mod cut;
mod elastic;
mod live;
mod nodes;
mod resync;
mod timers;
mod trial;

pub use trial::Resettled;

use std::collections::BTreeSet;
use std::rc::Rc;

use self::live::Live;
pub(crate) use self::nodes::{MirrorNode, TypePool};
use crate::job::Job;
use crate::node_set::NodeSet;
use crate::queue_tree::{QueueTree, Side};
use crate::residents::{Residents, Take};
use crate::{
    Action, Arrival, Batch, ChangeCause, Demand, Event, GpuId, GpuTypeId, Instant, Introductions, JobId, JobPhase,
    NEVER, NO_QUEUE, NO_WORKLOAD, NodeId, Placement, Preempt, PreemptMode, Quantity, Rejection, Sample, Throttle,
    Topology, Trigger, WorkloadProfile, host,
};

/// What the jobs of a class ask for.
struct Class {
    demand: Demand,
    /// The types that it allows; never empty.
    gpu_types: Rc<[GpuTypeId]>,
}

/// The mirror. Actions are taken through it, so that it always shows what the plan so far leaves.
pub struct Cluster {
    now: Instant,
    pub(crate) nodes: Vec<MirrorNode>,
    /// The node of each GPU.
    node_of: Vec<NodeId>,
    pub(crate) pools: Vec<TypePool>,
    jobs: Live<Job>,
    holders: Vec<JobId>,
    /// Jobs that wait, and the GPUs that they ask for together.
    queued: (usize, u64),
    pub(crate) queues: QueueTree,
    /// The types that a job without a restriction allows.
    all_types: Rc<[GpuTypeId]>,
    /// How many of the holders may not be preempted.
    pinned: usize,
    /// How many nodes drain, and which have begun to.
    draining: usize,
    drained: Vec<NodeId>,
    classes: Vec<Class>,
    /// Names of users.
    users: Vec<Rc<str>>,
    /// Profiles by workload.
    pub(crate) workloads: Vec<Rc<WorkloadProfile>>,
    /// What elastic jobs report in this batch.
    samples: Vec<Sample>,
    /// Why actions of the previous plan were refused.
    pub(crate) rejections: Vec<Rejection>,
    /// The jobs on each GPU, where several may be.
    pub(crate) residents: Residents,
    /// Instants to come for which [`Cluster::call_by`] has set timers.
    calls: BTreeSet<Instant>,
    /// How gangs get their GPUs, as far as the policy has a parameter for it.
    pub(crate) rule: Placement,
    /// Whether any node's owner may take it back.
    pub(crate) has_owners: bool,
    actions: Vec<Action>,
}

impl Cluster {
    /// An empty cluster of this shape.
    pub fn new(topology: &Topology) -> Cluster {
        let mut cluster = Cluster {
            now: 0,
            nodes: Vec::new(),
            node_of: Vec::new(),
            pools: topology.gpu_types.iter().map(|_| TypePool::default()).collect(),
            jobs: Live::new(),
            holders: Vec::new(),
            queued: (0, 0),
            queues: QueueTree::default(),
            all_types: (0..topology.gpu_types.len() as GpuTypeId).collect(),
            pinned: 0,
            draining: 0,
            drained: Vec::new(),
            classes: Vec::new(),
            users: Vec::new(),
            workloads: Vec::new(),
            samples: Vec::new(),
            rejections: Vec::new(),
            residents: Residents::new(topology),
            calls: BTreeSet::new(),
            rule: Placement::Count,
            has_owners: topology.nodes.iter().any(|node| node.revocable.is_some()),
            actions: Vec::new(),
        };
        for node in &topology.nodes {
            let pool = &mut cluster.pools[node.gpu_type as usize];
            pool.node_size = pool.node_size.max(node.gpus);
            cluster.nodes.push(MirrorNode::new(node));
            cluster.node_of.resize((node.first_gpu + node.gpus) as usize, node.id);
        }
        for pool in &mut cluster.pools {
            pool.by_free = vec![NodeSet::default(); pool.node_size as usize + 1];
        }
        for node in &topology.nodes {
            cluster.set_health(node.id, node.health);
        }
        cluster
    }

    /// The instant of the batch.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A live job.
    ///
    /// # Panics
    /// Where the job has ended or never was.
    pub fn job(&self, id: JobId) -> &Job {
        self.get(id).unwrap_or_else(|| panic!("job {id} is not live"))
    }

    /// A job, if it is live.
    pub fn get(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(id)
    }

    /// How many jobs are live.
    pub fn live(&self) -> usize {
        self.jobs.count()
    }

    /// How many jobs wait, and how many GPUs they ask for together.
    pub fn queued(&self) -> (usize, u64) {
        self.queued
    }

    /// Jobs that hold GPUs, in an order that only history decides.
    pub fn holders(&self) -> impl ExactSizeIterator<Item = &Job> {
        self.holders.iter().map(|id| self.job(*id))
    }

    /// Jobs that hold GPUs and that a quota leaves them to ([`Cluster::stays`]).
    pub fn pinned(&self) -> impl Iterator<Item = &Job> {
        let all = if self.pinned == 0 && self.draining == 0 { None } else { Some(self.holders()) };
        all.into_iter().flatten().filter(|job| self.stays(job))
    }

    /// Live jobs by id.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter()
    }

    /// The number of GPU types.
    pub fn types(&self) -> usize {
        self.pools.len()
    }

    /// GPUs of a type on nodes that are up, and do not drain.
    pub fn up_gpus(&self, gpu_type: GpuTypeId) -> u32 {
        self.pools[gpu_type as usize].up_gpus
    }

    /// GPUs of all types on nodes that are up, and do not drain.
    pub fn all_up_gpus(&self) -> u32 {
        self.pools.iter().map(|pool| pool.up_gpus).sum()
    }

    /// Free GPUs of a type.
    pub fn free_gpus(&self, gpu_type: GpuTypeId) -> u32 {
        self.pools[gpu_type as usize].free
    }

    /// The type that a job holds, or else the first that it allows.
    pub fn type_of(&self, job: &Job) -> GpuTypeId {
        match job.held.first() {
            Some(gpu) => self.nodes[self.node_of(*gpu)].gpu_type,
            None => job.gpu_types[0],
        }
    }

    /// Seconds left of each job on the type that it holds or would hold; NaN: unknown.
    pub fn remaining(&self, jobs: &[JobId]) -> Vec<f64> {
        let types = jobs.iter().map(|id| self.type_of(self.job(*id))).collect();
        host::estimate(Quantity::Remaining, jobs.to_vec(), types)
    }

    /// What elastic jobs report in this batch, by job.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    // ------------------------------------------------------------ actions

    /// Starts a waiting job on these GPUs, all of which must be free here, or shared with room for it. A part of a GPU begins at the slice
    /// that leaves the most places for parts of all sizes.
    ///
    /// # Panics
    /// Where there is no room for it.
    pub fn start(&mut self, id: JobId, gpus: Vec<GpuId>) {
        match self.job(id).part {
            None => self.start_with(id, gpus, None),
            Some(part) => self.start_part(id, part, gpus[0]),
        }
    }

    /// Takes the GPUs from a job; its work is saved.
    pub fn preempt(&mut self, id: JobId) {
        let now = self.now;
        self.release(id, now, JobPhase::Stopping);
        self.actions.push(Action::Preempt(Preempt { job: id, mode: PreemptMode::Checkpoint }));
    }

    /// Takes the GPUs from a job at once; what it has not saved is lost.
    pub fn kill(&mut self, id: JobId) {
        let now = self.now;
        self.release(id, now, JobPhase::Stopping);
        self.actions.push(Action::Preempt(Preempt { job: id, mode: PreemptMode::Kill }));
    }

    /// Refuses a waiting job: it ends, for good, and the next batch says so.
    pub fn refuse(&mut self, id: JobId) {
        let now = self.now;
        self.release(id, now, JobPhase::Ended);
        self.actions.push(Action::Refuse(id));
    }

    /// Holds a running job to thousandths of its own speed.
    pub fn throttle(&mut self, id: JobId, milli: u32) {
        self.actions.push(Action::Throttle(Throttle { job: id, milli }));
    }

    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    // ------------------------------------------------------------- events

    /// Updates the mirror with a batch and what it introduces.
    pub fn take_in(&mut self, batch: &Batch, new: Introductions) {
        self.now = batch.now;
        while self.calls.first().is_some_and(|at| *at <= batch.now) {
            self.calls.pop_first();
        }
        for demand in new.classes {
            let allowed = demand.gpu_types.as_slice();
            let gpu_types = if allowed.is_empty() { self.all_types.clone() } else { allowed.into() };
            self.classes.push(Class { demand, gpu_types });
        }
        self.users.extend(new.users.into_iter().map(Rc::from));
        self.workloads.extend(new.workloads.into_iter().map(Rc::new));
        self.samples = new.samples;
        self.rejections.clear();
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) => self.arrive(arrival),
                Event::JobEnded(end) => {
                    self.release(end.job, end.at, JobPhase::Ended);
                    self.jobs.remove(end.job);
                }
                Event::JobChanged(change) => match change.phase {
                    JobPhase::Running => {
                        if let Some(job) = self.job_mut(change.job)
                            && job.holds()
                        {
                            job.phase = JobPhase::Running;
                            job.running_since = Some(change.at);
                        }
                    }
                    JobPhase::Starting => {
                        if let Some(job) = self.job_mut(change.job) {
                            job.phase = JobPhase::Starting;
                            job.pause(change.at);
                        }
                    }
                    JobPhase::Queued => self.release(change.job, change.at, JobPhase::Queued),
                    // A policy knows of its own preemptions; those of the policy before it are announced.
                    JobPhase::Stopping if batch.trigger == Trigger::Resync => {
                        self.release(change.job, change.at, JobPhase::Stopping);
                    }
                    JobPhase::Stopping if change.cause == ChangeCause::OutOfMemory => {
                        self.release(change.job, change.at, JobPhase::Stopping);
                        if let Some(job) = self.job_mut(change.job) {
                            job.out_of_memory += 1;
                        }
                    }
                    _ => {}
                },
                Event::NodeChanged(change) => self.set_health(change.node, change.health),
                Event::RemainingChanged(_) | Event::LeaseEnded(_) | Event::Timer(_) => {}
                Event::Rejected(_) => self.rejections = host::rejections(),
            }
        }
        if !self.rejections.is_empty() || batch.trigger == Trigger::Resync {
            self.resync();
        }
        for attained in new.attained {
            if let Some(job) = self.job_mut(attained.job) {
                (job.run_time, job.attained) = (attained.run_time, attained.gpu_time);
                // Since when it waits is not told: it begins to wait anew.
                job.waiting_since = batch.now;
            }
        }
    }

    fn arrive(&mut self, arrival: &Arrival) {
        let Class { demand, gpu_types } = &self.classes[arrival.class as usize];
        let workload = Some(arrival.workload).filter(|workload| *workload != NO_WORKLOAD);
        let declared = arrival.declared_run_time;
        self.jobs.insert(
            arrival.job,
            Job {
                id: arrival.job,
                submitted: arrival.submitted,
                gpus: demand.gpus,
                gpus_per_node: demand.gpus_per_node,
                host: demand.host,
                near: demand.near,
                share: demand.share_milli,
                part: demand.part,
                slice: None,
                memory_mib: demand.memory_mib,
                profile: workload.map(|workload| self.workloads[workload as usize].clone()),
                workload,
                out_of_memory: 0,
                gpu_types: gpu_types.clone(),
                preemptible: demand.preemptible,
                declared_run_time: Some(declared).filter(|declared| *declared != NEVER),
                deadline: Some(arrival.deadline).filter(|deadline| *deadline != NEVER),
                priority: arrival.priority,
                queue: Some(arrival.queue).filter(|queue| *queue != NO_QUEUE),
                user: self.users[arrival.user as usize].clone(),
                elastic: demand.elastic,
                serves: demand.service,
                attained: 0,
                given_at: 0,
                phase: JobPhase::Queued,
                held: Vec::new(),
                node: None,
                run_time: 0,
                running_since: None,
                waiting_since: arrival.submitted,
                slot: 0,
            },
        );
        let gpus = demand.gpus;
        self.count_queued(gpus, true);
        self.count_in_queues(arrival.job, Side::Waiting, gpus as usize, true);
    }

    /// Orders the types of the jobs that come with a batch, the one on which each is fastest first.
    pub(crate) fn prefer_fastest(&mut self, batch: &Batch) {
        let arrived = batch.events.iter().filter_map(|event| match event {
            Event::JobArrived(arrival) => Some(arrival.job),
            _ => None,
        });
        for id in arrived {
            // One that has ended since came for nothing.
            let Some(types) = self.get(id).map(|job| job.gpu_types.clone()) else { continue };
            if types.len() < 2 {
                continue;
            }
            let rates = host::estimate(Quantity::Throughput, vec![id; types.len()], types.to_vec());
            let mut order: Vec<(f64, GpuTypeId)> = rates.into_iter().zip(types.iter().copied()).collect();
            // Types of unknown throughput come last.
            order.iter_mut().filter(|(rate, _)| rate.is_nan()).for_each(|(rate, _)| *rate = f64::NEG_INFINITY);
            order.sort_by(|a, b| b.0.total_cmp(&a.0));
            if let Some(job) = self.job_mut(id) {
                job.gpu_types = order.into_iter().map(|(_, gpu_type)| gpu_type).collect();
            }
        }
    }

    // ---------------------------------------------------------- internals

    fn job_mut(&mut self, id: JobId) -> Option<&mut Job> {
        self.jobs.get_mut(id)
    }

    fn hold(&mut self, id: JobId, gpus: &[GpuId]) {
        self.occupy(id, gpus);
        let (host, all) = (self.job(id).host, self.job(id).gpus);
        self.take_host(host, all, gpus, true);
        self.begin_stay(id, gpus);
    }

    fn begin_stay(&mut self, id: JobId, gpus: &[GpuId]) {
        let now = self.now;
        let slot = self.holders.len();
        let job = self.job_mut(id).unwrap_or_else(|| panic!("job {id} is not live"));
        assert!(!job.holds(), "job {id} already holds GPUs");
        let (waited, pinned, asked) = (job.waits(), !job.preemptible, job.gpus);
        job.held = gpus.to_vec();
        job.given_at = now;
        job.phase = JobPhase::Starting;
        job.slot = slot;
        self.pinned += usize::from(pinned);
        self.holders.push(id);
        self.count_in_queues(id, Side::Waiting, asked as usize, false);
        self.count_in_queues(id, Side::Held, gpus.len(), true);
        if waited {
            self.count_queued(asked, false);
        }
    }

    fn count_in_queues(&mut self, id: JobId, side: Side, gpus: usize, comes: bool) {
        if let Some(job) = self.jobs.get(id) {
            self.queues.count(job, side, gpus, comes);
        }
    }

    fn count_queued(&mut self, gpus: u32, comes: bool) {
        let (jobs, total) = self.queued;
        self.queued = if comes { (jobs + 1, total + u64::from(gpus)) } else { (jobs - 1, total - u64::from(gpus)) };
    }

    fn release(&mut self, id: JobId, at: Instant, phase: JobPhase) {
        let Some(job) = self.job_mut(id) else { return };
        let (held, node) = (std::mem::take(&mut job.held), job.node.take());
        let (waited, asked, had_ended) = (job.waits(), job.gpus, job.phase == JobPhase::Ended);
        job.phase = phase;
        if waited != (phase == JobPhase::Queued) {
            self.count_queued(asked, !waited);
        }
        let has_place = !held.is_empty() || node.is_some();
        let (wanted, wants) = (!has_place && !had_ended, phase != JobPhase::Ended);
        if wanted != wants {
            self.count_in_queues(id, Side::Waiting, asked as usize, wants);
        }
        if !has_place {
            return;
        }
        self.count_in_queues(id, Side::Held, held.len(), false);
        let Some(job) = self.job_mut(id) else { return };
        job.attained += at.saturating_sub(job.given_at) * held.len() as u64;
        job.stop_clock(at);
        let (pinned, slot, host) = (!job.preemptible, job.slot, job.host);
        self.pinned -= usize::from(pinned);
        self.holders.swap_remove(slot);
        if let Some(moved) = self.holders.get(slot).copied()
            && let Some(moved) = self.job_mut(moved)
        {
            moved.slot = slot;
        }
        self.take_host(host, asked, &held, false);
        node.into_iter().for_each(|node| self.take_host_of(node, host, false));
        if self.residents.is_shared() {
            for gpu in held {
                let node = self.node_of(gpu);
                let (gpu_type, take) = (self.nodes[node].gpu_type, self.taken_by(id, node));
                if self.residents.leave(gpu, gpu_type, id, take) {
                    self.flip(node, &[gpu], true);
                }
            }
            return self.place(id, None);
        }
        self.flip_all(&held, true);
    }

    fn occupy(&mut self, id: JobId, gpus: &[GpuId]) {
        if !self.residents.is_shared() {
            return self.flip_all(gpus, false);
        }
        for gpu in gpus {
            let node = self.node_of(*gpu);
            let (gpu_type, take) = (self.nodes[node].gpu_type, self.taken_by(id, node));
            if self.residents.come(*gpu, gpu_type, id, take) {
                self.flip(node, &[*gpu], false);
            }
        }
    }

    /// What a job takes of a GPU of a node.
    pub(crate) fn taken_by(&self, id: JobId, node: usize) -> Take {
        let job = self.job(id);
        let slices = if job.part.is_some() { self.slices_of(id, self.nodes[node].gpu_type) } else { 0 };
        Take { milli: job.share, slices }
    }
}
