//! `sandtable show`.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{SpecArgs, StoreArgs, select};
use crate::chrome;
use crate::code;
use crate::columns::columns;
use crate::compare::Entry;
use crate::error::{Error, ExitCode};
use crate::execute::Compiled;
use crate::metric::{METRICS, Metric, span};
use crate::output;
use crate::results::{self, JobRow};
use crate::store::Store;
use crate::story::{Names, acts, tell, trigger};
use crate::table::Format;
use crate::text::nearest;
use crate::trace::seconds;
use crate::ui;

/// One result: its metrics, the life of a job as the policy saw it, its timeline for other tools.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable show experiments/specs/quickstart.ron --only fifo
  sandtable show experiments/specs/quickstart.ron --only tiresias --job 17
  sandtable show 3f9a2c11e0 --chrome-trace run.json      # open it at ui.perfetto.dev")]
pub(crate) struct ShowArgs {
    /// A spec, or a cell's id.
    #[arg(value_name = "RESULT")]
    result: String,
    /// The life of this job.
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Of a spec: the cell of this seed; by default the first.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write the timeline as a Chrome trace; `-` is standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "job")]
    chrome_trace: Option<PathBuf>,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// How rows are printed.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &ShowArgs) -> Result<ExitCode, Error> {
    let store = select::store_of(&args.store, &[&args.result])?;
    let all = select::entries(&args.result, &args.spec, None, &store)?;
    let entry = the_one(args, &all)?;
    if store.has_failed(&entry.id) {
        let story = String::from_utf8_lossy(&store.read(&entry.id, "failure.json")?).to_string();
        ui::result(&story);
        return Ok(ExitCode::PolicyFailed);
    }
    if let Some(path) = &args.chrome_trace {
        return export(args, entry, &store, path);
    }
    match &args.job {
        Some(job) => life(args, entry, &store, job),
        None => metrics(args, entry, &store),
    }
}

/// The cell that is meant.
fn the_one<'a>(args: &ShowArgs, all: &'a [Entry]) -> Result<&'a Entry, Error> {
    let mut labels: Vec<&str> = all.iter().map(|entry| entry.label.as_str()).collect();
    labels.dedup();
    labels.sort_unstable();
    labels.dedup();
    if labels.len() > 1 {
        let error = Error::usage(format!("{} has {} policies: one result is shown", args.result, labels.len()));
        return Err(error.hint(format!("--only LABEL: {}", labels.join(", "))));
    }
    let seeded = all.iter().find(|entry| args.seed.is_none_or(|seed| entry.seed == seed));
    let entry = seeded.ok_or_else(|| {
        let seeds: Vec<String> = all.iter().map(|entry| entry.seed.to_string()).collect();
        Error::usage(format!("no cell of seed {}: there is {}", args.seed.unwrap_or(0), seeds.join(", ")))
    })?;
    let fitting = all.iter().filter(|other| args.seed.is_none_or(|seed| other.seed == seed)).count();
    if fitting > 1 {
        let variant = if entry.variant.is_empty() { String::new() } else { format!("{} ", entry.variant) };
        ui::note(&format!(
            "{}: {variant}seed {}, the first of {fitting} cells (--seed, --set)",
            entry.label, entry.seed
        ));
    }
    Ok(entry)
}

fn metrics(args: &ShowArgs, entry: &Entry, store: &Store) -> Result<ExitCode, Error> {
    let summary = results::summary(store, &entry.id)?.ok_or_else(|| Error::internal("a failed cell"))?;
    let values = METRICS.iter().map(|metric| (metric, metric.of(&summary)));
    let known: Vec<(&Metric, f64)> = values.filter(|(_, x)| !x.is_nan()).collect();
    match args.format {
        Format::Table => {
            let folder = store.folder(&entry.id);
            ui::result(&format!("{} seed {} {}\n{}\n", entry.label, entry.seed, entry.variant, folder.display()));
            let rows: Vec<Vec<String>> =
                known.iter().map(|(metric, x)| vec![format!("  {}", metric.name), metric.unit.text(*x)]).collect();
            ui::result(&columns(&rows));
        }
        Format::Json => known.iter().for_each(|(metric, x)| {
            ui::result(&(json!({"id": entry.id, "metric": metric.name, "value": x}).to_string() + "\n"));
        }),
        Format::Csv => {
            ui::result("metric,value\n");
            known.iter().for_each(|(metric, x)| ui::result(&format!("{},{x}\n", metric.name)));
        }
    }
    Ok(ExitCode::Done)
}

