//! Volcano: pod groups, queues and hyper-nodes, v1beta1.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::{Value, json};

use super::objects::{GPU, Objects, at, full_name, list, name, quantity, text, whole};
use super::{Capture, Found, api};

/// The annotation of pods that says which group they are of.
const OF: &str = "scheduling.k8s.io/group-name";

pub(super) fn read(capture: &mut Capture<'_>, objects: &Objects<'_>) -> Result<Found, String> {
    let mut queues = Vec::new();
    for queue in objects.of("Queue") {
        let of = |path: &[&str]| {
            let gpus = at(queue, path).and_then(|of| of.get(GPU));
            let gpus = gpus.map(|gpus| quantity(gpus).map_err(|why| format!("Queue {}: {why}", name(queue))));
            gpus.transpose().map(|gpus| gpus.map(|gpus| json!({"*": gpus})))
        };
        let guaranteed = match of(&["spec", "deserved"])? {
            None => of(&["spec", "guarantee", "resource"])?,
            deserved => deserved,
        };
        let reclaimable = at(queue, &["spec", "reclaimable"]).and_then(Value::as_bool).unwrap_or(true);
        let strict = text(queue, &["spec", "dequeueStrategy"]) == Some("fifo");
        queues.push(json!({
            "name": name(queue), "kind": "queue", "parent": text(queue, &["spec", "parent"]),
            "open": text(queue, &["status", "state"]) == Some("Open"),
            "priority": at(queue, &["spec", "priority"]).cloned().unwrap_or(json!(0)),
            "weight": at(queue, &["spec", "weight"]).cloned().unwrap_or(json!(1)), "guaranteed": guaranteed,
            "limit": of(&["spec", "capability"])?, "preempt": if reclaimable { "reclaim" } else { "off" },
            "order": if strict { "strict" } else { "best-effort" },
        }));
    }
    let priorities: BTreeMap<&str, &Value> =
        objects.of("PriorityClass").iter().map(|class| (name(class), &class["value"])).collect();
    let tiers = tiers(objects);
    let (pods, mut jobs, mut own) = (objects.pods_by(OF), Vec::new(), BTreeSet::new());
    for group in objects.of("PodGroup") {
        let pods = pods.get(&full_name(group)).map_or(&[][..], Vec::as_slice);
        own.extend(pods.iter().map(|pod| full_name(pod)));
        if matches!(text(group, &["status", "phase"]), Some("Completed")) {
            capture.ignore("pod groups that are over", 1);
            continue;
        }
        let wrong = |why: String| format!("PodGroup {}: {why}", full_name(group));
        let mut job = job(capture, group, pods, &tiers).map_err(wrong)?;
        job["priority"] = text(group, &["spec", "priorityClassName"])
            .and_then(|class| priorities.get(class))
            .copied()
            .cloned()
            .into();
        let queue = text(group, &["spec", "queue"]).unwrap_or("default");
        if queues.iter().any(|known| known["name"] == queue) {
            job["queues"] = json!([queue]);
        }
        jobs.push(job);
    }
    let mut unknown = vec![
        ("jobs.limit_s", "Volcano has none"),
        ("jobs.nodes", "GPUs of a pod are on one node, and pods may share one: only their sum is here"),
    ];
    if priorities.is_empty() {
        unknown.push(("jobs.priority", "PriorityClasses were not dumped"));
    }
    Ok(Found {
        kind: "volcano",
        version: objects.of("PodGroup").first().map(|group| api(group).to_string()),
        scheduler: json!({"kind": "volcano", "order": "queues", "tick_s": 1}),
        levels: tiers.into_iter().rev().map(|(_, name)| name).collect(),
        queues,
        jobs,
        own,
        unknown,
    })
}

