//! The order of [`Ties::WaitingFirst`](crate::Ties): the least left first; among equals those that wait, in the order in which they
//! began to, then those that hold GPUs, likewise. What is left is looked at to the microsecond, as events tell it.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::line::Stand;
use crate::quota::QuotaOrder;
use crate::time_left::{TimeLeft, next_change};
use crate::{Batch, Cluster, Event, Instant, Job, JobId, JobMap, Least, Placement, QuotaQueue};

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Key {
    left: TimeLeft,
    /// Whether it holds GPUs.
    held: bool,
    /// When it began to wait, or to hold them: counted, no two alike.
    since: u64,
}

/// The order at an instant. Jobs of which nothing is left any more do not fall.
#[derive(Default)]
struct Now(Instant);

impl QuotaOrder<Key> for Now {
    fn order(&self, (first, _): &Stand<Key>, (second, _): &Stand<Key>) -> Ordering {
        let by_left = first.left.counts(self.0).cmp(&second.left.counts(self.0));
        by_left.then((first.held, first.since).cmp(&(second.held, second.since)))
    }

    fn group(&self, key: &Key) -> u32 {
        key.left.end().map_or(0, |_| key.left.weight)
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
                key.left = key.left.over();
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
                    if let Some(at) = self.keys.remove(end.job).and_then(|key| key.left.end()) {
                        self.falling.remove(&(at, end.job));
                    }
                }
                // What was to stop goes on.
                Event::Rejected(_) => self.stopping.retain(|id| {
                    let stops = |job: &Job| !job.holds() && !job.waits();
                    cluster.get(*id).is_some_and(stops)
                }),
                Event::NodeChanged(_) | Event::LeaseEnded(_) | Event::Timer(_) => {}
            }
        }
        let changes = self.queue.walk(cluster, place);
        let stand = |id: JobId| self.keys.get(id).map(|key| (*key, id));
        let seconds = |key: &Key| key.left.seconds(batch.now);
        let unplaced = if foretells { &changes.unplaced[..] } else { &[] };
        let change = next_change(cluster, &self.queue.order, stand, seconds, unplaced);
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
        let since = match self.keys.get(id) {
            Some(key) => {
                key.left.end().into_iter().for_each(|end| _ = self.falling.remove(&(end, id)));
                key.since
            }
            None => {
                self.moves += 1;
                self.moves - 1
            }
        };
        let mut left = TimeLeft::told(job, at, left, self.least.weight(job.gpus));
        match left.end() {
            Some(end) if end <= self.queue.order.0 => left = left.over(),
            end => self.falling.extend(end.map(|end| (end, id))),
        }
        self.keys.insert(id, Key { left, held: false, since });
        self.put(cluster, id);
    }

    fn put(&mut self, cluster: &Cluster, id: JobId) {
        let (Some(job), Some(key)) = (cluster.get(id), self.keys.get_mut(id)) else { return self.queue.take(id) };
        key.held = !job.waits();
        let key = *key;
        self.queue.put(cluster, id, key);
    }
}
