//! Policies in Python in a second: their texts are put into an interpreter that was built before, with the modules that they import.
//! A whole build starts CPython to read them, and all of it is compiled anew.

use std::collections::BTreeSet;
use std::path::Path;

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_core::input;
use sandtable_run::code;
use sandtable_runtime::sandbox::blank;

use super::python::{ENTRY, componentize, modules, texts, version};

/// What every interpreter has, so that few policies need one of their own: the modules that compute, and those of the contract.
const COMMON: &str = "abc array bisect collections collections.abc contextlib copy dataclasses datetime decimal enum fractions \
    functools heapq itertools json logging math numbers operator random re statistics string struct textwrap time typing \
    wit_world.exports wit_world.imports wit_world.imports.cluster wit_world.imports.introductions wit_world.imports.log \
    wit_world.imports.predictor wit_world.imports.types";

const QUICK: &str = include_str!("../../../policies/templates/wrap/quick.py");

/// Builds the policy of a folder; `say` is told when the interpreter has to be built first.
///
/// # Errors
/// What to install, a file that can't be read, more text than there is room for.
pub fn build(folder: &Path, say: code::Say) -> Result<Vec<u8>, Error> {
    let texts = texts(folder)?;
    let wit = std::fs::canonicalize(folder.join("wit"));
    let wit = wit.map_err(|error| Error::file("open", &folder.join("wit"), &error))?;
    let own = modules(folder)?;
    let is_own = |name: &String| own.iter().any(|own| name.split('.').next() == Some(own));
    let others = texts.values().flat_map(|text| imported(text)).filter(|name| !is_own(name));
    let imports: BTreeSet<String> = COMMON.split_whitespace().map(str::to_string).chain(others).collect();
    let stand_in = QUICK
        .replace("BLANK_SIZE", &blank::SIZE.to_string())
        .replace("BLANK_FILLER", &blank::FILLER.to_string())
        .replace("BLANK_MARK", &blank::MARK.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        .replace("IMPORTS", &imports.into_iter().collect::<Vec<_>>().join(" "));
    let entry = ENTRY.replace("OWN_MODULES", "").replace("import policy as _own", "import sandtable_quick as _own");
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
    let mut made_of = vec![digest(version()?.as_bytes())];
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
    let built = componentize(wit, files, None)?;
    if let Some(cache) = cache {
        cache.put(&key, &built);
    }
    Ok(built)
}

/// Names that may be modules of others: of `import a.b, c` and of `from a import b`, which is `a` and may be `a.b`. What only looks
/// like an import, in a text say, does no harm.
fn imported(text: &str) -> Vec<String> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    let first = |list: &str| -> Vec<String> {
        let names = list.split(',').filter_map(|item| item.trim_matches(['(', ')', ' ']).split_whitespace().next());
        names.map(str::to_string).filter(|name| is_name(name)).collect()
    };
    let of_statement = |statement: &str| -> Vec<String> {
        let statement = statement.trim();
        if let Some(list) = statement.strip_prefix("import ") {
            return first(list);
        }
        let Some((module, list)) = statement.strip_prefix("from ").and_then(|rest| rest.split_once(" import")) else {
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
    // A line that goes on is one with the next.
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let without_comment = |line: &str| line.split('#').next().unwrap_or_default().to_string();
    let statements = |line: String| line.split([';', ':']).map(str::to_string).collect::<Vec<_>>();
    joined.lines().map(without_comment).flat_map(statements).flat_map(|one| of_statement(&one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_imported_is_found_by_line() {
        let text = "import json, heapq as h  # both\nfrom wit_world.imports import cluster, log\nfrom . import own\n\
                    from os import (path,\n    sep)\nx = 1\ntry:\n    import numpy.linalg\nimports = 3\n\
                    try: import shlex\nimport math; import calendar, \\\n    fractions\nfrom cmath import*\n";
        let expected = [
            "json",
            "heapq",
            "wit_world.imports",
            "wit_world.imports.cluster",
            "wit_world.imports.log",
            "os",
            "os.path",
            "numpy.linalg",
            "shlex",
            "math",
            "calendar",
            "fractions",
            "cmath",
        ];
        assert_eq!(imported(text), expected);
    }
}
