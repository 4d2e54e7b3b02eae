//! Kubernetes' objects as JSON: by kind, and the fields of each that are read.

use std::collections::BTreeMap;

use serde_json::Value;

/// The resource that whole GPUs are.
pub(super) const GPU: &str = "nvidia.com/gpu";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Fields that are read, by kind; all below them counts as read. Whatever else an object says is counted, by its path.
const READ: [(&str, &[&str]); 13] = [
    (
        "Node",
        &[
            "metadata.name",
            "metadata.labels",
            "spec.unschedulable",
            "spec.taints",
            "status.allocatable",
            "status.conditions",
        ],
    ),
    (
        "Pod",
        &[
            "metadata.name",
            "metadata.namespace",
            "metadata.creationTimestamp",
            "metadata.annotations",
            "metadata.labels",
            "spec.containers.resources",
            "spec.nodeName",
            "spec.priority",
            "spec.activeDeadlineSeconds",
            "status.phase",
            "status.conditions",
        ],
    ),
    ("PriorityClass", &["metadata.name", "value"]),
    ("Topology", &["metadata.name", "spec.levels"]),
    ("ResourceFlavor", &["metadata.name", "spec.nodeLabels"]),
    ("Cohort", &["metadata.name", "spec.parentName", "spec.fairSharing.weight"]),
    (
        "ClusterQueue",
        &[
            "metadata.name",
            "spec.cohortName",
            "spec.cohort",
            "spec.stopPolicy",
            "spec.fairSharing.weight",
            "spec.resourceGroups",
            "spec.preemption.withinClusterQueue",
            "spec.queueingStrategy",
        ],
    ),
    ("LocalQueue", &["metadata.name", "metadata.namespace", "spec.clusterQueue"]),
    (
        "Workload",
        &[
            "metadata.name",
            "metadata.namespace",
            "metadata.creationTimestamp",
            "spec.podSets.count",
            "spec.podSets.minCount",
            "spec.podSets.template.spec.containers.resources",
            "spec.podSets.topologyRequest",
            "spec.queueName",
            "spec.priority",
            "spec.active",
            "spec.maximumExecutionTimeSeconds",
            "status.conditions",
            "status.admission.podSetAssignments.topologyAssignment",
            "status.requeueState.count",
        ],
    ),
    (
        "Queue",
        &[
            "metadata.name",
            "spec.parent",
            "spec.parentQueue",
            "spec.priority",
            "spec.weight",
            "spec.deserved",
            "spec.guarantee",
            "spec.capability",
            "spec.reclaimable",
            "spec.dequeueStrategy",
            "spec.preemptMinRuntime",
            "spec.resources.gpu",
            "status.state",
        ],
    ),
    (
        "PodGroup",
        &[
            "metadata.name",
            "metadata.namespace",
            "metadata.creationTimestamp",
            "metadata.annotations",
            "spec.minMember",
            "spec.minResources",
            "spec.queue",
            "spec.priorityClassName",
            "spec.preemptibility",
            "spec.topologyConstraint",
            "spec.networkTopology",
            "spec.subGroups",
            "status.phase",
            "status.conditions",
            "status.schedulingConditions",
        ],
    ),
    ("BindRequest", &["metadata.namespace", "spec.podName", "spec.selectedNode", "status.phase"]),
    ("HyperNode", &["metadata.name", "spec.tier", "spec.tierName", "spec.members"]),
];

/// Said of every object, and no fact of a cluster.
const OF_OBJECTS: [&str; 2] = ["apiVersion", "kind"];

/// Objects by kind.
#[derive(Default)]
pub(super) struct Objects<'a> {
    by_kind: BTreeMap<String, Vec<&'a Value>>,
    /// They are those of a snapshot of KAI's.
    pub(super) is_snapshot: bool,
    /// What a snapshot says beside them.
    pub(super) snapshot: Option<&'a Value>,
}

