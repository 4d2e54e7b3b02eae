//! The limits of queues.

use sandtable_hardware::{Fleet, Job, JobId, QueueId, queue_and_groups};

use super::Refusal;
use crate::cluster::Cluster;
use crate::contract::RejectCode;

/// With so many GPUs of a job its queue, and the groups that it is in, hold no more than their limits.
pub(super) fn check_limits(
    fleet: &Fleet,
    cluster: &Cluster,
    job: JobId,
    asked: &Job,
    gpus: usize,
) -> Result<(), Refusal> {
    let Some((queues, queue)) = cluster.queues.as_ref().zip(asked.queue) else { return Ok(()) };
    let takes = u64::from(asked.share) * gpus as u64;
    let over = |id: QueueId| queues.held[id] + takes > fleet.queues[id].limit_milli();
    let Some(id) = queue_and_groups(&fleet.queues, queue).find(|id| over(*id)) else { return Ok(()) };
    let gpus = |milli: u64| milli as f64 / 1000.0;
    let (takes, held, name, limit) =
        (gpus(takes), gpus(queues.held[id]), &fleet.queues[id].name, fleet.queues[id].limit);
    let message = format!("V20: job {job} takes {takes} GPUs, the queue {name:?} holds {held} of at most {limit}");
    Err((RejectCode::QueueLimit, message))
}
