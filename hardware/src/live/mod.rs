//! Jobs that really run, on the devices of this machine: the same trait as the model's, with a clock that really ticks.
//!
//! The clock that the loop sees is the wall's, but that no instant is skipped: an event is told at its own instant, and
//! a timer that came too late at the instant for which it was set. What devices say is asked for by a thread of its own
//! ten times a second; how a preempted job is put aside is `stopping`'s business.

mod clock;
mod drive;
mod group;
mod process;
mod progress;
mod stopping;
mod watch;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{
    Backend, BackendEvent, Cause, Duration, Fleet, GpuId, Instant, Job, JobId, PerformanceModel, Split, Telemetry,
    TimedEvent, TypeId,
};
pub use clock::{Clock, processor_time, wait};
pub use process::{Ending, Launch, Output, Process, SAVED, guard, shim};
pub use progress::Progress;
pub use stopping::Level;
use watch::Moving;
pub use watch::{Look, Watch};

/// How a job of a live run is carried out.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// Its command.
    pub argv: Vec<String>,
    /// Steps that it takes, with the gang that it asks for; 0: unknown.
    pub steps: u64,
    /// Ways of putting it aside, best first; [`Level::Kill`] is always there.
    pub levels: Vec<Level>,
}

/// What a live run needs beside jobs and devices.
pub struct Setting {
    /// The binary that has the shim and the guards.
    pub program: PathBuf,
    /// Where jobs save their states.
    pub folder: PathBuf,
    /// Names of this process' environment that jobs are given beside those that every job is.
    pub passed: Vec<String>,
    /// Bytes that a file which a job writes may have.
    pub file_bytes: u64,
    /// What each job runs.
    pub tasks: Vec<Task>,
    /// A job that says nothing for so long after its start is taken to run.
    pub quiet: Duration,
    /// A job that was asked to save, or to end, may take so long.
    pub patience: Duration,
    /// After this everything is ended.
    pub limit: Duration,
    /// Device memory that each slot may take, MiB.
    pub slot_mib: u32,
    /// Called as time goes by, some ten times a second: to be told what is going on, and to say whether the loop is to
    /// look up although nothing happened.
    pub poll_wakeup: Box<dyn Fn() -> bool + Send>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Not on the machine, or put aside.
    Waiting,
    /// Given slots; its process is not there yet, or has not said anything.
    Starting,
    Running,
    /// Asked to save, or to end; then it waits, or starts anew on other slots.
    Stopping {
        since: Instant,
        by: Level,
        again: bool,
    },
    Over,
}

struct State {
    phase: Phase,
    gpus: Vec<GpuId>,
    split: Option<Split>,
    process: Option<Process>,
    /// Put aside in this way, with the process still there, on these slots' device.
    aside: Option<(Level, usize)>,
    /// Its memory is on the way to the host, or back.
    moving: Option<Moving>,
    launched: Instant,
    running_since: Option<Instant>,
    /// Progress that is saved, in steps of the gang that it asks for.
    saved: f64,
    /// Time of progress that is saved.
    kept: Duration,
    /// Time of progress since then, up to when it last began to run.
    unsaved: Duration,
    /// Progress that it lost and that is not reported yet: reported when it next lets its slots go.
    unreported_loss: Duration,
    /// Its process did all its work while it was put aside.
    finished: bool,
    milli: u32,
    /// Whether the throttle holds it at the moment.
    held: bool,
    /// The pace that was told last.
    pace: f64,
    /// Why the watchdog ended it, if it did.
    kill_reason: Option<Cause>,
}

/// Jobs on real devices.
pub struct Live {
    fleet: Fleet,
    jobs: Arc<[Job]>,
    laws: Arc<PerformanceModel>,
    setting: Setting,
    clock: Clock,
    now: Instant,
    states: Vec<State>,
    outputs: Vec<Output>,
    /// The job whose process is physically on each slot.
    there: Vec<Vec<JobId>>,
    events: VecDeque<TimedEvent>,
    watch: Watch,
    looked: Instant,
    /// The run's limit was reached.
    over: bool,
}

/// How often the machine is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// How often paces are told, memory is weighed and the nudge is asked.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_millis(100);
/// The period of a throttled job's stops.
const THROTTLE: Duration = Duration::from_millis(100);

