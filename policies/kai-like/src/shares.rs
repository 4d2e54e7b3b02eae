//! Fair shares of a tree of queues, and the order in which queues are served.

use std::cmp::Ordering;

use sandtable_policy::{Cluster, Job, QueueId, QueueTree};

use crate::division::{Claim, divide};

/// What stands in for a ratio to a fair share of 0 (KAI's `NoFairShareDrfMultiplier`).
const WITHOUT_SHARE: f64 = 1000.0;

/// The fair share of each queue, in GPUs.
pub struct Shares {
    fair: Vec<f64>,
}

/// GPUs that a job asks for, its share of each counted.
pub fn asked(job: &Job) -> f64 {
    f64::from(job.gpus) * f64::from(job.share) / 1000.0
}

impl Shares {
    /// The shares of what is up, divided level by level.
    pub fn of(cluster: &Cluster) -> Shares {
        let tree = cluster.queues();
        let mut shares = Shares { fair: vec![0.0; tree.all().len()] };
        let total: u32 = (0..cluster.types() as u32).map(|gpu_type| cluster.up_gpus(gpu_type)).sum();
        shares.divide_group(tree, None, f64::from(total));
        shares
    }

    fn divide_group(&mut self, tree: &QueueTree, group: Option<QueueId>, total: f64) {
        let members = tree.of_group(group);
        let claim = |id: &QueueId| {
            let queue = tree.queue(*id);
            Claim {
                priority: queue.priority,
                guaranteed: queue.guaranteed,
                weight: queue.weight,
                usable: (tree.held(*id) + tree.waiting(*id)).min(queue.limit),
            }
        };
        let (fair, _) = divide(total, &members.iter().map(claim).collect::<Vec<_>>());
        for (id, fair) in members.iter().zip(fair) {
            self.fair[*id as usize] = fair;
            self.divide_group(tree, Some(*id), fair);
        }
    }

    /// The fair share of a queue.
    pub fn fair(&self, queue: QueueId) -> f64 {
        self.fair[queue as usize]
    }

    /// What a queue has, with or without some GPUs more, over its fair share.
    pub fn ratio(&self, gpus: f64, queue: QueueId) -> f64 {
        let fair = self.fair(queue);
        if fair > 0.0 { gpus / fair } else { gpus * WITHOUT_SHARE }
    }

    /// Whether a job may start in its queue: within the limits, and what may not be taken back within what is guaranteed.
    pub fn allows(&self, cluster: &Cluster, job: &Job) -> bool {
        cluster.queues().has_room(job) && self.guarantees(cluster, job)
    }

    /// Whether a job may be preempted, or what may not be taken back from its queue stays within what is guaranteed with it.
    pub fn guarantees(&self, cluster: &Cluster, job: &Job) -> bool {
        let tree = cluster.queues();
        let guaranteed = |queue: QueueId| tree.pinned(queue) + asked(job) <= tree.queue(queue).guaranteed;
        let queue = job.queue.filter(|_| !job.preemptible);
        queue.is_none_or(|queue| tree.path(queue).all(guaranteed))
    }

    /// Whether the queue of a job and its groups stay within their fair shares with it.
    pub fn within_fair(&self, cluster: &Cluster, job: &Job) -> bool {
        let tree = cluster.queues();
        job.queue.is_some_and(|own| tree.path(own).all(|id| tree.held(id) + asked(job) <= self.fair(id)))
    }

    /// Which of two queues of a group is served first, by the next job of each: one that is not above its fair share; one whose job
    /// stays within what it is guaranteed; the higher priority; the smaller part of its share with that job, then without; the
    /// smaller share; the older.
    pub fn order(&self, tree: &QueueTree, (a, a_asks): (QueueId, f64), (b, b_asks): (QueueId, f64)) -> Ordering {
        let over = |id: QueueId| tree.held(id) > self.fair(id);
        let beyond = |id: QueueId, asks: f64| tree.held(id) + asks > tree.queue(id).guaranteed;
        let with = |id: QueueId, asks: f64| self.ratio(tree.held(id) + asks, id);
        (over(a).cmp(&over(b)))
            .then(beyond(a, a_asks).cmp(&beyond(b, b_asks)))
            .then(tree.queue(b).priority.cmp(&tree.queue(a).priority))
            .then(with(a, a_asks).total_cmp(&with(b, b_asks)))
            .then(with(a, 0.0).total_cmp(&with(b, 0.0)))
            .then(self.fair(a).total_cmp(&self.fair(b)))
            .then(a.cmp(&b))
    }
}
