//! Answers a policy's questions about what is not known yet: with the truth, the truth and an error, or a predictor
//! component's estimate. Answers are remembered, and each is scored against the truth the first time that it is given.

mod score;

use std::collections::BTreeMap;

use sandtable_hardware::random::Stream;
use sandtable_hardware::{Backend, Job, JobId, TypeId, WorkloadId};

use crate::contract::{Quantity, SoloQuantity, Sources, WorkloadProfile};
use crate::fault::Fault;

pub(crate) use score::Errors;
pub use score::{Score, ScoreBin};

/// A predictor, sandboxed or compiled in. Workloads are numbered in the order of their introduction.
pub trait Provider {
    /// Introduces workloads.
    ///
    /// # Errors
    /// Any fault ends the predictor, and the run.
    fn introduce(&mut self, profiles: &[WorkloadProfile]) -> Result<(), Fault>;

    /// A quantity of each workload alone; NaN: unknown.
    ///
    /// # Errors
    /// Any fault ends the predictor, and the run.
    fn estimate(&mut self, what: SoloQuantity, gpu_type: TypeId, workloads: &[u32]) -> Result<Vec<f64>, Fault>;

    /// How likely workloads are to contend, 0 to 1; NaN: unknown.
    ///
    /// # Errors
    /// Any fault ends the predictor, and the run.
    fn similarity(&mut self, gpu_type: TypeId, first: &[u32], second: &[u32]) -> Result<Vec<f64>, Fault>;

    /// Progress of each workload beside residents over its progress alone, 0 to 1; NaN: unknown.
    ///
    /// # Errors
    /// Any fault ends the predictor, and the run.
    fn pair_speed(&mut self, gpu_type: TypeId, job: &[u32], residents: &[Vec<u32>]) -> Result<Vec<f64>, Fault>;

    /// Returns the fuel that it has used since the last call: the policy that asked pays.
    fn spent(&mut self) -> u64 {
        0
    }
}

/// What answers for a quantity.
#[derive(Default)]
pub enum Answerer {
    /// Unbound: every answer is NaN.
    #[default]
    Unbound,
    /// The truth.
    Oracle,
    /// The truth times a log-normal error, drawn once for each question.
    Noisy {
        /// Standard deviation of the error's logarithm.
        sigma: f64,
        /// What the errors are drawn from.
        seed: u64,
    },
    /// A component, and what it is shown of workloads.
    Provider(Box<dyn Provider>, Sources),
}

/// What is asked of a job alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alone {
    Throughput,
    Utilisation,
    Memory,
}

impl Alone {
    pub(crate) fn quantity(self) -> Quantity {
        match self {
            Alone::Throughput => Quantity::Throughput,
            Alone::Utilisation => Quantity::Utilisation,
            Alone::Memory => Quantity::Memory,
        }
    }
}

/// A job and its neighbours, as what can be told apart of them.
pub(crate) type Question = (TypeId, u64, Vec<u64>);

/// Bytes of questions that are remembered of one quantity. Beyond them a question is answered anew each time, which
/// gives the same answer, and is not scored.
const REMEMBERED: usize = 64 << 20;

/// The answers for one quantity: what gives them, and those that were given.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) who: Answerer,
    known: BTreeMap<Question, f64>,
    /// Bytes of what is known.
    remembered: usize,
    /// Fuel that a component has used for the questions of one call.
    pub(crate) spent: u64,
    pub(crate) errors: Errors,
    /// Numbers of the workloads that the component knows.
    introduced: BTreeMap<WorkloadId, u32>,
}

/// What questions are answered from.
pub(crate) struct Facts<'a> {
    pub(crate) jobs: &'a [Job],
    pub(crate) backend: &'a dyn Backend,
    /// Solo profiles by workload.
    pub(crate) profiles: &'a [WorkloadProfile],
    /// Fuel that the policy has left. Once a component has used more, no question reaches it: the policy fails.
    pub(crate) fuel: u64,
}

