//! Neural matrix factorisation of a matrix of pairs (He et al. 2017, shrunk to the matrix: reconstruction of IASP).

use serde::{Deserialize, Serialize};

use crate::adam::Adam;
use crate::{Draw, Seen, order, short, sigmoid};

/// Factors of the product part.
const K: usize = 8;
/// Embedding of the perceptron part.
const M: usize = 16;
const H1: usize = 16;
const H2: usize = 8;

/// The network, row by row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NeuMf {
    gmf_victim: Vec<Vec<f64>>,
    gmf_corunner: Vec<Vec<f64>>,
    mlp_victim: Vec<Vec<f64>>,
    mlp_corunner: Vec<Vec<f64>>,
    dense1_w: Vec<Vec<f64>>,
    dense1_b: Vec<f64>,
    dense2_w: Vec<Vec<f64>>,
    dense2_b: Vec<f64>,
    out_w: Vec<f64>,
    out_b: f64,
}

/// Where each part is in the flat form that training works on.
struct Parts {
    pg: usize,
    qg: usize,
    pm: usize,
    qm: usize,
    w1: usize,
    b1: usize,
    w2: usize,
    b2: usize,
    w: usize,
    b: usize,
}

impl Parts {
    fn of(count: usize) -> Parts {
        let (pg, qg) = (0, count * K);
        let pm = qg + count * K;
        let qm = pm + count * M;
        let w1 = qm + count * M;
        let b1 = w1 + 2 * M * H1;
        let w2 = b1 + H1;
        let b2 = w2 + H1 * H2;
        let w = b2 + H2;
        Parts { pg, qg, pm, qm, w1, b1, w2, b2, w, b: w + K + H2 }
    }
}

impl NeuMf {
    /// How many workloads it knows.
    pub fn workloads(&self) -> usize {
        self.gmf_victim.len()
    }

    /// Whether all parts have the sizes of this network.
    ///
    /// # Errors
    /// The part, what was found and what was expected.
    pub fn check(&self, workloads: usize) -> Result<(), String> {
        let tables = [
            ("gmf_victim", &self.gmf_victim, workloads, K),
            ("gmf_corunner", &self.gmf_corunner, workloads, K),
            ("mlp_victim", &self.mlp_victim, workloads, M),
            ("mlp_corunner", &self.mlp_corunner, workloads, M),
            ("dense1_w", &self.dense1_w, 2 * M, H1),
            ("dense2_w", &self.dense2_w, H1, H2),
        ];
        for (name, table, rows, columns) in tables {
            if table.len() != rows || table.iter().any(|row| row.len() != columns) {
                let found = (table.len(), table.first().map_or(0, Vec::len));
                return Err(format!("{name}: expected {rows} x {columns} numbers, found {} x {}", found.0, found.1));
            }
        }
        let lists =
            [("dense1_b", &self.dense1_b, H1), ("dense2_b", &self.dense2_b, H2), ("out_w", &self.out_w, K + H2)];
        for (name, list, expected) in lists {
            if list.len() != expected {
                return Err(format!("{name}: expected {expected} numbers, found {}", list.len()));
            }
        }
        Ok(())
    }

    /// Speed of a victim beside a co-runner, 0 to 1.
    pub fn forward(&self, victim: usize, corunner: usize) -> f64 {
        let gmf = self.gmf_victim[victim].iter().zip(&self.gmf_corunner[corunner]).map(|(p, q)| p * q);
        let x = self.mlp_victim[victim].iter().chain(&self.mlp_corunner[corunner]);
        let h1 = relu(x.copied(), &self.dense1_w, &self.dense1_b);
        let h2 = relu(h1.into_iter(), &self.dense2_w, &self.dense2_b);
        let z = gmf.chain(h2).zip(&self.out_w).fold(0.0, |sum, (x, w)| sum + x * w);
        sigmoid(z + self.out_b)
    }

    /// Trains on observed speeds: soft binary cross-entropy, Adam 5e-3, decay 1e-4, batches of 64, 250 epochs.
    pub fn train(workloads: usize, seen: &[Seen], draw: &mut dyn Draw) -> NeuMf {
        let parts = Parts::of(workloads);
        let mut flat = vec![0.0; parts.b + 1];
        let mut fill =
            |from: usize, to: usize, sd: f64| flat[from..to].iter_mut().for_each(|x| *x = draw.normal() * sd);
        fill(parts.pg, parts.w1, 0.1);
        fill(parts.w1, parts.b1, libm::sqrt(2.0 / (2 * M) as f64));
        fill(parts.w2, parts.b2, libm::sqrt(2.0 / H1 as f64));
        fill(parts.w, parts.b, 1.0 / libm::sqrt((K + H2) as f64));
        let mut adam = Adam::new(flat.len(), 5e-3, 1e-4);
        let mut gradient = vec![0.0; flat.len()];
        for _ in 0..250 {
            for batch in order(seen.len(), draw).chunks(64) {
                gradient.fill(0.0);
                for index in batch {
                    backward(&flat, &parts, seen[*index], 1.0 / batch.len() as f64, &mut gradient);
                }
                adam.step(&mut flat, &gradient);
            }
        }
        flat.iter_mut().for_each(|x| *x = short(*x));
        let table = |from: usize, rows: usize, columns: usize| -> Vec<Vec<f64>> {
            (0..rows).map(|row| flat[from + row * columns..][..columns].to_vec()).collect()
        };
        NeuMf {
            gmf_victim: table(parts.pg, workloads, K),
            gmf_corunner: table(parts.qg, workloads, K),
            mlp_victim: table(parts.pm, workloads, M),
            mlp_corunner: table(parts.qm, workloads, M),
            dense1_w: table(parts.w1, 2 * M, H1),
            dense1_b: flat[parts.b1..parts.w2].to_vec(),
            dense2_w: table(parts.w2, H1, H2),
            dense2_b: flat[parts.b2..parts.w].to_vec(),
            out_w: flat[parts.w..parts.b].to_vec(),
            out_b: flat[parts.b],
        }
    }
}

