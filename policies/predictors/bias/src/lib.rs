//! The bias model: the mean of all pairs, what each workload suffers on average and what it inflicts. A baseline that
//! is strong where few pairs are known; it says nothing of workloads that were not there when it was fitted.

use sandtable_nets::guest::open;
use sandtable_nets::{Bias as Model, Weights};
use sandtable_policy::predictor::{About, Predictor, Quantities, Setup, Sources};
use sandtable_policy::{Config, GpuType, PolicyError, WorkloadProfile};

/// The predictor.
pub struct Bias {
    weights: Weights,
}

impl Predictor for Bias {
    fn about() -> About {
        About {
            name: "bias",
            about: "bias model: mean, victims' and aggressors' terms, fitted to measured pairs",
            answers: Quantities::SIMILARITY | Quantities::PAIR_SPEED,
            reads: Sources::SOLO_PROFILE,
            needs_weights: true,
            params: &[],
        }
    }

    fn new(_: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let weights = open(setup, "bias", |pairs| pairs.bias.is_some())?;
        Ok(Bias { weights })
    }

    fn pair_speed(&self, kind: &GpuType, job: &WorkloadProfile, residents: &[&WorkloadProfile]) -> f64 {
        let Some(pairs) = self.weights.gpus.get(&kind.name) else { return f64::NAN };
        let Some(model) = &pairs.bias else { return f64::NAN };
        let index = |profile: &WorkloadProfile| pairs.known.iter().position(|known| known.name == profile.workload);
        let beside = |model: &Model, other: &WorkloadProfile| match (index(job), index(other)) {
            (Some(victim), Some(corunner)) => model.forward(victim, corunner),
            _ => f64::NAN,
        };
        residents.iter().map(|other| beside(model, other)).product()
    }
}

sandtable_policy::export_predictor!(Bias);
