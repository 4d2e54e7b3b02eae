//! Results as rows for other programs: CSV, JSON Lines and Parquet.

use sandtable_core::display::Unit;
use sandtable_core::error::Error;
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_plan::{Cell, Plan};
use sandtable_results::metric::METRICS;
use sandtable_results::reader;
use sandtable_results::schema::Seconds;
use sandtable_results::store::Store;

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
    let seconds = |name: &'static str| Column::of(name, Unit::Seconds);
    let mut columns =
        vec![Column::words("policy"), Column::words("variant"), Column::count("seed"), Column::words("cell")];
    match of {
        Rows::Cells => columns.extend(METRICS.iter().map(|metric| Column::of(metric.name, metric.unit))),
        Rows::Jobs => {
            columns.push(Column::words("job_id"));
            columns.extend(["submit_s", "first_start_s", "end_s", "held_s", "jct_s"].map(seconds));
            columns.extend(["gpus", "preemptions"].map(Column::count));
            columns.push(Column::words("outcome"));
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
        }
    }
    let mut frame = Frame::new(columns);
    for cell in plan.cells.iter().filter(|cell| store.has(&cell.id) && !store.has_failed(&cell.id)) {
        match of {
            Rows::Cells => {
                let Some(summary) = reader::summary(store, &cell.id)? else { continue };
                frame.push(row(cell, METRICS.iter().map(|metric| metric.of(&summary).into())));
            }
            Rows::Jobs => {
                for job in reader::jobs(store, &cell.id)? {
                    let times = [Some(job.submit_s), job.first_start_s, job.end_s, Some(job.held_s)];
                    let times = times.map(|time| time.map(Seconds::f64).into());
                    let rest =
                        [job.jct().into(), job.gpus.into(), job.preemptions.into(), job.outcome.to_string().into()];
                    frame.push(row(cell, [job.job_id.into()].into_iter().chain(times).chain(rest)));
                }
            }
            Rows::Stays => {
                for stay in reader::stays(store, &cell.id)? {
                    let (from, to) = (stay.from_s.f64().into(), stay.to_s.f64().into());
                    frame.push(row(cell, [stay.job_id.into(), from, to, stay.gpus.to_string().into()]));
                }
            }
            Rows::Queues => {
                let Some(summary) = reader::summary(store, &cell.id)? else { continue };
                for of in &summary.queues {
                    let counts = [of.jobs as u64, of.completed as u64, of.preemptions].map(Value::from);
                    let times = [of.jct.mean, of.jct.p95, of.waiting_total.mean, of.waiting_total.p95];
                    // Of jobs that completed; where none did, nothing is known.
                    let times = times.map(|time| if of.completed > 0 { time } else { f64::NAN });
                    let gpus = [of.held, of.deserved, of.borrowed, of.short];
                    let numbers = times.into_iter().chain(gpus).map(Value::from);
                    frame.push(row(cell, [(&of.name).into()].into_iter().chain(counts).chain(numbers)));
                }
            }
        }
    }
    Ok(frame)
}

/// A row of a cell: what tells it from others, and `values`.
fn row(cell: &Cell, values: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut row: Vec<Value> =
        vec![(&cell.label).into(), cell.variant_text().into(), cell.seed.into(), (&cell.id).into()];
    row.extend(values);
    row
}
