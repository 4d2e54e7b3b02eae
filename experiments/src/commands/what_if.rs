//! `sandtable what-if`: what would become of a cluster's queue.

mod check;
pub(super) mod fleet;
pub(super) mod hosts;
mod page;
pub(super) mod spec;
mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use sandtable_core::display::{Unit, span};
use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_core::output;
use sandtable_core::text::nearest;
use sandtable_inputs::state::{Begun, State, recorded_starts};
use sandtable_plan::{Cell, Options, Plan, StateJobs};
use sandtable_results::forecast::{Forecast, forecasts, quantile};
use sandtable_results::status::{CellStatus, lookup};
use sandtable_results::store::Store;
use sandtable_run::code;
use sandtable_run::execute::{Compiled, Workers, execute_watched, in_parallel};
use serde_json::json;

use super::run::failures::failures;
use super::{Format, StoreArgs, begin, pair, threads};
use crate::ui;
use check::Check;
use standing::{Now, Why, standing, text, text_within};

/// Forecast when the waiting jobs of a cluster start, under policies, and with changes to it.
#[derive(Debug, clap::Args)]
pub(crate) struct WhatIfArgs {
    /// A document `sandtable/state@1`, as `sandtable capture` writes it.
    #[arg(value_name = "STATE")]
    state: PathBuf,
    #[command(flatten)]
    asked: spec::Asked,
    /// Show only this job.
    #[arg(long = "job", value_name = "ID")]
    jobs: Vec<String>,
    /// Exit with code 1 unless this holds of every job that is shown under every policy, such as `p90(wait) <= 2h`. A quantity is
    /// `start` (from now on), `wait` (from the submission, or the time not before which it may start) or `end` (from now on); of jobs that run
    /// only `end`.
    #[arg(long = "check", value_name = "CONDITION")]
    checks: Vec<Check>,
    /// Compare with what really happened: a later document of the cluster, a trace with dates, or what `sacct --parsable2` printed.
    #[arg(long, value_name = "FILE")]
    recorded: Option<PathBuf>,
    /// Write the answer as a page too, to this file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the spec that is run, and run nothing.
    #[arg(long)]
    print_spec: bool,
    /// Output format; `json` and `csv` have a row for each job and policy.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    store: StoreArgs,
    /// Search this folder for shipped policies first.
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
    /// Set a value of the spec by its path, such as `policies.0.name=srtf`.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Number of cells to run at a time [default: the number of cores].
    #[arg(long, short = 'j', value_name = "N")]
    threads: Option<std::num::NonZeroUsize>,
    /// Do not show a progress bar.
    #[arg(long)]
    no_progress: bool,
}

/// Jobs that a table shows, unless they are asked for.
const SHOWN: usize = 50;

pub(crate) fn run(args: &WhatIfArgs) -> Result<ExitCode, Error> {
    let state = sandtable_inputs::state::read(&args.state, sandtable_core::input::DATA)?;
    let set = args.set.iter().map(pair).collect::<Result<_, _>>()?;
    let options = Options { set, policies: args.policies.clone(), ..Options::default() };
    let known = (&state, args.asked.adds_hosts());
    let spec = |hosts: hosts::Hosts| args.asked.spec(&args.state, &state, hosts);
    let (plan, left_out) = hosts::planned("what-if.ron", known, &options, spec)?;
    left_out.iter().for_each(|why| ui::note(why));
    if args.print_spec {
        ui::result(&plan.source.text);
        return Ok(ExitCode::Done);
    }
    if let Some(file) = &args.output {
        if file.is_dir() {
            return Err(Error::usage(format!("--output: {} is a folder", file.display())));
        }
        output::check(file)?;
    }
    let store = args.store.open(None)?;
    let known = complete(args, &plan, &store)?;
    let of: Vec<(usize, &Cell)> = plan.cells.iter().enumerate().collect();
    let code = failures(&of, &store, &known);
    let mut asked = Asked::of(&plan, &store, &known)?;
    if let Some(file) = &args.recorded {
        let bytes = sandtable_inputs::trace::read_bytes(file, sandtable_core::input::DATA)?;
        asked.record(&recorded_starts(state.since_1970(), file, &bytes)?);
    }
    let names = asked.names(&args.jobs, &state)?;
    match args.format {
        Format::Table => {
            ui::result(&asked.head(&state));
            ui::result(&asked.table(&names, args.jobs.is_empty()).text());
            ui::result(&format!("\n{}", fleet::table(&asked.runs()).text()));
            if let Some(recorded) = &asked.recorded {
                ui::result(&format!("\n{}", fleet::accuracy(&asked.accuracies(recorded)).text()));
            }
        }
        format => {
            // What is for people is no row.
            ui::note(asked.head(&state).trim_end());
            ui::result(&format.of(&asked.long(&names)));
        }
    }
    if let Some(file) = &args.output {
        let cells = plan.cells.len().to_string();
        let facts =
            [("document", args.state.display().to_string()), ("spec", plan.source.text.clone()), ("cells", cells)];
        let facts = facts.into_iter().map(|(name, value)| (name.to_string(), value));
        output::write(file, asked.page(&state, &names, facts.collect())?)?;
        ui::note(&format!("wrote {}", file.display()));
    }
    let failed = asked.failed(&names, &args.checks, &args.asked.taken_out(&args.jobs), &args.asked.added(&args.jobs));
    failed.iter().for_each(|line| ui::note(&format!("error: {line}")));
    Ok(if code == ExitCode::Done && !failed.is_empty() { ExitCode::CheckFailed } else { code })
}

