//! `sandtable hardware fidelity`: what the model is worth on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandtable_hardware::{Job, Micros, Profile};
use sandtable_runtime::Summary;
use sandtable_runtime::sandbox::Settings;

use super::measure::HowArgs;
use crate::commands::StoreArgs;
use crate::error::{Error, ExitCode};
use crate::execute::{Compiled, execute};
use crate::measure::measure;
use crate::observe::{Observed, Swaps, means, observe};
use crate::plan::{Cell, Field, Machines, Options, plan};
use crate::table::columns;
use crate::trace::seconds;
use crate::ui;

/// A live spec against its model.
#[derive(Debug, clap::Args)]
pub(crate) struct FidelityArgs {
    /// A spec on a fleet `Nvidia(…)`.
    #[arg(value_name = "SPEC")]
    spec: PathBuf,
    /// A profile measured before; by default one is measured now.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Where a profile that is measured now goes.
    #[arg(long, short, value_name = "FILE", default_value = "fidelity-profile.ron", conflicts_with = "profile")]
    output: PathBuf,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Look for shipped policies here first.
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
}

/// One policy: twice for real and once in the model.
struct Trio {
    label: String,
    real: [Run; 2],
    model: Run,
}

struct Run {
    summary: Summary,
    /// Completion time of each job, seconds, by name.
    times: BTreeMap<String, f64>,
    /// Mean part of the time that devices were busy, mean bytes in use, joules.
    seen: (f64, f64, f64),
}

pub(crate) fn run(args: &FidelityArgs) -> Result<ExitCode, Error> {
    let file = match &args.profile {
        Some(file) => file.clone(),
        None => {
            let families = families(&args.spec, args.policies.as_deref())?;
            let measured = measure(&args.how.plan(&families)?, &|line| ui::note(line))?;
            std::fs::write(&args.output, &measured.text).map_err(|error| Error::file("write", &args.output, &error))?;
            ui::note(&measured.table());
            args.output.clone()
        }
    };
    let profile = std::fs::canonicalize(&file).map_err(|error| Error::file("read", &file, &error))?;
    let read = crate::profile::read(&profile)?;
    let with = |set: Vec<(String, String)>| {
        let named = ("profile".to_string(), format!("File({:?})", profile.display().to_string()));
        let set = std::iter::once(named).chain(set).collect();
        plan(&args.spec, &Options { set, policies: args.policies.clone(), ..Options::default() })
    };
    let live = with(Vec::new())?;
    let Some((first, field)) = live.cells.iter().find_map(|cell| Some((cell, field_of(cell)?))) else {
        let error = Error::usage(format!("{}: its fleet is not real", args.spec.display()));
        return Err(error.hint("fleet: Nvidia(devices: All, slots: 8)"));
    };
    let modelled = with(vec![("fleet".into(), modelled(first, field)), ("costs".into(), costs(&read))])?;
    let store = args.store.open(Some(&args.spec))?;
    let mut trios = Vec::new();
    for (cell, twin) in live.cells.iter().zip(&modelled.cells) {
        let Some(field) = field_of(cell) else { continue };
        let mut real = Vec::new();
        for turn in ["first", "second"] {
            ui::note(&format!("{}: for real, {turn} time", cell.label));
            let settings = Settings { cache: Some(store.code()), ..Settings::default() };
            let compiled = Compiled::new(&settings, std::iter::once(cell))?;
            let observed = observe(cell, field, &compiled, &Swaps::default())?;
            let folder = store.observe(&cell.id, &observed.files)?;
            ui::note(&format!("kept in {}", folder.display()));
            real.push(of_real(cell, observed)?);
        }
        let Ok(real) = <[Run; 2]>::try_from(real) else { continue };
        trios.push(Trio { label: cell.label.clone(), real, model: of_model(twin)? });
    }
    ui::result(&columns(&table(&trios, &read)));
    Ok(ExitCode::Done)
}

