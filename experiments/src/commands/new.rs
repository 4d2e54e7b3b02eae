//! `sandtable new`: a spec to begin with.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use sandtable_core::error::{Error, ExitCode};
use sandtable_core::output;
use sandtable_inputs::trace::{self, Options, Stats, TraceFormat};

use super::ReadArgs;
use crate::ui;

/// Write a spec to begin with, each line of it explained.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable new && sandtable run experiment.ron
  sandtable new month.ron --trace jobs.csv.gz --format philly")]
pub(crate) struct NewArgs {
    /// The file.
    #[arg(value_name = "FILE", default_value = "experiment.ron")]
    path: PathBuf,
    /// Take the jobs of this trace, and as many nodes as they keep busy.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The trace's format.
    #[arg(long, value_enum, default_value_t, requires = "trace")]
    format: TraceFormat,
    #[command(flatten)]
    reading: ReadArgs,
}

/// The part of its GPUs that a fleet for a trace is to have busy.
const LOAD: f64 = 0.9;

pub(crate) fn run(args: &NewArgs) -> Result<ExitCode, Error> {
    if args.path.exists() {
        let error = Error::usage(format!("{} is there already", args.path.display()));
        return Err(error.hint("another name: sandtable new FILE"));
    }
    let text = match &args.trace {
        None => plain(),
        Some(file) => of_trace(args, file)?,
    };
    output::write(&args.path, &text)?;
    let path = args.path.display();
    ui::note(&format!(
        "{path}: next\n  sandtable plan {path}\n  sandtable run {path}\n  sandtable report {path} -o report.html"
    ));
    Ok(ExitCode::Done)
}

fn plain() -> String {
    let workload = r#"    // 500 jobs that are drawn, for each seed others. A load of 1.0 asks for all GPUs all the time. Instead: Trace(file: "jobs.csv").
    workload: Generate(
        jobs: 500,
        arrivals: Poisson(load: 0.9),
        durations: LogNormal(median: "20min", sigma: 1.4),
        // How many jobs ask for how many GPUs, as parts of all.
        gpus: {1: 0.70, 2: 0.12, 4: 0.10, 8: 0.08},
    ),"#;
    let fleet = "    // Modelled nodes of one kind; `sandtable reference spec` has all that a fleet may be.\n    fleet: Model(nodes: 4, gpus: 8, kind: \"V100-SXM2-16GB\"),";
    text(
        "Which policy for my cluster",
        fleet,
        workload,
        "",
        "seeds: Range(0, 5)",
        "\"workload.jobs\": 100, \"seeds\": Range(0, 2)",
    )
}

/// A spec on a trace: what it holds decides the fleet.
fn of_trace(args: &NewArgs, file: &Path) -> Result<String, Error> {
    let options = Options { limits: args.reading.limits(), ..Options::default() };
    let trace = trace::read(file, args.format, &options).map_err(|error| match args.format {
        TraceFormat::Native => {
            error.hint("another format: --format FORMAT; a file of your own columns: sandtable trace import csv")
        }
        _ => error,
    })?;
    for note in &trace.account.notes {
        ui::note(&note.sentence());
    }
    if trace.rows.is_empty() {
        return Err(Error::usage(format!("{}: no job in it", file.display())));
    }
    let stats = Stats::of(&trace);
    let largest = stats.gpus.keys().next_back().copied().unwrap_or(1);
    let needed = (stats.offered_gpus / LOAD).max(f64::from(largest)).max(1.0);
    let nodes = (needed / 8.0).ceil() as u32;
    let kinds = trace.rows.iter().flat_map(|row| row.kinds.iter()).collect::<std::collections::BTreeSet<_>>();
    let kinds = match kinds.is_empty() {
        true => String::new(),
        false => format!(
            " Its jobs name kinds of GPU: {}.",
            kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        ),
    };
    let fleet = format!(
        "    // The trace has {} jobs in {:.1} days, which keep {:.0} GPUs busy on average; the largest asks for {largest}. These nodes make the load {:.2}.{kinds}\n    \
         fleet: Model(nodes: {nodes}, gpus: 8, kind: \"V100-SXM2-16GB\"),",
        stats.jobs,
        stats.span_days,
        stats.offered_gpus,
        stats.offered_gpus / f64::from(nodes * 8),
    );
    // Relative to the spec, as paths in it are.
    let beside = args.path.parent().unwrap_or(Path::new(""));
    let named = file.strip_prefix(beside).map_or_else(|_| std::path::absolute(file), |below| Ok(below.to_path_buf()));
    let named = named.map_err(|error| Error::file("open", file, &error))?;
    let format = args.format.to_possible_value().map(|value| ron_name(value.get_name())).unwrap_or_default();
    let format = if format == "Native" { String::new() } else { format!(", format: {format}") };
    let workload = format!("    workload: Trace(file: {:?}{format}),", named.display().to_string());
    let first = stats.jobs.min(1000);
    // What the log says of its own cluster is one more row.
    let logged = trace.rows.iter().any(|row| row.recorded.as_ref().is_some_and(|log| log.start.is_some()));
    let recorded = match logged {
        true => {
            "        // What happened: each job starts when the log says that it did, or later where this fleet has no room for it.\n        \
             Policy(name: \"recorded\", starts: Log),\n"
        }
        false => "",
    };
    Ok(text(
        "Which policy for this trace",
        &fleet,
        &workload,
        recorded,
        "// Nothing is drawn: one run of each policy says all.\n    seeds: List([0])",
        &format!("\"workload.jobs\": Some({first})"),
    ))
}

/// The name of a format in a spec: `muri-steps` is `MuriSteps`.
fn ron_name(word: &str) -> String {
    match word {
        "elasticflow" => "ElasticFlow".into(),
        _ => word.split('-').map(|part| part[..1].to_uppercase() + &part[1..]).collect(),
    }
}

fn text(title: &str, fleet: &str, workload: &str, recorded: &str, seeds: &str, test: &str) -> String {
    format!(
        "// `sandtable run` runs what has no result yet. Change anything: what changes is run again, all else stays.\n\
         Experiment(\n    title: \"{title}\",\n{fleet}\n    \
         // What it takes to start a job, to save one that is preempted, and to bring it back.\n    \
         costs: Costs(start: \"20s\", checkpoint: \"10s\", restore: \"30s\"),\n{workload}\n    \
         // `sandtable policy list` has the shipped ones, `sandtable policy inspect NAME` their parameters. A path is one of your own: \"./mine.star\", \"./mine.wasm\".\n    \
         policies: [\n        \
         Policy(name: \"fifo\"),\n        \
         Policy(name: \"fifo\", label: \"fifo-skip\", with: {{\"backfill\": \"skip\"}}),\n        \
         Policy(name: \"sjf\"),\n        \
         Policy(name: \"las\"),\n{recorded}    ],\n    \
         // What `sjf` is told of run times: the truth. `Noisy(sigma: 0.5)` is a forecast that errs.\n    \
         predictors: {{\"remaining\": Oracle}},\n    \
         {seeds},\n    \
         // What `--test` cuts it to.\n    \
         test: {{{test}}},\n)\n"
    )
}
