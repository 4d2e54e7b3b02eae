//! Queues that are kept in order between passes: a pass looks at what changes, and not at all that runs.
//!
//! In each queue those that hold GPUs stand before those that wait. A job that starts goes behind those that hold, one that
//! loses its GPUs before those that wait, and one that comes or moves down behind those of its side: what a stable sort of lists
//! (`lists`) does. As there, those that have lost their GPUs stand where they held them until a job waits that has not just
//! come.

use std::collections::BTreeSet;

use sandtable_policy::{Batch, Cluster, Config, Event, JobId, JobMap, JobPhase, Placement, PolicyError, QuotaQueue};

use crate::{TIMER, limits, set_timer};

/// The queue, whether those that wait, and a number.
type Key = (u8, bool, i64);

/// What is due for a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Nothing,
    /// It reaches the limit of its queue at this instant.
    Crossing(u64),
    /// It reaches the limit so many µs after it has begun to make progress.
    Progress(u64),
    /// It has waited long enough at this instant.
    Starvation(u64),
}

/// A live job.
#[derive(Clone, Copy)]
struct Entry {
    level: u8,
    /// Run time that starvation has forgiven it, µs.
    forgiven: u64,
    key: Key,
    /// Since the lists would have been sorted so many times, it has started or come to this queue: where it stands should it lose its
    /// GPUs before they would be sorted again.
    fresh: Option<(u64, Key)>,
    /// Whether it lost its GPUs and still stands where it held them.
    displaced: bool,
    due: Due,
}

/// The policy, running first.
pub struct Queues {
    jobs: JobMap<Entry>,
    order: QuotaQueue<Key>,
    displaced: Vec<JobId>,
    /// Times that the lists would have been sorted.
    sorted: u64,
    crossings: BTreeSet<(u64, JobId)>,
    progress: BTreeSet<(u64, JobId)>,
    starving: BTreeSet<(u64, JobId)>,
    /// GPU-microseconds at which a job leaves each queue but the last.
    limits: Vec<u64>,
    starvation: f64,
    pub(crate) round: u64,
    place: Placement,
    timer: Option<u64>,
    /// The last numbers given behind and before all others.
    back: i64,
    front: i64,
}

impl Queues {
    pub(crate) fn new(config: &Config) -> Result<Queues, PolicyError> {
        Ok(Queues {
            jobs: JobMap::default(),
            order: QuotaQueue::default(),
            displaced: Vec::new(),
            sorted: 0,
            crossings: BTreeSet::new(),
            progress: BTreeSet::new(),
            starving: BTreeSet::new(),
            limits: limits(config)?,
            starvation: config.number("starvation"),
            round: config.micros("round"),
            place: Placement::named(config.choice("placement")),
            timer: None,
            back: 0,
            front: 0,
        })
    }

