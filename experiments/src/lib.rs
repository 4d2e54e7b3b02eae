//! Experiments: specs, their cells and identities, the store of results, traces, and the `sandtable` command.
//!
//! # Architecture
//! - [`spec`]: what a file says, spans kept; [`plan`]: what it means, expanded to cells.
//! - [`trace`]: jobs from files, from importers and from generators.
//! - [`profile`]: what workloads do alone and together, from our files and from users' copies of published ones.
//! - [`facts`]: what computation graphs show, from ONNX files and from the catalogue of models.
//! - [`learn`]: fitting predictors, and their error on what they have not seen.
//! - [`claim`]: what papers say, beside what is measured.
//! - [`execute`]: one cell, from inputs to files; [`store`]: where they are kept, by the hash of the inputs.
//! - [`table`]: results for people, for spreadsheets and for snapshots.
//! - [`artifact`]: finding, checking and building policy components.
//! - [`cli`]: the command. Only it and [`ui`] touch the terminal.

pub mod artifact;
pub mod claim;
pub mod cli;
mod commands;
pub mod diagnostic;
pub mod error;
pub mod execute;
pub mod facts;
pub mod gpus;
pub mod learn;
pub mod measure;
pub mod observe;
pub mod plan;
pub mod profile;
pub mod recording;
pub mod spec;
pub mod store;
pub mod table;
pub mod trace;
pub mod ui;

pub use error::{Error, ExitCode};
