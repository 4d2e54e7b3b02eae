//! What went into a cell's id, and why a cell would run again: what in it is not as in the nearest result that the store has.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_core::error::Error;
use sandtable_plan::{Cell, Plan};
use serde_json::Value;

use crate::reader::{inputs, leaves};
use crate::store::Store;

/// Cells of a store, by what went into them.
pub struct Kept<'a> {
    store: &'a Store,
    /// The ids of its results.
    ids: Vec<String>,
    /// Those that can be read, once one was asked for.
    cells: Option<Vec<(String, BTreeMap<String, String>)>>,
    /// Comparisons that are left.
    budget: usize,
}

/// One thing that differs: its path, its value in the nearest result, its value now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where in `cell.json`.
    pub path: String,
    /// In the result that the store has.
    pub before: Option<String>,
    /// In the cell that would run.
    pub now: Option<String>,
}

/// Beyond so many comparisons reasons are not looked for.
const MOST: usize = 2_000_000;

impl<'a> Kept<'a> {
    /// The results of a store.
    ///
    /// # Errors
    /// A folder that can't be read.
    pub fn of(store: &'a Store) -> Result<Kept<'a>, Error> {
        let ids = store.list()?.into_iter().map(|entry| entry.id).collect();
        Ok(Kept { store, ids, cells: None, budget: MOST })
    }

    /// The nearest result: of this seed, with the fewest differences; its id and what differs. None where there is nothing
    /// that half of it agrees with, and after too many comparisons. Results of `others`, by their components' digests, are
    /// not it: those are other policies of
    /// the same spec, and not an earlier version of this one.
    pub fn nearest(&mut self, cell: &Cell, others: &BTreeSet<String>) -> Option<(&str, Vec<Difference>)> {
        self.budget = self.budget.checked_sub(self.ids.len())?;
        // A result that can't be read is compared with nothing.
        let read = |id: &String| Some((id.clone(), leaves(&inputs(self.store, id).ok()?)));
        let cells = self.cells.get_or_insert_with(|| self.ids.iter().filter_map(read).collect());
        let wanted: Value = serde_json::from_str(&cell.inputs()).ok()?;
        let wanted = leaves(&wanted);
        let distance = |other: &BTreeMap<String, String>| {
            let own = wanted.iter().filter(|(path, value)| other.get(*path) != Some(value)).count();
            own + other.keys().filter(|path| !wanted.contains_key(*path)).count()
        };
        let own = |other: &BTreeMap<String, String>| {
            let digest = other.get("policy.blake3").map(|text| text.trim_matches('"').to_string()).unwrap_or_default();
            digest == cell.policy.digest || !others.contains(&digest)
        };
        let near = cells.iter().filter(|(_, other)| other.get("seed") == wanted.get("seed") && own(other));
        let (far, id, other) = near.map(|(id, other)| (distance(other), id.as_str(), other)).min_by_key(|one| one.0)?;
        if far * 2 > wanted.len() {
            return None;
        }
        Some((id, differences(other, &wanted)))
    }
}

/// What differs between two cells, leaf by leaf.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use sandtable_results::explain::differences;
///
/// let leaves = |seed: &str| BTreeMap::from([("seed".to_string(), seed.to_string()), ("judge".into(), "strict".into())]);
/// let found = differences(&leaves("0"), &leaves("1"));
/// assert_eq!((found.len(), found[0].path.as_str(), found[0].now.as_deref()), (1, "seed", Some("1")));
/// ```
pub fn differences(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<Difference> {
    let paths: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let differs = paths.into_iter().filter(|path| before.get(*path) != now.get(*path));
    let difference = |path: &String| Difference {
        path: path.clone(),
        before: before.get(path).cloned(),
        now: now.get(path).cloned(),
    };
    differs.map(difference).collect()
}

/// The components of a plan's policies.
pub fn components(plan: &Plan) -> BTreeSet<String> {
    plan.cells.iter().map(|cell| cell.policy.digest.clone()).collect()
}

/// What differs, in a few words: `policy changed`, `changed: fleet.costs.start, workload`.
pub fn reason(differences: &[Difference]) -> String {
    if differences.iter().all(|one| one.path == "build") {
        return "computed by another build".into();
    }
    // The component and its digest are one thing to a reader.
    if differences.iter().all(|one| one.path == "policy.blake3") {
        return "policy changed".into();
    }
    let mut words: Vec<String> = Vec::new();
    for difference in differences {
        let word = match difference.path.as_str() {
            "policy.blake3" => "policy".to_string(),
            "build" => "computed by another build".to_string(),
            path => path.split('.').take(3).collect::<Vec<_>>().join("."),
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    let more = words.len().saturating_sub(3);
    words.truncate(3);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("changed: {}{more}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_short() {
        let of = |path: &str| Difference { path: path.into(), before: None, now: None };
        assert_eq!(reason(&[of("policy.blake3")]), "policy changed");
        assert_eq!(reason(&[of("build")]), "computed by another build");
        assert_eq!(reason(&[of("policy.blake3"), of("fleet.costs.start")]), "changed: policy, fleet.costs.start");
        let many = [of("a"), of("b"), of("c.d.e.f"), of("c.d.e.g"), of("h")];
        assert_eq!(reason(&many), "changed: a, b, c.d.e and 1 more");
    }
}
