//! Cosine similarity of solo profiles: GPU utilisation, memory utilisation and part of the device memory. Needs no
//! training and says only how alike workloads are, not how fast (a baseline of ours).

use sandtable_policy::predictor::{About, Predictor, Quantities, Setup, Sources};
use sandtable_policy::{Config, GpuType, PolicyError, WorkloadProfile};

/// The predictor.
pub struct Cosine;

impl Predictor for Cosine {
    fn about() -> About {
        About {
            name: "cosine",
            about: "cosine of solo profiles: GPU utilisation, memory utilisation, part of the device memory",
            answers: Quantities::SIMILARITY,
            reads: Sources::SOLO_PROFILE,
            needs_weights: false,
            params: &[],
        }
    }

    fn new(_: &Config, _: &Setup) -> Result<Self, PolicyError> {
        Ok(Cosine)
    }

    fn pair_speed(&self, _: &GpuType, _: &WorkloadProfile, _: &[&WorkloadProfile]) -> f64 {
        f64::NAN
    }

    fn similarity(&self, kind: &GpuType, first: &WorkloadProfile, second: &WorkloadProfile) -> f64 {
        let vector = |profile: &WorkloadProfile| {
            let of = |list: &[f64]| list.get(kind.id as usize).copied().unwrap_or(f64::NAN);
            let mib = profile.memory_mib.get(kind.id as usize).copied().unwrap_or(0);
            [of(&profile.gpu_utilisation), of(&profile.memory_utilisation), f64::from(mib) / f64::from(kind.memory_mib)]
        };
        let (a, b) = (vector(first), vector(second));
        let dot = |a: &[f64; 3], b: &[f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        let length = (dot(&a, &a) * dot(&b, &b)).sqrt();
        if length > 0.0 { dot(&a, &b) / length } else { f64::NAN }
    }
}

sandtable_policy::export_predictor!(Cosine);
