//! The jobs of a cluster at one instant: what of them runs, and where.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_hardware::{Beginning, Duration, Fleet, GpuId, Instant, Job, JobId, Queue, Sharing, Standing};
use sandtable_inputs::state::{
    Calibration, Change, Dependent, History, Interval, Modelled, QUEUES, QUOTA, RunTimeModel, RunTimes, State, Until,
};
use sandtable_inputs::trace::{self, Packed, ReadLimits, Row, Trace};
use sandtable_runtime::inputs::{After, Condition, Happens};
use serde_json::{Value, json};

use super::{From, Keyed, Workload};
use crate::number;
use crate::spec::{RunTimesSpec, Source, TraceFormat};

/// The jobs of a cluster at an instant.
pub struct StateJobs {
    /// What a model goes on from.
    pub modelled: Modelled,
    /// How long they take, where the seed draws it or a file says it.
    pub times: Option<RunTimeModel>,
    /// The instant of the document, counted from 1970.
    pub taken: Duration,
    /// When a run from it ends, whatever has not ended by then.
    pub until: Option<Instant>,
    /// The queues that GPUs are shared out among; empty: those of the experiment.
    pub queues: Vec<Queue>,
}

impl StateJobs {
    /// A job with its run time under a seed.
    pub(super) fn timed(&self, mut row: Row, seed: u64) -> Row {
        row.duration = self.run_time(&row, seed);
        row
    }

    /// How long a job takes in all under a seed.
    pub fn run_time(&self, row: &Row, seed: u64) -> Duration {
        match (&self.times, self.modelled.known.get(row.name.as_str())) {
            (Some(times), Some(known)) => times.run_time(row, known, seed),
            _ => row.duration,
        }
    }

    /// For how long a run from it goes on, where it ends whatever has not ended by then.
    pub fn length(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_since(self.modelled.at))
    }

    /// Whether jobs without GPUs wait.
    pub(super) fn has_cpu_jobs(&self) -> bool {
        let running = self.modelled.running();
        self.modelled.rows.iter().any(|row| row.gpus == 0 && !running.contains(row.name.as_str()))
    }

    /// What happened until a later document, where the run ends with that.
    pub fn interval(&self) -> Option<&Interval> {
        match &self.times {
            Some(RunTimeModel::Interval(interval)) => Some(interval),
            _ => None,
        }
    }

    /// How good the history is from which run times are drawn.
    pub fn calibration(&self) -> Option<Calibration> {
        match &self.times {
            Some(RunTimeModel::History(history)) => history.calibration,
            _ => None,
        }
    }

    /// How long jobs are taken to run, in words; none: as their limits say.
    pub fn times_in_words(&self) -> Option<String> {
        let jobs = self.modelled.rows.iter();
        let jobs = jobs.filter_map(|row| Some((row, self.modelled.known.get(row.name.as_str())?)));
        Some(match self.times.as_ref()? {
            RunTimeModel::Noisy { part, sigma } => format!("log-normal around {part} of the limit, sigma {sigma}"),
            RunTimeModel::History(history) => history.in_words(jobs),
            RunTimeModel::Interval(_) => "as a later document shows".into(),
            RunTimeModel::Known(times) => {
                let known = jobs.filter(|(row, of)| times.contains_key(of.id(row))).count();
                format!("known of {known} jobs of {}, as their limits say of the others", self.modelled.rows.len())
            }
        })
    }
}

/// What a spec says of a state.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) file: &'a str,
    pub(super) run_times: &'a RunTimesSpec,
    pub(super) changes: &'a [Change],
    /// Whether its queues share GPUs out.
    pub(super) queues: bool,
    /// Whether jobs hold CPU and memory.
    pub(super) hosts: bool,
    /// Whether jobs without GPUs that wait are in it too.
    pub(super) cpu_jobs: bool,
    pub(super) until: Option<Duration>,
    /// The later document.
    pub(super) next: Option<&'a str>,
}

