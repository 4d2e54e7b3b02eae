//! Plans of elastic jobs over slots of time: which GPUs are free when, and what each job does with them.

use sandtable_policy::JobId;

/// A live job, as plans need it.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) id: JobId,
    /// Iterations left.
    pub(crate) left: f64,
    /// Numbers of GPUs that it may have, ascending, and iterations a second with each; never empty.
    pub(crate) levels: Vec<(u32, f64)>,
    /// Seconds until its deadline; infinite: it has none.
    pub(crate) due: f64,
}

impl Ask {
    /// Its largest level of at most so many GPUs.
    pub(crate) fn level(&self, most: u32) -> Option<(u32, f64)> {
        self.levels.iter().copied().take_while(|(gpus, _)| *gpus <= most).last()
    }

    /// Its next level above so many GPUs.
    pub(crate) fn next(&self, gpus: u32) -> Option<u32> {
        self.levels.iter().map(|(level, _)| *level).find(|level| *level > gpus)
    }
}

/// The number of the slot that never begins.
pub(crate) const NEVER: u64 = u64::MAX;

/// GPUs that a job has from one slot until another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stay {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) gpus: u32,
}

/// What a job does from now on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// One after the other, the first from slot 0 on.
    pub(crate) stays: Vec<Stay>,
    /// Whether it meets its deadline.
    pub(crate) in_time: bool,
    /// GPUs times slots for which it holds the GPUs of its last interval until that is over, beyond the job's end.
    pub(crate) rest: u64,
}

impl Plan {
    /// GPUs that it has now.
    pub(crate) fn now(&self) -> u32 {
        self.stays.first().map_or(0, |stay| stay.gpus)
    }

    /// GPUs times slots.
    pub(crate) fn cost(&self) -> u64 {
        let of = |stay: &Stay| stay.to.saturating_sub(stay.from).saturating_mul(u64::from(stay.gpus));
        self.stays.iter().fold(0, |sum, stay| sum.saturating_add(of(stay)))
    }

    /// The slot with which it is over.
    pub(crate) fn end(&self) -> Option<u64> {
        self.stays.last().map(|stay| stay.to)
    }

    /// The slot in which it first has another number of GPUs than now.
    pub(crate) fn changes(&self) -> Option<u64> {
        self.stays.iter().find(|stay| stay.gpus != self.now()).map(|stay| stay.from)
    }
}

/// Free GPUs by the slot from which on there are so many, ascending, the first from 0 on; all are free in the end. Intervals are as long as they can be.
#[derive(Clone)]
pub(crate) struct Profile(Vec<(u64, u32)>);

impl Profile {
    pub(crate) fn new(gpus: u32) -> Profile {
        Profile(vec![(0, gpus)])
    }

    /// From which slot, until which, and how many.
    pub(crate) fn intervals(&self) -> impl Iterator<Item = (u64, u64, u32)> + '_ {
        let ends = self.0.iter().skip(1).map(|(from, _)| *from).chain([NEVER]);
        self.0.iter().zip(ends).map(|((from, free), to)| (*from, to, *free))
    }

    /// GPUs that are free now.
    pub(crate) fn now(&self) -> u32 {
        self.0[0].1
    }

    pub(crate) fn take(&mut self, plan: &Plan) {
        self.change(plan, |free, gpus| free - gpus);
    }

    pub(crate) fn give_back(&mut self, plan: &Plan) {
        self.change(plan, |free, gpus| free + gpus);
    }

    fn change(&mut self, plan: &Plan, with: impl Fn(u32, u32) -> u32) {
        for stay in &plan.stays {
            let (from, to) = (self.split(stay.from), self.split(stay.to));
            self.0[from..to].iter_mut().for_each(|(_, free)| *free = with(*free, stay.gpus));
        }
        self.0.dedup_by_key(|(_, free)| *free);
    }

    /// Where the interval begins that begins in this slot, once there is one.
    fn split(&mut self, slot: u64) -> usize {
        let at = self.0.partition_point(|(from, _)| *from < slot);
        if slot != NEVER && self.0.get(at).is_none_or(|(from, _)| *from != slot) {
            self.0.insert(at, (slot, self.0[at - 1].1));
        }
        at
    }
}

