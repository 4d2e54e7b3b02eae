//! KAI-Scheduler: pod groups, queues, bind requests; from its snapshot, or from dumped objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::objects::{Objects, at, full_name, list, name, namespace, span, text};
use super::{Capture, Found};

/// The annotation of pods that says which group they are of.
const OF: &str = "pod-group-name";
/// The priority of a group whose class is not known: that of training.
const USUAL: i64 = 50;
/// Groups of at least this priority are not preempted, unless they say otherwise.
const NOT_PREEMPTED: i64 = 100;

/// The queues.
fn queues(objects: &Objects<'_>) -> Result<Vec<Value>, String> {
    let mut queues = Vec::new();
    for queue in objects.of("Queue") {
        let gpu = |key: &str| at(queue, &["spec", "resources", "gpu"]).and_then(|gpu| gpu.get(key)?.as_f64());
        // -1: none.
        let some = |value: Option<f64>| value.filter(|value| *value >= 0.0).map(|value| json!({"*": value}));
        let least = text(queue, &["spec", "preemptMinRuntime"]).map(span).transpose();
        queues.push(json!({
            "name": name(queue), "kind": "queue", "parent": text(queue, &["spec", "parentQueue"]),
            "priority": at(queue, &["spec", "priority"]).cloned().unwrap_or(json!(100)), "weight": gpu("overQuotaWeight"),
            "guaranteed": some(gpu("quota")), "limit": some(gpu("limit")), "preempt": "reclaim",
            "least_run_s": least.map_err(|why| format!("Queue {}: {why}", name(queue)))?, "order": "best-effort",
        }));
    }
    Ok(queues)
}

pub(super) fn read(capture: &mut Capture<'_>, objects: &Objects<'_>) -> Result<Found, String> {
    let queues = queues(objects)?;
    let classes: BTreeMap<&str, i64> =
        objects.of("PriorityClass").iter().filter_map(|class| Some((name(class), class["value"].as_i64()?))).collect();
    // A pod that is being bound has its node, though its object does not say so yet.
    let bound: BTreeMap<String, &str> = objects
        .of("BindRequest")
        .iter()
        .filter(|request| text(request, &["status", "phase"]) != Some("Failed"))
        .filter_map(|request| {
            let pod = text(request, &["spec", "podName"])?;
            Some((format!("{}/{pod}", namespace(request)), text(request, &["spec", "selectedNode"])?))
        })
        .collect();
    let (pods, mut jobs, mut own) = (objects.pods_by(OF), Vec::new(), BTreeSet::new());
    for group in objects.of("PodGroup") {
        let Some(pods) = pods.get(&full_name(group)) else {
            capture.ignore("pod groups without pods", 1);
            continue;
        };
        own.extend(pods.iter().map(|pod| full_name(pod)));
        if !list(group, &["spec", "subGroups"]).is_empty() {
            capture.refuse(&full_name(group), "its sub-groups have no place");
            continue;
        }
        if pods.iter().any(|pod| annotation(pod, "gpu-memory").is_some()) {
            capture.refuse(&full_name(group), "it asks for memory of a GPU, which has no place");
            continue;
        }
        let wrong = |why: String| format!("PodGroup {}: {why}", full_name(group));
        let mut job = job(capture, group, pods, &bound).map_err(wrong)?;
        let class = text(group, &["spec", "priorityClassName"]).and_then(|class| classes.get(class).copied());
        let priority = class.or_else(|| at(pods[0], &["spec", "priority"])?.as_i64()).unwrap_or(USUAL);
        job["priority"] = priority.into();
        job["preemptible"] = match text(group, &["spec", "preemptibility"]) {
            Some("preemptible") => true,
            Some("non-preemptible") => false,
            _ => priority < NOT_PREEMPTED,
        }
        .into();
        let queue = text(group, &["spec", "queue"]).unwrap_or("");
        if queues.iter().any(|known| known["name"] == queue) {
            job["queues"] = json!([queue]);
        }
        jobs.push(job);
    }
    let said = objects.snapshot.unwrap_or(&Value::Null);
    let tick = at(said, &["schedulerParams", "schedulePeriod"]).and_then(Value::as_f64).map(|nanos| nanos / 1e9);
    let actions = text(said, &["config", "actions"]).unwrap_or("kai");
    Ok(Found {
        kind: "kai",
        version: text(said, &["discovery", "serverVersion", "gitVersion"]).map(str::to_string),
        scheduler: json!({"kind": actions, "order": "queues", "tick_s": tick}),
        levels: objects.levels().into_iter().map(|(_, alias)| alias.to_string()).collect(),
        queues,
        jobs,
        own,
        unknown: vec![
            ("jobs.limit_s", "KAI has no time limit"),
            ("jobs.on.gpus", "which whole GPUs a pod has is known to its kubelet alone"),
            ("nodes.back_s", "a cordon has no end"),
            ("jobs.nodes", "GPUs of a pod are on one node, and pods may share one: only their sum is here"),
        ],
    })
}

