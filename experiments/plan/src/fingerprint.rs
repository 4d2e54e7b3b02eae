//! The fingerprint of the host: one digest of every source that can move a result.
//!
//! The build script computes it and it is part of every cell's identity, so that a result is never taken for that of
//! other code. No number has to be raised by hand: a file counts unless it is named here as one that only plans,
//! prints, compares or drives devices. A change of a comment costs a run; a change that is overlooked would cost a wrong
//! table.

use std::path::{Path, PathBuf};

/// Folders and files whose contents count, below the workspace.
pub const ROOTS: [&str; 11] = [
    "hardware/src",
    "hardware/catalogue.ron",
    "runtime/src",
    "policies/fragmentation/src",
    "policies/stages/src",
    "experiments/core/src",
    "experiments/inputs/src",
    "experiments/plan/src",
    "experiments/results/src",
    "experiments/run/src",
    "experiments/models.ron",
];

/// What cannot move a stored result: live devices (their runs are observations and are never taken from the store),
/// commands, and whatever reads results.
const LEFT_OUT: [&str; 38] = [
    "hardware/src/live",
    "hardware/src/nvidia",
    "experiments/core/src/diagnostic.rs",
    "experiments/core/src/display.rs",
    "experiments/core/src/error.rs",
    "experiments/core/src/frame.rs",
    "experiments/core/src/output.rs",
    "experiments/core/src/text.rs",
    "experiments/plan/src/artifact",
    "experiments/plan/src/artifact.rs",
    "experiments/plan/src/build_info.rs",
    "experiments/plan/src/claims.rs",
    "experiments/plan/src/files.rs",
    "experiments/plan/src/gpus.rs",
    "experiments/results/src/bundle.rs",
    "experiments/results/src/calibrate.rs",
    "experiments/results/src/claim",
    "experiments/results/src/claim.rs",
    "experiments/results/src/compare",
    "experiments/results/src/compare.rs",
    "experiments/results/src/explain.rs",
    "experiments/results/src/lib.rs",
    "experiments/results/src/merge.rs",
    "experiments/results/src/metric.rs",
    "experiments/results/src/producer.rs",
    "experiments/results/src/reader.rs",
    "experiments/results/src/stats.rs",
    "experiments/results/src/status.rs",
    "experiments/results/src/store.rs",
    "experiments/results/src/sweep.rs",
    "experiments/run/src/policy_check",
    "experiments/run/src/policy_check.rs",
    "experiments/run/src/learn",
    "experiments/run/src/learn.rs",
    "experiments/run/src/measure",
    "experiments/run/src/measure.rs",
    "experiments/run/src/story.rs",
    "experiments/run/src/observed_policy.rs",
];

/// Packages whose version can move a result: the sandbox, mathematics, random numbers, readers of numbers.
const PACKAGES: [&str; 8] =
    ["csv", "libm", "rand_chacha", "rand_core", "ron", "serde_json", "wasmtime", "wasmtime-environ"];

/// The version of a package in a lock file; of several the last.
pub fn locked(lock: &str, package: &str) -> Option<String> {
    let mut lines = lock.lines();
    let name = format!("name = \"{package}\"");
    let mut version = None;
    while let Some(line) = lines.next() {
        if line == name {
            let text = lines.next()?.strip_prefix("version = \"")?;
            version = Some(text.trim_end_matches('"').to_string());
        }
    }
    version
}

/// Returns the entries of a folder, by path.
///
/// # Errors
/// A folder that can't be read.
pub fn entries(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    #[expect(clippy::disallowed_methods, reason = "the entries are sorted")]
    let found = std::fs::read_dir(folder)?;
    let mut entries = found.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

/// Files below a folder, or the file itself, by path; tests left out.
fn files(path: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        found.push(path.to_path_buf());
        return Ok(());
    }
    for entry in entries(path)? {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().to_string();
        if name != "tests" && name != "snapshots" && !name.starts_with("tests.") && !name.starts_with("tests_") {
            files(&entry, found)?;
        }
    }
    Ok(())
}

/// The sources that count, below a workspace.
///
/// # Errors
/// A folder that can't be read.
pub fn sources(workspace: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for root in ROOTS {
        files(&workspace.join(root), &mut found)?;
    }
    let left_out = |path: &PathBuf| LEFT_OUT.iter().any(|part| path.starts_with(workspace.join(part)));
    found.retain(|path| !left_out(path));
    Ok(found)
}

/// The fingerprint of a workspace: the first 16 hexadecimal digits of the blake3 of its sources and versions.
///
/// # Errors
/// A file that can't be read.
pub fn fingerprint(workspace: &Path) -> std::io::Result<String> {
    let mut all = blake3::Hasher::new();
    for path in sources(workspace)? {
        let name = path.strip_prefix(workspace).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        let bytes = std::fs::read(&path)?;
        all.update(format!("{name} {}\n", blake3::hash(&bytes).to_hex()).as_bytes());
    }
    let lock = std::fs::read_to_string(workspace.join("Cargo.lock"))?;
    for package in PACKAGES {
        all.update(format!("{package} {}\n", locked(&lock, package).unwrap_or_default()).as_bytes());
    }
    Ok(all.finalize().to_hex()[..16].to_string())
}
