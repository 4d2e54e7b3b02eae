//! Polls a cluster and says of each poll what policies would have started since the one before.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::units::span;
use sandtable_hardware::Duration;
use sandtable_hardware::live::{Clock, wait};

use super::folder::{self, Document};
use super::intervals::Judge;
use super::metrics::{Metrics, Served};
use super::{Compared, agreement};
use crate::commands::capture::of_slurm;
use crate::ui;

/// Slurm's cluster, poll by poll.
#[derive(Debug, clap::Args)]
pub(crate) struct SlurmArgs {
    /// Output folder of the documents, one a poll; one that has some is gone on with.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    compared: Compared,
    /// Time between two polls, at least 1s.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = span)]
    every: Duration,
    /// Time after which it ends [default: until interrupted].
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    within: Option<Duration>,
    /// Address on which metrics are served as Prometheus reads them, such as 127.0.0.1:9300.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Name of a kind of GPU by the site's word for it, as a100=A100-SXM4-80GB.
    #[arg(long = "kind", value_name = "WORD=NAME", value_delimiter = ',')]
    kinds: Vec<String>,
}

/// Longest time between two polls of a cluster that does not answer.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often it is looked whether to end.
const LOOK: Duration = Duration::from_millis(100);

pub(super) fn slurm(args: &SlurmArgs) -> Result<ExitCode, Error> {
    if args.every < Duration::from_secs(1) {
        return Err(Error::usage("--every: expected at least 1s: Slurm's times are whole seconds"));
    }
    std::fs::create_dir_all(&args.output).map_err(|error| Error::file("make", &args.output, &error))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|error| Error::usage(format!("no handler of signals: {error}")))?;
    }
    let metrics = Metrics::default();
    let served = args.listen.map(|address| Served::on(address, metrics.clone())).transpose()?;
    if let Some(served) = &served {
        ui::note(&format!("metrics: http://{}/metrics", served.address));
    }
    let mut watch = Watch { args, clock: Clock::start(), metrics, last: None, judge: None, failures: 0 };
    watch.last = folder::documents(&args.output)?.pop();
    watch.poll(true)?;
    let mut due = args.every;
    let ends = |now: Duration| args.within.is_some_and(|within| now >= within);
    while !ends(due) {
        while watch.now() < due && !stop.load(Ordering::Relaxed) {
            wait(LOOK.min(due.saturating_sub(watch.now())));
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        watch.poll(false)?;
        // A poll that took longer than the time between two is followed at once by the next.
        due = (due + watch.patience()).max(watch.now());
    }
    ui::result(&agreement::table(&watch.metrics.sums()).text());
    Ok(if stop.load(Ordering::Relaxed) { ExitCode::Interrupted } else { ExitCode::Done })
}

struct Watch<'a> {
    args: &'a SlurmArgs,
    clock: Clock,
    metrics: Metrics,
    last: Option<Document>,
    /// Made of the first two documents.
    judge: Option<Judge>,
    /// Polls in a row that failed.
    failures: u32,
}

impl Watch<'_> {
    fn now(&self) -> Duration {
        self.clock.now().since_start()
    }

    /// Time until the next poll: longer where the cluster does not answer.
    fn patience(&self) -> Duration {
        self.args.every.saturating_mul(1 << self.failures.min(16)).min(PATIENCE.max(self.args.every))
    }

    /// Reads the cluster, and compares with the document before. The first poll must succeed, so that a wrong call is an error at once.
    fn poll(&mut self, first: bool) -> Result<(), Error> {
        let begun = self.now();
        let document = match of_slurm(None, None, &self.args.kinds) {
            Ok(document) => document,
            Err(error) if first => return Err(error),
            Err(error) => {
                self.failures += 1;
                self.metrics.failed();
                let next = sandtable_core::display::span(self.patience().as_secs_f64());
                ui::note(&format!("warning: {}; the next poll is in {next}", error.message));
                return Ok(());
            }
        };
        self.failures = 0;
        let read_s = self.now().saturating_sub(begun).as_secs_f64();
        self.metrics.polled(read_s, &document);
        // Two polls within a second are one.
        let Some(document) = folder::put(&self.args.output, &document)? else { return Ok(()) };
        let Some(last) = self.last.replace(document.clone()) else { return Ok(()) };
        if last.until(&document) > self.args.compared.gap {
            return Ok(());
        }
        let pair = (last, document);
        let judge = match self.judge.take() {
            Some(judge) => judge,
            None => Judge::new(&self.args.compared.policy, self.args.compared.policies.clone(), &pair)?,
        };
        let judged = judge.one(&pair);
        self.judge = Some(judge);
        if let Some(why) = &judged.not_judged {
            ui::note(&format!("warning: not compared: {why}"));
        }
        for of in &judged.decided {
            if let Some(fault) = &of.fault {
                ui::note(&format!("warning: {}: {}: {fault}", judged.to, of.policy));
            } else if of.real != of.would {
                ui::note(&format!("{}: started {}; {} {}", judged.to, list(&of.real), of.policy, list(&of.would)));
            }
        }
        self.metrics.judged(&judged);
        Ok(())
    }
}

/// Jobs in a few words.
fn list(jobs: &std::collections::BTreeSet<String>) -> String {
    let some: Vec<&str> = jobs.iter().take(5).map(String::as_str).collect();
    match jobs.len().saturating_sub(5) {
        _ if jobs.is_empty() => "none".into(),
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use sandtable_inputs::state::slurm::COMMANDS;

    #[test]
    fn only_commands_that_read_are_run() {
        for command in &COMMANDS {
            assert!(matches!(command.argv, ["scontrol", "show", ..] | ["sdiag"]), "{:?}", command.argv);
        }
    }
}
