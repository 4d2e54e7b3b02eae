//! Muri's models (Zhao et al., SIGCOMM 2022): what an iteration takes of CPUs, GPUs and the network, from the user's copy of one of the artifact's traces.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::{GpuProfile, Profile, Stages, Workload};

use crate::trace::muri::iteration_s;
use crate::trace::table::Table;
use crate::trace::{Options, read_bytes};

const KIND: &str = "V100";

/// Gangs of which starts are known.
const GANGS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Seconds from a start to the first iteration, by model and gang (`overhead_dict` of the artifact's `simulator/run_sim.py`, commit 4e69a78).
const STARTS: [(&str, [u32; 6]); 8] = [
    ("vgg16", [7, 7, 8, 9, 9, 10]),
    ("vgg19", [7, 7, 8, 9, 10, 10]),
    ("resnet18", [4, 5, 5, 7, 7, 7]),
    ("shufflenet_v2_x1_0", [4, 4, 5, 5, 7, 8]),
    ("bert", [10; 6]),
    ("gpt2", [10; 6]),
    ("a2c", [38, 39, 39, 46, 46, 46]),
    ("dqn", [5, 5, 6, 6, 8, 8]),
];

/// Of any other model.
const OTHER: u32 = 10;

/// That of a gang; of a size that is not there, as of the next smaller one.
fn start_s(model: &str, gpus: u32) -> f64 {
    let at = GANGS.iter().rposition(|size| *size <= gpus).unwrap_or(0);
    f64::from(STARTS.iter().find(|(name, _)| *name == model).map_or(OTHER, |(_, starts)| starts[at]))
}

/// Reads the distinct gangs of a trace: `model_name`, `num_gpu`, `iteration_time` and `resource_time_0` to `_2` (ms: CPUs, GPUs, network).
///
/// # Errors
/// A file that can't be read or is no such trace, and gangs of one model and size that take different times.
pub fn muri(path: &Path) -> Result<Profile, Error> {
    let bytes = read_bytes(path, super::MOST)?;
    let table = Table::new(path, &bytes, b',', true)?;
    const USES: [&str; 3] = ["resource_time_0", "resource_time_1", "resource_time_2"];
    table.need(&["model_name", "num_gpu", "iteration_time"])?;
    table.need(&USES)?;
    let mut of_models: BTreeMap<String, BTreeMap<u32, Stages>> = BTreeMap::new();
    table.each(&Options::default(), |row| {
        let (model, gpus) = (row.text("model_name")?, row.whole("num_gpu")?);
        let mut uses_s = Vec::new();
        for column in USES {
            uses_s.push(row.number(column)? / 1e3);
        }
        let stages = Stages { step_s: iteration_s(row)?, uses_s, start_s: start_s(model, gpus) };
        stages.check().map_err(|why| row.wrong("resource_time_0", why))?;
        let known = of_models.entry(model.to_string()).or_default().entry(gpus).or_insert_with(|| stages.clone());
        if *known != stages {
            return Err(row.wrong("model_name", format!("{model:?} on {gpus} GPUs took other times in an earlier row")));
        }
        Ok(())
    })?;
    let workload = |(name, stages): (String, _)| Workload { family: name.clone(), name, stages, ..Workload::default() };
    let sources = super::sources([
        ("step_s, uses_s", "Muri's artifact, the user's copy of a trace"),
        ("start_s", "Muri's simulator, commit 4e69a78"),
    ]);
    let gpu = GpuProfile { kind: KIND.into(), sources, ..GpuProfile::default() };
    let about = "Muri's models: what an iteration takes of each resource (Zhao et al., SIGCOMM 2022)";
    let profile =
        Profile { about: about.into(), workloads: of_models.into_iter().map(workload).collect(), gpus: vec![gpu] };
    profile.check().map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
    Ok(profile)
}
