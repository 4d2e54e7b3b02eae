//! Which jobs let GPUs go for one that waits: of queues above their fair share, or of its own queue.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

use sandtable_policy::{Cluster, GpuId, Job, JobId, Kind, NEVER, NodeId, Param, QueueId, host};
use sandtable_queues::Protected;

use crate::shares::Shares;

/// What a job may take from other queues.
pub struct Offer {
    /// Jobs, in the order in which they are to go, which is that of [`Line`].
    pub jobs: Vec<JobId>,
    /// Below each group that the job shares with one of them: its own queue or group, that of the other, and what the latter holds.
    sides: BTreeSet<(QueueId, QueueId, u64)>,
}

/// Whether a job may take anything from other queues: its queue stays within its fair share with it; if the job may not be preempted, its
/// queue and groups stay within what they are guaranteed.
pub fn may_take(cluster: &Cluster, shares: &Shares, job: &Job) -> bool {
    let within = |own| cluster.queues().held(own) + job.asked_milli() <= shares.fair(own);
    job.queue.is_some_and(within) && Shares::guarantees(cluster, job)
}

/// What a job that [`may_take`] may take from other queues: jobs whose queue, below the group that both are in, is above its fair share or
/// its limit; or above what it is guaranteed while that of the job stays within its own. What this plan starts does not count: else older
/// jobs would go for it.
pub fn from_others(cluster: &Cluster, shares: &Shares, job: &Job, (protected, order): (&Protected, &Order)) -> Offer {
    let mut offer = Offer { jobs: Vec::new(), sides: BTreeSet::new() };
    let sides = Sides::of(cluster, shares, job);
    let mut line = sides.line(protected, order);
    while let Some(queue) = line.last() {
        // What a queue has left only shrinks: where it gives no job, it gives none after that.
        let Some((mine, theirs)) = sides.between(queue).filter(|(mine, theirs)| sides.gives(&line, *mine, *theirs))
        else {
            line.leave(queue);
            continue;
        };
        offer.sides.insert((mine, theirs, cluster.queues().held(theirs)));
        offer.jobs.extend(line.pop(queue));
    }
    offer
}

/// Jobs of other queues that go for one that fits on a single node, and its place then, where what others let go elsewhere is of no use.
///
/// Victims are taken one after the other in the order of [`Line`], and each time those that were taken on the nodes of the latest go, the
/// others stay: only what really goes counts for whether it is fair. Source: KAI-Scheduler, `byPodSolver` and `reclaimable.go`.
pub fn on_one_node(
    cluster: &mut Cluster,
    shares: &Shares,
    job: &Job,
    (protected, order): (&Protected, &Order),
    find: impl Fn(&Cluster) -> Option<Vec<GpuId>>,
) -> Option<(Vec<JobId>, Vec<GpuId>)> {
    // A whole GPU is of use wherever it is, unless parts of it are others'.
    let is_part = |job: &Job| job.share < 1000 || job.part.is_some();
    let is_one_node = match job.gpus {
        0 | 1 => is_part(job) || cluster.holders().any(is_part),
        gpus => job.ask().gpus_per_node >= gpus,
    };
    if !is_one_node {
        return None;
    }
    let taken = {
        let mut line = Sides::of(cluster, shares, job).line(protected, order);
        std::iter::from_fn(move || line.last().and_then(|queue| line.pop(queue))).collect::<Vec<JobId>>()
    };
    let mut of_node: BTreeMap<NodeId, (u32, Vec<JobId>)> = BTreeMap::new();
    for id in taken {
        let mut nodes: BTreeMap<NodeId, u32> = BTreeMap::new();
        cluster.job(id).held.iter().for_each(|gpu| *nodes.entry(cluster.node(*gpu)).or_insert(0) += 1);
        for (node, gpus) in nodes {
            let (freed, jobs) = of_node.entry(node).or_default();
            if !Sides::of(cluster, shares, job).still_gives(protected, jobs, id) {
                continue;
            }
            // At most: of a GPU that is shared each of its jobs counts as all of it.
            *freed += gpus;
            jobs.push(id);
            let free = cluster.node_gpus(node).filter(|gpu| cluster.is_free(*gpu)).count() as u32;
            if free + *freed < job.gpus {
                continue;
            }
            let Some((gone, gpus)) = cluster.place_without(jobs, &find) else { continue };
            if Sides::of(cluster, shares, job).is_fair_without(&gone) {
                return Some((gone, gpus));
            }
        }
    }
    None
}

