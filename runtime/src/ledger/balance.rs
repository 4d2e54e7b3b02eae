//! The end of a run, and whether the books balance.

use sandtable_hardware::{Duration, GpuId, Job, Sharing};

use super::{AccountingError, Ledger};
use crate::row::{Outcome, Unfinished};

impl Ledger {
    /// Closes the books at the end of a run and checks that they balance.
    ///
    /// # Errors
    /// The balance that does not close.
    pub fn close(&mut self) -> Result<(), AccountingError> {
        let mut any_held = false;
        for gpu in 0..self.total {
            for job in self.there[gpu as usize].clone() {
                self.vacate(GpuId::new(gpu), job);
                any_held = true;
            }
        }
        if any_held {
            self.let_go();
        }
        if let Some(queues) = &mut self.queues {
            // What waits then waits until the window ends.
            queues.advance(self.measured.after(self.now));
        }
        for job in self.rows.live() {
            let row = &mut self.rows[job];
            if let Some(since) = row.running_since.take() {
                row.productive += self.now - since;
            }
            if row.outcome == Outcome::Unfinished(Unfinished::HeldGpus) {
                row.held += if row.awaited == 0 { self.now - row.given_at } else { Duration::ZERO };
            }
            let ends = u32::from(row.end.is_some());
            if matches!(row.outcome, Outcome::Completed | Outcome::Refused) != (ends == 1) {
                return Err(AccountingError::Ends { job, times: ends });
            }
        }
        for (gpu, held) in self.gpu_held.iter().enumerate() {
            let most = match self.sharing {
                Sharing::Exclusive => 1,
                Sharing::Packed(most) => u64::from(most),
                Sharing::Shares | Sharing::Parts => u64::from(Job::WHOLE),
            };
            let run = self.now - self.began;
            if *held > run.saturating_mul(most) {
                return Err(AccountingError::TooLong { gpu: GpuId::at(gpu), held: *held, run });
            }
        }
        let live: i128 = self.rows.live().into_iter().map(|job| self.rows[job].gpu_time).sum();
        let jobs = self.rows.gpu_time_packed + live;
        let gpus: i128 = self.gpu_held.iter().map(|held| i128::from(held.as_micros())).sum();
        let clock = self.measured.all.resident as i128;
        if jobs == gpus && gpus == clock { Ok(()) } else { Err(AccountingError::GpuTime { jobs, gpus, clock }) }
    }
}
