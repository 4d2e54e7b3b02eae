//! The quota walk of [`crate::walk`] over jobs that are kept in order, so that a pass costs what changes and not what runs.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::line::{Line, Stand};
use crate::squeeze::Squeeze;
use crate::{Cluster, GpuTypeId, Job, JobId, JobMap, Placement};

/// How jobs of a [`QuotaQueue`] stand to each other.
pub trait QuotaOrder<K> {
    /// How the first stands to the second now. It may change with time whether a job that holds GPUs stands before one that waits or one of
    /// another group, but not how jobs of a group, or jobs that wait, stand to each other.
    fn order(&self, first: &Stand<K>, second: &Stand<K>) -> Ordering;

    /// The group of a job that holds GPUs.
    fn group(&self, _key: &K) -> u32 {
        0
    }
}

/// By key, and by id among equals.
#[derive(Clone, Copy, Default)]
pub struct ByKey;

impl<K: Ord> QuotaOrder<K> for ByKey {
    fn order(&self, first: &Stand<K>, second: &Stand<K>) -> Ordering {
        first.cmp(second)
    }
}

/// Waiting jobs that ask for the same of the same types: behind the first that the quota has no room for, it has room for none.
struct DemandClass<K> {
    asks: u32,
    gpu_types: Rc<[GpuTypeId]>,
    jobs: Line<K>,
}

/// Jobs of a group that hold GPUs of a type.
struct Holders<K> {
    gpu_type: GpuTypeId,
    group: u32,
    jobs: Line<K>,
}

/// Where a job stands now.
#[derive(Clone, Copy, PartialEq)]
enum Entry<K> {
    /// Among those that hold GPUs, of which group, and what it asks for.
    Holds(K, usize, u32),
    /// Among those that wait, of a class.
    Waits(K, usize),
}

/// Live jobs in a total order of keys and ids: those that hold GPUs by type and group, those that wait by what they ask for. Jobs
/// that hold GPUs and may not be preempted, or are on nodes that drain, are left out: the walk takes what they hold off the quota first.
pub struct QuotaQueue<K, O = ByKey> {
    /// The order. It may change for jobs that are not in the queue.
    pub order: O,
    // Few groups and classes: a scan is quicker than a map.
    held: Vec<Holders<K>>,
    classes: Vec<DemandClass<K>>,
    entries: JobMap<Entry<K>>,
    /// How many of the cluster's nodes that have begun to drain were looked at.
    drained: usize,
}

/// What a walk changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct QuotaChanges {
    /// Jobs that lose their GPUs: those that the quota leaves nothing, in order, then those that make room for parts.
    pub preempted: Vec<JobId>,
    /// Waiting jobs that the quota has room for, in order, and the type.
    pub chosen: Vec<(JobId, GpuTypeId)>,
    /// Those of them that found no place.
    pub unplaced: Vec<JobId>,
}

impl<K: Copy + PartialEq, O: QuotaOrder<K>> QuotaQueue<K, O> {
    /// An empty queue.
    pub fn new(order: O) -> QuotaQueue<K, O> {
        QuotaQueue { order, held: Vec::new(), classes: Vec::new(), entries: JobMap::default(), drained: 0 }
    }

    /// Puts a job where its key says, among those that hold GPUs, those that wait, or, if it does neither, nowhere.
    pub fn put(&mut self, cluster: &Cluster, id: JobId, key: K) {
        let job = cluster.job(id);
        let asks = asks(cluster, job);
        let entry = if job.waits() {
            Entry::Waits(key, self.class(asks, &job.gpu_types))
        } else if job.holds() && !cluster.stays(job) {
            Entry::Holds(key, self.group(cluster.type_of(job), self.order.group(&key)), asks)
        } else {
            return self.take(id);
        };
        if self.entries.get(id) == Some(&entry) {
            return;
        }
        self.take(id);
        let line = match entry {
            Entry::Holds(_, group, _) => &mut self.held[group].jobs,
            Entry::Waits(_, class) => &mut self.classes[class].jobs,
        };
        line.insert((key, id), asks, |a, b| self.order.order(a, b));
        self.entries.insert(id, entry);
    }

