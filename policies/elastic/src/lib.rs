//! What the policies of elastic training share.
//!
//! # Architecture
//! - [`goodput`]: Pollux' model of throughput and statistical efficiency; [`fit`] finds its numbers from what a job
//!   reports.
//! - [`Trainee`]: what is known of one job: its reports, its size so far, its speedups.
//! - [`knapsack`]: counts of GPUs of which the sum of values is greatest.
//! - [`pace`]: how long jobs take with more or fewer GPUs, by what the host foretells.
//! - [`place`]: lists of nodes for counts of GPUs.
//! - [`reclaim`]: which GPUs those who serve get, and whose they were.
//! - [`Stage`]: the cluster as these policies see it, and the actions that turn it into what they want.
//!
//! Who gets how many GPUs is each policy's own business.

pub mod fit;
pub mod goodput;
pub mod knapsack;
mod lbfgsb;
pub mod pace;
pub mod place;
pub mod reclaim;
mod rules;
mod search;
mod serving;
mod stage;
mod trainee;

pub use rules::{Partition, RULES, Reclaim, Rules, joined};
pub use stage::{Round, Stage};
pub use trainee::{Trainee, restart_factor};
