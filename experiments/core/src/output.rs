//! Writes a user's files atomically: a file is complete, or the one before it is still there.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::Error;

/// Writes a file atomically: a reader finds the old bytes or the new ones. A link is followed; a pipe, a device and a link
/// that leads nowhere are written directly.
///
/// # Errors
/// A file that can't be written.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
    let written = match begin(path) {
        Ok(Some((mut file, real))) => file
            .write_all(bytes.as_ref())
            // Some file systems report a full disk no earlier than here.
            .and_then(|()| file.as_file().sync_all())
            .and_then(|()| file.persist(&real).map(drop).map_err(|error| error.error)),
        Ok(None) => fs::write(path, bytes),
        Err(error) => Err(error),
    };
    written.map_err(|error| Error::file("write", path, &error))
}

/// Checks that a file can be written, before what is to be in it takes minutes to compute. Nothing is left behind.
///
/// # Errors
/// A file that can't be written.
pub fn check(path: &Path) -> Result<(), Error> {
    begin(path).map(drop).map_err(|error| Error::file("write", path, &error))
}

/// A new file beside the one to replace, and the path of that one; `None` where a path has to be written directly.
fn begin(path: &Path) -> io::Result<Option<(NamedTempFile, PathBuf)>> {
    let known = fs::metadata(path).ok();
    if known.as_ref().is_some_and(|known| !known.is_file()) {
        return Ok(None);
    }
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        // A link to a file that does not exist, or that was deleted while it is open, as /dev/stdout may be.
        Err(_) if known.is_some() || path.is_symlink() => return Ok(None),
        Err(_) => path.to_path_buf(),
    };
    let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if known.is_some() {
        // A file that may not be written is not replaced either.
        fs::File::options().write(true).open(&real)?;
    }
    let mut builder = tempfile::Builder::new();
    let file = builder.prefix(".new").permissions(fs::Permissions::from_mode(0o666)).tempfile_in(folder)?;
    if let Some(known) = known {
        // Exactly the old mode, whatever the user's mask is.
        file.as_file().set_permissions(known.permissions())?;
    }
    Ok(Some((file, real)))
}

/// A folder for what this command alone needs, gone with it.
///
/// # Errors
/// A folder that can't be made.
pub fn scratch() -> Result<tempfile::TempDir, Error> {
    let failed = |error| Error::file("write into", &tempfile::env::temp_dir(), &error);
    tempfile::tempdir().map_err(|error| failed(error).hint("another folder: TMPDIR=DIR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_it_is_and_a_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "before").expect("written");
        // No usual mask would leave this mode.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("a mode");
        std::os::unix::fs::symlink("file", &link).expect("a link");
        write(&link, "after").expect("written");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("there"), "after");
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o666);
        let dangling = folder.path().join("dangling");
        std::os::unix::fs::symlink("new", &dangling).expect("a link");
        write(&dangling, "through it").expect("written");
        assert!(dangling.is_symlink());
        assert_eq!(fs::read_to_string(folder.path().join("new")).expect("there"), "through it");
        check(&folder.path().join("unmade")).expect("it can be written");
        write(Path::new("/dev/null"), "gone").expect("a device takes anything");
        let error = write(&folder.path().join("no/where"), "").expect_err("no folder");
        assert!(error.message.starts_with("cannot write "), "{}", error.message);
        assert_eq!(crate::input::sorted(folder.path()).expect("a folder").len(), 4, "nothing on its way is left");
    }
}
