//! What a policy may read while it decides: the cluster, and the answers of the predictors that the experiment binds.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandtable_hardware::random::Stream;
use sandtable_hardware::{Backend, Fleet, Instant, Job, JobId, NodeId, PerformanceModel, Progress, SECOND, TypeId};

use crate::cluster::Cluster;
use crate::contract::{
    Abilities, Action, EpochsOfBatch, Event, Knowledge, NEVER, NO_SLICE, Quantity, Rejection, RemainingChange,
    TrainingEpochs, WorkloadProfile,
};
use crate::fault::Fault;
use crate::introductions::Introductions;
use crate::judge::{Bench, Verdict, judge};
use crate::predict::{Alone, Answerer, Answers, Facts, Score};

/// What answers for the quantity `remaining`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Remaining {
    /// Unbound: every answer is NaN.
    Unbound,
    /// The truth.
    Oracle,
    /// The truth times a log-normal error of mean 1, drawn once for each job: asking twice gives the same error.
    Noisy {
        /// Standard deviation of the error's logarithm.
        sigma: f64,
        /// What the errors are drawn from.
        seed: u64,
    },
    /// What the user declared, less the progress made.
    Declared,
}

/// What answers for each predicted quantity: nothing, where it is not said.
pub struct Predictors {
    remaining: Remaining,
    /// By quantity.
    answerers: [Answerer; Quantity::ALL.len()],
}

impl Predictors {
    /// Binds `remaining`, and nothing else.
    pub fn new(remaining: Remaining) -> Predictors {
        Predictors { remaining, answerers: Default::default() }
    }

    /// Binds a quantity other than `Remaining`, which [`Predictors::new`] binds.
    #[must_use]
    pub fn with(mut self, quantity: Quantity, answerer: Answerer) -> Predictors {
        debug_assert!(quantity != Quantity::Remaining, "`remaining` is bound by `new`");
        self.answerers[quantity as usize] = answerer;
        self
    }
}

impl Default for Predictors {
    fn default() -> Predictors {
        Predictors::new(Remaining::Unbound)
    }
}

/// What a policy is told of jobs.
#[derive(Clone, Default)]
pub struct VisibleInfo {
    /// MiB that each job needs on a GPU; empty: policies are not told.
    pub memory: Arc<[u32]>,
    /// Solo profiles by workload: what predictors are told, and policies where it is revealed.
    pub profiles: Arc<[WorkloadProfile]>,
    /// Whether they are told what jobs have done.
    pub progress: bool,
}

/// The cluster and its machines.
pub struct DecisionContext {
    /// Which job is where.
    pub cluster: Cluster,
    /// The machines.
    pub backend: Box<dyn Backend>,
    /// What the current batch introduces.
    pub introductions: Introductions,
    /// Why actions of the previous plan were refused.
    pub rejections: Vec<Rejection>,
    jobs: Arc<[Job]>,
    laws: Arc<PerformanceModel>,
    told: VisibleInfo,
    bound: Remaining,
    /// Error factors drawn so far.
    noise: Vec<Option<f64>>,
    /// Whose time left has been scored.
    scored: Vec<bool>,
    /// By quantity. `remaining` has errors alone: what answers for it is in `bound`.
    answers: [Answers; Quantity::ALL.len()],
    /// Planned epochs that were asked for.
    planned: BTreeMap<(TypeId, JobId), Vec<EpochsOfBatch>>,
    pub(crate) uses: Abilities,
    /// Whether events say what is left of jobs.
    tells_remaining: bool,
    max_actions: u32,
    /// Fuel that the policy has left for predictions.
    allowance: u64,
}

impl DecisionContext {
    /// Machines at rest and jobs that are still to come.
    pub fn new(
        backend: Box<dyn Backend>,
        (jobs, laws): (Arc<[Job]>, Arc<PerformanceModel>),
        predictors: Predictors,
        told: VisibleInfo,
        max_actions: u32,
    ) -> DecisionContext {
        let cluster = Cluster::new(backend.fleet(), &jobs);
        let bound = predictors.remaining;
        let noise = if matches!(bound, Remaining::Noisy { .. }) { vec![None; jobs.len()] } else { Vec::new() };
        let guessed = matches!(bound, Remaining::Noisy { .. } | Remaining::Declared);
        DecisionContext {
            cluster,
            backend,
            introductions: Introductions::default(),
            rejections: Vec::new(),
            bound,
            noise,
            scored: vec![false; if guessed { jobs.len() } else { 0 }],
            answers: predictors.answerers.map(Answers::of),
            planned: BTreeMap::new(),
            jobs,
            laws,
            told,
            uses: Abilities::empty(),
            tells_remaining: false,
            max_actions,
            allowance: u64::MAX,
        }
    }

