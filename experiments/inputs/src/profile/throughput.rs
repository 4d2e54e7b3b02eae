//! Throughput by type of GPU and gang size, from the user's copies of published tables and from CSV of their own.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::{GpuProfile, Profile, ShareMode, Solo, Workload};
use serde_json::Value;

use super::MOST;
use super::gavel::KINDS;
use crate::trace::Options;
use crate::trace::table::{Record, Table};

/// Rows of a table of throughputs: workload, kind, gang, samples a second.
#[derive(Default)]
struct Rows {
    workloads: Vec<Workload>,
    rates: BTreeMap<String, BTreeMap<String, BTreeMap<u32, f64>>>,
}

impl Rows {
    fn add(&mut self, workload: Workload, kind: &str, gpus: u32, rate: f64) {
        let rates = self.rates.entry(kind.into()).or_default();
        rates.entry(workload.name.clone()).or_default().insert(gpus, rate);
        if !self.workloads.iter().any(|known| known.name == workload.name) {
            self.workloads.push(workload);
        }
    }

    fn profile(self, about: &str, source: &str) -> Result<Profile, String> {
        let sources = BTreeMap::from([("throughput".to_string(), source.to_string())]);
        let gpus = self.rates.into_iter().map(|(kind, rates)| {
            let solo = |(name, throughput)| (name, Solo { throughput, ..Solo::default() });
            let solo = rates.into_iter().map(solo).collect();
            GpuProfile {
                kind,
                mode: ShareMode::TimeSlice,
                sources: sources.clone(),
                noise: vec![],
                solo,
                pairs: vec![],
                measured: None,
            }
        });
        let profile = Profile { about: about.into(), workloads: self.workloads, gpus: gpus.collect() };
        profile.check().map_err(|error| error.to_string())?;
        Ok(profile)
    }
}

/// Reads Gavel's `simulation_throughputs.json`: the consolidated rates. A rate of 0 did not fit.
///
/// # Errors
/// A file that can't be read or is no such table.
pub fn gavel_simulation(path: &Path) -> Result<Profile, Error> {
    let text = sandtable_core::input::read(path, sandtable_core::input::DATA)?;
    let wrong = |why: String| Error::usage(format!("{}: {why}", path.display()));
    let table: Value = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let mut rows = Rows::default();
    for (theirs, ours) in KINDS {
        let Some(rates) = table[theirs].as_object() else {
            let hint =
                "expected Gavel's simulation_throughputs.json: types of GPU, ('MODEL', GANG), and what is beside";
            return Err(wrong(format!("no throughputs for {theirs:?}")).hint(hint));
        };
        for (key, beside) in rates {
            let found =
                key.strip_prefix("('").and_then(|key| key.strip_suffix(')')).and_then(|key| key.split_once("', "));
            let gang = found.and_then(|(name, gang)| Some((name, gang.parse::<u32>().ok()?)));
            let Some((name, gang)) = gang else {
                return Err(wrong(format!("{theirs}: expected ('MODEL', GANG), found {key:?}")));
            };
            let rate = beside["null"].as_f64().filter(|rate| *rate >= 0.0);
            let rate = rate.ok_or_else(|| wrong(format!("{theirs}: no throughput of {key} alone (`null`)")))?;
            rows.add(super::gavel::workload(name), ours, gang, rate);
        }
    }
    rows.profile("Gavel's throughputs by gang size (Narayanan et al., OSDI 2020)", "the user's copy").map_err(wrong)
}

/// Sets of torchvision-gpu-bench that have all models and gangs of 1 to 4, and our name of their GPU.
const SETS: [(&str, &str); 4] =
    [("2080ti(2)", "RTX-2080-Ti"), ("TitanRTX", "TITAN-RTX"), ("TITANXP", "TITAN-Xp"), ("dgx-a100", "A100-SXM4-40GB")];

/// Images of a GPU in a step of that benchmark.
const BATCH: f64 = 12.0;

