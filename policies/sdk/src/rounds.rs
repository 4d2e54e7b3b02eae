//! Rounds: before each a policy says which jobs run in it. They keep their GPUs where they can; all others let go of theirs.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Cluster, GpuId, Job, JobId, JobPhase};

/// Jobs that change their GPUs between two rounds.
#[derive(Default)]
pub struct Rounds {
    /// GPUs of jobs that move: they start there once they have let go of those that they held.
    moving: BTreeMap<JobId, Vec<GpuId>>,
}

impl Rounds {
    /// Gives the GPUs of a round to these jobs, in this order within each size of gang, the largest gangs first; preempts those that are not
    /// among them. A job that may not be preempted keeps its GPUs.
    pub fn begin(&mut self, cluster: &mut Cluster, chosen: &[JobId]) {
        self.give(cluster, places(cluster, chosen));
    }

    /// Gives these jobs these GPUs, which they keep if they hold them; preempts all others that may be. Jobs with the same GPUs share them.
    pub fn give(&mut self, cluster: &mut Cluster, places: BTreeMap<JobId, Vec<GpuId>>) {
        let stays = |job: &Job| !job.may_be_moved() || places.get(&job.id).is_some_and(|gpus| *gpus == job.held);
        let leave: Vec<JobId> = cluster.holders().filter(|job| !stays(job)).map(|job| job.id).collect();
        self.change(cluster, leave, places);
    }

    /// Preempts jobs, and gives jobs that hold none these GPUs, also some of those, once they have let go. Jobs with the same GPUs share them.
    pub fn change(&mut self, cluster: &mut Cluster, mut leave: Vec<JobId>, places: BTreeMap<JobId, Vec<GpuId>>) {
        leave.sort_unstable();
        leave.iter().for_each(|id| cluster.preempt(*id));
        if leave.iter().any(|id| places.contains_key(id)) {
            cluster.call_again();
        }
        self.moving.clear();
        for (id, gpus) in places {
            let job = cluster.job(id);
            if job.waits() && has_room(cluster, &gpus) {
                cluster.start(id, gpus);
            } else if !job.holds() {
                self.moving.insert(id, gpus);
            }
        }
    }

    /// Starts jobs that move, where they have let go.
    pub fn resume(&mut self, cluster: &mut Cluster) {
        for (id, gpus) in std::mem::take(&mut self.moving) {
            match cluster.get(id) {
                Some(job) if job.waits() && has_room(cluster, &gpus) => cluster.start(id, gpus),
                Some(job) if job.phase == JobPhase::Stopping => {
                    self.moving.insert(id, gpus);
                }
                _ => {}
            }
        }
    }
}

/// Whether a job can be started on these GPUs: their nodes have not failed since they were chosen, and no job holds them but those that share all of them.
fn has_room(cluster: &Cluster, gpus: &[GpuId]) -> bool {
    gpus.iter().all(|gpu| {
        let residents = cluster.residents(*gpu);
        let are_shared = !residents.is_empty() && residents.iter().all(|other| cluster.job(*other).held == *gpus);
        cluster.is_up(cluster.node(*gpu)) && (cluster.is_free(*gpu) || are_shared)
    })
}

/// GPUs of the jobs that lead, the largest gangs first: those that it holds, if they are still free, else the lowest free ones of a type that it allows.
fn places(cluster: &Cluster, chosen: &[JobId]) -> BTreeMap<JobId, Vec<GpuId>> {
    let mut free: Vec<BTreeSet<GpuId>> = vec![BTreeSet::new(); cluster.types()];
    for node in (0..cluster.node_count() as u32).filter(|node| cluster.is_up(*node)) {
        free[cluster.node_type(node) as usize].extend(cluster.node_gpus(node));
    }
    for job in cluster.holders().filter(|job| !job.may_be_moved()) {
        let kind = cluster.type_of(job) as usize;
        for gpu in &job.held {
            free[kind].remove(gpu);
        }
    }
    let mut sizes: BTreeMap<u32, Vec<&Job>> = BTreeMap::new();
    chosen.iter().map(|id| cluster.job(*id)).for_each(|job| sizes.entry(job.gpus).or_default().push(job));
    let mut places = BTreeMap::new();
    for jobs in sizes.into_values().rev() {
        for job in jobs.iter().filter(|job| job.holds()) {
            let kind = cluster.type_of(job) as usize;
            if !job.may_be_moved() || job.held.iter().all(|gpu| free[kind].contains(gpu)) {
                for gpu in &job.held {
                    free[kind].remove(gpu);
                }
                places.insert(job.id, job.held.clone());
            }
        }
        for job in jobs {
            if places.contains_key(&job.id) {
                continue;
            }
            let enough = |kind: &&u32| free[**kind as usize].len() >= job.gpus as usize;
            let Some(kind) = job.gpu_types.iter().find(enough) else { continue };
            let pool = &mut free[*kind as usize];
            let gpus: Vec<GpuId> = pool.iter().copied().take(job.gpus as usize).collect();
            for gpu in &gpus {
                pool.remove(gpu);
            }
            places.insert(job.id, gpus);
        }
    }
    places
}
