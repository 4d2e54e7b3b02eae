//! Results as tables: for people, for spreadsheets, for snapshots.

use std::collections::BTreeMap;

use sandtable_core::display::{Unit, unsigned_zero};
use sandtable_core::frame::{Column, Estimated, Frame, Value};
use sandtable_hardware::Sharing;
use sandtable_plan::{Cell, Plan, PredictorBinding};
use sandtable_results::metric::{Has, METRICS, Metric};
use sandtable_results::stats::{estimate, mean_and_deviation};
use sandtable_results::status::CellStatus;
use sandtable_runtime::contract::Quantity;
use sandtable_runtime::{QueueUse, Score, Summary};
use serde_json::{Map, Value as Json, json};

/// Most rows of the table by queue at the end of a run.
const MOST_ROWS: usize = 60;

/// The metric that is shown with its interval and its deviation over the seeds.
const HEADLINE: &str = "jct_mean_s";

/// The cells of one policy in one variant.
pub(super) struct PolicyRuns<'a> {
    pub(super) cell: &'a Cell,
    done: Vec<&'a Summary>,
    /// Those of `done` that differ in any respect: seeds of a deterministic policy on a trace are one run.
    distinct: Vec<&'a Summary>,
    failed: usize,
    missing: usize,
}

impl PolicyRuns<'_> {
    /// A metric of each distinct run in which it is known.
    pub(super) fn values(&self, metric: &Metric) -> Vec<f64> {
        self.distinct.iter().map(|run| metric.of(run)).filter(|x| x.is_finite()).collect()
    }

    /// A metric over the distinct runs in which it is known; `None` where that is none.
    fn statistic(&self, metric: &Metric) -> Option<Estimated> {
        let values = self.values(metric);
        let one = estimate(&values)?;
        let several = values.len() > 1;
        Some(Estimated {
            mean: one.mean,
            deviation: several.then(|| mean_and_deviation(&values).1),
            half: several.then_some(one.half),
        })
    }
}

/// The cells of a plan by policy and variant, in the order of the spec.
pub(super) fn rows<'a>(plan: &'a Plan, known: &'a [CellStatus]) -> Vec<PolicyRuns<'a>> {
    let mut rows: Vec<PolicyRuns<'a>> = Vec::new();
    let mut places: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for (cell, known) in plan.cells.iter().zip(known) {
        let place = *places.entry((cell.variant_text(), cell.label.as_str())).or_insert_with(|| {
            rows.push(PolicyRuns { cell, done: Vec::new(), distinct: Vec::new(), failed: 0, missing: 0 });
            rows.len() - 1
        });
        match known {
            CellStatus::Done(summary) => {
                let row = &mut rows[place];
                row.done.push(summary);
                if !row.distinct.contains(&&**summary) {
                    row.distinct.push(summary);
                }
            }
            CellStatus::Failed(_) => rows[place].failed += 1,
            CellStatus::Missing | CellStatus::TimedOut => rows[place].missing += 1,
        }
    }
    rows
}

/// The results of a plan: a row a policy and variant, means over the seeds.
///
/// ```
/// use sandtable_plan::{Options, plan};
/// use sandtable_report::table::metrics;
/// use sandtable_results::{status::known, store::Store};
///
/// let folder = tempfile::tempdir()?;
/// let spec = folder.path().join("spec.ron");
/// std::fs::write(
///     &spec,
///     "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 4, kind: \"T4\"), \
///      workload: Generate(jobs: 5, arrivals: AtOnce), policies: [Policy(name: \"fifo\")])",
/// )?;
/// let plan = plan(&spec, &Options::default())?;
/// let store = Store::open(&folder.path().join("store"))?;
/// // Nothing has run yet.
/// let table = metrics(&plan, &known(&plan, &store)?).csv();
/// assert!(table.starts_with("policy,") && table.contains("\nfifo,"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn metrics(plan: &Plan, known: &[CellStatus]) -> Frame {
    of_rows(&rows(plan, known))
}

