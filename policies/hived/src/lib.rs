//! HiveD (Zhao et al., OSDI 2020): virtual clusters own cells, buddies of GPUs that are near each other, and are always given as much as they own;
//! what they do not use is for jobs without a guarantee, which go when it is wanted.
//!
//! A file says what the cells are, in the form of HiveD's own configuration; without one nodes are halved, and queues own what they are guaranteed.
//!
//! Source: the paper's section 3, its implementation's design example (microsoft/hivedscheduler, commit 66f26ac), whose bindings are met GPU by GPU, and
//! where neither says more, a reconstruction.

mod cells;
mod config;
mod derived;
mod hive;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Event, GpuId, Job, JobId, JobPhase, Kind, Knowledge, NodeId,
    Param, Policy, PolicyError, Queue, Reason, Setup, Sharing, Topology, Trigger,
};

use config::Config as Cells;
use hive::{Answer, Group, Hive};

/// What jobs ask for that wait in one line; none: they are of no virtual cluster.
type Line = (Reverse<i32>, Option<Group>);

/// The policy.
pub struct Hived {
    /// What the file of cells says, before any job.
    empty: Cells,
    hive: Hive,
    /// The cluster and the pinned cell of each queue; none: it is none of them.
    queues: Vec<Option<(String, Option<String>)>>,
    types: Vec<String>,
    /// GPUs of each node, by their number in the file.
    gpus: Vec<Vec<u32>>,
    lazy: bool,
    kills: bool,
    /// A file says what the cells are: jobs that ask for others are refused.
    has_file: bool,
    /// Jobs that wait, by what they ask for, of which the highest priority comes first.
    waiting: BTreeMap<Line, BTreeSet<JobId>>,
    /// Those that came since jobs found no place.
    new: BTreeSet<Line>,
    /// Whether there is more room than when jobs found no place.
    freed: bool,
    /// It has not read who is where.
    is_new: bool,
}

