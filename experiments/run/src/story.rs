//! Runs a cell again and describes in words what its policy was told and what it decided.

use std::sync::Arc;

use sandtable_core::display::span;
use sandtable_core::error::{Error, ExitCode};
use sandtable_hardware::{Duration, Fleet, GpuId, Instant, Job, JobId};
use sandtable_inputs::trace::seconds;
use sandtable_plan::Cell;
use sandtable_results::schema::{GpuSet, ranges};
use sandtable_runtime::contract::{
    Action, Batch, Event, JobPhase, NEVER, NodeHealth, Plan, PreemptMode, Reason, Rejection, Start, StartPart, Trigger,
};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::sandbox::Sandboxed;
use sandtable_runtime::schedule::Finished;

use serde_json::{Value, json};

use crate::execute::{Compiled, Extras, simulate};
use crate::observed_policy::{Call, ObservedPolicy};

/// Names for what a run is about.
pub struct Names {
    jobs: Arc<[Job]>,
    fleet: Arc<Fleet>,
}

impl Names {
    /// Those of a cell.
    ///
    /// # Errors
    /// A workload that can't be read.
    pub fn of(cell: &Cell) -> Result<Names, Error> {
        Ok(Names { jobs: cell.jobs()?, fleet: cell.fleet.clone() })
    }

    /// A job's, as results have it.
    pub fn job(&self, id: JobId) -> &str {
        self.jobs.get(id.index()).map_or("?", |job| job.name.as_str())
    }

    /// The job of this name.
    pub fn find(&self, name: &str) -> Option<JobId> {
        self.jobs.iter().position(|job| job.name == name).map(JobId::at)
    }

    fn gpus(&self, gpus: &[GpuId]) -> String {
        let mut nodes: Vec<u32> = gpus
            .iter()
            .filter(|gpu| gpu.number() < self.fleet.gpus())
            .map(|gpu| self.fleet.node_of(*gpu).number())
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        let on = if nodes.len() == 1 { "node" } else { "nodes" };
        format!("GPU {} ({on} {})", GpuSet::of(gpus), ranges(&nodes))
    }

    fn start(&self, start: &Start) -> String {
        let batch = start.batch.map_or(String::new(), |split| {
            format!(", {} samples a pass, {} passes a step", split.local, split.accumulation + 1)
        });
        format!("{} on {}{batch}", self.job(JobId::new(start.job)), self.gpus(&GpuId::list(start.gpus.clone())))
    }

    /// What a policy was told.
    pub fn event(&self, event: &Event) -> String {
        match event {
            Event::JobArrived(arrival) => {
                let declared = match arrival.declared_run_time {
                    NEVER => String::new(),
                    time => format!(", said to take {}", span(time as f64 / 1e6)),
                };
                let deadline = match arrival.deadline {
                    NEVER => String::new(),
                    at => format!(", due at {} s", seconds(Duration::from_micros(at))),
                };
                let priority = match arrival.priority {
                    0 => String::new(),
                    priority => format!(", priority {priority}"),
                };
                let queue = match self.fleet.queues.get(arrival.queue as usize) {
                    Some(queue) => format!(", in queue {}", queue.name),
                    None => String::new(),
                };
                let id = JobId::new(arrival.job);
                let (kind, asks) = match self.jobs.get(id.index()) {
                    Some(job) => (if job.service.is_some() { "task" } else { "job" }, job.asks(&self.fleet.levels)),
                    None => ("job", "0 GPUs".into()),
                };
                format!("{kind} {} arrived: {asks}{declared}{deadline}{priority}{queue}", self.job(id))
            }
            Event::JobEnded(end) => format!("job {} ended", self.job(JobId::new(end.job))),
            Event::JobChanged(change) => {
                let cause = match change.cause {
                    sandtable_runtime::contract::ChangeCause::Asked => "",
                    sandtable_runtime::contract::ChangeCause::NodeLost => ", its node was lost",
                    sandtable_runtime::contract::ChangeCause::NodeTakenBack => ", its node was taken back",
                    sandtable_runtime::contract::ChangeCause::OutOfMemory => ", out of memory",
                };
                format!("job {} is {}{cause}", self.job(JobId::new(change.job)), phase(change.phase))
            }
            Event::RemainingChanged(change) => {
                let left =
                    if change.remaining == NEVER { "unknown".into() } else { span(change.remaining as f64 / 1e6) };
                format!("time left of job {}: {left}", self.job(JobId::new(change.job)))
            }
            Event::NodeChanged(change) => {
                let health = match change.health {
                    NodeHealth::Up => "up".into(),
                    NodeHealth::Down => "down".into(),
                    NodeHealth::Draining => {
                        format!("draining, down from {} s on", seconds(Duration::from_micros(change.until)))
                    }
                };
                format!("node {} is {health}", change.node)
            }
            Event::LeaseEnded(end) => {
                format!("job {} was done with its lease after {} s", self.job(JobId::new(end.job)), end.seconds)
            }
            Event::Timer(token) => format!("its timer {token}"),
            Event::Rejected(count) => format!("refused: {count} actions"),
        }
    }

