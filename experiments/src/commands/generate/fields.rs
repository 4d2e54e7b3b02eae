//! `sandtable reference fields`: every field of a spec for people, from the JSON Schema of the types that read it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use serde_json::Value;

/// Unit and example of each field and of each case that holds something: `Type.field`, `Type.Case`, `Type.Case.field`.
/// Units are written by hand, examples by the test `edits::examples`, from specs that are tested.
const KNOWN: &str = include_str!("fields.ron");

/// Unit and example, each empty where there is none.
type Known = BTreeMap<String, (String, String)>;

/// The page.
///
/// # Panics
/// Where `fields.ron` can't be read, which a test sees.
pub(super) fn page(schema: &Value) -> String {
    let known: Known = ron::from_str(KNOWN).expect("units and examples");
    let mut out = String::from(
        "# Every field of a spec\n\nWritten by `sandtable reference fields` from the types that read a spec; a test compares. A spec is one \
         `Experiment`. Times are texts such as `\"90s\"`, `\"20min\"`, `\"6h\"`, `\"28d\"`; sizes are texts such as `\"64GiB\"`. A field \
         without a default must be there; the unit of a ratio, a weight or a priority is 1. Examples are of specs that are tested.\n",
    );
    let mut types = VecDeque::from([("Experiment".to_string(), schema)]);
    let mut seen: Vec<String> = vec!["Experiment".into()];
    while let Some((name, of)) = types.pop_front() {
        section(&name, of, &known, &mut out);
        let mut names = Vec::new();
        references(of, &mut names);
        for name in names {
            if name != "Span" && name != "Bytes" && !seen.contains(&name) {
                types.push_back((name.clone(), &schema["$defs"][&name]));
                seen.push(name);
            }
        }
    }
    out
}

/// The types that a type names, in the order in which it does; of the whole schema only those of its own fields.
fn references(of: &Value, out: &mut Vec<String>) {
    match of {
        Value::Object(fields) => {
            if let Some(name) = fields.get("$ref").and_then(Value::as_str) {
                out.push(name.trim_start_matches("#/$defs/").to_string());
            }
            fields.iter().filter(|(key, _)| *key != "$defs").for_each(|(_, below)| references(below, out));
        }
        Value::Array(all) => all.iter().for_each(|below| references(below, out)),
        _ => {}
    }
}

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

fn about(of: &Value) -> String {
    cell(of["description"].as_str().unwrap_or_default())
}

fn section(name: &str, of: &Value, known: &Known, out: &mut String) {
    let _ = write!(out, "\n## {name}\n\n{}\n", about(of));
    if of["properties"].is_object() {
        table(name, of, known, out);
    }
    let choices = of["oneOf"].as_array().or_else(|| of["anyOf"].as_array());
    if choices.is_none() && of["enum"].is_array() {
        let _ = write!(out, "\nOne of {}.\n", words(&of["enum"]));
    }
    let Some(choices) = choices else { return };
    out.push_str("\n| | example | |\n| --- | --- | --- |\n");
    let mut with_fields = Vec::new();
    for choice in choices {
        if let Some(word) = choice["const"].as_str() {
            let _ = writeln!(out, "| `{word}` | | {} |", about(choice));
        } else if choice["enum"].is_array() {
            let _ = writeln!(out, "| {} | | {} |", words(&choice["enum"]), about(choice));
        } else if let Some((word, inner)) = choice["properties"].as_object().and_then(|fields| fields.iter().next()) {
            let fields = inner["properties"].is_object();
            let held = if fields { "…".to_string() } else { held(inner) };
            let (_, example) = known_of(&format!("{name}.{word}"), known);
            let _ = writeln!(out, "| `{word}(`{held}`)` | {example} | {} |", about(choice));
            if fields {
                with_fields.push((word, inner));
            }
        } else {
            let _ = writeln!(out, "| {} | | {} |", kind(choice), about(choice));
        }
    }
    for (word, inner) in with_fields {
        let _ = write!(out, "\n`{word}(…)`:\n");
        table(&format!("{name}.{word}"), inner, known, out);
    }
}

