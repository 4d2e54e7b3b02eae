//! Jobs from files, from importers and from generators.
//!
//! # Architecture
//! - [`Trace`]: rows by submission, and an [`Account`] of what was left out or changed, and why; [`Packed`]: the same, kept small.
//! - [`read`]: a file of any [`TraceFormat`], `.gz` and `.zst` included.
//! - [`generate`]: a workload from a seed.
//! - [`Stats`]: a trace as a paper's table describes it.
//!
//! # Format
//! The native format is CSV with a header. `submit_s`, `gpus` and `duration_s` must be there: decimal seconds from the
//! start of the experiment, GPUs (0 of a job that takes `cpus` and `host_memory_mib` of one node alone), decimal seconds on a GPU of speed 1. There may be `job_id` (a name; the row's
//! number by default), `declared_s` (what the user said), `deadline_s` (when the
//! job should have ended, from the start of the experiment), `job_priority` (a whole number, the higher is more important; 0 by
//! default), `queue` (the queue that it was submitted to, one of the experiment's where that has any), `gpu_types` (kinds that the job may run on, separated by a
//! vertical bar; empty: any), `preemptible` (`true` or `false`), `share_milli` (thousandths of one GPU; empty: a whole
//! one), `part` (the part of one GPU that the job asks for, where the experiment's are cut into parts: `1g.10gb`; empty: none), `memory_mib` (on each GPU; empty: as the profile says), `workload` (a name of the profile; empty: none),
//! `user` (the user), `batch` (samples of a step: of an elastic job, whose duration then is not looked at but where its workload says how fast it is and not how long it takes, or of the first steps of one that changes its batch) and
//! `service` (which service it is a task of). What a log recorded of a job's run may be in `submitted_s` (where it was
//! eligible only later), `start_s`, `end_s`, `job_name`, `outcome`, `account`, `partition`, `qos`, `priority` and `nodes`: it moves no
//! schedule, and `trace calibrate` compares with it.
//! Rows need not be sorted: their order breaks ties.

mod account;
mod alibaba;
mod arrivals;
mod demand;
mod elasticflow;
mod fill;
mod formats;
mod generate;
pub(crate) mod muri;
pub(crate) mod native;
mod packed;
mod pollux;
pub(crate) mod rates;
mod resample;
mod rows;
mod sacct;
mod settings;
mod shockwave;
mod stats;
pub(crate) mod table;

use std::io::Read;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;

use compact_str::CompactString;
use sandtable_core::error::Error;
use sandtable_core::frame::csv_cell;
use sandtable_hardware::text::{escape_control_chars, turns};
use sandtable_hardware::{Duration, HostResources, Instant, SECOND};
use serde::{Deserialize, Serialize};

pub use account::{Account, Fate, Imported, date};
pub use demand::tasks;
pub(crate) use elasticflow::workload as elasticflow_workload;
pub use fill::{Fill, LASTS, fill};
pub use generate::{FleetShape, PHILLY_GPUS, Recipe, WHOLE, draw, generate};
pub use packed::Packed;
pub use resample::{Resample, resample};
pub use rows::{Options, ReadLimits};
pub use settings::{Arrivals, Deadlines, DemandBursts, DemandSpec, Durations, Host, Near, QueueOf, TraceFormat};
pub use shockwave::RegimeMode;
pub use stats::Stats;
pub use table::TraceError;

/// One job of a trace. What it asks for is read, and set, as if it were its own: `row.gpus`.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: CompactString,
    /// When it is submitted.
    pub submit: Instant,
    /// Run time on a GPU of speed 1.
    pub duration: Duration,
    /// What its user said that it would take.
    pub declared: Option<Duration>,
    /// When it should have ended.
    pub deadline: Option<Instant>,
    /// What a log says of its run.
    pub recorded: Option<Box<Recorded>>,
    /// What it asks for. Rows of a file that ask for the same share it.
    pub asked: Arc<Asked>,
}