fn relu(input: impl Iterator<Item = f64>, weights: &[Vec<f64>], biases: &[f64]) -> Vec<f64> {
    let mut out = biases.to_vec();
    for (x, row) in input.zip(weights) {
        for (y, w) in out.iter_mut().zip(row) {
            *y += x * w;
        }
    }
    out.iter_mut().for_each(|y| *y = y.max(0.0));
    out
}

fn backward(flat: &[f64], at: &Parts, (i, j, target): Seen, scale: f64, gradient: &mut [f64]) {
    let (p, q) = (&flat[at.pg + i * K..][..K], &flat[at.qg + j * K..][..K]);
    let mut x = [0.0; 2 * M];
    x[..M].copy_from_slice(&flat[at.pm + i * M..][..M]);
    x[M..].copy_from_slice(&flat[at.qm + j * M..][..M]);
    let mut h1 = [0.0; H1];
    for (b, h) in h1.iter_mut().enumerate() {
        *h = (0..2 * M).fold(flat[at.b1 + b], |sum, a| sum + x[a] * flat[at.w1 + a * H1 + b]).max(0.0);
    }
    let mut h2 = [0.0; H2];
    for (b, h) in h2.iter_mut().enumerate() {
        *h = (0..H1).fold(flat[at.b2 + b], |sum, a| sum + h1[a] * flat[at.w2 + a * H2 + b]).max(0.0);
    }
    let mut z = flat[at.b];
    for k in 0..K {
        z += p[k] * q[k] * flat[at.w + k];
    }
    for k in 0..H2 {
        z += h2[k] * flat[at.w + K + k];
    }
    let d = (sigmoid(z) - target) * scale;
    gradient[at.b] += d;
    for k in 0..K {
        gradient[at.w + k] += d * p[k] * q[k];
        gradient[at.pg + i * K + k] += d * flat[at.w + k] * q[k];
        gradient[at.qg + j * K + k] += d * flat[at.w + k] * p[k];
    }
    let mut d2 = [0.0; H2];
    for k in 0..H2 {
        gradient[at.w + K + k] += d * h2[k];
        d2[k] = if h2[k] > 0.0 { d * flat[at.w + K + k] } else { 0.0 };
        gradient[at.b2 + k] += d2[k];
    }
    let mut d1 = [0.0; H1];
    for a in 0..H1 {
        for k in 0..H2 {
            gradient[at.w2 + a * H2 + k] += h1[a] * d2[k];
            d1[a] += flat[at.w2 + a * H2 + k] * d2[k];
        }
        if h1[a] <= 0.0 {
            d1[a] = 0.0;
        }
        gradient[at.b1 + a] += d1[a];
    }
    for a in 0..2 * M {
        let mut dx = 0.0;
        for k in 0..H1 {
            gradient[at.w1 + a * H1 + k] += x[a] * d1[k];
            dx += flat[at.w1 + a * H1 + k] * d1[k];
        }
        let slot = if a < M { at.pm + i * M + a } else { at.qm + j * M + a - M };
        gradient[slot] += dx;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A forward pass worked out apart from this code, where the data are at hand.
    #[test]
    fn the_forward_pass_is_the_golden_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/data/clwp-golden/neumf_gavel_v100.json");
        let Ok(text) = std::fs::read_to_string(path) else {
            #[expect(clippy::print_stderr, reason = "a test that skips says so")]
            {
                eprintln!("skipped: {path} is not here");
            }
            return;
        };
        let golden: serde_json::Value = serde_json::from_str(&text).unwrap();
        let net: NeuMf = serde_json::from_value(golden["weights"].clone()).unwrap();
        net.check(26).unwrap();
        for (i, row) in golden["expected"].as_array().unwrap().iter().enumerate() {
            for (j, expected) in row.as_array().unwrap().iter().enumerate() {
                let difference = (net.forward(i, j) - expected.as_f64().unwrap()).abs();
                assert!(difference <= 1e-8, "{i} beside {j}: off by {difference}");
            }
        }
    }
}
