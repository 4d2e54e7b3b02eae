//! What the policies of elastic training share.
//!
//! # Architecture
//! - [`goodput`]: Pollux' model of throughput and statistical efficiency; [`fit`] finds its numbers from what a job
//!   reports.
//! - [`ElasticJob`]: what is known of one job: its reports, its size so far, its speedups.
//! - [`FreeGpus`]: which GPUs are left while an allocation is carried out.
//! - [`knapsack`]: counts of GPUs of which the sum of values is greatest.
//! - [`pace`]: how long jobs take with more or fewer GPUs, by what the host foretells.
//! - [`place`]: lists of nodes for counts of GPUs.
//! - [`reclaim`]: which GPUs inference tasks get, and which training jobs lose them.
//! - [`ElasticScheduler`]: elastic jobs and inference tasks, and the actions that carry out an allocation.
//!
//! How many GPUs each job gets is left to each policy.

pub mod fit;
mod free_gpus;
pub mod goodput;
mod job;
pub mod knapsack;
mod lbfgsb;
pub mod pace;
pub mod place;
pub mod reclaim;
mod round;
mod rules;
mod scheduler;
mod search;
mod serving;

pub use free_gpus::FreeGpus;
pub use job::{ElasticJob, restart_factor};
pub use round::Round;
pub use rules::{Partition, RULES, Reclaim, Rules, joined};
pub use scheduler::ElasticScheduler;
