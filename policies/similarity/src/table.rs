//! The reference table: models that the site has measured, and what is known of a job by the one that it resembles.
//! The paper (Thanapol et al. 2023) names a textbook similarity and reference models; features, measure and score are
//! our reconstructions.

use std::collections::BTreeMap;

use sandtable_policy::{GpuTypeId, ModelFacts, WorkloadProfile};

use crate::ridge::Ridge;

/// Features by which models are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Features {
    /// Decimal logarithms of parameters, multiply-adds, layer outputs, element-wise outputs, depth and arithmetic
    /// intensity.
    Core6,
    /// The first two, where nothing else is known.
    Size,
}

impl Features {
    /// The words by which configurations name them.
    pub const WORDS: &'static [&'static str] = &["core6", "size"];

    /// Those of a model.
    pub fn of(self, facts: &ModelFacts) -> Vec<f64> {
        let intensity = facts.layer_multiply_adds / (facts.layer_traffic + facts.parameters);
        let all = [
            facts.parameters,
            facts.layer_multiply_adds,
            facts.layer_outputs,
            facts.elementwise_outputs,
            facts.depth,
            intensity,
        ];
        let count = if self == Features::Core6 { 6 } else { 2 };
        all[..count].iter().map(|x| libm::log10(*x)).collect()
    }
}

/// How far apart two models are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Euclid on z-scores.
    Euclid,
    /// Euclid on parts of the range.
    MinMax,
    /// Mean of the parts of the range.
    Gower,
    /// One less the cosine of z-scores.
    Cosine,
}

impl Measure {
    /// The words by which configurations name them.
    pub const WORDS: &'static [&'static str] = &["euclid", "min-max", "gower", "cosine"];

    /// The measure of a word.
    pub fn named(word: &str) -> Measure {
        match word {
            "min-max" => Measure::MinMax,
            "gower" => Measure::Gower,
            "cosine" => Measure::Cosine,
            _ => Measure::Euclid,
        }
    }
}

/// One measured model.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Its name.
    pub model: String,
    /// Its architecture.
    pub family: String,
    /// Its features.
    pub features: Vec<f64>,
    /// Samples a second by type of GPU and gang.
    pub rates: BTreeMap<(GpuTypeId, u32), f64>,
}

impl Reference {
    /// What the site says of a workload; none where its features are not numbers.
    pub fn new(profile: &WorkloadProfile, features: Features) -> Option<Reference> {
        let facts = profile.facts.as_ref()?;
        let found = features.of(facts);
        let rates = profile.throughput.iter().map(|rate| ((rate.gpu_type, rate.gpus), rate.per_second));
        found.iter().all(|x| x.is_finite()).then(|| Reference {
            model: facts.model.clone(),
            family: profile.family.clone(),
            features: found,
            rates: rates.collect(),
        })
    }

    /// Logarithm of the rate with a gang, or of the rate of each GPU with the nearest gang that was measured, the
    /// smaller of two; NaN: none was, or it does not run there.
    fn log_rate(&self, gpu_type: GpuTypeId, gpus: u32) -> f64 {
        let sizes = self.rates.range((gpu_type, 0)..=(gpu_type, u32::MAX)).filter(|(_, rate)| **rate > 0.0);
        let nearest = sizes.min_by_key(|((_, size), _)| (size.abs_diff(gpus), *size));
        nearest.map_or(f64::NAN, |((_, size), rate)| libm::log(rate / f64::from(*size) * f64::from(gpus)))
    }
}

/// What a job is taken for.
#[derive(Clone, Debug, PartialEq)]
pub struct Likeness {
    /// The reference nearest to it.
    pub nearest: usize,
    /// How far that is.
    pub distance: f64,
    /// Whether it is so far that the regression is asked too.
    pub unseen: bool,
}

/// The table.
pub struct Table {
    references: Vec<Reference>,
    types: usize,
    measure: Measure,
    /// What is taken off each feature, and what it is then divided by.
    scale: Vec<(f64, f64)>,
}

/// Beyond this distance, in z-scores, a model is like none of the references.
const FAR: f64 = 3.0;

