//! FGD (Weng et al., Beware of Fragmentation, ATC 2023): each job goes to the node, and the share of a GPU to the GPU, where it leaves the
//! fewest free GPUs that typical jobs have no use for; and the four scores that the paper compares it with.
//!
//! Source: the paper's section 4, and its artifact (hkust-adsl/kubernetes-scheduler-simulator, commit 8f3d641), whose places are met pod by
//! pod. Jobs are of one node there; a job that can't be gets its nodes as other policies give them, packed.

mod rooms;
mod score;
mod task;
mod typical;

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::{
    Abilities, About, Batch, Cadence, ChangeCause, Cluster, Config, Draws, Event, GpuId, GpuTypeId, Job, JobId,
    JobPhase, Kind, Knowledge, NodeId, Param, Placement, Policy, PolicyError, Reason, Setup, Trigger,
};

use rooms::Rooms;
use score::Score;
use task::{Task, kind, nodes_at_rest};
use typical::History;

/// What jobs ask for that wait in one line: what of one node, and what of several.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Like {
    task: Task,
    gpus_per_node: u32,
    near: [Option<u32>; 2],
}

impl Like {
    fn of(job: &Job) -> Like {
        let near = [job.near.required, job.near.preferred];
        Like { task: Task::of(job), gpus_per_node: job.gpus_per_node, near }
    }
}

/// The policy.
pub struct Fgd {
    rooms: Rooms,
    history: History,
    at_rest: BTreeSet<(GpuTypeId, u32, [u32; 2])>,
    /// A job that finds no place is refused.
    refuses: bool,
    /// Jobs that wait, by what they ask for and the order in which they came.
    waiting: BTreeMap<Like, BTreeMap<u64, JobId>>,
    /// Those that came since jobs found no place.
    new: BTreeSet<Like>,
    /// Jobs that have come so far, those that came again included.
    came: u64,
    /// The kind and the nodes of each job that has its place.
    places: BTreeMap<JobId, (Option<u32>, Vec<NodeId>)>,
    /// Whether a node has more left than when jobs found no place.
    freed: bool,
    /// Whether any job has run out of memory.
    crowded: bool,
}

