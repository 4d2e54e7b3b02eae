//! Replaying a capsule.

use super::component::Component;
use super::instance::Sandboxed;
use crate::Policy as _;
use crate::capsule::Capsule;
use crate::fault::Fault;

impl Capsule {
    /// Runs the component through the recording. `Ok`: it got through without a fault of its own (as where its plan
    /// was what broke the rules).
    ///
    /// # Errors
    /// The fault that it ends with.
    pub fn replay(&self, component: &Component) -> Result<(), Fault> {
        let mut policy = Sandboxed::new(component, self.limits)?;
        policy.describe()?;
        policy.init(&self.setup)?;
        for step in &self.steps {
            policy.replay(&step.batch, step.answers.clone())?;
        }
        Ok(())
    }
}
