//! Fitting and judging what is predicted of workloads alone: GPU utilisation by a forest, memory by formulas.

use std::collections::BTreeMap;

use sandtable_core::error::Error;
use sandtable_hardware::random::Stream;
use sandtable_hardware::{ModelFacts, Profile};
use sandtable_nets::{Forest, Graph, Growth, Pairs, Weights, memory};

use super::Draws;

/// Folds of a cross-validation.
const FOLDS: usize = 5;

/// Horus' features of a model (Yeung et al., HotCloud 2020), by name.
pub fn horus_features(facts: &ModelFacts, batch: f64, mixed_precision: bool) -> Vec<(String, f64)> {
    let graph = Graph {
        counts: facts.total.all().map(|(_, x)| x),
        group_nodes: facts.group_nodes.map(f64::from),
        group_flops: facts.group_flops,
    };
    graph.features(batch, mixed_precision)
}

/// Workloads with facts, and what was measured of them alone on one type of GPU.
pub struct Measured {
    /// The type.
    pub kind: String,
    names: Vec<String>,
    rows: Vec<Vec<f64>>,
    /// GPU utilisation, percent.
    percent: Vec<f64>,
    /// Activation elements of a sample, batch, parameters, MiB measured.
    memory: Vec<[f64; 4]>,
}

impl Measured {
    /// The workloads of a profile that have facts and a utilisation.
    ///
    /// # Errors
    /// Where fewer than two have.
    pub fn new(profile: &Profile, kind: &str) -> Result<Measured, Error> {
        let gpu = profile.gpus.iter().find(|gpu| gpu.kind == kind);
        let mut all = Measured { kind: kind.into(), names: vec![], rows: vec![], percent: vec![], memory: vec![] };
        for workload in &profile.workloads {
            let solo = gpu.and_then(|gpu| gpu.solo.get(&workload.name));
            let (Some(facts), Some(solo)) = (&workload.facts, solo) else { continue };
            let batch = workload.batch.unwrap_or(1.0);
            if let Some(mib) = solo.memory_mib {
                let (a, p) = (facts.total.activation_bytes / 4.0, facts.total.parameter_bytes / 4.0);
                all.memory.push([a, batch, p, f64::from(mib)]);
            }
            let Some(utilisation) = solo.utilisation else { continue };
            let features = horus_features(facts, batch, workload.mixed_precision);
            all.names = features.iter().map(|(name, _)| name.clone()).collect();
            all.rows.push(features.into_iter().map(|(_, x)| x).collect());
            all.percent.push(100.0 * utilisation);
        }
        if all.rows.len() < 2 {
            let why = format!("{kind}: {} workloads have facts and a utilisation", all.rows.len());
            return Err(Error::usage(why).hint("workloads have facts where they name a `model`"));
        }
        Ok(all)
    }

    /// How many workloads there are.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    fn grow(&self, rows: &[usize], seed: u64) -> Forest {
        let inputs: Vec<Vec<f64>> = rows.iter().map(|at| self.rows[*at].clone()).collect();
        let percent: Vec<f64> = rows.iter().map(|at| self.percent[*at]).collect();
        let mut draws = Draws(Stream::new(seed, &format!("predictor/forest/{}", self.kind)));
        Forest::train(&self.names, &inputs, &percent, Growth::default(), &mut draws)
    }
}

/// A weights file of forests for all or some types of a profile.
///
/// # Errors
/// See [`Measured::new`].
pub fn forests(profile: &Profile, kinds: &[String], seed: u64) -> Result<Weights, Error> {
    let mut gpus = BTreeMap::new();
    for kind in kinds {
        let data = Measured::new(profile, kind)?;
        let all: Vec<usize> = (0..data.count()).collect();
        gpus.insert(kind.clone(), Pairs { forest: Some(data.grow(&all, seed)), ..Pairs::default() });
    }
    let about = format!("{}; all workloads with facts, seed {seed}", profile.about);
    Ok(Weights { predictor: "forest".into(), about, gpus })
}

