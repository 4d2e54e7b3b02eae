//! One named test a spec, and one that no snapshot has lost its spec.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use libtest_mimic::{Arguments, Failed, Trial};
use sandtable::error::ExitCode;
use sandtable::execute::{Workers, complete};
use sandtable::plan::{Machines, Options, plan};
use sandtable::store::{Store, sorted};
use sandtable::table::{known, snapshot};

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let specs = here.parent().expect("a workspace").join("experiments/specs");
    let mut trials: Vec<Trial> = files(&specs, "ron").into_iter().map(|path| trial(here, &specs, path)).collect();
    trials.push(Trial::test("no_orphans", move || orphans(here, &specs)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in sorted(folder).expect("a folder") {
        // Profiles and recordings are what specs name, not specs.
        if path.ends_with("profiles") || path.ends_with("recorded") {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found
}

fn trial(here: &'static Path, specs: &Path, path: PathBuf) -> Trial {
    let relative = path.strip_prefix(specs).expect("below").with_extension("");
    let name = relative.display().to_string().replace('/', "::");
    let root = specs.to_path_buf();
    Trial::test(name, move || {
        let Some(text) = results(&path)? else { return Ok(()) };
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(here.join(relative.parent().unwrap_or(Path::new(""))));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings
            .set_input_file(path.strip_prefix(root.parent().and_then(Path::parent).unwrap_or(&root)).unwrap_or(&path));
        let name = relative.file_name().unwrap_or_default().to_string_lossy().to_string();
        settings.bind(|| insta::assert_snapshot!(name, text));
        Ok(())
    })
}

/// `None` where the spec needs data or devices that are not on this machine, or is an observation, which no snapshot holds.
fn results(path: &Path) -> Result<Option<String>, Failed> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    if text.contains("shared/data") && !shared.is_dir() {
        #[expect(clippy::print_stderr, reason = "a test that skips says so")]
        {
            eprintln!("skipped: {} needs ../shared/data, which is not here", path.display());
        }
        return Ok(None);
    }
    let plan = match plan(path, &Options { test: true, ..Options::default() }) {
        Err(error) if error.exit == ExitCode::Hardware => return Ok(None),
        planned => planned.map_err(|error| error.to_string())?,
    };
    if plan.cells.iter().any(|cell| matches!(cell.machines, Machines::Live(_))) {
        return Ok(None);
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let store = Store::open(folder.path()).map_err(|error| error.to_string())?;
    let workers = Workers { threads: 1, stop: &AtomicBool::new(false), done: &|_| () };
    complete(&plan, &store, &workers).map_err(|error| error.to_string())?;
    let known = known(&plan, &store).map_err(|error| error.to_string())?;
    Ok(Some(snapshot(&plan, &known)))
}

fn orphans(here: &Path, specs: &Path) -> Result<(), Failed> {
    for path in files(here, "snap") {
        let spec = specs.join(path.strip_prefix(here).expect("below")).with_extension("ron");
        if !spec.exists() {
            return Err(format!("{} has no spec {}", path.display(), spec.display()).into());
        }
    }
    Ok(())
}
