//! `sandtable score`: candidates in, scores out, for programs that look for better policies.

mod scorer;

use std::io::BufRead as _;
use std::path::PathBuf;
use std::sync::{Mutex, mpsc};

use sandtable_core::error::{Error, ExitCode};

use super::{SpecArgs, StoreArgs, rank, threads};
use crate::ui;
use scorer::Scorer;

/// Score candidate policies for a program: requests and answers are JSON, one a line.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Requests, each with an `id` that its answer has too, and one of the first three:
  {\"id\": 1, \"source\": \"def key(job, c): return job.gpus\"}             a script
  {\"id\": 2, \"policy\": \"las\", \"with\": {\"limits\": [600, 7200]}}         a policy by its name or path
  {\"id\": 3, \"policy\": \"./mine.wasm\"}                                  paths are relative to the spec
  … \"set\": {\"workload.arrivals.load\": 1.2}, \"test\": true, \"held_out\": true, \"keep\": true, \"jobs\": 5

Answers, in the order in which they are ready:
  {\"id\": 1, \"ok\": true, \"score\": -3573.5, \"metrics\": {…}, \"against\": {\"fifo\": {…}}, \"cells\": [\"…\"]}
  {\"id\": 2, \"ok\": false, \"score\": -1e308, \"fault\": \"refused-internal\", \"message\": \"…\", \"at\": {\"line\": 2, …}}

Examples:
  sandtable score experiments/specs/quickstart.ron --test --baseline fifo < candidates.jsonl")]
pub(crate) struct ScoreArgs {
    /// The spec whose policies candidates take the place of; `-`: the first line of standard input, in JSON.
    #[arg(value_name = "SPEC")]
    path: PathBuf,
    /// The metric that the score is: as it is where more is better, else negative.
    #[arg(long, value_name = "NAME", default_value = "jct_mean_s")]
    metric: String,
    /// Compare with this policy of the spec too.
    #[arg(long, value_name = "LABEL")]
    baseline: Option<String>,
    /// Score a candidate on the spec's cut for its test first, and on all of the spec only if it is better there than the baseline.
    #[arg(long, requires = "baseline")]
    cascade: bool,
    /// Keep the last N seeds of the spec out of all scores, for requests with `held_out`.
    #[arg(long, value_name = "N", default_value_t = 0)]
    hold_out: usize,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Number of candidates to run at a time [default: the number of cores].
    #[arg(long, short = 'j', value_name = "N")]
    threads: Option<std::num::NonZeroUsize>,
}

pub(crate) fn run(args: &ScoreArgs) -> Result<ExitCode, Error> {
    if !args.spec.only.is_empty() {
        return Err(Error::usage("--only: candidates take the place of the spec's policies").hint("--baseline LABEL"));
    }
    if args.cascade && args.spec.is_test() {
        return Err(Error::usage("--cascade: --test is what it begins with"));
    }
    let scorer = Scorer::new(args, rank::metric(&args.metric)?)?;
    let (send, requests) = mpsc::sync_channel::<String>(64);
    let requests = Mutex::new(requests);
    let next = || requests.lock().ok().and_then(|requests| requests.recv().ok());
    let work = || {
        while let Some(line) = next().filter(|_| !ui::is_closed()) {
            ui::result(&(scorer.answer(&line).to_string() + "\n"));
        }
    };
    ui::note(&format!("{}; requests are read from standard input, one a line", scorer.about()));
    std::thread::scope(|scope| -> Result<(), Error> {
        // Dropped at the end of this: then the threads end.
        let send = send;
        for _ in 0..threads(args.threads) {
            // A guest's stack is the thread's.
            let worker = std::thread::Builder::new().stack_size(8 << 20).spawn_scoped(scope, work);
            worker.map_err(|error| Error::usage(format!("no thread: {error}")))?;
        }
        for line in std::io::stdin().lock().split(b'\n') {
            let line = line.map_err(|error| Error::usage(format!("standard input: {error}")))?;
            // Bytes that are no text are no JSON either, and are answered as that.
            let line = String::from_utf8_lossy(&line).to_string();
            if ui::is_closed() || (!line.trim().is_empty() && send.send(line).is_err()) {
                break;
            }
        }
        Ok(())
    })?;
    Ok(ExitCode::Done)
}
