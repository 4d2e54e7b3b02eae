//! Reads foreign input: regular files only, each up to a bound. A pipe or a device may have no end.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::error::Error;
use crate::text;

/// Most bytes of a specification, and of what is written by hand beside one.
pub const SPEC: u64 = 64 << 20;
/// Most bytes of a table, a recording, a plan file, a bundle or a file of a store.
pub const DATA: u64 = 4 << 30;

/// A plain file, open.
///
/// # Errors
/// A file that can't be opened, or is no plain one.
pub fn open(path: &Path) -> Result<File, Error> {
    let of_file = |error: std::io::Error| Error::file("read", path, &error);
    let mut options = File::options();
    // A pipe is not waited for.
    let file = options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path).map_err(of_file)?;
    let found = file.metadata().map_err(of_file)?.file_type();
    if found.is_file() {
        return Ok(file);
    }
    let what = if found.is_dir() { "a folder" } else { "a pipe or a device" };
    let error = Error::usage(format!("cannot read {}: expected a file, found {what}", name(path)));
    Err(if found.is_dir() { error } else { error.hint("write it to a file first") })
}

/// All of a plain file that has at most `most` bytes.
///
/// # Errors
/// A file that can't be read, is no plain one, or has more.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let file = open(path)?;
    let length = file.metadata().map_or(0, |found| found.len());
    if length > most {
        return Err(too_large(path, most));
    }
    let mut bytes = Vec::new();
    // A file may say that it is larger than this machine; and it may grow while it is read.
    let read = bytes
        .try_reserve_exact(length as usize)
        .map_err(|_| std::io::Error::from(std::io::ErrorKind::OutOfMemory))
        .and_then(|()| file.take(most.saturating_add(1)).read_to_end(&mut bytes));
    read.map_err(|error| Error::file("read", path, &error))?;
    if bytes.len() as u64 > most { Err(too_large(path, most)) } else { Ok(bytes) }
}

/// The text of a plain file that has at most `most` bytes.
///
/// # Errors
/// As [`read`]; a file that is no UTF-8.
pub fn text(path: &Path, most: u64) -> Result<String, Error> {
    let wrong = |error: std::string::FromUtf8Error| {
        let at = error.utf8_error().valid_up_to();
        Error::usage(format!("cannot read {}: expected UTF-8, found other bytes at byte {at}", name(path)))
    };
    String::from_utf8(read(path, most)?).map_err(wrong)
}

/// Entries of a folder by name; the file system's order means nothing.
///
/// # Errors
/// A folder that can't be read.
pub fn sorted(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    #[expect(clippy::disallowed_methods, reason = "this is the function that sorts")]
    let entries = std::fs::read_dir(folder).map_err(|error| Error::file("read", folder, &error))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|error| Error::file("read", folder, &error))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// The file of this program.
///
/// # Errors
/// A system that does not say.
pub fn program() -> Result<PathBuf, Error> {
    let unknown = |error| Error::usage(format!("this system does not say which file this program is: {error}"));
    std::env::current_exe().map_err(unknown)
}

fn too_large(path: &Path, most: u64) -> Error {
    Error::usage(format!("{}: more than {most} bytes", name(path)))
}

fn name(path: &Path) -> String {
    text::line(&path.display().to_string())
}

/// The folder of this program's files of one kind: below the folder that `variable` names, else below `fallback` in the
/// user's home. `None` where neither is an absolute path.
#[expect(clippy::disallowed_methods, reason = "where a user keeps files is a fact of the machine and steers no result")]
pub fn own_folder(variable: &str, fallback: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let above = absolute(variable).or_else(|| Some(absolute("HOME")?.join(fallback)))?;
    Some(above.join("sandtable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plain_file_or_too_large_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        for (path, found) in
            [(pipe.as_path(), "a pipe"), (Path::new("/dev/zero"), "a pipe"), (folder.path(), "a folder")]
        {
            let error = read(path, 10).expect_err("no file");
            assert!(error.message.contains(&format!("expected a file, found {found}")), "{}", error.message);
        }
        let file = folder.path().join("file");
        std::fs::write(&file, "12345678901").expect("written");
        assert!(read(&file, 10).expect_err("too large").message.contains("more than 10 bytes"));
        assert_eq!(read(&file, 11).expect("eleven").len(), 11);
        std::fs::write(&file, b"ab\xff").expect("written");
        assert!(text(&file, 10).expect_err("no text").message.contains("found other bytes at byte 2"));
    }
}
