//! Fair shares of a tree of queues, and the order in which queues are served. GPUs are in thousandths, so that sums are exact.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use sandtable_policy::{Cluster, Config, Job, Kind, Param, PolicyError, QueueId, QueueTree, Setup};

use crate::division::{Claim, divide};

/// What stands in for a ratio to a fair share of 0 (KAI's `NoFairShareDrfMultiplier`).
const WITHOUT_SHARE: f64 = 1000.0;

/// What queues have used lately, and how much that counts.
pub struct Usage {
    by_usage: f64,
    /// By queue, its part of the cluster.
    of: Vec<f64>,
}

impl Usage {
    pub const PARAMS: [Param; 2] = [
        Param {
            name: "usage",
            kind: Kind::Any,
            default: "{}",
            about: "What queues have used lately, as parts of the cluster from 0 to 1, as in {\"vision\": 0.7}; nothing of those that are not named. KAI reads it from a database of usage, and it stays as it is.",
        },
        Param {
            name: "k",
            kind: Kind::Number { min: 0.0, max: 1e6 },
            default: "1",
            about: "How much a queue's part of what none is guaranteed falls as it has used more than its weight says, and grows as it has used less: KAI's kValue.",
        },
    ];

    /// # Errors
    /// A name that is no queue's, or a part that is none.
    pub fn new(config: &Config, setup: &Setup) -> Result<Usage, PolicyError> {
        let wrong = |why: String| PolicyError::BadConfig(format!("`usage`: {why}"));
        let named: BTreeMap<String, f64> =
            serde_json::from_value(config.any("usage").clone()).map_err(|error| wrong(error.to_string()))?;
        let mut of = vec![0.0; setup.queues.len()];
        for (name, part) in named {
            let Some(queue) = setup.queues.iter().find(|queue| queue.name == name) else {
                return Err(wrong(format!("no queue is called {name:?}")));
            };
            if !(0.0..=1.0).contains(&part) {
                return Err(wrong(format!("expected a part of the cluster from 0 to 1, found {part} of {name:?}")));
            }
            of[queue.id as usize] = part;
        }
        // Where nothing has been used every part grows alike.
        let by_usage = if of.iter().any(|part| *part > 0.0) { config.number("k") } else { 0.0 };
        Ok(Usage { by_usage, of })
    }
}

/// The fair share of each queue.
pub struct Shares {
    fair: Vec<u64>,
}

/// Where a queue stands in its group: the least is served first. Whether it is above its fair share; whether its next job leaves what it
/// is guaranteed; the higher priority; the smaller part of what it [may have](Shares::most) with that job, then without; the smaller of that. Parts
/// are by their bits, which order numbers of at least 0.
pub type Turn = (bool, bool, Reverse<i32>, u64, u64, u64);

impl Shares {
    /// The shares of what is up and not held by jobs in no queue, divided level by level.
    pub fn of(cluster: &Cluster, usage: &Usage) -> Shares {
        let tree = cluster.queues();
        let mut shares = Shares { fair: vec![0; tree.all().len()] };
        let total = (u64::from(cluster.all_up_gpus()) * 1000).saturating_sub(tree.held_outside());
        shares.divide_group((tree, usage), None, total);
        // A group comes before those in it.
        for queue in tree.all() {
            shares.divide_group((tree, usage), Some(queue.id), shares.fair(queue.id));
        }
        shares
    }

    fn divide_group(&mut self, (tree, usage): (&QueueTree, &Usage), group: Option<QueueId>, total: u64) {
        let members = tree.of_group(group);
        let gpus = |milli: u64| milli as f64 / 1000.0;
        let claim = |id: &QueueId| {
            let queue = tree.queue(*id);
            Claim {
                priority: queue.priority,
                guaranteed: queue.guaranteed,
                weight: queue.weight,
                usable: gpus(tree.held(*id) + tree.waiting(*id)).min(queue.limit),
                used: usage.of[*id as usize],
            }
        };
        let (fair, _) = divide(gpus(total), usage.by_usage, &members.iter().map(claim).collect::<Vec<_>>());
        for (id, fair) in members.iter().zip(fair) {
            self.fair[*id as usize] = (fair * 1000.0).round() as u64;
        }
    }

    /// The fair share of a queue.
    pub fn fair(&self, queue: QueueId) -> u64 {
        self.fair[queue as usize]
    }

    /// What a queue may have when queues are put in order: its fair share, or what it is guaranteed where that is more, up to its limit.
    ///
    /// Source: KAI-Scheduler's `GetAllocatableShare`.
    fn most(&self, tree: &QueueTree, queue: QueueId) -> u64 {
        self.fair(queue).max(tree.guaranteed(queue)).min(tree.limit(queue))
    }

    /// What a queue has over its fair share.
    pub fn ratio(&self, has: u64, queue: QueueId) -> f64 {
        part(has, self.fair(queue))
    }

    /// Whether a job may start in its queue: within the limits, and what may not be taken back within what is guaranteed.
    pub fn allows(cluster: &Cluster, job: &Job) -> bool {
        cluster.queues().has_room(job) && Shares::guarantees(cluster, job)
    }

    /// Whether a job may be preempted, or what may not be taken back from its queue and groups stays within what is guaranteed with it.
    pub fn guarantees(cluster: &Cluster, job: &Job) -> bool {
        let tree = cluster.queues();
        let guaranteed = |id: QueueId| tree.pinned(id) + job.asked_milli() <= tree.guaranteed(id);
        job.queue.filter(|_| !job.preemptible).is_none_or(|queue| tree.path(queue).all(guaranteed))
    }

    /// Where queues stand, for [`sandtable_queues::Waiting`].
    pub fn turns(&self) -> impl Fn(&Cluster, QueueId, &Job) -> Turn {
        |cluster, id, job| self.turn(cluster.queues(), id, cluster.queues().held(id), job.asked_milli())
    }

    /// Where a queue stands that holds so much and whose next job asks for so much.
    pub fn turn(&self, tree: &QueueTree, id: QueueId, held: u64, asks: u64) -> Turn {
        let most = self.most(tree, id);
        let part = |has: u64| part(has, most).to_bits();
        let priority = Reverse(tree.queue(id).priority);
        (held > self.fair(id), held + asks > tree.guaranteed(id), priority, part(held + asks), part(held), most)
    }
}

fn part(has: u64, of: u64) -> f64 {
    if of > 0 { has as f64 / of as f64 } else { has as f64 / 1000.0 * WITHOUT_SHARE }
}