impl Facts<'_> {
    /// Jobs of one workload are one to a predictor; any other is itself.
    fn key(&self, job: JobId) -> u64 {
        let of = &self.jobs[job];
        // Memory of its own decides which jobs fit beside it: 0 stands for the profile's.
        let memory = of.memory_mib.map_or(0, |mib| u64::from(mib) + 1) << 24;
        match of.workload {
            Some(workload) => memory | u64::from(workload.number()),
            None => (1 << 63) | u64::from(job.number()),
        }
    }

    /// The truth about a job alone.
    fn alone(&self, what: Alone, gpu_type: TypeId, job: JobId) -> f64 {
        let of = &self.jobs[job];
        let profile = of.workload.and_then(|workload| self.profiles.get(workload.index()));
        let at = gpu_type.index();
        match what {
            Alone::Throughput => self.backend.alone(job, gpu_type),
            Alone::Utilisation => {
                profile.and_then(|profile| profile.gpu_utilisation.get(at).copied()).unwrap_or(f64::NAN)
            }
            Alone::Memory => {
                let known = of.memory_mib.or_else(|| profile.and_then(|profile| profile.memory_mib.get(at).copied()));
                known.filter(|mib| *mib > 0).map_or(f64::NAN, f64::from)
            }
        }
    }

    /// The truth, and whether the pair fits into memory: of one that does not, speeds mean nothing to a predictor.
    fn similarity(&self, gpu_type: TypeId, a: JobId, b: JobId) -> (f64, bool) {
        let (one, other) = (self.backend.pair_speed(gpu_type, a, &[b]), self.backend.pair_speed(gpu_type, b, &[a]));
        (1.0 - (one + other) / 2.0, one > 0.0 && other > 0.0)
    }
}

impl Answers {
    pub(crate) fn of(who: Answerer) -> Answers {
        Answers { who, ..Answers::default() }
    }

    pub(crate) fn is_bound(&self) -> bool {
        !matches!(self.who, Answerer::Unbound)
    }

    /// Answers for jobs alone, each on the type beside it.
    pub(crate) fn alone(
        &mut self,
        facts: &Facts<'_>,
        what: Alone,
        jobs: &[JobId],
        types: &[TypeId],
    ) -> Result<Vec<f64>, Fault> {
        if !self.is_bound() {
            return Ok(vec![f64::NAN; jobs.len()]);
        }
        let mut answers = Vec::with_capacity(jobs.len());
        for (job, gpu_type) in jobs.iter().zip(types) {
            let gang = if what == Alone::Throughput { facts.jobs[*job].gpus } else { 1 };
            let question = (*gpu_type, facts.key(*job), vec![u64::from(gang)]);
            let answer = match self.known.get(&question) {
                Some(answer) => *answer,
                None => {
                    let truth = facts.alone(what, *gpu_type, *job);
                    let most = if what == Alone::Utilisation { 1.0 } else { f64::INFINITY };
                    let answer = match &mut self.who {
                        Answerer::Unbound => f64::NAN,
                        Answerer::Oracle => truth,
                        Answerer::Noisy { sigma, seed } => noisy(truth, *sigma, *seed, &format!("{what:?}"), &question),
                        Answerer::Provider(..) => {
                            self.paid(facts, |all| all.ask_alone(facts, what, *gpu_type, *job))?
                        }
                    };
                    self.settle(question, if answer > most { most } else { answer }, truth)
                }
            };
            answers.push(answer);
        }
        Ok(answers)
    }

    fn ask_alone(&mut self, facts: &Facts<'_>, what: Alone, gpu_type: TypeId, job: JobId) -> Result<f64, Fault> {
        let Some(job) = self.number(facts, job)? else { return Ok(f64::NAN) };
        let Answerer::Provider(provider, _) = &mut self.who else { return Ok(f64::NAN) };
        match what {
            Alone::Throughput => Ok(f64::NAN),
            Alone::Utilisation => one(provider.estimate(SoloQuantity::Utilisation, gpu_type, &[job])?, 1.0),
            Alone::Memory => one(provider.estimate(SoloQuantity::Memory, gpu_type, &[job])?, 1e12),
        }
    }

