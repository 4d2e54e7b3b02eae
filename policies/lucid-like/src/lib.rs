//! Lucid-like: the job that needs the fewest GPU-seconds comes first, nothing is preempted, and jobs that mind company
//! little share GPUs in pairs (after Hu et al., ASPLOS 2023, and the rules of its public simulator).
//!
//! A waiting job first looks for a running one to join: the first in the order of starts that has as many GPUs, all to
//! itself, enough memory left, and at least half of its own priority's GPU-seconds; the scores of the two add up to 2 at
//! most. Else it takes free GPUs. A reconstruction, hence the name: scores are means of the bound pair speeds over the
//! workloads that have come, where Lucid's come from a tree over what its profiler measured; whether a quiet time lies ahead is judged
//! by the jobs of the last hour; there is no pool of profiling nodes.

mod partners;
mod score;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use sandtable_policy::{
    Abilities, About, Ask, Batch, Cadence, Cluster, Config, Event, GpuId, GpuTypeId, Instant, Job, JobId, JobPhase,
    Kind, Knowledge, Param, Placement, Policy, PolicyError, Setup, Trigger, host,
};

use crate::partners::{Partners, Refused};
use crate::score::Scores;

const HOUR: u64 = 3_600_000_000;

/// Jobs that need the same find a place together or not at all.
struct Queue {
    ask: Ask,
    workload: Option<u32>,
    gpu_types: Rc<[GpuTypeId]>,
    /// By priority, as the bits of a number of at least 0, and id.
    jobs: BTreeSet<(u64, JobId)>,
    /// Found no place in this pass.
    blocked: bool,
    refused: Refused,
}

/// The policy.
pub struct LucidLike {
    place: Placement,
    /// Whether a job takes free GPUs only where it finds no other to join.
    joins_first: bool,
    /// Jobs an hour up to which none share.
    quiet: f64,
    /// When the jobs of the last hour came.
    came: VecDeque<Instant>,
    queues: Vec<Queue>,
    /// GPU-seconds that each live job was foretold to need.
    priorities: BTreeMap<JobId, f64>,
    scores: Scores,
    partners: Partners,
    /// Whether it has said that a job shares with none.
    warned: bool,
}

impl Policy for LucidLike {
    fn about() -> About {
        About {
            name: "lucid-like",
            about: "fewest GPU-seconds first, never preempts, jobs that mind company little share GPUs in pairs (after Lucid, ASPLOS 2023; scores and forecast are reconstructions)",
            uses: Abilities::SHARE | Placement::follows(),
            needs: Knowledge::REMAINING | Knowledge::PAIR_SPEED,
            params: &[
                Param {
                    name: "quiet",
                    kind: Kind::Number { min: 0.0, max: 1e9 },
                    default: "2",
                    about: "If no more jobs than this came in the last hour, none may share, and a job that finds no place blocks the others; 0: they may always share.",
                },
                Param {
                    name: "join",
                    kind: Kind::Choice(&["first", "last"]),
                    default: "\"first\"",
                    about: "When a job looks for another to join: before it looks for free GPUs, as in Lucid's simulator, or where there are none.",
                },
                Param { default: "\"consolidate\"", ..Placement::PARAM },
            ],
        }
    }

    fn new(config: &Config, _: &Setup) -> Result<Self, PolicyError> {
        Ok(LucidLike {
            place: Placement::named(config.choice("placement")),
            joins_first: config.choice("join") == "first",
            quiet: config.number("quiet"),
            came: VecDeque::new(),
            queues: Vec::new(),
            priorities: BTreeMap::new(),
            scores: Scores::default(),
            partners: Partners::default(),
            warned: false,
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence::WHILE_WAITING
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let mut queued: Vec<JobId> = Vec::new();
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) => self.came.push_back(arrival.submitted),
                Event::JobEnded(end) => {
                    self.partners.left(end.job);
                    self.scores.ended(end.job);
                    self.priorities.remove(&end.job);
                }
                // A node that is up again has room for those whose partners it has.
                Event::NodeChanged(_) => self.partners.age += 1,
                _ => {}
            }
            for job in cluster.queued_by(event) {
                self.partners.left(job.id);
                queued.push(job.id);
            }
        }
        if batch.trigger == Trigger::Resync {
            self.take_over(cluster);
        }
        for (id, seconds) in queued.iter().zip(cluster.remaining(&queued)) {
            self.wait(cluster.job(*id), seconds, cluster);
        }
        let hour = batch.now.saturating_sub(HOUR);
        while self.came.front().is_some_and(|at| *at < hour) {
            self.came.pop_front();
        }
        self.start(cluster);
        Ok(())
    }
}

