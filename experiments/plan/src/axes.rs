//! The axes of a sweep: their values, the combinations of them, and what `--set` and `--at` leave of them.

use sandtable_core::error::Error;

use crate::spec::{Source, tree};

/// The values of a map of the spec as they are written in the source: one for a plain value, several for a list.
pub(crate) fn texts<'a>(
    source: &Source,
    map: &str,
    keys: impl Iterator<Item = &'a String>,
) -> Vec<(String, Vec<String>)> {
    let Some(root) = tree::Node::parse(&source.text) else { return Vec::new() };
    let Ok(node) = root.find(&source.text, map) else { return Vec::new() };
    let text = |node: &tree::Node| source.text[node.span.clone()].to_string();
    // The order of the source, which is the order that its author meant.
    let known: Vec<&String> = keys.collect();
    let entries = node.entries().iter().filter(|(key, _)| known.contains(&key));
    entries
        .map(|(key, value)| match map {
            "sweep" => (key.clone(), value.items().iter().map(text).collect()),
            _ => (key.clone(), vec![text(value)]),
        })
        .collect()
}

/// The combination of this index; the last axis turns fastest.
pub(crate) fn pick(axes: &[(String, Vec<String>)], mut index: usize) -> Vec<(String, String)> {
    let mut variant = Vec::new();
    for (place, values) in axes.iter().rev() {
        variant.push((place.clone(), values[index % values.len()].clone()));
        index /= values.len();
    }
    variant.reverse();
    variant
}

/// Refuses what would be ignored: a path that is set or swept twice, or set above one that is swept.
pub(crate) fn clash(
    set: &[(String, String)],
    sweep: &[(String, Vec<String>)],
    axes: &[(String, Vec<String>)],
) -> Result<(), Error> {
    let paths: Vec<&String> = set.iter().map(|(path, _)| path).chain(sweep.iter().map(|(path, _)| path)).collect();
    if let Some(path) = paths.iter().enumerate().find(|(at, path)| paths[..*at].contains(path)).map(|(_, path)| path) {
        return Err(Error::usage(format!("`{path}` is given twice")).hint("--sweep PATH=A,B tries several values"));
    }
    for (path, _) in set {
        let above = |(swept, _): &&(String, Vec<String>)| swept.starts_with(&format!("{path}."));
        if let Some((swept, _)) = axes.iter().find(above) {
            let error = Error::usage(format!("--set {path}: the sweep of `{swept}` would overwrite a part of it"));
            return Err(error.hint(format!("set `{swept}` too")));
        }
    }
    Ok(())
}

/// Leaves of each axis the values that are wanted of it.
pub(crate) fn at(
    axes: &mut [(String, Vec<String>)],
    source: &Source,
    wanted: &[(String, String)],
) -> Result<(), Error> {
    let plain = |text: &str| text.trim().trim_matches('"').to_string();
    let same = |a: &str, b: &str| match (plain(a).parse::<f64>(), plain(b).parse::<f64>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => plain(a) == plain(b),
    };
    let paths: Vec<String> = axes.iter().map(|(path, _)| path.clone()).collect();
    for (path, values) in axes.iter_mut() {
        let own: Vec<&String> = wanted.iter().filter(|(known, _)| known == path).map(|(_, value)| value).collect();
        if let Some(value) = own.iter().find(|value| !values.iter().any(|known| same(known, value))) {
            let error = Error::usage(format!("{}: the sweep of {path} never has the value {value}", source.origin));
            return Err(error.hint(format!("it has {}", values.join(", "))));
        }
        values.retain(|known| own.is_empty() || own.iter().any(|value| same(known, value)));
    }
    match wanted.iter().find(|(path, _)| !paths.contains(path)) {
        None => Ok(()),
        Some((path, _)) => {
            let error =
                Error::usage(format!("{}: `{path}` is not swept: there are no cells to choose by it", source.origin));
            Err(match paths.is_empty() {
                true => error.hint(format!("--set {path}=… sets it")),
                false => error.hint(format!("--set {path}=… sets it; swept are {}", paths.join(", "))),
            })
        }
    }
}
