//! When the jobs of a cluster really started, from what was known of them later.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::{Duration, SECOND};

use super::Begun;
use super::slurm::hosts;
use crate::trace::{self, TraceFormat};

/// When, in seconds from an instant, and where jobs of a cluster really started, by id: from a document of it that is later than the instant, or from a
/// trace with dates, as Slurm's accounting is. Of a job that was requeued it is the first start that is told. `from` counts from 1970, `path` is what errors
/// call the file.
///
/// # Errors
/// A file that is neither, a document that is not later, a trace without dates.
pub fn recorded_starts(from: Duration, path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, Begun>, Error> {
    let from = from.as_secs_f64();
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
        let later = super::of_bytes(path, bytes)?;
        let after = later.since_1970().as_secs_f64() - from;
        if after <= 0.0 {
            let message =
                format!("{}: expected a document later than the queue's, found one of {}", path.display(), later.at);
            return Err(Error::usage(message));
        }
        let start = |job: &super::jobs::StateJob| Some((job.id.clone(), Begun::on(job.started_s? + after, job)));
        return Ok(later.jobs.iter().filter_map(start).collect());
    }
    let options = trace::Options { times_only: true, ..trace::Options::default() };
    let trace = trace::of_bytes(path, bytes, trace_format(bytes), &options)?;
    let origin = trace.account.origin.or_else(|| trace.imported.as_ref()?.1.origin);
    let Some(origin) = origin else {
        let error = Error::usage(format!("{}: its times have no date", path.display()));
        return Err(error.hint("`sacct --parsable2` prints some, and a trace that was imported keeps them"));
    };
    let start = |row: &trace::Row| {
        let recorded = row.recorded.as_ref()?;
        let at_s = origin.as_secs_f64() + recorded.start?.as_secs_f64() - from;
        // Of a job that was requeued the log has the first start and the last nodes.
        let once = recorded
            .end
            .zip(recorded.start)
            .is_none_or(|(end, start)| end.saturating_since(start) < row.duration + SECOND + SECOND);
        let listed = recorded.nodes.as_ref().filter(|_| once).and_then(|list| hosts(list).ok());
        let nodes: BTreeSet<String> = listed.into_iter().flatten().collect();
        Some((row.name.to_string(), Begun { at_s, nodes, gpus: BTreeMap::new() }))
    };
    Ok(trace.rows.iter().filter_map(start).collect())
}

/// What a file of jobs is: what `sacct --parsable2` prints has bars in its head.
///
/// ```
/// use sandtable_inputs::state::trace_format;
/// use sandtable_inputs::trace::TraceFormat;
///
/// assert_eq!(trace_format(b"JobID|Submit|Start\n"), TraceFormat::Sacct);
/// assert_eq!(trace_format(b"job_id,submit_s\n"), TraceFormat::Native);
/// ```
pub fn trace_format(bytes: &[u8]) -> TraceFormat {
    let head = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if head.contains(&b'|') { TraceFormat::Sacct } else { TraceFormat::Native }
}