/// Errors of a model on what was held out.
#[derive(Clone, Debug, PartialEq)]
pub struct SoloError {
    /// The model.
    pub model: String,
    /// Root mean squared error of ln(1 + percent).
    pub rmsle: f64,
    /// Mean absolute error, points.
    pub mae: f64,
    /// Part of the variance that is explained.
    pub r2: f64,
}

/// Five-fold cross-validation of the forest as its file has it, quantised and pruned, beside the mean.
pub fn cross_validate(data: &Measured, seed: u64) -> Vec<SoloError> {
    let mut draws = Stream::new(seed, &format!("predictor/folds/{}", data.kind));
    let mut order: Vec<(u64, usize)> = (0..data.count()).map(|at| (draws.integer(), at)).collect();
    order.sort_unstable();
    let folds = FOLDS.min(data.count());
    let (mut forest, mut mean) = (vec![f64::NAN; data.count()], vec![f64::NAN; data.count()]);
    for fold in 0..folds {
        let part = |keep: bool| -> Vec<usize> {
            let there = order.iter().enumerate().filter(|(at, _)| (at % folds == fold) != keep);
            there.map(|(_, (_, row))| *row).collect()
        };
        let (train, test) = (part(true), part(false));
        // What was just quantised opens.
        let Ok(grown) = data.grow(&train, seed + fold as u64).open() else { continue };
        let logs = train.iter().map(|at| libm::log1p(data.percent[*at])).sum::<f64>() / train.len() as f64;
        for at in test {
            forest[at] = grown.predict(&data.rows[at]);
            mean[at] = libm::expm1(logs);
        }
    }
    let average = data.percent.iter().sum::<f64>() / data.count() as f64;
    let summary = |model: &str, found: &[f64]| {
        let pairs = || found.iter().zip(&data.percent);
        let count = data.count() as f64;
        let squares = |gap: &dyn Fn(f64, f64) -> f64| pairs().map(|(p, y)| gap(*p, *y) * gap(*p, *y)).sum::<f64>();
        let spread = squares(&|_, y| y - average);
        SoloError {
            model: model.into(),
            rmsle: libm::sqrt(squares(&|p, y| libm::log1p(p) - libm::log1p(y)) / count),
            mae: pairs().map(|(p, y)| (p - y).abs()).sum::<f64>() / count,
            r2: 1.0 - squares(&|p, y| p - y) / spread,
        }
    };
    vec![summary("mean", &mean), summary("forest", &forest)]
}

/// Errors of a formula for memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryError {
    /// The formula.
    pub formula: String,
    /// Median of the relative error's size.
    pub median: f64,
    /// Its mean.
    pub mean: f64,
    /// Part of the estimates that are too low.
    pub under: f64,
}

/// What the formulas say of memory beside what was measured.
pub fn memory_errors(data: &Measured) -> Vec<MemoryError> {
    type Formula = fn([f64; 4]) -> f64;
    let formulas: [(&str, Formula); 2] = [
        ("horus", |[a, b, p, _]| memory::horus(a, b, p)),
        ("steady", |[a, b, p, _]| memory::steady(a, b, p, memory::CONTEXT)),
    ];
    let of = |(name, formula): (&str, Formula)| {
        let mut errors: Vec<f64> = data.memory.iter().map(|row| formula(*row) / row[3] - 1.0).collect();
        let count = errors.len().max(1) as f64;
        let under = errors.iter().filter(|error| **error < 0.0).count() as f64 / count;
        errors.iter_mut().for_each(|error| *error = error.abs());
        errors.sort_by(f64::total_cmp);
        let median = errors.get(errors.len() / 2).copied().unwrap_or(f64::NAN);
        let mean = errors.iter().sum::<f64>() / count;
        MemoryError { formula: name.into(), median, mean, under }
    };
    formulas.into_iter().map(of).collect()
}
