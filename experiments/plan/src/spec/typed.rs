//! JSON as a value of a spec: `{"Poisson": {"load": 0.9}}` is `Poisson(load: 0.9)` where the type of the place says so.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::Value;

use super::json::value_as_ron;
use super::tree;

/// A list, an object or a text of JSON as RON has it at a path of a spec; none: it is none of these, the path leads nowhere, or RON reads it as it is.
pub(super) fn ron_at(source: &str, path: &str, text: &str) -> Option<String> {
    let value: Value = text.trim_start().starts_with(['{', '[', '"']).then(|| serde_json::from_str(text).ok())??;
    let types = Types { schema: &SCHEMA };
    let root = tree::Node::parse(source);
    // The name that the value at a path begins with, as `Generate` of `Generate(jobs: 5)`.
    let word = |path: &str| {
        let root = root.as_ref()?;
        let node = if path.is_empty() { root } else { root.find(source, path).ok()? };
        let text = &source[node.span.clone()];
        Some(text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>())
    };
    let (mut of, mut at) = (&*SCHEMA, String::new());
    for part in tree::split(path) {
        of = types.child(of, &word(&at).unwrap_or_default(), &part)?;
        let dot = if at.is_empty() { "" } else { "." };
        let _ = write!(at, "{dot}\"{part}\"");
    }
    let mut out = Written::default();
    types.write(of, &value, &mut out);
    out.is_typed.then_some(out.text)
}

#[derive(Default)]
struct Written {
    text: String,
    /// Whether anything is written otherwise than in JSON.
    is_typed: bool,
}

impl Written {
    fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn put_typed(&mut self, text: &str) {
        self.is_typed = true;
        self.put(text);
    }

    /// A value of which nothing is known: RON has other escapes than JSON.
    fn put_plain(&mut self, value: &Value) {
        let (text, json) = (value_as_ron(value), value.to_string());
        self.is_typed |= text != json;
        self.put(&text);
    }
}

/// The JSON Schema of a spec.
pub(super) static SCHEMA: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(super::Spec).to_value());

/// The types of a spec.
struct Types<'a> {
    schema: &'a Value,
}

