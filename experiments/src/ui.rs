//! The terminal: results to stdout, everything else to stderr. A closed pipe changes no exit code; any other error of
//! stdout ends the program.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use sandtable_core::error::ExitCode;
use sandtable_core::frame::fit;
use sandtable_hardware::text::turns;

mod paint;
mod progress;

pub use paint::Colour;
pub use progress::Progress;

/// Text as it may reach a terminal: whatever would move the cursor, colour or turn the direction of what follows is written
/// as `\u001b`, which JSON reads as what it was.
fn shown(text: &str) -> Cow<'_, str> {
    let raw = |c: char| turns(c) || (c.is_control() && c != '\n' && c != '\t');
    if !text.contains(raw) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match raw(c) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Writes a result.
pub fn result(text: &str) {
    result_with(text, &[]);
}

/// Writes a result of which these parts, in this order, are good or bad.
pub fn result_with(text: &str, verdicts: &[(String, bool)]) {
    if CLOSED.load(Ordering::Relaxed) {
        return;
    }
    let mut out = std::io::stdout().lock();
    let text = shown(text);
    let text = if paint::colours(out.is_terminal()) { paint::verdicts(&text, verdicts).into() } else { text };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => {}
        // The reader of a closed pipe has what it wanted; the exit code is still that of the whole command.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => CLOSED.store(true, Ordering::Relaxed),
        Err(error) => {
            note(&format!("error: cannot write to stdout: {error}"));
            std::process::exit(ExitCode::Output as i32);
        }
    }
}

/// Whether stdout is closed: a command that goes on for ever may end.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Writes a line for people; with `--quiet` only what went wrong.
pub fn note(text: &str) {
    if is_quiet() && !paint::is_trouble(text) {
        return;
    }
    let mut err = std::io::stderr().lock();
    let text = shown(text);
    let text = if paint::colours(err.is_terminal()) { paint::troubles(&text).into() } else { text };
    let _ = writeln!(err, "{text}");
}

static QUIET: AtomicBool = AtomicBool::new(false);
static VERBOSE: AtomicBool = AtomicBool::new(false);

/// How a command talks.
pub struct Talk {
    /// Only of results, and of what went wrong.
    pub quiet: bool,
    /// Of details too.
    pub verbose: bool,
    /// When in colours.
    pub colour: Colour,
}

/// Says how this command talks.
pub fn talk(how: &Talk) {
    QUIET.store(how.quiet, Ordering::Relaxed);
    VERBOSE.store(how.verbose, Ordering::Relaxed);
    paint::choose(how.colour);
    if std::io::stdout().is_terminal()
        && let Some((terminal_size::Width(width), _)) = terminal_size::terminal_size_of(std::io::stdout())
    {
        fit(width.into());
    }
}

fn is_verbose() -> bool {
    VERBOSE.load(Ordering::Relaxed)
}

/// Writes a line for people who ask for details.
pub fn detail(text: &str) {
    if is_verbose() {
        note(text);
    }
}

/// Whether only what went wrong is said.
fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// A line on stderr for a program that follows: how many of how many are done, and which was the last.
pub fn progressed(done: u64, of: u64, last: &sandtable_plan::Cell) {
    let (label, variant) = (&last.label, last.variant_text());
    let line = serde_json::json!({"done": done, "of": of, "label": label, "variant": variant, "seed": last.seed, "id": last.id});
    note(&line.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_terminal_is_shown_and_json_stays_what_it_was() {
        let name = "a\u{1b}[2J\u{9b}31m\u{202e}\u{7f}\r\tb";
        let json = serde_json::to_string(name).expect("JSON") + "\n";
        let shown = shown(&json);
        assert!(shown.trim_end().chars().all(|c| !c.is_control() && !turns(c)), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), name);
        assert_eq!(sandtable_core::text::line("x\nerror: y\u{2028}z"), "x\\nerror: y\\u{2028}z");
        assert!(matches!(super::shown("plain\ttext\n"), Cow::Borrowed(_)));
    }
}