impl Live {
    /// Devices at rest, and the jobs that will be started on them. The clock begins now.
    pub fn new(
        fleet: Fleet,
        jobs: Arc<[Job]>,
        laws: Arc<PerformanceModel>,
        telemetry: Box<dyn Telemetry>,
        setting: Setting,
    ) -> Live {
        let state = || State {
            phase: Phase::Waiting,
            gpus: Vec::new(),
            split: None,
            process: None,
            aside: None,
            moving: None,
            kept: Duration::ZERO,
            launched: Instant::START,
            running_since: None,
            saved: 0.0,
            unsaved: Duration::ZERO,
            unreported_loss: Duration::ZERO,
            finished: false,
            milli: 1000,
            held: false,
            pace: 1.0,
            kill_reason: None,
        };
        let clock = Clock::start();
        Live {
            states: jobs.iter().map(|_| state()).collect(),
            outputs: jobs.iter().map(|_| Output::default()).collect(),
            there: vec![Vec::new(); fleet.gpus() as usize],
            watch: Watch::over(telemetry, clock),
            clock,
            now: Instant::START,
            events: VecDeque::new(),
            looked: Instant::START,
            over: false,
            fleet,
            jobs,
            laws,
            setting,
        }
    }

    /// The end of what each job prints, to be read while the run goes on and after it.
    pub fn outputs(&self) -> Vec<Output> {
        self.outputs.clone()
    }

    /// What the devices said, to be read while the run goes on and after it.
    pub fn look(&self) -> Look {
        self.watch.look()
    }

    /// The device on which a slot is: devices are nodes, or with a slot each the GPUs of one node.
    fn device(&self, gpu: GpuId) -> usize {
        self.fleet.device_of(gpu)
    }

    fn happens(&mut self, what: BackendEvent) {
        let at = self.clock.now().max(self.now);
        self.events.push_back(TimedEvent { at, what });
    }

    // ------------------------------------------------------------ starting

    /// Starts the jobs whose slots no other job is still leaving.
    fn launch_ready(&mut self) {
        for id in JobId::first(self.states.len()) {
            let state = &self.states[id];
            if state.phase != Phase::Starting || (state.process.is_some() && state.aside.is_none()) {
                continue;
            }
            if self.over {
                self.end(id, BackendEvent::Failed { job: id, status: -9 });
                continue;
            }
            let leaves = |other: &JobId| *other != id && matches!(self.states[*other].phase, Phase::Stopping { .. });
            if state.gpus.iter().any(|gpu| self.there[*gpu].iter().any(leaves)) {
                continue;
            }
            if let Err(error) = self.launch(id) {
                self.note(id, &format!("can't be started: {error}"));
                self.end(id, BackendEvent::Failed { job: id, status: 127 });
            }
        }
    }

    fn launch(&mut self, id: JobId) -> std::io::Result<()> {
        for gpu in self.states[id].gpus.clone() {
            let there = &mut self.there[gpu];
            if !there.contains(&id) {
                there.push(id);
            }
        }
        let device = self.device(self.states[id].gpus[0]);
        let now = self.clock.now();
        if self.states[id].finished {
            self.happens(BackendEvent::Running(id));
            self.end(id, BackendEvent::Ended(id));
            return Ok(());
        }
        if let Some((level, on)) = self.states[id].aside.take() {
            if on == device && self.bring_back(id, level) {
                self.states[id].launched = now;
                return Ok(());
            }
            // Elsewhere it begins anew.
            self.begin_anew(id);
        }
        let process = Process::start(&self.setting.program, &self.command(id, device))?;
        let state = &mut self.states[id];
        state.process = Some(process);
        state.launched = now;
        Ok(())
    }

