//! Gandiva-like: time slices, and packing by trial and error, after Xiao et al., OSDI 2018, as far as its published
//! descriptions go (hence the name; thresholds that they do not give are ours).
//!
//! Jobs start on empty GPUs, first come, first served, passing over. While jobs wait, every round tries two things:
//! the waiting one-GPU jobs that use a GPU the least join those running ones that do; a pair whose speeds add up to too
//! little is parted after a round and not tried again for some. And each gang that waits takes the GPUs of the one of
//! its size that has held them the longest. A lone one-GPU job moves off a node that a waiting gang could have whole.

mod queues;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use queues::{Queues, Stand};
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Event, GpuId, Instant, Job, JobId, JobPhase, Kind, Knowledge,
    NodeId, Param, Placement, Policy, PolicyError, Setup, Trigger, host,
};

/// The policy.
pub struct GandivaLike {
    round: u64,
    least: f64,
    pause: u64,
    waiting: Queues,
    /// Pairs of jobs that share a GPU, and since when.
    trials: Vec<(JobId, JobId, Instant)>,
    /// Pairs that did not pay, and until when they are not tried again.
    failed: BTreeMap<(JobId, JobId), Instant>,
    /// The same, in the order in which they fall due; those that were renewed are in it again.
    pauses: VecDeque<(Instant, (JobId, JobId))>,
    /// When each holder was last given GPUs, and how many it holds.
    since: BTreeMap<JobId, (Instant, u32)>,
    /// The same by the number of GPUs, the longest first.
    longest: BTreeMap<u32, BTreeSet<Stand>>,
}

impl Policy for GandivaLike {
    fn about() -> About {
        About {
            name: "gandiva-like",
            about: "time slices and packing by trial (after Gandiva, OSDI 2018; thresholds are reconstructions)",
            uses: Abilities::PREEMPT | Abilities::SHARE,
            needs: Knowledge::SOLO_PROFILE,
            params: &[
                Param {
                    name: "round",
                    kind: Kind::Number { min: 1.0, max: 1e6 },
                    default: "60",
                    about: "Seconds of a time slice and of a trial.",
                },
                Param {
                    name: "least",
                    kind: Kind::Number { min: 0.0, max: 2.0 },
                    default: "1.05",
                    about: "What the speeds of a packed pair must add up to: 1, and a margin against noise.",
                },
                Param {
                    name: "pause",
                    kind: Kind::Number { min: 0.0, max: 1e6 },
                    default: "10",
                    about: "Rounds for which a pair that did not pay is not tried again.",
                },
            ],
        }
    }

