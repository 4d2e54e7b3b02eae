//! The terminal: results to stdout, everything else to stderr. A closed pipe changes no exit code; any other error of
//! stdout ends the program.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sandtable_core::display::span;
use sandtable_core::error::ExitCode;
use sandtable_hardware::text::turns;

mod paint;

pub use paint::Colour;

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
    let text = shown(text);
    let text = if paint::colours(out.is_terminal()) { paint::verdicts(&text).into() } else { text };
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
    if QUIET.load(Ordering::Relaxed) && !paint::is_trouble(text) {
        return;
    }
    let mut err = std::io::stderr().lock();
    let text = shown(text);
    let text = if paint::colours(err.is_terminal()) { paint::troubles(&text).into() } else { text };
    let _ = writeln!(err, "{text}");
}

static QUIET: AtomicBool = AtomicBool::new(false);

/// How a command talks: `quiet` says only what went wrong.
pub fn talk(quiet: bool, colour: Colour) {
    QUIET.store(quiet, Ordering::Relaxed);
    paint::choose(colour);
}

/// How often progress is told where stderr is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(30);

/// A progress bar on stderr; where that is no terminal a line every half minute. Where there is nothing to do it is hidden.
pub fn progress(length: u64, hidden: bool) -> ProgressBar {
    let bar = ProgressBar::new(length);
    if hidden || length == 0 || QUIET.load(Ordering::Relaxed) {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    } else if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
        tell(bar.clone());
    } else if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} cells  {elapsed}, {eta} left  {msg}")
    {
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}

/// Tells from time to time how far a hidden bar is, until it is finished.
fn tell(bar: ProgressBar) {
    let telling = move || {
        let mut told = Duration::ZERO;
        // A bar that is finished is seen soon: the thread does not outlive its work by much.
        while !bar.is_finished() {
            std::thread::sleep(Duration::from_millis(250));
            if bar.elapsed() < told + TOLD_EVERY || bar.is_finished() {
                continue;
            }
            told = bar.elapsed();
            let (done, of) = (bar.position(), bar.length().unwrap_or(0));
            let left = match done {
                0 => String::new(),
                _ => format!(", about {} left", span(told.as_secs_f64() / done as f64 * (of - done) as f64)),
            };
            note(&format!("{done} of {of} cells after {}{left}", span(told.as_secs_f64())));
        }
    };
    // Without a thread there is no telling, and all else goes on.
    let _ = std::thread::Builder::new().name("progress".into()).spawn(telling);
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
