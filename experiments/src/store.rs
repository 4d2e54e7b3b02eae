//! Results by the hash of their inputs. A cell that is there is done; a crash leaves nothing half-written.
//!
//! # Format
//! - `cells/ab/<id>/`: one folder a cell, by the first two digits of its id. `cell.json` is what the id is the blake3
//!   of; then `summary.json`, `jobs.csv` and `timeline.csv`, or of a failed policy `failure.json` and
//!   `capsule.json.zst`.
//! - `tmp/`: folders on their way; `store gc` removes what a crash left.
//! - `observations/ab/<id>/0001/`: what live runs of a cell showed, one folder each, numbered on; `machine.json` says where,
//!   `recording.jsonl` replays it.
//! - `conflicts/<id>.<n>/`: a second result of a cell that differs from the first. There should be none.
//! - `code/`: compiled components, kept by wasmtime.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, ExitCode};

/// The files of one cell: name and bytes.
pub type Files = Vec<(String, Vec<u8>)>;

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// A cell in the store.
#[derive(Debug)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// Whether its policy failed.
    pub failed: bool,
    /// Bytes of its files.
    pub bytes: u64,
}

/// Entries of a folder by name; the file system's order is nobody's.
///
/// # Errors
/// A folder that can't be read.
pub fn sorted(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    #[expect(clippy::disallowed_methods, reason = "this is the function that sorts")]
    let entries = fs::read_dir(folder).map_err(|error| Error::file("read", folder, &error))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|error| Error::file("read", folder, &error))?.path());
    }
    paths.sort();
    Ok(paths)
}

impl Store {
    /// A store in this folder, made if need be.
    ///
    /// # Errors
    /// A folder that can't be made.
    pub fn open(root: &Path) -> Result<Store, Error> {
        for folder in ["cells", "tmp", "code"] {
            let path = root.join(folder);
            fs::create_dir_all(&path).map_err(|error| Error::file("make", &path, &error))?;
        }
        let root = fs::canonicalize(root).map_err(|error| Error::file("open", root, &error))?;
        Ok(Store { root })
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where compiled code is kept.
    pub fn code(&self) -> PathBuf {
        self.root.join("code")
    }

    /// A folder for what is on its way: a crash leaves it to `store gc`.
    pub fn temporary(&self) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        self.root.join("tmp").join(format!("live.{}.{count}", std::process::id()))
    }

    /// The folder of a cell.
    pub fn folder(&self, id: &str) -> PathBuf {
        self.root.join("cells").join(&id[..2]).join(id)
    }

    /// Whether a cell is there.
    pub fn has(&self, id: &str) -> bool {
        self.folder(id).join("cell.json").exists()
    }

    /// Whether a cell is there and its policy failed.
    pub fn has_failed(&self, id: &str) -> bool {
        self.folder(id).join("failure.json").exists()
    }

