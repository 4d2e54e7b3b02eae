//! One cell on the real devices of this machine. What comes of it is an observation: kept with what it was observed on,
//! never taken for the result of the next run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_core::input;
use sandtable_hardware::live::{Live, Setting};
use sandtable_hardware::replay::Recorder;
use sandtable_hardware::{Duration, Instant, Job, Reading, Telemetry, differences};
use sandtable_inputs::trace::seconds;
use sandtable_plan::artifact::Finder;
use sandtable_plan::{Cell, LiveDevices};
use sandtable_results::producer::Producer;
use sandtable_results::schema::{LOGS, MachineRecord, READINGS, RECORDING, TakeoverRecord, document};
use sandtable_results::status::Failure;
use sandtable_results::store::Files;
use sandtable_runtime::Summary;
use sandtable_runtime::decision_log::DecisionLog;
use sandtable_runtime::fault::Fault;
use sandtable_runtime::inputs::{Succession, Successor, Takeover};
use sandtable_runtime::limits::Limits;
use sandtable_runtime::sandbox::{Component, Sandbox, Sandboxed};
use sandtable_runtime::schedule::{Finished, run};

use crate::code::{self, Say};
use crate::execute::{Compiled, inputs, results, summary};

/// A policy that takes over at an instant.
#[derive(Clone, Debug)]
pub struct Swap {
    /// When.
    pub at: Instant,
    /// A shipped policy, a label of the spec, or a path.
    pub to: String,
}

/// How a live run may be told to change its policy.
#[derive(Clone)]
pub struct Swaps<'a> {
    /// At these instants.
    pub at: Vec<Swap>,
    /// On SIGHUP, to the policy that this file holds then.
    pub file: Option<PathBuf>,
    /// Where shipped policies are looked for first.
    pub policies: Option<PathBuf>,
    /// Cells whose labels may be named, with their configuration.
    pub cells: &'a [Cell],
    /// What reports takeovers.
    pub say: Say,
}

impl Swaps<'_> {
    /// None.
    pub fn none(say: Say) -> Self {
        Swaps { at: Vec::new(), file: None, policies: None, cells: &[], say }
    }
}

/// What was observed.
pub struct Observed {
    /// Its metrics, or the fault of its policy.
    pub outcome: Result<Summary, Failure>,
    /// What is kept.
    pub files: Files,
    /// Completion time of each job that ended, in the order of the jobs.
    pub jobs: Vec<(String, Option<Duration>)>,
    /// The readings of the devices.
    pub readings: Vec<Reading>,
    /// What the policy wrote to its log.
    pub log: Vec<String>,
}

/// The configuration and the weights of a policy.
type Given = (String, Arc<[u8]>);

/// Its defaults, and no weights.
fn defaults() -> Given {
    ("{}".into(), Arc::from([]))
}

/// The policies that take over.
struct Relay {
    pending: Vec<(Instant, String, Component, Given)>,
    file: Option<PathBuf>,
    asked: Arc<AtomicBool>,
    sandbox: Arc<Sandbox>,
    /// `fifo`, without a deadline: no policy goes on after it.
    fallback: Component,
    /// Whether it decides now.
    fallen: bool,
    limits: Limits,
    say: Say,
}

impl Relay {
    fn alive(&self, name: &str, component: &Component, given: Given) -> Option<Successor> {
        self.under(self.limits, name, component, given)
    }

    fn under(&self, limits: Limits, name: &str, component: &Component, given: Given) -> Option<Successor> {
        let (name, (config, weights)) = (name.to_string(), given);
        match Sandboxed::new(component, limits) {
            Ok(policy) => Some(Successor { name, policy: Box::new(policy), config, weights }),
            Err(fault) => {
                (self.say)(&format!("warning: {name} can't take over: {fault}"));
                None
            }
        }
    }
}

