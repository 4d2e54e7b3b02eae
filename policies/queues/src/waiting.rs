//! Waiting jobs by queue, within a queue by what they ask for; and the pass that offers each its turn.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

use sandtable_policy::{Ask, Cluster, GpuTypeId, Job, JobId, QueueId};

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

/// What a pass knows of a queue or a group, or of the top.
struct Line<T> {
    /// Its next job.
    next: Option<Next>,
    /// Where it stands in its group.
    turn: Option<(T, QueueId)>,
    /// Of a group: where those of its queues stand that have a next job.
    turns: BTreeSet<(T, QueueId)>,
}

impl<T> Line<T> {
    const EMPTY: Line<T> = Line { next: None, turn: None, turns: BTreeSet::new() };
}

/// The waiting jobs. `T` is where a queue or a group stands among those beside it, for the job that it offers: the least is first, among
/// equals the older queue.
pub struct Waiting<T> {
    /// By queue; the last are those of jobs in no queue.
    queues: Vec<Vec<Shape>>,
    /// Likewise; the last is the top.
    lines: Vec<Line<T>>,
    /// By queue: whether it has had its turn, for policies that give each queue one before any has another.
    served: Vec<bool>,
    jobs: usize,
    /// Whether any job has asked for a part of a GPU: there may be room for it where none is free.
    fractions: bool,
}

impl<T: Ord + Copy> Waiting<T> {
    /// None, of so many queues.
    pub fn new(queues: usize) -> Waiting<T> {
        Waiting {
            queues: (0..=queues).map(|_| Vec::new()).collect(),
            lines: (0..=queues).map(|_| Line::EMPTY).collect(),
            served: vec![false; queues],
            jobs: 0,
            fractions: false,
        }
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.jobs == 0
    }

    /// The index of jobs in no queue, and of the top.
    fn last(&self) -> usize {
        self.queues.len() - 1
    }

    /// Adds a job that waits.
    pub fn push(&mut self, job: &Job) {
        if !job.waits() {
            return;
        }
        self.fractions |= job.share < 1000;
        let in_none = self.last();
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
        !self.fractions && (0..cluster.types() as GpuTypeId).all(|gpu_type| cluster.free_gpus(gpu_type) == 0)
    }

    /// A new pass: every job may find a place.
    pub fn begin(&mut self, cluster: &Cluster, turn: impl Fn(&Cluster, QueueId, &Job) -> T) {
        self.queues.iter_mut().flatten().for_each(|shape| shape.open = true);
        self.take_turns(cluster, turn);
    }

    /// Every queue may have another turn.
    pub fn take_turns(&mut self, cluster: &Cluster, turn: impl Fn(&Cluster, QueueId, &Job) -> T) {
        self.served.fill(false);
        self.line_up(cluster, turn);
    }

    /// The queue of this job has had its turn: others come first until [`Waiting::take_turns`]. Jobs in no queue take no turns.
    pub fn serve(&mut self, next: Next, cluster: &Cluster, turn: impl Fn(&Cluster, QueueId, &Job) -> T) {
        if let Some(served) = self.served.get_mut(next.queue) {
            *served = true;
            self.refresh(next.queue, cluster, turn);
        }
    }

    /// Lines all queues up anew: what several of them hold has changed.
    pub fn line_up(&mut self, cluster: &Cluster, turn: impl Fn(&Cluster, QueueId, &Job) -> T) {
        self.lines.iter_mut().for_each(|line| *line = Line::EMPTY);
        for queue in (0..self.last()).filter(|queue| !self.queues[*queue].is_empty()).collect::<Vec<_>>() {
            self.refresh(queue, cluster, &turn);
        }
    }

    /// No job of this shape finds a place in this pass.
    pub fn close(&mut self, next: Next, cluster: &Cluster, turn: impl Fn(&Cluster, QueueId, &Job) -> T) {
        self.queues[next.queue][next.shape].open = false;
        self.refresh(next.queue, cluster, turn);
    }

    /// No job of this queue finds a place in this pass.
    pub fn close_queue(&mut self, next: Next, cluster: &Cluster, turn: impl Fn(&Cluster, QueueId, &Job) -> T) {
        self.queues[next.queue].iter_mut().for_each(|shape| shape.open = false);
        self.refresh(next.queue, cluster, turn);
    }

    /// A job has started.
    pub fn remove(&mut self, next: Next, cluster: &Cluster, turn: impl Fn(&Cluster, QueueId, &Job) -> T) {
        self.jobs -= usize::from(self.queues[next.queue][next.shape].jobs.remove(&next.stand));
        self.refresh(next.queue, cluster, turn);
    }

    /// A job has started before the pass began.
    pub fn forget(&mut self, job: &Job) {
        let in_none = self.last();
        let shapes = &mut self.queues[job.queue.map_or(in_none, |queue| queue as usize)];
        let stand = (Reverse(job.priority), job.id);
        self.jobs -= usize::from(shapes.iter_mut().any(|shape| shape.jobs.remove(&stand)));
    }

    /// The next job: of the queue that is due first at each level, the first that may still find a place. Jobs in no queue come first.
    pub fn next(&self) -> Option<Next> {
        self.first_of(self.last()).or(self.lines[self.last()].next)
    }

    /// Finds the next job of a queue and its groups anew.
    fn refresh(&mut self, queue: usize, cluster: &Cluster, turn: impl Fn(&Cluster, QueueId, &Job) -> T) {
        let (tree, top) = (cluster.queues(), self.last());
        // Jobs in no queue stand in no line.
        if queue == top {
            return;
        }
        let (mut at, mut next) = (queue, self.first_of(queue));
        loop {
            let id = at as QueueId;
            let now = next.map(|next: Next| (turn(cluster, id, cluster.job(next.job)), id));
            let before = std::mem::replace(&mut self.lines[at].turn, now);
            self.lines[at].next = next;
            at = tree.queue(id).parent.map_or(top, |group| group as usize);
            let turns = &mut self.lines[at].turns;
            if let Some(before) = before {
                turns.remove(&before);
            }
            turns.extend(now);
            let first = turns.first().map(|(_, id)| *id as usize);
            next = first.and_then(|first| self.lines[first].next);
            if at == top {
                self.lines[top].next = next;
                return;
            }
        }
    }

    fn first_of(&self, queue: usize) -> Option<Next> {
        if self.served.get(queue).is_some_and(|served| *served) {
            return None;
        }
        let open = self.queues[queue].iter().enumerate().filter(|(_, shape)| shape.open);
        let first = open.filter_map(|(shape, of)| Some((*of.jobs.first()?, shape))).min();
        first.map(|(stand, shape)| Next { job: stand.1, stand, queue, shape })
    }
}
