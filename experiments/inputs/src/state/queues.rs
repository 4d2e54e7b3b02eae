//! The queues of a cluster that share GPUs out, and which of them jobs are in.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_hardware::{Queue, QueueId, queue_and_groups};

use super::document::{Association, NodeState, QueueKind, SourceKind, State, StateQueue};
use super::jobs::StateJob;
use crate::trace::plain;

/// A user with its part of an account, where the model has a queue for each account.
pub struct Member {
    /// The queue of the account.
    pub queue: String,
    /// The user.
    pub user: String,
    /// Its shares.
    pub shares: f64,
    /// What it has used, as the cluster counts it.
    pub used: f64,
}

/// The queue of jobs that are in none.
pub(super) const NONE: &str = "(no queue)";
/// What GPUs are of whose kind nothing is known.
pub(super) const KIND: &str = "GPU";
/// Fewest GPUs to which a queue is limited: with fewer nothing runs.
const LEAST: f64 = 0.001;
/// The largest number that a queue has.
const MOST: f64 = 1e6;

/// Whether a queue shares GPUs out: a local queue stands for one that does, and those that Slurm has are limits of other kinds.
fn shares(kind: QueueKind) -> bool {
    matches!(kind, QueueKind::Queue | QueueKind::ClusterQueue | QueueKind::Cohort)
}

impl State {
    /// Whether jobs of some queues come before those of others, whatever priorities say.
    pub fn has_tiers(&self) -> bool {
        let mut tiers = self.queues.iter().filter_map(|queue| queue.tier);
        tiers.next().is_some_and(|first| tiers.any(|tier| tier != first))
    }

    /// Users with their parts of the accounts that they are in; where these are no queues there are none.
    pub fn members(&self) -> Vec<Member> {
        if self.limits_qualities() {
            return Vec::new();
        }
        let of = |association: &Association| {
            let user = plain(association.user.clone()?);
            let queue =
                association.account.as_ref().map_or_else(|| NONE.into(), |account| self.queue_of_account(account));
            let (shares, used) = (association.shares.unwrap_or(1.0), association.used.unwrap_or(0.0));
            Some(Member { queue, user, shares, used })
        };
        self.associations.iter().filter_map(of).collect()
    }

    /// What shares are multiplied with as weights: only how they compare matters, and weights have a limit.
    fn scale(&self) -> f64 {
        let sum: f64 = self.associations.iter().filter_map(|of| of.shares).sum();
        if sum > MOST { MOST / sum } else { 1.0 }
    }

    /// The shares of the users that are in an account itself, or in none; none: there are no such users.
    fn own_shares(&self, account: Option<&str>) -> Option<f64> {
        let own = self.associations.iter().filter(|of| of.user.is_some() && of.account.as_deref() == account);
        own.map(|of| of.shares.unwrap_or(1.0)).reduce(|sum, shares| sum + shares)
    }

    /// The queue of an account's own jobs.
    fn queue_of_account(&self, account: &str) -> String {
        let mut others = self.associations.iter().filter(|of| of.user.is_none());
        let is_group = others.any(|of| of.within.as_deref() == Some(account));
        plain(if is_group { own_of(account) } else { account.to_string() })
    }

    /// Accounts as queues.
    fn accounts(&self) -> Vec<Queue> {
        let mut all: Vec<Queue> = Vec::new();
        for of in self.associations.iter().filter(|of| of.user.is_none()) {
            let Some(account) = &of.account else { continue };
            let parent = of.within.as_ref().map(|name| plain(name.clone()));
            let parent = parent.and_then(|name| all.iter().position(|queue| queue.name == name));
            let weight = of.shares.unwrap_or(1.0) * self.scale();
            all.push(Queue { parent: parent.map(QueueId::at), weight, ..Queue::new(&plain(account.clone())) });
        }
        all
    }

    /// Kinds of GPU of nodes that take jobs.
    pub(super) fn kinds(&self) -> BTreeSet<&str> {
        let up = self.nodes.iter().filter(|node| node.state == NodeState::Up);
        up.map(|node| node.kind.as_deref().unwrap_or(KIND)).collect()
    }

