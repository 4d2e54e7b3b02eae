//! ElasticFlow's own way (Gu et al., ASPLOS 2023, Algorithms 1 and 2): the least that jobs need to meet their deadlines, then what is left, one level
//! of one job at a time.

use std::collections::BTreeSet;

use sandtable_policy::JobId;

use crate::plan::{Ask, NEVER, Plan, Profile, Walk, slots};

/// Which job gets the next level of the GPUs that are left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spare {
    /// The one that takes the fewest GPU-seconds more for each GPU (the paper).
    Least,
    /// The one that takes the most, as the artifact counts it, which looks at all jobs again after each.
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
            None => ask.level(free),
            Some(share) => ask.level(free.min(if at >= share.since { share.gpus } else { share.before })),
        };
        if let Some(end) = walk.go((from, to), level) {
            let mut plan = walk.done(end);
            plan.in_time &= share.is_some();
            let ends_before_due = to != NEVER && to as f64 * slot_s < ask.due;
            if let Some(last) = plan.stays.last().filter(|_| share.is_some() && ends_before_due) {
                plan.rest = (to - last.to) * u64::from(last.gpus);
            }
            return plan;
        }
    }
    walk.never()
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

/// Lays out jobs, by deadline; returns their plans, and what is free then.
pub(crate) fn lay_out(asks: &[Ask], free: &Profile, slot_s: f64) -> (Vec<Plan>, Profile) {
    let mut profile = free.clone();
    let mut plans = Vec::new();
    for ask in asks {
        let plan = least(ask, &profile, slot_s, None);
        profile.take(&plan);
        plans.push(plan);
    }
    (plans, profile)
}

/// Jobs of the plan that miss their deadlines.
fn late(asks: &[Ask], free: &Profile, slot_s: f64, without: &BTreeSet<JobId>) -> BTreeSet<JobId> {
    let asks: Vec<Ask> = asks.iter().filter(|ask| !without.contains(&ask.id)).cloned().collect();
    let plans = lay_out(&asks, free, slot_s).0;
    let late = |(ask, plan): &(&Ask, Plan)| ask.due.is_finite() && !plan.in_time;
    asks.iter().zip(plans).filter(late).map(|(ask, _)| ask.id).collect()
}

/// Of these jobs those that may be refused: a job without a deadline makes no other late.
fn with_deadline(asks: &[Ask], of: &BTreeSet<JobId>) -> BTreeSet<JobId> {
    asks.iter().filter(|ask| ask.due.is_finite() && of.contains(&ask.id)).map(|ask| ask.id).collect()
}

/// The new jobs, looked at one after the other, with which a job would miss its deadline that would not miss it otherwise.
pub(crate) fn refused(asks: &[Ask], free: &Profile, slot_s: f64, new: &BTreeSet<JobId>) -> BTreeSet<JobId> {
    if new.is_empty() {
        return BTreeSet::new();
    }
    let mut without = new.clone();
    let mut missed = late(asks, free, slot_s, &without);
    for id in new {
        without.remove(id);
        let then = late(asks, free, slot_s, &without);
        if then.is_subset(&missed) {
            missed = then;
        } else {
            without.insert(*id);
        }
    }
    with_deadline(asks, &without)
}

/// All new jobs unless, with them, every job meets its deadline, as in the artifact: while one is late, none is admitted.
pub(crate) fn refused_together(asks: &[Ask], free: &Profile, slot_s: f64, new: &BTreeSet<JobId>) -> BTreeSet<JobId> {
    match new.is_empty() || late(asks, free, slot_s, &BTreeSet::new()).is_empty() {
        true => BTreeSet::new(),
        false => with_deadline(asks, new),
    }
}

/// A job with more GPUs now than in its plan.
struct Raise {
    /// GPU-slots more for each GPU more.
    marginal: f64,
    plan: Plan,
}

/// The next level of a job now, if it fits.
fn raise(ask: &Ask, plan: &Plan, profile: &Profile, slot_s: f64, spare: Spare) -> Option<Raise> {
    let next = ask.next(plan.now())?;
    if profile.now() + plan.now() < next {
        return None;
    }
    let mut free = profile.clone();
    free.give_back(plan);
    let raised = least(ask, &free, slot_s, Some(next));
    let cost = |plan: &Plan| match spare {
        Spare::Least => plan.cost() as f64,
        Spare::Most => plan.cost() as f64 + plan.rest as f64,
    };
    let marginal = (cost(&raised) - cost(plan)) / f64::from(next - plan.now());
    let makes_late = plan.in_time && !raised.in_time;
    (spare == Spare::Most || !makes_late).then_some(Raise { marginal, plan: raised })
}

/// Gives jobs more levels now while any fits. Returns the jobs in the order in which they come to be placed.
pub(crate) fn spend(asks: &[Ask], plans: &mut [Plan], profile: Profile, slot_s: f64, spare: Spare) -> Vec<usize> {
    let mut placed = match spare {
        Spare::Least => give_to_least(asks, plans, profile, slot_s),
        Spare::Most => give_to_most(asks, plans, profile, slot_s),
    };
    placed.sort_by_key(|job| std::cmp::Reverse(plans[*job].now()));
    placed
}

