//! ElasticFlow's traces: jobs that count iterations, and may have any number of GPUs.

use std::path::Path;

use sandtable_core::error::Error;

use super::Trace;
use super::rows::{Options, Rows, micros};
use super::shockwave::rates;
use super::table::{Table, Unit};

/// The column of the table of rates.
pub(crate) const RATE: &str = "iterations_per_s";

/// The name of the workload of a model's jobs with a batch.
pub(crate) fn workload(model: &str, batch: u32) -> String {
    format!("{model} {batch}")
}

/// Reads `submit_s`, `model`, `batch`, `gpus`, `iterations` and `deadline_s`: a job takes as long as its iterations do with the GPUs that its user
/// asks for, by the user's table of rates.
pub(super) fn parse(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let Some(path) = &options.throughputs else {
        let hint = "--throughputs FILE, a CSV with the columns model, batch, gpus, iterations_per_s";
        return Err(Error::usage("an ElasticFlow trace counts iterations: it needs the table of rates").hint(hint));
    };
    let rates = rates(path, RATE)?;
    let table = Table::new(file, bytes, b',', true)?;
    table.need(&["submit_s", "model", "batch", "gpus", "iterations", "deadline_s"])?;
    let mut rows = Rows::new();
    let read = table.each(options, |row| {
        let (model, batch, gpus) = (row.text("model")?, row.whole("batch")?, row.whole("gpus")?);
        let rate = rates.get(&(model.to_string(), batch, gpus)).filter(|rate| **rate > 0.0 && gpus <= batch);
        let rate = match rate {
            Some(rate) => *rate,
            // It is left out, as in any format.
            None if gpus == 0 => 1.0,
            None => {
                let message = format!("the table has no rate of {model:?} with a batch of {batch} on {gpus} GPUs");
                return Err(row.wrong("gpus", message));
            }
        };
        let iterations = row.number("iterations")?;
        let lasts =
            Some(iterations).filter(|count| *count > 0.0).and_then(|count| micros((count / rate * 1e6).round() / 1e6));
        let duration = lasts.filter(|lasts| !lasts.is_zero()).ok_or_else(|| {
            let expected = "expected more than 0 iterations, which take from a microsecond to 285 years";
            row.wrong("iterations", format!("{expected}, found {iterations}"))
        })?;
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
