//! What became of the rows of a file: nothing is left out or changed in silence.

use std::path::{Path, PathBuf};

use sandtable_core::error::Error;
use sandtable_core::output;
use sandtable_hardware::Duration;
use serde::{Deserialize, Serialize};

use super::table::Read;

/// What became of some rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// They are no jobs of the trace.
    LeftOut,
    /// They are not what was asked for.
    NotAsked,
    /// They are a part of a job that another row is of.
    Merged,
    /// They are jobs, with another value than the file's.
    Changed,
    /// They are jobs as the file has them, and hardly what it means.
    Doubtful,
}

/// Rows with one fate for one reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// What became of them.
    pub fate: Fate,
    /// Why.
    pub why: String,
    /// How many.
    pub rows: usize,
    /// The line of the first; 0 where it is of no line.
    pub line: u64,
}

/// What became of the rows of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Records of the file.
    pub read: usize,
    /// Jobs of the trace.
    pub kept: usize,
    /// Of the others, and of those that were changed.
    pub notes: Vec<Note>,
    /// Columns that nothing was read from.
    pub ignored: Vec<String>,
    /// The instant of second 0, microseconds since 1970 as the file's clock goes; none where the file has no dates.
    pub origin: Option<Duration>,
}

impl Account {
    pub(super) fn note(&mut self, fate: Fate, why: &str, line: u64) {
        self.count(fate, why, line, 1);
    }

    pub(super) fn count(&mut self, fate: Fate, why: &str, line: u64, rows: usize) {
        match self.notes.iter_mut().find(|note| note.fate == fate && note.why == why) {
            Some(note) => note.rows += rows,
            None => self.notes.push(Note { fate, why: why.into(), rows, line }),
        }
    }

    /// Takes in what was read of the file.
    pub(super) fn of(&mut self, read: Read) {
        (self.read, self.ignored) = (read.rows, read.ignored);
        if read.not_asked.0 > 0 {
            let why = "another value than `where` asks for";
            self.count(Fate::NotAsked, why, read.not_asked.1, read.not_asked.0);
        }
        if read.finer.0 > 0 {
            self.count(Fate::Changed, "has a time finer than a microsecond: rounded down", read.finer.1, read.finer.0);
        }
    }

    /// As a table: what, how many, why.
    pub fn table(&self) -> Vec<[String; 3]> {
        let mut rows = vec![
            ["rows read".to_string(), self.read.to_string(), String::new()],
            ["kept".into(), self.kept.to_string(), String::new()],
        ];
        for fate in [Fate::LeftOut, Fate::NotAsked, Fate::Merged, Fate::Changed, Fate::Doubtful] {
            for note in self.notes.iter().filter(|note| note.fate == fate) {
                rows.push([fate.words().into(), note.rows.to_string(), note.words()]);
            }
        }
        if !self.ignored.is_empty() {
            rows.push(["columns ignored".into(), self.ignored.len().to_string(), self.ignored.join(", ")]);
        }
        if let Some(origin) = self.origin {
            rows.push(["second 0 is".into(), String::new(), date(origin)]);
        }
        rows
    }

    /// The same in one line.
    pub fn line(&self) -> String {
        let rows = self.table().into_iter().map(|row| row.into_iter().filter(|cell| !cell.is_empty()));
        rows.map(|row| row.collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("; ")
    }
}

impl Fate {
    fn words(self) -> &'static str {
        match self {
            Fate::LeftOut => "left out",
            Fate::NotAsked => "not asked for",
            Fate::Merged => "merged",
            Fate::Changed => "changed",
            Fate::Doubtful => "doubtful",
        }
    }
}

impl Note {
    fn words(&self) -> String {
        if self.line == 0 { self.why.clone() } else { format!("{} (first: line {})", self.why, self.line) }
    }

    /// In a sentence.
    pub fn sentence(&self) -> String {
        format!("{} rows {}: {}", self.rows, self.fate.words(), self.words())
    }
}

/// An instant as the file's clock shows it.
pub fn date(origin: Duration) -> String {
    let stamp = jiff::Timestamp::from_microsecond(origin.as_micros() as i64);
    stamp.map_or_else(|_| origin.to_string(), |stamp| stamp.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// The account of an import, kept beside the trace that it wrote: `FILE.import.json`.
#[derive(Serialize, Deserialize)]
pub struct Imported {
    /// `sandtable/import@1`.
    schema: String,
    /// The file that was read.
    pub file: PathBuf,
    /// Its bytes' blake3.
    blake3: String,
    /// The trace's bytes' blake3: an account of other bytes is none.
    trace: String,
    /// What became of its rows.
    pub account: Account,
}

const SCHEMA: &str = "sandtable/import@1";

fn beside(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_os_string();
    name.push(".import.json");
    name.into()
}

impl Imported {
    /// Writes the account of a trace that was read from `file` beside it.
    ///
    /// # Errors
    /// A file that can't be read or written.
    pub fn keep(file: &Path, account: &Account, trace: &Path, text: &str) -> Result<PathBuf, Error> {
        // A folder of tables is named, and not hashed.
        let bytes =
            if file.is_file() { sandtable_core::input::read(file, sandtable_core::input::DATA)? } else { vec![] };
        let imported = Imported {
            schema: SCHEMA.into(),
            file: file.into(),
            blake3: sandtable_core::digest::digest(&bytes),
            trace: sandtable_core::digest::digest(text.as_bytes()),
            account: account.clone(),
        };
        let path = beside(trace);
        let text = serde_json::to_string_pretty(&imported).map_err(|error| Error::internal(error.to_string()))?;
        output::write(&path, text + "\n")?;
        Ok(path)
    }

    /// The account beside a trace of these bytes, if there is one of them.
    pub fn of(trace: &Path, bytes: &[u8]) -> Option<Imported> {
        let text = sandtable_core::input::read(&beside(trace), sandtable_core::input::SPEC).ok()?;
        let imported: Imported = serde_json::from_slice(&text).ok()?;
        (imported.schema == SCHEMA && imported.trace == sandtable_core::digest::digest(bytes)).then_some(imported)
    }
}
