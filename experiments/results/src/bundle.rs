//! The artifact that a reviewer gets: a spec, everything that it is made of, and its results, in one file that runs anywhere.
//!
//! # Format
//! A tar, packed with zstd, the same bytes for the same contents. `ro-crate-metadata.json` says what it is for archives; `bundle.json` has the spec's path, how it was read, the ids
//! of its cells, and the blake3 of every file; `tree/` has the spec and its files at the paths by which it names them;
//! `policies/` the components and weights that it names without a path; `results/ID/` the files of each cell.

mod ro_crate;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write as _};
use std::path::{Component, Path, PathBuf};

use sandtable_core::digest::digest;
use sandtable_core::error::{Error, ExitCode};
use sandtable_core::input::sorted;
use sandtable_core::output;
use sandtable_plan::artifact::is_of_policy;
use sandtable_plan::{Options, Plan, PredictorBinding, files, plan};
use serde::{Deserialize, Serialize};

use crate::producer::Producer;
use crate::schema::Document as _;
use crate::store::Store;

pub use ro_crate::Published;

/// What a bundle says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Of this format.
    pub version: u32,
    /// The build that packed it.
    pub sandtable: String,
    /// The build that computed the results, by its fingerprint.
    pub build: String,
    /// What the spec asks.
    pub title: String,
    /// Where the spec is.
    pub spec: String,
    /// Values that were set.
    pub set: Vec<(String, String)>,
    /// Values of its sweep that were chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<(String, String)>,
    /// Values that were tried beside those of the spec.
    pub sweep: Vec<(String, Vec<String>)>,
    /// Whether the spec's cut for its test applies.
    pub test: bool,
    /// Only these policies; empty: all.
    pub only: Vec<String>,
    /// The ids of its cells, in their order.
    pub cells: Vec<String>,
    /// blake3 of every file.
    pub files: BTreeMap<String, String>,
    /// Files that were left out; `verify` needs copies of them.
    pub left_out: BTreeMap<String, String>,
}

/// The version of the format.
const VERSION: u32 = 2;
/// Most bytes that a bundle may hold, unpacked.
const MOST: u64 = 2 << 30;
/// Most files of one.
const ENTRIES: usize = 1_000_000;
/// Most bytes of `bundle.json`.
const MANIFEST: u64 = 256 << 20;
/// Most bytes of a file's name.
const LONGEST_NAME: u64 = 4096;

/// What is packed of a spec.
pub struct Wanted<'a> {
    /// The spec.
    pub spec: &'a Path,
    /// How it is read.
    pub options: &'a Options,
    /// Leave traces and profiles out that are not beside the spec's own checkout: only their hashes go in.
    pub without_data: bool,
    /// What its author says of it.
    pub published: Published,
}

/// A bundle.
pub struct Packed {
    /// The file.
    pub bytes: Vec<u8>,
    /// What it says of itself.
    pub manifest: Manifest,
    /// The spec, expanded.
    pub plan: Plan,
    /// Bytes of all that is in it.
    pub unpacked: u64,
}

/// A path from which all of these can be reached downwards.
fn common(paths: &BTreeSet<PathBuf>) -> PathBuf {
    let mut all = paths.iter();
    let Some(first) = all.next() else { return PathBuf::from("/") };
    let mut root: Vec<Component<'_>> = first.parent().unwrap_or(first).components().collect();
    for path in all {
        let shared = root.iter().zip(path.components()).take_while(|(a, b)| **a == *b).count();
        root.truncate(shared);
    }
    root.iter().collect()
}

fn every_file(path: &Path, out: &mut BTreeSet<PathBuf>, depth: usize) -> Result<(), Error> {
    if depth > 32 {
        return Err(Error::usage(format!("{}: folders in folders without end: a link in a circle?", path.display())));
    }
    if path.is_dir() {
        return sorted(path)?.iter().try_for_each(|below| every_file(below, out, depth + 1));
    }
    out.insert(path.to_path_buf());
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    sandtable_core::input::read(path, MOST)
}

