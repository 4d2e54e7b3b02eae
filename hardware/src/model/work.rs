//! What jobs have to do, have done, and lose when they are killed.

use super::resize::Training;
use super::{JobState, Phase, SimulatedBackend};
use crate::regime::Steps;
use crate::{Duration, JobId, TypeId};

/// What the work of a job is counted in.
pub(super) enum Work {
    /// Microseconds at speed 1.
    Rigid,
    /// Steps of the present epoch at the initial batch.
    Elastic(Training),
    /// Steps at the present batch.
    Stepped(Steps),
}

impl Work {
    pub(super) fn training(&self) -> Option<&Training> {
        match self {
            Work::Rigid | Work::Stepped(_) => None,
            Work::Elastic(training) => Some(training),
        }
    }

    pub(super) fn training_mut(&mut self) -> Option<&mut Training> {
        match self {
            Work::Rigid | Work::Stepped(_) => None,
            Work::Elastic(training) => Some(training),
        }
    }
}

impl SimulatedBackend {
    /// Work a microsecond of a job alone on a type, in the unit of its work.
    pub(super) fn own_speed(&self, id: JobId, gpu_type: TypeId) -> f64 {
        match self.stepping(id) {
            Some(rate) => rate * self.fleet.types[gpu_type].speed,
            None => self.laws.speed(&self.fleet, gpu_type, &self.jobs[id]),
        }
    }

    /// Work done since progress last began.
    pub(super) fn done(&self, state: &JobState) -> f64 {
        match state.phase {
            Phase::Running => {
                let time = self.now.saturating_since(state.progress_from).saturating_sub(state.redeploys);
                (time.as_micros_f64() * state.rate).min(state.left).min(state.most)
            }
            _ => 0.0,
        }
    }

    /// Time of progress since the last checkpoint.
    pub(super) fn since_saved(&self, state: &JobState) -> Duration {
        match state.phase {
            Phase::Running => state.unsaved + self.now.saturating_since(state.progress_from),
            _ => state.unsaved,
        }
    }

    /// Takes back what was done since the last checkpoint; returns the time of progress that is lost.
    pub(super) fn roll_back(&mut self, id: JobId) -> Duration {
        let (kept, lost) = self.after_a_kill(&self.states[id]);
        let state = &mut self.states[id];
        state.left = kept;
        state.saved = kept;
        state.unsaved = Duration::ZERO;
        lost
    }

    /// The work left of a job that is killed now, and the time of progress that it has to repeat.
    pub(super) fn after_a_kill(&self, state: &JobState) -> (f64, Duration) {
        let left = state.left - self.done(state);
        let kept = match self.fleet.costs.checkpoint_every {
            // An elastic job saves its state at the end of each epoch.
            Some(every) if matches!(state.work, Work::Rigid) => {
                let since = state.saved - left;
                state.saved - (since / every.as_micros_f64()).floor() * every.as_micros_f64()
            }
            _ => state.saved,
        };
        // The pace may have changed since: what is lost is lost in proportion to the work.
        let done = state.saved - left;
        let time = self.since_saved(state).as_micros_f64();
        let lost = if done > 0.0 { Duration::from_micros_f64(time * (kept - left) / done) } else { Duration::ZERO };
        (kept, lost)
    }
}