    pub(crate) fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) {
        let (new, stopped) = self.take_in(batch, cluster);
        self.move_between_queues(cluster, stopped);
        if cluster.queued().0 != new {
            self.settle(cluster);
        }
        let changes = self.order.walk(cluster, self.place);
        for id in changes.preempted {
            self.displace(cluster, id);
        }
        for (id, _) in changes.chosen {
            self.back += 1;
            let back = self.back;
            let Some(entry) = self.jobs.get_mut(id) else { continue };
            entry.fresh = Some((self.sorted, entry.key));
            entry.key = (entry.level, false, back);
            self.put(cluster, id);
        }
        if self.round == 0 {
            self.wake(cluster);
        }
    }

    /// Returns how many jobs came, and those that wait again.
    fn take_in(&mut self, batch: &Batch, cluster: &Cluster) -> (usize, Vec<JobId>) {
        let (mut new, mut stopped, mut refused) = (0, Vec::new(), false);
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) => {
                    new += 1;
                    let (fresh, due) = (None, Due::Nothing);
                    // Where this policy takes over, jobs have run already.
                    let service = cluster.get(arrival.job).map_or(0, |job| job.service(batch.now));
                    let level = self.limits.partition_point(|limit| *limit <= service) as u8;
                    let key = (level, true, self.back);
                    self.jobs.insert(arrival.job, Entry { level, forgiven: 0, key, fresh, displaced: false, due });
                    self.stand_last(cluster, arrival.job);
                }
                Event::JobEnded(end) => {
                    self.order.take(end.job);
                    self.forget_due(end.job);
                    self.jobs.remove(end.job);
                }
                Event::Timer(TIMER) => self.timer = None,
                Event::JobChanged(change) => {
                    if change.phase == JobPhase::Queued {
                        stopped.push(change.job);
                    }
                    let holds = cluster.get(change.job).is_some_and(|job| job.holds());
                    match self.jobs.get(change.job) {
                        Some(entry) if !entry.key.1 && !holds && !entry.displaced => self.displace(cluster, change.job),
                        _ => self.put(cluster, change.job),
                    }
                }
                Event::Rejected(_) => refused = true,
                _ => {}
            }
        }
        if refused {
            self.take_back(cluster);
        }
        (new, stopped)
    }

    /// Puts back where they stood jobs whose start or preemption was refused.
    fn take_back(&mut self, cluster: &Cluster) {
        let ids: Vec<JobId> = self.jobs.ids().collect();
        for id in ids {
            let (Some(entry), Some(job)) = (self.jobs.get_mut(id), cluster.get(id)) else { continue };
            if job.holds() && entry.displaced {
                entry.displaced = false;
            } else if job.holds() && entry.key.1 {
                // It had started since the lists would have been sorted, and never stopped.
                self.back += 1;
                entry.fresh = Some((self.sorted, entry.key));
                entry.key = (entry.level, false, self.back);
            } else if job.waits()
                && let Some((_, before)) = entry.fresh.take()
            {
                entry.key = before;
            } else {
                continue;
            }
            self.put(cluster, id);
        }
        self.displaced.retain(|id| self.jobs.get(*id).is_some_and(|entry| entry.displaced));
    }

    /// Enters a job by its key, and what is due for it.
    fn put(&mut self, cluster: &Cluster, id: JobId) {
        self.forget_due(id);
        let (Some(job), Some(entry)) = (cluster.get(id), self.jobs.get_mut(id)) else { return self.order.take(id) };
        match entry.displaced {
            true => self.order.take(id),
            false => self.order.put(cluster, id, entry.key),
        }
        let now = cluster.now();
        let ran = job.run_time(now) - entry.forgiven;
        entry.due = match self.limits.get(usize::from(entry.level)) {
            Some(limit) if job.holds() && job.gpus > 0 => {
                let gpus = u64::from(job.gpus);
                let left = limit.saturating_sub(ran * gpus).div_ceil(gpus);
                if left == 0 || job.phase == JobPhase::Running {
                    Due::Crossing(now + left)
                } else {
                    Due::Progress(left)
                }
            }
            _ if job.waits() && self.starvation > 0.0 && ran > 0 => {
                let wait = (self.starvation * ran as f64).ceil() as u64;
                Due::Starvation((now - job.waited(now)).saturating_add(wait))
            }
            _ => Due::Nothing,
        };
        match entry.due {
            Due::Crossing(at) => drop(self.crossings.insert((at, id))),
            Due::Progress(left) => drop(self.progress.insert((left, id))),
            Due::Starvation(at) => drop(self.starving.insert((at, id))),
            Due::Nothing => {}
        }
    }

    /// What was due for a job is not any more.
    fn forget_due(&mut self, id: JobId) {
        let Some(entry) = self.jobs.get_mut(id) else { return };
        match std::mem::replace(&mut entry.due, Due::Nothing) {
            Due::Crossing(at) => drop(self.crossings.remove(&(at, id))),
            Due::Progress(left) => drop(self.progress.remove(&(left, id))),
            Due::Starvation(at) => drop(self.starving.remove(&(at, id))),
            Due::Nothing => {}
        }
    }

    /// It has lost its GPUs.
    fn displace(&mut self, cluster: &Cluster, id: JobId) {
        let Some(entry) = self.jobs.get_mut(id) else { return };
        match entry.fresh.take() {
            Some((sorted, before)) if sorted == self.sorted => entry.key = before,
            _ => {
                entry.displaced = true;
                self.displaced.push(id);
            }
        }
        self.put(cluster, id);
    }

    /// What waits gains no service: only those that run, or did until just now, can cross a limit; only those that
    /// wait can starve.
    fn move_between_queues(&mut self, cluster: &Cluster, stopped: Vec<JobId>) {
        let now = cluster.now();
        let crossed = self.crossings.range(..=(now, JobId::MAX)).map(|(_, id)| *id);
        // A failure may have struck just when it crossed a limit.
        let mut moved: Vec<JobId> = crossed.chain(stopped).collect();
        moved.extend(self.starving.range(..=(now, JobId::MAX)).map(|(_, id)| *id));
        // Those that move at one instant enter their new queue by arrival, as in Tiresias' simulator.
        moved.sort_unstable();
        moved.dedup();
        for id in moved {
            let (Some(job), Some(entry)) = (cluster.get(id), self.jobs.get_mut(id)) else { continue };
            let (ran, service) = (job.run_time(now), (job.run_time(now) - entry.forgiven) * u64::from(job.gpus));
            if matches!(entry.due, Due::Starvation(at) if at <= now) {
                (entry.level, entry.forgiven) = (0, ran);
            } else if self.limits.get(usize::from(entry.level)).is_some_and(|limit| service >= *limit) {
                entry.level = self.limits.partition_point(|limit| *limit <= service) as u8;
            } else {
                continue;
            }
            if std::mem::take(&mut entry.displaced) {
                self.displaced.retain(|other| *other != id);
            }
            self.stand_last(cluster, id);
        }
    }

    /// It comes to its queue: last of those that hold GPUs, or of those that wait.
    fn stand_last(&mut self, cluster: &Cluster, id: JobId) {
        let holds = cluster.get(id).is_some_and(|job| job.holds());
        self.back += 1;
        if let Some(entry) = self.jobs.get_mut(id) {
            entry.key = (entry.level, !holds, self.back);
            entry.fresh = holds.then_some((self.sorted, (entry.level, true, self.back)));
        }
        self.put(cluster, id);
    }

    /// As the lists would be sorted: those that have lost their GPUs go before those that wait, as they stood.
    fn settle(&mut self, cluster: &Cluster) {
        self.sorted += 1;
        let mut displaced: Vec<(Key, JobId)> = std::mem::take(&mut self.displaced)
            .into_iter()
            .filter_map(|id| Some((self.jobs.get(id)?.key, id)))
            .collect();
        displaced.sort_unstable();
        for (_, id) in displaced.into_iter().rev() {
            self.front -= 1;
            let front = self.front;
            if let Some(entry) = self.jobs.get_mut(id) {
                entry.displaced = false;
                entry.key = (entry.level, true, front);
            }
            self.put(cluster, id);
        }
    }

    /// One timer, at the earliest instant at which a job changes its queue.
    fn wake(&mut self, cluster: &mut Cluster) {
        let now = cluster.now();
        let first = |set: &BTreeSet<(u64, JobId)>| set.first().map(|(at, _)| *at);
        let due =
            [first(&self.crossings), first(&self.progress).map(|left| now.saturating_add(left)), first(&self.starving)];
        // Nothing happens from 2^53 µs on.
        let soonest = due.into_iter().flatten().filter(|at| *at < 1 << 53).map(|at| at.max(now + 1)).min();
        set_timer(cluster, &mut self.timer, soonest);
    }
}
