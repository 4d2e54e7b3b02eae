//! A trace as the table of a paper describes it.

use std::collections::BTreeMap;

use sandtable_hardware::{Duration, Instant, SECOND};
use sandtable_runtime::Distribution;
use serde::Serialize;

use super::Trace;

/// The description.
#[derive(Debug, Serialize)]
pub struct Stats {
    /// Jobs.
    pub jobs: usize,
    /// From the first submission to the last, days.
    pub span_days: f64,
    /// Jobs of each gang size.
    pub gpus: BTreeMap<u32, usize>,
    /// Mean gang size.
    pub mean_gpus: f64,
    /// Run times on a GPU of speed 1, seconds.
    pub duration_s: Distribution,
    /// Times between submissions, seconds.
    pub interarrival_s: Distribution,
    /// Jobs submitted at the very instant of another.
    pub tied: usize,
    /// All the work, GPU-hours.
    pub gpu_hours: f64,
    /// GPUs that would be busy on average until the last submission: divided by a fleet's GPUs, its load.
    pub offered_gpus: f64,
    /// Share of the GPU-time that the largest tenth of jobs takes.
    pub top_tenth: f64,
}

impl Stats {
    /// Of a trace, which must have a job.
    pub fn of(trace: &Trace) -> Stats {
        let rows = &trace.rows;
        let mut gpus = BTreeMap::new();
        for row in rows {
            *gpus.entry(row.gpus).or_insert(0) += 1;
        }
        let mut work: Vec<u128> =
            rows.iter().map(|row| u128::from(row.gpus) * u128::from(row.duration.as_micros())).collect();
        work.sort_unstable();
        let total = work.iter().sum::<u128>() as f64;
        let top = work.iter().rev().take(work.len().div_ceil(10)).sum::<u128>() as f64;
        let first = rows.first().map_or(Instant::START, |row| row.submit);
        let span = rows.last().map_or(first, |row| row.submit) - first;
        let gaps: Vec<Duration> = rows.windows(2).map(|pair| pair[1].submit - pair[0].submit).collect();
        let tied_to = |index: usize| {
            let same =
                |other: Option<usize>| other.and_then(|o| rows.get(o)).is_some_and(|o| o.submit == rows[index].submit);
            same(index.checked_sub(1)) || same(Some(index + 1))
        };
        Stats {
            jobs: rows.len(),
            span_days: span.as_secs_f64() / 86_400.0,
            mean_gpus: rows.iter().map(|row| u64::from(row.gpus)).sum::<u64>() as f64 / rows.len() as f64,
            gpus,
            duration_s: Distribution::of(rows.iter().map(|row| row.duration).collect()),
            interarrival_s: Distribution::of(gaps),
            tied: (0..rows.len()).filter(|index| tied_to(*index)).count(),
            gpu_hours: total / SECOND.as_micros_f64() / 3600.0,
            offered_gpus: if !span.is_zero() { total / span.as_micros_f64() } else { 0.0 },
            top_tenth: if total > 0.0 { top / total } else { 0.0 },
        }
    }
}