impl<'a> Types<'a> {
    /// The type that a reference names.
    fn named(&self, of: &'a Value) -> &'a Value {
        let name = of["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
        name.map_or(of, |name| self.named(&self.schema["$defs"][name]))
    }

    /// What it may be: itself, or one of several.
    fn forms(&self, of: &'a Value) -> Vec<&'a Value> {
        let of = self.named(of);
        let choices = ["oneOf", "anyOf"].into_iter().filter_map(|key| of[key].as_array()).flatten();
        let forms: Vec<&Value> = choices.flat_map(|one| self.forms(one)).collect();
        if forms.is_empty() { vec![of] } else { forms }
    }

    /// What the case of this name holds.
    fn case(&self, of: &'a Value, name: &str) -> Option<&'a Value> {
        let cases = ["oneOf", "anyOf"].into_iter().filter_map(|key| self.named(of)[key].as_array()).flatten();
        let mut cases = cases.flat_map(|case| match case["$ref"].is_string() {
            true => self.case(case, name),
            false => case["properties"].get(name),
        });
        cases.next()
    }

    /// The type of a field, of an element or of an entry, of a value that begins with a word.
    fn child(&self, of: &'a Value, word: &str, part: &str) -> Option<&'a Value> {
        if let Some(inner) = self.case(of, word) {
            // The parentheses of a case that holds one value are a step of their own.
            if part == "0" && !inner["properties"].is_object() && !inner["prefixItems"].is_array() {
                return Some(inner);
            }
            return self.child(inner, "", part);
        }
        let own = self.forms(of).into_iter().find_map(|form| {
            let field = form["properties"].get(part).or_else(|| form.get("items"));
            field.or_else(|| form.get("additionalProperties").filter(|below| below.is_object()))
        });
        // What is not told, as values of sweeps and parameters, is whatever it is.
        own.or_else(|| {
            self.forms(of).into_iter().find(|form| form["type"].is_null() || form["additionalProperties"] == true)
        })
    }

    fn write(&self, of: &'a Value, value: &Value, out: &mut Written) {
        let forms = self.forms(of);
        match value {
            Value::Object(fields) => {
                let only = fields.iter().next().filter(|_| fields.len() == 1);
                if let Some((inner, name, held)) =
                    only.and_then(|(name, held)| Some((self.case(of, name)?, name, held)))
                {
                    out.put_typed(name);
                    return self.write_case(inner, held, out);
                }
                let form = forms.iter().copied().find(|form| form["properties"].is_object());
                if let Some(form) = form {
                    return self.write_fields(form, fields.iter(), out);
                }
                let entry = forms.iter().filter_map(|form| form.get("additionalProperties")).find(|of| of.is_object());
                let numbered = || forms.iter().find_map(|form| form["patternProperties"].as_object()?.values().next());
                let (entry, is_number) = match (entry, numbered()) {
                    (None, Some(entry)) => (entry, true),
                    (entry, _) => (entry.unwrap_or(&Value::Null), false),
                };
                out.put("{");
                for (at, (key, held)) in fields.iter().enumerate() {
                    out.put(if at > 0 { ", " } else { "" });
                    match is_number {
                        true => out.put_typed(key),
                        false => out.put_plain(&key.as_str().into()),
                    }
                    out.put(": ");
                    self.write(entry, held, out);
                }
                out.put("}");
            }
            Value::Array(all) => match forms.iter().find_map(|form| form["prefixItems"].as_array()) {
                Some(items) => self.write_items(["(", ")"], &|at| items.get(at).unwrap_or(&Value::Null), all, out),
                None => {
                    let item = forms.iter().find_map(|form| form.get("items")).unwrap_or(&Value::Null);
                    self.write_items(["[", "]"], &|_| item, all, out);
                }
            },
            Value::String(word) if forms.iter().any(|form| is_word(form, word)) => out.put_typed(word),
            Value::Null => out.put_typed("None"),
            other => out.put_plain(other),
        }
    }

    /// What stands behind the name of a case.
    fn write_case(&self, inner: &'a Value, held: &Value, out: &mut Written) {
        match (held, inner["prefixItems"].as_array()) {
            (Value::Object(fields), _) if inner["properties"].is_object() => {
                self.write_fields(inner, fields.iter(), out);
            }
            (Value::Array(all), Some(items)) => {
                self.write_items(["(", ")"], &|at| items.get(at).unwrap_or(&Value::Null), all, out);
            }
            _ => {
                out.put("(");
                self.write(inner, held, out);
                out.put(")");
            }
        }
    }

    fn write_fields<'v>(
        &self,
        of: &'a Value,
        fields: impl Iterator<Item = (&'v String, &'v Value)>,
        out: &mut Written,
    ) {
        out.put_typed("(");
        for (at, (name, held)) in fields.enumerate() {
            out.put(if at > 0 { ", " } else { "" });
            out.put(name);
            out.put(": ");
            self.write(&of["properties"][name.as_str()], held, out);
        }
        out.put(")");
    }

    fn write_items(&self, [open, close]: [&str; 2], of: &dyn Fn(usize) -> &'a Value, all: &[Value], out: &mut Written) {
        match open {
            "(" => out.put_typed(open),
            _ => out.put(open),
        }
        for (at, held) in all.iter().enumerate() {
            out.put(if at > 0 { ", " } else { "" });
            self.write(of(at), held, out);
        }
        out.put(close);
    }
}

/// Whether a text is the name of a case without fields.
fn is_word(form: &Value, word: &str) -> bool {
    form["const"] == word || form["enum"].as_array().is_some_and(|all| all.iter().any(|one| one == word))
}

#[cfg(test)]
mod tests {
    use crate::spec::Source;

    const SPEC: &str = "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 4, kind: \"T4\"), workload: Generate(jobs: 5), \
                        policies: [Policy(name: \"fifo\")], seeds: Range(0, 2))";

    fn with(path: &str, value: &str) -> String {
        let source = Source::new("spec.ron", SPEC).with(path, value).expect("a path");
        source.parse().map_err(|error| error.to_string()).expect(path);
        source.text
    }

    #[test]
    fn json_becomes_what_its_place_asks_for() {
        let cases = [
            ("workload.arrivals", r#"{"Poisson": {"load": 0.9}}"#, "arrivals: Poisson(load: 0.9)"),
            ("workload.gpus", r#"{"1": 0.5, "2": 1}"#, "gpus: {1: 0.5, 2: 1}"),
            ("workload.users", r#"{"a": 1}"#, "users: {\"a\": 1}"),
            ("workload.durations", r#"{"Fixed": "1h"}"#, "durations: Fixed(\"1h\")"),
            (
                "workload",
                r#"{"Generate": {"jobs": 7, "near": {"required": "rack"}}}"#,
                "Generate(jobs: 7, near: (required: \"rack\"))",
            ),
            ("seeds", r#"{"Range": [3, 9]}"#, "seeds: Range(3, 9)"),
            ("seeds", r#"{"List": [3, 9]}"#, "seeds: List([3, 9])"),
            ("reveal", r#"["SoloProfile", "Progress"]"#, "reveal: [SoloProfile, Progress]"),
            ("costs", r#"{"start": "5s"}"#, "costs: (start: \"5s\")"),
            (
                "fleet",
                r#"{"Model": {"nodes": 2, "gpus": 4, "kind": "T4", "sharing": {"Packed": 2}}}"#,
                "sharing: Packed(2)",
            ),
            (
                "policies",
                r#"[{"name": "las", "with": {"a": [1, {"b": "c"}]}}]"#,
                "[(name: \"las\", with: {\"a\": [1, {\"b\": \"c\"}]})]",
            ),
            ("policies.fifo.with", r#"{"backfill": "skip"}"#, "with: {\"backfill\": \"skip\"}"),
            ("predictors", r#"{"remaining": "Oracle", "utilisation": {"Noisy": {"sigma": 0.5}}}"#, "Noisy(sigma: 0.5)"),
            (
                "sweep",
                r#"{"workload.jobs": [1, 2], "fleet.nodes": [1]}"#,
                "sweep: {\"workload.jobs\": [1, 2], \"fleet.nodes\": [1]}",
            ),
            ("workload.arrivals", "\"AtOnce\"", "arrivals: AtOnce"),
            ("title", "\"AtOnce\"", "title: \"AtOnce\""),
            ("workload", r#"{"Generate": {"jobs": 7, "declared": null}}"#, "declared: None"),
            ("interference", r#"{"mode": "Mps"}"#, "(mode: Mps)"),
            (
                "fleet",
                r#"{"Model": {"groups": [{"nodes": 1, "gpus": 4, "kind": "T4", "pool": "Inference"}]}}"#,
                "pool: Inference",
            ),
            ("references", r#"["a\u001b"]"#, "references: [\"a\\u{1b}\"]"),
        ];
        for (path, value, wanted) in cases {
            let found = with(path, value);
            assert!(found.contains(wanted), "{path}={value}: {found}");
        }
    }

    #[test]
    fn what_is_ron_stays_as_it_is() {
        for (path, value) in
            [("workload.gpus", "{1: 2}"), ("seeds", "Range(1, 2)"), ("sweep", "{\"workload.jobs\": [1, 2],}")]
        {
            assert!(with(path, value).contains(value.trim_end_matches(",}")), "{path}={value}");
        }
    }
}
