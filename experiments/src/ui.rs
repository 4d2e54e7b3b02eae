//! The terminal: results to stdout, everything else to stderr. A closed pipe changes no exit code; any other error of
//! stdout ends the program.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::error::ExitCode;

/// Writes a result.
pub fn result(text: &str) {
    if CLOSED.load(Ordering::Relaxed) {
        return;
    }
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => {}
        // Whoever closed the pipe has what they wanted; the exit code is still to be that of the whole.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => CLOSED.store(true, Ordering::Relaxed),
        Err(error) => {
            note(&format!("error: cannot write to stdout: {error}"));
            std::process::exit(ExitCode::Output as i32);
        }
    }
}

/// Whether nobody reads stdout any more: what goes on for ever may end.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

static CLOSED: AtomicBool = AtomicBool::new(false);

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
