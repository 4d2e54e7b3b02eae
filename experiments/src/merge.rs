//! The results of a sweep in one table: a row for each cell, by id, and a digest that two runs of it agree in or not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use comfy_table::{Table, presets};
use serde_json::{Map, Value, json};

use crate::columns::lines;
use crate::digest::digest;
use crate::engine::{Page, State};
use crate::error::Error;
use crate::metric;
use crate::plan::{Cell, Machines, Plan};
use crate::status::Failure;
use crate::status::{Known, lookup};
use crate::store::{Files, Store, files_of};
use crate::trace::csv_cell;

/// A row.
pub struct Row<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Its id; of an observation with its number, as `…/0001`.
    pub id: String,
    /// What is known.
    pub known: Known,
    /// blake3 of its files.
    pub results: String,
}

/// What a store has of a plan.
pub struct Merged<'a> {
    /// By id.
    pub rows: Vec<Row<'a>>,
}

/// blake3 of the names and bytes of files.
fn of_files(files: &Files) -> String {
    let mut all: Vec<String> = files.iter().map(|(name, bytes)| format!("{name} {}\n", digest(bytes))).collect();
    all.sort();
    digest(all.concat().as_bytes())
}

/// An observation, which is kept like a cell's result.
fn observed<'a>(cell: &'a Cell, folder: &Path) -> Result<Row<'a>, Error> {
    let files = files_of(folder)?;
    let of = |name: &str| files.iter().find(|(known, _)| known == name).map(|(_, bytes)| bytes.as_slice());
    let known = match of("summary.json").map(serde_json::from_slice) {
        Some(Ok(summary)) => Known::Done(Box::new(summary)),
        _ => {
            let message = format!("{} has no summary", folder.display());
            Known::Failed(Failure { kind: "observation".into(), message, backtrace: Vec::new() })
        }
    };
    let name = |path: Option<&Path>| path.and_then(Path::file_name).unwrap_or_default().to_string_lossy().to_string();
    let id = format!("{}/{}", name(folder.parent()), name(Some(folder)));
    Ok(Row { cell, id, known, results: of_files(&files) })
}

impl<'a> Merged<'a> {
    /// What there is.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn of(page: &Page<'a>) -> Result<Merged<'a>, Error> {
        let mut rows: BTreeMap<(String, usize), Row<'a>> = BTreeMap::new();
        for (at, cell) in page.plan.cells.iter().enumerate() {
            if matches!(cell.machines, Machines::Live(_)) {
                for folder in page.observations(at)? {
                    let row = observed(cell, &folder)?;
                    rows.insert((row.id.clone(), at), row);
                }
            } else if page.state(at)? != State::Missing {
                let known = lookup(cell, page.store())?;
                let results = of_files(&page.store().files(&cell.id)?);
                rows.insert((cell.id.clone(), at), Row { cell, id: cell.id.clone(), known, results });
            }
        }
        Ok(Merged { rows: rows.into_values().collect() })
    }

    /// blake3 of the ids and of all bytes of all results.
    pub fn digest(&self) -> String {
        // A cell may stand in a spec under two labels.
        let all: BTreeSet<String> = self.rows.iter().map(|row| format!("{} {}\n", row.id, row.results)).collect();
        digest(all.into_iter().collect::<String>().as_bytes())
    }
}

/// Takes in what another store has of a plan's cells: those that this one lacks, and of the others the proof that they are alike;
/// and observations that are not here yet. How many cells, and how many observations.
///
/// # Errors
/// A file that can't be read or written, a folder that is no store, a cell that was copied in part, a result that differs.
pub fn from_others(plan: &Plan, store: &Store, other: &Path) -> Result<(usize, usize), Error> {
    if !other.join("cells").is_dir() {
        return Err(Error::usage(format!("{}: expected a store, with a folder `cells`", other.display())));
    }
    let other = Store::look(other)?;
    let (mut taken, mut observed) = (0, 0);
    for cell in &plan.cells {
        if let Machines::Live(field) = &cell.machines {
            if field.assumed() {
                let error = Error::usage("which observations are this spec's only a machine with its GPUs can tell");
                return Err(error.hint("merge there, or let the nodes share one store"));
            }
            observed += observations(&cell.id, store, &other)?;
            continue;
        }
        let folder = other.folder(&cell.id);
        if !folder.is_dir() {
            continue;
        }
        let files = other.files(&cell.id)?;
        complete(&cell.id, &folder, &files)?;
        taken += usize::from(!store.has(&cell.id));
        match other.producer_file(&cell.id)? {
            Some(producer) => store.put_of(&cell.id, &files, &producer)?,
            None => store.put(&cell.id, &files)?,
        }
    }
    Ok((taken, observed))
}

