//! What is left of nodes, and the node with the highest score for a job. Scores are kept by what jobs ask for: only nodes that have
//! changed since are scored again, and nodes of which the same is left once.

use std::collections::BTreeMap;

use sandtable_fragmentation::Typical;
use sandtable_policy::{Cluster, GpuId, NodeId};

use crate::score::Score;
use crate::task::{Room, Task};

/// Scores that are kept: beyond, all are computed again.
const MOST_SCORES: usize = 1 << 20;

/// By node: as of which of its changes, the score, and of a share the GPU; no score where there is no room.
type Scores = Vec<(u64, Option<(i64, usize)>)>;

/// The nodes.
pub struct Rooms {
    pub score: Score,
    /// In which nodes of one score take jobs.
    order: Vec<NodeId>,
    rooms: Vec<Room>,
    /// When each last changed.
    changed: Vec<u64>,
    changes: u64,
    /// By what jobs ask for.
    scores: BTreeMap<Task, Scores>,
}

impl Rooms {
    pub fn new(score: Score, order: Vec<NodeId>) -> Rooms {
        let (rooms, changed, scores) = Default::default();
        Rooms { score, order, rooms, changed, changes: 0, scores }
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
        self.scores.clear();
    }

    /// The node with the highest score, the first among equals, and the GPUs there; none where there is no room.
    pub fn best(
        &mut self,
        cluster: &Cluster,
        typical: &Typical,
        task: &Task,
        crowded: bool,
    ) -> Option<(NodeId, Vec<GpuId>)> {
        if !self.scores.contains_key(task) {
            if (self.scores.len() + 1) * self.rooms.len() > MOST_SCORES {
                self.scores.clear();
            }
            // Nothing has changed as of the end of time.
            self.scores.insert(task.clone(), vec![(u64::MAX, None); self.rooms.len()]);
        }
        let scores = self.scores.get_mut(task)?;
        // Only where what jobs do to each other's memory is looked at.
        let barred = task.gpus > 0 && (task.alone || task.memory_mib > 0 || crowded);
        let mut alike: BTreeMap<&Room, Option<(i64, usize)>> = BTreeMap::new();
        let mut best: Option<(i64, usize, usize)> = None;
        for node in self.order.iter().map(|node| *node as usize) {
            let (room, (as_of, known)) = (&self.rooms[node], &mut scores[node]);
            if *as_of != self.changed[node] {
                let open = barred.then(|| open(cluster, node as NodeId, task));
                let score = || {
                    let open = open.as_deref();
                    task.fits(room, open).then(|| self.score.of(task, room, open, typical))
                };
                *known = if barred { score() } else { *alike.entry(room).or_insert_with(score) };
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
        let open = barred.then(|| open(cluster, node as NodeId, task));
        let places = match (task.milli, self.score) {
            (1..1000, Score::Fgd) => vec![gpu],
            _ => task.places(&self.rooms[node], open.as_deref()),
        };
        Some((node as NodeId, places.into_iter().map(|at| first + at as GpuId).collect()))
    }
}

/// Which GPUs of a node have as much memory left as a job needs, as far as that is known, and no job that must be alone.
fn open(cluster: &Cluster, node: NodeId, task: &Task) -> Vec<bool> {
    let capacity = u64::from(cluster.memory_of(cluster.node_type(node)));
    let is_open = |gpu: GpuId| {
        let residents = cluster.residents(gpu);
        let fits = capacity == 0 || cluster.memory_used(gpu) + u64::from(task.memory_mib) <= capacity;
        let alone = residents.iter().any(|job| cluster.job(*job).out_of_memory > 0);
        fits && !alone && (!task.alone || residents.is_empty())
    };
    cluster.node_gpus(node).map(is_open).collect()
}
