//! Waiting jobs for GPUs that are shared: first come, first served, on one node each; a job that finds no place is
//! passed over. The policy chooses the node and the GPUs.
//!
//! Jobs of one shape find a place together or not at all, and a node that refused a shape refuses it until something
//! on the node changes: a pass looks only at what is new.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Cluster, Config, Event, GpuId, GpuTypeId, Instant, Job, JobId, JobPhase, Kind, NodeId, Param, host};

/// What a policy knows a place by: the node, and those of its GPUs that take the job.
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// GPUs that take one task of the job each, ascending.
    pub eligible: Vec<GpuId>,
}

/// Jobs of one shape are alike to every rule of placement.
#[derive(PartialEq, Eq)]
struct Shape {
    workload: Option<u32>,
    /// The job itself, where nothing is known that others could share.
    job: Option<JobId>,
    gpus: u32,
    memory_mib: u32,
    alone: bool,
    gpu_types: Vec<GpuTypeId>,
}

/// The waiting jobs.
pub struct ColocationQueue {
    /// With their shapes, by number.
    waiting: BTreeMap<(Instant, JobId), usize>,
    shapes: Vec<Shape>,
    /// Most jobs on a GPU.
    max_share: u32,
    /// Once its head has waited this long, no other job gets the node that it is nearest to.
    patience: u64,
    /// The head that waits for a node.
    reserved: Option<(JobId, NodeId)>,
    /// Counts changes and refusals.
    clock: u64,
    /// Which node changed when, ascending; older ones are forgotten.
    changes: Vec<(u64, NodeId)>,
    /// When the last of the forgotten ones was.
    forgotten: u64,
    /// When each shape was last refused everywhere; 0: never.
    refused: Vec<u64>,
    /// Nodes that changed since the last pass.
    touched: BTreeSet<NodeId>,
    /// The node of each job that holds GPUs.
    last_held: BTreeMap<JobId, NodeId>,
}

impl ColocationQueue {
    /// Most jobs on a GPU, as a parameter of a policy.
    pub const MAX_SHARE: Param = Param {
        name: "max_share",
        kind: Kind::Number { min: 1.0, max: 64.0 },
        default: "2",
        about: "Most jobs on a GPU; the host may allow fewer.",
    };
    /// The patience of the queue's head, as a parameter of a policy.
    pub const HEAD_PATIENCE: Param = Param {
        name: "head_patience",
        kind: Kind::Number { min: 0.0, max: 1e9 },
        default: "7200",
        about: "Seconds that the head of the queue waits before the node nearest to taking it is kept for it.",
    };

    /// An empty queue; the configuration must have both parameters.
    pub fn new(config: &Config) -> ColocationQueue {
        let (max_share, patience) = (config.number("max_share") as u32, config.micros("head_patience"));
        ColocationQueue {
            waiting: BTreeMap::new(),
            shapes: Vec::new(),
            max_share,
            patience,
            reserved: None,
            clock: 0,
            changes: Vec::new(),
            forgotten: 0,
            refused: Vec::new(),
            touched: BTreeSet::new(),
            last_held: BTreeMap::new(),
        }
    }

    /// Brings the queue up to a batch.
    pub fn take_in(&mut self, events: &[Event], cluster: &Cluster) {
        for event in events {
            match event {
                // One that the previous policy placed: its node is not known here.
                Event::JobEnded(end) if !self.last_held.contains_key(&end.job) => {
                    self.touched.extend(0..cluster.node_count() as NodeId);
                }
                Event::JobEnded(end) => self.left(end.job),
                Event::JobChanged(change) if change.phase != JobPhase::Running => self.left(change.job),
                Event::NodeChanged(change) => {
                    self.touched.insert(change.node);
                }
                _ => {}
            }
            for job in cluster.queued_by(event) {
                self.left(job.id);
                self.wait(job, cluster);
            }
        }
    }

    fn wait(&mut self, job: &Job, cluster: &Cluster) {
        let (asked, largest) = (job.gpus, cluster.largest_node(&job.gpu_types));
        if asked > largest {
            // It must not sit at the head of the queue for ever.
            let why = format!("it asks for {asked} GPUs of one node, the largest has {largest}");
            return host::warn(&format!("job {} waits for ever: {why}", job.id));
        }
        let shape = shape(job);
        let known = self.shapes.iter().position(|known| *known == shape);
        let number = known.unwrap_or_else(|| {
            self.shapes.push(shape);
            self.refused.push(0);
            self.shapes.len() - 1
        });
        self.waiting.insert((job.submitted, job.id), number);
    }

    fn change(&mut self, node: NodeId) {
        self.clock += 1;
        self.changes.push((self.clock, node));
    }

