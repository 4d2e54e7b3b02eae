//! A run that begins in the middle: the jobs that were submitted before are there, and those that run go on.

use super::Run;
use crate::inputs::Happens;
use crate::ledger::AccountingError;

impl Run {
    /// Takes up what was there when the run began.
    ///
    /// # Errors
    /// A GPU that two jobs hold: a defect of the beginning, which is to be checked before.
    pub(super) fn take_up(&mut self) -> Result<(), AccountingError> {
        let beginning = self.inputs.beginning.clone();
        if beginning.is_plain() {
            return Ok(());
        }
        self.world().cluster.now = beginning.at;
        self.submit(beginning.at);
        for (job, standing) in &beginning.jobs {
            self.ledger.stood(*job, standing);
        }
        let holders = beginning.holders();
        for (job, standing) in &holders {
            let world = self.world();
            match standing.node {
                Some(node) => world.cluster.put(*job, node),
                None => world.cluster.give(world.backend.fleet(), *job, standing.gpus.clone(), None),
            };
            self.ledger.given_before(*job, standing)?;
            self.dependents.happened(*job, Happens::Started, standing.first_start, &self.inputs.jobs);
        }
        // What the backend tells at once: that they run, and how fast.
        if !holders.is_empty() {
            self.advance(Some(beginning.at))?;
        }
        Ok(())
    }

    /// Tells the policy all of it: its first call is a resync then.
    pub(super) fn tell_of_beginning(&mut self) {
        if !self.inputs.beginning.is_plain() {
            self.tell_everything(self.inputs.beginning.at);
        }
    }
}
