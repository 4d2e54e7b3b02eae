//! ElasticFlow (Gu et al., ASPLOS 2023): jobs with deadlines that may have any number of GPUs. A job is admitted if all jobs can meet their deadlines then; each
//! has the least that its deadline takes, and what is left goes where it costs the least; or plain EDF, which gives the job whose deadline is
//! earliest as much as it can have.
//!
//! Source: the paper's Algorithms 1 and 2, and its artifact (commit 04a0109), whose EDF is met job by job and event by event.

mod place;
mod plan;
mod share;

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Event, GpuId, Job, JobId, JobPhase, Kind, Knowledge, NodeId,
    Param, Policy, PolicyError, Quantity, Setup, host,
};

use place::Node;
use plan::{Ask, Profile, greedy};
use share::Spare;

/// The policy.
pub struct ElasticFlow {
    edf: bool,
    spare: Spare,
    anew: bool,
    /// Whether jobs that come at once are admitted or refused together.
    together: bool,
    /// Microseconds of a slot.
    slot: u64,
    nodes: Vec<sandtable_policy::Node>,
    /// Most GPUs of a job.
    most: u32,
    /// When it last looked.
    last: Option<u64>,
    /// When it has to look for what has happened since; none: nothing has.
    due: Option<u64>,
    /// Since when jobs make progress on their GPUs.
    since: BTreeMap<JobId, u64>,
    /// After how many slots on its new GPUs the plan of a job changes, until it makes progress there.
    changes: BTreeMap<JobId, u64>,
    /// Iterations a second of each job by its GPUs.
    rates: BTreeMap<JobId, Vec<(u32, f64)>>,
    /// Jobs that came since it last looked.
    new: BTreeSet<JobId>,
}

