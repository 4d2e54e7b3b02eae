//! `sandtable show`.

mod room;

use std::path::{Path, PathBuf};

use sandtable_core::display::span;
use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_core::output;
use sandtable_core::text::nearest;
use sandtable_hardware::{Duration, Instant, JobId};
use sandtable_inputs::state::Waits;
use sandtable_inputs::trace::seconds;
use sandtable_plan::Cell;
use sandtable_report::chrome;
use sandtable_results::compare::LabelledResult;
use sandtable_results::metric::{METRICS, Metric};
use sandtable_results::reader;
use sandtable_results::schema::{Document as _, FailureRecord, JobRecord};
use sandtable_results::store::Store;
use sandtable_run::code;
use sandtable_run::execute::Compiled;
use sandtable_run::observed_policy::Call;
use sandtable_run::story::{Names, acts, tell, trigger};
use sandtable_run::why::{Standing, why};
use sandtable_runtime::contract::{Action, Event, JobPhase, Trigger};
use sandtable_runtime::schedule::Finished;
use serde_json::json;

use super::{SpecArgs, StoreArgs, select};
use crate::commands::Format;
use crate::ui;

/// Show one result: its metrics, the life of a job as the policy saw it, its timeline for other tools.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable show experiments/specs/quickstart.ron --only fifo
  sandtable show experiments/specs/quickstart.ron --only las --job 17
  sandtable show experiments/specs/quickstart.ron --only fifo --job 17 --why 30min
  sandtable show 3f9a2c11e0 --chrome-trace run.json      # open it at ui.perfetto.dev")]
