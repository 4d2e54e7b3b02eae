//! A folder of documents of one cluster.

use std::path::{Path, PathBuf};

use sandtable_core::display::span;
use sandtable_core::error::Error;
use sandtable_core::{input, output};
use sandtable_hardware::Duration;
use sandtable_inputs::{state, trace};
use serde_json::Value;

/// A document, and its instant from 1970.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) path: PathBuf,
    pub(super) at: String,
    since: Duration,
}

/// The instant of a document, read alone.
#[derive(serde::Deserialize)]
struct At {
    sandtable: Option<String>,
    at: Option<String>,
}

impl Document {
    pub(super) fn of(path: PathBuf, at: String) -> Result<Document, Error> {
        let stamp: jiff::Timestamp =
            at.parse().map_err(|error| Error::usage(format!("{}: at: {error}", path.display())))?;
        let since = Duration::from_micros(u64::try_from(stamp.as_microsecond()).unwrap_or(0));
        Ok(Document { path, at, since })
    }

    /// From this one to a later one.
    pub(super) fn until(&self, later: &Document) -> Duration {
        later.since.saturating_sub(self.since)
    }
}

/// The ends of the names of documents.
const ENDS: [&str; 3] = [".json", ".json.zst", ".json.gz"];

/// The documents of a folder, by their instants; of several of one instant the first by name. Other files are not looked at.
pub(super) fn documents(folder: &Path) -> Result<Vec<Document>, Error> {
    let mut all = Vec::new();
    for path in input::sorted(folder)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !ENDS.iter().any(|end| name.ends_with(end)) {
            continue;
        }
        let bytes = trace::read_bytes(&path, input::DATA)?;
        let head: At = serde_json::from_slice(&bytes)
            .map_err(|error| Error::usage(format!("{}: expected a state of a cluster: {error}", path.display())))?;
        if let (Some(state::FORM), Some(at)) = (head.sandtable.as_deref(), head.at) {
            all.push(Document::of(path, at)?);
        }
    }
    all.sort_by_key(|document| document.since);
    all.dedup_by_key(|document| document.since);
    Ok(all)
}

/// Documents and the next ones of each.
pub(super) struct Pairs {
    /// Those that are compared.
    pub(super) compared: Vec<(Document, Document)>,
    /// Those that are too far apart.
    apart: usize,
}

/// The pairs of a folder's documents.
pub(super) fn pairs(documents: &[Document], gap: Duration) -> Pairs {
    let all = documents.windows(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    let (compared, apart): (Vec<_>, Vec<_>) = all.partition(|(from, to)| from.until(to) <= gap);
    Pairs { compared, apart: apart.len() }
}

impl Pairs {
    /// What was compared, in a line or two; and how many could not be.
    pub(super) fn head(&self, documents: &[Document], not: usize) -> String {
        let (Some(first), Some(last)) = (documents.first(), documents.last()) else { return String::new() };
        let mut lengths: Vec<Duration> = self.compared.iter().map(|(from, to)| from.until(to)).collect();
        lengths.sort_unstable();
        let median = lengths.get(lengths.len() / 2).copied().unwrap_or_default();
        let mut out = format!(
            "{} intervals of {} in the median, from {} to {}\n",
            self.compared.len(),
            span(median.as_secs_f64()),
            first.at,
            last.at
        );
        for (count, what) in [(self.apart, "are too far apart"), (not, "could not be compared")] {
            if count > 0 {
                out.push_str(&format!("{count} more {what}\n").replace(" more could", " of them could"));
            }
        }
        out.push('\n');
        out
    }
}

/// Writes a document into a folder, by its instant; none: one of that instant is there.
pub(super) fn put(folder: &Path, document: &Value) -> Result<Option<Document>, Error> {
    let at = document["at"].as_str().unwrap_or_default().to_string();
    let path = folder.join(format!("{}.json.zst", at.replace(':', "-")));
    if path.exists() {
        return Ok(None);
    }
    let text = serde_json::to_vec(document).map_err(|error| Error::internal(error.to_string()))?;
    // What is written can be read.
    state::of_bytes(&path, &text)?;
    let packed = zstd::encode_all(text.as_slice(), 3).map_err(|error| Error::internal(error.to_string()))?;
    output::write(&path, packed)?;
    Document::of(path, at).map(Some)
}
