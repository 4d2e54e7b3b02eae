//! What Slurm's `sched/backfill` does: jobs start in the order of their priority and submission, up to the first that finds no place; and at
//! each tick a plan is made by time limits in which later jobs may start first where they delay none before them.
//!
//! A reconstruction from what a real Slurm 22.05 did: its schedules, and the plans of its log, are goldens of the tests. Plans are for whole nodes
//! and begin at multiples of a resolution; when a job could start is looked for as running jobs end, in half minutes. Jobs take CPUs and memory of nodes beside GPUs where they ask for them. Priorities are those of the jobs and, where it is asked for, what age, size and fair
//! share add to them. Nothing is preempted unless it is asked for.

mod fair_share;
mod params;
mod part;
mod plan;
mod priority;
mod space;
mod victims;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Event, GpuId, Instant, Job, JobId, JobPhase, Knowledge, Node,
    Policy, PolicyError, Setup, Trigger,
};

use params::PARAMS;
use part::{Need, Nodes, Part, Place};
use plan::{End, Planner, Wall};
use priority::Priorities;
use space::Space;
use victims::{Candidate, in_order, room};

const SECOND: u64 = 1_000_000;
/// A limit that is unknown, µs: longer than any run.
const ENDLESS: u64 = 1 << 52;

/// Where a job stands: by tier, by priority, then by submission.
type Rank = (i64, i64, Instant, JobId);

/// The policy.
pub struct SlurmBackfill {
    nodes: Vec<Node>,
    /// µs between plans; 0: none is made.
    tick: u64,
    phase: u64,
    resolution: u64,
    /// The time of the clock on the wall at the beginning of the experiment's, µs.
    wall_clock: u64,
    window: u64,
    depth: usize,
    lag: u64,
    place: Place,
    whole_nodes: bool,
    preempt: bool,
    /// In own priorities; 0: whether jobs may be preempted is their tier.
    tier_width: f64,
    /// Whether jobs of higher tiers come before others, whatever their priority.
    tiers_first: bool,
    /// µs until a job that was preempted may start again; and when those may that have to wait.
    requeued: u64,
    held_back: BTreeMap<JobId, Instant>,
    /// When jobs were preempted last, where that counts as their submission.
    preempted: BTreeMap<JobId, Instant>,
    preempted_last: bool,
    priorities: Priorities,
    waiting: BTreeSet<Rank>,
    /// When the main scheduler looks next.
    look: Option<Instant>,
    /// The tick that was planned last.
    planned: Option<Instant>,
    /// Until then a plan is what the last one was, unless something happens: no running job is over its limit.
    settled: Option<Instant>,
}

