//! One cell, from its inputs to its files; and many of them in parallel.

mod files;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use sandtable_core::error::Error;
use sandtable_hardware::live::Clock;
use sandtable_hardware::{Duration, Fleet, Instant, Job, NodeId};
use sandtable_plan::{Cell, Plan, PredictorArtifact, PredictorBinding};
use sandtable_results::schema::{CAPSULE, FailureRecord, Seconds, document};
use sandtable_results::status::Failure;
use sandtable_results::store::{Content, Files, Store, in_memory};
use sandtable_runtime::contract::{PolicyError, Quantity, Sources};
use sandtable_runtime::fault::{Fault, Place};
use sandtable_runtime::inputs::Watch;
use sandtable_runtime::sandbox::{
    Component, PredictorComponent, ProviderSetup, Sandbox, Sandboxed, SandboxedProvider, Settings,
};
use sandtable_runtime::schedule::{Finished, gpu_types};
use sandtable_runtime::{Answerer, JobOutcome, JobRow, Ledger, Predictors, Summary};

use crate::code;
pub use crate::simulate::{Extras, inputs, simulate};
use files::{Tables, documents, of_cell};
pub(crate) use files::{results, summary};

/// What came of a cell.
pub struct Executed {
    /// Its metrics, or the policy's fault.
    pub outcome: Result<Summary, Failure>,
    /// What goes into the store, but tables.
    documents: Files,
    /// What its tables are made of; none where the policy failed.
    tables: Option<(Ledger, Arc<[Job]>, Arc<Fleet>)>,
    /// What the policy wrote to its log.
    pub log: Vec<String>,
    /// Whether it goes into the store: not where a machine's clock or its stack ended the run.
    pub kept: bool,
}

impl Executed {
    /// Puts it into a store, if it is to be kept.
    ///
    /// # Errors
    /// See [`Store::put`].
    pub fn put(&self, store: &Store, cell: &Cell) -> Result<(), Error> {
        if self.kept { store.put(&cell.id, self) } else { Ok(()) }
    }

    /// What goes into the store, in memory and by name.
    ///
    /// # Errors
    /// None that can happen: memory takes what is written.
    pub fn files(&self) -> Result<Files, Error> {
        in_memory(self)
    }

    /// When and where jobs were given GPUs; empty where the policy failed.
    pub fn starts(&self) -> Vec<Start<'_>> {
        let Some((ledger, jobs, fleet)) = &self.tables else { return Vec::new() };
        let all = ledger.rows().zip(jobs.iter()).filter_map(|(row, job)| {
            let nodes = row.last_gpus.iter().map(|gpu| fleet.node_of(*gpu)).collect();
            Some(Start { job: &job.name, at: row.first_start?, nodes, preempted: row.preemptions > 0 })
        });
        all.collect()
    }

    /// The completion time of each job, by its name, none where it did not complete; empty where the policy failed.
    pub fn completions(&self) -> Vec<(&str, Option<Duration>)> {
        let Some((ledger, jobs, _)) = &self.tables else { return Vec::new() };
        let jct = |row: &JobRow| match row.outcome {
            JobOutcome::Completed => row.end.map(|end| end - row.submit),
            _ => None,
        };
        ledger.rows().zip(jobs.iter()).map(|(row, job)| (job.name.as_str(), jct(&row))).collect()
    }

    fn tables(&self) -> Option<Tables<'_>> {
        self.tables.as_ref().map(|(ledger, jobs, fleet)| Tables { ledger, jobs, fleet })
    }
}

/// A job that was given GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Start<'a> {
    /// Its name.
    pub job: &'a str,
    /// When it was first given some.
    pub at: Instant,
    /// The nodes of its last ones.
    pub nodes: BTreeSet<NodeId>,
    /// Whether it was preempted.
    pub preempted: bool,
}

impl Content for Executed {
    fn names(&self) -> Vec<&str> {
        let tables = self.tables().into_iter().flat_map(|tables| tables.files());
        self.documents.names().into_iter().chain(tables).collect()
    }

    fn write(&self, name: &str, to: &mut dyn Write) -> std::io::Result<()> {
        match self.tables() {
            Some(tables) if tables.files().contains(&name) => tables.write(name, to),
            _ => self.documents.write(name, to),
        }
    }
}

/// Components compiled once for all cells, by digest.
pub struct Compiled {
    sandbox: Arc<Sandbox>,
    policies: BTreeMap<String, Result<Component, Fault>>,
    predictors: BTreeMap<String, Result<PredictorComponent, Fault>>,
}

