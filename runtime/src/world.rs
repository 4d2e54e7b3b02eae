//! What a policy may read while it decides: the cluster, and estimates by whoever the experiment has bound.

use std::sync::Arc;

use sandtable_hardware::random::Stream;
use sandtable_hardware::{Backend, Fleet, Job, JobId, SECOND, TypeId};

use crate::cluster::{Cluster, NOBODY};
use crate::contract::{Abilities, Action, Rejection};
use crate::judge::{Bench, Verdict, judge};

/// Who answers for the quantity `remaining`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Remaining {
    /// Nobody: NaN.
    Unbound,
    /// The truth.
    Oracle,
    /// The truth times a log-normal error, drawn once for each job: asking twice gives the same error.
    Noisy {
        /// Standard deviation of the error's logarithm.
        sigma: f64,
        /// What the errors are drawn from.
        seed: u64,
    },
    /// What the user declared, less the progress made.
    Declared,
}

/// The cluster and its machines.
pub struct World {
    /// Who is where.
    pub cluster: Cluster,
    /// The machines.
    pub backend: Box<dyn Backend>,
    jobs: Arc<[Job]>,
    bound: Remaining,
    /// Error factors drawn so far.
    noise: Vec<Option<f64>>,
    pub(crate) uses: Abilities,
    max_actions: u32,
}

impl World {
    /// Machines at rest and jobs that are still to come.
    pub fn new(backend: Box<dyn Backend>, jobs: Arc<[Job]>, bound: Remaining, max_actions: u32) -> World {
        let cluster = Cluster::new(backend.fleet(), jobs.len());
        let noise = if matches!(bound, Remaining::Noisy { .. }) { vec![None; jobs.len()] } else { Vec::new() };
        World { cluster, backend, jobs, bound, noise, uses: Abilities::empty(), max_actions }
    }

    /// The machines.
    pub fn fleet(&self) -> &Fleet {
        self.backend.fleet()
    }

    /// GPUs that a start could use now, by node.
    pub fn free_gpus(&self) -> Vec<u32> {
        let nodes = self.cluster.free.iter().zip(&self.cluster.up);
        nodes.map(|(free, up)| if *up { *free } else { 0 }).collect()
    }

    /// Pairs of GPU and job, ascending by GPU.
    pub fn occupancy(&self) -> (Vec<u32>, Vec<JobId>) {
        let pairs = self.cluster.owner.iter().enumerate().filter(|(_, owner)| **owner != NOBODY);
        pairs.map(|(gpu, owner)| (gpu as u32, *owner)).unzip()
    }

    /// Judges without doing anything.
    pub fn check(&mut self, actions: &[Action]) -> Vec<Rejection> {
        let base = self.cluster.seq;
        let verdict = self.judge(base, actions);
        verdict.undo(&mut self.cluster, self.backend.fleet())
    }

    /// Judges, and carries the accepted actions out on the state.
    pub(crate) fn judge(&mut self, base: u64, actions: &[Action]) -> Verdict {
        let bench =
            Bench { fleet: self.backend.fleet(), jobs: &self.jobs, uses: self.uses, max_actions: self.max_actions };
        judge(&bench, &mut self.cluster, base, actions)
    }

    /// Seconds left of each job on the type beside it; NaN where nobody knows, as for unknown ids.
    pub fn remaining(&mut self, jobs: &[JobId], types: &[TypeId]) -> Vec<f64> {
        jobs.iter().zip(types).map(|(job, gpu_type)| self.remaining_of(*job, *gpu_type)).collect()
    }

    fn remaining_of(&mut self, job: JobId, gpu_type: TypeId) -> f64 {
        use crate::cluster::Phase;
        let phase = self.cluster.phase.get(job as usize).copied().unwrap_or(Phase::Future);
        if phase == Phase::Future || gpu_type as usize >= self.fleet().types.len() {
            return f64::NAN;
        }
        let left = match self.bound {
            Remaining::Unbound => f64::NAN,
            Remaining::Oracle => self.backend.remaining(job, gpu_type),
            Remaining::Noisy { sigma, seed } => {
                let factor = *self.noise[job as usize]
                    .get_or_insert_with(|| Stream::new(seed, &format!("noise/remaining/{job}")).log_normal(1.0, sigma));
                self.backend.remaining(job, gpu_type) * factor
            }
            Remaining::Declared => match self.jobs[job as usize].declared {
                Some(declared) => {
                    let speed = self.fleet().types[gpu_type as usize].speed;
                    let whole = self.jobs[job as usize].work as f64 / speed / SECOND as f64;
                    let said = declared as f64 / speed / SECOND as f64;
                    (said - (whole - self.backend.remaining(job, gpu_type))).max(0.0)
                }
                None => f64::NAN,
            },
        };
        // Only the canonical NaN crosses the border.
        if left.is_nan() { f64::NAN } else { left }
    }
}