impl Policy for SlurmBackfill {
    fn about() -> About {
        About {
            name: "slurm-backfill",
            about: "Slurm's main scheduler and its backfill: plans by time limits on whole nodes at each tick (a reconstruction from its schedules)",
            uses: Abilities::TIMERS
                | Abilities::SHAPE
                | Abilities::HOST
                | Abilities::QUEUES
                | Abilities::PREEMPT
                | Abilities::CPU_JOBS,
            needs: Knowledge::REMAINING,
            params: &PARAMS,
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        if !setup.knowledge.contains(Knowledge::REMAINING) {
            return Err(PolicyError::Unsupported("it plans by time limits: bind a predictor to `remaining`".into()));
        }
        Ok(SlurmBackfill {
            nodes: setup.topology.nodes.clone(),
            tick: config.micros("tick"),
            phase: config.micros("phase"),
            resolution: config.micros("resolution"),
            wall_clock: config.micros("wall_clock"),
            window: config.micros("window"),
            depth: config.number("depth") as usize,
            lag: config.micros("lag"),
            place: if config.choice("placement") == "first" { Place::First } else { Place::Neighbours },
            whole_nodes: config.flag("whole_nodes"),
            preempt: config.flag("preempt"),
            tier_width: config.number("tier_width"),
            tiers_first: config.flag("tiers_first"),
            requeued: config.micros("requeued"),
            held_back: BTreeMap::new(),
            preempted: BTreeMap::new(),
            preempted_last: config.flag("preempted_last"),
            priorities: Priorities::new(config, setup)?,
            waiting: BTreeSet::new(),
            look: None,
            planned: None,
            settled: None,
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence::EVENTS
    }

    fn uses(&self) -> Abilities {
        let uses = Self::about().uses;
        if self.preempt { uses } else { uses - Abilities::PREEMPT }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let now = batch.now;
        let before = self.waiting.len();
        let back = self.held_back.len();
        self.held_back.retain(|_, until| *until > now);
        let changed = self.take_in(batch, cluster) || self.held_back.len() < back;
        // A timer that this policy set is no news; anything else may be.
        let news = batch.trigger != Trigger::Timer || self.waiting.len() > before || changed;
        if news {
            self.settled = None;
        }
        if news && self.look.is_none() && !self.waiting.is_empty() {
            self.look = Some(now + self.lag);
        }
        if self.look.is_some_and(|at| at <= now) {
            self.look = None;
            self.start_in_order(cluster);
        }
        let due = self.is_tick(now) && self.planned != Some(now);
        if due && self.settled.is_none_or(|until| until <= now) {
            self.planned = Some(now);
            self.plan(cluster);
        }
        if self.waiting.is_empty() {
            self.look = None;
        } else {
            // Until then a tick plans nothing.
            let from = self.settled.map_or(now, |until| now.max(until.saturating_sub(1)));
            let next = self
                .next_tick(from)
                .into_iter()
                .chain(self.look)
                .chain(self.priorities.next(now))
                .chain(self.free_again())
                .min();
            next.into_iter().for_each(|at| cluster.call_by(at));
        }
        Ok(())
    }
}

impl SlurmBackfill {
    /// Enters what has happened; returns whether priorities have been computed anew.
    fn take_in(&mut self, batch: &Batch, cluster: &Cluster) -> bool {
        let mut reckoned = None;
        // Shares are computed once for all that come.
        batch.events.iter().flat_map(|event| cluster.queued_by(event)).for_each(|job| self.priorities.meet(job));
        for event in &batch.events {
            match event {
                Event::JobEnded(end) => {
                    reckoned = self.priorities.reckon(end.at).or(reckoned);
                    self.priorities.stops(end.job, end.at);
                    self.preempted.remove(&end.job);
                }
                Event::JobChanged(change) => {
                    reckoned = self.priorities.reckon(change.at).or(reckoned);
                    match (change.phase, cluster.get(change.job)) {
                        (JobPhase::Queued, _) => self.priorities.stops(change.job, change.at),
                        (_, Some(job)) => self.priorities.starts(job, change.at),
                        _ => {}
                    }
                }
                _ => {}
            }
            for job in cluster.queued_by(event) {
                // Its start may have been rejected.
                self.priorities.stops(job.id, batch.now);
                self.priorities.waits(cluster, job, batch.now);
                let rank = self.rank(cluster, job, batch.now);
                self.waiting.insert(rank);
            }
        }
        reckoned = self.priorities.reckon(batch.now).or(reckoned);
        if let Some(at) = reckoned {
            let waiting = std::mem::take(&mut self.waiting);
            let jobs = waiting.iter().filter_map(|rank| cluster.get(rank.3)).filter(|job| job.waits());
            self.waiting = jobs.map(|job| self.rank(cluster, job, at)).collect();
        }
        reckoned.is_some()
    }

    /// When the first job that was preempted may start again.
    fn free_again(&self) -> Option<Instant> {
        self.held_back.values().min().copied()
    }

    fn rank(&mut self, cluster: &Cluster, job: &Job, at: Instant) -> Rank {
        let need = Need::of(&self.nodes, job);
        let nodes = need.nodes + u32::from(need.rest.gpus > 0);
        let (tier, priority) = (self.tier(job), self.priorities.of(cluster, job, nodes, at));
        // What tells the tier is no priority then.
        let told = if self.tiers_first { 0 } else { libm::round(self.step(job) as f64 * self.tier_width) as i64 };
        let submitted = self.preempted.get(&job.id).copied().unwrap_or(job.submitted);
        (if self.tiers_first { -tier } else { 0 }, told - priority, submitted, job.id)
    }

    /// A job takes GPUs from those of lower tiers; without preemption there is one.
    fn tier(&self, job: &Job) -> i64 {
        match self.preempt {
            false => 0,
            true if self.tier_width > 0.0 => self.step(job),
            true => i64::from(!job.preemptible),
        }
    }

    /// What a job's own priority says of its tier, where it says it.
    fn step(&self, job: &Job) -> i64 {
        if self.tier_width == 0.0 {
            return 0;
        }
        // A number that has a negative.
        libm::round(f64::from(job.priority) / self.tier_width).clamp(-1e18, 1e18) as i64
    }

    fn is_tick(&self, now: Instant) -> bool {
        self.tick > 0 && now >= self.phase && (now - self.phase).is_multiple_of(self.tick)
    }

    fn next_tick(&self, now: Instant) -> Option<Instant> {
        let ticks = now.checked_sub(self.phase).map_or(0, |since| since.checked_div(self.tick).unwrap_or(0) + 1);
        ticks.checked_mul(self.tick)?.checked_add(self.phase).filter(|at| self.tick > 0 && *at < ENDLESS)
    }

    /// Starts jobs in their order, up to the first that finds no place; of each kind of GPU to the first that may run on it, as in a partition of its own.
    fn start_in_order(&mut self, cluster: &mut Cluster) {
        let (mut free, mut candidates) = (self.free(cluster), None);
        let mut after = Bound::Unbounded;
        while let Some(rank) = self.waiting.range((after, Bound::Unbounded)).next().copied() {
            after = Bound::Excluded(rank);
            let Some(job) = cluster.get(rank.3).filter(|job| job.waits()) else {
                self.waiting.remove(&rank);
                continue;
            };
            // One that a limit holds up, or that was preempted just now, holds up none behind it.
            if !self.may_start(cluster, job) {
                continue;
            }
            let (need, tier) = (Need::of(&self.nodes, job), self.tier(job));
            let Some(on) = free.find(&need, self.place) else {
                if self.preempt && self.take(cluster, rank, (&need, tier), (&mut free, &mut candidates)) {
                    continue;
                }
                // Those behind it wait with it, but on kinds of GPU that it can't run on.
                match free.leave_out(&need) {
                    true => continue,
                    false => break,
                }
            };
            self.start(cluster, rank.3, &on);
            free.take(&on);
            self.settled = None;
            self.waiting.remove(&rank);
        }
    }

    /// Whether no limit holds a job up, and it was not preempted just now.
    fn may_start(&self, cluster: &Cluster, job: &Job) -> bool {
        cluster.queues().has_room(job) && !self.held_back.contains_key(&job.id)
    }

    /// Starts a job on GPUs of jobs of lower tiers; returns whether it could.
    fn take(
        &mut self,
        cluster: &mut Cluster,
        rank: Rank,
        (need, tier): (&Need, i64),
        (free, candidates): (&mut Nodes, &mut Option<Vec<Candidate>>),
    ) -> bool {
        let candidates = candidates.get_or_insert_with(|| {
            let holders = cluster.holders().filter(|job| job.may_be_moved());
            in_order(
                holders.map(|job| Candidate { job: job.id, tier: self.tier(job), on: self.on(cluster, job) }).collect(),
            )
        });
        let Some((victims, on)) = room(free.clone(), (need, tier), self.place, candidates) else { return false };
        for Candidate { job, on, .. } in victims {
            cluster.kill(job);
            free.give_back(&on);
            if self.preempted_last {
                self.preempted.insert(job, cluster.now());
            }
            if self.requeued > 0 {
                self.held_back.insert(job, cluster.now() + self.requeued);
            }
        }
        free.take(&on);
        self.start(cluster, rank.3, &on);
        self.settled = None;
        self.waiting.remove(&rank);
        true
    }

    /// What a job holds of nodes that are up.
    fn on(&self, cluster: &Cluster, job: &Job) -> Vec<(usize, Part)> {
        let mut nodes: Vec<usize> = job.held.iter().map(|gpu| cluster.node(*gpu) as usize).collect();
        nodes.sort_unstable();
        let with_gpus = nodes.chunk_by(|a, b| a == b).map(|of| (of[0], Part::of_job(job, of.len() as u32)));
        let without = job.node.map(|node| (node as usize, Part::without_gpus(job)));
        with_gpus.chain(without).filter(|(node, _)| cluster.is_up(*node as u32)).collect()
    }

    /// Plans waiting jobs one after the other, and starts those whose plan begins now.
    fn plan(&mut self, cluster: &mut Cluster) {
        let now = cluster.now();
        self.waiting.retain(|rank| cluster.get(rank.3).is_some_and(Job::waits));
        let free = self.free(cluster);
        let mut all: Vec<(Rank, Need)> = Vec::new();
        all.extend(
            self.waiting.iter().take(self.depth).map(|rank| (*rank, Need::of(&self.nodes, cluster.job(rank.3)))),
        );
        // A plan is there for jobs behind it that could start now: behind the last of these there is nothing to plan.
        let mut fits: BTreeMap<Need, bool> = BTreeMap::new();
        let mut could = |(_, need): &(Rank, Need)| {
            *fits.entry(need.clone()).or_insert_with(|| free.find(need, self.place).is_some())
        };
        let last = all.iter().rposition(&mut could);
        all.truncate(last.map_or(0, |last| last + 1));
        let ends = self.ends(cluster);
        self.settled = Some(ends.first().map_or(Instant::MAX, |end| end.at));
        let ids: Vec<JobId> = all.iter().map(|(rank, _)| rank.3).collect();
        // Slurm's clock has whole seconds.
        let second = now / SECOND * SECOND;
        let wall = Wall { began: self.wall_clock, resolution: self.resolution };
        let mut planner = Planner {
            now: second,
            space: Space::new(wall.down(second), free.free.len()),
            free,
            ends,
            plans: Vec::new(),
            wall,
            place: self.place,
            whole_nodes: self.whole_nodes,
        };
        for ((rank, need), limit) in all.iter().zip(limits(cluster, &ids)) {
            if !self.may_start(cluster, cluster.job(rank.3)) {
                continue;
            }
            let Some((at, on)) = planner.earliest(need, limit) else { continue };
            if at > now {
                if at - now <= self.window {
                    planner.reserve(at, limit, &on);
                }
                continue;
            }
            self.start(cluster, rank.3, &on);
            planner.start(rank.3, &on, seconds(second + limit).max(now + 1));
            self.waiting.remove(rank);
            self.settled = None;
        }
    }

    /// What is free of each node.
    fn free(&self, cluster: &Cluster) -> Nodes {
        let free = |node: &Node| {
            let gpus = (node.first_gpu..node.first_gpu + node.gpus).filter(|gpu| cluster.is_free(*gpu)).count() as u32;
            let [cpu, memory] = cluster.host_left(node.id).map(|left| left.min(Part::PLENTY as u64) as i64);
            Part { gpus, cpu, memory }
        };
        let of = |part: &dyn Fn(&Node) -> Part| {
            let up = |node: &Node| if cluster.is_up(node.id) { part(node) } else { Part::default() };
            self.nodes.iter().map(up).collect()
        };
        let types = self.nodes.iter().map(|node| node.gpu_type).collect();
        let mut nodes = Nodes { free: of(&free), all: of(&Part::of_all), types };
        // Where jobs that ran when the run began hold more than a node has, the first that ends leaves no room yet.
        let full = |node: &Node| cluster.is_up(node.id) && cluster.host_left(node.id).contains(&0);
        if self.nodes.iter().any(full) {
            let mut left = nodes.all.clone();
            for (node, part) in cluster.holders().flat_map(|job| self.on(cluster, job)) {
                left[node] -= part;
            }
            for (free, left) in nodes.free.iter_mut().zip(left) {
                (free.cpu, free.memory) = (free.cpu.min(left.cpu), free.memory.min(left.memory));
            }
        }
        nodes
    }

    /// When running jobs are at their limits, and what they give back, in the order of time. Slurm counts from whole seconds.
    fn ends(&self, cluster: &Cluster) -> Vec<End> {
        let now = cluster.now();
        let ids: Vec<JobId> = cluster.holders().map(|job| job.id).collect();
        let end = |(id, limit): (&JobId, u64)| {
            let job = cluster.job(*id);
            let ran = job.run_time(now);
            let started = now.saturating_sub(ran) / SECOND * SECOND;
            // One that is over its limit ends right after now.
            End { at: seconds(started + ran + limit).max(now + 1), job: *id, on: self.on(cluster, job) }
        };
        let mut ends: Vec<End> = ids.iter().zip(limits(cluster, &ids)).map(end).collect();
        ends.sort_by_key(|end| (end.at, end.job));
        ends
    }

    fn start(&mut self, cluster: &mut Cluster, job: JobId, on: &[(usize, Part)]) {
        if let Some(job) = cluster.get(job) {
            self.priorities.starts(job, cluster.now());
        }
        let mut gpus: Vec<GpuId> = Vec::new();
        for (node, part) in on {
            if part.gpus == 0 {
                return cluster.start_on(job, *node as u32);
            }
            let node = &self.nodes[*node];
            let free = (node.first_gpu..node.first_gpu + node.gpus).filter(|gpu| cluster.is_free(*gpu));
            gpus.extend(free.take(part.gpus as usize));
        }
        cluster.start(job, gpus);
    }
}

/// The whole second that a time is in, whatever rounding has taken off it.
fn seconds(at: Instant) -> Instant {
    (at + 1000) / SECOND * SECOND
}

/// What is left of the limits of jobs, µs.
fn limits(cluster: &Cluster, jobs: &[JobId]) -> Vec<u64> {
    let micros =
        |left: f64| if left.is_nan() { ENDLESS } else { (libm::rint(left.max(0.0) * 1e6) as u64).min(ENDLESS) };
    cluster.remaining(jobs).into_iter().map(micros).collect()
}

sandtable_policy::export!(SlurmBackfill);

#[cfg(test)]
mod tests {
    use super::SlurmBackfill;
    use sandtable_policy::testing::{TINY, completion_times, refusal};

    #[test]
    fn without_ticks_it_is_fifo() {
        let with = r#"{"tick": 0, "lag": 0}"#;
        assert_eq!(completion_times::<SlurmBackfill>(with, TINY.0, TINY.1), [5000, 6000]);
    }

    #[test]
    fn at_a_tick_a_later_job_starts_where_it_delays_no_plan() {
        // One GPU of two is held until 1,000 s; the gang waits for both. A short job starts at the tick, a long one would delay it.
        let jobs = [(0, 1, 1000), (10, 2, 100), (20, 1, 500), (20, 1, 2000)];
        let with = r#"{"lag": 0, "whole_nodes": false, "resolution": 1}"#;
        assert_eq!(completion_times::<SlurmBackfill>(with, &[2], &jobs), [1000, 1090, 510, 3080]);
        // A plan of whole nodes keeps the node from 1,000 s on, and until then the short job may be there.
        let with = r#"{"lag": 0}"#;
        assert_eq!(completion_times::<SlurmBackfill>(with, &[2], &jobs), [1000, 1090, 510, 3080]);
    }

    #[test]
    fn what_would_start_beyond_the_window_holds_up_none_behind_it() {
        // The gang could start at 1,000 s. The long job delays it only where it is planned.
        let jobs = [(0, 1, 1000), (10, 2, 100), (20, 1, 2000)];
        let times = |with: &str| completion_times::<SlurmBackfill>(with, &[2], &jobs);
        assert_eq!(times(r#"{"lag": 0, "window": 1000}"#), [1000, 1090, 3080]);
        assert_eq!(times(r#"{"lag": 0, "window": 900}"#), [1000, 2120, 2010]);
    }

    #[test]
    fn what_it_needs_is_named() {
        assert_eq!(
            refusal::<SlurmBackfill>(r#"{"tick": -1}"#),
            "`tick`: expected a number from 0 to 1000000, found -1"
        );
    }
}
