//! AntMan-like: opportunistic jobs in the leftovers of guaranteed ones, after Xiao et al., OSDI 2020. The choice of
//! GPUs is the published scheduler's; the local controller is not published: its loop is a reconstruction, hence the
//! name.
//!
//! A gang, or a job that may not be preempted, is guaranteed: it gets GPUs with no other guaranteed job on them, empty
//! ones first. A one-GPU job that may be preempted is opportunistic: it joins the least utilised GPU below a limit,
//! and is throttled as long as it slows a guaranteed one down (multiplicative decrease, additive increase).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use sandtable_policy::{
    Abilities, About, Ask, Batch, Cadence, Cluster, Config, Event, GpuId, GpuTypeId, Instant, Job, JobId, JobPhase,
    Kind, Knowledge, NodeId, Param, Placement, Policy, PolicyError, Setup, Trigger, host,
};

/// Jobs that ask for the same find a place together or not at all.
struct Queue {
    guaranteed: bool,
    ask: Ask,
    gpu_types: Rc<[GpuTypeId]>,
    jobs: BTreeSet<(Instant, JobId)>,
    /// It found no place, and no room was made since.
    blocked: bool,
}

/// The policy.
pub struct AntmanLike {
    period: u64,
    utilisation: f64,
    memory_mib: u64,
    tolerance: f64,
    relief: f64,
    queues: Vec<Queue>,
    /// Thousandths of their speed that opportunistic jobs are held to, where that is not all of it.
    held_to: BTreeMap<JobId, u32>,
    /// Running guaranteed jobs with opportunistic neighbours, by id; none: to be looked up, since an event may have changed them.
    guarded: Option<Vec<JobId>>,
}

/// Lowest speed that a job is throttled to, in thousandths.
const LEAST: u32 = 10;
/// Thousandths that come back a period.
const STEP: u32 = 50;

impl Policy for AntmanLike {
    fn about() -> About {
        About {
            name: "antman-like",
            about: "opportunistic jobs in the leftovers of guaranteed ones, throttled by what they cost (after AntMan, OSDI 2020; the controller is a reconstruction)",
            uses: Abilities::SHARE | Abilities::THROTTLE,
            needs: Knowledge::SOLO_PROFILE,
            params: &[
                Param {
                    name: "period",
                    kind: Kind::Number { min: 0.1, max: 1e6 },
                    default: "1",
                    about: "Seconds between looks at what sharing costs.",
                },
                Param {
                    name: "utilisation",
                    kind: Kind::Number { min: 0.0, max: 1.0 },
                    default: "0.8",
                    about: "GPU utilisation from which no opportunistic job joins.",
                },
                Param {
                    name: "memory_mib",
                    kind: Kind::Number { min: 0.0, max: 1e9 },
                    default: "16384",
                    about: "Memory in use from which no opportunistic job joins, MiB.",
                },
                Param {
                    name: "tolerance",
                    kind: Kind::Number { min: 0.0, max: 10.0 },
                    default: "0.05",
                    about: "Slowdown of a guaranteed job above which its neighbours are held to half.",
                },
                Param {
                    name: "relief",
                    kind: Kind::Number { min: 0.0, max: 10.0 },
                    default: "0.02",
                    about: "Slowdown below which they get five points back.",
                },
            ],
        }
    }

