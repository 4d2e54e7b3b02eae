//! Which jobs let GPUs go for one that waits: of queues above their fair share, or of its own queue.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::{Cluster, Job, JobId, QueueId};

use crate::shares::{Shares, asked};

/// Jobs of other queues that a job may take GPUs from, in the order in which they are to go, which is [`order`].
///
/// The queue of the job, and its groups, stay within their fair shares with it; if the job may not be preempted, within what they are
/// guaranteed. A victim's queue, below the group that both are in, is above its fair share or its limit; or above what it is guaranteed
/// while that of the job stays within its own.
pub fn from_others(cluster: &Cluster, shares: &Shares, job: &Job, order: &[JobId]) -> Vec<JobId> {
    let (tree, Some(own)) = (cluster.queues(), job.queue) else { return Vec::new() };
    // Groups get room as victims go: of them [`Shares::within_fair`] is asked when they have gone.
    if !shares.guarantees(cluster, job) || tree.held(own) + asked(job) > shares.fair(own) {
        return Vec::new();
    }
    let ours: Vec<QueueId> = tree.path(own).collect();
    let others = order.iter().map(|id| cluster.job(*id)).filter_map(|other| Some((other.queue?, other)));
    let useful = |other: &Job| job.gpu_types.contains(&cluster.type_of(other));
    // What is left to each queue once those before have gone.
    let mut left: BTreeMap<QueueId, f64> = BTreeMap::new();
    let mut victims = Vec::new();
    for (queue, victim) in others.filter(|(queue, other)| *queue != own && useful(other)) {
        let Some(theirs) = tree.path(queue).take_while(|id| !ours.contains(id)).last() else { continue };
        let group = tree.queue(theirs).parent;
        let Some(mine) = ours.iter().copied().find(|id| tree.queue(*id).parent == group) else { continue };
        let rest = left.get(&theirs).copied().unwrap_or_else(|| tree.held(theirs));
        let stays_guaranteed = tree.held(mine) + asked(job) <= tree.queue(mine).guaranteed;
        if rest > shares.fair(theirs).min(tree.queue(theirs).limit)
            || (stays_guaranteed && rest > tree.queue(theirs).guaranteed)
        {
            for id in tree.path(queue) {
                *left.entry(id).or_insert_with(|| tree.held(id)) -= asked(victim);
            }
            victims.push(victim.id);
        }
    }
    victims
}

/// Jobs of a lower priority in a job's own queue, in the order in which they are to go: the lowest first, then the latest.
pub fn from_own(cluster: &Cluster, shares: &Shares, job: &Job, order: &[JobId]) -> Vec<JobId> {
    let Some(own) = job.queue.filter(|_| shares.guarantees(cluster, job)) else { return Vec::new() };
    let useful = |other: &&Job| {
        other.queue == Some(own) && other.priority < job.priority && job.gpu_types.contains(&cluster.type_of(other))
    };
    // Of one queue the order is this.
    order.iter().map(|id| cluster.job(*id)).filter(useful).map(|other| other.id).collect()
}

/// Jobs of queues that may be preempted, but for `new` ones, which this plan starts: of the queue with the largest part of its fair share
/// first; in it the lowest priority, then the latest.
pub fn order(cluster: &Cluster, shares: &Shares, new: &BTreeSet<JobId>) -> Vec<JobId> {
    let tree = cluster.queues();
    let ratios: Vec<f64> = tree.all().iter().map(|queue| shares.ratio(tree.held(queue.id), queue.id)).collect();
    let may_go = |job: &&Job| job.preemptible && !new.contains(&job.id);
    let mut jobs: Vec<(QueueId, &Job)> =
        cluster.holders().filter(may_go).filter_map(|job| Some((job.queue?, job))).collect();
    jobs.sort_by(|(a, of_a), (b, of_b)| {
        let by_queue = ratios[*b as usize].total_cmp(&ratios[*a as usize]).then(b.cmp(a));
        by_queue.then((of_a.priority, Reverse(of_a.id)).cmp(&(of_b.priority, Reverse(of_b.id))))
    });
    jobs.into_iter().map(|(_, job)| job.id).collect()
}
