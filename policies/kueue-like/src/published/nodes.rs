//! Kueue's own cases of topology-aware scheduling.

use std::collections::BTreeMap;

use sandtable_needs::needs;
use serde_json::Value;

use super::{cases, list, word};
use crate::topology::{Leaf, Nearness, assign};

/// Whether a case has something that this policy has not: slices of pod sets, groups of them, placement in balance.
fn is_beyond(case: &Value) -> bool {
    let of_set = |set: &Value| {
        let asked = set["topologyRequest"].as_object();
        set["podSetGroupName"].is_string()
            || asked.is_some_and(|asked| asked.keys().any(|key| key.to_lowercase().contains("slice")))
    };
    let gates = case["featureGates"].as_object();
    list(&case["podSets"]).iter().any(of_set) || gates.is_some_and(|gates| gates.values().any(|on| on == true))
}

/// Thousandths of a quantity that is told in whole ones.
fn milli(amount: &Value) -> i64 {
    (amount.as_f64().unwrap_or(0.0) * 1000.0).round() as i64
}

fn labels(of: &Value) -> Vec<(&str, &str)> {
    of.as_object().map_or(Vec::new(), |of| of.iter().map(|(name, value)| (name.as_str(), word(value))).collect())
}

/// A node that pods may be on: the labels of its levels, what it has free in thousandths, and the rest.
struct Host<'a> {
    values: Vec<&'a str>,
    free: BTreeMap<&'a str, i64>,
    of: &'a Value,
}

impl<'a> Host<'a> {
    fn has(&self, wanted: &[(&str, &str)]) -> bool {
        wanted.iter().all(|(name, value)| word(&self.of["labels"][name]) == *value)
    }

    fn hosts(case: &'a Value) -> Vec<Host<'a>> {
        let levels: Vec<&str> = list(&case["levels"]).iter().map(word).collect();
        let host = |node: &'a Value| {
            let values: Option<Vec<&str>> = levels.iter().map(|level| node["labels"][level].as_str()).collect();
            let amounts = node["allocatable"].as_object().expect("amounts");
            let mut free: BTreeMap<&str, i64> =
                amounts.iter().map(|(name, amount)| (name.as_str(), milli(amount))).collect();
            for pod in list(&case["pods"]).iter().filter(|pod| pod["node"] == node["name"]) {
                let asked = pod["requests"].as_object().expect("requests");
                asked.iter().for_each(|(name, amount)| *free.entry(name).or_default() -= milli(amount));
                *free.entry("pods").or_default() -= 1000;
            }
            Some(Host { values: values?, free, of: node })
        };
        let wanted = labels(&case["nodeLabels"]);
        let ready = |host: &Host| host.of["ready"] == true && host.has(&wanted);
        list(&case["nodes"]).iter().filter_map(host).filter(ready).collect()
    }
}

/// What one pod asks for, in thousandths.
fn requests(set: &Value) -> Vec<(&str, i64)> {
    let asked = set["requests"].as_object().expect("requests");
    let asked = asked.iter().map(|(name, amount)| (name.as_str(), amount.as_i64().expect("an amount")));
    asked.chain([("pods", 1000)]).collect()
}

/// Pods by the values of the domain that gets them, or how many there is room for.
type Outcome = Result<Vec<(Vec<String>, u64)>, u64>;

