//! Waiting jobs in a total order, and the pass that starts them without preempting any job.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::rc::Rc;

use crate::residents::Left;
use crate::{Ask, Cluster, GpuId, GpuTypeId, Job, JobId, Kind, Param, Placement, Quantity, Reason, host};

/// What happens when a job that comes earlier in the order finds no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backfill {
    /// It blocks the jobs behind it (head-of-line blocking).
    None,
    /// It is skipped (Tiresias' `fjf`).
    Skip,
    /// Jobs behind it may start where their estimates say that they do not delay it (EASY).
    Easy,
}

impl Backfill {
    /// The words by which configurations name the ways.
    pub const WORDS: &'static [&'static str] = &["none", "skip", "easy"];

    /// The parameter by which policies name the way; by default a job that finds no place is skipped.
    pub const PARAM: Param = Param {
        name: "backfill",
        kind: Kind::Choice(Backfill::WORDS),
        default: "\"skip\"",
        about: "What happens behind a job that finds no place: it blocks, is skipped, or is jumped where estimates allow (EASY).",
    };

    /// The way of a word of [`Backfill::WORDS`].
    pub fn named(word: &str) -> Backfill {
        match word {
            "skip" => Backfill::Skip,
            "easy" => Backfill::Easy,
            _ => Backfill::None,
        }
    }
}

/// A key and an id: where a job stands.
type Stand = (u64, JobId);

/// Jobs that need the same find a place together or not at all: one queue for each shape.
struct Queue {
    ask: Ask,
    gpu_types: Rc<[GpuTypeId]>,
    /// Seconds that each takes on the type of the last question; NaN: unknown, or not asked yet.
    jobs: BTreeMap<Stand, f64>,
    /// The same, the shortest first, of those that are known.
    lengths: BTreeSet<(u64, Stand)>,
    /// Found no place in this pass.
    blocked: bool,
}

impl Queue {
    fn first(&self) -> Option<Stand> {
        self.jobs.first_key_value().map(|(stand, _)| *stand)
    }

    fn remove(&mut self, stand: Stand) {
        if let Some(seconds) = self.jobs.remove(&stand) {
            self.lengths.remove(&(order(seconds), stand));
        }
    }

    fn learn(&mut self, stand: Stand, seconds: f64) {
        if self.jobs.contains_key(&stand) {
            self.remove(stand);
            self.jobs.insert(stand, seconds);
            if !seconds.is_nan() {
                self.lengths.insert((order(seconds), stand));
            }
        }
    }

    /// The first behind `after`, of all or of those that take no longer than `seconds`.
    fn next(&self, after: Option<Stand>, seconds: Option<f64>) -> Option<Stand> {
        let mut behind = self.jobs.range((after.map_or(Unbounded, Excluded), Unbounded));
        let Some(most) = seconds else { return behind.next().map(|(stand, _)| *stand) };
        let shortest = self.lengths.first()?;
        if shortest.0 > order(most) {
            return None;
        }
        behind.find(|(_, seconds)| **seconds <= most).map(|(stand, _)| *stand)
    }
}

/// Seconds as a number of the same order.
fn order(seconds: f64) -> u64 {
    if seconds > 0.0 { seconds.to_bits() } else { 0 }
}

/// Waiting jobs, each with a key: ordered by (key, id), which is total.
#[derive(Default)]
pub struct Backlog {
    // Few shapes: a scan is quicker than a map.
    queues: Vec<Queue>,
    /// For EASY: the type of the last question how long jobs take, and the jobs that have come since.
    asked: Option<GpuTypeId>,
    unasked: Vec<(Stand, usize)>,
}

impl Backlog {
    /// Adds a job that waits. One that holds GPUs when a policy takes over has its turn when it waits again.
    pub fn push(&mut self, job: &Job, key: u64) {
        if !job.waits() {
            return;
        }
        let known = self.queues.iter().position(|queue| queue.ask == job.ask() && queue.gpu_types == job.gpu_types);
        let index = known.unwrap_or_else(|| {
            let (ask, gpu_types) = (job.ask(), job.gpu_types.clone());
            let (jobs, lengths) = (BTreeMap::new(), BTreeSet::new());
            self.queues.push(Queue { ask, gpu_types, jobs, lengths, blocked: false });
            self.queues.len() - 1
        });
        self.queues[index].jobs.insert((key, job.id), f64::NAN);
        if self.asked.is_some() {
            if self.unasked.len() == self.unasked.capacity() {
                self.forget_started();
            }
            self.unasked.push(((key, job.id), index));
        }
    }

    /// Removes a job that waits no more, by the key that it was added with.
    pub fn remove(&mut self, job: &Job, key: u64) {
        for queue in &mut self.queues {
            if queue.ask == job.ask() && queue.gpu_types == job.gpu_types {
                queue.remove((key, job.id));
            }
        }
    }

    /// Why a job waits that [`Backlog::start`] has left.
    pub fn why(&self, job: &Job, cluster: &Cluster, backfill: Backfill) -> Reason {
        match self.queues.iter().filter_map(Queue::first).min() {
            Some((_, first)) if first != job.id && backfill != Backfill::Skip => Reason::Behind(first),
            _ => cluster.why(job),
        }
    }

