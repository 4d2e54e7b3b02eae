//! How a random history is run, and what it shows.

use sandtable_hardware::Instant;
use sandtable_plan::Cell;
use sandtable_runtime::contract::Wake;
use sandtable_runtime::fault::Fault;
use sandtable_runtime::inputs::{Succession, Successor};
use sandtable_runtime::schedule::Finished;
use sandtable_runtime::{JobOutcome, JobRow};

/// What one history showed.
pub(super) struct Seen {
    pub(super) finished: Finished,
    /// blake3 over every plan.
    pub(super) plans: String,
    /// blake3 over where each job was, and when.
    pub(super) stays: String,
    /// Which ends of jobs it is to be called for.
    pub(super) ends: Option<Wake>,
    pub(super) calls: u64,
    pub(super) most_fuel: u64,
    pub(super) memory: usize,
}

/// How a history is run.
#[derive(Clone, Copy, Default)]
pub(super) struct Trial {
    /// FIFO begins, and the policy takes over at this instant.
    pub(super) after: Option<Instant>,
    /// The seed that the policy is told, where it is not the history's.
    pub(super) seed: Option<u64>,
    /// Every end of a job calls the policy, whatever its cadence says.
    pub(super) every_end_calls: bool,
}

/// Jobs that could have run and never ended.
pub(super) fn waiters(seen: &Seen) -> impl Iterator<Item = JobRow> {
    let rows = seen.finished.ledger.rows();
    rows.filter(|row| row.end.is_none() && !matches!(row.outcome, JobOutcome::Rejected(_)))
}

pub(super) fn waiting(seen: &Seen) -> usize {
    waiters(seen).count()
}

/// Those of them that no single node could hold: a policy may be for gangs of one node.
pub(super) fn wide(seen: &Seen, cell: &Cell) -> usize {
    let node = cell.fleet.nodes.iter().map(|node| node.gpus).max().unwrap_or(0);
    waiters(seen).filter(|row| row.gpus > node).count()
}

/// One policy takes over, once.
pub(super) struct Relay(pub(super) Option<(Instant, Successor)>);

impl Succession for Relay {
    fn asked(&mut self, now: Instant) -> Option<Successor> {
        self.0.take_if(|(at, _)| *at <= now).map(|(_, next)| next)
    }

    fn due(&self) -> Option<Instant> {
        self.0.as_ref().map(|(at, _)| *at)
    }

    fn fallback(&mut self, _: &Fault) -> Option<Successor> {
        None
    }
}
