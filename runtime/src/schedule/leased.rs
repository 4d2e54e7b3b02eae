//! Rounds for which GPUs are leased: policies are called between them alone.

use sandtable_hardware::{Duration, Fleet, Instant};

use super::Run;
use crate::contract::{Cadence, Trigger};

/// Where a run is between its rounds.
pub(super) struct Rounds {
    /// The time after which a policy with rounds is called again while nothing is leased.
    length: Duration,
    /// A round goes on.
    goes_on: bool,
    /// Calls for the round that is to begin.
    calls: u32,
    /// When the latest was.
    called: Instant,
}

/// Most calls for one round: the second tells a policy what it has preempted.
const CALLS: u32 = 2;

impl Rounds {
    /// Those of a fleet that leases its GPUs.
    pub(super) fn of(fleet: &Fleet) -> Option<Rounds> {
        let length = fleet.costs.leases?.length;
        Some(Rounds { length, goes_on: false, calls: 0, called: Instant::START })
    }

    pub(super) fn goes_on(&self) -> bool {
        self.goes_on
    }

    pub(super) fn is_over(&mut self) {
        self.goes_on = false;
    }

    /// A policy is called. One that takes over has not been called for the round yet.
    pub(super) fn called(&mut self, now: Instant, trigger: Trigger) {
        let calls = if trigger == Trigger::Resync { 0 } else { self.calls + 1 };
        (self.calls, self.called) = (calls, now);
    }
}

impl Run {
    /// The rounds, between two of which the run is while jobs are there.
    fn between(&self) -> Option<&Rounds> {
        self.leased.as_ref().filter(|rounds| !rounds.goes_on && self.live > 0)
    }

    /// When a policy is due, between rounds, without anything that happens.
    pub(super) fn call_due(&self, now: Instant, cadence: Cadence) -> Option<Instant> {
        let rounds = self.between()?;
        match rounds.calls {
            _ if self.wake => Some(now),
            0 => cadence.round.map(|_| rounds.called.saturating_add(rounds.length).max(now)),
            _ => None,
        }
    }

    /// Why the policy is called between rounds now, if it is.
    pub(super) fn leased_trigger(&self, now: Instant, cadence: Cadence, timed: bool) -> Option<Trigger> {
        let rounds = self.between()?;
        if rounds.calls > 0 {
            return self.wake.then_some(Trigger::Event);
        }
        let is_round = cadence.round.is_some();
        let empty = is_round && now >= rounds.called.saturating_add(rounds.length);
        let due = self.wake || self.ended || timed || empty;
        due.then_some(if is_round { Trigger::Round } else { Trigger::Event })
    }

    /// Leases begin. A policy that has preempted is called once more first: it may start those jobs elsewhere.
    pub(super) fn begin_round(&mut self) {
        let waits = |rounds: &Rounds| self.resync || (self.wake && rounds.calls < CALLS);
        if self.between().is_none_or(waits) {
            return;
        }
        let goes_on = self.world().backend.begin_round();
        if let Some(rounds) = &mut self.leased {
            (rounds.goes_on, rounds.calls) = (goes_on, 0);
        }
    }
}