/// Packs a spec with its results.
///
/// # Errors
/// A cell without a result, a file that can't be read, a path that means nothing elsewhere, and anything that would keep
/// the bundle from being the same experiment.
pub fn pack(wanted: &Wanted<'_>, store: &Store) -> Result<Packed, Error> {
    if sandtable_plan::is_spec(wanted.spec) && !wanted.spec.is_file() {
        let why = format!("a bundle has the spec's file, and `{}` is none", wanted.spec.display());
        return Err(Error::usage(why).hint("write it to a file"));
    }
    let expanded = plan(wanted.spec, wanted.options)?;
    is_complete(&expanded, wanted.spec, store)?;
    let spec = std::path::absolute(wanted.spec).map_err(|error| Error::file("open", wanted.spec, &error))?;
    let spec = files::normal(&spec);
    let folder = spec.parent().unwrap_or(Path::new("/"));
    let mut paths = BTreeSet::from([spec.clone()]);
    let mut names = expanded.files.clone();
    names.extend(graphs(&expanded, folder));
    for name in &names {
        if Path::new(name).is_absolute() {
            let error = Error::usage(format!("{}: {name} is a path of this machine alone", wanted.spec.display()));
            return Err(error.hint("name it relative to the spec"));
        }
        every_file(&files::normal(&folder.join(name)), &mut paths, 0)?;
    }
    let root = common(&paths);
    let inside = |path: &Path| path.strip_prefix(&root).map_or_else(|_| path.to_path_buf(), Path::to_path_buf);
    let above =
        folder.ancestors().find(|above| above.join("policies/dist").is_dir() && above.join("Cargo.toml").is_file());
    let own = above.unwrap_or(folder);
    let (mut entries, mut left_out): (BTreeMap<String, Vec<u8>>, BTreeMap<String, String>) = Default::default();
    for path in &paths {
        let name = format!("tree/{}", inside(path).display());
        let bytes = read(path)?;
        match wanted.without_data && !path.starts_with(own) && !is_of_policy(&name) {
            true => drop(left_out.insert(name, digest(&bytes))),
            false => drop(entries.insert(name, bytes)),
        }
    }
    components(&expanded, &mut entries);
    results(&expanded, store, &mut entries)?;
    // What makes a folder a checkout: names without a path are looked for beside it.
    entries.insert("Cargo.toml".into(), b"# A bundle of Sandtable: `sandtable verify` runs it.\n".to_vec());
    let (spec, internal) =
        (format!("tree/{}", inside(&spec).display()), |error: serde_json::Error| Error::internal(error.to_string()));
    let about = ro_crate::document(&expanded.title, &spec, &entries, &wanted.published).map_err(internal)?;
    entries.insert(ro_crate::FILE.into(), about);
    let manifest = Manifest {
        version: VERSION,
        sandtable: env!("CARGO_PKG_VERSION").into(),
        build: sandtable_plan::build_info::BUILD.into(),
        title: expanded.title.clone(),
        spec,
        set: wanted.options.set.clone(),
        at: wanted.options.at.clone(),
        sweep: wanted.options.sweep.clone(),
        test: wanted.options.test,
        only: wanted.options.only.clone(),
        cells: expanded.cells.iter().map(|cell| cell.id.clone()).collect(),
        files: entries.iter().map(|(name, bytes)| (name.clone(), digest(bytes))).collect(),
        left_out,
    };
    let text = serde_json::to_vec_pretty(&manifest).map_err(internal)?;
    entries.insert("bundle.json".into(), text);
    let (bytes, unpacked) = (packed(&entries)?, entries.values().map(|bytes| bytes.len() as u64).sum());
    if manifest.left_out.is_empty() {
        // The proof that nothing was forgotten: elsewhere it is the same experiment.
        let folder = output::scratch()?;
        Opened::new(bytes.as_slice(), folder.path(), None)?.plan(wanted.options)?;
    }
    Ok(Packed { bytes, manifest, plan: expanded, unpacked })
}

