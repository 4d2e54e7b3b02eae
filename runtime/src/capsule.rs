//! A policy's last run, from `init` to its fault, in a form that replays without a cluster: what it was told, and
//! what the imports answered.

use serde::{Deserialize, Serialize};

use crate::answers::{ImportAnswers, weight};
use crate::contract::{Batch, Setup};
use crate::fault::Fault;
use crate::limits::Limits;

/// One call of `decide`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// What it was told.
    pub batch: Batch,
    /// What the imports answered.
    pub answers: ImportAnswers,
}

impl Step {
    /// About how many bytes it takes.
    pub(crate) fn weight(&self) -> usize {
        let answers: usize = self.answers.iter().map(|text| weight(text)).sum();
        size_of::<Step>() + size_of_val(self.batch.events.as_slice()) + answers
    }
}

/// The run of a policy up to its fault.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Capsule {
    /// blake3 of the component.
    pub component: String,
    /// What it might use.
    pub limits: Limits,
    /// What `init` was told.
    pub setup: Setup,
    /// Every call, the last being the one that failed; none where `init` failed.
    pub steps: Vec<Step>,
    /// What went wrong.
    pub fault: Fault,
}
