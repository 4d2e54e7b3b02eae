//! Jobs that keep what they hold, since they have only just got it.

use std::collections::BTreeSet;

use sandtable_policy::{Batch, Cluster, Event, Instant, Job, JobId, JobPhase, Kind, Param, Trigger};

/// After this, µs, jobs that were still to begin are looked at again.
const LOOK_AGAIN: u64 = 30_000_000;

/// Jobs that keep what they hold.
pub struct Protected {
    /// Those that this plan starts.
    new: BTreeSet<JobId>,
    /// How long they run at least, µs.
    least_run: u64,
    /// Those that hold GPUs and have not run for so long, or had not when this was looked at last.
    young: BTreeSet<JobId>,
}

impl Protected {
    /// The parameter that says how long jobs run at least.
    pub const PARAM: Param = Param {
        name: "least_run",
        kind: Kind::Number { min: 0.001, max: 1e6 },
        default: "1",
        about: "Seconds that a job runs at least before others may take its GPUs; by default KAI's time between two rounds.",
    };

    /// None yet; `least_run` in µs.
    pub fn new(least_run: u64) -> Protected {
        Protected { new: BTreeSet::new(), least_run, young: BTreeSet::new() }
    }

    /// Takes in what a batch says of jobs that start.
    pub fn see(&mut self, batch: &Batch, cluster: &Cluster) {
        for event in &batch.events {
            match event {
                // From now on it runs, or is still to.
                Event::JobChanged(change) if matches!(change.phase, JobPhase::Starting | JobPhase::Running) => {
                    self.young.insert(change.job);
                }
                // What goes on after all runs anew, as far as it is known.
                Event::Rejected(_) => self.young.extend(cluster.holders().map(|job| job.id)),
                _ => {}
            }
        }
        if batch.trigger == Trigger::Resync {
            self.young.extend(cluster.holders().map(|job| job.id));
        }
    }

    /// Begins a plan: none has been started, and who has run for long enough is looked at again.
    pub fn begin(&mut self, cluster: &Cluster) {
        self.new.clear();
        let mut young = std::mem::take(&mut self.young);
        young.retain(|id| cluster.get(*id).is_some_and(|job| job.holds() && !self.has_run(cluster, job)));
        self.young = young;
    }

    /// This plan starts a job.
    pub fn start(&mut self, id: JobId) {
        self.new.insert(id);
        self.young.insert(id);
    }

    /// The jobs that this plan has started.
    pub fn started(&self) -> impl Iterator<Item = JobId> + '_ {
        self.new.iter().copied()
    }

    /// Whether a job has run for long enough.
    fn has_run(&self, cluster: &Cluster, job: &Job) -> bool {
        job.runs_since().is_some_and(|since| cluster.now().saturating_sub(since) >= self.least_run)
    }

    /// Whether others could have the GPUs of a job: it may be preempted, none of its nodes drains, and it is not protected. One that is
    /// still to begin is.
    pub fn may_go(&self, cluster: &Cluster, job: &Job) -> bool {
        !cluster.stays(job) && !self.new.contains(&job.id) && self.has_run(cluster, job)
    }

    /// When the next job may go that may not yet. One that this plan starts may begin at once; when one begins that still waits for
    /// its GPUs, or pays for its start, is not told: it is looked at again after a while.
    pub fn ends(&self, cluster: &Cluster) -> Option<Instant> {
        let end = |job: &Job| match job.runs_since() {
            Some(since) => since + self.least_run,
            None if self.new.contains(&job.id) => cluster.now() + self.least_run.min(LOOK_AGAIN),
            None => cluster.now() + LOOK_AGAIN,
        };
        let later =
            |job: &&Job| job.holds() && job.queue.is_some() && !cluster.stays(job) && !self.may_go(cluster, job);
        let young = self.young.iter().filter_map(|id| cluster.get(*id));
        young.filter(later).map(end).map(|at| at.max(cluster.now() + 1)).min()
    }
}