/// Runs the cells without a result.
fn complete(args: &WhatIfArgs, plan: &Plan, store: &Store) -> Result<Vec<CellStatus>, Error> {
    let missing: Vec<&Cell> = plan.cells.iter().filter(|cell| !store.has(&cell.id)).collect();
    if !missing.is_empty() {
        let compiled = Compiled::new(&code::settings_beside(store, ui::note), missing.iter().copied())?;
        begin::all_begin(plan, &missing, &compiled)?;
        let bar = ui::Progress::of(missing.len() as u64, args.no_progress);
        let workers = Workers { threads: threads(args.threads), stop: &AtomicBool::new(false), done: &|_| {} };
        let ran = in_parallel(&missing, &workers, |cell| {
            execute_watched(cell, &compiled, &bar.watched(cell, None))?.put(store, cell)
        });
        bar.finish();
        ran?;
    }
    plan.cells.iter().map(|cell| lookup(cell, store)).collect()
}

/// What was asked: each policy, as it is and changed.
struct Asked<'a> {
    sides: Vec<Side<'a>>,
    seeds: usize,
    changed: bool,
    /// When jobs really started, seconds from now on.
    recorded: Option<BTreeMap<String, f64>>,
    /// The same as a forecast of the jobs that wait.
    really: BTreeMap<String, Forecast>,
}

/// A policy on the cluster as it is, or changed.
struct Side<'a> {
    policy: &'a str,
    /// Whether the cluster is changed.
    changed: bool,
    jobs: &'a StateJobs,
    now: BTreeMap<&'a str, Now<'a>>,
    forecasts: BTreeMap<String, Forecast>,
}

impl Side<'_> {
    /// What came of its waiting jobs.
    fn runs(&self, head: String) -> fleet::Runs<'_> {
        let waiting = self.now.iter().filter(|(_, now)| now.waits);
        let jobs = waiting.filter_map(|(name, now)| Some((*name, (now.eligible_s, self.forecasts.get(*name)?))));
        let runs = |name: &&String| self.now.get(name.as_str()).is_some_and(|now| !now.waits);
        let stopped =
            self.forecasts.iter().filter(|(name, _)| runs(name)).map(|(_, of)| of.preempted).sum::<f64>() + 0.0;
        let (policy, changed, length) = (self.policy, self.changed, self.length());
        fleet::Runs { head, policy, changed, recorded: false, length, stopped, jobs: jobs.collect() }
    }

    /// For how long its runs go on, seconds, where they end early.
    fn length(&self) -> Option<f64> {
        self.jobs.length().map(sandtable_hardware::Duration::as_secs_f64)
    }
}