    fn command(&self, id: JobId, device: usize) -> Launch {
        let (state, job) = (&self.states[id], &self.jobs[id]);
        let folder = self.folder(id);
        let saved = folder.join("state");
        let slots = state.gpus.len() as u32;
        let mut environment = self.watch.environment(device);
        environment.extend([
            ("SANDTABLE_JOB".to_string(), job.name.to_string()),
            ("SANDTABLE_SLOTS".into(), slots.to_string()),
            ("SANDTABLE_GANG".into(), job.gpus.to_string()),
            ("SANDTABLE_MEM_LIMIT".into(), (u64::from(self.budget(id)) << 20).to_string()),
            ("SANDTABLE_STATE".into(), saved.display().to_string()),
        ]);
        if let Some(split) = state.split {
            let batch = split.local * (split.accumulation + 1) * slots;
            environment.push(("SANDTABLE_BATCH".into(), batch.to_string()));
        }
        if saved.exists() {
            environment.push(("SANDTABLE_RESTORE".into(), saved.display().to_string()));
        }
        let argv = self.setting.tasks[id].argv.clone();
        let (passed, output) = (self.setting.passed.clone(), self.outputs[id].clone());
        let file_bytes = self.setting.file_bytes;
        Launch { argv, environment, passed, file_bytes, folder, output }
    }

    /// Where a job keeps its state, and where it begins.
    fn folder(&self, id: JobId) -> PathBuf {
        let folder = self.setting.folder.join(id.to_string());
        // Where it can't be made, the job's start says so.
        let _ = std::fs::create_dir_all(&folder);
        folder
    }

    /// MiB that a job may take on its device: what it asked for on each slot, else all of its slots' parts.
    fn budget(&self, id: JobId) -> u32 {
        let state = &self.states[id];
        let gpu_type = state.gpus.first().map_or(TypeId::new(0), |gpu| self.fleet.type_of(*gpu));
        let asked = match self.laws.memory(gpu_type, &self.jobs[id]) {
            0 => self.setting.slot_mib,
            asked => asked,
        };
        asked.saturating_mul(state.gpus.len() as u32)
    }

    fn note(&self, id: JobId, text: &str) {
        self.outputs[id].add(format!("sandtable: {text}\n").as_bytes());
    }

    // ------------------------------------------------------- what happens

    /// Looks at every process once.
    fn look_around(&mut self) {
        let now = self.clock.now();
        for id in JobId::first(self.states.len()) {
            self.look_at(id, now);
        }
        if now >= self.looked + HOUSEKEEPING_PERIOD {
            self.looked = now;
            self.keep_house(now);
        }
        self.launch_ready();
    }

    fn look_at(&mut self, id: JobId, now: Instant) {
        let Some(process) = &mut self.states[id].process else { return };
        match process.ending() {
            Some(ending) => self.ended(id, ending),
            None => self.goes_on(id, now),
        }
    }

    /// Before a command is carried out: what has happened to the job meanwhile is told first. Whether it is over.
    fn attend(&mut self, id: JobId, happened: &mut Vec<TimedEvent>) -> bool {
        self.look_at(id, self.clock.now());
        let (own, others): (Vec<_>, Vec<_>) = self.events.drain(..).partition(|event| event.what.job() == Some(id));
        self.events.extend(others);
        happened.extend(own.into_iter().map(|event| TimedEvent { at: self.now, what: event.what }));
        self.states[id].phase == Phase::Over
    }

    /// A process that is still there.
    fn goes_on(&mut self, id: JobId, now: Instant) {
        if self.states[id].phase == Phase::Starting && self.comes_back(id, now) {
            return;
        }
        let state = &mut self.states[id];
        let Some(process) = &state.process else { return };
        match state.phase {
            Phase::Starting if state.aside.is_none() => {
                let said = process.listener.now().lines > 0;
                if said || now >= state.launched + self.setting.quiet {
                    state.phase = Phase::Running;
                    state.running_since = Some(now);
                    state.pace = 1.0;
                    self.happens(BackendEvent::Running(id));
                }
            }
            Phase::Running if state.milli < 1000 => {
                let hold = now.since_start() % THROTTLE >= THROTTLE * u64::from(state.milli) / 1000;
                if hold != state.held {
                    state.held = hold;
                    let signal = if hold { rustix::process::Signal::STOP } else { rustix::process::Signal::CONT };
                    process.signal(signal);
                }
            }
            Phase::Stopping { .. } => self.escalate_stop(id, now),
            _ => {}
        }
    }

