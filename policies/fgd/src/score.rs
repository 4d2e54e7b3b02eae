//! The scores by which nodes are chosen, as in the artifact: whole numbers, what is beyond the point is cut off.

use sandtable_fragmentation::{Room as Free, Typical};

use crate::task::{Open, Room, Task};

/// How nodes are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// By the fragmentation that the job adds.
    Fgd,
    /// By the CPU and GPUs that are left.
    BestFit,
    /// By the product of what is left and what the job asks for.
    DotProduct,
    /// Shares on GPUs that have some, then on nodes that are used, then on free nodes.
    Packing,
    /// Jobs of a size on the same nodes.
    Clustering,
}

/// What the artifact measures CPU and GPUs in: thousandths of the largest node's.
const CPU: f64 = 128_000.0;
const GPU: f64 = 8000.0;

impl Score {
    pub const WORDS: [&'static str; 5] = ["fgd", "best-fit", "dot-product", "packing", "clustering"];

    pub fn named(word: &str) -> Score {
        match word {
            "best-fit" => Score::BestFit,
            "dot-product" => Score::DotProduct,
            "packing" => Score::Packing,
            "clustering" => Score::Clustering,
            _ => Score::Fgd,
        }
    }

    /// The score of a node that has room, and the GPU for a share by which it has it.
    pub fn of(self, task: &Task, room: &Room, open: Open<'_>, typical: &Typical) -> (i64, usize) {
        let score = match self {
            Score::Fgd => return fgd(task, room, open, typical),
            Score::BestFit => best_fit(task, room),
            Score::DotProduct => dot_product(task, room),
            Score::Packing => packing(task, room, open),
            Score::Clustering => clustering(task, room),
        };
        (score, 0)
    }
}

/// Thousandths of GPUs that are left.
fn free(room: &Room) -> u64 {
    room.left.iter().map(|left| u64::from(*left)).sum()
}

/// What is left of a node in doubles: CPU of which nothing is known counts for nothing.
fn free_cpu(room: &Room) -> f64 {
    if room.host[0] == u64::MAX { 0.0 } else { room.host[0] as f64 }
}

fn asked_cpu(task: &Task, room: &Room) -> f64 {
    if room.host[0] == u64::MAX { 0.0 } else { task.host[0] as f64 }
}

fn fgd(task: &Task, room: &Room, open: Open<'_>, typical: &Typical) -> (i64, usize) {
    let fragments = |cpu_milli: u64, left: &[u32]| typical.fragments(Free { gpu_type: room.gpu_type, cpu_milli, left });
    let before = fragments(room.host[0], &room.left);
    let cpu_after = if room.host[0] == u64::MAX { u64::MAX } else { room.host[0] - task.host[0] };
    let score = |after: f64| (100.0 / (1.0 + libm::exp(-(before - after) / 1000.0))).floor() as i64;
    let mut left = room.left.clone();
    if task.milli == 0 || task.milli == 1000 {
        task.places(room, open).into_iter().for_each(|at| left[at] -= task.milli);
        return (score(fragments(cpu_after, &left)), 0);
    }
    let mut best: Option<(i64, usize)> = None;
    let mut tried: Vec<u32> = Vec::new();
    for at in task.takes(room, open) {
        // One with as much left as one before has its score.
        if tried.contains(&room.left[at]) {
            continue;
        }
        tried.push(room.left[at]);
        left[at] -= task.milli;
        let found = score(fragments(cpu_after, &left));
        left[at] += task.milli;
        if best.is_none_or(|(highest, _)| found > highest) {
            best = Some((found, at));
        }
    }
    best.unwrap_or((0, 0))
}

fn best_fit(task: &Task, room: &Room) -> i64 {
    let cpu = (free_cpu(room) - asked_cpu(task, room)) / CPU;
    let gpu = (free(room) - task.all_milli()) as f64 / GPU;
    (100.0 * (1.0 - (0.5 * cpu + 0.5 * gpu))).floor() as i64
}

fn dot_product(task: &Task, room: &Room) -> i64 {
    let cpu = free_cpu(room) / CPU * (asked_cpu(task, room) / CPU);
    let gpu = free(room) as f64 / GPU * (task.all_milli() as f64 / GPU);
    (100.0 * (1.0 - (cpu + gpu) / 2.0)).floor() as i64
}

fn packing(task: &Task, room: &Room, open: Open<'_>) -> i64 {
    if task.gpus == 0 {
        return 0;
    }
    let gpus = room.left.len() as i64;
    if room.left.iter().all(|left| *left == 1000) {
        return (33 - gpus).max(gpus);
    }
    let places = task.places(room, open);
    let whole = places.iter().filter(|at| room.left[**at] == 1000).count() as i64;
    if whole > 0 {
        return (50 - whole).max(33);
    }
    let tenths: i64 = places.iter().map(|at| i64::from(room.left[*at] / 10)).sum();
    (100 - tenths / 10).max(50)
}

fn clustering(task: &Task, room: &Room) -> i64 {
    let Some(kind) = task.kind() else { return 0 };
    let full = 25 * (8000 - free(room).min(8000) as i64) / 8000;
    let kinds = match (room.kinds.len(), room.kinds.contains_key(&kind)) {
        (0, _) => 25,
        (1, true) => 75,
        (_, true) => 50,
        (_, false) => 0,
    };
    full + kinds
}
