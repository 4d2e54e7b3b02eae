//! Resolves the performance model of a spec: its profile on its fleet, interference and communication.

use std::sync::Arc;

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_hardware::{
    Communication, DurationsOn, Fleet, Interference, InterferenceModel, PerformanceModel, Profile, Sharing, TypeId,
    WorkloadId,
};
use serde_json::{Value, json};

use crate::fleet::no_such_kind;
use crate::number;
use crate::spec::{FleetSpec, LawSpec, Source, Spec};

/// The digest of what of a profile can move a result on a fleet: neither what it says of itself, where its figures come from
/// and how they were measured, nor what it knows of other types of GPU.
fn profile_digest(profile: &Profile, fleet: &Fleet) -> Result<String, Error> {
    let mut moving = profile.clone();
    moving.about.clear();
    moving.gpus.retain(|gpu| fleet.types.iter().any(|kind| kind.name == gpu.kind));
    for gpu in &mut moving.gpus {
        gpu.sources.clear();
        gpu.measured = None;
    }
    let text = serde_json::to_string(&moving).map_err(|error| Error::internal(error.to_string()))?;
    Ok(digest(text.as_bytes()))
}

/// The laws of a profile on a fleet for these workloads; the second is their part of a cell's identity.
pub(super) fn laws(
    source: &Source,
    spec: &Spec,
    profile: Option<&Arc<Profile>>,
    fleet: &Fleet,
    used: &[WorkloadId],
) -> Result<(PerformanceModel, Value), Error> {
    let given = &spec.interference;
    let modelled = matches!(spec.fleet, FleetSpec::Model { .. });
    let interference = interference(source, spec, fleet, profile.is_some())?;
    let communication = communication(source, spec)?;
    let (law, scale) = (interference.law, interference.scale);
    let Some(profile) = profile else {
        if spec.interference.law.is_some_and(|law| !matches!(law, LawSpec::Zero | LawSpec::Constant(_))) {
            let message = "this law needs a `profile`";
            return Err(source.error("interference.law", message, "here"));
        }
        let law = if matches!(law, InterferenceModel::Constant(_)) { law } else { InterferenceModel::None };
        let laws = PerformanceModel::without_profile(Interference { law, ..interference });
        return Ok((laws, json!({"interference": law, "scale": number(scale)})));
    };
    let key = json!({
        "profile": profile_digest(profile, fleet)?,
        "interference": law, "mode": interference.mode, "scale": number(scale), "noise": given.noise,
        "communication": {"overlap": number(communication.overlap), "latency": number(communication.latency)},
    });
    let laws = PerformanceModel::new(profile.clone(), fleet, used, interference, communication);
    let laws = match laws {
        // Real devices need no law; it is only what oracles are asked about.
        Err(sandtable_hardware::LawError::NoPair { .. }) if given.law.is_none() && !modelled => {
            let none = Interference { law: InterferenceModel::None, ..interference };
            PerformanceModel::new(profile.clone(), fleet, used, none, communication)
        }
        laws => laws,
    };
    let laws = laws.map_err(|error| source.error("profile", &error.to_string(), "this profile"))?;
    covers(source, profile, fleet, used)?;
    let Some(kind) = &spec.durations_on else { return Ok((laws, key)) };
    let Some(base) = fleet.types.iter().position(|known| known.name == *kind) else {
        let known: Vec<String> = fleet.types.iter().map(|known| known.name.clone()).collect();
        return Err(no_such_kind(source, kind, &known));
    };
    let laws = laws.with_durations_on(DurationsOn::Kind(TypeId::at(base)), used);
    let laws = laws.map_err(|error| source.error("durations_on", &error.to_string(), "here"))?;
    let mut key = key;
    key["durations_on"] = json!(base);
    Ok((laws, key))
}