impl Compiled {
    /// Compiles the components of these cells.
    ///
    /// # Errors
    /// Where this machine can't run compiled code. A component that can't be loaded is a fault of its cells.
    pub fn new<'a>(settings: &Settings, cells: impl Iterator<Item = &'a Cell>) -> Result<Compiled, Error> {
        let sandbox = Sandbox::new(settings).map_err(|fault| Error::internal(fault.to_string()))?;
        let sandbox = Arc::new(sandbox);
        let mut compiled =
            Compiled { sandbox: sandbox.clone(), policies: BTreeMap::new(), predictors: BTreeMap::new() };
        for cell in cells {
            let policy = &cell.policy;
            compiled.policies.entry(policy.digest.clone()).or_insert_with(|| sandbox.load(&policy.bytes));
            for (_, bound) in cell.predictors.all() {
                if let PredictorBinding::Component(bundle) = bound {
                    let load = || sandbox.load_predictor(&bundle.file.bytes);
                    compiled.predictors.entry(bundle.file.digest.clone()).or_insert_with(load);
                }
            }
        }
        Ok(compiled)
    }

    /// What compiled them.
    pub fn sandbox(&self) -> Arc<Sandbox> {
        self.sandbox.clone()
    }

    pub(crate) fn get(&self, digest: &str) -> Result<&Component, Fault> {
        match self.policies.get(digest) {
            Some(Ok(component)) => Ok(component),
            Some(Err(fault)) => Err(fault.clone()),
            None => Err(Fault::Host("a component was not compiled".into())),
        }
    }

    /// Returns what answers for a cell's quantities, ready for questions.
    ///
    /// # Errors
    /// A fault of a predictor component.
    pub fn predictors(&self, cell: &Cell) -> Result<Predictors, Fault> {
        let remaining = cell.predictors.of(Quantity::Remaining).remaining(cell.seed);
        let mut predictors = Predictors::new(remaining);
        for (quantity, binding) in cell.predictors.all().filter(|(quantity, _)| *quantity != Quantity::Remaining) {
            let answerer = match binding {
                PredictorBinding::Unbound | PredictorBinding::Declared => Answerer::Unbound,
                PredictorBinding::Oracle => Answerer::Oracle,
                PredictorBinding::Noisy { sigma } => Answerer::Noisy { sigma: *sigma, seed: cell.seed },
                PredictorBinding::Component(artifact) => {
                    let provider = self.provider(cell, artifact, quantity).map_err(|fault| Fault::Predictor {
                        quantity,
                        name: Some(artifact.name.clone()),
                        fault: Box::new(fault),
                    });
                    let (provider, reads) = provider?;
                    Answerer::Provider(Box::new(provider), reads)
                }
            };
            predictors = predictors.with(quantity, answerer);
        }
        Ok(predictors)
    }

    fn provider(
        &self,
        cell: &Cell,
        artifact: &PredictorArtifact,
        quantity: Quantity,
    ) -> Result<(SandboxedProvider, Sources), Fault> {
        let component = match self.predictors.get(&artifact.file.digest) {
            Some(Ok(component)) => component,
            Some(Err(fault)) => return Err(fault.clone()),
            None => return Err(Fault::Host("a predictor was not compiled".into())),
        };
        let mut provider = SandboxedProvider::new(component, cell.setting.limits)?;
        let descriptor = provider.describe()?;
        if !quantity.answers().is_some_and(|flag| descriptor.answers.contains(flag)) {
            let error = PolicyError::Unsupported(format!("it does not answer for {quantity}"));
            return Err(Fault::Refused { place: Place::Describe, error });
        }
        provider.init(&ProviderSetup {
            config: artifact.config.clone(),
            seed: cell.seed,
            gpu_types: gpu_types(&cell.fleet),
            weights: artifact.weights.bytes.to_vec(),
        })?;
        Ok((provider, descriptor.reads))
    }
}

/// Runs one cell.
///
/// # Errors
/// Inputs that can't be used, and defects of ours. A policy's fault is an outcome.
pub fn execute(cell: &Cell, compiled: &Compiled) -> Result<Executed, Error> {
    execute_watched(cell, compiled, &Watched::default())
}

/// How a run is watched.
#[derive(Clone, Default)]
pub struct Watched {
    /// It runs for at most so long: after that it has no result.
    pub most: Option<Duration>,
    /// Is told how many jobs have ended; from 0 on again where a failed run is recorded for its capsule.
    pub ended: Option<Arc<dyn Fn(usize) + Send + Sync>>,
}

impl Watched {
    fn watch(&self, clock: Clock) -> Option<Watch> {
        let Watched { most, ended } = self.clone();
        if most.is_none() && ended.is_none() {
            return None;
        }
        Some(Box::new(move |jobs| {
            if let Some(ended) = &ended {
                ended(jobs);
            }
            most.is_some_and(|most| clock.now().since_start() > most)
        }))
    }
}

