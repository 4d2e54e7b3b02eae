//! Which of the first jobs goes to which type of GPU.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::{Cluster, Draws, GpuId, GpuTypeId, Job, JobId, NodeId};

use crate::table::{Features, Table};

/// How a type of GPU is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Match {
    /// The pair of job and type with the largest comparative advantage.
    Comparative,
    /// The first job, on the first type with room.
    FirstFit,
    /// The first job, on any type with room.
    Random,
    /// The first job, on the type on which it is predicted to run the fastest.
    Fastest,
}

impl Match {
    /// The words by which configurations name them.
    pub const WORDS: &'static [&'static str] = &["comparative", "first-fit", "random", "fastest"];

    /// The rule of a word.
    pub fn named(word: &str) -> Match {
        match word {
            "first-fit" => Match::FirstFit,
            "random" => Match::Random,
            "fastest" => Match::Fastest,
            _ => Match::Comparative,
        }
    }
}

/// What is predicted of jobs of one model and one gang size.
struct Known {
    /// Logarithms of rates by type, less their mean.
    rates: Vec<f64>,
    advantage: Vec<f64>,
}

/// What a job is compared by: its workload where it has one, and its gang.
type Key = (Option<u32>, u32);

/// Predictions, each made once.
pub struct Oracle {
    table: Table,
    features: Features,
    blend: bool,
    known: BTreeMap<Key, Known>,
}

impl Oracle {
    /// Predictions by a table.
    pub fn new(table: Table, features: Features, blend: bool) -> Oracle {
        Oracle { table, features, blend, known: BTreeMap::new() }
    }

    fn of(&mut self, job: &Job) -> &Known {
        let (table, features, blend) = (&self.table, self.features, self.blend);
        self.known.entry((job.workload, job.gpus)).or_insert_with(|| {
            let profile = job.profile.as_ref().and_then(|profile| Some((profile, profile.facts.as_ref()?)));
            let found = profile.and_then(|(profile, facts)| {
                let own = features.of(facts);
                let like = table.like(&facts.model, &profile.family, &own)?;
                let rates = table.predict(&like, &own, job.gpus, blend);
                Some(Known { advantage: table.advantage(&rates, job.gpus), rates })
            });
            found.unwrap_or_else(|| {
                let nothing = vec![0.0; table.types()];
                Known { rates: nothing.clone(), advantage: nothing }
            })
        })
    }

    /// The comparative advantage of a job on a type, to twelve decimals; 0: nobody knows.
    pub fn advantage(&mut self, job: &Job, kind: GpuTypeId) -> f64 {
        let known = self.of(job).advantage[kind as usize];
        if known.is_finite() { rounded(known) } else { 0.0 }
    }

    fn rate(&mut self, job: &Job, kind: GpuTypeId) -> f64 {
        let known = self.of(job).rates[kind as usize];
        if known.is_finite() { known } else { f64::NEG_INFINITY }
    }
}

/// Rounded so that sums in another order decide alike.
pub(crate) fn rounded(x: f64) -> f64 {
    libm::floor(x * 1e12 + 0.5) / 1e12
}

/// Free GPUs by node, real or imagined.
pub struct Room {
    free: Vec<u32>,
    kinds: Vec<GpuTypeId>,
    /// A node that is kept for the head of the queue.
    pub kept: Option<(JobId, NodeId)>,
}

impl Room {
    /// What is free now.
    pub fn now(cluster: &Cluster) -> Room {
        let nodes = || 0..cluster.node_count() as NodeId;
        let free = nodes().map(|node| cluster.free_on(node)).collect();
        Room { free, kinds: nodes().map(|node| cluster.node_type(node)).collect(), kept: None }
    }

