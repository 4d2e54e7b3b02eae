//! A policy to begin with, in each language: it builds, passes `policy check` and runs at once.

use std::path::{Path, PathBuf};

use sandtable_core::error::Error;
use sandtable_core::output;
use sandtable_plan::artifact::built::Language;

/// One file of a template: where it goes and what it says; `NAME` is the policy's.
type File = (&'static str, &'static str);

macro_rules! files {
    ($from:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../policies/", $from, $name)))),*]
    };
}

/// The SDK, so that a policy builds outside of a checkout.
pub const SDK: &[File] = files!(
    "sdk/": "src/lib.rs", "src/backfill.rs", "src/backlog.rs", "src/cluster.rs", "src/cluster/cpu.rs", "src/cluster/cut.rs", "src/cluster/elastic.rs", "src/cluster/live.rs", "src/cluster/nodes.rs", "src/cluster/resync.rs", "src/cluster/timers.rs", "src/cluster/trial.rs", "src/colocate.rs", "src/config.rs",
    "src/alloc.rs", "src/driver.rs", "src/free_ahead.rs", "src/pair_speeds.rs", "src/host.rs", "src/job.rs", "src/job_map.rs", "src/line.rs", "src/moves.rs", "src/node_set.rs", "src/place.rs", "src/rooms.rs", "src/rounds.rs", "src/predictor.rs", "src/queue_tree.rs", "src/quota.rs",
    "src/random.rs", "src/ranking.rs", "src/parts.rs", "src/residents.rs", "src/sharing.rs", "src/shortest.rs", "src/squeeze.rs", "src/fixed_order.rs", "src/testing.rs", "src/time_left.rs", "src/waiting_first.rs", "src/walk.rs",
);
/// Shipped policies that one may begin with: their sources need the SDK alone.
pub const SHIPPED: &[(&str, &[File])] = &[
    ("fifo", files!("fifo/": "src/lib.rs")),
    ("sjf", files!("sjf/": "src/lib.rs")),
    ("srtf", files!("srtf/": "src/lib.rs")),
    ("srsf", files!("srsf/": "src/lib.rs")),
    ("las", files!("las/": "src/lib.rs", "src/gittins.rs", "src/lists.rs", "src/queues.rs")),
    ("edf", files!("edf/": "src/lib.rs", "src/admission.rs")),
    ("priority", files!("priority/": "src/lib.rs")),
    ("share", files!("share/": "src/lib.rs")),
];
const WIT: &str = include_str!("../../../wit/policy.wit");
const RUST: &[File] =
    files!("templates/rust/": "Cargo.toml", "src/lib.rs", "vendor/sandtable-policy/Cargo.toml", "README.md");
const PYTHON: &[File] = files!(
    "templates/python/": "policy.py", "sandtable_policy.py", "README.md", "pyrightconfig.json", "tests/test_policy.py", "tests/fleet.py",
    // What componentize-py generates of the contract: for editors, and for tests without WebAssembly.
    "tests/stubs/componentize_py_types.py", "tests/stubs/wit_world/__init__.py", "tests/stubs/wit_world/exports/__init__.py",
    "tests/stubs/wit_world/exports/scheduler.py", "tests/stubs/wit_world/imports/__init__.py",
    "tests/stubs/wit_world/imports/cluster.py", "tests/stubs/wit_world/imports/introductions.py",
    "tests/stubs/wit_world/imports/log.py", "tests/stubs/wit_world/imports/predictor.py",
    "tests/stubs/wit_world/imports/types.py",
);
const JS: &[File] = files!(
    "templates/js/": "policy.js", "sandtable-policy.js", "sandtable-policy.d.ts", "sandtable-contract.d.ts", "package.json",
    "jsconfig.json", "README.md", "tests/policy.test.js", "tests/fleet.js",
);
const C: &[File] = files!("templates/c/": "policy.c", "README.md");
const TRY: &str = include_str!("../../../policies/templates/try.ron");

