//! Errors are for people: one line that names the place, what was found and what was expected, and a hint where we
//! know what to do.

use std::io::ErrorKind;
use std::path::Path;

/// How the command ends. Documented in `sandtable --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Done.
    Done = 0,
    /// A check failed: a result differs, a snapshot, a claim.
    CheckFailed = 1,
    /// Usage, or an input that can't be used.
    Usage = 2,
    /// A policy failed; the other cells are complete.
    PolicyFailed = 3,
    /// Cells are missing.
    Missing = 4,
    /// Hardware is not as asked.
    Hardware = 5,
    /// A defect of sandtable.
    Internal = 70,
    /// Results can't be written to stdout.
    Output = 74,
    /// Interrupted; what is complete is kept.
    Interrupted = 130,
}

/// An error, and how the command ends for it.
#[derive(Debug)]
pub struct Error {
    /// How the command ends.
    pub exit: ExitCode,
    /// What is wrong. May have several lines where a source is shown; then `rendered`.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Whether `message` is a finished diagnostic with its own heading.
    pub rendered: bool,
    /// Whether all that is written next would fail likewise: the disk is full, or is only to be read.
    pub no_room: bool,
}

impl Error {
    /// An input that can't be used.
    pub fn usage(message: impl Into<String>) -> Error {
        Error { exit: ExitCode::Usage, message: message.into(), hint: None, rendered: false, no_room: false }
    }

    /// A defect of ours.
    pub fn internal(message: impl Into<String>) -> Error {
        Error { exit: ExitCode::Internal, ..Error::usage(message) }
    }

    /// A file that can't be read or written.
    pub fn file(doing: &str, path: &Path, error: &std::io::Error) -> Error {
        let no_room =
            matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem);
        Error {
            no_room,
            ..Error::usage(format!("cannot {doing} {}: {error}", crate::text::line(&path.display().to_string())))
        }
    }

    /// With a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.rendered {
            write!(f, "{}", self.message)?;
        } else {
            write!(f, "error: {}", self.message)?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
