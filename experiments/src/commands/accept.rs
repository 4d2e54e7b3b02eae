//! Results of other builds, compared with this one's (`run --accept-build`).

use std::collections::BTreeMap;

use sandtable_core::digest::canonical;
use sandtable_core::error::Error;
use sandtable_plan::Cell;
use sandtable_results::reader;
use sandtable_results::schema::CELL;
use sandtable_results::store::Store;
use serde_json::Value;

use crate::ui;

/// Results of a store by their inputs without the build: several where several builds computed one cell.
pub(crate) struct Earlier(BTreeMap<String, Vec<String>>);

/// The inputs of a cell without the build that computes it.
fn without_build(mut inputs: Value) -> String {
    if let Some(fields) = inputs.as_object_mut() {
        fields.remove("build");
    }
    canonical(&inputs)
}

impl Earlier {
    /// Reads the inputs of every result of a store.
    ///
    /// # Errors
    /// A file that can't be read.
    pub(crate) fn of(store: &Store) -> Result<Earlier, Error> {
        let mut by_inputs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for entry in store.list()? {
            let inputs = without_build(reader::inputs(store, &entry.id)?);
            by_inputs.entry(inputs).or_default().push(entry.id);
        }
        Ok(Earlier(by_inputs))
    }

    /// Compares the results of these cells with those of other builds. Where all files are the same the other build's copy is
    /// removed, since the result has this build's id now; where they differ both are kept and the cell is named. Returns how
    /// many differ.
    ///
    /// # Errors
    /// A file that can't be read or removed.
    pub(crate) fn accept(&self, cells: &[(usize, &Cell)], store: &Store) -> Result<usize, Error> {
        let (mut same, mut moved, mut new) = (0, 0, 0);
        for (_, cell) in cells.iter().filter(|(_, cell)| store.has(&cell.id)) {
            let inputs: Value = serde_json::from_str(&cell.inputs()).unwrap_or_default();
            let others = self.0.get(&without_build(inputs)).map_or(&[][..], Vec::as_slice);
            let others: Vec<&String> = others.iter().filter(|id| **id != cell.id && store.has(id)).collect();
            let own = compared(store, &cell.id)?;
            for other in &others {
                let theirs = compared(store, other)?;
                if own == theirs {
                    store.remove(other)?;
                    same += 1;
                    continue;
                }
                moved += 1;
                let names: Vec<&str> =
                    own.iter().filter(|file| !theirs.contains(file)).map(|(name, _)| name.as_str()).collect();
                let whose = store.producer(other)?.map_or("another build".to_string(), |by| by.in_words());
                ui::note(&format!(
                    "moved: {} {} seed {}: {} differ from {} of {whose}",
                    cell.label,
                    cell.variant_text(),
                    cell.seed,
                    names.join(", "),
                    &other[..10]
                ));
            }
            new += usize::from(others.is_empty());
        }
        ui::note(&format!(
            "other builds: {same} results are the same and have this build's ids now, {moved} differ, {new} cells have no \
             other result"
        ));
        Ok(moved)
    }
}

/// The files of a result but its inputs, which name the build.
fn compared(store: &Store, id: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut files = store.files(id)?;
    files.retain(|(name, _)| name != CELL);
    Ok(files)
}