/// The queues and groups of a job that asks, beside those of others.
struct Sides<'a> {
    cluster: &'a Cluster,
    shares: &'a Shares,
    job: &'a Job,
    ours: Vec<QueueId>,
}

impl<'a> Sides<'a> {
    fn of(cluster: &'a Cluster, shares: &'a Shares, job: &'a Job) -> Sides<'a> {
        let ours = job.queue.into_iter().flat_map(|own| cluster.queues().path(own)).collect();
        Sides { cluster, shares, job, ours }
    }

    /// Below the group that the job shares with a queue: its own queue or group, and the other's; none: they are one.
    fn between(&self, queue: QueueId) -> Option<(QueueId, QueueId)> {
        let tree = self.cluster.queues();
        let theirs = tree.path(queue).take_while(|id| !self.ours.contains(id)).last()?;
        let group = tree.queue(theirs).parent;
        Some((self.ours.iter().copied().find(|id| tree.queue(*id).parent == group)?, theirs))
    }

    /// Whether a queue or group with what it has left gives a job.
    fn gives(&self, line: &Line<'_>, mine: QueueId, theirs: QueueId) -> bool {
        let tree = self.cluster.queues();
        let stays_guaranteed = tree.held(mine) + self.job.asked_milli() <= tree.guaranteed(mine);
        let (rest, fair) = (line.left(theirs), self.shares.fair(theirs).min(tree.limit(theirs)));
        rest > fair || (stays_guaranteed && rest > tree.guaranteed(theirs))
    }

    /// Nothing has gone but what this plan starts.
    fn begin(&self, protected: &Protected) -> Line<'a> {
        let mut line = Line::new(self.cluster, self.shares);
        for started in protected.started().map(|id| self.cluster.job(id)) {
            line.goes(started);
        }
        line
    }

    /// The jobs that are of use, of the queues that give any.
    fn line(&self, protected: &'a Protected, order: &'a Order) -> Line<'a> {
        let mut line = self.begin(protected);
        let (cluster, job) = (self.cluster, self.job);
        for queue in order.queues.iter().copied().filter(|queue| job.queue.is_some_and(|own| own != *queue)) {
            if self.between(queue).is_some_and(|(mine, theirs)| self.gives(&line, mine, theirs)) {
                let useful = |id: &JobId| job.gpu_types.contains(&cluster.type_of(cluster.job(*id)));
                line.join(queue, Box::new(order.jobs(cluster, protected, queue).filter(useful)));
            }
        }
        line
    }

    /// Whether the queue of a job gives it when these have gone.
    fn still_gives(&self, protected: &Protected, gone: &[JobId], id: JobId) -> bool {
        let mut line = self.begin(protected);
        gone.iter().for_each(|id| line.goes(self.cluster.job(*id)));
        let between = self.cluster.job(id).queue.and_then(|queue| self.between(queue));
        between.is_some_and(|(mine, theirs)| self.gives(&line, mine, theirs))
    }

    /// Whether what is left is fair when these jobs have gone.
    fn is_fair_without(&self, gone: &[JobId]) -> bool {
        let mut line = Line::new(self.cluster, self.shares);
        let mut sides: BTreeSet<(QueueId, QueueId)> = BTreeSet::new();
        for other in gone.iter().map(|id| self.cluster.job(*id)) {
            line.goes(other);
            sides.extend(other.queue.and_then(|queue| self.between(queue)));
        }
        let fair = |(mine, theirs)| is_fair(self.cluster, self.shares, self.job, (mine, theirs), line.left(theirs));
        sides.into_iter().all(fair)
    }
}

