//! One named test a spec, and one that no snapshot has lost its spec.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use libtest_mimic::{Arguments, Failed, Trial};
use sandtable::claim::{ExpectedFailures, measure, scope};
use sandtable::error::ExitCode;
use sandtable::execute::{Workers, complete};
use sandtable::input::sorted;
use sandtable::plan::{Options, plan};
use sandtable::status::known;
use sandtable::store::Store;
use sandtable::table::snapshot;

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

/// Whether data have to be there, so that their absence is a failure.
#[expect(clippy::disallowed_methods, reason = "what has to be there is told by the environment")]
fn required() -> bool {
    std::env::var("SANDTABLE_REQUIRE_DATA").is_ok_and(|value| !value.is_empty() && value != "0")
}

fn trial(here: &'static Path, specs: &Path, path: PathBuf) -> Trial {
    let relative = path.strip_prefix(specs).expect("below").with_extension("");
    let name = relative.display().to_string().replace('/', "::");
    let root = specs.to_path_buf();
    let lacking = lacking(&path);
    let required = required();
    let ignored = lacking.as_ref().is_some_and(|(_, data)| !(*data && required));
    let kind = lacking.filter(|_| ignored).map_or(String::new(), |(why, _)| why);
    let test = Trial::test(name, move || {
        let text = results(&path)?;
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(here.join(relative.parent().unwrap_or(Path::new(""))));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings
            .set_input_file(path.strip_prefix(root.parent().and_then(Path::parent).unwrap_or(&root)).unwrap_or(&path));
        let name = relative.file_name().unwrap_or_default().to_string_lossy().to_string();
        settings.bind(|| insta::assert_snapshot!(name, text));
        Ok(())
    });
    test.with_kind(kind).with_ignored_flag(ignored)
}

/// Why a spec has no snapshot on this machine, and whether that is for lack of data: it names data that are not here, devices
/// that are not here, or it is an observation, which no snapshot holds.
fn lacking(path: &Path) -> Option<(String, bool)> {
    let text = std::fs::read_to_string(path).ok()?;
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    if text.contains("shared/data") && !shared.is_dir() {
        return Some(("no ../shared/data".into(), true));
    }
    match plan(path, &Options { test: true, ..Options::default() }) {
        Err(error) if error.exit == ExitCode::Hardware => Some(("no such device".into(), false)),
        Ok(plan) if plan.cells.iter().any(|cell| !cell.backend.is_reproducible()) => {
            Some(("an observation".into(), false))
        }
        _ => None,
    }
}

fn results(path: &Path) -> Result<String, Failed> {
    let plan = plan(path, &Options { test: true, ..Options::default() }).map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let store = Store::open(folder.path()).map_err(|error| error.to_string())?;
    let workers = Workers { threads: 1, stop: &AtomicBool::new(false), done: &|_| () };
    complete(&plan, &store, &workers).map_err(|error| error.to_string())?;
    let known = known(&plan, &store).map_err(|error| error.to_string())?;
    let mut text = snapshot(&plan, &known);
    // Claims are about full runs: which of them are known to fail there is in one list, what the cut shows is no verdict.
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/expected-failures.ron");
    let expected = ExpectedFailures::read(&list).map_err(|error| error.to_string())?;
    for one in measure(&plan, &known).iter().filter(|one| one.holds() == Some(false)) {
        let why = expected.reason(path, one).map_or("holds in full runs: the cut is small".into(), |because| {
            format!("fails in full runs too: {because}")
        });
        text.push_str(&format!("expected failure: {}, {}: {why}\n", one.claim.spec.says, scope(one.claim)));
    }
    Ok(text)
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