    /// A file of a cell.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn read(&self, id: &str, file: &str) -> Result<Vec<u8>, Error> {
        let path = self.folder(id).join(file);
        fs::read(&path).map_err(|error| Error::file("read", &path, &error))
    }

    /// All files of a cell, by name.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn files(&self, id: &str) -> Result<Files, Error> {
        let mut files = Files::new();
        for path in sorted(&self.folder(id))? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
            files.push((name.clone(), self.read(id, &name)?));
        }
        Ok(files)
    }

    /// Puts a cell in: all of it or nothing. A second writer compares: equal bytes change nothing.
    ///
    /// # Errors
    /// A file that can't be written; a result that differs from the one that is there, which keeps both.
    pub fn put(&self, id: &str, files: &Files) -> Result<(), Error> {
        let temporary = self.written(id, files)?;
        let folder = self.folder(id);
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(|error| Error::file("make", parent, &error))?;
        }
        match fs::rename(&temporary, &folder) {
            Ok(()) => Ok(()),
            Err(_) if self.has(id) => self.second(id, files, &temporary),
            Err(error) => Err(Error::file("make", &folder, &error)),
        }
    }

    /// The files in a folder on its way.
    fn written(&self, id: &str, files: &Files) -> Result<PathBuf, Error> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.root.join("tmp").join(format!("{id}.{}.{count}", std::process::id()));
        fs::create_dir_all(&temporary).map_err(|error| Error::file("make", &temporary, &error))?;
        for (name, bytes) in files {
            let path = temporary.join(name);
            let write = || -> std::io::Result<()> {
                let mut file = fs::File::create(&path)?;
                file.write_all(bytes)?;
                file.sync_all()
            };
            write().map_err(|error| Error::file("write", &path, &error))?;
        }
        Ok(temporary)
    }

    fn second(&self, id: &str, files: &Files, temporary: &Path) -> Result<(), Error> {
        let mut mine = files.clone();
        mine.sort();
        if self.files(id)? == mine {
            return fs::remove_dir_all(temporary).map_err(|error| Error::file("remove", temporary, &error));
        }
        let conflicts = self.root.join("conflicts");
        fs::create_dir_all(&conflicts).map_err(|error| Error::file("make", &conflicts, &error))?;
        let kept = (0..).map(|n| conflicts.join(format!("{id}.{n}"))).find(|path| !path.exists());
        let kept = kept.unwrap_or(conflicts);
        fs::rename(temporary, &kept).map_err(|error| Error::file("make", &kept, &error))?;
        let message = format!("cell {id} has two results: {} and {}", self.folder(id).display(), kept.display());
        Err(Error { exit: ExitCode::CheckFailed, ..Error::usage(message) })
    }

    /// Keeps what was observed of a cell, beside whatever was before; the folder.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn observe(&self, id: &str, files: &Files) -> Result<PathBuf, Error> {
        let temporary = self.written(id, files)?;
        let shelf = self.root.join("observations").join(&id[..2]).join(id);
        fs::create_dir_all(&shelf).map_err(|error| Error::file("make", &shelf, &error))?;
        // Two that observe at once: the rename of the second fails on a folder that is not empty.
        for number in 1.. {
            let folder = shelf.join(format!("{number:04}"));
            if folder.exists() {
                continue;
            }
            match fs::rename(&temporary, &folder) {
                Ok(()) => return Ok(folder),
                Err(_) if folder.exists() => {}
                Err(error) => return Err(Error::file("make", &folder, &error)),
            }
        }
        Ok(shelf)
    }

    /// Takes a cell out.
    ///
    /// # Errors
    /// A folder that can't be removed.
    pub fn remove(&self, id: &str) -> Result<(), Error> {
        let folder = self.folder(id);
        // Out of sight first, so that a crash leaves no half of it.
        let away = self.root.join("tmp").join(format!("{id}.{}.away", std::process::id()));
        fs::rename(&folder, &away).map_err(|error| Error::file("remove", &folder, &error))?;
        fs::remove_dir_all(&away).map_err(|error| Error::file("remove", &away, &error))
    }

    /// Every cell, by id.
    ///
    /// # Errors
    /// A folder that can't be read.
    pub fn list(&self) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        for shelf in sorted(&self.root.join("cells"))?.into_iter().filter(|path| path.is_dir()) {
            for folder in sorted(&shelf)? {
                let id = folder.file_name().unwrap_or_default().to_string_lossy().to_string();
                // Whatever else somebody put there is not ours.
                if id.len() != 64 || !self.has(&id) {
                    continue;
                }
                let mut bytes = 0;
                for file in sorted(&folder)? {
                    bytes += fs::metadata(&file).map_err(|error| Error::file("read", &file, &error))?.len();
                }
                entries.push(Entry { failed: self.has_failed(&id), id, bytes });
            }
        }
        Ok(entries)
    }

    /// Removes what crashes left on the way; how many.
    ///
    /// # Errors
    /// A folder that can't be removed.
    pub fn sweep_temporary(&self) -> Result<usize, Error> {
        let mut left = sorted(&self.root.join("tmp"))?;
        // A run that goes on still wants its own: `<id>.<process>.<count>`.
        let alive = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
            name.split('.').nth(1).is_some_and(|process| Path::new("/proc").join(process).exists())
        };
        left.retain(|path| !alive(path));
        for path in &left {
            fs::remove_dir_all(path).map_err(|error| Error::file("remove", path, &error))?;
        }
        Ok(left.len())
    }
}