/// What a job of a trace asks for, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    /// Size of its gang.
    pub gpus: u32,
    /// Its GPUs on each of its nodes; 0: split over nodes in any way.
    pub gpus_per_node: u32,
    /// CPU and memory that the whole gang takes of its nodes.
    pub host: HostResources,
    /// How near to each other its nodes are.
    pub near: Option<Box<Near>>,
    /// Higher is more important.
    pub priority: i32,
    /// The queue that it was submitted to.
    pub queue: Option<String>,
    /// Kinds of GPU that it may run on; empty: any.
    pub kinds: Vec<String>,
    /// Whether it may be preempted.
    pub preemptible: bool,
    /// Thousandths of a GPU; 1000, or less for one GPU.
    pub share: u32,
    /// Name of the part of one GPU that it asks for.
    pub part: Option<String>,
    /// Device memory on each GPU, MiB; none: as the profile says.
    pub memory_mib: Option<u32>,
    /// Its workload in the profile.
    pub workload: Option<String>,
    /// Its user.
    pub user: Option<String>,
    /// Samples of a step: then it is elastic, and its workload says how long it takes, or how long its steps do.
    pub batch: Option<u32>,
    /// The service that it is a task of.
    pub service: Option<String>,
}

impl Deref for Row {
    type Target = Asked;

    fn deref(&self) -> &Asked {
        &self.asked
    }
}

impl DerefMut for Row {
    fn deref_mut(&mut self) -> &mut Asked {
        Arc::make_mut(&mut self.asked)
    }
}

/// What a log says of a job's run: it moves no schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// When it was submitted, where it was eligible only later.
    pub submitted: Option<Instant>,
    /// When it first started.
    pub start: Option<Instant>,
    /// When it last ended.
    pub end: Option<Instant>,
    /// What its user called it.
    pub job_name: Option<String>,
    /// How, in the log's own word.
    pub outcome: Option<String>,
    /// Its account.
    pub account: Option<String>,
    /// The part of the cluster that it was submitted to.
    pub partition: Option<String>,
    /// Quality of service.
    pub qos: Option<String>,
    /// Its priority, as a scheduler computed it.
    pub priority: Option<u32>,
    /// Where it ran, as the log lists it.
    pub nodes: Option<String>,
}

impl Row {
    /// A job that asks for whole GPUs of any kind, may be preempted, and of which nothing else is known.
    pub fn new(name: String, submit: Instant, gpus: u32, duration: Duration) -> Row {
        let (declared, deadline, recorded) = (None, None, None);
        let asked = Arc::new(Asked::gpus(gpus));
        Row { name: plain(name).into(), submit, duration, declared, deadline, recorded, asked }
    }
}

impl Asked {
    /// Whole GPUs of any kind, by a job that may be preempted.
    pub fn gpus(gpus: u32) -> Asked {
        Asked {
            gpus,
            gpus_per_node: 0,
            host: HostResources::UNKNOWN,
            near: None,
            priority: 0,
            queue: None,
            kinds: Vec::new(),
            preemptible: true,
            share: sandtable_hardware::Job::WHOLE,
            part: None,
            memory_mib: None,
            workload: None,
            user: None,
            batch: None,
            service: None,
        }
    }
}

/// A workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// By submission; rows of one instant in the order of the file.
    pub rows: Vec<Row>,
    /// What became of the file's rows.
    pub account: Account,
    /// Of a trace that was imported: what became of the rows of the file before.
    pub imported: Option<Box<(std::path::PathBuf, Account)>>,
}

/// Most jobs that are generated.
pub const MAX_JOBS: usize = 10_000_000;

impl Trace {
    /// Calls a kind of GPU otherwise, and says of how many jobs; an empty name lets them run on any.
    pub fn call(&mut self, from: &str, to: &str) -> usize {
        let mut count = 0;
        for row in &mut self.rows {
            if let Some(at) = row.kinds.iter().position(|kind| kind == from) {
                count += 1;
                if to.is_empty() {
                    row.kinds.clear();
                } else {
                    row.kinds[at] = to.to_string();
                }
            }
        }
        let why = match to.is_empty() {
            true => format!("asks for {from}: runs on any kind"),
            false => format!("asks for {from}: called {to}"),
        };
        if count > 0 {
            self.account.count(Fate::Changed, &why, 0, count);
        }
        count
    }

