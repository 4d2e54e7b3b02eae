//! Computes what a build writes beside its results: the fingerprint of the host's sources, the commit, the target. Packs what the
//! binary carries: components, weights and profiles.

use std::fmt::Write as _;
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
    let out = std::env::var("OUT_DIR")?;
    pack(workspace, Path::new(&out))
}

/// Writes one archive of all files that the binary carries, and for each kind a table of names and places in it. The components
/// share most of their code: together they take a twelfth of their size.
fn pack(workspace: &Path, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let (mut bytes, mut tables) = (Vec::new(), String::new());
    let is_predictor = |name: &str| workspace.join("policies/predictors").join(name).is_dir();
    for (table, folder, ending, predictors) in [
        ("POLICIES", "policies/dist", ".wasm", Some(false)),
        ("PREDICTORS", "policies/dist", ".wasm", Some(true)),
        ("WEIGHTS", "policies/predictors/weights", "", None),
        ("PROFILES", "experiments/specs/profiles", "", None),
    ] {
        let folder = workspace.join(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files = Vec::new();
        for path in fingerprint::entries(&folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
            let Some(name) = name.strip_suffix(ending) else { continue };
            if predictors.is_none_or(|wanted| wanted == is_predictor(name)) {
                files.push((name.to_string(), path));
            }
        }
        // By name: with their endings `a-b.wasm` comes before `a.wasm`.
        files.sort();
        writeln!(tables, "static {table}: &[(&str, std::ops::Range<usize>)] = &[")?;
        for (name, path) in files {
            let begin = bytes.len();
            bytes.extend(std::fs::read(&path)?);
            writeln!(tables, "    ({name:?}, {begin}..{}),", bytes.len())?;
        }
        tables.push_str("];\n");
    }
    // As large a window as there are bytes: components of one SDK are alike.
    let mut encoder = zstd::bulk::Compressor::new(9)?;
    encoder.set_parameter(zstd::zstd_safe::CParameter::WindowLog(24))?;
    encoder.set_parameter(zstd::zstd_safe::CParameter::EnableLongDistanceMatching(true))?;
    std::fs::write(out.join("shipped.zst"), encoder.compress(&bytes)?)?;
    writeln!(tables, "const BYTES: usize = {};", bytes.len())?;
    Ok(std::fs::write(out.join("shipped.rs"), tables)?)
}
