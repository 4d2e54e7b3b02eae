//! The part of a run that is measured.

use sandtable_hardware::Instant;
use serde::{Deserialize, Serialize};

/// Until when a run is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// The last submission; where all jobs come at once, as [`Until::AllEnded`].
    #[default]
    LastArrival,
    /// The last job has let its GPUs go.
    AllEnded,
    /// This instant.
    At(Instant),
}

/// The part of a run that is measured. Of areas, as utilisation, what lies in it counts. Of jobs those count that were
/// submitted in it, whenever they end: the run goes on until they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// From then on.
    pub warm_up: Instant,
    /// To then.
    pub until: Until,
}

impl Window {
    /// Whether a job that was submitted then counts.
    ///
    /// ```
    /// use sandtable_hardware::{Instant, SECOND};
    /// use sandtable_runtime::{Until, Window};
    ///
    /// let at = |seconds: u64| Instant::at(seconds * SECOND);
    /// let window = Window { warm_up: at(60), until: Until::At(at(3600)) };
    /// assert!(!window.has(at(59)) && window.has(at(60)) && !window.has(at(3601)));
    /// ```
    pub fn has(&self, submit: Instant) -> bool {
        submit >= self.warm_up && !matches!(self.until, Until::At(end) if submit > end)
    }
}
