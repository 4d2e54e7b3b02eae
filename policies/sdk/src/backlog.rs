//! Waiting jobs in a total order, and the pass that starts them without preempting any job.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::rc::Rc;

use crate::free_ahead::{FreeAhead, ends};
use crate::residents::Left;
use crate::{Ask, Backfill, Cluster, GpuId, GpuTypeId, Job, JobId, Lines, Placement, Quantity, Reason, host};

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
    /// The type of the last question how long they take, and those that have come since.
    asked: Option<GpuTypeId>,
    unasked: Vec<Stand>,
    /// The line that they wait in.
    line: usize,
    /// Found no place in this pass.
    blocked: bool,
}

impl Queue {
    fn first(&self) -> Option<Stand> {
        self.jobs.first_key_value().map(|(stand, _)| *stand)
    }

    fn push(&mut self, stand: Stand) {
        self.jobs.insert(stand, f64::NAN);
        if self.asked.is_some() {
            if self.unasked.len() == self.unasked.capacity() {
                self.forget_started();
            }
            self.unasked.push(stand);
        }
    }

    fn forget_started(&mut self) {
        let jobs = &self.jobs;
        self.unasked.retain(|stand| jobs.contains_key(stand));
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
    lines: Lines,
}

impl Backlog {
    /// No jobs yet; `lines` says which hold up which.
    pub fn new(lines: Lines) -> Backlog {
        Backlog { queues: Vec::new(), lines }
    }

    /// Adds a job that waits. One that holds GPUs when a policy takes over has its turn when it waits again.
    pub fn push(&mut self, job: &Job, key: u64) {
        if !job.waits() {
            return;
        }
        let known = self.queues.iter().position(|queue| queue.ask == job.ask() && queue.gpu_types == job.gpu_types);
        let index = known.unwrap_or_else(|| {
            let (ask, gpu_types) = (job.ask(), job.gpu_types.clone());
            let (jobs, lengths, unasked) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
            self.queues.push(Queue { ask, gpu_types, jobs, lengths, asked: None, unasked, line: 0, blocked: false });
            self.queues.len() - 1
        });
        self.queues[index].push((key, job.id));
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
        let line = |queue: &&Queue| queue.ask == job.ask() && queue.gpu_types == job.gpu_types;
        let line = self.queues.iter().find(line).map_or(0, |queue| queue.line);
        match self.queues.iter().filter(|queue| queue.line == line).filter_map(Queue::first).min() {
            Some((_, first)) if first != job.id && backfill != Backfill::Skip => Reason::Behind(first),
            _ => cluster.why(job),
        }
    }

    /// Starts what the order and `backfill` allow now.
    pub fn start(&mut self, cluster: &mut Cluster, place: Placement, backfill: Backfill) {
        if self.queues.len() > 64
            && self.queues.iter().filter(|queue| queue.jobs.is_empty()).count() > self.queues.len() / 2
        {
            self.queues.retain(|queue| !queue.jobs.is_empty());
        }
        for queue in &mut self.queues {
            queue.blocked = false;
        }
        for line in 0..self.number_lines() {
            self.start_line(line, cluster, place, backfill);
        }
    }

    /// Says of each queue which line it is in; how many lines there are at most.
    fn number_lines(&mut self) -> usize {
        if self.lines == Lines::One {
            return 1;
        }
        // Few: queues differ in much else.
        let mut sets: Vec<Rc<[GpuTypeId]>> = Vec::new();
        for queue in self.queues.iter_mut().filter(|queue| !queue.jobs.is_empty()) {
            queue.line = sets.iter().position(|set| *set == queue.gpu_types).unwrap_or(sets.len());
            if queue.line == sets.len() {
                sets.push(queue.gpu_types.clone());
            }
        }
        let numbers = self.lines.number(sets.iter().map(|set| &**set));
        self.queues
            .iter_mut()
            .filter(|queue| !queue.jobs.is_empty())
            .for_each(|queue| queue.line = numbers[queue.line]);
        sets.len()
    }

    fn start_line(&mut self, line: usize, cluster: &mut Cluster, place: Placement, backfill: Backfill) {
        if let Backfill::Conservative(depth) = backfill {
            return self.conservative(line, cluster, place, depth);
        }
        loop {
            let mine = self.queues.iter_mut().filter(|queue| queue.line == line);
            let open = mine.filter(|queue| !queue.blocked && !queue.jobs.is_empty());
            let Some(queue) = open.min_by_key(|queue| queue.first()) else { return };
            let Some(head) = queue.first() else { return };
            match place.find_any(cluster, &queue.gpu_types, queue.ask) {
                Some(gpus) => {
                    cluster.start(head.1, gpus);
                    queue.remove(head);
                }
                None => match backfill {
                    Backfill::Skip => queue.blocked = true,
                    Backfill::Easy => return self.easy(line, cluster, place, head),
                    _ => return,
                },
            }
        }
    }

