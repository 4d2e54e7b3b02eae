//! `sandtable submit`, `status`, `cancel`: a sweep on machines that an engine has.

use std::path::Path;

use sandtable_core::display::span;
use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_plan::{Options, Plan};
use sandtable_results::sweep::State;

use super::{SpecArgs, SpecInStore, begin, expand_noting};
use crate::commands::Format;
use crate::consent::ConsentArgs;
use crate::engine::{ArrayJob, ArrayJobs, Engine, EngineJob, SubmitOptions, Submitted, quoted};
use crate::ui;

/// Hand the cells of a spec that have no result to an engine.
#[derive(Debug, clap::Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    of: SpecInStore,
    /// Engine that places shards on machines.
    #[arg(long, value_enum)]
    engine: Engine,
    /// Maximum number of shards of an array [default: 64 for Slurm, 512 for HyperQueue].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    shards: Option<u32>,
    /// Print what would be submitted, and submit nothing.
    #[arg(long)]
    print: bool,
    /// Submit even if an earlier submission still runs or waits.
    #[arg(long)]
    again: bool,
    /// Include cells whose policy failed.
    #[arg(long)]
    retry_failed: bool,
    #[command(flatten)]
    consent: ConsentArgs,
    /// Time for which the merge waits for files to appear on a shared file system before cells count as missing.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = settle)]
    settle: u64,
    /// Arguments for the engine's own command: account, partition, time limit.
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// What a store has of a spec, and what an engine still does for it.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    of: SpecInStore,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Have engines end what they do for a spec.
#[derive(Debug, clap::Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    of: SpecInStore,
}

/// Whole seconds, up.
pub(super) fn settle(text: &str) -> Result<u64, String> {
    sandtable_core::units::span(text).map(|time| time.as_micros().div_ceil(sandtable_hardware::SECOND.as_micros()))
}

/// The options of a spec whose cells need not run on this machine.
pub(super) fn elsewhere(spec: &SpecArgs) -> Result<Options, Error> {
    Ok(Options { elsewhere: true, ..spec.options()? })
}

pub(crate) fn submit(args: &SubmitArgs) -> Result<ExitCode, Error> {
    let SpecInStore { path, spec, store } = &args.of;
    let options = elsewhere(spec)?;
    let plan = expand_noting(path, &options)?;
    let store = if args.print { store.look(Some(path))? } else { store.open(Some(path))? };
    begin::lacking_begin(&plan, &store, &mut begin::Warned::default())?;
    let page = Submitted::new(&store, &plan);
    let (mut places, failed) = (page.places(State::Missing)?, page.places(State::Failed)?);
    if args.retry_failed {
        places.extend(&failed);
        places.sort_unstable();
    } else if !failed.is_empty() {
        ui::note(&format!("{} cells failed before and are not sent again (`--retry-failed`)", failed.len()));
    }
    if places.is_empty() {
        let cells = plan.cells.len();
        let rest = if failed.is_empty() { String::new() } else { " or failed".into() };
        ui::note(&format!("all {cells} cells have results{rest}; `sandtable run {}` shows them", path.display()));
        return Ok(ExitCode::Done);
    }
    if !args.print {
        args.consent.ask(&plan.source.origin, places.iter().map(|at| &plan.cells[*at]))?;
    }
    let shards = args.shards.map(|shards| shards as usize);
    let wish = SubmitOptions { engine: args.engine, shards, settle: args.settle, arguments: &args.arguments };
    if !args.print && !args.again {
        not_twice(&page, path, args.engine)?;
    }
    let parcels = page.pack(path, &options, &places, &wish)?;
    for parcel in &parcels.arrays {
        describe(&plan, parcel, shards);
    }
    if args.print {
        ui::result(&printed(&page.name, &parcels, &args.arguments));
        return Ok(ExitCode::Done);
    }
    let jobs = page.submit(&parcels, &wish)?;
    for job in &jobs {
        ui::result(&format!("{}\n", job.job));
        ui::note(&format!("job {}: {} cells in {} shards, as {}", job.job, job.cells, job.shards, page.name));
    }
    match parcels.merge.as_ref().map(|merge| page.submit_merge(merge, &jobs, &wish)) {
        Some(Ok(number)) => {
            ui::note(&format!(
                "job {number}: merges when they have ended, into {}",
                page.folder.join("merged.csv").display()
            ));
        }
        Some(Err(error)) => {
            ui::note(&format!("warning: the merge was not taken: {}", error.message));
            after(&jobs);
        }
        None => after(&jobs),
    }
    ui::note(&format!("logs in {}", page.folder.join("log").display()));
    Ok(ExitCode::Done)
}

/// What is to be done where no merge follows by itself.
fn after(jobs: &[EngineJob]) {
    if let Some(job) = jobs.first() {
        let plan = quoted(&job.plan.display().to_string());
        ui::note(&format!("hint: when they have ended, `sandtable merge --plan {plan}`"));
    }
}

/// Two at once would harm nothing, but do everything twice.
fn not_twice(page: &Submitted<'_>, spec: &Path, engine: Engine) -> Result<(), Error> {
    let before = page.siblings(spec)?;
    if !before.is_empty() {
        let names = before.join(", ");
        ui::note(&format!(
            "note: this spec, read otherwise, was submitted before as {names}: what of that still waits stays"
        ));
    }
    let Some(live) = page.asked(engine)? else { return Ok(()) };
    let shards = live.running + live.queued;
    if shards == 0 {
        return Ok(());
    }
    let error = Error::usage(format!("{} is there already: {shards} of its shards run or wait", page.name));
    Err(error.hint(
        "`sandtable status` counts, `sandtable cancel` ends them, `--again` submits all the same and harms no result",
    ))
}

