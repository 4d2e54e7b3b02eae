//! Rows and columns of a text, with the place of everything that can't be understood.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandtable_core::error::Error;
use sandtable_core::text::nearest;
use sandtable_core::units::{decimal, is_exact};
use sandtable_hardware::{Duration, Instant};

use super::Options;

/// A cell that can't be understood.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{}:{line}: column {column}: {message}", file.display())]
pub struct TraceError {
    /// The file.
    pub file: PathBuf,
    /// Counted from 1.
    pub line: u64,
    /// The column's name, or its number from 1 where it has none.
    pub column: String,
    /// What was found and what was expected.
    pub message: String,
}

impl From<TraceError> for Error {
    fn from(error: TraceError) -> Error {
        Error::usage(error.to_string())
    }
}

/// A text of records.
pub struct Table<'a> {
    file: &'a Path,
    names: Vec<String>,
    reader: csv::Reader<&'a [u8]>,
}

/// What of a text was read.
pub struct Read {
    /// Records.
    pub rows: usize,
    /// Columns that are not read.
    pub ignored: Vec<String>,
    /// Records with a time finer than a microsecond, and the line of the first.
    pub finer: (usize, u64),
    /// Records with another value than was asked for, and the line of the first.
    pub not_asked: (usize, u64),
}

/// One record.
pub struct Record<'a> {
    file: &'a Path,
    names: &'a [String],
    cells: &'a csv::StringRecord,
    /// Columns that were asked for.
    asked: &'a RefCell<Vec<bool>>,
    /// How many had a time finer than a microsecond, the line of the first and of the last.
    finer: &'a Cell<(usize, u64, u64)>,
    /// Its place in the file.
    pub line: u64,
}

/// How an instant is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// As a number.
    Number,
    /// As a date by the clock that wrote it.
    Date,
    /// As a date with its offset from UTC.
    OffsetDate,
}

impl Clock {
    /// What it is called in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Clock::Number => "a number",
            Clock::Date => "a date",
            Clock::OffsetDate => "a date with an offset from UTC",
        }
    }
}

/// Nanoseconds would be too many, seconds too few: what a number in a time column counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    Seconds,
    Millis,
    Minutes,
    Hours,
}

impl Unit {
    /// By the name that a mapping of columns gives it.
    pub fn named(name: &str) -> Option<Unit> {
        Some(match name {
            "s" => Unit::Seconds,
            "ms" => Unit::Millis,
            "min" => Unit::Minutes,
            "h" => Unit::Hours,
            _ => return None,
        })
    }

    fn micros(self) -> u64 {
        match self {
            Unit::Millis => 1_000,
            Unit::Seconds => 1_000_000,
            Unit::Minutes => 60_000_000,
            Unit::Hours => 3_600_000_000,
        }
    }
}

