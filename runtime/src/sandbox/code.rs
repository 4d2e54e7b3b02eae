//! Compiled code on disk. It is executed as it is, so it is only ever read from a folder that only this user
//! can write to, and only where its bytes are those that were written.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// What a file begins with, before the blake3 of its name and of the code that follows.
const MAGIC: &[u8] = b"sandtable code 1\n";

/// Most bytes kept, all files together; beyond it those that were not used for longest are removed.
const KEPT: u64 = 1 << 30;

/// A private folder of compiled code.
#[derive(Clone, Debug)]
pub struct CodeCache {
    folder: PathBuf,
}

impl CodeCache {
    /// The folder, which is made if need be, with all folders above it that are missing, for this user alone.
    ///
    /// # Errors
    /// Why it is not used: it can't be made, or is not this user's alone.
    pub fn open(folder: &Path) -> Result<CodeCache, String> {
        private_folder(folder).map(|()| CodeCache { folder: folder.into() })
    }

    /// The code that was put in under this key, if its file is this user's and as it was written.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(self.folder.join(key)).ok()?;
        let found = file.metadata().ok()?;
        if !found.is_file() || !private(&found) {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(found.len()).ok()?);
        file.read_to_end(&mut bytes).ok()?;
        let (digest, code) = bytes.strip_prefix(MAGIC)?.split_at_checked(blake3::OUT_LEN)?;
        if digest != checksum(key, code).as_bytes() {
            return None;
        }
        let code = code.to_vec();
        touch(&file);
        Some(code)
    }

    /// Keeps code. Where that fails it is compiled again next time: nothing else depends on it.
    pub fn put(&self, key: &str, code: &[u8]) {
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            file.write_all(MAGIC)?;
            file.write_all(checksum(key, code).as_bytes())?;
            file.write_all(code)?;
            file.persist(self.folder.join(key)).map(drop).map_err(|error| error.error)
        };
        if write().is_ok() {
            self.prune(KEPT);
        }
    }

    /// Removes what was not used for longest until no more than `most` bytes are kept.
    fn prune(&self, most: u64) {
        #[expect(clippy::disallowed_methods, reason = "sorted below")]
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let known = |entry: std::io::Result<fs::DirEntry>| {
            let entry = entry.ok()?;
            let found = entry.metadata().ok()?;
            Some((found.modified().ok()?, entry.path(), found.len()))
        };
        let mut files: Vec<_> = entries.filter_map(known).collect();
        files.sort_unstable();
        let mut kept: u64 = files.iter().map(|(.., bytes)| bytes).sum();
        for (_, path, bytes) in files {
            if kept <= most {
                return;
            }
            if fs::remove_file(path).is_ok() {
                kept -= bytes;
            }
        }
    }
}

/// A folder that only this user can write to; it is made if need be, with all folders above it that are missing.
///
/// # Errors
/// Why it is not such a folder: it can't be made, or is not this user's alone.
pub fn private_folder(folder: &Path) -> Result<(), String> {
    let why = |why: &dyn std::fmt::Display| format!("{}: {why}", folder.display());
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| why(&error))?;
    let found = fs::symlink_metadata(folder).map_err(|error| why(&error))?;
    if !found.is_dir() {
        return Err(why(&"not a folder"));
    }
    if !private(&found) {
        let (owner, mode) = (found.uid(), found.mode() & 0o7777);
        return Err(why(&format!(
            "owned by user {owner} with mode {mode:o}, expected this user's with mode 700 (others can write to it)"
        )));
    }
    Ok(())
}

/// Whether it is owned by this user, and no other may write to it.
fn private(found: &fs::Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0
}

fn checksum(key: &str, code: &[u8]) -> blake3::Hash {
    blake3::Hasher::new().update(key.as_bytes()).update(code).finalize()
}

/// Says that a file was used.
fn touch(file: &File) {
    use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let _ = futimens(file, &Timestamps { last_access: now, last_modification: now });
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn cache() -> (tempfile::TempDir, CodeCache) {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = CodeCache::open(&folder.path().join("a/b")).expect("private");
        (folder, cache)
    }

    #[test]
    fn what_is_put_in_comes_back_and_a_changed_bit_is_a_miss() {
        let (_folder, cache) = cache();
        assert_eq!(cache.get("key"), None);
        cache.put("key", b"code");
        assert_eq!(cache.get("key").as_deref(), Some(&b"code"[..]));
        let path = cache.folder.join("key");
        let whole = fs::read(&path).expect("there");
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, flipped).expect("written");
            assert_eq!(cache.get("key"), None, "bit {bit}");
        }
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).expect("written");
            assert_eq!(cache.get("key"), None, "{length} bytes");
        }
        // Under another name it is another component's.
        fs::write(cache.folder.join("other"), &whole).expect("written");
        assert_eq!(cache.get("other"), None);
    }

    #[test]
    fn what_others_can_write_to_or_leads_elsewhere_is_a_miss() {
        let (folder, cache) = cache();
        cache.put("key", b"code");
        let path = cache.folder.join("key");
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
        mode(&path, 0o620);
        assert_eq!(cache.get("key"), None);
        mode(&path, 0o600);
        assert_eq!(cache.get("key").as_deref(), Some(&b"code"[..]));
        std::os::unix::fs::symlink(&path, cache.folder.join("link")).expect("a link");
        assert_eq!(cache.get("link"), None);
        mode(&cache.folder, 0o770);
        assert!(CodeCache::open(&cache.folder).expect_err("writable by a group").contains("mode 770"));
        std::os::unix::fs::symlink(&cache.folder, folder.path().join("link")).expect("a link");
        assert!(CodeCache::open(&folder.path().join("link")).expect_err("a link").contains("not a folder"));
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let (_folder, cache) = cache();
        let age = |key: &str, seconds| {
            cache.put(key, &[0; 1000]);
            let file = File::open(cache.folder.join(key)).expect("there");
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).expect("set");
        };
        age("a", 10);
        age("b", 20);
        age("c", 30);
        assert!(cache.get("a").is_some());
        cache.prune(2500);
        assert_eq!(["a", "b", "c"].map(|key| cache.get(key).is_some()), [true, false, true]);
    }
}
