//! Results as rows for other programs: CSV, JSON Lines and Parquet.

use std::collections::BTreeMap;

use sandtable_core::display::Unit;
use sandtable_core::error::Error;
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_hardware::Duration;
use sandtable_inputs::trace::{Row, date};
use sandtable_plan::{Cell, Plan};
use sandtable_results::metric::METRICS;
use sandtable_results::reader;
use sandtable_results::schema::{JobRecord, Seconds, StayRecord};
use sandtable_results::store::Store;
use sandtable_runtime::QueueUse;

use super::axes::{SweepAxis, axes};
use super::figures::{origin, ran_on};

/// What a row is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Rows {
    /// A cell: its metrics.
    #[default]
    Cells,
    /// A job of a cell.
    Jobs,
    /// A stay of a job on GPUs.
    Stays,
    /// A queue or a group of queues of a cell.
    Queues,
}

/// The results of a plan's cells that the store has.
///
/// # Errors
/// A file of the store that can't be read.
pub fn rows(plan: &Plan, store: &Store, of: Rows) -> Result<Frame, Error> {
    let axes = axes(plan);
    let mut columns = vec![Column::words("policy"), Column::words("variant")];
    columns.extend(axes.iter().map(|axis| match axis.numbers().is_some() {
        true => Column::number(axis.path.to_string()),
        false => Column::words(axis.path.to_string()),
    }));
    columns.extend([Column::count("seed"), Column::words("cell")]);
    columns.extend(columns_of(of));
    let mut frame = Frame::new(columns);
    for cell in plan.cells.iter().filter(|cell| store.has(&cell.id) && !store.has_failed(&cell.id)) {
        let all = match of {
            Rows::Cells => cells(cell, store)?,
            Rows::Jobs => jobs(cell, store)?,
            Rows::Stays => stays(cell, store)?,
            Rows::Queues => queues(cell, store)?,
        };
        all.into_iter().for_each(|values| frame.push(row(cell, &axes, values)));
    }
    Ok(frame)
}

/// What a row has beside what tells cells apart.
fn columns_of(of: Rows) -> Vec<Column> {
    let seconds = |name: &'static str| Column::of(name, Unit::Seconds);
    let mut columns = Vec::new();
    match of {
        Rows::Cells => columns.extend(METRICS.iter().map(|metric| Column::of(metric.name, metric.unit))),
        Rows::Jobs => {
            columns.push(Column::words("job_id"));
            columns.extend(["submit_s", "first_start_s", "end_s", "held_s", "jct_s"].map(seconds));
            columns.extend(["gpus", "preemptions"].map(Column::count));
            columns.push(Column::words("outcome"));
            columns.extend(["start_wait_s", "waiting_s", "duration_s"].map(seconds));
            columns.push(Column::of("rho", Unit::Times));
            columns.extend(["user", "queue", "workload", "kinds", "nodes", "ran_on"].map(Column::words));
            columns.extend(["submitted", "first_started", "ended"].map(Column::words));
        }
        Rows::Stays => {
            columns.push(Column::words("job_id"));
            columns.extend(["from_s", "to_s"].map(seconds));
            columns.push(Column::words("gpus"));
        }
        Rows::Queues => {
            columns.push(Column::words("queue"));
            columns.extend(["jobs", "completed", "preemptions"].map(Column::count));
            columns.extend(["jct_mean_s", "jct_p95_s", "waiting_total_mean_s", "waiting_total_p95_s"].map(seconds));
            columns.extend(["held", "deserved", "borrowed", "short"].map(|name| Column::of(name, Unit::Times)));
            columns.extend(["reclaimed_gpu_h", "given_up_gpu_h"].map(|name| Column::of(name, Unit::GpuHours)));
        }
    }
    columns
}

fn cells(cell: &Cell, store: &Store) -> Result<Vec<Vec<Value>>, Error> {
    let summary = reader::summary(store, &cell.id)?;
    Ok(summary.iter().map(|summary| METRICS.iter().map(|metric| metric.of(summary).into()).collect()).collect())
}

