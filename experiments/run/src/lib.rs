//! Running cells: executing them, observing them on real devices, describing them, and checking policies.
//!
//! # Architecture
//! - [`execute`]: one cell, from inputs to files, and many in parallel, by `simulate`, which runs a policy on the backend of a cell; [`code`]: where compiled code is kept.
//! - [`observe`]: one cell on the devices of this machine; [`measure`]: what jobs do to each other there; [`trial`]: whether they
//!   can be moved to the host and back.
//! - [`environment`]: runs in which an agent decides, which is a [`native`] policy.
//! - [`story`]: a run described in words, through an [`observed_policy`]; the first decision in which two runs differ; [`why`]: why a job
//!   waits, as its policy sees it.
//! - [`policy_check`]: checking a policy, for its author.
//! - [`learn`]: fitting predictors, and their error on what they have not seen.

pub mod code;
pub mod environment;
pub mod execute;
pub mod learn;
pub mod measure;
pub mod native;
pub mod observe;
pub mod observed_policy;
pub mod policy_check;
mod simulate;
pub mod story;
pub mod trial;
pub mod why;
