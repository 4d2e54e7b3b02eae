//! Elastic jobs and inference tasks as events show them, and the actions that carry out an allocation.

use std::collections::BTreeMap;

use sandtable_policy::{
    Batch, Cadence, Cluster, Draws, Event, GpuId, Job, JobId, JobPhase, NodeId, PolicyError, Pool, Setup,
};

use crate::free_gpus::FreeGpus;
use crate::job::ElasticJob;
use crate::reclaim::{Deal, Place, Victim};
use crate::round::Round;
use crate::rules::{Partition, Reclaim, Rules};
use crate::serving::Serving;

struct Node {
    first: GpuId,
    gpus: u32,
    lends: bool,
}

/// Schedules elastic jobs and inference tasks: tracks them from events and carries out the allocations of a policy.
pub struct ElasticScheduler {
    rules: Rules,
    nodes: Vec<Node>,
    /// Training jobs by id.
    jobs: Vec<ElasticJob>,
    serving: Serving,
    serves: bool,
    /// Whether batches are set; else jobs keep their users'.
    tunes: bool,
    draws: Draws,
    /// Training jobs in the order in which DeepBoot's simulator keeps what they hold.
    turns: Vec<JobId>,
}

impl Node {
    fn all(&self) -> std::ops::Range<GpuId> {
        self.first..self.first + self.gpus
    }
}

impl ElasticScheduler {
    /// A scheduler without jobs; `tunes`: whether the policy sets batches.
    ///
    /// # Errors
    /// A partition that leaves inference or training without a GPU.
    pub fn new(rules: Rules, setup: &Setup, tunes: bool) -> Result<ElasticScheduler, PolicyError> {
        let node = |node: &sandtable_policy::Node| Node {
            first: node.first_gpu,
            gpus: node.gpus,
            lends: node.pool == Pool::Inference,
        };
        let nodes: Vec<Node> = setup.topology.nodes.iter().map(node).collect();
        let serves = !setup.services.is_empty();
        let refuse = |why: &str| Err(PolicyError::Unsupported(why.into()));
        if serves && rules.partition != Partition::Shared && !nodes.iter().any(|node| node.lends) {
            return refuse(
                "no node belongs to the inference pool: set `pool: Inference` in a group of the fleet, or `partition: \"shared\"`",
            );
        }
        if rules.partition == Partition::Apart && nodes.iter().all(|node| node.lends) {
            return refuse(
                "every node belongs to the inference pool, and the partition allows no lending: set `pool: Training` in a group of the fleet",
            );
        }
        if nodes.iter().any(|node| node.gpus > 255) {
            return refuse("a node may have at most 255 GPUs");
        }
        if setup.topology.gpu_types.len() > 1 {
            return refuse("goodput is fitted for one type of GPU, the fleet has several");
        }
        let serving = Serving::new(&rules, &setup.services);
        Ok(ElasticScheduler {
            rules,
            nodes,
            jobs: Vec::new(),
            serving,
            serves,
            tunes,
            draws: Draws::new(setup.seed),
            turns: Vec::new(),
        })
    }

    /// Rounds; also every event where there are services, or in the simulator's mode if the policy sets batches.
    pub fn cadence(&self) -> Cadence {
        // In the simulator a job looks at its batch also when an epoch has ended.
        Cadence {
            round: Some(self.rules.round),
            on_events: self.serves || (self.rules.compat && self.tunes),
            ..Cadence::EVENTS
        }
    }

