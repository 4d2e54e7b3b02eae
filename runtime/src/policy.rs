//! The trait of a policy, sandboxed or native.

use crate::DecisionContext;
use crate::answers::ImportAnswers;
use crate::contract::{Batch, Descriptor, JobId, Plan, Readiness, Reason, Setup};
use crate::fault::Fault;

/// A policy, sandboxed or compiled in.
pub trait Policy {
    /// What it says about itself.
    ///
    /// # Errors
    /// Any fault ends the policy.
    fn describe(&mut self) -> Result<Descriptor, Fault>;

    /// Called once, first.
    ///
    /// # Errors
    /// [`Fault::Refused`] where the policy does not accept its configuration; any fault ends the policy.
    fn init(&mut self, setup: &Setup) -> Result<Readiness, Fault>;

    /// Answers one batch. The world is lent: it comes back whatever happens, and nothing in it moves meanwhile.
    ///
    /// # Errors
    /// Any fault ends the policy.
    fn decide(&mut self, batch: &Batch, world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Plan, Fault>);

    /// Why jobs wait, as it sees it after its latest decision; none: it does not say. Asked for people, on a run that does not go on.
    ///
    /// # Errors
    /// Any fault ends the policy.
    fn explain(
        &mut self,
        jobs: &[JobId],
        world: Box<DecisionContext>,
    ) -> (Box<DecisionContext>, Result<Option<Vec<Reason>>, Fault>) {
        let _ = jobs;
        (world, Ok(None))
    }

    /// Records the answers of the imports during the next call of `decide`: at most `room` bytes.
    fn record(&mut self, room: usize) {
        let _ = room;
    }

    /// The answers recorded during the last call; none: there was no room for them.
    fn recorded(&mut self) -> Option<ImportAnswers> {
        Some(ImportAnswers::new())
    }
}
