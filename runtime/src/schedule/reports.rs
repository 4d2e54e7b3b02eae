//! What jobs leave behind and tell on their way: models that stay loaded, reports of elastic jobs.

use sandtable_hardware::{Instant, JobId};

use super::Run;
use crate::cluster::{Phase, Pod};
use crate::contract::Sample;
use crate::visibility::report;

impl Run {
    /// A task is done: its GPU keeps the service's model.
    pub(super) fn keep_model(&mut self, job: JobId) {
        let service = self.inputs.jobs[job].service;
        let Some(gpu) = self.ledger.row(job).last_gpus.first().copied() else { return };
        let world = self.world();
        if world.fleet().keeps_models
            && let Some(pod) = world.cluster.pods.get_mut(gpu.index())
        {
            *pod = Pod { service, until: Instant::START };
        }
    }

    /// An elastic job will have something to report.
    pub(super) fn mark_for_report(&mut self, job: JobId) {
        if self.inputs.laws.elastic(&self.inputs.jobs[job]).is_some() {
            self.fresh.push(job);
        }
    }

    /// What elastic jobs report since they last did, of those that have run long enough to; `ended`: of those alone that
    /// have just ended an epoch.
    pub(super) fn samples(&mut self, ended: bool) -> Vec<Sample> {
        if self.fresh.is_empty() {
            return Vec::new();
        }
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.sort_unstable();
        fresh.dedup();
        let mut samples = Vec::new();
        for job in fresh {
            let world = self.world();
            let ends = world.backend.ends_epoch(job);
            if ended && !ends {
                self.fresh.push(job);
                continue;
            }
            match world.backend.sample(job) {
                Some(found) => {
                    samples.push(report(job, &found));
                    // Of its present epoch it reports the next time.
                    if ends {
                        self.fresh.push(job);
                    }
                }
                None if world.cluster.phase[job] == Phase::Running => self.fresh.push(job),
                None => {}
            }
        }
        samples
    }
}
