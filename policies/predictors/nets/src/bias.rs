//! Mean, victims' terms and aggressors' terms: a strong baseline, and what an unseen workload is judged by.

use serde::{Deserialize, Serialize};

use crate::Seen;

/// `mu + a_i + b_j`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bias {
    /// The mean.
    pub mean: f64,
    /// Victims' terms.
    pub victim: Vec<f64>,
    /// Aggressors' terms.
    pub aggressor: Vec<f64>,
}

impl Bias {
    /// Fits by 30 alternating passes; each term is its mean residual, shrunk by one observation.
    pub fn fit(workloads: usize, seen: &[Seen]) -> Bias {
        let mean = if seen.is_empty() { 0.5 } else { seen.iter().map(|(_, _, y)| y).sum::<f64>() / seen.len() as f64 };
        let mut bias = Bias { mean, victim: vec![0.0; workloads], aggressor: vec![0.0; workloads] };
        for _ in 0..30 {
            bias.victim = terms(workloads, seen, |(i, j, y)| (i, y - mean - bias.aggressor[j]));
            bias.aggressor = terms(workloads, seen, |(i, j, y)| (j, y - mean - bias.victim[i]));
        }
        bias
    }

    /// Speed of a victim beside a co-runner, 0 to 1.
    pub fn forward(&self, victim: usize, corunner: usize) -> f64 {
        (self.mean + self.victim[victim] + self.aggressor[corunner]).clamp(0.0, 1.0)
    }

    /// Gives a workload that was fitted without data the terms that a few probes tell: the shrunk mean residual,
    /// `sum / (p + 0.5)`, of its probes as victim, and of those as aggressor.
    pub fn probe(&mut self, workload: usize, probes: &[Seen]) {
        let shrunk = |residuals: Vec<f64>| residuals.iter().sum::<f64>() / (residuals.len() as f64 + 0.5);
        let suffered = probes.iter().filter(|(i, j, _)| *i == workload && *j != workload);
        let suffered = shrunk(suffered.map(|(_, j, y)| y - self.mean - self.aggressor[*j]).collect());
        let inflicted = probes.iter().filter(|(i, j, _)| *j == workload && *i != workload);
        let inflicted = shrunk(inflicted.map(|(i, _, y)| y - self.mean - self.victim[*i]).collect());
        self.victim[workload] = suffered;
        self.aggressor[workload] = inflicted;
    }
}

fn terms(workloads: usize, seen: &[Seen], residual: impl Fn(Seen) -> (usize, f64)) -> Vec<f64> {
    let mut sums = vec![(0.0, 1.0); workloads];
    for one in seen {
        let (of, value) = residual(*one);
        sums[of].0 += value;
        sums[of].1 += 1.0;
    }
    sums.into_iter().map(|(sum, count)| sum / count).collect()
}