    /// The truth, or the truth with the error of a question, for what changes as time goes on.
    pub(crate) fn of_truth(&self, what: &str, question: &Question, truth: f64) -> f64 {
        match &self.who {
            Answerer::Unbound | Answerer::Provider(..) => f64::NAN,
            Answerer::Oracle => truth,
            Answerer::Noisy { sigma, seed } => noisy(truth, *sigma, *seed, what, question),
        }
    }

    /// Answers for pairs of jobs.
    pub(crate) fn similarity(
        &mut self,
        facts: &Facts<'_>,
        gpu_type: TypeId,
        first: &[JobId],
        second: &[JobId],
    ) -> Result<Vec<f64>, Fault> {
        if !self.is_bound() {
            return Ok(vec![f64::NAN; first.len()]);
        }
        let mut answers = Vec::with_capacity(first.len());
        for (a, b) in first.iter().zip(second) {
            let question = (gpu_type, facts.key(*a), vec![facts.key(*b)]);
            let answer = match self.known.get(&question) {
                Some(answer) => *answer,
                None => {
                    let (truth, fits) = facts.similarity(gpu_type, *a, *b);
                    let answer = match &mut self.who {
                        Answerer::Unbound => f64::NAN,
                        Answerer::Oracle => truth,
                        Answerer::Noisy { sigma, seed } => {
                            noisy(truth, *sigma, *seed, "similarity", &question).min(1.0)
                        }
                        Answerer::Provider(..) => {
                            self.paid(facts, |all| all.ask_similarity(facts, gpu_type, *a, *b))?
                        }
                    };
                    self.settle(question, answer, if fits { truth } else { f64::NAN })
                }
            };
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Answers for jobs beside residents.
    pub(crate) fn pair_speed(
        &mut self,
        facts: &Facts<'_>,
        gpu_type: TypeId,
        jobs: &[JobId],
        residents: &[Vec<JobId>],
    ) -> Result<Vec<f64>, Fault> {
        if !self.is_bound() {
            return Ok(vec![f64::NAN; jobs.len()]);
        }
        let mut answers = Vec::with_capacity(jobs.len());
        for (job, beside) in jobs.iter().zip(residents) {
            let mut keys: Vec<u64> = beside.iter().map(|other| facts.key(*other)).collect();
            keys.sort_unstable();
            let question = (gpu_type, facts.key(*job), keys);
            let answer = match self.known.get(&question) {
                Some(answer) => *answer,
                None => {
                    let truth = facts.backend.pair_speed(gpu_type, *job, beside);
                    let answer = match &mut self.who {
                        Answerer::Unbound => f64::NAN,
                        Answerer::Oracle => truth,
                        Answerer::Noisy { sigma, seed } => {
                            noisy(truth, *sigma, *seed, "pair-speed", &question).min(1.0)
                        }
                        Answerer::Provider(..) => {
                            self.paid(facts, |all| all.ask_pair_speed(facts, gpu_type, *job, beside))?
                        }
                    };
                    self.settle(question, answer, if truth > 0.0 { truth } else { f64::NAN })
                }
            };
            answers.push(answer);
        }
        Ok(answers)
    }

    fn settle(&mut self, question: Question, answer: f64, truth: f64) -> f64 {
        // Only the canonical NaN crosses the border.
        let answer = if answer.is_nan() { f64::NAN } else { answer };
        let bytes = size_of::<(Question, f64)>() + question.2.len() * size_of::<u64>();
        if self.remembered + bytes <= REMEMBERED {
            self.remembered += bytes;
            self.errors.add(answer, truth);
            self.known.insert(question, answer);
        }
        answer
    }

    /// Asks the component, at the policy's cost.
    fn paid(&mut self, facts: &Facts<'_>, ask: impl FnOnce(&mut Answers) -> Result<f64, Fault>) -> Result<f64, Fault> {
        if self.spent > facts.fuel {
            return Ok(f64::NAN);
        }
        let answer = ask(self);
        if let Answerer::Provider(provider, _) = &mut self.who {
            self.spent = self.spent.saturating_add(provider.spent());
        }
        answer
    }

    /// The component's number of a job's workload; none: the job has no workload, or nothing is known of it.
    fn number(&mut self, facts: &Facts<'_>, job: JobId) -> Result<Option<u32>, Fault> {
        let Some(workload) = facts.jobs[job].workload else { return Ok(None) };
        let Some(profile) = facts.profiles.get(workload.index()) else { return Ok(None) };
        if let Some(number) = self.introduced.get(&workload) {
            return Ok(Some(*number));
        }
        let number = self.introduced.len() as u32;
        if let Answerer::Provider(provider, reads) = &mut self.who {
            provider.introduce(&[shown(profile, *reads)])?;
        }
        self.introduced.insert(workload, number);
        Ok(Some(number))
    }

    fn ask_similarity(&mut self, facts: &Facts<'_>, gpu_type: TypeId, a: JobId, b: JobId) -> Result<f64, Fault> {
        let (Some(a), Some(b)) = (self.number(facts, a)?, self.number(facts, b)?) else { return Ok(f64::NAN) };
        let Answerer::Provider(provider, _) = &mut self.who else { return Ok(f64::NAN) };
        one(provider.similarity(gpu_type, &[a], &[b])?, 1.0)
    }

    fn ask_pair_speed(
        &mut self,
        facts: &Facts<'_>,
        gpu_type: TypeId,
        job: JobId,
        residents: &[JobId],
    ) -> Result<f64, Fault> {
        let Some(job) = self.number(facts, job)? else { return Ok(f64::NAN) };
        let mut beside = Vec::new();
        for other in residents {
            let Some(number) = self.number(facts, *other)? else { return Ok(f64::NAN) };
            beside.push(number);
        }
        let Answerer::Provider(provider, _) = &mut self.who else { return Ok(f64::NAN) };
        one(provider.pair_speed(gpu_type, &[job], &[beside])?, 1.0)
    }
}

/// Returns a workload with only the facts that a predictor reads.
pub(crate) fn shown(profile: &WorkloadProfile, reads: Sources) -> WorkloadProfile {
    let mut shown = profile.clone();
    if !reads.contains(Sources::MODEL_FACTS) {
        shown.facts = None;
    }
    if !reads.contains(Sources::SOLO_PROFILE) {
        shown.gpu_utilisation.clear();
        shown.memory_utilisation.clear();
        shown.memory_mib.clear();
        shown.step_time.clear();
        shown.throughput.clear();
        shown.stages.clear();
    }
    shown
}

/// The answer to one question, which must be from 0 to `most`, or NaN.
fn one(answers: Vec<f64>, most: f64) -> Result<f64, Fault> {
    let wrong = |message: String| Fault::BadValue { place: crate::fault::Place::Predict, message };
    match answers.as_slice() {
        [answer] if answer.is_nan() || (0.0..=most).contains(answer) => Ok(*answer),
        [answer] => Err(wrong(format!("expected an answer from 0 to {most}, or NaN, found {answer}"))),
        _ => Err(wrong(format!("1 question, {} answers", answers.len()))),
    }
}

fn noisy(truth: f64, sigma: f64, seed: u64, what: &str, question: &Question) -> f64 {
    let (gpu_type, job, others) = question;
    let others: Vec<String> = others.iter().map(u64::to_string).collect();
    let name = format!("noise/{what}/{gpu_type}/{job}/{}", others.join("+"));
    truth * Stream::new(seed, &name).error_factor(sigma)
}

#[cfg(test)]
mod tests;
