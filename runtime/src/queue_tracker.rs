//! What queues hold and ask for over time, and what they deserve.

use std::collections::BTreeMap;

use sandtable_hardware::{Duration, Fleet, GpuId, JobId, Queue, QueueId, queue_and_groups};

use crate::reclaims::{Member, Reclaims};

/// What a queue may have of the GPUs of its group.
#[derive(Clone, Copy, Debug)]
pub struct QueueClaim {
    /// Higher is served first.
    pub priority: i32,
    /// GPUs that it may always have; infinite: all.
    pub guaranteed: f64,
    /// Its part of the rest.
    pub weight: f64,
    /// GPUs that its live jobs ask for, up to its limit.
    pub usable: f64,
}

/// The GPUs that each queue of a group deserves: what it is guaranteed, as far as it can use it, and of the rest, the highest priority first,
/// a part by weight, of which the others get what it can't use. (KAI-Scheduler's rule, but for its rounding to whole GPUs.)
///
/// ```
/// use sandtable_runtime::{QueueClaim, deserved};
///
/// let claim = |guaranteed: f64, weight: f64, usable: f64| QueueClaim { priority: 0, guaranteed, weight, usable };
/// // 10 GPUs: 4 are guaranteed; of the other 6 the last can use 1, and the first two share 5 by 1:3.
/// let claims = [claim(4.0, 1.0, 20.0), claim(0.0, 3.0, 20.0), claim(0.0, 6.0, 1.0)];
/// assert_eq!(deserved(10.0, &claims), [5.25, 3.75, 1.0]);
/// ```
pub fn deserved(total: f64, claims: &[QueueClaim]) -> Vec<f64> {
    let mut shares: Vec<f64> = claims.iter().map(|claim| claim.guaranteed.min(total).min(claim.usable)).collect();
    let mut left = (total - shares.iter().sum::<f64>()).max(0.0);
    let mut priorities: Vec<i32> = claims.iter().map(|claim| claim.priority).collect();
    priorities.sort_unstable_by_key(|priority| std::cmp::Reverse(*priority));
    priorities.dedup();
    for priority in priorities {
        // Those that want the least of their weight are served first: what they leave goes to the others.
        let wants = |at: usize| (claims[at].usable - shares[at]) / claims[at].weight;
        let mut open: Vec<(f64, usize)> = (0..claims.len())
            .filter(|at| claims[*at].priority == priority && claims[*at].weight > 0.0)
            .map(|at| (wants(at), at))
            .filter(|(wants, _)| *wants > 0.0)
            .collect();
        open.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        // The weights from each on, summed from the end: to take them off a sum of all would leave what rounding leaves.
        let from_the_end = open.iter().rev().scan(0.0, |sum: &mut f64, (_, at)| {
            *sum += claims[*at].weight;
            Some(*sum)
        });
        let weights: Vec<f64> = from_the_end.collect();
        for ((_, at), weights) in open.into_iter().zip(weights.into_iter().rev()) {
            let part = left * (claims[at].weight / weights).min(1.0);
            let gets = part.min(claims[at].usable - shares[at]);
            shares[at] += gets;
            left -= gets;
        }
    }
    shares
}

/// GPU-µs of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueIntegrals {
    pub(crate) held: f64,
    pub(crate) deserved: f64,
    pub(crate) borrowed: f64,
    pub(crate) short: f64,
    pub(crate) reclaimed: f64,
    pub(crate) given_up: f64,
}

/// What queues hold and ask for, and the integrals of it.
pub(crate) struct QueueTracker {
    pub(crate) queues: Vec<Queue>,
    /// Those at the top, and then those in each group, after the group.
    levels: Vec<(Option<QueueId>, Vec<QueueId>)>,
    /// GPUs of the fleet.
    total: f64,
    /// By queue, those in a group counted in it too, in thousandths of a GPU: held, and asked for by live jobs.
    held: Vec<u64>,
    asked: Vec<u64>,
    /// Held by jobs in no queue.
    outside: u64,
    reclaims: Reclaims,
    /// GPUs; none since something has changed.
    deserved: Option<Vec<f64>>,
    pub(crate) areas: Vec<QueueIntegrals>,
    /// Up to when GPUs were last let go.
    pub(crate) active: Vec<QueueIntegrals>,
}

impl QueueTracker {
    /// None where a fleet has no queues.
    pub(crate) fn of(fleet: &Fleet) -> Option<QueueTracker> {
        let count = fleet.queues.len();
        let mut members: BTreeMap<Option<QueueId>, Vec<QueueId>> = BTreeMap::new();
        for id in QueueId::first(count) {
            members.entry(fleet.queues[id].parent).or_default().push(id);
        }
        (count > 0).then(|| QueueTracker {
            queues: fleet.queues.clone(),
            levels: members.into_iter().collect(),
            total: f64::from(fleet.gpus()),
            held: vec![0; count],
            asked: vec![0; count],
            outside: 0,
            reclaims: Reclaims::new(count),
            deserved: None,
            areas: vec![QueueIntegrals::default(); count],
            active: vec![QueueIntegrals::default(); count],
        })
    }

    /// A job comes to ask for so many thousandths of a GPU, or does not any more.
    pub(crate) fn asks(&mut self, queue: Option<QueueId>, milli: u64, comes: bool) {
        for id in queue.into_iter().flat_map(|queue| queue_and_groups(&self.queues, queue)) {
            shift(&mut self.asked[id], milli, comes);
        }
        self.deserved = None;
    }

    /// The policy preempts a job.
    pub(crate) fn preempted(&mut self, job: JobId) {
        self.reclaims.preempted(job);
    }

