//! The queues of an experiment, which jobs of each hold GPUs, and how many they hold and wait for.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::{Cluster, Job, JobId, Queue, QueueId};

/// GPUs of a queue, in thousandths; those of the queues in a group included.
#[derive(Clone, Copy, Default)]
struct Count {
    held: u64,
    /// Of `held`, by jobs that may not be preempted.
    pinned: u64,
    waiting: u64,
}

/// The queues, and what their jobs hold as the plan so far leaves it.
#[derive(Default)]
pub struct QueueTree {
    queues: Vec<Queue>,
    counts: Vec<Count>,
    /// The jobs of each queue that hold GPUs.
    holders: Vec<BTreeSet<(i32, Reverse<JobId>)>>,
    children: Vec<Vec<QueueId>>,
    top: Vec<QueueId>,
    /// What jobs in no queue hold.
    outside: u64,
}

/// What a job moves from and to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Held,
    Waiting,
}

impl QueueTree {
    fn new(queues: &[Queue]) -> QueueTree {
        let mut tree = QueueTree {
            queues: queues.to_vec(),
            counts: vec![Count::default(); queues.len()],
            holders: vec![BTreeSet::new(); queues.len()],
            children: vec![Vec::new(); queues.len()],
            top: Vec::new(),
            outside: 0,
        };
        for queue in queues {
            match queue.parent {
                Some(group) => tree.children[group as usize].push(queue.id),
                None => tree.top.push(queue.id),
            }
        }
        tree
    }

    /// What is known of a queue.
    pub fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[id as usize]
    }

    /// All queues and groups, a group before those in it.
    pub fn all(&self) -> &[Queue] {
        &self.queues
    }

    /// The queues of a group, or with `None` those at the top, by id.
    pub fn of_group(&self, group: Option<QueueId>) -> &[QueueId] {
        group.map_or(&self.top, |group| &self.children[group as usize])
    }

    /// A queue and the groups that it is in, from near to wide.
    pub fn path(&self, queue: QueueId) -> impl Iterator<Item = QueueId> + '_ {
        std::iter::successors(Some(queue), |queue| self.queue(*queue).parent)
    }

    /// Jobs of a queue, and not of the queues in it, that hold GPUs: those of the lowest priority first, of these the latest.
    pub fn holders(&self, queue: QueueId) -> impl Iterator<Item = JobId> + '_ {
        self.holders[queue as usize].iter().map(|(_, Reverse(id))| *id)
    }

    /// Thousandths of a GPU that jobs of a queue hold.
    pub fn held(&self, queue: QueueId) -> u64 {
        self.counts[queue as usize].held
    }

    /// Thousandths of a GPU that jobs of a queue hold which may not be preempted.
    pub fn pinned(&self, queue: QueueId) -> u64 {
        self.counts[queue as usize].pinned
    }

    /// Thousandths of a GPU that live jobs of a queue are to have and do not hold: they wait, or save their state to wait again.
    pub fn waiting(&self, queue: QueueId) -> u64 {
        self.counts[queue as usize].waiting
    }

    /// Thousandths of a GPU that jobs in no queue hold.
    pub fn held_outside(&self) -> u64 {
        self.outside
    }

    /// The limit of a queue in thousandths of a GPU.
    pub fn limit(&self, queue: QueueId) -> u64 {
        milli(self.queue(queue).limit)
    }

    /// What a queue is guaranteed, in thousandths of a GPU.
    pub fn guaranteed(&self, queue: QueueId) -> u64 {
        milli(self.queue(queue).guaranteed)
    }

    /// Whether a queue and its groups take a job within their limits.
    pub fn has_room(&self, job: &Job) -> bool {
        job.queue.is_none_or(|queue| self.path(queue).all(|id| self.held(id) + job.asked_milli() <= self.limit(id)))
    }

    /// Counts GPUs of a job that come to a side, or leave it.
    pub(crate) fn count(&mut self, job: &Job, side: Side, gpus: usize, comes: bool) {
        let milli = gpus as u64 * u64::from(job.share);
        let shift = |of: &mut u64| *of = if comes { *of + milli } else { *of - milli };
        if job.queue.is_none() && side == Side::Held {
            shift(&mut self.outside);
        }
        if let Some(queue) = job.queue.filter(|_| side == Side::Held) {
            let (holders, stand) = (&mut self.holders[queue as usize], (job.priority, Reverse(job.id)));
            if comes {
                holders.insert(stand)
            } else {
                holders.remove(&stand)
            };
        }
        let mut next = job.queue;
        while let Some(queue) = next {
            let count = &mut self.counts[queue as usize];
            match side {
                Side::Waiting => shift(&mut count.waiting),
                Side::Held => {
                    shift(&mut count.held);
                    if !job.preemptible {
                        shift(&mut count.pinned);
                    }
                }
            }
            next = self.queues[queue as usize].parent;
        }
    }
}

/// GPUs as thousandths; what is beyond the range, as a missing limit, becomes the largest.
fn milli(gpus: f64) -> u64 {
    (gpus * 1000.0).round() as u64
}

impl Cluster {
    /// The same cluster, shared by these queues.
    #[must_use]
    pub fn queued_in(mut self, queues: &[Queue]) -> Cluster {
        self.queues = QueueTree::new(queues);
        self
    }

    /// The queues, and what their jobs hold.
    pub fn queues(&self) -> &QueueTree {
        &self.queues
    }
}