/// Checks that every cell has a result.
fn is_complete(plan: &Plan, spec: &Path, store: &Store) -> Result<(), Error> {
    let missing = plan.cells.iter().filter(|cell| !store.has(&cell.id)).count();
    if missing == 0 {
        return Ok(());
    }
    let message = format!("{}: {missing} of {} cells have no result yet", spec.display(), plan.cells.len());
    let error = Error { exit: ExitCode::Missing, ..Error::usage(message) };
    Err(error.hint(format!("sandtable run {}", spec.display())))
}

/// The files of the results, and of what produced them.
fn results(plan: &Plan, store: &Store, entries: &mut BTreeMap<String, Vec<u8>>) -> Result<(), Error> {
    for cell in &plan.cells {
        for (name, bytes) in store.files(&cell.id)? {
            entries.insert(format!("results/{}/{name}", cell.id), bytes);
        }
        if let Some(producer) = store.producer_file(&cell.id)? {
            entries.insert(format!("results/{}/{}", cell.id, Producer::FILE), producer);
        }
    }
    Ok(())
}

/// Computation graphs that profiles name by their files, relative to the spec.
fn graphs(plan: &Plan, folder: &Path) -> Vec<String> {
    let profiles = plan.files.iter().filter(|name| name.ends_with(".ron"));
    profiles.flat_map(|name| files::graphs_of_file(name, folder)).collect()
}

/// Components and weights that the spec names without a path.
fn components(plan: &Plan, entries: &mut BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in &plan.named {
        entries.insert(format!("policies/dist/{name}.wasm"), bytes.bytes.clone());
    }
    for cell in &plan.cells {
        let of_predictors = cell.predictors.all().filter_map(|(_, bound)| match bound {
            PredictorBinding::Component(bundle) => Some(&bundle.weights),
            _ => None,
        });
        for weights in of_predictors.chain([&cell.weights]) {
            if let Some(name) = &weights.name {
                entries.insert(format!("policies/predictors/weights/{name}"), weights.bytes.to_vec());
            }
        }
    }
    // The folder is what makes it a checkout, even where every component has a path.
    entries
        .entry("policies/dist/README".into())
        .or_insert_with(|| b"Components that the spec names without a path.\n".to_vec());
}

