//! GPU types matched to models by similarity, after Thanapol et al., ACIIDS 2023, with the rounds and the packing of the
//! follow-up (Applied Sciences 2024).
//!
//! A job is taken for the measured model that it resembles, and goes where that model gains more than the average
//! model does. "Fastest type for this job" would send every job to the same card. The papers' abstracts give the
//! purpose; table, features, measure, score, window, guard, rounds and packing are reconstructions. What it is compared
//! with, first fit, a random type and the fastest type, runs under the very same queue.

pub mod choose;
mod ridge;
pub mod table;

use std::collections::{BTreeMap, BTreeSet};

use choose::{Chosen, Match, Oracle, Place, Room, choose, place_of};
use sandtable_policy::driver::needed;
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Draws, GpuTypeId, Instant, Job, JobId, JobPhase, Kind,
    Knowledge, NodeId, Param, Policy, PolicyError, Quantity, Setup, Trigger, host,
};
use table::{Features, Measure, Reference, Table};

/// The policy.
pub struct Similarity {
    waiting: BTreeSet<(Instant, JobId)>,
    rule: Match,
    window: usize,
    patience: u64,
    kept: Option<(JobId, NodeId)>,
    round: Option<u64>,
    /// Where jobs go that a round has preempted, once they have saved their state.
    moving: Vec<(JobId, Place)>,
    bonus: f64,
    packing: Option<f64>,
    names: Vec<String>,
    oracle: Oracle,
    draws: Draws,
}

