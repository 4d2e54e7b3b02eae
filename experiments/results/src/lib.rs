//! Results: the store, the files in it, metrics, claims and comparisons. Computes nothing that it stores.
//!
//! # Architecture
//! - [`store`]: results by the hash of their inputs; [`schema`]: the files of a cell, each with the type that writes and reads
//!   it; [`reader`]: results, read back; [`producer`]: which build computed one.
//! - [`status`]: what the store knows of the cells of a plan; [`sweep`]: of the cells of a sweep that engines run;
//!   [`merge`]: their results in one table.
//! - [`metric`]: the table of metrics; [`stats`]: intervals; [`claim`]: what papers say, beside what is measured.
//! - [`compare`]: what changed between two results; [`explain`]: why a cell would run again; [`calibrate`]: recorded waits
//!   against modelled ones.
//! - [`bundle`]: a spec with all that it is made of, in one file.

pub mod bundle;
pub mod calibrate;
pub mod claim;
pub mod compare;
pub mod explain;
pub mod forecast;
pub mod merge;
pub mod metric;
pub mod producer;
pub mod rank;
pub mod reader;
pub mod schema;
pub mod stats;
pub mod status;
pub mod store;
pub mod sweep;
