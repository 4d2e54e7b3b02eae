//! Examples of the reference of fields: each field's value in the first spec that has one which is short enough.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::iter;
use std::path::Path;

use sandtable::spec::tree::Node;
use serde_json::Value;

use super::{Edits, MOVES, STAYS};
use crate::help::root;

/// Characters of the longest example.
const LONGEST: usize = 60;

/// Where units and examples are kept.
const FILE: &str = "experiments/src/commands/generate/fields.ron";

/// What specs have for each field and case.
struct Examples<'a> {
    schema: &'a Value,
    source: &'a str,
    found: &'a mut BTreeMap<String, String>,
}

impl Examples<'_> {
    fn text(&self, node: &Node) -> String {
        let lines = self.source[node.span.clone()].lines();
        let bare = lines.map(|line| line.split(" //").next().unwrap_or(line).trim()).filter(|line| !line.is_empty());
        let text = bare.collect::<Vec<_>>().join(" ");
        text.replace("( ", "(").replace(", )", ")").replace("[ ", "[").replace(", ]", "]").replace("PROFILES/", "")
    }

    fn keep(&mut self, point: String, node: &Node) {
        let text = self.text(node);
        if text.chars().count() <= LONGEST {
            self.found.entry(point).or_insert(text);
        }
    }

    /// Looks at a value of the type of this name.
    fn walk(&mut self, node: &Node, name: &str, of: &Value) {
        if let Some(name) = of["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            let schema = self.schema;
            return self.walk(node, name, &schema["$defs"][name]);
        }
        let cases = || ["oneOf", "anyOf"].into_iter().filter_map(|key| of[key].as_array()).flatten();
        let text = &self.source[node.span.clone()];
        let word: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        for case in cases() {
            if let Some(inner) = case["properties"].get(&word) {
                return self.case(node, &format!("{name}.{word}"), inner);
            }
        }
        // What may be left out, and what has several forms of which one is a struct.
        cases()
            .filter(|case| case["$ref"].is_string() && case["type"] != "null")
            .for_each(|case| self.walk(node, name, case));
        self.fields(node, name, of);
        node.items().iter().for_each(|item| self.walk(item, name, &of["items"]));
        node.entries().iter().for_each(|(_, value)| self.walk(value, name, &of["additionalProperties"]));
    }

    fn case(&mut self, node: &Node, point: &str, inner: &Value) {
        if inner["properties"].is_object() {
            return self.fields(node, point, inner);
        }
        self.keep(point.to_string(), node);
        let kinds = inner["prefixItems"].as_array().cloned().unwrap_or_else(|| vec![inner.clone()]);
        node.items().iter().zip(&kinds).for_each(|(item, kind)| self.walk(item, point, kind));
    }

    fn fields(&mut self, node: &Node, outer: &str, of: &Value) {
        for (field, value) in node.fields() {
            if let Some(kind) = of["properties"].get(field) {
                self.keep(format!("{outer}.{field}"), value);
                self.walk(value, outer, kind);
            }
        }
    }
}

/// The specs of a folder and those below it.
fn specs(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for path in sandtable::input::sorted(folder).expect("a folder") {
        if path.is_dir() {
            all.extend(specs(&path));
        } else if path.extension().is_some_and(|ending| ending == "ron") {
            all.push(std::fs::read_to_string(path).expect("a spec"));
        }
    }
    all.retain(|text| text.contains("Experiment("));
    all
}

#[expect(clippy::disallowed_methods, reason = "as insta has it")]
#[test]
fn examples_are_those_of_specs() {
    let schema = crate::help::sandtable(&root(), &["reference", "spec"]).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let edited = |(spec, edits): &Edits| {
        let edit = |(_, from, to): &(&str, &str, &str)| spec.replacen(from, to, 1);
        iter::once(spec.to_string()).chain(edits.iter().map(edit)).collect::<Vec<String>>()
    };
    let tested = MOVES.iter().chain(STAYS).flat_map(edited);
    let mut found = BTreeMap::new();
    for source in specs(&root().join("experiments/specs")).into_iter().chain(tested) {
        // Of what is edited some is meant to be wrong.
        let Some(node) = Node::parse(&source) else { continue };
        Examples { schema: &schema, source: &source, found: &mut found }.walk(&node, "Experiment", &schema);
    }
    let path = root().join(FILE);
    let committed = std::fs::read_to_string(&path).expect("units and examples");
    let mut known: BTreeMap<String, (String, String)> = ron::from_str(&committed).expect("units and examples");
    known.values_mut().for_each(|(_, example)| example.clear());
    for (point, example) in found {
        known.entry(point).or_default().1 = example;
    }
    known.retain(|_, (unit, example)| !unit.is_empty() || !example.is_empty());
    let mut written = String::from("{\n");
    for (point, (unit, example)) in known {
        let _ = writeln!(written, "    {point:?}: ({unit:?}, {example:?}),");
    }
    written.push_str("}\n");
    if std::env::var("INSTA_UPDATE").is_ok_and(|word| word == "always") {
        std::fs::write(&path, &written).expect("written");
    }
    assert!(
        committed == written,
        "{FILE} is not what specs have: `just bless`, then once more for docs/src/reference/fields.md"
    );
}
