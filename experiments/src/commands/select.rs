//! Finds results by what a user types: a spec, a cell's id, or a policy's label; and draws some of many cells.

use std::path::{Path, PathBuf};

use sandtable_core::digest::digest;
use sandtable_core::error::{Error, ExitCode};
use sandtable_plan::{Cell, Plan};
use sandtable_results::compare::LabelledResult;
use sandtable_results::reader;
use sandtable_results::schema::RunRecord;
use sandtable_results::store::Store;

use super::{SpecArgs, StoreArgs};

/// A share of cells, at least one if it is above 0: those with the smallest hash of id and draw.
pub(super) fn drawn<'a>(share: f64, draw: u64, there: &[&'a Cell]) -> Vec<&'a Cell> {
    let mut drawn: Vec<(String, &Cell)> =
        there.iter().map(|cell| (digest(format!("recheck {draw} {}", cell.id).as_bytes()), *cell)).collect();
    drawn.sort_by(|a, b| a.0.cmp(&b.0));
    drawn.truncate((there.len() as f64 * share).ceil() as usize);
    drawn.into_iter().map(|(_, cell)| cell).collect()
}

/// The results that a word means.
pub(super) fn entries(
    word: &str,
    args: &SpecArgs,
    spec: Option<&(PathBuf, Plan)>,
    store: &Store,
) -> Result<Vec<LabelledResult>, Error> {
    if let Some((path, plan)) = spec {
        let own: Vec<LabelledResult> = of_plan(plan).into_iter().filter(|entry| entry.label == word).collect();
        if !own.is_empty() {
            return there(own, store, path);
        }
    }
    let path = Path::new(word);
    if sandtable_plan::is_spec(path) {
        let plan = args.expand(path)?;
        return there(of_plan(&plan), store, path);
    }
    if reader::looks_like_an_id(word) {
        let id = reader::find(store, word)?;
        let seed = reader::document::<RunRecord>(store, &id)?.seed;
        return Ok(vec![LabelledResult { label: id[..10].to_string(), variant: String::new(), seed, id, cell: None }]);
    }
    let error = Error::usage(format!("`{word}` is no spec, no cell's id and no policy's label"));
    Err(match spec {
        Some((path, plan)) => {
            let mut labels: Vec<&str> = plan.cells.iter().map(|cell| cell.label.as_str()).collect();
            labels.dedup();
            labels.sort_unstable();
            labels.dedup();
            error.hint(format!("{} has {}", path.display(), labels.join(", ")))
        }
        None => error.hint("a policy's label needs its spec: `--spec SPEC`"),
    })
}

fn of_plan(plan: &Plan) -> Vec<LabelledResult> {
    let entry = |cell: &sandtable_plan::Cell| LabelledResult {
        label: cell.label.clone(),
        variant: cell.variant_text(),
        seed: cell.seed,
        id: cell.id.clone(),
        cell: Some(cell.clone()),
    };
    plan.cells.iter().map(entry).collect()
}

/// Only results that there are.
fn there(mut entries: Vec<LabelledResult>, store: &Store, path: &Path) -> Result<Vec<LabelledResult>, Error> {
    let all = entries.len();
    entries.retain(|entry| store.has(&entry.id));
    let message = format!("{}: {} of {all} cells have no result yet", path.display(), all - entries.len());
    if entries.is_empty() {
        let error = Error { exit: ExitCode::Missing, ..Error::usage(message) };
        return Err(error.hint(format!("sandtable run {}", path.display())));
    }
    if entries.len() < all {
        crate::ui::note(&format!("warning: {message}"));
    }
    Ok(entries)
}

/// The store of a spec, or of where we are.
pub(super) fn store_of(store: &StoreArgs, words: &[&str]) -> Result<Store, Error> {
    let spec = words.iter().map(Path::new).find(|path| sandtable_plan::is_spec(path));
    store.open(spec)
}
