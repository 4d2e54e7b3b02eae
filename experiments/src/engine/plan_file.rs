//! The plan file: the cells that an engine is handed, and the proof that they are still the same when a shard begins.
//!
//! # Format
//! JSON lines. The first says how the spec is read and which binary wrote the file; every other is a cell: its id, its place
//! among all cells of the spec, what it costs and needs, and what its id is the hash of; that is left out where it is as in
//! the line before but for the seed.

use std::collections::BTreeMap;
use std::io::{BufRead, Read as _};
use std::path::{Path, PathBuf};

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_core::input;
use sandtable_plan::{Cell, LiveDevices, Options, Plan};
use sandtable_results::explain::{differences, reason};
use sandtable_results::reader::leaves;
use sandtable_results::sweep::SweepState;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Times;

/// The version of the format.
const VERSION: u32 = 2;

/// How the spec of a plan file is read, and the build that wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Of this format.
    pub plan: u32,
    /// What the spec asks.
    pub title: String,
    /// The spec, from the root on.
    pub spec: PathBuf,
    /// blake3 of its text.
    pub text: String,
    /// How it is read.
    pub options: Options,
    /// Version of the binary.
    pub sandtable: String,
    /// blake3 of the binary.
    pub program: String,
    /// Cells that are here: a file that was cut short is none.
    pub lines: usize,
    /// Where results go, from the root on.
    pub store: PathBuf,
}

/// What a cell needs of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    /// GPUs.
    pub gpus: u32,
}

/// A cell of a plan file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Its id; none where only the machine that runs it can tell, since its GPUs are not here.
    pub id: Option<String>,
    /// Its place among the cells of the spec.
    pub at: usize,
    /// The policy's label.
    pub policy: String,
    /// blake3 of the policy's component.
    pub component: String,
    /// The values of the sweep.
    pub variant: String,
    /// The seed.
    pub seed: u64,
    /// Its jobs.
    pub cost: u64,
    /// How long it takes, where cells of this component have been timed in this store; on devices, after how long it is
    /// ended.
    pub seconds: Option<f64>,
    /// What it needs.
    pub needs: Needs,
    /// Whether its policy failed and it is to run all the same.
    pub retry: bool,
    /// What its id is the hash of, where it is not as in the line before but for the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<Value>,
}

/// A plan file.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanFile {
    /// Its first line.
    pub header: Header,
    /// The others.
    pub lines: Vec<Line>,
}

/// The blake3 of the binary that runs.
///
/// # Errors
/// A binary that can't be read.
fn program() -> Result<(PathBuf, String), Error> {
    let path = input::program()?;
    let bytes = std::fs::read(&path).map_err(|error| Error::file("read", &path, &error))?;
    Ok((path, digest(&bytes)))
}

/// The jobs of a cell, and how long it takes (see [`Line::seconds`]).
pub fn cost(cell: &Cell, times: &Times) -> (u64, Option<f64>) {
    let jobs = cell.setting.workload.len(&cell.fleet) as u64;
    match cell.backend.live() {
        Some(devices) => (jobs, Some(devices.limit.as_secs_f64())),
        None => (jobs, times.estimate(&cell.policy.digest, jobs)),
    }
}

/// The line of a cell in a plan, with what it costs; `before`: the cell of the line before.
pub fn line(cell: &Cell, at: usize, times: &Times, before: Option<&Cell>) -> Line {
    let assumed = cell.backend.live().is_some_and(LiveDevices::assumed);
    let (cost, seconds) = cost(cell, times);
    Line {
        id: (!assumed).then(|| cell.id.clone()),
        at,
        policy: cell.label.clone(),
        component: cell.policy.digest.clone(),
        variant: cell.variant_text(),
        seed: cell.seed,
        cost,
        seconds,
        needs: Needs { gpus: cell.backend.gpus_needed() },
        retry: false,
        cell: match before {
            Some(before) if before.differs_in_seed_alone(cell) => None,
            _ => (!assumed).then(|| inputs(cell)),
        },
    }
}

fn inputs(cell: &Cell) -> Value {
    serde_json::from_str(&cell.inputs()).unwrap_or_default()
}

