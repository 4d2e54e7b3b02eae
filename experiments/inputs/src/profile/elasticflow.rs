//! ElasticFlow's models (Gu et al., ASPLOS 2023): rates of gangs by their size, from the user's copy of the artifact's tables.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::elastic::{Learning, Steps};
use sandtable_hardware::{Elastic, GpuProfile, Profile, Workload};

use crate::trace::elasticflow_workload;
use crate::trace::rates::{ELASTICFLOW, Rates};

const KIND: &str = "A100";

/// Reads a table of rates: `model`, `batch`, `gpus`, `iterations_per_s` of the whole gang. Its workloads are the models with each of their batches:
/// `resnet50 256`. A job has at most as many GPUs as samples in a step.
///
/// # Errors
/// A file that can't be read or is no such table.
pub fn elasticflow(path: &Path) -> Result<Profile, Error> {
    let wrong = |what: String| Error::usage(format!("{}: {what}", path.display()));
    let mut of_models: BTreeMap<(String, u32), Vec<(u32, f64)>> = BTreeMap::new();
    for ((model, batch, gpus), rate) in Rates::read(path, ELASTICFLOW)? {
        if gpus <= batch {
            of_models.entry((model, batch)).or_default().push((gpus, rate));
        }
    }
    for ((model, batch), rates) in &mut of_models {
        // It does not run on so many.
        let runs = rates.iter().rposition(|(_, rate)| *rate > 0.0).map_or(0, |last| last + 1);
        rates.truncate(runs);
        if let Some((gpus, _)) = rates.iter().find(|(_, rate)| *rate == 0.0) {
            return Err(wrong(format!("{model:?} with a batch of {batch} does not run on {gpus} GPUs, but on more")));
        }
        if rates.first().is_none_or(|(gpus, _)| *gpus != 1) {
            return Err(wrong(format!("{model:?} with a batch of {batch} has no rate on 1 GPU")));
        }
    }
    let workload = |((model, batch), rates): ((String, u32), Vec<(u32, f64)>)| {
        let elastic = Elastic {
            initial_batch: batch,
            most_batch: batch,
            least_local: 1,
            most_local: batch,
            epochs: 1,
            gpus: None,
            tunable: false,
            restart_s: 0.0,
            resize_s: 0.0,
            requests: Vec::new(),
            steps: Steps::Scaling(rates),
            on: BTreeMap::new(),
            learning: Learning::Asked,
        };
        let name = elasticflow_workload(&model, batch);
        Workload { name, family: model, elastic: Some(elastic), ..Workload::default() }
    };
    let workloads = of_models.into_iter().map(workload).collect();
    let sources = super::sources([
        ("rates", "ElasticFlow's artifact, the user's copy"),
        ("restart_s, resize_s", "not given by the table: set `rescale` in the costs"),
    ]);
    let gpu = GpuProfile { kind: KIND.into(), sources, ..GpuProfile::default() };
    let about = "ElasticFlow's models: iterations a second by the number of GPUs (Gu et al., ASPLOS 2023)";
    let profile = Profile { about: about.into(), workloads, gpus: vec![gpu] };
    profile.check().map_err(|error| wrong(error.to_string()))?;
    Ok(profile)
}
