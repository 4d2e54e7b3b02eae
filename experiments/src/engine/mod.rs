//! Handing the cells of a sweep to an engine that is already there: it places, retries and limits; we schedule nothing, and the
//! store makes any repetition harmless.
//!
//! # Format
//! `plans/<key>/` of a store is all that was handed over of one spec; the key is of the store and of the ids of the spec's cells.
//! - `<digest>.jsonl`: a plan file (see [`plan_file`]), `<digest>.<shards>.sh`: the script of its shards;
//! - `merge.sh`, `merged.csv`: the script of the merge, and what it wrote;
//! - `jobs/`: a file for each array that an engine took, by engine and number;
//! - `log/`: what shards wrote; `observed/`: where the observation of a cell is whose id only another machine can tell.
//!
//! What is missing is told by the store alone, never by an engine: engines forget.

mod hyperqueue;
pub mod plan_file;
mod slurm;
mod submitted;
pub(crate) mod times;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_core::input;
use sandtable_core::output;
use sandtable_plan::Options;
use serde::{Deserialize, Serialize};

use plan_file::{Line, Needs, PlanFile};

pub use slurm::merge_command;
pub use submitted::Submitted;
pub use times::Times;

/// Engine that places shards on machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Slurm: a job array, and a job that merges when it has ended.
    Slurm,
    /// HyperQueue: an array of tasks. Experimental: the `hq` command itself was never run by our tests.
    Hyperqueue,
}

/// How cells are handed over.
pub struct SubmitOptions<'a> {
    /// The engine.
    pub engine: Engine,
    /// Most shards of an array.
    pub shards: Option<usize>,
    /// Seconds for which the merge looks again before cells count as missing.
    pub settle: u64,
    /// Handed on to the engine's own command.
    pub arguments: &'a [String],
}

/// One array: cells that need the same of a machine.
pub struct ArrayJob {
    /// What each cell needs.
    pub needs: Needs,
    /// Cells.
    pub cells: usize,
    /// Shards.
    pub shards: usize,
    /// Seconds of all cells on one core, where they are known.
    pub seconds: Option<f64>,
    /// Whether they run on devices: then those are the seconds after which they are ended.
    pub observed: bool,
    /// The plan file: where it goes, and its text.
    pub plan: (PathBuf, String),
    /// The script: where it goes, and its text; none where a command says all.
    pub script: Option<(PathBuf, String)>,
    /// What is run to hand it over.
    pub command: Vec<String>,
}

/// All that is handed over at once.
pub struct ArrayJobs {
    /// The arrays.
    pub arrays: Vec<ArrayJob>,
    /// The script of the merge: where it goes, and its text; none where the engine knows no dependencies.
    pub merge: Option<(PathBuf, String)>,
}

/// What an engine took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineJob {
    /// Whose.
    pub engine: Engine,
    /// Its number there.
    pub job: String,
    /// Of several clusters that one.
    pub cluster: Option<String>,
    /// The plan file.
    pub plan: PathBuf,
    /// Shards.
    pub shards: usize,
    /// Cells.
    pub cells: usize,
}

