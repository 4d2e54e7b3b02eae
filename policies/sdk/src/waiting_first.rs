//! The order of [`Ties::WaitingFirst`](crate::Ties): the least left first; among equals those that wait, in the order in which they
//! began to, then those that hold GPUs, likewise. What is left is looked at to the microsecond, as events tell it.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::line::Stand;
use crate::quota::QuotaOrder;
use crate::{Batch, Cluster, Event, Instant, JobId, JobMap, Least, NEVER, Placement, QuotaQueue};

/// Where a job stands.
#[derive(Clone, Copy, Debug)]
struct Key {
    /// µs that are left; where it falls, the instant at which nothing is left.
    left: u64,
    /// Whether it falls with the clock.
    falls: bool,
    /// What a µs counts.
    weight: u32,
    /// Whether it holds GPUs.
    held: bool,
    /// When it began to wait, or to hold them: counted, no two alike.
    since: u64,
}

impl Key {
    /// µs that are left at an instant.
    fn left(&self, at: Instant) -> u64 {
        if self.falls { self.left.saturating_sub(at) } else { self.left }
    }
}

/// The order at an instant. Jobs of which nothing is left any more do not fall.
#[derive(Default)]
struct Now(Instant);

impl QuotaOrder<Key> for Now {
    fn order(&self, (first, _): &Stand<Key>, (second, _): &Stand<Key>) -> Ordering {
        let counts = |key: &Key| key.left(self.0).saturating_mul(u64::from(key.weight));
        counts(first).cmp(&counts(second)).then((first.held, first.since).cmp(&(second.held, second.since)))
    }

    fn group(&self, key: &Key) -> u32 {
        if key.falls { key.weight } else { 0 }
    }
}

/// Jobs in that order.
pub(crate) struct WaitingFirst {
    least: Least,
    queue: QuotaQueue<Key, Now>,
    /// Of each live job.
    keys: JobMap<Key>,
    /// Jobs whose time left falls, by when nothing is left.
    falling: BTreeSet<(Instant, JobId)>,
    /// Jobs that the latest pass started or preempted.
    moved: Vec<JobId>,
    /// Jobs that save their state: they begin to wait with the last pass that finds them so.
    stopping: BTreeSet<JobId>,
    moves: u64,
}

impl WaitingFirst {
    pub(crate) fn new(least: Least) -> WaitingFirst {
        let (queue, keys) = (QuotaQueue::new(Now::default()), JobMap::default());
        let (falling, stopping) = (BTreeSet::new(), BTreeSet::new());
        WaitingFirst { least, queue, keys, falling, moved: Vec::new(), stopping, moves: 0 }
    }

