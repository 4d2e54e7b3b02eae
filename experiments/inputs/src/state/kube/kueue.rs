//! Kueue: workloads, local queues, cluster queues and cohorts. v1beta2, and v1beta1 by the same names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::host::Asked;
use super::objects::{GPU, Objects, at, full_name, list, name, namespace, quantity, text, whole};
use super::{Capture, Found, api};

/// The annotation of pods that says which workload they are of.
const OF: &str = "kueue.x-k8s.io/workload";

pub(super) fn read(capture: &mut Capture<'_>, objects: &Objects<'_>) -> Result<Found, String> {
    let kinds = flavors(capture, objects);
    let mut queues = Vec::new();
    for cohort in objects.of("Cohort") {
        queues.push(json!({
            "name": format!("cohort/{}", name(cohort)), "kind": "cohort",
            "parent": text(cohort, &["spec", "parentName"]).map(|parent| format!("cohort/{parent}")), "weight": weight(cohort)?,
        }));
    }
    for queue in objects.of("ClusterQueue") {
        let cohort = text(queue, &["spec", "cohortName"]).or_else(|| text(queue, &["spec", "cohort"]));
        let cohort = cohort.filter(|cohort| !cohort.is_empty());
        // A cohort need not be an object.
        let there = |known: &&Value, of: &str| known["name"] == format!("cohort/{of}");
        if let Some(of) = cohort.filter(|of| queues.iter().all(|known| !there(&known, of))) {
            queues.push(json!({"name": format!("cohort/{of}"), "kind": "cohort"}));
        }
        let quota = |key: &str| quota(queue, key, &kinds).map_err(|why| format!("ClusterQueue {}: {why}", name(queue)));
        let within = text(queue, &["spec", "preemption", "withinClusterQueue"]).unwrap_or("Never");
        let strict = text(queue, &["spec", "queueingStrategy"]) == Some("StrictFIFO");
        queues.push(json!({
            "name": name(queue), "kind": "cluster-queue", "parent": cohort.map(|cohort| format!("cohort/{cohort}")),
            "open": matches!(text(queue, &["spec", "stopPolicy"]), None | Some("None")), "weight": weight(queue)?,
            "guaranteed": quota("nominalQuota")?, "borrow": quota("borrowingLimit")?, "lend": quota("lendingLimit")?,
            "preempt": if within == "Never" { "off" } else { "lower-priority" },
            "order": if strict { "strict" } else { "best-effort" },
        }));
    }
    let mut charged: BTreeMap<String, String> = BTreeMap::new();
    for queue in objects.of("LocalQueue") {
        let of = text(queue, &["spec", "clusterQueue"]).unwrap_or("");
        let known = queues.iter().any(|known| known["name"] == of);
        charged.insert(full_name(queue), of.to_string());
        queues.push(json!({"name": full_name(queue), "kind": "local-queue", "parent": known.then_some(of)}));
    }
    let (pods, mut jobs, mut own) = (objects.pods_by(OF), Vec::new(), BTreeSet::new());
    for workload in objects.of("Workload") {
        let pods = pods.get(&full_name(workload)).map_or(&[][..], Vec::as_slice);
        own.extend(pods.iter().map(|pod| full_name(pod)));
        if is(workload, "Finished") {
            capture.ignore("workloads that are over", 1);
            continue;
        }
        let job =
            job(capture, workload, pods, &charged).map_err(|why| format!("Workload {}: {why}", full_name(workload)))?;
        jobs.push(job);
    }
    let version = objects.of("Workload").first().map(|workload| api(workload).to_string());
    Ok(Found {
        kind: "kueue",
        version,
        scheduler: json!({"kind": "kueue", "order": "queues"}),
        levels: objects.levels().into_iter().map(|(label, _)| label.to_string()).collect(),
        queues,
        jobs,
        own,
        unknown: vec![
            ("jobs.on.gpus", "which GPUs a pod has is known to its kubelet alone"),
            ("queues.preempt", "reclaimWithinCohort and borrowWithinCohort have no place"),
            ("jobs.nodes", "GPUs of a pod are on one node, and pods may share one: only their sum is here"),
        ],
    })
}

