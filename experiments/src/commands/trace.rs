//! `sandtable trace`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use sandtable_runtime::Distribution;
use serde_json::json;

use super::{ReadArgs, SpecArgs, StoreArgs};
use crate::columns::columns;
use crate::error::{Error, ExitCode};
use crate::execute::{Workers, complete};
use crate::metric::span;
use crate::output;
use crate::plan::Cell;
use crate::results;
use crate::table::Format;
use crate::trace::calibrate::{Calibration, Group, calibrate};
use crate::trace::{self, Imported, Options, Stats, Trace, TraceFormat};
use crate::ui;

/// Traces.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum TraceCommand {
    /// Read a trace of another format and write it as a native one; read published measurements of pairs (`gavel` with
    /// its oracle_throughputs.json, `lucid` with its folder of profiles) and write them as a profile.
    Import {
        /// The format.
        #[arg(value_enum)]
        format: TraceFormat,
        #[command(flatten)]
        input: Input,
        /// Of a profile keep what is fitted to the pairs, and leave the measured pairs out.
        #[arg(long)]
        fitted: bool,
        /// Where to; stdout by default.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Write the workload of a spec as a native trace.
    Generate {
        /// The spec.
        spec: PathBuf,
        #[command(flatten)]
        args: SpecArgs,
        /// The seed; by default the spec's first.
        #[arg(long)]
        seed: Option<u64>,
        /// Where to; stdout by default.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Compare the waits that a log recorded with those of a spec's policies on its fleet, by partition and size. Runs the cells
    /// that have no result.
    Calibrate {
        /// The spec; its workload is a trace with recorded starts, `start_s`.
        spec: PathBuf,
        #[command(flatten)]
        args: SpecArgs,
        #[command(flatten)]
        store: StoreArgs,
        /// How rows are printed.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Describe a trace the way a paper's table does.
    Stats {
        #[command(flatten)]
        input: Input,
        /// The trace's format.
        #[arg(long, value_enum, default_value_t = TraceFormat::Native)]
        format: TraceFormat,
        /// As a JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// What is read.
#[derive(Debug, clap::Args)]
pub(crate) struct Input {
    /// The file; `.gz` and `.zst` are read as they are.
    file: PathBuf,
    /// Only rows whose column has this value.
    #[arg(long = "where", value_name = "COLUMN=VALUE")]
    filter: Vec<String>,
    /// For `csv`: which column holds what: `submit=COLUMN,gpus=COLUMN,duration=COLUMN`; also start and end in place of a duration,
    /// name, declared, workload, user, hundredths in place of gpus, what a log recorded (recorded_start, recorded_end, partition,
    /// outcome), and unit=s, ms, min or h.
    #[arg(long, value_name = "WHAT=COLUMN", value_delimiter = ',')]
    map: Vec<String>,
    /// For `gavel`: your copy of its simulation_throughputs.json; for `pollux`: of its folder `traces`.
    #[arg(long, value_name = "PATH")]
    throughputs: Option<PathBuf>,
    /// Call a kind of GPU otherwise, as the fleet does: `a100=A100-SXM4-80GB`; an empty name lets its jobs run on any.
    #[arg(long = "kind", value_name = "FROM=TO")]
    kinds: Vec<String>,
    /// The first so many jobs.
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,
    #[command(flatten)]
    reading: ReadArgs,
}

impl Input {
    /// Whether it is measurements of pairs and no jobs.
    fn is_profile(&self, format: TraceFormat) -> bool {
        match format {
            TraceFormat::Gavel => self.file.extension().is_some_and(|ending| ending == "json"),
            TraceFormat::Lucid => self.file.is_dir(),
            _ => false,
        }
    }

    fn read(&self, format: TraceFormat) -> Result<Trace, Error> {
        let pairs = |list: &[String]| -> Result<BTreeMap<String, String>, Error> {
            let pair = |text: &String| {
                let found = text.split_once('=').map(|(key, value)| (key.to_string(), value.to_string()));
                found.ok_or_else(|| Error::usage(format!("expected KEY=VALUE, found {text:?}")))
            };
            let mut pairs = BTreeMap::new();
            for text in list {
                let (key, value) = pair(text)?;
                if let Some(other) = pairs.insert(key.clone(), value) {
                    let error = Error::usage(format!("{key:?} is given twice, as {other:?} and in {text:?}"));
                    return Err(error.hint("one value for each"));
                }
            }
            Ok(pairs)
        };
        let options = Options {
            jobs: self.jobs,
            filter: pairs(&self.filter)?,
            columns: pairs(&self.map)?,
            throughputs: self.throughputs.clone(),
            limits: self.reading.limits(),
        };
        let kinds = pairs(&self.kinds)?;
        let mut trace = trace::read(&self.file, format, &options)?;
        for (from, to) in &kinds {
            if trace.call(from, to) == 0 {
                let error = Error::usage(format!("--kind {from}={to}: no job names {from:?}"));
                let mut all: Vec<&str> = trace.rows.iter().flat_map(|row| &row.kinds).map(String::as_str).collect();
                all.sort_unstable();
                all.dedup();
                return Err(
                    error.hint(format!("kinds are {}", if all.is_empty() { "none".into() } else { all.join(", ") }))
                );
            }
        }
        Ok(trace)
    }
}

pub(crate) fn run(command: &TraceCommand) -> Result<ExitCode, Error> {
    match command {
        TraceCommand::Import { format, input, fitted, output } if input.is_profile(*format) => {
            let profile = super::predictor::any_profile(&input.file)?;
            let profile = if *fitted { profile.without_pairs() } else { profile };
            let text = crate::profile::write(&profile)?;
            match output {
                Some(path) => {
                    output::write(path, text)?;
                    let (workloads, gpus) = (profile.workloads.len(), profile.gpus.len());
                    let place = path.display();
                    ui::note(&format!("a profile of {workloads} workloads on {gpus} types of GPU written to {place}"));
                }
                None => ui::result(&text),
            }
            Ok(ExitCode::Done)
        }
        TraceCommand::Import { format, input, output, .. } => {
            let trace = input.read(*format)?;
            let rows: Vec<Vec<String>> = trace.account.table().into_iter().map(Vec::from).collect();
            ui::note(columns(&rows).trim_end());
            let code = write(&trace, output.as_ref())?;
            if let Some(path) = output {
                // Not beside a pipe or a device.
                if path.is_file() {
                    let account = Imported::keep(&input.file, &trace.account, path, &trace.to_csv())?;
                    ui::note(&format!("what became of its rows is kept in {}", account.display()));
                }
            }
            Ok(code)
        }
        TraceCommand::Generate { spec, args, seed, output } => {
            let plan = args.expand(spec)?;
            let Some(cell) = plan.cells.first() else { return Err(Error::usage("the spec has no cell")) };
            write(&cell.setting.workload.trace(seed.unwrap_or(cell.seed), &cell.fleet), output.as_ref())
        }
        TraceCommand::Calibrate { spec, args, store, format } => compared(spec, args, store, *format),
        TraceCommand::Stats { input, format, json } => {
            let trace = input.read(*format)?;
            for note in &trace.account.notes {
                ui::note(&note.sentence());
            }
            let stats = Stats::of(&trace);
            ui::result(&if *json {
                serde_json::to_string(&stats).map_err(|error| Error::internal(error.to_string()))? + "\n"
            } else {
                describe(&stats)
            });
            Ok(ExitCode::Done)
        }
    }
}

fn write(trace: &Trace, output: Option<&PathBuf>) -> Result<ExitCode, Error> {
    match output {
        Some(path) => {
            output::write(path, trace.to_csv())?;
            ui::note(&format!("{} jobs written to {}", trace.rows.len(), path.display()));
        }
        None => ui::result(&trace.to_csv()),
    }
    Ok(ExitCode::Done)
}

fn compared(path: &Path, args: &SpecArgs, store: &StoreArgs, format: Format) -> Result<ExitCode, Error> {
    let plan = args.expand(path)?;
    let store = store.open(Some(path))?;
    let logged =
        |trace: &&Trace| trace.rows.iter().any(|row| row.recorded.as_ref().is_some_and(|of| of.start.is_some()));
    for cell in &plan.cells {
        if cell.setting.workload.fixed().filter(logged).is_none() {
            let error = Error::usage(format!("{}: no job of the workload has a recorded start", path.display()));
            return Err(error.hint("`trace import sacct`, or `--map recorded_start=COLUMN`: the column `start_s`"));
        }
    }
    super::run::not_live(&plan)?;
    let stop = AtomicBool::new(false);
    let workers = Workers { threads: super::threads(None), stop: &stop, done: &|_| {} };
    complete(&plan, &store, &workers)?;
    let (mut out, mut code) = (String::new(), ExitCode::Done);
    if format == Format::Csv {
        out.push_str("policy,variant,seed,group,jobs,recorded_mean_s,recorded_median_s,recorded_p95_s,modelled_mean_s,modelled_median_s,modelled_p95_s\n");
    }
    for cell in &plan.cells {
        let Some(trace) = cell.setting.workload.fixed() else { continue };
        if store.has_failed(&cell.id) {
            ui::note(&format!("error: {} seed {}: its policy failed: `sandtable run` says how", cell.label, cell.seed));
            code = ExitCode::PolicyFailed;
            continue;
        }
        let found = calibrate(trace, &results::jobs(&store, &cell.id)?);
        out.push_str(&rendered(cell, &found, format));
    }
    ui::result(&out);
    Ok(code)
}

fn rendered(cell: &Cell, found: &Calibration, format: Format) -> String {
    let of = |d: &Distribution| [d.mean, d.median, d.p95];
    let both = |group: &Group| [of(&group.recorded), of(&group.modelled)].concat();
    match format {
        Format::Table => {
            let head = ["waits of", "jobs", "recorded mean", "median", "p95", "modelled mean", "median", "p95"];
            let mut rows = vec![head.map(str::to_string).to_vec()];
            for group in &found.groups {
                let mut row = vec![group.name.clone(), group.jobs.to_string()];
                row.extend(both(group).into_iter().map(span));
                rows.push(row);
            }
            let variant = cell.variant_text();
            let space = if variant.is_empty() { "" } else { " " };
            let mut out = format!("{}{space}{variant}, seed {}\n{}", cell.label, cell.seed, columns(&rows));
            for (count, why) in [
                (found.unrecorded, "have no recorded start"),
                (found.early, "have a recorded start before they were submitted"),
                (found.unstarted, "never start in the model"),
            ] {
                if count > 0 {
                    out.push_str(&format!("note: {count} jobs {why}: they are not compared\n"));
                }
            }
            out + "\n"
        }
        Format::Json => {
            let object = |group: &Group| {
                json!({
                    "policy": cell.label, "variant": cell.variant_text(), "seed": cell.seed, "group": group.name,
                    "jobs": group.jobs, "recorded_s": group.recorded, "modelled_s": group.modelled,
                })
            };
            found.groups.iter().map(|group| object(group).to_string() + "\n").collect()
        }
        Format::Csv => {
            let cell_of = trace::csv_cell;
            let line = |group: &Group| {
                let waits: Vec<String> = both(group).iter().map(f64::to_string).collect();
                let (label, variant) = (cell_of(&cell.label), cell_of(&cell.variant_text()));
                format!("{label},{variant},{},{},{},{}\n", cell.seed, cell_of(&group.name), group.jobs, waits.join(","))
            };
            found.groups.iter().map(line).collect()
        }
    }
}

fn describe(stats: &Stats) -> String {
    let share = |count: usize| 100.0 * count as f64 / stats.jobs as f64;
    let sizes: Vec<String> = stats.gpus.iter().map(|(gpus, count)| format!("{gpus}: {:.1} %", share(*count))).collect();
    let quantiles = |d: &sandtable_runtime::Distribution| {
        let at = [("mean", d.mean), ("median", d.median), ("p95", d.p95), ("p99", d.p99), ("max", d.max)];
        at.map(|(name, value)| format!("{name} {}", span(value))).join(", ")
    };
    let lines = [
        ("jobs", stats.jobs.to_string()),
        ("span", format!("{:.1} days", stats.span_days)),
        ("GPUs of a job", format!("mean {:.2}; {}", stats.mean_gpus, sizes.join(", "))),
        ("duration", quantiles(&stats.duration_s)),
        ("between arrivals", quantiles(&stats.interarrival_s)),
        ("submitted together", format!("{} ({:.1} %)", stats.tied, share(stats.tied))),
        (
            "work",
            format!("{:.0} GPU-hours; the largest tenth of jobs is {:.1} %", stats.gpu_hours, stats.top_tenth * 100.0),
        ),
        ("offered", format!("{:.1} GPUs busy on average until the last submission", stats.offered_gpus)),
    ];
    lines.iter().map(|(name, value)| format!("{name:<20}{value}\n")).collect()
}