fn words(of: &Value) -> String {
    let all = of.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Unit and example for cells of a table.
fn known_of(point: &str, known: &Known) -> (String, String) {
    let Some((unit, example)) = known.get(point) else { return Default::default() };
    (cell(unit), if example.is_empty() { String::new() } else { format!("`{}`", cell(example)) })
}

fn table(outer: &str, of: &Value, known: &Known, out: &mut String) {
    out.push_str("\n| field | type | unit | default | example | |\n| --- | --- | --- | --- | --- | --- |\n");
    let needed = of["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (name, field) in of["properties"].as_object().into_iter().flatten() {
        let default = match (needed.iter().any(|one| one == name), &field["default"]) {
            (true, _) => String::new(),
            (false, Value::Null) => "-".into(),
            (false, Value::String(text)) => format!("`\"{text}\"`"),
            (false, other) => format!("`{other}`"),
        };
        let (unit, example) = known_of(&format!("{outer}.{name}"), known);
        let _ = writeln!(
            out,
            "| `{name}` | {} | {unit} | {} | {example} | {} |",
            kind(field),
            cell(&default),
            about(field)
        );
    }
}

/// What stands between the brackets of a choice.
fn held(of: &Value) -> String {
    match of["prefixItems"].as_array() {
        Some(items) => items.iter().map(kind).collect::<Vec<_>>().join(", "),
        None => kind(of),
    }
}

/// A type in words.
fn kind(of: &Value) -> String {
    if let Some(name) = of["$ref"].as_str() {
        let name = name.trim_start_matches("#/$defs/");
        return match name {
            "Span" => "time".into(),
            "Bytes" => "size".into(),
            _ => format!("[{name}](#{})", name.to_lowercase()),
        };
    }
    // One of something and null: it may be left out.
    if let Some(all) = of["anyOf"].as_array().or_else(|| of["oneOf"].as_array()) {
        let kinds: Vec<String> = all.iter().filter(|one| one["type"] != "null").map(kind).collect();
        return kinds.join(" or ");
    }
    if of["enum"].is_array() {
        return words(&of["enum"]);
    }
    if let Some(items) = of["prefixItems"].as_array() {
        return format!("({})", items.iter().map(kind).collect::<Vec<_>>().join(", "));
    }
    let named = |name: &str| match name {
        "string" => "text".to_string(),
        "integer" => "whole number".into(),
        "number" => "number".into(),
        "boolean" => "`true` or `false`".into(),
        "array" => format!("list of {}", kind(&of["items"])),
        "object" if of["additionalProperties"].is_object() => {
            format!("{} by name", kind(&of["additionalProperties"]))
        }
        "object" => "values by name".into(),
        _ => String::new(),
    };
    match &of["type"] {
        Value::String(name) => named(name),
        Value::Array(all) => {
            let kinds: Vec<String> =
                all.iter().filter_map(Value::as_str).filter(|one| *one != "null").map(named).collect();
            kinds.join(" or ")
        }
        _ => "any value".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_there_and_says_what_it_is() {
        let schema = schemars::schema_for!(sandtable_plan::spec::Spec);
        let page = page(schema.as_value());
        let has = |start: &str, end: &str| page.lines().any(|line| line.starts_with(start) && line.ends_with(end));
        assert!(has("| `fleet` | [FleetSpec](#fleetspec) |  |  | ", " | The machines. |"), "{page}");
        assert!(has("| `jobs` | whole number | jobs |  | `", "` | How many. |"), "{page}");
        let bare: Vec<&str> = page.lines().filter(|line| line.starts_with("| `") && line.ends_with("|  |")).collect();
        assert!(bare.is_empty(), "these say nothing:\n{}", bare.join("\n"));
        let is_number = |line: &&str| line.contains("number | ") && line.split(" | ").nth(2) == Some("");
        let without: Vec<&str> = page.lines().filter(is_number).collect();
        assert!(without.is_empty(), "numbers without a unit:\n{}", without.join("\n"));
    }
}
