//! Results, read back from the store: the rows of jobs, their stays on GPUs, and what a cell was made of.

use std::collections::BTreeMap;

use sandtable_hardware::Micros;
use sandtable_runtime::{Summary, Window};
use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;
use crate::store::Store;

/// What became of a job; times in seconds from the run's start.
#[derive(Clone, Debug, Deserialize)]
pub struct JobRow {
    /// Its name in the trace.
    pub job_id: String,
    /// When it was submitted.
    pub submit_s: f64,
    /// GPUs that it asks for.
    pub gpus: u32,
    /// When it first got them.
    pub first_start_s: Option<f64>,
    /// When it ended.
    pub end_s: Option<f64>,
    /// How long it held GPUs.
    pub held_s: f64,
    /// How often it was preempted.
    pub preemptions: u64,
    /// Which service it is a task of; none: it trains.
    #[serde(default)]
    pub service: Option<String>,
    /// Completed, or why not.
    pub outcome: String,
}

impl JobRow {
    /// Job completion time, of a job that completed.
    pub fn jct(&self) -> Option<f64> {
        (self.outcome == "completed").then_some(())?;
        Some(self.end_s? - self.submit_s)
    }

    /// How long it waited for its first GPUs.
    pub fn wait(&self) -> Option<f64> {
        Some(self.first_start_s? - self.submit_s)
    }
}

/// One stay of a job on GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Stay {
    /// Its name.
    pub job: String,
    /// From, in seconds.
    pub from: f64,
    /// To.
    pub to: f64,
    /// On these.
    pub gpus: Vec<u32>,
}

fn broken(id: &str, file: &str, why: impl std::fmt::Display) -> Error {
    let error = Error::usage(format!("{file} of cell {}: {why}", &id[..10.min(id.len())]));
    error.hint(
        "something changed it in the store: `sandtable verify` compares, removing the cell's folder has it run again",
    )
}

/// The rows of a cell's jobs.
///
/// # Errors
/// A file that can't be read, or is not what this version writes.
pub fn jobs(store: &Store, id: &str) -> Result<Vec<JobRow>, Error> {
    let bytes = store.read(id, "jobs.csv")?;
    let rows = csv::Reader::from_reader(bytes.as_slice()).into_deserialize().collect::<Result<Vec<JobRow>, _>>();
    rows.map_err(|error| broken(id, "jobs.csv", error))
}

/// The rows of a cell's jobs that its metrics are of: those that train and were submitted in the window.
///
/// # Errors
/// A file that can't be read, or is not what this version writes.
pub fn measured_jobs(store: &Store, id: &str) -> Result<Vec<JobRow>, Error> {
    let inputs = inputs(store, id)?;
    // Results of builds that measured no window are of all jobs.
    let window = Option::<Window>::deserialize(&inputs["measure"]).map_err(|error| broken(id, "cell.json", error))?;
    let window = window.unwrap_or_default();
    let mut rows = jobs(store, id)?;
    rows.retain(|row| {
        row.service.as_ref().is_none_or(String::is_empty) && window.has((row.submit_s * 1e6).round() as Micros)
    });
    Ok(rows)
}

/// Who was where, in the order of the ends.
///
/// # Errors
/// A file that can't be read, or is not what this version writes.
pub fn stays(store: &Store, id: &str) -> Result<Vec<Stay>, Error> {
    let bytes = store.read(id, "timeline.csv")?;
    let mut reader = csv::Reader::from_reader(bytes.as_slice());
    let mut all = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|error| broken(id, "timeline.csv", error))?;
        let wrong = || broken(id, "timeline.csv", format!("line {}", row.position().map_or(0, csv::Position::line)));
        let number = |at: usize| row.get(at).and_then(|text| text.parse().ok()).ok_or_else(wrong);
        let mut gpus = Vec::new();
        for range in row.get(3).unwrap_or_default().split_whitespace() {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let bounds = first.parse::<u32>().ok().zip(last.parse::<u32>().ok());
            let (first, last) = bounds.filter(|(first, last)| first <= last).ok_or_else(wrong)?;
            gpus.extend(first..=last);
        }
        all.push(Stay { job: row.get(0).unwrap_or_default().to_string(), from: number(1)?, to: number(2)?, gpus });
    }
    Ok(all)
}

/// A cell's metrics; none where its policy failed.
///
/// # Errors
/// A file that can't be read.
pub fn summary(store: &Store, id: &str) -> Result<Option<Summary>, Error> {
    if store.has_failed(id) {
        return Ok(None);
    }
    let bytes = store.read(id, "summary.json")?;
    serde_json::from_slice(&bytes).map(Some).map_err(|error| broken(id, "summary.json", error))
}

/// A stay on one of its GPUs, and its row there.
pub type Placed<'a> = (&'a Stay, u32, usize);

/// Each stay on each of its GPUs with its row there, and how many rows each GPU has: on none of them do two overlap.
pub fn rowed(stays: &[Stay]) -> (Vec<Placed<'_>>, BTreeMap<u32, usize>) {
    let mut all: Vec<(&Stay, u32)> =
        stays.iter().flat_map(|stay| stay.gpus.iter().map(move |gpu| (stay, *gpu))).collect();
    all.sort_by(|a, b| a.1.cmp(&b.1).then(a.0.from.total_cmp(&b.0.from)));
    let mut free: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    let mut placed = Vec::with_capacity(all.len());
    for (stay, gpu) in all {
        let rows = free.entry(gpu).or_default();
        let row = rows.iter().position(|until| *until <= stay.from).unwrap_or(rows.len());
        match rows.get_mut(row) {
            Some(until) => *until = stay.to,
            None => rows.push(stay.to),
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
    let bytes = store.read(id, "cell.json")?;
    serde_json::from_slice(&bytes).map_err(|error| broken(id, "cell.json", error))
}

/// GPUs of each node of a cell's fleet, and the names of their types.
pub fn nodes(inputs: &Value) -> Vec<(String, u32)> {
    let types = &inputs["fleet"]["types"];
    let name = |kind: &Value| types[kind.as_u64().unwrap_or(0) as usize][0].as_str().unwrap_or("GPU").to_string();
    let mut all = Vec::new();
    for group in inputs["fleet"]["nodes"].as_array().into_iter().flatten() {
        let (count, gpus) = (group[0].as_u64().unwrap_or(0), group[1].as_u64().unwrap_or(0));
        all.extend((0..count).map(|_| (name(&group[2]), gpus as u32)));
    }
    all
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
/// Nobody's, or several'.
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
    fn nodes_are_told_one_by_one() {
        let value =
            serde_json::json!({"fleet": {"types": [["T4", 1, 0], ["V100", 1, 0]], "nodes": [[2, 4, 0], [1, 8, 1]]}});
        assert_eq!(nodes(&value), [("T4".into(), 4), ("T4".into(), 4), ("V100".into(), 8)]);
    }

    #[test]
    fn ids_are_told_from_words() {
        assert!(looks_like_an_id("3f9a2c11e0") && !looks_like_an_id("fifo") && !looks_like_an_id("abcde"));
    }
}
