//! The quota walk of preemptive policies: those that come first in an order share the cluster, the others stop.

use crate::quota::{asks, capacity};
use crate::{Cluster, JobId, Placement};

/// Walks `order` with a quota of all GPUs that are up, by type. A job that fits what is left of the quota takes its
/// part, whether it holds GPUs or waits; one that holds GPUs and does not fit is preempted; one that waits and does
/// not fit is skipped. Then those that were chosen and wait are placed, in order. Jobs that may not be preempted
/// keep what they hold before any other job is considered, and so do jobs on nodes that drain.
///
/// Returns the chosen jobs that found no place: the quota counts GPUs, a placement may want more than a count.
pub fn walk(cluster: &mut Cluster, order: impl Iterator<Item = JobId>, place: Placement) -> Vec<JobId> {
    let (mut queued, asked) = cluster.queued();
    if queued == 0 {
        // No job waits, and those that hold GPUs fit.
        return Vec::new();
    }
    if cluster.types() == 1 && asked <= u64::from(cluster.free_gpus(0)) {
        return all_fit(cluster, order, place, queued);
    }
    let mut quota = capacity(cluster);
    let mut holding = cluster.holders().len();
    let (mut chosen, mut losers) = (Vec::new(), Vec::new());
    for id in order {
        if holding == 0 && (queued == 0 || quota.iter().all(|left| *left == 0)) {
            break;
        }
        let job = cluster.job(id);
        queued -= usize::from(job.waits());
        if job.holds() {
            holding -= 1;
            if cluster.stays(job) {
                continue;
            }
            let left = &mut quota[cluster.type_of(job) as usize];
            if asks(cluster, job) <= *left {
                *left -= asks(cluster, job);
            } else {
                losers.push(id);
            }
        } else if job.waits()
            && let Some(gpu_type) = job.gpu_types.iter().copied().find(|t| asks(cluster, job) <= quota[*t as usize])
        {
            quota[gpu_type as usize] -= asks(cluster, job);
            chosen.push((id, gpu_type));
        }
    }
    for id in losers {
        cluster.preempt(id);
    }
    let mut unplaced = Vec::new();
    for (id, gpu_type) in chosen {
        match place.find(cluster, gpu_type, cluster.job(id).ask()) {
            Some(gpus) => cluster.start(id, gpus),
            None => unplaced.push(id),
        }
    }
    unplaced
}

/// Where there is room for all, no job is preempted.
fn all_fit(cluster: &mut Cluster, order: impl Iterator<Item = JobId>, place: Placement, queued: usize) -> Vec<JobId> {
    let waiting: Vec<JobId> = order.filter(|id| cluster.job(*id).waits()).take(queued).collect();
    let mut unplaced = Vec::new();
    for id in waiting {
        match place.find(cluster, 0, cluster.job(id).ask()) {
            Some(gpus) => cluster.start(id, gpus),
            None => unplaced.push(id),
        }
    }
    unplaced
}