/// Assigns a pod set, and takes what it uses.
fn assigned<'a>(hosts: &mut [Host<'a>], levels: &[&str], set: &'a Value) -> Outcome {
    let asked = requests(set);
    let selector = labels(&set["nodeSelector"]);
    let mut frees: BTreeMap<Vec<String>, BTreeMap<String, i64>> = BTreeMap::new();
    for host in hosts.iter() {
        let leaf = frees.entry(host.values.iter().map(|value| value.to_string()).collect()).or_default();
        if host.has(&selector) && list(&host.of["taints"]).is_empty() {
            host.free.iter().for_each(|(name, amount)| *leaf.entry(name.to_string()).or_default() += amount);
        }
    }
    let room = |free: &BTreeMap<String, i64>| {
        let of = |(name, amount): &(&str, i64)| match (free.get(*name).copied().unwrap_or(0), *amount) {
            (_, 0) => u64::MAX,
            (free, amount) => (free / amount).max(0) as u64,
        };
        asked.iter().map(of).min().unwrap_or(0)
    };
    // Domains of a level by their values down to it: the map has them in this order.
    let depth = levels.len();
    let numbers = |level: usize| {
        let mut of_level: Vec<&[String]> = frees.keys().map(|values| &values[..=level]).collect();
        of_level.dedup();
        of_level
    };
    let numbered: Vec<Vec<&[String]>> = (0..depth).map(numbers).collect();
    let number = |values: &[String], level: usize| {
        numbered[level].iter().position(|of| *of == &values[..=level]).expect("a domain") as u32
    };
    let paths: Vec<Vec<u32>> =
        frees.keys().map(|values| (0..depth).map(|level| number(values, level)).collect()).collect();
    let leaves: Vec<Leaf> =
        paths.iter().zip(frees.values()).map(|(path, free)| Leaf { path, pods: room(free) }).collect();
    let level = |of: &Value| levels.iter().position(|level| word(of) == *level);
    let request = &set["topologyRequest"];
    let near = match (level(&request["Required"]), level(&request["Preferred"])) {
        (Some(level), _) => Nearness::Within { level, widest: Some(level) },
        (_, Some(level)) => Nearness::Within { level, widest: None },
        _ => Nearness::Unconstrained,
    };
    let found = assign(&leaves, set["count"].as_u64().expect("a count"), near)?;
    let values: Vec<Vec<String>> = frees.keys().cloned().collect();
    for (leaf, pods) in &found {
        // Where a leaf has several nodes, only their sum counts.
        let host = hosts.iter_mut().find(|host| host.values == values[*leaf]).expect("a node");
        asked.iter().for_each(|(name, amount)| *host.free.entry(name).or_default() -= amount * *pods as i64);
    }
    Ok(found.into_iter().map(|(leaf, pods)| (values[leaf].clone(), pods)).collect())
}

/// What the case wants. Where it fails, the number in Kueue's message is how many would fit.
fn wanted(set: &Value) -> Outcome {
    if let Some(why) = set["wantReason"].as_str() {
        let number = why.split_once("fit only ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        return Err(number.unwrap_or(0));
    }
    let domain = |of: &Value| {
        let values: Vec<String> = list(&of["Values"]).iter().map(|value| word(value).to_string()).collect();
        (values, of["Count"].as_u64().expect("a count"))
    };
    Ok(list(&set["wantAssignment"]["Domains"]).iter().map(domain).collect())
}

/// Whether each pod set of a case gets the domains that Kueue gives it.
fn is_met(case: &Value) -> Result<(), String> {
    let levels: Vec<&str> = list(&case["levels"]).iter().map(word).collect();
    let mut hosts = Host::hosts(case);
    for set in list(&case["podSets"]) {
        let wanted = wanted(set);
        let told = list(&set["wantAssignment"]["Levels"]).len();
        // Domains of hosts are told by the host alone.
        let told_part = |(values, pods): (Vec<String>, u64)| (values[values.len() - told..].to_vec(), pods);
        let found: Outcome = assigned(&mut hosts, &levels, set).map(|all| all.into_iter().map(told_part).collect());
        if found != wanted {
            return Err(format!("{} {}: {found:?}, wanted {wanted:?}", case["id"], case["name"]));
        }
    }
    Ok(())
}

#[needs("data:kueue")]
#[test]
fn published_places_are_met() {
    let all = cases("kueue/topology.json");
    let (within, beyond): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|case| !is_beyond(case));
    let differ: Vec<String> = within.iter().filter_map(|case| is_met(case).err()).collect();
    assert!(differ.is_empty(), "{} of {} differ: {differ:#?}", differ.len(), within.len());
    assert!(all.iter().filter(|case| case["plain"] == true).all(|case| !is_beyond(case)));
    let met = beyond.iter().filter(|case| is_met(case).is_ok()).count();
    assert!(within.len() >= 33 && met >= 7, "{} of {}, beyond {met} of {}", within.len(), all.len(), beyond.len());
}