fn field_of(cell: &Cell) -> Option<&Arc<Field>> {
    match &cell.machines {
        Machines::Live(field) => Some(field),
        _ => None,
    }
}

/// The built-in families that a spec's jobs are of.
fn families(spec: &Path, policies: Option<&Path>) -> Result<Vec<String>, Error> {
    let options = Options { policies: policies.map(Path::to_path_buf), ..Options::default() };
    let plan = plan(spec, &options)?;
    let mut names = Vec::new();
    for cell in &plan.cells {
        let profile = cell.setting.laws.profile();
        for job in cell.jobs()?.iter() {
            let name = job.workload.and_then(|id| profile.map(|profile| profile.workloads[id as usize].name.clone()));
            names.extend(name);
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// The model of a live fleet.
fn modelled(cell: &Cell, field: &Field) -> String {
    let ground = &field.ground;
    let memory = if ground.memory_mib > 0 { format!(", memory: \"{}MiB\"", ground.memory_mib) } else { String::new() };
    format!(
        "Model(nodes: {}, gpus: {}, kind: {:?}, speed: 1.0{memory}, slots: {}, sharing: {:?})",
        cell.fleet.nodes.len(),
        cell.fleet.nodes[0].gpus,
        ground.kind,
        ground.slots,
        ground.sharing,
    )
}

/// What starting and saving costs, as it was measured.
fn costs(profile: &Profile) -> String {
    let of = profile.gpus.iter().find_map(|gpu| gpu.measured.as_ref());
    let (start, save) = of.map_or((0, 0), |measured| (measured.start, measured.save));
    format!("Costs(start: \"{start}us\", restore: \"{start}us\", checkpoint: \"{save}us\")")
}

fn of_real(cell: &Cell, observed: Observed) -> Result<Run, Error> {
    let summary = observed.outcome.map_err(|failure| {
        let message = format!("{}: {}: {}", cell.label, failure.kind, failure.message);
        Error { exit: ExitCode::PolicyFailed, ..Error::usage(message) }
    })?;
    let times = observed.jobs.into_iter().filter_map(|(job, time)| Some((job, in_seconds(time?))));
    Ok(Run { summary, times: times.collect(), seen: means(&observed.readings) })
}

fn in_seconds(time: Micros) -> f64 {
    seconds(time).parse().unwrap_or(f64::NAN)
}

fn of_model(cell: &Cell) -> Result<Run, Error> {
    let compiled = Compiled::new(&Settings::default(), std::iter::once(cell))?;
    let executed = execute(cell, &compiled)?;
    let summary = executed.outcome.map_err(|failure| {
        let message = format!("{} in the model: {}: {}", cell.label, failure.kind, failure.message);
        Error { exit: ExitCode::PolicyFailed, ..Error::usage(message) }
    })?;
    let jobs: Arc<[Job]> = cell.jobs()?;
    let mut times = BTreeMap::new();
    let rows = executed.files.iter().find(|(name, _)| name == "jobs.csv").map(|(_, bytes)| bytes.clone());
    let text = String::from_utf8_lossy(&rows.unwrap_or_default()).into_owned();
    for (job, line) in jobs.iter().zip(text.lines().skip(1)) {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells.get(at).and_then(|cell| cell.parse::<f64>().ok());
        if let (Some(submit), Some(end)) = (number(1), number(4)) {
            times.insert(job.name.clone(), end - submit);
        }
    }
    let busy = summary.gpu_utilisation.unwrap_or(f64::NAN);
    Ok(Run { summary, times, seen: (busy, f64::NAN, f64::NAN) })
}

/// Mean and 95th percentile of the jobs' relative errors, against the mean of the real runs.
fn errors(of: &Run, against: &BTreeMap<String, f64>) -> (f64, f64) {
    let of_job = |(job, real): (&String, &f64)| Some((of.times.get(job)? - real).abs() / real);
    let mut all: Vec<f64> = against.iter().filter_map(of_job).collect();
    all.sort_by(f64::total_cmp);
    let at = (all.len() * 95).div_ceil(100).saturating_sub(1);
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    (mean, all.get(at).copied().unwrap_or(f64::NAN))
}

/// The table of `hardware.md` §4.6: what was found, and what is aimed at.
fn table(trios: &[Trio], profile: &Profile) -> Vec<Vec<String>> {
    let mut rows = vec![["policy", "check", "real", "model", "off by", "goal"].map(str::to_string).to_vec()];
    let percent = |x: f64| if x.is_nan() { "-".to_string() } else { format!("{:.1} %", x * 100.0) };
    let mut noises = Vec::new();
    for Trio { label, real: [one, two], model } in trios {
        let mut add = |check: &str, real: String, model: String, off: String, goal: &str| {
            rows.push(vec![label.clone(), check.to_string(), real, model, off, goal.to_string()]);
        };
        let both: BTreeMap<String, f64> = one
            .times
            .iter()
            .filter_map(|(job, time)| Some((job.clone(), (time + two.times.get(job)?) / 2.0)))
            .collect();
        let (noise, _) = errors(two, &one.times);
        let (mean, worst) = errors(model, &both);
        noises.push(noise);
        let dash = || "-".to_string();
        add("JCT of a job, real against real", dash(), dash(), percent(noise), "reported");
        let goal = format!("at most {}", percent((2.0 * noise).max(0.05)));
        add("JCT of a job, mean", dash(), dash(), percent(mean), &goal);
        add("JCT of a job, 95th percentile", dash(), dash(), percent(worst), "at most 15 %");
        let metrics: [(&str, fn(&Summary) -> f64, &str); 2] =
            [("mean JCT", |s| s.jct.mean, "at most 5 %"), ("makespan", |s| s.makespan, "at most 3 %")];
        for (name, get, goal) in metrics {
            let real = (get(&one.summary) + get(&two.summary)) / 2.0;
            let found = get(&model.summary);
            add(name, format!("{real:.2} s"), format!("{found:.2} s"), percent((found - real) / real), goal);
        }
        let busy = (one.seen.0 + two.seen.0) / 2.0;
        add("devices busy", percent(busy), percent(model.seen.0), percent(model.seen.0 - busy), "at most 5 points");
        let mib = |bytes: f64| if bytes.is_nan() { "-".to_string() } else { format!("{:.0} MiB", bytes / 1048576.0) };
        add("memory in use", mib((one.seen.1 + two.seen.1) / 2.0), dash(), dash(), "at most 5 %");
        let joules = (one.seen.2 + two.seen.2) / 2.0;
        let energy = if joules.is_nan() { dash() } else { format!("{joules:.0} J") };
        add("energy", energy, dash(), dash(), "at most 10 %");
    }
    let noise = noises.iter().copied().fold(0.0, f64::max);
    let real = |trio: &Trio| (trio.real[0].summary.jct.mean + trio.real[1].summary.jct.mean) / 2.0;
    let pairs = (0..trios.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let apart = pairs.filter(|(a, b)| (real(&trios[*a]) - real(&trios[*b])).abs() > 2.0 * noise * real(&trios[*a]));
    let (mut alike, mut all) = (0, 0);
    for (a, b) in apart {
        all += 1;
        let model = |at: usize| trios[at].model.summary.jct.mean;
        alike += usize::from((real(&trios[a]) < real(&trios[b])) == (model(a) < model(b)));
    }
    let mut last = |check: &str, off: String, goal: &str| {
        rows.push(vec!["all".into(), check.into(), "-".into(), "-".into(), off, goal.into()]);
    };
    last("order of policies", format!("{alike} of {all} pairs beyond noise"), "all");
    if let Some(measured) = profile.gpus.iter().find_map(|gpu| gpu.measured.as_ref()) {
        let of = |value: u32| format!("{:.4}", f64::from(value) / 1e4);
        last("speed by the law, held out", of(measured.held_out_mae), "at most 0.07");
        last("speed by the table, twice", of(measured.repeat_difference), "at most 0.02");
    }
    rows
}