impl Policy for Similarity {
    fn about() -> About {
        About {
            name: "similarity",
            about: "GPU types matched to models by similarity (Thanapol et al. 2023; rounds and packing 2024; all formulas are reconstructions)",
            uses: Abilities::PREEMPT | Abilities::SHARE | Abilities::TIMERS,
            needs: Knowledge::MODEL_FACTS | Knowledge::REFERENCES,
            params: &[
                Param {
                    name: "match",
                    kind: Kind::Choice(Match::WORDS),
                    default: "\"comparative\"",
                    about: "How a type is chosen: by comparative advantage, or one of the baselines.",
                },
                Param {
                    name: "features",
                    kind: Kind::Choice(Features::WORDS),
                    default: "\"core6\"",
                    about: "What models are compared by.",
                },
                Param {
                    name: "measure",
                    kind: Kind::Choice(Measure::WORDS),
                    default: "\"euclid\"",
                    about: "How far apart two models are.",
                },
                Param {
                    name: "blend",
                    kind: Kind::Flag,
                    default: "true",
                    about: "Whether a model that resembles no reference is judged by a regression too.",
                },
                Param {
                    name: "window",
                    kind: Kind::Number { min: 1.0, max: 100_000.0 },
                    default: "32",
                    about: "Jobs from the head of the queue that are looked at.",
                },
                Param {
                    name: "head_patience",
                    kind: Kind::Number { min: 0.0, max: 1e9 },
                    default: "7200",
                    about: "Seconds that the head waits before the node nearest to taking it is kept for it.",
                },
                Param {
                    name: "round",
                    kind: Kind::Number { min: 0.0, max: 1e6 },
                    default: "0",
                    about: "Seconds between rounds that match all unfinished jobs anew, those with the longest to go first (360 in the study); 0: none.",
                },
                Param {
                    name: "stay_bonus",
                    kind: Kind::Number { min: 0.0, max: 10.0 },
                    default: "0.05",
                    about: "What staying on its type is worth to a job in a round, in logarithms of speed.",
                },
                Param {
                    name: "packing",
                    kind: Kind::Flag,
                    default: "false",
                    about: "Whether a job that leaves much of its GPUs unused takes a partner that gains by it.",
                },
                Param {
                    name: "packing_utilisation",
                    kind: Kind::Number { min: 0.0, max: 1.0 },
                    default: "0.5",
                    about: "GPU utilisation below which a job takes a partner.",
                },
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let (packing, round) = (config.flag("packing"), config.micros("round"));
        if packing {
            needed("packing", Knowledge::UTILISATION | Knowledge::PAIR_SPEED, setup.knowledge)?;
        }
        if round > 0 {
            needed("a round", Knowledge::REMAINING, setup.knowledge)?;
        }
        let features = if config.choice("features") == "size" { Features::Size } else { Features::Core6 };
        let references: Vec<Reference> =
            setup.references.iter().filter_map(|profile| Reference::new(profile, features)).collect();
        if let Some(lacking) = setup.references.iter().find(|profile| Reference::new(profile, features).is_none()) {
            let why = format!("the reference {:?} has no facts: its workload names no `model`", lacking.workload);
            return Err(PolicyError::BadConfig(why));
        }
        if references.iter().all(|reference| reference.rates.is_empty()) {
            return Err(PolicyError::BadConfig("no reference has a throughput: the profile gives none".into()));
        }
        let types = setup.topology.gpu_types.len();
        let table = Table::new(references, types, Measure::named(config.choice("measure")));
        Ok(Similarity {
            waiting: BTreeSet::new(),
            rule: Match::named(config.choice("match")),
            window: config.number("window") as usize,
            patience: config.micros("head_patience"),
            kept: None,
            round: (round > 0).then_some(round),
            moving: Vec::new(),
            bonus: config.number("stay_bonus"),
            packing: packing.then(|| config.number("packing_utilisation")),
            names: setup.topology.gpu_types.iter().map(|kind| kind.name.clone()).collect(),
            oracle: Oracle::new(table, features, config.flag("blend")),
            draws: Draws::new(setup.seed),
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence { round: self.round, ..Cadence::EVENTS }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        for event in &batch.events {
            for job in cluster.queued_by(event) {
                self.waiting.insert((job.submitted, job.id));
            }
        }
        if batch.trigger == Trigger::Round {
            self.rematch(cluster);
        }
        self.start_what_fits(cluster);
        if self.packing.is_some() {
            self.pack(cluster);
        }
        Ok(())
    }
}

impl Similarity {
    fn start_what_fits(&mut self, cluster: &mut Cluster) {
        for (id, place) in std::mem::take(&mut self.moving) {
            let Some(job) = cluster.get(id) else { continue };
            let fits = Room::now(cluster).has(&place);
            match job.waits() {
                true if fits => self.start(cluster, id, &place),
                true => {}
                false => self.moving.push((id, place)),
            }
        }
        loop {
            self.guard(cluster);
            let order: Vec<JobId> = self.waiting.iter().take(self.window).map(|(_, id)| *id).collect();
            let window: Vec<&Job> = order.iter().map(|id| cluster.job(*id)).collect();
            let mut room = Room::now(cluster);
            room.kept = self.kept;
            self.moving.iter().for_each(|(_, place)| room.take(place));
            let (oracle, draws) = (&mut self.oracle, &mut self.draws);
            let chosen = choose(self.rule, &window, &room, &self.names, oracle, draws, |_| None);
            let Some(Chosen { at, place, .. }) = chosen else { break };
            self.start(cluster, order[at], &place);
        }
    }

    fn start(&mut self, cluster: &mut Cluster, id: JobId, place: &Place) {
        let submitted = cluster.job(id).submitted;
        let gpus = place.iter().flat_map(|(node, gpus)| cluster.take_from(*node, *gpus)).collect();
        cluster.start(id, gpus);
        self.waiting.remove(&(submitted, id));
        self.kept = self.kept.filter(|(head, _)| *head != id);
    }

    /// Once the head has waited too long, the node that lacks the fewest GPUs for it is kept for it.
    fn guard(&mut self, cluster: &Cluster) {
        let Some((_, head)) = self.waiting.first() else { return };
        let job = cluster.job(*head);
        if self.kept.is_some_and(|(kept, _)| kept == *head) || job.waited(cluster.now()) < self.patience {
            return;
        }
        self.kept = cluster.nearest_node(job).map(|node| (*head, node));
    }

    /// All unfinished jobs find their places anew, those with the longest to go first; a job that changes its place is
    /// preempted. What shares GPUs with a job that stays, stays beside it.
    fn rematch(&mut self, cluster: &mut Cluster) {
        let mut jobs: Vec<JobId> = cluster.holders().filter(|job| job.may_be_moved()).map(|job| job.id).collect();
        jobs.extend(self.waiting.iter().map(|(_, id)| *id));
        let left = cluster.remaining(&jobs);
        let known = |x: f64| if x.is_nan() { 0.0 } else { x };
        let mut order: Vec<(f64, JobId)> = left.into_iter().map(known).zip(jobs).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut order: Vec<JobId> = order.into_iter().map(|(_, id)| id).collect();
        let mut room = Room::without(cluster, Job::may_be_moved);
        room.kept = self.kept;
        let mut places: BTreeMap<JobId, Place> = BTreeMap::new();
        let bonus = self.bonus;
        loop {
            let window: Vec<&Job> = order.iter().take(self.window).map(|id| cluster.job(*id)).collect();
            let stay = |job: &Job| job.holds().then(|| (cluster.type_of(job), place_of(cluster, job), bonus));
            let (oracle, draws) = (&mut self.oracle, &mut self.draws);
            let chosen = choose(self.rule, &window, &room, &self.names, oracle, draws, stay);
            let Some(Chosen { at, place, .. }) = chosen else { break };
            room.take(&place);
            let job = cluster.job(order.remove(at));
            if job.holds() && place == place_of(cluster, job) {
                // But for those that have a place elsewhere.
                let beside = job.held.iter().flat_map(|gpu| cluster.residents(*gpu)).copied();
                let beside: BTreeSet<JobId> = beside.filter(|other| !places.contains_key(other)).collect();
                order.retain(|other| !beside.contains(other));
                places.extend(beside.iter().map(|other| (*other, place_of(cluster, cluster.job(*other)))));
            }
            places.insert(job.id, place);
        }
        let stays = |job: &Job| places.get(&job.id).is_some_and(|place| *place == place_of(cluster, job));
        let leave: Vec<JobId> =
            cluster.holders().filter(|job| job.may_be_moved() && !stays(job)).map(|job| job.id).collect();
        leave.iter().for_each(|id| cluster.preempt(*id));
        if !leave.is_empty() {
            cluster.call_again();
        }
        self.moving = leave.iter().filter_map(|id| Some((*id, places.remove(id)?))).collect();
        for (id, place) in places {
            if cluster.job(id).waits() && Room::now(cluster).has(&place) {
                self.start(cluster, id, &place);
            }
        }
    }

    /// Jobs that still wait join running ones of their size that leave much of their GPUs unused, where both together
    /// make more progress than one alone.
    fn pack(&mut self, cluster: &mut Cluster) {
        let Some(bound) = self.packing.filter(|_| cluster.tenancy() > 1) else { return };
        let order: Vec<JobId> = self.waiting.iter().take(self.window).map(|(_, id)| *id).collect();
        for id in order {
            let job = cluster.job(id);
            let able = |other: &&Job| {
                let open = |gpu: u32| self.kept.is_none_or(|(head, node)| head == id || node != cluster.node(gpu));
                let free = |gpu: &u32| cluster.residents(*gpu).len() == 1 && cluster.takes(job, *gpu, 2) && open(*gpu);
                other.phase == JobPhase::Running && other.gpus == job.gpus && other.held.iter().all(free)
            };
            let allowed = |other: &&Job| job.gpu_types.contains(&cluster.type_of(other));
            let mut hosts: Vec<JobId> = cluster.holders().filter(able).filter(allowed).map(|other| other.id).collect();
            hosts.sort_unstable();
            let kinds: Vec<GpuTypeId> = hosts.iter().map(|other| cluster.type_of(cluster.job(*other))).collect();
            let used = host::estimate(Quantity::Utilisation, hosts.clone(), kinds.clone());
            let gain = |other: JobId, kind: GpuTypeId| {
                let both = host::pair_speed(kind, vec![id, other], vec![vec![other], vec![id]]);
                both[0] + both[1] - 1.0
            };
            let low = hosts.iter().zip(kinds).zip(used).filter(|(_, used)| *used < bound);
            let gains = low.map(|((other, kind), _)| (gain(*other, kind), *other)).filter(|(gain, _)| *gain >= 0.0);
            let best = gains.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
            if let Some((_, other)) = best {
                let gpus = cluster.job(other).held.clone();
                let submitted = job.submitted;
                cluster.start(id, gpus);
                self.waiting.remove(&(submitted, id));
                self.kept = self.kept.filter(|(head, _)| *head != id);
            }
        }
    }
}

sandtable_policy::export!(Similarity);

#[cfg(test)]
mod tests;
