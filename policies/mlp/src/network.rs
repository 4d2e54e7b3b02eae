//! The network, and the file that it is read from.

use serde::Deserialize;

/// What a network is told of a job that waits.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// ln(1 + GPUs that it asks for).
    Gpus,
    /// ln(1 + seconds that it would take by the bound estimate); a job without one takes for ever, 2^53 µs.
    Seconds,
    /// ln(1 + seconds since it last held GPUs, or since it was submitted).
    Waited,
    /// Its priority.
    Priority,
    /// ln(1 + seconds to its deadline), 0 once that is past; without one 2^53 µs.
    Due,
    /// The part of the GPUs on nodes that are up that no job holds, 0 to 1.
    Free,
    /// ln(1 + jobs that wait).
    Queue,
}

/// What a hidden unit makes of its sum.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Hidden {
    Relu,
    Tanh,
}

/// A layer: a row of weights for each of its units, and their biases, as PyTorch's `Linear` has them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    weights: Vec<Vec<f64>>,
    bias: Vec<f64>,
}

/// A feed-forward network with one output, the score.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// What it is told, in the order of its first layer.
    pub inputs: Vec<Input>,
    hidden: Hidden,
    layers: Vec<Layer>,
}

impl Network {
    /// Reads a file of weights: JSON.
    ///
    /// # Errors
    /// A line that says what does not fit.
    pub fn read(text: &[u8]) -> Result<Network, String> {
        let network: Network = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let mut width = network.inputs.len();
        for (at, layer) in network.layers.iter().enumerate() {
            if let Some(row) = layer.weights.iter().find(|row| row.len() != width) {
                return Err(format!("layer {at}: expected rows of {width} weights, found one of {}", row.len()));
            }
            if layer.bias.len() != layer.weights.len() {
                let (found, expected) = (layer.bias.len(), layer.weights.len());
                return Err(format!("layer {at}: expected {expected} biases, found {found}"));
            }
            width = layer.weights.len();
        }
        match (network.layers.is_empty(), width) {
            (false, 1) => Ok(network),
            (true, _) => Err("expected at least one layer, found none".into()),
            (false, width) => Err(format!("expected one unit in the last layer, found {width}")),
        }
    }

    /// The score of these inputs. Sums are taken from left to right, the bias first.
    pub fn score(&self, inputs: Vec<f64>) -> f64 {
        let mut values = inputs;
        for (at, layer) in self.layers.iter().enumerate() {
            let sum = |(row, bias): (&Vec<f64>, &f64)| row.iter().zip(&values).fold(*bias, |sum, (w, x)| sum + w * x);
            let last = at + 1 == self.layers.len();
            let activate = |sum: f64| match self.hidden {
                _ if last => sum,
                Hidden::Relu => sum.max(0.0),
                Hidden::Tanh => libm::tanh(sum),
            };
            values = layer.weights.iter().zip(&layer.bias).map(sum).map(activate).collect();
        }
        values[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_sums_and_activations() {
        let file = |hidden: &str| {
            format!(
                r#"{{"inputs": ["gpus", "waited"], "hidden": "{hidden}", "layers": [
                    {{"weights": [[1, -2], [0.5, 0]], "bias": [0.25, -1]}}, {{"weights": [[3, 10]], "bias": [1]}}]}}"#
            )
        };
        let network = Network::read(file("relu").as_bytes()).expect("a network");
        assert_eq!(network.inputs, [Input::Gpus, Input::Waited]);
        // 1 + 3·max(0, 0.25 + 4 − 2) + 10·max(0, −1 + 2).
        assert_eq!(network.score(vec![4.0, 1.0]), 17.75);
        let network = Network::read(file("tanh").as_bytes()).expect("a network");
        assert_eq!(network.score(vec![4.0, 1.0]), 1.0 + 3.0 * libm::tanh(2.25) + 10.0 * libm::tanh(1.0));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let refused = |text: &str| Network::read(text.as_bytes()).expect_err("no network");
        let of = |layers: &str| format!(r#"{{"inputs": ["gpus"], "hidden": "relu", "layers": [{layers}]}}"#);
        assert_eq!(refused(&of("")), "expected at least one layer, found none");
        let wide = r#"{"weights": [[1], [2]], "bias": [0, 0]}"#;
        assert_eq!(refused(&of(wide)), "expected one unit in the last layer, found 2");
        let short = of(&format!(r#"{wide}, {{"weights": [[1]], "bias": [0]}}"#));
        assert_eq!(refused(&short), "layer 1: expected rows of 2 weights, found one of 1");
        assert_eq!(refused(&of(r#"{"weights": [[1]], "bias": []}"#)), "layer 0: expected 1 biases, found 0");
        assert!(refused(&of("").replace("gpus", "luck")).starts_with("unknown variant `luck`, expected one of `gpus`"));
        assert!(refused("not JSON").starts_with("expected ident at line 1"));
    }
}