impl<'a> Table<'a> {
    pub(crate) fn new(file: &'a Path, bytes: &'a [u8], separator: u8, header: bool) -> Result<Table<'a>, Error> {
        let mut builder = csv::ReaderBuilder::new();
        builder.delimiter(separator).has_headers(header).flexible(!header);
        // Gavel's commands hold quotes that mean nothing.
        builder.quoting(separator == b',').trim(csv::Trim::All);
        let mut reader = builder.from_reader(bytes);
        let names = if header {
            let header = reader.headers().map_err(|error| broken(file, &error))?;
            header.iter().map(|name| name.trim_start_matches('\u{feff}').to_string()).collect()
        } else {
            Vec::new()
        };
        Ok(Table { file, names, reader })
    }

    /// The header.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Checks that columns are there.
    pub fn need(&self, columns: &[&str]) -> Result<(), Error> {
        for column in columns {
            if !self.names.iter().any(|name| name == column) {
                let message =
                    format!("{}:1: no column `{column}`: found {}", self.file.display(), self.names.join(", "));
                let near = nearest(column, self.names.iter().map(String::as_str));
                let error = Error::usage(message);
                return Err(match near {
                    Some(near) => error.hint(format!("did you mean `{near}`?")),
                    None => error,
                });
            }
            if self.names.iter().filter(|name| name == column).count() > 1 {
                let message = format!("{}:1: two columns are called `{column}`", self.file.display());
                return Err(Error::usage(message).hint("rename one of them"));
            }
        }
        Ok(())
    }

    /// Calls `each` for every record with the values that are asked for, as far as the limits go.
    pub fn each(
        mut self,
        options: &Options,
        mut each: impl FnMut(&Record<'_>) -> Result<(), TraceError>,
    ) -> Result<Read, Error> {
        if !self.names.is_empty() {
            self.need(&options.filter.keys().map(String::as_str).collect::<Vec<_>>())?;
        }
        let most = options.limits.rows;
        let mut cells = csv::StringRecord::new();
        let mut not_asked = (0, 0);
        let asked = RefCell::new(vec![false; self.names.len()]);
        let finer = Cell::new((0, 0, 0));
        let mut rows = 0;
        while self.reader.read_record(&mut cells).map_err(|error| broken(self.file, &error))? {
            rows += 1;
            if rows > most {
                let message = format!("{}: more than {most} rows", self.file.display());
                return Err(Error::usage(message).hint("`--max-rows N` reads more"));
            }
            let line = cells.position().map_or(0, csv::Position::line);
            let row = Record { file: self.file, names: &self.names, cells: &cells, asked: &asked, finer: &finer, line };
            if row.matches(&options.filter)? {
                each(&row)?;
            } else {
                not_asked = (not_asked.0 + 1, if not_asked.0 == 0 { line } else { not_asked.1 });
            }
        }
        let unasked = self.names.into_iter().zip(asked.into_inner()).filter(|(_, asked)| !asked);
        let ignored = if rows == 0 { Vec::new() } else { unasked.map(|(name, _)| name).collect() };
        let (count, first, _) = finer.get();
        Ok(Read { rows, ignored, finer: (count, first), not_asked })
    }
}

fn broken(file: &Path, error: &csv::Error) -> Error {
    let place = |line: u64| format!("{}:{line}", file.display());
    Error::usage(match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            format!("{}: {len} columns, expected {expected_len}", place(line))
        }
        csv::ErrorKind::Utf8 { pos, err } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            format!("{}: column {}: not UTF-8", place(line), err.field() + 1)
        }
        _ => format!("{}: {error}", file.display()),
    })
}

