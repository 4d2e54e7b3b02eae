//! Queues as lists of jobs: every pass sorts them and walks all of them.

use std::collections::BTreeSet;

use sandtable_policy::{
    About, Batch, Cadence, Cluster, Config, Event, Job, JobId, JobPhase, Placement, Policy, PolicyError, Setup, walk,
};

use crate::gittins::Gittins;
use crate::{Las, TIMER, Within, cadence, limits, set_timer};

/// The policy by lists alone. It takes every order. `Queues` must decide the same: tests compare them.
pub struct Lists {
    queues: Vec<Vec<JobId>>,
    /// By job: its queue, and the run time (µs) that starvation has forgiven it.
    levels: Vec<(u8, u64)>,
    /// GPU-microseconds at which a job leaves each queue but the last.
    limits: Vec<u64>,
    gittins: Option<Gittins>,
    starvation: f64,
    within: Within,
    published_crossing: bool,
    round: u64,
    place: Placement,
    timer: Option<u64>,
    /// Jobs that lost their GPUs since the last pass.
    stopped: Vec<JobId>,
    /// Whether all that wait have just come, and so stand last.
    only_new_wait: bool,
    /// For `submitted`: jobs on GPUs in the order in which they started, and those that wait in the order in which they
    /// began to.
    running: Vec<JobId>,
    waiting: Vec<JobId>,
}

impl Policy for Lists {
    fn about() -> About {
        Las::about()
    }

    fn new(config: &Config, _: &Setup) -> Result<Self, PolicyError> {
        let by_index = config.choice("mode") == "gittins";
        let history = config.numbers("history");
        if by_index && history.is_empty() {
            return Err(PolicyError::BadConfig(
                "`history`: mode \"gittins\" needs a sample of past GPU-time, found []".into(),
            ));
        }
        let limits = if by_index { Vec::new() } else { limits(config)? };
        Ok(Lists {
            queues: vec![Vec::new(); limits.len() + 1],
            levels: Vec::new(),
            limits,
            gittins: by_index.then(|| Gittins::new(history, config.number("delta"))),
            starvation: config.number("starvation"),
            within: Within::named(config.choice("within")),
            published_crossing: config.choice("crossing") == "published",
            round: config.micros("round"),
            place: Placement::named(config.choice("placement")),
            timer: None,
            stopped: Vec::new(),
            only_new_wait: false,
            running: Vec::new(),
            waiting: Vec::new(),
        })
    }

    fn cadence(&self) -> Cadence {
        cadence(self.round)
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.take_in(batch, cluster);
        self.move_between_queues(cluster);
        self.sort(cluster);
        walk(cluster, self.queues.iter().flatten().copied(), self.place);
        match self.within {
            Within::RunningFirst => {}
            Within::Kept => self.runners_first(cluster),
            Within::Submitted => self.keep_lists(cluster),
        }
        if self.round == 0 {
            self.wake(cluster);
        }
        Ok(())
    }
}

