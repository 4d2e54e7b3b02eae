//! One variant of a spec, checked and expanded to cells.

use std::path::Path;
use std::sync::Arc;

use sandtable_core::digest::{canonical, digest};
use sandtable_core::error::{Error, ExitCode};
use sandtable_hardware::text::turns;
use sandtable_hardware::{Fleet, Profile, Sharing, WorkloadId};
use sandtable_runtime::CONTRACT;
use sandtable_runtime::contract::Quantity;
use sandtable_runtime::inputs::Reveal;
use sandtable_runtime::limits::Limits;
use serde_json::{Value, json};

use super::bind::{Bindings, MAX_WEIGHTS, PredictorBinding, Weights};
use super::preset::{PRESETS, Preset};
use super::starts::{self, Starts};
use super::workload::{LastTrace, Workload};
use super::{Cell, MAX_CELLS, MORE, Options, Seedless, Setting, backend, bind, fleet, parts, performance, workload};
use crate::artifact::{Finder, PolicyFile, SCRIPT, is_script};
use crate::backend::CellBackend;
use crate::spec::{FleetSpec, Judge, PolicySpec, RevealSpec, SeedsSpec, Source, Spec, Ties, WorkloadSpec, short_name};

/// The cells of one variant; `made`: how many others the spec has before them.
pub(super) fn cells(
    source: &Source,
    spec: &Spec,
    (folder, options, made): (&Path, &Options, usize),
    (finder, last): (&mut Finder, &mut LastTrace),
    variant: &[(String, String)],
) -> Result<Vec<Cell>, Error> {
    let preset = preset(source, spec)?;
    let build = options.build.as_deref().unwrap_or(crate::build_info::BUILD);
    let assumed = match options.elsewhere && matches!(spec.fleet, FleetSpec::Nvidia { .. }) {
        true => Some(fleet::measured(fleet::profile(source, spec, folder)?.as_deref(), spec)),
        false => None,
    };
    let backend = backend::resolve(source, spec, folder, assumed)?;
    let profile = fleet::profile(source, spec, folder)?;
    let groups = fleet::groups(source, spec, folder, &*backend, profile.as_deref())?;
    let (seeds, driven_by) = (seeds(source, spec)?, backend.identity());
    let more = spec.policies.len().saturating_mul(seeds.len());
    within_limits(source, options, made.saturating_add(more))?;
    let base = fleet::fleet(source, spec, preset, (&groups, &*backend), "")?;
    let (setting, laws_key, workload_key) =
        setting(source, spec, (preset, profile, &base, &*backend), (folder, options), last)?;
    let mut cells = Vec::with_capacity(more);
    for (index, (policy, label)) in spec.policies.iter().zip(labels(source, spec)?).enumerate() {
        let place = format!("policies.{index}");
        let name = short_name(&policy.name);
        let fleet = fleet::fleet(source, spec, preset, (&groups, &*backend), name)?;
        let fleet = Arc::new(super::queues::of_state(source, spec, setting.workload.queues(), fleet)?);
        let (file, config) = component(source, preset, policy, &place, (folder, finder))?;
        let (weights, starts) = starts::told(source, policy, &place, &setting.workload, (folder, options.reading))?;
        let predictors = bind::bindings(source, spec, policy, &place, folder, finder)?;
        check_declared(source, policy, index, &predictors, &setting.workload)?;
        // What the cells of a policy share: all inputs but the seed.
        let mut shared = json!({
            "build": build,
            "contract": CONTRACT,
            "fleet": fleet::fleet_key(&fleet),
            "judge": setting.judge,
            "laws": laws_key,
            "limits": setting.limits,
            "measure": setting.measured,
            "policy": policy_key(&file, &config, &weights, starts.as_ref()),
            "predictors": predictors.key(),
            "references": setting.references,
            "reveal": setting.reveal,
            "schema": super::SCHEMA,
        });
        if !driven_by.is_null() {
            shared["machines"] = driven_by.clone();
        }
        let inputs = around_the_seed(&shared, &json!({ "ties": setting.ties, "workload": workload_key }));
        let of = Arc::new(Seedless {
            label: label.to_string(),
            variant: variant.to_vec(),
            setting: setting.clone(),
            policy: file.clone(),
            fleet,
            config: canonical(&config),
            weights,
            starts,
            predictors,
            backend: backend.clone(),
            inputs,
        });
        cells.extend(seeds.iter().map(|seed| Cell::new(&of, *seed)));
    }
    Ok(cells)
}

