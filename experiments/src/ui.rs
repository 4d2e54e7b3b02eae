//! The terminal: results to stdout, everything else to stderr. A closed pipe ends the program quietly.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Writes a result.
pub fn result(text: &str) {
    let mut out = std::io::stdout().lock();
    // Whoever closed the pipe has what they wanted.
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Writes a line for people.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// A bar on stderr; hidden where nobody sees it.
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
