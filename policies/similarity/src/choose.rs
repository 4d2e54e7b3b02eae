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

    /// The comparative advantage of a job on a type, to twelve decimals; 0: unknown.
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
fn rounded(x: f64) -> f64 {
    libm::floor(x * 1e12 + 0.5) / 1e12
}

/// Nodes, and how many GPUs of each.
pub type Place = Vec<(NodeId, u32)>;

/// Where a job that runs is.
pub fn place_of(cluster: &Cluster, job: &Job) -> Place {
    let mut place = Place::new();
    for gpu in &job.held {
        let node = cluster.node(*gpu);
        match place.iter_mut().find(|(known, _)| *known == node) {
            Some((_, gpus)) => *gpus += 1,
            None => place.push((node, 1)),
        }
    }
    place
}

/// Free GPUs by node, real or imagined.
pub struct Room {
    free: Vec<u32>,
    kinds: Vec<GpuTypeId>,
    /// The largest node of each type.
    sizes: Vec<u32>,
    /// A node that is kept for the head of the queue.
    pub kept: Option<(JobId, NodeId)>,
}

impl Room {
    /// What is free now.
    pub fn now(cluster: &Cluster) -> Room {
        let nodes = || 0..cluster.node_count() as NodeId;
        let free = nodes().map(|node| cluster.free_on(node)).collect();
        let sizes = (0..cluster.types() as GpuTypeId).map(|kind| cluster.largest_node(&[kind])).collect();
        Room { free, kinds: nodes().map(|node| cluster.node_type(node)).collect(), sizes, kept: None }
    }

    /// What would be free without the jobs that satisfy `moves`.
    pub fn without(cluster: &Cluster, moves: impl Fn(&Job) -> bool) -> Room {
        let mut room = Room::now(cluster);
        let held = cluster.holders().filter(|job| moves(job)).flat_map(|job| job.held.iter().copied());
        let gpus: BTreeSet<GpuId> = held.collect();
        for gpu in gpus {
            let node = cluster.node(gpu);
            let all = cluster.residents(gpu).iter().all(|other| moves(cluster.job(*other)));
            if all && !cluster.node_gpus(node).is_empty() {
                room.free[node as usize] += 1;
            }
        }
        room
    }

    /// GPUs of a type for a gang: of the node that it fits into best, ties by number; of the nodes with the most free
    /// ones where none could ever hold it.
    pub fn place_for(&self, job: &Job, kind: GpuTypeId) -> Option<Place> {
        let open = |node: &NodeId| self.kept.is_none_or(|(head, kept)| head == job.id || kept != *node);
        let free = |node: NodeId| self.free[node as usize];
        let nodes = || (0..self.free.len() as NodeId).filter(|node| self.kinds[*node as usize] == kind && open(node));
        if let Some(node) = nodes().filter(|node| free(*node) >= job.gpus).min_by_key(|node| (free(*node), *node)) {
            return Some(vec![(node, job.gpus)]);
        }
        if job.gpus <= self.sizes[kind as usize] {
            return None;
        }
        let mut order: Vec<NodeId> = nodes().filter(|node| free(*node) > 0).collect();
        order.sort_by_key(|node| (u32::MAX - free(*node), *node));
        let (mut place, mut left) = (Place::new(), job.gpus);
        for node in order {
            let taken = free(node).min(left);
            place.push((node, taken));
            left -= taken;
            if left == 0 {
                return Some(place);
            }
        }
        None
    }

    /// Whether all of a place is free.
    pub fn has(&self, place: &Place) -> bool {
        place.iter().all(|(node, gpus)| self.free[*node as usize] >= *gpus)
    }

    /// Marks a place as taken for all jobs, as far as it is free.
    pub fn take(&mut self, place: &Place) {
        for (node, gpus) in place {
            let free = &mut self.free[*node as usize];
            *free = free.saturating_sub(*gpus);
        }
    }
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The job's index in the window.
    pub at: usize,
    /// The type.
    pub kind: GpuTypeId,
    /// Where there.
    pub place: Place,
}

/// Chooses among the jobs of a window. `stay`: a job's present type and what staying there is worth.
pub fn choose(
    rule: Match,
    window: &[&Job],
    room: &Room,
    names: &[String],
    oracle: &mut Oracle,
    draws: &mut Draws,
    stay: impl Fn(&Job) -> Option<(GpuTypeId, Place, f64)>,
) -> Option<Chosen> {
    let mut best: Option<(f64, Chosen)> = None;
    for (at, job) in window.iter().enumerate() {
        let staying = stay(job).filter(|(_, place, _)| room.has(place));
        let found = |kind: GpuTypeId| match &staying {
            Some((own, place, worth)) if *own == kind => Some((Chosen { at, kind, place: place.clone() }, *worth)),
            _ => Some((Chosen { at, kind, place: room.place_for(job, kind)? }, 0.0)),
        };
        let mut places: Vec<(Chosen, f64)> = job.gpu_types.iter().filter_map(|kind| found(*kind)).collect();
        if places.is_empty() {
            continue;
        }
        match rule {
            Match::FirstFit => return Some(places.swap_remove(0).0),
            Match::Random => {
                let at = draws.below(places.len());
                return Some(places.swap_remove(at).0);
            }
            Match::Fastest => {
                let rate = |oracle: &mut Oracle, chosen: &Chosen| oracle.rate(job, chosen.kind);
                let mut fastest = 0;
                for at in 1..places.len() {
                    if rate(oracle, &places[at].0) > rate(oracle, &places[fastest].0) {
                        fastest = at;
                    }
                }
                return Some(places.swap_remove(fastest).0);
            }
            Match::Comparative => {
                for (chosen, worth) in places {
                    let score = oracle.advantage(job, chosen.kind) + worth;
                    let name = |chosen: &Chosen| names[chosen.kind as usize].as_bytes();
                    let better = best.as_ref().is_none_or(|(known, other)| {
                        let same_job = other.at == chosen.at && name(&chosen) < name(other);
                        score > *known || (score == *known && same_job)
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
