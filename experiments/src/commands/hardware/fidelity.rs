//! `sandtable hardware fidelity`: what the model is worth on this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_core::output;
use sandtable_hardware::{Duration, Job, Profile};
use sandtable_inputs::trace::seconds;
use sandtable_plan::{Cell, LiveDevices, Options, Plan, plan};
use sandtable_results::schema::{JobRecord, Record, StayRecord, read_table};
use sandtable_run::code;
use sandtable_run::execute::{Compiled, execute};
use sandtable_run::measure::measure;
use sandtable_run::observe::{Observed, Swaps, means, observe};
use sandtable_runtime::Summary;
use sandtable_runtime::sandbox::Settings;

use super::measure::HowArgs;
use crate::commands::StoreArgs;
use crate::consent::ConsentArgs;
use crate::ui;

/// A live spec against its model.
#[derive(Debug, clap::Args)]
pub(crate) struct FidelityArgs {
    /// A spec on a fleet `Nvidia(…)`.
    #[arg(value_name = "SPEC")]
    spec: PathBuf,
    /// Profile measured before [default: measure one now].
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Output file of a profile that is measured now.
    #[arg(long, short, value_name = "FILE", default_value = "fidelity-profile.ron", conflicts_with = "profile")]
    output: PathBuf,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    consent: ConsentArgs,
    /// Search this folder for shipped policies first.
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
            let as_it_stands = plan(&args.spec, &Options { policies: args.policies.clone(), ..Options::default() })?;
            // Asked before minutes of measuring.
            args.consent.ask(&as_it_stands.source.origin, as_it_stands.cells.iter())?;
            let families = families(&as_it_stands)?;
            let measured = measure(&args.how.plan(&families)?, &|line| ui::note(line))?;
            output::write(&args.output, &measured.text)?;
            ui::note(&measured.table());
            args.output.clone()
        }
    };
    let profile = std::fs::canonicalize(&file).map_err(|error| Error::file("read", &file, &error))?;
    let read = sandtable_inputs::profile::read(&profile)?;
    let with = |set: Vec<(String, String)>| {
        let named = ("profile".to_string(), format!("File({:?})", profile.display().to_string()));
        let set = std::iter::once(named).chain(set).collect();
        plan(&args.spec, &Options { set, policies: args.policies.clone(), ..Options::default() })
    };
    let live = with(Vec::new())?;
    if args.profile.is_some() {
        args.consent.ask(&live.source.origin, live.cells.iter())?;
    }
    let Some((first, devices)) = live.cells.iter().find_map(|cell| Some((cell, cell.backend.live()?))) else {
        let error = Error::usage(format!("{}: its fleet is not real", args.spec.display()));
        return Err(error.hint("fleet: Nvidia(devices: All, slots: 8)"));
    };
    let modelled = with(vec![("fleet".into(), modelled(first, devices)), ("costs".into(), costs(&read))])?;
    let store = args.store.open(Some(&args.spec))?;
    let mut trios = Vec::new();
    for (cell, twin) in live.cells.iter().zip(&modelled.cells) {
        let Some(devices) = cell.backend.live() else { continue };
        let mut real = Vec::new();
        for turn in ["first", "second"] {
            ui::note(&format!("{}: for real, {turn} time", cell.label));
            let deadline = Some(devices.decide.into());
            let settings = Settings { deadline, ..code::settings_beside(&store, ui::note) };
            let compiled = Compiled::new(&settings, std::iter::once(cell))?;
            let observed = observe(cell, devices, &compiled, &Swaps::none(ui::note), &store.temporary("live")?)?;
            let folder = store.observe(&cell.id, &observed.files)?;
            ui::note(&format!("kept in {}", folder.display()));
            real.push(of_real(cell, observed)?);
        }
        let Ok(real) = <[Run; 2]>::try_from(real) else { continue };
        trios.push(Trio { label: cell.label.clone(), real, model: of_model(twin, &read)? });
    }
    ui::result(&table(&trios, &read).text());
    Ok(ExitCode::Done)
}