    /// The machines.
    pub fn fleet(&self) -> &Fleet {
        self.backend.fleet()
    }

    /// Number of GPUs that no job holds, by node; 0 for a node that is down, or draining as far as the policy is told.
    pub fn free_gpus(&self) -> Vec<u32> {
        let told = self.uses.contains(Abilities::DRAIN);
        let takes = |node: NodeId| self.cluster.up[node] && !(told && self.cluster.draining.contains_key(&node));
        let nodes = NodeId::first(self.cluster.free.len());
        nodes.map(|node| if takes(node) { self.cluster.free[node] } else { 0 }).collect()
    }

    /// Pairs of GPU and job, ascending by GPU and then by job.
    pub fn occupancy(&self) -> (Vec<u32>, Vec<u32>) {
        let there = self.cluster.residents.iter().enumerate();
        there.flat_map(|(gpu, jobs)| jobs.iter().map(move |job| (gpu as u32, job.number()))).unzip()
    }

    /// Pairs of node and job that asks for no GPU, ascending by node and then by job.
    pub fn cpu_jobs(&self) -> (Vec<u32>, Vec<u32>) {
        use crate::cluster::Phase::{Running, Starting};
        let holds = |job: &JobId| matches!(self.cluster.phase[*job], Starting | Running);
        let there = self.cluster.cpu_jobs.iter().filter(|(job, _)| holds(job));
        let mut pairs: Vec<(u32, u32)> = there.map(|(job, node)| (node.number(), job.number())).collect();
        pairs.sort_unstable();
        pairs.into_iter().unzip()
    }

    /// First slices of the parts of GPUs that jobs hold; [`NO_SLICE`] for those that hold none, as for unknown ids.
    pub fn part_slices(&self, jobs: &[JobId]) -> Vec<u32> {
        use crate::cluster::Phase::{Running, Starting};
        let holds = |job: &JobId| matches!(self.cluster.phase.get(job.index()), Some(Starting | Running));
        let of = |job: &JobId| self.cluster.slices.get(job).filter(|_| holds(job));
        jobs.iter().map(|job| of(job).copied().unwrap_or(NO_SLICE)).collect()
    }

    /// Judges without doing anything.
    pub fn check(&mut self, actions: &[Action]) -> Vec<Rejection> {
        let base = self.cluster.seq;
        let verdict = self.judge(base, actions);
        verdict.undo(&mut self.cluster, self.backend.fleet())
    }

    /// Judges, and carries the accepted actions out on the state.
    pub(crate) fn judge(&mut self, base: u64, actions: &[Action]) -> Verdict {
        let bench = Bench {
            fleet: self.backend.fleet(),
            jobs: &self.jobs,
            laws: &self.laws,
            memory: &self.told.memory,
            uses: self.uses,
            max_actions: self.max_actions,
        };
        judge(&bench, &mut self.cluster, base, actions)
    }

    /// Progress of jobs over their progress alone; NaN for those that make none, as for unknown ids.
    pub fn speeds(&self, jobs: &[JobId]) -> Vec<f64> {
        use crate::cluster::Phase;
        let runs = |job: JobId| self.cluster.phase.get(job.index()) == Some(&Phase::Running);
        jobs.iter().map(|job| if runs(*job) { self.backend.speed(*job) } else { f64::NAN }).collect()
    }

    /// The part of their work that jobs have done, and the time of progress, µs, that each would lose if it were killed now; NaN and
    /// [`NEVER`] where that is unknown or not revealed, as for unknown ids.
    pub fn progress(&self, jobs: &[JobId]) -> (Vec<f64>, Vec<u64>) {
        use crate::cluster::Phase;
        let is_known = |job: JobId| {
            self.told.progress && self.cluster.phase.get(job.index()).is_some_and(|phase| *phase != Phase::Future)
        };
        let of = |job: &JobId| if is_known(*job) { self.backend.progress(*job) } else { Progress::UNKNOWN };
        let tell = |progress: Progress| {
            // Only the canonical NaN crosses the border.
            let done = if progress.done.is_nan() { f64::NAN } else { progress.done };
            (done, progress.unsaved.map_or(NEVER, |time| time.as_micros().min(NEVER)))
        };
        jobs.iter().map(of).map(tell).unzip()
    }

