//! A Kubernetes cluster, from what `kubectl get … -o json` printed or from KAI's snapshot: objects of Kueue, Volcano or KAI, or pods alone.

mod host;
mod kai;
mod kueue;
mod objects;
mod pods;
mod volcano;
mod zip;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::catalogue;
use serde_json::{Value, json};

use super::lean::lean;
use host::Asked;
use objects::{GPU, Objects, full_name, ignored_fields, list, name, quantity, text, whole};

/// The objects of files by their names.
pub type Files = Vec<(String, Value)>;

/// The file in a snapshot of KAI's.
const SNAPSHOT: &str = "snapshot.json";

/// The JSON of a file: of a zip, as KAI's snapshots are, that of its `snapshot.json`.
///
/// # Errors
/// A file that can't be read, is larger than `most` bytes, or is no JSON.
pub fn read(path: &Path, most: u64) -> Result<Value, Error> {
    let bytes = crate::trace::read_bytes(path, most)?;
    let wrong = |why: String| Error::usage(format!("{}: {why}", path.display()));
    if !bytes.starts_with(b"PK") {
        return serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()));
    }
    let text = zip::file(&bytes, SNAPSHOT, most).map_err(wrong)?;
    serde_json::from_slice(&text).map_err(|error| wrong(format!("{SNAPSHOT}: {error}")))
}

/// What a scheduler's objects say beside nodes.
struct Found {
    kind: &'static str,
    version: Option<String>,
    scheduler: Value,
    levels: Vec<String>,
    queues: Vec<Value>,
    jobs: Vec<Value>,
    /// Pods that are of these jobs, by full name.
    own: BTreeSet<String>,
    unknown: Vec<(&'static str, &'static str)>,
}

/// Reads objects at an instant; the document, as JSON.
struct Capture<'a> {
    at: jiff::Timestamp,
    kinds: &'a BTreeMap<String, String>,
    ignored: BTreeMap<String, u32>,
    refused: Vec<Value>,
}

/// A document of a cluster, from objects that were listed at an instant.
///
/// # Errors
/// What can't be read, with its object.
pub fn state(files: &Files, at: jiff::Timestamp, kinds: &BTreeMap<String, String>) -> Result<Value, String> {
    let mut objects = Objects::default();
    for (file, value) in files {
        objects.add(file, value)?;
    }
    let mut capture = Capture { at, kinds, ignored: BTreeMap::new(), refused: Vec::new() };
    if objects.of("Node").is_empty() {
        return Err("no Node among the objects: kubectl get nodes,pods,… -A -o json".into());
    }
    let found = if !objects.of("Workload").is_empty() {
        kueue::read(&mut capture, &objects)?
    } else if objects.is_snapshot || objects.of("PodGroup").iter().any(|group| api(group).contains("run.ai")) {
        kai::read(&mut capture, &objects)?
    } else if !objects.of("PodGroup").is_empty() {
        volcano::read(&mut capture, &objects)?
    } else {
        pods::read(&mut capture, &objects)?
    };
    let nodes = capture.nodes(&objects, &found)?;
    for (what, count) in ignored_fields(&objects) {
        capture.ignore(&what, count);
    }
    let mut jobs = found.jobs;
    jobs.sort_by(|a, b| {
        let submitted = |job: &Value| job["submitted_s"].as_f64().unwrap_or(0.0);
        submitted(a).total_cmp(&submitted(b)).then_with(|| a["id"].as_str().cmp(&b["id"].as_str()))
    });
    Ok(lean(json!({
        "sandtable": super::FORM,
        "at": at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "source": {"kind": found.kind, "version": found.version, "scheduler": found.scheduler},
        "levels": found.levels,
        "nodes": nodes,
        "queues": found.queues,
        "jobs": jobs,
        "reservations": [],
        "unknown": found.unknown.iter().map(|(what, why)| json!({"what": what, "why": why})).collect::<Vec<_>>(),
        "refused": capture.refused,
        "ignored": capture.ignored.iter().map(|(what, count)| json!({"what": what, "count": count})).collect::<Vec<_>>(),
    })))
}