/// A copy that was interrupted is no result.
fn complete(id: &str, folder: &Path, files: &Files) -> Result<(), Error> {
    let has = |name: &str| files.iter().any(|(known, _)| known == name);
    if !files.iter().any(|(name, bytes)| name == "cell.json" && digest(bytes) == id) {
        return Err(Error::usage(format!(
            "{}: expected a cell.json whose blake3 is the folder's name",
            folder.display()
        )));
    }
    let lacking =
        ["summary.json", "jobs.csv", "timeline.csv"].into_iter().find(|name| !has(name) && !has("failure.json"));
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

fn state(known: &Known) -> &'static str {
    match known {
        Known::Done(_) => "done",
        Known::Failed(_) => "failed",
        Known::Missing | Known::TimedOut => "missing",
    }
}

fn value(row: &Row<'_>, name: &str) -> Option<f64> {
    let Known::Done(summary) = &row.known else { return None };
    metric::find(name).map(|known| known.of(summary)).filter(|value| value.is_finite())
}

/// The rows, for people, as CSV or as JSON lines.
pub fn render(merged: &Merged<'_>, format: crate::table::Format) -> String {
    use crate::table::Format;
    match format {
        Format::Table => {
            let names = ["jct_mean_s", "makespan_s", "utilisation_window"];
            let mut table = Table::new();
            table.load_style(presets::NOTHING).set_header([
                "cell",
                "policy",
                "variant",
                "seed",
                "state",
                "JCT mean",
                "makespan",
                "utilisation",
            ]);
            for row in &merged.rows {
                let (short, rest) = row.id.split_at(10.min(row.id.len()));
                let number = rest.split_once('/').map_or(String::new(), |(_, number)| format!("/{number}"));
                let mut words = vec![format!("{short}{number}"), row.cell.label.clone(), row.cell.variant_text()];
                words.extend([row.cell.seed.to_string(), state(&row.known).to_string()]);
                words.extend(names.map(|name| {
                    let known = metric::find(name).zip(value(row, name));
                    known.map_or("-".into(), |(metric, x)| metric.unit.text(x))
                }));
                table.add_row(words);
            }
            lines(&table)
        }
        Format::Csv => {
            let names: Vec<&str> = metric::names().collect();
            let mut out = format!("id,policy,variant,seed,state,results,{}\n", names.join(","));
            for row in &merged.rows {
                let (label, variant) = (csv_cell(&row.cell.label), csv_cell(&row.cell.variant_text()));
                let head =
                    [&row.id, &label, &variant, &row.cell.seed.to_string(), state(&row.known), &row.results].join(",");
                let texts: Vec<String> =
                    names.iter().map(|name| value(row, name).map_or_else(String::new, |x| x.to_string())).collect();
                out.push_str(&format!("{head},{}\n", texts.join(",")));
            }
            out
        }
        Format::Json => {
            let object = |row: &Row<'_>| {
                let metrics: Map<String, Value> =
                    metric::names().filter_map(|name| Some((name.to_string(), json!(value(row, name)?)))).collect();
                json!({"id": row.id, "policy": row.cell.label, "variant": row.cell.variant_text(), "seed": row.cell.seed,
                    "state": state(&row.known), "results": row.results, "metrics": metrics})
            };
            merged.rows.iter().map(|row| object(row).to_string() + "\n").collect()
        }
    }
}
