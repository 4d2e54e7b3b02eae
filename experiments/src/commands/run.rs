//! `sandtable run`.

pub(super) mod failures;
mod live;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use self::failures::failures;
use super::accept::Earlier;
use super::select::drawn;
use super::{SpecArgs, StoreArgs, begin, expand_noting, threads};
use crate::commands::Format;
use crate::consent::ConsentArgs;
use crate::engine::Times;
use crate::engine::plan_file::{Line, PlanFile, Shard};
use crate::ui;
use sandtable_core::display::span;
use sandtable_core::error::{Error, ExitCode};
use sandtable_hardware::live::{Clock, processor_time};
use sandtable_hardware::{Duration, Instant};
use sandtable_plan::{Cell, Plan};
use sandtable_report::table;
use sandtable_results::claim::{self, ExpectedFailures};
use sandtable_results::status::Failure;
use sandtable_results::status::{CellStatus, lookup};
use sandtable_results::store::Store;
use sandtable_run::code;
use sandtable_run::execute::{Compiled, Workers, execute_watched, in_parallel};
use sandtable_run::observe::Swap;
use sandtable_runtime::Summary;
use sandtable_runtime::decision_log::Agreement;
use sandtable_runtime::fault::Fault;

/// Run the cells of specs that have no result yet.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Specs.
    #[arg(required_unless_present = "plan", value_name = "SPEC")]
    specs: Vec<PathBuf>,
    /// Run the cells of a plan file (`sandtable plan SPEC --output FILE`), which also says how its spec is read.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["specs", "set", "at", "sweep", "only", "test", "policies", "max_bytes", "max_rows", "max_cells", "check", "expected"])]
    plan: Option<PathBuf>,
    /// Run only the cells with index I, I+N, I+2N and so on, I from 0; prints no table.
    #[arg(long, value_name = "I/N", conflicts_with = "check")]
    shard: Option<Shard>,
    /// Run this share of the finished cells again and compare, such as `1%`; at least one cell.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    recheck: Option<f64>,
    /// Seed that selects the cells `--recheck` re-runs.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "recheck")]
    draw: u64,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    consent: ConsentArgs,
    /// Number of cells to run at a time [default: the number of cores].
    #[arg(long, short, value_name = "N")]
    jobs: Option<std::num::NonZeroUsize>,
    /// End a cell that runs longer than this, such as `10min`; it gets no result.
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    timeout: Option<Duration>,
    /// Run cells whose policy failed again.
    #[arg(long)]
    retry_failed: bool,
    /// Compare with results of other builds, and store identical results under this build's ids.
    #[arg(long)]
    accept_build: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Exit with code 1 if a claim of the spec fails or is inconclusive, or if jobs were left unfinished.
    #[arg(long)]
    check: bool,
    /// With `--check`: accept claims whose interval has values on both sides of the bound.
    #[arg(long, requires = "check")]
    allow_inconclusive: bool,
    /// With `--check`: file of claims that are known to fail. An unexpected failure and an unexpected pass both
    /// fail the check.
    #[arg(long, value_name = "FILE", requires = "check", conflicts_with_all = ["test", "set", "at", "sweep", "only"])]
    expected: Option<PathBuf>,
    /// Do not show a progress bar.
    #[arg(long)]
    no_progress: bool,
    /// Show progress so: `auto`, a bar where stderr is a terminal; `json`, a line on stderr for each cell.
    #[arg(long, value_enum, default_value_t, conflicts_with = "no_progress", value_name = "HOW")]
    progress: Progress,
    /// Print the log of each policy.
    #[arg(long)]
    log: bool,
    /// On real devices: replace the policy after this time.
    #[arg(long, value_name = "TIME=POLICY", value_parser = swap)]
    swap_at: Vec<Swap>,
    /// On real devices: replace the policy by the component in this file on SIGHUP.
    #[arg(long, value_name = "FILE")]
    swap_file: Option<PathBuf>,
}

