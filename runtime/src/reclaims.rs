//! GPUs that queues hold where a policy preempted jobs of other queues.

use std::collections::BTreeMap;

use sandtable_hardware::{GpuId, Instant, JobId, Queue, QueueId, SECOND, queue_and_groups};

/// The job that was preempted last on a GPU.
#[derive(Clone, Copy)]
struct Victim {
    job: JobId,
    queue: Option<QueueId>,
}

/// A job on a GPU that another queue's job was preempted from.
struct Stay {
    victim: Victim,
    queue: Option<QueueId>,
    milli: u64,
    since: Instant,
}

/// Which GPUs queues have from others, and how many.
pub(crate) struct Reclaims {
    /// By GPU: until the next job comes, or the victim goes on.
    victims: Vec<Option<Victim>>,
    stays: BTreeMap<(GpuId, JobId), Stay>,
    /// By queue, in thousandths of a GPU: what its jobs hold that was another's, and what others hold that was its own. A group's are those
    /// of its queues, but for what they have from each other.
    pub(crate) reclaimed: Vec<u64>,
    pub(crate) given_up: Vec<u64>,
}

impl Reclaims {
    /// None yet.
    pub(crate) fn new(gpus: usize, queues: usize) -> Reclaims {
        let none = vec![0; queues];
        Reclaims { victims: vec![None; gpus], stays: BTreeMap::new(), reclaimed: none.clone(), given_up: none }
    }

    /// The policy preempts a job on these GPUs.
    pub(crate) fn preempted(&mut self, job: JobId, queue: Option<QueueId>, gpus: &[GpuId]) {
        gpus.iter().for_each(|gpu| self.victims[gpu.index()] = Some(Victim { job, queue }));
    }

    /// A job that had these GPUs last goes on. One that goes on within a second of when another came to its place was moved: nothing was
    /// taken from its queue.
    pub(crate) fn goes_on(&mut self, queues: &[Queue], job: JobId, had: &[GpuId], now: Instant) {
        for gpu in had {
            self.victims[gpu.index()].take_if(|victim| victim.job == job);
            let on_it = self.stays.range((*gpu, JobId::new(0))..=(*gpu, JobId::new(u32::MAX)));
            let moved =
                on_it.filter(|(_, stay)| stay.victim.job == job && now - stay.since < SECOND).map(|(key, _)| *key);
            for key in moved.collect::<Vec<_>>() {
                self.leaves(queues, key.0, key.1);
            }
        }
    }

    /// A job comes to a GPU, of which it holds so many thousandths.
    pub(crate) fn comes(
        &mut self,
        queues: &[Queue],
        gpu: GpuId,
        job: (JobId, Option<QueueId>),
        milli: u64,
        now: Instant,
    ) {
        let (job, queue) = job;
        if let Some(victim) = self.victims[gpu.index()].take().filter(|victim| victim.queue != queue) {
            let stay = Stay { victim, queue, milli, since: now };
            self.count(queues, &stay, true);
            self.stays.insert((gpu, job), stay);
        }
    }

    /// It leaves the GPU.
    pub(crate) fn leaves(&mut self, queues: &[Queue], gpu: GpuId, job: JobId) {
        if let Some(stay) = self.stays.remove(&(gpu, job)) {
            self.count(queues, &stay, false);
        }
    }

    fn count(&mut self, queues: &[Queue], stay: &Stay, comes: bool) {
        let path = |queue: Option<QueueId>| -> Vec<QueueId> {
            queue.into_iter().flat_map(|queue| queue_and_groups(queues, queue)).collect()
        };
        let (gains, loses) = (path(stay.queue), path(stay.victim.queue));
        let shift = |of: &mut u64| *of = if comes { *of + stay.milli } else { *of - stay.milli };
        gains.iter().filter(|id| !loses.contains(id)).for_each(|id| shift(&mut self.reclaimed[id.index()]));
        loses.iter().filter(|id| !gains.contains(id)).for_each(|id| shift(&mut self.given_up[id.index()]));
    }
}