fn job(capture: &Capture<'_>, group: &Value, pods: &[&Value], tiers: &BTreeMap<i64, String>) -> Result<Value, String> {
    let sizes = pods.iter().map(|pod| capture.pod_gpus(pod)).collect::<Result<Vec<_>, _>>()?;
    let asked = at(group, &["spec", "minResources"]).and_then(|of| of.get(GPU)).map(quantity).transpose()?;
    // Its pods may not have been made yet.
    let gpus =
        if pods.is_empty() { whole(asked.unwrap_or(0.0))? } else { sizes.iter().copied().fold(0, u32::saturating_add) };
    let fewest = at(group, &["spec", "minMember"]).and_then(Value::as_u64).unwrap_or(0) as usize;
    let alike = sizes.windows(2).all(|pair| pair[0] == pair[1]);
    let least = (alike && fewest > 0 && fewest < sizes.len()).then(|| sizes[0].saturating_mul(fewest as u32));
    let (on, started) = capture.places(pods)?;
    let host = capture.host_of(pods)?;
    let topology = &group["spec"]["networkTopology"];
    let level = match (text(topology, &["highestTierName"]), topology["highestTierAllowed"].as_i64()) {
        (Some(name), _) => Some(name.to_string()),
        (None, Some(tier)) => Some(tiers.get(&tier).cloned().unwrap_or_else(|| format!("tier{tier}"))),
        (None, None) => None,
    };
    let mode = if text(topology, &["mode"]) == Some("hard") { "required" } else { "preferred" };
    let unschedulable =
        list(group, &["status", "conditions"]).iter().rfind(|of| text(of, &["type"]) == Some("Unschedulable"));
    let why = unschedulable.and_then(|of| text(of, &["reason"])).filter(|_| on.is_empty());
    let code = |reason: &str| if reason == "NotEnoughResources" { "no-free-gpus" } else { "unknown" };
    Ok(json!({
        "id": full_name(group), "state": if on.is_empty() { "waiting" } else { "running" },
        "why": why.map(|reason| json!({"code": code(reason), "said": reason})), "submitted_s": capture.made(group)?,
        "started_s": started, "held_s": started.map(|at| -at), "gpus": gpus, "least_gpus": least,
        "cpus": host.cpus(), "ram_mib": host.mib(),
        "level": level.map(|level| json!({"name": level, "mode": mode})), "on": on,
    }))
}

/// Names of tiers, which count upwards.
fn tiers(objects: &Objects<'_>) -> BTreeMap<i64, String> {
    let mut tiers = BTreeMap::new();
    for of in objects.of("HyperNode") {
        let tier = of["spec"]["tier"].as_i64().unwrap_or(0);
        let name = text(of, &["spec", "tierName"]).map_or_else(|| format!("tier{tier}"), str::to_string);
        tiers.entry(tier).or_insert(name);
    }
    tiers
}

/// The hyper-node of each node at each tier, from the widest down.
pub(super) fn levels(objects: &Objects<'_>) -> Result<Vec<BTreeMap<String, String>>, String> {
    let all: BTreeMap<&str, &Value> = objects.of("HyperNode").iter().map(|of| (name(of), *of)).collect();
    let nodes: Vec<&str> = objects.of("Node").iter().map(|node| name(node)).collect();
    let mut levels = Vec::new();
    for tier in tiers(objects).keys().rev() {
        let mut level = BTreeMap::new();
        for (hyper, of) in all.iter().filter(|(_, of)| of["spec"]["tier"].as_i64().unwrap_or(0) == *tier) {
            for node in members(of, &all, &nodes, objects, 0)? {
                level.insert(node.to_string(), (*hyper).to_string());
            }
        }
        levels.push(level);
    }
    Ok(levels)
}

/// Hyper-nodes of hyper-nodes: no tree is deeper.
const DEEPEST: u32 = 32;

fn members<'a>(
    of: &Value,
    all: &BTreeMap<&str, &'a Value>,
    nodes: &[&'a str],
    objects: &Objects<'a>,
    depth: u32,
) -> Result<BTreeSet<&'a str>, String> {
    if depth > DEEPEST {
        return Err(format!("HyperNode {}: it is in itself", name(of)));
    }
    let mut found = BTreeSet::new();
    for member in list(of, &["spec", "members"]) {
        let selector = &member["selector"];
        let pattern = text(selector, &["regexMatch", "pattern"]).map(Regex::new).transpose();
        let pattern = pattern.map_err(|error| format!("HyperNode {}: {error}", name(of)))?;
        let labels = at(selector, &["labelMatch", "matchLabels"]).and_then(Value::as_object);
        let named = |other: &str| {
            text(selector, &["exactMatch", "name"]) == Some(other)
                || pattern.as_ref().is_some_and(|of| of.is_match(other))
        };
        if text(member, &["type"]) == Some("HyperNode") {
            for (_, other) in all.iter().filter(|(other, _)| named(other)) {
                found.extend(members(other, all, nodes, objects, depth + 1)?);
            }
            continue;
        }
        let labelled = |node: &str| {
            let object = objects.of("Node").iter().find(|of| name(of) == node);
            labels.is_some_and(|labels| {
                labels
                    .iter()
                    .all(|(key, value)| object.and_then(|of| at(of, &["metadata", "labels", key])) == Some(value))
            })
        };
        found.extend(nodes.iter().filter(|node| named(node) || labelled(node)));
    }
    Ok(found)
}
