//! Priorities of a cluster's jobs as the model's whole numbers.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::document::{Association, Preempts, SourceKind, State};
use super::jobs::StateJob;

/// How far priorities of jobs of one tier are from those of the next at the same place in it, where jobs of a higher tier take GPUs from those of lower
/// ones: a policy is told so, and no change to a cluster may move it. Of priorities that change one of more than half of it stands at its tier's end.
pub const TIER_WIDTH: f64 = 134_217_728.0;

/// So many tiers there can be of that width; those above count as one.
const TIERS: f64 = 16.0;

/// Priorities by what jobs say: a job of a higher tier comes before any of a lower one.
pub(super) struct Ranks {
    by: BTreeMap<[u64; 3], i32>,
    tiers: BTreeMap<String, f64>,
    /// Whether tiers are those of qualities of service.
    by_quality: bool,
    /// Whether of jobs that are equal else the one that was submitted, or preempted, first comes first, as in Slurm.
    by_submission: bool,
    /// What fair share adds to the priority of a user's jobs, where the cluster says it.
    shares: BTreeMap<(Option<String>, Option<String>), f64>,
}

impl Ranks {
    /// Jobs that say no priority have 0, or what their users' fair share gives them. Priorities stay themselves where they are whole numbers, in higher tiers by so much more as keeps tiers apart, whatever age and
    /// usage will add; otherwise they are ranks above and below 0. Where they change, the model's greatest number stands for any above it.
    pub(super) fn of(state: &State) -> Ranks {
        let standings = state.standings();
        let by_quality = standings.is_some();
        let tiers = match standings {
            Some(all) => all.into_iter().map(|(name, stands)| (name.to_string(), stands as f64)).collect(),
            None => state.queues.iter().filter_map(|queue| Some((queue.name.clone(), queue.tier?))).collect(),
        };
        let changes = state.source.scheduler.as_ref().and_then(|of| of.priority.as_ref());
        let [age, fair_share] = [changes.and_then(|of| of.age), changes.and_then(|of| of.fair_share)]
            .map(|weight| weight.filter(|weight| *weight > 0.0 && weight.is_finite()).unwrap_or(0.0));
        let share = |of: &Association| {
            Some(((of.account.clone(), Some(of.user.clone()?)), libm::floor(fair_share * of.factor?)))
        };
        let shares = state.associations.iter().filter_map(share).collect();
        // In the model a job that may not start before a time comes at that time, behind those that are equal.
        let late = || state.jobs.iter().any(|job| job.not_before_s.is_some());
        let by_submission = age + fair_share == 0.0 && state.source.kind == SourceKind::Slurm && late();
        let mut ranks = Ranks { by: BTreeMap::new(), tiers, by_quality, by_submission, shares };
        let mut all: Vec<[f64; 3]> = state.jobs.iter().map(|job| ranks.stands(job)).collect();
        all.sort_by(in_order);
        all.dedup();
        let by_tier = state.source.scheduler.as_ref().is_some_and(|of| of.preempts == Some(Preempts::Tier));
        let in_widths = by_tier || by_quality;
        let lowest = all.iter().map(|of| of[1]).fold(0.0, f64::min);
        let apart = all.iter().map(|of| of[1]).fold(0.0, f64::max) - lowest + age + fair_share + 1.0;
        let apart = if in_widths { TIER_WIDTH } else { apart };
        let most = if in_widths { TIER_WIDTH / 2.0 - 1.0 } else { f64::from(i32::MAX) };
        let mut steps: Vec<f64> = all.iter().map(|of| of[0]).collect();
        steps.dedup();
        let most_steps = if in_widths { TIERS - 1.0 } else { f64::INFINITY };
        let step = |tier: f64| (steps.iter().position(|step| *step == tier).unwrap_or(0) as f64).min(most_steps);
        let is_whole = |[tier, priority, _]: &[f64; 3]| {
            let value = priority + step(*tier) * apart;
            *priority == libm::trunc(*priority) && priority.abs() <= most && value.abs() <= f64::from(i32::MAX)
        };
        let plain = age + fair_share > 0.0 || !by_submission && all.iter().all(is_whole);
        // Qualities of service say nothing of the order.
        let place = |of: &[f64; 3]| if by_quality { [0.0, of[1], of[2]] } else { *of };
        let mut places: Vec<[f64; 3]> = all.iter().map(place).collect();
        places.sort_by(in_order);
        places.dedup();
        let zero = places.iter().filter(|of| of[1] < 0.0).count();
        ranks.by = all
            .iter()
            .map(|of| {
                let [tier, priority, _] = of;
                let rank = || places.partition_point(|other| in_order(other, &place(of)).is_lt()) as f64 - zero as f64;
                let own = if plain { *priority } else { rank() };
                // Ranks are apart already.
                let above = if plain || in_widths { step(*tier) * apart } else { 0.0 };
                (of.map(f64::to_bits), (own.clamp(-most, most) + above) as i32)
            })
            .collect();
        ranks
    }

    /// The tier of a job's queue or quality of service, the highest of several, or the lowest of all where it is in none; its priority; and what tells it from others that are equal.
    fn stands(&self, job: &StateJob) -> [f64; 3] {
        let queues = if self.by_quality { &job.charges } else { &job.queues };
        let tiers = queues.iter().filter_map(|queue| self.tiers.get(queue).copied());
        let lowest = || self.tiers.values().copied().min_by(f64::total_cmp).unwrap_or(0.0);
        let share = || self.shares.get(&(job.account.clone(), job.user.clone())).copied().unwrap_or(0.0);
        let before = job.submitted_s.filter(|_| self.by_submission).map_or(0.0, |at| 0.0 - at);
        [tiers.max_by(f64::total_cmp).unwrap_or_else(lowest), job.priority.unwrap_or_else(share), before]
    }

