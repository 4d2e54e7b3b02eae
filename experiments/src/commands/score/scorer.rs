//! Scores one candidate: what was compiled and computed for those before it is kept.

use std::collections::BTreeMap;
use std::io::{BufRead as _, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use sandtable_core::error::Error;
use sandtable_hardware::Duration;
use sandtable_plan::artifact::Finder;
use sandtable_plan::spec::value_as_ron;
use sandtable_plan::{Cell, Options, Plan, plan_text};
use sandtable_results::metric::{Better, METRICS, Metric};
use sandtable_results::stats::estimate;
use sandtable_results::store::Store;
use sandtable_run::code;
use sandtable_run::execute::{Compiled, execute};
use sandtable_runtime::Summary;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::StoreArgs;
use super::ScoreArgs;
use crate::commands::in_script;
use crate::ui;

/// The score of a candidate that has none: less than any other.
const WORST: f64 = -1e308;
/// Components that are kept compiled.
const COMPILED: usize = 8;
/// Settings under which the baseline's results are kept.
const BASELINES: usize = 64;

/// The name of a request that is wrong.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    id: Value,
}

/// What is asked.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Request {
    id: Value,
    /// A script.
    source: Option<String>,
    /// A policy by its name, or the path of a component or a script, relative to the spec.
    policy: Option<String>,
    /// Its parameters.
    with: Map<String, Value>,
    /// Its weights.
    weights: Option<String>,
    /// Values of the spec, by path.
    set: BTreeMap<String, Value>,
    /// Whether the spec's cut for its test applies.
    test: bool,
    /// Whether it is scored on the seeds that are kept out.
    held_out: bool,
    /// Whether the results go into the store.
    keep: bool,
    /// How many jobs to name, of those whose completion changed most against the baseline.
    jobs: usize,
}

/// Why a candidate has no score: a fault's kind, and words.
struct NoScore {
    kind: String,
    message: String,
    /// The script that the words are of.
    script: Option<String>,
}

impl NoScore {
    fn request(message: &str) -> NoScore {
        NoScore { kind: "request".into(), message: message.into(), script: None }
    }
}

impl From<Error> for NoScore {
    fn from(error: Error) -> NoScore {
        let hint = error.hint.map_or_else(String::new, |hint| format!("; {hint}"));
        NoScore::request(&(error.message + &hint))
    }
}

/// The result of a cell: its variant and seed, and its metrics.
type Scored = (String, u64, Summary);

/// The completion time of each job of a cell by its name, s; none where it did not complete.
type Completions = Vec<(String, Option<f64>)>;

/// What the baseline did under some settings.
struct Baseline {
    results: Vec<Scored>,
    /// Of its first cell, whose seed is not kept out.
    completions: Completions,
}

/// Scores candidates.
pub(super) struct Scorer {
    origin: PathBuf,
    text: String,
    options: Options,
    metric: &'static Metric,
    baseline: Option<String>,
    /// Whether a candidate is scored on the cut of the spec's test first.
    cascade: bool,
    /// Seeds that are kept out of ordinary scores.
    held: Vec<u64>,
    store: (StoreArgs, OnceLock<Store>),
    /// The latest components, by what they are.
    compiled: Mutex<Vec<(String, Arc<Compiled>)>>,
    /// The baseline's results, by what was set.
    baselines: Mutex<Vec<(String, Arc<Baseline>)>>,
    /// Shipped components stay unpacked.
    _finder: Finder,
}

/// The first line of standard input: a spec in JSON, behind which requests follow.
fn first_line() -> Result<String, Error> {
    let most = sandtable_core::input::SPEC;
    let mut line = String::new();
    let read = std::io::stdin().lock().take(most + 1).read_line(&mut line);
    read.map_err(|error| Error::usage(format!("standard input: {error}")))?;
    if line.len() as u64 > most {
        return Err(Error::usage(format!("standard input: expected at most {most} bytes of a spec")));
    }
    if !line.trim_start().starts_with('{') {
        let error = Error::usage("standard input: the first line is no spec in JSON");
        return Err(error.hint("with `-` as the spec, its first line is the spec, and requests follow"));
    }
    Ok(line)
}