impl Submitted<'_> {
    /// What is to be handed over of these cells: an array for each kind of need.
    ///
    /// # Errors
    /// A spec or a binary that can't be read; paths that an engine can't be told.
    pub fn pack(
        &self,
        spec: &Path,
        options: &Options,
        places: &[usize],
        wish: &SubmitOptions<'_>,
    ) -> Result<ArrayJobs, Error> {
        let mut kinds: BTreeMap<Needs, Vec<Line>> = BTreeMap::new();
        for line in self.lines(places) {
            kinds.entry(line.needs).or_default().push(line);
        }
        let program = input::program()?;
        for path in [&program, &self.folder] {
            // Of a backslash Slurm makes what it likes.
            if path.to_str().is_none_or(|text| text.contains(['\n', '\\'])) {
                let message =
                    format!("{}: engines are told paths as text of one line without backslashes", path.display());
                return Err(Error::usage(message).hint("take a `--store` with a plainer path"));
            }
        }
        if wish.engine == Engine::Slurm {
            slurm::refuse(wish.arguments)?;
        }
        let most = match wish.engine {
            Engine::Slurm => slurm::most(),
            Engine::Hyperqueue => usize::MAX,
        };
        let standard = match wish.engine {
            Engine::Slurm => slurm::SHARDS,
            Engine::Hyperqueue => hyperqueue::SHARDS,
        };
        let mut merge = None;
        let mut arrays = Vec::new();
        for (needs, lines) in kinds {
            let (cells, seconds) = (lines.len(), lines.iter().map(|line| line.seconds).sum());
            let observed = lines.iter().all(|line| !self.plan.cells[line.at].backend.is_reproducible());
            let commands = lines.iter().any(|line| self.plan.cells[line.at].runs_commands().is_some());
            let text = PlanFile::new(self, spec, options, lines)?.text()?;
            let file = self.folder.join(format!("{}.jsonl", &digest(text.as_bytes())[..10]));
            let shards = cells.min(wish.shards.unwrap_or(standard)).min(most).max(1);
            let (store, folder) = (self.store().root(), self.folder.as_path());
            let call = Call { program: &program, store, plan: &file, folder, commands };
            if wish.engine == Engine::Slurm && merge.is_none() {
                let path = self.folder.join("merge.sh");
                merge = Some((path, slurm::merge(&call, &self.name, wish.settle)));
            }
            let (script, command) = match wish.engine {
                Engine::Slurm => {
                    let path = file.with_extension(format!("{shards}.sh"));
                    let text = slurm::script(&call, &self.name, shards, needs);
                    let command = slurm::command(&path, &self.name, wish.arguments);
                    (Some((path, text)), command)
                }
                Engine::Hyperqueue => (None, hyperqueue::command(&call, &self.name, shards, needs, wish.arguments)),
            };
            arrays.push(ArrayJob { needs, cells, shards, seconds, observed, plan: (file, text), script, command });
        }
        Ok(ArrayJobs { arrays, merge })
    }

    /// Hands the arrays over; what the engine took.
    ///
    /// # Errors
    /// A file that can't be written, an engine that is not there or does not take it.
    pub fn submit(&self, parcels: &ArrayJobs, wish: &SubmitOptions<'_>) -> Result<Vec<EngineJob>, Error> {
        for folder in ["jobs", "log"] {
            let path = self.folder.join(folder);
            fs::create_dir_all(&path).map_err(|error| Error::file("make", &path, &error))?;
        }
        // All files first: what is handed over can't be taken back.
        let files = parcels.arrays.iter().flat_map(|parcel| std::iter::once(&parcel.plan).chain(&parcel.script));
        for (path, text) in files.chain(&parcels.merge) {
            output::write(path, text)?;
        }
        let mut jobs = Vec::new();
        for parcel in &parcels.arrays {
            match self.submit_one(parcel, wish.engine) {
                Ok(job) => jobs.push(job),
                Err(error) if jobs.is_empty() => return Err(error),
                Err(error) => {
                    let taken: Vec<&str> = jobs.iter().map(|job| job.job.as_str()).collect();
                    let hint = format!(
                        "job {} was taken and is not merged after: `sandtable cancel` ends it",
                        taken.join(", ")
                    );
                    return Err(error.hint(hint));
                }
            }
        }
        Ok(jobs)
    }

    fn submit_one(&self, parcel: &ArrayJob, engine: Engine) -> Result<EngineJob, Error> {
        let answer = hand(&parcel.command)?;
        let (number, cluster) = match engine {
            Engine::Slurm => slurm::number(&answer)?,
            Engine::Hyperqueue => (hyperqueue::number(&answer)?, None),
        };
        let plan = parcel.plan.0.clone();
        let job = EngineJob { engine, job: number, cluster, plan, shards: parcel.shards, cells: parcel.cells };
        let text = serde_json::to_string(&job).map_err(|error| Error::internal(error.to_string()))?;
        let name = format!("{}-{}.json", text_of(engine), job.job);
        let kept = output::write(&self.folder.join("jobs").join(name), text + "\n");
        kept.map_err(|error| {
            error.hint(format!("job {} was taken all the same: `sandtable cancel` ends it", job.job))
        })?;
        Ok(job)
    }

    /// Hands the merge over, to begin when these have ended; its number.
    ///
    /// # Errors
    /// An engine that does not take it.
    pub fn submit_merge(
        &self,
        merge: &(PathBuf, String),
        jobs: &[EngineJob],
        wish: &SubmitOptions<'_>,
    ) -> Result<String, Error> {
        let (path, _) = merge;
        let after: Vec<&str> = jobs.iter().map(|job| job.job.as_str()).collect();
        let answer = hand(&slurm::merge_command(path, &self.name, &after, wish.arguments))?;
        slurm::number(&answer).map(|(number, _)| number)
    }

    /// The clusters of a federation that have taken something.
    fn clusters(&self) -> Result<Vec<String>, Error> {
        let mut clusters: Vec<String> = self.jobs()?.into_iter().filter_map(|job| job.cluster).collect();
        clusters.sort();
        clusters.dedup();
        Ok(clusters)
    }

    /// Shards that run and shards that wait, as an engine says.
    ///
    /// # Errors
    /// It does not answer.
    pub fn asked(&self, engine: Engine) -> Result<Option<slurm::Live>, Error> {
        match engine {
            Engine::Slurm => slurm::live(&self.name, &self.clusters()?).map(Some),
            Engine::Hyperqueue => Ok(None),
        }
    }

    /// Has an engine end all of it that runs or waits.
    ///
    /// # Errors
    /// It does not answer, or can't be told by us.
    pub fn cancel(&self, engine: Engine) -> Result<(), Error> {
        match engine {
            Engine::Slurm => slurm::cancel(&self.name, &self.clusters()?),
            Engine::Hyperqueue => {
                let error =
                    Error::usage("HyperQueue numbers jobs anew with every server: whose is whose, only you know");
                Err(error.hint("`hq job list`, then `hq job cancel NUMBER`"))
            }
        }
    }
}

