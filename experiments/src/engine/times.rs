//! How long cells take, for people who have to ask a batch system for time. Never a part of a result.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

use crate::store::{Store, sorted};

/// Cells of one component that ran at last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Timed {
    jobs: u64,
    seconds: f64,
}

/// By the blake3 of the component.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times(BTreeMap<String, Timed>);

impl Times {
    /// What a store knows. An estimate that can't be read is none.
    pub fn of(store: &Store) -> Times {
        let folder = store.root().join("times");
        let paths = if folder.is_dir() { sorted(&folder).unwrap_or_default() } else { Vec::new() };
        let read = |path: &std::path::PathBuf| {
            let timed = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
            Some((path.file_stem()?.to_str()?.to_string(), timed))
        };
        Times(paths.iter().filter_map(read).collect())
    }

    /// Adds a cell.
    pub fn add(&mut self, component: &str, jobs: u64, seconds: f64) {
        let timed = self.0.entry(component.to_string()).or_default();
        timed.jobs += jobs;
        timed.seconds += seconds;
    }

    /// Keeps these; whoever writes last is as right as the others.
    pub fn keep(&self, store: &Store) {
        let folder = store.root().join("times");
        for (component, timed) in &self.0 {
            let kept = || {
                fs::create_dir_all(&folder).ok()?;
                let temporary = store.temporary("times").ok()?;
                fs::write(temporary.join("new"), serde_json::to_string(timed).ok()?).ok()?;
                fs::rename(temporary.join("new"), folder.join(format!("{component}.json"))).ok()?;
                fs::remove_dir(temporary).ok()
            };
            // Nobody's result misses it.
            let _ = kept();
        }
    }

    /// Seconds on one core for a cell of so many jobs.
    pub fn estimate(&self, component: &str, jobs: u64) -> Option<f64> {
        let timed = self.0.get(component).filter(|timed| timed.jobs > 0)?;
        Some(timed.seconds / timed.jobs as f64 * jobs as f64)
    }
}
