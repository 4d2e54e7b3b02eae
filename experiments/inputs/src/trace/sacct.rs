//! Slurm's accounting: `sacct --parsable2`.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::{Duration, Instant};

use super::account::Fate;
use super::rows::{NO_GPU, NO_TIME, Options, Rows};
use super::table::{Record, Table, TraceError, Unit};
use super::{Recorded, Row, Trace, plain};

/// What to ask Slurm for.
const COMMAND: &str = "sacct --parsable2 --allusers --duplicates --format=JobID,Submit,Eligible,Start,End,State,Timelimit,\
                       AllocTRES,ReqTRES,User,Account,Partition,QOS,Priority,NodeList";

/// A run of a job, or of a component of a heterogeneous one.
#[derive(Clone)]
struct Run {
    line: u64,
    /// Without what says which component it is.
    job: String,
    /// All of its id.
    id: String,
    submit: Instant,
    eligible: Option<Instant>,
    start: Option<Instant>,
    end: Option<Instant>,
    gpus: u32,
    kinds: Vec<String>,
    limit: Option<Duration>,
    user: Option<String>,
    recorded: Recorded,
}

const RUNS_ON: &str = "still ran: as long as the file's last instant is after its start";

pub(super) fn sacct(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let table = Table::new(file, bytes, b'|', true)?;
    table.need(&["JobID", "Submit", "Start", "End"])?;
    let has = |name: &str| table.names().iter().any(|known| known == name);
    if !has("AllocTRES") && !has("ReqTRES") {
        return Err(Error::usage(format!("{}:1: no column `AllocTRES` or `ReqTRES`", file.display())).hint(COMMAND));
    }
    let mut rows = Rows::of(options);
    let mut runs: Vec<Run> = Vec::new();
    // The log ends with the last instant that it knows of.
    let mut last = Instant::START;
    let read = table.each(options, |row| {
        let id = row.text("JobID")?;
        if id.contains('.') {
            rows.account().note(Fate::LeftOut, "a step of a job", row.line);
            return Ok(());
        }
        if let Some(run) = run(row, id, &mut rows)? {
            last = last.max(run.start.unwrap_or_default()).max(run.end.unwrap_or_default()).max(run.submit);
            runs.push(run);
        }
        Ok(())
    })?;
    for run in jobs(runs, &mut rows) {
        job(run, last, &mut rows);
    }
    Ok(rows.finish(read))
}

fn run(row: &Record<'_>, id: &str, rows: &mut Rows) -> Result<Option<Run>, TraceError> {
    let given = |column: &str| row.find(column).filter(|text| !matches!(*text, "" | "Unknown" | "None"));
    let instant = |column: &str, rows: &mut Rows| {
        given(column).map(|_| row.instant(column, Unit::Seconds).and_then(|at| rows.at(row, column, at))).transpose()
    };
    let words = |column: &str| given(column).map(str::to_string);
    let asked = gpus(row)?;
    if asked.count == 0 && asked.parts {
        let why = "asks for parts of GPUs (gres/shard, gres/mps), which this format does not say enough about";
        rows.account().note(Fate::LeftOut, why, row.line);
        return Ok(None);
    }
    if asked.kinds.len() > 1 {
        rows.account().note(Fate::Changed, "asks for several kinds of GPU: as many of any of them", row.line);
    }
    if asked.kinds.iter().any(|kind| is_slice(kind)) {
        rows.account().note(Fate::Changed, "runs on MIG slices: each counts as a GPU of that kind", row.line);
    }
    let limit = match given("Timelimit") {
        None | Some("UNLIMITED" | "Partition_Limit") => None,
        Some(_) => row.span("Timelimit", Unit::Seconds).ok().or_else(|| {
            rows.account().note(Fate::Changed, "its time limit can't be read: none", row.line);
            None
        }),
    };
    let (mut start, mut end) = (instant("Start", rows)?, instant("End", rows)?);
    if start.zip(end).is_some_and(|(start, end)| end < start) {
        // As local times do on the night when clocks are put back.
        rows.account().note(Fate::LeftOut, "ends before it starts", row.line);
        return Ok(None);
    }
    // `CANCELLED by 1000`.
    let state = given("State").and_then(|text| text.split_whitespace().next()).map(str::to_lowercase);
    // Some versions give one that was cancelled while it waited the time of that as its start.
    if state.as_deref() == Some("cancelled") && (start == end || !asked.allocated) {
        (start, end) = (None, None);
    }
    let submit = row.instant("Submit", Unit::Seconds)?;
    Ok(Some(Run {
        line: row.line,
        // `1234+1` is a component of a heterogeneous job, `1234_7` a task of an array.
        job: id.split('+').next().unwrap_or(id).to_string(),
        id: id.to_string(),
        submit: rows.at(row, "Submit", submit)?,
        eligible: instant("Eligible", rows)?,
        start,
        end,
        gpus: asked.count,
        kinds: asked.kinds,
        limit,
        user: words("User").map(plain),
        recorded: Recorded {
            job_name: words("JobName"),
            outcome: state,
            account: words("Account"),
            partition: words("Partition"),
            qos: words("QOS"),
            priority: given("Priority").and_then(|text| text.parse().ok()),
            nodes: words("NodeList").filter(|list| list != "None assigned"),
            ..Recorded::default()
        },
    }))
}

