//! What the store knows of the cells of a plan: their results, or why there are none.

use sandtable_core::error::Error;
use sandtable_core::text;
use sandtable_plan::{Cell, Plan};
use sandtable_runtime::Summary;

use crate::reader;
use crate::schema::FailureRecord;
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
pub enum CellStatus {
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
pub fn known(plan: &Plan, store: &Store) -> Result<Vec<CellStatus>, Error> {
    plan.cells.iter().map(|cell| lookup(cell, store)).collect()
}

/// What a store knows of a cell.
///
/// # Errors
/// A file of the store that can't be read.
pub fn lookup(cell: &Cell, store: &Store) -> Result<CellStatus, Error> {
    if !store.has(&cell.id) {
        return Ok(CellStatus::Missing);
    }
    if store.has_failed(&cell.id) {
        let story: FailureRecord = reader::document(store, &cell.id)?;
        // A store may be a stranger's.
        let line = |words: &String| text::line(words);
        let backtrace = story.backtrace.iter().map(line).collect();
        let (kind, message) = (line(&story.kind), line(&story.message));
        return Ok(CellStatus::Failed(Failure { kind, message, backtrace }));
    }
    Ok(CellStatus::Done(Box::new(reader::document(store, &cell.id)?)))
}