impl Policy for Hived {
    fn about() -> About {
        About {
            name: "hived",
            about: "virtual clusters, which queues name, own cells of GPUs and are given as much whenever they want it; others use what is left (HiveD, Zhao et al., OSDI 2020)",
            uses: Abilities::PREEMPT | Abilities::REFUSE | Abilities::SHAPE | Abilities::DRAIN,
            needs: Knowledge::empty(),
            params: &[
                Param {
                    name: "lazy",
                    kind: Kind::Flag,
                    default: "true",
                    about: "Whether a job whose cells a higher priority of its cluster wants goes on without a guarantee, where there are others.",
                },
                Param {
                    name: "evict",
                    kind: Kind::Choice(&["checkpoint", "kill"]),
                    default: "\"checkpoint\"",
                    about: "Whether jobs that go save their state first, or lose what they have not saved.",
                },
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        if setup.topology.gpu_types.iter().any(|kind| !matches!(kind.sharing, Sharing::Exclusive)) {
            return Err(PolicyError::Unsupported("cells are of whole GPUs, not of shares or parts of them".into()));
        }
        let wrong = |why: String| PolicyError::BadConfig(format!("weights: {why}"));
        let has_file = !setup.weights.is_empty();
        let cells = match has_file {
            true => Cells::read(&setup.weights).map_err(wrong)?,
            false => derived::derived(&setup.topology, &setup.queues),
        };
        let gpus = gpus_of_nodes(&cells, &setup.topology).map_err(wrong)?;
        let queues = setup.queues.iter().map(|queue| cluster_of(queue, &setup.queues, &cells)).collect();
        Ok(Hived {
            hive: Hive::new(cells.clone()),
            empty: cells,
            queues,
            types: setup.topology.gpu_types.iter().map(|kind| kind.name.clone()).collect(),
            gpus,
            lazy: config.flag("lazy"),
            kills: config.choice("evict") == "kill",
            has_file,
            waiting: BTreeMap::new(),
            new: BTreeSet::new(),
            freed: true,
            is_new: true,
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence::WHILE_WAITING
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.take_in(batch, cluster);
        // Those that found no place find none while nothing has been freed.
        let all = std::mem::take(&mut self.freed);
        let new = std::mem::take(&mut self.new);
        let lines = self.waiting.iter().filter(|(line, _)| all || new.contains(line));
        let first = |(line, jobs): (&Line, &BTreeSet<JobId>)| Some(((line.0, *jobs.first()?), line.clone()));
        let mut order: BTreeMap<(Reverse<i32>, JobId), Line> = lines.filter_map(first).collect();
        while let Some(((priority, id), line)) = order.pop_first() {
            if !self.serve(cluster, id, &line) {
                continue;
            }
            let left = self.waiting.get_mut(&line).and_then(|jobs| {
                jobs.remove(&id);
                jobs.first().copied()
            });
            match left {
                Some(next) => drop(order.insert((priority, next), line)),
                None => drop(self.waiting.remove(&line)),
            }
        }
        Ok(())
    }

    fn explain(&self, job: &Job, cluster: &Cluster) -> Reason {
        let (own, priority) = match self.group(job, cluster) {
            Some(group) => (group.cluster, group.priority),
            None => ("its queue".into(), job.priority),
        };
        Reason::Policy(match priority < 0 {
            true => "no GPUs are left that no virtual cluster uses, near enough to each other".into(),
            false => format!("{own} has no cells left for it that jobs of its own or a higher priority do not use"),
        })
    }
}

impl Hived {
    /// Starts or refuses a job; otherwise it waits.
    fn serve(&mut self, cluster: &mut Cluster, id: JobId, line: &Line) -> bool {
        let fixed = !cluster.job(id).preemptible;
        let answer = match &line.1 {
            Some(like) => self.hive.place(&Group { id, fixed, ..like.clone() }),
            None => Answer::Refuse,
        };
        match answer {
            Answer::Wait => return false,
            Answer::Refuse => cluster.refuse(id),
            Answer::Place(pods, victims) => {
                for victim in victims {
                    if self.kills { cluster.kill(victim) } else { cluster.preempt(victim) }
                }
                let gpus = pods.into_iter().flat_map(|(node, gpus)| self.numbered(cluster, node, gpus)).collect();
                cluster.start(id, gpus);
            }
        }
        true
    }

    /// A job waits.
    fn wait(&mut self, job: &Job, cluster: &Cluster) {
        let like = self.group(job, cluster).map(|group| Group { id: 0, fixed: false, ..group });
        // One that has no guarantee comes after all that have, whatever its own priority: none starts before one that evicts it.
        let priority = like.as_ref().map_or(job.priority, |group| group.priority);
        let line = (Reverse(priority), like);
        self.new.insert(line.clone());
        self.waiting.entry(line).or_default().insert(job.id);
    }

    /// Takes in who came and who left, and which nodes are up.
    fn take_in(&mut self, batch: &Batch, cluster: &Cluster) {
        let rejected = |event: &Event| matches!(event, Event::Rejected(_));
        if std::mem::take(&mut self.is_new) || batch.trigger == Trigger::Resync || batch.events.iter().any(rejected) {
            return self.begin_anew(cluster);
        }
        for event in &batch.events {
            match event {
                Event::JobEnded(end) => {
                    self.hive.release(end.job);
                    self.freed = true;
                }
                Event::JobChanged(change) if change.phase == JobPhase::Queued => {
                    self.hive.release(change.job);
                    self.freed = true;
                }
                Event::NodeChanged(change) => {
                    self.hive.config.cells.up[change.node as usize] = cluster.is_up(change.node);
                    self.freed = true;
                }
                _ => {}
            }
            cluster.queued_by(event).for_each(|job| self.wait(job, cluster));
        }
    }

    /// Reads who is where. Whose cells those are is not told: jobs go on without a guarantee.
    fn begin_anew(&mut self, cluster: &Cluster) {
        self.hive = Hive::new(self.empty.clone());
        for node in 0..self.gpus.len() {
            self.hive.config.cells.up[node] = cluster.is_up(node as NodeId);
        }
        let mut holders: Vec<&Job> = cluster.holders().collect();
        holders.sort_unstable_by_key(|job| job.id);
        for job in holders {
            let on = |gpu: &GpuId| {
                let node = cluster.node(*gpu);
                let rank = gpu - cluster.node_gpus(node).start;
                (node as usize, self.gpus[node as usize][rank as usize])
            };
            let gpus: Vec<(usize, u32)> = job.held.iter().map(on).collect();
            if let Some(group) = self.group(job, cluster) {
                self.hive.adopt(&group, &gpus);
            }
        }
        self.waiting.clear();
        cluster.jobs().filter(|job| job.waits()).for_each(|job| self.wait(job, cluster));
        self.freed = true;
    }

    /// What a job asks for; none: it is of no virtual cluster.
    fn group(&self, job: &Job, cluster: &Cluster) -> Option<Group> {
        let own = job.queue.and_then(|queue| self.queues.get(queue as usize)?.clone());
        let asked = |name: String, pin: Option<String>| self.asked(job, cluster, name, pin);
        let Some((name, pin)) = own else {
            // Without a file a job of no queue has no guarantee.
            return (!self.has_file).then(|| Group { priority: -1, ..asked(String::new(), None) });
        };
        let group = asked(name, pin);
        match self.has_file || self.hive.ever_fits(&group) {
            true => Some(group),
            false => Some(Group { priority: -1, ..group }),
        }
    }

    fn asked(&self, job: &Job, cluster: &Cluster, name: String, pin: Option<String>) -> Group {
        let kinds = match job.gpu_types.len() == self.types.len() {
            true => BTreeSet::new(),
            false => job.gpu_types.iter().map(|kind| self.types[*kind as usize].clone()).collect(),
        };
        Group {
            id: job.id,
            cluster: name,
            pin,
            kinds,
            priority: job.priority,
            pods: pods(job, cluster),
            lazy: self.lazy,
            fixed: !job.preemptible,
        }
    }

    /// The cluster's numbers of a node's GPUs.
    fn numbered(&self, cluster: &Cluster, node: usize, gpus: Vec<u32>) -> Vec<GpuId> {
        let first = cluster.node_gpus(node as NodeId).start;
        let rank = |gpu: u32| self.gpus[node].iter().position(|known| *known == gpu).unwrap_or(0) as GpuId;
        gpus.into_iter().map(|gpu| first + rank(gpu)).collect()
    }
}

/// GPUs of each pod of a gang: as many as it asks for on each node, or as few pods as there can be.
fn pods(job: &Job, cluster: &Cluster) -> Vec<u32> {
    let largest = cluster.largest_node(&job.gpu_types);
    let each = if job.gpus_per_node > 0 { job.gpus_per_node } else { largest.min(job.gpus).max(1) };
    let whole = (0..job.gpus / each).map(|_| each);
    whole.chain(Some(job.gpus % each).filter(|rest| *rest > 0)).collect()
}

/// The virtual cluster of a queue, which has its name or that of a group that it is in; and its pinned cell, if it has the name of one.
fn cluster_of(queue: &Queue, all: &[Queue], cells: &Cells) -> Option<(String, Option<String>)> {
    let mut at = queue;
    while !cells.clusters.contains_key(&at.name) {
        let parent = at.parent?;
        at = all.iter().find(|queue| queue.id == parent)?;
    }
    let pin = cells.clusters[&at.name].pinned.contains_key(&queue.name);
    Some((at.name.clone(), pin.then(|| queue.name.clone())))
}

/// The numbers of each node's GPUs, ascending. The nodes of the file are those of the cluster, in their order.
///
/// # Errors
/// Where the two differ.
fn gpus_of_nodes(cells: &Cells, topology: &Topology) -> Result<Vec<Vec<u32>>, String> {
    let there = cells.gpus_of_nodes();
    if there.len() != topology.nodes.len() {
        return Err(format!("{} nodes of cells, the cluster has {}", there.len(), topology.nodes.len()));
    }
    for ((name, kind, gpus), node) in there.iter().zip(&topology.nodes) {
        let own = &topology.gpu_types[node.gpu_type as usize].name;
        if gpus.len() != node.gpus as usize || kind != own {
            let found = format!("{} GPUs of kind {kind}", gpus.len());
            return Err(format!(
                "node {name}: {found}, node {} of the cluster has {} of kind {own}",
                node.id, node.gpus
            ));
        }
    }
    Ok(there.into_iter().map(|(.., gpus)| gpus).collect())
}

sandtable_policy::export!(Hived);

#[cfg(test)]
mod tests;
