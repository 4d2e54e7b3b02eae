//! The terminal: results to stdout, everything else to stderr. A closed pipe changes no exit code; any other error of
//! stdout ends the program.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sandtable_core::error::ExitCode;
use sandtable_hardware::text::turns;

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
    if CLOSED.load(Ordering::Relaxed) {
        return;
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(shown(text).as_bytes()).and_then(|()| out.flush()) {
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

/// Writes a line for people.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", shown(text));
}

/// A progress bar on stderr; hidden where stderr is no terminal.
pub fn progress(length: u64, hidden: bool) -> ProgressBar {
    let bar = ProgressBar::new(length);
    if hidden || !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    } else if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} cells  {elapsed}  {msg}") {
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
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
