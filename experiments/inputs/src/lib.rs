//! What experiments are made from: traces of jobs, profiles of workloads, facts of models.
//!
//! # Architecture
//! - [`trace`]: jobs from files, from importers and from generators.
//! - [`nodes`]: the nodes of a fleet from a file.
//! - [`state`]: clusters at one instant, from documents.
//! - [`profile`]: what workloads do alone and together, from our files and from users' copies of published ones.
//! - [`facts`]: what computation graphs show, from ONNX files and from the catalogue of models.

pub mod facts;
pub mod nodes;
pub mod profile;
pub mod state;
pub mod trace;
