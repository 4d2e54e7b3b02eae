//! Results by the hash of their inputs. A cell that is there is done; a crash leaves nothing half-written.
//!
//! # Format
//! - `cells/ab/<id>/`: one folder a cell, by the first two digits of its id. `cell.json` is what the id is the blake3
//!   of, `run.json` what a reader needs to know of it; then `summary.json`, `jobs.csv.zst` and `timeline.csv.zst`, or of a
//!   failed policy `failure.json` and `capsule.json.zst`. `producer.json` says which build computed it, and is never compared.
//!   [`crate::schema`] has the form of each; tables are packed with Zstandard, and compared by what they unpack to.
//! - `tmp/`: folders on their way, `<id>.<process>.<host>.<random>`; `store gc` removes what a crash left.
//! - `observations/ab/<id>/0001/`: what live runs of a cell showed, one folder each, numbered on; `machine.json` says where,
//!   `recording.jsonl` replays it.
//! - `conflicts/<id>.<n>/`: a second result of a cell that differs from the first. There should be none.
//! - `plans/`: what was handed to engines (see `sandtable::engine`); `times/`: how long cells of a component took.
//!
//! Any number of processes on any number of machines may write at once: a cell appears by one rename, which is atomic on
//! local disks and on NFS and Lustre.

mod packed;

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::input::sorted;

use crate::producer::Producer;
use crate::schema::{CELL, Document as _, FailureRecord, document, read_document};

/// The files of one cell: name and bytes.
pub type Files = Vec<(String, Vec<u8>)>;

/// What goes into a cell's folder: files that are in memory, or are made as they are written.
pub trait Content {
    /// Their names.
    fn names(&self) -> Vec<&str>;

    /// Writes one of them: the same bytes each time.
    ///
    /// # Errors
    /// Those of the writer; a name that is not one of them.
    fn write(&self, name: &str, to: &mut dyn Write) -> std::io::Result<()>;
}

impl Content for Files {
    fn names(&self) -> Vec<&str> {
        self.iter().map(|(name, _)| name.as_str()).collect()
    }

    fn write(&self, name: &str, to: &mut dyn Write) -> std::io::Result<()> {
        let (_, bytes) = self.iter().find(|(of, _)| of == name).ok_or(ErrorKind::NotFound)?;
        to.write_all(bytes)
    }
}

/// All of it in memory, by name.
///
/// # Errors
/// None that can happen: memory takes what is written.
pub fn in_memory(content: &impl Content) -> Result<Files, Error> {
    let file = |name: &str| {
        let mut bytes = Vec::new();
        content.write(name, &mut bytes).map_err(|error| Error::internal(format!("{name}: {error}")))?;
        Ok((name.to_string(), bytes))
    };
    let mut names = content.names();
    names.sort_unstable();
    names.into_iter().map(file).collect()
}

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// A cell in the store.
#[derive(Debug)]
pub struct StoredCell {
    /// Its id.
    pub id: String,
    /// Whether its policy failed.
    pub failed: bool,
    /// Bytes of its files.
    pub bytes: u64,
}

/// The files of a folder, by name.
///
/// # Errors
/// A file that can't be read.
pub fn files_of(folder: &Path) -> Result<Files, Error> {
    let mut files = sorted(folder)?.iter().map(|path| packed::named(path)).collect::<Result<Files, Error>>()?;
    files.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(files)
}

impl Store {
    /// A store in this folder, made if need be.
    ///
    /// # Errors
    /// A folder that can't be made.
    pub fn open(root: &Path) -> Result<Store, Error> {
        for folder in ["cells", "tmp"] {
            let path = root.join(folder);
            fs::create_dir_all(&path).map_err(|error| Error::file("make", &path, &error))?;
        }
        let root = fs::canonicalize(root).map_err(|error| Error::file("open", root, &error))?;
        Ok(Store { root })
    }

    /// A store to be read: nothing is made.
    ///
    /// # Errors
    /// A path that can't be.
    pub fn look(root: &Path) -> Result<Store, Error> {
        let full = fs::canonicalize(root).or_else(|_| std::path::absolute(root));
        Ok(Store { root: full.map_err(|error| Error::file("open", root, &error))? })
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A new folder for what is on its way: a crash leaves it to `store gc`. Its name is unique across machines.
    ///
    /// # Errors
    /// A folder that can't be made.
    pub fn temporary(&self, what: &str) -> Result<PathBuf, Error> {
        let tmp = self.root.join("tmp");
        let prefix = format!("{what}.{}.{}.", std::process::id(), host());
        let mut builder = tempfile::Builder::new();
        // It becomes the folder of a cell: users who may read the store may read that.
        builder.prefix(&prefix).permissions(fs::Permissions::from_mode(0o777));
        let made = builder.tempdir_in(&tmp).map_err(|error| Error::file("write into", &tmp, &error))?;
        Ok(made.keep())
    }

    /// The folder of a cell.
    pub fn folder(&self, id: &str) -> PathBuf {
        self.root.join("cells").join(&id[..2]).join(id)
    }

    /// Whether a cell is there.
    pub fn has(&self, id: &str) -> bool {
        self.folder(id).join(CELL).exists()
    }

    /// Whether a cell is there and its policy failed.
    pub fn has_failed(&self, id: &str) -> bool {
        self.folder(id).join(FailureRecord::FILE).exists()
    }

    /// A file of a cell.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn read(&self, id: &str, file: &str) -> Result<Vec<u8>, Error> {
        packed::read(&self.folder(id), file)
    }

