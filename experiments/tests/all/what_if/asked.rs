//! Questions, and what is read of their answers.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::help::{Ran, dist, root, sandtable};

pub(super) fn what_if(folder: &Path, more: &[&str]) -> Ran {
    let dist = dist();
    let mut args = vec!["what-if", "now.json", "--policies", &dist, "--store", "store", "--no-progress"];
    args.extend(more);
    sandtable(folder, &args)
}

pub(super) fn golden(name: &str) -> String {
    std::fs::read_to_string(root().join("experiments/tests/goldens").join(name)).expect("a golden")
}

/// A folder with the document of a golden run, and what happened then.
pub(super) fn folder_with(run: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["now.json", "log.txt"] {
        std::fs::write(folder.path().join(name), golden(&format!("{run}-{name}"))).expect("written");
    }
    folder
}

/// The rows of a forecast by job, policy, and whether the cluster is changed.
pub(super) fn rows(folder: &Path, more: &[&str]) -> BTreeMap<(String, String, bool), Value> {
    let ran = what_if(folder, &[more, &["--format", "json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let of = |line: &str| {
        let row: Value = serde_json::from_str(line).expect("JSON");
        let word = |key: &str| row[key].as_str().expect("a word").to_string();
        ((word("job"), word("policy"), word("cluster") == "changed"), row)
    };
    ran.stdout.lines().map(of).collect()
}

/// How far off forecasts of so many jobs are from when `log.txt` says that they started, seconds: half of them, and nine of ten, are no further off.
pub(super) fn off(folder: &Path, jobs: usize, policy: &[&str]) -> (f64, f64) {
    let asked = [&["--run-times", "known=log.txt", "--recorded", "log.txt"], policy].concat();
    let time = |row: &Value, of: &str| row[of].as_f64().expect("a time");
    let of = |row: &Value| (time(row, "start_p50_s") - time(row, "recorded_start_s")).abs();
    let mut off: Vec<f64> = rows(folder, &asked).values().map(of).collect();
    off.sort_by(f64::total_cmp);
    assert_eq!(off.len(), jobs);
    (off[(jobs - 1) / 2], off[(jobs - 1) * 9 / 10])
}
