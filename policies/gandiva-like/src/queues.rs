//! Waiting jobs by what they ask for: jobs of one shape find a place, a resident to join or one to relieve together or not at all.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::rc::Rc;

use sandtable_policy::{Ask, Cluster, GpuTypeId, Instant, Job, JobId};

/// An instant and an id: where a job stands.
pub type Stand = (Instant, JobId);

/// How much a job uses a GPU, as a number of the order of `f64::total_cmp`, and its id.
pub type Use = (i64, JobId);

struct Shape {
    ask: Ask,
    gpu_types: Rc<[GpuTypeId]>,
    /// By submission.
    jobs: BTreeSet<Stand>,
    /// Those that may share a GPU, by how much they use it.
    pairing: BTreeSet<Use>,
}

/// Waiting jobs, by shape.
#[derive(Default)]
pub struct Queues {
    // Few shapes: a scan is quicker than a map.
    shapes: Vec<Shape>,
}

/// Whether a job is one that may share its GPU.
pub fn pairs(job: &Job) -> bool {
    job.gpus == 1 && job.preemptible && job.out_of_memory == 0
}

/// How much a job uses a GPU.
pub fn use_of(cluster: &Cluster, job: &Job) -> i64 {
    let bits = cluster.utilisation(job).to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

impl Queues {
    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.shapes.iter().all(|shape| shape.jobs.is_empty())
    }

    fn shape(&self, job: &Job) -> Option<usize> {
        self.shapes.iter().position(|shape| shape.ask == job.ask() && shape.gpu_types == job.gpu_types)
    }

    /// Adds a job.
    pub fn insert(&mut self, cluster: &Cluster, job: &Job) {
        let index = self.shape(job).unwrap_or_else(|| {
            let (ask, gpu_types) = (job.ask(), job.gpu_types.clone());
            self.shapes.push(Shape { ask, gpu_types, jobs: BTreeSet::new(), pairing: BTreeSet::new() });
            self.shapes.len() - 1
        });
        self.shapes[index].jobs.insert((job.submitted, job.id));
        if pairs(job) {
            self.shapes[index].pairing.insert((use_of(cluster, job), job.id));
        }
    }

    /// Takes a job out that still waits.
    pub fn remove(&mut self, cluster: &Cluster, job: &Job) {
        if let Some(index) = self.shape(job) {
            self.shapes[index].jobs.remove(&(job.submitted, job.id));
            self.shapes[index].pairing.remove(&(use_of(cluster, job), job.id));
        }
    }

    /// All shapes, for a pass that closes some of them.
    pub fn shapes(&self) -> Vec<usize> {
        (0..self.shapes.len()).collect()
    }

    /// Closes the shape of a job.
    pub fn close(&self, open: &mut Vec<usize>, job: &Job) {
        if let Some(index) = self.shape(job) {
            open.retain(|shape| *shape != index);
        }
    }

    /// The first by submission behind `after`, of open shapes; and its shape.
    pub fn first(&self, open: &[usize], after: Option<Stand>) -> Option<(usize, Stand)> {
        let from = after.map_or(Unbounded, Excluded);
        let first = |shape: &usize| Some((*shape, *self.shapes[*shape].jobs.range((from, Unbounded)).next()?));
        open.iter().filter_map(first).min_by_key(|(_, stand)| *stand)
    }

    /// Of those that may share a GPU the one that uses it the least, behind `after`, of open shapes.
    pub fn least_used(&self, open: &[usize], after: Option<Use>) -> Option<Use> {
        let from = after.map_or(Unbounded, Excluded);
        open.iter().filter_map(|shape| self.shapes[*shape].pairing.range((from, Unbounded)).next().copied()).min()
    }

    /// The first by submission that asks for more than one GPU.
    pub fn first_gang(&self) -> Option<JobId> {
        let gangs = self.shapes.iter().filter(|shape| shape.ask.gpus > 1);
        gangs.filter_map(|shape| shape.jobs.first()).min().map(|(_, id)| *id)
    }
}
