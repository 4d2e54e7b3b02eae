//! Replaces a policy while jobs run: by another that a user asked for, or after a fault by the fallback. The new policy
//! begins from a resync and knows nothing of the one before.

use sandtable_hardware::{Instant, JobId, NodeId};

use super::{Begun, Run, begin};
use crate::cluster::Phase;
use crate::contract::{Abilities, AttainedTime, Cadence, ChangeCause, JobPhase, Knowledge, NodeHealth, Setup};
use crate::fault::Fault;
use crate::inputs::{Successor, Takeover};

impl Run {
    /// Hands over to the policy that is asked for, if one is; returns its cadence.
    pub(super) fn try_handover(&mut self, setup: &Setup) -> Option<Result<Cadence, Fault>> {
        let now = self.world().cluster.now;
        let successor = self.inputs.succession.as_mut()?.asked(now)?;
        Some(self.install(successor, setup, None))
    }

    /// The present policy failed: the fallback takes over, or its fault is the run's.
    ///
    /// # Errors
    /// The fault, where no policy goes on.
    pub(super) fn fall_back(&mut self, fault: Fault, setup: &Setup) -> Result<Cadence, Fault> {
        // Another policy would not mend it.
        if fault.is_no_guests() {
            return Err(fault);
        }
        let Some(next) = self.inputs.succession.as_mut().and_then(|all| all.fallback(&fault)) else {
            return Err(fault);
        };
        self.install(next, setup, Some(fault))
    }

    fn install(&mut self, next: Successor, setup: &Setup, why: Option<Fault>) -> Result<Cadence, Fault> {
        let Successor { name, mut policy, config, weights } = next;
        let told = if weights.is_empty() { Knowledge::empty() } else { Knowledge::WEIGHTS };
        let knowledge = setup.knowledge & !Knowledge::WEIGHTS | told;
        let setup = Setup { config, weights: weights.to_vec(), knowledge, ..setup.clone() };
        match begin(&mut *policy, &setup, self.follow) {
            Ok(Begun { uses, needs, cadence }) => {
                let at = self.world().cluster.now;
                self.takeovers.push(Takeover { at, to: name, fault: why, begun: true });
                self.world().serve(uses, needs);
                self.replacement = Some(policy);
                // A capsule is of one policy, and what was recorded is of the one before.
                (self.inputs.record, self.steps) = (None, Vec::new());
                self.tell_everything(at);
                Ok(cadence)
            }
            // One that can't even begin: the one before goes on where it can, else the next in line.
            Err(fault) if why.is_none() => {
                let at = self.world().cluster.now;
                if let Some(succession) = &mut self.inputs.succession {
                    succession.refused(&name, &fault);
                }
                self.takeovers.push(Takeover { at, to: name, fault: Some(fault.clone()), begun: false });
                Err(fault)
            }
            Err(fault) => self.fall_back(fault, &setup),
        }
    }

    /// All that a policy needs to go on from here.
    pub(super) fn tell_everything(&mut self, at: Instant) {
        self.world().cluster.timers.clear();
        self.introduced.restart();
        self.events.clear();
        // Those of the policy before.
        self.world().rejections.clear();
        self.resync = true;
        let up = self.world().cluster.up.clone();
        for node in NodeId::first(up.len()).filter(|node| !up[*node]) {
            self.tell_node(node, at, NodeHealth::Down, None);
        }
        if self.world().uses.contains(Abilities::DRAIN) {
            for (node, until) in self.world().cluster.draining.clone() {
                self.tell_node(node, at, NodeHealth::Draining, Some(until));
            }
        }
        for job in JobId::first(self.next_job) {
            let phase = match self.world().cluster.phase[job] {
                Phase::Future | Phase::Ended => continue,
                Phase::Queued => JobPhase::Queued,
                Phase::Starting => JobPhase::Starting,
                Phase::Running => JobPhase::Running,
                Phase::Stopping => JobPhase::Stopping,
            };
            let arrival = self.arrival(job);
            self.events.push(arrival);
            self.mark_for_report(job);
            self.attained(job);
            if phase != JobPhase::Queued {
                self.tell(job, phase, at, ChangeCause::Asked);
            }
        }
    }

    /// Tells the policy that takes over what a job has had.
    fn attained(&mut self, job: JobId) {
        let (run_time, gpu_time) = self.ledger.attained(job);
        if !gpu_time.is_zero() {
            let (job, run_time, gpu_time) = (job.number(), run_time.as_micros(), gpu_time.as_micros());
            self.introduced.attained(AttainedTime { job, run_time, gpu_time });
        }
    }
}