fn export(args: &ShowArgs, entry: &Entry, store: &Store, path: &Path) -> Result<ExitCode, Error> {
    let inputs = results::inputs(store, &entry.id)?;
    let (jobs, stays) = (results::jobs(store, &entry.id)?, results::stays(store, &entry.id)?);
    let title = match entry.cell {
        Some(_) => format!("{} {} seed {}", args.result, entry.label, entry.seed),
        None => entry.id.clone(),
    };
    let text = chrome::trace(&title, &results::nodes(&inputs), &jobs, &stays).to_string() + "\n";
    if path == Path::new("-") {
        ui::result(&text);
        return Ok(ExitCode::Done);
    }
    output::write(path, text)?;
    ui::note(&format!("{}: {} stays of {} jobs; ui.perfetto.dev opens it", path.display(), stays.len(), jobs.len()));
    Ok(ExitCode::Done)
}

/// A moment of a job's life.
struct Moment {
    at: u64,
    who: &'static str,
    what: String,
}

/// The life of a job: what the policy was told of it and said of it, and what it did meanwhile for others.
fn life(args: &ShowArgs, entry: &Entry, store: &Store, job: &str) -> Result<ExitCode, Error> {
    let rows = results::jobs(store, &entry.id)?;
    let Some(row) = rows.iter().find(|row| row.job_id == job) else {
        let error = Error::usage(format!("no job `{job}` in {} seed {}", entry.label, entry.seed));
        let near = nearest(job, rows.iter().map(|row| row.job_id.as_str()));
        return Err(match (near, rows.first(), rows.last()) {
            (Some(near), ..) => error.hint(format!("is `{near}` meant?")),
            (None, Some(first), Some(last)) => error.hint(format!("there is {} to {}", first.job_id, last.job_id)),
            _ => error,
        });
    };
    let named = rows.iter().filter(|row| row.job_id == job).count();
    if named > 1 {
        ui::note(&format!("{named} jobs are called {job}: this is the first"));
    }
    let Some(cell) = &entry.cell else {
        // Without its spec a cell can't be run again: what is on record of it.
        stays(args, entry, store, row)?;
        ui::note("name the spec instead of the id to see what the policy was told and said");
        return Ok(ExitCode::Done);
    };
    let names = Names::of(cell)?;
    let id = names.find(job).ok_or_else(|| Error::internal(format!("job {job} has a row and is none")))?;
    let compiled = Compiled::new(&code::settings_beside(store), std::iter::once(cell))?;
    let mut moments: Vec<Moment> = Vec::new();
    // Calls in which it waited and others were given GPUs.
    let (mut waits, mut calls, mut others) = (false, 0u64, 0u64);
    let flush = |moments: &mut Vec<Moment>, at: u64, calls: &mut u64, others: &mut u64| {
        if *others > 0 {
            let what = format!("waits: {calls} decisions start {others} others");
            moments.push(Moment { at, who: "", what });
        }
        (*calls, *others) = (0, 0);
    };
    let mut last = 0;
    let finished = tell(cell, &compiled, |batch, plan| {
        last = batch.now;
        for event in &batch.events {
            if Names::about(event) == Some(id) {
                flush(&mut moments, batch.now, &mut calls, &mut others);
                let why = if batch.trigger == sandtable_runtime::contract::Trigger::Event {
                    String::new()
                } else {
                    format!(" (in a call for {})", trigger(batch.trigger))
                };
                waits = matches!(event, sandtable_runtime::contract::Event::JobArrived(_))
                    || matches!(event, sandtable_runtime::contract::Event::JobChanged(change)
                        if change.phase == sandtable_runtime::contract::JobPhase::Queued);
                moments.push(Moment { at: batch.now, who: "told", what: format!("{}{why}", names.event(event)) });
            }
        }
        let own: Vec<_> = plan.actions.iter().filter(|action| Names::of_action(action).contains(&id)).collect();
        let starts = plan.actions.iter().filter(|action| acts(action)).flat_map(Names::of_action);
        let starts = starts.filter(|other| *other != id).count() as u64;
        if waits && starts > 0 && own.is_empty() {
            (calls, others) = (calls + 1, others + starts);
        }
        for action in own {
            flush(&mut moments, batch.now, &mut calls, &mut others);
            waits = matches!(action, sandtable_runtime::contract::Action::Preempt(_));
            moments.push(Moment { at: batch.now, who: "says", what: names.action(action) });
        }
        true
    })?;
    flush(&mut moments, last, &mut calls, &mut others);
    if let Some(first) = finished.agreement.and_then(|agreement| agreement.first) {
        let at = seconds(first.at);
        ui::note(&format!(
            "{} decides otherwise than the recorded run at {at} s: from then on it is not asked",
            entry.label
        ));
    }
    let end = row.jct().map_or_else(|| row.outcome.clone(), |jct| format!("completed in {}", span(jct)));
    let wait = row.wait().map_or("never started".into(), |wait| format!("waited {}", span(wait)));
    let (gpus, preemptions) = (row.gpus, row.preemptions);
    let head = format!(
        "job {job} under {}, seed {}: {gpus} GPUs, {wait}, {preemptions} preemptions, {end}\n",
        entry.label, entry.seed
    );
    match args.format {
        Format::Table => {
            let mut rows = vec![vec!["  at".to_string(), "policy".into(), "what".into()]];
            rows.extend(moments.iter().map(|moment| {
                vec![format!("  {} s", seconds(moment.at)), moment.who.to_string(), moment.what.clone()]
            }));
            ui::result(&head);
            ui::result(&columns(&rows));
        }
        Format::Json => moments.iter().for_each(|moment| {
            let row = json!({"at_s": moment.at as f64 / 1e6, "policy": moment.who, "what": moment.what});
            ui::result(&(row.to_string() + "\n"));
        }),
        Format::Csv => {
            ui::result("at_s,policy,what\n");
            moments.iter().for_each(|moment| {
                let what = crate::trace::csv_cell(&moment.what);
                ui::result(&format!("{},{},{what}\n", seconds(moment.at), moment.who));
            });
        }
    }
    Ok(ExitCode::Done)
}

/// Where a job was, from the timeline.
fn stays(args: &ShowArgs, entry: &Entry, store: &Store, row: &JobRow) -> Result<(), Error> {
    let all = results::stays(store, &entry.id)?;
    let own = all.iter().filter(|stay| stay.job == row.job_id);
    match args.format {
        Format::Table => {
            ui::result(&format!("job {}: submitted at {} s, {}\n", row.job_id, row.submit_s, row.outcome));
            own.for_each(|stay| {
                let gpus = crate::execute::ranges(&stay.gpus);
                ui::result(&format!("  {} .. {} s on GPU {gpus}\n", stay.from, stay.to));
            });
        }
        Format::Json => own.for_each(|stay| {
            let row = json!({"job": stay.job, "from_s": stay.from, "to_s": stay.to, "gpus": stay.gpus});
            ui::result(&(row.to_string() + "\n"));
        }),
        Format::Csv => {
            ui::result("job_id,from_s,to_s,gpus\n");
            own.for_each(|stay| {
                let gpus = crate::execute::ranges(&stay.gpus);
                let job = crate::trace::csv_cell(&stay.job);
                ui::result(&format!("{job},{},{},{gpus}\n", stay.from, stay.to));
            });
        }
    }
    Ok(())
}
