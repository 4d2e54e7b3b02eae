//! Jobs that move to other GPUs, so that one finds a place for which enough GPUs are free, but not together.
//!
//! Source: KAI-Scheduler, `consolidation.go`: only for jobs that may be preempted, and only where all that move are placed again.

use sandtable_policy::{Cluster, GpuId, Job, JobId, JobPhase, Kind, Param, QueueId};
use sandtable_queues::{Eviction, Protected};

use crate::reclaim::Order;

/// Jobs that are on their way to other GPUs.
pub struct Consolidation {
    /// The most that move for one job.
    most: usize,
    /// They go on once they have let go, the first ones first.
    moving: Vec<JobId>,
}

impl Consolidation {
    /// The parameter that says how many move.
    pub const PARAM: Param = Param {
        name: "consolidate",
        kind: Kind::Number { min: 0.0, max: 1000.0 },
        default: "16",
        about: "Most jobs that move to other GPUs so that a job finds a place for which enough are free, but not together; 0: none.",
    };

    /// As [`Consolidation::PARAM`] says.
    pub fn new(most: f64) -> Consolidation {
        Consolidation { most: most as usize, moving: Vec::new() }
    }

    /// Whether jobs move at all.
    pub fn moves(&self) -> bool {
        self.most > 0
    }

    /// Starts jobs that have let go; returns them. One whose place has been taken since waits like any other.
    pub fn arrive(
        &mut self,
        cluster: &mut Cluster,
        place: impl Fn(&Cluster, &Job) -> Option<Vec<GpuId>>,
    ) -> Vec<JobId> {
        let mut started = Vec::new();
        for id in std::mem::take(&mut self.moving) {
            let Some(job) = cluster.get(id) else { continue };
            if job.phase == JobPhase::Stopping {
                self.moving.push(id);
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
            other.share == 1000 && other.part.is_none() && job.gpu_types.contains(&cluster.type_of(other))
        };
        let of = |queue: &QueueId| order.jobs(cluster, protected, *queue);
        let others: Vec<JobId> = order.queues().iter().flat_map(of).filter(may_move).take(self.most).collect();
        let (moves, gpus) = cluster.place_by_moving(job.id, &others, place)?;
        eviction.evict(cluster, &moves);
        self.moving.extend(moves);
        Some(gpus)
    }
}