/// The shipped policies that a new one in Rust can begin with.
pub fn beginnings() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The files of a new policy, in the order of their names; in Rust with the sources of a shipped one, if that is named.
///
/// # Errors
/// A shipped policy that no new one can begin with.
pub fn files(language: Language, name: &str, from: Option<&str>) -> Result<Vec<(PathBuf, String)>, Error> {
    let own = match language {
        Language::Rust => RUST,
        Language::Python => PYTHON,
        Language::Js => JS,
        Language::C => C,
    };
    let named = |(path, text): &File| (PathBuf::from(path), text.replace("NAME", name));
    let mut all: Vec<(PathBuf, String)> = own.iter().map(named).collect();
    if let Some(from) = from {
        let sources = SHIPPED.iter().find(|(shipped, _)| *shipped == from).filter(|_| language == Language::Rust);
        let Some((_, sources)) = sources else {
            let names: Vec<&str> = beginnings().collect();
            let error = Error::usage(format!("no policy of this language begins with `{from}`"));
            return Err(error.hint(format!("in Rust one can begin with {}", names.join(", "))));
        };
        all.retain(|(path, _)| !path.starts_with("src"));
        // It is called otherwise: that is all that differs.
        let renamed = |text: &str| text.replacen(&format!("name: \"{from}\","), &format!("name: \"{name}\","), 1);
        all.extend(sources.iter().map(|(path, text)| (PathBuf::from(path), renamed(text))));
    }
    if language == Language::Rust {
        let vendored = SDK.iter().map(|(path, text)| (Path::new("vendor/sandtable-policy").join(path), (*text).into()));
        all.extend(vendored);
    }
    // The SDK is built from the contract in its own folder, the other languages from the one of the project.
    let contract = if language == Language::Rust { "vendor/sandtable-policy/wit/policy.wit" } else { "wit/policy.wit" };
    all.push((contract.into(), WIT.into()));
    all.push(("try.ron".into(), TRY.replace("NAME", name)));
    all.push((".gitignore".into(), "/target\n/store\n/bindings\n/node_modules\n__pycache__\n".into()));
    all.sort();
    Ok(all)
}

/// Names that cargo or the SDK has.
const TAKEN: [&str; 7] = ["alloc", "core", "proc-macro", "sandtable-policy", "std", "test", "wit-bindgen"];

/// Whether a policy can be called so.
///
/// # Errors
/// What a name is.
pub fn is_name(name: &str) -> Result<(), Error> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !begins || !name.chars().all(fits) || name.len() > 64 || name.ends_with('-') {
        let error = Error::usage(format!("{name:?} can't be a policy's name"));
        return Err(error.hint("small letters, digits and `-`, a letter first: my-policy"));
    }
    match TAKEN.contains(&name) {
        true => Err(Error::usage(format!("{name:?} can't be a policy's name: a crate of that name is there already"))),
        false => Ok(()),
    }
}

/// Writes a new policy into a folder that is not there yet, or is empty.
///
/// # Errors
/// A name that can't be one, a shipped policy that no new one can begin with, a folder with something in it, a file that can't
/// be written.
pub fn write(language: Language, name: &str, from: Option<&str>, folder: &Path) -> Result<(), Error> {
    is_name(name)?;
    if folder.exists() && !sandtable_core::input::sorted(folder)?.is_empty() {
        return Err(Error::usage(format!("{}: there is something in this folder already", folder.display())));
    }
    for (path, text) in files(language, name, from)? {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|error| Error::file("make", parent, &error))?;
        output::write(&path, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_begins_with_each_shipped_policy_that_is_offered_and_only_its_name_differs() {
        for (shipped, sources) in SHIPPED {
            let all = files(Language::Rust, "mine", Some(shipped)).expect("one that is offered");
            let of = |path: &str| all.iter().find(|(own, _)| own == Path::new(path)).map(|(_, text)| text.as_str());
            let ours = of("src/lib.rs").expect("a source");
            assert!(ours.contains("name: \"mine\","), "{shipped} keeps its name");
            assert_eq!(ours.replacen("name: \"mine\",", &format!("name: \"{shipped}\","), 1), sources[0].1);
            assert_eq!(all.iter().filter(|(path, _)| path.starts_with("src")).count(), sources.len());
            // A module that is not taken along would not build.
            let declared = sources
                .iter()
                .flat_map(|(_, text)| text.lines())
                .filter(|line| line.starts_with("mod ") && line.ends_with(';'));
            assert_eq!(declared.count(), sources.len() - 1, "{shipped}");
        }
        assert!(files(Language::Rust, "mine", Some("pollux")).is_err());
        assert!(files(Language::Python, "mine", Some("las")).is_err());
    }
}