    /// Preempts and starts jobs. If it `foretells`, returns the seconds after which the walk would end otherwise although nothing happens.
    pub(crate) fn pass(
        &mut self,
        batch: &Batch,
        cluster: &mut Cluster,
        (place, foretells): (Placement, bool),
    ) -> Option<f64> {
        // By now they stand otherwise to others that hold GPUs.
        let mut again = std::mem::take(&mut self.moved);
        while let Some((end, id)) = self.falling.first().copied().filter(|(end, _)| *end <= batch.now) {
            self.falling.remove(&(end, id));
            if let Some(key) = self.keys.get_mut(id) {
                (key.left, key.falls) = (0, false);
            }
            again.push(id);
        }
        again.iter().for_each(|id| self.queue.take(*id));
        self.queue.order.0 = batch.now;
        again.into_iter().for_each(|id| self.put(cluster, id));
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) => self.tell(cluster, arrival.job, arrival.submitted, arrival.remaining),
                Event::JobChanged(change) => self.tell(cluster, change.job, change.at, change.remaining),
                Event::RemainingChanged(change) => self.tell(cluster, change.job, change.at, change.remaining),
                Event::JobEnded(end) => {
                    self.queue.take(end.job);
                    self.stopping.remove(&end.job);
                    if let Some(key) = self.keys.remove(end.job) {
                        self.falling.remove(&(key.left, end.job));
                    }
                }
                // What was to stop goes on.
                Event::Rejected(_) => self.stopping.retain(|id| {
                    let stops = |job: &crate::Job| !job.holds() && !job.waits();
                    cluster.get(*id).is_some_and(stops)
                }),
                Event::NodeChanged(_) | Event::Timer(_) => {}
            }
        }
        let changes = self.queue.walk(cluster, place);
        let stand = |id: JobId| self.keys.get(id).map(|key| (*key, id));
        let unplaced = if foretells { &changes.unplaced[..] } else { &[] };
        let unplaced: Vec<Stand<Key>> = unplaced.iter().filter_map(|id| stand(*id)).collect();
        let seconds = |key: &Key| seconds(key.left(batch.now));
        let change = next_change(cluster, &self.queue.order, stand, seconds, &unplaced);
        let chosen = changes.chosen.iter().map(|(id, _)| *id);
        self.moved = changes.preempted.iter().copied().chain(chosen).collect();
        let mut began: Vec<Stand<Key>> = self.moved.iter().chain(&self.stopping).copied().filter_map(stand).collect();
        began.sort_unstable_by(|a, b| self.queue.order.order(a, b));
        for (_, id) in began {
            if let Some(key) = self.keys.get_mut(id) {
                key.since = self.moves;
                self.moves += 1;
            }
        }
        self.stopping.extend(changes.preempted);
        change
    }

    /// So much is left of a job at that instant.
    fn tell(&mut self, cluster: &Cluster, id: JobId, at: Instant, left: u64) {
        let Some(job) = cluster.get(id) else { return };
        match job.holds() || job.waits() {
            true => self.stopping.remove(&id),
            false => self.stopping.insert(id),
        };
        let falls = job.holds() && left < NEVER;
        let left = match left {
            NEVER => u64::MAX,
            left if falls => at + left,
            left => left,
        };
        let since = match self.keys.get(id) {
            Some(key) => {
                self.falling.remove(&(key.left, id));
                key.since
            }
            None => {
                self.moves += 1;
                self.moves - 1
            }
        };
        let overdue = falls && left <= self.queue.order.0;
        let (left, falls) = if overdue { (0, false) } else { (left, falls) };
        if falls {
            self.falling.insert((left, id));
        }
        self.queue.take(id);
        self.keys.insert(id, Key { left, falls, weight: self.least.weight(job.gpus), held: false, since });
        self.put(cluster, id);
    }

    fn put(&mut self, cluster: &Cluster, id: JobId) {
        let (Some(job), Some(key)) = (cluster.get(id), self.keys.get_mut(id)) else { return self.queue.take(id) };
        key.held = !job.waits();
        let key = *key;
        self.queue.put(cluster, id, key);
    }
}

/// µs as seconds; NaN: unknown.
pub(crate) fn seconds(micros: u64) -> f64 {
    if micros == u64::MAX { f64::NAN } else { micros as f64 / 1e6 }
}

/// The earliest moment, in seconds from now, at which what is left of a job that holds GPUs falls below that of an unplaced job before it.
pub(crate) fn next_change<K>(
    cluster: &Cluster,
    order: &impl QuotaOrder<K>,
    stand: impl Fn(JobId) -> Option<Stand<K>>,
    left: impl Fn(&K) -> f64,
    unplaced: &[Stand<K>],
) -> Option<f64> {
    if unplaced.is_empty() {
        return None;
    }
    let gap = |holder: Stand<K>| {
        let before = unplaced.partition_point(|other| order.order(other, &holder).is_lt());
        let bar = left(&unplaced[before.checked_sub(1)?].0);
        let gap = left(&holder.0) - bar;
        (!gap.is_nan()).then(|| gap.max(0.0))
    };
    cluster.holders().filter_map(|job| gap(stand(job.id)?)).min_by(f64::total_cmp)
}
