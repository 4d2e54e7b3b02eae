//! What jobs ask for and hold, of which queues keep count too.

use sandtable_hardware::JobId;

use super::Ledger;
use crate::window::Until;

impl Ledger {
    /// A job comes to ask for GPUs, or does not any more.
    pub(super) fn demand(&mut self, job: JobId, comes: bool) {
        let row = &self.rows[job];
        let gpus = u64::from(row.gpus);
        self.rates.demanded = if comes { self.rates.demanded + gpus } else { self.rates.demanded - gpus };
        if let Some(queues) = &mut self.queues {
            queues.asks(row.queue, gpus * u64::from(row.share), comes);
        }
    }

    /// A job has one more GPU, or one less.
    pub(super) fn hold(&mut self, job: JobId, comes: bool) {
        if let Some(queues) = &mut self.queues {
            let row = &self.rows[job];
            queues.holds(row.queue, row.share.into(), comes);
        }
    }

    /// GPUs were let go.
    pub(super) fn let_go(&mut self) {
        self.measured.let_go();
        if let Some(queues) = self.queues.as_mut().filter(|_| self.measured.window.until == Until::AllEnded) {
            queues.let_go();
        }
    }
}
