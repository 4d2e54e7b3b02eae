//! One verb a file: its arguments and what it does.

mod accept;
mod begin;
pub(crate) mod bundle;
pub(crate) mod capture;
pub(crate) mod check;
pub(crate) mod claims;
pub(crate) mod compare;
pub(crate) mod env;
pub(crate) mod explain;
pub(crate) mod generate;
pub(crate) mod hardware;
pub(crate) mod in_script;
pub(crate) mod job;
pub(crate) mod merge;
pub(crate) mod model;
pub(crate) mod new;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod predictor;
pub(crate) mod rank;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod score;
mod select;
pub(crate) mod shadow;
pub(crate) mod show;
pub(crate) mod store;
pub(crate) mod submit;
pub(crate) mod trace;
pub(crate) mod verify;
pub(crate) mod what_if;

use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sandtable_core::error::Error;
use sandtable_core::frame::Frame;
use sandtable_inputs::trace::{Fate, ReadLimits};
use sandtable_plan::artifact::workspace_above;
use sandtable_plan::spec::Source;
use sandtable_plan::{Options, Plan, plan as expand};
use sandtable_results::claim;
use sandtable_results::store::Store;

use crate::engine::plan_file::PlanFile;

/// How specs are read: the same for every command that reads them.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "The spec")]
pub(crate) struct SpecArgs {
    /// Set a value of the spec by its path, such as `fleet.nodes=8`. A path that the spec sweeps gets this value
    /// only.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Select the cells of a sweep with this value, such as `workload.arrivals.load=1.2`.
    #[arg(long, value_name = "PATH=VALUE")]
    at: Vec<String>,
    /// Sweep a path over several values, such as `workload.arrivals.load=0.8,1.2`.
    #[arg(long, value_name = "PATH=A,B")]
    sweep: Vec<String>,
    /// Select policies by label.
    #[arg(long, value_name = "LABEL", value_delimiter = ',')]
    only: Vec<String>,
    /// Apply the smaller settings that the spec declares in `test`.
    #[arg(long)]
    test: bool,
    /// Search this folder for shipped policies first.
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadArgs,
    /// Maximum number of cells of a spec [default: 100000].
    #[arg(long, value_name = "N")]
    max_cells: Option<usize>,
}

/// How much of a file is read.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ReadArgs {
    /// Maximum decompressed size of a trace [default: 1GiB].
    #[arg(long, value_name = "SIZE", value_parser = sandtable_core::units::bytes)]
    max_bytes: Option<usize>,
    /// Maximum number of rows of a trace [default: 2000000].
    #[arg(long, value_name = "N")]
    max_rows: Option<usize>,
}

impl ReadArgs {
    pub(crate) fn limits(&self) -> ReadLimits {
        let usual = ReadLimits::default();
        ReadLimits {
            bytes: self.max_bytes.map_or(usual.bytes, |bytes| bytes as u64),
            rows: self.max_rows.unwrap_or(usual.rows),
        }
    }
}

/// Where results are kept.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "The store")]
pub(crate) struct StoreArgs {
    /// Folder of results [default: `store` next to the workspace's Cargo.toml, else in the current folder].
    #[arg(long = "store", value_name = "DIR")]
    root: Option<PathBuf>,
}

impl SpecArgs {
    /// Where shipped policies are looked for first.
    pub(crate) fn policies(&self) -> Option<PathBuf> {
        self.policies.clone()
    }

    /// How a spec is read.
    pub(crate) fn options(&self) -> Result<Options, Error> {
        if let Some(folder) = self.policies.as_ref().filter(|folder| !folder.is_dir()) {
            let error = Error::usage(format!("--policies {}: expected a folder of policies", folder.display()));
            return Err(error.hint("`--only LABEL,LABEL` selects policies of the spec"));
        }
        let mut sweep = Vec::new();
        for text in &self.sweep {
            let (path, values) = pair(text)?;
            sweep.push((path, split_values(&values)));
        }
        let set = self.set.iter().map(pair).collect::<Result<_, _>>()?;
        let at = self.at.iter().map(pair).collect::<Result<_, _>>()?;
        let (policies, reading) = (self.policies.clone(), self.reading.limits());
        let (test, only, max_cells) = (self.test, self.only.clone(), self.max_cells);
        Ok(Options { set, at, sweep, test, only, policies, reading, max_cells, ..Options::default() })
    }

    /// Whether the cut for the spec's test applies.
    pub(crate) fn is_test(&self) -> bool {
        self.test
    }

    /// Whether specs are read as they are.
    pub(crate) fn is_plain(&self) -> bool {
        let SpecArgs { set, at, sweep, only, test, policies, reading: _, max_cells: _ } = self;
        let lists = [set, at, sweep, only];
        lists.iter().all(|list| list.is_empty()) && !test && policies.is_none()
    }

    pub(crate) fn expand(&self, spec: &Path) -> Result<Plan, Error> {
        expand_noting(spec, &self.options()?)
    }
}

