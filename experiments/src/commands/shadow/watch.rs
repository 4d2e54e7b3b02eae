//! Polls a cluster and says of each poll what policies would have started since the one before.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::units::span;
use sandtable_hardware::Duration;
use sandtable_hardware::live::{Clock, wait};
use serde_json::Value;

use super::folder::{self, Document};
use super::intervals::Judge;
use super::metrics::{Metrics, Served};
use super::{Compared, agreement};
use crate::commands::capture::{Patience, of_slurm};
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
const LONGEST: Duration = Duration::from_secs(300);
/// Longest that a command of a poll may take.
const ANSWER: Duration = Duration::from_secs(60);
/// How often it is looked whether to end.
const LOOK: Duration = Duration::from_millis(100);

pub(super) fn slurm(args: &SlurmArgs) -> Result<ExitCode, Error> {
    if args.every < Duration::from_secs(1) {
        return Err(Error::usage("--every: expected at least 1s: Slurm's times are whole seconds"));
    }
    if args.every > args.compared.gap {
        let error = Error::usage("--every: polls are further apart than `--gap` allows, so none would be compared");
        return Err(error.hint("a greater --gap, and a MinJobAge of Slurm that is no less"));
    }
    std::fs::create_dir_all(&args.output).map_err(|error| Error::file("make", &args.output, &error))?;
    let signalled = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, signalled.clone())
            .map_err(|error| Error::usage(format!("no handler of signals: {error}")))?;
    }
    let metrics = Metrics::default();
    let served = args.listen.map(|address| Served::on(address, metrics.clone())).transpose()?;
    if let Some(served) = &served {
        ui::note(&format!("metrics: http://{}/metrics", served.address));
    }
    let last = folder::documents(&args.output, &ui::note)?.pop();
    let mut watch = Watch { args, clock: Clock::start(), metrics, signalled, last, judge: None, failures: 0 };
    watch.until_the_end()?;
    match watch.metrics.sums() {
        none if none.is_empty() => ui::note("nothing was compared: that takes two polls"),
        sums => ui::result(&agreement::table(&sums).text()),
    }
    Ok(if watch.is_signalled() { ExitCode::Interrupted } else { ExitCode::Done })
}

struct Watch<'a> {
    args: &'a SlurmArgs,
    clock: Clock,
    metrics: Metrics,
    signalled: Arc<AtomicBool>,
    last: Option<Document>,
    /// Made of the first document.
    judge: Option<Judge>,
    /// Polls in a row that failed.
    failures: u32,
}

impl Watch<'_> {
    fn now(&self) -> Duration {
        self.clock.now().since_start()
    }

    fn is_signalled(&self) -> bool {
        self.signalled.load(Ordering::Relaxed)
    }

    /// Polls until it is told to end or its time is over, the last time then.
    fn until_the_end(&mut self) -> Result<(), Error> {
        // The first poll must succeed, so that a wrong call is an error at once.
        let document = self.read()?;
        self.take(&document)?;
        let end = self.args.within.unwrap_or(Duration::MAX);
        let mut due = Duration::ZERO;
        while due < end {
            // A poll that took longer than the time between two is followed at once by the next.
            due = (due + self.pause()).max(self.now()).min(end);
            while self.now() < due && !self.is_signalled() {
                wait(LOOK.min(due.saturating_sub(self.now())));
            }
            if self.is_signalled() {
                return Ok(());
            }
            self.poll();
        }
        Ok(())
    }

    /// Time until the next poll: longer where the cluster does not answer.
    fn pause(&self) -> Duration {
        self.args.every.saturating_mul(1 << self.failures.min(16)).min(LONGEST.max(self.args.every))
    }

    /// The cluster as it is.
    fn read(&mut self) -> Result<Value, Error> {
        let begun = self.now();
        let signalled = self.signalled.clone();
        let patience = Patience { most: ANSWER, stop: &|| signalled.load(Ordering::Relaxed) };
        let document = of_slurm(None, None, &self.args.kinds, &patience)?;
        let new = self.last.as_ref().is_none_or(|last| document["at"] != last.at.as_str());
        self.metrics.polled(self.now().saturating_sub(begun).as_secs_f64(), &document, new);
        let refused = document["refused"].as_array().map_or(&[][..], Vec::as_slice);
        if let Some(first) = refused.first() {
            let why = first["why"].as_str().unwrap_or_default();
            let id = first["id"].as_str().unwrap_or_default();
            ui::note(&format!("warning: {} records can't be understood, the first {id}: {why}", refused.len()));
        }
        Ok(document)
    }

    /// Reads the cluster and compares; whatever is wrong is said, and it goes on.
    fn poll(&mut self) {
        match self.read().and_then(|document| self.take(&document)) {
            Ok(()) => self.failures = 0,
            Err(_) if self.is_signalled() => {}
            Err(error) => {
                self.failures += 1;
                self.metrics.failed();
                let next = sandtable_core::display::span(self.pause().as_secs_f64());
                ui::note(&format!("warning: {}; the next poll is in {next}", error.message));
            }
        }
    }

    /// Keeps a document, and compares with the one before.
    fn take(&mut self, document: &Value) -> Result<(), Error> {
        // Two polls within a second are one.
        let Some(document) = folder::put(&self.args.output, document)? else { return Ok(()) };
        if self.judge.is_none() {
            let compared = &self.args.compared;
            self.judge = Some(Judge::new(&compared.policy, compared.policies.clone(), &document)?);
        }
        let Some(last) = self.last.replace(document.clone()) else { return Ok(()) };
        if last.until(&document) > self.args.compared.gap {
            let apart = sandtable_core::display::span(last.until(&document).as_secs_f64());
            ui::note(&format!("{}: not compared: the document before is {apart} older", document.at));
            return Ok(());
        }
        let Some(judged) = self.judge.as_ref().map(|judge| judge.one(&(last, document))) else { return Ok(()) };
        if let Some(why) = &judged.not_judged {
            ui::note(&format!("warning: not compared: {why}"));
        }
        for of in &judged.decided {
            if let Some(fault) = &of.fault {
                ui::note(&format!("warning: {}: {}: {fault}", judged.to, of.policy));
            } else if of.real != of.would {
                let (real, would) = (list(&of.real), list(&of.would));
                ui::note(&format!(
                    "{}: the cluster started {real}; {} would have started {would}",
                    judged.to, of.policy
                ));
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
            assert!(
                matches!(
                    command.argv,
                    ["scontrol", "show", ..] | ["sdiag"] | ["sshare", ..] | ["sacctmgr", "--readonly", _, "show", ..]
                ),
                "{:?}",
                command.argv
            );
        }
    }
}
