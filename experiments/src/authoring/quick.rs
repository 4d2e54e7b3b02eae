//! Policies in Python in a second: their texts are put into an interpreter that was built before, with the modules that they import.
//! A whole build starts CPython to read them, and all of it is compiled anew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_core::input;
use sandtable_run::code;
use sandtable_runtime::sandbox::blank;

use super::guests::{PYTHON_ENTRY, componentize_py, python_version};

/// What every interpreter has, so that few policies need one of their own: the modules that compute, and those of the contract.
const COMMON: [&str; 34] = [
    "abc",
    "array",
    "bisect",
    "collections",
    "collections.abc",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "itertools",
    "json",
    "logging",
    "math",
    "numbers",
    "operator",
    "random",
    "re",
    "statistics",
    "string",
    "struct",
    "textwrap",
    "time",
    "typing",
    "wit_world.exports",
    "wit_world.imports",
    "wit_world.imports.cluster",
    "wit_world.imports.introductions",
    "wit_world.imports.log",
    "wit_world.imports.types",
];

const QUICK: &str = include_str!("../../../policies/templates/wrap/quick.py");

/// Builds the policy of a folder; `say` is told when the interpreter has to be built first.
///
/// # Errors
/// What to install, a file that can't be read, more text than there is room for.
pub fn build(folder: &Path, say: code::Say) -> Result<Vec<u8>, Error> {
    let texts = texts(folder)?;
    let wit = std::fs::canonicalize(folder.join("wit"));
    let wit = wit.map_err(|error| Error::file("open", &folder.join("wit"), &error))?;
    let is_own = |name: &String| {
        let first = name.split('.').next().unwrap_or_default();
        texts.contains_key(&format!("{first}.py")) || texts.keys().any(|path| path.starts_with(&format!("{first}/")))
    };
    let others = texts.values().flat_map(|text| imported(text)).filter(|name| !is_own(name));
    let imports: BTreeSet<String> = COMMON.into_iter().map(str::to_string).chain(others).collect();
    let stand_in = QUICK
        .replace("BLANK_SIZE", &blank::SIZE.to_string())
        .replace("BLANK_FILLER", &blank::FILLER.to_string())
        .replace("BLANK_MARK", &blank::MARK.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        .replace("IMPORTS", &imports.into_iter().collect::<Vec<_>>().join(" "));
    let entry = PYTHON_ENTRY.replace("import policy as _own", "import sandtable_quick as _own");
    let files = [("sandtable_entry.py", &*entry), ("sandtable_quick.py", &*stand_in)];
    let base = base(&wit, &files, say)?;
    let content = serde_json::to_string(&texts).map_err(|error| Error::internal(error.to_string()))?;
    blank::fill(&base, content.as_bytes()).map_err(|why| {
        let error = Error::usage(format!("{}: its texts can't be put into an interpreter: {why}", folder.display()));
        error.hint("`sandtable policy build` without --quick has no such bound")
    })
}

/// The interpreter, which is kept: building it takes some ten seconds.
fn base(wit: &Path, files: &[(&str, &str)], say: code::Say) -> Result<Vec<u8>, Error> {
    let mut made_of = vec![digest(python_version()?.as_bytes())];
    made_of.extend(files.iter().map(|(_, text)| digest(text.as_bytes())));
    for path in input::sorted(wit)? {
        made_of.push(digest(&std::fs::read(&path).map_err(|error| Error::file("read", &path, &error))?));
    }
    let key = digest(made_of.concat().as_bytes());
    let cache = code::interpreters(say);
    if let Some(kept) = cache.as_ref().and_then(|cache| cache.get(&key)) {
        return Ok(kept);
    }
    say("building an interpreter with what the policy imports: once, until it imports something else");
    let built = componentize_py(wit, files, None)?;
    if let Some(cache) = cache {
        cache.put(&key, &built);
    }
    Ok(built)
}

/// Folders in which no module of a policy is.
const OTHER: [&str; 3] = ["store", "tests", "wit"];

/// The modules of a folder: path to text.
fn texts(folder: &Path) -> Result<BTreeMap<String, String>, Error> {
    fn walk(folder: &Path, prefix: &str, texts: &mut BTreeMap<String, String>) -> Result<(), Error> {
        for path in input::sorted(folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
            let own = !name.starts_with('.') && name != "__pycache__";
            if path.is_dir() && own && !OTHER.contains(&name.as_str()) {
                walk(&path, &format!("{prefix}{name}/"), texts)?;
            } else if own && name.ends_with(".py") {
                let text = std::fs::read_to_string(&path).map_err(|error| Error::file("read", &path, &error))?;
                texts.insert(format!("{prefix}{name}"), text);
            }
        }
        Ok(())
    }
    let mut texts = BTreeMap::new();
    walk(folder, "", &mut texts)?;
    Ok(texts)
}

/// Names that may be modules of others: of `import a.b, c` and of `from a import b`, which is `a` and may be `a.b`.
fn imported(text: &str) -> Vec<String> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    let first = |list: &str| -> Vec<String> {
        let names = list.split(',').filter_map(|item| item.split_whitespace().next());
        names.map(|name| name.trim_matches(['(', ')']).to_string()).filter(|name| is_name(name)).collect()
    };
    let of_line = |line: &str| -> Vec<String> {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(list) = line.strip_prefix("import ") {
            return first(list);
        }
        let Some((module, list)) = line.strip_prefix("from ").and_then(|rest| rest.split_once(" import ")) else {
            return Vec::new();
        };
        let module = module.trim();
        if module.starts_with('.') || !is_name(module) {
            return Vec::new();
        }
        std::iter::once(module.to_string())
            .chain(first(list).into_iter().map(|name| format!("{module}.{name}")))
            .collect()
    };
    text.lines().flat_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_imported_is_found_by_line() {
        let text = "import json, heapq as h  # both\nfrom wit_world.imports import cluster, log\nfrom . import own\n\
                    from os import (path,\n    sep)\nx = 1\ntry:\n    import numpy.linalg\nimports = 3\n";
        let expected = [
            "json",
            "heapq",
            "wit_world.imports",
            "wit_world.imports.cluster",
            "wit_world.imports.log",
            "os",
            "os.path",
            "numpy.linalg",
        ];
        assert_eq!(imported(text), expected);
    }

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
            "a.txt",
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, name).expect("written");
        }
        let texts = texts(folder.path()).expect("read");
        assert_eq!(texts.keys().collect::<Vec<_>>(), ["_a.py", "own/__init__.py", "own/deep.py", "policy.py"]);
    }
}
