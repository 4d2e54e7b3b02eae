//! One variant of a spec, checked and expanded to cells.

use std::path::Path;
use std::sync::Arc;

use sandtable_hardware::{Costs, Failures, Fleet, GpuType, catalogue};
use sandtable_runtime::sandbox::Limits;
use sandtable_runtime::{CONTRACT, SEMANTICS};
use serde_json::{Value, json};

use super::preset::{PRESETS, Preset};
use super::{Bound, Cell, Setting, canonical, digest, number, workload};
use crate::artifact::Finder;
use crate::error::{Error, nearest};
use crate::spec::{FleetSpec, Group, PolicySpec, PredictorSpec, RevealSpec, SeedsSpec, Source, Spec, short_name};

/// Appends the cells of one variant.
pub(super) fn cells(
    source: &Source,
    spec: &Spec,
    folder: &Path,
    finder: &mut Finder,
    variant: &[(String, String)],
    cells: &mut Vec<Cell>,
) -> Result<(), Error> {
    let preset = preset(source, spec)?;
    let groups = groups(source, spec)?;
    let seeds = seeds(source, spec)?;
    let (jobs, workload_key) = workload::resolve(source, &spec.workload, folder)?;
    let limits = limits(source, spec)?;
    let (ties, judge) = (spec.semantics.ties.unwrap_or_default(), spec.semantics.judge.unwrap_or_default());
    let reveal_declared = spec.reveal.contains(&RevealSpec::DeclaredRunTime);
    let mut semantics = vec![format!("ties {ties:?}"), format!("judge {judge:?}")];
    semantics.extend(preset.map(|preset| format!("preset {}: {}", preset.name, preset.about)));
    semantics.extend(spec.predictors.iter().map(|(quantity, who)| format!("{quantity}: {who:?}")));
    let setting = Arc::new(Setting { workload: jobs, ties, judge, reveal_declared, limits, semantics });
    if spec.policies.is_empty() {
        return Err(source.error("policies", "an experiment needs at least one policy, found none", "no policy"));
    }
    let mut labels: Vec<&str> = Vec::new();
    for (index, policy) in spec.policies.iter().enumerate() {
        let place = format!("policies.{index}");
        let label = policy.label.as_deref().unwrap_or_else(|| short_name(&policy.name));
        if labels.contains(&label) {
            let message = format!("two policies are called `{label}`: give one a `label`");
            return Err(source.error(&place, &message, "the second"));
        }
        labels.push(label);
        let file =
            finder.find(&policy.name).map_err(|why| source.error(&format!("{place}.name"), &why, "this policy"))?;
        let name = short_name(&policy.name);
        let fleet = Arc::new(fleet(source, spec, preset, &groups, name)?);
        let config = config(preset, name, policy);
        let remaining = bound(source, spec, policy, &place)?;
        for seed in &seeds {
            let inputs = json!({
                "contract": CONTRACT,
                "semantics": SEMANTICS,
                "policy": {"blake3": file.digest, "config": config},
                "predictors": {"remaining": bound_key(remaining)},
                "reveal": {"declared-run-time": reveal_declared},
                "fleet": fleet_key(&fleet),
                "workload": workload_key,
                "ties": ties,
                "judge": judge,
                "limits": limits,
                "seed": seed,
            });
            let inputs = canonical(&inputs);
            cells.push(Cell {
                id: digest(inputs.as_bytes()),
                inputs,
                label: label.to_string(),
                variant: variant.to_vec(),
                seed: *seed,
                setting: setting.clone(),
                policy: file.clone(),
                fleet: fleet.clone(),
                config: canonical(&config),
                remaining,
            });
        }
    }
    Ok(())
}

fn preset(source: &Source, spec: &Spec) -> Result<Option<&'static Preset>, Error> {
    let Some(name) = &spec.semantics.preset else { return Ok(None) };
    let found = PRESETS.iter().find(|preset| preset.name == name);
    found.map(Some).ok_or_else(|| {
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        let message = format!("no preset `{name}`: there is {}", known.join(", "));
        source.error("semantics.preset", &message, "no such preset")
    })
}

/// The groups of equal nodes, with speeds.
fn groups(source: &Source, spec: &Spec) -> Result<Vec<Group>, Error> {
    let FleetSpec::Model { nodes, gpus, kind, speed, groups, .. } = &spec.fleet;
    let (groups, places): (Vec<Group>, Vec<String>) = match (nodes, gpus, kind, groups.is_empty()) {
        (Some(nodes), Some(gpus), Some(kind), true) => {
            (vec![Group { nodes: *nodes, gpus: *gpus, kind: kind.clone(), speed: *speed }], vec!["fleet".into()])
        }
        (None, None, None, false) if speed.is_none() => {
            (groups.clone(), (0..groups.len()).map(|index| format!("fleet.groups.{index}")).collect())
        }
        _ => {
            let message = "a fleet has either `nodes`, `gpus` and `kind`, or `groups`";
            return Err(source.error("fleet", message, "here"));
        }
    };
    for (group, place) in groups.iter().zip(places) {
        if group.speed.is_none() && catalogue::find(&group.kind).is_none() {
            let known = catalogue::MODELS.iter().map(|model| model.name);
            let message = format!("no GPU {:?} in the catalogue", group.kind);
            let hint = match nearest(&group.kind, known) {
                Some(near) => format!("is {near:?} meant?"),
                None => "another name needs a `speed`".to_string(),
            };
            return Err(source.error(&format!("{place}.kind"), &message, "this kind").hint(hint));
        }
    }
    Ok(groups)
}