/// The jobs of a queue that may go, the first one first.
type Jobs<'a> = Peekable<Box<dyn Iterator<Item = JobId> + 'a>>;

/// Queues by where they would stand without the jobs that went before and the next one of theirs: that which is served last gives the next job.
///
/// Source: KAI-Scheduler, `jobs_order_by_queue.go` with victims.
struct Line<'a> {
    cluster: &'a Cluster,
    shares: &'a Shares,
    /// Of queues that still give jobs.
    jobs: BTreeMap<QueueId, Jobs<'a>>,
    /// By queue or group: what the jobs that went held.
    gone: BTreeMap<QueueId, u64>,
}

impl<'a> Line<'a> {
    fn new(cluster: &'a Cluster, shares: &'a Shares) -> Line<'a> {
        Line { cluster, shares, jobs: BTreeMap::new(), gone: BTreeMap::new() }
    }

    fn join(&mut self, queue: QueueId, jobs: Box<dyn Iterator<Item = JobId> + 'a>) {
        let mut jobs = jobs.peekable();
        if jobs.peek().is_some() {
            self.jobs.insert(queue, jobs);
        }
    }

    fn leave(&mut self, queue: QueueId) {
        self.jobs.remove(&queue);
    }

    /// The next job of a queue, which goes.
    fn pop(&mut self, queue: QueueId) -> Option<JobId> {
        let jobs = self.jobs.get_mut(&queue)?;
        let next = jobs.next();
        if jobs.peek().is_none() {
            self.jobs.remove(&queue);
        }
        next.inspect(|id| self.goes(self.cluster.job(*id)))
    }

    fn goes(&mut self, job: &Job) {
        for id in job.queue.into_iter().flat_map(|queue| self.cluster.queues().path(queue)) {
            *self.gone.entry(id).or_insert(0) += held_milli(job);
        }
    }

    /// What a queue or group holds without the jobs that went.
    fn left(&self, queue: QueueId) -> u64 {
        self.cluster.queues().held(queue).saturating_sub(self.gone.get(&queue).copied().unwrap_or(0))
    }

    /// The queue that is served last of those that still give jobs, group by group.
    fn last(&mut self) -> Option<QueueId> {
        let next: BTreeMap<QueueId, u64> = self
            .jobs
            .iter_mut()
            .filter_map(|(queue, jobs)| Some((*queue, held_milli(self.cluster.job(*jobs.peek()?)))))
            .collect();
        self.last_of(None, &next).map(|(queue, _)| queue)
    }

    /// That of a group, and what its next job holds.
    fn last_of(&self, group: Option<QueueId>, next: &BTreeMap<QueueId, u64>) -> Option<(QueueId, u64)> {
        let tree = self.cluster.queues();
        let members = tree.of_group(group).iter().filter_map(|id| {
            let of_queue = next.get(id).map(|held| (*id, *held));
            let (queue, held) = of_queue.or_else(|| self.last_of(Some(*id), next))?;
            Some((self.shares.turn(tree, *id, self.left(*id).saturating_sub(held), 0), *id, (queue, held)))
        });
        members.max_by_key(|(turn, id, _)| (*turn, *id)).map(|(.., found)| found)
    }
}

/// Thousandths of a GPU that a job holds, as its queue counts them.
fn held_milli(job: &Job) -> u64 {
    job.held.len() as u64 * u64::from(job.share)
}

impl Offer {
    /// Whether what has gone is fair, on a cluster where it has: the queue or group of the job is not above its fair share with it, or
    /// less so than each beside it that gave.
    ///
    /// Source: KAI-Scheduler, `reclaimable.go` (read at commit 45103d4), without its multiplier.
    pub fn is_fair(&self, cluster: &Cluster, shares: &Shares, job: &Job) -> bool {
        let held = |queue: QueueId| cluster.queues().held(queue);
        let gave = |(_, theirs, before): &&(QueueId, QueueId, u64)| held(*theirs) < *before;
        let fair = |(mine, theirs, _): &(QueueId, QueueId, u64)| {
            is_fair(cluster, shares, job, (*mine, *theirs), held(*theirs))
        };
        self.sides.iter().filter(gave).all(fair)
    }
}