    /// Seconds of a step of elastic jobs on so many GPUs of a type, or how many steps each has `left`; NaN where it is
    /// unknown, as for unknown ids.
    pub fn steps(&mut self, left: bool, jobs: &[JobId], types: &[TypeId], gpus: &[u32]) -> Vec<f64> {
        let mut answers = Vec::with_capacity(jobs.len());
        for (at, (job, gpu_type)) in jobs.iter().zip(types).enumerate() {
            let known = self.all_known(*gpu_type, [job].into_iter());
            let gpus = gpus.get(at).copied().or_else(|| self.jobs.get(job.index()).map(|job| job.gpus)).unwrap_or(0);
            let (time, steps) = if known { self.backend.steps(*job, *gpu_type, gpus) } else { (f64::NAN, f64::NAN) };
            let truth = if left { steps } else { time };
            let shape = if left { 0 } else { u64::from(gpus) + 1 };
            let answer = self.answers[Quantity::Steps as usize].of_truth(
                "steps",
                &(*gpu_type, u64::from(job.number()), vec![shape]),
                truth,
            );
            // Only the canonical NaN crosses the border.
            answers.push(if answer.is_nan() { f64::NAN } else { answer });
        }
        answers
    }

    /// The epochs of jobs on GPUs of a type; without any where they are unknown, as for unknown ids.
    pub fn epochs(&mut self, gpu_type: TypeId, jobs: &[JobId]) -> Vec<TrainingEpochs> {
        let is_bound = self.answers[Quantity::Epochs as usize].is_bound();
        let mut told = Vec::with_capacity(jobs.len());
        for job in jobs {
            let known = is_bound && self.all_known(gpu_type, [job].into_iter());
            told.push(match known.then(|| self.backend.epochs_done(*job)).flatten() {
                Some((done, batch)) => {
                    TrainingEpochs { done, batch, planned: self.planned_epochs(*job, gpu_type).to_vec() }
                }
                None => TrainingEpochs::default(),
            });
        }
        told
    }

    /// Rows of planned epochs that an answer about these jobs has.
    pub(crate) fn rows_of_epochs(&mut self, gpu_type: TypeId, jobs: &[JobId]) -> usize {
        let is_bound = self.answers[Quantity::Epochs as usize].is_bound();
        let mut rows = 0;
        for job in jobs.iter().filter(|_| is_bound) {
            if self.all_known(gpu_type, [job].into_iter()) {
                rows += self.planned_epochs(*job, gpu_type).len();
            }
        }
        rows
    }

    /// Walking through the epochs of a job may take long: it is done once.
    fn planned_epochs(&mut self, job: JobId, gpu_type: TypeId) -> &[EpochsOfBatch] {
        let answers = &self.answers[Quantity::Epochs as usize];
        self.planned.entry((gpu_type, job)).or_insert_with(|| {
            // One error for all epochs of a job.
            let question = (gpu_type, u64::from(job.number()), Vec::new());
            let told = |of: sandtable_hardware::EpochsOfBatch| EpochsOfBatch {
                count: of.count,
                batch: of.batch,
                epoch_time: answers.of_truth("epochs", &question, of.epoch_s),
            };
            self.backend.epochs_planned(job, gpu_type).into_iter().map(told).collect()
        })
    }

