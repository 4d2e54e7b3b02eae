//! Timers: instants at which a policy asks to be called.

use super::Cluster;
use crate::{Action, Instant, Timer};

impl Cluster {
    /// Sets a timer: the policy is called at that instant.
    pub fn set_timer(&mut self, token: u64, at: Instant) {
        self.actions.push(Action::SetTimer(Timer { token, at }));
    }

    /// Asks to be called again after a microsecond: a job that saves its state in no time causes no call when it waits
    /// again.
    pub fn call_again(&mut self) {
        self.call_by(self.now + 1);
    }

    /// Asks to be called at this instant, unless it has asked for an earlier one to come. The timer's token is its instant.
    pub fn call_by(&mut self, at: Instant) {
        if self.calls.first().is_none_or(|first| at < *first) {
            self.calls.insert(at);
            self.set_timer(at, at);
        }
    }

    /// Cancels a timer.
    pub fn cancel_timer(&mut self, token: u64) {
        self.actions.push(Action::CancelTimer(token));
    }
}
