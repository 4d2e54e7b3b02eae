//! The rows of a trace as they come, with the account of the others.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sandtable_core::shared::Shared;
use sandtable_hardware::{Duration, Instant, SECOND};
use serde::{Deserialize, Serialize};

use super::account::{Account, Fate};
use super::table::{Clock, Read, Record, TraceError, Unit};
use super::{Asked, QueueOf, Row, Trace};

/// What reading may need beside the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The first so many jobs.
    pub jobs: Option<u32>,
    /// Only rows whose column has this value.
    pub filter: BTreeMap<String, String>,
    /// For [`TraceFormat::Csv`](super::TraceFormat::Csv): columns by what they hold: `submit`, `gpus`, and `duration` or `end` (with `start`,
    /// if it has one), and if there are such `name`, `declared`, `workload`, `deadline`, `priority`, `queue`, `part`, `gpus_per_node`, `cpus`, `host_memory_mib`; `hundredths` in place of `gpus` counts
    /// hundredths of a GPU; `unit` is `s`, `ms`, `min` or `h`. Of what a log recorded: `user`, `recorded_start`, `recorded_end`, `partition`, `outcome`.
    pub columns: BTreeMap<String, String>,
    /// The user's copy of Gavel's throughputs, of Shockwave's or ElasticFlow's rates, or of Pollux's folder `traces`.
    pub throughputs: Option<PathBuf>,
    /// For [`TraceFormat::Openb`](super::TraceFormat::Openb) and [`TraceFormat::Csv`](super::TraceFormat::Csv): also jobs that ask for no GPU, which take CPU and memory of one node.
    pub cpu_jobs: bool,
    /// Only when jobs ran and how long they took is asked, of those that asked for no GPU too: for the formats above and [`TraceFormat::Sacct`](super::TraceFormat::Sacct).
    pub times_only: bool,
    /// What of the log a job's queue is; none: what the trace says of queues.
    pub queue: Option<QueueOf>,
    /// Times do not matter: for [`TraceFormat::Openb`](super::TraceFormat::Openb), which then need not have any.
    pub timeless: bool,
    /// How much is read.
    pub limits: ReadLimits,
}

/// How much of a file is read: what is larger is refused and not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadLimits {
    /// Bytes, decompressed.
    pub bytes: u64,
    /// Records.
    pub rows: usize,
}

impl Default for ReadLimits {
    fn default() -> ReadLimits {
        ReadLimits { bytes: 1 << 30, rows: 2_000_000 }
    }
}

/// Seconds that are a time at all.
pub(super) fn micros(seconds: f64) -> Option<Duration> {
    let micros = seconds * SECOND.as_micros_f64();
    (0.0..9_007_199_254_740_992.0).contains(&micros).then_some(Duration::from_micros_f64(micros))
}

pub(super) const NO_GPU: &str = "asks for no GPU";
pub(super) const NO_TIME: &str = "never ran";

/// Collects rows; dates become seconds since the first.
#[derive(Default)]
pub(super) struct Rows {
    trace: Trace,
    /// How times are written, once one is known.
    clock: Option<Clock>,
    /// What rows ask for, once for all that ask for the same.
    shared: Shared<Asked>,
    /// Whether jobs that ask for no GPU are among them.
    cpu_jobs: bool,
    /// Whether it does not matter what these ask for.
    times_only: bool,
}

/// Seconds since 1970 that no trace lasts: 2001.
const EPOCH: Instant = Instant::at(Duration::from_secs(1_000_000_000));

impl Rows {
    pub(super) fn new() -> Rows {
        Rows::default()
    }

    /// With jobs that ask for no GPU, where those are wanted.
    pub(super) fn of(options: &Options) -> Rows {
        let times_only = options.times_only;
        Rows { cpu_jobs: options.cpu_jobs || times_only, times_only, ..Rows::default() }
    }

    /// Whether jobs that ask for no GPU are wanted.
    pub(super) fn takes_cpu_jobs(&self) -> bool {
        self.cpu_jobs
    }

