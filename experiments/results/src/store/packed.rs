//! Tables of the store are packed with Zstandard: they are most of a result, and take a third so. `jobs.csv` is the file `jobs.csv.zst`.

use std::fs::File;
use std::io::{BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::input;

/// What is added to the name of a table.
const PACKED: &str = ".zst";

fn is_table(name: &str) -> bool {
    name.ends_with(".csv")
}

/// Where a file of a result is written in its folder.
fn path(folder: &Path, name: &str) -> PathBuf {
    if is_table(name) { folder.join(format!("{name}{PACKED}")) } else { folder.join(name) }
}

/// Writes a file of a result, durably.
pub(super) fn write(
    folder: &Path,
    name: &str,
    content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), Error> {
    let path = path(folder, name);
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(&path)?);
        if is_table(name) {
            let mut packed = zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL)?;
            packed.include_checksum(true)?;
            content(&mut packed)?;
            file = packed.finish()?;
        } else {
            content(&mut file)?;
        }
        file.into_inner()?.sync_all()
    };
    write().map_err(|error| Error::file("write", &path, &error))
}

/// The bytes of a file of a result.
///
/// # Errors
/// A file that can't be read, or unpacks to too much.
pub(super) fn read(folder: &Path, name: &str) -> Result<Vec<u8>, Error> {
    let packed = path(folder, name);
    // One that was unpacked by hand is read as it is.
    let path = if packed.exists() { packed } else { folder.join(name) };
    named(&path).map(|(_, bytes)| bytes)
}

/// A file of a result by the name that [`write`] got, and its bytes.
///
/// # Errors
/// As [`read`]; a table that does not unpack is a check that failed, and not one that could not be made.
pub(super) fn named(path: &Path) -> Result<(String, Vec<u8>), Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
    match name.strip_suffix(PACKED).filter(|name| is_table(name)) {
        Some(table) => Ok((table.to_string(), unpacked(path)?)),
        None => Ok((name, input::read(path, input::DATA)?)),
    }
}

fn unpacked(path: &Path) -> Result<Vec<u8>, Error> {
    let of_file = |error: std::io::Error| {
        // The system says why a file can't be read; what is wrong with its bytes the decoder says.
        if error.raw_os_error().is_some() {
            return Error::file("read", path, &error);
        }
        let changed = Error { exit: ExitCode::CheckFailed, ..Error::file("unpack", path, &error) };
        changed.hint(
            "something changed it in the store; a cell that is no observation runs again once its folder is removed",
        )
    };
    let mut bytes = Vec::new();
    let table = zstd::Decoder::new(input::open(path)?).map_err(of_file)?;
    table.take(input::DATA.saturating_add(1)).read_to_end(&mut bytes).map_err(of_file)?;
    if bytes.len() as u64 > input::DATA {
        return Err(Error::usage(format!("{}: unpacks to more than {} bytes", path.display(), input::DATA)));
    }
    Ok(bytes)
}