/// A shard: those of N that are the I-th.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    pub index: usize,
    /// Of so many.
    pub of: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let wrong = || format!("expected I/N with I from 0 to N-1, as 0/8, found {text:?}");
        let (index, of) = text.split_once('/').ok_or_else(wrong)?;
        let shard = Shard { index: index.parse().map_err(|_| wrong())?, of: of.parse().map_err(|_| wrong())? };
        if shard.index < shard.of { Ok(shard) } else { Err(wrong()) }
    }
}

impl Shard {
    /// Whether a place is the shard's: by strides, so that the costly corner of a grid is not one shard's.
    pub fn has(&self, place: usize) -> bool {
        place % self.of == self.index
    }
}

fn no_plan(path: &Path, line: usize, why: String) -> Error {
    let error = Error::usage(format!("{}:{line}: {}", path.display(), sandtable_core::text::line(&why)));
    error.hint("a plan file is what `sandtable plan SPEC --output FILE` writes")
}

impl Header {
    /// Reads the first line of a plan file.
    ///
    /// # Errors
    /// What is no plan file.
    pub fn read(path: &Path) -> Result<Header, Error> {
        let file = input::open(path)?.take(input::SPEC);
        let first = std::io::BufReader::new(file).lines().next().transpose();
        Header::of(path, first.map_err(|error| Error::file("read", path, &error))?.as_deref())
    }

    fn of(path: &Path, first: Option<&str>) -> Result<Header, Error> {
        let first = first.ok_or_else(|| no_plan(path, 1, "expected a plan, found nothing".into()))?;
        let version = serde_json::from_str::<Value>(first).ok().and_then(|value| value["plan"].as_u64());
        if let Some(found) = version.filter(|found| *found != u64::from(VERSION)) {
            return Err(no_plan(path, 1, format!("expected version {VERSION} of the format, found {found}")));
        }
        serde_json::from_str(first).map_err(|error| no_plan(path, 1, error.to_string()))
    }
}

impl PlanFile {
    /// Of these cells of a plan.
    ///
    /// # Errors
    /// A spec or a binary that can't be read.
    pub fn new(page: &SweepState<'_>, spec: &Path, options: &Options, lines: Vec<Line>) -> Result<PlanFile, Error> {
        // Links stay: what a spec names is relative to where it was named.
        let full = |path: &Path| std::path::absolute(path).map_err(|error| Error::file("find", path, &error));
        let (plan, spec) = (page.plan, full(spec)?);
        let text = input::read(&spec, input::SPEC)?;
        let mut options = options.clone();
        if let Some(policies) = &mut options.policies {
            *policies = full(policies)?;
        }
        let header = Header {
            plan: VERSION,
            title: plan.title.clone(),
            spec,
            text: digest(&text),
            options,
            sandtable: env!("CARGO_PKG_VERSION").into(),
            program: program()?.1,
            lines: lines.len(),
            store: page.store().root().to_path_buf(),
        };
        Ok(PlanFile { header, lines })
    }

    /// The file's text.
    ///
    /// # Errors
    /// A path that is no text.
    pub fn text(&self) -> Result<String, Error> {
        let wrong = |error: serde_json::Error| {
            Error::usage(format!("{}: the paths of a plan file are text: {error}", self.header.spec.display()))
        };
        let mut out = serde_json::to_string(&self.header).map_err(wrong)? + "\n";
        for line in &self.lines {
            out.push_str(&serde_json::to_string(line).map_err(wrong)?);
            out.push('\n');
        }
        Ok(out)
    }

    /// Reads a plan file.
    ///
    /// # Errors
    /// What is no plan file, with the line.
    pub fn read(path: &Path) -> Result<PlanFile, Error> {
        let text = input::text(path, input::DATA)?;
        let mut rows = text.lines();
        let header = Header::of(path, rows.next())?;
        let mut lines = Vec::new();
        for row in rows {
            let at = lines.len() + 2;
            lines.push(serde_json::from_str(row).map_err(|error| no_plan(path, at, error.to_string()))?);
        }
        if lines.len() != header.lines {
            let found = format!("expected {} cells, found {}", header.lines, lines.len());
            return Err(no_plan(path, lines.len() + 1, found));
        }
        Ok(PlanFile { header, lines })
    }

