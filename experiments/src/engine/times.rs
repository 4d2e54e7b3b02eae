//! How long cells take on a processor, for people who have to ask a batch system for time. Never a part of a result.

use std::collections::BTreeMap;
use std::fs;

use sandtable_core::input;
use sandtable_core::input::sorted;
use sandtable_core::output;
use sandtable_results::store::Store;
use serde::{Deserialize, Serialize};

/// All cells of one component that ran.
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
            let timed = serde_json::from_slice(&input::read(path, input::SPEC).ok()?).ok()?;
            Some((path.file_stem()?.to_str()?.to_string(), timed))
        };
        Times(paths.iter().filter_map(read).collect())
    }

    /// Adds a cell; `seconds` of processor time.
    pub fn add(&mut self, component: &str, jobs: u64, seconds: f64) {
        let timed = self.0.entry(component.to_string()).or_default();
        timed.jobs += jobs;
        timed.seconds += seconds;
    }

    /// Adds these to what a store knows; where two processes write at once, either's times will do.
    pub fn keep(&self, store: &Store) {
        let folder = store.root().join("times");
        let known = Times::of(store);
        for (component, new) in &self.0 {
            let before = known.0.get(component).copied().unwrap_or_default();
            let timed = Timed { jobs: before.jobs + new.jobs, seconds: before.seconds + new.seconds };
            let kept = || {
                fs::create_dir_all(&folder).ok()?;
                output::write(&folder.join(format!("{component}.json")), &serde_json::to_string(&timed).ok()?).ok()
            };
            // No result needs it.
            let _ = kept();
        }
    }

    /// Seconds on one core for a cell of so many jobs.
    pub fn estimate(&self, component: &str, jobs: u64) -> Option<f64> {
        let timed = self.0.get(component).filter(|timed| timed.jobs > 0)?;
        Some(timed.seconds / timed.jobs as f64 * jobs as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cells_took_is_told_by_the_job() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path()).expect("a store");
        assert_eq!(Times::of(&store).estimate("a", 10), None);
        let mut times = Times::default();
        times.add("a", 10, 1.0);
        times.add("a", 30, 3.0);
        times.add("b", 0, 1.0);
        times.keep(&store);
        let kept = Times::of(&store);
        assert_eq!((kept.estimate("a", 20), kept.estimate("b", 20), kept.estimate("c", 20)), (Some(2.0), None, None));
        let mut more = Times::default();
        more.add("a", 40, 8.0);
        more.keep(&store);
        assert_eq!(Times::of(&store).estimate("a", 20), Some(3.0));
        fs::write(folder.path().join("times/a.json"), "{").expect("written");
        assert_eq!(Times::of(&store).estimate("a", 20), None);
    }
}
