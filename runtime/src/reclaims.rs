//! GPUs that jobs of one queue hold while a job of another, from which the policy took them, waits.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_hardware::{GpuId, JobId, Queue, QueueId, queue_and_groups};

/// A job, and its queue.
pub(crate) type Member = (JobId, Option<QueueId>);

/// What a preempted job has lost of a GPU, in thousandths, as far as no other job has it by now.
struct Lost {
    victim: Member,
    milli: u64,
}

/// What another job has of that.
struct Taken {
    by: JobId,
    queue: Option<QueueId>,
    victim: Member,
    milli: u64,
}

#[derive(Default)]
struct OfGpu {
    lost: Vec<Lost>,
    taken: Vec<Taken>,
}

/// Which GPUs queues have from others, and how many.
pub(crate) struct Reclaims {
    /// Jobs that the policy has preempted and that have not gone on, with the GPUs that they have let go since.
    victims: BTreeMap<JobId, BTreeSet<GpuId>>,
    gpus: BTreeMap<GpuId, OfGpu>,
    /// By queue, in thousandths of a GPU: what its jobs have of others, and what others have of its own. A group's are those of its queues, but
    /// for what they have of each other.
    pub(crate) reclaimed: Vec<u64>,
    pub(crate) given_up: Vec<u64>,
}

impl Reclaims {
    /// None yet.
    pub(crate) fn new(queues: usize) -> Reclaims {
        let none = vec![0; queues];
        Reclaims { victims: BTreeMap::new(), gpus: BTreeMap::new(), reclaimed: none.clone(), given_up: none }
    }

    /// The policy preempts a job: what it lets go from now on it has lost.
    pub(crate) fn preempted(&mut self, job: JobId) {
        self.victims.insert(job, BTreeSet::new());
    }

    /// A job goes on, or waits no more: nothing is lost to it. What another has of it then is of the next that lost there, if one did.
    pub(crate) fn goes_on(&mut self, queues: &[Queue], job: JobId) {
        for gpu in self.victims.remove(&job).unwrap_or_default() {
            let Some(of) = self.gpus.get_mut(&gpu) else { continue };
            of.lost.retain(|lost| lost.victim.0 != job);
            let over: Vec<Taken> = of.taken.extract_if(.., |taken| taken.victim.0 == job).collect();
            for taken in over {
                self.count(queues, &taken, false);
                self.comes(queues, gpu, (taken.by, taken.queue), taken.milli);
            }
        }
    }

    /// A job comes to hold so many thousandths of a GPU: of what others lost there, the first comes first.
    pub(crate) fn comes(&mut self, queues: &[Queue], gpu: GpuId, (by, queue): Member, mut milli: u64) {
        let Some(of) = self.gpus.get_mut(&gpu) else { return };
        let first = of.taken.len();
        for lost in &mut of.lost {
            let part = lost.milli.min(milli);
            if part > 0 {
                (lost.milli, milli) = (lost.milli - part, milli - part);
                of.taken.push(Taken { by, queue, victim: lost.victim, milli: part });
            }
        }
        let new = of.taken.split_off(first);
        new.iter().for_each(|taken| self.count(queues, taken, true));
        self.gpus.entry(gpu).or_default().taken.extend(new);
    }

    /// It lets that go.
    pub(crate) fn leaves(&mut self, queues: &[Queue], gpu: GpuId, job: Member, milli: u64) {
        if let Some(of) = self.gpus.get_mut(&gpu) {
            let over: Vec<Taken> = of.taken.extract_if(.., |taken| taken.by == job.0).collect();
            for taken in &over {
                let lost = of.lost.iter_mut().find(|lost| lost.victim.0 == taken.victim.0);
                lost.into_iter().for_each(|lost| lost.milli += taken.milli);
            }
            over.iter().for_each(|taken| self.count(queues, taken, false));
        }
        if let Some(gpus) = self.victims.get_mut(&job.0) {
            gpus.insert(gpu);
            self.gpus.entry(gpu).or_default().lost.push(Lost { victim: job, milli });
        }
    }

    fn count(&mut self, queues: &[Queue], taken: &Taken, comes: bool) {
        let path = |queue: Option<QueueId>| -> Vec<QueueId> {
            queue.into_iter().flat_map(|queue| queue_and_groups(queues, queue)).collect()
        };
        let (gains, loses) = (path(taken.queue), path(taken.victim.1));
        let shift = |of: &mut u64| *of = if comes { *of + taken.milli } else { *of - taken.milli };
        gains.iter().filter(|id| !loses.contains(id)).for_each(|id| shift(&mut self.reclaimed[id.index()]));
        loses.iter().filter(|id| !gains.contains(id)).for_each(|id| shift(&mut self.given_up[id.index()]));
    }
}