    /// Whether the binary that runs is the one that wrote it.
    ///
    /// # Errors
    /// It is another.
    pub fn same_program(&self) -> Result<(), Error> {
        let (path, found) = program()?;
        if found == self.header.program {
            return Ok(());
        }
        let (path, was, is) = (path.display(), short(&self.header.program), short(&found));
        Err(underneath(format!("{path} was {was}… when the plan was made, is {is}… now")))
    }

    /// The places, in the plan that the spec is now, of these lines.
    ///
    /// # Errors
    /// A cell that is not what it was: the spec, a component or another file was changed underneath.
    pub fn places(&self, plan: &Plan, lines: &[&Line]) -> Result<Vec<usize>, Error> {
        let text = input::read(&self.header.spec, input::SPEC)?;
        let same_text = digest(&text) == self.header.text;
        let known: BTreeMap<&str, usize> =
            plan.cells.iter().enumerate().rev().map(|(at, cell)| (cell.id.as_str(), at)).collect();
        let place = |line: &&Line| {
            let there = plan.cells.get(line.at).filter(|cell| {
                (cell.label.as_str(), cell.variant_text(), cell.seed)
                    == (line.policy.as_str(), line.variant.clone(), line.seed)
            });
            let found = match &line.id {
                Some(id) => known.get(id.as_str()).copied(),
                // The id depends on the devices: until they are known the spec's text and the component stand for it.
                None => there.filter(|cell| same_text && cell.policy.digest == line.component).map(|_| line.at),
            };
            found.ok_or_else(|| changed(line, self.inputs_of(line), there))
        };
        lines.iter().map(place).collect()
    }

    /// What the id of a line's cell is the hash of; none where only the machine that runs it can tell.
    fn inputs_of(&self, line: &Line) -> Option<Value> {
        line.id.as_ref()?;
        let until = self.lines.iter().position(|other| std::ptr::eq(other, line))?;
        let mut inputs = self.lines[..=until].iter().rev().find_map(|line| line.cell.clone())?;
        inputs.as_object_mut()?.insert("seed".into(), line.seed.into());
        Some(inputs)
    }
}

/// The beginning of a digest; whatever it is, where it is none.
fn short(digest: &str) -> &str {
    digest.get(..10).unwrap_or(digest)
}

fn underneath(what: String) -> Error {
    Error::usage(format!("changed underneath: {what}"))
        .hint("submit again, or make the plan again: results that are there are kept")
}

fn changed(line: &Line, before: Option<Value>, there: Option<&Cell>) -> Error {
    let name = line.id.as_ref().map_or_else(|| "a cell".to_string(), |id| format!("cell {}", short(id)));
    let of = format!(
        "{name} ({} seed {}{}{})",
        line.policy,
        line.seed,
        if line.variant.is_empty() { "" } else { " " },
        line.variant
    );
    let why = match (there, before) {
        (None, _) => "the spec has no such cell now".to_string(),
        (Some(_), None) => "the spec or the policy's component was changed".into(),
        (Some(cell), Some(before)) => reason(&differences(&leaves(&before), &leaves(&inputs(cell)))),
    };
    underneath(format!("{of} is another since the plan was made: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_strides_and_cover_all_once() {
        for of in 1..9 {
            let shards: Vec<Shard> = (0..of).map(|index| Shard { index, of }).collect();
            for place in 0..20 {
                assert_eq!(shards.iter().filter(|shard| shard.has(place)).count(), 1);
            }
        }
        assert_eq!("3/8".parse(), Ok(Shard { index: 3, of: 8 }));
        for wrong in ["8/8", "0/0", "1", "a/2", "-1/2", "1/2/3", ""] {
            let error = wrong.parse::<Shard>().expect_err(wrong);
            assert!(error.contains("expected I/N") && error.contains(&format!("{wrong:?}")), "{error}");
        }
    }
}