    /// Takes in a batch, allocates what is due, and acts.
    ///
    /// # Errors
    /// A training job that is not elastic.
    pub fn decide(
        &mut self,
        batch: &Batch,
        cluster: &mut Cluster,
        allocate: impl FnOnce(&mut Round<'_>) -> Vec<Vec<NodeId>>,
    ) -> Result<(), PolicyError> {
        let task_done = self.take_in(batch, cluster)?;
        let round = batch.now.is_multiple_of(self.rules.round);
        let event = round || !self.rules.compat || self.is_event(batch, task_done);
        if !event {
            // The simulator allocates nothing now; a job whose epoch has ended looks at its batch.
            let quiet = batch.events.iter().all(|event| matches!(event, Event::JobChanged(_)));
            let reporting: Vec<JobId> = cluster.samples().iter().map(|sample| sample.job).collect();
            self.tune(cluster, |job| quiet && reporting.contains(&job));
            return Ok(());
        }
        self.serving.serve_warm(cluster);
        let mut wants: Vec<Vec<NodeId>> = self.jobs.iter().map(|job| job.list.clone().unwrap_or_default()).collect();
        let mut places = Vec::new();
        if round {
            places = self.allocate(cluster, &mut wants, allocate);
        } else if self.rules.compat && self.rules.reclaim != Reclaim::Random {
            // Between two rounds the simulator sorts the nodes of every job that it looks at: a move that changes no GPU.
            wants.iter_mut().for_each(|list| list.sort_unstable());
        }
        // In the simulator, tasks of a round wait for the next event, unless the policy itself places them.
        if !(round && self.rules.compat) {
            places = self.places(cluster, &mut wants);
        }
        if self.rules.reclaim == Reclaim::Node {
            self.leave_to_tasks(&mut wants, &places);
        }
        self.enact(cluster, wants, &places);
        if !self.serving.pending.is_empty() {
            match self.rules.compat {
                true => self.serving.next_look(batch.now).into_iter().for_each(|at| cluster.set_timer(at, at)),
                false => self.serving.next_asleep(batch.now).into_iter().for_each(|at| cluster.call_by(at)),
            }
        }
        Ok(())
    }

    /// Whether DeepBoot's simulator would look between two rounds: something came, a task was done, or one waits while a
    /// pod sleeps.
    fn is_event(&self, batch: &Batch, task_done: bool) -> bool {
        let arrives = |event: &Event| matches!(event, Event::JobArrived(_));
        let waits = || {
            let whole = batch.now.is_multiple_of(1_000_000);
            whole && !self.serving.pending.is_empty() && self.serving.asleep(batch.now).next().is_some()
        };
        self.serves && (task_done || batch.events.iter().any(arrives) || waits())
    }

    /// Takes in what happened; whether a task was done.
    fn take_in(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<bool, PolicyError> {
        let mut task_done = false;
        for event in &batch.events {
            match event {
                Event::JobArrived(new) => cluster.get(new.job).map_or(Ok(()), |job| self.arrives(job, cluster))?,
                Event::JobEnded(end) => match self.jobs.iter().position(|job| job.id == end.job) {
                    Some(at) => drop(self.jobs.remove(at)),
                    None => {
                        self.serving.done(end.job, cluster);
                        task_done = true;
                    }
                },
                Event::JobChanged(change) if change.phase == JobPhase::Queued => {
                    let job = self.jobs.iter_mut().find(|job| job.id == change.job);
                    match job {
                        Some(job) => job.list = job.list.take().map(|_| Vec::new()),
                        None => self.serving.waits_again(change),
                    }
                }
                Event::NodeChanged(change) => self.serving.pods.retain(|pod| pod.node != change.node),
                _ => {}
            }
        }
        for sample in cluster.samples() {
            if let Some(job) = self.jobs.iter_mut().find(|job| job.id == sample.job) {
                job.report(sample);
            }
        }
        Ok(task_done)
    }

    fn arrives(&mut self, job: &Job, cluster: &Cluster) -> Result<(), PolicyError> {
        if job.serves.is_some() {
            // One that runs when this policy takes over is served already.
            if job.waits() {
                self.serving.pending.push(job.id);
            }
            return Ok(());
        }
        let Some(elastic) = job.elastic else {
            let why = format!("job {} is not elastic: this policy is for jobs that have a batch", job.id);
            return Err(PolicyError::Unsupported(why));
        };
        let mut entry = ElasticJob::new(job.id, job.submitted, job.gpus, elastic);
        entry.list = job.holds().then(|| job.held.iter().map(|gpu| cluster.node(*gpu)).collect());
        self.jobs.push(entry);
        Ok(())
    }

    /// GPUs of a node that training may have.
    fn trainable(&self, cluster: &Cluster, node: usize) -> u32 {
        let of = &self.nodes[node];
        if !cluster.is_up(node as NodeId) || !self.in_reach(of) {
            return 0;
        }
        let kept = self.serving.pods.iter().filter(|pod| pod.node as usize == node && pod.is_kept(cluster.now()));
        of.gpus - kept.count() as u32
    }

    fn in_reach(&self, node: &Node) -> bool {
        !(node.lends && self.rules.partition == Partition::Apart)
    }

    /// GPUs that training may ever have.
    pub fn reach(&self) -> u32 {
        self.nodes.iter().filter(|node| self.in_reach(node)).map(|node| node.gpus).sum()
    }

    /// A fair share of all GPUs, counting inference tasks too where the simulator does.
    fn share(&self, cluster: &Cluster) -> (u32, u32) {
        let total = self.reach();
        let tasks = if self.rules.compat { self.serving.pending.len() + self.serving.pods.len() } else { 0 };
        let jobs = self.jobs.iter().filter(|job| ready(job, cluster)).count() + tasks;
        (total, total.div_ceil(jobs.max(1) as u32))
    }

    /// A fair share in an allocation; in the simulator, of the GPUs without inference tasks, among the training jobs.
    fn round_share(&self, cluster: &Cluster, free: &[u32]) -> (u32, u32) {
        let (total, share) = self.share(cluster);
        if !self.rules.compat {
            return (total, share);
        }
        let free = f64::from(free.iter().sum::<u32>().max(1));
        let jobs = self.jobs.iter().filter(|job| ready(job, cluster)).count().max(1);
        // Its own way to divide: of 49 GPUs each of seven jobs has eight.
        (total, (1.0 / (1.0 / free) / jobs as f64).ceil() as u32)
    }

    fn allocate(
        &mut self,
        cluster: &Cluster,
        wants: &mut [Vec<NodeId>],
        allocate: impl FnOnce(&mut Round<'_>) -> Vec<Vec<NodeId>>,
    ) -> Vec<Place> {
        let free: Vec<u32> = (0..self.nodes.len()).map(|node| self.trainable(cluster, node)).collect();
        let (total, share) = self.round_share(cluster, &free);
        let lent = self.nodes.iter().map(|node| node.lends).collect();
        let node = self.nodes.iter().map(|node| node.gpus).max().unwrap_or(1);
        let (mut jobs, others): (Vec<ElasticJob>, Vec<ElasticJob>) =
            std::mem::take(&mut self.jobs).into_iter().partition(|job| ready(job, cluster));
        let attained: Vec<u64> = jobs.iter().map(|job| cluster.job(job.id).attained(cluster.now())).collect();
        let now = cluster.now();
        let waiting = self.serving.pending.len() as u32;
        let compat = self.rules.compat;
        let tasks = Vec::new();
        let mut round =
            Round { now, free, lent, node, total, share, compat, waiting, tasks, jobs: &mut jobs, attained };
        let lists = allocate(&mut round);
        let Round { tasks, attained, .. } = round;
        let places = tasks.into_iter().map(Place::Empty).collect();
        if compat {
            let count = |id: &JobId| jobs.iter().position(|job| job.id == *id).map(|at| (at, lists[at].len()));
            let same = |id: &JobId| {
                count(id).is_some_and(|(at, count)| jobs[at].list.as_ref().is_some_and(|list| list.len() == count))
            };
            self.turns.retain(same);
            let mut others: Vec<(JobId, u64, u64)> =
                jobs.iter().enumerate().map(|(at, job)| (job.id, attained[at], job.submitted)).collect();
            others.sort_by_key(|(id, attained, submitted)| (*attained, *submitted, *id));
            others.retain(|(id, ..)| !self.turns.contains(id) && count(id).is_some_and(|(_, count)| count > 0));
            others.sort_by_key(|(id, ..)| count(id).map(|(_, count)| count));
            self.turns.extend(others.into_iter().map(|(id, ..)| id));
        }
        let mut lists: BTreeMap<JobId, Vec<NodeId>> = jobs.iter().map(|job| job.id).zip(lists).collect();
        self.jobs = jobs;
        self.jobs.extend(others);
        self.jobs.sort_by_key(|job| job.id);
        for (job, want) in self.jobs.iter().zip(wants.iter_mut()) {
            *want = lists.remove(&job.id).unwrap_or_default();
        }
        places
    }

    /// Where pending tasks go; training jobs may lose GPUs to them.
    fn places(&mut self, cluster: &Cluster, wants: &mut [Vec<NodeId>]) -> Vec<Place> {
        let tasks = self.serving.pending.len();
        if tasks == 0 {
            return Vec::new();
        }
        let (now, shared) = (cluster.now(), self.rules.partition == Partition::Shared);
        let open: Vec<bool> = (0..self.nodes.len())
            .map(|node| cluster.is_up(node as NodeId) && (shared || self.nodes[node].lends))
            .collect();
        let count = |list: &mut dyn Iterator<Item = NodeId>| {
            let mut counts = vec![0u32; self.nodes.len()];
            list.for_each(|node| counts[node as usize] += 1);
            counts
        };
        let training = count(&mut wants.iter().flatten().copied());
        let pods = count(&mut self.serving.pods.iter().map(|pod| pod.node));
        let sleepers = count(&mut self.serving.asleep(now).map(|pod| pod.node));
        let mut empty = vec![0; self.nodes.len()];
        let mut gone = vec![0; self.nodes.len()];
        for node in (0..self.nodes.len()).filter(|node| open[*node]) {
            let held = training[node] + pods[node];
            empty[node] = self.nodes[node].gpus.saturating_sub(held);
            // Training has been given GPUs of sleeping pods: so many of those are gone.
            gone[node] = held.saturating_sub(self.nodes[node].gpus).min(sleepers[node]);
        }
        let mut sleeping = |pod: &crate::serving::Pod| {
            let node = pod.node as usize;
            if gone[node] > 0 {
                gone[node] -= 1;
                return None;
            }
            open[node].then_some(pod.node)
        };
        let sleeping = self.serving.asleep(now).map(&mut sleeping).collect();
        let (_, share) = self.share(cluster);
        let how = if self.rules.partition == Partition::Apart { Reclaim::Never } else { self.rules.reclaim };
        // In the simulator, a job that keeps its batch is worth the number of its GPUs.
        let linear = self.rules.compat && !self.tunes;
        let mut all: Vec<_> = self.jobs.iter_mut().zip(wants.iter_mut()).collect();
        let turns: BTreeMap<JobId, usize> = self.turns.iter().enumerate().map(|(at, id)| (*id, at)).collect();
        let by_turn = self.rules.compat && how == Reclaim::Random;
        all.sort_by_key(|(job, _)| {
            let attained = cluster.get(job.id).map_or(0, |state| state.attained(now));
            let turn = if by_turn { turns.get(&job.id).copied().unwrap_or(usize::MAX) } else { 0 };
            (turn, attained, job.submitted, job.id)
        });
        let mut lists: Vec<&mut Vec<NodeId>> = Vec::new();
        let mut victims: Vec<Victim<'_>> = Vec::new();
        for (job, want) in all {
            let list = want.clone();
            let speedup = move |nodes, gpus| match linear {
                true => f64::from(gpus) / f64::from(share),
                false => job.speedup(nodes, gpus, share),
            };
            victims.push(Victim { list, speedup: Box::new(speedup) });
            lists.push(want);
        }
        let lent = self.nodes.iter().map(|node| node.lends).collect();
        let guard = self.rules.guard && !self.rules.compat;
        let in_order = self.rules.compat;
        let mut deal = Deal { empty, sleeping, victims: &mut victims, reach: open, lent, guard, in_order };
        let places = deal.places(tasks, how, &mut self.draws);
        lists.into_iter().zip(victims).for_each(|(want, victim)| *want = victim.list);
        places
    }

    /// Removes training from all nodes that serve.
    fn leave_to_tasks(&self, wants: &mut [Vec<NodeId>], places: &[Place]) {
        let taken = |place: &Place| match place {
            Place::Empty(node) | Place::Taken(node) => Some(*node),
            Place::Evicts(_) => None,
        };
        let busy = self.serving.pods.iter().filter(|pod| pod.task.is_some()).map(|pod| pod.node);
        let nodes: Vec<NodeId> = busy.chain(places.iter().filter_map(taken)).collect();
        wants.iter_mut().for_each(|want| want.retain(|node| !nodes.contains(node)));
    }

    /// Carries out an allocation: first what is released, then all moves at once, then starts, tasks last.
    fn enact(&mut self, cluster: &mut Cluster, wants: Vec<Vec<NodeId>>, places: &[Place]) {
        let now = cluster.now();
        let asleep = self.serving.asleep(now).map(|pod| pod.gpu).collect();
        let mut gpus = FreeGpus::new(self.nodes.iter().map(|node| node.gpus).sum(), asleep);
        for pod in self.serving.pods.iter().filter(|pod| pod.is_kept(now)) {
            gpus.mark(pod.gpu);
        }
        let plans = self.kept_gpus(cluster, &wants, &mut gpus);
        self.move_and_start(cluster, &wants, plans, &mut gpus);
        let tasks: Vec<JobId> = self.serving.pending.iter().copied().take(places.len()).collect();
        for (task, place) in tasks.into_iter().zip(places) {
            let node = match place {
                // Training may have been given this very GPU: any other sleeping pod of the node will do.
                Place::Evicts(pod) => cluster.node(gpus.asleep[*pod]),
                Place::Empty(node) | Place::Taken(node) => *node,
            };
            if let Some(gpu) = gpus.take(self.nodes[node as usize].all()) {
                self.serving.serve_cold(task, gpu, cluster);
            }
        }
        // A job that trains on a sleeping pod's GPU now has evicted the pod.
        let jobs = &self.jobs;
        let trains = |gpu: GpuId| jobs.iter().filter_map(|job| cluster.get(job.id)).any(|job| job.held.contains(&gpu));
        self.serving.pods.retain(|pod| pod.task.is_some() || !trains(pod.gpu));
        self.tune(cluster, |_| true);
    }

    /// The jobs that change, each with the GPUs that it keeps by place in its new list; marks what is kept as taken.
    fn kept_gpus(
        &self,
        cluster: &Cluster,
        wants: &[Vec<NodeId>],
        gpus: &mut FreeGpus,
    ) -> Vec<(usize, Vec<Option<GpuId>>)> {
        let same = |a: &[NodeId], b: &[NodeId]| match self.rules.compat {
            true => a == b,
            false => {
                let sorted = |list: &[NodeId]| {
                    let mut list = list.to_vec();
                    list.sort_unstable();
                    list
                };
                sorted(a) == sorted(b)
            }
        };
        let mut plans = Vec::new();
        for (index, (job, want)) in self.jobs.iter().zip(wants).enumerate() {
            let Some(state) = cluster.get(job.id) else { continue };
            if state.holds() && same(want, job.list.as_deref().unwrap_or_default()) {
                state.held.iter().for_each(|gpu| gpus.mark(*gpu));
                continue;
            }
            if !(state.holds() || (state.waits() && !want.is_empty())) {
                continue;
            }
            plans.push((index, gpus.keep(cluster, state.held.clone(), want)));
        }
        plans
    }

    /// Preempts, reassigns and starts the jobs that change.
    fn move_and_start(
        &mut self,
        cluster: &mut Cluster,
        wants: &[Vec<NodeId>],
        plans: Vec<(usize, Vec<Option<GpuId>>)>,
        free: &mut FreeGpus,
    ) {
        let (mut moves, mut starts) = (Vec::new(), Vec::new());
        for (index, kept) in plans {
            let want = &wants[index];
            let gpus: Option<Vec<GpuId>> = kept
                .iter()
                .zip(want)
                .map(|(kept, node)| kept.or_else(|| free.take(self.nodes[*node as usize].all())))
                .collect();
            let job = &mut self.jobs[index];
            let Some(gpus) = gpus else { unreachable!("job {} is given more than node {want:?} has", job.id) };
            if gpus.is_empty() {
                cluster.preempt(job.id);
                job.list = Some(Vec::new());
                continue;
            }
            job.list = Some(want.clone());
            job.restarts = Some(job.restarts.map_or(0, |restarts| restarts + 1));
            job.split = if self.tunes { job.split(want) } else { None };
            let entry = (job.id, gpus, job.split.map(Into::into));
            if cluster.job(job.id).holds() { moves.push(entry) } else { starts.push(entry) }
        }
        cluster.reassign(moves);
        for (id, gpus, split) in starts {
            cluster.start_with(id, gpus, split);
        }
    }

    /// Sets the best batch of these jobs where it has changed.
    fn tune(&mut self, cluster: &mut Cluster, of: impl Fn(JobId) -> bool) {
        if !self.tunes {
            return;
        }
        for job in self.jobs.iter_mut().filter(|job| of(job.id)) {
            let Some(list) = job.list.clone().filter(|list| !list.is_empty()) else { continue };
            let holds = cluster.get(job.id).is_some_and(sandtable_policy::Job::holds);
            if let Some(split) = job.split(&list).filter(|split| holds && Some(*split) != job.split) {
                job.split = Some(split);
                cluster.set_batch(job.id, split.into());
            }
        }
    }
}

/// Whether a job may be given GPUs: one that still saves its state may not.
fn ready(job: &ElasticJob, cluster: &Cluster) -> bool {
    cluster.get(job.id).is_some_and(|job| job.waits() || job.holds())
}