/// Whether a job may have what leaves another queue or group so much.
fn is_fair(cluster: &Cluster, shares: &Shares, job: &Job, (mine, theirs): (QueueId, QueueId), left: u64) -> bool {
    let part = shares.ratio(cluster.queues().held(mine) + job.asked_milli(), mine);
    part <= 1.0 || shares.fair(theirs) == 0 || part < shares.ratio(left, theirs)
}

/// Which jobs of a queue and a priority go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    /// The latest: KAI's order.
    Latest,
    /// Those that have done the smallest part of their work.
    LeastDone,
    /// Those that would lose the least GPU-time if they were killed.
    LeastLost,
}

impl Victims {
    /// The parameter that says so.
    pub const PARAM: Param = Param {
        name: "victims",
        kind: Kind::Choice(&["latest", "least-done", "least-lost"]),
        default: "\"latest\"",
        about: "Which jobs of a queue and a priority let GPUs go first: those that came last, as in KAI; that have done the smallest part of their work; or that would lose the least GPU-time if they were killed (these need `progress`).",
    };

    /// The rule of a word of [`Victims::PARAM`].
    pub fn named(word: &str) -> Victims {
        match word {
            "least-done" => Victims::LeastDone,
            "least-lost" => Victims::LeastLost,
            _ => Victims::Latest,
        }
    }

    /// Jobs of a queue as they are to go, from the order of [`sandtable_policy::QueueTree::holders`].
    fn sorted(self, jobs: Vec<&Job>) -> Vec<JobId> {
        if self == Victims::Latest || jobs.is_empty() {
            return jobs.into_iter().map(|job| job.id).collect();
        }
        let mut jobs: Vec<(f64, &Job)> = self.costs(&jobs).into_iter().zip(jobs).collect();
        jobs.sort_unstable_by(|(cost, a), (other, b)| {
            a.priority.cmp(&b.priority).then(cost.total_cmp(other)).then(b.id.cmp(&a.id))
        });
        jobs.into_iter().map(|(_, job)| job.id).collect()
    }

    /// What each job costs: the lower goes first, and among equals the latest. What is unknown costs most.
    fn costs(self, jobs: &[&Job]) -> Vec<f64> {
        let (done, unsaved) = host::progress(jobs.iter().map(|job| job.id).collect());
        let known = |cost: f64, is_known: bool| if is_known { cost } else { f64::INFINITY };
        let lost = |(time, job): (u64, &&Job)| {
            known(time as f64 * job.held.len() as f64 * f64::from(job.share), time != NEVER)
        };
        match self {
            Victims::LeastDone => done.into_iter().map(|part| known(part, !part.is_nan())).collect(),
            _ => unsaved.into_iter().zip(jobs).map(lost).collect(),
        }
    }
}

/// Jobs of a lower priority in a job's own queue, in the order in which they are to go: the lowest first, then as `victims` says.
pub fn from_own(cluster: &Cluster, job: &Job, protected: &Protected, victims: Victims) -> Vec<JobId> {
    let Some(own) = job.queue.filter(|_| Shares::guarantees(cluster, job)) else { return Vec::new() };
    let useful = |other: &&Job| job.gpu_types.contains(&cluster.type_of(other)) && protected.may_go(cluster, other);
    let lower = cluster.queues().holders(own).map(|id| cluster.job(id));
    let jobs = lower.take_while(|other| other.priority < job.priority).filter(useful).collect();
    victims.sorted(jobs)
}

/// Jobs of queues that may go, of each queue the lowest priority first, then as `victims` says. Queues come by the part of their fair share, the largest first: so jobs move for
/// another; which are reclaimed [`Line`] says.
pub struct Order {
    queues: Vec<QueueId>,
    /// By queue, where that is not the order that the cluster has them in.
    sorted: Option<BTreeMap<QueueId, Vec<JobId>>>,
}

