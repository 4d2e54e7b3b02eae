//! The order in which jobs are tried, and the clustered queues of Horus+, after the authors' simulator.

use sandtable_policy::{Draws, Instant, JobId};

/// The order of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Lowest predicted utilisation first.
    UtilAsc,
    /// Highest first.
    UtilDesc,
    /// First come, first served.
    Fifo,
}

impl Order {
    /// The words by which configurations name them.
    pub const WORDS: &'static [&'static str] = &["util-asc", "util-desc", "fifo"];

    /// The order of a word.
    pub fn named(word: &str) -> Order {
        match word {
            "util-desc" => Order::UtilDesc,
            "fifo" => Order::Fifo,
            _ => Order::UtilAsc,
        }
    }

    /// Rank of a job: utilisation, submission, id.
    pub fn rank(self, util_avg: f64, submitted: Instant, id: JobId) -> (u64, Instant, JobId) {
        // Predicted utilisations are not negative: their bits are in their order.
        let bits = util_avg.max(0.0).to_bits();
        match self {
            Order::UtilAsc => (bits, submitted, id),
            Order::UtilDesc => (u64::MAX - bits, submitted, id),
            Order::Fifo => (0, submitted, id),
        }
    }
}

/// What a queue of so many jobs may claim, given their waits in ticks by position, sorted either way: nothing if it is
/// empty; as much as it has jobs if their median wait is below a tick; else the median wait times their number.
pub fn credit(count: usize, wait: impl Fn(usize) -> f64) -> f64 {
    let middle = count / 2;
    let median = match (count, count % 2) {
        (0, _) => return 0.0,
        (_, 1) => wait(middle),
        _ => (wait(middle - 1) + wait(middle)) / 2.0,
    };
    if median < 1.0 { count as f64 } else { median * count as f64 }
}

/// The queue with the largest credit; ties to the lowest. None where all are empty.
pub fn richest(credits: &[f64]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (at, credit) in credits.iter().enumerate().filter(|(_, credit)| **credit > 0.0) {
        if best.is_none_or(|known| *credit > credits[known]) {
            best = Some(at);
        }
    }
    best
}

/// Most rounds of a clustering.
const ROUNDS: usize = 1_000;

/// Parts rows into `count` clusters: k-means by L1 distance from random members. A row counts as many members as
/// its weight says. A centroid is the member whose sum of features is nearest to the mean of the sums, as in the
/// authors' code; an empty cluster takes a random member. Ties to the lowest.
pub fn cluster(rows: &[Vec<f64>], weights: &[usize], count: usize, draws: &mut Draws) -> Vec<usize> {
    if rows.is_empty() || count < 2 {
        return vec![0; rows.len()];
    }
    let members: usize = weights.iter().sum();
    let mut pick = || {
        let mut at = draws.below(members);
        let row = weights.iter().position(|weight| {
            let here = at < *weight;
            at = at.wrapping_sub(*weight);
            here
        });
        row.unwrap_or(0)
    };
    let scaled = normalised(rows);
    let sums: Vec<f64> = scaled.iter().map(|row| row.iter().sum()).collect();
    let mut centroids: Vec<usize> = (0..count).map(|_| pick()).collect();
    let mut of = vec![usize::MAX; rows.len()];
    for _ in 0..ROUNDS {
        let nearest = |row: &[f64]| {
            let distance =
                |at: &usize| -> f64 { row.iter().zip(&scaled[centroids[*at]]).map(|(a, b)| (a - b).abs()).sum() };
            (0..count).min_by(|a, b| distance(a).total_cmp(&distance(b)).then(a.cmp(b))).unwrap_or(0)
        };
        let next: Vec<usize> = scaled.iter().map(|row| nearest(row)).collect();
        if next == of {
            break;
        }
        of = next;
        for (at, centroid) in centroids.iter_mut().enumerate() {
            let members: Vec<usize> = (0..rows.len()).filter(|row| of[*row] == at).collect();
            if members.is_empty() {
                *centroid = pick();
                continue;
            }
            let weight = |row: &usize| weights[*row] as f64;
            let total: f64 = members.iter().map(weight).sum();
            let mean = members.iter().map(|row| sums[*row] * weight(row)).sum::<f64>() / total;
            let gap = |row: &usize| (sums[*row] - mean).abs();
            let best = members.into_iter().min_by(|a, b| gap(a).total_cmp(&gap(b)).then(a.cmp(b)));
            *centroid = best.unwrap_or(*centroid);
        }
    }
    of
}

/// Every feature as a part of its range: in raw units memory would decide alone.
fn normalised(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let width = rows[0].len();
    let ranges: Vec<(f64, f64)> = (0..width)
        .map(|at| {
            let values = rows.iter().map(|row| row[at]);
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
        })
        .collect();
    let part = |x: f64, (low, high): (f64, f64)| if high > low { (x - low) / (high - low) } else { 0.0 };
    rows.iter().map(|row| row.iter().zip(&ranges).map(|(x, range)| part(*x, *range)).collect()).collect()
}
