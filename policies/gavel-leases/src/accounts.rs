//! From shares of time to the jobs of a round.

use std::collections::BTreeMap;

use sandtable_policy::{Batch, Cluster, Event, Instant, Job, JobId, PolicyError, Trigger};

use crate::shares::{Objective, View};

/// The time of rounds in seconds. Where GPUs are leased it is the sum of their lengths, as the published simulators add them up: their rounding decides between
/// jobs that are due alike.
#[derive(Default)]
pub struct Clock {
    seconds: f64,
    /// When the latest round began.
    began: Instant,
}

impl Clock {
    /// A round begins.
    pub fn begin(&mut self, now: Instant) {
        self.began = now;
    }

    /// Seconds at which the latest round ended.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

/// What is kept of a job.
#[derive(Clone, Copy)]
struct Account {
    /// Seconds that it has had since the last reset.
    time: f64,
    /// Seconds that it was due before that and did not have.
    deficit: f64,
    /// The part of the time that it is due; none: it came after the last reset.
    share: Option<f64>,
}

/// What jobs have had and are due.
pub struct Accounts {
    objective: Objective,
    jobs: BTreeMap<JobId, Account>,
    /// Sum of the times of all jobs since the last reset, those of jobs that have ended since too.
    total: f64,
    /// When shares were last computed.
    reset_at: f64,
    /// Seconds for which they hold at least.
    reset: f64,
    /// Whether jobs have come, gone or failed since.
    is_stale: bool,
    /// Seconds that each job counts as having had at a reset.
    credit: f64,
}

impl Accounts {
    /// Those of no job.
    pub fn new(objective: Objective, reset: f64, credit: f64) -> Accounts {
        let (jobs, total, reset_at) = (BTreeMap::new(), 0.0, 0.0);
        Accounts { objective, jobs, total, reset_at, reset, is_stale: false, credit }
    }

    /// Enters what happened: first what jobs had in the round that is over, then which ended, then which came.
    pub fn take_in(&mut self, batch: &Batch, cluster: &Cluster, clock: &mut Clock) {
        self.take_in_times(batch, cluster, clock);
        for event in &batch.events {
            match event {
                Event::JobEnded(end) => {
                    self.jobs.remove(&end.job);
                    self.is_stale = true;
                }
                Event::NodeChanged(_) => self.is_stale = true,
                _ => {}
            }
        }
        for event in &batch.events {
            if let Event::JobArrived(arrival) = event
                && cluster.get(arrival.job).is_some()
            {
                self.jobs.insert(arrival.job, Account { time: self.credit, deficit: 0.0, share: None });
                self.total += self.credit;
                self.is_stale = true;
            }
        }
    }

    fn take_in_times(&mut self, batch: &Batch, cluster: &Cluster, clock: &mut Clock) {
        let began = clock.seconds;
        let lease = |event: &Event| match event {
            Event::LeaseEnded(end) => Some((began + end.seconds, end.job, end.restart)),
            _ => None,
        };
        let mut leases: Vec<(f64, JobId, f64)> = batch.events.iter().filter_map(lease).collect();
        leases.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (end, job, restart) in &leases {
            let time = (end - began) - restart;
            if time > 0.0 {
                self.had(*job, time);
            } else {
                // It had nothing to do.
                self.is_stale = true;
            }
        }
        let now = batch.now as f64 / 1e6;
        if let Some((end, ..)) = leases.first() {
            // Where the longest lease was cut short the round went on.
            clock.seconds = if now - end > 1e-3 { now } else { *end };
        } else if batch.trigger == Trigger::Round {
            let running = |job: &Job| Some((job.id, job.runs_since()?.max(clock.began)));
            let running: Vec<(JobId, Instant)> = cluster.holders().filter_map(running).collect();
            for (job, since) in running {
                self.had(job, batch.now.saturating_sub(since) as f64 / 1e6);
            }
            clock.seconds = now;
        }
    }

    fn had(&mut self, job: JobId, time: f64) {
        self.total += time;
        if let Some(account) = self.jobs.get_mut(&job) {
            account.time += time;
        }
    }

    /// The jobs of a round: those that have had the least of what they are due, as long as GPUs are left. A job that came after the last reset takes
    /// the room of its gang and does not run.
    ///
    /// # Errors
    /// Where shares are given, and not those that are due.
    pub fn choose(&mut self, cluster: &Cluster, now: f64) -> Result<Vec<JobId>, PolicyError> {
        if self.is_stale && (now - self.reset_at >= self.reset || self.reset_at == 0.0) {
            self.compute(cluster, now)?;
        }
        let mut ranked: Vec<(f64, f64, f64, JobId)> = Vec::with_capacity(self.jobs.len());
        for (id, account) in &self.jobs {
            let part = if self.total > 0.0 { account.time / self.total } else { 0.0 };
            let share = account.share.unwrap_or(0.0);
            let priority = if part == 0.0 { share * 1e9 } else { share / part };
            ranked.push((priority, account.deficit, share, *id));
        }
        let descending = |a: f64, b: f64| b.total_cmp(&a);
        ranked.sort_by(|a, b| {
            descending(a.0, b.0).then(descending(a.1, b.1)).then(descending(a.2, b.2)).then(a.3.cmp(&b.3))
        });
        let mut left = cluster.all_up_gpus();
        let mut chosen = Vec::new();
        for (.., id) in ranked {
            let gang = cluster.job(id).gpus;
            if gang <= left {
                left -= gang;
                chosen.extend(Some(id).filter(|id| self.jobs[id].share.is_some()));
            }
        }
        Ok(chosen)
    }

    /// Computes shares anew, and counts times anew from here.
    fn compute(&mut self, cluster: &Cluster, now: f64) -> Result<(), PolicyError> {
        for account in self.jobs.values_mut() {
            let due = account.share.unwrap_or(0.0) * (now - self.reset_at);
            account.deficit += due - (account.time - self.credit);
            account.time = self.credit;
        }
        self.total = self.credit * self.jobs.len() as f64;
        let view = |(id, account): (&JobId, &Account)| {
            let job = cluster.job(*id);
            View { id: *id, gpus: job.gpus, share: account.share, age: now - job.submitted as f64 / 1e6 }
        };
        let views: Vec<View> = self.jobs.iter().map(view).collect();
        let shares = self.objective.shares(&views, cluster.all_up_gpus(), cluster)?;
        for (account, share) in self.jobs.values_mut().zip(shares) {
            account.share = Some(share);
        }
        (self.reset_at, self.is_stale) = (now, false);
        Ok(())
    }
}
