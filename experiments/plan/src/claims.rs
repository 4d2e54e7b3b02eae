//! The claims of a spec, resolved: at which values of the sweep each is stated.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_core::error::Error;
use sandtable_core::text::nearest;
use serde_json::Value;

use super::Options;
use crate::spec::{AtSpec, ClaimSpec, FigureSpec, HoldsSpec, Source};

/// A claim at the values of the sweep where it is stated.
#[derive(Clone, Debug)]
pub struct Claim {
    /// As the spec has it.
    pub spec: ClaimSpec,
    /// The values of the sweep, by path, as the spec writes them; those that `over` averages are not among them.
    pub at: Vec<(String, String)>,
    /// Its place among the claims of the spec.
    pub index: usize,
}

/// The claims of a spec at the values of the sweep where they are stated; `cells`: its policies at those values.
///
/// # Errors
/// A policy, path or value that there is not; a path of the sweep that a claim leaves open.
pub(super) fn resolve(
    source: &Source,
    claims: &[ClaimSpec],
    cells: &[(&str, &[(String, String)])],
    options: &Options,
) -> Result<Vec<Claim>, Error> {
    let mut resolved = Vec::new();
    let axes = axes(cells);
    // A cut, or a change on the command line, may leave out what a claim is about.
    let chosen = !options.set.is_empty() || !options.sweep.is_empty() || !options.at.is_empty();
    let edited = options.test || chosen;
    for (index, spec) in claims.iter().enumerate() {
        let place = |field: &str| format!("claims.{index}.{field}");
        named(source, spec, cells, &place)?;
        for (field, path) in
            spec.at.values().map(|(path, _)| ("at", path)).chain(spec.over.iter().map(|path| ("over", path)))
        {
            if !edited && !axes.contains_key(path.as_str()) {
                return Err(source.error(&place(field), &format!("`{path}` is not swept"), "here"));
            }
        }
        if let Some((path, _)) = spec.at.values().find(|(path, _)| spec.over.contains(path)) {
            let message = format!("`{path}` is in `at` too: a claim is stated at its values or over them");
            return Err(source.error(&place("over"), &message, "here"));
        }
        // What the command line sweeps the author could not know of: a claim for each of its values.
        let added = |path: &str| options.sweep.iter().any(|(added, _)| added == path);
        let open: Vec<(&str, &BTreeSet<&str>)> = axes
            .iter()
            .filter(|(path, values)| values.len() > 1 && !added(path) && !spec.over.iter().any(|over| over == *path))
            .filter(|(path, _)| !spec.at.values().any(|(fixed, _)| fixed == *path))
            .map(|(path, values)| (*path, values))
            .collect();
        if matches!(spec.at, AtSpec::Values(_)) && !open.is_empty() {
            let list = |values: &BTreeSet<&str>| values.iter().copied().collect::<Vec<_>>().join(", ");
            let paths: Vec<String> = open.iter().map(|(path, values)| format!("`{path}` ({})", list(values))).collect();
            let message = format!("the claim leaves open {}", paths.join(" and "));
            let field = if spec.at.values().next().is_some() { "at" } else { "says" };
            let error = source.error(&place(field), &message, "stated for which values?");
            return Err(error
                .hint("name a value in `at`, or `at: Each` for a claim for each, or `over: [\"…\"]` for their mean"));
        }
        // A mean over values of which only some are asked for now is another claim.
        let chosen_values = options.set.iter().chain(&options.at).map(|(path, _)| path);
        let part: Vec<&String> = chosen_values.chain(options.sweep.iter().map(|(path, _)| path)).collect();
        let rows = match spec.over.iter().find(|path| part.contains(path)) {
            Some(path) => vec![vec![(path.clone(), "all its values".to_string())]],
            None => rows(spec, cells, &axes),
        };
        // The cut of a test may leave values of the sweep out.
        if rows.is_empty() && !edited {
            return Err(source.error(&place("at"), "the sweep never has these values", "here"));
        }
        if rows.is_empty() && chosen && !options.test {
            // It is stated for values that are not asked for now: it is not measured, and is not silently left out.
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
            let at = spec.at.values().map(|(path, value)| (path.clone(), text(value))).collect();
            resolved.push(Claim { spec: spec.clone(), at, index });
        }
        resolved.extend(rows.into_iter().map(|at| Claim { spec: spec.clone(), at, index }));
    }
    Ok(resolved)
}

