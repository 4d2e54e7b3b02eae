//! IASP: how fast a workload is beside another, by neural collaborative filtering of the pairs that were measured (Geng
//! et al. 2020; inputs, target and sizes are our reconstruction on He et al. 2017). A workload that was not there in
//! training is taken for its three nearest by solo profile; one of which only a few pairs were measured is judged by
//! the bias model and those.

use sandtable_nets::{Features, Weights};
use sandtable_policy::predictor::{About, Predictor, Quantities, Setup};
use sandtable_policy::{Config, GpuType, PolicyError, SoloProfile};

/// The predictor.
pub struct Iasp {
    weights: Weights,
}

fn features(profile: &SoloProfile, kind: &GpuType) -> Features {
    let of = |list: &[f64]| list.get(kind.id as usize).copied().unwrap_or(f64::NAN);
    let mib = profile.memory_mib.get(kind.id as usize).copied().unwrap_or(0);
    let memory = if mib == 0 { f64::NAN } else { f64::from(mib) / f64::from(kind.memory_mib) };
    let (gpu, bandwidth) = (of(&profile.gpu_utilisation), of(&profile.memory_utilisation));
    let step = of(&profile.step_time);
    Features::new([gpu, bandwidth, memory, profile.batch, step, profile.gradient_gb], profile.mixed_precision)
}

impl Predictor for Iasp {
    fn about() -> About {
        About {
            name: "iasp",
            about: "IASP: neural collaborative filtering of measured pairs (Geng et al. 2020, reconstruction)",
            answers: Quantities::SIMILARITY | Quantities::PAIR_SPEED,
            needs_weights: true,
            params: &[],
        }
    }

    fn new(_: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let bad = |why: String| PolicyError::BadConfig(why);
        let weights: Weights =
            serde_json::from_slice(&setup.weights).map_err(|error| bad(format!("weights: {error}")))?;
        weights.check("iasp").map_err(bad)?;
        for kind in &setup.gpu_types {
            if !weights.gpus.get(&kind.name).is_some_and(|pairs| !pairs.known.is_empty() && !pairs.neumf.is_empty()) {
                let known: Vec<&str> = weights.gpus.keys().map(String::as_str).collect();
                return Err(bad(format!("weights have nothing for {}: they have {}", kind.name, known.join(", "))));
            }
        }
        Ok(Iasp { weights })
    }

    fn pair_speed(&self, kind: &GpuType, job: &SoloProfile, residents: &[&SoloProfile]) -> f64 {
        let pairs = &self.weights.gpus[&kind.name];
        let own = features(job, kind);
        let beside =
            |other: &&SoloProfile| pairs.filtered((&job.workload, &own), (&other.workload, &features(other, kind)));
        residents.iter().map(beside).product::<f64>().max(0.05)
    }
}

sandtable_policy::export_predictor!(Iasp);
