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

/// The documents of a folder, by their instants; of several of one instant the first by name. What ends otherwise, or is another JSON document,
/// is not looked at; of what can't be read `say` is told.
pub(super) fn documents(folder: &Path, say: &dyn Fn(&str)) -> Result<Vec<Document>, Error> {
    let mut all = Vec::new();
    for path in input::sorted(folder)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !ENDS.iter().any(|end| name.ends_with(end)) || path.is_dir() {
            continue;
        }
        match head(&path) {
            Ok(Some(at)) => all.push(Document::of(path, at)?),
            Ok(None) => {}
            Err(why) => say(&format!("warning: not read: {why}")),
        }
    }
    all.sort_by_key(|document| document.since);
    all.dedup_by_key(|document| document.since);
    Ok(all)
}

/// The instant of a document; none: it is another one.
fn head(path: &Path) -> Result<Option<String>, String> {
    let bytes = trace::read_bytes(path, input::DATA).map_err(|error| error.message)?;
    let head: At = serde_json::from_slice(&bytes)
        .map_err(|error| format!("{}: expected a state of a cluster: {error}", path.display()))?;
    Ok(head.at.filter(|_| head.sandtable.as_deref() == Some(state::FORM)))
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
        let median = span(median.as_secs_f64());
        let mut out = match self.compared.len() {
            1 => format!("one interval of {median}"),
            many => format!("{many} intervals of {median} in the median"),
        };
        out.push_str(&format!(", from {} to {}\n", first.at, last.at));
        if self.apart > 0 {
            out.push_str(&format!("{} more between documents that are too far apart\n", self.apart));
        }
        if not > 0 {
            out.push_str(&format!("{not} of them could not be compared\n"));
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
