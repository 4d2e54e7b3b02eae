//! Gavel's measured pairs (Narayanan et al., OSDI 2020; MIT): K80, P100 and V100, 26 workloads, by the user's own copy
//! of `oracle_throughputs.json`.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::{GpuProfile, Pair, Profile, Ring, ShareMode, Solo, Workload, catalogue};
use serde_json::{Map, Value};

use super::{fit_memory, fit_sensitivity, speed};

/// Gavel's name of a type, ours.
pub(super) const KINDS: [(&str, &str); 3] = [("k80", "K80"), ("p100", "P100-PCIE-16GB"), ("v100", "V100-SXM2-16GB")];

/// Gradients by the beginning of a name, MB: parameters times four bytes, rough; ours, Gavel's table has none.
const GRADIENTS: [(&str, f64); 7] = [
    ("A3C", 4.0),
    ("CycleGAN", 90.0),
    ("LM", 114.0),
    ("Recommendation", 50.0),
    ("ResNet-18", 45.0),
    ("ResNet-50", 102.0),
    ("Transformer", 200.0),
];

/// Spreads of a speed around its fit, by speeds below a bound; found by us in the same pairs, K80's last is assumed.
const NOISE: [(&str, [(f64, f64); 4]); 3] = [
    ("k80", [(0.5, 0.054), (0.7, 0.039), (0.9, 0.030), (1.01, 0.030)]),
    ("p100", [(0.5, 0.20), (0.7, 0.105), (0.9, 0.084), (1.01, 0.063)]),
    ("v100", [(0.5, 0.134), (0.7, 0.079), (0.9, 0.077), (1.01, 0.062)]),
];

/// Reads the table.
///
/// # Errors
/// A file that can't be read or is no such table.
pub fn gavel(path: &Path) -> Result<Profile, Error> {
    let text = sandtable_core::input::read(path, sandtable_core::input::DATA)?;
    let wrong = |why: String| Error::usage(format!("{}: {why}", path.display()));
    let table: Value = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let mut profile = Profile {
        about: "Gavel's measured pairs (Narayanan et al., OSDI 2020)".into(),
        workloads: Vec::new(),
        gpus: Vec::new(),
    };
    for (theirs, ours) in KINDS {
        let Some(rates) = table[theirs].as_object() else {
            let hint = "expected Gavel's oracle_throughputs.json: types of GPU, models, and what is beside them";
            return Err(wrong(format!("no throughputs for {theirs:?}")).hint(hint));
        };
        let names: Vec<&str> = rates.keys().map(String::as_str).collect();
        if names.iter().any(|name| name.starts_with("('")) {
            let hint = "a spec reads that one by `profile: GavelSimulation(…)`";
            return Err(wrong("these are simulation_throughputs.json, by gang size".into()).hint(hint));
        }
        if profile.workloads.is_empty() {
            profile.workloads = names.iter().map(|name| workload(name)).collect();
        }
        let (mut solo, pairs) = measured(theirs, rates, &names).map_err(&wrong)?;
        let capacity = catalogue::find(ours).map_or(0, catalogue::GpuModel::memory);
        for (name, mib) in names.iter().zip(fit_memory(&names, &pairs, capacity)) {
            if let Some(solo) = solo.get_mut(*name) {
                solo.memory_mib = Some(mib);
            }
        }
        fit_sensitivity(&names, &pairs, &mut solo);
        let sources = [
            ("pairs", "Gavel, measured 2019-08; [0, 0] is out of memory"),
            ("step_s", "Gavel, 1 / steps per second alone"),
            ("memory_mib", "estimated by us from the pairs that ran out of memory; not measured"),
            ("sensitivity, aggressiveness", "fitted by us to the pairs: speed = 1 / (1 + S A)"),
            ("noise", "spread of the measured pairs around that fit"),
        ];
        profile.gpus.push(GpuProfile {
            kind: ours.into(),
            mode: ShareMode::TimeSlice,
            sources: sources.into_iter().map(|(what, from)| (what.into(), from.into())).collect(),
            noise: NOISE.iter().find(|(kind, _)| *kind == theirs).map_or(Vec::new(), |(_, noise)| noise.to_vec()),
            solo,
            pairs,
            measured: None,
        });
    }
    profile.check().map_err(|error| wrong(error.to_string()))?;
    Ok(profile)
}

/// What Gavel measured on a type: the time of a step alone, and the speeds of each pair over those alone.
fn measured(
    theirs: &str,
    rates: &Map<String, Value>,
    names: &[&str],
) -> Result<(BTreeMap<String, Solo>, Vec<Pair>), String> {
    let alone = |name: &str| {
        let rate = rates[name]["null"].as_f64().filter(|rate| *rate > 0.0);
        rate.ok_or_else(|| format!("{theirs}: no throughput of {name:?} alone (`null`)"))
    };
    let (mut solo, mut pairs) = (BTreeMap::new(), Vec::new());
    for (at, first) in names.iter().enumerate() {
        let step_s = Some((1e6 / alone(first)?).round() / 1e6);
        solo.insert((*first).to_string(), Solo { step_s, ..Solo::default() });
        for second in &names[at..] {
            let Some([one, other]) = rates[*first][*second].as_array().map(Vec::as_slice) else {
                return Err(format!("{theirs}: no pair of {first:?} and {second:?}"));
            };
            let of = |rate: &Value, name: &str| -> Result<f64, String> {
                let rate = rate.as_f64().filter(|rate| *rate >= 0.0);
                let rate = rate.ok_or_else(|| format!("{theirs}: {first:?} beside {second:?}: no number"))?;
                Ok(speed(rate / alone(name)?))
            };
            let pair = (Some(of(one, first)?), Some(of(other, second)?));
            pairs.push(Pair((*first).to_string(), (*second).to_string(), pair.0, pair.1));
        }
    }
    Ok((solo, pairs))
}

pub(super) fn workload(name: &str) -> Workload {
    let family = name.split(" (").next().unwrap_or(name).to_string();
    let batch = name.split("batch size ").nth(1).and_then(|rest| rest.trim_end_matches(')').parse().ok());
    let gradient = GRADIENTS.iter().find(|(beginning, _)| name.starts_with(beginning)).map(|(_, mb)| *mb);
    Workload {
        name: name.into(),
        family,
        batch,
        gradient_mb: gradient,
        communication: Ring::Ring,
        ..Workload::default()
    }
}