    /// Why an action was refused.
    pub fn refusal(rejection: &Rejection) -> String {
        format!("refused: {}", rejection.message)
    }

    /// Everything that a policy was told in a call.
    pub fn told(&self, batch: &Batch, rejections: &[Rejection]) -> Vec<String> {
        let of = |event: &Event| match event {
            Event::Rejected(_) => rejections.iter().map(Names::refusal).collect(),
            event => vec![self.event(event)],
        };
        batch.events.iter().flat_map(of).collect()
    }

    /// What a policy asked for.
    pub fn action(&self, action: &Action) -> String {
        match action {
            Action::Start(start) => format!("start {}", self.start(start)),
            Action::StartPart(StartPart { job, gpu, slice }) => {
                let job = JobId::new(*job);
                let part = self.jobs.get(job.index()).and_then(|job| job.part);
                let slices = part.map_or(1, |part| self.fleet.parts.slices(part));
                let place = match slices {
                    1 => format!("slice {slice}"),
                    _ => format!("slices {slice} to {}", slice.saturating_add(slices - 1)),
                };
                format!("start {} on {place} of GPU {gpu}", self.job(job))
            }
            Action::StartOn(start) => format!("start {} on node {}", self.job(JobId::new(start.job)), start.node),
            Action::Preempt(preempt) => {
                let how = if preempt.mode == PreemptMode::Kill { "kill" } else { "preempt" };
                format!("{how} {}", self.job(JobId::new(preempt.job)))
            }
            Action::Reassign(moves) => {
                let all: Vec<String> = moves.iter().map(|start| self.start(start)).collect();
                format!("move {}", all.join("; "))
            }
            Action::Throttle(throttle) => {
                format!(
                    "hold {} to {} % of its speed",
                    self.job(JobId::new(throttle.job)),
                    f64::from(throttle.milli) / 10.0
                )
            }
            Action::SetBatch(set) => {
                format!("batch of {}: {} samples a pass", self.job(JobId::new(set.job)), set.batch.local)
            }
            Action::Protect(protect) => {
                format!("protect GPU {} until {} s", protect.gpu, seconds(Duration::from_micros(protect.until)))
            }
            Action::Refuse(job) => format!("refuse {}", self.job(JobId::new(*job))),
            Action::SetTimer(timer) => format!("wake me at {} s", seconds(Duration::from_micros(timer.at))),
            Action::CancelTimer(token) => format!("cancel timer {token}"),
        }
    }

    /// Why a job waits.
    pub fn reason(&self, reason: &Reason) -> String {
        match reason {
            Reason::NoFreeGpus => "fewer GPUs are free than it asks for".into(),
            Reason::Fragmented => "enough GPUs are free, but they are no place for it".into(),
            Reason::OverLimit(queue) => {
                let name = self.fleet.queues.get(*queue as usize).map_or("?", |queue| queue.name.as_str());
                format!("queue {name} would be above its limit")
            }
            Reason::Behind(job) => format!("it comes after {}", self.job(JobId::new(*job))),
            // A guest's own text.
            Reason::Policy(text) => sandtable_hardware::text::escape_control_chars(text, 400),
        }
    }