impl LucidLike {
    /// Those that another policy has started: who is alone may be joined.
    fn take_over(&mut self, cluster: &Cluster) {
        let mut holders: Vec<JobId> = cluster.holders().map(|job| job.id).collect();
        holders.sort_unstable();
        for (id, seconds) in holders.iter().zip(cluster.remaining(&holders)) {
            let job = cluster.job(*id);
            let priority = priority(job, seconds);
            self.priorities.insert(*id, priority);
            self.scores.arrived(job, cluster);
            if job.held.iter().all(|gpu| cluster.tasks(*gpu) == 1) && job.phase != JobPhase::Stopping {
                self.partners.started(job, priority, None);
            }
        }
        self.partners.age += 1;
    }

    /// Adds a job to those that wait.
    fn wait(&mut self, job: &Job, seconds: f64, cluster: &Cluster) {
        if self.scores.arrived(job, cluster) {
            self.partners.age += 1;
        }
        if job.workload.is_none() && !std::mem::replace(&mut self.warned, true) {
            let why = "nothing is known of its workload (`reveal`)";
            host::warn(&format!("job {} shares no GPU: {why}", job.id));
        }
        let priority = priority(job, seconds);
        self.priorities.insert(job.id, priority);
        let (ask, workload) = (job.ask(), job.workload);
        let same = |queue: &Queue| (queue.ask, queue.workload) == (ask, workload) && queue.gpu_types == job.gpu_types;
        let at = self.queues.iter().position(same).unwrap_or_else(|| {
            let (gpu_types, jobs) = (job.gpu_types.clone(), BTreeSet::new());
            self.queues.push(Queue { ask, workload, gpu_types, jobs, blocked: false, refused: Refused::NOTHING });
            self.queues.len() - 1
        });
        self.queues[at].jobs.insert((priority.to_bits(), job.id));
    }

    /// One pass in the order of priorities. Where jobs may share, one that finds no place is passed over.
    fn start(&mut self, cluster: &mut Cluster) {
        let shares = self.quiet == 0.0 || self.came.len() as f64 > self.quiet;
        self.queues.iter_mut().for_each(|queue| queue.blocked = false);
        loop {
            let open = self.queues.iter_mut().filter(|queue| !queue.blocked && !queue.jobs.is_empty());
            let Some(queue) = open.min_by_key(|queue| queue.jobs.first().copied()) else { return };
            let Some((_, id)) = queue.jobs.first().copied() else { return };
            let (job, priority) = (cluster.job(id), self.priorities[&id]);
            let size = job.gpus;
            let free = |queue: &Queue| self.place.find_any(cluster, &queue.gpu_types, queue.ask);
            let at_once: Option<Vec<GpuId>> = if self.joins_first { None } else { free(queue) };
            let partner = if shares && at_once.is_none() {
                self.partners.find(cluster, &self.scores, job, priority, &mut queue.refused)
            } else {
                None
            };
            let gpus = match partner {
                Some(other) => Some(cluster.job(other).held.clone()),
                None if self.joins_first => free(queue),
                None => at_once,
            };
            match gpus {
                Some(gpus) => {
                    queue.jobs.pop_first();
                    self.partners.started(job, priority, partner);
                    cluster.start(id, gpus);
                    if shares && partner.is_none() {
                        // Others may join it.
                        let alike = self.queues.iter_mut().filter(|queue| queue.ask.gpus == size);
                        alike.for_each(|queue| queue.blocked = false);
                    }
                }
                None if shares => queue.blocked = true,
                None => return,
            }
        }
    }
}

/// GPU-seconds that a job is foretold to need; infinite if that is unknown.
fn priority(job: &Job, seconds: f64) -> f64 {
    if seconds.is_nan() { f64::INFINITY } else { seconds.max(0.0) * f64::from(job.gpus) }
}

sandtable_policy::export!(LucidLike);

#[cfg(test)]
mod tests {
    use super::LucidLike;
    use sandtable_policy::testing::completion_times;

    #[test]
    fn the_job_of_the_fewest_gpu_seconds_comes_first() {
        // Behind the first wait a gang of 2 x 60 s and jobs of 100 and 130 s.
        let jobs = [(0, 2, 50), (1, 2, 60), (2, 1, 130), (3, 1, 100)];
        assert_eq!(completion_times::<LucidLike>("{}", &[2], &jobs), [50, 239, 178, 147]);
    }

    #[test]
    fn a_job_without_a_place_is_passed_over_unless_the_time_is_quiet() {
        // The gang of two waits for both GPUs, and the longer job of one GPU does not wait for it.
        let jobs = [(0, 1, 1000), (1, 2, 60), (2, 1, 500)];
        assert_eq!(completion_times::<LucidLike>("{}", &[2], &jobs), [1000, 1059, 500]);
        assert_eq!(completion_times::<LucidLike>("{\"quiet\": 3}", &[2], &jobs), [1000, 1059, 1558]);
    }
}
