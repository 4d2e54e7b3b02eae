//! IAPP: how fast a task is on a GPU with residents, by a neural network on their solo profiles (Geng et al. 2020;
//! features and sizes are our reconstruction). Of a model family that was not there in training, the one-parameter rule
//! on utilisation knows as much. Without utilisations in the profiles it answers NaN.

use sandtable_nets::guest::{features, open};
use sandtable_nets::{Features, Weights};
use sandtable_policy::predictor::{About, Predictor, Quantities, Setup, Sources};
use sandtable_policy::{Config, GpuType, PolicyError, WorkloadProfile};

/// The predictor.
pub struct Iapp {
    weights: Weights,
}

impl Predictor for Iapp {
    fn about() -> About {
        About {
            name: "iapp",
            about: "IAPP: a neural network on the solo profiles of a task and of a GPU's residents (Geng et al. 2020, reconstruction)",
            answers: Quantities::SIMILARITY | Quantities::PAIR_SPEED,
            reads: Sources::SOLO_PROFILE,
            needs_weights: true,
            params: &[],
        }
    }

    fn new(_: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let weights = open(setup, "iapp", |pairs| !pairs.known.is_empty() && !pairs.mlp.is_empty())?;
        Ok(Iapp { weights })
    }

    fn pair_speed(&self, kind: &GpuType, job: &WorkloadProfile, residents: &[&WorkloadProfile]) -> f64 {
        let pairs = &self.weights.gpus[&kind.name];
        let beside: Vec<Features> = residents.iter().map(|other| features(other, kind)).collect();
        let beside: Vec<&Features> = beside.iter().collect();
        pairs.profiled(&job.family, &features(job, kind), &beside).unwrap_or(f64::NAN)
    }
}

sandtable_policy::export_predictor!(Iapp);
