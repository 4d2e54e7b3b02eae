//! What was built from what: blake3 of every shipped component and of the sources it was built from.
//!
//! # Format
//! `policies/dist/manifest.json`: an object by policy; `component` and `sources` are blake3 in hex, `rustc` is the
//! compiler's version line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_core::input::sorted;
use sandtable_core::output;
use serde::{Deserialize, Serialize};

/// One shipped component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// blake3 of the file.
    pub component: String,
    /// blake3 of what it was built from.
    pub sources: String,
    /// What built it.
    pub rustc: String,
}

/// All of them, by name.
pub type Manifest = BTreeMap<String, ManifestEntry>;

/// Reads the manifest of a `dist` folder; empty where there is none.
///
/// # Errors
/// A file that is no manifest.
pub fn read(dist: &Path) -> Result<Manifest, Error> {
    let path = dist.join("manifest.json");
    if !path.exists() {
        return Ok(Manifest::new());
    }
    let text = std::fs::read(&path).map_err(|error| Error::file("read", &path, &error))?;
    serde_json::from_slice(&text).map_err(|error| Error::usage(format!("{}: {error}", path.display())))
}

/// Writes it.
///
/// # Errors
/// A file that can't be written.
pub fn write(dist: &Path, manifest: &Manifest) -> Result<(), Error> {
    let path = dist.join("manifest.json");
    let text = serde_json::to_string_pretty(manifest).map_err(|error| Error::internal(error.to_string()))?;
    output::write(&path, text + "\n")
}

/// Digest of a component's sources: its crate, the SDK with the contract, the other crates under `policies/` that it
/// uses, the guest profile, and the locked versions of the packages that it is built with.
///
/// # Errors
/// A file that can't be read.
pub fn sources(root: &Path, name: &str) -> Result<String, Error> {
    let mut text = String::new();
    let read = |file: &str| {
        let path = root.join(file);
        std::fs::read_to_string(&path).map_err(|error| Error::file("read", &path, &error))
    };
    let cargo = read("Cargo.toml")?;
    for folder in folders(&cargo, super::sources_of(name), read)? {
        walk(root, &root.join(folder), &mut text)?;
    }
    let profile = cargo.lines().skip_while(|line| *line != "[profile.guest]").take_while(|line| !line.is_empty());
    text.extend(profile.map(|line| format!("{line}\n")));
    text.push_str(&locked(&read("Cargo.lock")?, &super::package_of(name)));
    Ok(digest(text.as_bytes()))
}

/// The folder of a crate and those of the crates under `policies/` that it is built with, the SDK always among them.
fn folders(
    workspace: &str,
    own: String,
    read: impl Fn(&str) -> Result<String, Error>,
) -> Result<BTreeSet<String>, Error> {
    let mut found = BTreeSet::new();
    let mut todo = vec![own, "policies/sdk".to_string()];
    while let Some(folder) = todo.pop() {
        let uses = read(&format!("{folder}/Cargo.toml"))?;
        let named = libraries(workspace).filter(|(library, _)| uses.lines().any(|line| names(line, library)));
        let new =
            named.map(|(_, folder)| folder.to_string()).filter(|other| !found.contains(other) && *other != folder);
        todo.extend(new.collect::<Vec<_>>());
        found.insert(folder);
    }
    Ok(found)
}

/// The crates under `policies/` that the workspace's manifest lists as dependencies, with their folders.
fn libraries(manifest: &str) -> impl Iterator<Item = (&str, &str)> {
    manifest.lines().filter_map(|line| {
        let (library, rest) = line.split_once(" = {")?;
        let folder = rest.split_once("path = \"")?.1.split('"').next()?;
        folder.starts_with("policies/").then_some((library, folder))
    })
}

/// Whether a line of a manifest names this dependency.
fn names(line: &str, library: &str) -> bool {
    line.strip_prefix(library).is_some_and(|rest| rest.starts_with([' ', '.', '=']))
}

fn walk(root: &Path, folder: &Path, text: &mut String) -> Result<(), Error> {
    for path in sorted(folder)? {
        if path.is_dir() {
            walk(root, &path, text)?;
        } else {
            let bytes = std::fs::read(&path).map_err(|error| Error::file("read", &path, &error))?;
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            text.push_str(&format!("{name} {}\n", digest(&bytes)));
        }
    }
    Ok(())
}

/// `name version checksum` of every package that `name` is built with, from a lock file. Dependencies of tests are in
/// a lock file too: those of the SDK are counted in, which only makes a rebuild more frequent.
fn locked(lock: &str, name: &str) -> String {
    struct Package<'a> {
        line: String,
        needs: Vec<&'a str>,
    }
    let mut packages: BTreeMap<&str, Vec<Package<'_>>> = BTreeMap::new();
    for block in lock.split("[[package]]").skip(1) {
        let field = |key: &str| {
            let start = block.find(&format!("{key} = \""))? + key.len() + 4;
            Some(&block[start..start + block[start..].find('"')?])
        };
        let (Some(package), Some(version)) = (field("name"), field("version")) else { continue };
        let needs = block.split_once("dependencies = [").map_or("", |(_, rest)| rest.split(']').next().unwrap_or(""));
        let needs = needs.split('"').skip(1).step_by(2).collect();
        let line = format!("{package} {version} {}\n", field("checksum").unwrap_or("local"));
        packages.entry(package).or_default().push(Package { line, needs });
    }
    let (mut todo, mut seen) = (vec![name], BTreeSet::new());
    while let Some(need) = todo.pop() {
        let (package, version) = need.split_once(' ').unwrap_or((need, ""));
        for found in packages.get(package).into_iter().flatten() {
            if found.line.starts_with(&format!("{package} {version}")) && seen.insert(found.line.clone()) {
                todo.extend(&found.needs);
            }
        }
    }
    seen.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_those_of_every_crate_that_a_component_is_built_with() {
        let workspace = "fast = { path = \"policies/fast\" }\nfar = { path = \"policies/far\", features = [] }\n\
            faster = { path = \"policies/faster\" }\nhost = { path = \"experiments\" }\nserde = \"1\"\n";
        let read = |path: &str| {
            Ok(match path {
                "policies/own/Cargo.toml" => "[dependencies]\nfast.workspace = true\nhost.workspace = true\n",
                "policies/fast/Cargo.toml" => "[dependencies]\nfar = { workspace = true, features = [\"guest\"] }\n",
                _ => "[dependencies]\nserde.workspace = true\n",
            }
            .to_string())
        };
        let found = folders(workspace, "policies/own".into(), read).expect("manifests");
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            ["policies/far", "policies/fast", "policies/own", "policies/sdk"]
        );
    }
}
