//! What a spec means: every cell with its inputs, and the identity that is the hash of them.
//!
//! # Architecture
//! - [`spec`]: what a file says, spans kept; [`Expansion`]: expanded to cells; the root of this crate: what these are.
//! - [`artifact`]: finding policies and predictors; [`recording`]: recorded runs; [`gpus`]: the devices of this machine.
//! - [`build_info`]: which build this is; [`fingerprint`]: the digest of the sources that can move a result.
//!
//! # Format
//! A cell's id is the blake3 of its `cell.json`: canonical JSON (sorted keys, no white space, shortest decimals) of all
//! that can move its result. Titles, labels and file names are not in it; bytes of files are, by their blake3.

pub mod artifact;
mod axes;
mod backend;
mod bind;
pub mod build_info;
mod claims;
mod expansion;
pub mod files;
pub mod fingerprint;
mod fleet;
pub mod gpus;
mod nodes;
mod parts;
mod performance;
mod preset;
mod queues;
pub mod recording;
mod resolve;
mod serving;
pub mod spec;
mod starts;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_hardware::{Duration, Elastic, Fleet, Job, PerformanceModel, SECOND};
use sandtable_inputs::trace::ReadLimits;
use sandtable_runtime::Window;
use sandtable_runtime::inputs::Reveal;
use sandtable_runtime::limits::Limits;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::artifact::PolicyFile;
use crate::spec::{Judge, Source, Ties};
pub use backend::{CellBackend, LiveDevices};
pub use bind::{Bindings, MAX_WEIGHTS, PredictorArtifact, PredictorBinding, Weights};
pub use claims::Claim;
pub use expansion::Expansion;
pub use starts::Starts;
pub use workload::{StateJobs, Workload};

/// The schema of the files that the store keeps of a cell (`schema.rs` of sandtable-results) and of their identity. Raise it when one
/// of them changes its form: it is part of every id.
pub const SCHEMA: u32 = 3;

/// One result to be had: a policy on a workload on a fleet under a seed.
#[derive(Clone)]
pub struct Cell {
    /// blake3 of its inputs, in hex.
    pub id: String,
    /// The seed.
    pub seed: u64,
    of: Arc<Seedless>,
}

/// What the cells of a policy on a variant share: all but the seed. There may be a million of those.
pub struct Seedless {
    /// What results call the policy.
    pub label: String,
    /// The values of the sweep, by path.
    pub variant: Vec<(String, String)>,
    /// What the cells of a variant share.
    pub setting: Arc<Setting>,
    /// The component.
    pub policy: Arc<PolicyFile>,
    /// The fleet, with what the preset does to it under this policy.
    pub fleet: Arc<Fleet>,
    /// The policy's configuration: canonical JSON.
    pub config: String,
    /// The policy's weights.
    pub weights: Weights,
    /// When jobs really started, where it is told: as its weights.
    pub starts: Option<Starts>,
    /// What answers for predicted quantities.
    pub predictors: Bindings,
    /// What drives its jobs.
    pub backend: Arc<dyn CellBackend>,
    /// `cell.json` before the seed, and after it.
    inputs: [String; 2],
}

impl std::ops::Deref for Cell {
    type Target = Seedless;

    fn deref(&self) -> &Seedless {
        &self.of
    }
}

/// What the cells of a variant share.
#[non_exhaustive]
pub struct Setting {
    /// The jobs.
    pub workload: Workload,
    /// What they are, and do to each other.
    pub laws: Arc<PerformanceModel>,
    /// Which job comes first among those of one instant.
    pub ties: Ties,
    /// What happens to a forbidden action.
    pub judge: Judge,
    /// What policies are told.
    pub reveal: Reveal,
    /// Workloads that the site has measured.
    pub references: Vec<sandtable_hardware::WorkloadId>,
    /// The part of a run that is measured.
    pub measured: Window,
    /// What a policy may use.
    pub limits: Limits,
    /// The semantics in words, for `plan` and results.
    pub semantics: Vec<String>,
}

