//! Slurm's accounting: `sacct --parsable2`.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_hardware::Micros;

use super::account::Fate;
use super::formats::{NO_GPU, NO_TIME, Options, Rows};
use super::table::{Record, Table, TraceError, Unit};
use super::{Recorded, Row, Trace};
use crate::error::Error;

/// What to ask Slurm for.
const COMMAND: &str = "sacct --parsable2 --allusers --duplicates --format=JobID,Submit,Eligible,Start,End,State,Timelimit,\
                       AllocTRES,ReqTRES,User,Account,Partition,QOS,Priority,NodeList";

/// A run of a job, or of a component of a heterogeneous one.
struct Run {
    line: u64,
    /// Without what says which component it is.
    job: String,
    /// It is one of several.
    component: bool,
    submit: Micros,
    eligible: Option<Micros>,
    start: Option<Micros>,
    end: Option<Micros>,
    gpus: u32,
    kinds: Vec<String>,
    limit: Option<Micros>,
    user: Option<String>,
    recorded: Recorded,
}

pub(super) fn sacct(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let table = Table::new(file, bytes, b'|', true)?;
    table.need(&["JobID", "Submit", "Start", "End"])?;
    let has = |name: &str| table.names().iter().any(|known| known == name);
    if !has("AllocTRES") && !has("ReqTRES") {
        return Err(Error::usage(format!("{}:1: no column `AllocTRES` or `ReqTRES`", file.display())).hint(COMMAND));
    }
    let mut rows = Rows::new();
    let mut runs: Vec<Run> = Vec::new();
    // The log ends with the last instant that it knows of.
    let mut last: Micros = 0;
    let read = table.each(options.limits.rows, |row| {
        let id = row.text("JobID")?;
        if !row.matches(&options.filter)? {
            rows.account().note(Fate::NotAsked, "another value than `--where` asks for", row.line);
            return Ok(());
        }
        if id.contains('.') {
            rows.account().note(Fate::LeftOut, "a step of a job", row.line);
            return Ok(());
        }
        let run = run(row, id, &mut rows)?;
        last = last.max(run.start.unwrap_or(0)).max(run.end.unwrap_or(0)).max(run.submit);
        runs.push(run);
        Ok(())
    })?;
    for gang in gangs(runs, &mut rows) {
        job(gang, last, &mut rows);
    }
    Ok(rows.finish(read))
}

fn run(row: &Record<'_>, id: &str, rows: &mut Rows) -> Result<Run, TraceError> {
    let given = |column: &str| row.find(column).filter(|text| !matches!(*text, "" | "Unknown" | "None"));
    let instant = |column: &str, rows: &mut Rows| {
        given(column).map(|_| row.instant(column, Unit::Seconds).and_then(|at| rows.at(row, column, at))).transpose()
    };
    let words = |column: &str| given(column).map(str::to_string);
    let (gpus, kinds) = gpus(row)?;
    if kinds.len() > 1 {
        rows.account().note(Fate::Changed, "asks for several kinds of GPU: as many of any of them", row.line);
    }
    if kinds.iter().any(|kind| is_slice(kind)) {
        rows.account().note(Fate::Changed, "runs on MIG slices: each counts as a GPU of that kind", row.line);
    }
    // `1234+1` is a component of a heterogeneous job, `1234_7` a task of an array.
    let (job, component) = id.split_once('+').map_or((id, false), |(job, _)| (job, true));
    let limit = match given("Timelimit") {
        None | Some("UNLIMITED" | "Partition_Limit") => None,
        Some(_) => Some(row.span("Timelimit", Unit::Seconds)?),
    };
    let (start, end) = (instant("Start", rows)?, instant("End", rows)?);
    if start.zip(end).is_some_and(|(start, end)| end < start) {
        return Err(row.wrong("End", format!("{} is before Start, {}", row.text("End")?, row.text("Start")?)));
    }
    // `CANCELLED by 1000`.
    let state = given("State").and_then(|text| text.split_whitespace().next()).map(str::to_lowercase);
    Ok(Run {
        line: row.line,
        job: job.to_string(),
        component,
        submit: {
            let at = row.instant("Submit", Unit::Seconds)?;
            rows.at(row, "Submit", at)?
        },
        eligible: instant("Eligible", rows)?,
        start,
        end,
        gpus,
        kinds,
        limit,
        user: words("User"),
        recorded: Recorded {
            outcome: state,
            account: words("Account"),
            partition: words("Partition"),
            qos: words("QOS"),
            priority: given("Priority").map(|_| row.whole("Priority")).transpose()?,
            nodes: words("NodeList").filter(|list| list != "None assigned"),
            ..Recorded::default()
        },
    })
}

