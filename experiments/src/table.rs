//! Results as tables: for people, for spreadsheets, for snapshots.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};
use sandtable_hardware::Sharing;
use sandtable_runtime::{Score, Serving, Summary, Tasks};
use serde_json::{Value, json};

use crate::error::Error;
use crate::execute::Failure;
use crate::plan::{Bound, Cell, Plan};
use crate::report::{MetricCell, Metrics};
use crate::store::Store;

/// How rows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned columns.
    #[default]
    Table,
    /// One JSON object a line.
    Json,
    /// CSV with a header.
    Csv,
}

/// What is known of a cell.
#[derive(Clone, Debug)]
pub enum Known {
    /// It is done.
    Done(Box<Summary>),
    /// Its policy failed.
    Failed(Failure),
    /// It has not been run.
    Missing,
}

/// One metric of a summary: its name, its unit's scale for people, and where it stands.
struct Metric {
    name: &'static str,
    /// Beyond this many cells of a table a person reads no more: only these are shown.
    shown: Option<&'static str>,
    /// Only of interest where GPUs are shared.
    shared: bool,
    get: fn(&Summary) -> f64,
}

const METRICS: &[Metric] = &[
    Metric { name: "jct_mean_s", shown: Some("JCT mean"), shared: false, get: |s| s.jct.mean },
    Metric { name: "jct_median_s", shown: Some("median"), shared: false, get: |s| s.jct.median },
    Metric { name: "jct_p95_s", shown: Some("p95"), shared: false, get: |s| s.jct.p95 },
    Metric { name: "jct_p99_s", shown: Some("p99"), shared: false, get: |s| s.jct.p99 },
    Metric { name: "jct_max_s", shown: None, shared: false, get: |s| s.jct.max },
    Metric { name: "queueing_mean_s", shown: Some("queueing mean"), shared: false, get: |s| s.queueing.mean },
    Metric { name: "queueing_median_s", shown: None, shared: false, get: |s| s.queueing.median },
    Metric { name: "queueing_p95_s", shown: None, shared: false, get: |s| s.queueing.p95 },
    Metric { name: "queueing_p99_s", shown: None, shared: false, get: |s| s.queueing.p99 },
    Metric { name: "queueing_max_s", shown: None, shared: false, get: |s| s.queueing.max },
    Metric { name: "makespan_s", shown: Some("makespan"), shared: false, get: |s| s.makespan },
    Metric { name: "utilisation", shown: Some("utilisation"), shared: false, get: |s| s.utilisation },
    Metric { name: "utilisation_window", shown: None, shared: false, get: |s| s.utilisation_window },
    Metric { name: "throughput", shown: None, shared: false, get: |s| s.throughput },
    Metric { name: "throughput_window", shown: Some("throughput"), shared: true, get: |s| s.throughput_window },
    Metric { name: "gpu_utilisation", shown: None, shared: false, get: |s| s.gpu_utilisation.unwrap_or(f64::NAN) },
    Metric {
        name: "gpu_utilisation_window",
        shown: None,
        shared: false,
        get: |s| s.gpu_utilisation_window.unwrap_or(f64::NAN),
    },
    Metric { name: "slowdown", shown: Some("slowdown"), shared: true, get: |s| s.slowdown },
    Metric { name: "slowdown_p95", shown: None, shared: false, get: |s| s.slowdown_p95 },
    Metric { name: "out_of_memory", shown: Some("OOM"), shared: true, get: |s| s.out_of_memory as f64 },
    Metric { name: "productive", shown: None, shared: false, get: |s| s.productive },
    Metric { name: "productive_window", shown: None, shared: false, get: |s| s.productive_window },
    Metric { name: "fragmentation", shown: None, shared: false, get: |s| s.fragmentation },
    Metric { name: "preemptions", shown: Some("preemptions"), shared: false, get: |s| s.preemptions as f64 },
    Metric {
        name: "reassignments",
        shown: None,
        shared: false,
        get: |s| s.reassignments.map_or(f64::NAN, |n| n as f64),
    },
    Metric { name: "failures", shown: None, shared: false, get: |s| s.failures as f64 },
    Metric { name: "fairness_jain", shown: None, shared: false, get: |s| s.fairness_jain },
    Metric { name: "fairness_worst", shown: Some("worst ρ"), shared: false, get: |s| s.fairness_worst },
    Metric { name: "tasks", shown: None, shared: false, get: |s| of_tasks(s, |all| all.tasks as f64) },
    Metric { name: "tasks_done", shown: None, shared: false, get: |s| of_tasks(s, |all| all.done as f64) },
    Metric { name: "task_wait_mean_s", shown: None, shared: false, get: |s| of_tasks(s, |all| all.wait.mean) },
    Metric { name: "task_wait_max_s", shown: None, shared: false, get: |s| of_tasks(s, |all| all.wait.max) },
    Metric {
        name: "task_delay_mean_s",
        shown: Some("task delay"),
        shared: false,
        get: |s| of_tasks(s, |all| all.delay.mean),
    },
    Metric { name: "task_delay_p99_s", shown: Some("p99"), shared: false, get: |s| of_tasks(s, |all| all.delay.p99) },
    Metric { name: "task_delay_max_s", shown: None, shared: false, get: |s| of_tasks(s, |all| all.delay.max) },
    Metric { name: "task_latency_mean_s", shown: None, shared: false, get: |s| of_tasks(s, |all| all.latency.mean) },
    Metric { name: "warm", shown: Some("warm"), shared: false, get: |s| of_tasks(s, |all| all.warm) },
    Metric { name: "in_slo", shown: Some("in SLO"), shared: false, get: |s| of_tasks(s, |all| all.in_slo) },
    Metric {
        name: "reclaimed",
        shown: Some("reclaimed"),
        shared: false,
        get: |s| of_serving(s, |of| of.reclaimed as f64),
    },
    Metric { name: "gpus_training", shown: None, shared: false, get: |s| of_serving(s, |of| of.uses[0]) },
    Metric { name: "gpus_loaned", shown: Some("loaned"), shared: false, get: |s| of_serving(s, |of| of.uses[1]) },
    Metric { name: "gpus_serving", shown: None, shared: false, get: |s| of_serving(s, |of| of.uses[2]) },
    Metric { name: "gpus_protected", shown: None, shared: false, get: |s| of_serving(s, |of| of.uses[3]) },
    Metric { name: "gpus_idle", shown: None, shared: false, get: |s| of_serving(s, |of| of.uses[4]) },
    Metric { name: "jobs", shown: None, shared: false, get: |s| s.jobs as f64 },
    Metric { name: "completed", shown: None, shared: false, get: |s| s.completed as f64 },
    Metric { name: "rejected", shown: None, shared: false, get: |s| s.rejected as f64 },
    Metric {
        name: "crashed",
        shown: None,
        shared: false,
        get: |s| if s.crashed > 0 { s.crashed as f64 } else { f64::NAN },
    },
    Metric { name: "unfinished", shown: None, shared: false, get: |s| s.unfinished as f64 },
];