/// A slice of a GPU by NVIDIA's name for it, `1g.10gb` or `a100_1g.10gb`.
fn is_slice(kind: &str) -> bool {
    let slice = kind.rsplit('_').next().unwrap_or(kind);
    slice.split_once("g.").is_some_and(|(parts, memory)| parts.parse::<u8>().is_ok() && memory.contains("gb"))
}

/// GPUs of a row.
#[derive(Default)]
struct Asked {
    count: u32,
    kinds: Vec<String>,
    /// They were allocated, not only asked for.
    allocated: bool,
    /// It has parts of GPUs.
    parts: bool,
}

/// How many GPUs, and of which kinds: of what was allocated, or of what was asked for where nothing was.
fn gpus(row: &Record<'_>) -> Result<Asked, TraceError> {
    let mut asked = Asked::default();
    for column in ["AllocTRES", "ReqTRES"] {
        let text = row.find(column).unwrap_or_default();
        asked.parts |= text.contains("gres/shard") || text.contains("gres/mps");
        // `gres/gpu=4` is the total, `gres/gpu:a100=4` of a kind; without a total it is their sum. `gres/gpumem` is neither.
        let (mut total, mut sum) = (None, 0u32);
        let parts = text.split(',').filter_map(|part| part.strip_prefix("gres/gpu"));
        for part in parts.filter(|part| part.is_empty() || part.starts_with(['=', ':'])) {
            let wrong =
                || row.wrong(column, format!("expected gres/gpu=N or gres/gpu:KIND=N, found \"gres/gpu{part}\""));
            let (kind, count) = part.split_once('=').ok_or_else(wrong)?;
            let count: u32 = count.parse().map_err(|_| wrong())?;
            match kind.strip_prefix(':') {
                None => total = Some(count),
                Some(_) if count == 0 => {}
                Some(kind) => {
                    asked.kinds.push(kind.to_string());
                    sum = sum.checked_add(count).ok_or_else(wrong)?;
                }
            }
        }
        if total.is_some() || !asked.kinds.is_empty() {
            return Ok(Asked { count: total.unwrap_or(sum), allocated: column == "AllocTRES", ..asked });
        }
    }
    Ok(asked)
}

