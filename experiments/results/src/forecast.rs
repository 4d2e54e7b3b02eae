//! When jobs start and end over the seeds of a policy: of a cluster as it is, whose jobs' run times are drawn.

use std::collections::BTreeMap;

use sandtable_core::error::Error;
use sandtable_hardware::Instant;

use crate::reader;
use crate::store::Store;

/// When a job starts and ends, seconds from the instant at which the runs begin; what it never does is infinite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Ascending, a value a seed; negative of a job that ran already.
    pub starts: Vec<f64>,
    /// Likewise.
    pub ends: Vec<f64>,
    /// The share of seeds in which it was preempted.
    pub preempted: f64,
    /// By seed: its start, its end, and how often it was preempted.
    pub by_seed: Vec<(f64, f64, u32)>,
}

/// Forecasts by job, from the results of a policy's cells: one a seed.
///
/// # Errors
/// A result that can't be read.
pub fn forecasts(store: &Store, cells: &[&str], at: Instant) -> Result<BTreeMap<String, Forecast>, Error> {
    let mut all: BTreeMap<String, Forecast> = BTreeMap::new();
    let from_at = |instant: Option<crate::schema::Seconds>| {
        let micros = |of: crate::schema::Seconds| (of.0 as i64 - at.as_micros() as i64) as f64 / 1e6;
        instant.map_or(f64::INFINITY, micros)
    };
    for cell in cells {
        for row in reader::jobs(store, cell)? {
            let of = all.entry(row.job_id.clone()).or_default();
            let (start, end) = (from_at(row.first_start_s), from_at(row.end_s));
            of.starts.push(start);
            of.ends.push(end);
            of.by_seed.push((start, end, row.preemptions));
            of.preempted += f64::from(u8::from(row.preemptions > 0)) / cells.len() as f64;
        }
    }
    for of in all.values_mut() {
        of.starts.sort_by(f64::total_cmp);
        of.ends.sort_by(f64::total_cmp);
    }
    Ok(all)
}

/// The smallest of ascending values that is at least as great as this share of them.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    // A share of 0.07 of 100 values is 7 of them, and not a little more.
    let at = (libm::ceil(share * values.len() as f64 - 1e-9) as usize).max(1) - 1;
    values.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_came() {
        let values: Vec<f64> = (1..=50).map(f64::from).collect();
        assert_eq!([0.1, 0.5, 0.9, 1.0].map(|share| quantile(&values, share)), [5.0, 25.0, 45.0, 50.0].map(Some));
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((quantile(&hundred, 0.07), quantile(&hundred, 0.55)), (Some(7.0), Some(55.0)));
        assert_eq!((quantile(&[7.0], 0.1), quantile(&[], 0.5)), (Some(7.0), None));
    }
}
