//! Pollux' measured training jobs (Qiao et al., OSDI 2021): six models on 16 nodes of four T4, from the user's copy of
//! the artifact; and what ships in their place, fitted to them.
//
// The numbers in `MODELS` are facts of AdaptDL's artifact (github.com/petuum/adaptdl, branch osdi21-artifact,
// simulator/; Copyright 2020 Petuum, Inc.; Apache License, Version 2.0), but for `restart`: those are facts of
// github.com/czq693497091/DeepBoot (applications.py), which states no licence.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandtable_core::error::Error;
use sandtable_hardware::elastic::{Elastic, Learning, Run, Steps, Theta, Timing, Timings};
use sandtable_hardware::{GpuProfile, Profile, Workload};

use super::MOST;
use crate::trace::table::{Record, Table};
use crate::trace::{Options, TraceError, read_bytes};

/// What the artifact's code says of a model; restarts are DeepBoot's.
struct Known {
    name: &'static str,
    initial_batch: u32,
    most_batch: u32,
    /// Samples of a pass on one GPU.
    local: (u32, u32),
    epochs: u32,
    /// NCF alone keeps to one GPU, and to its batch.
    gpus: Option<u32>,
    requests: &'static [(u32, u32)],
    /// Seconds of a restart, and until a group has formed anew: from github.com/czq693497091/DeepBoot, not Pollux.
    restart: (f64, f64),
}

const KIND: &str = "T4";

const MODELS: [Known; 6] = [
    Known {
        name: "cifar10",
        initial_batch: 128,
        most_batch: 4096,
        local: (32, 1024),
        epochs: 100,
        gpus: None,
        requests: &[(6, 2048), (8, 2048), (12, 4096), (16, 4096)],
        restart: (24.0, 3.0),
    },
    Known {
        name: "ncf",
        initial_batch: 256,
        most_batch: 32768,
        local: (32, 32768),
        epochs: 10,
        gpus: Some(1),
        requests: &[(1, 32768)],
        restart: (25.0, 2.0),
    },
    Known {
        name: "bert",
        initial_batch: 12,
        most_batch: 384,
        local: (4, 12),
        epochs: 2,
        gpus: None,
        requests: &[(6, 384), (8, 384), (12, 384), (16, 384)],
        restart: (103.0, 5.0),
    },
    Known {
        name: "deepspeech2",
        initial_batch: 20,
        most_batch: 640,
        local: (10, 80),
        epochs: 80,
        gpus: None,
        requests: &[(6, 320), (8, 320), (12, 640)],
        restart: (18.0, 1.0),
    },
    Known {
        name: "yolov3",
        initial_batch: 8,
        most_batch: 512,
        local: (4, 8),
        epochs: 50,
        gpus: None,
        requests: &[(4, 64)],
        restart: (26.0, 3.0),
    },
    Known {
        name: "imagenet",
        initial_batch: 200,
        most_batch: 12800,
        local: (20, 200),
        epochs: 90,
        gpus: None,
        requests: &[(24, 3200), (32, 6400), (48, 6400)],
        restart: (35.0, 3.0),
    },
];

/// Reads the user's copy: `traces/MODEL/placements.csv` and `validation-BATCH.csv`, and for five nodes and more
/// `throughput_exact.csv` and `throughput_grid.csv`.
///
/// # Errors
/// A file that can't be read or understood, or numbers that make no sense.
pub fn pollux(folder: &Path) -> Result<Profile, Error> {
    let mut wide: BTreeMap<String, BTreeMap<(u32, u32), Vec<Timing>>> = BTreeMap::new();
    // Exact rows first: of two for one local batch the first is kept.
    for name in ["throughput_exact.csv", "throughput_grid.csv"] {
        each(&folder.join(name), &["application", "num_nodes", "num_replicas"], |row| {
            let shape = (row.whole("num_nodes")?, row.whole("num_replicas")?);
            let all = wide.entry(row.text("application")?.to_string()).or_default();
            all.entry(shape).or_default().push(timing(row)?);
            Ok(())
        })?;
    }
    let elastic = |known: &Known| {
        let traces = folder.join("traces").join(known.name);
        let mut placements: BTreeMap<Vec<u32>, Vec<Timing>> = BTreeMap::new();
        each(&traces.join("placements.csv"), &["placement"], |row| {
            let text = row.text("placement")?;
            let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(10)).collect();
            let expected = || row.wrong("placement", format!("expected GPUs on each node as digits, found {text:?}"));
            placements.entry(digits.ok_or_else(expected)?).or_default().push(timing(row)?);
            Ok(())
        })?;
        let wide = wide.get(known.name).cloned().unwrap_or_default();
        let (placements, wide) = (placements.into_iter().collect(), wide.into_iter().collect());
        let mut timings = Timings { placements, wide };
        timings.sort();
        Ok(model(known, Steps::Measured(timings), Learning::Measured(runs(&traces)?)))
    };
    let about = "Pollux' measured models on T4 (Qiao et al., OSDI 2021; Apache-2.0, petuum/adaptdl osdi21-artifact)";
    profile(about, "the user's copy", elastic)
}