/// Shown only where somebody serves, beside those of tasks.
const SERVING: [&str; 4] = ["warm", "in_slo", "reclaimed", "gpus_loaned"];

/// A number of the inference side; NaN where there is none.
fn of_serving(summary: &Summary, get: fn(&Serving) -> f64) -> f64 {
    summary.serving.as_ref().map_or(f64::NAN, get)
}

fn of_tasks(summary: &Summary, get: fn(&Tasks) -> f64) -> f64 {
    summary.serving.as_ref().map_or(f64::NAN, |serving| get(&serving.all))
}

/// How a metric is read, by its name in CSV; NaN where it is not known of a run.
pub(crate) fn metric(name: &str) -> Option<fn(&Summary) -> f64> {
    METRICS.iter().find(|metric| metric.name == name).map(|metric| metric.get)
}

/// The names of all metrics.
pub(crate) fn metric_names() -> impl Iterator<Item = &'static str> {
    METRICS.iter().map(|metric| metric.name)
}

/// What a store knows of the cells of a plan.
///
/// # Errors
/// A file of the store that can't be read.
pub fn known(plan: &Plan, store: &Store) -> Result<Vec<Known>, Error> {
    plan.cells.iter().map(|cell| lookup(cell, store)).collect()
}

/// What a store knows of a cell.
///
/// # Errors
/// A file of the store that can't be read.
pub fn lookup(cell: &Cell, store: &Store) -> Result<Known, Error> {
    if !store.has(&cell.id) {
        return Ok(Known::Missing);
    }
    let broken = |error: serde_json::Error| Error::usage(format!("{}: {error}", store.folder(&cell.id).display()));
    if store.has_failed(&cell.id) {
        let story: Value = serde_json::from_slice(&store.read(&cell.id, "failure.json")?).map_err(broken)?;
        let text = |key: &str| story[key].as_str().unwrap_or_default().to_string();
        let frames = story["backtrace"].as_array().into_iter().flatten();
        let backtrace = frames.filter_map(|frame| frame.as_str().map(str::to_string)).collect();
        return Ok(Known::Failed(Failure { kind: text("kind"), message: text("message"), backtrace }));
    }
    let summary = serde_json::from_slice(&store.read(&cell.id, "summary.json")?).map_err(broken)?;
    Ok(Known::Done(Box::new(summary)))
}