/// The kind of GPU of each flavor: that of the nodes with its labels where they have one, else its name.
fn flavors(capture: &Capture<'_>, objects: &Objects<'_>) -> BTreeMap<String, String> {
    let kind = |flavor: &Value| {
        let labels = at(flavor, &["spec", "nodeLabels"]).and_then(Value::as_object);
        let has = |node: &&&Value| {
            labels.into_iter().flatten().all(|(key, value)| at(node, &["metadata", "labels", key]) == Some(value))
        };
        let products = objects.of("Node").iter().filter(has);
        let kinds: BTreeSet<String> = products
            .filter_map(|node| text(node, &["metadata", "labels", "nvidia.com/gpu.product"]))
            .map(|product| capture.kind(product))
            .collect();
        if kinds.len() == 1 { kinds.into_iter().next() } else { None }
    };
    let of = |flavor: &&Value| (name(flavor).to_string(), kind(flavor).unwrap_or_else(|| name(flavor).to_string()));
    objects.of("ResourceFlavor").iter().map(of).collect()
}

fn weight(of: &Value) -> Result<f64, String> {
    let value = at(of, &["spec", "fairSharing", "weight"]);
    value.map_or(Ok(1.0), |value| quantity(value).map_err(|why| format!("{}: weight: {why}", name(of))))
}

/// GPUs of a queue by kind.
fn quota(queue: &Value, key: &str, kinds: &BTreeMap<String, String>) -> Result<Option<BTreeMap<String, f64>>, String> {
    let mut quotas: BTreeMap<String, f64> = BTreeMap::new();
    let flavors = list(queue, &["spec", "resourceGroups"]).iter().flat_map(|group| list(group, &["flavors"]));
    for flavor in flavors {
        let flavor_name = text(flavor, &["name"]).unwrap_or("");
        for resource in list(flavor, &["resources"]).iter().filter(|of| text(of, &["name"]) == Some(GPU)) {
            let Some(value) = resource.get(key).filter(|value| !value.is_null()) else { continue };
            let kind = kinds.get(flavor_name).map_or(flavor_name, String::as_str);
            *quotas.entry(kind.to_string()).or_default() += quantity(value)?;
        }
    }
    Ok(Some(quotas).filter(|quotas| !quotas.is_empty()))
}

fn condition<'a>(of: &'a Value, kind: &str) -> Option<&'a Value> {
    list(of, &["status", "conditions"]).iter().find(|of| text(of, &["type"]) == Some(kind))
}

fn is(of: &Value, kind: &str) -> bool {
    condition(of, kind).and_then(|of| text(of, &["status"])) == Some("True")
}

