//! Tables as JSON lines.

use serde_json::Value as Json;

use super::{Frame, Value};

/// What a field of a JSON object has: a value, or members that are written already.
enum Part {
    One(Json),
    Several(Vec<String>),
}

/// A member of a JSON object.
fn member(name: &str, value: &Json) -> String {
    format!("{}:{value}", Json::from(name))
}

impl Frame {
    /// A JSON object a line.
    pub fn json_lines(&self) -> String {
        let mut out = String::new();
        for row in &self.rows {
            // In the order of the columns: what reads them shows them so.
            let mut fields: Vec<(&str, Part)> = Vec::new();
            for (at, column) in self.that(|column| column.in_json) {
                let value = row.get(at).and_then(Value::json);
                match column.within {
                    None => fields.extend(value.map(|value| (column.name.as_ref(), Part::One(value)))),
                    Some(name) => {
                        let place = fields.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                            fields.push((name, Part::Several(Vec::new())));
                            fields.len() - 1
                        });
                        if let (Part::Several(inner), Some(value)) = (&mut fields[place].1, value) {
                            inner.push(member(&column.name, &value));
                        }
                    }
                }
            }
            let text = |(name, field): (&str, Part)| match field {
                Part::One(value) => member(name, &value),
                Part::Several(inner) => format!("{}:{{{}}}", Json::from(name), inner.join(",")),
            };
            out.push_str(&format!("{{{}}}\n", fields.into_iter().map(text).collect::<Vec<_>>().join(",")));
        }
        out
    }
}
