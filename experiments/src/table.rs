//! Results as tables: for people, for spreadsheets, for snapshots.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};
use sandtable_hardware::Sharing;
use sandtable_runtime::{Score, Summary};
use serde::Serialize;
use serde_json::{Value, json};

use crate::columns::lines;
use crate::metric::{METRICS, Metric};
use crate::plan::{Bound, Cell, Plan};
use crate::stats::{estimate, mean_and_deviation};
use crate::status::Known;

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

/// The table of metrics.
#[derive(Serialize)]
pub struct Metrics {
    /// Its columns.
    pub head: Vec<String>,
    /// Columns of words, at the left.
    pub words: usize,
    /// A row a policy and variant.
    pub rows: Vec<Vec<MetricCell>>,
    /// What a reader must know before believing it.
    pub notes: Vec<String>,
}

/// One of its cells.
#[derive(Clone, Serialize)]
pub struct MetricCell {
    /// As people read it.
    pub text: String,
    /// By which it is sorted; none: by the text.
    pub sort: Option<f64>,
}

/// The metric that is shown with its interval and its deviation over the seeds.
const HEADLINE: &str = "jct_mean_s";

/// Shown only where somebody serves, beside those of tasks.
const SERVING: [&str; 4] = ["warm", "in_slo", "reclaimed", "gpus_loaned"];

/// The cells of one policy in one variant.
struct Row<'a> {
    cell: &'a Cell,
    done: Vec<&'a Summary>,
    /// Those of `done` that differ in any respect: seeds of a deterministic policy on a trace are one run.
    distinct: Vec<&'a Summary>,
    failed: usize,
    missing: usize,
}

/// A metric over the distinct runs of a row in which it is known.
struct Statistic {
    mean: f64,
    /// Sample standard deviation; none of one run.
    deviation: Option<f64>,
    /// Half of the 95 % interval of the mean; none of one run.
    half: Option<f64>,
}

impl Row<'_> {
    /// None where it is known of no run.
    fn statistic(&self, metric: &Metric) -> Option<Statistic> {
        let values: Vec<f64> = self.distinct.iter().map(|run| metric.of(run)).filter(|x| x.is_finite()).collect();
        let one = estimate(&values)?;
        let several = values.len() > 1;
        Some(Statistic {
            mean: one.mean,
            deviation: several.then(|| mean_and_deviation(&values).1),
            half: several.then_some(one.half),
        })
    }
}

fn rows<'a>(plan: &'a Plan, known: &'a [Known]) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    let mut places: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for (cell, known) in plan.cells.iter().zip(known) {
        let place = *places.entry((cell.variant_text(), cell.label.as_str())).or_insert_with(|| {
            rows.push(Row { cell, done: Vec::new(), distinct: Vec::new(), failed: 0, missing: 0 });
            rows.len() - 1
        });
        match known {
            Known::Done(summary) => {
                let row = &mut rows[place];
                row.done.push(summary);
                if !row.distinct.contains(&&**summary) {
                    row.distinct.push(summary);
                }
            }
            Known::Failed(_) => rows[place].failed += 1,
            Known::Missing | Known::TimedOut => rows[place].missing += 1,
        }
    }
    rows
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
    let there = |metric: &&Metric| rows.iter().any(|row| row.done.iter().any(|done| !metric.of(done).is_nan()));
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
    for metric in &shown {
        let name = metric.shown.unwrap_or(metric.name);
        match seeded && metric.name == HEADLINE {
            true => head.extend([format!("{name} ± 95 % CI"), "SD over seeds".to_string()]),
            false => head.push(name.to_string()),
        }
    }
    let word = |text: String| MetricCell { text, sort: None };
    let mut out = Vec::new();
    for row in rows {
        let mut cells = vec![word(row.cell.label.clone())];
        cells.extend(varied.then(|| word(row.cell.variant_text())));
        cells
            .extend(seeded.then(|| MetricCell { text: row.done.len().to_string(), sort: Some(row.done.len() as f64) }));
        for metric in &shown {
            let headline = seeded && metric.name == HEADLINE;
            // Runs of which it is not known, since nobody completed in them, are told by the notes.
            let Some(of) = row.statistic(metric) else {
                let text = if row.done.is_empty() && row.failed > 0 { "failed" } else { "-" };
                cells.extend((0..1 + usize::from(headline)).map(|_| word(text.into())));
                continue;
            };
            let half = of.half.filter(|_| headline);
            let mut text = half.map_or_else(|| metric.unit.text(of.mean), |half| metric.unit.interval(of.mean, half));
            if metric.name == HEADLINE && row.done.iter().any(|summary| summary.unfinished > 0) {
                text.push('*');
            }
            cells.push(MetricCell { text, sort: Some(of.mean) });
            if headline {
                let text = of.deviation.map_or("-".into(), |deviation| metric.unit.text(deviation));
                cells.push(MetricCell { text, sort: of.deviation });
            }
        }
        out.push(cells);
    }
    Metrics { head, words, rows: out, notes: cautions(rows) }
}