impl Asked<'_> {
    /// What is asked for of what a document says.
    fn of(&self, modelled: Modelled) -> Modelled {
        let mut modelled = if self.hosts { modelled } else { modelled.without_hosts() };
        if self.queues {
            [QUEUES, QUOTA].iter().for_each(|what| _ = modelled.not_modelled.remove(*what));
        }
        modelled
    }

    /// Its part of the identity, beside the document, how long jobs take and a later document.
    fn key(&self, length: Option<Duration>, key: &mut Value) {
        if let Some(length) = length {
            key["until"] = json!(length);
        }
        if self.hosts {
            key["hosts"] = json!(true);
        }
        if self.hosts && self.cpu_jobs {
            key["cpu_jobs"] = json!(true);
        }
        if !self.changes.is_empty() {
            key["changes"] = json!(digest(format!("{:?}", self.changes).as_bytes()));
        }
    }

    /// What a later document says is not said otherwise.
    fn only_next(&self, source: &Source) -> Result<(), Error> {
        if self.until.is_some() {
            let why = "with `next` a run ends at the instant of that document";
            return Err(source.error("workload.until", why, "this is said twice"));
        }
        if !self.changes.is_empty() {
            let why = "with `next` the cluster is as it was";
            return Err(source.error("workload.changes", why, "these changes"));
        }
        if !matches!(self.run_times, RunTimesSpec::Limits { part: None, .. }) {
            let why = "with `next` jobs take as long as that document shows";
            return Err(source.error("workload.run_times", why, "this is said twice").hint("Limits(otherwise: …)"));
        }
        Ok(())
    }
}

/// Reads the jobs of a state; the second is their part of the identity.
pub(super) fn read(
    source: &Source,
    folder: &Path,
    asked: Asked<'_>,
    limits: ReadLimits,
) -> Result<(Keyed, Option<Arc<StateJobs>>), Error> {
    let path = folder.join(asked.file);
    let here = |error: Error| {
        let shown = source.error("workload.file", &error.message, "this file");
        Error { hint: error.hint, ..shown }
    };
    let bytes = trace::read_bytes(&path, limits.bytes).map_err(here)?;
    let state: State = sandtable_inputs::state::of_bytes(&path, &bytes).map_err(here)?;
    let at = state.since_1970();
    let state = state.changed(asked.changes);
    let mut state =
        state.map_err(|why| source.error("workload.changes", &format!("{}: {why}", path.display()), "here"))?;
    let mut happened = None;
    if let Some(next) = asked.next {
        asked.only_next(source)?;
        let followed = followed(source, state, &folder.join(next), limits)?;
        (state, happened) = (followed.0, Some(followed.1));
    }
    let (mut how, key) = limits_of(source, asked.run_times)?;
    how.without_limits |= happened.is_some();
    let queues = if asked.queues { state.queue_tree() } else { Vec::new() };
    if asked.queues && queues.is_empty() {
        return Err(source.error("workload.queues", "the document has no queue that shares GPUs out", "here"));
    }
    let modelled = state.modelled_with(how, asked.hosts && asked.cpu_jobs);
    let modelled = modelled.map_err(|why| here(Error::usage(format!("{}: {why}", path.display()))))?;
    let mut modelled = asked.of(modelled);
    if modelled.rows.is_empty() && happened.is_none() {
        return Err(here(Error::usage(format!("{}: no job that waits or holds GPUs", path.display()))));
    }
    let length = happened.as_ref().map_or(asked.until, |(_, interval)| Some(interval.length));
    if length.is_some_and(|length| length.is_zero()) {
        return Err(source.error("workload.until", "expected a time above 0", "here"));
    }
    let until = length.map(|length| modelled.at + length);
    let (times, times_key) = match happened {
        Some((digest, interval)) => (Some(RunTimeModel::Interval(interval)), json!({"interval": digest})),
        None => times(source, folder, asked.run_times, (at, limits))?,
    };
    match &times {
        Some(RunTimeModel::Known(of)) => modelled.leave_out_endless(|name| of.contains_key(name)),
        Some(RunTimeModel::History(_)) => modelled.leave_out_endless(|_| false),
        _ => {}
    }
    if let Some(RunTimeModel::Known(of)) = &times {
        let ends = |row: &Row| modelled.known.get(row.name.as_str()).is_some_and(|known| known.ends);
        let silent = |row: &&Row| row.declared.is_none() && !of.contains_key(row.name.as_str()) && !ends(row);
        if let Some(row) = modelled.rows.iter().find(silent) {
            let message = format!("job {:?} has no time limit, and the file does not say how long it takes", row.name);
            return Err(source
                .error("workload.run_times", &message, "here")
                .hint("`otherwise` is the limit of such jobs"));
        }
    }
    let mut key = json!({"state": {"blake3": digest(&bytes), "of_limit": key.0, "otherwise": key.1}});
    if !times_key.is_null() {
        key["state"]["run_times"] = times_key;
    }
    asked.key(length, &mut key["state"]);
    let trace = Trace { rows: modelled.rows.clone(), ..Trace::default() };
    let (taken, from) = (at, From::Fixed(Arc::new(Packed::of(trace))));
    Ok(((from, key), Some(Arc::new(StateJobs { modelled, times, taken, until, queues }))))
}

