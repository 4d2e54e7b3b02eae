//! One file of a zip archive. A crate for archives brings what writes and encrypts them, and moves what guests are locked to.

use std::io::Read as _;

/// Signatures: of the end of the central directory, of its entries, and of what comes before a file's bytes.
const END: &[u8] = b"PK\x05\x06";
const ENTRY: &[u8] = b"PK\x01\x02";
const LOCAL: &[u8] = b"PK\x03\x04";
/// Bytes of the end, which a comment may follow.
const END_LENGTH: usize = 22;
const LATEST: usize = END_LENGTH + 65_535;

/// A file of an archive, decompressed, of at most so many bytes.
///
/// # Errors
/// What is no archive, has no such file, or one that is compressed in another way than by deflate.
pub(super) fn file(archive: &[u8], name: &str, most: u64) -> Result<Vec<u8>, String> {
    let wrong = || "expected a zip archive".to_string();
    let from = archive.len().saturating_sub(LATEST);
    let end = archive[from..].windows(END.len()).rposition(|bytes| bytes == END).map(|at| from + at);
    let end = end.filter(|end| archive.len() >= end + END_LENGTH).ok_or_else(wrong)?;
    let short = |at: usize| Some(u16::from_le_bytes(archive.get(at..at + 2)?.try_into().ok()?) as usize);
    let long = |at: usize| Some(u32::from_le_bytes(archive.get(at..at + 4)?.try_into().ok()?) as usize);
    let (count, mut at) = short(end + 10).zip(long(end + 16)).ok_or_else(wrong)?;
    let mut names = Vec::new();
    for _ in 0..count {
        if archive.get(at..at + ENTRY.len()) != Some(ENTRY) {
            return Err(wrong());
        }
        let part = |offset| short(at + offset).ok_or_else(wrong);
        let (method, length, extra, comment) = (part(10)?, part(28)?, part(30)?, part(32)?);
        let size = long(at + 20).ok_or_else(wrong)?;
        let local = long(at + 42).ok_or_else(wrong)?;
        let found = archive.get(at + 46..at + 46 + length).ok_or_else(wrong)?;
        if found == name.as_bytes() {
            if archive.get(local..local + LOCAL.len()) != Some(LOCAL) {
                return Err(wrong());
            }
            let (own, extra) = short(local + 26).zip(short(local + 28)).ok_or_else(wrong)?;
            let begin = local + 30 + own + extra;
            let bytes = archive.get(begin..begin.saturating_add(size)).ok_or_else(wrong)?;
            return unpacked(bytes, method, most);
        }
        names.push(String::from_utf8_lossy(found).into_owned());
        at += 46 + length + extra + comment;
    }
    Err(format!("no file {name:?} in the archive: it has {}", names.join(", ")))
}

fn unpacked(bytes: &[u8], method: usize, most: u64) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    match method {
        0 => out.extend_from_slice(bytes),
        8 => {
            let inflated = flate2::read::DeflateDecoder::new(bytes).take(most.saturating_add(1)).read_to_end(&mut out);
            inflated.map_err(|error| format!("the archive can't be decompressed: {error}"))?;
        }
        other => return Err(format!("expected a file that is stored or deflated, found the method {other}")),
    }
    if out.len() as u64 > most { Err(format!("the file is larger than {most} bytes")) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of one stored file.
    fn stored(name: &str, bytes: &[u8]) -> Vec<u8> {
        let (length, size) = ((name.len() as u16).to_le_bytes(), (bytes.len() as u32).to_le_bytes());
        let mut archive = [LOCAL, &[0; 22], &length, &[0; 2], name.as_bytes(), bytes].concat();
        archive[18..22].copy_from_slice(&size);
        let at = archive.len() as u32;
        let mut entry = [ENTRY, &[0; 24], &length, &[0; 16], name.as_bytes()].concat();
        entry[20..24].copy_from_slice(&size);
        archive.extend_from_slice(&entry);
        archive.extend_from_slice(&[END, &[0; 6], &1u16.to_le_bytes(), &[0; 4], &at.to_le_bytes(), &[0; 2]].concat());
        archive
    }

    #[test]
    fn a_file_is_found_and_what_is_broken_is_an_error() {
        let archive = stored("a.json", b"{}");
        assert_eq!(file(&archive, "a.json", 10), Ok(b"{}".to_vec()));
        assert_eq!(file(&archive, "b.json", 10), Err("no file \"b.json\" in the archive: it has a.json".into()));
        assert_eq!(file(&archive, "a.json", 1), Err("the file is larger than 1 bytes".into()));
        // Cut, or with any byte another, it is read or refused.
        for cut in 0..archive.len() {
            assert!(file(&archive[..cut], "a.json", 10).is_err(), "{cut}");
            for byte in [0, 0xff] {
                let mut broken = archive.clone();
                broken[cut] = byte;
                let _ = file(&broken, "a.json", 10);
            }
        }
    }
}
