//! Recordings as files: of live runs, and of a policy's failure (a capsule).
//!
//! # Format
//! JSON lines: a header, then every call of the backend (`{"step": …}`), then every call of the policy (`{"call": …}`). The header
//! holds the blake3 of all that follows it, what the machines were, and of which jobs it is a recording.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_core::text;
use sandtable_hardware::replay::Step;
use sandtable_hardware::{BackendEvent, Fleet, GpuType, Instant, Job, JobId, Sharing, TimedEvent};
use sandtable_inputs::trace::read_bytes;
use sandtable_runtime::capsule::Capsule;
use sandtable_runtime::contract::{Action, Cadence};
use sandtable_runtime::decision_log::Decision;
use serde::{Deserialize, Serialize};

/// The version of the format. Version 1 has a step for each job of a reassignment, not one for all of them.
const VERSION: u32 = 2;

/// What a recording is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    recording: u32,
    /// The shape of the fleet.
    #[serde(rename = "ground")]
    pub shape: LiveFleetShape,
    /// blake3 of the jobs.
    pub jobs: String,
    /// Steps of each.
    pub tasks: Vec<u64>,
    /// What it was recorded on, for people.
    pub machine: BTreeMap<String, String>,
    blake3: String,
}

/// The shape of a live fleet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveFleetShape {
    /// Nodes and the GPUs of each.
    pub nodes: (u32, u32),
    /// What they are.
    pub kind: String,
    /// Memory of each, MiB.
    pub memory_mib: u32,
    /// Of which one device is so many.
    pub slots: u32,
    /// Which jobs may be on one together.
    pub sharing: Sharing,
}

impl LiveFleetShape {
    /// The fleet.
    ///
    /// # Errors
    /// A shape that no fleet has.
    pub fn fleet(&self) -> Result<Fleet, sandtable_hardware::FleetError> {
        let kind = GpuType { memory_mib: self.memory_mib, ..GpuType::new(&self.kind, 1.0) };
        let fleet = Fleet::new(&[(self.nodes.0, self.nodes.1, kind)], sandtable_hardware::Costs::default(), None)?;
        fleet.shared(self.sharing)?.slotted(self.slots)
    }
}

