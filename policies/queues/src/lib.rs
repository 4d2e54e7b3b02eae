//! What the policies of queues share.
//!
//! # Architecture
//! - [`Waiting`]: waiting jobs by queue and by what they ask for, and the pass that offers each its turn, group by group.
//!
//! Where a queue stands is left to each policy.

mod waiting;

pub use waiting::{Next, Waiting};
