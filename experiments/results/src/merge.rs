//! The results of a sweep in one table: a row for each cell, by id, and a digest that two runs of it agree in or not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sandtable_core::digest::digest;
use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_core::text;
use sandtable_plan::{Cell, Plan};
use sandtable_runtime::Summary;

use crate::metric::METRICS;
use crate::schema::{CELL, Document as _, FailureRecord, JobRecord, Record as _, RunRecord, StayRecord, read_document};
use crate::status::Failure;
use crate::status::{CellStatus, lookup};
use crate::store::{Files, Store, files_of};
use crate::sweep::{State, SweepState};

/// A row.
pub struct MergedRow<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Its id; of an observation with its number, as `…/0001`.
    pub id: String,
    /// What is known.
    pub known: CellStatus,
    /// blake3 of its files.
    pub results: String,
}

/// What a store has of a plan.
pub struct Merged<'a> {
    /// By id.
    pub rows: Vec<MergedRow<'a>>,
    /// Why cells have no row whose files are not as they were written.
    pub damaged: Vec<Error>,
}

/// blake3 of the names and bytes of files.
fn of_files(files: &Files) -> String {
    let mut all: Vec<String> = files.iter().map(|(name, bytes)| format!("{name} {}\n", digest(bytes))).collect();
    all.sort();
    digest(all.concat().as_bytes())
}

/// An observation, which is kept like a cell's result.
fn observed<'a>(cell: &'a Cell, folder: &Path) -> Result<MergedRow<'a>, Error> {
    let files = files_of(folder)?;
    let of = |name: &str| files.iter().find(|(known, _)| known == name).map(|(_, bytes)| bytes.as_slice());
    let read = |bytes: &[u8]| read_document::<Summary>(bytes);
    let known = match of(Summary::FILE).ok_or_else(|| "the file is missing".to_string()).and_then(read) {
        Ok(summary) => CellStatus::Done(Box::new(summary)),
        Err(why) => {
            let message = format!("{}: {why}", text::line(&folder.join(Summary::FILE).display().to_string()));
            CellStatus::Failed(Failure { kind: "observation".into(), message, backtrace: Vec::new() })
        }
    };
    let name = |path: Option<&Path>| path.and_then(Path::file_name).unwrap_or_default().to_string_lossy().to_string();
    let id = format!("{}/{}", name(folder.parent()), name(Some(folder)));
    Ok(MergedRow { cell, id, known, results: of_files(&files) })
}

impl<'a> Merged<'a> {
    /// What there is.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn of(page: &SweepState<'a>) -> Result<Merged<'a>, Error> {
        let mut rows: BTreeMap<(String, usize), MergedRow<'a>> = BTreeMap::new();
        let mut damaged = Vec::new();
        for (at, cell) in page.plan.cells.iter().enumerate() {
            if !cell.backend.is_reproducible() {
                for folder in page.observations(at)? {
                    let row = unless_damaged(observed(cell, &folder), &mut damaged)?;
                    rows.extend(row.map(|row| ((row.id.clone(), at), row)));
                }
            } else if page.state(at)? != State::Missing {
                let read = || {
                    let (id, known) = (cell.id.clone(), lookup(cell, page.store())?);
                    let results = of_files(&page.store().files(&cell.id)?);
                    Ok(MergedRow { cell, id, known, results })
                };
                let row = unless_damaged(read(), &mut damaged)?;
                rows.extend(row.map(|row| ((row.id.clone(), at), row)));
            }
        }
        Ok(Merged { rows: rows.into_values().collect(), damaged })
    }

    /// blake3 of the ids and of all bytes of all results.
    pub fn digest(&self) -> String {
        // A cell may be in a spec under two labels.
        let all: BTreeSet<String> = self.rows.iter().map(|row| format!("{} {}\n", row.id, row.results)).collect();
        digest(all.into_iter().collect::<String>().as_bytes())
    }
}

