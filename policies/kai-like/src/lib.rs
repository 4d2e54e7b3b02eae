//! Queues with guarantees, weights and limits, and which of them may take GPUs back from others, after NVIDIA's KAI-Scheduler.
//!
//! Each call computes the fair share of every queue ([`division`], exact), then starts waiting jobs in the order of queues, lets
//! queues below their fair share reclaim GPUs from those above it, and lets jobs of a higher priority preempt jobs of a lower one
//! in their own queue. Reconstructed from KAI's rules (commit d5bc503): GPUs alone are shared out, no
//! consolidation, no usage over time.

mod division;
mod reclaim;
#[cfg(test)]
mod rounds;
mod shares;
mod waiting;

use std::collections::BTreeSet;

use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, JobId, Kind, Knowledge, Param, Placement, Policy, PolicyError,
    Setup,
};

use shares::Shares;
use waiting::Waiting;

/// The policy.
pub struct KaiLike {
    waiting: Waiting,
    /// Whether queues take GPUs back from others.
    reclaims: bool,
    /// Whether jobs take GPUs of others in their queue.
    preempts: bool,
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
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        if setup.queues.is_empty() {
            let why = "kai-like shares GPUs among queues: name them in `queues` of the experiment";
            return Err(PolicyError::Unsupported(why.into()));
        }
        Ok(KaiLike {
            waiting: Waiting::new(setup.queues.len()),
            reclaims: config.flag("reclaim"),
            preempts: config.flag("preempt"),
        })
    }

    fn uses(&self) -> Abilities {
        let moves = self.reclaims || self.preempts;
        let follows = Abilities::QUEUES | Placement::follows();
        follows | if moves { Abilities::PREEMPT | Abilities::TIMERS } else { Abilities::empty() }
    }

    fn cadence(&self) -> Cadence {
        Cadence::WHILE_WAITING
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        for event in &batch.events {
            cluster.queued_by(event).for_each(|job| self.waiting.push(job));
        }
        if self.waiting.is_empty() {
            return Ok(());
        }
        let shares = Shares::of(cluster);
        let new = self.allocate(cluster, &shares);
        if self.reclaims || self.preempts {
            self.take_back(cluster, &shares, new);
        }
        Ok(())
    }
}

impl KaiLike {
    /// Starts waiting jobs as far as GPUs and limits go, the queue that is due first; returns those.
    fn allocate(&mut self, cluster: &mut Cluster, shares: &Shares) -> BTreeSet<JobId> {
        let mut new = BTreeSet::new();
        self.waiting.open_all();
        while !self.waiting.is_blocked(cluster)
            && let Some(next) = self.waiting.next(cluster, shares)
        {
            let job = cluster.job(next.job);
            let place = match shares.allows(cluster, job) {
                true => Placement::Packed.find_any(cluster, &job.gpu_types, job.ask()),
                false => None,
            };
            match place {
                Some(gpus) => {
                    cluster.start(next.job, gpus);
                    self.waiting.remove(next);
                    new.insert(next.job);
                }
                // What one job of a queue lacks, the others that ask for the same lack too.
                None => self.waiting.close(next),
            }
        }
        new
    }

    /// Lets waiting jobs take GPUs back, the queue that is due first: from other queues, then from jobs of their own.
    fn take_back(&mut self, cluster: &mut Cluster, shares: &Shares, mut new: BTreeSet<JobId>) {
        self.waiting.open_all();
        // As long as nothing moves.
        let mut ordered: Option<Vec<JobId>> = None;
        while let Some(next) = self.waiting.next(cluster, shares) {
            let order = ordered.get_or_insert_with(|| reclaim::order(cluster, shares, &new));
            let job = cluster.job(next.job).clone();
            let place = |cluster: &Cluster| match cluster.queues().has_room(&job) {
                true => Placement::Packed.find_any(cluster, &job.gpu_types, job.ask()),
                false => None,
            };
            let mut found = None;
            if self.reclaims {
                let victims = reclaim::from_others(cluster, shares, &job, order);
                let fair = |cluster: &Cluster| place(cluster).filter(|_| shares.within_fair(cluster, &job));
                found = cluster.first_place(&victims, fair).map(|(count, gpus)| (victims, count, gpus));
            }
            if found.is_none() && self.preempts {
                let victims = reclaim::from_own(cluster, shares, &job, order);
                found = cluster.first_place(&victims, place).map(|(count, gpus)| (victims, count, gpus));
            }
            let Some((victims, count, gpus)) = found else {
                self.waiting.close(next);
                continue;
            };
            for id in &victims[..count] {
                cluster.preempt(*id);
                cluster.call_again();
            }
            cluster.start(next.job, gpus);
            self.waiting.remove(next);
            new.insert(next.job);
            ordered = None;
        }
    }
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