    /// A job's priority.
    pub(super) fn priority(&self, job: &StateJob) -> i32 {
        self.by.get(&self.stands(job).map(f64::to_bits)).copied().unwrap_or(0)
    }
}

fn in_order(a: &[f64; 3], b: &[f64; 3]) -> Ordering {
    a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])).then(a[2].total_cmp(&b[2]))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ranks(changes: &Value, jobs: &[Value]) -> Vec<i32> {
        ranks_where(&json!({"priority": changes}), jobs)
    }

    fn ranks_where(scheduler: &Value, jobs: &[Value]) -> Vec<i32> {
        let state = state(scheduler, jobs);
        let ranks = Ranks::of(&state);
        state.jobs.iter().map(|job| ranks.priority(job)).collect()
    }

    fn state(scheduler: &Value, jobs: &[Value]) -> State {
        let queue = |name: &str, tier| json!({"name": name, "kind": "partition", "tier": tier});
        let job = |(at, of): (usize, &Value)| {
            let mut job = json!({"id": at.to_string(), "state": "waiting", "gpus": 1});
            of.as_object().expect("fields").iter().for_each(|(key, value)| job[key] = value.clone());
            job
        };
        serde_json::from_value(json!({
            "sandtable": "state@1", "at": "2026-11-20T00:00:00Z", "nodes": [], "reservations": [], "unknown": [], "ignored": [],
            "source": {"kind": "slurm", "scheduler": scheduler}, "queues": [queue("low", 1), queue("high", 2)],
            "associations": [{"account": "a"}, {"account": "a", "user": "u", "factor": 0.75}],
            "jobs": jobs.iter().enumerate().map(job).collect::<Vec<Value>>(),
        }))
        .expect("a state")
    }

    #[test]
    fn tiers_come_first_and_large_numbers_are_ranks_unless_they_change() {
        let in_tiers = [
            json!({"priority": 9, "queues": ["low"]}),
            json!({"priority": 2, "queues": ["high"]}),
            json!({"priority": -3, "queues": ["low"]}),
        ];
        assert_eq!(ranks(&Value::Null, &in_tiers), [9, 15, -3]);
        // So far apart that no age moves a job past a higher tier.
        assert_eq!(ranks(&json!({"age": 1000.0}), &in_tiers), [9, 1015, -3]);
        let large = [json!({"priority": 4_294_901_759_u32}), json!({"priority": 4_294_901_758_u32}), json!({})];
        assert_eq!(ranks(&Value::Null, &large), [2, 1, 0]);
        assert_eq!(ranks(&json!({"fair_share": 10.0}), &large), [i32::MAX, i32::MAX, 0]);
        // Where tiers preempt, what is one is told by a width alone.
        let preempts = json!({"preempts": "tier"});
        let width = TIER_WIDTH as i32;
        assert_eq!(ranks_where(&preempts, &in_tiers), [9, width + 2, -3]);
        assert_eq!(ranks_where(&preempts, &large), [2, 1, 0]);
        let changing = json!({"preempts": "tier", "priority": {"age": 10.0}});
        assert_eq!(ranks_where(&changing, &large), [width / 2 - 1, width / 2 - 1, 0]);
        // Qualities of service are as tiers: by them jobs take GPUs from others.
        let mut state = state(&json!({"preempts": "qos"}), &[]);
        let quality = |name: &str, preempts: &[&str]| json!({"name": name, "kind": "qos", "preempt": "requeue", "preempts": preempts});
        state.queues =
            [quality("a", &["b"]), quality("b", &[])].map(|of| serde_json::from_value(of).expect("a queue")).to_vec();
        let job =
            |charges: &str| json!({"id": charges, "state": "waiting", "gpus": 1, "priority": 5, "charges": [charges]});
        state.jobs = ["a", "b"].map(|of| serde_json::from_value(job(of)).expect("a job")).to_vec();
        let ranks_of = Ranks::of(&state);
        assert_eq!([0, 1].map(|at| ranks_of.priority(&state.jobs[at])), [width + 5, 5]);
        // Also where priorities are ranks.
        for (at, priority) in [(0, 4_294_901_758.0), (1, 4_294_901_759.0)] {
            state.jobs[at].priority = Some(priority);
        }
        let ranks_of = Ranks::of(&state);
        assert_eq!([0, 1].map(|at| ranks_of.priority(&state.jobs[at])), [width, 1]);
        // Slurm takes the one of equal jobs that was submitted first, also where it may not start yet.
        let equal = [
            json!({"priority": 5, "submitted_s": -50}),
            json!({"priority": 5, "submitted_s": -70, "state": "not-before", "not_before_s": 60}),
            json!({"priority": 5, "submitted_s": -60}),
            json!({"priority": 6, "submitted_s": -10}),
            json!({"priority": 5, "submitted_s": 0}),
        ];
        assert_eq!(ranks(&Value::Null, &equal), [1, 3, 2, 4, 0]);
        assert_eq!(ranks(&json!({"age": 10.0}), &equal), [5, 5, 5, 6, 5]);
        // In no queue it is in the lowest.
        let added = [json!({"priority": 1, "queues": ["low"]}), json!({"priority": 2})];
        assert_eq!(ranks_where(&preempts, &added), [1, 2]);
        // One that says no priority has what its user's share gives it.
        let added = [json!({"user": "u", "account": "a"}), json!({"user": "v", "account": "a"})];
        assert_eq!(ranks(&json!({"fair_share": 1000.0}), &added), [750, 0]);
    }
}
