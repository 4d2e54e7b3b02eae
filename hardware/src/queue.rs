//! Queues that jobs are submitted to: a tree that shares the GPUs out.

use crate::QueueId;

/// A queue, or a group of queues. GPUs are counted over all types; a share of one counts as that part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// The group that it is in, which comes before it; none: it is at the top.
    pub parent: Option<QueueId>,
    /// GPUs that it may always have.
    pub guaranteed: f64,
    /// Its part, among those of its group, of what no queue is guaranteed.
    pub weight: f64,
    /// Most GPUs that its jobs hold together; infinite: no limit.
    pub limit: f64,
    /// Higher is served first, within its group.
    pub priority: i32,
}

impl Queue {
    /// A queue at the top without guarantee and limit.
    pub fn new(name: &str) -> Queue {
        Queue { name: name.into(), parent: None, guaranteed: 0.0, weight: 1.0, limit: f64::INFINITY, priority: 0 }
    }

    /// Its limit in thousandths of a GPU.
    ///
    /// ```
    /// use sandtable_hardware::Queue;
    ///
    /// let queue = Queue { limit: 1.5, ..Queue::new("batch") };
    /// assert_eq!((queue.limit_milli(), Queue::new("any").limit_milli()), (1500, u64::MAX));
    /// ```
    pub fn limit_milli(&self) -> u64 {
        // A number beyond the range becomes the largest.
        (self.limit * 1000.0).round() as u64
    }
}

/// A queue and the groups that it is in, from near to wide.
///
/// ```
/// use sandtable_hardware::{Queue, QueueId, queue_and_groups};
///
/// let queues = [Queue::new("lab"), Queue { parent: Some(QueueId::new(0)), ..Queue::new("vision") }];
/// let path: Vec<QueueId> = queue_and_groups(&queues, QueueId::new(1)).collect();
/// assert_eq!(path, [QueueId::new(1), QueueId::new(0)]);
/// ```
pub fn queue_and_groups(queues: &[Queue], queue: QueueId) -> impl Iterator<Item = QueueId> {
    std::iter::successors(Some(queue), |queue| queues[*queue].parent)
}