impl Scorer {
    /// Reads the spec, and runs the baseline.
    pub(super) fn new(args: &ScoreArgs, metric: &'static Metric) -> Result<Scorer, Error> {
        let text = match args.path == Path::new("-") {
            true => first_line()?,
            false => sandtable_plan::spec_text(&args.path)?,
        };
        let mut scorer = Scorer {
            origin: args.path.clone(),
            text,
            options: args.spec.options()?,
            metric,
            baseline: args.baseline.clone(),
            cascade: args.cascade,
            held: Vec::new(),
            // It is opened where something is kept: nothing else is written.
            store: (args.store.clone(), OnceLock::new()),
            compiled: Mutex::new(Vec::new()),
            baselines: Mutex::new(Vec::new()),
            _finder: Finder::new(Path::new("."), None),
        };
        // Mistakes of the spec are said at once, and what it needs is compiled.
        let plan = plan_text(&scorer.origin, scorer.text.clone(), &scorer.options)?;
        super::super::run::not_live(&plan)?;
        if let Some((path, _)) =
            plan.cells.iter().flat_map(|cell| &cell.variant).find(|(path, _)| path.starts_with("policies"))
        {
            let why =
                format!("{}: the sweep has `{path}`, and a candidate takes the policies' place", plan.source.origin);
            return Err(Error::usage(why).hint("a spec without it; parameters come with each candidate"));
        }
        let mut seeds: Vec<u64> = Vec::new();
        for cell in &plan.cells {
            if !seeds.contains(&cell.seed) {
                seeds.push(cell.seed);
            }
        }
        if args.hold_out >= seeds.len() {
            return Err(Error::usage(format!("--hold-out: no seed is left, of {}", seeds.len())));
        }
        scorer.held = seeds.split_off(seeds.len() - args.hold_out);
        scorer.baseline(&scorer.options).map_err(|fault| Error::usage(format!("--baseline: {}", fault.message)))?;
        let script = Request { source: Some("def key(job, c): return 0".into()), ..Request::default() };
        let cells = scorer.plan(&script, &scorer.options).map_err(|fault| Error::usage(fault.message))?.cells;
        scorer.compiled(&cells[0])?;
        Ok(scorer)
    }

    /// What a score is, in words.
    pub(super) fn about(&self) -> String {
        let sign = if self.metric.better == Better::Higher { "" } else { "-" };
        let against = self.baseline.as_ref().map_or_else(String::new, |label| format!(", compared with {label}"));
        format!("a score is the mean of {sign}{}{against}", self.metric.name)
    }

    /// The answer to a request.
    pub(super) fn answer(&self, line: &str) -> Value {
        // A list is no request, though its items could be taken for the fields in their order.
        let request = match line.trim_start().starts_with('[') {
            true => Err("expected an object, found a list".to_string()),
            false => serde_json::from_str::<Request>(line).map_err(|error| error.to_string()),
        };
        let request = match request {
            Ok(request) => request,
            Err(error) => {
                // Its id is in the answer, whatever is wrong with the rest of it: who asked waits for that.
                let id = serde_json::from_str::<Named>(line).map_or(Value::Null, |of| of.id);
                return refused(&id, &NoScore::request(&error));
            }
        };
        let scored = match self.cascade && !request.held_out {
            true => self.in_stages(&request),
            false => self.scored(&request, false).map(|scored| scored.0),
        };
        scored.unwrap_or_else(|mut fault| {
            fault.script = fault.script.or(request.source);
            refused(&request.id, &fault)
        })
    }