impl Policy for Fgd {
    fn about() -> About {
        About {
            name: "fgd",
            about: "leaves the fewest free GPUs that typical jobs have no use for; or best fit, dot product, packing, clustering (FGD, Weng et al., ATC 2023)",
            uses: Abilities::SHAPE
                | Abilities::HOST
                | Abilities::NEAR
                | Abilities::DRAIN
                | Abilities::REFUSE
                | Abilities::CPU_JOBS,
            needs: Knowledge::empty(),
            params: &[
                Param {
                    name: "score",
                    kind: Kind::Choice(&Score::WORDS),
                    default: "\"fgd\"",
                    about: "What places a job: the fragmentation that it adds, the CPU and GPUs that are left beside it, their product with what it asks for, how full GPUs and nodes are, or which jobs are on the node.",
                },
                Param {
                    name: "ties",
                    kind: Kind::Choice(&["node", "shuffled"]),
                    default: "\"node\"",
                    about: "Which of nodes with the highest score takes a job: the one with the lowest number, or the first in an order that the seed draws, as in the artifact.",
                },
                Param {
                    name: "without_place",
                    kind: Kind::Choice(&["wait", "refuse"]),
                    default: "\"wait\"",
                    about: "What becomes of a job that finds no place: it waits, and those behind it are tried; or it is refused, as in the artifact.",
                },
                Param {
                    name: "typical",
                    kind: Kind::Number { min: 0.0, max: 1.0 },
                    default: "0.95",
                    about: "The most common jobs that are this part of all are the typical ones, 0 to 1. All are those of the trace, native or openb, that `weights` names, or those that have come so far.",
                },
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let score = Score::named(config.choice("score"));
        let history = History::new(setup, config.number("typical"))
            .map_err(|why| PolicyError::BadConfig(format!("weights: {why}")))?;
        Ok(Fgd {
            rooms: Rooms::new(score, order(config, setup)),
            history,
            at_rest: nodes_at_rest(&setup.topology),
            refuses: config.choice("without_place") == "refuse",
            waiting: BTreeMap::new(),
            new: BTreeSet::new(),
            came: 0,
            places: BTreeMap::new(),
            freed: true,
            crowded: false,
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence::WHILE_WAITING
    }

    fn uses(&self) -> Abilities {
        let all = Self::about().uses;
        if self.refuses { all } else { all - Abilities::REFUSE }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.take_in(batch, cluster);
        if self.rooms.score == Score::Fgd {
            let came = batch.events.iter().filter_map(|event| match event {
                Event::JobArrived(arrival) => cluster.get(arrival.job),
                _ => None,
            });
            if self.history.take_in(came) {
                self.rooms.forget();
            }
        }
        // Those that found no place find none while nothing has been freed.
        let all = std::mem::take(&mut self.freed);
        let new = std::mem::take(&mut self.new);
        let lines = self.waiting.iter().filter(|(like, _)| all || new.contains(like));
        let mut order: BTreeMap<u64, Like> =
            lines.filter_map(|(like, line)| Some((*line.first_key_value()?.0, like.clone()))).collect();
        while let Some((_, like)) = order.pop_first() {
            let Some((at, id)) = self.waiting.get(&like).and_then(|line| line.first_key_value()) else { continue };
            let (at, id) = (*at, *id);
            if self.place(cluster, id, &like) {
                self.leave_line(&like, at);
            } else if self.refuses {
                // What one does not find, those like it do not find either.
                self.waiting.remove(&like).into_iter().flatten().for_each(|(_, id)| cluster.refuse(id));
                continue;
            } else {
                continue;
            }
            if let Some(next) = self.waiting.get(&like).and_then(|line| line.first_key_value()) {
                order.insert(*next.0, like);
            }
        }
        Ok(())
    }

    fn explain(&self, job: &Job, cluster: &Cluster) -> Reason {
        if job.gpus == 0 {
            return Reason::Policy("no node has as much CPU and memory left".into());
        }
        let free: u64 = job.gpu_types.iter().map(|kind| u64::from(cluster.free_gpus(*kind))).sum();
        if free < u64::from(job.gpus) { Reason::NoFreeGpus } else { Reason::Fragmented }
    }
}

impl Fgd {
    /// Takes in who came, who left, and which nodes have changed.
    fn take_in(&mut self, batch: &Batch, cluster: &Cluster) {
        let rejected = |event: &Event| matches!(event, Event::Rejected(_));
        if self.rooms.is_empty() || batch.trigger == Trigger::Resync || batch.events.iter().any(rejected) {
            self.begin_anew(cluster);
            return;
        }
        for event in &batch.events {
            match event {
                Event::JobEnded(end) => self.leaves(end.job, cluster),
                Event::JobChanged(change) if change.phase == JobPhase::Queued => self.leaves(change.job, cluster),
                Event::JobChanged(change) if change.cause == ChangeCause::OutOfMemory => {
                    self.crowded = true;
                    self.rooms.forget();
                }
                Event::NodeChanged(change) => {
                    self.rooms.read(cluster, change.node);
                    self.freed = true;
                }
                _ => {}
            }
            cluster.queued_by(event).for_each(|job| self.wait(job));
        }
    }

    /// A job waits.
    fn wait(&mut self, job: &Job) {
        let like = Like::of(job);
        self.new.insert(like.clone());
        self.waiting.entry(like).or_default().insert(self.came, job.id);
        self.came += 1;
    }

    fn leave_line(&mut self, like: &Like, at: u64) {
        if let Some(line) = self.waiting.get_mut(like) {
            line.remove(&at);
            if line.is_empty() {
                self.waiting.remove(like);
            }
        }
    }

    /// Reads the state of all nodes and jobs.
    fn begin_anew(&mut self, cluster: &Cluster) {
        self.rooms.read_all(cluster);
        self.places.clear();
        for job in cluster.holders() {
            let of_gpus = job.held.iter().map(|gpu| cluster.node(*gpu));
            let nodes: BTreeSet<NodeId> = of_gpus.chain(job.node).collect();
            self.comes(job, nodes.into_iter().collect());
        }
        self.waiting.clear();
        cluster.jobs().filter(|job| job.waits()).for_each(|job| self.wait(job));
        self.crowded |= cluster.jobs().any(|job| job.out_of_memory > 0);
        self.freed = true;
    }

    fn leaves(&mut self, job: JobId, cluster: &Cluster) {
        if let Some((kind, nodes)) = self.places.remove(&job) {
            for node in nodes {
                self.rooms.count(node, kind, false);
                self.rooms.read(cluster, node);
            }
            self.freed = true;
        }
    }

    /// Starts a job, if there is a place for it.
    fn place(&mut self, cluster: &mut Cluster, id: JobId, like: &Like) -> bool {
        let task = &like.task;
        let on_one = like.gpus_per_node == 0 || like.gpus_per_node == task.gpus;
        let nodes = if on_one && (task.gpus == 0 || task.fits_one(&self.at_rest)) {
            let found = self.rooms.best(cluster, self.history.typical(), task, self.crowded);
            let Some((node, gpus)) = found else { return false };
            start(cluster, id, node, gpus);
            vec![node]
        } else {
            let job = cluster.job(id);
            let found = Placement::Packed.find_any(cluster, &job.gpu_types.clone(), job.ask());
            let Some(gpus) = found else { return false };
            let nodes: BTreeSet<NodeId> = gpus.iter().map(|gpu| cluster.node(*gpu)).collect();
            cluster.start(id, gpus);
            nodes.into_iter().collect()
        };
        nodes.iter().for_each(|node| self.rooms.read(cluster, *node));
        self.comes(cluster.job(id), nodes);
        true
    }

    /// A job has its place on these nodes.
    fn comes(&mut self, job: &Job, nodes: Vec<NodeId>) {
        let kind = kind(job.gpus, job.share);
        nodes.iter().for_each(|node| self.rooms.count(*node, kind, true));
        self.places.insert(job.id, (kind, nodes));
    }
}

/// The order in which nodes of one score take jobs.
fn order(config: &Config, setup: &Setup) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = setup.topology.nodes.iter().map(|node| node.id).collect();
    if config.choice("ties") == "shuffled" {
        Draws::new(setup.seed).shuffle(&mut nodes);
    }
    nodes
}

fn start(cluster: &mut Cluster, id: JobId, node: NodeId, gpus: Vec<GpuId>) {
    if gpus.is_empty() { cluster.start_on(id, node) } else { cluster.start(id, gpus) }
}

sandtable_policy::export!(Fgd);

#[cfg(test)]
mod tests;
