//! `sandtable shadow`: what policies would have started on a cluster, poll by poll; nothing is changed there.

mod agreement;
mod folder;
mod forecasts;
mod intervals;
mod metrics;
mod watch;

use std::path::PathBuf;

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::Frame;
use sandtable_core::units::span;
use sandtable_hardware::Duration;

use super::Format;
use super::what_if::fleet::accuracy;
use super::what_if::spec::Times;
use crate::ui;

/// A cluster, poll by poll.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ShadowCommand {
    /// Poll a cluster that Slurm schedules, by the commands of `capture slurm`, which only read.
    Slurm(watch::SlurmArgs),
    /// Compare what a cluster started from document to document with what policies would have started.
    Report(ReportArgs),
}

/// What is compared.
#[derive(Debug, clap::Args)]
struct Compared {
    /// Policy: its name, or the path of a component, with parameters as in `fifo,backfill=easy`. May be given several times [default: of Slurm
    /// `slurm-backfill` or `fifo`, as the first document says that it is, of Kueue and KAI `kueue-like` and `kai-like`, else `fifo` and `fifo,backfill=easy`].
    #[arg(long = "policy", value_name = "NAME[,KEY=VALUE]")]
    policy: Vec<String>,
    /// Documents that are further apart are not compared: what ended in between may be forgotten.
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = span)]
    gap: Duration,
    /// Search this folder for shipped policies first.
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
}

/// A folder of documents.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// A folder of documents `sandtable/state@1` of one cluster, as `sandtable shadow slurm` or `sandtable capture` writes them.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    compared: Compared,
    /// Number of documents from which starts are forecast until the last one, to say how good forecasts were.
    #[arg(long, value_name = "N", default_value_t = 0)]
    forecasts: usize,
    #[command(flatten)]
    times: Times,
    /// Output format; `json` and `csv` have a row for each interval and policy.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Number of intervals to run at a time [default: the number of cores].
    #[arg(long, short = 'j', value_name = "N")]
    threads: Option<std::num::NonZeroUsize>,
    /// Do not show a progress bar.
    #[arg(long)]
    no_progress: bool,
}

pub(crate) fn run(command: &ShadowCommand) -> Result<ExitCode, Error> {
    match command {
        ShadowCommand::Slurm(args) => watch::slurm(args),
        ShadowCommand::Report(args) => report(args),
    }
}

fn report(args: &ReportArgs) -> Result<ExitCode, Error> {
    let documents = folder::documents(&args.folder, &ui::note)?;
    let pairs = folder::pairs(&documents, args.compared.gap);
    let Some(first) = pairs.compared.first() else {
        let message = format!(
            "{}: no two documents at most {} apart, of {}",
            args.folder.display(),
            sandtable_core::display::span(args.compared.gap.as_secs_f64()),
            documents.len()
        );
        return Err(Error::usage(message).hint("`sandtable shadow slurm -o DIR` writes them; `--gap` allows more"));
    };
    let judge = intervals::Judge::new(&args.compared.policy, args.compared.policies.clone(), &first.0)?;
    let bar = ui::Progress::of(pairs.compared.len() as u64, args.no_progress);
    let judged = judge.all(&pairs.compared, super::threads(args.threads), &|_| bar.done());
    bar.finish();
    let judged: Vec<intervals::Judged> = judged?;
    let not = judged.iter().filter(|of| of.not_judged.is_some()).count();
    let wrong = judged.iter().find_map(|of| of.not_judged.as_ref());
    match args.format {
        Format::Table => {
            ui::result(&pairs.head(&documents, not));
            ui::result(&agreement::table(&agreement::sums(&judged)).text());
            if let Some(table) = forecast(args, &documents)? {
                ui::result(&format!("\n{}", table.text()));
            }
        }
        format => {
            ui::note(pairs.head(&documents, not).trim_end());
            ui::result(&format.of(&agreement::rows(&judged)));
            // A CSV has one kind of row.
            forecast(args, &documents)?.iter().for_each(|table| ui::note(table.text().trim_end()));
        }
    }
    said_of_faults(&judged).iter().for_each(|line| ui::note(line));
    if let Some(why) = wrong {
        ui::note(&format!("warning: intervals were not compared, the first since {why}"));
    }
    let failed = judged.iter().flat_map(|of| &of.decided).any(|of| of.fault.is_some());
    Ok(if failed { ExitCode::PolicyFailed } else { ExitCode::Done })
}

/// How good forecasts were, where they are asked for.
fn forecast(args: &ReportArgs, documents: &[folder::Document]) -> Result<Option<Frame>, Error> {
    if args.forecasts == 0 {
        return Ok(None);
    }
    let asked = forecasts::Asked {
        policies: &args.compared.policy,
        folder: args.compared.policies.clone(),
        times: &args.times,
        from: args.forecasts,
        threads: super::threads(args.threads),
    };
    Ok(Some(accuracy(&forecasts::accuracies(documents, &asked)?)))
}

/// Of each policy that failed, when it did so first and how.
fn said_of_faults(judged: &[intervals::Judged]) -> Vec<String> {
    let (mut failed, mut lines): (Vec<&str>, Vec<String>) = Default::default();
    for (interval, of) in judged.iter().flat_map(|interval| interval.decided.iter().map(move |of| (interval, of))) {
        let Some(fault) = of.fault.as_ref().filter(|_| !failed.contains(&of.policy.as_str())) else { continue };
        lines.push(format!("error: {} failed first from {} on: {fault}", of.policy, interval.from));
        failed.push(&of.policy);
    }
    lines
}
