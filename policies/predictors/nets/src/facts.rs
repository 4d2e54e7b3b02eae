//! The features of Horus' predictors (Yeung et al., HotCloud 2020; github.com/dborowiec10/onnx_flop_profiler): what a
//! computation graph shows, for a batch. Node counts and precision are our completion.

/// Counts of a graph for one sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Graph {
    /// FLOPs, multiply-adds, additions, comparisons, divisions, exponentials; bytes of activations, of parameters, of
    /// copies.
    pub counts: [f64; 9],
    /// Operators that are convolutions, matrix products, recurrent, normalisations, element-wise.
    pub group_nodes: [f64; 5],
    /// Their FLOPs.
    pub group_flops: [f64; 5],
}

const COUNTS: [&str; 9] = [
    "flops",
    "multiply_adds",
    "additions",
    "comparisons",
    "divisions",
    "exponentials",
    "activation_bytes",
    "parameter_bytes",
    "other_bytes",
];
const GROUPS: [&str; 5] = ["conv", "matrix", "recurrent", "norm", "elementwise"];

/// Where parameters stand: the only count that a batch does not multiply.
const PARAMETERS: usize = 7;

impl Graph {
    /// ln(1 + x) of the counts of a batch, the batch, operators and part of the FLOPs of each group, arithmetic
    /// intensity, precision.
    pub fn features(&self, batch: f64, mixed_precision: bool) -> Vec<(String, f64)> {
        let of_batch = |at: usize| self.counts[at] * if at == PARAMETERS { 1.0 } else { batch };
        let mut features: Vec<(String, f64)> =
            COUNTS.iter().enumerate().map(|(at, name)| (format!("ln_{name}"), libm::log1p(of_batch(at)))).collect();
        features.push(("batch".into(), batch));
        let flops = self.counts[0].max(1.0);
        for (at, name) in GROUPS.iter().enumerate() {
            features.push((format!("{name}_nodes"), self.group_nodes[at]));
            features.push((format!("{name}_flops"), self.group_flops[at] / flops));
        }
        features.push(("intensity".into(), of_batch(0) / (of_batch(6) + of_batch(PARAMETERS)).max(1.0)));
        features.push(("mixed_precision".into(), f64::from(u8::from(mixed_precision))));
        features
    }
}