impl Policy for ElasticFlow {
    fn about() -> About {
        About {
            name: "elasticflow",
            about: "least shares that meet deadlines, then what is left where it costs the least; or EDF of any size (ElasticFlow, Gu et al., ASPLOS 2023)",
            uses: Abilities::PREEMPT | Abilities::TIMERS | Abilities::ELASTIC | Abilities::REFUSE,
            needs: Knowledge::STEPS,
            params: &[
                Param {
                    name: "variant",
                    kind: Kind::Choice(&["elasticflow", "edf"]),
                    default: "\"elasticflow\"",
                    about: "ElasticFlow, with admission; or EDF, which gives the job whose deadline is earliest as many GPUs as it can have, and refuses none.",
                },
                Param {
                    name: "slot",
                    kind: Kind::Number { min: 1.0, max: 1e6 },
                    default: "240",
                    about: "Seconds for which it leaves jobs as they are, after it has changed any; plans are made in such slots.",
                },
                Param {
                    name: "spare",
                    kind: Kind::Choice(Spare::WORDS),
                    default: "\"least\"",
                    about: "Who gets the GPUs that no deadline takes, where that is ElasticFlow's to say: the job that takes the least GPU time more for each GPU, as the paper has it, or the most, as its artifact does.",
                },
                Param {
                    name: "admission",
                    kind: Kind::Choice(&["each", "together"]),
                    default: "\"each\"",
                    about: "Whether jobs that came since it last looked are admitted one by one, or all together or none, as in the artifact. A job is refused if it would miss its deadline, or another job its own that would not miss it otherwise.",
                },
                Param {
                    name: "placement",
                    kind: Kind::Choice(&["kept", "anew"]),
                    default: "\"kept\"",
                    about: "Whether jobs that keep their size keep their GPUs, or all are placed anew whenever it looks, as in the artifact.",
                },
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let refuse = |why: &str| Err(PolicyError::Unsupported(why.into()));
        if setup.topology.gpu_types.len() > 1 {
            return refuse("rates are known for one type of GPU, the fleet has several");
        }
        Ok(ElasticFlow {
            edf: config.choice("variant") == "edf",
            spare: Spare::named(config.choice("spare")),
            anew: config.choice("placement") == "anew",
            together: config.choice("admission") == "together",
            slot: config.micros("slot"),
            most: setup.topology.nodes.iter().map(|node| node.gpus).sum(),
            nodes: setup.topology.nodes.clone(),
            last: None,
            due: None,
            since: BTreeMap::new(),
            changes: BTreeMap::new(),
            rates: BTreeMap::new(),
            new: BTreeSet::new(),
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence::EVENTS
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.take_in(batch, cluster)?;
        let now = cluster.now();
        let next = self.last.map_or(0, |last| last.saturating_add(self.slot));
        if self.due.is_some_and(|due| due.max(next) <= now) {
            (self.last, self.due) = (Some(now), None);
            self.allocate(cluster);
        }
        let next = self.last.map_or(0, |last| last.saturating_add(self.slot));
        if let Some(due) = self.due {
            cluster.call_by(due.max(next));
        }
        Ok(())
    }
}

impl ElasticFlow {
    fn take_in(&mut self, batch: &Batch, cluster: &Cluster) -> Result<(), PolicyError> {
        let mut came: Vec<JobId> = Vec::new();
        for event in &batch.events {
            match event {
                Event::JobArrived(new) => came.extend(cluster.get(new.job).map(|job| job.id)),
                Event::JobEnded(end) => {
                    self.rates.remove(&end.job);
                    self.new.remove(&end.job);
                    let at = self.ends_at(end.job, end.at);
                    self.look_by(at);
                }
                Event::JobChanged(change) => match change.phase {
                    JobPhase::Running => self.runs(change.job, change.at),
                    JobPhase::Queued => self.look_by(change.at),
                    _ => {}
                },
                Event::NodeChanged(change) => self.look_by(change.at),
                _ => {}
            }
        }
        if !came.is_empty() {
            self.look_by(cluster.now());
        }
        self.learn(&came, cluster)?;
        self.new.extend(came.into_iter().filter(|id| cluster.job(*id).waits()));
        Ok(())
    }

    fn look_by(&mut self, at: u64) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// When GPUs of a job that has ended are given to others: ElasticFlow plans in whole slots.
    fn ends_at(&mut self, id: JobId, at: u64) -> u64 {
        match self.since.remove(&id) {
            Some(since) if !self.edf => since + at.saturating_sub(since).div_ceil(self.slot) * self.slot,
            _ => at,
        }
    }

    /// How fast jobs are by the number of their GPUs: powers of two, and the most that they may have.
    fn learn(&mut self, came: &[JobId], cluster: &Cluster) -> Result<(), PolicyError> {
        let (mut ids, mut gpus) = (Vec::new(), Vec::new());
        for id in came {
            let Some(elastic) = cluster.job(*id).elastic else {
                let why = format!("job {id} is not elastic: this policy is for jobs that have a batch");
                return Err(PolicyError::Unsupported(why));
            };
            let levels =
                (0..31).map(|power| 1u32 << power).take_while(|gpus| *gpus <= elastic.most_gpus.min(self.most));
            for level in levels {
                ids.push(*id);
                gpus.push(level);
            }
        }
        let types = vec![0; ids.len()];
        let steps = host::step_times(ids.clone(), types, gpus.clone());
        for ((id, gpus), step) in ids.into_iter().zip(gpus).zip(steps) {
            if step > 0.0 {
                self.rates.entry(id).or_default().push((gpus, 1.0 / step));
            }
        }
        for id in came.iter().filter(|_| !self.edf) {
            let Some(levels) = self.rates.get_mut(id) else { continue };
            // More GPUs than make it fastest are never worth it.
            let fastest = levels.iter().fold(0.0, |most: f64, (_, rate)| most.max(*rate));
            levels.truncate(levels.iter().take_while(|(_, rate)| *rate < fastest).count() + 1);
        }
        Ok(())
    }

    fn allocate(&mut self, cluster: &mut Cluster) {
        let new = std::mem::take(&mut self.new);
        let (asks, fixed) = self.asks(cluster);
        let open: Vec<Node> = self.open(cluster, &fixed);
        let gpus = open.iter().map(|node| node.gpus.len() as u32).sum();
        let slot_s = self.slot as f64 / 1e6;
        let (placed, refused) =
            if self.edf { (edf(&asks, gpus, slot_s), Vec::new()) } else { self.shares(&asks, gpus, slot_s, &new) };
        for id in refused {
            self.rates.remove(&id);
            cluster.refuse(id);
        }
        let moved = self.enact(cluster, &placed, open);
        // Whatever starts anew keeps its plan from when it makes progress.
        for id in self.changes.keys().copied().filter(|id| !moved.contains(id)).collect::<Vec<_>>() {
            self.runs_on(id, cluster.now());
        }
    }

    /// A job makes progress on its GPUs.
    fn runs(&mut self, id: JobId, at: u64) {
        self.since.insert(id, at);
        self.runs_on(id, at);
    }

    fn runs_on(&mut self, id: JobId, at: u64) {
        if let Some(slots) = self.changes.remove(&id) {
            self.look_by(at.saturating_add(slots.saturating_mul(self.slot)));
        }
    }

    /// Jobs that may be given GPUs, by deadline; and those that keep what they hold.
    fn asks(&self, cluster: &Cluster) -> (Vec<Ask>, BTreeSet<JobId>) {
        let now = cluster.now();
        let known = |job: &&Job| self.rates.contains_key(&job.id) && (job.waits() || job.holds());
        let (mut jobs, fixed): (Vec<&Job>, Vec<&Job>) =
            cluster.jobs().filter(known).partition(|job| job.waits() || job.preemptible);
        jobs.sort_by_key(|job| (job.deadline.unwrap_or(u64::MAX), job.id));
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let left = host::estimate(Quantity::Steps, ids.clone(), vec![0; ids.len()]);
        let ask = |(job, left): (&Job, f64)| {
            let levels = self.rates.get(&job.id)?.clone();
            let due = job.deadline.map_or(f64::INFINITY, |at| (at as f64 - now as f64) / 1e6);
            (!left.is_nan()).then_some(Ask { id: job.id, left, levels, due })
        };
        let asks = jobs.into_iter().zip(left).filter_map(ask).collect();
        (asks, fixed.into_iter().map(|job| job.id).collect())
    }

    /// GPUs that are to be given, by node.
    fn open(&self, cluster: &Cluster, fixed: &BTreeSet<JobId>) -> Vec<Node> {
        let kept: BTreeSet<GpuId> = fixed.iter().flat_map(|id| cluster.job(*id).held.iter().copied()).collect();
        let held: BTreeSet<GpuId> = cluster.holders().flat_map(|job| job.held.iter().copied()).collect();
        let open = |gpu: &GpuId| !kept.contains(gpu) && (cluster.is_free(*gpu) || held.contains(gpu));
        let up = self.nodes.iter().filter(|node| cluster.is_up(node.id as NodeId));
        up.map(|node| Node {
            gpus: (node.first_gpu..node.first_gpu + node.gpus).filter(open).collect(),
            size: node.gpus,
        })
        .collect()
    }

    /// ElasticFlow: admission, least shares and what is left. Returns jobs and their GPUs, and who is refused.
    fn shares(
        &mut self,
        asks: &[Ask],
        gpus: u32,
        slot_s: f64,
        new: &BTreeSet<JobId>,
    ) -> (Vec<(JobId, u32)>, Vec<JobId>) {
        let refused = share::refused(asks, gpus, slot_s, &self.groups(new));
        let asks: Vec<Ask> = asks.iter().filter(|ask| !refused.contains(&ask.id)).cloned().collect();
        let (mut plans, profile) = share::lay_out(&asks, gpus, slot_s);
        let order = share::spend(&asks, &mut plans, profile, slot_s, self.spare);
        let changes = asks.iter().zip(&plans).filter_map(|(ask, plan)| Some((ask.id, plan.changes()?)));
        self.changes = changes.collect();
        (order.into_iter().map(|job| (asks[job].id, plans[job].now())).collect(), refused.into_iter().collect())
    }

    /// Jobs that are admitted or refused together, in the order of their submission.
    fn groups(&self, new: &BTreeSet<JobId>) -> Vec<BTreeSet<JobId>> {
        match self.together {
            true => vec![new.clone()],
            false => new.iter().map(|id| BTreeSet::from([*id])).collect(),
        }
    }

    /// Gives jobs their numbers of GPUs, first to those that come first. Returns those that get other GPUs, or the same anew.
    fn enact(&self, cluster: &mut Cluster, placed: &[(JobId, u32)], mut open: Vec<Node>) -> BTreeSet<JobId> {
        let leave: Vec<JobId> =
            placed.iter().filter(|(id, gpus)| *gpus == 0 && cluster.job(*id).holds()).map(|(id, _)| *id).collect();
        leave.iter().for_each(|id| cluster.preempt(*id));
        let mut given: Vec<(JobId, u32)> = placed.iter().copied().filter(|(_, gpus)| *gpus > 0).collect();
        given.sort_by_key(|(_, gpus)| std::cmp::Reverse(*gpus));
        let sizes = |given: &[(JobId, u32)]| given.iter().map(|(_, gpus)| *gpus).collect::<Vec<u32>>();
        let places = self.anew.then(|| place::anew(&sizes(&given), &open)).flatten().unwrap_or_else(|| {
            let usable: BTreeSet<GpuId> = open.iter().flat_map(|node| node.gpus.iter().copied()).collect();
            given.retain(|(id, gpus)| {
                let held = &cluster.job(*id).held;
                held.len() as u32 != *gpus || !held.iter().all(|gpu| usable.contains(gpu))
            });
            let moved: BTreeSet<JobId> = given.iter().map(|(id, _)| *id).collect();
            let stays = |job: &&Job| job.holds() && !moved.contains(&job.id);
            let kept: BTreeSet<GpuId> =
                cluster.holders().filter(stays).flat_map(|job| job.held.iter().copied()).collect();
            open.iter_mut().for_each(|node| node.gpus.retain(|gpu| !kept.contains(gpu)));
            place::beside(&sizes(&given), &open)
        });
        let (mut moves, mut starts) = (Vec::new(), Vec::new());
        for ((id, gpus), place) in given.into_iter().zip(places) {
            let job = cluster.job(id);
            if place.len() as u32 != gpus || (place == job.held && !self.anew) {
                continue;
            }
            if job.holds() { moves.push((id, place, None)) } else { starts.push((id, place)) }
        }
        let moved = moves.iter().map(|(id, ..)| *id).chain(starts.iter().map(|(id, _)| *id)).collect();
        cluster.reassign(moves);
        starts.into_iter().for_each(|(id, place)| cluster.start_with(id, place, None));
        moved
    }
}

/// EDF: each job, by deadline, has the most that those before it leave.
fn edf(asks: &[Ask], gpus: u32, slot_s: f64) -> Vec<(JobId, u32)> {
    let mut profile = Profile::new(gpus);
    let give = |ask: &Ask| {
        if profile.now() == 0 {
            return (ask.id, 0);
        }
        let plan = greedy(ask, &profile, slot_s);
        profile.take(&plan);
        (ask.id, plan.now())
    };
    asks.iter().map(give).collect()
}

sandtable_policy::export!(ElasticFlow);