    fn new(config: &Config, _: &Setup) -> Result<Self, PolicyError> {
        Ok(AntmanLike {
            period: config.micros("period"),
            utilisation: config.number("utilisation"),
            memory_mib: config.number("memory_mib") as u64,
            tolerance: config.number("tolerance"),
            relief: config.number("relief"),
            queues: Vec::new(),
            held_to: BTreeMap::new(),
            guarded: None,
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence { round: Some(self.period), ..Cadence::EVENTS }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        for event in &batch.events {
            if let Event::JobEnded(end) = event {
                self.held_to.remove(&end.job);
            }
            // Starts and arrivals only take room, and jobs that begin to run make none.
            if makes_room(event) {
                self.room_was_made();
            }
            for job in cluster.queued_by(event) {
                self.wait(job);
                self.held_to.remove(&job.id);
            }
        }
        if !batch.events.is_empty() {
            self.guarded = None;
            self.start(cluster);
        }
        if batch.trigger == Trigger::Round {
            self.control(cluster);
        }
        Ok(())
    }
}

fn makes_room(event: &Event) -> bool {
    match event {
        Event::JobArrived(_) | Event::RemainingChanged(_) | Event::LeaseEnded(_) | Event::Timer(_) => false,
        Event::JobChanged(change) => change.phase != JobPhase::Running,
        Event::JobEnded(_) | Event::NodeChanged(_) | Event::Rejected(_) => true,
    }
}

fn is_guaranteed(job: &Job) -> bool {
    job.gpus > 1 || !job.preemptible
}

impl AntmanLike {
    /// Guaranteed jobs first, each kind by submission; a job that finds no place is passed over.
    fn start(&mut self, cluster: &mut Cluster) {
        loop {
            let open =
                (0..self.queues.len()).filter(|at| !self.queues[*at].blocked && !self.queues[*at].jobs.is_empty());
            let turn = |at: &usize| (!self.queues[*at].guaranteed, self.queues[*at].jobs.first().copied());
            let Some(at) = open.min_by_key(turn) else { return };
            let Some((submitted, id)) = self.queues[at].jobs.first().copied() else { return };
            let job = cluster.job(id);
            let place =
                if self.queues[at].guaranteed { guaranteed(cluster, job) } else { self.opportunistic(cluster, job) };
            match place {
                Some(gpus) => {
                    cluster.start(id, gpus);
                    self.queues[at].jobs.remove(&(submitted, id));
                }
                None => self.queues[at].blocked = true,
            }
        }
    }

    fn room_was_made(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.blocked = false);
    }

    /// Adds a job to those that wait.
    fn wait(&mut self, job: &Job) {
        let (guaranteed, ask) = (is_guaranteed(job), job.ask());
        let same =
            |queue: &Queue| (queue.guaranteed, queue.ask) == (guaranteed, ask) && queue.gpu_types == job.gpu_types;
        let at = self.queues.iter().position(same).unwrap_or_else(|| {
            let (gpu_types, jobs) = (job.gpu_types.clone(), BTreeSet::new());
            self.queues.push(Queue { guaranteed, ask, gpu_types, jobs, blocked: false });
            self.queues.len() - 1
        });
        self.queues[at].jobs.insert((job.submitted, job.id));
    }

    /// The least utilised GPU that has room, by what its residents use alone and are held to.
    fn opportunistic(&self, cluster: &Cluster, job: &Job) -> Option<Vec<GpuId>> {
        let mut best: Option<(f64, GpuId)> = None;
        for node in 0..cluster.node_count() as NodeId {
            if !job.gpu_types.contains(&cluster.node_type(node)) {
                continue;
            }
            for gpu in cluster.node_gpus(node) {
                if !cluster.takes(job, gpu, u32::MAX) || cluster.memory_used(gpu) >= self.memory_mib {
                    continue;
                }
                let part = |id: &JobId| f64::from(self.held_to.get(id).copied().unwrap_or(1000)) / 1000.0;
                let idle = |idle: f64, id: &JobId| idle * (1.0 - cluster.utilisation(cluster.job(*id)) * part(id));
                let used = 1.0 - cluster.residents(gpu).iter().fold(1.0, idle);
                if used < self.utilisation && best.is_none_or(|(least, _)| used < least) {
                    best = Some((used, gpu));
                }
            }
        }
        best.map(|(_, gpu)| vec![gpu])
    }

    /// The local controllers, all at once.
    fn control(&mut self, cluster: &mut Cluster) {
        let guarded = self.guarded.take().unwrap_or_else(|| guarded(cluster));
        let speeds = if guarded.is_empty() { Vec::new() } else { host::speeds(guarded.clone()) };
        let mut wanted: BTreeMap<JobId, bool> = BTreeMap::new();
        // A throttled job without a guaranteed neighbour gets its speed back too, a step a period.
        let has_guaranteed_neighbour = |id: &JobId| {
            let neighbours = cluster.job(*id).held.iter().flat_map(|gpu| cluster.residents(*gpu));
            neighbours.into_iter().any(|other| is_guaranteed(cluster.job(*other)))
        };
        let free = self.held_to.iter().filter(|(_, milli)| **milli < 1000).map(|(id, _)| *id);
        let running = |id: &JobId| cluster.get(*id).is_some_and(|job| job.phase == JobPhase::Running);
        wanted.extend(free.filter(running).filter(|id| !has_guaranteed_neighbour(id)).map(|id| (id, false)));
        for (id, speed) in guarded.iter().copied().zip(speeds) {
            let slowdown = 1.0 / speed - 1.0;
            let (cut, spared) = (slowdown > self.tolerance, slowdown < self.relief);
            if !cut && !spared {
                continue;
            }
            for gpu in &cluster.job(id).held {
                for other in cluster.residents(*gpu) {
                    let job = cluster.job(*other);
                    if !is_guaranteed(job) && job.phase == JobPhase::Running {
                        *wanted.entry(*other).or_insert(cut) |= cut;
                    }
                }
            }
        }
        for (id, cut) in wanted {
            let now = self.held_to.get(&id).copied().unwrap_or(1000);
            let next = if cut { (now / 2).max(LEAST) } else { (now + STEP).min(1000) };
            if next != now {
                self.held_to.insert(id, next);
                cluster.throttle(id, next);
                // What it is held to counts as utilisation of its GPUs.
                self.room_was_made();
            }
        }
        self.guarded = Some(guarded);
    }
}

/// Running guaranteed jobs that share a GPU with an opportunistic one, by id.
fn guarded(cluster: &Cluster) -> Vec<JobId> {
    let mixed = |job: &&Job| {
        let neighbours = |gpu: &GpuId| cluster.residents(*gpu).iter().any(|id| !is_guaranteed(cluster.job(*id)));
        is_guaranteed(job) && job.phase == JobPhase::Running && job.held.iter().any(neighbours)
    };
    let mut guarded: Vec<JobId> = cluster.holders().filter(mixed).map(|job| job.id).collect();
    guarded.sort_unstable();
    guarded
}

/// Empty GPUs; else those of one node that have no guaranteed job.
fn guaranteed(cluster: &Cluster, job: &Job) -> Option<Vec<GpuId>> {
    if let Some(gpus) = Placement::Packed.find_any(cluster, &job.gpu_types, job.ask()) {
        return Some(gpus);
    }
    let free_of_them = |gpu: &GpuId| {
        cluster.takes(job, *gpu, u32::MAX) && !cluster.residents(*gpu).iter().any(|id| is_guaranteed(cluster.job(*id)))
    };
    let nodes = (0..cluster.node_count() as NodeId).filter(|node| job.gpu_types.contains(&cluster.node_type(*node)));
    nodes.into_iter().find_map(|node| {
        let mut gpus: Vec<GpuId> = cluster.node_gpus(node).filter(free_of_them).collect();
        gpus.sort_by_key(|gpu| (cluster.tasks(*gpu), *gpu));
        gpus.truncate(job.gpus as usize);
        gpus.sort_unstable();
        (gpus.len() == job.gpus as usize).then_some(gpus)
    })
}

sandtable_policy::export!(AntmanLike);

#[cfg(test)]
mod tests {
    use super::AntmanLike;
    use sandtable_policy::testing::completion_times;

    #[test]
    fn guaranteed_jobs_come_first_where_gpus_are_not_shared() {
        // The gang is guaranteed: of two jobs that wait it goes before the one that came earlier.
        let times = completion_times::<AntmanLike>("{}", &[2], &[(0, 2, 100), (1, 1, 50), (2, 2, 100)]);
        assert_eq!(times, [100, 249, 198]);
    }
}
