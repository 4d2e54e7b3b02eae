//! Shockwave's traces: jobs that count steps, and change their batch by a rule of their own.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_core::error::Error;

use super::Trace;
use super::rows::{Options, Rows, micros};
use super::table::{Table, Unit};

/// By which rule a job changes its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegimeMode {
    /// By none.
    Static,
    /// Accordion's critical epochs.
    Accordion,
    /// The noise scale of gradients.
    Gns,
}

impl RegimeMode {
    /// All of them.
    pub const ALL: [RegimeMode; 3] = [RegimeMode::Static, RegimeMode::Accordion, RegimeMode::Gns];

    fn word(self) -> &'static str {
        match self {
            RegimeMode::Static => "static",
            RegimeMode::Accordion => "accordion",
            RegimeMode::Gns => "gns",
        }
    }

    /// The name of a model's workload whose jobs change their batch so.
    pub fn workload(self, model: &str) -> String {
        format!("{model} {}", self.word())
    }
}

/// Reads `submit_s`, `model`, `batch`, `gpus`, `mode` and `steps`: as long as the steps take at that batch by the user's table of rates.
pub(super) fn parse(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let Some(path) = &options.throughputs else {
        let hint = "--throughputs FILE, a CSV with the columns model, batch, gpus, steps_per_s";
        return Err(Error::usage("a Shockwave trace counts steps: it needs the table of rates").hint(hint));
    };
    let rates = rates(path, "steps_per_s")?;
    let table = Table::new(file, bytes, b',', true)?;
    table.need(&["submit_s", "model", "batch", "gpus", "mode", "steps"])?;
    let mut rows = Rows::new();
    let read = table.each(options, |row| {
        let (model, batch, gpus) = (row.text("model")?, row.whole("batch")?, row.whole("gpus")?);
        let found = row.text("mode")?;
        let mode = RegimeMode::ALL.into_iter().find(|mode| mode.word() == found);
        let mode =
            mode.ok_or_else(|| row.wrong("mode", format!("expected static, accordion or gns, found {found:?}")))?;
        let rate = rates.get(&(model.to_string(), batch, gpus)).filter(|rate| **rate > 0.0);
        let Some(rate) = rate else {
            let message = format!("the table has no rate of {model:?} with a batch of {batch} on {gpus} GPUs");
            return Err(row.wrong("model", message));
        };
        let duration = micros((row.number("steps")? / rate * 1e6).round() / 1e6).ok_or_else(|| {
            let found = row.text("steps").unwrap_or("");
            row.wrong("steps", format!("expected steps that take less than 285 years, found {found:?}"))
        })?;
        let submit = row.instant("submit_s", Unit::Seconds)?;
        let submit = rows.at(row, "submit_s", submit)?;
        if let Some(job) = rows.push(row, row.find("job_id"), submit, (gpus, duration)) {
            (job.workload, job.batch) = (Some(mode.workload(model)), Some(batch));
        }
        Ok(())
    })?;
    Ok(rows.finish(read))
}

/// Steps a second, in this column, by model, batch and GPUs; 0: it did not fit.
pub(crate) fn rates(path: &Path, column: &str) -> Result<BTreeMap<(String, u32, u32), f64>, Error> {
    let bytes = sandtable_core::input::read(path, sandtable_core::input::DATA)?;
    let table = Table::new(path, &bytes, b',', true)?;
    table.need(&["model", "batch", "gpus", column])?;
    let mut rates = BTreeMap::new();
    table.each(&Options::default(), |row| {
        let (model, batch, gpus) = (row.text("model")?, row.whole("batch")?, row.whole("gpus")?);
        let rate = row.number(column)?;
        if rate < 0.0 {
            return Err(row.wrong(column, format!("expected a rate of 0 or more, found {rate}")));
        }
        for (at, found) in [("batch", batch), ("gpus", gpus)] {
            if found == 0 {
                return Err(row.wrong(at, "expected at least 1, found 0"));
            }
        }
        if rates.insert((model.to_string(), batch, gpus), rate).is_some() {
            let twice = format!("{model:?} with a batch of {batch} on {gpus} GPUs is there twice");
            return Err(row.wrong("model", twice));
        }
        Ok(())
    })?;
    Ok(rates)
}
