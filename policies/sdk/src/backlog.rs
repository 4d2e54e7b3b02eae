//! Waiting jobs in a total order, and the pass that starts them without preempting any job.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::{Ask, Cluster, GpuTypeId, Job, JobId, Placement, Quantity, host};

/// What happens when a job that comes earlier in the order finds no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backfill {
    /// It blocks the jobs behind it (head-of-line blocking).
    None,
    /// It is skipped (Tiresias' `fjf`).
    Skip,
    /// Jobs behind it may start where their estimates say that they do not delay it (EASY).
    Easy,
}

impl Backfill {
    /// The words by which configurations name the ways.
    pub const WORDS: &'static [&'static str] = &["none", "skip", "easy"];

    /// The way of a word of [`Backfill::WORDS`].
    pub fn named(word: &str) -> Backfill {
        match word {
            "skip" => Backfill::Skip,
            "easy" => Backfill::Easy,
            _ => Backfill::None,
        }
    }
}

/// Jobs that need the same find a place together or not at all: one queue for each shape.
struct Queue {
    ask: Ask,
    gpu_types: Rc<[GpuTypeId]>,
    jobs: BTreeSet<(u64, JobId)>,
    /// Found no place in this pass.
    blocked: bool,
}

/// Waiting jobs, each with a key: ordered by (key, id), which is total.
#[derive(Default)]
pub struct Backlog {
    // Few shapes: a scan is quicker than a map.
    queues: Vec<Queue>,
}

impl Backlog {
    /// Adds a job that waits. One that holds GPUs when a policy takes over has its turn when it waits again.
    pub fn push(&mut self, job: &Job, key: u64) {
        if !job.waits() {
            return;
        }
        let known = self.queues.iter().position(|queue| queue.ask == job.ask() && queue.gpu_types == job.gpu_types);
        let index = known.unwrap_or_else(|| {
            let (ask, gpu_types) = (job.ask(), job.gpu_types.clone());
            self.queues.push(Queue { ask, gpu_types, jobs: BTreeSet::new(), blocked: false });
            self.queues.len() - 1
        });
        self.queues[index].jobs.insert((key, job.id));
    }

    /// Starts what the order and `backfill` allow now.
    pub fn start(&mut self, cluster: &mut Cluster, place: Placement, backfill: Backfill) {
        for queue in &mut self.queues {
            queue.blocked = false;
        }
        loop {
            let open = self.queues.iter_mut().filter(|queue| !queue.blocked && !queue.jobs.is_empty());
            let Some(queue) = open.min_by_key(|queue| queue.jobs.first().copied()) else { return };
            let Some(head) = queue.jobs.first().copied() else { return };
            match place.find_any(cluster, &queue.gpu_types, queue.ask) {
                Some(gpus) => {
                    cluster.start(head.1, gpus);
                    queue.jobs.pop_first();
                }
                None => match backfill {
                    Backfill::None => return,
                    Backfill::Skip => queue.blocked = true,
                    Backfill::Easy => return self.easy(cluster, place, head),
                },
            }
        }
    }

    /// EASY backfilling by counts: the head's reservation is the earliest instant at which the GPUs of its first
    /// type suffice if all estimates hold; a job may jump it where it ends before, or leaves enough over.
    fn easy(&mut self, cluster: &mut Cluster, place: Placement, head: (u64, JobId)) {
        let head_job = cluster.job(head.1).clone();
        let gpu_type = head_job.gpu_types[0];
        let (shadow, mut extra) = reservation(cluster, &head_job, gpu_type);
        let mut order: Vec<((u64, JobId), usize)> = Vec::new();
        for (index, queue) in self.queues.iter().enumerate() {
            order.extend(queue.jobs.iter().filter(|entry| **entry != head).map(|entry| (*entry, index)));
        }
        order.sort_unstable();
        let ids: Vec<JobId> = order.iter().map(|((_, id), _)| *id).collect();
        // On the head's type: elsewhere no job is in its way.
        let lasts = host::estimate(Quantity::Remaining, ids.clone(), vec![gpu_type; ids.len()]);
        for ((entry, index), last) in order.into_iter().zip(lasts) {
            let queue = &mut self.queues[index];
            let Some(found) = place.find_any(cluster, &queue.gpu_types, queue.ask) else { continue };
            if cluster.nodes[cluster.node_of(found[0])].gpu_type == gpu_type && (last.is_nan() || last > shadow) {
                if queue.ask.gpus > extra {
                    continue;
                }
                extra -= queue.ask.gpus;
            }
            cluster.start(entry.1, found);
            queue.jobs.remove(&entry);
        }
    }
}

/// Seconds until the head can start by count, and GPUs left over then. A job without an estimate never ends.
fn reservation(cluster: &Cluster, head: &Job, gpu_type: GpuTypeId) -> (f64, u32) {
    let holding = cluster.holders().filter(|job| cluster.type_of(job) == gpu_type);
    let ids: Vec<JobId> = holding.map(|job| job.id).collect();
    let mut ends: Vec<(f64, JobId)> =
        cluster.remaining(&ids).into_iter().zip(ids).filter(|(left, _)| !left.is_nan()).collect();
    ends.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal).then(a.1.cmp(&b.1)));
    let mut free = cluster.free_gpus(gpu_type);
    for (left, id) in ends {
        free += cluster.job(id).gpus;
        if free >= head.gpus {
            return (left, free - head.gpus);
        }
    }
    (f64::INFINITY, 0)
}
