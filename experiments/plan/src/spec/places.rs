//! What a spec calls its policies and values.

use super::{json, tree::Node};

/// The names of a spec's policies, and the paths of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// What results call its policies.
    pub labels: Vec<String>,
    /// Paths of its plain values but those of claims and of the cut for tests, as `--set` takes them.
    pub paths: Vec<String>,
}

impl Places {
    /// Those of a text in RON or JSON; none: it is no spec. What the spec says need not be right.
    ///
    /// ```
    /// use sandtable_plan::spec::Places;
    ///
    /// let text = "Experiment(fleet: Model(nodes: 1), policies: [Policy(name: \"fifo\"), Policy(name: \"./a.wasm\", with: {\"b\": 1})])";
    /// let found = Places::of(text).expect("a spec");
    /// assert_eq!(found.labels, ["fifo", "a"]);
    /// assert_eq!(found.paths, ["fleet.nodes", "policies.fifo.name", "policies.a.name", "policies.a.with.b"]);
    /// ```
    pub fn of(text: &str) -> Option<Places> {
        let ron = if json::is_json(text) { json::to_ron("", text).ok()? } else { text.to_string() };
        let root = Node::parse(&ron)?;
        let policies = root.find(&ron, "policies").ok()?.items();
        let labels = policies.iter().filter_map(|policy| policy.name(&ron)).collect();
        let mut paths = root.paths(&ron);
        paths.retain(|path| !path.starts_with("claims.") && !path.starts_with("test."));
        Some(Places { labels, paths })
    }
}

/// A policy's name from what a spec calls it: the file's stem where it is a path.
///
/// ```
/// use sandtable_plan::spec::short_name;
///
/// let names = ["./mine/better.wasm", "./mine/better.star", "oci:all#better:1.2", "fifo"];
/// assert_eq!(names.map(short_name), ["better", "better", "better", "fifo"]);
/// ```
pub fn short_name(name: &str) -> &str {
    if let Ok(reference) = crate::artifact::oci::Reference::parse(name) {
        return reference.name.split(':').next().unwrap_or(name);
    }
    let file = name.rsplit('/').next().unwrap_or(name);
    file.strip_suffix(".wasm").or_else(|| file.strip_suffix(".star")).unwrap_or(file)
}
