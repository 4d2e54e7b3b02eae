//! Rounds: at every round a policy chooses which jobs run on which type of GPU; a job that runs elsewhere moves there.
//!
//! A job that is preempted must save its state before it may start again, even where that takes no time: until then its
//! new place is kept for it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Cluster, GpuTypeId, Job, JobId, Placement};

/// Jobs on their way to other types of GPU.
#[derive(Default)]
pub struct Moves {
    going: BTreeMap<JobId, GpuTypeId>,
}

impl Moves {
    /// Makes the running jobs those that were chosen, as far as places go: a job that stays on its type keeps its GPUs,
    /// of the others the larger gangs are placed first. A running job that was not chosen keeps its GPUs unless a
    /// chosen job is to come to their type. The policy must
    /// be able to preempt and to set timers, and call [`Moves::resume`] in every batch.
    pub fn begin(&mut self, cluster: &mut Cluster, chosen: &BTreeMap<JobId, GpuTypeId>) {
        self.going.clear();
        let mut coming: Vec<(u32, JobId, GpuTypeId)> = Vec::new();
        for (id, kind) in chosen {
            let job = cluster.job(*id);
            if !job.holds() || (job.may_be_moved() && cluster.type_of(job) != *kind) {
                coming.push((job.gpus, *id, *kind));
            }
        }
        let wanted: BTreeSet<GpuTypeId> = coming.iter().map(|(.., kind)| *kind).collect();
        let leaves = |job: &&Job| {
            let held_type = cluster.type_of(job);
            let stays = chosen.get(&job.id) == Some(&held_type);
            job.may_be_moved() && !stays && (chosen.contains_key(&job.id) || wanted.contains(&held_type))
        };
        let mut leave: Vec<JobId> = cluster.holders().filter(leaves).map(|job| job.id).collect();
        leave.sort_unstable();
        for id in &leave {
            cluster.preempt(*id);
            self.going.extend(chosen.get(id).map(|kind| (*id, *kind)));
        }
        if !leave.is_empty() {
            cluster.call_again();
        }
        coming.sort_by_key(|(gpus, id, _)| (std::cmp::Reverse(*gpus), *id));
        for (_, id, kind) in coming {
            self.start(cluster, id, kind);
        }
    }

    /// Starts those on their way that have saved their state.
    pub fn resume(&mut self, cluster: &mut Cluster) {
        for (id, kind) in std::mem::take(&mut self.going) {
            match cluster.get(id) {
                Some(job) if job.waits() => self.start(cluster, id, kind),
                Some(job) if !job.holds() => {
                    self.going.insert(id, kind);
                }
                _ => {}
            }
        }
    }

    /// Starts waiting jobs, in this order, on GPUs that no moving job needs.
    pub fn fill(&mut self, cluster: &mut Cluster, waiting: impl IntoIterator<Item = JobId>) {
        // GPUs of each type that moving jobs need.
        let mut kept = vec![0; cluster.types()];
        for (id, kind) in &self.going {
            kept[*kind as usize] += cluster.get(*id).map_or(0, |job| job.gpus);
        }
        for id in waiting {
            if kept.iter().zip(0..).all(|(kept, kind)| cluster.free_gpus(kind) <= *kept) {
                return;
            }
            let job = cluster.job(id);
            if !job.waits() || self.going.contains_key(&id) {
                continue;
            }
            let spare = |kind: &GpuTypeId| cluster.free_gpus(*kind) >= kept[*kind as usize] + job.gpus;
            let kinds = job.gpu_types.iter().copied().filter(spare);
            let found = kinds.into_iter().find_map(|kind| Placement::Packed.find(cluster, kind, job.ask()));
            if let Some(gpus) = found {
                cluster.start(id, gpus);
            }
        }
    }

    fn start(&mut self, cluster: &mut Cluster, id: JobId, kind: GpuTypeId) {
        let job = cluster.job(id);
        if job.waits()
            && let Some(gpus) = Placement::Packed.find(cluster, kind, job.ask())
        {
            cluster.start(id, gpus);
        }
    }
}
