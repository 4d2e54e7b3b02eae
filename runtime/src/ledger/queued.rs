//! What jobs ask for and hold, of which queues keep count too.

use sandtable_hardware::{GpuId, JobId};

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
    pub(super) fn hold(&mut self, gpu: GpuId, job: JobId, comes: bool) {
        if let Some(queues) = &mut self.queues {
            let row = &self.rows[job];
            let (of, milli) = ((job, row.queue), row.share.into());
            if comes { queues.comes(gpu, of, milli) } else { queues.leaves(gpu, of, milli) }
        }
    }

    /// The policy preempts a job.
    pub(super) fn taken(&mut self, job: JobId) {
        if let Some(queues) = &mut self.queues {
            queues.preempted(job);
        }
    }

    /// A job is given GPUs, or waits no more.
    pub(super) fn wait_ends(&mut self, job: JobId) {
        if let Some(queues) = &mut self.queues {
            queues.goes_on(job);
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
