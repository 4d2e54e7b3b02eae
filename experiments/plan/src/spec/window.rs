//! The part of a run that is measured.

use sandtable_hardware::{Duration, Instant};
use sandtable_runtime::{Until, Window};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Span;

/// The part of a run that is measured: of utilisation what lies in it, of jobs those that are submitted in it, whenever they
/// end.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "Window", deny_unknown_fields)]
pub struct WindowSpec {
    /// It begins so long after the run does; at once by default.
    #[serde(default)]
    pub warm_up: Option<Span>,
    /// Where it ends; at the last submission by default.
    #[serde(default)]
    pub until: UntilSpec,
}

/// Where a window ends.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
pub enum UntilSpec {
    /// At the last submission; where all jobs come at once, as `AllEnded`.
    #[default]
    LastArrival,
    /// When the last job has let its GPUs go.
    AllEnded,
    /// So long after the run's beginning; jobs that are submitted later don't count. Where the last job ends before, the rest of
    /// the window is idle.
    At(Span),
}

impl WindowSpec {
    /// The window; none where it would end before it begins.
    pub fn window(&self) -> Option<Window> {
        let warm_up = Instant::at(self.warm_up.map_or(Duration::ZERO, |span| span.0));
        let until = match self.until {
            UntilSpec::LastArrival => Until::LastArrival,
            UntilSpec::AllEnded => Until::AllEnded,
            UntilSpec::At(end) if Instant::at(end.0) <= warm_up => return None,
            UntilSpec::At(end) => Until::At(Instant::at(end.0)),
        };
        Some(Window { warm_up, until })
    }
}
