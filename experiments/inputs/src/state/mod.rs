//! Clusters at one instant: documents `sandtable/state@1`, what contradicts itself in them, and what a model goes on from.

mod changes;
mod check;
mod cpu_jobs;
mod dependencies;
pub mod document;
mod hosts;
mod interval;
pub mod jobs;
pub mod kube;
mod lean;
mod model;
mod parts;
mod pseudonyms;
mod qualities;
mod queues;
mod ranks;
mod reasons;
mod recorded;
mod run_times;
mod running;
pub mod slurm;

use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::Duration;

pub use changes::Change;
pub use dependencies::{Dependent, Until};
pub use document::State;
pub use interval::{Begun, Interval};
pub use model::{Holder, KnownJob, Modelled, ModelledNode, QUEUES, QUOTA, RunTimes};
pub use pseudonyms::{Named, pseudonymise};
pub use queues::Member;
pub use ranks::TIER_WIDTH;
pub use reasons::{Reasons, Waits};
pub use recorded::{recorded_starts, trace_format};
pub use run_times::{Calibration, History, RunTimeModel};

/// The form that is read.
pub const FORM: &str = "state@1";

/// A document whose form is looked at alone.
#[derive(serde::Deserialize)]
struct Form {
    sandtable: Option<String>,
}

/// Reads a document, compressed or not, and checks it.
///
/// # Errors
/// A file that can't be read, another form, a field that is unknown or of another type, or a contradiction: the file and where in it,
/// what was found and expected.
pub fn read(path: &Path, most: u64) -> Result<State, Error> {
    of_bytes(path, &crate::trace::read_bytes(path, most)?)
}

/// The same of a file that has been read.
///
/// # Errors
/// As [`read`].
pub fn of_bytes(path: &Path, bytes: &[u8]) -> Result<State, Error> {
    let place = path.display();
    // The form is looked at first: another one has other fields.
    let form = serde_json::from_slice::<Form>(bytes);
    let form = form.map_err(|error| Error::usage(format!("{place}: expected a state of a cluster: {error}")))?;
    match form.sandtable.as_deref() {
        Some(FORM) => {}
        Some(other) => {
            return Err(Error::usage(format!("{place}: expected a document {FORM:?}, found {other:?}")));
        }
        None => {
            let error = Error::usage(format!("{place}: no state of a cluster: it has no `sandtable: {FORM:?}`"));
            return Err(error);
        }
    }
    let state: State = serde_json::from_slice(bytes).map_err(|error| Error::usage(format!("{place}: {error}")))?;
    check::check(&state).map_err(|why| Error::usage(format!("{place}: {why}")))?;
    Ok(state)
}

impl State {
    /// Its instant, counted from 1970.
    pub fn since_1970(&self) -> Duration {
        let at = self.at.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_microsecond);
        Duration::from_micros(u64::try_from(at).unwrap_or(0))
    }
}
