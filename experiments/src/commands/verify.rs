//! `sandtable verify`: the proof that a result is a function of its inputs.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::output;
use sandtable_plan::{Cell, Plan};
use sandtable_results::bundle::Opened;
use sandtable_results::store::Files;
use sandtable_run::code;
use sandtable_run::execute::{Compiled, Workers, execute_watched, in_parallel};
use sandtable_runtime::sandbox::{Settings, Variation};

use super::select::drawn;
use super::{SpecArgs, StoreArgs, threads};
use crate::ui;

/// Run cells again and compare.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// Specs, or bundles (`.tar.zst`).
    #[arg(required = true, value_name = "SPEC")]
    specs: Vec<PathBuf>,
    /// Of a bundle that was packed without them: a folder that has the traces and profiles.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Verify only this share of the cells, such as `5%`; at least one cell.
    #[arg(long, value_name = "SHARE", value_parser = sample)]
    sample: Option<f64>,
    /// Seed that selects the cells `--sample` verifies.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "sample")]
    draw: u64,
    /// Use wasmtime's interpreter, which runs no machine code; about ten times slower.
    #[arg(long)]
    interpreted: bool,
    /// How components are called.
    #[arg(long, value_enum, value_name = "ABI", default_value_t = Abi::Core)]
    abi: Abi,
    /// Number of cells to run at a time [default: the number of cores].
    #[arg(long, short, value_name = "N")]
    jobs: Option<std::num::NonZeroUsize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Abi {
    /// Through their core modules where that is possible, as `run` does.
    Core,
    /// Through wasmtime's component layer.
    Component,
}

/// A share of nothing would be a proof of nothing.
fn sample(text: &str) -> Result<f64, String> {
    let share = super::run::share(text)?;
    (share > 0.0).then_some(share).ok_or_else(|| "expected more than 0%".into())
}

pub(crate) fn run(args: &VerifyArgs) -> Result<ExitCode, Error> {
    let mut code = ExitCode::Done;
    for spec in &args.specs {
        let one = match spec.to_string_lossy().ends_with(".tar.zst") {
            true => bundle(args, spec)?,
            false => in_store(args, spec)?,
        };
        if code == ExitCode::Done || one == ExitCode::CheckFailed {
            code = one;
        }
    }
    Ok(code)
}

/// The results of a spec that the store has.
fn in_store(args: &VerifyArgs, spec: &Path) -> Result<ExitCode, Error> {
    let plan = args.spec.expand(spec)?;
    let store = args.store.open(Some(spec))?;
    super::run::not_live(&plan)?;
    let there: Vec<&Cell> = plan.cells.iter().filter(|cell| store.has(&cell.id)).collect();
    let code = all(args, &plan, &there, code::settings_beside(&store, ui::note), |id| store.files(id))?;
    let missing = plan.cells.len() - there.len();
    Ok(if missing > 0 && code == ExitCode::Done { ExitCode::Missing } else { code })
}

/// The results that a bundle holds.
fn bundle(args: &VerifyArgs, path: &Path) -> Result<ExitCode, Error> {
    if !args.spec.is_plain() {
        let error = Error::usage(format!("{}: a bundle is verified whole, as it was packed", path.display()));
        return Err(error.hint("leave out --set, --at, --sweep, --only, --test, --policies and --max-…"));
    }
    let packed = std::io::BufReader::new(sandtable_core::input::open(path)?);
    let folder = output::scratch()?;
    let opened = Opened::new(packed, folder.path(), args.data.as_deref())?;
    let plan = opened.plan(&args.spec.options()?)?;
    super::run::not_live(&plan)?;
    ui::note(&format!("{}: every file is as bundle.json says, every cell has its id", path.display()));
    let cells: Vec<&Cell> = plan.cells.iter().collect();
    all(args, &plan, &cells, code::settings(ui::note), |id| opened.results(id))
}

/// Runs cells again, every NaN made canonical, and compares with what was kept of them.
fn all(
    args: &VerifyArgs,
    plan: &Plan,
    cells: &[&Cell],
    settings: Settings,
    kept: impl Fn(&str) -> Result<Files, Error> + Sync,
) -> Result<ExitCode, Error> {
    let missing = plan.cells.len() - cells.len();
    let drawn = args.sample.map(|share| drawn(share, args.draw, cells));
    let cells = drawn.as_deref().unwrap_or(cells);
    let component = args.abi == Abi::Component;
    let variation = Variation { canonical_nan: true, interpreted: args.interpreted, component, ..Variation::default() };
    let settings = Settings { variation, ..settings };
    let compiled = Compiled::new(&settings, cells.iter().copied())?;
    let bar = ui::Progress::of(cells.len() as u64, false);
    let workers = Workers { threads: threads(args.jobs), stop: &AtomicBool::new(false), done: &|_| {} };
    let differing = in_parallel(cells, &workers, |cell| {
        let again = execute_watched(cell, &compiled, &bar.watched(cell, None))?.files()?;
        // What was changed on the way may not even unpack.
        let before = match kept(&cell.id) {
            Ok(before) => before,
            Err(error) if error.exit == ExitCode::CheckFailed => {
                return Ok(vec![format!("a table: {}", error.message)]);
            }
            Err(error) => return Err(error),
        };
        let names = again.iter().zip(&before).filter(|(a, b)| a != b).map(|(a, _)| a.0.clone());
        let mut names: Vec<String> = names.collect();
        if again.len() != before.len() {
            names.push("the number of files".into());
        }
        Ok(names)
    })?;
    bar.finish();
    let mut different = 0;
    for (cell, names) in cells.iter().zip(differing.into_iter().flatten()) {
        if !names.is_empty() {
            different += 1;
            ui::note(&format!("{} {} seed {}: differs in {}", cell.short(), cell.label, cell.seed, names.join(", ")));
        }
    }
    let (same, left) = (cells.len() - different, plan.cells.len() - missing - cells.len());
    let left = if left > 0 { format!(", {left} not drawn") } else { String::new() };
    ui::result(&format!("{}: {same} cells identical, {different} different, {missing} missing{left}\n", plan.title));
    Ok(if different > 0 { ExitCode::CheckFailed } else { ExitCode::Done })
}