fn packed(entries: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>, Error> {
    let wrong = |error: std::io::Error| Error::internal(format!("the bundle: {error}"));
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in entries {
        // No owner, no date: the same contents are the same bytes.
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_cksum();
        archive.append_data(&mut header, name, bytes.as_slice()).map_err(wrong)?;
    }
    let tar = archive.into_inner().map_err(wrong)?;
    zstd::encode_all(tar.as_slice(), 9).map_err(wrong)
}

fn no_bundle(why: impl std::fmt::Display) -> Error {
    Error::usage(format!("not a bundle of Sandtable: {}", sandtable_core::text::line(&why.to_string())))
}

/// Unpacks the files of a bundle into a folder; returns what it says of itself, and the blake3 of each file.
fn unpacked(packed: impl Read, folder: &Path) -> Result<(Manifest, BTreeMap<String, String>), Error> {
    let broken = |error: std::io::Error| no_bundle(error);
    let unpacked = zstd::stream::read::Decoder::new(packed).map_err(broken)?;
    // Of the whole stream, records between the files included.
    let mut archive = tar::Archive::new(unpacked.take(MOST));
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut manifest: Option<Manifest> = None;
    let mut long: Option<PathBuf> = None;
    // Raw: the library would read a name of any length into memory.
    for (count, entry) in archive.entries().map_err(broken)?.raw(true).enumerate() {
        let mut entry = entry.map_err(broken)?;
        if count >= ENTRIES {
            return Err(no_bundle(format!("more than {ENTRIES} files")));
        }
        let kind = entry.header().entry_type();
        if kind.is_gnu_longname() {
            let mut name = String::new();
            let read = entry.by_ref().take(LONGEST_NAME + 1).read_to_string(&mut name).map_err(broken)?;
            if read as u64 > LONGEST_NAME {
                return Err(no_bundle(format!("a name of more than {LONGEST_NAME} bytes")));
            }
            long = Some(name.trim_end_matches('\0').into());
            continue;
        }
        let name = match long.take() {
            Some(name) => name,
            None => entry.path().map_err(broken)?.to_path_buf(),
        };
        if !ours(&name) || !kind.is_file() {
            return Err(no_bundle(format!("{} has no place in one", name.display())));
        }
        if name == Path::new("bundle.json") {
            let mut text = Vec::new();
            entry.by_ref().take(MANIFEST + 1).read_to_end(&mut text).map_err(broken)?;
            if text.len() as u64 > MANIFEST {
                return Err(no_bundle(format!("bundle.json has more than {MANIFEST} bytes")));
            }
            let read = serde_json::from_slice(&text);
            manifest = Some(read.map_err(|error| no_bundle(format!("bundle.json: {error}")))?);
            continue;
        }
        let hash = unpack(&mut entry, &folder.join(&name))?;
        found.insert(name.display().to_string(), hash);
    }
    let manifest = manifest.ok_or_else(|| no_bundle("it has no bundle.json"))?;
    Ok((manifest, found))
}

/// Checks that the files of a bundle are those that it lists, by their blake3.
fn as_listed(listed: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Result<(), Error> {
    let names: BTreeSet<&String> = listed.keys().chain(found.keys()).collect();
    for name in names {
        let (said, is) = (listed.get(name), found.get(name));
        if said != is {
            let what = match (said, is) {
                (Some(_), None) => "is missing",
                (None, Some(_)) => "is not in bundle.json",
                _ => "was changed: its blake3 is not that of bundle.json",
            };
            return Err(Error {
                exit: ExitCode::CheckFailed,
                ..Error::usage(format!("the bundle's {} {what}", sandtable_core::text::line(name)))
            });
        }
    }
    Ok(())
}

/// An unpacked bundle whose files are as its manifest says.
pub struct Opened {
    /// What it says of itself.
    pub manifest: Manifest,
    root: PathBuf,
}

impl Opened {
    /// Unpacks a bundle into an empty folder; what was left out is looked for in `data` by its hash.
    ///
    /// # Errors
    /// What is no bundle, a file that is not as the manifest says, a path that leads outside, what was left out and is not
    /// in `data`.
    pub fn new(packed: impl Read, folder: &Path, data: Option<&Path>) -> Result<Opened, Error> {
        let (manifest, found) = unpacked(packed, folder)?;
        let named = manifest.left_out.keys().chain(std::iter::once(&manifest.spec));
        if let Some(name) = named.into_iter().find(|name| !name.starts_with("tree/") || !ours(Path::new(name))) {
            return Err(no_bundle(format!("{name} is not in its tree")));
        }
        if manifest.version != VERSION {
            return Err(no_bundle(format!("format {}, this version reads {VERSION}", manifest.version)));
        }
        as_listed(&manifest.files, &found)?;
        bring_back(&manifest, folder, data)?;
        Ok(Opened { manifest, root: folder.to_path_buf() })
    }

    /// Returns its plan, which must be the one that was packed; `asked` says what may be read of its files, and how many cells it may have.
    ///
    /// # Errors
    /// Cells with other ids: something that moves results is not in the bundle, or this version means something else by it.
    pub fn plan(&self, asked: &Options) -> Result<Plan, Error> {
        let of = &self.manifest;
        let options = Options {
            set: of.set.clone(),
            at: of.at.clone(),
            sweep: of.sweep.clone(),
            test: of.test,
            only: of.only.clone(),
            within: Some(self.root.join("tree")),
            build: Some(of.build.clone()),
            reading: asked.reading,
            max_cells: asked.max_cells,
            // Of those of all its policies; of some it lists fewer than are made first.
            listed: of.only.is_empty().then_some(of.cells.len()),
            ..Options::default()
        };
        let plan = plan(&self.root.join(&of.spec), &options)?;
        let found: Vec<&String> = plan.cells.iter().map(|cell| &cell.id).collect();
        if found != of.cells.iter().collect::<Vec<_>>() {
            let differing = found.iter().zip(&of.cells).find(|(a, b)| **a != *b);
            let short = |id: &str| id.chars().take(10).collect::<String>();
            let words = |(a, b): (&&String, &String)| format!("{} instead of {}", short(a), short(b));
            let which = differing.map_or("their number".into(), words);
            let error = Error::usage(format!("the bundle is another experiment here: {which}"));
            let hint = format!(
                "it was packed by sandtable {} (build {}), this is {} (build {})",
                sandtable_core::text::line(&of.sandtable),
                sandtable_core::text::line(&of.build),
                env!("CARGO_PKG_VERSION"),
                sandtable_plan::build_info::BUILD
            );
            return Err(Error { exit: ExitCode::CheckFailed, ..error.hint(hint) });
        }
        Ok(plan)
    }

    /// The files of a cell's result.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn results(&self, id: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let folder = self.root.join("results").join(id);
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().to_string();
        let paths = sorted(&folder)?.into_iter().filter(|path| name(path) != Producer::FILE);
        paths.map(|path| Ok((name(&path), read(&path)?))).collect()
    }
}

/// Whether a file may be in a bundle: nothing else is unpacked, and nothing outside of the folder.
fn ours(name: &Path) -> bool {
    let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    let first = name.components().next().map(|part| part.as_os_str().to_string_lossy().to_string());
    let places = ["tree", "policies", "results", "bundle.json", "Cargo.toml", ro_crate::FILE];
    plain && first.is_some_and(|first| places.contains(&first.as_str()))
}

/// Writes what is read, as it is read; its blake3.
fn unpack(from: &mut impl Read, path: &Path) -> Result<String, Error> {
    let parent = path.parent().unwrap_or(path);
    std::fs::create_dir_all(parent).map_err(|error| Error::file("make", parent, &error))?;
    let failed = |error: std::io::Error| Error::file("write", path, &error);
    let mut file = std::fs::File::create(path).map_err(failed)?;
    let mut hasher = blake3::Hasher::new();
    let mut part = [0; 64 << 10];
    loop {
        match from.read(&mut part) {
            Ok(0) => return Ok(hasher.finalize().to_hex().to_string()),
            Ok(count) => {
                hasher.update(&part[..count]);
                file.write_all(&part[..count]).map_err(failed)?;
            }
            Err(error) => return Err(Error::usage(format!("not a bundle of Sandtable: {error}"))),
        }
    }
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let parent = path.parent().unwrap_or(path);
    std::fs::create_dir_all(parent).map_err(|error| Error::file("make", parent, &error))?;
    output::write(path, bytes)
}

/// Puts the reviewer's own copies where the bundle left files out.
fn bring_back(manifest: &Manifest, folder: &Path, data: Option<&Path>) -> Result<(), Error> {
    if manifest.left_out.is_empty() {
        return Ok(());
    }
    let mut own = BTreeSet::new();
    if let Some(data) = data {
        every_file(data, &mut own, 0)?;
    }
    for (name, hash) in &manifest.left_out {
        let called = Path::new(name).file_name();
        let copy = own.iter().filter(|path| path.file_name() == called).find_map(|path| {
            let bytes = read(path).ok()?;
            (digest(&bytes) == *hash).then_some(bytes)
        });
        let Some(bytes) = copy else {
            let called = called.unwrap_or_default().to_string_lossy();
            let error = Error::usage(format!("the bundle was packed without {called} (blake3 {hash})"));
            return Err(error.hint("name a folder that has it: --data DIR"));
        };
        put(&folder.join(name), &bytes)?;
    }
    Ok(())
}