fn for_people(rows: &[Row<'_>]) -> String {
    let Metrics { head, words, rows: texts, notes } = of_rows(rows);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(&head);
    for row in &texts {
        table.add_row(row.iter().map(|cell| cell.text.as_str()));
    }
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut out = lines(&table) + &scores(rows);
    if !notes.is_empty() {
        out.push('\n');
        notes.iter().for_each(|note| out.push_str(&format!("note: {note}\n")));
    }
    out
}

/// A jobs' hundredth with more than this of the work decides what means say.
const HEAVY: f64 = 0.25;
/// Arrivals that fill less than this of a run leave most of it to those that came last.
const SHORT: f64 = 0.5;

/// What a reader must know before believing a table.
fn cautions(rows: &[Row<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    for row in rows {
        let (left, jobs) = row.done.iter().fold((0, 0), |(left, jobs), s| (left + s.unfinished, jobs + s.jobs));
        if left > 0 {
            let at = row.cell.variant_text();
            let at = if at.is_empty() { at } else { format!(" at {at}") };
            let who = &row.cell.label;
            notes.push(format!(
                "* {left} of {jobs} jobs never ended under {who}{at}: its times are those of the others"
            ));
        }
    }
    let done: Vec<&Summary> = rows.iter().flat_map(|row| row.done.iter().copied()).collect();
    let range = |values: Vec<f64>| {
        let (low, high) = values.iter().fold((f64::INFINITY, 0.0f64), |(low, high), x| (low.min(*x), high.max(*x)));
        let whole = |x: f64| format!("{:.0}", 100.0 * x);
        if whole(low) == whole(high) {
            format!("{} %", whole(low))
        } else {
            format!("{} to {} %", whole(low), whole(high))
        }
    };
    let filled: Vec<f64> = done.iter().filter(|s| s.run > 0.0 && s.window > 0.0).map(|s| s.window / s.run).collect();
    if filled.iter().any(|part| *part < SHORT) {
        let whole = range(done.iter().map(|s| s.utilisation).collect());
        notes.push(format!(
            "the window fills {} of the runs: `utilisation` is of the window, over the whole run it is {whole}",
            range(filled)
        ));
    }
    let (out, jobs) = done.iter().fold((0, 0), |(out, jobs), s| (out + s.left_out, jobs + s.jobs));
    if out > 0 {
        let all = out + jobs;
        notes.push(format!("{out} of {all} jobs were submitted outside of the window: they run, and don't count"));
    }
    let rejected: usize = done.iter().map(|s| s.rejected).sum();
    if rejected > 0 {
        notes.push(format!("{rejected} jobs could never run on the fleet: times are those of the others"));
    }
    let heavy: Vec<f64> = done.iter().filter(|s| s.jobs >= 100).map(|s| s.heaviest).collect();
    if heavy.iter().any(|part| *part > HEAVY) {
        notes.push(format!(
            "1 % of the jobs is {} of the work: means and makespan are those of a few jobs",
            range(heavy)
        ));
    }
    if !done.is_empty() && done.iter().all(|s| s.completed > 0 && s.waiting_total.max == 0.0) {
        notes.push("no job ever waited: policies can't differ in who waits here".into());
    }
    notes
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
    table.load_style(presets::NOTHING).set_header(["predictor", "quantity", "answers a run", "MAE", "bias", "in"]);
    for row in all {
        table.add_row(row);
    }
    format!("\n{}", lines(&table))
}

/// What a predicted quantity is counted in.
fn unit_of(quantity: &str) -> &'static str {
    match quantity {
        "remaining" | "steps" => "s",
        "throughput" => "work/s",
        "memory" => "MiB",
        // Similarity, speed beside others, utilisation.
        _ => "0 to 1",
    }
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
        let mean = |get: fn(&Score) -> f64| mean_and_deviation(&scores.iter().map(get).collect::<Vec<f64>>()).0;
        vec![
            by.clone(),
            (*quantity).to_string(),
            format!("{:.0}", mean(|score| score.answers as f64)),
            format!("{:.4}", mean(|score| score.mae)),
            format!("{:+.4}", crate::metric::unsigned_zero(mean(|score| score.bias), 4)),
            unit_of(quantity).to_string(),
        ]
    };
    all.iter().map(line).collect()
}

fn object(row: &Row<'_>) -> Value {
    let variant: BTreeMap<&str, &str> = row.cell.variant.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let mut out = json!({
        "policy": row.cell.label, "variant": variant,
        "seeds": row.done.len(), "failed": row.failed, "missing": row.missing,
    });
    if !row.done.is_empty() {
        for metric in METRICS {
            out[metric.name] = match row.statistic(metric) {
                Some(of) => json!({"mean": of.mean, "sd": of.deviation, "ci95": of.half}),
                None => json!({"mean": null, "sd": null, "ci95": null}),
            };
        }
        for (quantity, bound) in row.cell.predictors.all() {
            let of = |summary: &&Summary| summary.predictors.iter().find(|score| score.quantity == quantity).cloned();
            let maes: Vec<f64> = row.done.iter().filter_map(of).map(|score| score.mae).collect();
            if !maes.is_empty() {
                out["predictors"][quantity] = json!({"by": bound.describe(), "mae": mean_and_deviation(&maes).0});
            }
        }
    }
    out
}

fn csv(rows: &[Row<'_>]) -> String {
    let mut out = String::from("policy,variant,seeds,failed,missing");
    for metric in METRICS {
        out.push_str(&format!(",{0},{0}_ci95,{0}_sd", metric.name));
    }
    out.push('\n');
    for row in rows {
        let label = crate::trace::csv_cell(&row.cell.label);
        let variant = crate::trace::csv_cell(&row.cell.variant_text());
        out.push_str(&format!("{label},{variant},{},{},{}", row.done.len(), row.failed, row.missing));
        for metric in METRICS {
            let Some(of) = row.statistic(metric) else {
                out.push_str(",,,");
                continue;
            };
            let text = |x: Option<f64>| x.map_or(String::new(), |x| x.to_string());
            out.push_str(&format!(",{},{},{}", of.mean, text(of.half), text(of.deviation)));
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
            if let Some(of) = row.statistic(metric) {
                out.push_str(&format!("  {:<22} {:>18.6}\n", metric.name, of.mean));
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