pub(crate) struct ShowArgs {
    /// A spec, or a cell's id.
    #[arg(value_name = "RESULT")]
    result: String,
    /// Show the life of this job.
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Say why the job waits at this time after the beginning, as its policy sees it, and which GPUs it lacks.
    #[arg(long, value_name = "TIME", requires = "job", value_parser = sandtable_core::units::span)]
    why: Option<Duration>,
    /// Seed of the cell to show [default: the first].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write the timeline as a Chrome trace; `-` writes to standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "job")]
    chrome_trace: Option<PathBuf>,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &ShowArgs) -> Result<ExitCode, Error> {
    let store = select::store_of(&args.store, &[&args.result])?;
    let all = select::entries(&args.result, &args.spec, None, &store)?;
    let entry = the_one(args, &all)?;
    if store.has_failed(&entry.id) {
        let story = String::from_utf8_lossy(&store.read(&entry.id, FailureRecord::FILE)?).to_string();
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
fn the_one<'a>(args: &ShowArgs, all: &'a [LabelledResult]) -> Result<&'a LabelledResult, Error> {
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
        Error::usage(format!("no cell of seed {}: expected one of: {}", args.seed.unwrap_or(0), seeds.join(", ")))
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

fn metrics(args: &ShowArgs, entry: &LabelledResult, store: &Store) -> Result<ExitCode, Error> {
    let summary = reader::summary(store, &entry.id)?.ok_or_else(|| Error::internal("a failed cell"))?;
    let values = METRICS.iter().map(|metric| (metric, metric.of(&summary)));
    let known: Vec<(&Metric, f64)> = values.filter(|(_, x)| !x.is_nan()).collect();
    let mut table = Frame::new([Column::words("id").only_in_json(), Column::words("metric"), Column::number("value")]);
    for (metric, x) in known {
        let name = Value::from(metric.name).shown(format!("  {}", metric.name));
        table.push([(&entry.id).into(), name, Value::Number(x).shown(metric.unit.text(x))]);
    }
    ui::result(&match args.format {
        Format::Table => {
            let folder = store.folder(&entry.id);
            let head = format!("{} seed {} {}\n{}\n", entry.label, entry.seed, entry.variant, folder.display());
            head + &table.text_rows()
        }
        format => format.of(&table),
    });
    Ok(ExitCode::Done)
}

fn export(args: &ShowArgs, entry: &LabelledResult, store: &Store, path: &Path) -> Result<ExitCode, Error> {
    let (jobs, stays) = (reader::jobs(store, &entry.id)?, reader::stays(store, &entry.id)?);
    let title = match entry.cell {
        Some(_) => format!("{} {} seed {}", args.result, entry.label, entry.seed),
        None => entry.id.clone(),
    };
    let text = chrome::trace(&title, &reader::nodes(store, &entry.id)?, &jobs, &stays).to_string() + "\n";
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
    at: Instant,
    who: &'static str,
    what: String,
}

/// The life of a job: what the policy was told of it and said of it, and what it did meanwhile for others.
fn life(args: &ShowArgs, entry: &LabelledResult, store: &Store, job: &str) -> Result<ExitCode, Error> {
    let rows = reader::jobs(store, &entry.id)?;
    let row = row_of(&rows, entry, job)?;
    let named = rows.iter().filter(|row| row.job_id == job).count();
    if named > 1 {
        ui::note(&format!("{named} jobs are called {job}: this is the first"));
    }
    let Some(cell) = &entry.cell else {
        if args.why.is_some() {
            return Err(Error::usage("a policy is asked while its cell runs again: name the spec instead of the id"));
        }
        // Without its spec a cell can't be run again: what is on record of it.
        stays(args, entry, store, row)?;
        ui::note("name the spec instead of the id to see what the policy was told and said");
        return Ok(ExitCode::Done);
    };
    let names = Names::of(cell)?;
    let id = names.find(job).ok_or_else(|| Error::internal(format!("job {job} has a row and is none")))?;
    let compiled = Compiled::new(&code::settings_beside(store, ui::note), std::iter::once(cell))?;
    if let Some(at) = args.why {
        return reason(args, (cell, &compiled, &names), (id, job), Instant::at(at), store);
    }
    let (moments, finished) = moments(cell, &compiled, &names, id)?;
    if let Some(first) = finished.agreement.and_then(|agreement| agreement.first) {
        let at = seconds(first.at.since_start());
        ui::note(&format!(
            "{} decides otherwise than the recorded run at {at} s: from then on it is not asked",
            entry.label
        ));
    }
    let end = row.jct().map_or_else(|| row.outcome.to_string(), |jct| format!("completed in {}", span(jct)));
    let wait = row.wait().map_or("never started".into(), |wait| format!("waited {}", span(wait)));
    let (gpus, preemptions) = (row.gpus, row.preemptions);
    let head = format!(
        "job {job} under {}, seed {}: {gpus} GPUs, {wait}, {preemptions} preemptions, {end}\n",
        entry.label, entry.seed
    );
    let mut table = Frame::new([Column::number("at_s").head("  at"), Column::words("policy"), Column::words("what")]);
    for moment in moments {
        let at = Value::Number(moment.at.as_secs_f64()).shown(format!("  {} s", seconds(moment.at.since_start())));
        table.push([at, moment.who.into(), moment.what.into()]);
    }
    if args.format == Format::Table {
        ui::result(&head);
    }
    ui::result(&args.format.of(&table));
    Ok(ExitCode::Done)
}

/// Why a job waits.
fn reason(
    args: &ShowArgs,
    (cell, compiled, names): (&Cell, &Compiled, &Names),
    (id, job): (JobId, &str),
    at: Instant,
    store: &Store,
) -> Result<ExitCode, Error> {
    let found = why(cell, compiled, id, at)?;
    let (state, reason) = match &found {
        None | Some((_, Standing::NotSubmitted)) => ("not submitted yet", None),
        Some((_, Standing::Unseen)) => ("waits, its policy has not been called since", None),
        Some((_, Standing::Waits(reason))) => ("waits", Some(reason)),
        Some((_, Standing::Starts)) => ("is started", None),
        Some((_, Standing::Stops)) => ("is preempted", None),
        Some((_, Standing::Refused)) => ("is refused", None),
        Some((_, Standing::Starting)) => ("holds GPUs and is starting", None),
        Some((_, Standing::Running)) => ("runs", None),
        Some((_, Standing::Stopping)) => ("saves its state", None),
        Some((_, Standing::Ended)) => ("has ended", None),
    };
    let words = reason.map(|reason| match reason {
        Some(reason) => names.reason(reason),
        None => "its policy does not say why".into(),
    });
    let decided = found.as_ref().map(|(at, _)| *at);
    let lacks = match state.starts_with("waits") {
        true => room::lacks(cell, store, id, at)?,
        false => None,
    };
    let mut table = Frame::new([
        Column::words("job"),
        Column::number("at_s"),
        Column::number("decided_s"),
        Column::words("state"),
        Column::words("why"),
        Column::words("lacks"),
        Column::words("lacks_text"),
        Column::words("after").only_in_json(),
    ]);
    let of = |at: Instant| Value::Number(at.as_secs_f64());
    let why: Value = words.as_ref().into();
    let after = lacks.as_ref().map_or(&[][..], |lacks| &lacks.after);
    table.push([
        job.into(),
        of(at),
        decided.map_or(Value::Absent, of),
        state.into(),
        why,
        lacks.as_ref().map_or(Value::Absent, |lacks| lacks.code.into()),
        lacks.as_ref().map_or(Value::Absent, |lacks| lacks.text.as_str().into()),
        Value::Json(Box::new(json!(after))),
    ]);
    ui::result(&match args.format {
        Format::Table => {
            let since = |at: Instant| seconds(at.since_start());
            let decided = decided.map_or(String::new(), |decided| format!(" (decision at {} s)", since(decided)));
            let words = words.map_or(String::new(), |words| format!(": {words}"));
            let lacks = lacks.as_ref().map_or_else(String::new, |lacks| format!("  {}\n", room_in_words(lacks)));
            format!("job {job} at {} s{decided}: {state}{words}\n{lacks}", since(at))
        }
        format => format.of(&table),
    });
    Ok(ExitCode::Done)
}

/// What a job lacks, and what has to end until it is there.
fn room_in_words(lacks: &Waits) -> String {
    const SHOWN: usize = 5;
    let some: Vec<&str> = lacks.after.iter().take(SHOWN).map(String::as_str).collect();
    match lacks.after.len().saturating_sub(SHOWN) {
        _ if some.is_empty() => lacks.text.clone(),
        0 => format!("{}; there is room once these jobs give their GPUs back: {}", lacks.text, some.join(", ")),
        more => format!(
            "{}; there is room once these jobs give their GPUs back: {} and {more} more",
            lacks.text,
            some.join(", ")
        ),
    }
}

/// The row of a job by its name.
fn row_of<'a>(rows: &'a [JobRecord], entry: &LabelledResult, job: &str) -> Result<&'a JobRecord, Error> {
    let found = rows.iter().find(|row| row.job_id == job);
    found.ok_or_else(|| {
        let error = Error::usage(format!("no job `{job}` in {} seed {}", entry.label, entry.seed));
        let near = nearest(job, rows.iter().map(|row| row.job_id.as_str()));
        match (near, rows.first(), rows.last()) {
            (Some(near), ..) => error.hint(format!("did you mean `{near}`?")),
            (None, Some(first), Some(last)) => error.hint(format!("jobs are {} to {}", first.job_id, last.job_id)),
            _ => error,
        }
    })
}

