//! Means and quantiles of a sample.

use sandtable_hardware::{Duration, SECOND};
use serde::{Deserialize, Serialize};

/// A sample, of times in seconds. Quantiles interpolate between order statistics (type 7); all zero where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The arithmetic mean.
    pub mean: f64,
    /// The 50th percentile.
    pub median: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

impl Distribution {
    /// Of times.
    pub fn of(mut sample: Vec<Duration>) -> Distribution {
        if sample.is_empty() {
            return Distribution::default();
        }
        sample.sort_unstable();
        let sum: u128 = sample.iter().map(|x| u128::from(x.as_micros())).sum();
        let quantile = |q: f64| interpolated(sample.len(), q, |at| sample[at].as_micros_f64()) / SECOND.as_micros_f64();
        Distribution {
            mean: sum as f64 / sample.len() as f64 / SECOND.as_micros_f64(),
            median: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: quantile(1.0),
        }
    }

    /// Of numbers that are no times.
    ///
    /// ```
    /// let waits = sandtable_runtime::Distribution::of_numbers(vec![1.0, 2.0, 3.0, 10.0]);
    /// assert_eq!((waits.mean, waits.median, waits.max), (4.0, 2.5, 10.0));
    /// ```
    pub fn of_numbers(mut sample: Vec<f64>) -> Distribution {
        sample.sort_unstable_by(f64::total_cmp);
        Distribution {
            mean: ratio(sample.iter().sum(), sample.len() as f64),
            median: quantile(&sample, 0.5),
            p95: quantile(&sample, 0.95),
            p99: quantile(&sample, 0.99),
            max: quantile(&sample, 1.0),
        }
    }
}

/// Of an ascending sample, interpolated (type 7); 0 of an empty one.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    interpolated(sorted.len(), q, |at| sorted[at])
}

/// The quantile of so many numbers, ascending.
fn interpolated(count: usize, q: f64, number: impl Fn(usize) -> f64) -> f64 {
    let Some(last) = count.checked_sub(1) else { return 0.0 };
    let at = q * last as f64;
    let (low, part) = (at.floor() as usize, at - at.floor());
    let (a, b) = (number(low), number((low + 1).min(last)));
    a + (b - a) * part
}

/// A part over its whole; 0 where the whole is not above 0.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let seconds = |list: &[u64]| Distribution::of(list.iter().map(|s| *s * SECOND).collect());
        let four = seconds(&[4, 1, 3, 2]);
        assert_eq!((four.mean, four.median, four.max), (2.5, 2.5, 4.0));
        assert!((four.p95 - 3.85).abs() < 1e-9);
        assert_eq!(seconds(&[7]).p99, 7.0);
        assert_eq!(seconds(&[]), Distribution::default());
    }
}
