//! `sandtable trace`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use sandtable_core::display::{Unit, span};
use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_core::output;
use sandtable_inputs::trace::{self, Imported, Options, Packed, QueueOf, Stats, Trace, TraceFormat};
use sandtable_plan::Cell;
use sandtable_results::calibrate::{Calibration, calibrate};
use sandtable_results::reader;
use sandtable_run::execute::{Workers, complete};
use serde_json::json;

use super::{ReadArgs, SpecArgs, StoreArgs};
use crate::commands::Format;
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
        /// Keep only what is fitted to the pairs of a profile, not the measured pairs.
        #[arg(long)]
        fitted: bool,
        /// Output file [default: standard output].
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Write the workload of a spec as a native trace.
    Generate {
        /// The spec.
        spec: PathBuf,
        #[command(flatten)]
        args: SpecArgs,
        /// The seed [default: the spec's first].
        #[arg(long)]
        seed: Option<u64>,
        /// Output file [default: standard output].
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
        /// Output format.
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
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// What is read.
#[derive(Debug, clap::Args)]
pub(crate) struct Input {
    /// The file, plain or compressed (`.gz`, `.zst`).
    file: PathBuf,
    /// Keep only rows whose column has this value.
    #[arg(long = "where", value_name = "COLUMN=VALUE")]
    filter: Vec<String>,
    /// For `csv`: which column holds what: `submit=COLUMN,gpus=COLUMN,duration=COLUMN`; also start and end in place of a duration,
    /// name, declared, deadline, priority, queue, gpus_per_node, cpus, host_memory_mib, part, workload, user, hundredths in place of gpus, what a log recorded (recorded_start, recorded_end, partition,
    /// outcome), and unit=s, ms, min or h.
    #[arg(long, value_name = "WHAT=COLUMN", value_delimiter = ',')]
    map: Vec<String>,
    /// For `gavel`: your copy of its simulation_throughputs.json; for `pollux`: of its folder `traces`; for `shockwave` and `elasticflow`: of the table of rates.
    #[arg(long, value_name = "PATH")]
    throughputs: Option<PathBuf>,
    /// Rename a kind of GPU, such as `a100=A100-SXM4-80GB`; an empty name lets its jobs run on any kind.
    #[arg(long = "kind", value_name = "FROM=TO")]
    kinds: Vec<String>,
    /// For `openb` and `csv`: keep jobs that ask for no GPU, which take CPU and memory of one node.
    #[arg(long)]
    cpu_jobs: bool,
    /// What of the log the queue of a job is, in place of what the trace says of queues.
    #[arg(long, value_name = "WHAT")]
    queue: Option<QueueOf>,
    /// Keep only the first N jobs.
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
            cpu_jobs: self.cpu_jobs,
            queue: self.queue,
            timeless: false,
            times_only: false,
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
            let text = sandtable_inputs::profile::write(&profile)?;
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
            let mut table = Frame::new([Column::words("what"), Column::count("rows"), Column::words("of")]);
            trace.account.table().into_iter().for_each(|row| table.push(row.map(Value::from)));
            ui::note(table.text_rows().trim_end());
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
            write(&cell.setting.workload.trace(seed.unwrap_or(cell.seed), &cell.fleet)?, output.as_ref())
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
    for cell in &plan.cells {
        if !cell.setting.workload.fixed().is_some_and(Packed::logs_starts) {
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
        out.push_str(&calibration(None).csv_header());
    }
    for cell in &plan.cells {
        let Some(trace) = cell.setting.workload.fixed() else { continue };
        if store.has_failed(&cell.id) {
            ui::note(&format!("error: {} seed {}: its policy failed: `sandtable run` says how", cell.label, cell.seed));
            code = ExitCode::PolicyFailed;
            continue;
        }
        let found = calibrate(&trace.trace(), &reader::jobs(&store, &cell.id)?);
        out.push_str(&rendered(cell, &found, format));
    }
    ui::result(&out);
    Ok(code)
}

/// A calibration as a table; without one, its columns.
fn calibration(of: Option<(&Cell, &Calibration)>) -> Frame {
    let wait = |name: &'static str, head: &'static str| Column::of(name, Unit::Seconds).head(head).in_json(false);
    let mut table = Frame::new([
        Column::words("policy").in_text(false),
        Column::words("variant").in_text(false),
        Column::count("seed").in_text(false),
        Column::words("group").head("waits of"),
        Column::count("jobs"),
        wait("recorded_mean_s", "recorded mean"),
        wait("recorded_median_s", "median"),
        wait("recorded_p95_s", "p95"),
        wait("modelled_mean_s", "modelled mean"),
        wait("modelled_median_s", "median"),
        wait("modelled_p95_s", "p95"),
        Column::words("recorded_s").only_in_json(),
        Column::words("modelled_s").only_in_json(),
    ]);
    for (cell, group) in of.iter().flat_map(|(cell, found)| found.groups.iter().map(move |group| (cell, group))) {
        let (recorded, modelled) = (&group.recorded, &group.modelled);
        table.push([
            (&cell.label).into(),
            cell.variant_text().into(),
            cell.seed.into(),
            (&group.name).into(),
            group.jobs.into(),
            recorded.mean.into(),
            recorded.median.into(),
            recorded.p95.into(),
            modelled.mean.into(),
            modelled.median.into(),
            modelled.p95.into(),
            json!(recorded).into(),
            json!(modelled).into(),
        ]);
    }
    table
}

fn rendered(cell: &Cell, found: &Calibration, format: Format) -> String {
    let table = calibration(Some((cell, found)));
    match format {
        Format::Table => {
            let variant = cell.variant_text();
            let space = if variant.is_empty() { "" } else { " " };
            let mut out = format!("{}{space}{variant}, seed {}\n{}", cell.label, cell.seed, table.text());
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
        Format::Json => table.json_lines(),
        Format::Csv => table.csv_rows(),
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