impl<'a> Asked<'a> {
    fn of(plan: &'a Plan, store: &Store, known: &[CellStatus]) -> Result<Asked<'a>, Error> {
        let mut sides: Vec<Side<'a>> = Vec::new();
        let mut seeds = 0;
        let cells: Vec<(&Cell, &CellStatus)> = plan.cells.iter().zip(known).collect();
        for of in cells.chunk_by(|a, b| a.0.differs_in_seed_alone(b.0)) {
            let (first, _) = of[0];
            let done = of.iter().filter(|(_, known)| matches!(known, CellStatus::Done(_)));
            let ids: Vec<&str> = done.map(|(cell, _)| cell.id.as_str()).collect();
            let Some(jobs) = first.setting.workload.state() else { continue };
            let changed = first.variant.iter().any(|(path, value)| path == spec::CHANGES && value.trim() != "[]");
            let forecasts = forecasts(store, &ids, jobs.modelled.at)?;
            seeds = seeds.max(of.len());
            sides.push(Side { policy: &first.label, changed, jobs, now: standing(jobs, &forecasts), forecasts });
        }
        let changed = sides.iter().any(|side| side.changed);
        Ok(Asked { sides, seeds, changed, recorded: None, really: BTreeMap::new() })
    }

    /// Enters when jobs really started.
    fn record(&mut self, starts: &BTreeMap<String, Begun>) {
        let waiting = self.sides.iter().filter(|side| !side.changed).flat_map(|side| &side.now);
        let length = self.sides.iter().find_map(Side::length).unwrap_or(f64::INFINITY);
        // Of the others it is not known, or not yet, when they started.
        let really = |(name, _): (&&str, _)| {
            let start = starts.get(*name).map(|begun| begun.at_s).filter(|start| *start <= length)?;
            let by_seed = vec![(start, f64::INFINITY, 0)];
            let ends = vec![f64::INFINITY];
            Some((name.to_string(), Forecast { starts: vec![start], ends, preempted: 0.0, by_seed }))
        };
        self.really = waiting.filter(|(_, now)| now.waits).filter_map(really).collect();
        self.recorded = Some(starts.iter().map(|(name, begun)| (name.clone(), begun.at_s)).collect());
    }

    /// The runs of each side, and what the cluster did where that is known.
    fn runs(&self) -> Vec<fleet::Runs<'_>> {
        let mut all: Vec<fleet::Runs<'_>> = self.sides.iter().map(|side| side.runs(self.head_of(side))).collect();
        if self.recorded.is_some() {
            let job = |(name, of)| Some((String::as_str(name), (self.now(name)?.eligible_s, of)));
            all.push(fleet::Runs::recorded(self.really.iter().filter_map(job).collect()));
        }
        all
    }