/// The cells of one policy in one variant.
struct Row<'a> {
    cell: &'a Cell,
    done: Vec<&'a Summary>,
    failed: usize,
    missing: usize,
}

fn rows<'a>(plan: &'a Plan, known: &'a [Known]) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    let mut places: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for (cell, known) in plan.cells.iter().zip(known) {
        let place = *places.entry((cell.variant_text(), cell.label.as_str())).or_insert_with(|| {
            rows.push(Row { cell, done: Vec::new(), failed: 0, missing: 0 });
            rows.len() - 1
        });
        match known {
            Known::Done(summary) => rows[place].done.push(summary),
            Known::Failed(_) => rows[place].failed += 1,
            Known::Missing => rows[place].missing += 1,
        }
    }
    rows
}

/// Mean and sample standard deviation (0 for one value), in the order given.
pub(crate) fn mean_and_spread(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return (mean, 0.0);
    }
    let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    (mean, (squares / (count - 1.0)).sqrt())
}

pub(crate) fn person(name: &str, x: f64) -> String {
    match name {
        _ if name.ends_with("_s") => span(x),
        "utilisation" | "warm" | "in_slo" | "gpus_loaned" => format!("{:.1} %", x * 100.0),
        "throughput_window" | "slowdown" | "fairness_worst" => format!("{x:.2}"),
        _ => format!("{x:.0}"),
    }
}

