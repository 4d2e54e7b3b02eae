//! The performance model of one fleet: interference, memory and the cost of communication, as its profile says.
//!
//! One rule joins all laws of interference: a job's slowdown is 1 plus the extra time that each other job on the GPU
//! inflicts on it. For `S × A` that is the fitted law itself; that extra times of more than two jobs add up is an
//! assumption (there are no data).

use std::collections::BTreeMap;
use std::sync::Arc;

use sandtable_stages::{Step, measured, period};
use serde::Serialize;

use crate::profile::{GpuProfile, Profile, Ring, ShareMode};
use crate::random::Stream;
use crate::rates::DurationsOn;
use crate::regime::{First, Regime};
use crate::stages::Stages;
use crate::{Elastic, Fleet, GpuId, Job, JobId, Sharing, TypeId, WorkloadId};

/// Where extra times come from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum InterferenceModel {
    /// The measured pair where there is one, else fitted `S × A`, else the utilisations.
    Profile,
    /// Fitted `S × A` alone.
    Fitted,
    /// `1 + k u_i u_j` of the utilisations alone, with one parameter (ours).
    Utilisation(f64),
    /// This much extra time as soon as a GPU is shared (what Horus' simulator intended: 0.2).
    Constant(f64),
    /// Jobs take turns at CPUs, GPUs and the network ([`Stages`]).
    Stages,
    /// No interference.
    None,
}

/// How jobs on one GPU slow each other down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interference {
    /// Where extra times come from.
    pub law: InterferenceModel,
    /// How GPUs are shared.
    pub mode: ShareMode,
    /// What extra times are multiplied by; 1 is as measured.
    pub scale: f64,
    /// Whether each pair gets an error of the profile's spread, drawn from the seed.
    pub noise: bool,
}

impl Interference {
    /// No interference.
    pub const NONE: Interference =
        Interference { law: InterferenceModel::None, mode: ShareMode::TimeSlice, scale: 1.0, noise: false };
}

/// What exchanging gradients costs beyond the profile's sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Communication {
    /// φ: the part of a step's computation that hides communication, 0 to 1.
    pub overlap: f64,
    /// α: seconds of latency of each exchange.
    pub latency: f64,
}

impl Default for Communication {
    fn default() -> Communication {
        Communication { overlap: 0.5, latency: 20e-6 }
    }
}

/// Why a profile does not hold on a fleet.
#[expect(missing_docs, reason = "the texts of the cases say what their fields are")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LawError {
    #[error("the profile has no figures for {kind} shared by {mode:?}: it has {known}")]
    NoKind { kind: String, mode: ShareMode, known: String },
    #[error("{kind}: the profile has no throughput of {workload} there, but it has on {other}")]
    NoThroughput { kind: String, workload: String, other: String },
    #[error("{workload} does not run on {kind}, on which durations are to hold")]
    NoBase { kind: String, workload: String },
    #[error("the profile does not say what a step of {workload} takes: it has no `stages`")]
    NoStages { workload: String },
    #[error("{kind}: the profile has no speed of {first} beside {second}, and no {lacking} to work one out")]
    NoPair { kind: String, first: String, second: String, lacking: &'static str },
}

/// k of `1 / (1 + k u_i u_j)` where a measured profile lacks a pair: least squares on 2,458 speeds measured on an
/// RTX 3090 (Lucid, Hu et al., ASPLOS 2023; non-commercial, not shipped; 0.449, mean absolute error 0.058).
const UTILISATION: f64 = 0.45;

#[derive(Clone)]
pub(crate) struct OnType {
    pub(crate) kind: String,
    /// Extra time of row i beside column j, over its time alone; infinite: out of memory.
    extra: Vec<f64>,
    /// MiB by workload; 0: not known.
    memory: Vec<u32>,
    utilisation: Vec<f64>,
    step: Vec<f64>,
    /// Samples a second by gang size, by workload.
    pub(crate) throughput: Vec<BTreeMap<u32, f64>>,
}

/// A profile on a fleet. Cheap to share between runs.
pub struct PerformanceModel {
    pub(crate) profile: Option<Arc<Profile>>,
    interference: Interference,
    communication: Communication,
    pub(crate) types: Vec<OnType>,
    pub(crate) base: DurationsOn,
}

impl PerformanceModel {
    /// No interference; memory use is what each job declares.
    pub fn none() -> PerformanceModel {
        PerformanceModel {
            profile: None,
            interference: Interference::NONE,
            communication: Communication::default(),
            types: Vec::new(),
            base: DurationsOn::Mean,
        }
    }

