//! The state of a sweep: which cells of a spec have results in a store.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sandtable_core::digest::{canonical, digest};
use sandtable_core::error::Error;
use sandtable_core::input;
use sandtable_core::input::sorted;
use sandtable_core::output;
use sandtable_plan::{Cell, LiveDevices, Plan};

use crate::store::Store;

/// What the store has of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A result, or an observation.
    Done,
    /// Its policy failed.
    Failed,
    /// Nothing.
    Missing,
}

/// What a store has of one spec.
pub struct SweepState<'a> {
    store: &'a Store,
    /// The spec, expanded.
    pub plan: &'a Plan,
    /// The name under which engines know it.
    pub name: String,
    /// `plans/<key>`.
    pub folder: PathBuf,
}

impl<'a> SweepState<'a> {
    /// That of a plan.
    pub fn new(store: &'a Store, plan: &'a Plan) -> SweepState<'a> {
        let name = |cell: &Cell| format!("{} {} {}", known_as(cell), cell.label, cell.variant_text());
        let names: Vec<String> = plan.cells.iter().map(name).collect();
        let key = digest(format!("{}\n{}", store.root().display(), names.join("\n")).as_bytes());
        let key = &key[..10];
        SweepState { store, plan, name: name_of(key), folder: store.root().join("plans").join(key) }
    }

    /// What the store has of the cell at this place.
    ///
    /// # Errors
    /// A folder that can't be read.
    pub fn state(&self, at: usize) -> Result<State, Error> {
        let cell = &self.plan.cells[at];
        if !cell.backend.is_reproducible() {
            return Ok(if self.observations(at)?.is_empty() { State::Missing } else { State::Done });
        }
        // Failures first: one that is stored meanwhile is not taken for a result.
        Ok(if self.store.has_failed(&cell.id) {
            State::Failed
        } else if self.store.has(&cell.id) {
            State::Done
        } else {
            State::Missing
        })
    }

    /// Whether a cell that was missing is there when a network file system is asked again.
    ///
    /// # Errors
    /// A folder that can't be read.
    pub fn appears(&self, at: usize) -> Result<bool, Error> {
        let cell = &self.plan.cells[at];
        if cell.backend.is_reproducible() {
            return Ok(self.store.look_again(&cell.id));
        }
        Ok(!self.observations(at)?.is_empty())
    }

    /// The observations of the cell at this place.
    ///
    /// # Errors
    /// A folder that can't be read.
    pub fn observations(&self, at: usize) -> Result<Vec<PathBuf>, Error> {
        let cell = &self.plan.cells[at];
        if cell.backend.is_reproducible() {
            return Ok(Vec::new());
        }
        if !cell.backend.live().is_some_and(LiveDevices::assumed) {
            return self.store.observations(&cell.id);
        }
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
}

/// The name under which engines know a sweep, by the name of its folder.
pub fn name_of(key: &str) -> String {
    format!("sandtable-{key}")
}

/// By what a cell is known on every machine: its id, or of one on devices all of its inputs but those, and what it asks for.
fn known_as(cell: &Cell) -> String {
    let Some(devices) = cell.backend.live() else { return cell.id.clone() };
    let mut inputs: serde_json::Value = serde_json::from_str(&cell.inputs()).unwrap_or_default();
    if let Some(fleet) = inputs.get_mut("fleet") {
        for of_the_devices in ["types", "nodes"] {
            fleet[of_the_devices] = serde_json::Value::Null;
        }
    }
    format!("{} {}", canonical(&inputs), devices.asked())
}