    fn clock_of_last_change(&self) -> u64 {
        self.changes.last().map_or(self.forgotten, |(at, _)| *at)
    }

    /// Nodes that changed since a shape was refused, ascending; all where that is long ago.
    fn changed_since(&self, refused: u64, nodes: usize) -> Vec<NodeId> {
        if refused <= self.forgotten {
            return (0..nodes as NodeId).collect();
        }
        let from = self.changes.partition_point(|(at, _)| *at <= refused);
        let mut changed: Vec<NodeId> = self.changes[from..].iter().map(|(_, node)| *node).collect();
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    fn left(&mut self, job: JobId) {
        self.touched.extend(self.last_held.remove(&job));
    }

    /// Whether any job waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Offers every waiting job, in order, its possible places; `choose` answers with GPUs of one of them, or with
    /// nothing where it likes none.
    pub fn pass(
        &mut self,
        cluster: &mut Cluster,
        mut choose: impl FnMut(&Cluster, JobId, Vec<Place>) -> Option<(NodeId, Vec<GpuId>)>,
    ) {
        let most = 4 * cluster.node_count() + 64;
        if self.changes.len() > most {
            let old = self.changes.drain(..self.changes.len() - most / 2).next_back();
            self.forgotten = old.map_or(self.forgotten, |(at, _)| at);
        }
        for node in std::mem::take(&mut self.touched) {
            self.change(node);
        }
        let order: Vec<((Instant, JobId), usize)> = self.waiting.iter().map(|(key, shape)| (*key, *shape)).collect();
        let mut is_head = true;
        for ((submitted, id), shape) in order {
            let refused = self.refused[shape];
            let reserved = self.reserved.filter(|(head, _)| *head != id).map(|(_, node)| node);
            // Nearly every job of a long queue: nothing has changed since one of its shape was refused.
            if !is_head && refused > self.clock_of_last_change() {
                continue;
            }
            let changed = self.changed_since(refused, cluster.node_count());
            let places: Vec<Place> = changed
                .into_iter()
                .filter(|node| reserved != Some(*node))
                .filter_map(|node| self.place(cluster, cluster.job(id), node))
                .collect();
            let chosen = if places.is_empty() { None } else { choose(cluster, id, places) };
            match chosen {
                Some((node, gpus)) => {
                    cluster.start(id, gpus);
                    self.waiting.remove(&(submitted, id));
                    self.last_held.insert(id, node);
                    // A job that was refused because of a neighbour may accept the new one.
                    self.change(node);
                    if self.reserved.is_some_and(|(head, _)| head == id)
                        && let Some((_, node)) = self.reserved.take()
                    {
                        self.change(node);
                    }
                }
                None => {
                    self.clock += 1;
                    self.refused[shape] = self.clock;
                    let waited = cluster.now().saturating_sub(submitted);
                    if is_head && waited >= self.patience {
                        self.reserve(cluster, id);
                    }
                    is_head = false;
                }
            }
        }
    }

    /// The GPUs of a node that take a job, if they are enough.
    fn place(&self, cluster: &Cluster, job: &Job, node: NodeId) -> Option<Place> {
        if !job.gpu_types.contains(&cluster.node_type(node)) {
            return None;
        }
        let eligible: Vec<GpuId> =
            cluster.node_gpus(node).filter(|gpu| cluster.takes(job, *gpu, self.max_share)).collect();
        (eligible.len() >= job.gpus as usize).then_some(Place { node, eligible })
    }

    /// Keeps the node for the head on which the fewest more GPUs must become eligible; ties by index.
    fn reserve(&mut self, cluster: &Cluster, head: JobId) {
        if self.reserved.is_some_and(|(reserved, _)| reserved == head) {
            return;
        }
        let job = cluster.job(head);
        let able = |node: &NodeId| {
            let gpus = cluster.node_gpus(*node);
            job.gpu_types.contains(&cluster.node_type(*node)) && gpus.len() >= job.gpus as usize
        };
        let eligible =
            |node: NodeId| cluster.node_gpus(node).filter(|gpu| cluster.takes(job, *gpu, self.max_share)).count();
        let best =
            (0..cluster.node_count() as NodeId).filter(able).max_by_key(|node| (eligible(*node), u32::MAX - node));
        if let Some((_, node)) = self.reserved.take() {
            self.change(node);
        }
        self.reserved = best.map(|node| (head, node));
    }
}

fn shape(job: &Job) -> Shape {
    Shape {
        workload: job.workload,
        job: if job.workload.is_none() { Some(job.id) } else { None },
        gpus: job.gpus,
        memory_mib: job.memory_mib,
        alone: job.out_of_memory > 0,
        gpu_types: job.gpu_types.to_vec(),
    }
}
