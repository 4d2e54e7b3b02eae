//! Writing what a user asked for: a file is there whole, or what was there before is.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::error::Error;

/// Writes a file whole or not at all. A link is followed, and what is no plain file, as a pipe, is written as it comes.
///
/// # Errors
/// A file that can't be written.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
    let failed = |error: &std::io::Error| Error::file("write", path, error);
    let known = fs::metadata(path).ok();
    if known.as_ref().is_some_and(|known| !known.is_file()) {
        return fs::write(path, bytes).map_err(|error| failed(&error));
    }
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if known.is_some() {
        // What may not be written is not replaced either.
        fs::File::options().write(true).open(&real).map_err(|error| failed(&error))?;
    }
    // The mode of what is there, else what the user's mask leaves of this one.
    let mode = known.as_ref().map_or_else(|| fs::Permissions::from_mode(0o666), fs::Metadata::permissions);
    let mut builder = tempfile::Builder::new();
    builder.prefix(".new").permissions(mode);
    let mut file = builder.tempfile_in(folder).map_err(|error| failed(&error))?;
    file.write_all(bytes.as_ref()).map_err(|error| failed(&error))?;
    file.persist(&real).map(drop).map_err(|error| failed(&error.error))
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
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("a mode");
        std::os::unix::fs::symlink("file", &link).expect("a link");
        write(&link, "after").expect("written");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("there"), "after");
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o640);
        write(Path::new("/dev/null"), "gone").expect("a device takes anything");
        let error = write(&folder.path().join("no/where"), "").expect_err("no folder");
        assert!(error.message.starts_with("cannot write "), "{}", error.message);
        assert_eq!(crate::store::sorted(folder.path()).expect("a folder").len(), 2, "nothing on its way is left");
    }
}