/// The paper: jobs without GPUs first, then those that take the least; looks again at the job that it has just chosen. Returns the jobs as they won, those that did not first.
fn give_to_least(asks: &[Ask], plans: &mut [Plan], mut profile: Profile, slot_s: f64) -> Vec<usize> {
    let of = |job: usize, plans: &[Plan], profile: &Profile| {
        raise(&asks[job], &plans[job], profile, slot_s, Spare::Least).map(|raise| (plans[job].now() > 0, raise))
    };
    let mut won: Vec<usize> = vec![0; asks.len()];
    // Ties are for the job that came before in the last pass.
    let mut order: Vec<usize> = (0..asks.len()).collect();
    let mut raises: Vec<Option<(bool, Raise)>> = order.iter().map(|job| of(*job, plans, &profile)).collect();
    for turn in 1.. {
        let key = |job: usize| raises[job].as_ref().map(|(holds, raise)| (*holds, raise.marginal));
        order.sort_by(|a, b| match (key(*a), key(*b)) {
            (Some(a), Some(b)) => a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)),
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
        let Some(job) = order.first().copied().filter(|job| raises[*job].is_some()) else { break };
        // Others have taken GPUs since.
        if let Some((_, raise)) = of(job, plans, &profile) {
            profile.give_back(&plans[job]);
            profile.take(&raise.plan);
            plans[job] = raise.plan;
            won[job] = turn;
        }
        raises[job] = of(job, plans, &profile);
    }
    let mut jobs: Vec<usize> = (0..asks.len()).collect();
    jobs.sort_by_key(|job| won[*job]);
    jobs
}

/// The artifact: jobs without GPUs first, then those that take the most; looks again at all. Returns the jobs as they stood in the end: one that can have no more stands
/// where it last stood.
fn give_to_most(asks: &[Ask], plans: &mut [Plan], mut profile: Profile, slot_s: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..asks.len()).collect();
    let mut worth: Vec<f64> = vec![f64::NEG_INFINITY; asks.len()];
    if profile.now() == 0 {
        return order;
    }
    loop {
        let mut raises: Vec<Option<Raise>> = Vec::new();
        for (job, ask) in asks.iter().enumerate() {
            let raise = raise(ask, &plans[job], &profile, slot_s, Spare::Most);
            if ask.next(plans[job].now()).is_some() {
                let marginal = |raise: &Raise| if plans[job].now() == 0 { f64::INFINITY } else { raise.marginal };
                worth[job] = raise.as_ref().map_or(f64::NEG_INFINITY, marginal);
            }
            raises.push(raise);
        }
        // Ties are for the job that came before in the last pass.
        order.sort_by(|a, b| worth[*b].total_cmp(&worth[*a]));
        let Some((job, raise)) = order.iter().find_map(|job| Some((*job, raises[*job].take()?))) else { return order };
        profile.give_back(&plans[job]);
        profile.take(&raise.plan);
        plans[job] = raise.plan;
    }
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
            let (mut plans, profile) = lay_out(&asks, &Profile::new(6), 10.0);
            assert!(plans.iter().all(|plan| plan.in_time));
            spend(&asks, &mut plans, profile, 10.0, spare);
            [plans[0].now(), plans[1].now()]
        };
        assert_eq!(sizes(Spare::Least), [2, 4]);
        assert_eq!(sizes(Spare::Most), [4, 2]);
    }

    #[test]
    fn what_a_job_counts_beyond_its_end_is_of_an_interval_that_ends_before_it_is_due() {
        let mut profile = Profile::new(4);
        profile.take(&Plan { stays: vec![Stay { from: 10, to: 12, gpus: 1 }], in_time: true, rest: 0 });
        let of = |due: f64| least(&Ask { levels: vec![(2, 1.0)], ..ask(85.0, due) }, &profile, 10.0, None);
        let plan = of(120.0);
        assert_eq!((plan.stays.as_slice(), plan.rest), ([Stay { from: 0, to: 9, gpus: 2 }].as_slice(), 2));
        // One that is never due comes when all others are done, where no interval ends.
        let plan = of(f64::INFINITY);
        assert_eq!((plan.stays.last(), plan.rest), (Some(&Stay { from: 12, to: 21, gpus: 2 }), 0));
    }

    #[test]
    fn jobs_are_admitted_while_no_other_misses_its_deadline() {
        // Of four GPUs, the first takes all until its deadline, and the second, which has no chance, is late anyway.
        let job = |id: JobId, left: f64, due: f64| Ask { id, ..ask(left, due) };
        let asks = [
            job(0, 80.0, 40.0),
            job(1, 11.0, 45.0),
            job(2, 10.0, 60.0),
            job(3, 500.0, 70.0),
            job(4, 1.0, f64::INFINITY),
        ];
        let free = Profile::new(4);
        let new = BTreeSet::from([2, 3, 4]);
        assert_eq!(refused(&asks, &free, 10.0, &new), BTreeSet::from([3]));
        assert_eq!(refused_together(&asks, &free, 10.0, &new), BTreeSet::from([2, 3]));
        // Together, none is admitted while job 1 is late.
        assert_eq!(refused(&asks, &free, 10.0, &BTreeSet::from([2])), BTreeSet::new());
        assert_eq!(refused_together(&asks[..3], &free, 10.0, &BTreeSet::from([2])), BTreeSet::from([2]));
        assert_eq!(refused_together(&asks[2..3], &free, 10.0, &BTreeSet::from([2])), BTreeSet::new());
        assert_eq!(refused(&asks, &free, 10.0, &BTreeSet::new()), BTreeSet::new());
    }
}