    fn new(config: &Config, _: &Setup) -> Result<Self, PolicyError> {
        let round = config.micros("round");
        Ok(GandivaLike {
            round,
            least: config.number("least"),
            pause: (config.number("pause") as u64).saturating_mul(round),
            waiting: Queues::default(),
            trials: Vec::new(),
            failed: BTreeMap::new(),
            pauses: VecDeque::new(),
            since: BTreeMap::new(),
            longest: BTreeMap::new(),
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence { round: Some(self.round), ..Cadence::EVENTS }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.take_in(batch, cluster);
        self.start_what_fits(cluster);
        if batch.trigger == Trigger::Round {
            self.end_trials(cluster);
            if !self.waiting.is_empty() {
                self.begin_trials(cluster);
                self.slice(cluster);
                self.defragment(cluster);
            }
        }
        Ok(())
    }
}

/// A pair in ascending order of its ids.
fn pair(one: JobId, other: JobId) -> (JobId, JobId) {
    (one.min(other), one.max(other))
}

impl GandivaLike {
    fn take_in(&mut self, batch: &Batch, cluster: &Cluster) {
        for event in &batch.events {
            if let Event::JobEnded(end) = event {
                self.forget(end.job);
            }
            for job in cluster.queued_by(event) {
                self.waiting.insert(cluster, job);
                self.forget(job.id);
            }
        }
        while let Some((until, pair)) = self.pauses.front().copied().filter(|(until, _)| *until <= batch.now) {
            self.pauses.pop_front();
            if self.failed.get(&pair) == Some(&until) {
                self.failed.remove(&pair);
            }
        }
    }

    fn forget(&mut self, job: JobId) {
        if let Some((since, gpus)) = self.since.remove(&job)
            && let Some(holders) = self.longest.get_mut(&gpus)
        {
            holders.remove(&(since, job));
        }
        self.trials.retain(|(one, other, _)| *one != job && *other != job);
    }

    fn start(&mut self, cluster: &mut Cluster, job: JobId, gpus: Vec<GpuId>) {
        self.waiting.remove(cluster, cluster.job(job));
        cluster.start(job, gpus);
        let (now, size) = (cluster.now(), cluster.job(job).gpus);
        self.since.insert(job, (now, size));
        self.longest.entry(size).or_default().insert((now, job));
    }

    fn start_what_fits(&mut self, cluster: &mut Cluster) {
        // Jobs of one shape find a place together or not at all.
        let mut open: Vec<usize> = self.waiting.shapes();
        while let Some((_, (_, id))) = self.waiting.first(&open, None) {
            let job = cluster.job(id);
            match Placement::Packed.find_any(cluster, &job.gpu_types, job.ask()) {
                Some(gpus) => self.start(cluster, id, gpus),
                None => self.waiting.close(&mut open, cluster.job(id)),
            }
        }
    }

    fn end_trials(&mut self, cluster: &mut Cluster) {
        let (now, mut losers) = (cluster.now(), Vec::new());
        let (round, least, pause) = (self.round, self.least, self.pause);
        let (failed, pauses) = (&mut self.failed, &mut self.pauses);
        self.trials.retain(|(newcomer, resident, since)| {
            if now < since + round {
                return true;
            }
            let speeds = host::speeds(vec![*newcomer, *resident]);
            // One that still starts shows nothing yet.
            if speeds.iter().any(|speed| speed.is_nan()) {
                return true;
            }
            if speeds[0] + speeds[1] <= least {
                failed.insert(pair(*newcomer, *resident), now + pause);
                pauses.push_back((now + pause, pair(*newcomer, *resident)));
                losers.push(*newcomer);
            }
            false
        });
        for job in losers {
            if cluster.job(job).preemptible && cluster.job(job).holds() {
                cluster.preempt(job);
            }
        }
    }

    fn begin_trials(&mut self, cluster: &mut Cluster) {
        if cluster.tenancy() < 2 {
            return;
        }
        let alone = |job: &&Job| {
            job.phase == JobPhase::Running && queues::pairs(job) && cluster.residents(job.held[0]).len() == 1
        };
        let mut residents: Vec<JobId> = cluster.holders().filter(alone).map(|job| job.id).collect();
        residents.sort_by_cached_key(|id| (queues::use_of(cluster, cluster.job(*id)), *id));
        let mut open = self.waiting.shapes();
        let mut turn = None;
        while let Some(next) = self.waiting.least_used(&open, turn) {
            if residents.is_empty() {
                return;
            }
            turn = Some(next);
            let newcomer = next.1;
            let job = cluster.job(newcomer);
            let takes = |resident: &JobId| {
                let kind = cluster.type_of(cluster.job(*resident));
                job.gpu_types.contains(&kind) && cluster.takes(job, cluster.job(*resident).held[0], 2)
            };
            let is_new = |resident: &JobId| !self.failed.contains_key(&pair(newcomer, *resident));
            let Some(at) = residents.iter().position(|resident| takes(resident) && is_new(resident)) else {
                // GPUs only fill up: where no resident takes this one, none takes another of its shape.
                if !residents.iter().any(takes) {
                    self.waiting.close(&mut open, job);
                }
                continue;
            };
            let resident = residents.remove(at);
            let gpus = cluster.job(resident).held.clone();
            self.trials.push((newcomer, resident, cluster.now()));
            self.start(cluster, newcomer, gpus);
        }
    }

    /// Each gang that waits takes the place of the one of its size that has held its own the longest.
    fn slice(&mut self, cluster: &mut Cluster) {
        let Some(latest) = cluster.now().checked_sub(self.round) else { return };
        let mut open = self.waiting.shapes();
        // By shape, the holder at which it looks next: one that does not yield now does not yield in this round.
        let mut next: BTreeMap<usize, Stand> = BTreeMap::new();
        let mut turn = None;
        while let Some((shape, stand)) = self.waiting.first(&open, turn) {
            turn = Some(stand);
            let job = cluster.job(stand.1);
            let yields = |(_, other): &&Stand| {
                let held = cluster.job(*other);
                held.preemptible
                    && held.phase == JobPhase::Running
                    && job.gpu_types.contains(&cluster.type_of(held))
                    && held.held.iter().all(|gpu| cluster.tasks(*gpu) == 1)
            };
            let from = next.get(&shape).copied().unwrap_or((0, 0));
            let holders = self.longest.get(&job.gpus);
            let found = holders.and_then(|holders| holders.range(from..=(latest, JobId::MAX)).find(yields).copied());
            let Some((since, other)) = found else {
                self.waiting.close(&mut open, job);
                continue;
            };
            next.insert(shape, (since, other));
            let gpus = cluster.job(other).held.clone();
            cluster.preempt(other);
            self.forget(other);
            self.start(cluster, stand.1, gpus);
        }
    }

    /// A one-GPU job that is alone on a node moves off it, where a waiting gang then finds the node whole and the job
    /// another free GPU of a type that it allows, on a node that is in use.
    fn defragment(&mut self, cluster: &mut Cluster) {
        let Some(gang) = self.waiting.first_gang().map(|id| cluster.job(id)) else { return };
        let nodes = || 0..cluster.node_count() as NodeId;
        let used = |node: NodeId| cluster.node_gpus(node).filter(|gpu| cluster.tasks(*gpu) > 0);
        let lone = |node: NodeId| {
            let whole = cluster.node_gpus(node).len() as u32 == gang.gpus;
            let mut used = used(node);
            let (Some(gpu), None) = (used.next(), used.next()) else { return None };
            match cluster.residents(gpu) {
                [id] if whole && gang.gpu_types.contains(&cluster.node_type(node)) => {
                    Some(cluster.job(*id)).filter(|job| job.gpus == 1 && job.preemptible)
                }
                _ => None,
            }
        };
        let elsewhere = |from: NodeId, job: &Job| {
            let has_room = |node: NodeId| {
                let held = used(node).count();
                node != from && held > 0 && held < cluster.node_gpus(node).len()
            };
            nodes().any(|node| has_room(node) && job.gpu_types.contains(&cluster.node_type(node)))
        };
        let mover = nodes().find_map(|node| {
            let job = lone(node).filter(|job| job.phase == JobPhase::Running)?;
            elsewhere(node, job).then_some(job.id)
        });
        if let Some(job) = mover {
            cluster.preempt(job);
            self.forget(job);
        }
    }
}

sandtable_policy::export!(GandivaLike);

#[cfg(test)]
mod tests {
    use super::GandivaLike;
    use sandtable_policy::testing::completion_times;

    #[test]
    fn without_shared_gpus_jobs_of_one_size_take_turns() {
        // Two jobs on one GPU, a minute each in turn: the short one ends after about twice its time.
        let times = completion_times::<GandivaLike>("{}", &[1], &[(0, 1, 600), (0, 1, 120)]);
        assert_eq!(times[0], 720);
        assert!((180..=300).contains(&times[1]), "{times:?}");
    }
}
