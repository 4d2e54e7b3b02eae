//! `sandtable check`.

use std::path::{Path, PathBuf};

use sandtable_core::error::{Error, ExitCode};
use sandtable_plan::{Cell, Expansion};
use sandtable_results::claim;
use sandtable_run::code;
use sandtable_run::execute::Compiled;

use super::begin::{self, Warned};
use super::{SpecArgs, note_uncut, note_workloads};
use crate::ui;

/// Check specs: everything that they name is read, every policy and predictor begins; nothing runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable check experiments/specs/quickstart.ron
  sandtable check experiments/specs/*/*.ron --test")]
pub(crate) struct CheckArgs {
    /// The specs.
    #[arg(value_name = "SPEC", required = true)]
    specs: Vec<PathBuf>,
    #[command(flatten)]
    spec: SpecArgs,
}

/// Cells that are looked at at once: of a large sweep not all are kept.
const AT_ONCE: usize = 10_000;

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Error> {
    let mut worst = ExitCode::Done;
    for path in &args.specs {
        match one(args, path) {
            Ok(cells) => ui::result(&format!("{}: {cells} cells can begin\n", path.display())),
            // The others are checked too.
            Err(error) => {
                ui::note(&error.to_string());
                worst = error.exit;
            }
        }
    }
    Ok(worst)
}

/// How many cells it has.
fn one(args: &CheckArgs, path: &Path) -> Result<usize, Error> {
    let options = args.spec.options()?;
    let mut expansion = Expansion::open(path, &options)?;
    note_uncut(path, &options, expansion.source())?;
    let (mut noted, mut warned, mut cells) = (Vec::new(), Warned::default(), 0);
    while !expansion.is_done() {
        let plan = expansion.part(AT_ONCE)?;
        if expansion.is_done() {
            claim::check(expansion.source(), &expansion.claims()?)?;
        }
        note_workloads(&plan, &mut noted);
        let all: Vec<&Cell> = plan.cells.iter().collect();
        let compiled = Compiled::new(&code::settings(ui::note), all.iter().copied())?;
        begin::all_begin(&plan, &all, &compiled)?;
        begin::never_run(&plan, &all, &mut warned)?;
        cells += all.len();
    }
    Ok(cells)
}