/// A state until a later document of its cluster, the digest of that, and what happened in between.
fn followed(
    source: &Source,
    state: State,
    path: &Path,
    limits: ReadLimits,
) -> Result<(State, (String, Interval)), Error> {
    let here = |error: Error| {
        let shown = source.error("workload.next", &error.message, "this file");
        Error { hint: error.hint, ..shown }
    };
    let bytes = trace::read_bytes(path, limits.bytes).map_err(here)?;
    let next = sandtable_inputs::state::of_bytes(path, &bytes).map_err(here)?;
    let until = state.until(&next).map_err(|why| here(Error::usage(format!("{}: {why}", path.display()))))?;
    Ok((until.0, (digest(&bytes), until.1)))
}

/// What is made of limits, and its part of the identity.
fn limits_of(source: &Source, spec: &RunTimesSpec) -> Result<(RunTimes, (Value, Option<Duration>)), Error> {
    let (part, otherwise, without_limits) = match spec {
        RunTimesSpec::Limits { part, otherwise } | RunTimesSpec::Noisy { part, otherwise, .. } => {
            (*part, *otherwise, false)
        }
        RunTimesSpec::History { otherwise, .. } | RunTimesSpec::Known { otherwise, .. } => (None, *otherwise, true),
    };
    let of_limit = part.unwrap_or(1.0);
    if !(of_limit > 0.0 && of_limit <= 1.0) {
        let message = format!("expected a part of the limit above 0 and at most 1, found {of_limit}");
        return Err(source.error("workload.run_times", &message, "here"));
    }
    let otherwise = otherwise.map(|span| span.0);
    Ok((RunTimes { of_limit, otherwise, without_limits }, (number(of_limit), otherwise)))
}

/// How long jobs take where that is drawn or known, and its part of the identity.
fn times(
    source: &Source,
    folder: &Path,
    spec: &RunTimesSpec,
    (at, limits): (Duration, ReadLimits),
) -> Result<(Option<RunTimeModel>, Value), Error> {
    let read = |file: &String, format: TraceFormat, times_only: bool| {
        let path = folder.join(file);
        let found = trace::read_bytes(&path, limits.bytes).and_then(|bytes| {
            let options = trace::Options { limits, times_only, ..trace::Options::default() };
            Ok((digest(&bytes), trace::of_bytes(&path, &bytes, format, &options)?))
        });
        found.map_err(|error| {
            let shown = source.error("workload.run_times.file", &error.message, "this file");
            Error { hint: error.hint, ..shown }
        })
    };
    Ok(match spec {
        RunTimesSpec::Limits { .. } => (None, Value::Null),
        RunTimesSpec::Noisy { part, sigma, .. } => {
            if !(*sigma > 0.0 && *sigma <= 5.0) {
                let message = format!("expected a deviation above 0 and at most 5, found {sigma}");
                return Err(source.error("workload.run_times.sigma", &message, "here"));
            }
            let model = RunTimeModel::Noisy { part: part.unwrap_or(1.0), sigma: *sigma };
            (Some(model), json!({"noisy": number(*sigma)}))
        }
        RunTimesSpec::History { file, format, least, .. } => {
            let (bytes, trace) = read(file, *format, false)?;
            let least = least.unwrap_or(5).max(1) as usize;
            // Of a trace with dates only what was over by then is known.
            let origin = trace.account.origin.or_else(|| trace.imported.as_ref()?.1.origin);
            let until = origin.map(|origin| at.saturating_sub(origin));
            let history = History::of(&trace, least, until);
            if history.is_empty() {
                let message =
                    format!("{}: no job that had ended by the cluster's instant", folder.join(file).display());
                return Err(source.error("workload.run_times.file", &message, "this file"));
            }
            let key = json!({"history": {"blake3": bytes, "format": format, "least": least, "until": until}});
            (Some(RunTimeModel::History(history)), key)
        }
        RunTimesSpec::Known { file, format, .. } => {
            let (bytes, trace) = read(file, *format, true)?;
            let times = trace.rows.iter().map(|row| (row.name.to_string(), row.duration)).collect();
            (Some(RunTimeModel::Known(times)), json!({"known": {"blake3": bytes, "format": format}}))
        }
    })
}

/// Jobs by their names.
fn by_name(jobs: &[Job]) -> BTreeMap<&str, JobId> {
    jobs.iter().enumerate().map(|(at, job)| (job.name.as_str(), JobId::at(at))).collect()
}