impl Lists {
    fn take_in(&mut self, batch: &Batch, cluster: &Cluster) {
        let mut new = 0;
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) => {
                    // Where this policy takes over, jobs have run already.
                    let service = cluster.get(arrival.job).map_or(0, |job| job.service(batch.now));
                    let level = self.limits.partition_point(|limit| *limit <= service);
                    self.queues[level].push(arrival.job);
                    if self.within == Within::Submitted {
                        self.waiting.push(arrival.job);
                    }
                    new += 1;
                    if self.levels.len() <= arrival.job as usize {
                        self.levels.resize(arrival.job as usize + 1, (0, 0));
                    }
                    self.levels[arrival.job as usize].0 = level as u8;
                }
                Event::JobEnded(end) => {
                    let level = usize::from(self.levels[end.job as usize].0);
                    self.queues[level].retain(|id| *id != end.job);
                    self.running.retain(|id| *id != end.job);
                    self.waiting.retain(|id| *id != end.job);
                }
                Event::Timer(TIMER) => self.timer = None,
                // A failure may have struck just when it crossed a limit.
                Event::JobChanged(change) if change.phase == JobPhase::Queued => {
                    self.stopped.push(change.job);
                    if let Some(at) = self.running.iter().position(|id| *id == change.job) {
                        self.waiting.push(self.running.remove(at));
                    }
                }
                _ => {}
            }
        }
        self.only_new_wait = new == cluster.queued().0;
    }

    /// Attained service since starvation last forgave it, GPU-microseconds.
    fn service(&self, job: &Job, now: u64) -> u64 {
        (job.run_time(now) - self.levels[job.id as usize].1) * u64::from(job.gpus)
    }

    /// What waits gains no service: only those that run, or did until just now, can cross a limit; only those that
    /// wait can starve.
    fn move_between_queues(&mut self, cluster: &Cluster) {
        let now = cluster.now();
        let mut moved: Vec<(JobId, usize, u64)> = Vec::new();
        let stopped = std::mem::take(&mut self.stopped);
        for job in cluster.holders().chain(stopped.iter().filter_map(|id| cluster.get(*id))) {
            let (level, forgiven) = self.levels[job.id as usize];
            let service = (job.run_time(now) - forgiven) * u64::from(job.gpus);
            if self.limits.get(usize::from(level)).is_some_and(|limit| service >= *limit) {
                moved.push((job.id, self.limits.partition_point(|limit| *limit <= service), forgiven));
            }
        }
        if self.starvation > 0.0 {
            for job in self.queues.iter().flatten().map(|id| cluster.job(*id)).filter(|job| job.waits()) {
                let ran = job.run_time(now) - self.levels[job.id as usize].1;
                if ran > 0 && job.waited(now) as f64 >= self.starvation * ran as f64 {
                    moved.retain(|(id, ..)| *id != job.id);
                    moved.push((job.id, 0, job.run_time(now)));
                }
            }
        }
        // Those that move at one instant enter their new queue by arrival, as in Tiresias' simulator.
        moved.sort_by_key(|(id, ..)| *id);
        moved.dedup_by_key(|(id, ..)| *id);
        for (id, to, forgiven) in moved {
            let from = usize::from(self.levels[id as usize].0);
            self.queues[from].retain(|other| *other != id);
            self.queues[to].push(id);
            self.levels[id as usize] = (to as u8, forgiven);
        }
    }

    fn runners_first(&mut self, cluster: &Cluster) {
        for queue in &mut self.queues {
            queue.sort_by_key(|id| !cluster.job(*id).holds());
        }
    }

    /// After a pass: started jobs go behind those that run, preempted ones behind those that wait, each in the order in
    /// which the pass came to them.
    fn keep_lists(&mut self, cluster: &Cluster) {
        let holds = |id: &JobId| cluster.job(*id).holds();
        let ran: BTreeSet<JobId> = self.running.iter().copied().collect();
        let (mut started, mut preempted) = (Vec::new(), Vec::new());
        for id in self.queues.iter().flatten() {
            match (ran.contains(id), holds(id)) {
                (false, true) => started.push(*id),
                (true, false) => preempted.push(*id),
                _ => {}
            }
        }
        self.running.retain(holds);
        self.running.append(&mut started);
        self.waiting.retain(|id| !holds(id));
        self.waiting.append(&mut preempted);
    }

    fn sort(&mut self, cluster: &Cluster) {
        match self.within {
            // Those that have just come stand last already.
            Within::RunningFirst if self.only_new_wait => {}
            Within::RunningFirst => self.runners_first(cluster),
            Within::Kept => {}
            Within::Submitted => {
                self.queues.iter_mut().for_each(Vec::clear);
                for id in self.running.iter().chain(&self.waiting) {
                    self.queues[usize::from(self.levels[*id as usize].0)].push(*id);
                }
                for queue in &mut self.queues {
                    queue.sort_by_key(|id| cluster.job(*id).submitted);
                }
            }
        }
        if let Some(gittins) = &self.gittins {
            let now = cluster.now();
            let mut ranked: Vec<(f64, JobId)> = self.queues[0]
                .iter()
                .map(|id| (gittins.at(self.service(cluster.job(*id), now) as f64 / 1e6), *id))
                .collect();
            // Greatest index first; equals keep their order.
            ranked.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap_or(std::cmp::Ordering::Equal));
            self.queues[0] = ranked.into_iter().map(|(_, id)| id).collect();
        }
    }

    /// One timer, at the earliest instant at which a job changes its queue or its index.
    fn wake(&mut self, cluster: &mut Cluster) {
        let now = cluster.now();
        let mut soonest: Option<u64> = None;
        // Nothing happens from 2^53 µs on.
        let mut wish = |at: u64| {
            if at < 1 << 53 {
                soonest = Some(soonest.map_or(at, |least: u64| least.min(at)).max(now + 1));
            }
        };
        // A job that has no GPU gets no service.
        for job in cluster.holders().filter(|job| job.gpus > 0) {
            let service = self.service(job, now);
            let gpus = u64::from(job.gpus);
            if let Some(gittins) = &self.gittins {
                if let Some(next) = gittins.next(service as f64 / 1e6) {
                    wish(now + ((next * 1e6 + 0.5) as u64).saturating_sub(service).div_ceil(gpus));
                }
            } else if let Some(limit) = self.limits.get(usize::from(self.levels[job.id as usize].0)) {
                let left = limit - service;
                wish(if self.published_crossing {
                    let executed = (service / gpus) / 1_000_000;
                    now + (limit / 1_000_000).saturating_sub(executed) / gpus * 1_000_000
                } else {
                    now + left.div_ceil(gpus)
                });
            }
        }
        if self.starvation > 0.0 {
            for job in self.queues.iter().flatten().map(|id| cluster.job(*id)).filter(|job| job.waits()) {
                let ran = job.run_time(now) - self.levels[job.id as usize].1;
                if ran > 0 {
                    let due = (self.starvation * ran as f64).ceil() as u64;
                    wish(now.saturating_add(due.saturating_sub(job.waited(now))));
                }
            }
        }
        set_timer(cluster, &mut self.timer, soonest);
    }
}
