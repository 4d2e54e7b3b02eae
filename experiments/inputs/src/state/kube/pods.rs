//! Pods alone, as the default scheduler has them: each is a job.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::objects::{Objects, at, full_name, list, text};
use super::{Capture, Found};

pub(super) fn read(capture: &mut Capture<'_>, objects: &Objects<'_>) -> Result<Found, String> {
    let (mut jobs, mut own) = (Vec::new(), BTreeSet::new());
    for pod in objects.of("Pod") {
        let gpus = capture.pod_gpus(pod)?;
        if gpus == 0 {
            capture.ignore("pods without GPUs", 1);
            continue;
        }
        if !matches!(text(pod, &["status", "phase"]), Some("Running" | "Pending")) {
            capture.ignore("pods that are over", 1);
            continue;
        }
        own.insert(full_name(pod));
        let (on, started) = capture.places(&[pod])?;
        let host = capture.host_of(&[pod])?;
        let scheduled =
            list(pod, &["status", "conditions"]).iter().find(|of| text(of, &["type"]) == Some("PodScheduled"));
        let reason = scheduled.and_then(|of| text(of, &["reason"])).filter(|_| on.is_empty());
        let gated = reason == Some("SchedulingGated");
        let state = match (on.is_empty(), gated) {
            (false, _) => "running",
            (true, true) => "held",
            (true, false) => "waiting",
        };
        let code = |_: &str| if gated { "held" } else { "unknown" };
        jobs.push(json!({
            "id": full_name(pod), "state": state, "why": reason.map(|reason| json!({"code": code(reason), "said": reason})),
            "priority": at(pod, &["spec", "priority"]), "submitted_s": capture.made(pod)?, "started_s": started,
            "held_s": started.map(|at| -at), "gpus": gpus, "nodes": json!({"gpus_each": gpus}),
            "cpus": host.cpus(), "ram_mib": host.mib(),
            "limit_s": at(pod, &["spec", "activeDeadlineSeconds"]).and_then(Value::as_f64), "on": on,
        }));
    }
    Ok(Found {
        kind: "kubernetes",
        version: None,
        scheduler: json!({"kind": "pods", "order": "priority"}),
        levels: objects.levels().into_iter().map(|(label, _)| label.to_string()).collect(),
        queues: Vec::new(),
        jobs,
        own,
        unknown: vec![("jobs.on.gpus", "which GPUs a pod has is known to its kubelet alone")],
    })
}