/// The built-in families that a spec's jobs are of.
fn families(plan: &Plan) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for cell in &plan.cells {
        let profile = cell.setting.laws.profile();
        for job in cell.jobs()?.iter() {
            let name = job.workload.and_then(|id| profile.map(|profile| profile.workloads[id].name.clone()));
            names.extend(name);
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// The model of a live fleet.
fn modelled(cell: &Cell, devices: &LiveDevices) -> String {
    let shape = &devices.shape;
    let memory = if shape.memory_mib > 0 { format!(", memory: \"{}MiB\"", shape.memory_mib) } else { String::new() };
    format!(
        "Model(nodes: {}, gpus: {}, kind: {:?}, speed: 1.0{memory}, slots: {}, sharing: {:?})",
        cell.fleet.nodes.len(),
        cell.fleet.nodes[0].gpus,
        shape.kind,
        shape.slots,
        shape.sharing,
    )
}

/// What starting and saving costs, as it was measured.
fn costs(profile: &Profile) -> String {
    let of = profile.gpus.iter().find_map(|gpu| gpu.measured.as_ref());
    let (start, save) = of.map_or((Duration::ZERO, Duration::ZERO), |measured| (measured.start, measured.save));
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

fn in_seconds(time: Duration) -> f64 {
    seconds(time).parse().unwrap_or(f64::NAN)
}

fn of_model(cell: &Cell, profile: &Profile) -> Result<Run, Error> {
    let compiled = Compiled::new(&Settings::default(), std::iter::once(cell))?;
    let executed = execute(cell, &compiled)?;
    let files = executed.files()?;
    let summary = executed.outcome.map_err(|failure| {
        let message = format!("{} in the model: {}: {}", cell.label, failure.kind, failure.message);
        Error { exit: ExitCode::PolicyFailed, ..Error::usage(message) }
    })?;
    let mut times = BTreeMap::new();
    for row in rows::<JobRecord>(&files)? {
        if let Some(jct) = row.jct() {
            times.insert(row.job_id, jct);
        }
    }
    let seen = shown(cell, profile, &rows(&files)?, summary.makespan)?;
    Ok(Run { summary, times, seen })
}

/// The rows of a table of a result.
fn rows<T: Record>(files: &[(String, Vec<u8>)]) -> Result<Vec<T>, Error> {
    let bytes = files.iter().find(|(known, _)| known == T::FILE).map_or(&[][..], |(_, bytes)| bytes);
    read_table(bytes).map_err(|why| Error::internal(format!("{}: {why}", T::FILE)))
}

/// How busy the devices of a modelled run are, and how many bytes are in use on each, in the mean: by what each workload
/// shows alone, at most all of a device.
fn shown(cell: &Cell, profile: &Profile, stays: &[StayRecord], makespan: f64) -> Result<(f64, f64, f64), Error> {
    let jobs: Arc<[Job]> = cell.jobs()?;
    let solo = |name: &str| {
        let job = jobs.iter().find(|job| job.name == name)?;
        let workload = &profile.workloads.get(job.workload?.index())?.name;
        profile.gpus.first()?.solo.get(workload)
    };
    let mut changes: Vec<(f64, usize, f64, f64)> = Vec::new();
    for stay in stays {
        let Some(solo) = solo(&stay.job_id) else { return Ok((f64::NAN, f64::NAN, f64::NAN)) };
        let (busy, bytes) =
            (solo.utilisation.unwrap_or(f64::NAN), f64::from(solo.memory_mib.unwrap_or(0)) * 1_048_576.0);
        let (from, to) = (stay.from_s.f64(), stay.to_s.f64());
        for gpu in &stay.gpus.0 {
            let device = cell.fleet.device_of(*gpu);
            changes.extend([(from, device, busy, bytes), (to, device, -busy, -bytes)]);
        }
    }
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let devices = (cell.fleet.gpus() / cell.fleet.slots) as usize;
    let (mut busy, mut bytes) = (vec![0.0f64; devices], vec![0.0f64; devices]);
    let (mut now, mut all_busy, mut all_bytes) = (0.0, 0.0, 0.0);
    for (at, device, more, held) in changes.into_iter().chain([(makespan, 0, 0.0, 0.0)]) {
        let span = (at - now).max(0.0);
        all_busy += span * busy.iter().map(|busy| busy.min(1.0)).sum::<f64>();
        all_bytes += span * bytes.iter().sum::<f64>();
        now = at;
        busy[device] += more;
        bytes[device] += held;
    }
    let over = makespan * devices as f64;
    Ok((all_busy / over, all_bytes / over, f64::NAN))
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

/// The table: what was found, what is aimed at (by ourselves), and whether that is met.
fn table(trios: &[Trio], profile: &Profile) -> Frame {
    let mut table = Frame::new(["policy", "check", "real", "model", "off by", "goal", "met"].map(Column::words));
    let percent = |x: f64| if x.is_nan() { "-".to_string() } else { format!("{:.1} %", x * 100.0) };
    let met = |off: f64, most: f64| match off.abs() <= most {
        _ if off.is_nan() => "-",
        true => "yes",
        false => "no",
    };
    let dash = || "-".to_string();
    let mut noises = Vec::new();
    for Trio { label, real: [one, two], model } in trios {
        let mut add = |check: &str, both: [String; 2], off: f64, most: f64, goal: &str| {
            let [real, model] = both;
            let verdict = if most.is_nan() { "-" } else { met(off, most) };
            table.push([
                label.into(),
                check.into(),
                real.into(),
                model.into(),
                percent(off).into(),
                goal.into(),
                verdict.into(),
            ]);
        };
        let mean_of = |(job, time): (&String, &f64)| Some((job.clone(), (time + two.times.get(job)?) / 2.0));
        let both: BTreeMap<String, f64> = one.times.iter().filter_map(mean_of).collect();
        let (noise, _) = errors(two, &one.times);
        let (mean, worst) = errors(model, &both);
        noises.push(noise);
        let most = (2.0 * noise).max(0.05);
        add("JCT of a job, real against real", [dash(), dash()], noise, f64::NAN, "reported");
        add("JCT of a job, mean", [dash(), dash()], mean, most, &format!("at most {}", percent(most)));
        add("JCT of a job, 95th percentile", [dash(), dash()], worst, 0.15, "at most 15 %");
        let of = |run: &Run| [run.summary.jct.mean, run.summary.makespan];
        let goals = [("mean JCT", 0.05, "at most 5 %"), ("makespan", 0.03, "at most 3 %")];
        for (at, (name, most, goal)) in goals.into_iter().enumerate() {
            let (real, found) = ((of(one)[at] + of(two)[at]) / 2.0, of(model)[at]);
            add(name, [format!("{real:.2} s"), format!("{found:.2} s")], (found - real) / real, most, goal);
        }
        let mean = |get: fn(&Run) -> f64| (get(one) + get(two)) / 2.0;
        let busy = mean(|run| run.seen.0);
        add("devices busy", [percent(busy), percent(model.seen.0)], model.seen.0 - busy, 0.05, "at most 5 points");
        let mib = |bytes: f64| if bytes.is_nan() { dash() } else { format!("{:.0} MiB", bytes / 1_048_576.0) };
        let used = mean(|run| run.seen.1);
        add("memory in use", [mib(used), mib(model.seen.1)], (model.seen.1 - used) / used, 0.05, "at most 5 %");
        let joules = mean(|run| run.seen.2);
        let energy = if joules.is_nan() { dash() } else { format!("{joules:.0} J") };
        add("energy (the model has none)", [energy, dash()], f64::NAN, f64::NAN, "reported");
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
    let mut last = |check: &str, off: String, goal: &str, met: &str| {
        let unknown = || Value::Unknown;
        table.push(["all".into(), check.into(), unknown(), unknown(), off.into(), goal.into(), met.into()]);
    };
    let verdict = match (alike, all) {
        (_, 0) => "-",
        (alike, all) if alike == all => "yes",
        _ => "no",
    };
    last("order of policies", format!("{alike} of {all} pairs beyond noise"), "all", verdict);
    if let Some(measured) = profile.gpus.iter().find_map(|gpu| gpu.measured.as_ref()) {
        let rows = [
            ("speed by the law, held out", measured.held_out_mae, 0.07),
            ("speed of a pair, twice", measured.repeat_difference, 0.02),
        ];
        for (check, found, most) in rows {
            let found = f64::from(found) / 1e4;
            last(check, format!("{found:.4}"), &format!("at most {most}"), met(found, most));
        }
    }
    table
}