/// A run for each job, in the order of the file: components of a heterogeneous job are one gang, and of a job that was put back
/// into the queue the last run counts.
fn jobs(runs: Vec<Run>, rows: &mut Rows) -> Vec<Run> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    // By job its attempts, by attempt its components: the n-th row of one id is of the n-th attempt.
    let mut all: Vec<Vec<Vec<Run>>> = Vec::new();
    for run in runs {
        let at = *places.entry(run.job.clone()).or_insert_with(|| {
            all.push(Vec::new());
            all.len() - 1
        });
        let attempts = &mut all[at];
        let number = attempts.iter().filter(|attempt| attempt.iter().any(|other| other.id == run.id)).count();
        if number == attempts.len() {
            attempts.push(Vec::new());
        }
        attempts[number].push(run);
    }
    let whole = |attempts: Vec<Vec<Run>>| last_run(attempts.into_iter().map(|parts| gang(parts, rows)).collect());
    let found: Vec<(Run, Vec<(u64, bool)>)> = all.into_iter().map(whole).collect();
    let mut jobs = Vec::new();
    for (run, others) in found {
        for (line, waits) in others {
            let why = match waits {
                true => "a job that was put back into the queue, and waits: its last run counts",
                false => "a run of a job that was put back into the queue: its last run counts",
            };
            rows.account().note(Fate::Merged, why, line);
        }
        jobs.push(run);
    }
    jobs
}

/// The components of a heterogeneous job as one gang.
fn gang(parts: Vec<Run>, rows: &mut Rows) -> Run {
    let mut parts = parts.into_iter();
    let Some(mut one) = parts.next() else { unreachable!("an attempt has a row") };
    for part in parts {
        rows.account().note(Fate::Merged, "a component of a heterogeneous job: one gang with the others", part.line);
        one.gpus = one.gpus.saturating_add(part.gpus);
        one.start = one.start.zip(part.start).map(|(a, b)| a.min(b));
        // It runs as long as any of them does.
        one.end = one.end.zip(part.end).map(|(a, b)| a.max(b));
        if one.recorded.outcome.as_deref() == Some("completed") {
            one.recorded.outcome = part.recorded.outcome;
        }
        for kind in part.kinds {
            if !one.kinds.contains(&kind) {
                one.kinds.push(kind);
            }
        }
    }
    one
}

/// The last attempt that ran, since the job first came, and the lines of the others: `true` where it waits again.
fn last_run(mut attempts: Vec<Run>) -> (Run, Vec<(u64, bool)>) {
    attempts.sort_by_key(|run| (run.start.is_none(), run.start, run.submit));
    let ran = attempts.iter().rposition(|run| run.start.is_some()).unwrap_or(0);
    let came = attempts.iter().min_by_key(|run| run.submit).map(|run| (run.submit, run.eligible));
    let begun = attempts.iter().filter_map(|run| run.start).min();
    let mut last = attempts.remove(ran);
    (last.submit, last.eligible) = came.unwrap_or((last.submit, last.eligible));
    last.recorded.start = begun;
    (last, attempts.into_iter().map(|run| (run.line, run.start.is_none())).collect())
}

fn job(run: Run, last: Instant, rows: &mut Rows) {
    if run.gpus == 0 && !rows.takes_cpu_jobs() {
        return rows.account().note(Fate::LeftOut, NO_GPU, run.line);
    }
    let Some(start) = run.start else { return rows.account().note(Fate::LeftOut, NO_TIME, run.line) };
    let duration = run.end.unwrap_or(last).saturating_since(start);
    if run.end.is_none() {
        if duration.is_zero() {
            return rows.account().note(Fate::LeftOut, "began with the file's last instant", run.line);
        }
        rows.account().note(Fate::Changed, RUNS_ON, run.line);
    }
    // A scheduler may start it from then on: what it depended on, or its own wish, has come.
    let first = run.recorded.start.unwrap_or(start);
    let submit = run.eligible.filter(|at| *at > run.submit && *at <= first).unwrap_or(run.submit);
    if submit > run.submit {
        rows.account().note(Fate::Changed, "became eligible after it was submitted: comes then", run.line);
    }
    let outcome = if run.end.is_none() { Some("running".into()) } else { run.recorded.outcome };
    let submitted = (submit > run.submit).then_some(run.submit);
    let recorded = Recorded { submitted, start: Some(first), end: run.end, outcome, ..run.recorded };
    let mut job = Row::new(run.job, submit, run.gpus, duration);
    (job.declared, job.recorded) = (run.limit, Some(Box::new(recorded)));
    (job.kinds, job.user) = (run.kinds, run.user);
    rows.keep(run.line, job);
}
