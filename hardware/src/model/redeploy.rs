//! Jobs that every decision stops and starts again.

use super::{Phase, SimulatedBackend};
use crate::{Duration, JobId, SECOND};

impl SimulatedBackend {
    /// What jobs have done since the decision before is settled, and they start again where they are now.
    pub(super) fn redeploy(&mut self) {
        if !self.fleet.costs.redeploy {
            return;
        }
        let running: Vec<JobId> =
            self.states.live().filter(|(_, state)| state.phase == Phase::Running).map(|(id, _)| id).collect();
        for id in &running {
            self.settle(*id);
        }
        for id in running {
            let redeploys = self.starts(id);
            let state = &mut self.states[id];
            state.redeploys = redeploys;
            state.generation += 1;
            self.schedule_end(id);
        }
    }

    /// What the workloads on a job's GPUs take to start, one after the other.
    fn starts(&self, id: JobId) -> Duration {
        let mut there = vec![id];
        if !self.there.is_empty() {
            there.extend(self.states[id].gpus.iter().flat_map(|gpu| &self.there[self.fleet.device_of(*gpu)]));
        }
        there.sort_unstable();
        there.dedup();
        there.into_iter().fold(Duration::ZERO, |sum, job| sum.saturating_add(self.start_of(job)))
    }

    /// What a job's workload takes to start.
    pub(super) fn start_of(&self, id: JobId) -> Duration {
        let seconds = self.laws.stages(&self.jobs[id]).map_or(0.0, |stages| stages.start_s);
        Duration::from_micros_f64(libm::rint(seconds * SECOND.as_micros_f64()))
    }
}