impl Cell {
    fn new(of: &Arc<Seedless>, seed: u64) -> Cell {
        let mut cell = Cell { id: String::new(), seed, of: of.clone() };
        cell.id = digest(cell.inputs().as_bytes());
        cell
    }

    /// `cell.json`: all that can move its result.
    pub fn inputs(&self) -> String {
        let [before, after] = &self.of.inputs;
        format!("{before}{}{after}", self.seed)
    }

    /// The fleet whose programs the spec itself names, if it does: they run as the user.
    pub fn runs_commands(&self) -> Option<&LiveDevices> {
        self.backend.live().filter(|devices| !devices.commands.is_empty())
    }

    /// Whether two cells share all but the seed.
    pub fn differs_in_seed_alone(&self, other: &Cell) -> bool {
        Arc::ptr_eq(&self.of, &other.of)
    }

    /// The jobs of this cell, by submission; their index is their id.
    ///
    /// # Errors
    /// A job that names a kind of GPU that the fleet lacks.
    pub fn jobs(&self) -> Result<Arc<[Job]>, Error> {
        // Where a type of GPU is too small for a job, no policy needs to be told: it may not run there.
        let narrow = |job: &mut Job| {
            let fitting = self.setting.laws.fitting(&self.fleet, job);
            let allowed = if job.gpu_types.is_empty() { self.fleet.types.len() } else { job.gpu_types.len() };
            if !fitting.is_empty() && fitting.len() < allowed {
                Arc::make_mut(&mut job.request).gpu_types = fitting;
            }
        };
        let mut jobs = self.setting.workload.jobs(self.seed, self.setting.ties, &self.fleet, narrow)?;
        for job in &mut jobs {
            let (Some(elastic), Some(batch)) = (self.setting.laws.elastic(job), job.batch) else { continue };
            let node = self.fleet.nodes.iter().map(|node| node.gpus).max().unwrap_or(1);
            let placement = Elastic::packed(job.gpus, node);
            // One that is larger than the fleet is refused when it comes.
            if !elastic.counts_steps() && job.gpus <= self.fleet.gpus() && elastic.steps.knows(&placement) {
                let seconds = elastic.seconds_from(&elastic.steps, 0, &placement, elastic.split(batch, job.gpus));
                let micros = (seconds * SECOND.as_micros_f64()).ceil();
                job.work = Duration::from_micros_f64(micros.min((1u64 << 52) as f64));
            }
        }
        Ok(jobs.into())
    }

    /// The weights that the policy gets in a run of these jobs.
    pub fn weights_for(&self, jobs: &[Job]) -> Arc<[u8]> {
        match &self.starts {
            Some(starts) => starts.table(jobs, &self.setting.workload),
            None => self.weights.bytes.clone(),
        }
    }

    /// The id as people see it.
    pub fn short(&self) -> &str {
        &self.id[..10]
    }

    /// The values of the sweep in a line.
    pub fn variant_text(&self) -> String {
        // A value may take several lines of the spec.
        let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let parts: Vec<String> = self.variant.iter().map(|(path, value)| format!("{path}={}", line(value))).collect();
        parts.join(" ")
    }
}

/// A spec, expanded.
#[non_exhaustive]
pub struct Plan {
    /// What it asks.
    pub title: String,
    /// The spec's text, with what was set.
    pub source: Source,
    /// In the order of the spec: by variant, then policy, then seed.
    pub cells: Vec<Cell>,
    /// What is claimed of them.
    pub claims: Vec<Claim>,
    /// Files and folders that the spec names, relative to it.
    pub files: BTreeSet<String>,
    /// Components that it names without a path.
    pub named: BTreeMap<String, Arc<PolicyFile>>,
}

