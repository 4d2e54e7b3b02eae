//! Muri's traces (Zhao et al., SIGCOMM 2022): jobs that count iterations of a model, and what an iteration takes.

use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::Duration;

use super::Trace;
use super::rows::{Options, Rows, micros};
use super::table::{Record, Table, TraceError, Unit};

/// Seconds of an iteration alone.
pub(crate) fn iteration_s(row: &Record<'_>) -> Result<f64, TraceError> {
    let millis = row.number("iteration_time")?;
    if !(millis > 0.0 && millis.is_finite()) {
        return Err(row.wrong("iteration_time", format!("expected more than 0 ms, found {millis}")));
    }
    Ok(millis / 1e3)
}

/// Reads `num_gpu`, `submit_time` (ms), `iterations`, `iteration_time` (ms), `model_name`: a job takes as long as its iterations alone do, and is of the
/// workload of its model. The column `duration` is not looked at: in the traces that were simulated it is the same, rounded to seconds, in that of the real cluster it is 0.19 to
/// 1.3 times as long.
pub(super) fn parse(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let table = Table::new(file, bytes, b',', true)?;
    table.need(&["job_id", "num_gpu", "submit_time", "iterations", "iteration_time", "model_name"])?;
    let mut rows = Rows::new();
    let read = table.each(options, |row| {
        let (model, gpus) = (row.text("model_name")?, row.whole("num_gpu")?);
        let (iterations, alone) = (row.number("iterations")?, iteration_s(row)?);
        let lasts = micros((iterations * alone * 1e6).round() / 1e6).filter(|lasts| *lasts > Duration::ZERO);
        let lasts = lasts.ok_or_else(|| {
            let expected = "expected more than 0 iterations, which take from a microsecond to 285 years";
            row.wrong("iterations", format!("{expected}, found {iterations}"))
        })?;
        let submit = row.instant("submit_time", Unit::Millis)?;
        let submit = rows.at(row, "submit_time", submit)?;
        if let Some(job) = rows.push(row, row.find("job_id"), submit, (gpus, lasts)) {
            job.workload = Some(model.to_string());
        }
        Ok(())
    })?;
    Ok(rows.finish(read))
}
