//! The part of a run that is measured.

use sandtable_hardware::Micros;
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
    /// So long after the run's beginning.
    At(Micros),
}

/// The part of a run that is measured. Of areas, as utilisation, what lies in it counts. Of jobs those count that were
/// submitted in it, whenever they end: the run goes on until they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Since the run's beginning.
    pub warm_up: Micros,
    /// To then.
    pub until: Until,
}

impl Window {
    /// Whether a job that was submitted then counts.
    ///
    /// ```
    /// use sandtable_hardware::SECOND;
    /// use sandtable_runtime::{Until, Window};
    ///
    /// let window = Window { warm_up: 60 * SECOND, until: Until::At(3600 * SECOND) };
    /// assert!(!window.has(59 * SECOND) && window.has(60 * SECOND) && !window.has(3601 * SECOND));
    /// ```
    pub fn has(&self, submit: Micros) -> bool {
        submit >= self.warm_up && !matches!(self.until, Until::At(end) if submit > end)
    }
}