    /// EASY backfilling by counts: the head's reservation is the earliest instant at which the GPUs of its first
    /// type suffice if all estimates hold; a job may jump it where it ends before, or leaves enough over.
    fn easy(&mut self, line: usize, cluster: &mut Cluster, place: Placement, head: Stand) {
        let head_job = cluster.job(head.1).clone();
        let gpu_type = head_job.gpu_types[0];
        let (shadow, mut extra) = reservation(cluster, &head_job, gpu_type);
        if !head_job.ask().is_unbound() {
            // By count it is not known which GPUs the head can do without.
            extra = 0;
        }
        self.ask(|queue| queue.line == line, gpu_type, Some(head));
        // All before this have had their turn.
        let mut turn = Some(head);
        loop {
            let mut first: Option<(Stand, usize, Vec<GpuId>)> = None;
            let mine = self.queues.iter_mut().enumerate().filter(|(_, queue)| queue.line == line);
            for (index, queue) in mine.filter(|(_, queue)| !queue.blocked) {
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

    /// Conservative backfilling by counts: in the order of the line each job is given the earliest time from which there are GPUs for it for
    /// as long as it takes, if all estimates hold; a job whose time is now starts. So none starts where it delays one before it. A job that
    /// the count has a place for now, but not so that it is one, waits for the next end of a job.
    fn conservative(&mut self, line: usize, cluster: &mut Cluster, place: Placement, depth: u32) {
        let mut types: Vec<GpuTypeId> = Vec::new();
        let mut asks: Vec<u32> = Vec::new();
        for queue in self.queues.iter().filter(|queue| queue.line == line && !queue.jobs.is_empty()) {
            types.extend(queue.gpu_types.iter());
            asks.push(queue.ask.gpus);
        }
        types.sort_unstable();
        types.dedup();
        let least = asks.into_iter().min().unwrap_or(0);
        if !types.iter().any(|gpu_type| cluster.free_gpus(*gpu_type) >= least) {
            return;
        }
        let mut ahead: BTreeMap<GpuTypeId, FreeAhead> =
            types.iter().map(|gpu_type| (*gpu_type, FreeAhead::new(cluster, *gpu_type))).collect();
        let mut turn: Option<Stand> = None;
        let mut planned = 0;
        while planned < depth {
            if !ahead.values().any(|free| free.now() >= least) {
                return;
            }
            let mine = self.queues.iter().enumerate().filter(|(_, queue)| queue.line == line);
            let next = mine.filter_map(|(index, queue)| Some((queue.next(turn, None)?, index))).min();
            let Some((stand, index)) = next else { return };
            turn = Some(stand);
            let (ask, gpu_types) = (self.queues[index].ask, self.queues[index].gpu_types.clone());
            let seconds = self.seconds(stand, index);
            let found = gpu_types.iter().zip(seconds).filter_map(|(gpu_type, seconds)| {
                let free = &ahead[gpu_type];
                let at = free.earliest(ask.gpus, seconds, false)?;
                let gpus = if at == 0.0 { place.find(cluster, *gpu_type, ask) } else { None };
                let at = if at == 0.0 && gpus.is_none() { free.earliest(ask.gpus, seconds, true)? } else { at };
                Some((at, *gpu_type, seconds, gpus))
            });
            let best = found.reduce(|best, other| if other.0 < best.0 { other } else { best });
            // One that there will never be enough GPUs for has no reservation.
            let Some((at, gpu_type, seconds, gpus)) = best else { continue };
            planned += 1;
            if let Some(free) = ahead.get_mut(&gpu_type) {
                free.take(at, seconds, ask.gpus);
            }
            if let Some(gpus) = gpus {
                cluster.start(stand.1, gpus);
                self.queues[index].remove(stand);
            }
        }
    }

    /// Seconds that a job which waits takes on each of its types; infinite if unknown.
    fn seconds(&mut self, stand: Stand, index: usize) -> Vec<f64> {
        let queue = &mut self.queues[index];
        let known = |seconds: f64| if seconds.is_nan() { f64::INFINITY } else { seconds.max(f64::MIN_POSITIVE) };
        if let [only] = *queue.gpu_types {
            if queue.asked != Some(only) || !queue.unasked.is_empty() {
                let line = queue.line;
                self.ask(|queue| queue.line == line && *queue.gpu_types == [only], only, None);
            }
            return vec![known(self.queues[index].jobs[&stand])];
        }
        let types = queue.gpu_types.to_vec();
        host::estimate(Quantity::Remaining, vec![stand.1; types.len()], types).into_iter().map(known).collect()
    }

    /// Learns how long the jobs of some queues take on a type, but for the head: elsewhere no job is in its way. What waits makes no progress,
    /// so one answer holds.
    fn ask(&mut self, of: impl Fn(&Queue) -> bool, gpu_type: GpuTypeId, head: Option<Stand>) {
        let mut now: Vec<(Stand, usize)> = Vec::new();
        for (index, queue) in self.queues.iter_mut().enumerate().filter(|(_, queue)| of(queue)) {
            if queue.asked != Some(gpu_type) {
                queue.asked = Some(gpu_type);
                queue.unasked = queue.jobs.keys().copied().collect();
            }
            queue.forget_started();
            let mut later = None;
            for stand in queue.unasked.drain(..) {
                if Some(stand) == head { later = head } else { now.push((stand, index)) }
            }
            queue.unasked.extend(later);
        }
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
}

/// Seconds until the head can start by count, and GPUs left over then. A job without an estimate never ends. A GPU with several jobs is
/// free when the last of them has ended; a share or a part of one has room as soon as enough of it is left.
fn reservation(cluster: &Cluster, head: &Job, gpu_type: GpuTypeId) -> (f64, u32) {
    let mut free = cluster.free_gpus(gpu_type);
    // Of each GPU on which a job has ended: how many are left, and what of it.
    let mut ending: BTreeMap<GpuId, (usize, Left)> = BTreeMap::new();
    let is_fraction = cluster.is_fraction(head.share);
    for (seconds, id) in ends(cluster, gpu_type) {
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