/// A share of the cells, in per cent.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let wrong = || format!("expected a share of the cells, from 0% to 100%, found {text:?}");
    percent.filter(|percent| (0.0..=100.0).contains(percent)).map(|percent| percent / 100.0).ok_or_else(wrong)
}

/// A time that a cell may take.
fn timeout(text: &str) -> Result<Duration, String> {
    let time = sandtable_core::units::span(text)?;
    (time > Duration::ZERO).then_some(time).ok_or_else(|| "expected more than 0s".into())
}

fn swap(text: &str) -> Result<Swap, String> {
    let (at, to) = text.split_once('=').ok_or("expected TIME=POLICY, as \"90s=srtf\"")?;
    Ok(Swap { at: Instant::at(sandtable_core::units::span(at)?), to: to.to_string() })
}

static STOP: AtomicBool = AtomicBool::new(false);
/// Jobs run on real devices: an interrupt ends them.
static LIVE: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Error> {
    // Cells are put into the store whole: to stop is to begin no further one.
    let interrupt = || {
        if LIVE.load(Ordering::Relaxed) {
            // The guard ends the jobs when this process is gone.
            ui::note("interrupted: the jobs are ended, the observation is lost");
            std::process::exit(ExitCode::Interrupted as i32);
        }
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(ExitCode::Interrupted as i32);
        }
        ui::note("interrupted: cells that run are finished, the next `run` goes on (again to stop at once)");
    };
    ctrlc::set_handler(interrupt).map_err(|error| {
        Error::usage(format!("no thread for Ctrl-C: {error}")).hint("is their number limited? ulimit -u")
    })?;
    if let Some(file) = &args.plan {
        return run_plan_file(args, file);
    }
    let mut worst = ExitCode::Done;
    for spec in &args.specs {
        let plan = args.spec.expand(spec)?;
        let store = args.store.open(Some(spec))?;
        let part = args.shard.map(|shard| (0..plan.cells.len()).filter(|at| shard.has(*at)).collect());
        let code = one(args, &Asked { plan: &plan, part, retry: BTreeSet::new() }, &store)?;
        if worst == ExitCode::Done {
            worst = code;
        }
        if code == ExitCode::Interrupted {
            return Ok(code);
        }
    }
    Ok(worst)
}

/// What is to be had: all cells of a plan, or a part.
struct Asked<'a> {
    plan: &'a Plan,
    /// The places of the cells that are asked for, where those are not all.
    part: Option<Vec<usize>>,
    /// The places of those that are to run although their policy failed.
    retry: BTreeSet<usize>,
}

impl Asked<'_> {
    fn cells(&self) -> Vec<(usize, &Cell)> {
        let all = self.plan.cells.iter().enumerate();
        all.filter(|(at, _)| self.part.as_ref().is_none_or(|part| part.binary_search(at).is_ok())).collect()
    }

    /// `title`, or `title, shard 3/64`.
    fn title(&self, args: &RunArgs) -> String {
        let shard = args.shard.map_or(String::new(), |shard| format!(", shard {}/{}", shard.index, shard.of));
        format!("{}{shard}", self.plan.title)
    }
}

/// The cells of a plan file, if they are still what they were.
fn run_plan_file(args: &RunArgs, file: &Path) -> Result<ExitCode, Error> {
    let plan_file = PlanFile::read(file)?;
    plan_file.same_program()?;
    let lines = plan_file.lines.iter().enumerate();
    let lines = lines.filter(|(at, _)| args.shard.is_none_or(|shard| shard.has(*at))).map(|(_, line)| line);
    let lines: Vec<&Line> = lines.collect();
    let spec = &plan_file.header.spec;
    let plan = expand_noting(spec, &plan_file.header.options)?;
    let mut part = plan_file.places(&plan, &lines)?;
    let retry = lines.iter().zip(&part).filter(|(line, _)| line.retry).map(|(_, at)| *at).collect();
    part.sort_unstable();
    let store = args.store.open_for(&plan_file)?;
    one(args, &Asked { plan: &plan, part: Some(part), retry }, &store)
}