    /// How likely pairs of jobs are to contend; NaN where it is unknown, as for unknown ids.
    ///
    /// # Errors
    /// A fault of the predictor.
    pub fn similarity(&mut self, gpu_type: TypeId, first: &[JobId], second: &[JobId]) -> Result<Vec<f64>, Fault> {
        if !self.all_known(gpu_type, first.iter().chain(second)) {
            // An unknown job spoils its own answer only.
            let known = |pair: (&JobId, &JobId)| self.all_known(gpu_type, [pair.0, pair.1].into_iter());
            let known: Vec<bool> = first.iter().zip(second).map(known).collect();
            let mut answers = vec![f64::NAN; first.len()];
            for at in (0..first.len()).filter(|at| known[*at]) {
                answers[at] = self.similarity(gpu_type, &first[at..=at], &second[at..=at])?[0];
            }
            return Ok(answers);
        }
        let facts =
            Facts { jobs: &self.jobs, backend: &*self.backend, profiles: &self.told.profiles, fuel: self.allowance };
        let answers = self.answers[Quantity::Similarity as usize].similarity(&facts, gpu_type, first, second);
        answers.map_err(|fault| Fault::of_predictor(Quantity::Similarity, fault))
    }

    /// Progress of jobs beside residents over their progress alone; NaN where it is unknown, as for unknown ids.
    ///
    /// # Errors
    /// A fault of the predictor.
    pub fn pair_speed(
        &mut self,
        gpu_type: TypeId,
        jobs: &[JobId],
        residents: &[Vec<JobId>],
    ) -> Result<Vec<f64>, Fault> {
        if !self.all_known(gpu_type, jobs.iter().chain(residents.iter().flatten())) {
            let known = |(job, beside): (&JobId, &Vec<JobId>)| self.all_known(gpu_type, beside.iter().chain([job]));
            let known: Vec<bool> = jobs.iter().zip(residents).map(known).collect();
            let mut answers = vec![f64::NAN; jobs.len()];
            for at in (0..jobs.len()).filter(|at| known[*at]) {
                answers[at] = self.pair_speed(gpu_type, &jobs[at..=at], &residents[at..=at])?[0];
            }
            return Ok(answers);
        }
        let facts =
            Facts { jobs: &self.jobs, backend: &*self.backend, profiles: &self.told.profiles, fuel: self.allowance };
        let answers = self.answers[Quantity::PairSpeed as usize].pair_speed(&facts, gpu_type, jobs, residents);
        answers.map_err(|fault| Fault::of_predictor(Quantity::PairSpeed, fault))
    }

    /// What is asked of jobs alone, each on the type beside it; NaN where it is unknown, as for unknown ids.
    ///
    /// # Errors
    /// A fault of the predictor.
    pub(crate) fn alone(&mut self, what: Alone, jobs: &[JobId], types: &[TypeId]) -> Result<Vec<f64>, Fault> {
        let mut answers = vec![f64::NAN; jobs.len()];
        for (at, (job, kind)) in jobs.iter().zip(types).enumerate() {
            if !self.all_known(*kind, [job].into_iter()) {
                continue;
            }
            let facts = Facts {
                jobs: &self.jobs,
                backend: &*self.backend,
                profiles: &self.told.profiles,
                fuel: self.allowance,
            };
            let quantity = what.quantity();
            let answer = self.answers[quantity as usize].alone(&facts, what, &[*job], &[*kind]);
            answers[at] = answer.map_err(|fault| Fault::of_predictor(quantity, fault))?[0];
        }
        Ok(answers)
    }

