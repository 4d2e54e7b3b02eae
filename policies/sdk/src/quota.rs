//! The quota walk of [`crate::walk`] over jobs that are kept in order, so that a pass costs what changes and not what runs.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::rc::Rc;

use crate::{Cluster, GpuTypeId, Job, JobId, JobMap, Placement};

/// Where a job stands in an order, and its id.
type Stand<K> = (K, JobId);

/// Most entries of a block of [`Line`].
const BLOCK: usize = 128;

/// Neighbours of a [`Line`].
struct Block<K> {
    /// Where each stands, and what it asks for; never empty.
    entries: Vec<(Stand<K>, u32)>,
    /// What they ask for together.
    sum: u64,
}

impl<K: Ord + Copy> Block<K> {
    fn of(entries: Vec<(Stand<K>, u32)>) -> Block<K> {
        let sum = entries.iter().map(|(_, asks)| u64::from(*asks)).sum();
        Block { entries, sum }
    }

    fn first(&self) -> Stand<K> {
        self.entries[0].0
    }
}

/// Jobs in order, with what those before a place ask for together.
struct Line<K> {
    blocks: Vec<Block<K>>,
    total: u64,
}

impl<K: Ord + Copy> Line<K> {
    fn new() -> Line<K> {
        Line { blocks: Vec::new(), total: 0 }
    }

    /// The block where this stands, or would.
    fn block(&self, stand: Stand<K>) -> usize {
        self.blocks.partition_point(|block| block.first() <= stand).saturating_sub(1)
    }

    fn insert(&mut self, stand: Stand<K>, asks: u32) {
        self.total += u64::from(asks);
        let at = self.block(stand);
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(Block::of(vec![(stand, asks)]));
            return;
        };
        let place = block.entries.partition_point(|(other, _)| *other < stand);
        block.entries.insert(place, (stand, asks));
        block.sum += u64::from(asks);
        if block.entries.len() > BLOCK {
            let tail = Block::of(block.entries.split_off(BLOCK / 2));
            block.sum -= tail.sum;
            self.blocks.insert(at + 1, tail);
        }
    }

    /// # Panics
    /// Where it does not stand there.
    fn remove(&mut self, stand: Stand<K>) {
        let at = self.block(stand);
        let block = &mut self.blocks[at];
        let place = block.entries.partition_point(|(other, _)| *other < stand);
        assert!(block.entries.get(place).is_some_and(|(other, _)| *other == stand), "job {} stands elsewhere", stand.1);
        let (_, asks) = block.entries.remove(place);
        block.sum -= u64::from(asks);
        self.total -= u64::from(asks);
        if block.entries.is_empty() {
            self.blocks.remove(at);
        }
    }

    /// What those ask for that stand before this.
    fn before(&self, stand: Stand<K>) -> u64 {
        let Some(last) = self.blocks.partition_point(|block| block.first() < stand).checked_sub(1) else { return 0 };
        let whole: u64 = self.blocks[..last].iter().map(|block| block.sum).sum();
        let part = self.blocks[last].entries.iter().take_while(|(other, _)| *other < stand);
        whole + part.map(|(_, asks)| u64::from(*asks)).sum::<u64>()
    }

    /// The first after `after` up to which, itself included, they ask for more than `most`.
    fn first_over(&self, most: i64, after: Option<Stand<K>>) -> Option<(Stand<K>, u32)> {
        let is_after = |stand: Stand<K>| after.is_none_or(|after| stand > after);
        let mut sum = 0;
        for block in &self.blocks {
            let whole = sum + block.sum as i64;
            if whole > most && block.entries.last().is_some_and(|(stand, _)| is_after(*stand)) {
                for entry in &block.entries {
                    sum += i64::from(entry.1);
                    if sum > most && is_after(entry.0) {
                        return Some(*entry);
                    }
                }
            }
            sum = whole;
        }
        None
    }
}

/// Waiting jobs that ask for the same of the same types: behind the first that the quota has no room for, it has room for none.
struct DemandClass<K> {
    asks: u32,
    gpu_types: Rc<[GpuTypeId]>,
    jobs: BTreeSet<Stand<K>>,
}

/// Where a job stands now.
#[derive(Clone, Copy)]
enum Entry<K> {
    /// Among those that hold GPUs of a type.
    Holds(K, GpuTypeId),
    /// Among those that wait, of a class.
    Waits(K, usize),
}

/// Live jobs in a total order of keys and ids: those that hold GPUs by type, those that wait by what they ask for. Jobs that hold
/// GPUs and may not be preempted are left out: the walk takes what they hold off the quota first.
pub struct QuotaQueue<K> {
    held: Vec<Line<K>>,
    // Few classes: a scan is quicker than a map.
    classes: Vec<DemandClass<K>>,
    entries: JobMap<Entry<K>>,
}

/// What a walk changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct QuotaChanges {
    /// Jobs that lose their GPUs, in order.
    pub preempted: Vec<JobId>,
    /// Waiting jobs that the quota has room for, in order, and the type.
    pub chosen: Vec<(JobId, GpuTypeId)>,
}

impl<K: Ord + Copy> QuotaQueue<K> {
    /// An empty queue.
    pub fn new() -> QuotaQueue<K> {
        QuotaQueue { held: Vec::new(), classes: Vec::new(), entries: JobMap::default() }
    }

