//! What a step of a gang takes of CPUs, GPUs and the network; what jobs that take turns at these take is in `sandtable-stages`.

use sandtable_stages::Step;
use serde::{Deserialize, Serialize};

/// What a step of a gang of one size takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stages {
    /// Seconds of a step, alone.
    pub step_s: f64,
    /// Seconds of it on each resource, in turn: CPUs, GPUs, network; or storage, CPUs, GPUs, network.
    pub uses_s: Vec<f64>,
    /// Seconds from a start to the first step.
    #[serde(default)]
    pub start_s: f64,
}

impl Stages {
    /// Checks that the numbers make sense.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), String> {
        let good = |x: f64| x.is_finite() && x >= 0.0;
        if !good(self.step_s) || self.step_s == 0.0 {
            return Err(format!("`step_s` must be above 0, found {}", self.step_s));
        }
        if !matches!(self.uses_s.len(), 3 | 4) {
            return Err(format!("`uses_s` must have 3 or 4 times, found {}", self.uses_s.len()));
        }
        if let Some(found) = self.uses_s.iter().chain([&self.start_s]).find(|x| !good(**x)) {
            return Err(format!("a time must be 0 or more, found {found}"));
        }
        if self.uses_s.iter().all(|x| *x == 0.0) {
            return Err("`uses_s` has no time above 0".into());
        }
        Ok(())
    }

    pub(crate) fn step(&self) -> Step<'_> {
        Step { seconds: self.step_s, uses: &self.uses_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_numbers_are_found() {
        let stages = |uses_s: &[f64]| Stages { step_s: uses_s.iter().sum(), uses_s: uses_s.to_vec(), start_s: 0.0 };
        let wrong = |stages: Stages| stages.check().expect_err("it is wrong");
        assert_eq!(wrong(stages(&[1.0])), "`uses_s` must have 3 or 4 times, found 1");
        assert_eq!(wrong(stages(&[0.0; 3])), "`step_s` must be above 0, found 0");
        assert_eq!(wrong(Stages { start_s: -1.0, ..stages(&[1.0; 3]) }), "a time must be 0 or more, found -1");
    }
}