/// Runs one cell that is watched.
///
/// # Errors
/// As [`execute`].
pub fn execute_watched(cell: &Cell, compiled: &Compiled, watched: &Watched) -> Result<Executed, Error> {
    let clock = Clock::start();
    let watch = || watched.watch(clock);
    let jobs = cell.jobs()?;
    let component = match compiled.get(&cell.policy.digest) {
        Ok(component) => component,
        Err(fault) => return failed(cell, &fault, None, None),
    };
    let mut policy = match Sandboxed::new(component, cell.setting.limits) {
        Ok(policy) => policy,
        Err(fault) => return failed(cell, &fault, None, None),
    };
    let predictors = match compiled.predictors(cell) {
        Ok(predictors) => predictors,
        Err(fault) => return failed(cell, &fault, None, None),
    };
    let finished =
        simulate(cell, jobs.clone(), &mut policy, predictors, Extras { watch: watch(), ..Extras::default() })?;
    let log = policy.log();
    if let Some(fault) = &finished.fault {
        // A capsule replays a policy, not the predictor that let it down; and no clock.
        if matches!(fault, Fault::Predictor { .. } | Fault::Stopped) {
            let mut executed = failed(cell, fault, None, None)?;
            executed.log = log;
            return Ok(executed);
        }
        // A run is a function of its inputs: the capsule is recorded by running it once more.
        let mut again =
            Sandboxed::new(component, cell.setting.limits).map_err(|fault| Error::internal(fault.to_string()))?;
        let predictors = compiled.predictors(cell).map_err(|fault| Error::internal(fault.to_string()))?;
        let record = Some(component.digest().to_string());
        let recorded =
            simulate(cell, jobs, &mut again, predictors, Extras { record, watch: watch(), ..Extras::default() })?;
        if let Some(fault @ Fault::Stopped) = &recorded.fault {
            return failed(cell, fault, None, None);
        }
        if recorded.fault.as_ref() != Some(fault) {
            return Err(Error::internal(format!("{}: a second run ended otherwise: {fault}", cell.label)));
        }
        let predictors = compiled.predictors(cell).map_err(|fault| Error::internal(fault.to_string()))?;
        let place = crate::simulate::place_in_script(cell, &recorded, component, predictors)?;
        let mut executed = failed(cell, fault, Some(&recorded), place)?;
        executed.log = log;
        return Ok(executed);
    }
    let summary = summary(&finished);
    let documents = documents(cell, &finished, &summary)?;
    let tables = Some((finished.ledger, jobs, cell.fleet.clone()));
    Ok(Executed { outcome: Ok(summary), documents, tables, log, kept: true })
}

/// Why a cell's policy, or a predictor of it, will not begin: a parameter that it does not take, or something that it must be
/// told and is not. None where it begins, and where it fails in another way.
///
/// # Errors
/// Defects of ours.
pub fn refusal(cell: &Cell, compiled: &Compiled) -> Result<Option<Fault>, Error> {
    let refused = |fault: Fault| {
        let cause = if let Fault::Predictor { fault, .. } = &fault { fault } else { &fault };
        let known = |error: &PolicyError| matches!(error, PolicyError::BadConfig(_) | PolicyError::Unsupported(_));
        matches!(cause, Fault::Refused { error, .. } if known(error)).then_some(fault)
    };
    if !cell.backend.is_simulated() {
        return Ok(None);
    }
    let Ok(component) = compiled.get(&cell.policy.digest) else { return Ok(None) };
    let Ok(mut policy) = Sandboxed::new(component, cell.setting.limits) else { return Ok(None) };
    let predictors = match compiled.predictors(cell) {
        Ok(predictors) => predictors,
        Err(fault) => return Ok(refused(fault)),
    };
    // Without jobs it is asked for its name and to begin, and for nothing else.
    Ok(simulate(cell, Arc::new([]), &mut policy, predictors, Extras::default())?.fault.and_then(refused))
}

/// The error that a fault is, where no guest is to blame.
fn no_guests(cell: &Cell, fault: &Fault) -> Option<Error> {
    match fault {
        Fault::Predictor { fault, .. } => no_guests(cell, fault),
        Fault::Host(why) => Some(Error::internal(format!("{}: {why}", cell.label))),
        Fault::Machine(_) => Some(Error::usage(format!("{}: {fault}", cell.label))),
        _ => None,
    }
}