    /// As the native format.
    ///
    /// ```
    /// use sandtable_hardware::{Instant, SECOND};
    /// use sandtable_inputs::trace::{Row, Trace};
    ///
    /// let trace = Trace { rows: vec![Row::new("a".into(), Instant::START, 2, 90 * SECOND)], ..Trace::default() };
    /// assert!(trace.to_csv().starts_with("job_id,submit_s,gpus,duration_s"));
    /// ```
    pub fn to_csv(&self) -> String {
        type Column = (&'static str, fn(&Row) -> Option<String>);
        fn of<T: ToString>(row: &Row, get: impl Fn(&Recorded) -> &Option<T>) -> Option<String> {
            get(row.recorded.as_deref()?).as_ref().map(|value| csv_cell(&value.to_string()).into_owned())
        }
        fn at(row: &Row, get: fn(&Recorded) -> Option<Instant>) -> Option<String> {
            get(row.recorded.as_deref()?).map(|at| seconds(at.since_start()))
        }
        fn level(row: &Row, get: fn(&Near) -> &Option<String>) -> Option<String> {
            get(row.near.as_deref()?).as_ref().map(|name| csv_cell(name).into_owned())
        }
        let optional: [Column; 28] = [
            ("declared_s", |row| row.declared.map(seconds)),
            ("deadline_s", |row| row.deadline.map(|at| seconds(at.since_start()))),
            ("job_priority", |row| (row.priority != 0).then(|| row.priority.to_string())),
            ("queue", |row| Some(csv_cell(row.queue.as_deref()?).into_owned())),
            ("gpus_per_node", |row| (row.gpus_per_node > 0).then(|| row.gpus_per_node.to_string())),
            ("cpus", |row| (row.host.cpu_milli > 0).then(|| cores(row.host.cpu_milli))),
            ("host_memory_mib", |row| (row.host.memory_mib > 0).then(|| row.host.memory_mib.to_string())),
            ("near_required", |row| level(row, |near| &near.required)),
            ("near_preferred", |row| level(row, |near| &near.preferred)),
            ("gpu_types", |row| Some(csv_cell(&row.kinds.join("|")).into_owned()).filter(|kinds| !kinds.is_empty())),
            ("preemptible", |row| (!row.preemptible).then(|| "false".to_string())),
            ("share_milli", |row| (row.share < sandtable_hardware::Job::WHOLE).then(|| row.share.to_string())),
            ("part", |row| Some(csv_cell(row.part.as_deref()?).into_owned())),
            ("memory_mib", |row| row.memory_mib.map(|mib| mib.to_string())),
            ("workload", |row| Some(csv_cell(row.workload.as_deref()?).into_owned())),
            ("user", |row| Some(csv_cell(row.user.as_deref()?).into_owned())),
            ("batch", |row| row.batch.map(|batch| batch.to_string())),
            ("service", |row| Some(csv_cell(row.service.as_deref()?).into_owned())),
            ("submitted_s", |row| at(row, |log| log.submitted)),
            ("start_s", |row| at(row, |log| log.start)),
            ("end_s", |row| at(row, |log| log.end)),
            ("job_name", |row| of(row, |log| &log.job_name)),
            ("outcome", |row| of(row, |log| &log.outcome)),
            ("account", |row| of(row, |log| &log.account)),
            ("partition", |row| of(row, |log| &log.partition)),
            ("qos", |row| of(row, |log| &log.qos)),
            ("priority", |row| of(row, |log| &log.priority)),
            ("nodes", |row| of(row, |log| &log.nodes)),
        ];
        let there: Vec<&Column> =
            optional.iter().filter(|(_, get)| self.rows.iter().any(|row| get(row).is_some())).collect();
        let mut out = String::from("job_id,submit_s,gpus,duration_s");
        there.iter().for_each(|(name, _)| out.push_str(&format!(",{name}")));
        out.push('\n');
        for row in &self.rows {
            let name = csv_cell(&row.name);
            out.push_str(&format!(
                "{name},{},{},{}",
                seconds(row.submit.since_start()),
                row.gpus,
                seconds(row.duration)
            ));
            for (name, get) in &there {
                let absent = if *name == "preemptible" { "true" } else { "" };
                out.push_str(&format!(",{}", get(row).unwrap_or_else(|| absent.to_string())));
            }
            out.push('\n');
        }
        out
    }
}

/// A name as it is kept: what would move a terminal, or begin another line of a table, as its escapes.
pub fn plain(name: String) -> String {
    if name.contains(|c: char| c.is_control() || turns(c)) { escape_control_chars(&name, usize::MAX) } else { name }
}

/// The wait from submission to a recorded start. Logs know seconds: less than one before the submission is no wait, and more is
/// `None`.
///
/// ```
/// use sandtable_hardware::{Instant, SECOND};
/// use sandtable_inputs::trace::recorded_wait;
///
/// let at = |seconds: u64| Instant::at(seconds * SECOND);
/// assert_eq!(recorded_wait(at(10), at(70)), Some(60 * SECOND));
/// assert_eq!(recorded_wait(at(70), at(10)), None);
/// ```
pub fn recorded_wait(submit: Instant, start: Instant) -> Option<Duration> {
    (start + SECOND > submit).then(|| start.saturating_since(submit))
}

/// Thousandths of a core as cores, exactly.
fn cores(milli: u32) -> String {
    seconds(Duration::from_millis(u64::from(milli)))
}

/// Decimal seconds, exactly.
pub fn seconds(span: Duration) -> String {
    let (whole, part) = (span / SECOND, (span % SECOND).as_micros());
    if part == 0 {
        return whole.to_string();
    }
    format!("{whole}.{part:06}").trim_end_matches('0').to_string()
}

/// The bytes of a file, decompressed where its first bytes say so.
///
/// # Errors
/// A file that can't be read or decompressed, or has more bytes than `most`.
pub fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let of_file = |error: std::io::Error| Error::file("read", path, &error);
    let mut file = sandtable_core::input::open(path)?;
    let raw = limited(&mut file, path, most)?.map_err(of_file)?;
    let unpacked = match raw.get(..4) {
        Some([0x1f, 0x8b, ..]) => limited(&mut flate2::read::MultiGzDecoder::new(raw.as_slice()), path, most)?,
        Some([0x28, 0xb5, 0x2f, 0xfd]) => match zstd::Decoder::new(raw.as_slice()) {
            Ok(mut decoder) => limited(&mut decoder, path, most)?,
            Err(error) => Err(error),
        },
        _ => return Ok(raw),
    };
    unpacked.map_err(|error| Error::file("decompress", path, &error))
}

