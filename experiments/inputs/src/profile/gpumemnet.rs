//! GPUMemNet's random MLPs (Yousefzadeh-Asl-Miandoab et al.; CC-BY-4.0 by its data card), by the user's own copy of
//! `mlp_util_mem.csv`: utilisation and memory of 3,000 networks, each trained alone.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::{Counts, GpuProfile, ModelFacts, Profile, ShareMode, Solo, Workload};

use super::MOST;
use crate::trace::Options;
use crate::trace::table::Table;

/// The GPU is not named in the table.
const KIND: &str = "unnamed";

/// Reads the table.
///
/// # Errors
/// The line and column of what can't be understood.
pub fn gpumemnet(path: &Path) -> Result<Profile, Error> {
    let bytes = crate::trace::read_bytes(path, MOST)?;
    let table = Table::new(path, &bytes, b',', true)?;
    table.need(&[
        "depth",
        "activations_per_sample",
        "params",
        "batch",
        "linear_flops_per_sample",
        "avg_gpu_util_pct",
    ])?;
    let (mut workloads, mut solo) = (Vec::new(), BTreeMap::new());
    table.each(&Options::default(), |row| {
        let (depth, norms) = (row.number("depth")?, row.number("batchnorm_layers")?);
        let (flops, outputs) = (row.number("linear_flops_per_sample")?, row.number("activations_per_sample")?);
        let (parameters, batch) = (row.number("params")?, row.number("batch")?);
        let dropouts = row.number("dropout_layers")?;
        let name = format!("mlp{}", workloads.len());
        let facts = ModelFacts {
            model: name.clone(),
            family: "mlp".into(),
            source: "GPUMemNet".into(),
            parameters,
            layer_multiply_adds: flops / 2.0,
            layer_outputs: outputs,
            layer_traffic: 0.0,
            elementwise_outputs: outputs,
            depth,
            total: Counts {
                flops,
                multiply_adds: flops / 2.0,
                activation_bytes: 4.0 * outputs,
                parameter_bytes: 4.0 * parameters,
                ..Counts::default()
            },
            group_nodes: [0, depth as u32, 0, norms as u32, dropouts as u32],
            group_flops: [0.0, flops, 0.0, 0.0, 0.0],
        };
        let percent = row.number("avg_gpu_util_pct")?;
        if !(0.0..=100.0).contains(&percent) {
            return Err(row.wrong("avg_gpu_util_pct", format!("expected 0 to 100, found {percent}")));
        }
        let memory_mib = Some(row.number("max_gpu_mem_mib")?.max(0.0) as u32);
        solo.insert(name.clone(), Solo { utilisation: Some(percent / 100.0), memory_mib, ..Solo::default() });
        let family = "mlp".to_string();
        workloads.push(Workload { name, family, batch: Some(batch), facts: Some(facts), ..Workload::default() });
        Ok(())
    })?;
    let sources = BTreeMap::from([("utilisation, memory_mib".to_string(), "the user's copy".to_string())]);
    let gpu = GpuProfile {
        kind: KIND.into(),
        mode: ShareMode::TimeSlice,
        sources,
        noise: vec![],
        solo,
        pairs: vec![],
        measured: None,
    };
    let profile = Profile { about: "GPUMemNet's random MLPs".into(), workloads, gpus: vec![gpu] };
    profile.check().map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
    Ok(profile)
}
