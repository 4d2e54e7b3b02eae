//! ElasticFlow's traces: jobs that count iterations, and may have any number of GPUs.

use std::path::Path;

use sandtable_core::error::Error;

use super::Trace;
use super::rates::{ELASTICFLOW, Rates};
use super::rows::{Options, Rows};
use super::table::{Table, Unit};

/// The name of the workload of a model's jobs with a batch.
pub(crate) fn workload(model: &str, batch: u32) -> String {
    format!("{model} {batch}")
}

/// Reads `submit_s`, `model`, `batch`, `gpus`, `iterations` and `deadline_s`: a job takes as long as its iterations do with the GPUs that its user
/// asks for, by the user's table of rates.
pub(super) fn parse(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let rates = Rates::of(options, ELASTICFLOW, "an ElasticFlow trace counts iterations")?;
    let table = Table::new(file, bytes, b',', true)?;
    table.need(&["submit_s", "model", "batch", "gpus", "iterations", "deadline_s"])?;
    let mut rows = Rows::new();
    let read = table.each(options, |row| {
        let (model, batch, gpus) = (row.text("model")?, row.whole("batch")?, row.whole("gpus")?);
        let duration = rates.duration(row, "iterations", (model, batch, gpus))?;
        let submit = row.instant("submit_s", Unit::Seconds)?;
        let submit = rows.at(row, "submit_s", submit)?;
        let deadline = row.instant("deadline_s", Unit::Seconds)?;
        let deadline = rows.at(row, "deadline_s", deadline)?;
        if let Some(job) = rows.push(row, row.find("job_id"), submit, (gpus, duration)) {
            job.deadline = Some(deadline);
            (job.workload, job.batch) = (Some(workload(model, batch)), Some(batch));
        }
        Ok(())
    })?;
    Ok(rows.finish(read))
}