    /// Laws that need no profile: none, or the constant one.
    pub fn without_profile(interference: Interference) -> PerformanceModel {
        PerformanceModel { interference, ..PerformanceModel::none() }
    }

    /// The laws of a profile on a fleet, for jobs of these workloads.
    ///
    /// # Errors
    /// A type of GPU or a pair of workloads that the profile says nothing about.
    pub fn new(
        profile: Arc<Profile>,
        fleet: &Fleet,
        used: &[WorkloadId],
        interference: Interference,
        communication: Communication,
    ) -> Result<PerformanceModel, LawError> {
        let mut types = Vec::new();
        for kind in &fleet.types {
            let gpu = profile.gpu(&kind.name, interference.mode).ok_or_else(|| {
                let known: Vec<String> =
                    profile.gpus.iter().map(|gpu| format!("{} ({:?})", gpu.kind, gpu.mode)).collect();
                LawError::NoKind { kind: kind.name.clone(), mode: interference.mode, known: known.join(", ") }
            })?;
            // Slots of a device have their parts of its memory.
            let memory = kind.memory_mib.saturating_mul(fleet.slots);
            types.push(on_type(&profile, gpu, memory, used, &interference)?);
        }
        let lacking = used.iter().map(|id| &profile.workloads[*id]).find(|workload| workload.stages.is_empty());
        if let Some(workload) = lacking.filter(|_| interference.law == InterferenceModel::Stages) {
            return Err(LawError::NoStages { workload: workload.name.clone() });
        }
        for id in used {
            let at = id.index();
            let Some(other) = types.iter().find(|of| !of.throughput[at].is_empty()) else { continue };
            if let Some(lacking) = types.iter().find(|of| of.throughput[at].is_empty()) {
                let (kind, other) = (lacking.kind.clone(), other.kind.clone());
                return Err(LawError::NoThroughput { kind, workload: profile.workloads[at].name.clone(), other });
            }
        }
        let base = DurationsOn::Mean;
        Ok(PerformanceModel { profile: Some(profile), interference, communication, types, base })
    }

    /// The same laws with the errors of a seed, where they are asked for.
    pub fn under(&self, seed: u64) -> PerformanceModel {
        let count = self.workloads();
        let mut types = Vec::new();
        for (index, of) in self.types.iter().enumerate() {
            let mut of = of.clone();
            let extra = &mut of.extra;
            if self.interference.noise
                && let Some(gpu) = self.profile.as_ref().and_then(|profile| self.table(profile, index))
            {
                for (i, j) in (0..count).flat_map(|i| (i..count).map(move |j| (i, j))) {
                    let z = Stream::new(seed, &format!("interference/{}/{i}/{j}", gpu.kind)).normal();
                    extra[i * count + j] = noisy(extra[i * count + j], &gpu.noise, z);
                    if i != j {
                        extra[j * count + i] = noisy(extra[j * count + i], &gpu.noise, z);
                    }
                }
            }
            types.push(of);
        }
        PerformanceModel {
            profile: self.profile.clone(),
            interference: self.interference,
            communication: self.communication,
            types,
            base: self.base.clone(),
        }
    }

