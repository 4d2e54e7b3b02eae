//! Where compiled code is kept, and which process compiles.
//!
//! Code is executed as it is. It is kept in a folder of this user alone, never in a store, which others may fill,
//! and a file of it is used only if it is as it was written. A component may come from an untrusted source: it is
//! compiled by a process of its own, under limits.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sandtable_core::input;
use sandtable_results::store::Store;
use sandtable_runtime::sandbox::{Budget, CodeCache, Compiler, Settings};

/// The hidden command by which this program compiles for itself.
pub const COMMAND: &str = "compile-component";

/// What reports a line meanwhile.
pub type Say = fn(&str);

/// Ignores what is said.
pub fn quiet(_: &str) {}

static COMPILER: OnceLock<Compiler> = OnceLock::new();

/// Says that this process is `sandtable`, which knows [`COMMAND`]; other users of the library compile in their own process.
pub fn compile_in_a_child() {
    // The file of this very process, even where another has been put in its place.
    let linux = Path::new("/proc/self/exe");
    let program = if linux.exists() { Some(linux.to_path_buf()) } else { std::env::current_exe().ok() };
    if let Some(program) = program {
        let _ = COMPILER.set(Compiler { program, arguments: vec![COMMAND.into()], budget: Budget::default() });
    }
}

/// How components are compiled; `say` is told why compiled code is not kept, if so.
pub fn settings(say: Say) -> Settings {
    with(folder(), say)
}

/// How components are compiled whose results go into this store.
pub fn settings_beside(store: &Store, say: Say) -> Settings {
    with(folder().filter(|folder| !leads_into(folder, store.root())), say)
}

fn with(folder: Option<PathBuf>, say: Say) -> Settings {
    let cache = folder.and_then(|folder| opened(&folder, say));
    Settings { cache, compiler: COMPILER.get().cloned(), ..Settings::default() }
}

/// `$XDG_CACHE_HOME/sandtable/code`, or that of `~/.cache`.
fn folder() -> Option<PathBuf> {
    kept("code")
}

fn kept(name: &str) -> Option<PathBuf> {
    Some(input::own_folder("XDG_CACHE_HOME", ".cache")?.join(name))
}

/// Where built interpreters are kept, into which the texts of policies are put; `say` is told why they are not, if so.
pub fn interpreters(say: Say) -> Option<CodeCache> {
    kept("interpreters").and_then(|folder| opened(&folder, say))
}

/// Whether a folder, which may not be there yet, is inside of another.
fn leads_into(folder: &Path, other: &Path) -> bool {
    let there = folder.ancestors().find_map(|above| above.canonicalize().ok());
    folder.starts_with(other) || there.is_some_and(|there| there.starts_with(other))
}

fn opened(folder: &Path, say: Say) -> Option<CodeCache> {
    static SAID: OnceLock<()> = OnceLock::new();
    match CodeCache::open(folder) {
        Ok(cache) => Some(cache),
        Err(why) => {
            SAID.get_or_init(|| say(&format!("warning: compiled code is not kept: {why}")));
            None
        }
    }
}
