//! What is left of nodes, and the node with the highest score for a job. Scores are kept by what jobs ask for: only nodes that have
//! changed since are scored again.

use std::collections::BTreeMap;
use std::rc::Rc;

use sandtable_fragmentation::Typical;
use sandtable_policy::{Cluster, GpuId, GpuTypeId, Job, NodeId};

use crate::score::Score;

/// What is left of a node.
#[derive(Clone, Debug, Default)]
pub struct Room {
    pub gpu_type: GpuTypeId,
    /// Thousandths of a core, and MiB; [`u64::MAX`] where it is not known what it has.
    pub host: [u64; 2],
    /// Thousandths of each GPU; none of a node that is not up.
    pub left: Vec<u32>,
    /// Jobs on its GPUs by what they ask for: a share (0), or so many whole GPUs.
    pub kinds: BTreeMap<u32, u32>,
    up: bool,
}

/// What a job asks of one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    pub gpus: u32,
    /// Thousandths of each GPU.
    pub milli: u32,
    /// Thousandths of a core, and MiB.
    pub host: [u64; 2],
    /// MiB of each GPU; 0: unknown.
    memory_mib: u32,
    gpu_types: Rc<[GpuTypeId]>,
}

/// What a job is to the score that clusters jobs: a share (0), or so many whole GPUs; none without any.
pub fn kind(gpus: u32, milli: u32) -> Option<u32> {
    (gpus > 0).then_some(if milli < 1000 { 0 } else { gpus })
}

impl Task {
    fn of(job: &Job) -> Task {
        Task {
            gpus: job.gpus,
            milli: if job.gpus == 0 { 0 } else { job.share },
            host: [u64::from(job.host.cpu_milli), u64::from(job.host.memory_mib)],
            memory_mib: job.memory_mib,
            gpu_types: job.gpu_types.clone(),
        }
    }

    /// Whether a job is asked to be on one node, and may be.
    pub fn is_of_one_node(job: &Job, cluster: &Cluster) -> bool {
        (job.gpus_per_node == 0 || job.gpus_per_node == job.gpus) && job.gpus <= cluster.largest_node(&job.gpu_types)
    }

    /// Thousandths of a GPU that it takes in all.
    pub fn all_milli(&self) -> u64 {
        u64::from(self.gpus) * u64::from(self.milli)
    }

    /// What it is to the score that clusters jobs.
    pub fn kind(&self) -> Option<u32> {
        kind(self.gpus, self.milli)
    }

    /// Whether a node has room for it.
    pub fn fits(&self, room: &Room) -> bool {
        let enough = room.left.iter().filter(|left| **left >= self.milli.max(1)).count();
        room.up
            && self.gpu_types.contains(&room.gpu_type)
            && self.host.iter().zip(room.host).all(|(asked, left)| *asked <= left)
            && enough >= self.gpus as usize
    }

    /// The GPUs of a node that it takes, by their index there: whole ones, the lowest that are free; or the one with the least left that
    /// takes its share.
    pub fn places(&self, room: &Room) -> Vec<usize> {
        let there = room.left.iter().enumerate().filter(|(_, left)| **left >= self.milli);
        match self.milli {
            1000 => there.map(|(at, _)| at).take(self.gpus as usize).collect(),
            _ => there.min_by_key(|(_, left)| **left).map(|(at, _)| at).into_iter().take(self.gpus as usize).collect(),
        }
    }
}

/// Scores of nodes for what some jobs ask.
struct Class {
    task: Task,
    /// By node: as of which of its changes, the score, and of a share the GPU; no score where there is no room.
    scores: Vec<(u64, Option<(i64, usize)>)>,
}

/// The nodes.
pub struct Rooms {
    pub score: Score,
    /// In which nodes of one score take jobs.
    order: Vec<NodeId>,
    rooms: Vec<Room>,
    /// When each last changed.
    changed: Vec<u64>,
    changes: u64,
    numbers: BTreeMap<Task, usize>,
    classes: Vec<Class>,
}