    /// Takes a job out, wherever it is.
    pub fn take(&mut self, id: JobId) {
        let (line, key) = match self.entries.remove(id) {
            Some(Entry::Holds(key, group, _)) => (&mut self.held[group].jobs, key),
            Some(Entry::Waits(key, class)) => (&mut self.classes[class].jobs, key),
            None => return,
        };
        line.remove(&(key, id), |a, b| self.order.order(a, b));
    }

    fn class(&mut self, asks: u32, gpu_types: &Rc<[GpuTypeId]>) -> usize {
        let known = self.classes.iter().position(|class| class.asks == asks && class.gpu_types == *gpu_types);
        known.unwrap_or_else(|| {
            self.classes.push(DemandClass { asks, gpu_types: gpu_types.clone(), jobs: Line::new() });
            self.classes.len() - 1
        })
    }

    fn group(&mut self, gpu_type: GpuTypeId, group: u32) -> usize {
        let known = self.held.iter().position(|held| held.gpu_type == gpu_type && held.group == group);
        known.unwrap_or_else(|| {
            self.held.push(Holders { gpu_type, group, jobs: Line::new() });
            self.held.len() - 1
        })
    }

    /// What those hold of a type that stand before this.
    fn taken(&self, gpu_type: GpuTypeId, stand: &Stand<K>) -> u64 {
        let lines = self.held.iter().filter(|held| held.gpu_type == gpu_type);
        lines.map(|held| held.jobs.before(stand, |a, b| self.order.order(a, b))).sum()
    }

    /// The first behind `last` of those that hold GPUs of a type up to which, itself included, they hold more than `left`.
    fn loser(&self, gpu_type: GpuTypeId, left: i64, last: Option<&Stand<K>>) -> Option<(Stand<K>, u32)> {
        let of = || self.held.iter().enumerate().filter(|(_, held)| held.gpu_type == gpu_type);
        if of().map(|(_, held)| held.jobs.total() as i64).sum::<i64>() <= left {
            return None;
        }
        let losers = of().filter_map(|(line, held)| {
            held.jobs.first_where(|stand, sum| {
                let others = of().filter(|(other, _)| *other != line);
                let taken = others.map(|(_, held)| held.jobs.before(stand, |a, b| self.order.order(a, b)));
                last.is_none_or(|last| self.order.order(stand, last).is_gt())
                    && (sum + taken.sum::<u64>()) as i64 > left
            })
        });
        losers.min_by(|a, b| self.order.order(&a.0, &b.0))
    }

    /// Carries out what [`crate::walk`] would over the same jobs in this order. Returns what changed, of the chosen those
    /// that found a place; the others still wait, as `unplaced`.
    pub fn walk(&mut self, cluster: &mut Cluster, place: Placement) -> QuotaChanges {
        for node in &cluster.drained()[self.drained..] {
            cluster.holders_on(*node).into_iter().for_each(|id| self.take(id));
        }
        self.drained = cluster.drained().len();
        let (queued, asked) = cluster.queued();
        if queued == 0 {
            return QuotaChanges::default();
        }
        let QuotaChanges { mut preempted, mut chosen, mut unplaced } =
            match cluster.types() == 1 && asked <= u64::from(cluster.free_gpus(0)) {
                true => self.all(),
                false => self.changes(cluster),
            };
        for id in &preempted {
            cluster.preempt(*id);
        }
        let mut squeeze = Squeeze::default();
        chosen.retain(|(id, gpu_type)| {
            if let Some(gpus) = place.find(cluster, *gpu_type, cluster.job(*id).ask()) {
                cluster.start(*id, gpus);
                return true;
            }
            let order = |a: JobId, b: JobId| match (self.stand(a), self.stand(b)) {
                (Some((a, _)), Some((b, _))) => self.order.order(&a, &b),
                _ => Ordering::Equal,
            };
            let may_go = |other: JobId| self.stand(other).is_some_and(|(_, holds)| holds) && order(other, *id).is_gt();
            match squeeze.start(cluster, *id, *gpu_type, may_go, order) {
                Some(victims) => preempted.extend(victims),
                None => {
                    unplaced.push(*id);
                    return false;
                }
            }
            true
        });
        QuotaChanges { preempted, chosen, unplaced }
    }

