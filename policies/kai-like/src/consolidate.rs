//! Jobs that move to other GPUs, so that one finds a place for which enough GPUs are free, but not together.
//!
//! Source: KAI-Scheduler, `consolidation.go`: only for jobs that may be preempted, and only where all that move are placed again. Until they are, what they are to have is
//! kept for them.

use sandtable_policy::{Cluster, GpuId, Job, JobId, JobPhase, Kind, Param, QueueId};
use sandtable_queues::{Eviction, Protected};

use crate::reclaim::Order;

/// Jobs that are on their way to other GPUs.
pub struct Consolidation {
    /// The most that are looked at for one job.
    most: usize,
    /// Where they go on, once they have let go.
    moving: Vec<(JobId, Vec<GpuId>)>,
}

impl Consolidation {
    /// The parameter that says how many may move.
    pub const PARAM: Param = Param {
        name: "consolidate",
        kind: Kind::Number { min: 0.0, max: 100.0 },
        default: "16",
        about: "Most jobs that are looked at to move to other GPUs, so that one that asks for GPUs on one node or near each other finds them; 0: none.",
    };

    /// As [`Consolidation::PARAM`] says.
    pub fn new(most: f64) -> Consolidation {
        Consolidation { most: most as usize, moving: Vec::new() }
    }

    /// Whether jobs move at all.
    pub fn moves(&self) -> bool {
        self.most > 0
    }

    /// Whether jobs are on their way.
    pub fn is_under_way(&self) -> bool {
        !self.moving.is_empty()
    }

    /// Whether GPUs are not kept for a job that moves.
    pub fn leaves(&self, gpus: &[GpuId]) -> bool {
        self.moving.iter().all(|(_, kept)| gpus.iter().all(|gpu| !kept.contains(gpu)))
    }

    /// Starts jobs that have let go; returns them. One whose place is not there any more waits like any other.
    pub fn arrive(
        &mut self,
        cluster: &mut Cluster,
        place: impl Fn(&Cluster, &Job) -> Option<Vec<GpuId>>,
    ) -> Vec<JobId> {
        let mut started = Vec::new();
        for (id, gpus) in std::mem::take(&mut self.moving) {
            let Some(job) = cluster.get(id) else { continue };
            if job.phase == JobPhase::Stopping {
                self.moving.push((id, gpus));
            } else if job.waits()
                && let Some(gpus) = place(cluster, job)
            {
                cluster.start(id, gpus);
                started.push(id);
            }
        }
        started
    }

    /// Whether moves could make room for a waiting job: it may be preempted, and enough GPUs are free. Of one, or of a part, there is nothing to bring together.
    pub fn could_help(&self, cluster: &Cluster, job: &Job) -> bool {
        let free: u32 = job.gpu_types.iter().map(|gpu_type| cluster.free_gpus(*gpu_type)).sum();
        job.preemptible && job.gpus > 1 && free >= job.gpus
    }

    /// A place for a waiting job once others have moved, and which have: their new places are found as `place` finds them.
    pub fn make_room(
        &mut self,
        cluster: &mut Cluster,
        job: &Job,
        (protected, order, eviction): (&Protected, &Order, &Eviction),
        place: impl Fn(&Cluster, &Job) -> Option<Vec<GpuId>>,
    ) -> Option<Vec<GpuId>> {
        let may_move = |id: &JobId| {
            let other = cluster.job(*id);
            other.gpus > 0
                && other.share == 1000
                && other.part.is_none()
                && job.gpu_types.contains(&cluster.type_of(other))
        };
        let of = |queue: &QueueId| order.jobs(cluster, protected, *queue);
        let others: Vec<JobId> = order.queues().iter().flat_map(of).filter(may_move).take(self.most).collect();
        let (moves, gpus) = cluster.place_by_moving(job.id, &others, place)?;
        eviction.evict(cluster, &moves.iter().map(|(id, _)| *id).collect::<Vec<JobId>>());
        self.moving.extend(moves);
        Some(gpus)
    }
}
