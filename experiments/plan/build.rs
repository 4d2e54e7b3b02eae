//! Computes what a build writes beside its results: the fingerprint of the host's sources, the commit, the target.

use std::path::Path;
use std::process::Command;

#[path = "src/fingerprint.rs"]
mod fingerprint;

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script by variables")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here = std::env::var("CARGO_MANIFEST_DIR")?;
    let workspace = Path::new(&here).ancestors().nth(2).ok_or("the crate stands in a workspace")?;
    for folder in fingerprint::ROOTS {
        println!("cargo::rerun-if-changed={}", workspace.join(folder).display());
    }
    println!("cargo::rerun-if-changed={}", workspace.join("Cargo.lock").display());
    // Each commit and each change of branch appends to it; a checkout without git has none.
    let head = workspace.join(".git/logs/HEAD");
    if head.exists() {
        println!("cargo::rerun-if-changed={}", head.display());
    }
    let git = Command::new("git").arg("-C").arg(workspace).args(["rev-parse", "HEAD"]).output();
    let commit = git.ok().filter(|output| output.status.success()).map(|output| output.stdout).unwrap_or_default();
    let lock = std::fs::read_to_string(workspace.join("Cargo.lock"))?;
    println!("cargo::rustc-env=SANDTABLE_BUILD={}", fingerprint::fingerprint(workspace)?);
    println!("cargo::rustc-env=SANDTABLE_COMMIT={}", String::from_utf8_lossy(&commit).trim());
    println!("cargo::rustc-env=SANDTABLE_TARGET={}", std::env::var("TARGET")?);
    println!("cargo::rustc-env=SANDTABLE_WASMTIME={}", fingerprint::locked(&lock, "wasmtime").unwrap_or_default());
    Ok(())
}