/// Jobs, with what their trace says of them.
fn jobs(cell: &Cell, store: &Store) -> Result<Vec<Vec<Value>>, Error> {
    let trace = cell.setting.workload.trace(cell.seed, &cell.fleet)?;
    // Where the trace has dates.
    let origin = origin(cell);
    let asked: BTreeMap<&str, &Row> = trace.rows.iter().map(|row| (row.name.as_str(), row)).collect();
    let values = |job: JobRecord| {
        let asked = asked.get(job.job_id.as_str());
        let word =
            |of: fn(&Row) -> Option<&str>| Value::from(asked.and_then(|row| of(row)).unwrap_or_default().to_string());
        let times = [Some(job.submit_s), job.first_start_s, job.end_s, Some(job.held_s)];
        let mut values: Vec<Value> = vec![job.job_id.as_str().into()];
        values.extend(times.map(|time| Value::from(time.map(Seconds::f64))));
        values.extend([
            job.jct().into(),
            job.gpus.into(),
            job.preemptions.into(),
            job.outcome.to_string().into(),
            job.wait().into(),
            job.jct().map(|jct| (jct - job.held_s.f64()).max(0.0)).into(),
            asked.map(|row| row.duration.as_secs_f64()).into(),
            job.rho().into(),
            word(|row| row.user.as_deref()),
            word(|row| row.queue.as_deref()),
            word(|row| row.workload.as_deref()),
            asked.map(|row| row.kinds.join("|")).unwrap_or_default().into(),
            job.last_placement.to_string().into(),
            ran_on(cell, &job).join("|").into(),
        ]);
        let dated = |at: Option<Seconds>| {
            let at = origin.zip(at).map(|(origin, at)| date(origin + Duration::from_micros(at.0)));
            Value::from(at.unwrap_or_default())
        };
        values.extend([Some(job.submit_s), job.first_start_s, job.end_s].map(dated));
        values
    };
    Ok(reader::jobs(store, &cell.id)?.into_iter().map(values).collect())
}

fn stays(cell: &Cell, store: &Store) -> Result<Vec<Vec<Value>>, Error> {
    let values = |stay: StayRecord| {
        vec![stay.job_id.into(), stay.from_s.f64().into(), stay.to_s.f64().into(), stay.gpus.to_string().into()]
    };
    Ok(reader::stays(store, &cell.id)?.into_iter().map(values).collect())
}

fn queues(cell: &Cell, store: &Store) -> Result<Vec<Vec<Value>>, Error> {
    let Some(summary) = reader::summary(store, &cell.id)? else { return Ok(Vec::new()) };
    let values = |of: &QueueUse| {
        let counts = [of.jobs as u64, of.completed as u64, of.preemptions].map(Value::from);
        let times = [of.jct.mean, of.jct.p95, of.waiting_total.mean, of.waiting_total.p95];
        // Of jobs that completed; where none did, nothing is known.
        let times = times.map(|time| if of.completed > 0 { time } else { f64::NAN });
        let gpus = [of.held, of.deserved, of.borrowed, of.short, of.reclaimed_gpu_h, of.given_up_gpu_h];
        let numbers = times.into_iter().chain(gpus).map(Value::from);
        [(&of.name).into()].into_iter().chain(counts).chain(numbers).collect()
    };
    Ok(summary.queues.iter().map(values).collect())
}

/// A row of a cell: what tells it from others, and `values`.
fn row(cell: &Cell, axes: &[SweepAxis<'_>], values: Vec<Value>) -> Vec<Value> {
    let mut row: Vec<Value> = vec![(&cell.label).into(), cell.variant_text().into()];
    row.extend(axes.iter().enumerate().map(|(at, axis)| {
        let value = cell.variant.get(at).map_or("", |(_, value)| value.trim());
        // The quotes of a text are RON's.
        if axis.numbers().is_some() { value.parse::<f64>().ok().into() } else { value.trim_matches('"').into() }
    }));
    row.extend([cell.seed.into(), (&cell.id).into()]);
    row.extend(values);
    row
}
