//! Waiting jobs in a total order, and the pass that starts them without preempting anybody.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Cluster, GpuTypeId, Job, JobId, Placement};

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
type Shape = (u32, Vec<GpuTypeId>);

/// Waiting jobs, each with a key: ordered by (key, id), which is total.
#[derive(Default)]
pub struct Backlog {
    queues: BTreeMap<Shape, BTreeSet<(u64, JobId)>>,
}

impl Backlog {
    /// Adds a waiting job.
    pub fn push(&mut self, job: &Job, key: u64) {
        let shape = (job.gpus, job.gpu_types.clone());
        self.queues.entry(shape).or_default().insert((key, job.id));
    }

    /// Starts what the order and `backfill` allow now.
    pub fn start(&mut self, cluster: &mut Cluster, place: Placement, backfill: Backfill) {
        let mut blocked: Vec<bool> = Vec::new();
        loop {
            blocked.resize(self.queues.len(), false);
            let heads = self.queues.iter().zip(&blocked).enumerate();
            let heads = heads.filter(|(_, (_, blocked))| !**blocked);
            let head = heads.filter_map(|(index, ((_, queue), _))| Some((*queue.first()?, index))).min();
            let Some(((key, id), index)) = head else { return };
            let job = cluster.job(id);
            match place.find_any(cluster, &job.gpu_types, job.gpus) {
                Some(gpus) => {
                    cluster.start(id, gpus);
                    self.remove(index, (key, id));
                    blocked.clear();
                    continue;
                }
                None => match backfill {
                    Backfill::None => return,
                    Backfill::Skip => blocked[index] = true,
                    Backfill::Easy => return self.easy(cluster, place, (key, id)),
                },
            }
        }
    }

    fn remove(&mut self, index: usize, entry: (u64, JobId)) {
        let shape = self.queues.iter_mut().nth(index).map(|(shape, queue)| {
            queue.remove(&entry);
            (shape.clone(), queue.is_empty())
        });
        if let Some((shape, true)) = shape {
            self.queues.remove(&shape);
        }
    }

    /// EASY backfilling by counts: the head's reservation is the earliest instant at which the GPUs of its first
    /// type suffice if all estimates hold; a job may jump it where it ends before, or leaves enough over.
    fn easy(&mut self, cluster: &mut Cluster, place: Placement, head: (u64, JobId)) {
        let head_job = cluster.job(head.1).clone();
        let gpu_type = head_job.gpu_types[0];
        let (shadow, mut extra) = reservation(cluster, &head_job, gpu_type);
        let mut order: Vec<(u64, JobId)> =
            self.queues.values().flatten().copied().filter(|entry| *entry != head).collect();
        order.sort_unstable();
        let ids: Vec<JobId> = order.iter().map(|entry| entry.1).collect();
        let lasts = cluster.remaining(&ids);
        for (entry, last) in order.into_iter().zip(lasts) {
            let job = cluster.job(entry.1);
            let (gpus, types) = (job.gpus, job.gpu_types.clone());
            let Some(found) = place.find_any(cluster, &types, gpus) else { continue };
            if cluster.nodes[cluster.node_of(found[0])].gpu_type == gpu_type && (last.is_nan() || last > shadow) {
                if gpus > extra {
                    continue;
                }
                extra -= gpus;
            }
            cluster.start(entry.1, found);
            let index = self.queues.keys().position(|shape| *shape == (gpus, types.clone()));
            self.remove(index.unwrap_or_default(), entry);
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