/// A recorded run.
#[derive(Clone, Debug)]
pub struct Recording {
    /// What it is of.
    pub header: Header,
    /// What the backend answered.
    pub steps: Vec<Step>,
    /// What the policy decided.
    pub calls: Vec<Decision>,
    /// blake3 of the file.
    pub digest: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line<S, C> {
    Step(S),
    Call(C),
}

/// What jobs are, as far as a recording depends on it.
pub fn jobs_digest(jobs: &[Job]) -> String {
    let of = |job: &Job| format!("{:?}\n", (&job.name, job.submit, job.gpus, job.work, job.workload, job.batch));
    digest(jobs.iter().map(of).collect::<String>().as_bytes())
}

/// Writes a recording.
///
/// # Errors
/// Where a part of it has no text.
pub fn write(
    shape: &LiveFleetShape,
    jobs: &[Job],
    tasks: Vec<u64>,
    machine: BTreeMap<String, String>,
    (steps, calls): (&[Step], &[Decision]),
) -> Result<Vec<u8>, Error> {
    let internal = |error: serde_json::Error| Error::internal(error.to_string());
    let mut body = String::new();
    let lines = steps.iter().map(Line::Step).chain(calls.iter().map(Line::Call));
    for line in lines {
        body.push_str(&serde_json::to_string(&line).map_err(internal)?);
        body.push('\n');
    }
    let blake3 = digest(body.as_bytes());
    let header = Header { recording: VERSION, shape: shape.clone(), jobs: jobs_digest(jobs), tasks, machine, blake3 };
    Ok(format!("{}\n{body}", serde_json::to_string(&header).map_err(internal)?).into_bytes())
}

/// Reads a recording.
///
/// # Errors
/// The line that is wrong, or that something was changed.
pub fn read(path: &Path) -> Result<Recording, Error> {
    let bytes = sandtable_core::input::read(path, sandtable_core::input::DATA)?;
    let at = |line: usize, why: String| Error::usage(format!("{}:{line}: {why}", path.display()));
    let text = std::str::from_utf8(&bytes).map_err(|_| at(1, "expected text, found other bytes".into()))?;
    let (first, body) = text.split_once('\n').ok_or_else(|| at(1, "expected a recording, found one line".into()))?;
    let header: Header =
        serde_json::from_str(first).map_err(|error| at(1, format!("expected the header of a recording: {error}")))?;
    if !(1..=VERSION).contains(&header.recording) {
        return Err(at(1, format!("expected a recording of version {VERSION}, found {}", header.recording)));
    }
    let found = digest(body.as_bytes());
    if found != header.blake3 {
        return Err(at(
            1,
            format!("the lines that follow were changed: blake3 is {found}, expected {}", header.blake3),
        ));
    }
    let (mut steps, mut calls) = (Vec::new(), Vec::new());
    for (index, line) in body.lines().enumerate() {
        match serde_json::from_str::<Line<Step, Decision>>(line) {
            Ok(Line::Step(step)) => steps.push(step),
            Ok(Line::Call(call)) => calls.push(call),
            Err(error) => return Err(at(index + 2, error.to_string())),
        }
    }
    let several = |action: &Action| matches!(action, Action::Reassign(moves) if moves.len() > 1);
    if header.recording == 1 && calls.iter().flat_map(|call: &Decision| &call.actions).any(several) {
        let why = format!("several jobs are reassigned at once: expected a recording of version {VERSION}, found 1");
        return Err(at(1, why));
    }
    check(&header, &steps, &calls).map_err(|(line, why)| at(line, why))?;
    Ok(Recording { header, steps, calls, digest: digest(&bytes) })
}

/// Whether it is of one run: the line that is not, and why.
fn check(header: &Header, steps: &[Step], calls: &[Decision]) -> Result<(), (usize, String)> {
    let jobs = header.tasks.len();
    if header.tasks.iter().any(|steps| *steps >= 1 << 53) {
        return Err((1, "expected steps below 2^53".into()));
    }
    let (mut now, mut over) = (Instant::START, vec![false; jobs]);
    for (index, step) in steps.iter().enumerate() {
        let wrong = |why: String| Err((index + 2, why));
        if step.now < now || step.now >= Instant::END {
            return wrong(format!("time goes from {now} to {} µs", step.now));
        }
        now = step.now;
        for TimedEvent { at, what } in &step.happened {
            let of = what.job().map(JobId::index);
            if let Some(job) = of.filter(|job| *job >= jobs) {
                return wrong(format!("expected a job below {jobs}, found {job}"));
            }
            if *at > now {
                return wrong(format!("something happens at {at} µs, after {now}"));
            }
            match (what, of) {
                (BackendEvent::Ended(_) | BackendEvent::Failed { .. }, Some(job))
                    if std::mem::replace(&mut over[job], true) =>
                {
                    return wrong(format!("job {job} is over twice"));
                }
                (_, Some(job))
                    if over[job]
                        && !matches!(
                            what,
                            BackendEvent::Ended(_) | BackendEvent::Failed { .. } | BackendEvent::LeaseEnded { .. }
                        ) =>
                {
                    return wrong(format!("something happens to job {job}, which is over"));
                }
                (BackendEvent::LeaseEnded { seconds, restart, .. }, _)
                    if !(0.0..=1e12).contains(seconds) || !(0.0..=*seconds).contains(restart) =>
                {
                    return wrong(format!("expected seconds of a lease, found {seconds} and a restart of {restart}"));
                }
                (BackendEvent::Pace { pace, .. }, _) if !(0.0..=1e6).contains(pace) => {
                    return wrong(format!("expected a pace of at least 0, found {pace}"));
                }
                (
                    BackendEvent::NodeDown(node) | BackendEvent::NodeUp(node) | BackendEvent::NodeDrains { node, .. },
                    _,
                ) if node.number() >= header.shape.nodes.0 => {
                    return wrong(format!("expected a node below {}, found {node}", header.shape.nodes.0));
                }
                _ => {}
            }
        }
    }
    let mut before = Instant::START;
    for (index, call) in calls.iter().enumerate() {
        let wrong = |why: String| Err((steps.len() + index + 2, why));
        if call.now < before || call.now >= Instant::END {
            return wrong(format!("time goes from {before} to {} µs", call.now));
        }
        before = call.now;
        if call.cadence.is_some_and(|cadence| !cadence_is_sound(cadence)) || (index == 0 && call.cadence.is_none()) {
            return wrong("expected the cadence of the calls that follow: a round above 0, or events".into());
        }
    }
    Ok(())
}

fn cadence_is_sound(cadence: Cadence) -> bool {
    cadence.round.map_or(cadence.on_events, |round| (1..Instant::END.as_micros()).contains(&round))
}

/// Most bytes of a capsule, decompressed.
const MOST_CAPSULE: u64 = 4 << 30;

/// Reads a capsule, which may be a stranger's: its limits are at most those that a spec may ask for.
///
/// # Errors
/// A file that can't be read or is no capsule.
pub fn capsule(path: &Path) -> Result<Capsule, Error> {
    let bytes = read_bytes(path, MOST_CAPSULE)?;
    let wrong =
        |error: serde_json::Error| format!("{}: no capsule: {}", path.display(), text::line(&error.to_string()));
    let mut capsule: Capsule = serde_json::from_slice(&bytes).map_err(|error| Error::usage(wrong(error)))?;
    capsule.limits = capsule.limits.clamped();
    Ok(capsule)
}
