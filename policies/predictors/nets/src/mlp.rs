//! A feed-forward network: ReLU between layers, a sigmoid at the end.

use serde::{Deserialize, Serialize};

use crate::adam::Adam;
use crate::{Draw, order, short, sigmoid};

/// The network, with the standardisation of its inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mlp {
    /// Sizes of the layers, inputs first; the last is 1.
    pub sizes: Vec<usize>,
    /// Means of the inputs in training.
    pub mean: Vec<f64>,
    /// Their standard deviations.
    pub sd: Vec<f64>,
    /// Layer by layer: weights, row by input, then biases.
    pub weights: Vec<f64>,
}

impl Mlp {
    /// Hidden layers of IAPP (reconstruction).
    pub const HIDDEN: [usize; 3] = [64, 32, 16];

    /// Whether the sizes fit the numbers.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, inputs: usize) -> Result<(), String> {
        if self.sizes.len() < 2 || self.sizes[0] != inputs || self.sizes.last() != Some(&1) {
            return Err(format!("expected a network from {inputs} inputs to 1 output, found layers {:?}", self.sizes));
        }
        let expected: usize = self.sizes.windows(2).map(|pair| pair[0] * pair[1] + pair[1]).sum();
        if self.weights.len() != expected || self.mean.len() != inputs || self.sd.len() != inputs {
            return Err(format!(
                "expected {expected} weights for layers {:?}, found {}",
                self.sizes,
                self.weights.len()
            ));
        }
        Ok(())
    }

    /// The network's answer, 0 to 1.
    pub fn forward(&self, input: &[f64]) -> f64 {
        let scaled = input.iter().zip(&self.mean).zip(&self.sd).map(|((x, mean), sd)| (x - mean) / sd);
        sigmoid(self.activations(scaled.collect()).last().map_or(0.0, |last| last[0]))
    }

    /// What every layer gives, before the last one's sigmoid.
    fn activations(&self, input: Vec<f64>) -> Vec<Vec<f64>> {
        let mut all = vec![input];
        let (mut at, last) = (0, self.sizes.len() - 2);
        for (layer, pair) in self.sizes.windows(2).enumerate() {
            let (from, to) = (pair[0], pair[1]);
            let (weights, biases) = (&self.weights[at..at + from * to], &self.weights[at + from * to..][..to]);
            let before = &all[layer];
            let mut after = biases.to_vec();
            for (i, x) in before.iter().enumerate() {
                for (j, y) in after.iter_mut().enumerate() {
                    *y += x * weights[i * to + j];
                }
            }
            if layer < last {
                after.iter_mut().for_each(|y| *y = y.max(0.0));
            }
            all.push(after);
            at += from * to + to;
        }
        all
    }

    /// Trains on rows of inputs with their targets: mean squared error, Adam 1e-3, decay 1e-4, batches of 64, 120
    /// epochs.
    pub fn train(rows: &[(Vec<f64>, f64)], draw: &mut dyn Draw) -> Mlp {
        let inputs = rows.first().map_or(0, |(row, _)| row.len());
        let sizes: Vec<usize> = [inputs].into_iter().chain(Mlp::HIDDEN).chain([1]).collect();
        let count = rows.len() as f64;
        let mean: Vec<f64> = (0..inputs).map(|i| rows.iter().map(|(row, _)| row[i]).sum::<f64>() / count).collect();
        let spread = |i: usize| {
            let squares = rows.iter().map(|(row, _)| (row[i] - mean[i]) * (row[i] - mean[i])).sum::<f64>();
            libm::sqrt(squares / count) + 1e-9
        };
        let sd: Vec<f64> = (0..inputs).map(spread).collect();
        let mut weights = Vec::new();
        for pair in sizes.windows(2) {
            let scale = libm::sqrt(2.0 / pair[0] as f64);
            weights.extend((0..pair[0] * pair[1]).map(|_| draw.normal() * scale));
            weights.extend(std::iter::repeat_n(0.0, pair[1]));
        }
        let mut net = Mlp { sizes, mean, sd, weights };
        let mut adam = Adam::new(net.weights.len(), 1e-3, 1e-4);
        for _ in 0..120 {
            for batch in order(rows.len(), draw).chunks(64) {
                let mut gradient = vec![0.0; net.weights.len()];
                for index in batch {
                    net.backward(&rows[*index], 1.0 / batch.len() as f64, &mut gradient);
                }
                let mut weights = std::mem::take(&mut net.weights);
                adam.step(&mut weights, &gradient);
                net.weights = weights;
            }
        }
        for list in [&mut net.weights, &mut net.mean, &mut net.sd] {
            list.iter_mut().for_each(|x| *x = short(*x));
        }
        net
    }

    fn backward(&self, (row, target): &(Vec<f64>, f64), scale: f64, gradient: &mut [f64]) {
        let input = row.iter().zip(&self.mean).zip(&self.sd).map(|((x, mean), sd)| (x - mean) / sd).collect();
        let all = self.activations(input);
        let answer = sigmoid(all[all.len() - 1][0]);
        let mut delta = vec![2.0 * (answer - target) * answer * (1.0 - answer) * scale];
        let mut at = self.weights.len();
        for (layer, pair) in self.sizes.windows(2).enumerate().rev() {
            let (from, to) = (pair[0], pair[1]);
            at -= from * to + to;
            let mut before = vec![0.0; from];
            for (i, x) in all[layer].iter().enumerate() {
                for (j, d) in delta.iter().enumerate() {
                    gradient[at + i * to + j] += x * d;
                    before[i] += self.weights[at + i * to + j] * d;
                }
            }
            for (j, d) in delta.iter().enumerate() {
                gradient[at + from * to + j] += d;
            }
            // Through the ReLU of the layer below.
            delta = before.iter().zip(&all[layer]).map(|(d, x)| if *x > 0.0 { *d } else { 0.0 }).collect();
        }
    }
}
