//! Runs on the devices of this machine: observed, never computed.

use std::sync::atomic::Ordering;

use sandtable_core::error::{Error, ExitCode};
use sandtable_results::status::CellStatus;
use sandtable_results::store::Store;
use sandtable_results::sweep::SweepState;
use sandtable_run::code;
use sandtable_run::execute::Compiled;
use sandtable_run::observe::{Swaps, observe};
use sandtable_runtime::sandbox::Settings;

use super::{Asked, LIVE, RunArgs, conclude};
use crate::ui;

/// Every cell on this machine's devices, one after the other.
pub(super) fn run(args: &RunArgs, asked: &Asked<'_>, store: &Store) -> Result<ExitCode, Error> {
    if cfg!(not(target_os = "linux")) {
        let error = Error::usage("runs on real devices need Linux, where no process of a job outlives its run");
        return Err(Error { exit: ExitCode::Hardware, ..error });
    }
    let (plan, cells) = (asked.plan, asked.cells());
    if cells.iter().any(|(_, cell)| cell.backend.live().is_none()) {
        let error = Error::usage(format!(
            "{}: a sweep over real and modelled fleets has results of two kinds",
            plan.source.origin
        ));
        return Err(error.hint("make two specs of it"));
    }
    if args.timeout.is_some() {
        let error = Error::usage("`--timeout` is of modelled runs: what really runs can't be run again");
        return Err(error.hint("`limit` of the fleet ends a live run"));
    }
    // From here on an interrupt ends this process at once, also at the question.
    LIVE.store(true, Ordering::Relaxed);
    args.consent.ask(&plan.source.origin, cells.iter().map(|(_, cell)| *cell))?;
    ui::note(&format!("{}: {} cells, observed one after the other", asked.title(args), cells.len()));
    if let Some((_, cell)) = cells.first() {
        ui::note(&format!("semantics: {}", cell.setting.semantics.join("; ")));
    }
    let bar = ui::Progress::of(cells.len() as u64, args.no_progress);
    let policies = args.spec.policies();
    let swaps =
        Swaps { at: args.swap_at.clone(), file: args.swap_file.clone(), policies, cells: &plan.cells, say: ui::note };
    let mut known = Vec::new();
    let page = SweepState::new(store, plan);
    for (at, cell) in &cells {
        let Some(devices) = cell.backend.live() else { continue };
        let part = bar.begin(&cell.label, 0);
        let settings = Settings { deadline: Some(devices.decide.into()), ..code::settings_beside(store, ui::note) };
        let compiled = Compiled::new(&settings, std::iter::once(*cell))?;
        let observed = observe(cell, devices, &compiled, &swaps, &store.temporary("live")?)?;
        let folder = store.observe(&cell.id, &observed.files)?;
        page.note_observed(*at, &folder)?;
        ui::note(&format!("{} seed {}: observed, kept in {}", cell.label, cell.seed, folder.display()));
        if args.log {
            observed.log.iter().for_each(|line| ui::note(&format!("{} seed {}: {line}", cell.label, cell.seed)));
        }
        known.push(match observed.outcome {
            Ok(summary) => CellStatus::Done(Box::new(summary)),
            Err(failure) => CellStatus::Failed(failure),
        });
        drop(part);
    }
    bar.finish();
    conclude(args, asked, store, &known)
}
