//! When the jobs of a cluster really started, from what was known of them later.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_core::error::Error;

use super::State;
use crate::trace::{self, TraceFormat};

impl State {
    /// When jobs really started, seconds from this document's instant, by id: from a later document of the same cluster, or from a trace with dates, as
    /// Slurm's accounting is. Of a job that was requeued it is the first start.
    ///
    /// # Errors
    /// A file that can't be read, a document that is not later, a trace without dates.
    pub fn recorded_starts(&self, path: &Path, format: TraceFormat, most: u64) -> Result<BTreeMap<String, f64>, Error> {
        let bytes = trace::read_bytes(path, most)?;
        let at = self.since_1970().as_secs_f64();
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
            let later = super::of_bytes(path, &bytes)?;
            let after = later.since_1970().as_secs_f64() - at;
            if after <= 0.0 {
                let message = format!(
                    "{}: expected a later document than that of {}, found {}",
                    path.display(),
                    self.at,
                    later.at
                );
                return Err(Error::usage(message));
            }
            let start = |job: &super::jobs::StateJob| Some((job.id.clone(), job.started_s? + after));
            return Ok(later.jobs.iter().filter_map(start).collect());
        }
        let trace = trace::of_bytes(path, &bytes, format, &trace::Options::default())?;
        let origin = trace.account.origin.or_else(|| trace.imported.as_ref()?.1.origin);
        let Some(origin) = origin else {
            let error = Error::usage(format!("{}: its times have no date", path.display()));
            return Err(error.hint("`sacct --parsable2` prints some, and a trace that was imported keeps them"));
        };
        let start = |row: &trace::Row| {
            let start = row.recorded.as_ref()?.start?;
            Some((row.name.to_string(), origin.as_secs_f64() + start.as_secs_f64() - at))
        };
        Ok(trace.rows.iter().filter_map(start).collect())
    }
}
