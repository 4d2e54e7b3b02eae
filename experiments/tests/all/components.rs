//! The shipped components: as their manifest says, built from these sources, and with no machine's path in them.

use std::collections::{BTreeMap, BTreeSet};

use sandtable::artifact::{manifest, predictors, shipped};
use sandtable::digest::digest;

use crate::help::root;

#[test]
fn components_are_those_of_the_manifest_and_of_these_sources() {
    let dist = root().join("policies/dist");
    let manifest = manifest::read(&dist).expect("a manifest");
    let names: Vec<&str> = manifest.keys().map(String::as_str).collect();
    let mut all: Vec<&str> = shipped().chain(predictors()).collect();
    all.sort_unstable();
    assert_eq!(names, all);
    for (name, entry) in &manifest {
        let bytes = std::fs::read(dist.join(format!("{name}.wasm"))).expect("a component");
        assert_eq!(digest(&bytes), entry.component, "{name}.wasm is not the manifest's");
        let sources = manifest::sources(&root(), name).expect("sources");
        assert_eq!(sources, entry.sources, "the sources of {name} have changed: `just policies {name}`");
    }
}

/// A crate that makes a component is in the manifest: one that is new ships.
#[test]
fn every_policy_of_the_workspace_is_in_the_manifest() {
    let mut crates: Vec<String> = Vec::new();
    for folder in [root().join("policies"), root().join("policies/predictors")] {
        for path in sandtable::input::sorted(&folder).expect("a folder") {
            let Ok(text) = std::fs::read_to_string(path.join("Cargo.toml")) else { continue };
            if text.contains("crate-type = [\"cdylib\"") {
                crates.push(path.file_name().expect("a name").to_string_lossy().to_string());
            }
        }
    }
    crates.sort_unstable();
    let manifest = manifest::read(&root().join("policies/dist")).expect("a manifest");
    assert_eq!(crates, manifest.keys().cloned().collect::<Vec<_>>());
}

#[test]
fn no_path_of_a_machine_stands_in_a_component() {
    for name in shipped().chain(predictors()) {
        let bytes = std::fs::read(root().join(format!("policies/dist/{name}.wasm"))).expect("a component");
        for needle in ["/root/", "/home/", "/work/", "/usr/", ".cargo/registry", "/tmp/"] {
            let found = bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
            assert!(!found, "{name}.wasm holds {needle:?}");
        }
    }
}

/// By the example's program.
#[test]
fn the_notices_are_those_of_what_is_linked() {
    let here = std::env::current_exe().expect("a path");
    let target = here.parent().and_then(|deps| deps.parent()).expect("a folder");
    let program = target.join("examples/licences");
    assert!(program.exists(), "`cargo test --workspace` builds it, as does `cargo build --example licences`");
    let written = std::process::Command::new(program).output().expect("examples/licences");
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let printed = crate::help::sandtable(&root(), &["reference", "licences"]).stdout;
    assert!(printed.as_bytes() == written.stdout, "dependencies have changed: `just licences`");
    for name in ["wasmtime 48", "serde 1", "Permission is hereby granted", "Apache License"] {
        assert!(printed.contains(name), "{name}");
    }
}

/// The profile of each dependency is hashed into the names that a component keeps: an override for one of them would give every
/// component other bytes.
#[test]
fn no_profile_of_the_host_reaches_a_guest() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("the lock");
    // Of a package that is locked in several versions all count.
    let mut packages: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for block in lock.split("[[package]]") {
        let Some(name) = block.lines().find_map(|line| line.strip_prefix("name = ")) else { continue };
        let listed = block.lines().filter_map(|line| line.strip_prefix(" \"")?.split(['"', ' ']).next());
        packages.entry(name.trim_matches('"')).or_default().extend(listed);
    }
    let (mut reached, mut todo) = (BTreeSet::new(), vec!["sandtable-policy"]);
    while let Some(name) = todo.pop() {
        if reached.insert(name) {
            todo.extend(packages.get(name).into_iter().flatten());
        }
    }
    assert!(reached.contains("wit-parser"), "{reached:?}");
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let (_, rest) = manifest.split_once("[profile.release.package]\n").expect("the levels of packages");
    let lines = rest.lines().take_while(|line| !line.is_empty()).filter(|line| !line.starts_with('#'));
    let overridden: Vec<&str> = lines.filter_map(|line| Some(line.split_once('.')?.0)).collect();
    let wrong: Vec<&&str> = overridden.iter().filter(|name| reached.contains(*name)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(overridden.len() > 5, "{overridden:?}");
}
