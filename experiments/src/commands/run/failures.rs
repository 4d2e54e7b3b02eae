//! Which cells have no result, and why.

use sandtable_core::error::ExitCode;
use sandtable_plan::Cell;
use sandtable_results::status::CellStatus;
use sandtable_results::store::Store;

use crate::commands::in_script::{self, script_of};
use crate::ui;

/// Says which cells have no result and why; the exit code.
pub(crate) fn failures(cells: &[(usize, &Cell)], store: &Store, known: &[CellStatus]) -> ExitCode {
    let mut code = ExitCode::Done;
    let (mut shown, mut left) = (Vec::new(), 0);
    let mut timed_out = 0;
    for ((_, cell), known) in cells.iter().zip(known) {
        match known {
            CellStatus::Failed(failure) => {
                code = ExitCode::PolicyFailed;
                // Every seed of a policy often fails alike: once is enough.
                let line = format!("{} {}: {}", cell.label, failure.kind, failure.message);
                if shown.contains(&line) {
                    left += 1;
                    continue;
                }
                let origin = format!("script of {}", cell.label);
                let drawn = script_of(cell).and_then(|script| in_script::drawn(&origin, &script, &line));
                ui::note(&drawn.unwrap_or_else(|| format!("error: {line}")));
                let most = 8;
                for frame in in_script::named(&failure.backtrace).iter().take(most) {
                    ui::note(&format!("    at {frame}"));
                }
                let capsule = store.folder(&cell.id).join("capsule.json.zst");
                if capsule.exists() {
                    // One's own policy is not found by its digest.
                    let own = cell.policy.path.as_ref().filter(|path| !path.with_file_name("manifest.json").exists());
                    let which = own.map_or(String::new(), |path| format!(" --policy {}", path.display()));
                    ui::note(&format!("hint: replay it with `sandtable policy replay {}{which}`", capsule.display()));
                }
                shown.push(line);
            }
            CellStatus::TimedOut => timed_out += 1,
            CellStatus::Missing => code = if code == ExitCode::Done { ExitCode::Interrupted } else { code },
            CellStatus::Done(_) => {}
        }
    }
    if timed_out > 0 {
        code = if code == ExitCode::Done { ExitCode::Missing } else { code };
        ui::note(&format!("error: {timed_out} cells took longer than --timeout and have no result"));
    }
    if left > 0 {
        ui::note(&format!("({left} more cells failed in the same ways)"));
    }
    code
}