    /// Where a job stands, and whether it is among those that hold GPUs.
    fn stand(&self, id: JobId) -> Option<(Stand<K>, bool)> {
        match self.entries.get(id)? {
            Entry::Holds(key, ..) => Some(((*key, id), true)),
            Entry::Waits(key, _) => Some(((*key, id), false)),
        }
    }

    /// All that wait, where there is room for all on the only type.
    fn all(&self) -> QuotaChanges {
        let mut all: Vec<Stand<K>> = self.classes.iter().flat_map(|class| class.jobs.iter().copied()).collect();
        all.sort_unstable_by(|a, b| self.order.order(a, b));
        QuotaChanges { chosen: all.into_iter().map(|(_, id)| (id, 0)).collect(), ..QuotaChanges::default() }
    }

    /// What the quota leaves only shrinks along the order: of a class the first that does not fit is the last to be looked at, and
    /// the next job that holds GPUs and loses them is the first up to which more is taken than there is.
    fn changes(&self, cluster: &Cluster) -> QuotaChanges {
        let mut found = QuotaChanges::default();
        // Of each type: what is left to those that hold GPUs, and who lost them last.
        let capacity = capacity(cluster).into_iter();
        let mut types: Vec<(i64, Option<Stand<K>>)> = capacity.map(|left| (i64::from(left), None)).collect();
        let mut heads: Vec<(Stand<K>, &DemandClass<K>)> =
            self.classes.iter().filter_map(|class| Some((*class.jobs.first()?, class))).collect();
        loop {
            let losers = (0..).zip(&types).filter_map(|(gpu_type, (left, last))| {
                self.loser(gpu_type, *left, last.as_ref()).map(|loser| (loser, gpu_type))
            });
            let loser = losers.min_by(|a, b| self.order.order(&a.0.0, &b.0.0));
            let head = (0..heads.len()).min_by(|a, b| self.order.order(&heads[*a].0, &heads[*b].0));
            match (loser, head) {
                (Some(((stand, asks), gpu_type)), head)
                    if head.is_none_or(|head| self.order.order(&stand, &heads[head].0).is_lt()) =>
                {
                    found.preempted.push(stand.1);
                    let (left, last) = &mut types[gpu_type as usize];
                    *left += i64::from(asks);
                    *last = Some(stand);
                }
                (_, Some(head)) => {
                    let (stand, class) = heads[head];
                    let fits = |gpu_type: &&GpuTypeId| {
                        i64::from(class.asks) <= types[**gpu_type as usize].0 - self.taken(**gpu_type, &stand) as i64
                    };
                    let next = class.gpu_types.iter().find(fits).and_then(|gpu_type| {
                        found.chosen.push((stand.1, *gpu_type));
                        types[*gpu_type as usize].0 -= i64::from(class.asks);
                        class.jobs.next(&stand, |a, b| self.order.order(a, b))
                    });
                    match next {
                        Some(next) => heads[head].0 = *next,
                        None => drop(heads.swap_remove(head)),
                    }
                }
                (_, None) => return found,
            }
        }
    }
}

impl<K: Copy + PartialEq, O: QuotaOrder<K> + Default> Default for QuotaQueue<K, O> {
    fn default() -> QuotaQueue<K, O> {
        QuotaQueue::new(O::default())
    }
}

/// Thousandths of a GPU that a job asks for.
pub(crate) fn asks(cluster: &Cluster, job: &Job) -> u32 {
    job.gpus * of_each(cluster, job)
}

fn of_each(cluster: &Cluster, job: &Job) -> u32 {
    if cluster.is_fraction(job.share) { job.share } else { 1000 }
}

/// Thousandths of GPUs of each type for jobs that a quota may take them from: those of nodes that are up, but for what pinned jobs hold.
pub(crate) fn capacity(cluster: &Cluster) -> Vec<u32> {
    let mut capacity: Vec<u32> = (0..cluster.types()).map(|t| cluster.up_gpus(t as u32) * 1000).collect();
    for job in cluster.pinned() {
        let left = &mut capacity[cluster.type_of(job) as usize];
        *left = left.saturating_sub(cluster.gpus_on_up(job) * of_each(cluster, job));
    }
    capacity
}