/// An engine's name on the command line.
fn text_of(engine: Engine) -> &'static str {
    match engine {
        Engine::Slurm => "slurm",
        Engine::Hyperqueue => "hyperqueue",
    }
}

/// What a shard is called with.
struct Call<'a> {
    program: &'a Path,
    store: &'a Path,
    plan: &'a Path,
    folder: &'a Path,
    /// Whether its cells run programs of the spec, which the user who submits has allowed.
    commands: bool,
}

impl Call<'_> {
    /// The command of a shard, for a shell; `shard` is put in without quotes.
    fn run(&self, shard: &str) -> String {
        let allowed = if self.commands { " --allow-commands" } else { "" };
        format!("{}{allowed} --shard {shard}", self.of("run"))
    }

    /// A command on the plan, for a shell.
    fn of(&self, verb: &str) -> String {
        let (store, plan) = (quoted(&self.store.display().to_string()), quoted(&self.plan.display().to_string()));
        format!("{} {verb} --store {store} --plan {plan}", quoted(&self.program.display().to_string()))
    }
}

/// Reads a text as each of the answers that the commands of engines give. For fuzzing: their values are not kept.
pub fn read_answers(text: &str) {
    let _ = (slurm::number(text), hyperqueue::number(text), slurm::counted(text), slurm::max_array_size(text));
}

/// A word as a shell reads it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Asks an engine, in the language that we read.
fn ask(words: &[&str]) -> Result<String, Error> {
    call(Command::new(words[0]).args(&words[1..]).env("LC_ALL", "C"))
}

/// Hands something to an engine, which hands our environment on.
fn hand(command: &[String]) -> Result<String, Error> {
    call(Command::new(&command[0]).args(&command[1..]))
}

/// Runs an engine's command; what it printed.
fn call(command: &mut Command) -> Result<String, Error> {
    let name = command.get_program().to_string_lossy().to_string();
    let output = command.output().map_err(|error| {
        let error = Error::usage(format!("`{name}` can't be run on this machine: {error}"));
        error.hint("go where the engine is, or run the cells here: `sandtable run SPEC`; `submit --print` shows what would be handed over")
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).to_string());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    Err(Error::usage(format!("{name} ended with {}: {}", output.status.code().unwrap_or(-1), said.join("; "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_a_shell_as_they_are() {
        for word in ["plain/path-1.2", "two words", "it's", "", "$HOME `x` \"y\" \\", "a;b", "ünïcode"] {
            let said =
                Command::new("sh").args(["-c", &format!("printf %s {}", quoted(word))]).output().expect("a shell");
            assert_eq!(String::from_utf8_lossy(&said.stdout), word);
        }
        assert_eq!(quoted("plain/path-1.2"), "plain/path-1.2");
    }
}
