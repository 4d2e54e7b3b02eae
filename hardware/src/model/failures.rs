//! Nodes that fail and are repaired, each with a stream of its own: what happens to one never moves another.

use super::{Due, Phase, SimulatedBackend};
use crate::random::Stream;
use crate::{BackendEvent, Cause, Duration, GpuId, Instant, JobId, NodeId, SECOND, TimedEvent};

pub(super) struct NodeClock {
    stream: Stream,
}

impl SimulatedBackend {
    pub(super) fn begin_failures(&mut self, seed: u64) {
        let Some(failures) = self.fleet.failures else { return };
        for node in 0..self.fleet.nodes.len() {
            let mut clock = NodeClock { stream: Stream::new(seed, &format!("failures/{node}")) };
            let at = clock.draw(failures.mtbf);
            self.nodes.push(clock);
            self.schedule(Instant::at(at), Due::NodeDown(NodeId::at(node)), 0);
        }
    }

    pub(super) fn fail(&mut self, node: NodeId, happened: &mut Vec<TimedEvent>) {
        happened.push(TimedEvent { at: self.now, what: BackendEvent::NodeDown(node) });
        let place = &self.fleet.nodes[node];
        // What was being saved there is gone: no start waits for it.
        self.drained[place.gpu_indices()].fill(self.now);
        // Nor does it hold a model any more.
        let gpus: Vec<GpuId> = place.gpu_ids().collect();
        self.unload(&gpus);
        for job in self.jobs_on(node) {
            let lost = self.roll_back(job);
            self.let_go(job, Cause::NodeLost, lost, happened);
        }
        if let Some(failures) = self.fleet.failures {
            let back = self.now + self.nodes[node].draw(failures.repair);
            self.schedule(back, Due::NodeUp(node), 0);
        }
    }

    pub(super) fn repair(&mut self, node: NodeId, happened: &mut Vec<TimedEvent>) {
        happened.push(TimedEvent { at: self.now, what: BackendEvent::NodeUp(node) });
        if let Some(failures) = self.fleet.failures {
            let at = self.now + self.nodes[node].draw(failures.mtbf);
            self.schedule(at, Due::NodeDown(node), 0);
        }
    }

    /// Jobs that hold a GPU of the node, by id. Failures are rare: a scan will do.
    fn jobs_on(&self, node: NodeId) -> Vec<JobId> {
        let place = &self.fleet.nodes[node];
        let gpus = place.gpu_indices();
        let holds = |phase| matches!(phase, Phase::Starting | Phase::Running | Phase::Stopping);
        let there = self
            .states
            .live()
            .filter(|(_, state)| holds(state.phase) && state.gpus.iter().any(|gpu| gpus.contains(&gpu.index())));
        there.map(|(id, _)| id).collect()
    }
}

impl NodeClock {
    /// At least a second, so that time always goes on.
    fn draw(&mut self, mean: Duration) -> Duration {
        Duration::from_micros_f64(self.stream.exponential(mean.as_micros_f64())).max(SECOND)
    }
}