    pub(super) fn account(&mut self) -> &mut Account {
        &mut self.trace.account
    }

    /// An instant, if it is written as the others are.
    pub(super) fn at(
        &mut self,
        row: &Record<'_>,
        column: &str,
        (at, clock): (Instant, Clock),
    ) -> Result<Instant, TraceError> {
        let others = *self.clock.get_or_insert(clock);
        if others == clock {
            return Ok(at);
        }
        let (found, others, text) = (clock.words(), others.words(), row.text(column)?);
        Err(row.wrong(column, format!("found {found}, {text:?}, where each time before it is {others}")))
    }

    /// From start to end; `None` where it never started or never ended.
    pub(super) fn between(
        &mut self,
        row: &Record<'_>,
        (start, end): (&str, &str),
        unit: Unit,
    ) -> Result<Option<Duration>, TraceError> {
        if absent(row.text(start)?) || absent(row.text(end)?) {
            return Ok(None);
        }
        let (from, to) = (row.instant(start, unit)?, row.instant(end, unit)?);
        let (from, to) = (self.at(row, start, from)?, self.at(row, end, to)?);
        match to >= from {
            true => Ok(Some(to - from)),
            false => Err(row.wrong(end, format!("{} is before {start}, {}", row.text(end)?, row.text(start)?))),
        }
    }

    /// Adds a job, unless it asks for no GPU and those are not wanted.
    pub(super) fn push(
        &mut self,
        row: &Record<'_>,
        name: Option<&str>,
        submit: Instant,
        (gpus, duration): (u32, Duration),
    ) -> Option<&mut Row> {
        let name = name.map_or_else(|| self.trace.rows.len().to_string(), str::to_string);
        self.keep(row.line, Row::new(name, submit, gpus, duration))
    }

    /// Adds the job of a line, unless it asks for no GPU and those are not wanted.
    pub(super) fn keep(&mut self, line: u64, job: Row) -> Option<&mut Row> {
        if job.gpus == 0 && !self.cpu_jobs {
            self.account().note(Fate::LeftOut, NO_GPU, line);
            return None;
        }
        // The last one has been changed by now.
        self.share_last();
        self.trace.rows.push(job);
        self.trace.rows.last_mut()
    }

    /// Lets the last row share what it asks for.
    fn share_last(&mut self) {
        if let Some(row) = self.trace.rows.last_mut() {
            (_, row.asked) = self.shared.of(row.asked.clone());
        }
    }

    pub(super) fn finish(mut self, read: Read) -> Trace {
        self.share_last();
        let before = self.trace.rows.len();
        self.trace.rows.retain(|row| row.gpus > 0 || self.times_only || !row.host.is_unknown());
        let idle = before - self.trace.rows.len();
        if idle > 0 {
            self.trace.account.count(Fate::LeftOut, "asks for no GPU, and for no CPU or memory", 0, idle);
        }
        let submitted = |row: &Row| row.recorded.as_ref().and_then(|recorded| recorded.submitted);
        let first = self.trace.rows.iter().map(|row| submitted(row).unwrap_or(row.submit)).min().unwrap_or_default();
        if self.clock.is_some_and(|clock| clock != Clock::Number) || first >= EPOCH {
            self.trace.account.origin = Some(first.since_start());
            for row in &mut self.trace.rows {
                row.submit = Instant::at(row.submit - first);
                row.deadline = row.deadline.map(|at| Instant::at(at.saturating_since(first)));
                if let Some(recorded) = &mut row.recorded {
                    let times = [&mut recorded.submitted, &mut recorded.start, &mut recorded.end];
                    times.into_iter().flatten().for_each(|at| *at = Instant::at(at.saturating_since(first)));
                }
            }
        }
        self.trace.account.of(read);
        self.trace
    }
}

/// What logs write where there is nothing.
pub(super) fn absent(text: &str) -> bool {
    matches!(text, "" | "Unknown" | "None" | "nan")
}