/// The version of an object's API.
fn api(object: &Value) -> &str {
    text(object, &["apiVersion"]).unwrap_or("")
}

impl Capture<'_> {
    fn ignore(&mut self, what: &str, count: u32) {
        *self.ignored.entry(what.into()).or_default() += count;
    }

    fn refuse(&mut self, id: &str, why: &str) {
        self.refused.push(json!({"what": "jobs", "id": id, "why": why}));
    }

    /// Seconds from the instant.
    fn seconds(&self, time: Option<&str>) -> Result<Option<f64>, String> {
        let Some(time) = time else { return Ok(None) };
        let at: jiff::Timestamp =
            time.parse().map_err(|_| format!("expected a time as 2026-01-05T10:00:00Z, found {time:?}"))?;
        Ok(Some((at.as_microsecond() - self.at.as_microsecond()) as f64 / 1e6))
    }

    /// When an object was made, seconds from the instant; what was made after it was made at it.
    fn made(&self, object: &Value) -> Result<Option<f64>, String> {
        Ok(self.seconds(text(object, &["metadata", "creationTimestamp"]))?.map(|at| at.min(0.0)))
    }

    /// The catalogue's name of a kind of GPU, as nodes are labelled.
    fn kind(&self, label: &str) -> String {
        if let Some(known) = self.kinds.get(label) {
            return known.clone();
        }
        // NVIDIA's product names that are not the catalogue's words behind a prefix.
        const NAMES: [(&str, &str); 2] =
            [("NVIDIA-H100-80GB-HBM3", "H100-SXM5-80GB"), ("NVIDIA-H200", "H200-SXM-141GB")];
        let named = NAMES.iter().find(|(known, _)| *known == label).map(|(_, name)| *name);
        let bare = ["NVIDIA-", "Tesla-"].iter().find_map(|prefix| label.strip_prefix(prefix));
        let of_catalogue = named.or(bare).filter(|name| catalogue::find(name).is_some());
        of_catalogue.unwrap_or(label).to_string()
    }

    fn nodes(&mut self, objects: &Objects<'_>, found: &Found) -> Result<Vec<Value>, String> {
        // Where a scheduler has jobs, what other pods hold is not there.
        let mut others: BTreeMap<&str, (u32, Asked)> = BTreeMap::new();
        for pod in objects.of("Pod").iter().filter(|pod| !found.own.contains(&full_name(pod))) {
            let active = matches!(text(pod, &["status", "phase"]), Some("Running" | "Pending"));
            let Some(node) = text(pod, &["spec", "nodeName"]).filter(|_| active) else { continue };
            let (gpus, host) = (self.pod_gpus(pod)?, self.pod_host(pod)?);
            let held = others.entry(node).or_default();
            held.1 += host;
            if gpus > 0 {
                held.0 = held.0.saturating_add(gpus);
                self.ignore("pods of no job that hold GPUs: their node has fewer", 1);
            }
        }
        let levels: Vec<BTreeMap<String, String>> = volcano::levels(objects)?;
        let mut nodes = Vec::new();
        for node in objects.of("Node") {
            let label = |key: &str| text(node, &["metadata", "labels", key]);
            let product = label("nvidia.com/gpu.product");
            let allocatable = |key: &str| {
                let value = node.pointer("/status/allocatable").and_then(|all| all.get(key));
                value
                    .map(|value| quantity(value).map_err(|why| format!("Node {}: {key}: {why}", name(node))))
                    .transpose()
            };
            let ready = list(node, &["status", "conditions"]).iter().find(|of| text(of, &["type"]) == Some("Ready"));
            let up = ready.and_then(|of| text(of, &["status"])) == Some("True");
            let closed = node.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false);
            let taints = list(node, &["spec", "taints"]).iter();
            let count = taints.filter(|of| text(of, &["key"]) != Some("node.kubernetes.io/unschedulable")).count();
            if count > 0 {
                self.ignore("Node.spec.taints", count as u32);
            }
            let gpus = whole(allocatable(GPU)?.unwrap_or(0.0))?;
            let (held, host) = others.get(name(node)).copied().unwrap_or_default();
            let (cpus, ram_mib) = host.left_of(allocatable("cpu")?, allocatable("memory")?);
            let path: Vec<Option<&str>> = match levels.is_empty() {
                true => found.levels.iter().map(|level| label(objects.label_of(level))).collect(),
                false => levels.iter().map(|level| level.get(name(node)).map(String::as_str)).collect(),
            };
            let memory: Option<u32> = label("nvidia.com/gpu.memory").and_then(|text| text.parse().ok());
            let state = match (up, closed) {
                (false, _) => "down",
                (true, true) => "draining",
                (true, false) => "up",
            };
            nodes.push(json!({
                "name": name(node),
                "kind": product.map(|product| self.kind(product)),
                "source_kind": product,
                "gpus": gpus.saturating_sub(held),
                "memory_mib": memory.filter(|mib| *mib > 0),
                "cpus": cpus,
                "ram_mib": ram_mib,
                "levels": path,
                "state": state,
            }));
        }
        Ok(nodes)
    }

    /// GPUs that the containers of a pod ask for.
    fn pod_gpus(&self, pod: &Value) -> Result<u32, String> {
        self.template_gpus(pod).map_err(|why| format!("Pod {}: {why}", full_name(pod)))
    }

    /// CPU and memory that the containers of a pod ask for.
    fn pod_host(&self, pod: &Value) -> Result<Asked, String> {
        Asked::of(pod).map_err(|why| format!("Pod {}: {why}", full_name(pod)))
    }

    /// What those of pods ask for that have GPUs, or a part of one.
    fn host_of(&self, pods: &[&Value]) -> Result<Asked, String> {
        let mut all = Asked::default();
        for pod in pods {
            if self.pod_gpus(pod)? > 0 || kai::share(pod)?.is_some() {
                all += self.pod_host(pod)?;
            }
        }
        Ok(all)
    }

    /// GPUs of anything with a `spec` of a pod.
    fn template_gpus(&self, of: &Value) -> Result<u32, String> {
        let mut sum = 0.0;
        for container in list(of, &["spec", "containers"]) {
            let asks = |part: &str| container.get("resources")?.get(part)?.get(GPU);
            sum += asks("requests").or_else(|| asks("limits")).map_or(Ok(0.0), quantity)?;
        }
        whole(sum)
    }

    /// What pods hold, and since when: that of the first that was given a node.
    fn places(&self, pods: &[&Value]) -> Result<(Vec<Value>, Option<f64>), String> {
        let (mut on, mut since): (BTreeMap<&str, u32>, Option<f64>) = Default::default();
        for pod in pods {
            let Some(node) = text(pod, &["spec", "nodeName"]) else { continue };
            let count = on.entry(node).or_insert(0u32);
            *count = count.saturating_add(self.pod_gpus(pod)?);
            let scheduled = self.scheduled(pod)?.unwrap_or(0.0).min(0.0);
            since = Some(since.map_or(scheduled, |known| known.min(scheduled)));
        }
        Ok((on.into_iter().map(|(node, count)| json!({"node": node, "count": count})).collect(), since))
    }

    /// When a pod was given its node.
    fn scheduled(&self, pod: &Value) -> Result<Option<f64>, String> {
        let all = list(pod, &["status", "conditions"]);
        let of =
            all.iter().find(|of| text(of, &["type"]) == Some("PodScheduled") && text(of, &["status"]) == Some("True"));
        self.seconds(of.and_then(|of| text(of, &["lastTransitionTime"])))
    }
}