/// Decisions in a row in which a job waited while others were given GPUs.
#[derive(Default)]
struct PassedOver {
    decisions: u64,
    started: u64,
}

impl PassedOver {
    /// Ends the row: returns what is told of it, if anything.
    fn end(&mut self, at: Instant) -> Option<Moment> {
        let PassedOver { decisions, started } = std::mem::take(self);
        let what = format!("waits: {decisions} decisions start {started} others");
        (started > 0).then_some(Moment { at, who: "", what })
    }
}

/// Runs a cell again; returns what its policy was told and said of a job.
fn moments(cell: &Cell, compiled: &Compiled, names: &Names, id: JobId) -> Result<(Vec<Moment>, Finished), Error> {
    let (mut moments, mut passed_over) = (Vec::new(), PassedOver::default());
    let (mut waits, mut last) = (false, Instant::START);
    let finished = tell(cell, compiled, |Call { batch, rejections, plan }| {
        let now = Instant::from_micros(batch.now);
        last = now;
        for event in batch.events.iter().filter(|event| Names::about(event) == Some(id)) {
            moments.extend(passed_over.end(now));
            let why = match batch.trigger {
                Trigger::Event => String::new(),
                other => format!(" (in a call for {})", trigger(other)),
            };
            waits = match event {
                Event::JobArrived(_) => true,
                Event::JobChanged(change) => change.phase == JobPhase::Queued,
                _ => false,
            };
            moments.push(Moment { at: now, who: "told", what: format!("{}{why}", names.event(event)) });
        }
        for rejection in rejections.iter().filter(|rejection| rejection.job == Some(id.number())) {
            moments.extend(passed_over.end(now));
            moments.push(Moment { at: now, who: "told", what: Names::refusal(rejection) });
        }
        let own: Vec<_> = plan.actions.iter().filter(|action| Names::of_action(action).contains(&id)).collect();
        let starts = plan.actions.iter().filter(|action| acts(action)).flat_map(Names::of_action);
        let starts = starts.filter(|other| *other != id).count() as u64;
        if waits && starts > 0 && own.is_empty() {
            passed_over.decisions += 1;
            passed_over.started += starts;
        }
        for action in own {
            moments.extend(passed_over.end(now));
            waits = matches!(action, Action::Preempt(_));
            moments.push(Moment { at: now, who: "says", what: names.action(action) });
        }
        true
    })?;
    moments.extend(passed_over.end(last));
    Ok((moments, finished))
}

/// Where a job was, from the timeline.
fn stays(args: &ShowArgs, entry: &LabelledResult, store: &Store, row: &JobRecord) -> Result<(), Error> {
    let all = reader::stays(store, &entry.id)?;
    let own = all.iter().filter(|stay| stay.job_id == row.job_id);
    if args.format == Format::Table {
        ui::result(&format!("job {}: submitted at {} s, {}\n", row.job_id, row.submit_s, row.outcome));
        own.for_each(|stay| ui::result(&format!("  {} .. {} s on GPU {}\n", stay.from_s, stay.to_s, stay.gpus)));
        return Ok(());
    }
    let mut table = Frame::new([
        Column::words("job").in_csv(false),
        Column::words("job_id").in_json(false),
        Column::number("from_s"),
        Column::number("to_s"),
        Column::words("gpus"),
    ]);
    for stay in own {
        let gpus = Value::from(json!(stay.gpus.0)).shown(stay.gpus.to_string());
        let (from, to) = (stay.from_s.f64().into(), stay.to_s.f64().into());
        table.push([(&stay.job_id).into(), (&stay.job_id).into(), from, to, gpus]);
    }
    ui::result(&args.format.of(&table));
    Ok(())
}
