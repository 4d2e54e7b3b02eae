//! What the bound predictor says of jobs side by side, each question asked once.

use std::collections::BTreeMap;

use crate::{Cluster, GpuTypeId, Job, JobId, host};

/// Speeds of jobs beside residents of a GPU, by what a predictor can tell apart of them.
#[derive(Default)]
pub struct PairSpeeds {
    known: BTreeMap<(GpuTypeId, u64, Vec<u64>), f64>,
}

impl PairSpeeds {
    /// Speed of a job beside these residents over its speed alone, 0 to 1; 1 without any, NaN if unknown.
    pub fn of(&mut self, cluster: &Cluster, gpu_type: GpuTypeId, job: &Job, residents: &[JobId]) -> f64 {
        if residents.is_empty() {
            return 1.0;
        }
        let mut keys: Vec<u64> = residents.iter().map(|id| cluster.job(*id).likeness()).collect();
        keys.sort_unstable();
        *self
            .known
            .entry((gpu_type, job.likeness(), keys))
            .or_insert_with(|| host::pair_speed(gpu_type, vec![job.id], vec![residents.to_vec()])[0])
    }
}

impl Job {
    /// Jobs of one number are one to a predictor: they are of one workload and need as much memory. Any other is itself.
    pub fn likeness(&self) -> u64 {
        match self.workload {
            Some(workload) => u64::from(self.memory_mib) << 24 | u64::from(workload),
            None => (1 << 63) | u64::from(self.id),
        }
    }
}