impl<'a> Objects<'a> {
    /// Takes in the objects of a file: a list, one object, or a snapshot of KAI's.
    pub(super) fn add(&mut self, file: &str, value: &'a Value) -> Result<(), String> {
        if let Some(raw) = value.get("rawObjects").and_then(Value::as_object) {
            (self.is_snapshot, self.snapshot) = (true, Some(value));
            for (plural, objects) in raw {
                let kind = match plural.as_str() {
                    "priorityClasses" => "PriorityClass".to_string(),
                    "topologies" => "Topology".to_string(),
                    other => {
                        let mut kind = other.trim_end_matches('s').to_string();
                        kind.get_mut(..1).into_iter().for_each(str::make_ascii_uppercase);
                        kind
                    }
                };
                self.by_kind.entry(kind).or_default().extend(objects.as_array().into_iter().flatten());
            }
            return Ok(());
        }
        let items = match value.get("items").and_then(Value::as_array) {
            Some(items) => items.iter().collect(),
            None => vec![value],
        };
        for item in items {
            let Some(kind) = text(item, &["kind"]) else {
                return Err(format!(
                    "{file}: expected objects of Kubernetes, each with its `kind`: kubectl get … -o json"
                ));
            };
            self.by_kind.entry(kind.into()).or_default().push(item);
        }
        Ok(())
    }

    /// The objects of a kind.
    pub(super) fn of(&self, kind: &str) -> &[&'a Value] {
        self.by_kind.get(kind).map_or(&[], Vec::as_slice)
    }

    /// Labels of the levels of topologies, from the widest down, each with what jobs call it; a node itself is none.
    pub(super) fn levels(&self) -> Vec<(&'a str, &'a str)> {
        let mut levels: Vec<(&str, &str)> = Vec::new();
        for level in self.of("Topology").iter().flat_map(|topology| list(topology, &["spec", "levels"])) {
            let Some(label) = text(level, &["nodeLabel"]).filter(|label| *label != HOSTNAME) else { continue };
            if levels.iter().all(|(known, _)| *known != label) {
                levels.push((label, text(level, &["alias"]).unwrap_or(label)));
            }
        }
        levels
    }

    /// The label of nodes that says their domain at a level.
    pub(super) fn label_of(&self, level: &'a str) -> &'a str {
        self.levels().into_iter().find(|(_, alias)| *alias == level).map_or(level, |(label, _)| label)
    }

    /// Pods by the full name of what an annotation says that they are of.
    pub(super) fn pods_by(&self, annotation: &str) -> BTreeMap<String, Vec<&'a Value>> {
        let mut by: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
        for pod in self.of("Pod") {
            if let Some(of) = text(pod, &["metadata", "annotations", annotation]) {
                by.entry(format!("{}/{of}", namespace(pod))).or_default().push(pod);
            }
        }
        by
    }
}

/// A value at a path.
pub(super) fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |object, key| object.get(key))
}

/// A text at a path.
pub(super) fn text<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(object, path)?.as_str()
}

/// A list at a path; none: empty.
pub(super) fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// An object's name.
pub(super) fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"]).unwrap_or("")
}

/// An object's namespace.
pub(super) fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"]).unwrap_or("default")
}

/// An object's name with its namespace.
pub(super) fn full_name(object: &Value) -> String {
    format!("{}/{}", namespace(object), name(object))
}

/// Names and factors of units, the longer ones first.
const UNITS: [(&str, f64); 11] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
];

/// A quantity: `4`, `"63500m"`, `"528280764Ki"`.
pub(super) fn quantity(value: &Value) -> Result<f64, String> {
    let wrong = || format!("expected a quantity such as \"8\", \"63500m\" or \"64Gi\", found {value}");
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => {
            let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
            let (digits, factor) = unit.unwrap_or((text, 1.0));
            digits.parse::<f64>().ok().map(|number| number * factor)
        }
        _ => None,
    };
    number.filter(|number| number.is_finite() && *number >= 0.0).ok_or_else(wrong)
}

