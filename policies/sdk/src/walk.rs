//! The quota walk of preemptive policies: those that come first in an order share the cluster, the others stop.

use std::collections::BTreeMap;

use crate::quota::{asks, capacity};
use crate::squeeze::Squeeze;
use crate::{Cluster, GpuTypeId, JobId, Placement};

/// Walks `order` with a quota of all GPUs that are up, by type. A job that fits what is left of the quota takes its
/// part, whether it holds GPUs or waits; one that holds GPUs and does not fit is preempted; one that waits and does
/// not fit is skipped. Then those that were chosen and wait are placed, in order. Jobs that may not be preempted
/// keep what they hold before any other job is considered, and so do jobs on nodes that drain. A part of a GPU that finds no place
/// takes one of jobs that come later and hold slices that it needs.
///
/// Returns the chosen jobs that found no place: the quota counts GPUs, a placement may want more than a count.
pub fn walk(cluster: &mut Cluster, order: impl Iterator<Item = JobId>, place: Placement) -> Vec<JobId> {
    // Where each job stands is needed where parts of GPUs are taken from jobs that come later.
    let all: Vec<JobId> = if cluster.can_cut() { order.collect() } else { return walk_by(cluster, order, place, &[]) };
    walk_by(cluster, all.iter().copied(), place, &all)
}

/// The same; `all`: the order once more, where GPUs can be cut into parts.
fn walk_by(cluster: &mut Cluster, order: impl Iterator<Item = JobId>, place: Placement, all: &[JobId]) -> Vec<JobId> {
    let (queued, asked) = cluster.queued();
    if queued == 0 {
        // No job waits, and those that hold GPUs fit.
        return Vec::new();
    }
    // Where there is room for all, no job is preempted.
    let (chosen, losers) = match cluster.types() == 1 && asked <= u64::from(cluster.free_gpus(0)) {
        true => (order.filter(|id| cluster.job(*id).waits()).take(queued).map(|id| (id, 0)).collect(), Vec::new()),
        false => by_quota(cluster, order, queued),
    };
    // Holders that a part may take slices from, and where they stand.
    let mut stands: BTreeMap<JobId, usize> = BTreeMap::new();
    for (at, id) in all.iter().enumerate() {
        let job = cluster.job(*id);
        if job.waits() || (job.holds() && !cluster.stays(job)) {
            stands.insert(*id, at);
        }
    }
    for id in losers {
        cluster.preempt(id);
    }
    let (mut unplaced, mut squeeze) = (Vec::new(), Squeeze::default());
    for (id, gpu_type) in chosen {
        match place.find(cluster, gpu_type, cluster.job(id).ask()) {
            Some(gpus) => cluster.start(id, gpus),
            None => {
                let may_go = |other: JobId| stands.get(&other) > stands.get(&id);
                let order = |a: JobId, b: JobId| stands.get(&a).cmp(&stands.get(&b));
                if squeeze.start(cluster, id, gpu_type, may_go, order).is_none() {
                    unplaced.push(id);
                }
            }
        }
    }
    unplaced
}

/// The jobs that wait and share the quota, each with its type, and those that hold GPUs and do not.
fn by_quota(
    cluster: &Cluster,
    order: impl Iterator<Item = JobId>,
    mut queued: usize,
) -> (Vec<(JobId, GpuTypeId)>, Vec<JobId>) {
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
    (chosen, losers)
}
