//! ElasticFlow's own way (Gu et al., ASPLOS 2023, Algorithms 1 and 2): the least that jobs need to meet their deadlines, then what is left, one level
//! of one job at a time.

use crate::plan::{Ask, NEVER, Plan, Profile, Walk, slots};

/// Which job gets the next level of the GPUs that are left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spare {
    /// The one that takes the fewest GPU-seconds more for each GPU (the paper).
    Least,
    /// The one that takes the most (the artifact).
    Most,
}

impl Spare {
    pub(crate) const WORDS: &'static [&'static str] = &["least", "most"];

    pub(crate) fn named(word: &str) -> Spare {
        if word == "most" { Spare::Most } else { Spare::Least }
    }
}

/// The least share of a job: the smallest level with which it is done by its deadline, as late as that allows. With `now`, it has so many GPUs in the first
/// interval.
pub(crate) fn least(ask: &Ask, profile: &Profile, slot_s: f64, now: Option<u32>) -> Plan {
    let mut walk = Walk::new(ask, slot_s);
    let mut intervals: Vec<(u64, u64, u32)> = profile.intervals().collect();
    if let Some(gpus) = now {
        let (from, to, _) = intervals.remove(0);
        if let Some(end) = walk.go((from, to), ask.level(gpus)) {
            return walk.done(end);
        }
    }
    let share = suffices(ask, &intervals, slot_s, walk.left());
    for (at, (from, to, free)) in intervals.into_iter().enumerate() {
        let level = match share {
            _ if to == NEVER && share.is_none() => Some(ask.largest()),
            None => ask.level(free),
            Some(share) => ask.level(free.min(if at >= share.since { share.gpus } else { share.before })),
        };
        if let Some(end) = walk.go((from, to), level) {
            let plan = walk.done(end);
            return Plan { in_time: plan.in_time && share.is_some(), ..plan };
        }
    }
    unreachable!("in the last interval a job is done")
}

/// Levels of a least share.
#[derive(Clone, Copy)]
struct Share {
    gpus: u32,
    /// From which interval on; before it, the level below.
    since: usize,
    before: u32,
}

/// The smallest level with which so much is done by the deadline, backwards from it.
fn suffices(ask: &Ask, intervals: &[(u64, u64, u32)], slot_s: f64, left: f64) -> Option<Share> {
    if !ask.due.is_finite() {
        // It needs nothing before the others are done.
        return Some(Share { gpus: ask.levels[0].0, since: intervals.len() - 1, before: 0 });
    }
    let due = slots(ask.due.max(0.0), slot_s);
    let before_due = intervals.partition_point(|(from, ..)| *from < due);
    let mut before = 0;
    for (gpus, _) in &ask.levels {
        let mut done = 0.0;
        for at in (0..before_due).rev() {
            let (from, to, free) = intervals[at];
            if let Some((_, rate)) = ask.level(free.min(*gpus)) {
                let end = if to >= due { ask.due } else { to as f64 * slot_s };
                done += rate * (end - from as f64 * slot_s);
            }
            if done >= left {
                return Some(Share { gpus: *gpus, since: at, before });
            }
        }
        before = *gpus;
    }
    None
}

/// Lays out jobs, by deadline; returns their plans, whether all meet their deadlines, and what is free then.
pub(crate) fn lay_out(asks: &[Ask], gpus: u32, slot_s: f64) -> (Vec<Plan>, bool, Profile) {
    let mut profile = Profile::new(gpus);
    let mut plans = Vec::new();
    for ask in asks {
        let plan = least(ask, &profile, slot_s, None);
        profile.take(&plan);
        plans.push(plan);
    }
    let in_time = plans.iter().zip(asks).all(|(plan, ask)| plan.in_time || ask.due.is_infinite());
    (plans, in_time, profile)
}

/// A job with more GPUs now than in its plan.
struct Raise {
    /// Whether it has some already.
    holds: bool,
    /// GPU-slots more for each GPU more.
    marginal: f64,
    job: usize,
    plan: Plan,
}

/// Gives jobs more levels now while any fits. Returns the jobs in the order in which they come to be placed.
pub(crate) fn spend(asks: &[Ask], plans: &mut [Plan], mut profile: Profile, slot_s: f64, spare: Spare) -> Vec<usize> {
    let mut won: Vec<u32> = vec![0; asks.len()];
    let mut turn = 0;
    // Ties are for the job that came before in the last pass.
    let mut order: Vec<usize> = (0..asks.len()).collect();
    loop {
        let mut raises: Vec<Raise> = Vec::new();
        for job in &order {
            let (ask, plan) = (&asks[*job], &plans[*job]);
            let Some(next) = ask.next(plan.now()) else { continue };
            let mut free = profile.clone();
            free.give_back(plan);
            if free.now() < next {
                continue;
            }
            let raised = least(ask, &free, slot_s, Some(next));
            let more = raised.cost() as f64 - plan.cost() as f64;
            let marginal = more / f64::from(next - plan.now());
            let holds = plan.now() > 0;
            raises.push(Raise {
                holds,
                marginal: if spare == Spare::Most { -marginal } else { marginal },
                job: *job,
                plan: raised,
            });
        }
        raises.sort_by(|a, b| a.holds.cmp(&b.holds).then(a.marginal.total_cmp(&b.marginal)));
        let first: Vec<usize> = raises.iter().map(|raise| raise.job).collect();
        order.retain(|job| !first.contains(job));
        order = first.into_iter().chain(order).collect();
        let Some(raise) = raises.into_iter().next() else { break };
        profile.give_back(&plans[raise.job]);
        profile.take(&raise.plan);
        plans[raise.job] = raise.plan;
        turn += 1;
        won[raise.job] = turn;
    }
    let mut placed: Vec<usize> = (0..asks.len()).collect();
    placed.sort_by_key(|job| (std::cmp::Reverse(plans[*job].now()), won[*job]));
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Stay;

    fn ask(left: f64, due: f64) -> Ask {
        Ask { id: 0, left, levels: vec![(1, 1.0), (2, 1.5), (4, 2.0)], due }
    }

    #[test]
    fn a_job_has_the_least_that_meets_its_deadline() {
        let of = |left: f64, due: f64| least(&ask(left, due), &Profile::new(4), 10.0, None);
        assert_eq!(of(30.0, 35.0).stays, [Stay { from: 0, to: 3, gpus: 1 }]);
        assert_eq!(of(50.0, 35.0).stays, [Stay { from: 0, to: 4, gpus: 2 }]);
        assert!(of(70.0, 35.0).in_time && !of(71.0, 35.0).in_time);
    }

    #[test]
    fn what_is_left_goes_to_those_that_take_the_least_or_the_most_for_it() {
        let asks = [ask(100.0, 1000.0), Ask { levels: vec![(1, 1.0), (2, 1.9), (4, 3.6)], ..ask(100.0, 1000.0) }];
        let sizes = |spare: Spare| {
            let (mut plans, in_time, profile) = lay_out(&asks, 6, 10.0);
            assert!(in_time);
            spend(&asks, &mut plans, profile, 10.0, spare);
            [plans[0].now(), plans[1].now()]
        };
        assert_eq!(sizes(Spare::Least), [2, 4]);
        assert_eq!(sizes(Spare::Most), [4, 2]);
    }
}
