//! Scores one candidate: what was compiled and computed for those before it is kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sandtable_core::error::Error;
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

use super::ScoreArgs;
use crate::ui;

/// The score of a candidate that has none: less than any other.
const WORST: f64 = -1e308;
/// Components that are kept compiled.
const COMPILED: usize = 8;
/// Settings under which the baseline's results are kept.
const BASELINES: usize = 64;

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
}

/// Why a candidate has no score: a fault's kind, and words.
struct NoScore {
    kind: String,
    message: String,
}

impl NoScore {
    fn request(message: &str) -> NoScore {
        NoScore { kind: "request".into(), message: message.into() }
    }
}

impl From<Error> for NoScore {
    fn from(error: Error) -> NoScore {
        let hint = error.hint.map_or_else(String::new, |hint| format!("; {hint}"));
        NoScore { kind: "request".into(), message: error.message + &hint }
    }
}

/// The result of a cell: its variant and seed, and its metrics.
type Scored = (String, u64, Summary);

/// Scores candidates.
pub(super) struct Scorer {
    origin: PathBuf,
    text: String,
    options: Options,
    metric: &'static Metric,
    baseline: Option<String>,
    /// Seeds that are kept out of ordinary scores.
    held: Vec<u64>,
    store: Option<Store>,
    /// The latest components, by what they are.
    compiled: Mutex<Vec<(String, Arc<Compiled>)>>,
    /// The baseline's results, by what was set.
    baselines: Mutex<Vec<(String, Arc<Vec<Scored>>)>>,
    /// Shipped components stay unpacked.
    _finder: Finder,
}

impl Scorer {
    /// Reads the spec, and runs the baseline.
    pub(super) fn new(args: &ScoreArgs, metric: &'static Metric) -> Result<Scorer, Error> {
        let text = sandtable_plan::spec_text(&args.path)?;
        let mut scorer = Scorer {
            origin: args.path.clone(),
            text,
            options: args.spec.options()?,
            metric,
            baseline: args.baseline.clone(),
            held: Vec::new(),
            store: match args.store.is_named() {
                true => Some(args.store.open(Some(&args.path))?),
                false => None,
            },
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
        let request: Request = match serde_json::from_str(line) {
            Ok(request) => request,
            Err(error) => {
                // Its id is in the answer, where that much can be read.
                let id = serde_json::from_str::<Value>(line).map_or(Value::Null, |of| of["id"].clone());
                let fault = NoScore { kind: "request".into(), message: error.to_string() };
                return refused(&id, &fault);
            }
        };
        self.scored(&request).unwrap_or_else(|fault| refused(&request.id, &fault))
    }

    fn scored(&self, request: &Request) -> Result<Value, NoScore> {
        let mut options = self.options.clone();
        options.test |= request.test;
        for (path, value) in &request.set {
            if path.starts_with("policies") {
                return Err(NoScore::request(
                    "`set`: a candidate takes the policies' place; its parameters are `with`",
                ));
            }
            // A text is as `--set` has it.
            options.set.push((path.clone(), value.as_str().map_or_else(|| value_as_ron(value), str::to_string)));
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
        let mut results: Vec<Scored> = Vec::new();
        for cell in &cells {
            results.push(self.run(cell, &compiled, request.keep)?);
        }
        let ids: Vec<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
        // A metric of completed jobs is better without those that take long: leaving them behind is no way to a score.
        // So is refusing them, but where they have deadlines that can't be met.
        let behind = |of: &Summary| of.unfinished + if of.deadlines.is_none() { of.refused } else { 0 };
        let left: usize = results.iter().map(|(.., summary)| behind(summary)).sum();
        if left > 0 {
            let message = format!("{left} jobs of {} runs never end: it leaves them behind", results.len());
            return Err(NoScore { kind: "unfinished".into(), message });
        }
        let value = mean(self.metric, &results);
        if !value.is_finite() {
            let message = format!("{} is not known of these runs", self.metric.name);
            return Err(NoScore { kind: "no-metric".into(), message });
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
        if let (Some(label), Some(baseline)) = (&self.baseline, &baseline) {
            let changes: Map<String, Value> = known
                .filter_map(|metric| Some((metric.name.to_string(), change(metric, &results, baseline)?)))
                .collect();
            answer["against"] = json!({ label: changes });
        }
        Ok(answer)
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

    fn run(&self, cell: &Cell, compiled: &Compiled, keep: bool) -> Result<Scored, NoScore> {
        let executed = execute(cell, compiled)?;
        if keep {
            let Some(store) = &self.store else {
                return Err(NoScore::request("`keep` without a store: `--store DIR`"));
            };
            executed.put(store, cell)?;
        }
        match executed.outcome {
            Ok(summary) => Ok((cell.variant_text(), cell.seed, summary)),
            Err(failure) => Err(NoScore { kind: failure.kind, message: failure.message }),
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
    fn baseline(&self, options: &Options) -> Result<Option<Arc<Vec<Scored>>>, NoScore> {
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
        let results = plan.cells.iter().map(|cell| self.run(cell, &compiled, false));
        let results = Arc::new(results.collect::<Result<Vec<Scored>, NoScore>>()?);
        if all.len() >= BASELINES {
            all.remove(0);
        }
        all.push((key, results.clone()));
        Ok(Some(results))
    }
}

fn refused(id: &Value, fault: &NoScore) -> Value {
    json!({ "id": id, "ok": false, "score": WORST, "fault": fault.kind, "message": fault.message })
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
