//! What a live run's policy decided, call by call, and following it later: the recorded plans are carried out, and
//! the policy that is asked then is compared with them.

use std::collections::VecDeque;

use sandtable_hardware::Instant;
use serde::{Deserialize, Serialize};

use crate::contract::{Action, Cadence, Trigger};

/// One call of `decide`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When.
    pub now: Instant,
    /// Why.
    pub trigger: Trigger,
    /// What was carried out.
    pub actions: Vec<Action>,
    /// When it is called from now on, where that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cadence: Option<Cadence>,
}

/// Calls as they are made.
#[derive(Clone, Debug, Default)]
pub struct DecisionLog {
    /// In their order.
    pub calls: Vec<Decision>,
    cadence: Option<Cadence>,
}

impl DecisionLog {
    /// From the next call on the cadence is this.
    pub(crate) fn begins(&mut self, cadence: Cadence) {
        self.cadence = Some(cadence);
    }

    pub(crate) fn decided(&mut self, now: Instant, trigger: Trigger, actions: Vec<Action>) {
        self.calls.push(Decision { now, trigger, actions, cadence: self.cadence.take() });
    }
}

/// Recorded calls that a run follows.
#[derive(Clone, Debug)]
pub struct ReplayScript {
    pub(crate) cadence: Cadence,
    calls: VecDeque<Decision>,
    agreement: Agreement,
}

/// How plans compare with recorded ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Calls of the recording.
    pub calls: u64,
    /// Those before the first that was answered otherwise: from there on the policy would know of another cluster than
    /// the recorded one, and is not asked.
    pub alike: u64,
    /// The first that was not answered alike.
    pub first: Option<Difference>,
    /// The run and the recording were not of one experiment: from this instant on nothing fits.
    pub lost: Option<Instant>,
}

/// Two plans for one batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// When.
    pub at: Instant,
    /// What was carried out.
    pub recorded: Vec<Action>,
    /// What this policy says.
    pub found: Vec<Action>,
}

impl ReplayScript {
    /// A recording; none without a call.
    pub fn new(calls: Vec<Decision>) -> Option<ReplayScript> {
        let cadence = calls.first()?.cadence?;
        Some(ReplayScript { cadence, calls: calls.into(), agreement: Agreement::default() })
    }

    /// The cadence from now on, where another policy took over at this instant.
    pub(crate) fn takeover(&mut self, now: Instant) -> Option<Cadence> {
        let next = self.calls.front_mut()?;
        if next.now == now && next.trigger == Trigger::Resync { next.cadence.take() } else { None }
    }

    /// The plan that was carried out in place of this one.
    pub(crate) fn instead(&mut self, now: Instant, found: Vec<Action>) -> Vec<Action> {
        let Some(call) = self.calls.pop_front().filter(|call| call.now == now) else {
            self.calls.clear();
            self.agreement.lost.get_or_insert(now);
            return Vec::new();
        };
        self.agreement.calls += 1;
        if self.has_parted() {
            return call.actions;
        }
        // When a policy wishes to be called again is its own affair.
        let counts = |action: &&Action| !matches!(action, Action::SetTimer(_) | Action::CancelTimer(_));
        if call.actions.iter().filter(counts).eq(found.iter().filter(counts)) {
            self.agreement.alike += 1;
        } else {
            self.agreement.first = Some(Difference { at: now, recorded: call.actions.clone(), found });
        }
        call.actions
    }

    /// The policy failed, where the recording has a plan.
    pub(crate) fn failed(&mut self, at: Instant) {
        let recorded = self.calls.front().map_or_else(Vec::new, |call| call.actions.clone());
        self.agreement.first.get_or_insert(Difference { at, recorded, found: Vec::new() });
    }

    /// Whether a plan has differed.
    pub(crate) fn has_parted(&self) -> bool {
        self.agreement.first.is_some()
    }

    pub(crate) fn agreement(self) -> Agreement {
        self.agreement
    }
}
