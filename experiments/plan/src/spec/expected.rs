//! What the schema expects at a place of a spec that can't be read, in words with an example: RON's own errors are about
//! its parser.

use std::ops::Range;

use serde_json::Value;

use super::typed;

/// What encloses a place of a text, outermost first.
#[derive(Debug, Default)]
pub(super) struct Around {
    frames: Vec<Frame>,
}

#[derive(Debug)]
struct Frame {
    /// `(`, `[` or `{`.
    open: char,
    /// From the name before a `(`, if there is one, up to and with the bracket.
    place: Range<usize>,
    name: String,
    /// The field whose value comes, or came last.
    field: String,
}

impl Around {
    /// Of a place, by a look at the text before it: strings and comments are passed over.
    pub(super) fn of(text: &str, until: usize) -> Around {
        let mut frames: Vec<Frame> = Vec::new();
        // The latest word, where it begins, and whether it has ended.
        let (mut word, mut begun, mut ended) = (String::new(), 0, false);
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if at >= until {
                break;
            }
            match c {
                '"' => {
                    while let Some((_, c)) = chars.next() {
                        match c {
                            '\\' => drop(chars.next()),
                            '"' => break,
                            _ => {}
                        }
                    }
                    word.clear();
                }
                '/' if chars.peek().is_some_and(|(_, next)| *next == '/') => {
                    while chars.next_if(|(_, c)| *c != '\n').is_some() {}
                }
                '/' if chars.next_if(|(_, next)| *next == '*').is_some() => {
                    let mut before = ' ';
                    for (_, c) in chars.by_ref() {
                        if (before, c) == ('*', '/') {
                            break;
                        }
                        before = c;
                    }
                }
                '(' | '[' | '{' => {
                    let from = if word.is_empty() { at } else { begun };
                    frames.push(Frame {
                        open: c,
                        place: from..at + 1,
                        name: std::mem::take(&mut word),
                        field: String::new(),
                    });
                }
                ')' | ']' | '}' => {
                    frames.pop();
                    word.clear();
                }
                ':' => {
                    if let Some(frame) = frames.last_mut().filter(|frame| frame.open == '(') {
                        frame.field = std::mem::take(&mut word);
                    }
                }
                ',' => {
                    if let Some(frame) = frames.last_mut().filter(|frame| frame.open == '(') {
                        frame.field.clear();
                    }
                    word.clear();
                }
                c if c.is_alphanumeric() || c == '_' => {
                    if std::mem::take(&mut ended) || word.is_empty() {
                        (begun, word) = (at, String::new());
                    }
                    word.push(c);
                }
                c if c.is_whitespace() => ended = true,
                _ => word.clear(),
            }
        }
        Around { frames }
    }

    /// Whether any bracket encloses it.
    pub(super) fn is_enclosed(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Whether a field's name comes next, not a value.
    fn before_a_field(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.open == '(' && frame.field.is_empty())
    }

    /// The struct, or case of an enum, whose field comes next, and how its fields are called.
    fn fields(&self) -> Option<(&str, Vec<String>)> {
        let schema = &*typed::SCHEMA;
        let name = &self.frames.last()?.name;
        let of = of_name(schema, name)?;
        Some((name, of["properties"].as_object()?.keys().map(|field| format!("`{field}: …`")).collect()))
    }

    /// What is expected as the value there; none where the schema does not say.
    fn expected(&self) -> Option<String> {
        let schema = &*typed::SCHEMA;
        let at = self.frames.iter().rposition(|frame| frame.open == '(' && !frame.field.is_empty())?;
        let frame = &self.frames[at];
        let mut wanted = field(schema, if at == 0 { "Experiment" } else { &frame.name }, &frame.field)?;
        for inner in &self.frames[at + 1..] {
            wanted = match inner.open {
                '[' => &wanted["items"],
                '{' => &wanted["additionalProperties"],
                _ => return None,
            };
        }
        words(schema, wanted)
    }
}