/// Slots until whole seconds are over, rounded up.
pub(crate) fn slots(seconds: f64, slot_s: f64) -> u64 {
    (seconds / slot_s).ceil() as u64
}

/// Follows a job from interval to interval, where it has so many GPUs, until it is done.
pub(crate) struct Walk<'a> {
    ask: &'a Ask,
    slot_s: f64,
    left: f64,
    stays: Vec<Stay>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(ask: &'a Ask, slot_s: f64) -> Walk<'a> {
        Walk { ask, slot_s, left: ask.left, stays: Vec::new() }
    }

    /// Returns the seconds from now on after which it is done, in whole seconds, if that is in this interval.
    pub(crate) fn go(&mut self, (from, to): (u64, u64), level: Option<(u32, f64)>) -> Option<f64> {
        let Some((gpus, rate)) = level else {
            self.stays.push(Stay { from, to, gpus: 0 });
            return None;
        };
        let start = from as f64 * self.slot_s;
        let end = start + (self.left / rate).ceil().max(0.0);
        if to == NEVER || end <= to as f64 * self.slot_s {
            // One that is done holds its GPUs until its slot is over.
            self.stays.push(Stay { from, to: slots(end, self.slot_s).max(from + 1), gpus });
            return Some(end);
        }
        self.left -= rate * (to - from) as f64 * self.slot_s;
        self.stays.push(Stay { from, to, gpus });
        None
    }

    pub(crate) fn left(&self) -> f64 {
        self.left
    }

    pub(crate) fn done(self, end: f64) -> Plan {
        Plan { stays: self.stays, in_time: end <= self.ask.due, rest: 0 }
    }

    /// There are never as many GPUs as it needs.
    pub(crate) fn never(self) -> Plan {
        Plan { stays: self.stays, in_time: false, rest: 0 }
    }
}

/// A job that in each interval has the most GPUs that it may have of those that are free, as EDF gives them.
pub(crate) fn greedy(ask: &Ask, profile: &Profile, slot_s: f64) -> Plan {
    let mut walk = Walk::new(ask, slot_s);
    for (from, to, free) in profile.intervals() {
        if let Some(end) = walk.go((from, to), ask.level(free)) {
            return walk.done(end);
        }
    }
    walk.never()
}

/// A job that keeps so many GPUs until it is done; none: for ever, as it is not known when.
pub(crate) fn kept(gpus: u32, seconds: Option<f64>, slot_s: f64) -> Plan {
    let to = seconds.map_or(NEVER, |seconds| slots(seconds, slot_s).max(1));
    Plan { stays: vec![Stay { from: 0, to, gpus }], in_time: true, rest: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(left: f64, due: f64) -> Ask {
        Ask { id: 0, left, levels: vec![(1, 1.0), (2, 1.5), (4, 2.0)], due }
    }

    #[test]
    fn plans_take_what_is_free_and_give_it_back() {
        let mut profile = Profile::new(4);
        let first = greedy(&ask(25.0, 15.0), &profile, 10.0);
        assert_eq!((first.stays.as_slice(), first.in_time), ([Stay { from: 0, to: 2, gpus: 4 }].as_slice(), true));
        profile.take(&first);
        let second = greedy(&ask(10.0, 15.0), &profile, 10.0);
        let waits = [Stay { from: 0, to: 2, gpus: 0 }, Stay { from: 2, to: 3, gpus: 4 }];
        assert_eq!((second.stays.as_slice(), second.in_time), (waits.as_slice(), false));
        assert_eq!((second.now(), second.changes(), second.cost()), (0, Some(2), 4));
        profile.give_back(&first);
        assert!(profile.intervals().all(|(.., free)| free == 4));
    }

    #[test]
    fn a_job_goes_on_with_less_where_less_is_free() {
        let mut profile = Profile::new(4);
        profile.take(&Plan { stays: vec![Stay { from: 0, to: 1, gpus: 3 }], in_time: true, rest: 0 });
        let plan = greedy(&ask(30.0, 100.0), &profile, 10.0);
        assert_eq!(plan.stays, [Stay { from: 0, to: 1, gpus: 1 }, Stay { from: 1, to: 2, gpus: 4 }]);
    }
}
