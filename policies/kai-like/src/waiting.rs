//! Waiting jobs by queue, and within a queue by what they ask for.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

use sandtable_policy::{Ask, Cluster, GpuTypeId, Job, JobId, QueueId};

use crate::shares::{Shares, asked};

/// Where a job stands in its queue: by priority, then by submission, which ids follow.
type Stand = (Reverse<i32>, JobId);

/// Jobs that find a place together or not at all.
struct Shape {
    ask: Ask,
    gpu_types: Rc<[GpuTypeId]>,
    preemptible: bool,
    /// Whether its first job may still find a place in this pass.
    open: bool,
    jobs: BTreeSet<Stand>,
}

/// A waiting job, and where it is found.
#[derive(Clone, Copy)]
pub struct Next {
    /// The job.
    pub job: JobId,
    stand: Stand,
    queue: usize,
    shape: usize,
}

/// The waiting jobs.
pub struct Waiting {
    /// By queue; the last are those of jobs in no queue.
    queues: Vec<Vec<Shape>>,
    jobs: usize,
    /// Whether any job has asked for a part of a GPU: there may be room for it where none is free.
    parts: bool,
}

impl Waiting {
    /// None, of so many queues.
    pub fn new(queues: usize) -> Waiting {
        Waiting { queues: (0..=queues).map(|_| Vec::new()).collect(), jobs: 0, parts: false }
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.jobs == 0
    }

    /// Adds a job that waits.
    pub fn push(&mut self, job: &Job) {
        if !job.waits() {
            return;
        }
        self.parts |= job.share < 1000;
        let in_none = self.queues.len() - 1;
        let shapes = &mut self.queues[job.queue.map_or(in_none, |queue| queue as usize)];
        let same = |shape: &Shape| {
            shape.ask == job.ask() && shape.gpu_types == job.gpu_types && shape.preemptible == job.preemptible
        };
        let at = shapes.iter().position(same).unwrap_or_else(|| {
            let (ask, gpu_types) = (job.ask(), job.gpu_types.clone());
            shapes.push(Shape { ask, gpu_types, preemptible: job.preemptible, open: true, jobs: BTreeSet::new() });
            shapes.len() - 1
        });
        self.jobs += usize::from(shapes[at].jobs.insert((Reverse(job.priority), job.id)));
    }

    /// Whether no job can start without another that lets go.
    pub fn is_blocked(&self, cluster: &Cluster) -> bool {
        !self.parts && (0..cluster.types() as GpuTypeId).all(|gpu_type| cluster.free_gpus(gpu_type) == 0)
    }

    /// A new pass: every job may find a place.
    pub fn open_all(&mut self) {
        self.queues.iter_mut().flatten().for_each(|shape| shape.open = true);
    }

    /// No job of this shape finds a place in this pass.
    pub fn close(&mut self, next: Next) {
        self.queues[next.queue][next.shape].open = false;
    }

    /// Takes a job out.
    pub fn remove(&mut self, next: Next) {
        self.jobs -= usize::from(self.queues[next.queue][next.shape].jobs.remove(&next.stand));
    }

    /// The next job: of the queue that is due first at each level, the first that may still find a place. Jobs in no queue come first.
    pub fn next(&self, cluster: &Cluster, shares: &Shares) -> Option<Next> {
        self.first_of(self.queues.len() - 1).or_else(|| self.of_group(cluster, shares, None))
    }

    fn of_group(&self, cluster: &Cluster, shares: &Shares, group: Option<QueueId>) -> Option<Next> {
        let tree = cluster.queues();
        let due = |id: &QueueId| match tree.of_group(Some(*id)) {
            [] => self.first_of(*id as usize),
            _ => self.of_group(cluster, shares, Some(*id)),
        };
        let asks = |next: &Next| asked(cluster.job(next.job));
        let candidates = tree.of_group(group).iter().filter_map(|id| Some((*id, due(id)?)));
        let first = candidates.min_by(|(a, of_a), (b, of_b)| shares.order(tree, (*a, asks(of_a)), (*b, asks(of_b))));
        first.map(|(_, next)| next)
    }

    fn first_of(&self, queue: usize) -> Option<Next> {
        let open = self.queues[queue].iter().enumerate().filter(|(_, shape)| shape.open);
        let first = open.filter_map(|(shape, of)| Some((*of.jobs.first()?, shape))).min();
        first.map(|(stand, shape)| Next { job: stand.1, stand, queue, shape })
    }
}
