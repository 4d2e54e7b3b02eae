//! What is left of jobs, as events tell it, and when that brings them past each other.

use crate::line::Stand;
use crate::quota::QuotaOrder;
use crate::{Cluster, Instant, Job, JobId, NEVER};

/// What is left of a job, from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeLeft {
    /// µs; where it falls, the instant at which nothing is left.
    micros: u64,
    /// Whether it falls with the clock.
    falls: bool,
    /// What a µs counts.
    pub(crate) weight: u32,
}

impl TimeLeft {
    /// What an event of that instant tells of a job: of one that holds GPUs it falls.
    pub(crate) fn told(job: &Job, at: Instant, left: u64, weight: u32) -> TimeLeft {
        let falls = job.holds() && left < NEVER;
        let micros = match left {
            NEVER => u64::MAX,
            left if falls => at + left,
            left => left,
        };
        TimeLeft { micros, falls, weight }
    }

    /// Nothing is left, and what is left does not fall any more.
    pub(crate) fn over(self) -> TimeLeft {
        TimeLeft { micros: 0, falls: false, ..self }
    }

    /// When nothing is left, where that comes by itself.
    pub(crate) fn end(&self) -> Option<Instant> {
        self.falls.then_some(self.micros)
    }

    /// µs that are left at an instant.
    fn at(&self, now: Instant) -> u64 {
        if self.falls { self.micros.saturating_sub(now) } else { self.micros }
    }

    /// What is left at an instant, as it counts.
    pub(crate) fn counts(&self, now: Instant) -> u64 {
        let (left, weight) = (self.at(now), u64::from(self.weight));
        // A product that fits for sure: to saturate takes a product of 128 bits, for which WebAssembly has no instruction.
        match left.leading_zeros() + weight.leading_zeros() >= 64 {
            true => left * weight,
            false if weight == 1 => left,
            false => left.saturating_mul(weight),
        }
    }

    /// Seconds that are left at an instant; NaN: unknown.
    pub(crate) fn seconds(&self, now: Instant) -> f64 {
        let micros = self.at(now);
        if micros == u64::MAX { f64::NAN } else { micros as f64 / 1e6 }
    }
}

/// The earliest moment, in seconds from now, at which what is left of a job that holds GPUs falls below that of an unplaced job before it.
/// The unplaced jobs are in order.
pub(crate) fn next_change<K>(
    cluster: &Cluster,
    order: &impl QuotaOrder<K>,
    stand: impl Fn(JobId) -> Option<Stand<K>>,
    seconds: impl Fn(&K) -> f64,
    unplaced: &[JobId],
) -> Option<f64> {
    let unplaced: Vec<Stand<K>> = unplaced.iter().filter_map(|id| stand(*id)).collect();
    if unplaced.is_empty() {
        return None;
    }
    let gap = |holder: Stand<K>| {
        let before = unplaced.partition_point(|other| order.order(other, &holder).is_lt());
        let bar = seconds(&unplaced[before.checked_sub(1)?].0);
        let gap = seconds(&holder.0) - bar;
        (!gap.is_nan()).then(|| gap.max(0.0))
    };
    cluster.holders().filter_map(|job| gap(stand(job.id)?)).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_times_its_weight_saturates() {
        let edges = |bits: u32| (0..=bits).map(|bit| 1u128 << bit).flat_map(|edge| [edge - 1, edge, edge + 1]);
        for micros in edges(64).filter_map(|edge| u64::try_from(edge).ok()) {
            for weight in edges(32).filter_map(|edge| u32::try_from(edge).ok()) {
                let left = TimeLeft { micros, falls: false, weight };
                assert_eq!(left.counts(0), micros.saturating_mul(weight.into()), "{micros} x {weight}");
            }
        }
    }
}