/// What ships: throughput by the model that `fit` makes of all measured placements, to five digits;
/// efficiency by a noise scale at some parts of the training.
///
/// # Errors
/// A profile that [`pollux`] did not read.
pub fn pollux_fitted(measured: &Profile, fit: impl Fn(&Timings) -> Theta) -> Result<Profile, Error> {
    let elastic = |known: &Known| {
        let found = measured.id(known.name).and_then(|id| measured.workloads[id].elastic.as_ref());
        let wrong = || Error::usage(format!("{}: no measured model", known.name));
        let Elastic { learning, steps: measured, .. } = found.ok_or_else(wrong)?;
        let (Learning::Measured(runs), Steps::Measured(timings)) = (learning, measured) else { return Err(wrong()) };
        let epochs = known.epochs;
        // The geometric mean over the recorded batches and a tenth of the training around.
        let noise = |part: f64| {
            let reach = (f64::from(epochs) * 0.05).ceil() as usize;
            let middle = (part * f64::from(epochs - 1)).round() as usize;
            let rows = middle.saturating_sub(reach)..=(middle + reach).min(epochs as usize - 1);
            let logs: Vec<f64> = rows
                .flat_map(|row| runs.iter().map(move |run| (run.sqr[row], run.variance[row])))
                .filter(|(sqr, variance)| *sqr > 0.0 && *variance > 0.0)
                .map(|(sqr, variance)| libm::log(f64::from(known.initial_batch) * variance / sqr))
                .collect();
            libm::exp(logs.iter().sum::<f64>() / logs.len() as f64)
        };
        let digits = |x: f64| format!("{x:.3e}").parse().unwrap_or(x);
        let parts = [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
        let steps = digits(learning.progress(epochs) / f64::from(epochs));
        let learning = Learning::Fitted { steps, noise: parts.map(|part| (part, digits(noise(part)))).to_vec() };
        let Theta { compute, across, within, gamma } = fit(timings);
        let digits = |x: f64| format!("{x:.4e}").parse().unwrap_or(x);
        let pair = |(a, b): (f64, f64)| (digits(a), digits(b));
        let theta = Theta { compute: pair(compute), across: pair(across), within: pair(within), gamma: digits(gamma) };
        Ok(model(known, Steps::Fitted(theta), learning))
    };
    let source = "fitted to Pollux' measurements, and facts of its code (Apache-2.0, petuum/adaptdl osdi21-artifact)";
    profile(
        "Six models on T4, fitted to what Pollux measured (Qiao et al., OSDI 2021), restarts as in DeepBoot's simulator",
        source,
        elastic,
    )
}

fn profile(about: &str, source: &str, elastic: impl Fn(&Known) -> Result<Elastic, Error>) -> Result<Profile, Error> {
    let workload = |known: &Known| {
        let (name, family) = (known.name.to_string(), known.name.to_string());
        Ok(Workload { name, family, elastic: Some(elastic(known)?), ..Workload::default() })
    };
    let workloads = MODELS.iter().map(workload).collect::<Result<Vec<_>, Error>>()?;
    let restarts = "as in DeepBoot's simulator (github.com/czq693497091/DeepBoot, applications.py; no licence stated), not measured \
                    by Pollux";
    let sources = super::sources([("elastic", source), ("restart_s, resize_s", restarts)]);
    let gpus = vec![GpuProfile { kind: KIND.into(), sources, ..GpuProfile::default() }];
    let profile = Profile { about: about.into(), workloads, gpus };
    profile.check().map_err(|error| Error::usage(error.to_string()))?;
    Ok(profile)
}

fn model(known: &Known, steps: Steps, learning: Learning) -> Elastic {
    Elastic {
        initial_batch: known.initial_batch,
        most_batch: known.most_batch,
        least_local: known.local.0,
        most_local: known.local.1,
        epochs: known.epochs,
        gpus: known.gpus,
        tunable: known.gpus.is_none(),
        restart_s: known.restart.0,
        resize_s: known.restart.1,
        requests: known.requests.to_vec(),
        steps,
        on: BTreeMap::new(),
        learning,
    }
}

fn timing(row: &Record<'_>) -> Result<Timing, TraceError> {
    Ok(Timing { local: row.number("local_bsz")?, step: row.number("step_time")?, sync: row.number("sync_time")? })
}

/// The recorded runs of a model, by batch.
fn runs(folder: &Path) -> Result<Vec<Run>, Error> {
    let batch_of = |path: &PathBuf| -> Option<u32> {
        path.file_name()?.to_str()?.strip_prefix("validation-")?.strip_suffix(".csv")?.parse().ok()
    };
    let mut runs = Vec::new();
    for path in sandtable_core::input::sorted(folder)? {
        let Some(batch) = batch_of(&path) else { continue };
        let mut run = Run { batch, ..Run::default() };
        each(&path, &["progress", "iteration", "grad_sqr", "grad_var"], |row| {
            run.progress.push(row.number("progress")?);
            run.steps.push(row.number("iteration")?);
            run.sqr.push(row.number("grad_sqr")?);
            run.variance.push(row.number("grad_var")?);
            Ok(())
        })?;
        runs.push(run);
    }
    runs.sort_by_key(|run| run.batch);
    match runs.is_empty() {
        true => Err(Error::usage(format!("{}: no validation-BATCH.csv", folder.display()))),
        false => Ok(runs),
    }
}

fn each(path: &Path, needed: &[&str], row: impl FnMut(&Record<'_>) -> Result<(), TraceError>) -> Result<(), Error> {
    let bytes = read_bytes(path, MOST)?;
    let table = Table::new(path, &bytes, b',', true)?;
    table.need(needed)?;
    table.each(&Options::default(), row).map(|_| ())
}