    /// The files of a cell's result, by name; what produced it is no part of the result.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn files(&self, id: &str) -> Result<Files, Error> {
        let mut files = files_of(&self.folder(id))?;
        files.retain(|(name, _)| name != Producer::FILE);
        Ok(files)
    }

    /// The file that says which build produced a cell; `None` where there is none.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn producer_file(&self, id: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = self.folder(id).join(Producer::FILE);
        if path.exists() { self.read(id, Producer::FILE).map(Some) } else { Ok(None) }
    }

    /// The build that produced a cell; `None` where it is unknown.
    ///
    /// # Errors
    /// A file that can't be read, or is not what this version writes.
    pub fn producer(&self, id: &str) -> Result<Option<Producer>, Error> {
        let Some(bytes) = self.producer_file(id)? else { return Ok(None) };
        let wrong = |why| Error::usage(format!("{}: {why}", self.folder(id).join(Producer::FILE).display()));
        read_document(&bytes).map(Some).map_err(wrong)
    }

    /// Puts a cell in that this build has computed: all of it or nothing. A second writer compares: equal bytes change
    /// nothing.
    ///
    /// ```
    /// use sandtable_results::store::Store;
    ///
    /// let folder = std::env::temp_dir().join(format!("sandtable-doc-{}", std::process::id()));
    /// let store = Store::open(&folder)?;
    /// let id = "0f".repeat(32);
    /// store.put(&id, &vec![("cell.json".into(), b"{}".to_vec())])?;
    /// assert!(store.has(&id));
    /// # std::fs::remove_dir_all(&folder).expect("removed");
    /// # Ok::<(), sandtable_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// A file that can't be written; a result that differs from the one that is there, which keeps both.
    pub fn put(&self, id: &str, files: &impl Content) -> Result<(), Error> {
        self.put_of(id, files, &document(&Producer::here())?.1)
    }

    /// Puts a cell in that another store has; `producer` is its producer's file.
    ///
    /// # Errors
    /// See [`Store::put`].
    pub fn put_of(&self, id: &str, files: &impl Content, producer: &[u8]) -> Result<(), Error> {
        let temporary = self.written(id, files, Some(producer))?;
        let folder = self.folder(id);
        let shelf = folder.parent().unwrap_or(&folder);
        let made = fs::create_dir_all(shelf).map_err(|error| Error::file("make", shelf, &error));
        made.inspect_err(|_| discard(&temporary))?;
        match fs::rename(&temporary, &folder) {
            Ok(()) => Ok(()),
            // A reader on another machine may learn late of what is there; the rename knows.
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
                self.second(id, files, &temporary)
            }
            Err(error) => Err(Error::file("make", &folder, &error)),
        }
        .inspect_err(|_| discard(&temporary))
    }

    /// The files in a folder on its way, and their producer's.
    fn written(&self, id: &str, files: &impl Content, producer: Option<&[u8]>) -> Result<PathBuf, Error> {
        let temporary = self.temporary(id)?;
        for name in files.names().into_iter().chain(producer.map(|_| Producer::FILE)) {
            let content = |to: &mut dyn Write| match producer.filter(|_| name == Producer::FILE) {
                Some(bytes) => to.write_all(bytes),
                None => files.write(name, to),
            };
            // What is half there would keep a full disk full.
            packed::write(&temporary, name, content).inspect_err(|_| discard(&temporary))?;
        }
        Ok(temporary)
    }

    fn second(&self, id: &str, files: &impl Content, temporary: &Path) -> Result<(), Error> {
        if self.files(id)? == in_memory(files)? {
            return fs::remove_dir_all(temporary).map_err(|error| Error::file("remove", temporary, &error));
        }
        let conflicts = self.root.join("conflicts");
        fs::create_dir_all(&conflicts).map_err(|error| Error::file("make", &conflicts, &error))?;
        let kept = numbered(temporary, 0, |number| conflicts.join(format!("{id}.{number}")))?;
        let (first, second) = (self.folder(id), kept);
        let message =
            format!("nondeterministic: cell {id} has two results, {} and {}", first.display(), second.display());
        Err(Error { exit: ExitCode::CheckFailed, ..Error::usage(message) })
    }

    /// Keeps what was observed of a cell, beside whatever was before; the folder.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn observe(&self, id: &str, files: &Files) -> Result<PathBuf, Error> {
        let temporary = self.written(id, files, None)?;
        let shelf = self.root.join("observations").join(&id[..2]).join(id);
        let made = fs::create_dir_all(&shelf).map_err(|error| Error::file("make", &shelf, &error));
        made.inspect_err(|_| discard(&temporary))?;
        numbered(&temporary, 1, |number| shelf.join(format!("{number:04}"))).inspect_err(|_| discard(&temporary))
    }

    /// The folders of what was observed of a cell, in the order in which it was.
    ///
    /// # Errors
    /// A folder that can't be read.
    pub fn observations(&self, id: &str) -> Result<Vec<PathBuf>, Error> {
        let shelf = self.root.join("observations").join(&id[..2]).join(id);
        if shelf.is_dir() { sorted(&shelf) } else { Ok(Vec::new()) }
    }

    /// Takes a cell out.
    ///
    /// # Errors
    /// A folder that can't be removed.
    pub fn remove(&self, id: &str) -> Result<(), Error> {
        let folder = self.folder(id);
        // Out of sight first, so that a crash leaves no half of it.
        let away = self.temporary(id)?;
        match fs::rename(&folder, &away) {
            // Another process removed it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            renamed => renamed.map_err(|error| Error::file("remove", &folder, &error))?,
        }
        fs::remove_dir_all(&away).map_err(|error| Error::file("remove", &away, &error))
    }

    /// Every cell, by id.
    ///
    /// # Errors
    /// A folder that can't be read.
    pub fn list(&self) -> Result<Vec<StoredCell>, Error> {
        let mut entries = Vec::new();
        // A link leads to what is not this store's.
        let own = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        for shelf in sorted(&self.root.join("cells"))?.into_iter().filter(own) {
            for folder in sorted(&shelf)?.into_iter().filter(own) {
                let id = folder.file_name().unwrap_or_default().to_string_lossy().to_string();
                // Other files in it are not ours.
                if !is_id(&id) || self.folder(&id) != folder || !self.has(&id) {
                    continue;
                }
                let mut bytes = 0;
                for file in sorted(&folder)? {
                    bytes += fs::metadata(&file).map_err(|error| Error::file("read", &file, &error))?.len();
                }
                entries.push(StoredCell { failed: self.has_failed(&id), id, bytes });
            }
        }
        Ok(entries)
    }

    /// Second results of these cells that differed from the first, if there ever were any.
    ///
    /// # Errors
    /// A folder that can't be read.
    pub fn conflicts(&self, of: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, Error> {
        let folder = self.root.join("conflicts");
        let mut all = if folder.is_dir() { sorted(&folder)? } else { Vec::new() };
        let id = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().to_string();
        all.retain(|path| of(&id(path)));
        Ok(all)
    }

    /// Removes what crashes left on the way: how many, and how many are left since they are of other machines, whose
    /// processes can't be seen from here.
    ///
    /// # Errors
    /// A folder that can't be removed.
    pub fn sweep_temporary(&self, everywhere: bool) -> Result<(usize, usize), Error> {
        let (mut swept, mut foreign) = (0, 0);
        for path in sorted(&self.root.join("tmp"))? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
            let parts: Vec<&str> = name.split('.').collect();
            // What is not named so belongs to no process.
            let (process, of) = if let [_, process, of, _] = parts[..] { (process, of) } else { ("", "") };
            if !of.is_empty() && of != host() && !everywhere {
                foreign += 1;
            } else if of != host() || !Path::new("/proc").join(process).exists() {
                let folder = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
                let removed = if folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(|error| Error::file("remove", &path, &error))?;
                swept += 1;
            }
        }
        // Where earlier versions kept compiled code; nothing reads it any more.
        let code = self.root.join("code");
        if fs::symlink_metadata(&code).is_ok_and(|found| found.is_dir()) {
            fs::remove_dir_all(&code).map_err(|error| Error::file("remove", &code, &error))?;
            swept += 1;
        }
        Ok((swept, foreign))
    }

    /// Whether a cell is there, asked so that a network file system looks again: its folder is listed.
    pub fn look_again(&self, id: &str) -> bool {
        let folder = self.folder(id);
        let listed = folder.parent().and_then(|shelf| sorted(shelf).ok()).unwrap_or_default();
        listed.contains(&folder) && self.has(id)
    }
}

/// Renames a folder to the first of numbered names that is free; of two at once the second takes the next.
fn numbered(temporary: &Path, first: u32, name: impl Fn(u32) -> PathBuf) -> Result<PathBuf, Error> {
    let mut number = first;
    loop {
        let folder = name(number);
        number += 1;
        if folder.exists() {
            continue;
        }
        match fs::rename(temporary, &folder) {
            Ok(()) => return Ok(folder),
            // The rename fails on a folder that is not empty.
            Err(_) if folder.exists() => {}
            Err(error) => return Err(Error::file("make", &folder, &error)),
        }
    }
}

/// Whether a text is a cell's id: a blake3 in hexadecimal digits.
pub fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Removes what will never be whole; where that fails too, `store gc` does it.
fn discard(temporary: &Path) {
    let _ = fs::remove_dir_all(temporary);
}

/// This machine's name, as a part of a file's.
fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().to_string();
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
