//! IASP: how fast a workload is beside another, by neural collaborative filtering of the pairs that were measured (Geng
//! et al. 2020; inputs, target and sizes are our reconstruction on He et al. 2017). A workload that was not there in
//! training is taken for its three nearest by solo profile; one of which only a few pairs were measured is judged by
//! the bias model and those.

use sandtable_nets::Weights;
use sandtable_nets::guest::{features, open};
use sandtable_policy::predictor::{About, Predictor, Quantities, Setup, Sources};
use sandtable_policy::{Config, GpuType, PolicyError, WorkloadProfile};

/// The predictor.
pub struct Iasp {
    weights: Weights,
}

impl Predictor for Iasp {
    fn about() -> About {
        About {
            name: "iasp",
            about: "IASP: neural collaborative filtering of measured pairs (Geng et al. 2020, reconstruction)",
            answers: Quantities::SIMILARITY | Quantities::PAIR_SPEED,
            reads: Sources::SOLO_PROFILE,
            needs_weights: true,
            params: &[],
        }
    }

    fn new(_: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let weights = open(setup, "iasp", |pairs| !pairs.known.is_empty() && !pairs.neumf.is_empty())?;
        Ok(Iasp { weights })
    }

    fn pair_speed(&self, kind: &GpuType, job: &WorkloadProfile, residents: &[&WorkloadProfile]) -> f64 {
        let pairs = &self.weights.gpus[&kind.name];
        let own = features(job, kind);
        let beside =
            |other: &&WorkloadProfile| pairs.filtered((&job.workload, &own), (&other.workload, &features(other, kind)));
        residents.iter().map(beside).product::<f64>().max(0.05)
    }
}

sandtable_policy::export_predictor!(Iasp);