    fn all_known<'a>(&self, gpu_type: TypeId, mut jobs: impl Iterator<Item = &'a JobId>) -> bool {
        use crate::cluster::Phase;
        let known = |job: &JobId| self.cluster.phase.get(job.index()).is_some_and(|phase| *phase != Phase::Future);
        gpu_type.index() < self.fleet().types.len() && jobs.all(known)
    }

    /// MiB that a job needs on a GPU, as policies are told; 0: they are not.
    pub(crate) fn memory_told(&self, job: JobId) -> u32 {
        self.told.memory.get(job.index()).copied().unwrap_or(0)
    }

    /// The policy that decides from now on may do and needs this.
    pub(crate) fn serve(&mut self, uses: Abilities, needs: Knowledge) {
        self.uses = uses;
        self.tells_remaining =
            needs.contains(Knowledge::REMAINING) && self.bound().contains(Knowledge::REMAINING_IN_EVENTS);
    }

    /// Tells that what is left of a job changed, if events say it.
    pub(crate) fn remaining_change(&mut self, job: JobId, at: Instant) -> Option<Event> {
        let (job, at, remaining) = (job.number(), at.as_micros(), self.remaining_told(job));
        self.tells_remaining.then_some(Event::RemainingChanged(RemainingChange { job, at, remaining }))
    }

    /// Sets the fuel that the policy has left for predictions.
    pub(crate) fn allow(&mut self, fuel: u64) {
        self.allowance = fuel;
    }

    /// Fuel that components have used for answers since this was asked last.
    pub(crate) fn spent(&mut self) -> u64 {
        self.answers.iter_mut().map(|answers| std::mem::take(&mut answers.spent)).fold(0, u64::saturating_add)
    }

    /// Returns what a policy may ask for, the quantities that are bound, and whether events say what is left of jobs.
    pub(crate) fn bound(&self) -> Knowledge {
        let is_bound = |quantity: &Quantity| match quantity {
            Quantity::Remaining => self.bound != Remaining::Unbound,
            other => self.answers[*other as usize].is_bound(),
        };
        let exact = matches!(self.bound, Remaining::Oracle | Remaining::Declared) && self.backend.remaining_is_steady();
        let in_events = if exact { Knowledge::REMAINING_IN_EVENTS } else { Knowledge::empty() };
        Quantity::ALL.into_iter().filter(is_bound).fold(in_events, |all, quantity| all | quantity.knowledge())
    }

    /// How good the answers were, by quantity.
    pub fn scores(&self) -> Vec<Score> {
        let all = Quantity::ALL.into_iter().zip(&self.answers);
        all.filter_map(|(quantity, answers)| answers.errors.score(quantity)).collect()
    }

    /// Seconds left of each job on the type beside it; NaN where it is unknown, as for unknown ids.
    pub fn remaining(&mut self, jobs: &[JobId], types: &[TypeId]) -> Vec<f64> {
        jobs.iter().zip(types).map(|(job, gpu_type)| self.remaining_of(*job, *gpu_type)).collect()
    }

    /// What is left of a job, as events tell it: on the GPUs that it holds, else on the first type that it allows, rounded
    /// to microseconds; [`NEVER`] where it is unknown.
    pub(crate) fn remaining_told(&mut self, job: JobId) -> u64 {
        use crate::cluster::Phase;
        if !self.tells_remaining {
            return NEVER;
        }
        let holds = matches!(self.cluster.phase[job], Phase::Starting | Phase::Running);
        let held = self.cluster.held[job].first().filter(|_| holds);
        let allowed = || self.jobs[job].gpu_types.first().copied().unwrap_or(TypeId::new(0));
        let gpu_type = held.map_or_else(allowed, |gpu| self.fleet().type_of(*gpu));
        let micros = (self.remaining_of(job, gpu_type) * SECOND.as_micros_f64()).round();
        // Also where it is NaN.
        if micros < NEVER as f64 { micros as u64 } else { NEVER }
    }

    fn remaining_of(&mut self, job: JobId, gpu_type: TypeId) -> f64 {
        use crate::cluster::Phase;
        let phase = self.cluster.phase.get(job.index()).copied().unwrap_or(Phase::Future);
        if phase == Phase::Future || gpu_type.index() >= self.fleet().types.len() {
            return f64::NAN;
        }
        let left = match self.bound {
            Remaining::Unbound => f64::NAN,
            Remaining::Oracle => self.backend.remaining(job, gpu_type),
            Remaining::Noisy { sigma, seed } => {
                let factor = *self.noise[job]
                    .get_or_insert_with(|| Stream::new(seed, &format!("noise/remaining/{job}")).error_factor(sigma));
                self.backend.remaining(job, gpu_type) * factor
            }
            Remaining::Declared => match self.jobs[job].declared {
                Some(declared) => {
                    let speed = self.backend.alone(job, gpu_type);
                    let whole = self.jobs[job].work.as_micros_f64() / speed / SECOND.as_micros_f64();
                    let said = declared.as_micros_f64() / speed / SECOND.as_micros_f64();
                    (said - (whole - self.backend.remaining(job, gpu_type))).max(0.0)
                }
                None => f64::NAN,
            },
        };
        if let Some(scored) = self.scored.get_mut(job.index())
            && !std::mem::replace(scored, true)
        {
            self.answers[Quantity::Remaining as usize].errors.add(left, self.backend.remaining(job, gpu_type));
        }
        // Only the canonical NaN crosses the border.
        if left.is_nan() { f64::NAN } else { left }
    }
}