impl Succession for Relay {
    fn asked(&mut self, now: Instant) -> Option<Successor> {
        if self.asked.swap(false, Ordering::Relaxed)
            && let Some(path) = self.file.clone()
        {
            let name = path.display().to_string();
            let loaded = sandtable_core::input::read(&path, Limits::COMPONENT as u64).map_err(|error| error.message);
            let loaded = loaded.and_then(|bytes| self.sandbox.load(&bytes).map_err(|fault| fault.to_string()));
            match loaded {
                Ok(component) => {
                    (self.say)(&format!("{} s: {name} takes over", seconds(now.since_start())));
                    self.fallen = false;
                    return self.alive(&name, &component, defaults());
                }
                Err(why) => (self.say)(&format!("warning: {name} can't take over: {why}")),
            }
        }
        let due = self.pending.iter().position(|(at, ..)| *at <= now)?;
        let (_, name, component, given) = self.pending.remove(due);
        (self.say)(&format!("{} s: {name} takes over", seconds(now.since_start())));
        self.fallen = false;
        self.alive(&name, &component, given)
    }

    fn due(&self) -> Option<Instant> {
        self.pending.iter().map(|(at, ..)| *at).min()
    }

    fn fallback(&mut self, fault: &Fault) -> Option<Successor> {
        (self.say)(&format!("WARNING: the policy failed: {fault}"));
        if std::mem::replace(&mut self.fallen, true) {
            return None;
        }
        (self.say)("WARNING: the jobs go on under fifo; the policy's run is lost");
        // The limits of the one that failed are not fifo's.
        self.under(Limits::default(), "fifo", &self.fallback, ("{\"backfill\":\"skip\"}".into(), Arc::from([])))
    }

    fn refused(&mut self, name: &str, fault: &Fault) {
        (self.say)(&format!("warning: {name} {fault}; the policy before it goes on"));
    }
}

/// Runs a cell on this machine.
///
/// # Errors
/// Devices that are not as asked, or not as they were found; jobs for which there is no command.
pub fn observe(
    cell: &Cell,
    devices: &LiveDevices,
    compiled: &Compiled,
    swaps: &Swaps<'_>,
    folder: &Path,
) -> Result<Observed, Error> {
    let jobs = cell.jobs()?;
    let laws = cell.setting.laws.clone();
    let tasks = devices.tasks(&jobs, &laws)?;
    let steps: Vec<u64> = tasks.iter().map(|task| task.steps).collect();
    let internal = |fault: Fault| Error::internal(fault.to_string());
    let component = compiled.get(&cell.policy.digest).map_err(internal)?;
    let asked = Arc::new(AtomicBool::new(false));
    let relay = relay(cell, compiled, swaps, asked.clone())?;
    let predictors = compiled.predictors(cell).map_err(internal)?;
    let mut policy = Sandboxed::new(component, cell.setting.limits).map_err(internal)?;

    let mut telemetry = devices.telemetry()?;
    let mut machine = free_devices(devices, &mut *telemetry)?;
    let before = telemetry.settings();
    machine.extend(before.iter().map(|(key, value)| (format!("setting {key}"), value.clone())));
    let setting = Setting {
        program: input::program()?,
        folder: folder.to_path_buf(),
        passed: devices.passed.clone(),
        file_bytes: devices.file_bytes,
        tasks,
        quiet: devices.quiet,
        patience: devices.patience,
        limit: devices.limit,
        slot_mib: devices.shape.memory_mib,
        poll_wakeup: Box::new(move || asked.load(Ordering::Relaxed)),
    };
    let fleet = (*cell.fleet).clone();
    let live = Live::new(fleet, jobs.clone(), laws, telemetry, setting);
    let (look, outputs) = (live.look(), live.outputs());
    let (recorder, recorded) = Recorder::new(Box::new(live));
    let inputs = sandtable_runtime::inputs::Inputs {
        // Whatever is forbidden does not happen, and jobs go on.
        strict: false,
        succession: Some(Box::new(relay)),
        decision_log: Some(DecisionLog::default()),
        ..inputs(cell, jobs.clone(), predictors)
    };
    let finished = cell.backend.finish(run(&mut policy, Box::new(recorder), inputs))?;
    let log = policy.log();
    let after = devices.telemetry()?.settings();
    let changed = differences(&before, &after);
    let readings = look.readings();
    let recorded = recorded.take();
    let calls = finished.decision_log.as_ref().map_or(&[][..], |decision_log| &decision_log.calls);
    let recording =
        sandtable_plan::recording::write(&devices.shape, &jobs, steps, machine.clone(), (&recorded, calls))?;
    let printed = jobs.iter().zip(&outputs).map(|(job, output)| (job.name.to_string(), output.last(16 << 10)));
    let logs: BTreeMap<String, String> = printed.filter(|(_, text)| !text.is_empty()).collect();
    // Jobs that never ran have left nothing.
    let _ = std::fs::remove_dir_all(folder);
    let files = files(cell, &finished, &jobs, &machine, &changed, (&readings, recording, logs))?;
    if !changed.is_empty() {
        (swaps.say)(&format!("error: the devices are not as they were found: {}", changed.join("; ")));
    }
    let outcome = outcome(&finished, &changed);
    let jct = |row: &sandtable_runtime::JobRow| match row.outcome {
        sandtable_runtime::JobOutcome::Completed => row.end.map(|end| end - row.submit),
        _ => None,
    };
    let times = finished.ledger.rows().zip(jobs.iter()).map(|(row, job)| (job.name.to_string(), jct(&row))).collect();
    Ok(Observed { outcome, files, jobs: times, readings, log })
}