    /// The answer of the spec's test, where that is no better than the baseline's, else of all of it.
    fn in_stages(&self, request: &Request) -> Result<Value, NoScore> {
        if request.keep {
            return Err(NoScore::request("`keep` in a cascade: ask for it again without --cascade, or with `run`"));
        }
        let (mut answer, better) = self.scored(request, true)?;
        let on = better && !request.test;
        if on {
            answer = self.scored(request, false)?.0;
        }
        answer["stage"] = (if on { "full" } else { "test" }).into();
        Ok(answer)
    }

    /// Its score, by all of the spec or by the cut for its test, and whether it is better than the baseline's.
    fn scored(&self, request: &Request, test: bool) -> Result<(Value, bool), NoScore> {
        let mut options = self.options.clone();
        options.test |= request.test || test;
        for (path, value) in &request.set {
            if path.starts_with("policies") {
                return Err(NoScore::request(
                    "`set`: a candidate takes the policies' place; its parameters are `with`",
                ));
            }
            options.set.push((path.clone(), as_set(value)));
        }
        let baseline = self.baseline(&options)?;
        let plan = self.plan(request, &options)?;
        let wanted = |cell: &&Cell| self.held.contains(&cell.seed) == request.held_out;
        let cells: Vec<&Cell> = plan.cells.iter().filter(wanted).collect();
        let Some(first) = cells.first() else {
            return Err(NoScore::request(match (request.held_out, self.held.is_empty()) {
                (true, true) => "no seed is kept out: `--hold-out N`",
                (true, false) => "none of these seeds is kept out",
                _ => "all of these seeds are kept out",
            }));
        };
        let compiled = self.compiled(first)?;
        if request.jobs > 0 && (baseline.is_none() || request.held_out) {
            return Err(NoScore::request("`jobs` are compared with a baseline's, on seeds that are not kept out"));
        }
        let (mut results, mut completions): (Vec<Scored>, Completions) = (Vec::new(), Vec::new());
        for (at, cell) in cells.iter().enumerate() {
            let (scored, of) = self.run(cell, &compiled, request.keep, at == 0 && request.jobs > 0)?;
            results.push(scored);
            completions.extend(of);
        }
        let ids: Vec<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
        leaves_none_behind(&results)?;
        let value = mean(self.metric, &results);
        if !value.is_finite() {
            let message = format!("{} is not known of these runs", self.metric.name);
            return Err(NoScore { kind: "no-metric".into(), message, script: None });
        }
        let score = if self.metric.better == Better::Higher { value } else { -value };
        let known = METRICS.iter().filter(|metric| metric.compared || metric.name == self.metric.name);
        let metrics: Map<String, Value> = known
            .clone()
            .map(|metric| (metric.name, mean(metric, &results)))
            .filter(|(_, value)| value.is_finite())
            .map(|(name, value)| (name.to_string(), json!(value)))
            .collect();
        let mut answer = json!({
            "id": request.id, "ok": true, "score": score, "metrics": metrics, "cells": ids,
        });
        let mut better = false;
        if let (Some(label), Some(baseline)) = (&self.baseline, &baseline) {
            let same = |of: &&Scored| results.iter().any(|(variant, seed, _)| (variant, seed) == (&of.0, &of.1));
            let before: Vec<f64> = baseline.results.iter().filter(same).map(|(.., of)| self.metric.of(of)).collect();
            let before = before.iter().sum::<f64>() / before.len() as f64;
            better = if self.metric.better == Better::Higher { value > before } else { value < before };
            let changes: Map<String, Value> = known
                .filter_map(|metric| Some((metric.name.to_string(), change(metric, &results, &baseline.results)?)))
                .collect();
            answer["against"] = json!({ label: changes });
            if request.jobs > 0 {
                answer["jobs"] = changed_most(&completions, &baseline.completions, request.jobs);
            }
        }
        Ok((answer, better))
    }