/// All of a stream that has at most so many bytes.
fn limited(from: &mut impl Read, path: &Path, most: u64) -> Result<std::io::Result<Vec<u8>>, Error> {
    let mut bytes = Vec::new();
    if let Err(error) = from.take(most.saturating_add(1)).read_to_end(&mut bytes) {
        return Ok(Err(error));
    }
    if bytes.len() as u64 > most {
        let message = format!("{}: more than {most} bytes, decompressed", path.display());
        return Err(Error::usage(message).hint("`--max-bytes SIZE` reads more"));
    }
    Ok(Ok(bytes))
}

/// Reads a trace.
///
/// # Errors
/// A file that can't be read, or a row that can't be understood: file, line, column, what was found and expected.
pub fn read(path: &Path, format: TraceFormat, options: &Options) -> Result<Trace, Error> {
    of_bytes(path, &read_bytes(path, options.limits.bytes)?, format, options)
}

/// A trace from the bytes of a file.
///
/// ```
/// use sandtable_hardware::Duration;
/// use sandtable_inputs::trace::{Options, TraceFormat, of_bytes};
///
/// let bytes = b"submit_s,gpus,duration_s\n0,1,60\n5,2,1.5\n";
/// let trace = of_bytes("t.csv".as_ref(), bytes, TraceFormat::Native, &Options::default())?;
/// assert_eq!((trace.rows.len(), trace.rows[1].duration), (2, Duration::from_millis(1500)));
/// # Ok::<(), sandtable_core::error::Error>(())
/// ```
///
/// # Errors
/// See [`read`].
pub fn of_bytes(path: &Path, bytes: &[u8], format: TraceFormat, options: &Options) -> Result<Trace, Error> {
    if options.cpu_jobs && !matches!(format, TraceFormat::Openb | TraceFormat::Csv) {
        let error = Error::usage("jobs that ask for no GPU are read from traces of the formats openb and csv");
        return Err(error.hint("a native trace has those that it was imported with"));
    }
    let mut trace = formats::parse(path, bytes, format, options)?;
    trace.rows.sort_by_key(|row| row.submit);
    if let Some(most) = options.jobs.map(|most| most as usize).filter(|most| *most < trace.rows.len()) {
        trace.account.count(Fate::NotAsked, "after the first that `jobs` asks for", 0, trace.rows.len() - most);
        trace.rows.truncate(most);
    }
    trace.account.kept = trace.rows.len();
    if let Some(of) = options.queue {
        enqueue(path, &mut trace.rows, of)?;
    }
    if format == TraceFormat::Native {
        trace.imported = Imported::of(path, bytes).map(|imported| Box::new((imported.file, imported.account)));
    }
    if trace.rows.is_empty() {
        let error = Error::usage(format!("{}: no job in it", path.display()));
        let read = trace.account.line();
        return Err(if trace.account.read > 0 { error.hint(read) } else { error });
    }
    // Where times are not looked at, none is doubtful.
    if !options.timeless {
        doubt(&mut trace);
    }
    Ok(trace)
}

