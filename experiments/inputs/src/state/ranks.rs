//! Priorities of a cluster's jobs as the model's whole numbers.

use std::collections::BTreeMap;

use super::document::State;
use super::jobs::StateJob;

/// Priorities by what jobs say: a job of a higher tier comes before any of a lower one.
pub(super) struct Ranks {
    by: BTreeMap<(u64, u64), i32>,
    tiers: BTreeMap<String, f64>,
}

impl Ranks {
    /// Jobs that say no priority have 0. Priorities stay themselves where they are whole numbers, in higher tiers by so much more as keeps tiers apart; otherwise they are ranks above and below 0.
    pub(super) fn of(state: &State) -> Ranks {
        let tiers = state.queues.iter().filter_map(|queue| Some((queue.name.clone(), queue.tier?))).collect();
        let mut ranks = Ranks { by: BTreeMap::new(), tiers };
        let mut all: Vec<(f64, f64)> = state.jobs.iter().map(|job| ranks.stands(job)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        all.dedup();
        let lowest = all.iter().map(|(_, priority)| *priority).fold(0.0, f64::min);
        let apart = all.iter().map(|(_, priority)| *priority).fold(0.0, f64::max) - lowest + 1.0;
        let mut steps: Vec<f64> = all.iter().map(|(tier, _)| *tier).collect();
        steps.dedup();
        let step = |tier: f64| steps.iter().position(|step| *step == tier).unwrap_or(0) as f64;
        let is_whole = |(tier, priority): &(f64, f64)| {
            let value = priority + step(*tier) * apart;
            *priority == libm::trunc(*priority) && value.abs() <= f64::from(i32::MAX)
        };
        let plain = all.iter().all(is_whole);
        let zero = all.partition_point(|(_, priority)| *priority < 0.0) as i32;
        ranks.by = (0..)
            .zip(&all)
            .map(|(rank, (tier, priority))| {
                let value = if plain { (priority + step(*tier) * apart) as i32 } else { rank - zero };
                ((tier.to_bits(), priority.to_bits()), value)
            })
            .collect();
        ranks
    }

    /// The tier of a job's queue, the highest of several, and its priority.
    fn stands(&self, job: &StateJob) -> (f64, f64) {
        let tiers = job.queues.iter().filter_map(|queue| self.tiers.get(queue).copied());
        (tiers.fold(0.0, f64::max), job.priority.unwrap_or(0.0))
    }

    /// A job's priority.
    pub(super) fn priority(&self, job: &StateJob) -> i32 {
        let (tier, priority) = self.stands(job);
        self.by.get(&(tier.to_bits(), priority.to_bits())).copied().unwrap_or(0)
    }
}