    /// How each forecast, and the cluster's own plan, agree with what happened.
    fn accuracies(&self, recorded: &BTreeMap<String, f64>) -> Vec<fleet::Accuracy> {
        let waited = |side: &Side<'_>, job: &str| side.now.get(job).is_some_and(|now| now.waits);
        let of_side = |side: &Side<'_>| {
            let length = side.length().unwrap_or(f64::INFINITY);
            let real = recorded.iter().filter(|(job, start)| waited(side, job) && **start <= length);
            let both = real.filter_map(|(job, real)| {
                let starts = &side.forecasts.get(job)?.starts;
                Some(([quantile(starts, 0.1)?, quantile(starts, 0.5)?, quantile(starts, 0.9)?], *real))
            });
            fleet::Accuracy { head: self.head_of(side), jobs: both.collect(), drawn: self.seeds > 1 }
        };
        let mut all: Vec<fleet::Accuracy> = self.sides.iter().map(of_side).collect();
        let planned = recorded.iter().filter_map(|(job, real)| {
            let planned = self.now(job).filter(|now| now.waits)?.planned_s?;
            Some(([planned; 3], *real))
        });
        let planned: Vec<_> = planned.collect();
        if !planned.is_empty() {
            all.push(fleet::Accuracy { head: "its own plan".into(), jobs: planned, drawn: false });
        }
        all
    }

    /// What is asked, in a few lines.
    fn head(&self, state: &State) -> String {
        let Some(first) = self.sides.first() else { return String::new() };
        let modelled = &first.jobs.modelled;
        let (nodes, (running, waiting)) = (modelled.nodes.len(), modelled.counts());
        let gpus: u32 = modelled.nodes.iter().map(|node| node.gpus).sum();
        let seeds = if self.seeds == 1 { "one seed".to_string() } else { format!("{} seeds", self.seeds) };
        let mut out = format!(
            "{waiting} waiting and {running} running jobs, {nodes} nodes of {gpus} GPUs at {}; {seeds}\n",
            state.at
        );
        let times = first.jobs.times_in_words().unwrap_or_else(|| "as time limits say".into());
        out.push_str(&format!("run times: {times}\n"));
        if let Some(length) = first.length() {
            out.push_str(&format!("the runs end after {}, and what comes later is not known\n", span(length)));
        }
        if let Some(within) =
            first.jobs.calibration().map(|calibration| calibration.within_p90).filter(|part| *part < 0.8)
        {
            out.push_str(&format!(
                "warning: the P90 of run times holds of {:.0} % of jobs, not of 90 %\n",
                within * 100.0
            ));
        }
        if let Some(refused) = state.refused.first() {
            let id = refused.id.as_ref().map_or_else(String::new, |id| format!(" {id}"));
            let count = state.refused.len();
            out.push_str(&format!(
                "warning: {count} records of the cluster can't be understood, the first of {}{id}: {}\n",
                refused.what, refused.why
            ));
        }
        let mut said = Vec::new();
        for side in self.sides.iter().filter(|side| side.policy == first.policy) {
            let not: Vec<String> =
                side.jobs.modelled.not_modelled.iter().map(|(what, count)| format!("{count} {what}")).collect();
            if !not.is_empty() && !said.contains(&not) {
                out.push_str(&format!(
                    "not modelled{}: {}\n",
                    if side.changed { ", changed" } else { "" },
                    not.join(", ")
                ));
                said.push(not);
            }
        }
        out.push('\n');
        out
    }

    /// The jobs that are shown: those that wait, in the order of their submission, or those that are asked for.
    fn names(&self, asked: &[String], state: &State) -> Result<Vec<String>, Error> {
        let (mut all, mut seen): (Vec<String>, BTreeSet<&str>) = Default::default();
        for row in self.sides.iter().flat_map(|side| &side.jobs.modelled.rows) {
            let waits = || self.now(&row.name).is_some_and(|now| now.waits);
            if seen.insert(&row.name) && (!asked.is_empty() || waits()) {
                all.push(row.name.to_string());
            }
        }
        if let Some(unknown) = asked.iter().find(|job| !all.contains(job)) {
            let error = Error::usage(format!("--job: no job {unknown:?} waits or runs"));
            if let Some(job) = state.jobs.iter().find(|job| job.id == *unknown) {
                let why = format!("it is {} in the document, and not in the model", job.state.word());
                return Err(error.hint(why));
            }
            return Err(match nearest(unknown, all.iter().map(String::as_str)) {
                Some(near) => error.hint(format!("did you mean {near:?}?")),
                None => error.hint("`sandtable capture check` says which jobs are left out, and why"),
            });
        }
        if !asked.is_empty() {
            all.retain(|name| asked.contains(name));
        }
        Ok(all)
    }

    fn now(&self, name: &str) -> Option<&Now<'a>> {
        self.sides.iter().find_map(|side| side.now.get(name))
    }

    fn head_of(&self, side: &Side<'_>) -> String {
        match (self.changed, side.changed) {
            (false, _) => side.policy.to_string(),
            (true, false) => format!("{}, as it is", side.policy),
            (true, true) => format!("{}, changed", side.policy),
        }
    }

    /// A row a job, for people.
    fn table(&self, names: &[String], cut: bool) -> Frame {
        let planned = names.iter().any(|name| self.now(name).is_some_and(|now| now.planned_s.is_some()));
        let many = self.seeds > 1;
        let mut columns = vec![
            Column::words("job"),
            Column::words("user"),
            Column::of("gpus", Unit::Count).head("GPUs"),
            Column::of("waited_s", Unit::Seconds).head("waited"),
            Column::words("why").head("waits for"),
        ];
        let kind = if many { "P10 / P50 / P90" } else { "start" };
        columns.extend(
            self.sides.iter().map(|side| Column::words("start").head(format!("{}: {kind}", self.head_of(side)))),
        );
        columns.extend(planned.then(|| Column::words("planned").head("its own plan")));
        columns.extend(self.recorded.as_ref().map(|_| Column::words("recorded").head("really")));
        let mut frame = Frame::new(columns);
        for name in &names[..if cut { names.len().min(SHOWN) } else { names.len() }] {
            let Some(now) = self.now(name) else { continue };
            let mut row: Vec<Value> = vec![
                name.into(),
                now.row.user.clone().map_or(Value::Unknown, Value::Text),
                u64::from(now.row.gpus).into(),
                self.waited(name).map_or(Value::Unknown, Value::Number),
                now.why.as_ref().map_or_else(|| "runs".into(), |why| why.text.as_str().into()),
            ];
            row.extend(self.sides.iter().map(|side| match self.said(side, name) {
                unknown if unknown.is_empty() => Value::Unknown,
                said => said.into(),
            }));
            row.extend(planned.then(|| now.planned_s.map_or(Value::Unknown, |at| text(at).into())));
            row.extend(self.recorded.as_ref().map(|all| all.get(name).map_or(Value::Unknown, |at| text(*at).into())));
            frame.push(row);
        }
        if cut && names.len() > SHOWN {
            ui::note(&format!("{} more jobs wait: --job ID, or --format csv, shows them", names.len() - SHOWN));
        }
        frame
    }

    /// When a job starts, or ends that runs, for people; empty: it is not on this side.
    fn said(&self, side: &Side<'_>, name: &str) -> String {
        let (Some(of), Some(now)) = (side.forecasts.get(name), self.now(name)) else { return String::new() };
        let (values, ends) = if now.waits { (&of.starts, "") } else { (&of.ends, "ends ") };
        let shares: &[f64] = if self.seeds > 1 { &[0.1, 0.5, 0.9] } else { &[0.5] };
        let times = shares.iter().filter_map(|share| quantile(values, *share));
        let words: Vec<String> = times.map(|at| text_within(at, side.length())).collect();
        format!("{ends}{}", words.join(" / "))
    }

    /// Seconds since a job that waits was submitted.
    fn waited(&self, name: &str) -> Option<f64> {
        self.now(name).filter(|now| now.waits).map(|now| (-now.eligible_s).max(0.0))
    }

    /// A row for each job under each policy, for programs.
    fn long(&self, names: &[String]) -> Frame {
        let time = |name: &'static str| Column::of(name, Unit::Seconds);
        let mut frame = Frame::new([
            Column::words("job"),
            Column::words("policy"),
            Column::words("cluster"),
            Column::words("user"),
            Column::of("gpus", Unit::Count),
            time("waited_s"),
            time("until_s"),
            time("start_p10_s"),
            time("start_p50_s"),
            time("start_p90_s"),
            time("end_p10_s"),
            time("end_p50_s"),
            time("end_p90_s"),
            Column::of("started_share", Unit::Share),
            Column::of("preempted_share", Unit::Share),
            Column::words("why"),
            Column::words("why_text"),
            Column::words("after").only_in_json(),
            time("planned_s"),
            time("recorded_start_s"),
        ]);
        for (name, side) in names.iter().flat_map(|name| self.sides.iter().map(move |side| (name, side))) {
            let (Some(now), Some(of)) = (side.now.get(name.as_str()), side.forecasts.get(name)) else { continue };
            let at = |values: &[f64], share: f64| {
                quantile(values, share).filter(|value| value.is_finite()).map_or(Value::Unknown, Value::Number)
            };
            let started = of.starts.iter().filter(|start| start.is_finite()).count() as f64 / of.starts.len() as f64;
            let words = |get: fn(&Why) -> &String| now.why.as_ref().map_or(Value::Unknown, |why| get(why).into());
            let after = now.why.as_ref().map_or(&[][..], |why| &why.after);
            frame.push([
                name.into(),
                side.policy.into(),
                if side.changed { "changed" } else { "as it is" }.into(),
                now.row.user.clone().map_or(Value::Unknown, Value::Text),
                u64::from(now.row.gpus).into(),
                self.waited(name).map_or(Value::Unknown, Value::Number),
                side.length().map_or(Value::Unknown, Value::Number),
                at(&of.starts, 0.1),
                at(&of.starts, 0.5),
                at(&of.starts, 0.9),
                at(&of.ends, 0.1),
                at(&of.ends, 0.5),
                at(&of.ends, 0.9),
                started.into(),
                of.preempted.into(),
                words(|why| &why.code),
                words(|why| &why.text),
                Value::Json(Box::new(json!(after))),
                now.planned_s.map_or(Value::Unknown, Value::Number),
                self.recorded.as_ref().and_then(|all| all.get(name)).map_or(Value::Unknown, |at| (*at).into()),
            ]);
        }
        frame
    }

    /// Which conditions do not hold, and of which jobs.
    /// Checks that do not hold of these jobs and of those that were added. A job that a change leaves out never starts, unless it was taken out on purpose.
    fn failed(&self, names: &[String], checks: &[Check], out: &BTreeSet<&str>, added: &[String]) -> Vec<String> {
        let mut lines = Vec::new();
        for check in checks {
            for side in &self.sides {
                let found = |name: &String| {
                    let Some(now) = side.now.get(name.as_str()) else {
                        return (side.changed && !out.contains(name.as_str())).then(|| format!("{name} (left out)"));
                    };
                    let value = check.value(side.forecasts.get(name)?, now.waits.then_some(now.eligible_s))?;
                    // What comes after the end of the runs may come at any time: whatever is asked of it can't be said.
                    let unknown = value.is_infinite() && side.length().is_some();
                    (unknown || !check.holds(value)).then(|| format!("{name} ({})", text_within(value, side.length())))
                };
                let more = added.iter().filter(|name| !names.contains(name));
                let fails: Vec<String> = names.iter().chain(more).filter_map(found).collect();
                if !fails.is_empty() {
                    let (some, more) =
                        (fails.iter().take(5).cloned().collect::<Vec<_>>().join(", "), fails.len().saturating_sub(5));
                    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                    lines.push(format!("{check} does not hold under {}: {some}{more}", self.head_of(side)));
                }
            }
        }
        lines
    }
}
