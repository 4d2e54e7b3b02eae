//! The user's tables of rates: steps a second by model, batch and GPUs. With them, traces that count steps say how long jobs take.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::Duration;

use super::rows::{Options, micros};
use super::table::{Record, Table, TraceError};

/// The column of Shockwave's rates.
pub(crate) const SHOCKWAVE: &str = "steps_per_s";
/// The column of ElasticFlow's.
pub(crate) const ELASTICFLOW: &str = "iterations_per_s";

/// A model, its batch and its GPUs.
type Gang = (String, u32, u32);

/// Steps a second of gangs; 0: it did not fit.
pub(crate) struct Rates(BTreeMap<Gang, f64>);

impl Rates {
    /// The table that a trace needs because it counts, which `why` says.
    pub(super) fn of(options: &Options, column: &str, why: &str) -> Result<Rates, Error> {
        match &options.throughputs {
            Some(path) => Rates::read(path, column),
            None => {
                let hint = format!("--throughputs FILE, a CSV with the columns model, batch, gpus, {column}");
                Err(Error::usage(format!("{why}: it needs the table of rates")).hint(hint))
            }
        }
    }

    /// Reads a table that has the rates in this column.
    pub(crate) fn read(path: &Path, column: &str) -> Result<Rates, Error> {
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
        Ok(Rates(rates))
    }

    /// How long the steps take that a row has in this column. A job without GPUs, which no format keeps, takes a second for each.
    pub(super) fn duration(
        &self,
        row: &Record<'_>,
        column: &str,
        gang: (&str, u32, u32),
    ) -> Result<Duration, TraceError> {
        let (model, batch, gpus) = gang;
        let rate = match self.0.get(&(model.to_string(), batch, gpus)).filter(|rate| **rate > 0.0) {
            Some(rate) => *rate,
            None if gpus == 0 => 1.0,
            None => {
                let message = format!("the table has no rate of {model:?} with a batch of {batch} on {gpus} GPUs");
                return Err(row.wrong("gpus", message));
            }
        };
        let steps = row.number(column)?;
        let lasts =
            Some(steps).filter(|steps| *steps > 0.0).and_then(|steps| micros((steps / rate * 1e6).round() / 1e6));
        lasts.filter(|lasts| !lasts.is_zero()).ok_or_else(|| {
            let expected = format!("expected more than 0 {column}, which take from a microsecond to 285 years");
            row.wrong(column, format!("{expected}, found {steps}"))
        })
    }
}

impl IntoIterator for Rates {
    type Item = (Gang, f64);
    type IntoIter = std::collections::btree_map::IntoIter<Gang, f64>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