/// A slice of a GPU by NVIDIA's name for it, `1g.10gb` or `a100_1g.10gb`.
fn is_slice(kind: &str) -> bool {
    let slice = kind.rsplit('_').next().unwrap_or(kind);
    slice.split_once("g.").is_some_and(|(parts, memory)| parts.parse::<u8>().is_ok() && memory.contains("gb"))
}

/// How many GPUs, and of which kinds: of what was allocated, or of what was asked for where nothing was.
fn gpus(row: &Record<'_>) -> Result<(u32, Vec<String>), TraceError> {
    for column in ["AllocTRES", "ReqTRES"] {
        let text = row.find(column).unwrap_or_default();
        // `gres/gpu=4` is the total, `gres/gpu:a100=4` of a kind; without a total it is their sum.
        let (mut total, mut sum, mut kinds) = (None, 0u32, Vec::new());
        for part in text.split(',').filter_map(|part| part.strip_prefix("gres/gpu")) {
            let wrong =
                || row.wrong(column, format!("expected gres/gpu=N or gres/gpu:KIND=N, found \"gres/gpu{part}\""));
            let (kind, count) = part.split_once('=').ok_or_else(wrong)?;
            let count: u32 = count.parse().map_err(|_| wrong())?;
            match kind.strip_prefix(':') {
                None if kind.is_empty() => total = Some(count),
                Some(kind) if count > 0 => {
                    kinds.push(kind.to_string());
                    sum = sum.checked_add(count).ok_or_else(wrong)?;
                }
                Some(_) => {}
                None => return Err(wrong()),
            }
        }
        if total.is_some() || !kinds.is_empty() {
            return Ok((total.unwrap_or(sum), kinds));
        }
    }
    Ok((0, Vec::new()))
}

/// Runs of one job together: components of a heterogeneous job, and what came of it before it was put back into the queue. In
/// the order of the file.
fn gangs(runs: Vec<Run>, rows: &mut Rows) -> Vec<Run> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut all: Vec<Run> = Vec::new();
    for run in runs {
        let Some(at) = places.get(&run.job).copied() else {
            places.insert(run.job.clone(), all.len());
            all.push(run);
            continue;
        };
        let one = &mut all[at];
        if run.component && one.component {
            rows.account().note(
                Fate::Changed,
                "a component of a heterogeneous job: one gang with the others",
                run.line,
            );
            one.gpus = one.gpus.saturating_add(run.gpus);
            one.end = one.end.max(run.end);
            one.kinds.extend(run.kinds.into_iter().filter(|kind| !one.kinds.contains(kind)).collect::<Vec<_>>());
            continue;
        }
        rows.account().note(
            Fate::Changed,
            "a run of a job that was put back into the queue: its last run counts",
            run.line,
        );
        // Of the same id the later one; the job came when it first came.
        let (submit, eligible) = (one.submit.min(run.submit), one.eligible.min(run.eligible));
        let begun = one.start.into_iter().chain(run.start).min();
        if run.start > one.start {
            *one = run;
        }
        (one.submit, one.eligible, one.recorded.start) = (submit, eligible, begun);
    }
    all
}

fn job(run: Run, last: Micros, rows: &mut Rows) {
    if run.gpus == 0 {
        return rows.account().note(Fate::LeftOut, NO_GPU, run.line);
    }
    let Some(start) = run.start else { return rows.account().note(Fate::LeftOut, NO_TIME, run.line) };
    let end = run.end.unwrap_or_else(|| {
        rows.account().note(Fate::Changed, "still ran: ends with the last instant of the file", run.line);
        last
    });
    let duration = end.saturating_sub(start);
    // A scheduler may start it from then on: what it depended on, or its own wish, has come.
    let submit = run.eligible.filter(|at| *at > run.submit && *at <= start).unwrap_or(run.submit);
    if submit > run.submit {
        rows.account().note(Fate::Changed, "became eligible after it was submitted: comes then", run.line);
    }
    let outcome = if run.end.is_none() { Some("running".into()) } else { run.recorded.outcome };
    let recorded = Recorded {
        submitted: (submit > run.submit).then_some(run.submit),
        start: run.recorded.start.or(Some(start)),
        end: Some(end),
        outcome,
        ..run.recorded
    };
    rows.keep(Row {
        declared: run.limit,
        kinds: run.kinds,
        user: run.user,
        recorded: Some(Box::new(recorded)),
        ..Row::new(run.job, submit, run.gpus, duration)
    });
}