/// A cell without results; `place`: where in a script it failed.
fn failed(cell: &Cell, fault: &Fault, recorded: Option<&Finished>, place: Option<String>) -> Result<Executed, Error> {
    if let Some(error) = no_guests(cell, fault) {
        return Err(error);
    }
    let message = place.map_or_else(|| fault.to_string(), |place| format!("{place}: {fault}"));
    let failure = Failure { kind: fault.kind().to_string(), message, backtrace: fault.backtrace().to_vec() };
    let capsule = recorded.and_then(|finished| finished.capsule.as_ref());
    let last = capsule.and_then(|capsule| capsule.steps.last());
    let story = FailureRecord {
        kind: failure.kind.clone(),
        message: failure.message.clone(),
        backtrace: failure.backtrace.clone(),
        at_s: last.map(|step| Seconds(step.batch.now)),
        batch: last.map(|step| step.batch.seq),
        fault: fault.clone(),
    };
    let mut files = of_cell(cell)?;
    if let Some(capsule) = capsule {
        // Written as it is packed: its text may be twice as large as what was recorded.
        let internal = |error: &dyn std::fmt::Display| Error::internal(error.to_string());
        let mut packed = zstd::Encoder::new(Vec::new(), 3).map_err(|error| internal(&error))?;
        serde_json::to_writer(BufWriter::new(&mut packed), capsule).map_err(|error| internal(&error))?;
        files.push((CAPSULE.into(), packed.finish().map_err(|error| internal(&error))?));
    }
    files.push(document(&story)?);
    let kept = !matches!(fault, Fault::Stopped | Fault::StackOverflow { .. });
    Ok(Executed { outcome: Err(failure), documents: files, tables: None, log: Vec::new(), kept })
}

/// How many cells, or whatever else, run at a time, and what reports them.
pub struct Workers<'a, I = Cell> {
    /// Threads.
    pub threads: usize,
    /// Set when no further one is to begin.
    pub stop: &'a AtomicBool,
    /// Called after each, in no particular order.
    pub done: &'a (dyn Fn(&I) + Sync),
}

/// Runs cells, or whatever else runs guests, in parallel. Each is handed to `each` on its thread; results come back in the order of the
/// items, `None` for those that were not begun.
///
/// # Errors
/// The first error, in the order of the items.
pub fn in_parallel<I: Sync, T: Send>(
    items: &[&I],
    workers: &Workers<'_, I>,
    each: impl Fn(&I) -> Result<T, Error> + Sync,
) -> Result<Vec<Option<T>>, Error> {
    // A guest's stack is the thread's: too small a one aborts the process.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers.threads).stack_size(8 << 20).build();
    let pool = pool.map_err(|error| {
        Error::usage(format!("no {} threads: {error}", workers.threads))
            .hint("fewer: -j N; is their number limited? ulimit -u")
    })?;
    let results: Vec<Result<Option<T>, Error>> = pool.install(|| {
        items
            .par_iter()
            .with_max_len(1)
            .map(|item| {
                if workers.stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                // A full disk takes no other cell either.
                let result = each(item).inspect_err(|error| {
                    workers.stop.fetch_or(error.no_room, Ordering::Relaxed);
                });
                let result = result?;
                (workers.done)(item);
                Ok(Some(result))
            })
            .collect()
    });
    results.into_iter().collect()
}

/// Runs the cells of a plan that the store lacks and puts them in.
///
/// ```
/// use std::sync::atomic::AtomicBool;
///
/// use sandtable_plan::{Options, plan};
/// use sandtable_results::{reader, store::Store};
/// use sandtable_run::execute::{Workers, complete};
///
/// let folder = tempfile::tempdir()?;
/// let spec = folder.path().join("spec.ron");
/// std::fs::write(
///     &spec,
///     "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 4, kind: \"T4\"), \
///      workload: Generate(jobs: 5, arrivals: AtOnce), policies: [Policy(name: \"fifo\")])",
/// )?;
/// let plan = plan(&spec, &Options::default())?;
/// let store = Store::open(&folder.path().join("store"))?;
/// let workers = Workers { threads: 1, stop: &AtomicBool::new(false), done: &|_| {} };
/// assert_eq!(complete(&plan, &store, &workers)?, 1);
/// let summary = reader::summary(&store, &plan.cells[0].id)?.expect("no policy failed");
/// assert_eq!(summary.completed, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// See [`execute`] and [`Store::put`].
pub fn complete(plan: &Plan, store: &Store, workers: &Workers<'_>) -> Result<usize, Error> {
    let missing: Vec<&Cell> = plan.cells.iter().filter(|cell| !store.has(&cell.id)).collect();
    let compiled = Compiled::new(&code::settings_beside(store, code::quiet), missing.iter().copied())?;
    let done = in_parallel(&missing, workers, |cell| execute(cell, &compiled)?.put(store, cell))?;
    Ok(done.into_iter().flatten().count())
}
