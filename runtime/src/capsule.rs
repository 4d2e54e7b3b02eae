//! A policy's last run, from `init` to its fault, in a form that replays without a cluster: what it was told, and
//! what the imports answered.

use std::collections::VecDeque;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Policy;
use crate::contract::{Batch, Event, Setup};
use crate::sandbox::{Component, Fault, Limits, Sandboxed};

/// Answers of the imports during one call, each as JSON.
pub type Taped = Vec<String>;

/// What an instance does with the answers of its imports.
#[derive(Debug)]
pub(crate) enum Tape {
    /// Nothing.
    Off,
    /// Keeps them while there is room.
    Record {
        /// Those of this call.
        answers: Taped,
        /// Bytes that are left.
        room: usize,
    },
    /// There was no room for all.
    Full,
    /// Gives these instead of asking.
    Replay(VecDeque<String>),
}

impl Tape {
    pub(crate) fn next_answer<T: DeserializeOwned>(&mut self) -> Result<Option<T>, String> {
        match self {
            Tape::Off | Tape::Record { .. } | Tape::Full => Ok(None),
            Tape::Replay(answers) => match answers.pop_front() {
                Some(text) => serde_json::from_str(&text).map(Some).map_err(|error| format!("the recording: {error}")),
                None => Err("the replay asks more than the recording answered".into()),
            },
        }
    }

    pub(crate) fn record_answer<T: Serialize>(&mut self, answer: &T) {
        if let Tape::Record { answers, room } = self
            && let Ok(text) = serde_json::to_string(answer)
        {
            match room.checked_sub(weight(&text)) {
                Some(left) => {
                    *room = left;
                    answers.push(text);
                }
                None => *self = Tape::Full,
            }
        }
    }

    /// What was recorded; none: there was no room for it.
    pub(crate) fn recorded(self) -> Option<Taped> {
        match self {
            Tape::Record { answers, .. } => Some(answers),
            Tape::Full => None,
            Tape::Off | Tape::Replay(_) => Some(Vec::new()),
        }
    }
}

/// Bytes that a text takes.
fn weight(text: &str) -> usize {
    size_of::<String>() + text.len()
}

/// One call of `decide`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// What it was told.
    pub batch: Batch,
    /// What the imports answered.
    pub answers: Taped,
}

impl Step {
    /// About how many bytes it takes.
    pub(crate) fn weight(&self) -> usize {
        let Batch { events, workloads, samples, .. } = &self.batch;
        let user = |event: &Event| match event {
            Event::JobArrived(job) => 4 * job.demand.gpu_types.len() + job.user.len(),
            Event::Rejected(rejection) => rejection.message.len(),
            _ => 0,
        };
        let texts: usize =
            events.iter().map(user).sum::<usize>() + self.answers.iter().map(|text| weight(text)).sum::<usize>();
        let profiles: usize = workloads.iter().map(|of| size_of_val(of) + 64 * of.gpu_utilisation.len()).sum();
        size_of::<Step>() + size_of_val(events.as_slice()) + size_of_val(samples.as_slice()) + texts + profiles
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
