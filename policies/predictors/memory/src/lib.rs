//! Device memory from the facts of a job's computation graph.
//!
//! `horus` is Horus' formula as another group has it (github.com/itu-rad/GPUMemNet and CARMA): the gradients are
//! multiplied by the batch, which is its flaw. `steady` counts the parameters thrice, for gradients and momentum, and
//! the CUDA context (ours).

use sandtable_nets::memory::{horus, steady};
use sandtable_policy::predictor::{About, Predictor, Quantities, Setup, SoloQuantity, Sources};
use sandtable_policy::{Config, GpuType, Kind, Param, PolicyError, WorkloadProfile};

/// The predictor.
pub struct Memory {
    horus: bool,
    context: f64,
}

impl Predictor for Memory {
    fn about() -> About {
        About {
            name: "memory",
            about: "device memory by the computation graph: Horus' formula as published, or a steady estimate (ours)",
            answers: Quantities::MEMORY,
            reads: Sources::MODEL_FACTS,
            needs_weights: false,
            params: &[
                Param {
                    name: "formula",
                    kind: Kind::Choice(&["horus", "steady"]),
                    default: "\"steady\"",
                    about: "Which formula.",
                },
                Param {
                    name: "context",
                    kind: Kind::Number { min: 0.0, max: 1e5 },
                    default: "1000",
                    about: "MiB of the CUDA context, for the steady estimate.",
                },
            ],
        }
    }

    fn new(config: &Config, _: &Setup) -> Result<Self, PolicyError> {
        Ok(Memory { horus: config.choice("formula") == "horus", context: config.number("context") })
    }

    fn estimate(&self, _: SoloQuantity, _: &GpuType, workload: &WorkloadProfile) -> f64 {
        let Some(facts) = &workload.facts else { return f64::NAN };
        let (activations, parameters) = (facts.activation_bytes / 4.0, facts.parameter_bytes / 4.0);
        if self.horus {
            horus(activations, workload.batch, parameters)
        } else {
            steady(activations, workload.batch, parameters, self.context)
        }
    }
}

sandtable_policy::export_predictor!(Memory);

#[cfg(test)]
mod tests {
    use super::*;
    use sandtable_needs::needs;

    #[needs("data:horus-golden")]
    #[test]
    fn formulas_are_the_golden_ones() {
        let path = sandtable_policy::testing::data("horus-golden/memory_cases.json");
        let text = std::fs::read_to_string(path).expect("a file");
        let cases: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
        assert_eq!(cases.len(), 4);
        for case in &cases {
            let number = |key: &str| case[key].as_f64().expect("a number");
            let (a, b, p) = (number("activations_per_sample"), number("batch"), number("params"));
            assert!((horus(a, b, p) / number("horus_mib") - 1.0).abs() < 1e-9, "{case}");
            assert!((steady(a, b, p, 1000.0) / number("steady_mib") - 1.0).abs() < 1e-9, "{case}");
        }
    }
}