/// Checks that no other process computes on the devices; returns the versions and the devices, for the record.
fn free_devices(devices: &LiveDevices, telemetry: &mut dyn Telemetry) -> Result<BTreeMap<String, String>, Error> {
    let mut machine = telemetry.versions();
    for (index, device) in devices.devices.iter().enumerate() {
        machine
            .insert(format!("device {index}"), format!("{}, {} MiB, {}", device.name, device.memory_mib, device.uuid));
        let others = telemetry.processes(index).unwrap_or_default();
        if !others.is_empty() && !devices.shared() {
            let message = format!("{} is in use: {} other processes compute on it", device.name, others.len());
            let error = Error { exit: ExitCode::Hardware, ..Error::usage(message) };
            return Err(error.hint("end them, or say `shared: true` and read the results with care"));
        }
    }
    Ok(machine)
}

/// Returns the metrics of a run, or the first fault of a policy that decided in it; `changed`: settings of the devices that differ
/// from those before it.
fn outcome(finished: &Finished, changed: &[String]) -> Result<Summary, Failure> {
    let mut takeovers = finished.takeovers.iter().filter(|takeover| takeover.begun);
    let fault = takeovers.find_map(|takeover| takeover.fault.as_ref()).or(finished.fault.as_ref());
    if let Some(fault) = fault {
        let (kind, backtrace) = (fault.kind().to_string(), fault.backtrace().to_vec());
        return Err(Failure { kind, message: fault.to_string(), backtrace });
    }
    if !changed.is_empty() {
        let message = format!("the devices are not as they were found: {}", changed.join("; "));
        return Err(Failure { kind: "devices-changed".into(), message, backtrace: Vec::new() });
    }
    Ok(summary(finished))
}

fn relay(cell: &Cell, compiled: &Compiled, swaps: &Swaps<'_>, asked: Arc<AtomicBool>) -> Result<Relay, Error> {
    let mut finder = Finder::new(Path::new("."), swaps.policies.as_deref());
    let mut load = |name: &str, sandbox: &Sandbox| -> Result<Component, Error> {
        let file = finder.find(name).map_err(Error::usage)?;
        sandbox.load(&file.bytes).map_err(|fault| Error::usage(format!("{name}: {fault}")))
    };
    let patient = Sandbox::new(&code::settings(swaps.say)).map_err(|fault| Error::internal(fault.to_string()))?;
    let fallback = load("fifo", &patient)?;
    let mut pending = Vec::new();
    for swap in &swaps.at {
        let labelled = swaps.cells.iter().find(|other| other.label == swap.to && other.seed == cell.seed);
        let (component, given) = match labelled {
            Some(other) => {
                let loaded = compiled.sandbox().load(&other.policy.bytes);
                let loaded = loaded.map_err(|fault| Error::usage(format!("{}: {fault}", swap.to)))?;
                (loaded, (other.config.clone(), other.weights.bytes.clone()))
            }
            None => (load(&swap.to, &compiled.sandbox())?, defaults()),
        };
        pending.push((swap.at, swap.to.clone(), component, given));
    }
    if swaps.file.is_some() {
        // A relaxed flag is all that a handler may touch.
        signal_hook::flag::register(signal_hook::consts::SIGHUP, asked.clone())
            .map_err(|error| Error::internal(error.to_string()))?;
    }
    let (sandbox, limits) = (compiled.sandbox(), cell.setting.limits);
    Ok(Relay { pending, file: swaps.file.clone(), asked, sandbox, fallback, fallen: false, limits, say: swaps.say })
}

