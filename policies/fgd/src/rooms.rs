//! What is left of nodes, and the node with the highest score for a job. Scores are kept by what jobs ask for: only nodes that have
//! changed since are scored again.

use std::collections::BTreeMap;

use sandtable_fragmentation::Typical;
use sandtable_policy::{Cluster, GpuId, Job, NodeId};

use crate::score::Score;
use crate::task::{Room, Task};

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