    /// A process is gone.
    fn ended(&mut self, id: JobId, ending: Ending) {
        let done = self.progress(id);
        let state = &mut self.states[id];
        (state.process, state.moving) = (None, None);
        let aside = state.aside.take().is_some();
        let kill_reason = state.kill_reason.take();
        let saved = ending == Ending::Code(SAVED);
        if saved {
            state.saved = done;
        }
        if aside {
            // It begins anew when its turn comes, or is done then.
            state.finished = ending == Ending::Code(0);
            let unsaved = std::mem::take(&mut state.unsaved);
            state.unreported_loss += if state.finished || saved { Duration::ZERO } else { unsaved };
            return;
        }
        match (state.phase, ending) {
            // A job that ends well has ended, even while it was asked to stop.
            (Phase::Running | Phase::Starting | Phase::Stopping { .. }, Ending::Code(0)) => {
                if state.phase == Phase::Starting {
                    self.happens(BackendEvent::Running(id));
                }
                self.end(id, BackendEvent::Ended(id));
            }
            (Phase::Stopping { again, .. }, _) => self.stopped(id, again, saved),
            (_, _) if kill_reason.is_some() => {
                let cause = kill_reason.unwrap_or(Cause::OutOfMemory);
                let lost = self.lose(id);
                self.release(id, BackendEvent::Released { job: id, cause, lost });
            }
            (_, Ending::Code(status)) => self.end(id, BackendEvent::Failed { job: id, status }),
            (_, Ending::Signal(signal)) => self.end(id, BackendEvent::Failed { job: id, status: -signal }),
        }
    }

    /// Settles how long it has progressed since it last saved.
    fn settle(&mut self, id: JobId, saved: bool) {
        let now = self.clock.now();
        let state = &mut self.states[id];
        let ran = state.running_since.take().map_or(Duration::ZERO, |since| now.saturating_since(since));
        state.unsaved += ran;
        if saved {
            state.kept += std::mem::take(&mut state.unsaved);
        }
    }

    /// Time of progress since it last saved, which is lost now.
    fn lose(&mut self, id: JobId) -> Duration {
        self.settle(id, false);
        let state = &mut self.states[id];
        std::mem::take(&mut state.unsaved) + std::mem::take(&mut state.unreported_loss)
    }

    /// A job is over.
    fn end(&mut self, id: JobId, what: BackendEvent) {
        self.leave(id);
        self.states[id].phase = Phase::Over;
        self.happens(what);
    }

    /// A job waits again.
    fn release(&mut self, id: JobId, what: BackendEvent) {
        self.leave(id);
        let state = &mut self.states[id];
        state.phase = Phase::Waiting;
        state.running_since = None;
        state.milli = 1000;
        self.happens(what);
    }

    fn leave(&mut self, id: JobId) {
        self.there.iter_mut().for_each(|there| there.retain(|other| *other != id));
        self.states[id].gpus.clear();
    }

    /// Steps done, in those of the gang that the job asks for.
    fn progress(&self, id: JobId) -> f64 {
        let state = &self.states[id];
        let said = state.process.as_ref().and_then(|process| process.listener.now().step);
        said.unwrap_or(state.saved)
    }

    /// Steps a second, in those of the gang that the job asks for; none: it does not say.
    fn rate(&self, id: JobId) -> Option<f64> {
        self.states[id].process.as_ref()?.listener.now().rate()
    }

    /// Steps a second of a job alone, on so many slots.
    fn rate_alone(&self, id: JobId, gpus: usize) -> Option<f64> {
        let step = crate::replay::step_s(&self.jobs[id], self.setting.tasks[id].steps, gpus as u32);
        (!step.is_nan()).then(|| 1.0 / step)
    }

    fn keep_house(&mut self, now: Instant) {
        for id in JobId::first(self.states.len()) {
            let pace = self.speed(id);
            let state = &mut self.states[id];
            if state.phase == Phase::Running && pace.is_finite() && (pace - state.pace).abs() > 0.02 {
                state.pace = pace;
                self.happens(BackendEvent::Pace { job: id, pace });
            }
        }
        self.enforce_memory();
        if now >= Instant::at(self.setting.limit) && !self.over {
            self.over = true;
            for id in JobId::first(self.states.len()) {
                if self.states[id].process.is_some() {
                    self.note(id, "ended: the run's limit is reached");
                    self.states[id].aside = None;
                    self.dismiss(id);
                }
            }
        }
    }

    /// Whether anything is still to happen by itself.
    fn busy(&self) -> bool {
        !self.events.is_empty()
            || self
                .states
                .iter()
                .any(|state| matches!(state.phase, Phase::Starting | Phase::Running | Phase::Stopping { .. }))
    }
}