/// The values of each path of a sweep.
fn axes<'a>(cells: &[(&str, &'a [(String, String)])]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut axes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, value) in cells.iter().flat_map(|(_, variant)| *variant) {
        axes.entry(path).or_default().insert(value);
    }
    axes
}

/// Checks the names of a claim's policies, and its figures.
fn named(
    source: &Source,
    spec: &ClaimSpec,
    cells: &[(&str, &[(String, String)])],
    place: &dyn Fn(&str) -> String,
) -> Result<(), Error> {
    let labels = || cells.iter().map(|(label, _)| *label);
    for (field, label) in [("of", Some(&spec.of)), ("against", spec.against.as_ref())] {
        if let Some(label) = label.filter(|label| !labels().any(|known| known == label.as_str())) {
            let error = source.error(&place(field), &format!("no policy is called `{label}`"), "this policy");
            let all: BTreeSet<&str> = labels().collect();
            return Err(match nearest(label, labels()) {
                None => error.hint(format!("expected one of: {}", all.into_iter().collect::<Vec<_>>().join(", "))),
                near => hinted(error, near),
            });
        }
    }
    let bounds = match spec.holds {
        HoldsSpec::AtMost(bound) | HoldsSpec::AtLeast(bound) => (bound, bound),
        HoldsSpec::Between(least, most) => (least, most),
    };
    if !(bounds.0.is_finite() && bounds.1.is_finite() && bounds.0 <= bounds.1) {
        let message = format!("expected numbers, the smaller first, found {:?}", spec.holds);
        return Err(source.error(&place("holds"), &message, "no value is within it"));
    }
    let figures = [("published", spec.published), ("reference", spec.reference.as_ref().map(|one| one.value))];
    for (field, figure) in figures {
        if let Some((from, to)) = figure.map(FigureSpec::ends).filter(|(from, to)| from > to) {
            let message = format!("a range has the smaller figure first, found ({from}, {to})");
            return Err(source.error(&place(field), &message, "here"));
        }
    }
    Ok(())
}

fn hinted(error: Error, near: Option<&str>) -> Error {
    match near {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    }
}

/// The values of the sweep at which a claim is stated, in the order of the cells; paths of one value are not named.
fn rows(
    spec: &ClaimSpec,
    cells: &[(&str, &[(String, String)])],
    axes: &BTreeMap<&str, BTreeSet<&str>>,
) -> Vec<Vec<(String, String)>> {
    let mut rows: Vec<Vec<(String, String)>> = Vec::new();
    for (_, variant) in cells.iter().filter(|(label, _)| *label == spec.of) {
        let fixed = |path: &str| spec.at.values().any(|(fixed, _)| fixed == path);
        let holds = spec.at.values().all(|(path, wanted)| {
            let found = variant.iter().find(|(known, _)| known == path);
            found.is_some_and(|(_, value)| is(value, wanted))
        });
        let named = |path: &String| {
            fixed(path) || (!spec.over.contains(path) && axes.get(path.as_str()).is_some_and(|values| values.len() > 1))
        };
        let row: Vec<(String, String)> = variant.iter().filter(|(path, _)| named(path)).cloned().collect();
        if holds && !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows
}

/// Whether a value of the sweep, as the spec writes it, is this one.
fn is(found: &str, wanted: &Value) -> bool {
    match wanted {
        Value::Number(wanted) => found.trim().parse::<f64>().ok() == wanted.as_f64(),
        Value::String(wanted) => found.trim_matches('"') == wanted,
        Value::Bool(wanted) => found == if *wanted { "true" } else { "false" },
        _ => false,
    }
}