/// Puts each job into the queue that its log names.
fn enqueue(path: &Path, rows: &mut [Row], of: QueueOf) -> Result<(), Error> {
    for row in rows {
        let log = row.recorded.as_deref();
        let (what, name) = match of {
            QueueOf::Account => ("account", log.and_then(|log| log.account.clone())),
            QueueOf::Partition => ("partition", log.and_then(|log| log.partition.clone())),
            QueueOf::Qos => ("QOS", log.and_then(|log| log.qos.clone())),
            QueueOf::User => ("user", row.user.clone()),
        };
        row.queue = Some(name.ok_or_else(|| {
            Error::usage(format!("{}: job {:?}: expected its {what}, found none", path.display(), row.name))
        })?);
    }
    Ok(())
}

/// Times that most jobs of no cluster have: their unit is probably another.
fn doubt(trace: &mut Trace) {
    let timeless = trace.rows.iter().filter(|row| row.batch.is_none() && row.duration == Duration::ZERO).count();
    if timeless > 0 {
        trace.account.count(Fate::Doubtful, "take no time", 0, timeless);
    }
    let start = |row: &Row| row.recorded.as_ref().and_then(|log| log.start);
    let early = |row: &&Row| start(row).is_some_and(|at| recorded_wait(row.submit, at).is_none());
    let early = trace.rows.iter().filter(early).count();
    if early > 0 {
        let why = "start before they are submitted: their waits are not known";
        trace.account.count(Fate::Doubtful, why, 0, early);
    }
    type Of = fn(&Row) -> bool;
    let checks: [(&str, Of); 2] = [
        ("take longer than 30 days: is the unit of times right?", |row| row.duration > 30 * 86_400 * SECOND),
        ("take less than a second: is the unit of times right?", |row| row.batch.is_none() && row.duration < SECOND),
    ];
    for (why, of) in checks {
        let count = trace.rows.iter().filter(|row| of(row)).count();
        if 2 * count > trace.rows.len() {
            trace.account.count(Fate::Doubtful, why, 0, count);
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_sacct;
