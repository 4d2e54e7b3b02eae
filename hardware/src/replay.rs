//! Recorded runs: what a backend answered, call by call, and a backend that answers so again. Commands to it change
//! nothing; whether they are those of the recording is for the loop to say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::{
    Backend, BackendEvent, Duration, Fleet, GpuId, Instant, Job, JobId, Move, NodeId, PerformanceModel, Sample, Split,
    StopMode, TimedEvent, TypeId,
};

/// What a job showed, in millionths: whole numbers are read as they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The job.
    pub job: JobId,
    /// Progress over progress alone; none: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<u64>,
    /// Seconds left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Steps left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
}

/// One call of a backend.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The instant after it.
    pub now: Instant,
    /// What happened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub happened: Vec<TimedEvent>,
    /// What jobs showed then, where it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<Shown>,
    /// What elastic jobs reported before the next call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<(JobId, Sample)>,
}

/// The calls of a run.
#[derive(Clone, Debug, Default)]
pub struct Steps(Arc<Mutex<Vec<Step>>>);

impl Steps {
    fn with<T>(&self, act: impl FnOnce(&mut Vec<Step>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All of them.
    pub fn take(&self) -> Vec<Step> {
        self.with(std::mem::take)
    }
}

/// Six digits are more than measurements have.
fn known(x: f64) -> Option<u64> {
    (x.is_finite() && x >= 0.0).then(|| libm::rint(x * 1e6) as u64)
}

/// The number again; NaN: unknown.
fn number(millionths: Option<u64>) -> f64 {
    millionths.map_or(f64::NAN, |millionths| millionths as f64 / 1e6)
}

/// A backend, recorded. Between two calls what jobs show does not change: a replay shows policies the same.
pub struct Recorder {
    inner: Box<dyn Backend>,
    steps: Steps,
    /// Those that have started and are not over.
    begun: std::collections::BTreeSet<JobId>,
    shown: BTreeMap<JobId, Shown>,
}

impl Recorder {
    /// Records from now on.
    pub fn new(inner: Box<dyn Backend>) -> (Recorder, Steps) {
        let steps = Steps::default();
        (Recorder { inner, steps: steps.clone(), begun: Default::default(), shown: BTreeMap::new() }, steps)
    }

    fn enter(&mut self, happened: &[TimedEvent]) {
        for TimedEvent { what, .. } in happened {
            if let BackendEvent::Ended(job) | BackendEvent::Failed { job, .. } = what {
                self.begun.remove(job);
            }
        }
        let mut shown = Vec::new();
        for job in &self.begun {
            let (_, steps) = self.inner.steps(*job, TypeId::new(0), 1);
            let (speed, seconds) = (known(self.inner.speed(*job)), known(self.inner.remaining(*job, TypeId::new(0))));
            let now = Shown { job: *job, speed, seconds, steps: known(steps) };
            if self.shown.insert(*job, now) != Some(now) {
                shown.push(now);
            }
        }
        let now = self.inner.now();
        self.steps.with(|steps| steps.push(Step { now, happened: happened.to_vec(), shown, samples: Vec::new() }));
    }

    fn command(&mut self, happened: &mut Vec<TimedEvent>, act: impl FnOnce(&mut dyn Backend, &mut Vec<TimedEvent>)) {
        let mut own = Vec::new();
        act(&mut *self.inner, &mut own);
        self.enter(&own);
        happened.append(&mut own);
    }
}

impl Backend for Recorder {
    fn fleet(&self) -> &Fleet {
        self.inner.fleet()
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn advance(&mut self, until: Option<Instant>, happened: &mut Vec<TimedEvent>) {
        self.command(happened, |inner, happened| inner.advance(until, happened));
    }

    fn start(&mut self, job: JobId, gpus: &[GpuId], split: Option<Split>, happened: &mut Vec<TimedEvent>) {
        self.begun.insert(job);
        self.command(happened, |inner, happened| inner.start(job, gpus, split, happened));
    }

    fn start_on(&mut self, job: JobId, node: NodeId, happened: &mut Vec<TimedEvent>) {
        self.begun.insert(job);
        self.command(happened, |inner, happened| inner.start_on(job, node, happened));
    }

    fn begin_round(&mut self) -> bool {
        self.inner.begin_round()
    }

    fn decided(&mut self) {
        self.inner.decided();
    }

    fn forget(&mut self, job: JobId) {
        self.begun.remove(&job);
        self.inner.forget(job);
    }

    fn reassign(&mut self, moves: Vec<Move>, happened: &mut Vec<TimedEvent>) {
        self.command(happened, |inner, happened| inner.reassign(moves, happened));
    }

    fn set_batch(&mut self, job: JobId, split: Split, happened: &mut Vec<TimedEvent>) {
        self.command(happened, |inner, happened| inner.set_batch(job, split, happened));
    }

    fn stop(&mut self, job: JobId, mode: StopMode, happened: &mut Vec<TimedEvent>) {
        self.command(happened, |inner, happened| inner.stop(job, mode, happened));
    }

    fn throttle(&mut self, job: JobId, milli: u32, happened: &mut Vec<TimedEvent>) {
        self.command(happened, |inner, happened| inner.throttle(job, milli, happened));
    }

    fn sample(&self, job: JobId) -> Option<Sample> {
        let sample = self.inner.sample(job)?;
        self.steps.with(|steps| steps.last_mut().into_iter().for_each(|step| step.samples.push((job, sample))));
        Some(sample)
    }

    fn steps(&self, job: JobId, gpu_type: TypeId, gpus: u32) -> (f64, f64) {
        let (time, left) = self.inner.steps(job, gpu_type, gpus);
        (time, number(self.shown.get(&job).map_or_else(|| known(left), |shown| shown.steps)))
    }

    fn speed(&self, job: JobId) -> f64 {
        number(self.shown.get(&job).and_then(|shown| shown.speed))
    }

    fn alone(&self, job: JobId, gpu_type: TypeId) -> f64 {
        self.inner.alone(job, gpu_type)
    }

    fn pair_speed(&self, gpu_type: TypeId, job: JobId, residents: &[JobId]) -> f64 {
        self.inner.pair_speed(gpu_type, job, residents)
    }

    fn remaining(&self, job: JobId, gpu_type: TypeId) -> f64 {
        let now = || known(self.inner.remaining(job, gpu_type));
        number(self.shown.get(&job).map_or_else(now, |shown| shown.seconds))
    }
}

/// Seconds of a step of the gang that a job asks for, on so many GPUs; NaN: unknown.
pub(crate) fn step_s(job: &Job, steps: u64, gpus: u32) -> f64 {
    if steps == 0 || gpus == 0 || job.work == Duration::ZERO {
        return f64::NAN;
    }
    job.work.as_secs_f64() / steps as f64 * f64::from(job.gpus.max(1)) / f64::from(gpus)
}

/// A recorded run as a backend.
pub struct Replay {
    fleet: Fleet,
    jobs: Arc<[Job]>,
    laws: Arc<PerformanceModel>,
    /// Steps of each job; 0: unknown.
    tasks: Vec<u64>,
    steps: std::vec::IntoIter<Step>,
    now: Instant,
    shown: BTreeMap<JobId, Shown>,
    samples: Vec<(JobId, Sample)>,
    ended: bool,
}

impl Replay {
    /// A recording of these jobs on this fleet.
    pub fn new(
        fleet: Fleet,
        jobs: Arc<[Job]>,
        laws: Arc<PerformanceModel>,
        tasks: Vec<u64>,
        steps: Vec<Step>,
    ) -> Replay {
        let (shown, samples) = (BTreeMap::new(), Vec::new());
        Replay { fleet, jobs, laws, tasks, steps: steps.into_iter(), now: Instant::START, shown, samples, ended: false }
    }

    fn next(&mut self, happened: &mut Vec<TimedEvent>) {
        let Some(step) = self.steps.next() else {
            self.ended = true;
            return;
        };
        self.now = self.now.max(step.now);
        self.shown.extend(step.shown.into_iter().map(|shown| (shown.job, shown)));
        self.samples = step.samples;
        happened.extend(step.happened);
    }

    /// Seconds of a step of the requested gang on so many GPUs.
    fn step_s(&self, job: JobId, gpus: u32) -> f64 {
        step_s(&self.jobs[job], self.tasks.get(job.index()).copied().unwrap_or(0), gpus)
    }
}

impl Backend for Replay {
    fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn advance(&mut self, until: Option<Instant>, happened: &mut Vec<TimedEvent>) {
        let _ = until;
        self.next(happened);
        if self.ended {
            // Whatever was still to come is not in the recording.
            self.now = Instant::END;
        }
    }

    fn start(&mut self, _: JobId, _: &[GpuId], _: Option<Split>, happened: &mut Vec<TimedEvent>) {
        self.next(happened);
    }

    fn start_on(&mut self, _: JobId, _: NodeId, happened: &mut Vec<TimedEvent>) {
        self.next(happened);
    }

    fn reassign(&mut self, _: Vec<Move>, happened: &mut Vec<TimedEvent>) {
        self.next(happened);
    }

    fn set_batch(&mut self, _: JobId, _: Split, happened: &mut Vec<TimedEvent>) {
        self.next(happened);
    }

    fn stop(&mut self, _: JobId, _: StopMode, happened: &mut Vec<TimedEvent>) {
        self.next(happened);
    }

    fn throttle(&mut self, _: JobId, _: u32, happened: &mut Vec<TimedEvent>) {
        self.next(happened);
    }

    fn sample(&self, job: JobId) -> Option<Sample> {
        self.samples.iter().find(|(of, _)| *of == job).map(|(_, sample)| *sample)
    }

    fn steps(&self, job: JobId, _: TypeId, gpus: u32) -> (f64, f64) {
        let whole =
            self.tasks.get(job.index()).copied().filter(|steps| *steps > 0).and_then(|steps| known(steps as f64));
        let left = self.shown.get(&job).map_or(whole, |shown| shown.steps);
        (self.step_s(job, gpus), number(left))
    }

    fn speed(&self, job: JobId) -> f64 {
        number(self.shown.get(&job).and_then(|shown| shown.speed))
    }

    fn alone(&self, job: JobId, gpu_type: TypeId) -> f64 {
        self.laws.speed(&self.fleet, gpu_type, &self.jobs[job])
    }

    fn pair_speed(&self, gpu_type: TypeId, job: JobId, residents: &[JobId]) -> f64 {
        self.laws.pair_speed(gpu_type, job, residents, &self.jobs)
    }

    fn remaining(&self, job: JobId, _: TypeId) -> f64 {
        let gpus = self.jobs[job].gpus;
        let steps = self.tasks.get(job.index()).copied().unwrap_or(0) as f64;
        let whole = || known(steps * self.step_s(job, gpus));
        number(self.shown.get(&job).map_or_else(whole, |shown| shown.seconds))
    }
}
