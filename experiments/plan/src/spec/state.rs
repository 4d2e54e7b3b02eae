//! What a spec says of the jobs of a cluster at one instant, beside its document.

use sandtable_core::units::Span;
use sandtable_inputs::trace::TraceFormat;
use schemars::JsonSchema;
use serde::Deserialize;

/// How long the jobs of a cluster really take, of which it knows nothing. What is drawn is drawn anew for every seed, by the name of a
/// job alone: under each policy, and whatever is changed, it takes as long. No draw is above the time limit.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub enum RunTimesSpec {
    /// As their time limits say.
    Limits {
        /// This part of the limit, above 0 and at most 1; 1 by default. A job that has run for longer takes all of it.
        #[serde(default)]
        part: Option<f64>,
        /// The limit of jobs that have none; without it such jobs are an error.
        #[serde(default)]
        otherwise: Option<Span>,
    },
    /// Drawn log-normally around a part of the limit, above what a job has run.
    Noisy {
        /// The median is this part of the limit, above 0 and at most 1; 1 by default.
        #[serde(default)]
        part: Option<f64>,
        /// The standard deviation of the logarithm, above 0 and at most 5.
        sigma: f64,
        /// The limit of jobs that have none; without it such jobs are an error.
        #[serde(default)]
        otherwise: Option<Span>,
    },
    /// Drawn from the run times of jobs that have ended and took longer than the job has run: of those of its user and name, or of its
    /// user and number of GPUs, or of its account, or of all; of the first of these that are enough.
    History {
        /// A trace; relative to the spec. Of one with dates only jobs count that ended before the cluster's instant.
        file: String,
        /// Its format; the native one by default.
        #[serde(default)]
        format: TraceFormat,
        /// So many are enough; 5 by default, at least 1.
        #[serde(default)]
        least: Option<u32>,
        /// The limit of jobs that have none; without it they have none.
        #[serde(default)]
        otherwise: Option<Span>,
    },
    /// As long as a trace says by the names of jobs; those that it has not take their limit.
    Known {
        /// The trace; relative to the spec.
        file: String,
        /// Its format; the native one by default.
        #[serde(default)]
        format: TraceFormat,
        /// The limit of jobs that have none; without it they have none.
        #[serde(default)]
        otherwise: Option<Span>,
    },
}

impl Default for RunTimesSpec {
    fn default() -> RunTimesSpec {
        RunTimesSpec::Limits { part: None, otherwise: None }
    }
}

impl RunTimesSpec {
    /// The trace that it rests on.
    pub fn file(&self) -> Option<&String> {
        match self {
            RunTimesSpec::Limits { .. } | RunTimesSpec::Noisy { .. } => None,
            RunTimesSpec::History { file, .. } | RunTimesSpec::Known { file, .. } => Some(file),
        }
    }
}