/// What was expected at a place and what was found, where the schema or the brackets tell better than RON; and the place.
pub(super) fn better(
    text: &str,
    span: &Range<usize>,
    around: &Around,
    error: &ron::Error,
) -> Option<(Range<usize>, String)> {
    if text.trim().is_empty() {
        let whole = "`Experiment(title: …, fleet: …, workload: …, policies: …)`";
        return Some((0..0, format!("the file is empty: expected {whole}")));
    }
    // In our own words already.
    if matches!(error, ron::Error::Message(_)) {
        return None;
    }
    // RON's place may be the blank before.
    let blank = text[span.start..].len() - text[span.start..].trim_start().len();
    let (before, rest) = text.split_at(span.start + blank);
    let start = before.len();
    // RON calls a number that the text ends with no number.
    let ends = rest[token(rest)..].trim().is_empty();
    if ends || matches!(error, ron::Error::Eof | ron::Error::ExpectedStringEnd) {
        let open = Around::of(text, text.len()).frames.pop()?;
        let close = match open.open {
            '(' => ')',
            '[' => ']',
            _ => '}',
        };
        return Some((open.place, format!("`{}{}` is never closed: expected `{close}`", open.name, open.open)));
    }
    let token = &rest[..token(rest)];
    let place = start..start + token.len();
    let first = start..start + rest.chars().next().map_or(0, char::len_utf8);
    if matches!(error, ron::Error::ExpectedMapColon) {
        let message = format!("expected `:` between a field and its value, found `{}`", &text[first.clone()]);
        return Some((first, message));
    }
    if around.before_a_field() {
        if let Some((name, _)) = rest.strip_prefix('"').and_then(|quoted| quoted.split_once('"')) {
            let message = format!("a field's name stands without quotes: `{name}: …`");
            return Some((start..start + name.len() + 2, message));
        }
        let (name, fields) = around.fields()?;
        return Some((place, format!("expected a field of `{name}`, {}, found {token}", fields.join(", "))));
    }
    if around.frames.last().is_some_and(|frame| frame.open == '{') && before.trim_end().ends_with(['{', ',']) {
        let found = token.split(':').next().unwrap_or(token).trim_end();
        let message = format!("expected a whole number as key, without quotes, found {found}");
        return matches!(error, ron::Error::ExpectedInteger).then_some((start..start + found.len(), message));
    }
    if matches!(error, ron::Error::ExpectedComma) && !before.trim_end().ends_with([':', '[', '(', '{']) {
        let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let place = if word > 0 { start..start + word } else { first };
        return Some((place.clone(), format!("expected `,` before `{}`", &text[place])));
    }
    Some((place, format!("expected {}, found {token}", around.expected()?)))
}

/// The length of the value at the beginning of a text: a string, a bracketed value, or all to the next delimiter.
fn token(text: &str) -> usize {
    if let Some(quote) = text.chars().next().filter(|c| ['"', '\''].contains(c)) {
        let inside = &text[1..];
        let closed = |end: usize| 1 + end + usize::from(inside[end..].starts_with(quote));
        return inside.find([quote, '\n']).map_or(text.len(), closed);
    }
    let mut depth = 0;
    let ends = |(_, c): &(usize, char)| {
        depth += match c {
            '(' | '[' | '{' => 1,
            ')' | ']' | '}' => -1,
            _ => 0,
        };
        depth < 0 || *c == '\n' || (*c == ',' && depth == 0)
    };
    let end = text.char_indices().find(ends).map_or(text.len(), |(at, _)| at);
    text[..end].trim_end().len()
}

/// The schema of a struct, or of a case of an enum, by the name before its `(`.
fn of_name<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    if name == "Experiment" {
        return Some(schema);
    }
    let defs = schema["$defs"].as_object()?;
    let cases = || defs.values().flat_map(|def| def["oneOf"].as_array().into_iter().flatten());
    let own = defs.get(name).filter(|def| def.get("properties").is_some());
    own.or_else(|| cases().find_map(|case| case["properties"].get(name)))
}

fn field<'a>(schema: &'a Value, outer: &str, field: &str) -> Option<&'a Value> {
    of_name(schema, outer)?["properties"].get(field)
}