/// Reads `step_ms.csv` of torchvision-gpu-bench: training at one precision.
///
/// # Errors
/// A file that can't be read or is no such table, or a precision that it lacks.
pub fn torchvision(path: &Path, precision: &str) -> Result<Profile, Error> {
    const PRECISIONS: [&str; 3] = ["double", "float", "half"];
    if !PRECISIONS.contains(&precision) {
        let why = format!("no precision {precision:?}: there is {}", PRECISIONS.join(", "));
        return Err(Error::usage(why));
    }
    let bytes = crate::trace::read_bytes(path, MOST)?;
    let table = Table::new(path, &bytes, b',', true)?;
    table.need(&["set", "n_gpus", "precision", "mode", "model", "median_ms"])?;
    let mut rows = Rows::default();
    table.each(&Options::default(), |row| {
        let (set, mode) = (row.text("set")?, row.text("mode")?);
        let Some((_, kind)) = SETS.iter().find(|(name, _)| *name == set) else { return Ok(()) };
        if mode != "train" || row.text("precision")? != precision {
            return Ok(());
        }
        let (gpus, millis, name) = (row.whole("n_gpus")?, row.number("median_ms")?, row.text("model")?);
        if millis <= 0.0 {
            return Err(row.wrong("median_ms", format!("expected a time above 0, found {millis}")));
        }
        let model = crate::facts::catalogue().iter().find(|facts| facts.model == name);
        let workload = Workload {
            name: name.into(),
            family: model.map_or_else(|| name.into(), |facts| facts.family.clone()),
            batch: Some(BATCH),
            mixed_precision: precision == "half",
            model: model.map(|facts| facts.model.clone()),
            ..Workload::default()
        };
        rows.add(workload, kind, gpus, BATCH * f64::from(gpus) * 1000.0 / millis);
        Ok(())
    })?;
    let about = format!("torchvision-gpu-bench, training at {precision} precision, batch 12 per GPU");
    rows.profile(&about, "the user's copy").map_err(|why| Error::usage(format!("{}: {why}", path.display())))
}

/// Reads a CSV with the columns `workload`, `kind`, `gpus`, `throughput` (samples a second) and if wanted `model`,
/// `family`, `batch`.
///
/// # Errors
/// The line and column of what can't be understood.
pub fn throughputs(path: &Path) -> Result<Profile, Error> {
    let bytes = crate::trace::read_bytes(path, MOST)?;
    let table = Table::new(path, &bytes, b',', true)?;
    table.need(&["workload", "kind", "gpus", "throughput"])?;
    let mut rows = Rows::default();
    table.each(&Options::default(), |row| {
        let given = |column: &str| row.find(column).filter(|text| !text.is_empty());
        let (gpus, rate) = (row.whole("gpus")?, row.number("throughput")?);
        if gpus == 0 || rate < 0.0 {
            let column = if gpus == 0 { "gpus" } else { "throughput" };
            return Err(row.wrong(column, "expected at least one GPU and a rate of at least 0"));
        }
        let model = given("model").map(str::to_string);
        let workload = Workload {
            name: row.text("workload")?.into(),
            family: family(row, model.as_deref()),
            batch: given("batch").map(|_| row.number("batch")).transpose()?,
            model,
            ..Workload::default()
        };
        rows.add(workload, row.text("kind")?, gpus, rate);
        Ok(())
    })?;
    let about = format!("throughputs of {}", path.file_name().unwrap_or_default().to_string_lossy());
    rows.profile(&about, "the user's file").map_err(|why| Error::usage(format!("{}: {why}", path.display())))
}

/// What a row says, else its model's, else the workload itself.
fn family(row: &Record<'_>, model: Option<&str>) -> String {
    let known = || crate::facts::catalogue().iter().find(|facts| Some(facts.model.as_str()) == model);
    match row.find("family").filter(|text| !text.is_empty()) {
        Some(family) => family.into(),
        None => known().map_or_else(|| row.find("workload").unwrap_or_default().into(), |facts| facts.family.clone()),
    }
}

