//! Shockwave's traces: jobs that count steps, and change their batch by a rule of their own.

use std::path::Path;

use sandtable_core::error::Error;

use super::Trace;
use super::rates::{Rates, SHOCKWAVE};
use super::rows::{Options, Rows};
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
    let rates = Rates::of(options, SHOCKWAVE, "a Shockwave trace counts steps")?;
    let table = Table::new(file, bytes, b',', true)?;
    table.need(&["submit_s", "model", "batch", "gpus", "mode", "steps"])?;
    let mut rows = Rows::new();
    let read = table.each(options, |row| {
        let (model, batch, gpus) = (row.text("model")?, row.whole("batch")?, row.whole("gpus")?);
        let found = row.text("mode")?;
        let mode = RegimeMode::ALL.into_iter().find(|mode| mode.word() == found);
        let mode =
            mode.ok_or_else(|| row.wrong("mode", format!("expected static, accordion or gns, found {found:?}")))?;
        let duration = rates.duration(row, "steps", (model, batch, gpus))?;
        let submit = row.instant("submit_s", Unit::Seconds)?;
        let submit = rows.at(row, "submit_s", submit)?;
        if let Some(job) = rows.push(row, row.find("job_id"), submit, (gpus, duration)) {
            (job.workload, job.batch) = (Some(mode.workload(model)), Some(batch));
        }
        Ok(())
    })?;
    Ok(rows.finish(read))
}
