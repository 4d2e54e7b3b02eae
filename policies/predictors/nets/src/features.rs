//! What of a solo profile tells workloads apart, where nothing of them together is known.

use serde::{Deserialize, Serialize};

/// Features of one workload; an unknown number is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Features(pub Vec<Option<f64>>);

impl Features {
    /// The five of IAPP first: GPU utilisation, memory utilisation, part of the device memory, batch, mixed precision;
    /// then step time and gradient, for profiles without utilisation. NaN means unknown.
    pub fn new([utilisation, memory_utilisation, memory, batch, step, gradient]: [f64; 6], mixed: bool) -> Features {
        let known = |x: f64| Some(x).filter(|x| x.is_finite());
        let log = |x: f64| known(x).filter(|x| *x > 0.0).map(libm::log2);
        let batch = log(batch).map(|x| x / 7.0 - 0.7);
        let mixed = Some(f64::from(u8::from(mixed)));
        Features(vec![
            known(utilisation),
            known(memory_utilisation),
            known(memory),
            batch,
            mixed,
            log(step),
            log(gradient),
        ])
    }

    /// The five of IAPP, where all are known; an unknown batch counts as the middle of the scale.
    pub fn five(&self) -> Option<[f64; 5]> {
        let [utilisation, memory_utilisation, memory, batch, mixed] = self.0.get(..5)?.try_into().ok()?;
        Some([utilisation?, memory_utilisation?, memory?, batch.unwrap_or(0.0), mixed?])
    }

    /// IAPP's twenty inputs: the task, the sum of the residents, both together, both multiplied.
    pub fn inputs(task: [f64; 5], residents: &[[f64; 5]]) -> Vec<f64> {
        let mut sum = [0.0; 5];
        for resident in residents {
            sum.iter_mut().zip(resident).for_each(|(sum, x)| *sum += x);
        }
        let pairs = || task.iter().zip(&sum);
        let both = pairs().map(|(t, r)| t + r).chain(pairs().map(|(t, r)| t * r));
        task.iter().chain(&sum).copied().chain(both).collect()
    }
}

/// The `count` nearest known workloads to one that is not known, with weights that add up to 1: Euclid on z-scores of
/// the known, over the features that all of both have; weights 1/(distance + 1e-6).
pub fn nearest(of: &Features, known: &[Features], count: usize) -> Vec<(usize, f64)> {
    let width = of.0.len();
    let scale = |at: usize| {
        let values: Vec<f64> = known.iter().filter_map(|features| *features.0.get(at)?).collect();
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
        let sd = libm::sqrt(squares / values.len() as f64);
        Some(if sd > 1e-12 { sd } else { 1.0 })
    };
    let scales: Vec<Option<f64>> = (0..width).map(scale).collect();
    let distance = |other: &Features| {
        let mut sum = 0.0;
        for (at, sd) in scales.iter().enumerate() {
            if let (Some(a), Some(Some(b)), Some(sd)) = (of.0[at], other.0.get(at), sd) {
                sum += (a - b) * (a - b) / (sd * sd);
            }
        }
        libm::sqrt(sum)
    };
    let mut order: Vec<(f64, usize)> = known.iter().enumerate().map(|(at, other)| (distance(other), at)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    order.truncate(count);
    let total: f64 = order.iter().map(|(distance, _)| 1.0 / (distance + 1e-6)).sum();
    order.into_iter().map(|(distance, at)| (at, 1.0 / (distance + 1e-6) / total)).collect()
}
