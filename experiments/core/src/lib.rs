//! What every stage of an experiment uses: errors, files, hashes, quantities and tables.
//!
//! # Architecture
//! - [`error`]: errors and exit codes; [`diagnostic`]: pictures of mistakes in a source.
//! - [`input`]: reading files that others wrote, bounded; [`output`]: writing files, whole or not at all.
//! - [`digest`]: hashes and canonical JSON; [`text`]: foreign text, made safe to print.
//! - [`shared`]: equal values, each kept once.
//! - [`units`]: quantities as people write them; [`display`]: as they read them.
//! - [`frame`]: tables of typed values, printed as text, CSV or JSON lines.

pub mod diagnostic;
pub mod digest;
pub mod display;
pub mod error;
pub mod frame;
pub mod input;
pub mod output;
pub mod shared;
pub mod text;
pub mod units;

pub use error::{Error, ExitCode};
