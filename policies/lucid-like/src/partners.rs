//! Running jobs that have their GPUs to themselves, and the first of them that another may join.

use std::collections::BTreeMap;

use sandtable_policy::{Cluster, GpuId, Job, JobId, JobPhase};

use crate::score::Scores;

/// Most GPUs of a gang that shares.
const MOST_GPUS: u32 = 8;
/// Most that the scores of two jobs may add up to.
const MOST_SCORE: u32 = 2;
/// A job joins none whose priority is less than this part of its own.
const PART: f64 = 0.5;

/// A running job.
#[derive(Clone, Copy)]
struct Runner {
    /// Counts starts.
    started: u64,
    priority: f64,
    gpus: u32,
    partner: Option<JobId>,
}

/// The running jobs, and who of them is alone.
#[derive(Default)]
pub struct Partners {
    runners: BTreeMap<JobId, Runner>,
    starts: u64,
    /// Those that are alone, by the size of their gangs and in the order of their starts.
    alone: BTreeMap<(u32, u64), JobId>,
    /// Every job that became alone, in that order.
    news: Vec<JobId>,
    /// Counts how often what was learnt of refusals is void.
    pub age: u64,
}

/// What jobs of one shape have found so far: none of those before `seen` takes one of at least this priority.
#[derive(Clone, Copy)]
pub struct Refused {
    age: u64,
    seen: usize,
    priority: f64,
}

impl Refused {
    /// Nothing is known.
    pub const NOTHING: Refused = Refused { age: 0, seen: 0, priority: f64::INFINITY };
}

impl Partners {
    /// Takes in a job that was started, beside a partner or alone.
    pub fn started(&mut self, job: &Job, priority: f64, partner: Option<JobId>) {
        self.starts += 1;
        self.runners.insert(job.id, Runner { started: self.starts, priority, gpus: job.gpus, partner });
        match partner {
            Some(other) => {
                if let Some(runner) = self.runners.get_mut(&other) {
                    runner.partner = Some(job.id);
                    self.alone.remove(&(runner.gpus, runner.started));
                }
            }
            None => self.is_alone(job.id),
        }
    }

    /// Takes in a job that holds its GPUs no more.
    pub fn left(&mut self, id: JobId) {
        let Some(runner) = self.runners.remove(&id) else { return };
        self.alone.remove(&(runner.gpus, runner.started));
        if let Some(other) = runner.partner {
            if let Some(other) = self.runners.get_mut(&other) {
                other.partner = None;
            }
            self.is_alone(other);
        }
    }

    fn is_alone(&mut self, id: JobId) {
        if let Some(runner) = self.runners.get(&id) {
            self.alone.insert((runner.gpus, runner.started), id);
            self.news.push(id);
        }
        if self.news.len() > 64 + 4 * self.alone.len() {
            self.news.clear();
            self.age += 1;
        }
    }

    /// The first in the order of starts that a job may join.
    pub fn find(
        &self,
        cluster: &Cluster,
        scores: &Scores,
        job: &Job,
        priority: f64,
        refused: &mut Refused,
    ) -> Option<JobId> {
        if job.gpus > MOST_GPUS || job.workload.is_none() {
            return None;
        }
        // Whether a node has CPU and memory left is told by no news.
        let known = job.ask().is_unbound() && refused.age == self.age && priority >= refused.priority;
        let takes = |id: &&JobId| self.takes(cluster, scores, **id, job, priority);
        let found = if known {
            let new = self.news[refused.seen..].iter().filter(takes);
            new.min_by_key(|id| self.runners[*id].started).copied()
        } else {
            self.alone.range((job.gpus, 0)..=(job.gpus, u64::MAX)).map(|(_, id)| id).find(takes).copied()
        };
        if found.is_none() {
            *refused = Refused { age: self.age, seen: self.news.len(), priority };
        }
        found
    }

    fn takes(&self, cluster: &Cluster, scores: &Scores, id: JobId, job: &Job, priority: f64) -> bool {
        let Some(runner) = self.runners.get(&id) else { return false };
        let other = cluster.job(id);
        let gpu_type = cluster.type_of(other);
        let may = runner.partner.is_none()
            && runner.gpus == job.gpus
            && priority * PART <= runner.priority
            && matches!(other.phase, JobPhase::Starting | JobPhase::Running)
            && other.workload.is_some()
            && job.gpu_types.contains(&gpu_type)
            && scores.of(job, gpu_type) + scores.of(other, gpu_type) <= MOST_SCORE;
        let up = |gpu: &GpuId| cluster.node_gpus(cluster.node(*gpu)).contains(gpu);
        let takes = |gpu: &GpuId| up(gpu) && cluster.takes(job, *gpu, 2);
        may && other.held.iter().all(takes) && cluster.follows(job.ask(), &other.held)
    }
}