impl Record<'_> {
    /// The number of cells.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// A cell by its column's name, or by its number where columns have none.
    pub fn find(&self, column: &str) -> Option<&str> {
        let index = match self.names.iter().position(|name| name == column) {
            Some(index) => index,
            None if self.names.is_empty() => column.parse::<usize>().ok()?.checked_sub(1)?,
            None => return None,
        };
        if let Some(asked) = self.asked.borrow_mut().get_mut(index) {
            *asked = true;
        }
        self.cells.get(index)
    }

    /// A cell that must be there.
    pub fn text(&self, column: &str) -> Result<&str, TraceError> {
        self.find(column).ok_or_else(|| self.wrong(column, "the row ends before it"))
    }

    pub(crate) fn wrong(&self, column: &str, message: impl Into<String>) -> TraceError {
        let column = if self.names.is_empty() { column.to_string() } else { format!("`{column}`") };
        TraceError { file: self.file.into(), line: self.line, column, message: message.into() }
    }

    /// A whole number.
    pub fn whole(&self, column: &str) -> Result<u32, TraceError> {
        let text = self.text(column)?;
        let whole = text.strip_suffix(".0").unwrap_or(text);
        whole.parse().map_err(|_| self.wrong(column, format!("expected a whole number, found {text:?}")))
    }

    /// A number.
    pub fn number(&self, column: &str) -> Result<f64, TraceError> {
        let text = self.text(column)?;
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(self.wrong(column, format!("expected a number, found {text:?}"))),
        }
    }

    /// A span of time.
    pub fn span(&self, column: &str, unit: Unit) -> Result<Duration, TraceError> {
        let text = self.text(column)?;
        let found = decimal(text, unit.micros()).map(Duration::from_micros).or_else(|| clock(text));
        let (count, first, last) = self.finer.get();
        if found.is_some() && last != self.line && !is_exact(text, unit.micros()) {
            self.finer.set((count + 1, if count == 0 { self.line } else { first }, self.line));
        }
        found.ok_or_else(|| self.wrong(column, format!("expected a time of at least 0, found {text:?}")))
    }

    /// An instant: a number, or a date with a time.
    pub fn instant(&self, column: &str, unit: Unit) -> Result<(Instant, Clock), TraceError> {
        let text = self.text(column)?;
        if let Some(date) = date(text) {
            return Ok(date);
        }
        if text.len() > 4 && text.as_bytes()[4] == b'-' {
            let message = format!("expected a date that exists, such as 2017-10-09 07:01:55, found {text:?}");
            return Err(self.wrong(column, message));
        }
        let expected = "a time of at least 0 or a date such as 2017-10-09 07:01:55";
        let plain = self.span(column, unit);
        plain
            .map(|span| (Instant::at(span), Clock::Number))
            .map_err(|error| TraceError { message: error.message.replace("a time of at least 0", expected), ..error })
    }

    /// Whether the row has these values.
    fn matches(&self, filter: &BTreeMap<String, String>) -> Result<bool, TraceError> {
        for (column, value) in filter {
            if self.text(column)? != value {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// `[days-]hours:minutes:seconds`, as Slurm writes it.
fn clock(text: &str) -> Option<Duration> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (days.parse::<u64>().ok()?, rest),
        None => (0, text),
    };
    let parts: Vec<&str> = rest.split(':').collect();
    let [hours, minutes, seconds] = parts.as_slice() else { return None };
    let (hours, minutes): (u64, u64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds = decimal(seconds, 1_000_000)?;
    if minutes >= 60 || seconds >= 60_000_000 || (days > 0 && hours >= 24) {
        return None;
    }
    let whole =
        (days.checked_mul(24)?.checked_add(hours)?.checked_mul(60)?.checked_add(minutes)?).checked_mul(60_000_000)?;
    whole.checked_add(seconds).filter(|at| *at < 1 << 53).map(Duration::from_micros)
}

/// The instant, since 1970, of `YYYY-MM-DD HH:MM:SS`, with a blank or a T between: by the clock that wrote it, or in UTC where it
/// names an offset.
fn date(text: &str) -> Option<(Instant, Clock)> {
    // A date alone is no instant.
    let (_, time) = text.split_once([' ', 'T'])?;
    let offset = time.ends_with('Z') || time.contains(['+', '-']);
    let stamp = match offset {
        true => text.parse::<jiff::Timestamp>().ok()?,
        false => text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp(),
    };
    let at = u64::try_from(stamp.as_microsecond()).ok().filter(|at| *at < 1 << 53)?;
    Some((Instant::from_micros(at), if offset { Clock::OffsetDate } else { Clock::Date }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_clocks() {
        use Clock::{Date, OffsetDate};
        let at = |micros, clock| Some((Instant::from_micros(micros), clock));
        let span = |seconds: u64| Some(seconds * sandtable_hardware::SECOND);
        assert_eq!(date("1970-01-02 00:00:01"), at(86_401_000_000, Date));
        assert_eq!(date("2017-10-09T07:01:55"), at(1_507_532_515_000_000, Date));
        assert_eq!(date("2017-10-09T07:01:55Z"), at(1_507_532_515_000_000, OffsetDate));
        assert_eq!(date("2017-10-09T09:01:55+02:00"), at(1_507_532_515_000_000, OffsetDate));
        assert_eq!(date("2017-10-09 07:01:55.25"), at(1_507_532_515_250_000, Date));
        for none in
            ["2017-13-09 07:01:55", "2017-02-30 07:01:55", "2017-02-03 25:61:61", "2017-02-03", "1969-12-31 00:00:00"]
        {
            assert_eq!(date(none), None, "{none}");
        }
        assert_eq!((clock("00:61:00"), clock("1-25:00:00"), clock("25:00:00")), (None, None, span(90_000)));
        assert_eq!(clock("1-02:03:04"), span(93_784));
        assert_eq!(clock("02:03"), None);
    }
}
