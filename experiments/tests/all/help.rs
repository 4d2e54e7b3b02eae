//! What tests share: the command in a folder of its own, and the shared data where it is.

use std::path::{Path, PathBuf};
use std::process::Command;

use sandtable::execute::{Compiled, execute};
use sandtable::plan::{Options, Plan, plan};
use sandtable::store::files_of;
pub(crate) use sandtable_policy::testing::data;
use sandtable_results::schema::{Record, read_table};
use sandtable_runtime::Summary;
use sandtable_runtime::sandbox::{CodeCache, Settings};

/// What a command left behind.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// One cache of compiled code for all tests, and not the user's.
pub(crate) const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/cache");

/// What tests were allowed to run, and not what the user was.
const STATE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/state");

/// The checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_path_buf()
}

/// The command, to be run in `folder`.
pub(crate) fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandtable"));
    command.current_dir(folder).args(args).env("RUST_BACKTRACE", "1").env("XDG_CACHE_HOME", CACHE);
    command.env("XDG_STATE_HOME", STATE);
    command
}

/// Runs the command in `folder`.
pub(crate) fn sandtable(folder: &Path, args: &[&str]) -> Ran {
    ran(&mut command(folder, args))
}

/// What a command leaves behind.
pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Says that a part of a test is not done here.
pub(crate) fn skipped(why: &str) {
    told(&format!("not done here: {why}"));
}

/// Says what a test found, past libtest's capture: it stands in CI's log.
pub(crate) fn told(what: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// The components of this checkout, for specs elsewhere.
pub(crate) fn dist() -> String {
    root().join("policies/dist").display().to_string()
}

/// Writes another table over one of a store's; the path as [`cells`] tells it.
pub(crate) fn rewrite(store: &Path, table: &Path, rows: &[u8]) {
    let packed = zstd::encode_all(rows, 1).expect("packed");
    std::fs::write(store.join(table).with_extension("csv.zst"), packed).expect("written");
}

/// The text of a file of a result or an observation, by the name that its run gave it.
pub(crate) fn text_of(folder: &Path, file: &str) -> String {
    let files = files_of(folder).expect("a folder of results");
    let (_, bytes) = files.into_iter().find(|(name, _)| name == file).expect("a file of the result");
    String::from_utf8(bytes).expect("a text")
}

/// Every file of a store's cells: path below it and bytes; tables unpacked.
pub(crate) fn cells(store: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
        let (folders, files): (Vec<_>, Vec<_>) =
            sandtable::input::sorted(folder).expect("a folder").into_iter().partition(|path| path.is_dir());
        folders.iter().for_each(|folder| walk(root, folder, found));
        if !files.is_empty() {
            let below = folder.strip_prefix(root).expect("below");
            found.extend(files_of(folder).expect("files").into_iter().map(|(name, bytes)| (below.join(name), bytes)));
        }
    }
    let mut found = Vec::new();
    walk(store, &store.join("cells"), &mut found);
    found
}

/// The plan of a spec, with the components of this checkout.
pub(crate) fn planned(spec: &str) -> Result<Plan, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("spec.ron");
    std::fs::write(&path, spec).expect("written");
    plan(&path, &Options { policies: Some(dist().into()), ..Options::default() }).map_err(|error| error.to_string())
}

/// Components are compiled once for all tests, and for the commands that they run.
pub(crate) fn settings() -> Settings {
    let cache = CodeCache::open(&Path::new(CACHE).join("sandtable/code")).expect("a folder of compiled code");
    Settings { cache: Some(cache), ..Settings::default() }
}

/// The components of a plan.
pub(crate) fn compiled(plan: &Plan) -> Compiled {
    Compiled::new(&settings(), plan.cells.iter()).expect("compiled")
}

/// The metrics of a plan's first cell, and the rows of one of its tables.
pub(crate) fn results<T: Record>(plan: &Plan) -> (Summary, Vec<T>) {
    let compiled = compiled(plan);
    let executed = execute(&plan.cells[0], &compiled).expect("a result");
    let files = executed.files().expect("files");
    let (_, rows) = files.iter().find(|(name, _)| name == T::FILE).expect("a table");
    (executed.outcome.unwrap_or_else(|failure| panic!("{}", failure.message)), read_table(rows).expect("a table"))
}
