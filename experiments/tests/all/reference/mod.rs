//! Published simulators, written anew from their public code: slowly, tick by tick or event by event as they do it, and
//! from nothing of ours. What our components do is held against them (`fuzz.rs`), on the published schedules and on
//! traces that nobody has seen.
//!
//! # Architecture
//! - [`Task`] and [`Fate`]: a job as a simulator reads it, and what it says became of it.
//! - [`tiresias`], [`lucid`], [`pai`]: one simulator each, a function a policy.
//! - [`trace::Trace`]: jobs and a fleet, drawn from a seed.
//! - [`Told`]: all fates, and where the simulator itself goes wrong.

pub(crate) mod lucid;
pub(crate) mod pai;
pub(crate) mod tiresias;
pub(crate) mod trace;

use std::collections::BTreeMap;

/// A job of a trace. Its place in the trace is its number and breaks ties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// Second of its submission.
    pub(crate) submit: u64,
    /// GPUs of its gang; hundredths of GPUs for PAI's simulator.
    pub(crate) gpus: u32,
    /// Seconds of work.
    pub(crate) duration: u64,
}

/// What became of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// Second of its first start.
    pub(crate) start: Option<u64>,
    /// Second of its end.
    pub(crate) end: Option<u64>,
    /// How often it was preempted.
    pub(crate) preemptions: u32,
    /// GPUs by node of its last run, where the simulator knows of nodes.
    pub(crate) nodes: BTreeMap<usize, u32>,
}

/// What a simulator says of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// By number.
    pub(crate) fates: Vec<Fate>,
    /// Why this is no schedule of jobs that do their work: a defect of the simulator, reproduced. None: it is one.
    pub(crate) defect: Option<&'static str>,
}

/// Of gangs larger than the fleet, where the simulator does not skip them.
pub(crate) const LARGE: &str = "a gang larger than the fleet blocks all others for ever, or is cut";

impl Told {
    /// Nothing has happened yet.
    fn new(tasks: &[Task]) -> Told {
        Told { fates: vec![Fate::default(); tasks.len()], defect: None }
    }
}

/// Jobs by second of submission, in the order of the trace.
fn arrivals(tasks: &[Task]) -> BTreeMap<u64, Vec<usize>> {
    let mut arrivals: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (job, task) in tasks.iter().enumerate() {
        arrivals.entry(task.submit).or_default().push(job);
    }
    arrivals
}

/// Takes out those that arrive at `now`.
fn arriving(arrivals: &mut BTreeMap<u64, Vec<usize>>, now: u64) -> Vec<usize> {
    arrivals.remove(&now).unwrap_or_default()
}