    /// The profile, if there is one.
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_deref()
    }

    /// How a job behaves with more or fewer GPUs, if it is elastic.
    pub fn elastic(&self, job: &Job) -> Option<&Elastic> {
        job.batch?;
        self.profile.as_ref()?.workloads[job.workload?].elastic.as_ref()
    }

    /// How the batch of a job changes while it trains, if its workload has a regime, and what it asks for.
    pub fn regime(&self, job: &Job) -> Option<(&Regime, First)> {
        let first = First { gpus: job.gpus, batch: job.batch? };
        Some((self.profile.as_ref()?.workloads[job.workload?].regime.as_ref()?, first))
    }

    /// Seconds that a job takes alone on a GPU of speed 1, as it is planned: where it changes its batch, epoch by epoch.
    pub fn planned_s(&self, job: &Job) -> f64 {
        let work = job.work.as_secs_f64();
        let of_regime =
            |(regime, first): (&Regime, First)| Some(regime.alone_s(first, regime.steps(first, work)? as u64));
        self.regime(job).and_then(of_regime).unwrap_or(work)
    }

    /// What was measured on the fleet's types, in their order.
    pub fn tables(&self) -> Vec<&GpuProfile> {
        let Some(profile) = &self.profile else { return Vec::new() };
        (0..self.types.len()).filter_map(|index| self.table(profile, index)).collect()
    }

    fn table<'a>(&self, profile: &'a Profile, index: usize) -> Option<&'a GpuProfile> {
        profile.gpu(&self.types[index].kind, self.interference.mode)
    }

    fn workloads(&self) -> usize {
        self.profile.as_ref().map_or(0, |profile| profile.workloads.len())
    }

    /// MiB that a job takes on each GPU of a type; 0: not known.
    pub fn memory(&self, gpu_type: TypeId, job: &Job) -> u32 {
        let of_profile = || Some(self.types.get(gpu_type.index())?.memory[job.workload?]);
        job.memory_mib.or_else(of_profile).unwrap_or(0)
    }

    /// The types of a fleet that a job may be put on, by what it allows and by what their memory takes; all of them
    /// take the memory that the job needs on the one where it needs the most. Empty: none does.
    pub fn fitting(&self, fleet: &Fleet, job: &Job) -> Vec<TypeId> {
        let capacity = |kind: TypeId| match fleet.memory_for(kind, job) {
            0 => u32::MAX,
            mib => mib,
        };
        let allowed = |kind: &TypeId| job.gpu_types.is_empty() || job.gpu_types.contains(kind);
        let runs = |kind: &TypeId| self.throughput(*kind, job).is_none_or(|rate| rate > 0.0);
        let alone = |kind: &TypeId| self.memory(*kind, job) <= capacity(*kind) && runs(kind);
        let mut types: Vec<TypeId> = TypeId::first(fleet.types.len()).filter(allowed).filter(alone).collect();
        let most = types.iter().map(|kind| self.memory(*kind, job)).max().unwrap_or(0);
        types.retain(|kind| most <= capacity(*kind));
        types
    }

    /// GPU utilisation of a job alone, 0 to 1; NaN: not known.
    pub fn utilisation(&self, gpu_type: TypeId, job: &Job) -> f64 {
        let of_profile = || Some(self.types.get(gpu_type.index())?.utilisation[job.workload?]);
        of_profile().unwrap_or(f64::NAN)
    }

    /// What a step of a job takes, if its profile says.
    pub fn stages(&self, job: &Job) -> Option<&Stages> {
        self.profile.as_ref()?.workloads[job.workload?].stages(job.gpus)
    }

    /// The stages of a job, where jobs take turns at them.
    pub(crate) fn turns(&self, job: &Job) -> Option<&Stages> {
        self.stages(job).filter(|_| self.interference.law == InterferenceModel::Stages)
    }

    /// Extra time that `other` inflicts on `job`, over its time alone; infinite: they run out of memory.
    pub(crate) fn extra(&self, gpu_type: TypeId, job: &Job, other: &Job) -> f64 {
        let between = || {
            let count = self.workloads();
            let (i, j) = (job.workload?.index(), other.workload?.index());
            Some(self.types.get(gpu_type.index())?.extra[i * count + j])
        };
        between().unwrap_or(0.0)
    }

    /// Progress of a job on a GPU beside residents, over its progress alone.
    pub(crate) fn pair_speed(&self, gpu_type: TypeId, job: JobId, residents: &[JobId], jobs: &[Job]) -> f64 {
        let others = residents.iter().filter(|other| **other != job).map(|other| (&jobs[*other], 1.0));
        beside(self, gpu_type, &jobs[job], others)
    }

    /// The extra time of any shared GPU, under the constant law.
    pub(crate) fn constant(&self) -> Option<f64> {
        match self.interference.law {
            InterferenceModel::Constant(extra) => Some(extra * self.interference.scale),
            _ => None,
        }
    }

    /// Progress at interference `p` on these GPUs, over progress alone at the best place of the same fleet: what a
    /// step takes there over what it takes here.
    pub(crate) fn scaling(&self, fleet: &Fleet, job: &Job, gpus: &[GpuId], p: f64) -> f64 {
        let Some(links) = fleet.links.as_ref().filter(|_| job.gpus > 1) else { return p };
        let known = || {
            let profile = self.profile.as_ref()?;
            let workload = &profile.workloads[job.workload?];
            let step = self.types.get(fleet.type_of(gpus[0]).index())?.step[job.workload?];
            Some((workload.gradient_mb? / 1000.0, workload.communication, step)).filter(|_| step > 0.0)
        };
        let Some((gradient, ring, step)) = known() else { return p };
        let node = &fleet.nodes[fleet.node_of(gpus[0])];
        let (size, first) = (node.gpus, node.first_gpu);
        let one_node = gpus.iter().all(|gpu| fleet.node_of(*gpu) == fleet.node_of(gpus[0]));
        let here = if one_node {
            let mut local: Vec<usize> = gpus.iter().map(|gpu| gpu.index() - first.index()).collect();
            local.sort_unstable();
            narrowest(&links.within, size as usize, &local, ring)
        } else {
            links.network
        };
        let inside = if job.gpus <= size { widest(&links.within, size, job.gpus, ring) } else { 0.0 };
        let best = inside.max(links.network);
        self.step(best, step, 1.0, gradient, ring, job.gpus) / self.step(here, step, p, gradient, ring, job.gpus)
    }

    /// Seconds of a step (Geng et al. 2020, our reconstruction): computation, and the communication that it does not
    /// hide.
    fn step(&self, bandwidth: f64, alone: f64, p: f64, gradient: f64, ring: Ring, gpus: u32) -> f64 {
        let (compute, k) = (alone / p, f64::from(gpus));
        let alpha = self.communication.latency;
        let exchange = match ring {
            Ring::Ring => 2.0 * (k - 1.0) / k * gradient / bandwidth + 2.0 * (k - 1.0) * alpha,
            Ring::ParameterServer => 2.0 * gradient * (k - 1.0) / bandwidth + 2.0 * alpha,
        };
        let exchange = if gradient > 0.0 { exchange } else { 0.0 };
        compute + (exchange - self.communication.overlap * compute).max(0.0)
    }
}

