//! What workloads do alone and beside each other, on each type of GPU. Files are RON, every table with its source;
//! [`PerformanceModel`](crate::PerformanceModel) says what a profile means on a fleet.
//!
//! # Format
//! `Profile(about, workloads: [Workload(…)], gpus: [Gpu(…)])`, a `Gpu` being `(kind, mode, sources, noise, solo: {name:
//! Solo(…)}, pairs: […])`. A workload may name a `model`, whose facts the reader of the file fills in. A number that was not
//! measured is left out. Speeds are progress beside others over progress alone, 0 to 1; a pair that ran out of memory has the
//! speed 0 for both.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Duration, Elastic, ModelFacts, Regime, Stages, WorkloadId};

/// Workloads and what was measured of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it is, in a line.
    pub about: String,
    /// What jobs may be.
    pub workloads: Vec<Workload>,
    /// One for each type of GPU and way of sharing it.
    pub gpus: Vec<GpuProfile>,
}

/// How the tasks of a gang exchange gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ring {
    /// All-reduce over a ring: the slowest link counts.
    #[default]
    Ring,
    /// Over a parameter server on the gang's first GPU.
    ParameterServer,
}

/// One thing that jobs do: a model, a batch size, a precision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// How jobs name it.
    pub name: String,
    /// Workloads of one family share a model architecture.
    pub family: String,
    /// Batch size on each GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<f64>,
    /// Whether it computes in mixed precision.
    #[serde(default, skip_serializing_if = "is_false")]
    pub mixed_precision: bool,
    /// Gradients exchanged in a step, MB (10^6 bytes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient_mb: Option<f64>,
    /// How they are exchanged.
    #[serde(default)]
    pub communication: Ring,
    /// A model of the catalogue, or a path that ends in `.onnx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What its computation graph shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<ModelFacts>,
    /// How its jobs behave with more or fewer GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic: Option<Elastic>,
    /// How the batch of its jobs changes while they train.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regime: Option<Regime>,
    /// What a step of a gang takes, by its size.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<u32, Stages>,
}

impl Workload {
    /// What a step of a gang takes; of a size that is not there, as of the next smaller one, or else of the smallest.
    pub fn stages(&self, gpus: u32) -> Option<&Stages> {
        let of = self.stages.range(..=gpus).next_back().or_else(|| self.stages.first_key_value());
        of.map(|(_, stages)| stages)
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// How several jobs use one GPU: different laws, never mixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShareMode {
    /// Kernels of different processes take turns.
    #[default]
    TimeSlice,
    /// Kernels run beside each other (MPS).
    Mps,
}

/// What was measured on one type of GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Gpu", deny_unknown_fields)]
pub struct GpuProfile {
    /// The type's name in the catalogue.
    pub kind: String,
    /// How it was shared.
    #[serde(default)]
    pub mode: ShareMode,
    /// Where each column comes from.
    pub sources: BTreeMap<String, String>,
    /// Spread of the logarithm of a speed, by speeds below a bound, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noise: Vec<(f64, f64)>,
    /// By workload.
    pub solo: BTreeMap<String, Solo>,
    /// Measured pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
    /// How our own harness measured them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

/// A measurement of our own: on what, how, and every cell of it. Times in µs, rates in thousandths of a step a second,
/// speeds in ten-thousandths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The device, driver and clocks.
    pub machine: BTreeMap<String, String>,
    /// blake3 of the kernels' source.
    pub kernels: String,
    /// Each cell was left alone for so long, then measured for so long.
    pub settle: Duration,
    /// As above.
    pub measure: Duration,
    /// What the order of the cells was drawn from.
    pub seed: u64,
    /// From the start of a process to its first step.
    pub start: Duration,
    /// From the wish that it saves to its end.
    pub save: Duration,
    /// κ of `1/(1 + κ u v)`, fitted to the pairs, for pairs that were not measured; thousandths.
    pub kappa: u32,
    /// Mean absolute error of a speed under that law; ten-thousandths.
    pub law_mae: u32,
    /// The same of the fifth of the pairs that was left out of the fit.
    pub held_out_mae: u32,
    /// The largest difference between two measurements of one pair.
    pub repeat_difference: u32,
    /// In the order in which they were measured.
    pub cells: Vec<MeasuredCell>,
}

/// One measured set of jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredCell {
    /// What ran.
    pub of: Vec<String>,
    /// Median rate of each.
    pub rates: Vec<u64>,
    /// Median absolute deviation of each.
    pub mad: Vec<u64>,
    /// Windows of each.
    pub windows: Vec<u32>,
    /// Mean power, mW.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_mw: Option<u32>,
    /// Means of the fine metrics, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fine: BTreeMap<String, u64>,
    /// What casts doubt on it: `throttled`, `drift`, `silent`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

/// One workload on one type of GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Solo {
    /// Seconds of a step, alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_s: Option<f64>,
    /// GPU utilisation alone, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// Utilisation of the memory's bandwidth alone, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_utilisation: Option<f64>,
    /// Device memory, MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u32>,
    /// S: extra time suffered for each unit of aggressiveness beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<f64>,
    /// A: extra time inflicted on a workload of sensitivity 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggressiveness: Option<f64>,
    /// Samples a second, alone, with so many GPUs of one node; 0: it does not run there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub throughput: BTreeMap<u32, f64>,
}

/// Two workloads on one GPU: (first, second, speed of the first, speed of the second).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair(pub String, pub String, pub Option<f64>, pub Option<f64>);

