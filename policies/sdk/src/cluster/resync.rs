//! The host's state, read again.

use std::collections::BTreeMap;

use super::Cluster;
use crate::{GpuId, JobId, JobPhase, NO_SLICE, host};

impl Cluster {
    /// After a refused action the mirror differs from the host's state: it is read again.
    pub(super) fn resync(&mut self) {
        let (gpus, jobs) = host::occupancy();
        let mut truth: Vec<(JobId, GpuId)> = jobs.into_iter().zip(gpus).collect();
        truth.sort_unstable();
        let ids: Vec<JobId> = self.jobs().map(|job| job.id).collect();
        let (slices, mut nodes) = (self.part_slices(), self.cpu_nodes());
        let mut moved = Vec::new();
        for id in ids {
            let from = truth.partition_point(|(job, _)| *job < id);
            let held: Vec<GpuId> =
                truth[from..].iter().take_while(|(job, _)| *job == id).map(|(_, gpu)| *gpu).collect();
            let mut mirrored = self.job(id).held.clone();
            mirrored.sort_unstable();
            // A live job that has ended here: the policy was not allowed to refuse it.
            let slice = slices.get(&id).copied();
            if mirrored != held
                || self.job(id).slice != slice
                || self.job(id).node != nodes.get(&id).copied()
                || self.job(id).phase == JobPhase::Ended
            {
                self.release(id, self.now, JobPhase::Queued);
                moved.push((id, held, slice));
            }
        }
        for (id, held, slice) in moved {
            let node = nodes.remove(&id);
            if !held.is_empty() || node.is_some() {
                // Its preemption was refused: it never stopped.
                let now = self.now;
                self.place(id, slice);
                match node {
                    Some(node) => self.hold_on(id, node),
                    None => self.hold(id, &held),
                }
                if let Some(job) = self.job_mut(id) {
                    job.phase = JobPhase::Running;
                    job.running_since = Some(now);
                }
            }
        }
    }

    /// First slices of the parts that jobs have.
    fn part_slices(&self) -> BTreeMap<JobId, u32> {
        let ids: Vec<JobId> = self.jobs().filter(|job| job.part.is_some()).map(|job| job.id).collect();
        if ids.is_empty() {
            return BTreeMap::new();
        }
        let slices = host::part_slices(ids.clone());
        ids.into_iter().zip(slices).filter(|(_, slice)| *slice != NO_SLICE).collect()
    }
}
