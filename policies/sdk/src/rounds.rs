//! Rounds: before each a policy says which jobs run in it. They keep their GPUs where they can; all others let go of theirs.

use std::collections::BTreeMap;

use crate::{Cluster, GpuId, Job, JobId, JobPhase};

/// Jobs that change their GPUs between two rounds.
#[derive(Default)]
pub struct Rounds {
    /// GPUs of jobs that move: they start there once they have let go of those that they held.
    moving: BTreeMap<JobId, Vec<GpuId>>,
}

impl Rounds {
    /// Gives the GPUs of a round to these jobs, in this order within each size of gang, the largest gangs first; preempts those that are not
    /// among them. A job that may not be preempted keeps its GPUs. No job may be chosen twice.
    pub fn begin(&mut self, cluster: &mut Cluster, chosen: &[JobId]) {
        let (mut stay, moves) = places(cluster, chosen);
        stay.sort_unstable();
        let leaves = |job: &&Job| job.may_be_moved() && stay.binary_search(&job.id).is_err();
        let leave: Vec<JobId> = cluster.holders().filter(leaves).map(|job| job.id).collect();
        self.change(cluster, leave, moves);
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

/// Jobs that are chosen and keep what they hold, and GPUs of the others, the largest gangs first: the lowest that are left of a type that a job allows.
fn places(cluster: &Cluster, chosen: &[JobId]) -> (Vec<JobId>, BTreeMap<JobId, Vec<GpuId>>) {
    let mut free = Free::of(cluster);
    for job in cluster.holders().filter(|job| !job.may_be_moved()) {
        free.take(cluster, &job.held);
    }
    let mut sizes: BTreeMap<u32, Vec<&Job>> = BTreeMap::new();
    chosen.iter().map(|id| cluster.job(*id)).for_each(|job| sizes.entry(job.gpus).or_default().push(job));
    let (mut stay, mut moves) = (Vec::with_capacity(chosen.len()), Vec::new());
    for jobs in sizes.into_values().rev() {
        let mut keeps = |job: &&Job| {
            let keeps = job.holds() && (!job.may_be_moved() || job.held.iter().all(|gpu| free.has(*gpu)));
            if keeps {
                free.take(cluster, &job.held);
                stay.push(job.id);
            }
            keeps
        };
        let others: Vec<&Job> = jobs.into_iter().filter(|job| !keeps(job)).collect();
        moves.extend(others.into_iter().filter_map(|job| Some((job.id, free.lowest(cluster, job)?))));
    }
    (stay, moves.into_iter().collect())
}

/// GPUs that no job of a round has yet.
struct Free {
    is_free: Vec<bool>,
    /// How many there are of each type.
    left: Vec<usize>,
    /// GPUs of each type, ascending, and how many of the first of them are taken.
    of_type: Vec<(Vec<GpuId>, usize)>,
}

impl Free {
    /// The GPUs of all nodes that are up.
    fn of(cluster: &Cluster) -> Free {
        let mut of_type = vec![(Vec::new(), 0); cluster.types()];
        for node in (0..cluster.node_count() as u32).filter(|node| cluster.is_up(*node)) {
            of_type[cluster.node_type(node) as usize].0.extend(cluster.node_gpus(node));
        }
        let gpus = (0..cluster.node_count() as u32).map(|node| cluster.node_gpus(node).end).max().unwrap_or(0);
        let mut is_free = vec![false; gpus as usize];
        of_type.iter().flat_map(|(gpus, _)| gpus).for_each(|gpu: &GpuId| is_free[*gpu as usize] = true);
        Free { is_free, left: of_type.iter().map(|(gpus, _)| gpus.len()).collect(), of_type }
    }

    fn has(&self, gpu: GpuId) -> bool {
        self.is_free.get(gpu as usize).copied().unwrap_or(false)
    }

    /// Takes those of these GPUs that are free.
    fn take(&mut self, cluster: &Cluster, gpus: &[GpuId]) {
        for gpu in gpus {
            // Those of nodes that are down have never been free.
            if self.is_free.get_mut(*gpu as usize).is_some_and(std::mem::take) {
                self.left[cluster.node_type(cluster.node(*gpu)) as usize] -= 1;
            }
        }
    }

    /// Takes the lowest of the first type that a job allows and that has as many as it asks for.
    fn lowest(&mut self, cluster: &Cluster, job: &Job) -> Option<Vec<GpuId>> {
        let kind = job.gpu_types.iter().find(|kind| self.left[**kind as usize] >= job.gpus as usize)?;
        let (gpus, taken) = &mut self.of_type[*kind as usize];
        *taken += gpus[*taken..].iter().take_while(|gpu| !self.is_free[**gpu as usize]).count();
        let free = gpus[*taken..].iter().filter(|gpu| self.is_free[**gpu as usize]);
        let found: Vec<GpuId> = free.copied().take(job.gpus as usize).collect();
        self.take(cluster, &found);
        Some(found)
    }
}
