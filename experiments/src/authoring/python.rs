//! What a policy in Python is made of, and what builds it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use sandtable_core::error::Error;
use sandtable_core::{input, output};

use super::tools::{answers, ran};

const TOOL: &str = "componentize-py";
/// How to get it.
const INSTALL: &str = "pip install componentize-py==0.25.1";

/// What wraps a policy in Python.
pub(super) const ENTRY: &str = include_str!("../../../policies/templates/wrap/entry.py");

/// The version of componentize-py, as it says it.
///
/// # Errors
/// How to install it.
pub(super) fn version() -> Result<String, Error> {
    let output = Command::new(tool()?).arg("--version").output();
    let output = output.map_err(|error| Error::file("run", Path::new(TOOL), &error))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// componentize-py, if it is there.
///
/// # Errors
/// How to install it.
pub(super) fn tool() -> Result<&'static str, Error> {
    let there = answers(&[TOOL], "--version").then_some(TOOL);
    there.ok_or_else(|| Error::usage(format!("no {TOOL} on this machine")).hint(INSTALL))
}

/// Builds these files of Python, of which `sandtable_entry.py` is what the host calls, and those of a policy's folder.
pub(super) fn componentize(wit: &Path, files: &[(&str, &str)], own: Option<&Path>) -> Result<Vec<u8>, Error> {
    let (tool, scratch) = (tool()?, output::scratch()?);
    for (name, text) in files {
        output::write(&scratch.path().join(name), text)?;
    }
    let output = scratch.path().join("policy.wasm");
    let mut command = Command::new(tool);
    command.arg("-d").arg(wit).args(["-w", "policy", "componentize", "-s", "-p"]).arg(scratch.path());
    if let Some(own) = own {
        command.arg("-p").arg(own);
    }
    command.args(["sandtable_entry", "-o"]).arg(&output).current_dir(own.unwrap_or(scratch.path()));
    ran(&mut command, "policy.py")?;
    std::fs::read(&output).map_err(|error| Error::file("read", &output, &error))
}

/// Folders in which no module of a policy is, and what `componentize-py bindings` writes for editors.
const OTHER: [&str; 7] =
    ["store", "tests", "wit", "wit_world", "componentize_py_async_support", "componentize_py_types.py", "poll_loop.py"];

/// The names of a folder's modules, as far as they are no part of another.
///
/// # Errors
/// A file that can't be read.
pub(super) fn modules(folder: &Path) -> Result<Vec<String>, Error> {
    let first = |path: &String| {
        let first = path.split('/').next().unwrap_or_default();
        first.strip_suffix(".py").unwrap_or(first).to_string()
    };
    let names: BTreeSet<String> = files(folder)?.keys().map(first).collect();
    Ok(names.into_iter().collect())
}

/// The modules of a folder: path to text.
///
/// # Errors
/// A file that can't be read, or is not in UTF-8.
pub(super) fn texts(folder: &Path) -> Result<BTreeMap<String, String>, Error> {
    let read = |(name, path): (String, PathBuf)| {
        let text = input::text(&path, input::SPEC)
            .map_err(|error| error.hint("--quick reads modules in UTF-8 alone; a build without it reads others"))?;
        Ok((name, text.trim_start_matches('\u{feff}').to_string()))
    };
    files(folder)?.into_iter().map(read).collect()
}

/// The files of a folder's modules, by their path in it.
fn files(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Error> {
    fn walk(folder: &Path, prefix: &str, files: &mut BTreeMap<String, PathBuf>) -> Result<(), Error> {
        for path in input::sorted(folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
            let other = prefix.is_empty() && OTHER.contains(&name.as_str());
            if other || name.starts_with('.') || name == "__pycache__" {
                continue;
            }
            if path.is_dir() {
                // An environment has all of Python's packages.
                if !path.join("pyvenv.cfg").exists() {
                    walk(&path, &format!("{prefix}{name}/"), files)?;
                }
            } else if name.ends_with(".py") {
                files.insert(format!("{prefix}{name}"), path);
            }
        }
        Ok(())
    }
    let mut files = BTreeMap::new();
    walk(folder, "", &mut files)?;
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_modules_of_the_folder_and_of_its_packages() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in [
            "policy.py",
            "own/__init__.py",
            "own/deep.py",
            "_a.py",
            "wit/x.py",
            "tests/t.py",
            "__pycache__/y.py",
            ".venv/z.py",
            "env/pyvenv.cfg",
            "env/z.py",
            "wit_world/__init__.py",
            "own/store/kept.py",
            "a.txt",
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, name).expect("written");
        }
        let texts = texts(folder.path()).expect("read");
        assert_eq!(
            texts.keys().collect::<Vec<_>>(),
            ["_a.py", "own/__init__.py", "own/deep.py", "own/store/kept.py", "policy.py"]
        );
    }
}
