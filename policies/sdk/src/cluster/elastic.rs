//! Actions on elastic jobs, and on GPUs that serve.

use super::Cluster;
use crate::{Action, BatchSplit, GpuId, Instant, JobId, JobPhase, Protect, SetBatch, Start};

impl Cluster {
    /// Starts a waiting elastic job on these GPUs, in the order of its ring; without a batch, with its user's.
    pub fn start_with(&mut self, id: JobId, gpus: Vec<GpuId>, batch: Option<BatchSplit>) {
        self.hold(id, &gpus);
        self.actions.push(Action::Start(Start { job: id, gpus, batch }));
    }

    /// Elastic jobs that hold GPUs go on with these, all at once: each may have what another of them leaves.
    pub fn reassign(&mut self, moves: Vec<(JobId, Vec<GpuId>, Option<BatchSplit>)>) {
        if moves.is_empty() {
            return;
        }
        let now = self.now;
        for (id, ..) in &moves {
            self.release(*id, now, JobPhase::Stopping);
        }
        for (id, gpus, _) in &moves {
            self.hold(*id, gpus);
        }
        let starts = moves.into_iter().map(|(job, gpus, batch)| Start { job, gpus, batch });
        self.actions.push(Action::Reassign(starts.collect()));
    }

    /// An elastic job that holds GPUs goes over to another batch.
    pub fn set_batch(&mut self, id: JobId, batch: BatchSplit) {
        self.actions.push(Action::SetBatch(SetBatch { job: id, batch }));
    }

    /// Keeps a GPU for the service whose model it holds; the mirror still shows it free.
    pub fn protect(&mut self, gpu: GpuId, until: Instant) {
        self.actions.push(Action::Protect(Protect { gpu, until }));
    }
}