impl Workload {
    /// What of a cluster's state is left out or not modelled, in words.
    pub(crate) fn state_in_words(&self) -> Option<String> {
        let jobs = self.state.as_ref()?;
        let state = &jobs.modelled;
        let not: Vec<String> = state.not_modelled.iter().map(|(what, count)| format!("{count} {what}")).collect();
        let times = jobs.times_in_words().map_or_else(String::new, |words| format!("; run times: {words}"));
        let (running, waiting) = state.counts();
        let not = if not.is_empty() { String::new() } else { format!("; not modelled: {}", not.join(", ")) };
        Some(format!("begins with {running} running and {waiting} waiting jobs{times}{not}"))
    }

    /// The queues of a cluster that share its GPUs out, where a spec says that they do.
    pub(crate) fn queues(&self) -> &[Queue] {
        self.state.as_ref().map_or(&[][..], |state| &state.queues)
    }

    /// What jobs wait for.
    pub(crate) fn after(&self, jobs: &[Job]) -> BTreeMap<JobId, After> {
        let Some(state) = self.state.as_ref().map(|jobs| &jobs.modelled) else { return BTreeMap::new() };
        let ids = by_name(jobs);
        let of = |waits: &Dependent| {
            let condition = |until: &Until| {
                let what = if until.starts { Happens::Started } else { Happens::Ended };
                Some(Condition { job: *ids.get(until.job.as_str())?, what, plus: until.plus })
            };
            let all = waits.all.iter().map(condition).collect::<Option<Vec<Condition>>>()?;
            Some((*ids.get(waits.job.as_str())?, After { all, any: waits.any }))
        };
        state.after.iter().filter_map(of).collect()
    }

    /// Where a run of these jobs begins.
    ///
    /// # Errors
    /// A fleet that is not the state's, or one on which a run can't begin in the middle.
    pub(crate) fn beginning(&self, jobs: &[Job], fleet: &Fleet) -> Result<Beginning, Error> {
        let Some(state) = self.state.as_ref().map(|jobs| &jobs.modelled) else { return Ok(Beginning::default()) };
        let same = fleet.nodes.len() == state.nodes.len()
            && fleet
                .nodes
                .iter()
                .zip(&state.nodes)
                .all(|(node, of)| node.gpus == of.gpus && fleet.types[node.gpu_type].name == of.kind);
        if !same {
            let error = Error::usage("the jobs of a state run on its own nodes, and the fleet has others");
            return Err(
                error.hint("fleet: Model(list: NodeList(file: …, format: State), speed: 1.0), of the same file")
            );
        }
        if fleet.types.iter().any(|kind| kind.speed != 1.0) {
            let error = Error::usage(
                "the run times of a state are those on its own GPUs, and the fleet says that they are faster or slower",
            );
            return Err(error.hint("fleet: Model(list: NodeList(file: …, format: State), speed: 1.0)"));
        }
        let counted = matches!(fleet.sharing, Sharing::Exclusive | Sharing::Shares);
        if !counted || fleet.slots > 1 || fleet.costs.leases.is_some() {
            let message = "a run that begins with running jobs needs a fleet of whole GPUs or shares of them, which are not leased for rounds";
            return Err(Error::usage(message));
        }
        let has_part = |row: &&Row| row.share < Job::WHOLE;
        if let Some(row) = state.rows.iter().find(has_part).filter(|_| fleet.sharing == Sharing::Exclusive) {
            let message = format!(
                "job {:?} asks for {} thousandths of a GPU, which the fleet does not give",
                row.name, row.share
            );
            return Err(Error::usage(message).hint("fleet: Model(…, sharing: Shares)"));
        }
        let ids = by_name(jobs);
        let mut beginning = Beginning { at: state.at, jobs: BTreeMap::new() };
        for holder in &state.holders {
            let Some(id) = ids.get(holder.job.as_str()) else { continue };
            let gpu = |(node, gpu): &(usize, u32)| {
                GpuId::new(fleet.nodes[sandtable_hardware::NodeId::at(*node)].first_gpu.number() + gpu)
            };
            let gpus: Vec<GpuId> = holder.on.iter().map(gpu).collect();
            let standing = Standing {
                since: holder.since,
                first_start: holder.since,
                done: holder.done,
                // Of what jobs of a cluster have saved themselves nothing is known.
                saved: Duration::ZERO,
                held: state.at.saturating_since(holder.since),
                productive: holder.done,
                gpu_time: holder.done * gpus.len() as u64,
                preemptions: 0,
                node: holder.node.map(sandtable_hardware::NodeId::at),
                gpus,
            };
            beginning.jobs.insert(*id, standing);
        }
        Ok(beginning)
    }
}
