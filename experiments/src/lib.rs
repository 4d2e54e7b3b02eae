//! Experiments: specs, their cells and identities, the store of results, and the `sandtable` command.
//!
//! # Architecture
//! The stages of an experiment are crates, each of which uses only those before it:
//! - `core`: [`error`], [`digest`], [`input`], [`output`], [`units`], [`frame`];
//! - `inputs`: [`trace`], [`profile`], [`facts`];
//! - [`plan`]: what a spec means, with [`spec`], [`artifact`], [`recording`], [`fingerprint`];
//! - `results`: [`store`], [`schema`], [`results`], [`metric`], [`claim`], [`compare`] and what else reads results;
//! - `run`: [`execute`], [`observe`], [`policy_check`] and what else runs policies;
//! - [`report`]: pages, figures and tables;
//! - this crate: the command. [`engine`]: handing cells to engines that place them on many machines; [`authoring`]: beginning
//!   and building policies, in any language; [`cli`] and [`ui`]: the only modules that touch the terminal.

pub mod authoring;
pub mod cli;
mod commands;
mod complete;
mod consent;
pub mod engine;
pub mod ui;

pub use sandtable_core::{Error, ExitCode};
pub use sandtable_core::{diagnostic, digest, display, error, frame, input, output, text, units};
pub use sandtable_inputs::{facts, profile, state, trace};
pub use sandtable_plan::{self as plan, artifact, fingerprint, gpus, recording, spec};
pub use sandtable_report::{self as report, chrome, table};
pub use sandtable_results::{
    bundle, calibrate, claim, compare, explain, merge, metric, producer, reader as results, schema, stats, status,
    store, sweep,
};
pub use sandtable_run::{code, execute, learn, measure, observe, observed_policy, policy_check, story};

/// The programs of the book's page about the library are tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/src/library.md")]
struct LibraryPage;
