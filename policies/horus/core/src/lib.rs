//! What Horus and the policies that it is compared with share, after Yeung et al. (HotCloud 2020, ICA3PP 2020, TPDS
//! 2022). The texts are not public; the algorithm is that of the first author's public simulator with its defects
//! mended (github.com/matthewygf/GPUSchedule, commit 4d4278c of January 2021).
//!
//! # Architecture
//! - [`score`]: what a GPU costs a task, and whether it may be put there.
//! - [`plan`]: where the tasks of a job go.
//! - [`queue`]: the order in which jobs are tried; the clusters and the credits of Horus+.
//! - [`PredictedCluster`]: the cluster as predicted, kept from events.
//! - [`Packer`]: one queue, tried from its head.

mod packer;
pub mod plan;
mod predicted;
pub mod queue;
pub mod score;
#[cfg(test)]
mod tests;

pub use packer::{Packer, params, rules};
pub use predicted::PredictedCluster;