/// Expands a spec and says what was left out of its workload.
pub(crate) fn expand_noting(spec: &Path, options: &Options) -> Result<Plan, Error> {
    let plan = expand(spec, options)?;
    claim::check(&plan.source, &plan.claims)?;
    note_uncut(spec, options, &plan.source)?;
    note_workloads(&plan, &mut Vec::new());
    Ok(plan)
}

/// Says that a spec without a `test` is not cut for one.
pub(crate) fn note_uncut(spec: &Path, options: &Options, source: &Source) -> Result<(), Error> {
    if options.test && source.parse()?.test.is_empty() {
        crate::ui::note(&format!("warning: {}: without a `test` it is not cut: all of it is meant", spec.display()));
    }
    Ok(())
}

/// Says what was left out of the workloads of a plan, and was not said before.
pub(crate) fn note_workloads(plan: &Plan, said: &mut Vec<String>) {
    for trace in plan.cells.iter().filter_map(|cell| cell.setting.workload.of_trace()) {
        // What was asked for needs no word.
        for note in trace.account.notes.iter().filter(|note| note.fate != Fate::NotAsked) {
            let sentence = note.sentence();
            if !said.contains(&sentence) {
                crate::ui::note(&format!("workload: {sentence}"));
                said.push(sentence);
            }
        }
    }
}

/// How a table is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns.
    #[default]
    Table,
    /// One JSON object a line.
    Json,
    /// CSV with a header.
    Csv,
}

impl Format {
    /// A table in this form.
    pub(crate) fn of(self, table: &Frame) -> String {
        match self {
            Format::Table => table.text(),
            Format::Json => table.json_lines(),
            Format::Csv => table.csv(),
        }
    }
}

/// One spec, how it is read, and where its results are.
#[derive(Debug, clap::Args)]
pub(crate) struct SpecInStore {
    /// The spec.
    #[arg(value_name = "SPEC")]
    path: PathBuf,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// A path of a spec and a value.
fn pair(text: &String) -> Result<(String, String), Error> {
    let found = text.split_once('=').map(|(path, value)| (path.to_string(), value.to_string()));
    found.ok_or_else(|| Error::usage(format!("expected PATH=VALUE, found {text:?}")))
}

/// Splits at commas outside of brackets and quotes.
fn split_values(text: &str) -> Vec<String> {
    let (mut parts, mut depth, mut quoted, mut escaped) = (vec![String::new()], 0, false, false);
    for c in text.chars() {
        // What follows a backslash in a text ends nothing.
        let plain = escaped;
        escaped = quoted && c == '\\' && !escaped;
        match c {
            _ if plain => {}
            '"' => quoted = !quoted,
            '[' | '(' | '{' if !quoted => depth += 1,
            ']' | ')' | '}' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts
}

impl StoreArgs {
    /// The store for a spec, or for whatever is here.
    pub(crate) fn open(&self, spec: Option<&Path>) -> Result<Store, Error> {
        Store::open(&self.root(spec))
    }

    /// That store, which has to be there.
    pub(crate) fn there(&self) -> Result<Store, Error> {
        let root = self.root(None);
        match root.is_dir() {
            true => Store::open(&root),
            false => {
                Err(Error::usage(format!("no store at {}", root.display())).hint("`sandtable run SPEC` makes one"))
            }
        }
    }

    /// That store, of which nothing is made where it is not there.
    pub(crate) fn look(&self, spec: Option<&Path>) -> Result<Store, Error> {
        Store::look(&self.root(spec))
    }

    /// The store of a plan file, which has to be this user's, unless another is asked for: a plan file may come from
    /// another user, and results in a store are trusted.
    pub(crate) fn open_for(&self, plan_file: &PlanFile) -> Result<Store, Error> {
        if let Some(root) = &self.root {
            return Store::open(root);
        }
        let root = &plan_file.header.store;
        let there = root.ancestors().find_map(|path| Some((path, path.metadata().ok()?)));
        let me = rustix::process::geteuid().as_raw();
        match there {
            Some((path, found)) if found.uid() != me => {
                let (path, owner) = (path.display(), found.uid());
                let message =
                    format!("the plan's store is {}, and {path} belongs to user {owner}, not {me}", root.display());
                Err(Error::usage(message).hint("name the store if you trust what is in it: --store DIR"))
            }
            _ => Store::open(root),
        }
    }

    fn root(&self, spec: Option<&Path>) -> PathBuf {
        let folder = spec.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
        self.root.clone().unwrap_or_else(|| {
            let above = workspace_above(folder.unwrap_or(Path::new(".")));
            above.map_or_else(|| PathBuf::from("store"), |root| root.join("store"))
        })
    }
}

/// Threads to use: as asked, else as many as there are cores.
pub(crate) fn threads(asked: Option<NonZeroUsize>) -> usize {
    asked.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
}