fn noisy(extra: f64, bounds: &[(f64, f64)], z: f64) -> f64 {
    if !extra.is_finite() {
        return extra;
    }
    let speed = 1.0 / (1.0 + extra);
    let spread = bounds.iter().find(|(below, _)| speed < *below).or(bounds.last()).map_or(0.0, |(_, spread)| *spread);
    1.0 / (speed * libm::exp(spread * z)).min(1.0) - 1.0
}

/// The bandwidth that a gang on these GPUs of a node has: the slowest link of its ring, or of its server.
fn narrowest(within: &[f64], size: usize, gpus: &[usize], ring: Ring) -> f64 {
    let links = gpus.iter().enumerate().flat_map(|(index, a)| gpus[..index].iter().map(move |b| (*a, *b)));
    let counts = |(_, b): &(usize, usize)| ring == Ring::Ring || *b == gpus[0];
    links.filter(counts).map(|(a, b)| within[a * size + b]).fold(f64::INFINITY, f64::min)
}

/// The best bandwidth that a gang of `count` can have on a node. Beyond 20,000 choices only runs of neighbours are
/// looked at, which is where links are fast.
fn widest(within: &[f64], size: u32, count: u32, ring: Ring) -> f64 {
    let (size, count) = (size as usize, count as usize);
    let choices = (0..count).fold(1.0, |n, i| n * (size - i) as f64 / (i + 1) as f64);
    if choices > 20_000.0 {
        let runs = (0..=size - count).map(|first| (first..first + count).collect::<Vec<_>>());
        return runs.map(|run| narrowest(within, size, &run, ring)).fold(0.0, f64::max);
    }
    let mut chosen: Vec<usize> = (0..count).collect();
    let mut best = 0.0f64;
    loop {
        best = best.max(narrowest(within, size, &chosen, ring));
        let Some(at) = (0..count).rev().find(|at| chosen[*at] < size - count + at) else { return best };
        chosen[at] += 1;
        for next in at + 1..count {
            chosen[next] = chosen[next - 1] + 1;
        }
    }
}