/// What the cells of a variant share, and in their identity the parts of the performance model and of the workload.
fn setting(
    source: &Source,
    spec: &Spec,
    (preset, profile, base, backend): (Option<&Preset>, Option<Arc<Profile>>, &Fleet, &dyn CellBackend),
    (folder, options): (&Path, &Options),
    last: &mut LastTrace,
) -> Result<(Arc<Setting>, Value, Value), Error> {
    let slots = preset.map_or(1, |preset| preset.slots_per_gpu);
    let ask = (slots, spec.serving.as_ref(), options.reading);
    let (jobs, workload_key) = workload::resolve(source, &spec.workload, folder, profile.clone(), ask, last)?;
    if let WorkloadSpec::Generate { parts, shares, .. } = &spec.workload {
        parts::check_drawn(source, parts, base)?;
        if !shares.is_empty() && base.sharing != Sharing::Shares {
            let message = "jobs ask for shares of GPUs, which the fleet does not give";
            return Err(source.error("workload.shares", message, "here").hint("fleet: Model(…, sharing: Shares)"));
        }
    }
    let used = jobs.workloads().map_err(|error| source.locate(error, "workload"))?;
    let references = fleet::references(source, spec, profile.as_deref())?;
    let told: Vec<WorkloadId> = used.iter().chain(&references).copied().collect();
    let (laws, laws_key) = performance::laws(source, spec, profile.as_ref(), base, &told)?;
    let limits = limits(source, spec)?;
    let Some(measured) = spec.measure.unwrap_or_default().window() else {
        return Err(source.error("measure.until", "the window ends before its warm-up does", "no job counts"));
    };
    let (ties, judge) = (spec.semantics.ties.unwrap_or_default(), spec.semantics.judge.unwrap_or_default());
    let reveal = Reveal {
        declared_run_time: spec.reveal.contains(&RevealSpec::DeclaredRunTime),
        memory: spec.reveal.contains(&RevealSpec::Memory),
        solo_profile: spec.reveal.contains(&RevealSpec::SoloProfile),
        model_facts: spec.reveal.contains(&RevealSpec::ModelFacts),
        progress: spec.reveal.contains(&RevealSpec::Progress),
    };
    let said = (ties, judge, preset, profile.as_deref());
    let mut semantics = semantics(spec, base, backend, said);
    semantics.extend(jobs.state_in_words());
    let laws = Arc::new(laws);
    let setting = Setting { workload: jobs, laws, ties, judge, reveal, references, measured, limits, semantics };
    Ok((Arc::new(setting), laws_key, workload_key))
}

/// Checks that users declare run times where a policy is told what they declare.
fn check_declared(
    source: &Source,
    policy: &PolicySpec,
    index: usize,
    predictors: &Bindings,
    workload: &Workload,
) -> Result<(), Error> {
    let is_declared = matches!(predictors.of(Quantity::Remaining), PredictorBinding::Declared);
    if !is_declared || workload.declares() {
        return Ok(());
    }
    let own = policy.predictors.contains_key("remaining");
    let place = if own { format!("policies.{index}.predictors.remaining") } else { "predictors.remaining".to_string() };
    let error = source.error(&place, "no job of this workload says how long it will run", "no job declares it");
    Err(error.hint("`declared` of `Generate`, of a `Job`, or the column declared_s"))
}

/// A policy's part of a cell's identity.
fn policy_key(file: &PolicyFile, config: &Value, weights: &Weights, starts: Option<&Starts>) -> Value {
    let mut key = json!({"blake3": file.digest, "config": config});
    if !weights.bytes.is_empty() {
        key["weights"] = digest(&weights.bytes).into();
    }
    if let Some(starts) = starts {
        key["starts"] = starts.key();
    }
    key
}

/// `cell.json` before the seed and after it; keys are in order.
fn around_the_seed(before: &Value, after: &Value) -> [String; 2] {
    let (before, after) = (canonical(before), canonical(after));
    [format!("{},\"seed\":", &before[..before.len() - 1]), format!(",{}", &after[1..])]
}

/// Checks that a plan of so many cells may be made.
fn within_limits(source: &Source, options: &Options, cells: usize) -> Result<(), Error> {
    if let Some(listed) = options.listed.filter(|listed| cells > *listed) {
        let message =
            format!("the bundle is another experiment here: it makes more than the {listed} cells that it lists");
        return Err(Error { exit: ExitCode::CheckFailed, ..Error::usage(message) });
    }
    let most = options.max_cells.unwrap_or(MAX_CELLS);
    if cells > most {
        let message = format!("{}: {cells} cells, at most {most} are made", source.origin);
        return Err(Error::usage(message).hint(MORE));
    }
    Ok(())
}

/// The semantics of a variant in words, for `plan` and results.
fn semantics(
    spec: &Spec,
    base: &Fleet,
    backend: &dyn CellBackend,
    (ties, judge, preset, profile): (Ties, Judge, Option<&Preset>, Option<&Profile>),
) -> Vec<String> {
    let mut semantics = vec![format!("ties {ties:?}"), format!("judge {judge:?}")];
    semantics.extend(preset.map(|preset| format!("preset {}: {}", preset.name, preset.about)));
    if base.sharing != sandtable_hardware::Sharing::Exclusive {
        semantics.push(format!("GPUs {:?}", base.sharing).to_lowercase());
    }
    semantics.extend(backend.semantics());
    semantics.extend(fleet::estimated_speeds(spec, base, profile));
    if base.slots > 1 {
        semantics.push(format!("{} virtual slots a device", base.slots));
    }
    semantics.extend(profile.map(|profile| format!("profile: {}", sandtable_core::text::line(&profile.about))));
    semantics.extend(spec.predictors.iter().map(|(quantity, who)| format!("{quantity}: {}", words(who))));
    semantics
}

