//! What a store knows of one spec: which of its cells have results, and whom they were handed to.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::handed::{Header, Line, line};
use super::{Job, State, Times};
use crate::digest::{canonical, digest};
use crate::error::Error;
use crate::plan::{Cell, Machines, Plan};
use crate::store::{Store, sorted};
use crate::{input, output};

/// The page of one spec in a store.
pub struct Page<'a> {
    store: &'a Store,
    /// The spec, expanded.
    pub plan: &'a Plan,
    /// The name under which engines know it.
    pub name: String,
    /// `plans/<key>`.
    pub folder: PathBuf,
}

impl<'a> Page<'a> {
    /// The page of a plan.
    pub fn new(store: &'a Store, plan: &'a Plan) -> Page<'a> {
        let name = |cell: &Cell| format!("{} {} {}", known_as(cell), cell.label, cell.variant_text());
        let names: Vec<String> = plan.cells.iter().map(name).collect();
        let key = digest(format!("{}\n{}", store.root().display(), names.join("\n")).as_bytes());
        let key = &key[..10];
        Page { store, plan, name: name_of(key), folder: store.root().join("plans").join(key) }
    }

    /// What the store has of the cell at this place.
    ///
    /// # Errors
    /// A folder that can't be read.
    pub fn state(&self, at: usize) -> Result<State, Error> {
        let cell = &self.plan.cells[at];
        Ok(match &cell.machines {
            Machines::Live(_) if self.observations(at)?.is_empty() => State::Missing,
            Machines::Live(_) => State::Done,
            _ if self.store.has_failed(&cell.id) => State::Failed,
            _ if self.store.has(&cell.id) => State::Done,
            _ => State::Missing,
        })
    }

    /// Whether a cell that was missing is there when a network file system is asked again.
    ///
    /// # Errors
    /// A folder that can't be read.
    pub fn appears(&self, at: usize) -> Result<bool, Error> {
        let cell = &self.plan.cells[at];
        Ok(match &cell.machines {
            Machines::Live(_) => !self.observations(at)?.is_empty(),
            _ => self.store.look_again(&cell.id),
        })
    }

    /// The observations of the cell at this place.
    ///
    /// # Errors
    /// A folder that can't be read.
    pub fn observations(&self, at: usize) -> Result<Vec<PathBuf>, Error> {
        match &self.plan.cells[at].machines {
            Machines::Live(field) if !field.assumed() => self.store.observations(&self.plan.cells[at].id),
            Machines::Live(_) => {
                let folder = self.observed();
                if !folder.is_dir() {
                    return Ok(Vec::new());
                }
                let own = format!("{at}-");
                let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().to_string();
                let mut found = Vec::new();
                for path in sorted(&folder)?.into_iter().filter(|path| name(path).starts_with(&own)) {
                    let text = input::text(&path, input::SPEC)?;
                    found.push(self.store.root().join(text.trim_end()));
                }
                Ok(found)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Second results of its cells that differed from the first.
    ///
    /// # Errors
    /// A folder that can't be read.
    pub fn conflicts(&self) -> Result<Vec<PathBuf>, Error> {
        let ids: BTreeSet<&str> = self.plan.cells.iter().map(|cell| cell.id.as_str()).collect();
        self.store.conflicts(|id| ids.contains(id))
    }

    /// The store that it is of.
    pub fn store(&self) -> &Store {
        self.store
    }

    fn observed(&self) -> PathBuf {
        self.folder.join("observed")
    }

    /// Notes where the observation of the cell at this place is, for machines that can't tell its id.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn note_observed(&self, at: usize, observation: &Path) -> Result<(), Error> {
        let folder = self.observed();
        fs::create_dir_all(&folder).map_err(|error| Error::file("make", &folder, &error))?;
        let below = observation.strip_prefix(self.store.root()).unwrap_or(observation).display().to_string();
        let name = format!("{at}-{}", &digest(below.as_bytes())[..10]);
        output::write(&folder.join(name), &(below + "\n"))
    }

    /// The places of cells in this state.
    ///
    /// # Errors
    /// A folder that can't be read.
    pub fn places(&self, state: State) -> Result<Vec<usize>, Error> {
        let mut found = Vec::new();
        for at in 0..self.plan.cells.len() {
            if self.state(at)? == state {
                found.push(at);
            }
        }
        Ok(found)
    }

    /// The lines of these cells in a plan file, each cell once.
    pub fn lines(&self, places: &[usize]) -> Vec<Line> {
        let times = Times::of(self.store);
        let (mut seen, mut before) = (BTreeSet::new(), None);
        let new = places.iter().map(|at| (*at, &self.plan.cells[*at])).filter(|(_, cell)| seen.insert(&cell.id));
        new.map(|(at, cell)| Line {
            retry: self.store.has_failed(&cell.id),
            ..line(cell, at, &times, before.replace(cell))
        })
        .collect()
    }

    /// Whom its cells were handed to.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn jobs(&self) -> Result<Vec<Job>, Error> {
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
        let (spec, plans) = (std::path::absolute(spec).unwrap_or_default(), self.store.root().join("plans"));
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

/// The name under which engines know a page.
fn name_of(key: &str) -> String {
    format!("sandtable-{key}")
}

/// By what a cell is known on every machine: its id, or of one on devices all of its inputs but those, and what it asks for.
fn known_as(cell: &Cell) -> String {
    let Machines::Live(field) = &cell.machines else { return cell.id.clone() };
    let mut inputs: serde_json::Value = serde_json::from_str(&cell.inputs()).unwrap_or_default();
    if let Some(fleet) = inputs.get_mut("fleet") {
        for of_the_devices in ["types", "nodes"] {
            fleet[of_the_devices] = serde_json::Value::Null;
        }
    }
    format!("{} {}", canonical(&inputs), field.asked())
}