/// What explains the time of a step: a constant, layers, multiply-adds, layer outputs, element-wise outputs, parameters.
fn terms(facts: &sandtable_hardware::ModelFacts) -> [f64; 6] {
    [
        1.0,
        facts.depth / 100.0,
        facts.layer_multiply_adds / 1e9,
        facts.layer_outputs / 1e7,
        facts.elementwise_outputs / 1e7,
        facts.parameters / 1e8,
    ]
}

/// Least squares of relative errors with coefficients of at least 0, by coordinate descent.
fn fit(rows: &[([f64; 6], f64)]) -> [f64; 6] {
    let mut c = [0.0; 6];
    for _ in 0..20_000 {
        for at in 0..6 {
            let (mut slope, mut curve) = (0.0, 1e-12);
            for (x, time) in rows {
                let found: f64 = x.iter().zip(c).map(|(x, c)| x * c).sum();
                slope += x[at] / time * (1.0 - found / time);
                curve += (x[at] / time) * (x[at] / time);
            }
            c[at] = (c[at] + slope / curve).max(0.0);
        }
    }
    c
}

/// A profile of the same workloads whose throughputs are fitted figures: the time of a step by what a model's graph shows,
/// times a factor for each family; utilisation is assumed to be the part of the step that is neither constant nor by the
/// layer, which is launching. Workloads without facts are left out.
#[must_use]
pub fn fitted(profile: &Profile, about: &str) -> Profile {
    let known = |workload: &&Workload| workload.facts.is_some();
    let workloads: Vec<&Workload> = profile.workloads.iter().filter(known).collect();
    let facts = |workload: &Workload| workload.facts.as_ref().map_or([0.0; 6], terms);
    let gpus = profile.gpus.iter().map(|gpu| {
        let sizes: std::collections::BTreeSet<u32> =
            gpu.solo.values().flat_map(|solo| solo.throughput.keys().copied()).collect();
        let mut solo: BTreeMap<String, Solo> = BTreeMap::new();
        for size in sizes {
            let rate = |workload: &Workload| gpu.solo.get(&workload.name)?.throughput.get(&size).copied();
            let rows: Vec<(&Workload, [f64; 6], f64)> = workloads
                .iter()
                .filter_map(|workload| Some((*workload, facts(workload), f64::from(size) / rate(workload)?)))
                .collect();
            let c = fit(&rows.iter().map(|(_, x, time)| (*x, *time)).collect::<Vec<_>>());
            let raw = |x: &[f64; 6]| x.iter().zip(c).map(|(x, c)| x * c).sum::<f64>();
            for (workload, x, _) in &rows {
                let kin = rows.iter().filter(|(other, ..)| other.family == workload.family);
                let logs: Vec<f64> = kin.map(|(_, x, time)| libm::log(time / raw(x))).collect();
                let factor = libm::exp(logs.iter().sum::<f64>() / logs.len() as f64);
                let launching = (c[0] + c[1] * x[1]) / raw(x);
                let entry = solo.entry(workload.name.clone()).or_default();
                let round = |x: f64, digits: f64| (x * digits).round() / digits;
                entry.throughput.insert(size, round(f64::from(size) / (raw(x) * factor), 100.0));
                if size == 1 {
                    entry.utilisation = Some(round(1.0 - launching, 1000.0));
                }
            }
        }
        let sources = [
            ("throughput", "fitted to torchvision-gpu-bench (ryujaehun/pytorch-gpu-benchmark, MIT)"),
            ("utilisation", "assumed: the part of a fitted step that is not launching"),
        ];
        let sources = sources.into_iter().map(|(what, from)| (what.into(), from.into())).collect();
        GpuProfile {
            kind: gpu.kind.clone(),
            mode: gpu.mode,
            sources,
            noise: vec![],
            solo,
            pairs: vec![],
            measured: None,
        }
    });
    let bare = |workload: &&Workload| Workload { facts: None, ..(*workload).clone() };
    Profile { about: about.into(), workloads: workloads.iter().map(bare).collect(), gpus: gpus.collect() }
}