/// What results call each policy.
fn labels<'a>(source: &Source, spec: &'a Spec) -> Result<Vec<&'a str>, Error> {
    if spec.title.contains(disturbs) {
        return Err(source.error("title", "the title has characters that a terminal acts on", "here"));
    }
    if spec.policies.is_empty() {
        return Err(source.error("policies", "an experiment needs at least one policy, found none", "no policy"));
    }
    let mut labels: Vec<&str> = Vec::new();
    for (index, policy) in spec.policies.iter().enumerate() {
        let place = format!("policies.{index}");
        let label = policy.label.as_deref().unwrap_or_else(|| short_name(&policy.name));
        if let Some(why) = unfit_label(label) {
            let place = if policy.label.is_some() { format!("{place}.label") } else { format!("{place}.name") };
            let error = source.error(&place, &format!("a policy can't be called {label:?}: {why}"), "here");
            return Err(error.hint("give it a `label` of letters, digits and dashes"));
        }
        if labels.contains(&label) {
            let message = format!("two policies are called `{label}`: give one a `label`");
            return Err(source.error(&place, &message, "the second"));
        }
        labels.push(label);
    }
    Ok(labels)
}

fn preset(source: &Source, spec: &Spec) -> Result<Option<&'static Preset>, Error> {
    let Some(name) = &spec.semantics.preset else { return Ok(None) };
    let found = PRESETS.iter().find(|preset| preset.name == name);
    found.map(Some).ok_or_else(|| {
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        let message = format!("no preset `{name}`: expected one of: {}", known.join(", "));
        source.error("semantics.preset", &message, "no such preset")
    })
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
        return Err(source.error("seeds", "duplicate seed", "these seeds"));
    }
    if sorted.last().is_some_and(|seed| *seed >= 1 << 53) {
        return Err(source.error("seeds", "expected seeds below 2^53", "these seeds"));
    }
    Ok(seeds)
}

/// Why a policy can't be called so: it could not be chosen by `--only`, or would disturb a terminal.
fn unfit_label(label: &str) -> Option<&'static str> {
    if label.contains(disturbs) {
        return Some("it has characters that a terminal acts on");
    }
    if label.contains(',') || label.starts_with('-') || label.is_empty() {
        return Some("`--only` could not choose it");
    }
    None
}

/// Whether a terminal would act on a character, or begin another line.
fn disturbs(c: char) -> bool {
    c.is_control() || turns(c)
}

fn limits(source: &Source, spec: &Spec) -> Result<Limits, Error> {
    let given = &spec.limits;
    let mut limits = Limits::default();
    limits.decide_fuel = given.fuel.unwrap_or(limits.decide_fuel);
    limits.run_fuel = given.run_fuel.unwrap_or(limits.run_fuel);
    limits.memory = given.memory.map_or(limits.memory, |bytes| bytes.0);
    limits.actions = given.actions.unwrap_or(limits.actions);
    for (name, fuel) in [("limits.fuel", limits.decide_fuel), ("limits.run_fuel", limits.run_fuel)] {
        if fuel == 0 || fuel >= 1 << 53 {
            return Err(source.error(name, "expected fuel from 1 to 2^53", "here"));
        }
    }
    if limits.memory > Limits::MEMORY {
        return Err(source.error("limits.memory", "expected at most 1GiB", "here"));
    }
    Ok(limits)
}

/// The component of a policy, and its configuration: the preset's defaults, over them what the spec says, and the script that it is named by.
fn component(
    source: &Source,
    preset: Option<&Preset>,
    policy: &PolicySpec,
    place: &str,
    (folder, finder): (&Path, &mut Finder),
) -> Result<(Arc<PolicyFile>, Value), Error> {
    let here = |why: String| source.error(&format!("{place}.name"), &why, "this policy");
    let mut config = preset.map_or_else(|| json!({}), |preset| preset.parameters(short_name(&policy.name)));
    for (key, value) in &policy.with {
        config[key.as_str()] = value.clone();
    }
    if !is_script(&policy.name) {
        return Ok((finder.find(&policy.name).map_err(here)?, config));
    }
    if policy.with.contains_key("source") {
        return Err(here("the script is said twice: by its path, and by `source` of `with`".into()));
    }
    let text = sandtable_core::input::text(&folder.join(&policy.name), MAX_WEIGHTS as u64);
    config["source"] = text.map_err(|error| here(error.message))?.into();
    Ok((finder.find(SCRIPT).map_err(here)?, config))
}

/// A predictor in a line of semantics.
fn words(predictor: &crate::spec::PredictorSpec) -> String {
    match predictor {
        crate::spec::PredictorSpec::Component { name, weights, .. } => {
            format!("{}{}", short_name(name), weights.as_ref().map_or(String::new(), |file| format!(" ({file})")))
        }
        other => format!("{other:?}"),
    }
}