/// What is wrong with a profile.
#[expect(missing_docs, reason = "the texts of the cases say what their fields are")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    #[error("a profile needs at least one workload and one GPU")]
    Empty,
    #[error("two workloads are called {0:?}")]
    Twice(String),
    #[error("{kind}: no workload {name:?}{near}")]
    Unknown { kind: String, name: String, near: String },
    #[error("{kind}, {name}: {what} must be {expected}, found {found}")]
    Number { kind: String, name: String, what: &'static str, expected: &'static str, found: f64 },
    #[error("{0} is there twice in one mode")]
    KindTwice(String),
    #[error("{name}: {why}")]
    Elastic { name: String, why: String },
    #[error("{name}: {why}")]
    Regime { name: String, why: String },
    #[error("{name} on {gpus} GPUs: {why}")]
    Stages { name: String, gpus: u32, why: String },
}

impl Profile {
    /// Checks that names and numbers make sense.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), ProfileError> {
        if self.workloads.is_empty() || self.gpus.is_empty() {
            return Err(ProfileError::Empty);
        }
        for (index, workload) in self.workloads.iter().enumerate() {
            if self.workloads[..index].iter().any(|other| other.name == workload.name) {
                return Err(ProfileError::Twice(workload.name.clone()));
            }
            let own = [("batch", workload.batch), ("gradient_mb", workload.gradient_mb)];
            for (what, found) in own {
                number("any GPU", &workload.name, what, found, "0 or more", |x| x >= 0.0)?;
            }
            if let Some(elastic) = &workload.elastic {
                let wrong = |why| ProfileError::Elastic { name: workload.name.clone(), why };
                elastic.check().map_err(wrong)?;
            }
            if let Some(regime) = &workload.regime {
                regime.check().map_err(|why| ProfileError::Regime { name: workload.name.clone(), why })?;
            }
            for (gpus, stages) in &workload.stages {
                let wrong = |why| ProfileError::Stages { name: workload.name.clone(), gpus: *gpus, why };
                stages.check().map_err(wrong)?;
            }
        }
        for (index, gpu) in self.gpus.iter().enumerate() {
            if self.gpus[..index].iter().any(|other| other.kind == gpu.kind && other.mode == gpu.mode) {
                return Err(ProfileError::KindTwice(gpu.kind.clone()));
            }
            self.check_gpu(gpu)?;
        }
        Ok(())
    }

    fn check_gpu(&self, gpu: &GpuProfile) -> Result<(), ProfileError> {
        let kind = gpu.kind.as_str();
        let known = |name: &String| match self.id(name) {
            Some(_) => Ok(()),
            None => Err(ProfileError::Unknown { kind: kind.into(), name: name.clone(), near: String::new() }),
        };
        let ascending = gpu.noise.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let spread = gpu.noise.iter().map(|(_, spread)| *spread).find(|spread| !(0.0..=2.0).contains(spread));
        if let Some(found) = spread.or((!ascending).then_some(f64::NAN)) {
            let (name, what, expected) = ("noise".to_string(), "a spread", "from 0 to 2, bounds ascending");
            return Err(ProfileError::Number { kind: kind.into(), name, what, expected, found });
        }
        for (name, solo) in &gpu.solo {
            known(name)?;
            number(kind, name, "step_s", solo.step_s, "above 0", |x| x > 0.0)?;
            for (what, found) in [("utilisation", solo.utilisation), ("memory_utilisation", solo.memory_utilisation)] {
                number(kind, name, what, found, "from 0 to 1", |x| (0.0..=1.0).contains(&x))?;
            }
            for (what, found) in [("sensitivity", solo.sensitivity), ("aggressiveness", solo.aggressiveness)] {
                number(kind, name, what, found, "from 0 to 1000", |x| (0.0..=1000.0).contains(&x))?;
            }
            for (gpus, found) in &solo.throughput {
                number(kind, &format!("{name} on {gpus} GPUs"), "throughput", Some(*found), "0 or more", |x| x >= 0.0)?;
            }
            if solo.throughput.contains_key(&0) {
                let (what, expected) = ("a gang", "of at least one GPU");
                return Err(ProfileError::Number { kind: kind.into(), name: name.clone(), what, expected, found: 0.0 });
            }
        }
        for Pair(first, second, one, other) in &gpu.pairs {
            known(first)?;
            known(second)?;
            for speed in [one, other] {
                number(kind, &format!("{first} beside {second}"), "a speed", *speed, "from 0 to 1", |x| {
                    (0.0..=1.0).contains(&x)
                })?;
            }
        }
        Ok(())
    }

    /// The same profile with what was fitted to the measured pairs, and without the pairs.
    #[must_use]
    pub fn without_pairs(mut self) -> Profile {
        self.about = format!("{}: what is fitted to them", self.about);
        self.gpus.iter_mut().for_each(|gpu| {
            gpu.pairs.clear();
            gpu.sources.remove("pairs");
        });
        self
    }

    /// The workload of this name.
    pub fn id(&self, name: &str) -> Option<WorkloadId> {
        self.workloads.iter().position(|workload| workload.name == name).map(WorkloadId::at)
    }

    /// What was measured on a type of GPU.
    pub fn gpu(&self, kind: &str, mode: ShareMode) -> Option<&GpuProfile> {
        self.gpus.iter().find(|gpu| gpu.kind == kind && gpu.mode == mode)
    }
}

fn number(
    kind: &str,
    name: &str,
    what: &'static str,
    found: Option<f64>,
    expected: &'static str,
    good: impl Fn(f64) -> bool,
) -> Result<(), ProfileError> {
    match found {
        Some(found) if !good(found) || !found.is_finite() => {
            Err(ProfileError::Number { kind: kind.into(), name: name.into(), what, expected, found })
        }
        _ => Ok(()),
    }
}
