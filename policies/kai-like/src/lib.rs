//! Queues with guarantees, weights and limits, and which of them may take GPUs back from others, after NVIDIA's KAI-Scheduler.
//!
//! Each call computes the fair share of every queue ([`division`], exact), then starts waiting jobs in the order of queues, lets
//! queues below their fair share reclaim GPUs from those above it, and lets jobs of a higher priority preempt jobs of a lower one
//! in their own queue. Source: KAI's rules (commit d5bc503; the fairness of a reclaim as read at 45103d4). Otherwise than KAI: GPUs alone are
//! shared out; a job's turn to preempt comes with its turn to reclaim, not after all reclaims; nothing is reclaimed in a call in which jobs move to
//! make room, and those of one GPU or of parts ask for no room; what queues have used lately does not change during a run; GPUs are reclaimed also where KAI leaves them (`rounds.rs` has the case).

mod consolidate;
mod division;
mod reclaim;
#[cfg(test)]
mod rounds;
mod shares;

use std::cell::OnceCell;

use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, GpuId, GpuTypeId, Job, JobId, Kind, Knowledge, Param, Placement,
    Policy, PolicyError, Reason, Setup,
};

use consolidate::Consolidation;
use reclaim::{Order, Victims};
use sandtable_policy::driver::needed;
use sandtable_queues::{Eviction, Protected, Waiting};
use shares::{Shares, Turn, Usage};

/// The policy.
pub struct KaiLike {
    waiting: Waiting<Turn>,
    /// Whether queues take GPUs back from others.
    reclaims: bool,
    /// Whether jobs take GPUs of others in their queue.
    preempts: bool,
    protected: Protected,
    /// Which jobs of a queue and a priority go first.
    victims: Victims,
    eviction: Eviction,
    consolidation: Consolidation,
    usage: Usage,
}

