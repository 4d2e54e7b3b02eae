//! Elastic jobs that go on with other GPUs.

use sandtable_hardware::{GpuId, JobId};

use super::{AccountingError, Ledger};

impl Ledger {
    /// A job that will go on with these GPUs lets the others of its own go.
    pub fn leaves(&mut self, job: JobId, gpus: &[GpuId]) {
        self.stopped(job, false);
        let row = &mut self.rows[job];
        let before = std::mem::take(&mut row.last_gpus);
        let had_all = std::mem::take(&mut row.awaited) == 0;
        if had_all {
            row.held += self.now - row.given_at;
            let from = row.given_at;
            self.keep_stay(job, from, &before);
        }
        self.segment_count += 1;
        for gpu in &before {
            let slot = gpu.index();
            if !self.there[slot].contains(&job) {
                self.promised[slot].retain(|promise| promise.job != job);
            } else if !gpus.contains(gpu) {
                self.vacate(*gpu, job);
            }
        }
        self.rows[job].last_gpus = before;
    }

    /// It goes on, once all jobs that go on have let go.
    ///
    /// # Errors
    /// Where a GPU is given to two.
    pub fn goes_on(&mut self, job: JobId, gpus: &[GpuId]) -> Result<(), AccountingError> {
        let new: Vec<GpuId> = gpus.iter().copied().filter(|gpu| !self.there[*gpu].contains(&job)).collect();
        self.given(job, &new)?;
        let row = &mut self.rows[job];
        row.last_gpus = gpus.to_vec();
        row.size = gpus.len() as u32;
        row.reassignments += 1;
        self.hold_cpu(job);
        self.let_go();
        Ok(())
    }
}
