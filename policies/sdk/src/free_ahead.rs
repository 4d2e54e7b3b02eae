//! How many GPUs of a type are free from now on, if all estimates hold.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::{Cluster, GpuId, GpuTypeId, JobId};

/// When the jobs that hold GPUs of a type end by their estimates, in seconds from now and in that order; without those that have none.
pub(crate) fn ends(cluster: &Cluster, gpu_type: GpuTypeId) -> Vec<(f64, JobId)> {
    let holding = cluster.holders().filter(|job| cluster.type_of(job) == gpu_type);
    let ids: Vec<JobId> = holding.map(|job| job.id).collect();
    let mut ends: Vec<(f64, JobId)> =
        cluster.remaining(&ids).into_iter().zip(ids).filter(|(left, _)| !left.is_nan()).collect();
    ends.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal).then(a.1.cmp(&b.1)));
    ends
}

/// Free GPUs by time, in seconds from now.
pub(crate) struct FreeAhead {
    /// Ascending; the first is now. Each has what is free from then until the next.
    steps: Vec<(f64, u32)>,
}

impl FreeAhead {
    /// What is free and what running jobs will give back. A GPU with several jobs is free when the last of them has ended; a job without an
    /// estimate never ends, one that outlasts its estimate ends right after now.
    pub(crate) fn new(cluster: &Cluster, gpu_type: GpuTypeId) -> FreeAhead {
        let mut on: BTreeMap<GpuId, usize> = BTreeMap::new();
        let mut free = cluster.free_gpus(gpu_type);
        let mut steps = vec![(0.0, free)];
        for (seconds, id) in ends(cluster, gpu_type) {
            let job = cluster.job(id);
            let up = job.held.iter().filter(|gpu| cluster.is_up(cluster.node(**gpu)));
            let given = up.filter(|gpu| {
                let left = on.entry(**gpu).or_insert_with(|| cluster.tasks(**gpu));
                *left = left.saturating_sub(1);
                *left == 0
            });
            free += given.count() as u32;
            let at = seconds.max(f64::MIN_POSITIVE);
            match steps.last_mut() {
                Some(last) if last.0 >= at => last.1 = free,
                _ => steps.push((at, free)),
            }
        }
        FreeAhead { steps }
    }

    /// What is free now.
    pub(crate) fn now(&self) -> u32 {
        self.steps[0].1
    }

    /// The earliest time, now or later than that, from which so many are free for so long.
    pub(crate) fn earliest(&self, gpus: u32, seconds: f64, later: bool) -> Option<f64> {
        let mut at = usize::from(later);
        'next: while at < self.steps.len() {
            let from = self.steps[at].0;
            for (index, (time, free)) in self.steps.iter().enumerate().skip(at) {
                if index > at && *time >= from + seconds {
                    break;
                }
                if *free < gpus {
                    at = index + 1;
                    continue 'next;
                }
            }
            return Some(from);
        }
        None
    }

    /// Takes so many from a time that [`FreeAhead::earliest`] has found, for so long.
    pub(crate) fn take(&mut self, from: f64, seconds: f64, gpus: u32) {
        let (first, until) = (self.cut(from), from + seconds);
        let end = if until.is_finite() { self.cut(until) } else { self.steps.len() };
        self.steps[first..end].iter_mut().for_each(|(_, free)| *free -= gpus);
    }

    /// The index of the step that begins at a time.
    fn cut(&mut self, time: f64) -> usize {
        let at = self.steps.partition_point(|(other, _)| *other < time);
        if self.steps.get(at).is_none_or(|(other, _)| *other > time) {
            self.steps.insert(at, (time, self.steps[at - 1].1));
        }
        at
    }
}