fn annotation<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    text(pod, &["metadata", "annotations", key])
}

/// Thousandths of a GPU that a pod asks for, where it asks for a part.
pub(super) fn share(pod: &Value) -> Result<Option<u32>, String> {
    let Some(said) = annotation(pod, "gpu-fraction") else { return Ok(None) };
    let part: Option<f64> = said.parse().ok().filter(|part| *part > 0.0 && *part <= 1.0);
    let wrong = || format!("gpu-fraction: expected a part of a GPU, found {said:?}");
    Ok(Some((part.ok_or_else(wrong)? * 1000.0) as u32))
}

fn job(capture: &Capture<'_>, group: &Value, pods: &[&Value], bound: &BTreeMap<String, &str>) -> Result<Value, String> {
    let milli = share(pods[0])?;
    let (mut on, mut started, mut gpus): (Vec<Value>, Option<f64>, u32) = Default::default();
    for pod in pods {
        let own = share(pod)?;
        let count = if own.is_some() { 1 } else { capture.pod_gpus(pod)? };
        gpus = gpus.saturating_add(count);
        let node = text(pod, &["spec", "nodeName"]).or_else(|| bound.get(&full_name(pod)).copied());
        let Some(node) = node else { continue };
        on.push(json!({"node": node, "count": count, "milli": own}));
        let since = capture.scheduled(pod)?.unwrap_or(0.0).min(0.0);
        started = Some(started.map_or(since, |known: f64| known.min(since)));
    }
    let host = capture.host_of(pods)?;
    let fewest = at(group, &["spec", "minMember"]).and_then(Value::as_u64).unwrap_or(0) as usize;
    let least = (fewest > 0 && fewest < pods.len()).then(|| gpus / pods.len() as u32 * fewest as u32);
    let asked = &group["spec"]["topologyConstraint"];
    let level = text(asked, &["requiredTopologyLevel"]).map(|level| (level, "required"));
    let level = level.or_else(|| text(asked, &["preferredTopologyLevel"]).map(|level| (level, "preferred")));
    let said = list(group, &["status", "schedulingConditions"]).last();
    let why = on.is_empty().then(|| {
        let reason = said.and_then(|said| text(said, &["reason"]));
        let of_topology = said.and_then(|said| text(said, &["message"])).is_some_and(|said| said.contains("topology"));
        let code = match reason {
            Some("NonPreemptibleOverQuota" | "OverLimit") => "quota",
            Some("QueueDoesNotExist") => "never",
            _ if of_topology => "topology",
            _ => "unknown",
        };
        json!({"code": code, "said": reason})
    });
    Ok(json!({
        "id": full_name(group), "state": if on.is_empty() { "waiting" } else { "running" }, "why": why,
        "submitted_s": capture.made(group)?, "started_s": started, "held_s": started.map(|at| -at), "gpus": gpus,
        "cpus": host.cpus(), "ram_mib": host.mib(), "least_gpus": least, "share_milli": milli, "level": level.map(|(level, mode)| json!({"name": level, "mode": mode})), "on": on,
    }))
}
