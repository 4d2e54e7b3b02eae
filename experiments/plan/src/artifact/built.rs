//! What a component of a user's folder was built from: one that is older than its sources is refused.

use std::path::{Path, PathBuf};

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_core::output;

/// A language that policies are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Language {
    /// With the SDK: the cluster's mirror, queues, placement, native unit tests.
    Rust,
    /// By componentize-py: 18 MB of component, slower by two orders of magnitude.
    Python,
    /// By componentize-qjs (QuickJS): 1 MB. Its sibling componentize-js (SpiderMonkey) can't: 0.23.0 panics on this contract,
    /// 0.19.3 hands over wrong GPUs.
    Js,
    /// With generated bindings and no runtime: 10 kB.
    C,
}

impl Language {
    /// The file by which a folder is known to hold a policy of this language.
    pub fn file(self) -> &'static str {
        match self {
            Language::Rust => "Cargo.toml",
            Language::Python => "policy.py",
            Language::Js => "policy.js",
            Language::C => "policy.c",
        }
    }

    /// The language of the policy in a folder, if one is there.
    pub fn of(folder: &Path) -> Option<Language> {
        [Language::Rust, Language::Python, Language::Js, Language::C]
            .into_iter()
            .find(|language| folder.join(language.file()).is_file())
    }
}

/// What a component was built from, kept beside it: one that is older than its source is refused.
#[derive(serde::Serialize, serde::Deserialize)]
struct Built {
    /// The component's blake3.
    component: String,
    /// The folder of its sources.
    folder: PathBuf,
    /// Their blake3.
    sources: String,
}

fn beside(component: &Path) -> PathBuf {
    component.with_extension("built.json")
}

/// The blake3 of the names and bytes of a folder's sources, which a build reads.
fn sources(folder: &Path) -> Result<String, Error> {
    const TOOLS: [&str; 6] = ["target", "node_modules", "bindings", "__pycache__", "store", "tests"];
    fn walk(folder: &Path, endings: &[&str], text: &mut String) -> Result<(), Error> {
        for path in sandtable_core::input::sorted(folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
            if name.starts_with('.') || TOOLS.contains(&name.as_str()) {
                continue;
            }
            let ending = path.extension().unwrap_or_default().to_string_lossy().to_string();
            if path.is_dir() {
                walk(&path, endings, text)?;
            } else if ending == "wit" || endings.contains(&ending.as_str()) || name == "Cargo.toml" {
                let bytes = std::fs::read(&path).map_err(|error| Error::file("read", &path, &error))?;
                text.push_str(&format!("{name} {}\n", digest(&bytes)));
            }
        }
        Ok(())
    }
    let endings: &[&str] = match Language::of(folder) {
        Some(Language::Rust) => &["rs"],
        Some(Language::Python) => &["py"],
        Some(Language::Js) => &["js", "mjs"],
        Some(Language::C) => &["c", "h"],
        None => &[],
    };
    let mut text = String::new();
    walk(folder, endings, &mut text)?;
    Ok(digest(text.as_bytes()))
}

/// Keeps what the component at `path` was built from.
///
/// # Errors
/// A file that can't be read or written.
pub fn keep_built(folder: &Path, path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = std::fs::canonicalize(folder).map_err(|error| Error::file("open", folder, &error))?;
    let built = Built { component: digest(bytes), sources: sources(&folder)?, folder };
    let text = serde_json::to_string(&built).map_err(|error| Error::internal(error.to_string()))?;
    let file = beside(path);
    output::write(&file, text + "\n")
}

/// Why a component is not what its sources say, if so.
pub fn outdated(path: &Path, digest: &str) -> Option<String> {
    let built: Built = serde_json::from_slice(&std::fs::read(beside(path)).ok()?).ok()?;
    // A folder that was moved is beside its component, or is not known.
    let here = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = if built.folder.is_dir() { built.folder.as_path() } else { here };
    Language::of(folder)?;
    let changed = built.component == digest && sources(folder).is_ok_and(|now| now != built.sources);
    let (path, folder) = (path.display(), folder.display());
    changed.then(|| format!("{path} is not of its sources: `sandtable policy build {folder}` makes it so"))
}
