//! IAPP: how fast a task is on a GPU with residents, by a neural network on their solo profiles (Geng et al. 2020;
//! features and sizes are our reconstruction). Of a model family that was not there in training, the one-parameter rule
//! on utilisation knows as much. Without utilisations in the profiles it has no idea: NaN.

use sandtable_nets::{Features, Weights};
use sandtable_policy::predictor::{About, Predictor, Quantities, Setup};
use sandtable_policy::{Config, GpuType, PolicyError, SoloProfile};

/// The predictor.
pub struct Iapp {
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

impl Predictor for Iapp {
    fn about() -> About {
        About {
            name: "iapp",
            about: "IAPP: a neural network on the solo profiles of a task and of a GPU's residents (Geng et al. 2020, reconstruction)",
            answers: Quantities::SIMILARITY | Quantities::PAIR_SPEED,
            needs_weights: true,
            params: &[],
        }
    }

    fn new(_: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let bad = |why: String| PolicyError::BadConfig(why);
        let weights: Weights =
            serde_json::from_slice(&setup.weights).map_err(|error| bad(format!("weights: {error}")))?;
        weights.check("iapp").map_err(bad)?;
        for kind in &setup.gpu_types {
            if !weights.gpus.get(&kind.name).is_some_and(|pairs| !pairs.known.is_empty() && !pairs.mlp.is_empty()) {
                let known: Vec<&str> = weights.gpus.keys().map(String::as_str).collect();
                return Err(bad(format!("weights have nothing for {}: they have {}", kind.name, known.join(", "))));
            }
        }
        Ok(Iapp { weights })
    }

    fn pair_speed(&self, kind: &GpuType, job: &SoloProfile, residents: &[&SoloProfile]) -> f64 {
        let pairs = &self.weights.gpus[&kind.name];
        let beside: Vec<Features> = residents.iter().map(|other| features(other, kind)).collect();
        let beside: Vec<&Features> = beside.iter().collect();
        pairs.profiled(&job.family, &features(job, kind), &beside).unwrap_or(f64::NAN)
    }
}

sandtable_policy::export_predictor!(Iapp);