fn fleet(
    source: &Source,
    spec: &Spec,
    preset: Option<&Preset>,
    groups: &[Group],
    policy: &str,
) -> Result<Fleet, Error> {
    let FleetSpec::Model { failures, .. } = &spec.fleet;
    let span = |span: Option<crate::spec::units::Span>| span.map_or(0, |span| span.0);
    let costs = Costs {
        start: span(spec.costs.start),
        checkpoint: span(spec.costs.checkpoint),
        restore: span(spec.costs.restore),
        checkpoint_every: spec.costs.checkpoint_every.map(|span| span.0),
        ..Costs::default()
    };
    if costs.checkpoint_every == Some(0) {
        return Err(source.error("costs.checkpoint_every", "expected a time above 0", "here"));
    }
    let costs = preset.map_or(costs, |preset| preset.costs(policy, costs));
    let failures = failures.map(|failures| Failures { mtbf: failures.mtbf.0, repair: failures.repair.0 });
    let slots = preset.map_or(1, |preset| preset.slots_per_gpu);
    let wide = |group: &Group| {
        let kind = GpuType { name: group.kind.clone(), speed: group.speed.unwrap_or(1.0) };
        (group.nodes, group.gpus.saturating_mul(slots), kind)
    };
    let groups: Vec<(u32, u32, GpuType)> = groups.iter().map(wide).collect();
    Fleet::new(&groups, costs, failures).map_err(|error| source.error("fleet", &error.to_string(), "this fleet"))
}

fn fleet_key(fleet: &Fleet) -> Value {
    let mut runs: Vec<(u32, u32, u32)> = Vec::new();
    for node in &fleet.nodes {
        match runs.last_mut() {
            Some((count, gpus, kind)) if *gpus == node.gpus && *kind == node.gpu_type => *count += 1,
            _ => runs.push((1, node.gpus, node.gpu_type)),
        }
    }
    let types: Vec<Value> = fleet.types.iter().map(|kind| json!([kind.name, number(kind.speed)])).collect();
    json!({"types": types, "nodes": runs, "costs": fleet.costs, "failures": fleet.failures})
}

fn seeds(source: &Source, spec: &Spec) -> Result<Vec<u64>, Error> {
    let seeds = match &spec.seeds {
        None => vec![0],
        Some(SeedsSpec::Range(from, to)) if to.saturating_sub(*from) <= 1_000_000 => (*from..*to).collect(),
        Some(SeedsSpec::Range(..)) => return Err(source.error("seeds", "expected at most 1000000 seeds", "too many")),
        Some(SeedsSpec::List(list)) => list.clone(),
    };
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if seeds.is_empty() {
        return Err(source.error("seeds", "an experiment needs at least one seed, found none", "no seed"));
    }
    if sorted.len() != seeds.len() {
        return Err(source.error("seeds", "a seed stands twice", "these seeds"));
    }
    if sorted.last().is_some_and(|seed| *seed >= 1 << 53) {
        return Err(source.error("seeds", "expected seeds below 2^53", "these seeds"));
    }
    Ok(seeds)
}

fn limits(source: &Source, spec: &Spec) -> Result<Limits, Error> {
    let given = &spec.limits;
    let mut limits = Limits::default();
    limits.decide_fuel = given.fuel.unwrap_or(limits.decide_fuel);
    limits.memory = given.memory.map_or(limits.memory, |bytes| bytes.0);
    limits.actions = given.actions.unwrap_or(limits.actions);
    if limits.decide_fuel == 0 || limits.decide_fuel >= 1 << 53 {
        return Err(source.error("limits.fuel", "expected fuel from 1 to 2^53", "here"));
    }
    if limits.memory > 1 << 30 {
        return Err(source.error("limits.memory", "expected at most 1GiB", "here"));
    }
    Ok(limits)
}

/// The preset's defaults, and over them what the spec says.
fn config(preset: Option<&Preset>, name: &str, policy: &PolicySpec) -> Value {
    let mut config = preset.map_or_else(|| json!({}), |preset| preset.parameters(name));
    for (key, value) in &policy.with {
        config[key.as_str()] = value.clone();
    }
    config
}

fn bound(source: &Source, spec: &Spec, policy: &PolicySpec, place: &str) -> Result<Bound, Error> {
    let own = policy.predictors.iter().map(|entry| (entry, format!("{place}.predictors")));
    let common = spec.predictors.iter().map(|entry| (entry, "predictors".to_string()));
    let mut bound = None;
    for ((quantity, predictor), place) in own.chain(common) {
        if quantity != "remaining" {
            let message = format!("no quantity `{quantity}`: there is remaining");
            return Err(source.error(&place, &message, "here"));
        }
        bound.get_or_insert(match *predictor {
            PredictorSpec::Oracle => Bound::Oracle,
            PredictorSpec::Declared => Bound::Declared,
            PredictorSpec::Noisy { sigma } if (0.0..=10.0).contains(&sigma) => Bound::Noisy { sigma },
            PredictorSpec::Noisy { sigma } => {
                let message = format!("expected a sigma from 0 to 10, found {sigma}");
                return Err(source.error(&format!("{place}.remaining"), &message, "here"));
            }
        });
    }
    Ok(bound.unwrap_or(Bound::Nobody))
}

fn bound_key(bound: Bound) -> Value {
    match bound {
        Bound::Nobody => Value::Null,
        Bound::Oracle => json!("oracle"),
        Bound::Noisy { sigma } => json!({"noisy": number(sigma)}),
        Bound::Declared => json!("declared"),
    }
}