    /// The queues that share GPUs out, groups before those in them; of Slurm these are accounts, or qualities of service where these have limits and no fair share counts. GPUs are counted over all kinds that nodes have which take jobs. In Kueue a queue's limit is its quota and what
    /// it may borrow, without a cohort its quota, and a cohort at the top has what is guaranteed in it. Where jobs are in a group, or in no queue, there is one for them, without
    /// guarantee and limit.
    pub fn queue_tree(&self) -> Vec<Queue> {
        let kinds = self.kinds();
        let kueue = self.source.kind == SourceKind::Kueue;
        let of_kinds = |of: &BTreeMap<String, f64>| {
            let counted: Vec<f64> = of
                .iter()
                .filter(|(kind, _)| *kind == "*" || kinds.contains(kind.as_str()))
                .map(|(_, gpus)| *gpus)
                .collect();
            (!counted.is_empty()).then(|| counted.iter().sum::<f64>())
        };
        let mut all = if self.limits_qualities() { self.quality_queues() } else { self.accounts() };
        let mut left: Vec<&StateQueue> = self.queues.iter().filter(|queue| shares(queue.kind)).collect();
        while !left.is_empty() {
            let before = left.len();
            left.retain(|queue| {
                let parent =
                    queue.parent.as_ref().map(|name| all.iter().position(|known| known.name == plain(name.clone())));
                if parent == Some(None)
                    && self.queues.iter().any(|of| Some(&of.name) == queue.parent.as_ref() && shares(of.kind))
                {
                    return true;
                }
                let guaranteed = of_kinds(&queue.guaranteed);
                let borrows = of_kinds(&queue.borrow).map(|gpus| gpus + guaranteed.unwrap_or(0.0));
                let alone = (kueue && queue.kind == QueueKind::ClusterQueue && queue.parent.is_none())
                    .then(|| guaranteed.unwrap_or(0.0));
                let limit = of_kinds(&queue.limit).or(borrows).or(alone);
                all.push(Queue {
                    parent: parent.flatten().map(QueueId::at),
                    guaranteed: thousandths(guaranteed.unwrap_or(0.0)),
                    weight: queue.weight.unwrap_or(1.0).clamp(0.0, MOST),
                    priority: queue.priority.unwrap_or(0.0) as i32,
                    ..limited(limit.unwrap_or(f64::INFINITY), &plain(queue.name.clone()))
                });
                false
            });
            if left.len() == before {
                break;
            }
        }
        if kueue {
            self.limit_cohorts(&mut all);
        }
        let groups: BTreeSet<QueueId> = all.iter().filter_map(|queue| queue.parent).collect();
        for group in groups {
            let own = own_of(&all[group].name);
            let shares = self.own_shares(Some(&all[group].name));
            let has_jobs =
                self.jobs.iter().any(|job| job.gpus > 0 && self.queue_of(job).is_some_and(|name| plain(name) == own));
            if has_jobs || shares.is_some() {
                let weight = shares.map_or(1.0, |shares| shares * self.scale());
                all.push(Queue { parent: Some(group), weight, ..Queue::new(&own) });
            }
        }
        let shares = self.own_shares(None);
        let has_jobs = self.jobs.iter().any(|job| job.gpus > 0 && self.queue_of(job).is_none());
        if !all.is_empty() && (has_jobs || shares.is_some()) {
            all.push(Queue { weight: shares.map_or(1.0, |shares| shares * self.scale()), ..Queue::new(NONE) });
        }
        all
    }

    /// A cohort at the top lends no more than what is guaranteed in it.
    fn limit_cohorts(&self, all: &mut [Queue]) {
        let tops: Vec<QueueId> = (0..all.len()).map(QueueId::at).filter(|id| all[*id].parent.is_none()).collect();
        for top in tops {
            let is_cohort =
                |queue: &&StateQueue| plain(queue.name.clone()) == all[top].name && queue.kind == QueueKind::Cohort;
            if self.queues.iter().find(is_cohort).is_none() || all[top].limit.is_finite() {
                continue;
            }
            let within = |id: &QueueId| queue_and_groups(all, *id).last() == Some(top);
            let quota: f64 = (0..all.len()).map(QueueId::at).filter(within).map(|id| all[id].guaranteed).sum();
            all[top].limit = thousandths(quota).max(LEAST);
        }
    }

    /// The queue that shares GPUs out to a job: of a local queue the one that it is of.
    pub(super) fn queue_of(&self, job: &StateJob) -> Option<String> {
        if self.limits_qualities() {
            return self.quality_of(job);
        }
        if !self.associations.is_empty() {
            let account = job.account.as_ref()?;
            let known = self.associations.iter().any(|of| of.account.as_ref() == Some(account));
            return known.then(|| self.queue_of_account(account));
        }
        let find = |name: &String| self.queues.iter().find(|queue| queue.name == *name);
        let of = job.queues.iter().chain(&job.charges).find_map(|name| {
            let queue = find(name)?;
            match queue.kind {
                QueueKind::LocalQueue => queue.parent.as_ref().and_then(find),
                _ => Some(queue),
            }
        });
        let of = of.filter(|queue| shares(queue.kind))?;
        let is_group = self.queues.iter().any(|queue| shares(queue.kind) && queue.parent.as_ref() == Some(&of.name));
        Some(if is_group { own_of(&of.name) } else { of.name.clone() })
    }
}

/// A queue that lets jobs have so many GPUs.
pub(super) fn limited(limit: f64, name: &str) -> Queue {
    let limit = if limit.is_finite() { thousandths(limit).max(LEAST) } else { limit };
    Queue { limit, ..Queue::new(name) }
}

/// The queue of the jobs that are in a group itself.
pub(super) fn own_of(group: &str) -> String {
    format!("{group} (its own)")
}

/// GPUs to a thousandth.
fn thousandths(gpus: f64) -> f64 {
    libm::rint(gpus.clamp(0.0, MOST) * 1000.0) / 1000.0
}
