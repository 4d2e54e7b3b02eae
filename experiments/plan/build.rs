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
    let components = listed(&workspace.join("policies/dist/manifest.json"))?;
    let is_predictor = |name: &String| workspace.join("policies/predictors").join(name).join("Cargo.toml").exists();
    println!("cargo::rerun-if-changed={}", workspace.join("policies/predictors").display());
    let (predictors, policies) = components.into_iter().partition(is_predictor);
    let (mut bytes, mut tables) = (Vec::new(), String::new());
    for (table, folder, ending, names) in [
        ("POLICIES", "policies/dist", ".wasm", policies),
        ("PREDICTORS", "policies/dist", ".wasm", predictors),
        (
            "WEIGHTS",
            "policies/predictors/weights",
            "",
            ending_in(&workspace.join("policies/predictors/weights"), ".json")?,
        ),
        (
            "PROFILES",
            "experiments/specs/profiles",
            "",
            ending_in(&workspace.join("experiments/specs/profiles"), ".ron")?,
        ),
    ] {
        writeln!(tables, "static {table}: &[(&str, std::ops::Range<usize>)] = &[")?;
        for name in names {
            let path = workspace.join(folder).join(format!("{name}{ending}"));
            println!("cargo::rerun-if-changed={}", path.display());
            let begin = bytes.len();
            bytes.extend(std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?);
            writeln!(tables, "    ({name:?}, {begin}..{}),", bytes.len())?;
        }
        tables.push_str("];\n");
    }
    // A window as large as all bytes: components of one SDK are alike.
    let mut encoder = zstd::bulk::Compressor::new(9)?;
    encoder.set_parameter(zstd::zstd_safe::CParameter::WindowLog(bytes.len().next_power_of_two().ilog2()))?;
    encoder.set_parameter(zstd::zstd_safe::CParameter::EnableLongDistanceMatching(true))?;
    std::fs::write(out.join("shipped.zst"), encoder.compress(&bytes)?)?;
    writeln!(tables, "const BYTES: usize = {};", bytes.len())?;
    Ok(std::fs::write(out.join("shipped.rs"), tables)?)
}

/// Returns the names of the components that a manifest lists, in order.
fn listed(manifest: &Path) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed={}", manifest.display());
    let text = std::fs::read_to_string(manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
    // `policy build` writes a line `  "NAME": {` for each component.
    let name = |line: &str| Some(line.strip_prefix("  \"")?.strip_suffix("\": {")?.to_string());
    let mut names: Vec<String> = text.lines().filter_map(name).collect();
    names.sort();
    if names.is_empty() { Err("policies/dist/manifest.json lists no component".into()) } else { Ok(names) }
}

/// Returns the names of the files of a folder that end so, in order.
fn ending_in(folder: &Path, ending: &str) -> std::io::Result<Vec<String>> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let names = fingerprint::entries(folder)?.into_iter();
    let names = names.map(|path| path.file_name().unwrap_or_default().to_string_lossy().to_string());
    Ok(names.filter(|name| name.ends_with(ending)).collect())
}