    /// What would be free if nobody ran whose job satisfies `moves`.
    pub fn without(cluster: &Cluster, moves: impl Fn(&Job) -> bool) -> Room {
        let mut room = Room::now(cluster);
        let held = cluster.holders().filter(|job| moves(job)).flat_map(|job| job.held.iter().copied());
        let gpus: BTreeSet<GpuId> = held.collect();
        for gpu in gpus {
            let node = cluster.node_with(gpu);
            let all = cluster.residents(gpu).iter().all(|other| moves(cluster.job(*other)));
            if all && !cluster.node_gpus(node).is_empty() {
                room.free[node as usize] += 1;
            }
        }
        room
    }

    /// The node of a type that a gang fits into best; ties by number.
    pub fn node_for(&self, job: &Job, kind: GpuTypeId) -> Option<NodeId> {
        let open = |node: &NodeId| self.kept.is_none_or(|(head, kept)| head == job.id || kept != *node);
        let fits = |node: &NodeId| self.kinds[*node as usize] == kind && self.free[*node as usize] >= job.gpus;
        let nodes = (0..self.free.len() as NodeId).filter(|node| fits(node) && open(node));
        nodes.min_by_key(|node| (self.free[*node as usize], *node))
    }

    /// Whether a node has room for a gang.
    pub fn has(&self, node: NodeId, gpus: u32) -> bool {
        self.free[node as usize] >= gpus
    }

    /// Keeps free GPUs of a node from everybody, as far as there are any.
    pub fn keep(&mut self, node: NodeId, gpus: u32) {
        let free = &mut self.free[node as usize];
        *free = free.saturating_sub(gpus);
    }

    /// Takes GPUs of a node.
    pub fn take(&mut self, node: NodeId, gpus: u32) {
        self.free[node as usize] -= gpus;
    }
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// Where in the window the job stands.
    pub at: usize,
    /// The type.
    pub kind: GpuTypeId,
    /// The node.
    pub node: NodeId,
}

/// Chooses among the jobs of a window. `stay`: a job's present type and what staying there is worth.
pub fn choose(
    rule: Match,
    window: &[&Job],
    room: &Room,
    names: &[String],
    oracle: &mut Oracle,
    draws: &mut Draws,
    stay: impl Fn(&Job) -> Option<(GpuTypeId, NodeId, f64)>,
) -> Option<Chosen> {
    let mut best: Option<(f64, Chosen)> = None;
    for (at, job) in window.iter().enumerate() {
        let place = |kind: GpuTypeId| {
            let staying = stay(job).filter(|(own, node, _)| *own == kind && room.has(*node, job.gpus));
            let node = staying.map(|(_, node, _)| node).or_else(|| room.node_for(job, kind))?;
            Some((Chosen { at, kind, node }, staying.map_or(0.0, |(_, _, worth)| worth)))
        };
        let places: Vec<(Chosen, f64)> = job.gpu_types.iter().filter_map(|kind| place(*kind)).collect();
        if places.is_empty() {
            continue;
        }
        match rule {
            Match::FirstFit => return Some(places[0].0),
            Match::Random => return Some(places[draws.below(places.len())].0),
            Match::Fastest => {
                let rate = |oracle: &mut Oracle, chosen: &Chosen| oracle.rate(job, chosen.kind);
                let mut fastest = places[0].0;
                for (chosen, _) in &places[1..] {
                    if rate(oracle, chosen) > rate(oracle, &fastest) {
                        fastest = *chosen;
                    }
                }
                return Some(fastest);
            }
            Match::Comparative => {
                for (chosen, worth) in places {
                    let score = oracle.advantage(job, chosen.kind) + worth;
                    let name = |chosen: &Chosen| names[chosen.kind as usize].as_bytes();
                    let better = best.is_none_or(|(known, other)| {
                        let same_job = other.at == chosen.at && name(&chosen) < name(&other);
                        score > known || (score == known && same_job)
                    });
                    if better {
                        best = Some((score, chosen));
                    }
                }
            }
        }
    }
    best.map(|(_, chosen)| chosen)
}
