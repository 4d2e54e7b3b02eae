//! Comparisons as files.

use std::path::Path;

use sandtable_core::error::Error;
use sandtable_core::output;
use sandtable_report::tex_table;
use sandtable_results::compare::{self, Comparison};
use sandtable_results::store::Store;

use super::matrix::Matrix;

/// How a file of a comparison ends.
fn ending(path: &Path) -> Result<&str, Error> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if ["tex", "md", "csv", "jsonl"].contains(&ending) {
        return Ok(ending);
    }
    let error = Error::usage(format!("{}: no comparison ends in `.{ending}`", path.display()));
    Err(error.hint("expected .tex, .md, .csv or .jsonl"))
}

/// Each with each: for people as a matrix, for programs a row a pair.
pub(super) fn matrix(path: &Path, matrix: &Matrix<'_>) -> Result<(), Error> {
    let (wide, notes, _) = matrix.wide();
    let notes = notes.trim_end();
    let text = match ending(path)? {
        "tex" => tex_table(&wide, &format!("{notes}."), "pairs"),
        "md" => format!("{}\n{notes}\n", wide.markdown()),
        "csv" => matrix.long().csv(),
        _ => matrix.long().json_lines(),
    };
    output::write(path, text)
}

/// Two results, at each point of their sweep.
pub(super) fn pairs(path: &Path, all: &[Comparison], metric: Option<&str>, store: &Store) -> Result<(), Error> {
    let ending = ending(path)?;
    let mut out = String::new();
    for (at, comparison) in all.iter().enumerate() {
        let table = compare::table(comparison, &comparison.changes(metric, store)?);
        let [first, second] = &comparison.names;
        let point = if comparison.variant.is_empty() { String::new() } else { format!(", {}", comparison.variant) };
        let notes = compare::notes(comparison);
        match ending {
            "tex" => {
                let label = if at == 0 { "pairs".to_string() } else { format!("pairs-{}", at + 1) };
                out += &tex_table(&table, &format!("{second} against {first}{point}. {}", notes.trim()), &label);
            }
            "md" => out += &format!("## {second} against {first}{point}\n\n{}\n{}\n\n", table.markdown(), notes.trim()),
            "csv" if at == 0 => out += &table.csv(),
            "csv" => out += &table.csv_rows(),
            _ => out += &table.json_lines(),
        }
    }
    output::write(path, out)
}
