//! A mistake in a source, drawn like rustc draws it.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::error::{Error, ExitCode};

/// The error of a mistake at `span` of `source`, shown as the file `origin`.
pub fn at(origin: &str, source: &str, span: Range<usize>, message: &str, label: &str, hint: Option<String>) -> Error {
    // An empty span shows as the character before it: errors of absence point at a closing bracket.
    let end = span.end.min(source.len());
    let start = span.start.min(end);
    // Names of the source are in both.
    let (message, label) = (crate::text::line(message), crate::text::line(label));
    let annotation = AnnotationKind::Primary.span(start..end).label(&*label);
    let snippet = Snippet::source(source).path(origin).annotation(annotation);
    let report = [Level::ERROR.primary_title(&*message).element(snippet)];
    let message = Renderer::plain().render(&report);
    Error { exit: ExitCode::Usage, message, hint, rendered: true, no_room: false }
}

/// The byte offset of a line and column, both counted from 1 in characters.
pub fn offset(source: &str, line: usize, column: usize) -> usize {
    let before: usize = source.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = &source[before..];
    let within: usize = rest.chars().take(column.saturating_sub(1)).map(char::len_utf8).sum();
    (before + within).min(source.len())
}