    /// A job is given GPUs, or waits no more.
    pub(crate) fn goes_on(&mut self, job: JobId) {
        self.reclaims.goes_on(&self.queues, job);
    }

    /// A job comes to hold so many thousandths of a GPU.
    pub(crate) fn comes(&mut self, gpu: GpuId, job: Member, milli: u64) {
        self.reclaims.comes(&self.queues, gpu, job, milli);
        self.holds(job.1, milli, true);
    }

    /// It does not hold them any more.
    pub(crate) fn leaves(&mut self, gpu: GpuId, job: Member, milli: u64) {
        self.reclaims.leaves(&self.queues, gpu, job, milli);
        self.holds(job.1, milli, false);
    }

    fn holds(&mut self, queue: Option<QueueId>, milli: u64, comes: bool) {
        match queue {
            None => {
                shift(&mut self.outside, milli, comes);
                // It is not shared out among the queues.
                self.deserved = None;
            }
            Some(queue) => {
                queue_and_groups(&self.queues, queue).for_each(|id| shift(&mut self.held[id], milli, comes));
            }
        }
    }

    /// A stretch of the window passes.
    pub(crate) fn advance(&mut self, span: Duration) {
        if span.is_zero() {
            return;
        }
        let deserved = self.deserved.take().unwrap_or_else(|| self.deserve());
        let span = span.as_micros_f64();
        for (at, areas) in self.areas.iter_mut().enumerate() {
            let (held, deserved) = (gpus(self.held[at]), deserved[at]);
            areas.held += held * span;
            areas.deserved += deserved * span;
            areas.borrowed += (held - self.queues[at].guaranteed).max(0.0) * span;
            areas.short += (deserved - held).max(0.0) * span;
            areas.reclaimed += gpus(self.reclaims.reclaimed[at]) * span;
            areas.given_up += gpus(self.reclaims.given_up[at]) * span;
        }
        self.deserved = Some(deserved);
    }

    /// GPUs were let go: until now the run counts.
    pub(crate) fn let_go(&mut self) {
        self.active.clone_from(&self.areas);
    }

    /// Level by level: a group comes before those in it.
    fn deserve(&self) -> Vec<f64> {
        let mut all = vec![0.0; self.queues.len()];
        let top = (self.total - gpus(self.outside)).max(0.0);
        for (group, members) in &self.levels {
            let claim = |id: &QueueId| {
                let Queue { priority, guaranteed, weight, limit, .. } = self.queues[*id];
                QueueClaim { priority, guaranteed, weight, usable: gpus(self.asked[*id]).min(limit) }
            };
            let claims: Vec<QueueClaim> = members.iter().map(claim).collect();
            let total = group.map_or(top, |group| all[group]);
            members.iter().zip(deserved(total, &claims)).for_each(|(id, share)| all[*id] = share);
        }
        all
    }
}

fn gpus(milli: u64) -> f64 {
    milli as f64 / 1000.0
}

fn shift(of: &mut u64, milli: u64, comes: bool) {
    *of = if comes { *of + milli } else { *of - milli };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claims() -> impl Strategy<Value = Vec<QueueClaim>> {
        let weight = prop_oneof![Just(0.0), Just(1e-11), Just(1.0), Just(2.0), Just(3.0), Just(1e6)];
        let claim = (0..3i32, 0..8u32, weight, 0..30u32).prop_map(|(priority, guaranteed, weight, usable)| {
            QueueClaim { priority, guaranteed: f64::from(guaranteed) / 2.0, weight, usable: f64::from(usable) }
        });
        proptest::collection::vec(claim, 1..8)
    }

    proptest! {
        /// Each has what it is guaranteed and can use, none has more than it can use, and nothing is left over that one with a weight
        /// could use; within a priority none gets more for its weight than one that still wants.
        #[test]
        fn what_queues_deserve_is_shared_out(claims in claims(), total in 0..60u32) {
            let (total, tiny) = (f64::from(total), 1e-9);
            let shares = deserved(total, &claims);
            let guaranteed = |claim: &QueueClaim| claim.guaranteed.min(claim.usable).min(total);
            let mut wants = false;
            for (share, claim) in shares.iter().zip(&claims) {
                prop_assert!(*share >= guaranteed(claim) - tiny && *share <= claim.usable + tiny, "{share} of {claim:?}");
                wants |= claim.weight > 0.0 && *share < claim.usable - tiny;
            }
            let sum: f64 = shares.iter().sum();
            let promised: f64 = claims.iter().map(guaranteed).sum();
            prop_assert!(sum <= total.max(promised) + tiny);
            prop_assert!(!wants || sum >= total - tiny, "{sum} of {total}: {shares:?}");
            for (a, first) in claims.iter().enumerate().filter(|(at, of)| shares[*at] < of.usable - tiny && of.weight > 0.0) {
                for (b, other) in claims.iter().enumerate().filter(|(_, of)| of.weight > 0.0) {
                    let beyond = |at: usize| shares[at] - guaranteed(&claims[at]);
                    match other.priority.cmp(&first.priority) {
                        std::cmp::Ordering::Equal => {
                            let (more, less) = (beyond(b) * first.weight, beyond(a) * other.weight);
                            prop_assert!(more <= less + tiny * first.weight.max(other.weight), "{other:?} beside {first:?}");
                        }
                        std::cmp::Ordering::Less => prop_assert!(beyond(b) <= tiny, "{other:?} before {first:?}"),
                        std::cmp::Ordering::Greater => {}
                    }
                }
            }
        }
    }
}
