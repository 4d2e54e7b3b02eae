//! What the policies of queues share.
//!
//! # Architecture
//! - [`Waiting`]: waiting jobs by queue and by what they ask for, and the pass that offers each its turn, group by group.
//! - [`Eviction`]: how jobs let their GPUs go for others.
//! - [`Protected`]: jobs that have only just started, whose GPUs no other job gets yet.
//!
//! Where a queue stands is left to each policy.

mod eviction;
mod protected;
mod waiting;

pub use eviction::Eviction;
pub use protected::Protected;
pub use waiting::{Next, Waiting};