/// What a schema takes, in words.
fn words(schema: &Value, wanted: &Value) -> Option<String> {
    if let Some(name) = wanted["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let def = &schema["$defs"][name];
        return match name {
            "Span" => Some("a time such as \"90s\", \"30min\", \"1.5h\" or \"2d\"".into()),
            "Bytes" => Some("a size such as \"512MiB\" or \"16GiB\"".into()),
            _ if def.get("properties").is_some() => Some(format!("`{}`", shape(name, def))),
            _ => words(schema, def),
        };
    }
    let choices = ["oneOf", "anyOf"].into_iter().filter_map(|key| wanted[key].as_array()).flatten();
    let choices: Vec<&Value> = choices.filter(|choice| choice["type"] != "null").collect();
    if let [one] = choices.as_slice() {
        return words(schema, one);
    }
    if !choices.is_empty() {
        let mut all: Vec<String> = Vec::new();
        for choice in choices {
            let named = choice["enum"].as_array().into_iter().flatten().chain([&choice["const"]]);
            all.extend(named.filter_map(Value::as_str).map(|name| format!("`{name}`")));
            let cases = choice["properties"].as_object().into_iter().flatten();
            all.extend(cases.map(|(name, inner)| format!("`{}`", shape(name, inner))));
        }
        let last = all.pop()?;
        return Some(if all.is_empty() { last } else { format!("{} or {last}", all.join(", ")) });
    }
    if let Some(names) = wanted["enum"].as_array() {
        let names: Vec<String> = names.iter().filter_map(Value::as_str).map(|name| format!("`{name}`")).collect();
        return Some(names.join(" or "));
    }
    let kind = match &wanted["type"] {
        Value::String(kind) => kind.as_str(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null")?,
        _ => return None,
    };
    Some(match kind {
        "integer" if wanted["minimum"] == 0 => "a whole number from 0".into(),
        "integer" => "a whole number".into(),
        "number" => "a number".into(),
        "boolean" => "true or false".into(),
        "string" => "a text in double quotes".into(),
        "array" => match words(schema, &wanted["items"]) {
            Some(items) => format!("a list in [ ], each {items}"),
            None => "a list in [ ]".into(),
        },
        "object" => match words(schema, &wanted["additionalProperties"]) {
            Some(values) => format!("a map in {{ }}, `key: value`, each value {values}"),
            None => "a map in { }, `key: value`".into(),
        },
        _ => return None,
    })
}

/// How a struct, or a case of an enum, is written: with the fields that it must have, at least the first.
fn shape(name: &str, of: &Value) -> String {
    if let Some(fields) = of["properties"].as_object().filter(|fields| !fields.is_empty()) {
        let required: Vec<&str> = of["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let shown: Vec<&str> = match required.is_empty() {
            true => fields.keys().take(1).map(String::as_str).collect(),
            false => required,
        };
        return format!("{name}({})", shown.iter().map(|field| format!("{field}: …")).collect::<Vec<_>>().join(", "));
    }
    let count = of["prefixItems"].as_array().map_or(1, Vec::len);
    format!("{name}({})", vec!["…"; count].join(", "))
}

#[cfg(test)]
mod tests {
    use sandtable_hardware::random::Stream;

    use crate::spec::Source;

    const GOOD: &str = "Experiment(\n  title: \"é a\", // c (\n  fleet: Model(nodes: 2, gpus: 4, kind: \"T4\"), /* ( */\n  \
        workload: Generate(jobs: 5, arrivals: Poisson(load: 0.8), gpus: {1: 1.0}),\n  policies: [Policy(name: \"fifo\")],\n)";

    #[test]
    fn whatever_is_written_is_answered() {
        let parse = |text: String| Source::new("spec.ron", text).parse().map(|_| ()).map_err(|e| e.to_string());
        assert_eq!(parse(GOOD.into()), Ok(()));
        let mut stream = Stream::new(1, "mistakes");
        let pieces =
            ["(", ")", "[", "]", "{", "}", "\"", "'", ":", ",", "→", "é", "\n", " ", "/*", "//", "1e3", "x", "-"];
        for _ in 0..1500 {
            let mut text: Vec<char> = GOOD.chars().collect();
            for _ in 0..1 + stream.integer() % 3 {
                let at = (stream.integer() % (text.len() as u64 + 1)) as usize;
                let gone = (stream.integer() % 6) as usize;
                let piece = pieces[(stream.integer() % pieces.len() as u64) as usize];
                text.splice(at..(at + gone).min(text.len()), piece.chars());
            }
            // No place that it names lies outside of the text or within a character.
            let _ = parse(text.into_iter().collect());
        }
    }

    #[test]
    fn comments_and_blanks_hide_no_bracket() {
        let unclosed = "Experiment (\n  title: \"a\", // )\n  /* ) */ fleet: Model(nodes: 2";
        let error = Source::new("spec.ron", unclosed).parse().expect_err("an error").to_string();
        assert!(error.contains("`Model(` is never closed"), "{error}");
    }
}
