//! The network, and the file that it is read from.

use sandtable_policy::PolicyError;
use serde::Deserialize;

use sandtable_turns::{Agent, Answer, Input, MOST_SLOTS, Observation, View};

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

/// A feed-forward network. Without `slots` its one output is the score of a job. With them it decides in turns, on what [`View`] shows: one output
/// is the score of a slot, asked slot by slot with the numbers of the cluster and of the job; `slots` of them are the order of all; one more is that no job
/// starts, and the greatest is what happens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// What it is told, in the order of its first layer; with `slots`, what is of the cluster first.
    pub inputs: Vec<Input>,
    /// Jobs that it is shown together; none: it scores every job by itself.
    #[serde(default)]
    pub slots: Option<usize>,
    hidden: Hidden,
    layers: Vec<Layer>,
}

impl Network {
    /// Whether its outputs are the order of the slots.
    fn orders(&self) -> bool {
        let outputs = self.layers.last().map_or(0, |layer| layer.weights.len());
        outputs > 1 && self.slots == Some(outputs)
    }

    /// Reads a file of weights, JSON, for a cluster of so many nodes.
    ///
    /// # Errors
    /// A line that says what does not fit.
    pub fn read(text: &[u8], nodes: usize) -> Result<Network, String> {
        let network: Network = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let outputs = network.layers.last().map_or(0, |layer| layer.weights.len());
        let (of_cluster, of_job): (Vec<Input>, Vec<Input>) =
            network.inputs.iter().partition(|input| input.is_of_cluster());
        let late = network.inputs.iter().skip_while(|input| input.is_of_cluster()).find(|input| input.is_of_cluster());
        if let (Some(_), Some(late)) = (network.slots, late) {
            let [late, job] = [*late, of_job[0]].map(|input| serde_json::to_string(&input).unwrap_or_default());
            return Err(format!(
                "inputs: expected those of the cluster before those of jobs, found {late} behind {job}"
            ));
        }
        let of_cluster: usize = of_cluster.iter().map(|input| input.width(nodes)).sum();
        let mut width = match network.slots {
            None if network.inputs.contains(&Input::Nodes) => {
                return Err("the input `nodes` is for a network with `slots`".into());
            }
            Some(slots) if !(1..=MOST_SLOTS).contains(&slots) => {
                return Err(format!("expected 1 to {MOST_SLOTS} slots, found {slots}"));
            }
            Some(slots) if outputs != 1 => of_cluster + slots * (2 + of_job.len()),
            _ => of_cluster + of_job.len(),
        };
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
        match network.slots {
            _ if network.layers.is_empty() => Err("expected at least one layer, found none".into()),
            Some(slots) if ![1, slots, slots + 1].contains(&width) => {
                Err(format!("expected 1, {slots} or {} units in the last layer, found {width}", slots + 1))
            }
            None if width != 1 => Err(format!("expected one unit in the last layer, found {width}")),
            _ => Ok(network),
        }
    }

    /// What it makes of these inputs. Sums are taken from left to right, the bias first.
    pub fn outputs(&self, inputs: Vec<f64>) -> Vec<f64> {
        let mut values = inputs;
        for (at, layer) in self.layers.iter().enumerate() {
            let sum = |(row, bias): (&Vec<f64>, &f64)| row.iter().zip(&values).fold(*bias, |sum, (w, x)| sum + w * x);
            let last = at + 1 == self.layers.len();
            let activate = |sum: f64| match self.hidden {
                _ if last => sum,
                Hidden::Relu => sum.max(0.0),
                Hidden::Tanh => tanh(sum),
            };
            values = layer.weights.iter().zip(&layer.bias).map(sum).map(activate).collect();
        }
        values
    }
}

/// The hyperbolic tangent, to about 2 in 10^16, of sums, products and quotients alone, in one order: another program can compute the same bits, as the
/// Python package does, which libraries' own functions are not.
fn tanh(x: f64) -> f64 {
    if x.is_nan() {
        return f64::NAN;
    }
    // Beyond, it is 1 as far as a number of 64 bits goes.
    let twice = 2.0 * x.abs().min(20.0);
    // e^twice = 2^whole · e^rest, and that by its series.
    let whole = libm::rint(twice * std::f64::consts::LOG2_E);
    let rest = twice - whole * LN_2[0] - whole * LN_2[1];
    let series = (1..=14).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    let tangent = 1.0 - 2.0 / (libm::ldexp(series, whole as i32) + 1.0);
    if x < 0.0 { -tangent } else { tangent }
}

/// ln 2 as a number whose product with a small whole number is exact, and what is left.
const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];

/// A network that decides in turns.
pub(crate) struct InTurns<'a> {
    pub(crate) network: &'a Network,
    pub(crate) view: &'a View,
}