/// The results of a plan as a table of these metrics, in this order, each with its interval where there are several seeds.
pub fn chosen(plan: &Plan, known: &[CellStatus], metrics: &[&Metric]) -> Frame {
    let rows = rows(plan, known);
    let varied = rows.iter().any(|row| !row.cell.variant.is_empty());
    let seeded = rows.iter().any(|row| row.done.len() > 1);
    let mut columns =
        vec![Column::words("policy"), Column::words("variant").in_text(varied), Column::count("seeds").in_text(seeded)];
    let words = |metric: &Metric| metric.name.trim_end_matches("_s").replace('_', " ");
    columns.extend(metrics.iter().map(|metric| Column::estimates(metric.name, metric.unit).head(words(metric))));
    let mut frame = Frame::new(columns);
    for row in &rows {
        let mut values: Vec<Value> =
            vec![(&row.cell.label).into(), row.cell.variant_text().into(), row.done.len().into()];
        values.extend(metrics.iter().map(|metric| match row.statistic(metric) {
            Some(of) => {
                let text =
                    of.half.map_or_else(|| metric.unit.text(of.mean), |half| metric.unit.interval(of.mean, half));
                Value::Estimate(of).shown(text)
            }
            None => Value::Absent.shown("-"),
        }));
        frame.push(values);
    }
    frame
}

/// What a reader must know before believing the results of a plan.
pub fn notes(plan: &Plan, known: &[CellStatus]) -> Vec<String> {
    cautions(&rows(plan, known))
}

/// How good the predictors of a plan were: a row for each and each quantity, over all policies, variants and seeds.
pub fn predictors(plan: &Plan, known: &[CellStatus]) -> Frame {
    scores(&rows(plan, known))
}

/// How the queues of a plan fared: a row for each under each policy and variant, means over the seeds.
pub fn queues(plan: &Plan, known: &[CellStatus]) -> Frame {
    by_queue(&rows(plan, known))
}

/// The results of a plan for people: the tables of metrics, of queues and of predictors, and the notes.
pub fn text(plan: &Plan, known: &[CellStatus]) -> String {
    let rows = rows(plan, known);
    let mut out = of_rows(&rows).text();
    let queues = by_queue(&rows);
    match queues.texts().count() {
        0 => {}
        1..=MOST_ROWS => out.push_str(&format!("\n{}", queues.text())),
        rows => out.push_str(&format!("\n{rows} rows by queue: `sandtable report SPEC -o queues.csv --rows queues`\n")),
    }
    let scores = scores(&rows);
    if !scores.is_empty() {
        out.push_str(&format!("\n{}", scores.text()));
    }
    let notes = cautions(&rows);
    if !notes.is_empty() {
        out.push('\n');
        notes.iter().for_each(|note| out.push_str(&format!("note: {note}\n")));
    }
    out
}

