//! What every predictor component with weights does first: it opens them, and sees profiles as features.

use sandtable_policy::predictor::Setup;
use sandtable_policy::{GpuType, PolicyError, WorkloadProfile};

use crate::{Features, Graph, Pairs, Weights};

/// The weights of a setup: this predictor's, of the right shapes, with something usable for every type of the fleet.
///
/// # Errors
/// `BadConfig` says what was found and what was expected.
pub fn open(setup: &Setup, predictor: &str, usable: impl Fn(&Pairs) -> bool) -> Result<Weights, PolicyError> {
    let bad = |why: String| PolicyError::BadConfig(why);
    let weights: Weights = serde_json::from_slice(&setup.weights).map_err(|error| bad(format!("weights: {error}")))?;
    weights.check(predictor).map_err(bad)?;
    match setup.gpu_types.iter().find(|kind| !weights.gpus.get(&kind.name).is_some_and(&usable)) {
        None => Ok(weights),
        Some(kind) => {
            let known: Vec<&str> = weights.gpus.keys().map(String::as_str).collect();
            Err(bad(format!("weights have nothing for {}: they have {}", kind.name, known.join(", "))))
        }
    }
}

/// What a workload's computation graph shows for its batch, by name; none if the graph is unknown.
pub fn facts(profile: &WorkloadProfile) -> Option<Vec<(String, f64)>> {
    let facts = profile.facts.as_ref()?;
    let five = |list: Vec<f64>| list.try_into().ok();
    let graph = Graph {
        counts: [
            facts.flops,
            facts.multiply_adds,
            facts.additions,
            facts.comparisons,
            facts.divisions,
            facts.exponentials,
            facts.activation_bytes,
            facts.parameter_bytes,
            facts.other_bytes,
        ],
        group_nodes: five(facts.group_nodes.iter().map(|nodes| f64::from(*nodes)).collect())?,
        group_flops: five(facts.group_flops.clone())?,
    };
    // An unknown batch is one sample.
    let batch = if profile.batch.is_nan() { 1.0 } else { profile.batch };
    Some(graph.features(batch, profile.mixed_precision))
}

/// What a solo profile shows on a type of GPU.
pub fn features(profile: &WorkloadProfile, kind: &GpuType) -> Features {
    let of = |list: &[f64]| list.get(kind.id as usize).copied().unwrap_or(f64::NAN);
    let mib = profile.memory_mib.get(kind.id as usize).copied().unwrap_or(0);
    let memory = if mib == 0 { f64::NAN } else { f64::from(mib) / f64::from(kind.memory_mib) };
    let (gpu, bandwidth) = (of(&profile.gpu_utilisation), of(&profile.memory_utilisation));
    let step = of(&profile.step_time);
    Features::new([gpu, bandwidth, memory, profile.batch, step, profile.gradient_gb], profile.mixed_precision)
}
