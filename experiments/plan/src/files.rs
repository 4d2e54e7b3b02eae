//! The files that a spec is made of.

use std::path::{Component, Path, PathBuf};

use sandtable_hardware::Profile;
use sandtable_inputs::profile;

use crate::artifact::is_path;
use crate::artifact::oci::{self, Reference};
use crate::spec::{FleetSpec, PredictorSpec, ProfileSpec, Spec, StartsSpec, WorkloadSpec};

/// The files of a spec, by the paths that it says, relative to it; folders stand for all that is in them.
pub(super) fn files(spec: &Spec, folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    match &spec.profile {
        Some(
            ProfileSpec::File(path)
            | ProfileSpec::Gavel(path)
            | ProfileSpec::Lucid(path)
            | ProfileSpec::GavelSimulation(path)
            | ProfileSpec::Pollux(path)
            | ProfileSpec::Shockwave(path)
            | ProfileSpec::ElasticFlow(path)
            | ProfileSpec::Muri(path)
            | ProfileSpec::Throughputs(path)
            | ProfileSpec::Torchvision { file: path, .. },
        ) => all.push(path.clone()),
        Some(ProfileSpec::Inline(_)) | None => {}
    }
    if let WorkloadSpec::Trace { file, throughputs, .. } = &spec.workload {
        all.push(file.clone());
        all.extend(throughputs.clone());
    }
    if let WorkloadSpec::State { file, run_times, next, .. } = &spec.workload {
        all.push(file.clone());
        all.extend(run_times.file().cloned());
        all.extend(next.clone());
    }
    match &spec.fleet {
        FleetSpec::Replay(file) => all.push(file.clone()),
        FleetSpec::Model { list, .. } => all.extend(list.iter().map(|list| list.file.clone())),
        FleetSpec::Nvidia { .. } => {}
    }
    let is_path = |name: &&String| is_path(name);
    let mut predictors: Vec<&PredictorSpec> = spec.predictors.values().collect();
    for policy in &spec.policies {
        all.extend(Some(&policy.name).filter(is_path).into_iter().flat_map(|name| files_of(name, folder)));
        all.extend(policy.weights.iter().filter(|name| name.contains('/')).cloned());
        if let Some(StartsSpec::File(file)) = &policy.starts {
            all.push(file.clone());
        }
        predictors.extend(policy.predictors.values());
    }
    for predictor in predictors {
        if let PredictorSpec::Component { name, weights, .. } = predictor {
            all.extend(Some(name).filter(is_path).into_iter().flat_map(|name| files_of(name, folder)));
            all.extend(weights.iter().filter(|name| name.contains('/')).cloned());
        }
    }
    all
}

/// The files of a component that is named by where it is.
fn files_of(name: &str, folder: &Path) -> Vec<String> {
    match Reference::parse(name) {
        Ok(reference) => oci::files(folder, &reference),
        Err(_) => vec![name.to_string()],
    }
}

/// The computation graphs that the profile of a spec names by their files, relative to the spec.
pub(super) fn graphs_of(spec: &Spec, folder: &Path) -> Vec<String> {
    match &spec.profile {
        Some(ProfileSpec::File(name)) => graphs_of_file(name, folder),
        Some(ProfileSpec::Inline(profile)) => graphs_in(profile, Path::new("")),
        _ => Vec::new(),
    }
}

/// The same of the profile in a file.
pub fn graphs_of_file(name: &str, folder: &Path) -> Vec<String> {
    let Ok(profile) = profile::read(&folder.join(name)) else { return Vec::new() };
    graphs_in(&profile, Path::new(name).parent().unwrap_or(Path::new("")))
}

fn graphs_in(profile: &Profile, beside: &Path) -> Vec<String> {
    let models = profile.workloads.iter().filter_map(|workload| workload.model.as_ref());
    models.filter(|model| model.ends_with(".onnx")).map(|model| beside.join(model).display().to_string()).collect()
}

/// A path without `.` and `..`, and without asking the file system: links stay what the spec calls them.
pub fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(out.pop()),
            other => out.push(other),
        }
    }
    out
}
