//! Results by what people call them: a spec, a cell's id, or a policy's label.

use std::path::{Path, PathBuf};

use super::{SpecArgs, StoreArgs};
use crate::compare::Entry;
use crate::error::{Error, ExitCode};
use crate::plan::Plan;
use crate::results;
use crate::store::Store;

/// The results that a word means.
pub(super) fn entries(
    word: &str,
    args: &SpecArgs,
    spec: Option<&(PathBuf, Plan)>,
    store: &Store,
) -> Result<Vec<Entry>, Error> {
    if let Some((path, plan)) = spec {
        let own: Vec<Entry> = of_plan(plan).into_iter().filter(|entry| entry.label == word).collect();
        if !own.is_empty() {
            return there(own, store, path);
        }
    }
    let path = Path::new(word);
    if path.is_file() {
        let plan = args.expand(path)?;
        return there(of_plan(&plan), store, path);
    }
    if results::looks_like_an_id(word) {
        let id = results::find(store, word)?;
        let seed = results::inputs(store, &id)?["seed"].as_u64().unwrap_or(0);
        return Ok(vec![Entry { label: id[..10].to_string(), variant: String::new(), seed, id, cell: None }]);
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

fn of_plan(plan: &Plan) -> Vec<Entry> {
    let entry = |cell: &crate::plan::Cell| Entry {
        label: cell.label.clone(),
        variant: cell.variant_text(),
        seed: cell.seed,
        id: cell.id.clone(),
        cell: Some(cell.clone()),
    };
    plan.cells.iter().map(entry).collect()
}

/// Only results that there are.
fn there(mut entries: Vec<Entry>, store: &Store, path: &Path) -> Result<Vec<Entry>, Error> {
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
    let spec = words.iter().map(Path::new).find(|path| path.is_file());
    store.open(spec)
}
