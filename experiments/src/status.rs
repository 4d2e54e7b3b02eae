//! What the store knows of the cells of a plan: their results, or why there are none.

use sandtable_runtime::Summary;
use serde_json::Value;

use crate::error::Error;
use crate::plan::{Cell, Plan};
use crate::store::Store;

/// Why a cell has no result.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The fault's stable name.
    pub kind: String,
    /// What went wrong.
    pub message: String,
    /// The guest's functions, innermost first.
    pub backtrace: Vec<String>,
}

/// What is known of a cell.
#[derive(Clone, Debug)]
pub enum Known {
    /// It is done.
    Done(Box<Summary>),
    /// Its policy failed.
    Failed(Failure),
    /// It has not been run.
    Missing,
    /// It took longer than this command allows, and has no result.
    TimedOut,
}

/// What a store knows of the cells of a plan.
///
/// # Errors
/// A file of the store that can't be read.
pub fn known(plan: &Plan, store: &Store) -> Result<Vec<Known>, Error> {
    plan.cells.iter().map(|cell| lookup(cell, store)).collect()
}

/// What a store knows of a cell.
///
/// # Errors
/// A file of the store that can't be read.
pub fn lookup(cell: &Cell, store: &Store) -> Result<Known, Error> {
    if !store.has(&cell.id) {
        return Ok(Known::Missing);
    }
    let broken = |error: serde_json::Error| Error::usage(format!("{}: {error}", store.folder(&cell.id).display()));
    if store.has_failed(&cell.id) {
        let story: Value = serde_json::from_slice(&store.read(&cell.id, "failure.json")?).map_err(broken)?;
        // A store may be somebody else's.
        let text = |key: &str| crate::text::line(story[key].as_str().unwrap_or_default());
        let frames = story["backtrace"].as_array().into_iter().flatten();
        let backtrace = frames.filter_map(|frame| frame.as_str().map(crate::text::line)).collect();
        return Ok(Known::Failed(Failure { kind: text("kind"), message: text("message"), backtrace }));
    }
    let summary = serde_json::from_slice(&store.read(&cell.id, "summary.json")?).map_err(broken)?;
    Ok(Known::Done(Box::new(summary)))
}
