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
//! - [`producer`]: which build computed a result, and the [`fingerprint`] of its sources.
//! - [`engine`]: handing cells to engines that place them on many machines; [`merge`]: their results in one table.
//! - [`status`]: what the store knows of the cells of a plan; [`table`]: results for people, for spreadsheets and for
//!   snapshots.
//! - [`digest`]: hashes and canonical JSON; [`text`]: foreign text, made safe to print.
//! - [`artifact`]: finding, building and beginning policies, in any language; [`conform`]: checking one, for its author.
//! - [`witness`]: who looks on while a policy decides.
//! - [`cli`]: the command. Only it and [`ui`] touch the terminal.

pub mod artifact;
pub mod bundle;
pub mod chrome;
pub mod claim;
pub mod cli;
pub mod code;
mod columns;
mod commands;
pub mod compare;
pub mod conform;
mod consent;
pub mod diagnostic;
pub mod digest;
pub mod engine;
pub mod error;
pub mod execute;
pub mod explain;
pub mod facts;
pub mod fingerprint;
pub mod gpus;
pub mod input;
pub mod learn;
pub mod measure;
pub mod merge;
pub mod metric;
pub mod observe;
pub mod output;
pub mod plan;
pub mod producer;
pub mod profile;
pub mod recording;
pub mod report;
pub mod results;
pub mod spec;
pub mod stats;
pub mod status;
pub mod store;
pub mod story;
pub mod table;
pub mod text;
pub mod trace;
pub mod ui;
pub mod witness;

pub use error::{Error, ExitCode};
