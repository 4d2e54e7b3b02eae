//! What GPUs would show as their utilisation: `1 - Π(1 - u)` over the jobs that make progress there (ours).

use sandtable_hardware::{Fleet, GpuId, JobId, TypeId};

/// Utilisation of all GPUs, kept as jobs come and go.
#[derive(Debug)]
pub(crate) struct UtilisationTracker {
    /// By type, then by job.
    of_job: Vec<Vec<f64>>,
    type_of: Vec<TypeId>,
    of_gpu: Vec<f64>,
    sum: f64,
}

impl UtilisationTracker {
    /// All GPUs idle; `of_job` is each job's utilisation alone, by type of GPU.
    pub(crate) fn new(fleet: &Fleet, of_job: Vec<Vec<f64>>) -> UtilisationTracker {
        let type_of: Vec<TypeId> = (0..fleet.gpus()).map(|gpu| fleet.type_of(GpuId::new(gpu))).collect();
        UtilisationTracker { of_job, of_gpu: vec![0.0; type_of.len()], type_of, sum: 0.0 }
    }

    /// These jobs make progress on a GPU now.
    pub(crate) fn set(&mut self, gpu: GpuId, jobs: impl Iterator<Item = JobId>) {
        let slot = gpu.index();
        let alone = &self.of_job[self.type_of[slot]];
        let busy = 1.0 - jobs.fold(1.0, |idle, id| idle * (1.0 - alone[id]));
        self.sum += busy - self.of_gpu[slot];
        self.of_gpu[slot] = busy;
    }

    /// Utilisation of all GPUs together, in GPUs.
    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }
}