fn job(
    capture: &Capture<'_>,
    workload: &Value,
    pods: &[&Value],
    charged: &BTreeMap<String, String>,
) -> Result<Value, String> {
    let (mut gpus, mut least, mut first, mut host) = (0, None, None, Asked::default());
    let mut each_of: BTreeMap<&str, u32> = BTreeMap::new();
    for set in list(workload, &["spec", "podSets"]) {
        let each = capture.template_gpus(&set["template"])?;
        let count = whole(set.get("count").map_or(Ok(1.0), quantity)?)?;
        gpus = u32::saturating_add(gpus, each.saturating_mul(count));
        if each > 0 {
            host += Asked::of(&set["template"])?.times(count);
        }
        each_of.insert(text(set, &["name"]).unwrap_or("main"), each);
        if let Some(fewest) = set.get("minCount").filter(|fewest| !fewest.is_null()) {
            let fewest = each.saturating_mul(whole(quantity(fewest)?)?);
            least = Some(least.unwrap_or(0u32).saturating_add(fewest));
        }
        first = first.or(Some(set));
    }
    let admitted = is(workload, "Admitted");
    let held = at(workload, &["spec", "active"]).and_then(Value::as_bool) == Some(false);
    let started = match condition(workload, "Admitted").filter(|_| admitted) {
        Some(of) => capture.seconds(text(of, &["lastTransitionTime"]))?.map(|at| at.min(0.0)),
        None => None,
    };
    let mut on = Vec::new();
    for set in list(workload, &["status", "admission", "podSetAssignments"]) {
        let each = each_of.get(text(set, &["name"]).unwrap_or("main")).copied().unwrap_or(0);
        for (node, count) in assigned(&set["topologyAssignment"])? {
            on.push(json!({"node": node, "count": each.saturating_mul(count)}));
        }
    }
    if on.is_empty() && admitted {
        on = capture.places(pods)?.0;
    }
    let asked = first.map_or(&Value::Null, |set| &set["topologyRequest"]);
    let level = text(asked, &["required"]).map(|level| (level, "required"));
    let level = level.or_else(|| text(asked, &["preferred"]).map(|level| (level, "preferred")));
    let queue = format!("{}/{}", namespace(workload), text(workload, &["spec", "queueName"]).unwrap_or(""));
    let known = charged.contains_key(&queue);
    let why = condition(workload, "QuotaReserved").and_then(|of| text(of, &["reason"])).filter(|_| !admitted);
    Ok(json!({
        "id": full_name(workload), "queues": known.then(|| vec![queue.clone()]),
        "charges": charged.get(&queue).filter(|of| !of.is_empty()).map(|of| vec![of]),
        "state": if admitted { "running" } else if held { "held" } else { "waiting" },
        "why": why.map(|reason| json!({"code": code(reason), "said": reason})),
        "priority": at(workload, &["spec", "priority"]), "submitted_s": capture.made(workload)?, "started_s": started,
        "held_s": started.map(|at| -at), "gpus": gpus, "least_gpus": least,
        "cpus": host.cpus(), "ram_mib": host.mib(),
        "limit_s": at(workload, &["spec", "maximumExecutionTimeSeconds"]),
        "level": level.map(|(level, mode)| json!({"name": level, "mode": mode})), "on": on,
        "restarts": at(workload, &["status", "requeueState", "count"]),
    }))
}

fn code(reason: &str) -> &'static str {
    match reason {
        "WaitingForQuota" => "quota",
        "TopologyPlacementFailed" => "topology",
        "ExceedsMaxQuota" | "NoMatchingFlavor" => "never",
        "Suspended" => "held",
        _ => "unknown",
    }
}

/// Nodes, and pods on each, of an assignment: in slices (v1beta2), or one domain after the other.
fn assigned(of: &Value) -> Result<Vec<(String, u32)>, String> {
    let mut found = Vec::new();
    for domain in list(of, &["domains"]) {
        let node = list(domain, &["values"]).last().and_then(Value::as_str).unwrap_or("");
        found.push((node.to_string(), whole(domain.get("count").map_or(Ok(1.0), quantity)?)?));
    }
    for slice in list(of, &["slices"]) {
        let count = whole(slice.get("domainCount").map_or(Ok(0.0), quantity)?)? as usize;
        let last = list(slice, &["valuesPerLevel"]).last().unwrap_or(&Value::Null);
        let nodes: Vec<String> = match text(last, &["universal"]) {
            Some(node) => vec![node.to_string(); count.min(1)],
            None => {
                let part = |key: &str| text(last, &["individual", key]).unwrap_or("");
                let roots = list(last, &["individual", "roots"]).iter().filter_map(Value::as_str);
                roots.map(|root| format!("{}{root}{}", part("prefix"), part("suffix"))).collect()
            }
        };
        for (at, node) in nodes.into_iter().enumerate() {
            let pods = &slice["podCounts"];
            let count = pods.get("universal").or_else(|| pods.get("individual")?.get(at));
            found.push((node, whole(count.map_or(Ok(1.0), quantity)?)?));
        }
    }
    Ok(found)
}