    /// The cells of a candidate.
    fn plan(&self, request: &Request, options: &Options) -> Result<Plan, NoScore> {
        let mut with = request.with.clone();
        let name = match (&request.source, &request.policy) {
            (Some(_), None) if with.contains_key("source") => {
                return Err(NoScore::request("the script is said twice: as `source`, and in `with`"));
            }
            (Some(source), None) => {
                with.insert("source".into(), source.as_str().into());
                sandtable_plan::artifact::SCRIPT
            }
            (None, Some(policy)) => policy,
            _ => return Err(NoScore::request("expected `source` or `policy`, and not both")),
        };
        let weights = request.weights.as_ref().map_or_else(String::new, |file| format!(", weights: {file:?}"));
        let with = value_as_ron(&Value::Object(with));
        let policy = format!("[Policy(name: {name:?}, label: \"candidate\", with: {with}{weights})]");
        let mut options = Options { only: Vec::new(), ..options.clone() };
        options.set.push(("policies".into(), policy));
        // Claims are of the spec's own policies.
        options.set.push(("claims".into(), "[]".into()));
        Ok(plan_text(&self.origin, self.text.clone(), &options)?)
    }

    /// Where results are kept.
    fn store(&self) -> Result<&Store, Error> {
        let (args, opened) = &self.store;
        if let Some(store) = opened.get() {
            return Ok(store);
        }
        let store = args.open(Some(&self.origin))?;
        Ok(opened.get_or_init(|| store))
    }

    /// The result of a cell, and the completion times of its jobs where they are wanted.
    fn run(&self, cell: &Cell, compiled: &Compiled, keep: bool, jobs: bool) -> Result<(Scored, Completions), NoScore> {
        let executed = execute(cell, compiled)?;
        let of = |(name, jct): (&str, Option<Duration>)| (name.to_string(), jct.map(Duration::as_secs_f64));
        let completions = if jobs { executed.completions().into_iter().map(of).collect() } else { Vec::new() };
        if keep {
            executed.put(self.store()?, cell)?;
        }
        match executed.outcome {
            Ok(summary) => Ok(((cell.variant_text(), cell.seed, summary), completions)),
            Err(failure) => {
                Err(NoScore { kind: failure.kind, message: failure.message, script: in_script::script_of(cell) })
            }
        }
    }

    /// The component of a cell and its predictors, compiled.
    fn compiled(&self, cell: &Cell) -> Result<Arc<Compiled>, Error> {
        let key = format!("{} {}", cell.policy.digest, cell.predictors.key());
        let Ok(mut all) = self.compiled.lock() else { return Err(Error::internal("a thread ended early")) };
        if let Some((_, compiled)) = all.iter().find(|(known, _)| *known == key) {
            return Ok(compiled.clone());
        }
        let compiled = Arc::new(Compiled::new(&code::settings(ui::note), std::iter::once(cell))?);
        if all.len() >= COMPILED {
            // The first is the interpreter of scripts.
            all.remove(1);
        }
        all.push((key, compiled.clone()));
        Ok(compiled)
    }

    /// The results of the baseline, where there is one.
    fn baseline(&self, options: &Options) -> Result<Option<Arc<Baseline>>, NoScore> {
        let Some(label) = &self.baseline else { return Ok(None) };
        let key = format!("{:?} {}", options.set, options.test);
        let Ok(mut all) = self.baselines.lock() else {
            return Err(Error::internal("a thread ended early").into());
        };
        if let Some((_, known)) = all.iter().find(|(known, _)| *known == key) {
            return Ok(Some(known.clone()));
        }
        let only = Options { only: vec![label.clone()], ..options.clone() };
        let plan = plan_text(&self.origin, self.text.clone(), &only)?;
        let compiled = Compiled::new(&code::settings(ui::note), plan.cells.iter())?;
        let mut made = Baseline { results: Vec::new(), completions: Vec::new() };
        let first = plan.cells.iter().position(|cell| !self.held.contains(&cell.seed));
        for (at, cell) in plan.cells.iter().enumerate() {
            let (scored, completions) = self.run(cell, &compiled, false, Some(at) == first)?;
            made.results.push(scored);
            made.completions.extend(completions);
        }
        let results = Arc::new(made);
        if all.len() >= BASELINES {
            all.remove(0);
        }
        all.push((key, results.clone()));
        Ok(Some(results))
    }
}