    /// Puts a job where its key says, among those that hold GPUs, those that wait, or, if it does neither, nowhere.
    pub fn put(&mut self, cluster: &Cluster, id: JobId, key: K) {
        self.take(id);
        let job = cluster.job(id);
        let entry = if job.waits() {
            let class = self.class(asks(cluster, job), &job.gpu_types);
            self.classes[class].jobs.insert((key, id));
            Entry::Waits(key, class)
        } else if job.holds() && job.preemptible {
            let gpu_type = cluster.type_of(job);
            let types = cluster.types().max(self.held.len());
            self.held.resize_with(types, Line::new);
            self.held[gpu_type as usize].insert((key, id), asks(cluster, job));
            Entry::Holds(key, gpu_type)
        } else {
            return;
        };
        self.entries.insert(id, entry);
    }

    /// Takes a job out, wherever it is.
    pub fn take(&mut self, id: JobId) {
        match self.entries.remove(id) {
            Some(Entry::Holds(key, gpu_type)) => self.held[gpu_type as usize].remove((key, id)),
            Some(Entry::Waits(key, class)) => {
                self.classes[class].jobs.remove(&(key, id));
            }
            None => {}
        }
    }

    fn class(&mut self, asks: u32, gpu_types: &Rc<[GpuTypeId]>) -> usize {
        let known = self.classes.iter().position(|class| class.asks == asks && class.gpu_types == *gpu_types);
        known.unwrap_or_else(|| {
            self.classes.push(DemandClass { asks, gpu_types: gpu_types.clone(), jobs: BTreeSet::new() });
            self.classes.len() - 1
        })
    }

    /// Carries out what [`crate::walk`] would over the same jobs in this order. Returns what changed, of the chosen those
    /// that found a place; the others still wait.
    pub fn walk(&self, cluster: &mut Cluster, place: Placement) -> QuotaChanges {
        let (queued, asked) = cluster.queued();
        if queued == 0 {
            return QuotaChanges::default();
        }
        let QuotaChanges { preempted, mut chosen } =
            match cluster.types() == 1 && asked <= u64::from(cluster.free_gpus(0)) {
                true => self.all(),
                false => self.changes(cluster),
            };
        for id in &preempted {
            cluster.preempt(*id);
        }
        chosen.retain(|(id, gpu_type)| match place.find(cluster, *gpu_type, cluster.job(*id).ask()) {
            Some(gpus) => {
                cluster.start(*id, gpus);
                true
            }
            None => false,
        });
        QuotaChanges { preempted, chosen }
    }

    /// All that wait, where there is room for all on the only type.
    fn all(&self) -> QuotaChanges {
        let mut all: Vec<Stand<K>> = self.classes.iter().flat_map(|class| class.jobs.iter().copied()).collect();
        all.sort_unstable();
        QuotaChanges { preempted: Vec::new(), chosen: all.into_iter().map(|(_, id)| (id, 0)).collect() }
    }

    /// What the quota leaves only shrinks along the order: of a class the first that does not fit is the last to be looked at, and
    /// the next job that holds GPUs and loses them is the first up to which more is taken than there is.
    fn changes(&self, cluster: &Cluster) -> QuotaChanges {
        let mut found = QuotaChanges::default();
        let mut capacity: Vec<u32> = (0..cluster.types()).map(|t| cluster.up_gpus(t as u32) * 1000).collect();
        for job in cluster.pinned() {
            let left = &mut capacity[cluster.type_of(job) as usize];
            *left = left.saturating_sub(asks(cluster, job));
        }
        // Of each type: what is left to those that hold GPUs, and who lost them last.
        let mut types: Vec<(i64, Option<Stand<K>>)> = capacity.iter().map(|left| (i64::from(*left), None)).collect();
        let mut heads: Vec<(Stand<K>, &DemandClass<K>)> =
            self.classes.iter().filter_map(|class| Some((*class.jobs.first()?, class))).collect();
        loop {
            let losers = self.held.iter().zip(&types).enumerate().filter_map(|(gpu_type, (line, (left, last)))| {
                let over = line.total as i64 > *left;
                over.then(|| line.first_over(*left, *last)).flatten().map(|loser| (loser, gpu_type))
            });
            let loser = losers.min();
            let head = (0..heads.len()).min_by_key(|head| heads[*head].0);
            match (loser, head) {
                (Some(((stand, asks), gpu_type)), head) if head.is_none_or(|head| stand < heads[head].0) => {
                    found.preempted.push(stand.1);
                    let (left, last) = &mut types[gpu_type];
                    *left += i64::from(asks);
                    *last = Some(stand);
                }
                (_, Some(head)) => {
                    let (stand, class) = heads[head];
                    let fits = |gpu_type: &&GpuTypeId| {
                        let taken = self.held.get(**gpu_type as usize).map_or(0, |line| line.before(stand));
                        i64::from(class.asks) <= types[**gpu_type as usize].0 - taken as i64
                    };
                    let next = class.gpu_types.iter().find(fits).and_then(|gpu_type| {
                        found.chosen.push((stand.1, *gpu_type));
                        types[*gpu_type as usize].0 -= i64::from(class.asks);
                        class.jobs.range((Excluded(stand), Unbounded)).next()
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

impl<K: Ord + Copy> Default for QuotaQueue<K> {
    fn default() -> QuotaQueue<K> {
        QuotaQueue::new()
    }
}

/// Thousandths of a GPU that a job asks for.
fn asks(cluster: &Cluster, job: &Job) -> u32 {
    job.gpus * if cluster.is_part(job.share) { job.share } else { 1000 }
}
