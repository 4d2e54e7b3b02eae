//! The submissions of a sweep to engines.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use sandtable_core::error::Error;
use sandtable_core::input;
use sandtable_core::input::sorted;
use sandtable_plan::Plan;
use sandtable_results::store::Store;
use sandtable_results::sweep::{SweepState, name_of};

use super::plan_file::{Header, Line, line};
use super::{EngineJob, Times};

/// The state of a sweep, and what engines were handed of it.
pub struct Submitted<'a> {
    state: SweepState<'a>,
}

impl<'a> Deref for Submitted<'a> {
    type Target = SweepState<'a>;

    fn deref(&self) -> &SweepState<'a> {
        &self.state
    }
}

impl<'a> Submitted<'a> {
    /// That of a plan.
    pub fn new(store: &'a Store, plan: &'a Plan) -> Submitted<'a> {
        Submitted { state: SweepState::new(store, plan) }
    }

    /// The lines of these cells in a plan file, each cell once.
    pub fn lines(&self, places: &[usize]) -> Vec<Line> {
        let times = Times::of(self.state.store());
        let (mut seen, mut before) = (BTreeSet::new(), None);
        let new = places.iter().map(|at| (*at, &self.plan.cells[*at])).filter(|(_, cell)| seen.insert(&cell.id));
        new.map(|(at, cell)| Line {
            retry: self.state.store().has_failed(&cell.id),
            ..line(cell, at, &times, before.replace(cell))
        })
        .collect()
    }

    /// The engine that its cells were handed to.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn jobs(&self) -> Result<Vec<EngineJob>, Error> {
        let folder = self.folder.join("jobs");
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let read = |path: &PathBuf| {
            let text = input::read(path, input::SPEC)?;
            serde_json::from_slice(&text).map_err(|error| Error::usage(format!("{}: {error}", path.display())))
        };
        // A file that a killed `submit` left half-written has another ending.
        let written = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "json");
        sorted(&folder)?.iter().filter(written).map(read).collect()
    }

    /// The names of what was submitted from this store of the same spec, read otherwise: before an edit, or with other flags.
    ///
    /// # Errors
    /// A folder that can't be read.
    pub fn siblings(&self, spec: &Path) -> Result<Vec<String>, Error> {
        let (spec, plans) = (std::path::absolute(spec).unwrap_or_default(), self.state.store().root().join("plans"));
        let mut names = Vec::new();
        for folder in if plans.is_dir() { sorted(&plans)? } else { Vec::new() } {
            let Some(key) = folder.file_name().and_then(std::ffi::OsStr::to_str) else { continue };
            if folder == self.folder || !folder.join("jobs").is_dir() {
                continue;
            }
            let mut files = sorted(&folder)?.into_iter().filter(|path| path.extension().is_some_and(|e| e == "jsonl"));
            if files.any(|file| Header::read(&file).is_ok_and(|header| header.spec == spec)) {
                names.push(name_of(key));
            }
        }
        Ok(names)
    }
}