/// A value as `--set` takes it: a text is as that has it.
fn as_set(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "None".into(),
        other => other.to_string(),
    }
}

fn refused(id: &Value, fault: &NoScore) -> Value {
    let mut answer = json!({ "id": id, "ok": false, "score": WORST, "fault": fault.kind, "message": fault.message });
    let script = fault.script.as_deref().unwrap_or_default();
    if let Some(place) = in_script::place(script, &fault.message) {
        let text = script.lines().nth(place.line - 1).unwrap_or_default();
        answer["at"] = json!({ "line": place.line, "column": place.column, "text": text });
    }
    answer
}

/// A metric of completed jobs is better without those that take long: leaving them behind is no way to a score. So is refusing them, but where
/// they have deadlines that can't be met.
fn leaves_none_behind(results: &[Scored]) -> Result<(), NoScore> {
    let behind = |of: &Summary| of.unfinished + if of.deadlines.is_none() { of.refused } else { 0 };
    match results.iter().map(|(.., summary)| behind(summary)).sum::<usize>() {
        0 => Ok(()),
        left => {
            let message = format!("{left} jobs of {} runs never end: it leaves them behind", results.len());
            Err(NoScore { kind: "unfinished".into(), message, script: None })
        }
    }
}

/// The jobs whose completion differs most: those that completed on one side only, then by seconds; among equals in the order of the jobs.
fn changed_most(of: &Completions, against: &Completions, most: usize) -> Value {
    let mut both: Vec<(&str, Option<f64>, Option<f64>)> =
        of.iter().zip(against).map(|((name, jct), (_, before))| (name.as_str(), *jct, *before)).collect();
    let by = |(_, jct, before): &(&str, Option<f64>, Option<f64>)| match (jct, before) {
        (Some(jct), Some(before)) => (jct - before).abs(),
        (None, None) => 0.0,
        _ => f64::INFINITY,
    };
    both.sort_by(|a, b| by(b).total_cmp(&by(a)));
    let row = |(name, jct, before): (&str, Option<f64>, Option<f64>)| json!({"job": name, "jct_s": jct, "baseline_jct_s": before});
    both.into_iter().take(most).map(row).collect()
}

fn mean(metric: &Metric, results: &[Scored]) -> f64 {
    results.iter().map(|(.., summary)| metric.of(summary)).sum::<f64>() / results.len() as f64
}

/// How much greater a metric is than the baseline's, as a part of that: the mean of runs under the same seeds, with a 95 % interval.
fn change(metric: &Metric, results: &[Scored], baseline: &[Scored]) -> Option<Value> {
    let pairs = results.iter().filter_map(|(variant, seed, summary)| {
        let (.., other) = baseline.iter().find(|(known, of, _)| known == variant && of == seed)?;
        Some((metric.of(summary), metric.of(other)))
    });
    let pairs: Vec<(f64, f64)> = pairs.filter(|(a, b)| a.is_finite() && b.is_finite()).collect();
    let before = pairs.iter().map(|(_, b)| b).sum::<f64>() / pairs.len() as f64;
    let found = estimate(&pairs.iter().map(|(a, b)| a - b).collect::<Vec<f64>>()).filter(|_| before != 0.0)?;
    let part = |value: f64| value / before.abs();
    Some(match found.interval() {
        Some((low, high)) => json!({"change": part(found.mean), "low": part(low), "high": part(high)}),
        None => json!({"change": part(found.mean)}),
    })
}