impl Table {
    /// A table of these references on so many types of GPU.
    pub fn new(references: Vec<Reference>, types: usize, measure: Measure) -> Table {
        let width = references.first().map_or(0, |reference| reference.features.len());
        let count = references.len() as f64;
        let scale = (0..width).map(|at| {
            let values = || references.iter().map(|reference| reference.features[at]);
            let (low, high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(x), h.max(x)));
            let mean = values().sum::<f64>() / count;
            let deviation = libm::sqrt(values().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count);
            let one_if_none = |x: f64| if x <= 1e-12 { 1.0 } else { x };
            match measure {
                Measure::Euclid | Measure::Cosine => (mean, one_if_none(deviation)),
                Measure::MinMax | Measure::Gower => (low, one_if_none(high - low)),
            }
        });
        let scale = scale.collect();
        Table { references, types, measure, scale }
    }

    /// How many types of GPU there are.
    pub fn types(&self) -> usize {
        self.types
    }

    /// The references.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    fn distance(&self, a: &[f64], b: &[f64]) -> f64 {
        let scaled = |x: &[f64], at: usize| (x[at] - self.scale[at].0) / self.scale[at].1;
        let count = self.scale.len();
        let gaps = || (0..count).map(|at| scaled(a, at) - scaled(b, at));
        match self.measure {
            Measure::Euclid | Measure::MinMax => libm::sqrt(gaps().map(|gap| gap * gap).sum()),
            Measure::Gower => gaps().map(f64::abs).sum::<f64>() / count as f64,
            Measure::Cosine => {
                let dot = |x: &[f64], y: &[f64]| (0..count).map(|at| scaled(x, at) * scaled(y, at)).sum::<f64>();
                let lengths = libm::sqrt(dot(a, a) * dot(b, b));
                if lengths > 0.0 { 1.0 - dot(a, b) / lengths } else { 1.0 }
            }
        }
    }

    /// The reference that a model resembles: itself, if it is one, else the nearest; ties by name. None where there is
    /// no reference, or no number to compare.
    pub fn like(&self, model: &str, family: &str, features: &[f64]) -> Option<Likeness> {
        if let Some(nearest) = self.references.iter().position(|reference| reference.model == model) {
            return Some(Likeness { nearest, distance: 0.0, unseen: false });
        }
        if features.iter().any(|x| !x.is_finite()) {
            return None;
        }
        let measured = self.references.iter().enumerate();
        let measured = measured.map(|(at, reference)| (self.distance(features, &reference.features), at));
        let (distance, nearest) = measured.min_by(|a, b| {
            let name = |at: usize| self.references[at].model.as_bytes();
            a.0.total_cmp(&b.0).then_with(|| name(a.1).cmp(name(b.1)))
        })?;
        let stranger = self.references.iter().all(|reference| reference.family != family);
        Some(Likeness { nearest, distance, unseen: distance > FAR || stranger })
    }

    /// Logarithms of the rates of a reference by type, less their mean; NaN where it was not measured.
    fn profile(&self, at: usize, gpus: u32) -> Vec<f64> {
        centred((0..self.types as GpuTypeId).map(|kind| self.references[at].log_rate(kind, gpus)).collect())
    }

    /// Predicted logarithms of a model's rates by type, less their mean. For a model that resembles no reference: the
    /// mean of the nearest and of a regression on the features.
    pub fn predict(&self, like: &Likeness, features: &[f64], gpus: u32, blend: bool) -> Vec<f64> {
        let nearest = self.profile(like.nearest, gpus);
        if !blend || !like.unseen {
            return nearest;
        }
        let scaled = |x: &[f64]| (0..x.len()).map(|at| (x[at] - self.scale[at].0) / self.scale[at].1).collect();
        let inputs: Vec<Vec<f64>> = self.references.iter().map(|reference| scaled(&reference.features)).collect();
        let profiles: Vec<Vec<f64>> = (0..self.references.len()).map(|at| self.profile(at, gpus)).collect();
        let own: Vec<f64> = scaled(features);
        let both = nearest.iter().enumerate().map(|(kind, known)| {
            let (rows, targets): (Vec<Vec<f64>>, Vec<f64>) = inputs
                .iter()
                .zip(&profiles)
                .filter(|(_, profile)| profile[kind].is_finite())
                .map(|(row, profile)| (row.clone(), profile[kind]))
                .unzip();
            match Ridge::fit(&rows, &targets) {
                Some(ridge) => (known + ridge.predict(&own)) / 2.0,
                None => *known,
            }
        });
        centred(both.collect())
    }

    /// How much more a model gains from each type than the references do on average: its comparative advantage there.
    /// NaN: unknown.
    pub fn advantage(&self, predicted: &[f64], gpus: u32) -> Vec<f64> {
        let profiles: Vec<Vec<f64>> = (0..self.references.len()).map(|at| self.profile(at, gpus)).collect();
        let mean = |kind: usize| {
            let known: Vec<f64> = profiles.iter().map(|profile| profile[kind]).filter(|x| x.is_finite()).collect();
            known.iter().sum::<f64>() / known.len() as f64
        };
        centred((0..self.types).map(|kind| predicted[kind] - mean(kind)).collect())
    }
}

/// Less the mean of those that are numbers.
fn centred(values: Vec<f64>) -> Vec<f64> {
    let known: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    values.into_iter().map(|x| x - mean).collect()
}