/// A time for people: three digits and a unit.
pub fn span(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 120.0 => (s, "s"),
        s if s < 7_200.0 => (s / 60.0, "min"),
        s if s < 172_800.0 => (s / 3600.0, "h"),
        s => (s / 86_400.0, "d"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// The results of a plan, one row a policy and variant, means over the seeds.
pub fn render(plan: &Plan, known: &[Known], format: Format) -> String {
    let rows = rows(plan, known);
    match format {
        Format::Table => for_people(&rows),
        Format::Json => {
            let lines = rows.iter().map(|row| object(row).to_string() + "\n");
            lines.collect()
        }
        Format::Csv => csv(&rows),
    }
}

/// Which metrics people see of these rows: what is known of no row is no column.
fn shown(rows: &[Row<'_>]) -> Vec<&'static Metric> {
    let shared = rows.iter().any(|row| row.cell.fleet.sharing != Sharing::Exclusive);
    let all = METRICS.iter().filter(|metric| metric.shown.is_some() && (shared || !metric.shared));
    let there = |metric: &&Metric| rows.iter().any(|row| row.done.iter().any(|done| !(metric.get)(done).is_nan()));
    match rows.iter().any(|row| !row.done.is_empty()) {
        true => all.filter(there).collect(),
        false => all.filter(|metric| !(metric.name.starts_with("task_") || SERVING.contains(&metric.name))).collect(),
    }
}

/// The results of a plan for people, and the values that the texts stand for.
pub(crate) fn metrics(plan: &Plan, known: &[Known]) -> Metrics {
    of_rows(&rows(plan, known))
}

fn of_rows(rows: &[Row<'_>]) -> Metrics {
    let varied = rows.iter().any(|row| !row.cell.variant.is_empty());
    let seeded = rows.iter().any(|row| row.done.len() > 1);
    let mut head = vec!["policy".to_string()];
    head.extend(varied.then(|| "variant".to_string()));
    let words = head.len();
    head.extend(seeded.then(|| "seeds".to_string()));
    let shown = shown(rows);
    head.extend(shown.iter().filter_map(|metric| metric.shown).map(str::to_string));
    let word = |text: String| MetricCell { text, sort: None };
    let mut out = Vec::new();
    for row in rows {
        let mut cells = vec![word(row.cell.label.clone())];
        cells.extend(varied.then(|| word(row.cell.variant_text())));
        cells
            .extend(seeded.then(|| MetricCell { text: row.done.len().to_string(), sort: Some(row.done.len() as f64) }));
        for metric in &shown {
            if row.done.is_empty() || row.done.iter().all(|summary| summary.completed == 0) {
                cells.push(word(if row.done.is_empty() && row.failed > 0 { "failed" } else { "-" }.into()));
                continue;
            }
            let values: Vec<f64> = row.done.iter().map(|summary| (metric.get)(summary)).collect();
            let (mean, spread) = mean_and_spread(&values);
            let mut text = person(metric.name, mean);
            if metric.name == "jct_mean_s" && values.len() > 1 && mean > 0.0 {
                text.push_str(&format!(" ± {:.0} %", spread / mean * 100.0));
            }
            cells.push(MetricCell { text, sort: mean.is_finite().then_some(mean) });
        }
        out.push(cells);
    }
    Metrics { head, words, rows: out }
}

fn for_people(rows: &[Row<'_>]) -> String {
    let Metrics { head, words, rows: texts } = of_rows(rows);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(&head);
    for row in &texts {
        table.add_row(row.iter().map(|cell| cell.text.as_str()));
    }
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    lines(&table) + &scores(rows)
}

/// How good the predictors of a plan were, a row for each and each quantity.
pub(crate) fn predictor_rows(plan: &Plan, known: &[Known]) -> Vec<Vec<String>> {
    score_rows(&rows(plan, known))
}

fn scores(rows: &[Row<'_>]) -> String {
    let all = score_rows(rows);
    if all.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["predictor", "quantity", "answers a run", "MAE", "bias"]);
    for row in all {
        table.add_row(row);
    }
    format!("\n{}", lines(&table))
}

/// How good the predictors were: a line for each and each quantity, over all policies, variants and seeds.
fn score_rows(rows: &[Row<'_>]) -> Vec<Vec<String>> {
    let mut all: BTreeMap<(String, &str), Vec<Score>> = BTreeMap::new();
    for row in rows {
        for (quantity, bound) in row.cell.predictors.all() {
            // The truth about itself is nothing to score.
            if !matches!(bound, Bound::Oracle) {
                let scores = row.done.iter().flat_map(|summary| &summary.predictors);
                let scores = scores.filter(|score| score.quantity == quantity).cloned();
                all.entry((bound.describe(), quantity)).or_default().extend(scores);
            }
        }
    }
    all.retain(|_, scores| !scores.is_empty());
    let line = |((by, quantity), scores): (&(String, &str), &Vec<Score>)| {
        let mean = |get: fn(&Score) -> f64| mean_and_spread(&scores.iter().map(get).collect::<Vec<f64>>()).0;
        vec![
            by.clone(),
            (*quantity).to_string(),
            format!("{:.0}", mean(|score| score.answers as f64)),
            format!("{:.4}", mean(|score| score.mae)),
            format!("{:+.4}", mean(|score| score.bias)),
        ]
    };
    all.iter().map(line).collect()
}

/// A table without the padding at its edges.
/// Columns under the first row's names, numbers to the right.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    rows.iter().for_each(|row| {
        table.add_row(row);
    });
    let numeric = |at: usize| {
        // A number and at most its unit: a sentence may begin with a number too.
        let is_number = |cell: &String| {
            let digit = cell.starts_with(|first: char| first.is_ascii_digit());
            cell == "-" || (digit && cell.split_whitespace().count() <= 2)
        };
        rows.iter().skip(1).filter_map(|row| row.get(at)).all(is_number)
    };
    for at in 0..rows.first().map_or(0, Vec::len) {
        if let Some(column) = table.column_mut(at)
            && numeric(at)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    lines(&table)
}

pub(crate) fn lines(table: &Table) -> String {
    table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_string() + "\n").collect()
}

fn object(row: &Row<'_>) -> Value {
    let variant: BTreeMap<&str, &str> = row.cell.variant.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let mut out = json!({
        "policy": row.cell.label, "variant": variant,
        "seeds": row.done.len(), "failed": row.failed, "missing": row.missing,
    });
    if !row.done.is_empty() {
        for metric in METRICS {
            let values: Vec<f64> = row.done.iter().map(|summary| (metric.get)(summary)).collect();
            let (mean, spread) = mean_and_spread(&values);
            out[metric.name] = json!({"mean": mean, "sd": spread});
        }
        for (quantity, bound) in row.cell.predictors.all() {
            let of = |summary: &&Summary| summary.predictors.iter().find(|score| score.quantity == quantity).cloned();
            let maes: Vec<f64> = row.done.iter().filter_map(of).map(|score| score.mae).collect();
            if !maes.is_empty() {
                out["predictors"][quantity] = json!({"by": bound.describe(), "mae": mean_and_spread(&maes).0});
            }
        }
    }
    out
}

fn csv(rows: &[Row<'_>]) -> String {
    let mut out = String::from("policy,variant,seeds,failed,missing");
    for metric in METRICS {
        out.push_str(&format!(",{0},{0}_sd", metric.name));
    }
    out.push('\n');
    for row in rows {
        let label = crate::trace::csv_cell(&row.cell.label);
        let variant = crate::trace::csv_cell(&row.cell.variant_text());
        out.push_str(&format!("{label},{variant},{},{},{}", row.done.len(), row.failed, row.missing));
        for metric in METRICS {
            let values: Vec<f64> = row.done.iter().map(|summary| (metric.get)(summary)).collect();
            if values.is_empty() {
                out.push_str(",,");
            } else {
                let (mean, spread) = mean_and_spread(&values);
                let text = |x: f64| if x.is_finite() { x.to_string() } else { String::new() };
                out.push_str(&format!(",{},{}", text(mean), text(spread)));
            }
        }
        out.push('\n');
    }
    out
}

/// The results of a plan as a snapshot holds them: every metric, nothing that depends on a machine or a build.
pub fn snapshot(plan: &Plan, known: &[Known]) -> String {
    let mut out = format!("{}\n", plan.title);
    if let Some(cell) = plan.cells.first() {
        out.push_str(&format!("semantics: {}\n", cell.setting.semantics.join("; ")));
    }
    for row in rows(plan, known) {
        let variant = row.cell.variant_text();
        let variant = if variant.is_empty() { variant } else { format!("  {variant}") };
        out.push_str(&format!("\n{}{variant}  seeds {}", row.cell.label, row.done.len()));
        out.push_str(if row.failed > 0 { "  FAILED\n" } else { "\n" });
        for metric in METRICS {
            let values: Vec<f64> = row.done.iter().map(|summary| (metric.get)(summary)).collect();
            let mean = mean_and_spread(&values).0;
            if !values.is_empty() && mean.is_finite() {
                out.push_str(&format!("  {:<22} {:>18.6}\n", metric.name, mean));
            }
        }
    }
    if plan.cells.iter().any(|cell| cell.predictors.all().any(|(_, bound)| matches!(bound, Bound::Component(_)))) {
        out.push_str(&scores(&rows(plan, known)));
    }
    if !plan.claims.is_empty() {
        out.push_str(&format!("\n{}", crate::claim::render(&crate::claim::measure(plan, known))));
    }
    out
}
