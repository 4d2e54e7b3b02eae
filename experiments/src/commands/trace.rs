//! `sandtable trace`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::SpecArgs;
use crate::error::{Error, ExitCode};
use crate::metric::span;
use crate::trace::{self, Options, Stats, Trace, TraceFormat};
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
    /// For `csv`: which column holds what: `submit=COLUMN,gpus=COLUMN,duration=COLUMN`; also start, end, name,
    /// declared, and unit=ms.
    #[arg(long, value_name = "WHAT=COLUMN", value_delimiter = ',')]
    map: Vec<String>,
    /// For `gavel`: your copy of its simulation_throughputs.json; for `pollux`: of its folder `traces`.
    #[arg(long, value_name = "PATH")]
    throughputs: Option<PathBuf>,
    /// The first so many jobs.
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,
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
        };
        let trace = trace::read(&self.file, format, &options)?;
        for (what, count) in &trace.notes {
            ui::note(&format!("{count} rows: {what}"));
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
                    std::fs::write(path, text).map_err(|error| Error::file("write", path, &error))?;
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
            write(&trace, output.as_ref())
        }
        TraceCommand::Generate { spec, args, seed, output } => {
            let plan = args.expand(spec)?;
            let Some(cell) = plan.cells.first() else { return Err(Error::usage("the spec has no cell")) };
            write(&cell.setting.workload.trace(seed.unwrap_or(cell.seed), &cell.fleet), output.as_ref())
        }
        TraceCommand::Stats { input, format, json } => {
            let stats = Stats::of(&input.read(*format)?);
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
            std::fs::write(path, trace.to_csv()).map_err(|error| Error::file("write", path, &error))?;
            ui::note(&format!("{} jobs written to {}", trace.rows.len(), path.display()));
        }
        None => ui::result(&trace.to_csv()),
    }
    Ok(ExitCode::Done)
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
