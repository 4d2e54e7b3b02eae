//! Gandiva-like: time slices, and packing by trial and error, after Xiao et al., OSDI 2018, as far as its published
//! descriptions go (hence the name; thresholds that they do not give are ours).
//!
//! Jobs start on empty GPUs, first come, first served, passing over. While jobs wait, every round tries two things:
//! the waiting one-GPU jobs that use a GPU the least join those running ones that do; a pair whose speeds add up to too
//! little is parted after a round and not tried again for some. And each gang that waits takes the GPUs of the one of
//! its size that has held them the longest. A lone one-GPU job moves off a node that a waiting gang could have whole.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Event, GpuId, Instant, Job, JobId, JobPhase, Kind, Knowledge,
    NodeId, Param, Placement, Policy, PolicyError, Setup, Trigger, host,
};

/// The policy.
pub struct GandivaLike {
    round: u64,
    least: f64,
    pause: u64,
    waiting: BTreeSet<(Instant, JobId)>,
    /// Pairs of jobs that share a GPU, and since when.
    trials: Vec<(JobId, JobId, Instant)>,
    /// Pairs that did not pay, and until when they are not tried again.
    failed: BTreeMap<(JobId, JobId), Instant>,
    /// When each holder was last given GPUs.
    since: BTreeMap<JobId, Instant>,
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
            waiting: BTreeSet::new(),
            trials: Vec::new(),
            failed: BTreeMap::new(),
            since: BTreeMap::new(),
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence { round: Some(self.round), on_events: true }
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
            if let Some(job) = cluster.queued_by(event) {
                self.waiting.insert((job.submitted, job.id));
                self.forget(job.id);
            }
        }
        self.failed.retain(|_, until| *until > batch.now);
    }

    fn forget(&mut self, job: JobId) {
        self.since.remove(&job);
        self.trials.retain(|(one, other, _)| *one != job && *other != job);
    }

    fn start(&mut self, cluster: &mut Cluster, job: JobId, gpus: Vec<GpuId>) {
        let submitted = cluster.job(job).submitted;
        cluster.start(job, gpus);
        self.waiting.remove(&(submitted, job));
        self.since.insert(job, cluster.now());
    }

    fn start_what_fits(&mut self, cluster: &mut Cluster) {
        for (_, id) in self.waiting.clone() {
            let job = cluster.job(id);
            if let Some(gpus) = Placement::Packed.find_any(cluster, &job.gpu_types, job.ask()) {
                self.start(cluster, id, gpus);
            }
        }
    }

    fn end_trials(&mut self, cluster: &mut Cluster) {
        let (now, mut losers) = (cluster.now(), Vec::new());
        let over: Vec<(JobId, JobId, Instant)> =
            self.trials.iter().copied().filter(|(_, _, since)| now >= since + self.round).collect();
        for (newcomer, resident, _) in over {
            let speeds = host::speeds(vec![newcomer, resident]);
            // One that still starts shows nothing yet.
            if speeds.iter().any(|speed| speed.is_nan()) {
                continue;
            }
            self.trials.retain(|trial| (trial.0, trial.1) != (newcomer, resident));
            if speeds[0] + speeds[1] <= self.least {
                self.failed.insert(pair(newcomer, resident), now + self.pause);
                losers.push(newcomer);
            }
        }
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
        let by_use = |ids: &mut Vec<JobId>, cluster: &Cluster| {
            let of = |id: &JobId| cluster.utilisation(cluster.job(*id));
            ids.sort_by(|a, b| of(a).total_cmp(&of(b)).then(a.cmp(b)));
        };
        let one = |job: &Job| job.gpus == 1 && job.preemptible && job.out_of_memory == 0;
        let mut newcomers: Vec<JobId> =
            self.waiting.iter().map(|(_, id)| *id).filter(|id| one(cluster.job(*id))).collect();
        let alone =
            |job: &&Job| job.phase == JobPhase::Running && one(job) && cluster.residents(job.held[0]).len() == 1;
        let mut residents: Vec<JobId> = cluster.holders().filter(alone).map(|job| job.id).collect();
        by_use(&mut newcomers, cluster);
        by_use(&mut residents, cluster);
        for newcomer in newcomers {
            let fits = |resident: &JobId| {
                let (job, gpu) = (cluster.job(newcomer), cluster.job(*resident).held[0]);
                let kind = cluster.type_of(cluster.job(*resident));
                let allowed = job.gpu_types.contains(&kind) && !self.failed.contains_key(&pair(newcomer, *resident));
                allowed && cluster.takes(job, gpu, 2)
            };
            let Some(at) = residents.iter().position(fits) else { continue };
            let resident = residents.remove(at);
            let gpus = cluster.job(resident).held.clone();
            self.trials.push((newcomer, resident, cluster.now()));
            self.start(cluster, newcomer, gpus);
        }
    }

    /// Each gang that waits takes the place of the one of its size that has held its own the longest.
    fn slice(&mut self, cluster: &mut Cluster) {
        let now = cluster.now();
        let mut holders: Vec<(Instant, JobId)> = self
            .since
            .iter()
            .filter(|(_, since)| **since + self.round <= now)
            .map(|(id, since)| (*since, *id))
            .collect();
        holders.sort_unstable();
        for (_, id) in self.waiting.clone() {
            let yields = |(_, other): &(Instant, JobId)| {
                let (job, held) = (cluster.job(id), cluster.job(*other));
                let alone = held.held.iter().all(|gpu| cluster.tasks(*gpu) == 1);
                held.preemptible
                    && held.phase == JobPhase::Running
                    && held.gpus == job.gpus
                    && job.gpu_types.contains(&cluster.type_of(held))
                    && alone
            };
            let Some(at) = holders.iter().position(yields) else { continue };
            let (_, other) = holders.remove(at);
            let gpus = cluster.job(other).held.clone();
            cluster.preempt(other);
            self.forget(other);
            self.start(cluster, id, gpus);
        }
    }

    /// A one-GPU job that is alone on a node moves off it, where a waiting gang then finds the node whole and the job
    /// another free GPU of a type that it allows, on a node that is in use.
    fn defragment(&mut self, cluster: &mut Cluster) {
        let Some(gang) = self.waiting.iter().map(|(_, id)| cluster.job(*id)).find(|job| job.gpus > 1) else { return };
        let nodes = || 0..cluster.node_count() as NodeId;
        let used = |node: NodeId| cluster.node_gpus(node).filter(|gpu| cluster.tasks(*gpu) > 0).collect::<Vec<GpuId>>();
        let lone = |node: NodeId| {
            let whole = cluster.node_gpus(node).len() as u32 == gang.gpus;
            match used(node).as_slice() {
                [gpu] if whole && gang.gpu_types.contains(&cluster.node_type(node)) => match cluster.residents(*gpu) {
                    [id] => Some(cluster.job(*id)).filter(|job| job.gpus == 1 && job.preemptible),
                    _ => None,
                },
                _ => None,
            }
        };
        let elsewhere = |from: NodeId, job: &Job| {
            let has_room = |node: NodeId| {
                let held = used(node).len();
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
