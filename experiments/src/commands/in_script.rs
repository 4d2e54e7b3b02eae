//! Faults of scripts, drawn at their place in the text.

use sandtable_core::diagnostic::{at, offset};
use sandtable_plan::Cell;
use serde_json::Value;

/// A message that names a place of a script, above the line that it is of; none where it names no place, or none of this text.
pub(crate) fn drawn(origin: &str, source: &str, message: &str) -> Option<String> {
    let place = place(source, message)?;
    let start = offset(source, place.line, place.column);
    Some(at(origin, source, start..start + place.length, message, "here", None).message)
}

/// A place in a script.
#[derive(Debug, PartialEq)]
pub(crate) struct Place {
    /// From 1.
    pub(crate) line: usize,
    /// From 1.
    pub(crate) column: usize,
    /// Bytes of what stands there, where the message says that; else 0.
    length: usize,
}

/// The place that a message names; none where it names none, or none of this text.
pub(crate) fn place(source: &str, message: &str) -> Option<Place> {
    let (line, rest) = numbered(message, "line ")?;
    let (column, rest) = numbered(rest.strip_prefix(", ")?, "column ")?;
    // What breaks off at the end breaks off in the line behind it.
    let last = source.lines().count();
    let end = || source.lines().last().map_or(0, |text| text.chars().count()) + 1;
    let (line, column) = if line == last + 1 && column == 1 { (last, end()) } else { (line, column) };
    if line == 0 || column == 0 || line > last {
        return None;
    }
    let start = offset(source, line, column);
    // What stands there is in the message too, as far as its first line goes.
    let code = rest.strip_prefix(", at `").and_then(|rest| rest.split_once("`: ")).map_or("", |(code, _)| code);
    let length = if source[start..].starts_with(code) { code.len() } else { 0 };
    Some(Place { line, column, length })
}

/// The first number that stands behind a word, and what follows it.
fn numbered<'a>(text: &'a str, word: &str) -> Option<(usize, &'a str)> {
    let (_, rest) = text.split_once(word)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((rest[..end].parse().ok()?, &rest[end..]))
}

/// The script of a cell whose policy is one.
pub(crate) fn script_of(cell: &Cell) -> Option<String> {
    script_in(&cell.config)
}

/// The script in the configuration of a policy that is one.
pub(crate) fn script_in(config: &str) -> Option<String> {
    let config: Value = serde_json::from_str(config).ok()?;
    config.get("source").and_then(Value::as_str).map(str::to_string)
}

/// The frames of a fault, where one of them has a name: numbers of functions, as of the interpreter of scripts, which has no names, tell nothing.
pub(crate) fn named(backtrace: &[String]) -> &[String] {
    let is_named = |frame: &String| frame.strip_prefix("function ").is_none_or(|number| number.parse::<u32>().is_err());
    if backtrace.iter().any(is_named) { backtrace } else { &[] }
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
        let place = super::place(source, message).expect("a place");
        assert_eq!((place.line, place.column, place.length), (2, 12, "job.nope".len()));
        assert!(drawn("line 2, column 16: Parse error").is_some_and(|shown| shown.contains("return job.nope")));
        // Where it ends too soon it is the line behind the last one.
        let end = super::place("def key(job, c):\n    return (\n", "line 3, column 1: Parse error").expect("a place");
        assert_eq!((end.line, end.column), (2, 13));
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
