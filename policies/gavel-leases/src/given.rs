//! Shares that a solver has computed elsewhere. An objective has many best answers, and their last bits decide between jobs: a published run has those of its solver.

use std::collections::BTreeMap;

use sandtable_policy::{JobId, PolicyError};

/// The shares of each computation, in order.
pub struct Given {
    computations: Vec<BTreeMap<JobId, f64>>,
    next: usize,
}

impl Given {
    /// Reads them from JSON: a list with an object for each computation, of shares from 0 to 1 by the numbers of jobs.
    ///
    /// # Errors
    /// What is not such a list.
    pub fn read(text: &[u8]) -> Result<Given, PolicyError> {
        let wrong = |why: String| PolicyError::BadConfig(format!("weights: {why}"));
        if text.is_empty() {
            return Err(wrong(
                "the objective \"given\" needs the shares of each computation, as in `[{\"0\": 0.5, \"1\": 1.0}]`"
                    .into(),
            ));
        }
        let computations: Vec<BTreeMap<JobId, f64>> =
            serde_json::from_slice(text).map_err(|error| wrong(format!("no list of shares by job: {error}")))?;
        for (at, shares) in computations.iter().enumerate() {
            if let Some((job, share)) = shares.iter().find(|(_, share)| !(0.0..=1.0).contains(*share)) {
                return Err(wrong(format!("computation {at}: job {job}: expected a share from 0 to 1, found {share}")));
            }
        }
        Ok(Given { computations, next: 0 })
    }

    /// Those of the next computation.
    ///
    /// # Errors
    /// There is none, a job has no share in it, or one that is not there has.
    pub fn next(&mut self, jobs: &[JobId]) -> Result<Vec<f64>, PolicyError> {
        let at = self.next;
        self.next += 1;
        let missing =
            |what: String| PolicyError::BadConfig(format!("weights: computation {at}, counted from 0: {what}"));
        let shares = self.computations.get(at).ok_or_else(|| missing("there is none".into()))?;
        if let Some(other) = shares.keys().find(|job| !jobs.contains(job)) {
            return Err(missing(format!("job {other} is not there")));
        }
        let of = |job: &JobId| shares.get(job).copied().ok_or_else(|| missing(format!("job {job} has no share")));
        jobs.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_come_computation_by_computation_and_what_is_missing_is_named() {
        let mut given = Given::read(b"[{\"0\": 1.0}, {\"0\": 0.25, \"2\": 0.75}]").expect("shares");
        assert_eq!(given.next(&[0]).expect("shares"), [1.0]);
        assert_eq!(given.next(&[0, 2]).expect("shares"), [0.25, 0.75]);
        let why = |of: Result<Vec<f64>, PolicyError>| format!("{:?}", of.expect_err("missing"));
        assert!(why(given.next(&[0])).contains("computation 2, counted from 0: there is none"));
        let mut given = Given::read(b"[{\"0\": 1.0, \"7\": 1.0}]").expect("shares");
        assert!(why(given.next(&[0])).contains("job 7 is not there"));
        let mut given = Given::read(b"[{\"0\": 1.0}]").expect("shares");
        assert!(why(given.next(&[0, 1])).contains("computation 0, counted from 0: job 1 has no share"));
        for (text, found) in [
            ("", "needs the shares"),
            ("{}", "no list of shares"),
            ("[{\"0\": 1.5}]", "job 0: expected a share from 0 to 1, found 1.5"),
        ] {
            let refused = Given::read(text.as_bytes()).err().expect("refused");
            assert!(format!("{refused:?}").contains(found), "{refused:?}");
        }
    }
}
