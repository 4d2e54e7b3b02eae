//! Kueue's own cases of preemption without fair sharing: in one cohort, and in trees of them.

use std::collections::BTreeMap;

use sandtable_needs::needs;
use serde_json::Value;

use super::{Columns, Situation, cases, list, rules, word};
use crate::classical::{WhileBorrowing, victims};

/// What a job asks for, all of its pod sets together.
fn requests(job: &Value) -> BTreeMap<&str, f64> {
    let mut all: BTreeMap<&str, f64> = BTreeMap::new();
    let sets = list(&job["podsets"]).iter().map(|set| (&set["requests"], set["count"].as_f64().unwrap_or(1.0)));
    for (asked, count) in sets.chain([(&job["requests"], 1.0)]) {
        for (resource, amount) in asked.as_object().into_iter().flatten() {
            *all.entry(resource).or_default() += amount.as_f64().unwrap_or(0.0) * count;
        }
    }
    all
}

/// The flavor of each resource of the incoming job, and whether it has to preempt for it: as one pod set, or as the first of several.
fn assigned(case: &Value) -> BTreeMap<&str, (&str, bool)> {
    let of = &case["assignment"];
    let (of, flavor, mode) = match list(&of["PodSets"]).first() {
        Some(set) => (&set["Flavors"], "Name", "Mode"),
        None => (of, "flavor", "mode"),
    };
    let all = of.as_object().into_iter().flatten();
    all.map(|(resource, of)| (resource.as_str(), (word(&of[flavor]), word(&of[mode]).ends_with("Preempt")))).collect()
}

fn borrowing(queue: &Value) -> WhileBorrowing {
    let of = &queue["preemption"]["BorrowWithinCohort"];
    match word(&of["Policy"]).trim_start_matches("kueue.BorrowWithinCohortPolicy") {
        "" | "Never" => WhileBorrowing::Never,
        "LowerPriority" => WhileBorrowing::LowerPriority(of["MaxPriorityThreshold"].as_i64().map(|most| most as i32)),
        other => panic!("{other}"),
    }
}

/// The jobs that go, and why; no reason is told of one that was letting go before.
fn wanted(case: &Value) -> Vec<(&str, &str)> {
    let gone = list(&case["wantWorkloads"]).iter().filter(|job| job["evicted"] == true);
    let mut wanted: Vec<(&str, &str)> = gone.map(|job| (word(&job["name"]), word(&job["reason"]))).collect();
    wanted.sort_unstable();
    wanted
}

/// What a case says, where it is not met.
fn is_met(case: &Value) -> Result<(), String> {
    let assigned = assigned(case);
    let flavors = |job: &Value| -> BTreeMap<String, String> {
        let sets = list(&job["admission"]["podsets"]).iter().flat_map(|set| list(&set["assignment"]));
        let admitted = sets.map(|of| (word(&of[0]).to_string(), word(&of[1]).to_string()));
        let comes = job.get("admission").is_none();
        let chosen =
            assigned.iter().filter(|_| comes).map(|(name, (flavor, _))| (name.to_string(), flavor.to_string()));
        admitted.chain(chosen).collect()
    };
    let usage = |columns: &Columns, job: &Value| {
        let (asked, flavors) = (requests(job), flavors(job));
        columns.usage(|resource, flavor| {
            let unit = if resource == "cpu" { 1000.0 } else { 1.0 };
            let here = flavors.get(resource).is_some_and(|of| of == flavor);
            if here { (asked.get(resource).copied().unwrap_or(0.0) * unit) as i64 } else { 0 }
        })
    };
    let mut situation = Situation::of(case, list(&case["admitted"]).iter().flat_map(flavors), usage);
    let preempts = situation.columns.usage(|resource, flavor| {
        i64::from(assigned.get(resource).is_some_and(|(of, preempts)| *of == flavor && *preempts))
    });
    let contested: Vec<usize> = (0..preempts.len()).filter(|column| preempts[*column] > 0).collect();
    let rules = (rules(situation.target), borrowing(situation.target));
    let found = situation.victims(|tree, of_queue, incoming| victims(tree, of_queue, incoming, &contested, rules));
    let wanted = wanted(case);
    let same = found.len() == wanted.len()
        && found
            .iter()
            .zip(&wanted)
            .all(|(ours, theirs)| ours.0 == theirs.0 && (theirs.1.is_empty() || ours == theirs));
    if same { Ok(()) } else { Err(format!("{} {}: {found:?}, wanted {wanted:?}", case["id"], case["name"])) }
}

#[needs("data:kueue")]
#[test]
fn published_preemptions_without_fair_sharing_are_met() {
    for (file, least) in [("kueue/classical-preemption.json", 24), ("kueue/tree-preemption.json", 10)] {
        let all = cases(file);
        let differ: Vec<String> = all.iter().filter_map(|case| is_met(case).err()).collect();
        assert!(differ.is_empty(), "{file}: {} of {} differ: {differ:#?}", differ.len(), all.len());
        assert!(all.len() >= least, "{}", all.len());
    }
}