fn on_type(
    profile: &Profile,
    gpu: &GpuProfile,
    capacity: u32,
    used: &[WorkloadId],
    interference: &Interference,
) -> Result<OnType, LawError> {
    let count = profile.workloads.len();
    let solo: Vec<_> =
        profile.workloads.iter().map(|workload| gpu.solo.get(&workload.name).cloned().unwrap_or_default()).collect();
    let mut measured = vec![None; count * count];
    for crate::Pair(first, second, one, other) in &gpu.pairs {
        if let Some((i, j)) = profile.id(first).zip(profile.id(second)) {
            let (i, j) = (i.index(), j.index());
            measured[i * count + j] = one.or(measured[i * count + j]);
            // A workload beside itself has two halves: their mean.
            measured[j * count + i] = match (i == j, one, other) {
                (true, Some(one), Some(other)) => Some((one + other) / 2.0),
                _ => other.or(measured[j * count + i]),
            };
        }
    }
    let kappa = gpu.measured.as_ref().map_or(UTILISATION, |measured| f64::from(measured.kappa) / 1000.0);
    let mut extra = vec![0.0; count * count];
    for (i, j) in (0..count).flat_map(|i| (0..count).map(move |j| (i, j))) {
        let fitted = || Some(solo[i].sensitivity? * solo[j].aggressiveness?);
        let utilised = |k: f64| Some(k * solo[i].utilisation? * solo[j].utilisation?);
        let speed =
            measured[i * count + j].map(|speed: f64| if speed > 0.0 { 1.0 / speed - 1.0 } else { f64::INFINITY });
        let (found, lacking) = match interference.law {
            InterferenceModel::None | InterferenceModel::Constant(_) | InterferenceModel::Stages => (Some(0.0), ""),
            InterferenceModel::Utilisation(k) => (utilised(k), "utilisation"),
            InterferenceModel::Fitted => (fitted(), "sensitivity and aggressiveness"),
            InterferenceModel::Profile => {
                (speed.or_else(fitted).or_else(|| utilised(kappa)), "sensitivity, aggressiveness or utilisation")
            }
        };
        // Two that can't be on one GPU together need no speed.
        let memory = solo[i].memory_mib.unwrap_or(0).saturating_add(solo[j].memory_mib.unwrap_or(0));
        let fits = capacity == 0 || memory <= capacity;
        let needed = fits && used.contains(&WorkloadId::at(i)) && used.contains(&WorkloadId::at(j));
        extra[i * count + j] = match found {
            // Out of memory stays out of memory at any scale.
            Some(found) if found.is_infinite() => found,
            Some(found) => found * interference.scale,
            None if !needed => 0.0,
            None => {
                let name = |i: usize| profile.workloads[i].name.clone();
                let kind = gpu.kind.clone();
                return Err(LawError::NoPair { kind, first: name(i), second: name(j), lacking });
            }
        };
    }
    Ok(OnType {
        kind: gpu.kind.clone(),
        extra,
        memory: solo.iter().map(|solo| solo.memory_mib.unwrap_or(0)).collect(),
        utilisation: solo.iter().map(|solo| solo.utilisation.unwrap_or(f64::NAN)).collect(),
        step: solo.iter().map(|solo| solo.step_s.unwrap_or(0.0)).collect(),
        throughput: solo.iter().map(|solo| solo.throughput.clone()).collect(),
    })
}

/// Progress of a job beside others over its progress alone: the extra times add up, but of jobs that take turns. 0: out of memory.
pub(crate) fn beside<'a>(
    laws: &PerformanceModel,
    gpu_type: TypeId,
    job: &Job,
    others: impl Iterator<Item = (&'a Job, f64)>,
) -> f64 {
    if let Some(own) = laws.turns(job) {
        let mut all = vec![own];
        all.extend(others.filter_map(|(other, _)| laws.turns(other)));
        let steps: Vec<Step<'_>> = all.into_iter().map(Stages::step).collect();
        return measured(1) * own.step_s / (measured(steps.len()) * period(&steps));
    }
    let (mut extra, mut shared) = (0.0, false);
    for (other, throttle) in others {
        extra += laws.extra(gpu_type, job, other) * throttle;
        shared = true;
    }
    if let Some(constant) = laws.constant().filter(|_| shared) {
        extra = constant;
    }
    1.0 / (1.0 + extra)
}

/// Whether these jobs run out of a GPU's memory: together, or two of them as measured.
pub(crate) fn out_of_memory(
    laws: &PerformanceModel,
    fleet: &Fleet,
    gpu_type: TypeId,
    jobs: &[Job],
    there: &[JobId],
) -> bool {
    if fleet.sharing == Sharing::Parts {
        // Each job has the memory of its part, which is enough for it.
        return false;
    }
    let capacity = fleet.types[gpu_type].memory_mib;
    let job = |id: JobId| &jobs[id];
    let total: u64 = there.iter().map(|id| u64::from(laws.memory(gpu_type, job(*id)))).sum();
    let collide = |a: JobId, b: JobId| a != b && laws.extra(gpu_type, job(a), job(b)).is_infinite();
    capacity > 0 && total > u64::from(capacity) || there.iter().any(|a| there.iter().any(|b| collide(*a, *b)))
}