/// What is read; none where its files are not as they were written, which is kept: of one result that is damaged the others are still known.
fn unless_damaged<T>(read: Result<T, Error>, damaged: &mut Vec<Error>) -> Result<Option<T>, Error> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.exit == ExitCode::CheckFailed => {
            damaged.push(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What came of another store.
#[derive(Default)]
pub struct Taken {
    /// How many cells.
    pub cells: usize,
    /// How many observations.
    pub observations: usize,
    /// Why others were not taken in: they differ from what is here, or are not as they were written.
    pub damaged: Vec<Error>,
}

/// Takes in what another store has of a plan's cells: those that this one lacks, and of the others the proof that they are alike;
/// and observations that are not here yet.
///
/// # Errors
/// A file that can't be read or written, a folder that is no store, a cell that was copied in part.
pub fn from_others(plan: &Plan, store: &Store, other: &Path) -> Result<Taken, Error> {
    if !other.join("cells").is_dir() {
        return Err(Error::usage(format!("{}: expected a store, with a folder `cells`", other.display())));
    }
    let other = Store::look(other)?;
    let mut taken = Taken::default();
    for cell in &plan.cells {
        if let Some(devices) = cell.backend.live() {
            if devices.assumed() {
                let error = Error::usage("which observations are this spec's only a machine with its GPUs can tell");
                return Err(error.hint("merge there, or let the nodes share one store"));
            }
            let observed = unless_damaged(observations(&cell.id, store, &other), &mut taken.damaged)?;
            taken.observations += observed.unwrap_or(0);
            continue;
        }
        if other.folder(&cell.id).is_dir() {
            let is_new = unless_damaged(one(&cell.id, store, &other), &mut taken.damaged)?;
            taken.cells += usize::from(is_new == Some(true));
        }
    }
    Ok(taken)
}

/// Takes in a cell that another store has; whether it was not here.
fn one(id: &str, store: &Store, other: &Store) -> Result<bool, Error> {
    let files = other.files(id)?;
    complete(id, &other.folder(id), &files)?;
    let is_new = !store.has(id);
    match other.producer_file(id)? {
        Some(producer) => store.put_of(id, &files, &producer)?,
        None => store.put(id, &files)?,
    }
    Ok(is_new)
}

/// A copy that was interrupted is no result.
fn complete(id: &str, folder: &Path, files: &Files) -> Result<(), Error> {
    let has = |name: &str| files.iter().any(|(known, _)| known == name);
    if !files.iter().any(|(name, bytes)| name == CELL && digest(bytes) == id) {
        return Err(Error::usage(format!(
            "{}: expected a cell.json whose blake3 is the folder's name",
            folder.display()
        )));
    }
    let lacking =
        [RunRecord::FILE, Summary::FILE, JobRecord::FILE, StayRecord::FILE].into_iter().find(|name| !has(name));
    let lacking = lacking.filter(|name| !has(FailureRecord::FILE) || *name == RunRecord::FILE);
    match lacking {
        Some(name) => {
            let error = Error::usage(format!("{}: expected a whole cell, found no {name}", folder.display()));
            Err(error.hint("copy the store again"))
        }
        None => Ok(()),
    }
}

/// Takes in observations of a cell.
fn observations(id: &str, store: &Store, other: &Store) -> Result<usize, Error> {
    let own = store.observations(id)?.iter().map(|folder| files_of(folder)).collect::<Result<Vec<Files>, Error>>()?;
    let mut taken = 0;
    for folder in other.observations(id)? {
        let files = files_of(&folder)?;
        if !own.contains(&files) {
            store.observe(id, &files)?;
            taken += 1;
        }
    }
    Ok(taken)
}

fn state(known: &CellStatus) -> &'static str {
    match known {
        CellStatus::Done(_) => "done",
        CellStatus::Failed(_) => "failed",
        CellStatus::Missing | CellStatus::TimedOut => "missing",
    }
}

/// The rows as a table.
pub fn table(merged: &Merged<'_>) -> Frame {
    // Of many metrics a person reads few.
    const SHOWN: [&str; 3] = ["jct_mean_s", "makespan_s", "utilisation_window"];
    let mut columns = vec![Column::words("id").head("cell")];
    columns.extend(["policy", "variant"].map(Column::words));
    columns.push(Column::count("seed"));
    columns.push(Column::words("state"));
    columns.push(Column::words("results").in_text(false));
    columns.extend(METRICS.iter().map(|metric| {
        let column = Column::of(metric.name, metric.unit).head(metric.shown.unwrap_or(metric.name));
        column.in_text(SHOWN.contains(&metric.name)).within("metrics")
    }));
    let mut frame = Frame::new(columns);
    for row in &merged.rows {
        let (short, rest) = row.id.split_at(10.min(row.id.len()));
        let number = rest.split_once('/').map_or(String::new(), |(_, number)| format!("/{number}"));
        let mut values: Vec<Value> = vec![
            Value::from(&row.id).shown(format!("{short}{number}")),
            (&row.cell.label).into(),
            row.cell.variant_text().into(),
            row.cell.seed.into(),
            state(&row.known).into(),
            (&row.results).into(),
        ];
        values.extend(METRICS.iter().map(|metric| match &row.known {
            CellStatus::Done(summary) => {
                Some(metric.of(summary)).filter(|x| x.is_finite()).map_or(Value::Absent, Value::Number)
            }
            _ => Value::Absent,
        }));
        frame.push(values);
    }
    frame
}
