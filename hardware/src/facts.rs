//! What the computation graph of a model shows without running it. Graphs are walked, and well-known models listed,
//! elsewhere: here is only what such a walk leaves.

use serde::{Deserialize, Serialize};

/// Kinds of operators whose parts of a graph tell models apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Convolutions.
    Conv,
    /// Dense layers and other matrix products.
    Matrix,
    /// LSTM and GRU.
    Recurrent,
    /// Normalisations.
    Norm,
    /// Activations, sums, products, pooling.
    Elementwise,
}

impl Group {
    /// All of them, in the order of [`ModelFacts::group_nodes`].
    pub const ALL: [Group; 5] = [Group::Conv, Group::Matrix, Group::Recurrent, Group::Norm, Group::Elementwise];
}

/// What an operator, or a whole graph, does for one batch: operations by kind, and bytes of fp32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Floating-point operations, by the rule of each operator.
    pub flops: f64,
    /// Multiply-adds.
    pub multiply_adds: f64,
    /// Additions.
    pub additions: f64,
    /// Comparisons.
    pub comparisons: f64,
    /// Divisions.
    pub divisions: f64,
    /// Exponentials.
    pub exponentials: f64,
    /// What is kept between operators, bytes.
    pub activation_bytes: f64,
    /// Weights, bytes; running statistics of a normalisation count.
    pub parameter_bytes: f64,
    /// Copies, bytes.
    pub other_bytes: f64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        for (sum, x) in self.all_mut().into_iter().zip(other.all()) {
            *sum += x.1;
        }
    }
}

impl Counts {
    /// By name, in the order of the feature vector.
    pub fn all(&self) -> [(&'static str, f64); 9] {
        [
            ("flops", self.flops),
            ("multiply_adds", self.multiply_adds),
            ("additions", self.additions),
            ("comparisons", self.comparisons),
            ("divisions", self.divisions),
            ("exponentials", self.exponentials),
            ("activation_bytes", self.activation_bytes),
            ("parameter_bytes", self.parameter_bytes),
            ("other_bytes", self.other_bytes),
        ]
    }

    fn all_mut(&mut self) -> [&mut f64; 9] {
        [
            &mut self.flops,
            &mut self.multiply_adds,
            &mut self.additions,
            &mut self.comparisons,
            &mut self.divisions,
            &mut self.exponentials,
            &mut self.activation_bytes,
            &mut self.parameter_bytes,
            &mut self.other_bytes,
        ]
    }

    /// Each divided: what of a batch's counts is one sample's.
    pub fn per(mut self, samples: f64) -> Counts {
        self.all_mut().into_iter().for_each(|x| *x /= samples);
        self
    }
}

/// Facts of a model, for one sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Model", deny_unknown_fields)]
pub struct ModelFacts {
    /// Its name.
    pub model: String,
    /// Models of one family share an architecture.
    pub family: String,
    /// Where it comes from.
    pub source: String,
    /// Numbers that are trained.
    pub parameters: f64,
    /// Multiply-adds of convolutions and dense layers.
    pub layer_multiply_adds: f64,
    /// Elements that they give.
    pub layer_outputs: f64,
    /// Elements that convolutions read and give.
    pub layer_traffic: f64,
    /// Elements that normalisation, activation, pooling, sums and concatenation give.
    pub elementwise_outputs: f64,
    /// Convolutions and dense layers on the longest path.
    pub depth: f64,
    /// Sums over all operators, each by its published rule (Horus).
    pub total: Counts,
    /// Operators of each [`Group`].
    pub group_nodes: [u32; 5],
    /// Their FLOPs.
    pub group_flops: [f64; 5],
}

impl ModelFacts {
    /// The six features of the similarity policy (our reconstruction): decimal logarithms of parameters,
    /// multiply-adds, layer outputs, element-wise outputs, depth and arithmetic intensity.
    pub fn core6(&self) -> [(&'static str, f64); 6] {
        let intensity = self.layer_multiply_adds / (self.layer_traffic + self.parameters);
        [
            ("parameters", libm::log10(self.parameters)),
            ("multiply_adds", libm::log10(self.layer_multiply_adds)),
            ("layer_outputs", libm::log10(self.layer_outputs)),
            ("elementwise_outputs", libm::log10(self.elementwise_outputs)),
            ("depth", libm::log10(self.depth)),
            ("intensity", libm::log10(intensity)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_field_by_field() {
        let mut sum = Counts { flops: 1.0, other_bytes: 2.0, ..Counts::default() };
        sum += Counts { flops: 3.0, divisions: 5.0, ..Counts::default() };
        assert_eq!(sum, Counts { flops: 4.0, divisions: 5.0, other_bytes: 2.0, ..Counts::default() });
        assert_eq!(sum.per(2.0).flops, 2.0);
    }
}
