//! Kueue's own cases of preemption without fair sharing: in one cohort, and in trees of them.

use std::collections::BTreeMap;

use sandtable_needs::needs;
use serde_json::Value;

use super::{Columns, cases, list, rules, word};
use crate::classical::{WhileBorrowing, victims};
use crate::preempt::{Candidate, Incoming, Reason};
use crate::tree::{NodeId, Usage};

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

/// The flavor of each resource, and whether a job has to preempt for it.
fn assigned(case: &Value) -> BTreeMap<&str, (&str, bool)> {
    let sets = list(&case["assignment"]["PodSets"]);
    let flavors = sets.first().map_or(&case["assignment"], |set| &set["Flavors"]);
    let of = |(resource, of): (&'_ String, &'_ Value)| {
        let either = |a: &str, b: &str| if of[a].is_string() { of[a].clone() } else { of[b].clone() };
        (resource.clone(), either("flavor", "Name"), either("mode", "Mode"))
    };
    let found: Vec<(String, Value, Value)> = flavors.as_object().into_iter().flatten().map(of).collect();
    let known = |resource: &str| flavors.as_object().and_then(|all| all.keys().find(|key| *key == resource));
    found
        .iter()
        .filter_map(|(resource, flavor, mode)| {
            let resource = known(resource)?;
            let of = &flavors[resource.as_str()];
            let flavor = if flavor == &of["flavor"] { word(&of["flavor"]) } else { word(&of["Name"]) };
            Some((resource.as_str(), (flavor, word(mode).ends_with("Preempt"))))
        })
        .collect()
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

/// The name of a reason.
fn told(reason: Reason) -> &'static str {
    match reason {
        Reason::InQueue => "InClusterQueue",
        Reason::Reclamation => "InCohortReclamation",
        Reason::ReclamationWhileBorrowing => "InCohortReclaimWhileBorrowing",
        Reason::FairSharing => "InCohortFairSharing",
    }
}

/// What a case says, where it is not met.
fn is_met(case: &Value) -> Result<(), String> {
    let queues: Vec<&Value> = list(&case["clusterQueues"]).iter().collect();
    let cohorts = list(&case["cohorts"]);
    let nodes: Vec<&Value> = queues.iter().copied().chain(cohorts).collect();
    let flavors = |job: &Value| -> BTreeMap<String, String> {
        let sets = list(&job["admission"]["podsets"]).iter().flat_map(|set| list(&set["assignment"]));
        sets.map(|of| (word(&of[0]).to_string(), word(&of[1]).to_string())).collect()
    };
    let admitted: Vec<&Value> = list(&case["admitted"]).iter().collect();
    let used = admitted.iter().flat_map(|job| flavors(job));
    let columns = Columns::of(&nodes, used);
    let (mut tree, ids) = columns.tree(&queues, cohorts);
    let usage = |job: &Value, flavors: &BTreeMap<String, String>| -> Usage {
        let asked = requests(job);
        columns.usage(|resource, flavor| {
            let unit = if resource == "cpu" { 1000.0 } else { 1.0 };
            let here = flavors.get(resource).is_some_and(|of| of == flavor);
            if here { (asked.get(resource).copied().unwrap_or(0.0) * unit) as i64 } else { 0 }
        })
    };
    let mut candidates: BTreeMap<NodeId, Vec<Candidate>> = BTreeMap::new();
    let mut named: Vec<&Value> = admitted.clone();
    named.sort_by_key(|job| word(&job["name"]));
    for (id, job) in (0..).zip(&named) {
        let queue = ids[word(&job["queue"])];
        let usage = usage(job, &flavors(job));
        tree.take(queue, &usage);
        candidates.entry(queue).or_default().push(Candidate {
            id,
            usage,
            priority: job["priority"].as_i64().unwrap_or(0) as i32,
            submitted: job["created"].as_i64().unwrap_or(0),
            reserved: job["reserved_at"].as_i64().unwrap_or(0),
            evicted: job["evicted"].as_bool().unwrap_or(false),
        });
    }
    candidates.values_mut().for_each(|of| of.sort_by(Candidate::order));
    let of_queue = |queue| candidates.get(&queue).map_or(&[][..], Vec::as_slice);
    let target = queues.iter().find(|queue| queue["name"] == case["targetCQ"]).expect("a queue");
    let assigned = assigned(case);
    let chosen = assigned.iter().map(|(resource, (flavor, _))| (resource.to_string(), flavor.to_string())).collect();
    let incoming = Incoming {
        queue: ids[word(&case["targetCQ"])],
        usage: usage(&case["incoming"], &chosen),
        priority: case["incoming"]["priority"].as_i64().unwrap_or(0) as i32,
        submitted: case["incoming"]["created"].as_i64().unwrap_or(0),
    };
    let preempts = columns.usage(|resource, flavor| {
        i64::from(assigned.get(resource).is_some_and(|(of, preempts)| *of == flavor && *preempts))
    });
    let contested: Vec<usize> = (0..preempts.len()).filter(|column| preempts[*column] > 0).collect();
    let before = format!("{tree:?}");
    let found = victims(&mut tree, &of_queue, &incoming, &contested, (rules(target), borrowing(target)));
    assert_eq!(format!("{tree:?}"), before, "{}", case["name"]);
    let mut found: Vec<(&str, &str)> =
        found.iter().map(|(at, _, why)| (word(&named[*at as usize]["name"]), told(*why))).collect();
    found.sort_unstable();
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
