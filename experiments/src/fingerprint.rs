//! The fingerprint of the host: one digest of every source that can move a result.
//!
//! The build script computes it and it is part of every cell's identity, so that a result is never taken for that of
//! other code. Nobody has to remember to raise a number: a file counts unless it is named here as one that only plans,
//! prints, compares or drives devices. A change of a comment costs a run; a change that is overlooked would cost a wrong
//! table.

use std::path::{Path, PathBuf};

/// Folders and files whose contents count, below the workspace.
pub const ROOTS: [&str; 5] =
    ["hardware/src", "hardware/catalogue.ron", "runtime/src", "experiments/src", "experiments/models.ron"];

/// What cannot move a stored result: live devices (their runs are observations and are never taken from the store),
/// commands, and whatever reads results.
const LEFT_OUT: [&str; 39] = [
    "hardware/src/live",
    "hardware/src/nvidia",
    "experiments/src/artifact",
    "experiments/src/artifact.rs",
    "experiments/src/bundle.rs",
    "experiments/src/chrome.rs",
    "experiments/src/claim",
    "experiments/src/claim.rs",
    "experiments/src/cli.rs",
    "experiments/src/columns.rs",
    "experiments/src/commands",
    "experiments/src/compare.rs",
    "experiments/src/conform",
    "experiments/src/conform.rs",
    "experiments/src/consent.rs",
    "experiments/src/diagnostic.rs",
    "experiments/src/engine",
    "experiments/src/error.rs",
    "experiments/src/explain.rs",
    "experiments/src/gpus.rs",
    "experiments/src/learn",
    "experiments/src/learn.rs",
    "experiments/src/main.rs",
    "experiments/src/measure",
    "experiments/src/measure.rs",
    "experiments/src/merge.rs",
    "experiments/src/output.rs",
    "experiments/src/plan/claims.rs",
    "experiments/src/plan/files.rs",
    "experiments/src/report",
    "experiments/src/results.rs",
    "experiments/src/stats.rs",
    "experiments/src/status.rs",
    "experiments/src/store.rs",
    "experiments/src/story.rs",
    "experiments/src/table.rs",
    "experiments/src/text.rs",
    "experiments/src/ui.rs",
    "experiments/src/witness.rs",
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

/// Files below a folder, or the file itself, by path; tests left out.
fn files(path: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        found.push(path.to_path_buf());
        return Ok(());
    }
    #[expect(clippy::disallowed_methods, reason = "the entries are sorted")]
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    entries.sort();
    for entry in entries {
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