impl Order {
    /// The order now.
    pub fn new(cluster: &Cluster, shares: &Shares, protected: &Protected, victims: Victims) -> Order {
        let tree = cluster.queues();
        let mut queues: Vec<QueueId> = tree.all().iter().map(|queue| queue.id).collect();
        let ratio = |id: QueueId| shares.ratio(tree.held(id), id);
        queues.sort_unstable_by(|a, b| ratio(*b).total_cmp(&ratio(*a)).then(b.cmp(a)));
        let of = |queue: &QueueId| {
            let jobs = tree.holders(*queue).map(|id| cluster.job(id)).filter(|job| protected.may_go(cluster, job));
            (*queue, victims.sorted(jobs.collect()))
        };
        let sorted = (victims != Victims::Latest).then(|| queues.iter().map(of).collect());
        Order { queues, sorted }
    }

    /// The queues whose jobs go, the first ones first.
    pub fn queues(&self) -> &[QueueId] {
        &self.queues
    }

    /// The jobs of a queue that may go.
    pub fn jobs<'a>(
        &'a self,
        cluster: &'a Cluster,
        protected: &'a Protected,
        queue: QueueId,
    ) -> Box<dyn Iterator<Item = JobId> + 'a> {
        let Some(sorted) = &self.sorted else {
            let all = cluster.queues().holders(queue);
            return Box::new(all.filter(|id| protected.may_go(cluster, cluster.job(*id))));
        };
        Box::new(sorted.get(&queue).into_iter().flatten().copied())
    }
}

#[cfg(test)]
mod tests {
    use sandtable_policy::driver::Driver;
    use sandtable_policy::testing::{arrival, demand, setup};
    use sandtable_policy::{
        Action, Arrival, Batch, ChangeCause, Event, Fresh, Introductions, JobPhase, NEVER, PhaseChange, Queue, Setup,
        Trigger,
    };

    use crate::KaiLike;

    #[test]
    fn the_queue_that_would_be_served_last_gives_the_next_job() {
        let names = ["a", "b", "c"];
        let queues = names.iter().zip(0..).map(|(name, id)| Queue {
            id,
            name: (*name).into(),
            parent: None,
            guaranteed: 0.0,
            weight: 1.0,
            limit: f64::INFINITY,
            priority: 0,
        });
        let setup = Setup { queues: queues.collect(), ..setup("{}", &[9], 1000) };
        let (mut driver, _) = Driver::<KaiLike>::new(setup).expect("a policy");
        let came = |job, class, queue, now| Event::JobArrived(Arrival { queue, ..arrival(job, class, now) });
        let mut call = |now, new: Introductions, events: Vec<Event>| {
            let batch = Batch { seq: now, now, trigger: Trigger::Event, fresh: Fresh::all(), events };
            driver.decide(&batch, new).expect("a plan").actions
        };
        // Five jobs of `a` and four of `b` run, of one GPU each.
        let held: Vec<Event> = (0..9).map(|job| came(job, 0, u32::from(job >= 5), 1)).collect();
        let new = Introductions {
            classes: vec![demand(1), demand(2)],
            users: vec![String::new()],
            ..Introductions::default()
        };
        assert_eq!(call(1, new, held).len(), 9);
        let runs = |job| {
            let change =
                PhaseChange { job, phase: JobPhase::Running, at: 1, cause: ChangeCause::Asked, remaining: NEVER };
            Event::JobChanged(change)
        };
        let now = 10_000_000;
        let waiting = [came(9, 1, 2, now), came(10, 0, 2, now)];
        let actions = call(now, Introductions::default(), (0..9).map(runs).chain(waiting).collect());
        let told: Vec<String> = actions
            .into_iter()
            .filter_map(|action| match action {
                Action::Preempt(of) => Some(format!("-{}", of.job)),
                Action::Start(of) => Some(format!("+{}", of.job)),
                _ => None,
            })
            .collect();
        // `a` gives its latest, and with four jobs each the younger queue is served last.
        assert_eq!(told, ["-4", "-8", "+9", "-3", "+10"]);
    }
}
