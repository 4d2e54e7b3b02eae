//! Faults of scripts, drawn at their place in the text.

use sandtable_core::diagnostic::{at, offset};
use sandtable_plan::Cell;
use serde_json::Value;

/// A message that names a place of a script, above the line that it is of; none where it names no place, or none of this text.
pub(crate) fn drawn(origin: &str, source: &str, message: &str) -> Option<String> {
    let (line, rest) = numbered(message, "line ")?;
    let (column, rest) = numbered(rest.strip_prefix(", ")?, "column ")?;
    if line == 0 || column == 0 || line > source.lines().count() {
        return None;
    }
    let start = offset(source, line, column);
    // What stands there is in the message too, as far as its first line goes.
    let code = rest.strip_prefix(", at `").and_then(|rest| rest.split_once("`: ")).map_or("", |(code, _)| code);
    let length = if source[start..].starts_with(code) { code.len() } else { 0 };
    Some(at(origin, source, start..start + length, message, "here", None).message)
}

/// The first number that stands behind a word, and what follows it.
fn numbered<'a>(text: &'a str, word: &str) -> Option<(usize, &'a str)> {
    let (_, rest) = text.split_once(word)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((rest[..end].parse().ok()?, &rest[end..]))
}

/// The script of a cell whose policy is one.
pub(crate) fn script_of(cell: &Cell) -> Option<String> {
    let config: Value = serde_json::from_str(&cell.config).ok()?;
    config.get("source").and_then(Value::as_str).map(str::to_string)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_message_is_drawn_where_its_place_is() {
        let source = "def key(job, c):\n    return job.nope\n";
        let message = "mine gave up: `key`: line 2, column 12, at `job.nope`: no `nope`";
        let drawn = |message: &str| super::drawn("script of mine", source, message);
        let shown = drawn(message).expect("a place");
        assert!(shown.starts_with("error: mine gave up") && shown.contains("script of mine:2:12"), "{shown}");
        assert!(shown.contains("2 |     return job.nope\n  |            ^^^^^^^^ here"), "{shown}");
        assert!(drawn("line 2, column 16: Parse error").is_some_and(|shown| shown.contains("return job.nope")));
        for none in [
            "a fault",
            "line 9, column 1: x",
            "line 0, column 0",
            "on line 2 of it",
            "line 2, column 999999999999999999999",
        ] {
            assert_eq!(drawn(none), None, "{none}");
        }
    }
}