impl Rooms {
    pub fn new(score: Score, order: Vec<NodeId>) -> Rooms {
        let (rooms, changed, numbers, classes) = Default::default();
        Rooms { score, order, rooms, changed, changes: 0, numbers, classes }
    }

    /// Whether nothing has been read yet.
    pub fn is_empty(&self) -> bool {
        self.rooms.is_empty()
    }

    /// Reads what is left of all nodes, as if no job were there.
    pub fn read_all(&mut self, cluster: &Cluster) {
        self.rooms = vec![Room::default(); cluster.node_count()];
        self.changed.resize(cluster.node_count(), 0);
        (0..cluster.node_count() as NodeId).for_each(|node| self.read(cluster, node));
    }

    /// Reads what is left of a node.
    pub fn read(&mut self, cluster: &Cluster, node: NodeId) {
        let room = &mut self.rooms[node as usize];
        room.gpu_type = cluster.node_type(node);
        room.host = cluster.host_left(node);
        room.left = cluster.node_gpus(node).map(|gpu| cluster.left_milli(gpu)).collect();
        room.up = cluster.is_up(node);
        self.changes += 1;
        self.changed[node as usize] = self.changes;
    }

    /// A job of this kind comes to a node, or leaves it.
    pub fn count(&mut self, node: NodeId, kind: Option<u32>, comes: bool) {
        let (Some(kind), kinds) = (kind, &mut self.rooms[node as usize].kinds) else { return };
        let count = kinds.entry(kind).or_default();
        *count = if comes { *count + 1 } else { *count - 1 };
        if *count == 0 {
            kinds.remove(&kind);
        }
    }

    /// All scores are to be computed again.
    pub fn forget(&mut self) {
        self.changes += 1;
        self.changed.fill(self.changes);
    }

    /// The number of what a job asks for.
    pub fn class(&mut self, job: &Job) -> usize {
        let task = Task::of(job);
        if let Some(number) = self.numbers.get(&task) {
            return *number;
        }
        let number = self.classes.len();
        self.numbers.insert(task.clone(), number);
        // Nothing has changed as of the end of time.
        self.classes.push(Class { task, scores: vec![(u64::MAX, None); self.rooms.len()] });
        number
    }

    /// The node with the highest score, the first among equals, and the GPUs there; none where there is no room.
    pub fn best(&mut self, cluster: &Cluster, typical: &Typical, class: usize) -> Option<(NodeId, Vec<GpuId>)> {
        let Class { task, scores } = &mut self.classes[class];
        let mut best: Option<(i64, usize, usize)> = None;
        for node in self.order.iter().map(|node| *node as usize) {
            let room = &self.rooms[node];
            let (as_of, known) = &mut scores[node];
            if *as_of != self.changed[node] {
                let has_memory = has_memory(cluster, node as NodeId, task);
                *known = if task.fits(room) && has_memory { Some(self.score.of(task, room, typical)) } else { None };
                *as_of = self.changed[node];
            }
            if let Some((score, gpu)) = *known
                && best.is_none_or(|(highest, ..)| score > highest)
            {
                best = Some((score, node, gpu));
            }
        }
        let (_, node, gpu) = best?;
        let first = cluster.node_gpus(node as NodeId).start;
        let places = match (task.milli, self.score) {
            (0, _) => vec![],
            (1..1000, Score::Fgd) => vec![gpu],
            _ => task.places(&self.rooms[node]),
        };
        Some((node as NodeId, places.into_iter().map(|at| first + at as GpuId).collect()))
    }
}

/// Whether the GPUs of a node that jobs are on have as much memory left as a job needs, as far as that is known.
fn has_memory(cluster: &Cluster, node: NodeId, task: &Task) -> bool {
    let capacity = u64::from(cluster.memory_of(cluster.node_type(node)));
    let fits = |gpu: GpuId| cluster.memory_used(gpu) + u64::from(task.memory_mib) <= capacity;
    capacity == 0 || task.memory_mib == 0 || cluster.node_gpus(node).all(fits)
}