    /// Returns the job that an event is about.
    pub fn about(event: &Event) -> Option<JobId> {
        match event {
            Event::JobArrived(arrival) => Some(JobId::new(arrival.job)),
            Event::JobEnded(end) => Some(JobId::new(end.job)),
            Event::JobChanged(change) => Some(JobId::new(change.job)),
            Event::RemainingChanged(change) => Some(JobId::new(change.job)),
            Event::LeaseEnded(end) => Some(JobId::new(end.job)),
            Event::NodeChanged(_) | Event::Timer(_) | Event::Rejected(_) => None,
        }
    }

    /// Returns the jobs that an action is about.
    pub fn of_action(action: &Action) -> Vec<JobId> {
        match action {
            Action::Start(start) => vec![JobId::new(start.job)],
            Action::StartPart(start) => vec![JobId::new(start.job)],
            Action::StartOn(start) => vec![JobId::new(start.job)],
            Action::Preempt(preempt) => vec![JobId::new(preempt.job)],
            Action::Refuse(job) => vec![JobId::new(*job)],
            Action::Throttle(throttle) => vec![JobId::new(throttle.job)],
            Action::SetBatch(set) => vec![JobId::new(set.job)],
            Action::Reassign(moves) => moves.iter().map(|start| JobId::new(start.job)).collect(),
            Action::SetTimer(_) | Action::CancelTimer(_) | Action::Protect(_) => Vec::new(),
        }
    }
}

fn phase(phase: JobPhase) -> &'static str {
    match phase {
        JobPhase::Queued => "queued",
        JobPhase::Starting => "starting",
        JobPhase::Running => "running",
        JobPhase::Stopping => "stopping",
        JobPhase::Ended => "ended",
    }
}

/// Why a policy was called.
///
/// ```
/// use sandtable_runtime::contract::Trigger;
///
/// assert_eq!(sandtable_run::story::trigger(Trigger::Round), "a round");
/// ```
pub fn trigger(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Event => "events",
        Trigger::Round => "a round",
        Trigger::Timer => "a timer",
        Trigger::Resync => "a takeover",
    }
}

/// Whether an action moves anything: when a policy wishes to be woken is its own affair.
///
/// ```
/// use sandtable_run::story::acts;
/// use sandtable_runtime::contract::{Action, Start};
///
/// assert!(acts(&Action::Start(Start { job: 0, gpus: vec![0], batch: None })));
/// assert!(!acts(&Action::CancelTimer(7)));
/// ```
pub fn acts(action: &Action) -> bool {
    !matches!(action, Action::SetTimer(_) | Action::CancelTimer(_))
}

/// A fault of a cell's policy, as the end of a command.
pub(crate) fn failed(cell: &Cell, fault: &Fault) -> Error {
    Error { exit: ExitCode::PolicyFailed, ..Error::usage(format!("{}: {fault}", cell.label)) }
}