fn files(
    cell: &Cell,
    finished: &Finished,
    jobs: &[Job],
    machine: &BTreeMap<String, String>,
    changed: &[String],
    (readings, recording, logs): (&[Reading], Vec<u8>, BTreeMap<String, String>),
) -> Result<Files, Error> {
    let mut files = results(cell, finished, jobs)?;
    let takeover = |of: &Takeover| TakeoverRecord {
        at_s: of.at.into(),
        to: of.to.clone(),
        begun: of.begun,
        fault: of.fault.as_ref().map(ToString::to_string),
    };
    files.push(document(&MachineRecord {
        producer: Producer::here(),
        machine: machine.clone(),
        changed: changed.to_vec(),
        takeovers: finished.takeovers.iter().map(takeover).collect(),
        refused_actions: finished.rejections,
    })?);
    files.push((READINGS.into(), table_of(readings).csv().into_bytes()));
    files.push((RECORDING.into(), recording));
    if !logs.is_empty() {
        let logs: String = logs.iter().map(|(job, text)| format!("== {job}\n{text}\n")).collect();
        files.push((LOGS.into(), logs.into_bytes()));
    }
    files.sort();
    Ok(files)
}

/// The readings, a row each; what a device does not report is empty.
fn table_of(readings: &[Reading]) -> Frame {
    let fine: BTreeSet<&String> = readings.iter().flat_map(|reading| reading.fine.keys()).collect();
    let names = [
        "at_s",
        "device",
        "busy_milli_percent",
        "memory_busy_milli_percent",
        "memory_used_bytes",
        "power_mw",
        "energy_mj",
        "sm_mhz",
        "throttled",
    ];
    let columns = names.into_iter().map(Column::number).chain(fine.iter().map(|name| Column::number((*name).clone())));
    let mut table = Frame::new(columns.collect::<Vec<Column>>());
    for reading in readings {
        let own: [Value; 9] = [
            seconds(reading.at.since_start()).into(),
            reading.device.into(),
            reading.busy.into(),
            reading.memory_busy.into(),
            reading.memory_used.into(),
            reading.power_mw.into(),
            reading.energy_mj.into(),
            reading.sm_mhz.into(),
            reading.throttled.map(|yes| if yes { "yes" } else { "no" }).into(),
        ];
        let fine = fine.iter().map(|name| reading.fine.get(*name).copied().into());
        table.push(own.into_iter().chain(fine).collect::<Vec<Value>>());
    }
    table
}

/// Means over a run's readings: busy (0 to 1), bytes in use, joules.
///
/// ```
/// let (busy, memory, energy) = sandtable_run::observe::means(&[]);
/// assert!(busy.is_nan() && memory.is_nan() && energy.is_nan());
/// ```
pub fn means(readings: &[Reading]) -> (f64, f64, f64) {
    let mean = |values: Vec<f64>| {
        if values.is_empty() { f64::NAN } else { values.iter().sum::<f64>() / values.len() as f64 }
    };
    let busy = mean(readings.iter().filter_map(|reading| reading.busy).map(|busy| f64::from(busy) / 1e5).collect());
    let memory = mean(readings.iter().filter_map(|reading| reading.memory_used).map(|bytes| bytes as f64).collect());
    let energies: Vec<u64> = readings.iter().filter_map(|reading| reading.energy_mj).collect();
    let energy = match (energies.iter().min(), energies.iter().max()) {
        (Some(least), Some(most)) => (most - least) as f64 / 1000.0,
        _ => f64::NAN,
    };
    (busy, memory, energy)
}
