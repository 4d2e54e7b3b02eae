//! ElasticFlow (Gu et al., ASPLOS 2023): jobs with deadlines that may have any number of GPUs. A job is admitted if it can meet its deadline and
//! makes no other miss its own; each has the least that its deadline takes, and what is left goes where it costs the least; or plain EDF, which gives the job whose deadline is
//! earliest as much as it can have.
//!
//! Source: the paper's Algorithms 1 and 2, and its artifact (commit 04a0109), whose EDF is met job by job and event by event.

mod place;
mod plan;
mod share;

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Event, GpuId, Job, JobId, JobPhase, Kind, Knowledge, NodeId,
    Param, Policy, PolicyError, Quantity, Setup, Trigger, host,
};

use place::Node;
use plan::{Ask, Plan, Profile, greedy, kept};
use share::Spare;

/// Instants that the contract has are before it.
const END: u64 = (1 << 53) - 1;

/// The policy.
pub struct ElasticFlow {
    edf: bool,
    spare: Spare,
    anew: bool,
    /// Whether jobs wait for the slot where nothing runs.
    waits: bool,
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
    /// Iterations a second of each job by its GPUs.
    rates: BTreeMap<JobId, Vec<(u32, f64)>>,
    /// Jobs that came since it last looked.
    new: BTreeSet<JobId>,
    /// Jobs that it has refused, until it is told that they have ended: that is nothing to look at.
    refused: BTreeSet<JobId>,
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
                    about: "Seconds for which it leaves jobs as they are after it has looked at them; plans are made in such slots.",
                },
                Param {
                    name: "when_idle",
                    kind: Kind::Choice(&["start", "wait"]),
                    default: "\"start\"",
                    about: "Whether jobs start at once where nothing runs, or wait for the slot, as in the artifact.",
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
                    about: "Whether jobs that came since it last looked are admitted one by one, or all together or none, as in the artifact. One by one, a job is refused if it would miss its deadline, or another job its own that would not miss it otherwise; together, they are refused unless then all jobs meet theirs.",
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
            waits: config.choice("when_idle") == "wait",
            together: config.choice("admission") == "together",
            slot: config.micros("slot"),
            most: setup.topology.nodes.iter().map(|node| node.gpus).sum(),
            nodes: setup.topology.nodes.clone(),
            last: None,
            due: None,
            since: BTreeMap::new(),
            rates: BTreeMap::new(),
            new: BTreeSet::new(),
            refused: BTreeSet::new(),
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence::EVENTS
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.take_in(batch, cluster)?;
        let now = cluster.now();
        let idle = !self.waits && cluster.holders().len() == 0;
        let due = self.due.map(|due| if idle { now } else { due.max(self.next()) });
        if due.is_some_and(|due| due <= now) {
            (self.last, self.due) = (Some(now), None);
            self.allocate(cluster);
        }
        let next = self.next();
        if let Some(at) = self.due.map(|due| due.max(next)).filter(|at| *at < END) {
            cluster.call_by(at);
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
                Event::JobEnded(end) if self.refused.remove(&end.job) => {}
                Event::JobEnded(end) => {
                    self.rates.remove(&end.job);
                    self.new.remove(&end.job);
                    let at = self.ends_at(end.job, end.at);
                    self.look_by(at);
                }
                Event::JobChanged(change) => match change.phase {
                    JobPhase::Running => {
                        self.since.insert(change.job, change.at);
                    }
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
        // Those that were there before the policy took over have been admitted.
        if batch.trigger != Trigger::Resync {
            self.new.extend(came.into_iter().filter(|id| cluster.job(*id).waits()));
        }
        Ok(())
    }

    /// When it may look next.
    fn next(&self) -> u64 {
        self.last.map_or(0, |last| last.saturating_add(self.slot))
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

    /// How fast jobs are by the number of their GPUs: powers of two, what they ask for, and the most that they may have, which is no level of the artifact's.
    fn learn(&mut self, came: &[JobId], cluster: &Cluster) -> Result<(), PolicyError> {
        let (mut ids, mut gpus) = (Vec::new(), Vec::new());
        for id in came {
            let job = cluster.job(*id);
            let Some(elastic) = job.elastic else {
                let why = format!("job {id} is not elastic: this policy is for jobs that have a batch");
                return Err(PolicyError::Unsupported(why));
            };
            let most = elastic.most_gpus.min(self.most);
            let powers = (0..31).map(|power| 1u32 << power).take_while(|gpus| *gpus <= most);
            let largest = if self.edf || self.anew { None } else { Some(most) };
            let mut levels: BTreeSet<u32> = powers.chain([job.gpus.min(most)]).chain(largest).collect();
            if !job.preemptible {
                // It can't stop, so that it stays as it is.
                levels = BTreeSet::from([job.gpus]);
            }
            ids.extend(levels.iter().map(|_| *id));
            gpus.extend(levels);
        }
        let types = vec![0; ids.len()];
        let steps = host::step_times(ids.clone(), types, gpus.clone());
        for ((id, gpus), step) in ids.into_iter().zip(gpus).zip(steps) {
            let levels = self.rates.entry(id).or_default();
            // More GPUs that make a job no faster are never worth it.
            let faster = |rate: f64| self.edf || levels.iter().all(|(_, slower)| *slower < rate);
            if step > 0.0 && faster(1.0 / step) {
                levels.push((gpus, 1.0 / step));
            }
        }
        self.rates.retain(|_, levels| !levels.is_empty());
        Ok(())
    }

    fn allocate(&mut self, cluster: &mut Cluster) {
        let new = std::mem::take(&mut self.new);
        let (asks, fixed) = self.asks(cluster);
        let open: Vec<Node> = self.open(cluster, &fixed);
        let slot_s = self.slot as f64 / 1e6;
        let free = self.free(cluster, &open, &fixed, slot_s);
        let Shares { placed, refused, changes } = match self.edf {
            true => Shares { placed: edf(&asks, free, slot_s), ..Shares::default() },
            false => self.shares(&asks, &free, slot_s, &new),
        };
        for id in refused {
            self.rates.remove(&id);
            self.refused.insert(id);
            cluster.refuse(id);
        }
        self.enact(cluster, &placed, open);
        if let Some(slots) = changes {
            self.look_by(cluster.now().saturating_add(slots.saturating_mul(self.slot)));
        }
    }

    /// Jobs that may be given GPUs, by deadline; and those that keep what they hold, with the seconds after which they are done where that is known.
    fn asks(&self, cluster: &Cluster) -> (Vec<Ask>, BTreeMap<JobId, Option<f64>>) {
        let now = cluster.now();
        let mut jobs: Vec<&Job> = cluster.jobs().filter(|job| job.waits() || job.holds()).collect();
        jobs.sort_by_key(|job| (job.deadline.unwrap_or(u64::MAX), job.id));
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let lefts = host::estimate(Quantity::Steps, ids.clone(), vec![0; ids.len()]);
        let (mut asks, mut fixed) = (Vec::new(), BTreeMap::new());
        for (job, left) in jobs.into_iter().zip(lefts) {
            let levels = self.rates.get(&job.id).filter(|_| !left.is_nan());
            // One that has nothing left to do holds its GPUs until it is told to have ended.
            let moves = job.waits() || (job.preemptible && left > 0.0);
            match levels {
                Some(levels) if moves => {
                    let due = job.deadline.map_or(f64::INFINITY, |at| (at as f64 - now as f64) / 1e6);
                    asks.push(Ask { id: job.id, left, levels: levels.clone(), due });
                }
                _ if job.holds() => {
                    let held = |(gpus, _): &&(u32, f64)| *gpus == job.held.len() as u32;
                    let rate = levels.and_then(|levels| levels.iter().find(held));
                    fixed.insert(job.id, rate.map(|(_, rate)| left.max(0.0) / rate));
                }
                _ => {}
            }
        }
        (asks, fixed)
    }

    /// When how many of the GPUs are free that are open now, or that those have that keep theirs.
    fn free(&self, cluster: &Cluster, open: &[Node], fixed: &BTreeMap<JobId, Option<f64>>, slot_s: f64) -> Profile {
        let on_up = |id: &JobId| cluster.gpus_on_up(cluster.job(*id));
        let open: u32 = open.iter().map(|node| node.gpus.len() as u32).sum();
        let mut free = Profile::new(open + fixed.keys().map(on_up).sum::<u32>());
        for (id, seconds) in fixed {
            free.take(&kept(on_up(id), *seconds, slot_s));
        }
        free
    }

    /// GPUs that are to be given, by node.
    fn open(&self, cluster: &Cluster, fixed: &BTreeMap<JobId, Option<f64>>) -> Vec<Node> {
        let kept: BTreeSet<GpuId> = fixed.keys().flat_map(|id| cluster.job(*id).held.iter().copied()).collect();
        let held: BTreeSet<GpuId> = cluster.holders().flat_map(|job| job.held.iter().copied()).collect();
        let open = |gpu: &GpuId| !kept.contains(gpu) && (cluster.is_free(*gpu) || held.contains(gpu));
        let up = self.nodes.iter().filter(|node| cluster.is_up(node.id as NodeId));
        up.map(|node| Node {
            gpus: (node.first_gpu..node.first_gpu + node.gpus).filter(open).collect(),
            size: node.gpus,
        })
        .collect()
    }

    /// ElasticFlow: admission, least shares and what is left.
    fn shares(&self, asks: &[Ask], free: &Profile, slot_s: f64, new: &BTreeSet<JobId>) -> Shares {
        let refused = match self.together {
            true => share::refused_together(asks, free, slot_s, new),
            false => share::refused(asks, free, slot_s, new),
        };
        let asks: Vec<Ask> = asks.iter().filter(|ask| !refused.contains(&ask.id)).cloned().collect();
        let (mut plans, profile) = share::lay_out(&asks, free, slot_s);
        let order = share::spend(&asks, &mut plans, profile, slot_s, self.spare);
        // It looks when a job ends in any case, which is so much later as the job's start took.
        let ends = plans.iter().filter(|plan| plan.now() > 0).filter_map(Plan::end).min();
        let changes = plans.iter().filter_map(Plan::changes).min();
        Shares {
            placed: order.into_iter().map(|job| (asks[job].id, plans[job].now())).collect(),
            refused: refused.into_iter().collect(),
            changes: changes.filter(|slots| ends.is_none_or(|end| *slots < end)),
        }
    }

    /// Gives jobs their numbers of GPUs, first to those that come first.
    fn enact(&self, cluster: &mut Cluster, placed: &[(JobId, u32)], mut open: Vec<Node>) {
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
        for ((id, _), place) in given.into_iter().zip(places) {
            let job = cluster.job(id);
            match job.holds() {
                true if place == job.held && !self.anew => {}
                true => moves.push((id, place, None)),
                false => starts.push((id, place)),
            }
        }
        cluster.reassign(moves);
        starts.into_iter().for_each(|(id, place)| cluster.start_with(id, place, None));
    }
}

/// What jobs get.
#[derive(Default)]
struct Shares {
    /// Jobs and their GPUs, in the order in which they are placed.
    placed: Vec<(JobId, u32)>,
    refused: Vec<JobId>,
    /// The number of slots after which a plan first has another number of GPUs, if no job is to have ended until then.
    changes: Option<u64>,
}

/// EDF: each job, by deadline, has the most that those before it leave.
fn edf(asks: &[Ask], mut profile: Profile, slot_s: f64) -> Vec<(JobId, u32)> {
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
