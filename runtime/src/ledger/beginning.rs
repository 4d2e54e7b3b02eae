//! The books of a run that begins in the middle: what jobs had before counts for them, and not for the run.

use sandtable_hardware::{Duration, Instant, JobId, Standing};

use super::{AccountingError, Ledger};

impl Ledger {
    /// Opens the books then.
    pub(crate) fn beginning(mut self, at: Instant) -> Ledger {
        (self.began, self.now) = (at, at);
        self.measured.begin(at);
        self.gpu_since.fill(at);
        self
    }

    /// A job in the system has had GPUs before.
    pub(crate) fn stood(&mut self, job: JobId, standing: &Standing) {
        let (at, start_cost) = (self.now, self.start_cost);
        let row = &mut self.rows[job];
        (row.first_start, row.first_run) = (Some(standing.first_start), Some(standing.first_start));
        (row.began, row.startup) = (Some(standing.first_start), start_cost);
        let stay = if standing.holds() { at - standing.since } else { Duration::ZERO };
        // The present stay is added when it ends.
        row.held = standing.held.saturating_sub(stay);
        row.productive = standing.productive;
        row.had = standing.gpu_time;
        row.preemptions = standing.preemptions;
    }

    /// It has its place since before.
    ///
    /// # Errors
    /// Where another has one of its GPUs.
    pub(crate) fn given_before(&mut self, job: JobId, standing: &Standing) -> Result<(), AccountingError> {
        match standing.node {
            Some(node) => self.put(job, node)?,
            None => self.given(job, &standing.gpus)?,
        }
        self.rows[job].given_at = standing.since;
        Ok(())
    }

    /// For how long a job has made progress, and the GPU time that it has held.
    pub(crate) fn attained(&self, job: JobId) -> (Duration, Duration) {
        let row = &self.rows[job];
        let now = row.running_since.map_or(Duration::ZERO, |since| self.now - since);
        let holds = row.last_gpus.iter().filter(|gpu| self.there[gpu.index()].contains(&job)).count();
        // While it is on a GPU, the instant at which it came there is taken off.
        let gpu_time =
            i128::from(row.had.as_micros()) + row.gpu_time + i128::from(self.now.as_micros()) * holds as i128;
        (row.productive + row.lost + now, Duration::from_micros(gpu_time.max(0) as u64))
    }
}