impl Policy for KaiLike {
    fn about() -> About {
        About {
            name: "kai-like",
            about: "fair shares of a tree of queues, reclaimed from queues above theirs, after KAI-Scheduler",
            uses: Abilities::PREEMPT | Abilities::TIMERS | Abilities::QUEUES | Placement::follows(),
            needs: Knowledge::empty(),
            params: &[
                Param {
                    name: "reclaim",
                    kind: Kind::Flag,
                    default: "true",
                    about: "Whether a queue below its fair share takes GPUs from queues above theirs.",
                },
                Param {
                    name: "preempt",
                    kind: Kind::Flag,
                    default: "true",
                    about: "Whether a job takes GPUs from jobs of a lower priority in its own queue.",
                },
                Consolidation::PARAM,
                Protected::PARAM,
                Victims::PARAM,
                Eviction::PARAM,
                Usage::PARAMS[0],
                Usage::PARAMS[1],
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        if setup.queues.is_empty() {
            let why = "kai-like shares GPUs among queues: name them in `queues` of the experiment";
            return Err(PolicyError::Unsupported(why.into()));
        }
        let victims = Victims::named(config.choice("victims"));
        if victims != Victims::Latest {
            needed("`victims` of kai-like", Knowledge::PROGRESS, setup.knowledge)?;
        }
        Ok(KaiLike {
            waiting: Waiting::new(setup.queues.len()),
            reclaims: config.flag("reclaim"),
            preempts: config.flag("preempt"),
            protected: Protected::new(config.micros("least_run")),
            victims,
            eviction: Eviction::of(config),
            consolidation: Consolidation::new(config.number("consolidate")),
            usage: Usage::new(config, setup)?,
        })
    }

    fn uses(&self) -> Abilities {
        let follows = Abilities::QUEUES | Placement::follows();
        follows | if self.lets_go() { Abilities::PREEMPT | Abilities::TIMERS } else { Abilities::empty() }
    }

    fn cadence(&self) -> Cadence {
        Cadence::WHILE_WAITING
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        for event in &batch.events {
            cluster.queued_by(event).for_each(|job| self.waiting.push(job));
        }
        self.protected.see(batch, cluster);
        if self.waiting.is_empty() {
            return Ok(());
        }
        let shares = Shares::of(cluster, &self.usage);
        self.protected.begin(cluster);
        for id in self.consolidation.arrive(cluster, place) {
            self.waiting.forget(cluster.job(id));
            self.protected.start(id);
        }
        self.allocate(cluster, &shares);
        let moved = self.consolidation.moves() && self.consolidate(cluster, &shares);
        if (self.reclaims || self.preempts) && !moved {
            self.take_back(cluster, &shares);
        }
        // Others may have to go, or to move, that may not yet.
        if let Some(at) = self.protected.ends(cluster).filter(|_| self.lets_go() && !self.waiting.is_empty()) {
            cluster.call_by(at);
        }
        Ok(())
    }

    fn explain(&self, job: &Job, cluster: &Cluster) -> Reason {
        if !Shares::guarantees(cluster, job) {
            let why = "it may not be preempted, and with it such jobs would hold more than its queue or a group above it is guaranteed";
            return Reason::Policy(why.into());
        }
        cluster.why(job)
    }
}

impl KaiLike {
    /// Starts waiting jobs as far as GPUs and limits go, the queue that is due first.
    fn allocate(&mut self, cluster: &mut Cluster, shares: &Shares) {
        if self.waiting.is_blocked(cluster) {
            return;
        }
        self.waiting.begin(cluster, shares.turns());
        while !self.waiting.is_blocked(cluster)
            && let Some(next) = self.waiting.next()
        {
            match self.left(cluster, cluster.job(next.job)) {
                Some(gpus) => {
                    cluster.start(next.job, gpus);
                    self.waiting.remove(next, cluster, shares.turns());
                    self.protected.start(next.job);
                }
                // What one job of a queue lacks, the others that ask for the same lack too.
                None => self.waiting.close(next, cluster, shares.turns()),
            }
        }
    }

    /// Whether jobs ever let GPUs go for others.
    fn lets_go(&self) -> bool {
        self.reclaims || self.preempts || self.consolidation.moves()
    }

    /// Moves jobs so that another finds a place, of the queue that is due first; returns whether any moves. The next ones move once these have.
    fn consolidate(&mut self, cluster: &mut Cluster, shares: &Shares) -> bool {
        // Of single GPUs there is nothing to bring together.
        let some_free = (0..cluster.types() as GpuTypeId).any(|gpu_type| cluster.free_gpus(gpu_type) > 1);
        if self.consolidation.is_under_way() || !some_free {
            return false;
        }
        self.waiting.begin(cluster, shares.turns());
        let order = OnceCell::new();
        while let Some(next) = self.waiting.next() {
            let job = cluster.job(next.job).clone();
            if self.consolidation.could_help(cluster, &job) && Shares::allows(cluster, &job) {
                let order = order.get_or_init(|| Order::new(cluster, shares, &self.protected, self.victims));
                let how = (&self.protected, order, &self.eviction);
                if let Some(gpus) = self.consolidation.make_room(cluster, &job, how, place) {
                    cluster.start(next.job, gpus);
                    self.waiting.remove(next, cluster, shares.turns());
                    self.protected.start(next.job);
                    return true;
                }
            }
            self.waiting.close(next, cluster, shares.turns());
        }
        false
    }

    /// Lets waiting jobs take GPUs back, the queue that is due first: from other queues, then from jobs of their own.
    fn take_back(&mut self, cluster: &mut Cluster, shares: &Shares) {
        self.waiting.begin(cluster, shares.turns());
        // As long as nothing moves.
        let (mut order, mut moved) = (OnceCell::new(), false);
        while let Some(next) = self.waiting.next() {
            let job = cluster.job(next.job).clone();
            // A gang that let go may have left more than was needed.
            let left = if moved { self.left(cluster, &job).map(|gpus| (Vec::new(), gpus)) } else { None };
            let found = left.or_else(|| self.victims(cluster, shares, &job, &order));
            let Some((victims, gpus)) = found else {
                self.waiting.close(next, cluster, shares.turns());
                continue;
            };
            self.eviction.evict(cluster, &victims);
            cluster.start(next.job, gpus);
            self.waiting.remove(next, cluster, shares.turns());
            self.protected.start(next.job);
            if !victims.is_empty() {
                (order, moved) = (OnceCell::new(), true);
                self.waiting.line_up(cluster, shares.turns());
            }
        }
    }

    /// Where a job could start now, beside what is kept for those that move.
    fn left(&self, cluster: &Cluster, job: &Job) -> Option<Vec<GpuId>> {
        place(cluster, job).filter(|gpus| self.consolidation.leaves(gpus))
    }

    /// Jobs that go for one, and its place then.
    fn victims(
        &self,
        cluster: &mut Cluster,
        shares: &Shares,
        job: &Job,
        order: &OnceCell<Order>,
    ) -> Option<(Vec<JobId>, Vec<GpuId>)> {
        let (protected, mut found) = (&self.protected, None);
        if self.reclaims && reclaim::may_take(cluster, shares, job) {
            let order = order.get_or_init(|| Order::new(cluster, shares, protected, self.victims));
            let offer = reclaim::from_others(cluster, shares, job, (protected, order));
            let fair = |cluster: &Cluster| self.left(cluster, job).filter(|_| offer.is_fair(cluster, shares, job));
            found = cluster.place_without(&offer.jobs, fair);
            if found.is_none() {
                let find = |cluster: &Cluster| self.left(cluster, job);
                found = reclaim::on_one_node(cluster, shares, job, (protected, order), find);
            }
        }
        if found.is_none() && self.preempts {
            let own = reclaim::from_own(cluster, job, protected, self.victims);
            found = cluster.place_without(&own, |cluster| self.left(cluster, job));
        }
        found
    }
}

/// Where a job could start now.
fn place(cluster: &Cluster, job: &Job) -> Option<Vec<GpuId>> {
    if Shares::allows(cluster, job) { Placement::Packed.find_any(cluster, &job.gpu_types, job.ask()) } else { None }
}

sandtable_policy::export!(KaiLike);

#[cfg(test)]
mod tests {
    use super::KaiLike;
    use sandtable_policy::testing::refusal;

    #[test]
    fn without_queues_it_says_what_it_needs() {
        let why = refusal::<KaiLike>("{}");
        assert_eq!(why, "kai-like shares GPUs among queues: name them in `queues` of the experiment");
    }
}
