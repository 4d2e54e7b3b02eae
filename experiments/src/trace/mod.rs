//! Jobs from files, from importers and from generators.
//!
//! # Architecture
//! - [`Trace`]: rows by submission, and what was left out and why. Nothing is dropped silently.
//! - [`read`]: a file of any [`TraceFormat`], `.gz` and `.zst` included.
//! - [`generate`]: a workload from a seed.
//! - [`Stats`]: a trace as a paper's table describes it.
//!
//! # Format
//! The native format is CSV with a header. `submit_s`, `gpus` and `duration_s` must be there: decimal seconds from the
//! start of the experiment, GPUs, decimal seconds on a GPU of speed 1. There may be `job_id` (a name; the row's
//! number by default), `declared_s` (what the user said), `gpu_types` (kinds that the job may run on, separated by a
//! vertical bar; empty: any), `preemptible` (`true` or `false`), `share_milli` (thousandths of one GPU; empty: a whole
//! one), `memory_mib` (on each GPU; empty: as the profile says), `workload` (a name of the profile; empty: none),
//! `user` (whose job it is), `batch` (samples of a step of an elastic job, whose duration then is not looked at) and
//! `service` (which service it is a task of).
//! Rows need not be sorted: their order breaks ties.

mod alibaba;
mod demand;
mod formats;
mod generate;
mod pollux;
mod stats;
pub(crate) mod table;

use std::io::Read;
use std::path::Path;

use sandtable_hardware::{Micros, SECOND};

use crate::error::Error;
pub use crate::spec::TraceFormat;
pub use demand::tasks;
pub use formats::Options;
pub use generate::{PHILLY_GPUS, Recipe, Terrain, generate};
pub use stats::Stats;
pub use table::TraceError;

/// One job of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// When it is submitted.
    pub submit: Micros,
    /// Size of its gang.
    pub gpus: u32,
    /// Run time on a GPU of speed 1.
    pub duration: Micros,
    /// What its user said that it would take.
    pub declared: Option<Micros>,
    /// Kinds of GPU that it may run on; empty: any.
    pub kinds: Vec<String>,
    /// Whether it may be preempted.
    pub preemptible: bool,
    /// Thousandths of a GPU; 1000, or less for one GPU.
    pub share: u32,
    /// Device memory on each GPU, MiB; none: as the profile says.
    pub memory_mib: Option<u32>,
    /// Its workload in the profile.
    pub workload: Option<String>,
    /// Whose it is.
    pub user: Option<String>,
    /// Samples of a step: then it is elastic, and its workload says how long it takes.
    pub batch: Option<u32>,
    /// The service that it is a task of.
    pub service: Option<String>,
}

impl Row {
    /// A job that asks for whole GPUs of any kind, may be preempted, and of which nothing else is known.
    pub fn new(name: String, submit: Micros, gpus: u32, duration: Micros) -> Row {
        Row {
            name,
            submit,
            gpus,
            duration,
            declared: None,
            kinds: Vec::new(),
            preemptible: true,
            share: sandtable_hardware::Job::WHOLE,
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
    /// What was left out or changed, and how often.
    pub notes: Vec<(String, usize)>,
}

/// Most jobs of a trace.
pub const MAX_JOBS: usize = 10_000_000;

impl Trace {
    fn note(&mut self, what: &str) {
        match self.notes.iter_mut().find(|(known, _)| known == what) {
            Some((_, count)) => *count += 1,
            None => self.notes.push((what.into(), 1)),
        }
    }

    /// As the native format.
    pub fn to_csv(&self) -> String {
        type Column = (&'static str, fn(&Row) -> Option<String>);
        let optional: [Column; 9] = [
            ("declared_s", |row| row.declared.map(seconds)),
            ("gpu_types", |row| Some(row.kinds.join("|")).filter(|kinds| !kinds.is_empty())),
            ("preemptible", |row| (!row.preemptible).then(|| "false".to_string())),
            ("share_milli", |row| (row.share < sandtable_hardware::Job::WHOLE).then(|| row.share.to_string())),
            ("memory_mib", |row| row.memory_mib.map(|mib| mib.to_string())),
            ("workload", |row| row.workload.as_deref().map(csv_cell)),
            ("user", |row| row.user.as_deref().map(csv_cell)),
            ("batch", |row| row.batch.map(|batch| batch.to_string())),
            ("service", |row| row.service.as_deref().map(csv_cell)),
        ];
        let there: Vec<&Column> =
            optional.iter().filter(|(_, get)| self.rows.iter().any(|row| get(row).is_some())).collect();
        let mut out = String::from("job_id,submit_s,gpus,duration_s");
        there.iter().for_each(|(name, _)| out.push_str(&format!(",{name}")));
        out.push('\n');
        for row in &self.rows {
            let name = csv_cell(&row.name);
            out.push_str(&format!("{name},{},{},{}", seconds(row.submit), row.gpus, seconds(row.duration)));
            for (name, get) in &there {
                let absent = if *name == "preemptible" { "true" } else { "" };
                out.push_str(&format!(",{}", get(row).unwrap_or_else(|| absent.to_string())));
            }
            out.push('\n');
        }
        out
    }
}

/// A text as a cell of a CSV.
pub fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
}

/// Decimal seconds, exactly.
pub fn seconds(micros: Micros) -> String {
    let (whole, part) = (micros / SECOND, micros % SECOND);
    if part == 0 {
        return whole.to_string();
    }
    format!("{whole}.{part:06}").trim_end_matches('0').to_string()
}

/// The bytes of a file, decompressed where its first bytes say so.
///
/// # Errors
/// A file that can't be read or decompressed.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, Error> {
    let raw = std::fs::read(path).map_err(|error| Error::file("read", path, &error))?;
    let mut bytes = Vec::new();
    let unpacked = match raw.get(..4) {
        Some([0x1f, 0x8b, ..]) => flate2::read::MultiGzDecoder::new(raw.as_slice()).read_to_end(&mut bytes),
        Some([0x28, 0xb5, 0x2f, 0xfd]) => {
            zstd::Decoder::new(raw.as_slice()).and_then(|mut decoder| decoder.read_to_end(&mut bytes))
        }
        _ => return Ok(raw),
    };
    unpacked.map_err(|error| Error::file("decompress", path, &error))?;
    Ok(bytes)
}

/// Reads a trace.
///
/// # Errors
/// A file that can't be read, or a row that can't be understood: file, line, column, what was found and expected.
pub fn read(path: &Path, format: TraceFormat, options: &Options) -> Result<Trace, Error> {
    let bytes = read_bytes(path)?;
    let mut trace = formats::parse(path, &bytes, format, options)?;
    trace.rows.sort_by_key(|row| row.submit);
    if trace.rows.len() > MAX_JOBS {
        return Err(Error::usage(format!("{}: {} jobs, at most {MAX_JOBS}", path.display(), trace.rows.len())));
    }
    if let Some(most) = options.jobs {
        trace.rows.truncate(most as usize);
    }
    if trace.rows.is_empty() {
        return Err(Error::usage(format!("{}: no job in it", path.display())));
    }
    Ok(trace)
}

#[cfg(test)]
mod tests;