/// Observations are no functions of their inputs.
pub(super) fn not_live(plan: &Plan) -> Result<(), Error> {
    if plan.cells.iter().any(|cell| !cell.backend.is_reproducible()) {
        let error =
            Error::usage(format!("{}: what is observed on real devices can't be computed again", plan.source.origin));
        return Err(error.hint("replay its recording: `fleet: Replay(\"…/recording.jsonl\")`"));
    }
    Ok(())
}

fn one(args: &RunArgs, asked: &Asked<'_>, store: &Store) -> Result<ExitCode, Error> {
    let cells = asked.cells();
    if cells.iter().any(|(_, cell)| cell.backend.live().is_some()) {
        return live::run(args, asked, store);
    }
    if !args.swap_at.is_empty() || args.swap_file.is_some() {
        let error = Error::usage("a policy is swapped while jobs really run, on a fleet `Nvidia(…)`");
        return Err(error.hint("on a model each policy is a cell of its own"));
    }
    let (mut missing, there) = sorted_out(args, asked, &cells, store)?;
    let threads = threads(args.jobs);
    let (all, cached) = (cells.len(), cells.len() - missing.len());
    ui::note(&format!("{}: {all} cells, {cached} cached, {threads} threads", asked.title(args)));
    there.iter().for_each(|cell| ui::detail(&format!("{}: cached, {}", named(cell), cell.id)));
    let again = drawn(args.recheck.unwrap_or(0.0), args.draw, &there);
    if args.recheck.is_some() {
        ui::note(&format!("{} of {} cells with results run again", again.len(), there.len()));
    }
    missing.extend(again);
    if let Some((_, cell)) = cells.first() {
        ui::note(&format!("semantics: {}", cell.setting.semantics.join("; ")));
    }
    let earlier = if args.accept_build { Some(Earlier::of(store)?) } else { None };
    let bar = ui::Progress::of(missing.len() as u64, args.no_progress || args.progress == Progress::Json);
    let compiled = Compiled::new(&code::settings_beside(store, ui::note), missing.iter().copied())?;
    begin::all_begin(asked.plan, &missing, &compiled)?;
    begin::never_run(asked.plan, &missing, &mut begin::Warned::default())?;
    let results = executed(args, store, (&missing, threads), &compiled, &bar)?;
    let kept = results.iter().flatten().filter(|ran| ran.lost.is_none()).count();
    let mut times = Times::default();
    for (cell, ran) in missing.iter().zip(&results).filter_map(|(cell, ran)| Some((cell, ran.as_ref()?))) {
        // One that failed says nothing of how long such cells take.
        if ran.jobs > 0 {
            // Tasks count: what is estimated counts them.
            times.add(&cell.policy.digest, cell.setting.workload.len(&cell.fleet) as u64, ran.seconds);
        }
    }
    times.keep(store);
    ui::note(&format!("{kept} cells executed; results in {}", store.root().display()));
    if args.log {
        for (cell, result) in missing.iter().zip(&results) {
            for line in result.iter().flat_map(|ran| &ran.log) {
                ui::note(&format!("{} seed {}: {line}", cell.label, cell.seed));
            }
        }
    }
    // Failures that the store does not keep are this command's alone.
    let lost: BTreeMap<&str, &Failure> = missing
        .iter()
        .zip(&results)
        .filter_map(|(cell, ran)| Some((cell.id.as_str(), ran.as_ref()?.lost.as_ref()?)))
        .collect();
    let known = |cell: &Cell| match lost.get(cell.id.as_str()) {
        Some(failure) if failure.kind == Fault::Stopped.kind() => Ok(CellStatus::TimedOut),
        Some(failure) => Ok(CellStatus::Failed((*failure).clone())),
        None => lookup(cell, store),
    };
    let known = cells.iter().map(|(_, cell)| known(cell)).collect::<Result<Vec<_>, _>>()?;
    agreements(&cells, store)?;
    let moved = match earlier {
        Some(earlier) => earlier.accept(&cells, store)?,
        None => 0,
    };
    let code = conclude(args, asked, store, &known)?;
    Ok(if moved > 0 && code == ExitCode::Done { ExitCode::CheckFailed } else { code })
}

