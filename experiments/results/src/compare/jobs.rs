//! The jobs of a comparison: which completed on both sides, and whose completion time changed most.

use std::collections::{BTreeMap, VecDeque};

use sandtable_core::display::span;
use sandtable_core::error::Error;
use sandtable_runtime::{Distribution, Summary};

use super::{Comparison, Pair};
use crate::reader;
use crate::schema::JobRecord;
use crate::store::Store;

/// How a metric of completion times is read of their distribution.
pub(super) fn of_completion_times(metric: &str) -> Option<fn(&Distribution) -> f64> {
    Some(match metric {
        "jct_mean_s" => |jct| jct.mean,
        "jct_median_s" => |jct| jct.median,
        "jct_p95_s" => |jct| jct.p95,
        "jct_p99_s" => |jct| jct.p99,
        "jct_max_s" => |jct| jct.max,
        _ => return None,
    })
}

impl Comparison {
    /// Jobs that did not complete, by side, and all of a side.
    fn left_behind(&self) -> ([usize; 2], usize) {
        let lost = |summary: &Summary| summary.jobs - summary.completed;
        let of = |side: usize| self.pairs.iter().map(|pair| lost(&pair.summaries[side])).sum();
        ([of(0), of(1)], self.pairs.iter().map(|pair| pair.summaries[0].jobs).sum())
    }

    /// Whether a side left jobs behind, or lost other jobs than the other side.
    pub(super) fn is_of_other_jobs(&self) -> bool {
        let starves = |pair: &Pair| pair.summaries.iter().any(|summary| summary.left_by_policy() > 0);
        let ([first, second], _) = self.left_behind();
        first != second || self.pairs.iter().any(starves)
    }

    /// The completion times of the jobs that completed on both sides, by pair and side; none where a pair has no such job. A
    /// policy that starves the long jobs would else look good.
    pub(super) fn common(&self, store: &Store) -> Result<Option<Vec<[Distribution; 2]>>, Error> {
        let mut all = Vec::new();
        for pair in &self.pairs {
            let both = on_both_sides(store, pair)?;
            if both.is_empty() {
                return Ok(None);
            }
            let of = |get: fn(&(f64, f64)) -> f64| Distribution::of_numbers(both.iter().map(get).collect());
            all.push([of(|jcts| jcts.0), of(|jcts| jcts.1)]);
        }
        Ok(Some(all))
    }

    /// What a reader must know of jobs that never ended; empty where all did.
    pub fn caution(&self) -> String {
        if !self.is_of_other_jobs() {
            return String::new();
        }
        let ([first, second], all) = self.left_behind();
        format!(
            "* {first} of {all} jobs never completed under {}, {second} under {}: completion times are compared on the jobs that \
             completed under both, other times are left out\n",
            self.names[0], self.names[1]
        )
    }
}

/// Completion times of the jobs that ended on both sides.
fn on_both_sides(store: &Store, pair: &Pair) -> Result<Vec<(f64, f64)>, Error> {
    let [first, second] =
        [reader::measured_jobs(store, &pair.sides[0].id)?, reader::measured_jobs(store, &pair.sides[1].id)?];
    let both = matched(&first, &second).0;
    Ok(both.iter().filter_map(|(a, b)| Some((a.jct()?, b.jct()?))).collect())
}

/// Rows of one job on both sides that completed on both, and the names of those that completed on one.
fn matched<'a>(first: &'a [JobRecord], second: &'a [JobRecord]) -> (Vec<(&'a JobRecord, &'a JobRecord)>, Vec<String>) {
    // A trace may give a name twice: the first is then the first of the other side.
    let mut others: BTreeMap<&str, VecDeque<&JobRecord>> = BTreeMap::new();
    second.iter().for_each(|row| others.entry(&row.job_id).or_default().push_back(row));
    let (mut both, mut once) = (Vec::new(), Vec::new());
    for row in first {
        let Some(other) = others.get_mut(row.job_id.as_str()).and_then(VecDeque::pop_front) else { continue };
        match (row.jct(), other.jct()) {
            (Some(_), Some(_)) => both.push((row, other)),
            (None, None) => {}
            _ => once.push(row.job_id.clone()),
        }
    }
    (both, once)
}

/// A job on both sides.
pub struct JobChange {
    /// Its name.
    pub job: String,
    /// Its completion times, seconds.
    pub jct: [f64; 2],
    /// What made the difference.
    pub why: String,
}

/// The jobs of a pair.
pub struct Jobs {
    /// Those whose completion time changed most.
    pub changed: Vec<JobChange>,
    /// How many completed on both sides.
    pub common: usize,
    /// Names of those that completed on one side alone.
    pub once: Vec<String>,
}

/// The jobs of a pair that changed most.
///
/// # Errors
/// Files that can't be read.
pub fn jobs(store: &Store, pair: &Pair, most: usize) -> Result<Jobs, Error> {
    let [first, second] =
        [reader::measured_jobs(store, &pair.sides[0].id)?, reader::measured_jobs(store, &pair.sides[1].id)?];
    let (both, once) = matched(&first, &second);
    let change = |(a, b): (&'_ JobRecord, &'_ JobRecord)| (b.jct().unwrap_or(0.0) - a.jct().unwrap_or(0.0)).abs();
    let mut both: Vec<(f64, &JobRecord, &JobRecord)> =
        both.into_iter().map(|pair| (change(pair), pair.0, pair.1)).collect();
    let common = both.len();
    // By the change; among equals in the order of the trace.
    both.sort_by(|a, b| b.0.total_cmp(&a.0));
    both.retain(|(change, ..)| *change > 0.0);
    let changes = both.into_iter().take(most).map(|(_, a, b)| JobChange {
        job: a.job_id.clone(),
        jct: [a.jct().unwrap_or(f64::NAN), b.jct().unwrap_or(f64::NAN)],
        why: why(a, b),
    });
    Ok(Jobs { changed: changes.collect(), common, once })
}

/// What of a job's life changed, the largest part first.
fn why(a: &JobRecord, b: &JobRecord) -> String {
    let rest = |row: &JobRecord| row.jct().unwrap_or(0.0) - row.wait().unwrap_or(0.0) - row.held_s.f64();
    let mut parts = [
        (b.wait().unwrap_or(0.0) - a.wait().unwrap_or(0.0), "for its first GPUs"),
        (b.held_s.since(a.held_s), "on GPUs"),
        (rest(b) - rest(a), "put aside"),
    ];
    parts.sort_by(|x, y| y.0.abs().total_cmp(&x.0.abs()));
    let mut words: Vec<String> = parts
        .iter()
        .filter(|(change, _)| change.abs() >= 0.5)
        .map(|(change, what)| format!("{} {} {what}", span(change.abs()), if *change < 0.0 { "less" } else { "more" }))
        .collect();
    if a.preemptions != b.preemptions {
        words.push(format!("{} preemptions, not {}", b.preemptions, a.preemptions));
    }
    words.join(", ")
}
