//! What is found before anything runs: policies that refuse to begin, jobs that can never run.

use std::collections::BTreeSet;
use std::path::Path;

use sandtable_core::error::Error;
use sandtable_core::input;
use sandtable_plan::spec::{Places, Source};
use sandtable_plan::{Cell, Plan};
use sandtable_results::store::Store;
use sandtable_run::code;
use sandtable_run::execute::{Compiled, refusal};
use sandtable_runtime::Capacities;
use sandtable_runtime::fault::Fault;

use super::in_script::{self, script_of};
use crate::ui;

/// Compiles what the cells of a plan without a result need, and asks it to begin.
pub(super) fn lacking_begin(plan: &Plan, store: &Store, warned: &mut Warned) -> Result<(), Error> {
    let missing: Vec<&Cell> = plan.cells.iter().filter(|cell| !store.has(&cell.id)).collect();
    all_begin(plan, &missing, &Compiled::new(&code::settings_beside(store, ui::note), missing.iter().copied())?)?;
    never_run(plan, &missing, warned)
}

/// Every policy takes its parameters and is told what it must be: one seed of each is enough.
pub(super) fn all_begin(plan: &Plan, cells: &[&Cell], compiled: &Compiled) -> Result<(), Error> {
    let mut tried = BTreeSet::new();
    for cell in cells {
        if !tried.insert((&cell.label, &cell.variant)) {
            continue;
        }
        let Some(fault) = refusal(cell, compiled)? else { continue };
        let variant = if cell.variant.is_empty() { String::new() } else { format!(" at {}", cell.variant_text()) };
        let message = format!("`{}`{variant} does not begin: {fault}", cell.label);
        let text = input::text(Path::new(&plan.source.origin), input::SPEC).unwrap_or_default();
        let source = Source::of_any(plan.source.origin.clone(), text)?;
        let labels = Places::of(&source.text).unwrap_or_default().labels;
        if let Fault::Predictor { quantity, .. } = &fault {
            let place = format!("predictors.{quantity}");
            return Err(source.error(&place, &message, "this predictor"));
        }
        let error = match labels.iter().position(|label| *label == cell.label) {
            Some(at) if fault.kind() == "refused-configuration" && cell.config != "{}" => {
                source.error(&format!("policies.{at}.with"), &message, "these parameters")
            }
            Some(at) => source.error(&format!("policies.{at}"), &message, "this policy"),
            None => Error::usage(format!("{}: {message}", plan.source.origin)),
        };
        // The text that is wrong may be in another file.
        let origin = format!("script of {}", cell.label);
        let drawn = script_of(cell).and_then(|script| in_script::drawn(&origin, &script, &fault.to_string()));
        return Err(match drawn {
            Some(drawn) => Error { message: format!("{}\n{drawn}", error.message), ..error },
            None => error,
        });
    }
    Ok(())
}

/// Workloads of at most so many variants are looked at: those of a sweep are mostly alike.
const VARIANTS: usize = 16;

/// What [`never_run`] has looked at and said, in all parts of a plan.
#[derive(Default)]
pub(super) struct Warned {
    variants: Vec<Vec<(String, String)>>,
    said: Vec<String>,
}

/// Warns of jobs that can never run on their fleet.
pub(super) fn never_run(plan: &Plan, cells: &[&Cell], warned: &mut Warned) -> Result<(), Error> {
    for cell in cells {
        if warned.variants.len() == VARIANTS || warned.variants.contains(&cell.variant) {
            continue;
        }
        warned.variants.push(cell.variant.clone());
        let jobs = cell.jobs()?;
        let capacities = Capacities::of(&cell.fleet);
        let why: Vec<String> = jobs.iter().filter_map(|job| capacities.never_fits(&cell.setting.laws, job)).collect();
        if let Some(first) = why.first() {
            let (count, all) = (why.len(), jobs.len());
            let sentence = format!("{count} of {all} jobs can never run: the first, since {first}");
            if !warned.said.contains(&sentence) {
                ui::note(&format!("warning: {}: {sentence}", plan.source.origin));
                warned.said.push(sentence);
            }
        }
    }
    Ok(())
}