/// Runs a cell once more; `seen` is told of every call, and ends the run by `false`.
///
/// # Errors
/// A cell that was observed and can't be run again, a component that can't be used, inputs that can't be read.
pub fn tell(cell: &Cell, compiled: &Compiled, mut seen: impl FnMut(&Call<'_>) -> bool) -> Result<Finished, Error> {
    if !cell.backend.is_reproducible() {
        return Err(Error::usage("what was observed on real devices can't be run again: replay its recording"));
    }
    let component = compiled.get(&cell.policy.digest).map_err(|fault| failed(cell, &fault))?;
    let policy = Sandboxed::new(component, cell.setting.limits).map_err(|fault| failed(cell, &fault))?;
    let predictors = compiled.predictors(cell).map_err(|fault| failed(cell, &fault))?;
    let mut observed = ObservedPolicy::new(policy, &mut seen);
    simulate(cell, cell.jobs()?, &mut observed, predictors, Extras::default())
}

/// A decision: what a policy was told, and what it said.
#[derive(Clone, Debug)]
pub struct Decision {
    /// When.
    pub at: Instant,
    /// The batch.
    pub batch: Batch,
    /// Why actions of the plan before were refused.
    pub rejections: Vec<Rejection>,
    /// The answer.
    pub plan: Plan,
}

impl Decision {
    /// What it moves.
    pub fn acting(&self) -> impl Iterator<Item = &Action> {
        self.plan.actions.iter().filter(|action| acts(action))
    }
}

/// Where two runs part: the first instant at which one does what the other does not. Either side may have done nothing then.
#[derive(Debug)]
pub struct FirstDivergence {
    /// When.
    pub at: Instant,
    /// Decisions that moved something, alike in both before.
    pub alike: u64,
    /// What each decided then.
    pub sides: [Option<Decision>; 2],
}

/// The first decision in which two cells differ, found while both run side by side; none: they never differ.
///
/// # Errors
/// See [`tell`].
pub fn parting(cells: [&Cell; 2], compiled: &Compiled) -> Result<Option<FirstDivergence>, Error> {
    std::thread::scope(|scope| {
        let ends = cells.map(|cell| {
            let (sender, receiver) = std::sync::mpsc::sync_channel::<Decision>(256);
            let run = move || {
                tell(cell, compiled, |Call { batch, rejections, plan }| {
                    // A decision that moves nothing is none.
                    if !plan.actions.iter().any(acts) {
                        return true;
                    }
                    let at = Instant::from_micros(batch.now);
                    let (batch, plan, rejections) = ((*batch).clone(), (*plan).clone(), rejections.to_vec());
                    let decision = Decision { at, batch, rejections, plan };
                    sender.send(decision).is_ok()
                })
                .map(drop)
            };
            // A guest's stack is the thread's.
            let thread = std::thread::Builder::new().stack_size(8 << 20).spawn_scoped(scope, run);
            (receiver, thread)
        });
        let mut alike = 0;
        let parting = loop {
            let [first, second] = [&ends[0].0, &ends[1].0].map(|receiver| receiver.recv().ok());
            match (first, second) {
                (None, None) => break None,
                (Some(a), Some(b)) if a.at == b.at && a.acting().eq(b.acting()) => alike += 1,
                (first, second) => {
                    let at =
                        [&first, &second].into_iter().flatten().map(|decision| decision.at).min().unwrap_or_default();
                    // The side that acts later did nothing then.
                    let sides = [first, second].map(|side| side.filter(|decision| decision.at == at));
                    break Some(FirstDivergence { at, alike, sides });
                }
            }
        };
        for (receiver, thread) in ends {
            drop(receiver);
            let thread = thread.map_err(|error| Error::usage(format!("no thread for a run: {error}")))?;
            thread.join().map_err(|_| Error::internal("a run panicked"))??;
        }
        Ok(parting)
    })
}

/// The first decision that differs, as a person reads it.
pub fn parting_in_words(parting: &FirstDivergence, [first, second]: &[Names; 2], sides: &[String; 2]) -> String {
    let at = seconds(parting.at.since_start());
    let mut out = format!("\nthe first decision that differs: at {at} s, after {} alike\n", parting.alike);
    for ((side, name), names) in parting.sides.iter().zip(sides).zip([first, second]) {
        let Some(decision) = side else {
            out.push_str(&format!("  {name}: moved nothing then\n"));
            continue;
        };
        let batch = &decision.batch;
        out.push_str(&format!("  {name}: batch {}, called for {}\n", batch.seq, trigger(batch.trigger)));
        listed(&mut out, "told", names.told(batch, &decision.rejections));
        listed(&mut out, "said", decision.acting().map(|action| names.action(action)).collect());
    }
    out
}

fn listed(out: &mut String, word: &str, lines: Vec<String>) {
    const MOST: usize = 12;
    for line in lines.iter().take(MOST) {
        out.push_str(&format!("    {word}  {line}\n"));
    }
    if lines.len() > MOST {
        out.push_str(&format!("    {word}  and {} more\n", lines.len() - MOST));
    }
}

/// The same for programs.
pub fn parting_object(parting: &FirstDivergence, names: &[Names; 2], sides: &[String; 2]) -> Value {
    let side = |at: usize| match &parting.sides[at] {
        None => Value::Null,
        Some(decision) => json!({
            "batch": decision.batch.seq,
            "trigger": trigger(decision.batch.trigger),
            "told": names[at].told(&decision.batch, &decision.rejections),
            "said": decision.acting().map(|action| names[at].action(action)).collect::<Vec<_>>(),
        }),
    };
    json!({
        "kind": "decision", "at_s": parting.at.as_secs_f64(), "alike": parting.alike,
        "of": sides, "first": side(0), "second": side(1),
    })
}
