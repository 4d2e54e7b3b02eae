//! What a guest writes to its log.

use sandtable_hardware::text::escape_control_chars;

use super::bindings::sandtable::policy::log::Level;

/// Lines that a policy wrote: diagnostics, never part of a result.
#[derive(Default)]
pub(super) struct Log {
    pub(super) lines: Vec<String>,
    room: usize,
    /// What is left of this call's.
    in_call: usize,
    dropped: u64,
}

/// Bytes of log lines of one call.
const LOG_OF_A_CALL: usize = 64 << 10;

impl Log {
    pub(super) fn new(room: usize) -> Log {
        Log { lines: Vec::new(), room, in_call: LOG_OF_A_CALL, dropped: 0 }
    }

    /// Another call begins.
    pub(super) fn turn(&mut self) {
        self.in_call = LOG_OF_A_CALL;
    }

    pub(super) fn write(&mut self, level: Level, message: &str) {
        let level = match level {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        // One line a call: a policy must not write what looks like another's.
        let line = format!("{level}: {}", escape_control_chars(message, 4096));
        let bytes = size_of::<String>() + line.len();
        if bytes > self.room.min(self.in_call) {
            self.dropped += 1;
        } else {
            self.room -= bytes;
            self.in_call -= bytes;
            self.lines.push(line);
        }
    }

    /// The lines, and a note of those that were dropped.
    pub(super) fn finish(&mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.lines);
        if self.dropped > 0 {
            lines.push(format!("({} more lines were dropped)", self.dropped));
        }
        lines
    }
}
