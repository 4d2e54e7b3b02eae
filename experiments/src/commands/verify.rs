//! `sandtable verify`: the proof that a result is a function of its inputs.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use sandtable_runtime::sandbox::Settings;

use super::{SpecArgs, StoreArgs, threads};
use crate::error::{Error, ExitCode};
use crate::execute::{Compiled, Workers, execute, in_parallel};
use crate::plan::Cell;
use crate::ui;

/// Run cells again and compare.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// Specs.
    #[arg(required = true, value_name = "SPEC")]
    specs: Vec<PathBuf>,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Cells at a time.
    #[arg(long, short, value_name = "N")]
    jobs: Option<usize>,
}

pub(crate) fn run(args: &VerifyArgs) -> Result<ExitCode, Error> {
    let mut code = ExitCode::Done;
    for spec in &args.specs {
        let plan = args.spec.expand(spec)?;
        let store = args.store.open(Some(spec))?;
        super::run::not_live(&plan)?;
        let there: Vec<&Cell> = plan.cells.iter().filter(|cell| store.has(&cell.id)).collect();
        let missing = plan.cells.len() - there.len();
        let settings = Settings { cache: Some(store.code()), canonical_nan: true, ..Settings::default() };
        let compiled = Compiled::new(&settings, there.iter().copied())?;
        let bar = ui::progress(there.len() as u64, false);
        let done = |_: &Cell| bar.inc(1);
        let workers = Workers { threads: threads(args.jobs), stop: &AtomicBool::new(false), done: &done };
        let differing = in_parallel(&there, &workers, |cell| {
            let mut again = execute(cell, &compiled)?.files;
            again.sort();
            let before = store.files(&cell.id)?;
            let names = again.iter().zip(&before).filter(|(a, b)| a != b).map(|(a, _)| a.0.clone());
            let mut names: Vec<String> = names.collect();
            if again.len() != before.len() {
                names.push("the number of files".into());
            }
            Ok(names)
        })?;
        bar.finish_and_clear();
        let mut different = 0;
        for (cell, names) in there.iter().zip(differing.into_iter().flatten()) {
            if !names.is_empty() {
                different += 1;
                let folder = store.folder(&cell.id);
                ui::note(&format!(
                    "{} {}: differs in {} ({})",
                    cell.short(),
                    cell.label,
                    names.join(", "),
                    folder.display()
                ));
            }
        }
        let same = there.len() - different;
        ui::result(&format!("{}: {same} cells identical, {different} different, {missing} missing\n", plan.title));
        if different > 0 {
            code = ExitCode::CheckFailed;
        } else if missing > 0 && code == ExitCode::Done {
            code = ExitCode::Missing;
        }
    }
    Ok(code)
}