/// What one array is, and how long a shard takes, for engines that are asked for time.
fn describe(plan: &Plan, parcel: &ArrayJob, wished: Option<usize>) {
    let (cells, shards) = (parcel.cells, parcel.shards);
    let gpus = match parcel.needs.gpus {
        0 => String::new(),
        1 => ", 1 GPU each".into(),
        gpus => format!(", {gpus} GPUs each"),
    };
    let time = match parcel.seconds {
        Some(seconds) if parcel.observed => {
            format!("at most {} a shard", span(seconds * cells.div_ceil(shards) as f64 / cells as f64))
        }
        Some(seconds) if seconds < shards as f64 => "less than a second a shard".into(),
        Some(seconds) => format!("about {} a shard", span(seconds / shards as f64)),
        None => format!(
            "how long they take a few run here would tell: `sandtable run {} --shard 0/100`",
            plan.source.origin
        ),
    };
    ui::note(&format!("{}: {cells} of {} cells in {shards} shards{gpus}; {time}", plan.title, plan.cells.len()));
    if wished.is_some_and(|wished| wished > shards && shards < cells) {
        ui::note(&format!("note: {shards} shards are the most that this engine takes in one array"));
    }
}

/// The scripts and what would be run, ready for a shell.
fn printed(name: &str, parcels: &ArrayJobs, arguments: &[String]) -> String {
    let line = |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let mut out = String::new();
    for ArrayJob { script, command, .. } in &parcels.arrays {
        if let Some((path, text)) = script {
            out.push_str(&format!("# {}\n{text}\n", path.display()));
        }
        out.push_str(&format!("# is handed over by\n{}\n\n", line(command)));
    }
    if let Some((path, text)) = &parcels.merge {
        let after = parcels.arrays.iter().map(|_| "JOB").collect::<Vec<_>>();
        let command = line(&crate::engine::merge_command(path, name, &after, arguments));
        out.push_str(&format!("# {}\n{text}\n# is handed over by\n{command}\n", path.display()));
    }
    out
}

/// A spec's page in its store, of which nothing is made.
fn page_of<T>(of: &SpecInStore, then: impl FnOnce(&Submitted<'_>) -> Result<T, Error>) -> Result<T, Error> {
    let plan = expand_noting(&of.path, &elsewhere(&of.spec)?)?;
    let store = of.store.look(Some(&of.path))?;
    then(&Submitted::new(&store, &plan))
}

/// The engines that have taken something of it.
fn engines(page: &Submitted<'_>) -> Result<Vec<Engine>, Error> {
    let mut engines: Vec<Engine> = page.jobs()?.iter().map(|job| job.engine).collect();
    engines.sort_by_key(|engine| *engine as u8);
    engines.dedup();
    Ok(engines)
}

pub(crate) fn status(args: &StatusArgs) -> Result<ExitCode, Error> {
    page_of(&args.of, |page| {
        let count = |state| page.places(state).map(|places| places.len());
        let (done, failed, missing) = (count(State::Done)?, count(State::Failed)?, count(State::Missing)?);
        let (mut running, mut queued) = (None, None);
        for engine in engines(page)? {
            match page.asked(engine) {
                Ok(Some(live)) => {
                    running = Some(running.unwrap_or(0) + live.running);
                    queued = Some(queued.unwrap_or(0) + live.queued);
                }
                Ok(None) => ui::note("HyperQueue is not asked: `hq job list`"),
                // The store knows what counts.
                Err(error) => ui::note(&format!("the engine does not answer: {}", error.message)),
            }
        }
        ui::result(&match args.format {
            Format::Table => {
                let shards = match (running, queued) {
                    (Some(running), Some(queued)) => format!("\n{running} shards run, {queued} wait"),
                    _ => String::new(),
                };
                let cells = page.plan.cells.len();
                format!(
                    "{}: {cells} cells, {done} have results, {missing} missing, {failed} failed{shards}\n",
                    page.plan.title
                )
            }
            format => {
                let names = ["name", "cells", "done", "missing", "failed", "running", "queued"];
                let mut table = Frame::new(names.map(Column::words));
                let cells = page.plan.cells.len().into();
                let counts = [cells, done.into(), missing.into(), failed.into(), running.into(), queued.into()];
                table.push([(&page.name).into()].into_iter().chain(counts).collect::<Vec<Value>>());
                format.of(&table)
            }
        });
        let conflicts = page.conflicts()?;
        if !conflicts.is_empty() {
            ui::note(&format!("error: nondeterministic: {} second results differ, see conflicts/", conflicts.len()));
        }
        if missing > 0 && running == Some(0) && queued == Some(0) {
            ui::note(&format!(
                "hint: no shard works on the {missing} any more: `sandtable submit` sends them again; logs in {}",
                page.folder.join("log").display()
            ));
        }
        Ok(ExitCode::Done)
    })
}

pub(crate) fn cancel(args: &CancelArgs) -> Result<ExitCode, Error> {
    page_of(&args.of, |page| {
        let engines = engines(page)?;
        if engines.is_empty() {
            let message = format!("{}, as it is read now, was never submitted from this store", args.of.path.display());
            let before = page.siblings(&args.of.path)?;
            let error = Error::usage(message);
            return Err(match before.is_empty() {
                true => error,
                false => {
                    error.hint(format!("read otherwise it was, as {}: `scancel --me --name …`", before.join(", ")))
                }
            });
        }
        for engine in engines {
            page.cancel(engine)?;
            let left = page.asked(engine)?.map_or(0, |live| live.running + live.queued);
            let ending = if left > 0 { format!(" ({left} shards are ending)") } else { String::new() };
            ui::note(&format!("{} is cancelled{ending}; results that are there are kept", page.name));
        }
        Ok(ExitCode::Done)
    })
}