/// How jobs that share a GPU slow each other down.
fn interference(source: &Source, spec: &Spec, fleet: &Fleet, has_profile: bool) -> Result<Interference, Error> {
    let given = &spec.interference;
    let law = match given.law {
        // Where GPUs are not shared, what sharing costs is not needed.
        None if matches!(fleet.sharing, Sharing::Exclusive | Sharing::Parts) && fleet.slots == 1 => {
            InterferenceModel::None
        }
        None | Some(LawSpec::Profile) => InterferenceModel::Profile,
        Some(LawSpec::Fitted) => InterferenceModel::Fitted,
        Some(LawSpec::Utilisation(k)) => InterferenceModel::Utilisation(k),
        Some(LawSpec::Constant(extra)) => InterferenceModel::Constant(extra),
        Some(LawSpec::Stages) => InterferenceModel::Stages,
        Some(LawSpec::Zero) => InterferenceModel::None,
    };
    let number_of = match law {
        InterferenceModel::Utilisation(x) | InterferenceModel::Constant(x) => Some(x),
        _ => None,
    };
    if number_of.is_some_and(|x| !(0.0..=100.0).contains(&x)) {
        return Err(source.error("interference.law", "expected a number from 0 to 100", "here"));
    }
    let scale = given.scale.unwrap_or(1.0);
    if !(0.0..=100.0).contains(&scale) {
        return Err(source.error("interference.scale", &format!("expected 0 to 100, found {scale}"), "here"));
    }
    if law == InterferenceModel::Stages && scale != 1.0 {
        let message = format!("expected 1, found {scale}: jobs that take turns have no extra times to be multiplied");
        return Err(source.error("interference.scale", &message, "here"));
    }
    let has_spread =
        !matches!(law, InterferenceModel::None | InterferenceModel::Constant(_) | InterferenceModel::Stages);
    if given.noise && !(has_profile && has_spread) {
        let message = "noise is a spread around a profile's figures: this law has none";
        return Err(source.error("interference.noise", message, "here"));
    }
    Ok(Interference { law, mode: given.mode, scale, noise: given.noise })
}

/// What communication costs a gang.
fn communication(source: &Source, spec: &Spec) -> Result<Communication, Error> {
    let standard = Communication::default();
    let overlap = spec.communication.overlap.unwrap_or(standard.overlap);
    let latency = spec.communication.latency.unwrap_or(standard.latency);
    if !(0.0..=1.0).contains(&overlap) || !(0.0..=10.0).contains(&latency) {
        let message = "expected an overlap from 0 to 1 and a latency from 0 to 10 s";
        return Err(source.error("communication", message, "here"));
    }
    Ok(Communication { overlap, latency })
}

/// Checks that the elastic workloads of a profile are measured at every placement that a fleet has, and that those with a regime have leases.
fn covers(source: &Source, profile: &Profile, fleet: &Fleet, used: &[WorkloadId]) -> Result<(), Error> {
    for workload in used.iter().map(|id| &profile.workloads[*id]) {
        if workload.regime.is_some() && fleet.costs.leases.is_none() {
            let message =
                format!("jobs of {:?} change their batch between leases, and this fleet has none", workload.name);
            let error = source.error("semantics", &message, "here");
            return Err(error.hint("semantics: Semantics(preset: \"shockwave\")"));
        }
        if let Some((regime, leases)) = workload.regime.as_ref().zip(fleet.costs.leases) {
            let slowest = fleet.types.iter().map(|kind| kind.speed).fold(1.0, f64::min);
            let least = regime.rates.values().flat_map(|rates| rates.values()).fold(f64::INFINITY, |a, b| a.min(*b));
            let length = leases.length.as_secs_f64();
            if least * slowest * length < 1.0 {
                let message = format!("{}: {least} steps a second are none in a lease of {length} s", workload.name);
                return Err(source.error("profile", &message, "this profile"));
            }
        }
        if workload.elastic.is_some() && fleet.costs.leases.is_some() {
            let message = format!("jobs of {:?} change their GPUs, which leases for rounds do not have", workload.name);
            return Err(source.error("semantics", &message, "here"));
        }
        let gpus = fleet.nodes.iter().map(|node| node.gpus).max().unwrap_or(0);
        let covered =
            workload.elastic.as_ref().map_or(Ok(()), |elastic| elastic.covers(fleet.nodes.len() as u32, gpus));
        let hole = |hole| source.error("profile", &format!("{}: {hole}", workload.name), "a table with a hole");
        covered.map_err(|why| {
            hole(why).hint("a job of the fleet could be placed so: measure it, or take a smaller fleet")
        })?;
    }
    Ok(())
}