/// A whole number of GPUs.
pub(super) fn whole(count: f64) -> Result<u32, String> {
    let is_whole = count == libm::trunc(count) && (0.0..=1e7).contains(&count);
    if is_whole { Ok(count as u32) } else { Err(format!("expected a whole number of GPUs, found {count}")) }
}

/// How long something is in Go's words, seconds: `10m0s`, `1h30m`.
pub(super) fn span(text: &str) -> Result<f64, String> {
    let wrong = || format!("expected a time such as \"10m0s\", found {text:?}");
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, unit) = (rest[..digits].parse::<f64>().map_err(|_| wrong())?, &rest[digits..]);
        let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
        let (name, seconds) = units.iter().find(|(name, _)| unit.starts_with(name)).ok_or_else(wrong)?;
        sum += number * seconds;
        rest = &unit[name.len()..];
    }
    Ok(sum)
}

/// Fields of objects that are not read, by kind and path, and how often each is there; objects of other kinds whole.
pub(super) fn ignored_fields(objects: &Objects<'_>) -> BTreeMap<String, u32> {
    let mut ignored = BTreeMap::new();
    for (kind, all) in &objects.by_kind {
        let Some((_, read)) = READ.iter().find(|(known, _)| known == kind) else {
            *ignored.entry(format!("objects of the kind {kind}")).or_default() += all.len() as u32;
            continue;
        };
        all.iter().for_each(|object| count(kind, "", object, read, &mut ignored));
    }
    ignored.retain(|_, count| *count > 0);
    ignored
}

fn count(kind: &str, path: &str, value: &Value, read: &[&str], ignored: &mut BTreeMap<String, u32>) {
    if OF_OBJECTS.contains(&path) || read.contains(&path) {
        return;
    }
    match value {
        Value::Object(fields)
            if read
                .iter()
                .any(|known| path.is_empty() || known.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))) =>
        {
            for (key, value) in fields {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                count(kind, &below, value, read, ignored);
            }
        }
        Value::Array(values)
            if read.iter().any(|known| known.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))) =>
        {
            values.iter().for_each(|value| count(kind, path, value, read, ignored));
        }
        Value::Null => {}
        Value::Object(fields) if fields.is_empty() => {}
        Value::Array(values) if values.is_empty() => {}
        _ => *ignored.entry(format!("{kind}.{path}")).or_default() += 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_and_times_are_kubernetes_own() {
        let of = |value: Value| quantity(&value).ok();
        assert_eq!(
            [of(json!("63500m")), of(json!("2Ki")), of(json!(4)), of(json!("1.5G"))],
            [Some(63.5), Some(2048.0), Some(4.0), Some(1.5e9)]
        );
        assert!([json!("many"), json!("-1"), json!(null), json!("1e400")].into_iter().all(|value| of(value).is_none()));
        assert_eq!([span("10m0s"), span("1h30m"), span("250ms"), span("")], [Ok(600.0), Ok(5400.0), Ok(0.25), Ok(0.0)]);
        assert!(span("10").is_err() && span("m").is_err() && span("5d").is_err());
        assert!(whole(0.5).is_err() && whole(1e12).is_err());
    }

    #[test]
    fn what_is_not_read_is_counted_by_its_path() {
        let value = json!({"items": [
            {"kind": "Pod", "metadata": {"name": "a", "uid": "u", "labels": {"x": "y"}},
             "spec": {"containers": [{"image": "i", "resources": {"requests": {}}}, {"image": "j"}], "volumes": []}},
            {"kind": "Secret", "metadata": {"name": "s"}},
        ]});
        let mut objects = Objects::default();
        objects.add("f", &value).expect("objects");
        let ignored: Vec<(String, u32)> = ignored_fields(&objects).into_iter().collect();
        let expected = [("Pod.metadata.uid", 1), ("Pod.spec.containers.image", 2), ("objects of the kind Secret", 1)];
        assert_eq!(ignored, expected.map(|(what, count)| (what.to_string(), count)));
    }
}
