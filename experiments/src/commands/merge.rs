//! `sandtable merge`.

use std::path::PathBuf;
use std::time::Duration;

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::output;
use sandtable_plan::Options;
use sandtable_results::merge::{Merged, from_others, table};
use sandtable_results::sweep::{State, SweepState};

use super::{Format, SpecArgs, StoreArgs, expand_noting};
use crate::engine::plan_file::PlanFile;
use crate::ui;

/// Gather the results of a spec: a row for each cell, by id, the same bytes wherever the cells ran.
#[derive(Debug, clap::Args)]
pub(crate) struct MergeArgs {
    /// The spec.
    #[arg(required_unless_present = "plan", value_name = "SPEC")]
    path: Option<PathBuf>,
    /// Merge all cells of the spec of this plan file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["path", "set", "at", "sweep", "only", "test", "policies", "max_bytes", "max_rows", "max_cells"])]
    plan: Option<PathBuf>,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Copy results from these stores first, for machines without a shared file system.
    #[arg(long, value_name = "DIR", num_args = 1)]
    from: Vec<PathBuf>,
    /// Time to wait for files to appear on a shared file system before cells count as missing.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = super::submit::settle)]
    settle: u64,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Output file [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &MergeArgs) -> Result<ExitCode, Error> {
    let (path, options, store) = match (&args.plan, &args.path) {
        (Some(file), _) => {
            let plan_file = PlanFile::read(file)?;
            plan_file.same_program()?;
            let store = args.store.open_for(&plan_file)?;
            (plan_file.header.spec, Options { elsewhere: true, ..plan_file.header.options }, store)
        }
        (None, path) => {
            let path = path.clone().unwrap_or_default();
            let store = args.store.open(Some(&path))?;
            (path, super::submit::elsewhere(&args.spec)?, store)
        }
    };
    let plan = expand_noting(&path, &options)?;
    let mut damaged = Vec::new();
    for other in &args.from {
        let taken = from_others(&plan, &store, other)?;
        let (cells, observations) = (taken.cells, taken.observations);
        ui::note(&format!("{cells} cells and {observations} observations taken in from {}", other.display()));
        damaged.extend(taken.damaged);
    }
    let page = SweepState::new(&store, &plan);
    let mut missing = page.places(State::Missing)?;
    for _ in 0..args.settle {
        if missing.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
        let mut still = Vec::new();
        for at in missing {
            if !page.appears(at)? {
                still.push(at);
            }
        }
        missing = still;
    }
    let mut merged = Merged::of(&page)?;
    let rows = table(&merged);
    match &args.output {
        Some(file) if args.format == Format::Table => output::write(file, rows.whole_text())?,
        Some(file) => output::write(file, args.format.of(&rows))?,
        None => ui::result(&args.format.of(&rows)),
    }
    let (all, rows) = (plan.cells.len(), merged.rows.len());
    damaged.append(&mut merged.damaged);
    // A digest of a part would be compared with that of all.
    let digest = if damaged.is_empty() { merged.digest() } else { format!("not known: {} damaged", damaged.len()) };
    ui::note(&format!("{}: {rows} rows of {all} cells, blake3 {digest}", plan.title));
    damaged.iter().for_each(|error| ui::note(&error.to_string()));
    let conflicts = page.conflicts()?;
    for path in &conflicts {
        ui::note(&format!("error: nondeterministic: a second result that differs is kept in {}", path.display()));
    }
    let failed: Vec<usize> = page.places(State::Failed)?;
    named(&page, "failed", &failed);
    named(&page, "missing", &missing);
    Ok(match () {
        () if !conflicts.is_empty() || !damaged.is_empty() => ExitCode::CheckFailed,
        () if !missing.is_empty() => ExitCode::Missing,
        () if !failed.is_empty() => ExitCode::PolicyFailed,
        () => ExitCode::Done,
    })
}

/// Says which cells.
fn named(page: &SweepState<'_>, what: &str, places: &[usize]) {
    const SHOWN: usize = 10;
    for at in places.iter().take(SHOWN) {
        let cell = &page.plan.cells[*at];
        let variant = if cell.variant.is_empty() { String::new() } else { format!(" {}", cell.variant_text()) };
        ui::note(&format!("error: {what}: cell {} ({} seed {}{variant})", cell.short(), cell.label, cell.seed));
    }
    if places.len() > SHOWN {
        ui::note(&format!("error: {what}: {} more", places.len() - SHOWN));
    }
}