impl Agent for InTurns<'_> {
    fn answer(&mut self, seen: &Observation) -> Result<Answer, PolicyError> {
        let numbers = |values: &[f32]| -> Vec<f64> { values.iter().map(|value| f64::from(*value)).collect() };
        let slots = self.view.slots();
        let outputs = match self.network.layers.last() {
            Some(layer) if layer.weights.len() == 1 => {
                let (cluster, jobs) = seen.values.split_at(self.view.of_cluster());
                let slots = jobs.chunks(self.view.of_slot()).take(seen.fits.len());
                slots.map(|slot| self.network.outputs(numbers(&[cluster, &slot[2..]].concat()))[0]).collect()
            }
            _ => self.network.outputs(numbers(&seen.values)),
        };
        if outputs.len() == slots && self.network.orders() {
            return Ok(Answer::Order(outputs));
        }
        let may = |at: usize| if at == slots { seen.may_wait } else { seen.fits.get(at) == Some(&true) };
        let mut best = None;
        for (at, score) in outputs.iter().enumerate().filter(|(at, score)| may(*at) && !score.is_nan()) {
            if best.is_none_or(|(_, known)| *score > known) {
                best = Some((at, *score));
            }
        }
        Ok(match best {
            Some((at, _)) if at < slots => Answer::Start(at),
            _ => Answer::Wait,
        })
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
        let network = Network::read(file("relu").as_bytes(), 0).expect("a network");
        assert_eq!(network.inputs, [Input::Gpus, Input::Waited]);
        // 1 + 3·max(0, 0.25 + 4 − 2) + 10·max(0, −1 + 2).
        assert_eq!(network.outputs(vec![4.0, 1.0]), [17.75]);
        let network = Network::read(file("tanh").as_bytes(), 0).expect("a network");
        let expected = 1.0 + 3.0 * libm::tanh(2.25) + 10.0 * libm::tanh(1.0);
        assert!((network.outputs(vec![4.0, 1.0])[0] - expected).abs() < 1e-14);
        for step in -3000..3000 {
            let x = f64::from(step) / 100.0;
            assert!((tanh(x) - libm::tanh(x)).abs() < 3e-16, "{x}: {} and {}", tanh(x), libm::tanh(x));
        }
        assert!(tanh(f64::NAN).is_nan());
        assert_eq!((tanh(f64::INFINITY), tanh(f64::NEG_INFINITY), tanh(0.0)), (1.0, -1.0, 0.0));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let refused = |text: &str| Network::read(text.as_bytes(), 2).expect_err("no network");
        let of = |layers: &str| format!(r#"{{"inputs": ["gpus"], "hidden": "relu", "layers": [{layers}]}}"#);
        assert_eq!(refused(&of("")), "expected at least one layer, found none");
        let wide = r#"{"weights": [[1], [2]], "bias": [0, 0]}"#;
        assert_eq!(refused(&of(wide)), "expected one unit in the last layer, found 2");
        let short = of(&format!(r#"{wide}, {{"weights": [[1]], "bias": [0]}}"#));
        assert_eq!(refused(&short), "layer 1: expected rows of 2 weights, found one of 1");
        assert_eq!(refused(&of(r#"{"weights": [[1]], "bias": []}"#)), "layer 0: expected 1 biases, found 0");
        assert!(refused(&of("").replace("gpus", "luck")).starts_with("unknown variant `luck`, expected one of `gpus`"));
        let turns =
            |slots: u32, layers: &str| of(layers).replace("\"hidden\"", &format!("\"slots\": {slots}, \"hidden\""));
        assert_eq!(refused(&turns(0, wide)), "expected 1 to 4096 slots, found 0");
        let slots = r#"{"weights": [[1, 0, 0], [2, 0, 0]], "bias": [0, 0]}"#;
        assert_eq!(refused(&turns(4, slots)), "layer 0: expected rows of 12 weights, found one of 3");
        let three = r#"{"weights": [[1, 0, 0], [2, 0, 0], [0, 0, 0]], "bias": [0, 0, 0]}"#;
        assert!(Network::read(turns(1, slots).as_bytes(), 0).is_ok(), "one slot, and to wait");
        assert_eq!(refused(&turns(1, three)), "expected 1, 1 or 2 units in the last layer, found 3");
        let late = turns(4, wide).replace("\"gpus\"", "\"free\", \"gpus\", \"queue\"");
        let words = "inputs: expected those of the cluster before those of jobs, found \"queue\" behind \"gpus\"";
        assert_eq!(refused(&late), words);
        let of_nodes = of(wide).replace("\"gpus\"", "\"nodes\"");
        assert_eq!(refused(&of_nodes), "the input `nodes` is for a network with `slots`");
        assert!(refused("not JSON").starts_with("expected ident at line 1"));
    }
}