/// The cells that have no result, and those that have one, each once; failures that are to be retried are removed.
fn sorted_out<'a>(
    args: &RunArgs,
    asked: &Asked<'_>,
    cells: &[(usize, &'a Cell)],
    store: &Store,
) -> Result<(Vec<&'a Cell>, Vec<&'a Cell>), Error> {
    let (mut missing, mut there, mut seen): (Vec<&Cell>, Vec<&Cell>, BTreeSet<&str>) = Default::default();
    for (at, cell) in cells {
        if !seen.insert(&cell.id) {
            continue;
        }
        if (args.retry_failed || asked.retry.contains(at)) && store.has_failed(&cell.id) {
            store.remove(&cell.id)?;
        }
        if store.has(&cell.id) { there.push(cell) } else { missing.push(cell) }
    }
    Ok((missing, there))
}

/// A cell, for people.
fn named(cell: &Cell) -> String {
    let variant = cell.variant_text();
    let beside = if variant.is_empty() { "" } else { ", " };
    format!("{}{beside}{variant}, seed {}", cell.label, cell.seed)
}

/// What a command keeps of a cell that it ran.
struct Ran {
    log: Vec<String>,
    jobs: u64,
    /// Processor time, in seconds.
    seconds: f64,
    /// A failure that the store does not keep.
    lost: Option<Failure>,
}

/// Runs cells in parallel and puts their results into the store.
fn executed(
    args: &RunArgs,
    store: &Store,
    (cells, threads): (&[&Cell], usize),
    compiled: &Compiled,
    bar: &ui::Progress,
) -> Result<Vec<Option<Ran>>, Error> {
    let count = Mutex::new(0);
    let done = |cell: &Cell| {
        // Held until the line is written: lines come in the order of what they count.
        let mut done = count.lock().unwrap_or_else(PoisonError::into_inner);
        *done += 1;
        if args.progress == Progress::Json {
            ui::progressed(*done, cells.len() as u64, cell);
        }
    };
    let workers = Workers { threads, stop: &STOP, done: &done };
    let results = in_parallel(cells, &workers, |cell| {
        let (clock, before) = (Clock::start(), processor_time());
        let executed = execute_watched(cell, compiled, &bar.watched(cell, args.timeout))?;
        // A cell runs on this thread from its first call to its last.
        let seconds = (processor_time() - before).as_secs_f64();
        let took = clock.now().as_secs_f64();
        executed.put(store, cell)?;
        let jobs = executed.outcome.as_ref().map_or(0, |summary| summary.jobs as u64);
        bar.detail(&format!("{}: {}, {}", named(cell), span(took), cell.id));
        let lost = executed.outcome.err().filter(|_| !executed.kept);
        Ok(Ran { log: executed.log, jobs, seconds, lost })
    });
    bar.finish();
    results
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Progress {
    #[default]
    Auto,
    Json,
}

/// How policies compare with the recorded runs that they were asked about.
fn agreements(cells: &[(usize, &Cell)], store: &Store) -> Result<(), Error> {
    for (_, cell) in cells {
        if cell.backend.recording().is_none() || !store.has(&cell.id) || store.has_failed(&cell.id) {
            continue;
        }
        let agreement: Agreement = sandtable_results::reader::document(store, &cell.id)?;
        let mut line = match agreement.alike == agreement.calls {
            true => format!("{}: decides as recorded, in all {} calls", cell.label, agreement.calls),
            false => format!("{}: decides as recorded in {} calls of {}", cell.label, agreement.alike, agreement.calls),
        };
        if let Some(first) = &agreement.first {
            let at = sandtable_inputs::trace::seconds(first.at.since_start());
            line += &format!(", then differs at {at} s (agreement.json has both plans)");
        }
        ui::note(&line);
    }
    Ok(())
}

/// Prints the results, the claims, and what went wrong; the exit code. Of a part neither table nor claim can be had.
fn conclude(args: &RunArgs, asked: &Asked<'_>, store: &Store, known: &[CellStatus]) -> Result<ExitCode, Error> {
    let plan = asked.plan;
    if asked.part.is_some() {
        return Ok(report(&asked.cells(), store, known));
    }
    ui::result(&match args.format {
        Format::Table => table::text(plan, known),
        format => format.of(&table::metrics(plan, known)),
    });
    let claims = claim::measure(plan, known);
    match args.format {
        _ if claims.is_empty() => {}
        Format::Table => ui::result(&format!("\n{}", claim::render(&claims))),
        Format::Json => ui::result(&claim::data(&claims).json_lines()),
        // A CSV has one kind of row.
        Format::Csv => ui::note(claim::render(&claims).trim_end()),
    }
    let code = report(&asked.cells(), store, known);
    if !args.check {
        return Ok(code);
    }
    let failing = match &args.expected {
        None => {
            let failing = claims.iter().filter(|claim| !claim.verdict().passes(args.allow_inconclusive)).count();
            if failing > 0 {
                let unsure = claims.iter().filter(|claim| claim.verdict().is_inconclusive()).count();
                let which = if unsure > 0 && !args.allow_inconclusive {
                    format!(" ({unsure} inconclusive: more seeds, or --allow-inconclusive)")
                } else {
                    String::new()
                };
                let open =
                    claims.iter().filter(|claim| claim.holds().is_none() && !claim.verdict().is_inconclusive()).count();
                let what = if open == failing { "are not measured" } else { "do not hold" };
                ui::note(&format!("error: {failing} of {} claims {what}{which}", claims.len()));
            }
            failing
        }
        Some(file) => {
            let expected = ExpectedFailures::read(file)?;
            let surprises = expected.surprises(Path::new(&plan.source.origin), &claims, args.allow_inconclusive);
            surprises.iter().for_each(|line| ui::note(&format!("error: {}: {line}", plan.source.origin)));
            surprises.len()
        }
    };
    let mut all = plan.cells.iter().zip(known);
    let starved = all.any(|(cell, known)| matches!(known, CellStatus::Done(of) if left_waiting(cell, of) > 0));
    if starved {
        ui::note("error: a policy left jobs unfinished: `outcome` in jobs.csv.zst has the reason");
    }
    Ok(if (failing > 0 || starved) && code == ExitCode::Done { ExitCode::CheckFailed } else { code })
}

/// Jobs that a run left unfinished, where it was to go on until all had ended.
fn left_waiting(cell: &Cell, summary: &Summary) -> usize {
    let ends_early = cell.setting.workload.state().is_some_and(|state| state.until.is_some());
    if ends_early { 0 } else { summary.unfinished }
}

/// Says which cells have no result and why, and what became of jobs that did not complete; the exit code.
fn report(cells: &[(usize, &Cell)], store: &Store, known: &[CellStatus]) -> ExitCode {
    let code = failures(cells, store, known);
    let (mut rejected, mut unfinished, mut crashed, mut refused) = (0, 0, 0, 0);
    for ((_, cell), known) in cells.iter().zip(known) {
        if let CellStatus::Done(summary) = known {
            rejected += summary.rejected;
            unfinished += left_waiting(cell, summary);
            refused += summary.refused;
            crashed += summary.crashed;
        }
    }
    if rejected > 0 {
        ui::note(&format!("warning: {rejected} jobs could never run on this fleet: see `outcome` in jobs.csv.zst"));
    }
    if crashed > 0 {
        ui::note(&format!("warning: {crashed} jobs failed: see `outcome` in jobs.csv.zst, and logs.txt"));
    }
    if refused > 0 {
        ui::note(&format!("note: {refused} jobs were refused by their policy: see `outcome` in jobs.csv.zst"));
    }
    if unfinished > 0 {
        ui::note(&format!("warning: {unfinished} jobs were left unfinished: see `outcome` in jobs.csv.zst"));
    }
    code
}
