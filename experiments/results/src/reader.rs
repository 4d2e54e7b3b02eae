//! Results, read back from the store.

use std::collections::BTreeMap;

use sandtable_core::error::Error;
use sandtable_core::text;
use sandtable_hardware::{Fleet, GpuId, Instant};
use sandtable_runtime::Summary;
use serde_json::Value;

use crate::schema::{
    CELL, Document, JobRecord, NodesRecord, Record, RunRecord, Seconds, StayRecord, read_document, read_table,
};
use crate::store::Store;

/// A stored document of a cell.
///
/// # Errors
/// A file that can't be read, or is not what this version writes.
pub fn document<T: Document>(store: &Store, id: &str) -> Result<T, Error> {
    let missing = || broken(id, T::FILE, "the file is missing");
    let there = store.folder(id).join(T::FILE).exists();
    let bytes = if there { store.read(id, T::FILE)? } else { return Err(missing()) };
    read_document(&bytes).map_err(|why| broken(id, T::FILE, &why))
}

/// A stored table of a cell.
///
/// # Errors
/// A file that can't be read, or is not what this version writes.
pub fn table<T: Record>(store: &Store, id: &str) -> Result<Vec<T>, Error> {
    read_table(&store.read(id, T::FILE)?).map_err(|why| broken(id, T::FILE, &why))
}

fn broken(id: &str, file: &str, why: &str) -> Error {
    let error = Error::usage(format!("{file} of cell {}: {}", &id[..10.min(id.len())], text::line(why)));
    error.hint(
        "another version wrote it, or something changed it in the store: `sandtable verify` compares, removing the cell's \
         folder has it run again",
    )
}

/// The rows of a cell's jobs.
///
/// # Errors
/// See [`table`].
pub fn jobs(store: &Store, id: &str) -> Result<Vec<JobRecord>, Error> {
    table(store, id)
}

/// The rows of a cell's jobs that its metrics are of: those that train and were submitted in the window.
///
/// # Errors
/// See [`table`].
pub fn measured_jobs(store: &Store, id: &str) -> Result<Vec<JobRecord>, Error> {
    let window = document::<RunRecord>(store, id)?.measured;
    let mut rows = jobs(store, id)?;
    rows.retain(|row| row.service.is_none() && window.has(Instant::from_micros(row.submit_s.0)));
    Ok(rows)
}

/// The stays of a cell's jobs on GPUs, in the order of their ends.
///
/// # Errors
/// See [`table`].
pub fn stays(store: &Store, id: &str) -> Result<Vec<StayRecord>, Error> {
    table(store, id)
}

/// A cell's metrics; `None` where its policy failed.
///
/// # Errors
/// See [`document`].
pub fn summary(store: &Store, id: &str) -> Result<Option<Summary>, Error> {
    if store.has_failed(id) { Ok(None) } else { document(store, id).map(Some) }
}

/// A stay on one of its GPUs, and its row there.
pub type Placed<'a> = (&'a StayRecord, GpuId, usize);

/// Each stay on each of its GPUs with its row there, and how many rows each GPU has: on none of them do two overlap.
pub fn rowed(stays: &[StayRecord]) -> (Vec<Placed<'_>>, BTreeMap<GpuId, usize>) {
    let mut all: Vec<(&StayRecord, GpuId)> =
        stays.iter().flat_map(|stay| stay.gpus.0.iter().map(move |gpu| (stay, *gpu))).collect();
    all.sort_by(|a, b| a.1.cmp(&b.1).then(a.0.from_s.cmp(&b.0.from_s)));
    let mut free: BTreeMap<GpuId, Vec<Seconds>> = BTreeMap::new();
    let mut placed = Vec::with_capacity(all.len());
    for (stay, gpu) in all {
        let rows = free.entry(gpu).or_default();
        let row = rows.iter().position(|until| *until <= stay.from_s).unwrap_or(rows.len());
        match rows.get_mut(row) {
            Some(until) => *until = stay.to_s,
            None => rows.push(stay.to_s),
        }
        placed.push((stay, gpu, row));
    }
    (placed, free.into_iter().map(|(gpu, rows)| (gpu, rows.len())).collect())
}

/// What a cell's id is the hash of.
///
/// # Errors
/// A file that can't be read.
pub fn inputs(store: &Store, id: &str) -> Result<Value, Error> {
    let bytes = store.read(id, CELL)?;
    serde_json::from_slice(&bytes).map_err(|error| broken(id, CELL, &error.to_string()))
}

/// The nodes of a cell's fleet one by one: the type of their GPUs, and how many each has.
///
/// # Errors
/// See [`document`].
pub fn nodes(store: &Store, id: &str) -> Result<Vec<(String, u32)>, Error> {
    let run: RunRecord = document(store, id)?;
    // A store may be a stranger's.
    if run.nodes.iter().map(|alike| u64::from(alike.nodes)).sum::<u64>() > Fleet::MAX_GPUS {
        return Err(broken(id, RunRecord::FILE, "expected fewer nodes than a fleet has GPUs"));
    }
    let each = |alike: &NodesRecord| vec![(alike.gpu_type.clone(), alike.gpus_per_node); alike.nodes as usize];
    Ok(run.nodes.iter().flat_map(each).collect())
}

/// Every leaf of a value by its path: `fleet.costs.start`.
pub fn leaves(value: &Value) -> BTreeMap<String, String> {
    fn walk(value: &Value, path: &str, out: &mut BTreeMap<String, String>) {
        let below = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
        match value {
            Value::Object(map) if !map.is_empty() => map.iter().for_each(|(key, value)| walk(value, &below(key), out)),
            Value::Object(_) => {}
            // A list is one thing: its rows have no names.
            other => drop(out.insert(path.to_string(), other.to_string())),
        }
    }
    let mut out = BTreeMap::new();
    walk(value, "", &mut out);
    out
}

/// The one cell whose id begins so.
///
/// # Errors
/// A prefix of no id, or of several.
pub fn find(store: &Store, prefix: &str) -> Result<String, Error> {
    let entries = store.list()?;
    let fitting: Vec<&str> =
        entries.iter().map(|entry| entry.id.as_str()).filter(|id| id.starts_with(prefix)).collect();
    match fitting.as_slice() {
        [one] => Ok((*one).to_string()),
        [] => {
            let error = Error::usage(format!("no cell `{prefix}…` in {}", store.root().display()));
            Err(error.hint("`sandtable store list` has them all, `sandtable plan SPEC` those of a spec"))
        }
        several => {
            let shown: Vec<&str> = several.iter().take(4).map(|id| &id[..16]).collect();
            Err(Error::usage(format!("{} cells begin with `{prefix}`: {} …", several.len(), shown.join(", "))))
        }
    }
}

/// Whether a word is meant as a cell's id: hexadecimal, and long enough to mean one.
pub fn looks_like_an_id(word: &str) -> bool {
    (6..=64).contains(&word.len()) && word.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_have_paths_and_lists_are_one_thing() {
        let value = serde_json::json!({"a": {"b": 1, "c": [1, 2]}, "d": {}});
        let expected = [("a.b", "1"), ("a.c", "[1,2]")];
        let found = leaves(&value);
        assert_eq!(found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn ids_are_told_from_words() {
        assert!(looks_like_an_id("3f9a2c11e0") && !looks_like_an_id("fifo") && !looks_like_an_id("abcde"));
    }
}