/// How a spec is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Values to set, by path; one that the spec sweeps has this value alone.
    pub set: Vec<(String, String)>,
    /// Of the sweep only cells with these values, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<(String, String)>,
    /// Values to try, by path, beside those of the spec.
    pub sweep: Vec<(String, Vec<String>)>,
    /// Whether the spec's cut for its test applies.
    pub test: bool,
    /// Only these policies, by label; empty: all.
    pub only: Vec<String>,
    /// Where shipped policies are looked for first.
    pub policies: Option<PathBuf>,
    /// How much of its files is read.
    #[serde(default)]
    pub reading: ReadLimits,
    /// Most cells; [`MAX_CELLS`] by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cells: Option<usize>,
    /// Cells that a bundle lists: one that makes more is not what was packed, and is not waited for.
    pub listed: Option<usize>,
    /// The spec is a stranger's: files outside of this folder are not read.
    #[serde(skip)]
    pub within: Option<PathBuf>,
    /// The cells will run on another machine: where this one lacks the GPUs of a spec, some are assumed, and the ids of its
    /// cells are not those that they will have there.
    #[serde(skip)]
    pub elsewhere: bool,
    /// The build whose results are meant, where it is not this one: a bundle's.
    #[serde(skip)]
    pub build: Option<String>,
}

/// Most cells of a spec, unless it is asked for more.
pub const MAX_CELLS: usize = 100_000;

const MORE: &str = "`--max-cells N` allows more";

/// Whether a word of the command line names a spec: a file, or `-`, which is standard input.
pub fn is_spec(path: &Path) -> bool {
    path == Path::new("-") || path.is_file() || path == Path::new(QUICKSTART)
}

/// The name of the spec that the binary carries: where no file is called so, it is meant.
pub const QUICKSTART: &str = "quickstart";

/// The text of a spec: of a file, of [`QUICKSTART`], or for `-` of standard input, which is read once.
///
/// # Errors
/// A file that can't be read, or that is no text.
pub fn spec_text(path: &Path) -> Result<String, Error> {
    static STANDARD_INPUT: OnceLock<Result<String, String>> = OnceLock::new();
    if path == Path::new(QUICKSTART) && !path.exists() {
        return Ok(include_str!("../../specs/quickstart.ron").into());
    }
    if path != Path::new("-") {
        return sandtable_core::input::text(path, sandtable_core::input::SPEC);
    }
    let read = || {
        let (mut text, most) = (String::new(), sandtable_core::input::SPEC);
        let found = std::io::stdin().lock().take(most + 1).read_to_string(&mut text);
        found.map_err(|error| format!("standard input: {error}"))?;
        match text.len() as u64 > most {
            true => Err(format!("standard input: expected at most {most} bytes of a spec")),
            false => Ok(text),
        }
    };
    STANDARD_INPUT.get_or_init(read).clone().map_err(Error::usage)
}

/// Reads and expands a spec.
///
/// ```no_run
/// use sandtable_plan::{Options, plan};
///
/// let plan = plan("experiments/specs/quickstart.ron".as_ref(), &Options::default())?;
/// for cell in &plan.cells {
///     println!("{} {} seed {}", cell.short(), cell.label, cell.seed);
/// }
/// # Ok::<(), sandtable_core::Error>(())
/// ```
///
/// # Errors
/// Every mistake of a spec, with its place.
pub fn plan(path: &Path, options: &Options) -> Result<Plan, Error> {
    let mut expansion = Expansion::open(path, options)?;
    let plan = expansion.part(usize::MAX)?;
    Ok(Plan { claims: expansion.claims()?, ..plan })
}

/// Reads and expands a spec that is in memory; files that it names are relative to the folder of `origin`, which need not be there.
///
/// # Errors
/// As [`plan`].
pub fn plan_text(origin: &Path, text: String, options: &Options) -> Result<Plan, Error> {
    let mut expansion = Expansion::of_text(origin, text, options)?;
    let plan = expansion.part(usize::MAX)?;
    Ok(Plan { claims: expansion.claims()?, ..plan })
}

/// A number for a key: whole ones without a fraction, minus zero as zero.
pub fn number(x: f64) -> Value {
    if x == 0.0 { Value::from(0) } else { Value::from(x) }
}