    /// Starts what the order and `backfill` allow now.
    pub fn start(&mut self, cluster: &mut Cluster, place: Placement, backfill: Backfill) {
        for queue in &mut self.queues {
            queue.blocked = false;
        }
        loop {
            let open = self.queues.iter_mut().filter(|queue| !queue.blocked && !queue.jobs.is_empty());
            let Some(queue) = open.min_by_key(|queue| queue.first()) else { return };
            let Some(head) = queue.first() else { return };
            match place.find_any(cluster, &queue.gpu_types, queue.ask) {
                Some(gpus) => {
                    cluster.start(head.1, gpus);
                    queue.remove(head);
                }
                None => match backfill {
                    Backfill::None => return,
                    Backfill::Skip => queue.blocked = true,
                    Backfill::Easy => return self.easy(cluster, place, head),
                },
            }
        }
    }

    /// EASY backfilling by counts: the head's reservation is the earliest instant at which the GPUs of its first
    /// type suffice if all estimates hold; a job may jump it where it ends before, or leaves enough over.
    fn easy(&mut self, cluster: &mut Cluster, place: Placement, head: Stand) {
        let head_job = cluster.job(head.1).clone();
        let gpu_type = head_job.gpu_types[0];
        let (shadow, mut extra) = reservation(cluster, &head_job, gpu_type);
        if !head_job.ask().is_unbound() {
            // By count it is not known which GPUs the head can do without.
            extra = 0;
        }
        self.ask(gpu_type, head);
        // All before this have had their turn.
        let mut turn = Some(head);
        loop {
            let mut first: Option<(Stand, usize, Vec<GpuId>)> = None;
            for (index, queue) in self.queues.iter_mut().enumerate().filter(|(_, queue)| !queue.blocked) {
                let Some(found) = place.find_any(cluster, &queue.gpu_types, queue.ask) else {
                    // Nothing is given back while the pass lasts.
                    queue.blocked = true;
                    continue;
                };
                let delays = cluster.nodes[cluster.node_of(found[0])].gpu_type == gpu_type && queue.ask.gpus > extra;
                if let Some(stand) = queue.next(turn, delays.then_some(shadow))
                    && first.as_ref().is_none_or(|(other, ..)| stand < *other)
                {
                    first = Some((stand, index, found));
                }
            }
            let Some((stand, index, found)) = first else { return };
            let queue = &mut self.queues[index];
            let ends_before = queue.jobs[&stand] <= shadow;
            if cluster.nodes[cluster.node_of(found[0])].gpu_type == gpu_type && !ends_before {
                extra -= queue.ask.gpus;
            }
            cluster.start(stand.1, found);
            queue.remove(stand);
            turn = Some(stand);
        }
    }

    /// Learns how long the jobs behind the head take on its type: elsewhere no job is in its way. What waits makes no progress, so
    /// one answer holds.
    fn ask(&mut self, gpu_type: GpuTypeId, head: Stand) {
        if self.asked != Some(gpu_type) {
            self.asked = Some(gpu_type);
            let all = self.queues.iter().enumerate();
            self.unasked = all.flat_map(|(index, queue)| queue.jobs.keys().map(move |stand| (*stand, index))).collect();
        }
        self.forget_started();
        let (later, mut now): (Vec<_>, Vec<_>) = self.unasked.drain(..).partition(|(stand, _)| *stand == head);
        self.unasked = later;
        now.sort_unstable();
        now.dedup();
        let ids: Vec<JobId> = now.iter().map(|((_, id), _)| *id).collect();
        let types = vec![gpu_type; ids.len()];
        if !ids.is_empty() {
            for ((stand, index), seconds) in now.into_iter().zip(host::estimate(Quantity::Remaining, ids, types)) {
                self.queues[index].learn(stand, seconds);
            }
        }
    }

    fn forget_started(&mut self) {
        self.unasked.retain(|(stand, index)| self.queues[*index].jobs.contains_key(stand));
    }
}

/// Seconds until the head can start by count, and GPUs left over then. A job without an estimate never ends. A GPU with several jobs is
/// free when the last of them has ended; a share or a part of one has room as soon as enough of it is left.
fn reservation(cluster: &Cluster, head: &Job, gpu_type: GpuTypeId) -> (f64, u32) {
    let holding = cluster.holders().filter(|job| cluster.type_of(job) == gpu_type);
    let ids: Vec<JobId> = holding.map(|job| job.id).collect();
    let mut ends: Vec<(f64, JobId)> =
        cluster.remaining(&ids).into_iter().zip(ids).filter(|(left, _)| !left.is_nan()).collect();
    ends.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal).then(a.1.cmp(&b.1)));
    let mut free = cluster.free_gpus(gpu_type);
    // Of each GPU on which a job has ended: how many are left, and what of it.
    let mut ending: BTreeMap<GpuId, (usize, Left)> = BTreeMap::new();
    let is_fraction = cluster.is_fraction(head.share);
    for (seconds, id) in ends {
        let job = cluster.job(id);
        if !cluster.residents.is_shared() {
            free += cluster.gpus_on_up(job);
        }
        for gpu in job.held.iter().filter(|gpu| cluster.residents.is_shared() && cluster.is_up(cluster.node(**gpu))) {
            let now = || (cluster.residents(*gpu).len(), cluster.residents.left(*gpu));
            let (jobs, left) = ending.entry(*gpu).or_insert_with(now);
            (*jobs, *left) = (*jobs - 1, left.with(cluster.taken_by(id, cluster.node_of(*gpu))));
            if is_fraction && cluster.residents.fits(gpu_type, head.ask(), *left) {
                return (seconds, 0);
            }
            free += u32::from(*jobs == 0);
        }
        if free >= head.gpus {
            return (seconds, free - head.gpus);
        }
    }
    (f64::INFINITY, 0)
}