/// Which metrics people see of these rows: what is known of no row is no column.
fn shown(rows: &[PolicyRuns<'_>]) -> Vec<&'static Metric> {
    let shared = rows.iter().any(|row| row.cell.fleet.sharing != Sharing::Exclusive);
    let all = METRICS.iter().filter(|metric| metric.shown.is_some() && (shared || !metric.shared));
    let there = |metric: &&Metric| rows.iter().any(|row| row.done.iter().any(|done| !metric.of(done).is_nan()));
    match rows.iter().any(|row| !row.done.is_empty()) {
        true => all.filter(there).collect(),
        false => all.filter(|metric| !matches!(metric.has, Has::Serving | Has::Queued)).collect(),
    }
}

fn of_rows(rows: &[PolicyRuns<'_>]) -> Frame {
    let varied = rows.iter().any(|row| !row.cell.variant.is_empty());
    let seeded = rows.iter().any(|row| row.done.len() > 1);
    let mut columns = vec![
        Column::words("policy"),
        Column::words("variant").in_text(varied),
        Column::count("seeds").in_text(seeded),
        Column::count("failed").in_text(false),
        Column::count("missing").in_text(false),
    ];
    let shown = shown(rows);
    for metric in METRICS {
        let column = Column::estimates(metric.name, metric.unit);
        let head = metric.shown.unwrap_or(metric.name);
        let is_shown = shown.iter().any(|other| other.name == metric.name);
        match seeded && metric.name == HEADLINE {
            true => columns.extend([
                column.head(format!("{head} ± 95 % CI")).in_text(is_shown),
                Column::of("sd", metric.unit).head("SD over seeds").only_in_text().in_text(is_shown),
            ]),
            false => columns.push(column.head(head).in_text(is_shown)),
        }
    }
    columns.push(Column::words("predictors").only_in_json());
    let mut frame = Frame::new(columns);
    for row in rows {
        let variant: BTreeMap<&str, &str> = row.cell.variant.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let mut values: Vec<Value> = vec![
            (&row.cell.label).into(),
            Value::from(json!(variant)).shown(row.cell.variant_text()),
            row.done.len().into(),
            row.failed.into(),
            row.missing.into(),
        ];
        for metric in METRICS {
            let headline = seeded && metric.name == HEADLINE;
            // Runs in which no job completed are named by the notes.
            let Some(of) = row.statistic(metric) else {
                let text = if row.done.is_empty() && row.failed > 0 { "failed" } else { "-" };
                let unknown = Estimated { mean: f64::NAN, deviation: None, half: None };
                let value = if row.done.is_empty() { Value::Absent } else { Value::Estimate(unknown) };
                values.push(value.shown(text));
                values.extend(headline.then(|| Value::Unknown.shown(text)));
                continue;
            };
            let half = of.half.filter(|_| headline);
            let mut text = half.map_or_else(|| metric.unit.text(of.mean), |half| metric.unit.interval(of.mean, half));
            if metric.name == HEADLINE && row.done.iter().any(|summary| summary.left_by_policy() > 0) {
                text.push('*');
            }
            values.push(Value::Estimate(of).shown(text));
            values.extend(headline.then(|| of.deviation.into()));
        }
        values.push(errors(row));
        frame.push(values);
    }
    frame
}

/// The mean absolute errors of a row's predictors, by quantity.
fn errors(row: &PolicyRuns<'_>) -> Value {
    let mut out = Map::new();
    for (quantity, bound) in row.cell.predictors.all() {
        let of = |summary: &&Summary| summary.predictors.iter().find(|score| score.quantity == quantity).cloned();
        let maes: Vec<f64> = row.done.iter().filter_map(of).map(|score| score.mae).collect();
        if !maes.is_empty() {
            out.insert(quantity.to_string(), json!({"by": bound.describe(), "mae": mean_and_deviation(&maes).0}));
        }
    }
    if out.is_empty() { Value::Absent } else { Json::Object(out).into() }
}

/// A jobs' hundredth with more than this of the work decides what means say.
const HEAVY: f64 = 0.25;
/// Arrivals that fill less than this of a run leave most of it to those that came last.
const SHORT: f64 = 0.5;

/// Where less of the time on GPUs than this is progress that lasts, preemptions take the rest.
const LASTING: f64 = 0.5;

/// What a reader must know before believing a policy's row.
fn cautions_of(row: &PolicyRuns<'_>) -> Vec<String> {
    let sum = |of: fn(&Summary) -> usize| row.done.iter().map(|summary| of(summary)).sum::<usize>();
    let (left, refused, jobs) = (sum(|of| of.unfinished), sum(|of| of.refused), sum(|of| of.jobs));
    let at = row.cell.variant_text();
    let at = if at.is_empty() { at } else { format!(" at {at}") };
    let under = format!("under {}{at}", row.cell.label);
    let mut notes = Vec::new();
    for (count, what) in [(left, "never ended"), (refused, "were refused")] {
        if count > 0 {
            notes.push(format!("* {count} of {jobs} jobs {what} {under}: its times are those of the others"));
        }
    }
    let total = |of: fn(&Summary) -> f64| row.done.iter().map(|summary| of(summary)).sum::<f64>();
    let (held, lasting) = (total(|of| of.utilisation), total(|of| of.productive));
    let preemptions = total(|of| of.preemptions as f64) / jobs as f64;
    if preemptions >= 1.0 && lasting < LASTING * held {
        notes.push(format!(
            "{:.0} % of the time that GPUs were held {under} made progress that lasted, with {preemptions:.1} preemptions for each \
             job: is the time between them longer than what one takes by `costs`?",
            100.0 * lasting / held
        ));
    }
    notes
}

/// What a reader must know before believing a table.
fn cautions(rows: &[PolicyRuns<'_>]) -> Vec<String> {
    let mut notes: Vec<String> = rows.iter().flat_map(cautions_of).collect();
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

fn by_queue(rows: &[PolicyRuns<'_>]) -> Frame {
    type Number = (&'static str, Unit, fn(&QueueUse) -> f64);
    const NUMBERS: [Number; 9] = [
        ("jobs", Unit::Count, |of| of.jobs as f64),
        ("JCT mean", Unit::Seconds, |of| if of.completed > 0 { of.jct.mean } else { f64::NAN }),
        ("waiting mean", Unit::Seconds, |of| if of.completed > 0 { of.waiting_total.mean } else { f64::NAN }),
        ("GPUs held", Unit::Times, |of| of.held),
        ("deserved", Unit::Times, |of| of.deserved),
        ("borrowed", Unit::Times, |of| of.borrowed),
        ("short", Unit::Times, |of| of.short),
        ("reclaimed", Unit::GpuHours, |of| of.reclaimed_gpu_h),
        ("preemptions", Unit::Count, |of| of.preemptions as f64),
    ];
    let varied = rows.iter().any(|row| !row.cell.variant.is_empty());
    let words = [Column::words("policy"), Column::words("variant").in_text(varied), Column::words("queue")];
    let numbers = NUMBERS.map(|(name, unit, _)| Column::of(name, unit));
    let mut frame = Frame::new(words.into_iter().chain(numbers).collect::<Vec<Column>>());
    for row in rows {
        for (at, queue) in row.done.first().map_or(&[][..], |first| &first.queues).iter().enumerate() {
            let of: Vec<&QueueUse> = row.distinct.iter().filter_map(|run| run.queues.get(at)).collect();
            let mean = |get: fn(&QueueUse) -> f64| {
                let known: Vec<f64> = of.iter().map(|of| get(of)).filter(|x| x.is_finite()).collect();
                Value::from(if known.is_empty() { f64::NAN } else { mean_and_deviation(&known).0 })
            };
            let words = [(&row.cell.label).into(), row.cell.variant_text().into(), (&queue.name).into()];
            frame.push(words.into_iter().chain(NUMBERS.map(|(.., get)| mean(get))).collect::<Vec<Value>>());
        }
    }
    frame
}

fn scores(rows: &[PolicyRuns<'_>]) -> Frame {
    // By name, as readers look for them.
    let mut all: BTreeMap<(String, &str, Quantity), Vec<Score>> = BTreeMap::new();
    for row in rows {
        for (quantity, bound) in row.cell.predictors.all() {
            // The truth about itself is nothing to score.
            if !matches!(bound, PredictorBinding::Oracle) {
                let scores = row.done.iter().flat_map(|summary| &summary.predictors);
                let scores = scores.filter(|score| score.quantity == quantity).cloned();
                all.entry((bound.describe(), quantity.name(), quantity)).or_default().extend(scores);
            }
        }
    }
    all.retain(|_, scores| !scores.is_empty());
    let names = ["predictor", "quantity", "answers a run", "MAE", "bias", "in"];
    let mut frame = Frame::new(names.map(Column::words));
    for ((by, name, quantity), scores) in &all {
        let mean = |get: fn(&Score) -> f64| mean_and_deviation(&scores.iter().map(get).collect::<Vec<f64>>()).0;
        let bias = mean(|score| score.bias);
        let (answers, mae) = (mean(|score| score.answers as f64), mean(|score| score.mae));
        frame.push([
            by.into(),
            (*name).into(),
            Value::Number(answers).shown(format!("{answers:.0}")),
            Value::Number(mae).shown(format!("{mae:.4}")),
            Value::Number(bias).shown(format!("{:+.4}", unsigned_zero(bias, 4))),
            quantity.unit().into(),
        ]);
    }
    frame
}

/// The results of a plan as a snapshot holds them: every metric, nothing that depends on a machine or a build.
pub fn snapshot(plan: &Plan, known: &[CellStatus]) -> String {
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
    if plan
        .cells
        .iter()
        .any(|cell| cell.predictors.all().any(|(_, bound)| matches!(bound, PredictorBinding::Component(_))))
    {
        let scores = predictors(plan, known);
        if !scores.is_empty() {
            out.push_str(&format!("\n{}", scores.text()));
        }
    }
    if !plan.claims.is_empty() {
        out.push_str(&format!(
            "\n{}",
            sandtable_results::claim::render(&sandtable_results::claim::measure(plan, known))
        ));
    }
    out
}
