//! The files that the binary carries, so that an installed one works without a checkout: components, weights, profiles. The build
//! script packs them into one archive, which is unpacked when the first of them is wanted.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

static ARCHIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shipped.zst"));

/// What is unpacked is as large as all components together, which is more than small runs take: it is kept while some [`InUse`] is
/// there, and else unpacked for every file.
struct Unpacked {
    users: usize,
    bytes: Option<Vec<u8>>,
}

static UNPACKED: Mutex<Unpacked> = Mutex::new(Unpacked { users: 0, bytes: None });

/// While one is there, the archive is unpacked once.
pub(super) struct InUse(());

impl InUse {
    pub(super) fn new() -> InUse {
        UNPACKED.lock().unwrap_or_else(PoisonError::into_inner).users += 1;
        InUse(())
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut unpacked = UNPACKED.lock().unwrap_or_else(PoisonError::into_inner);
        unpacked.users -= 1;
        if unpacked.users == 0 {
            unpacked.bytes = None;
        }
    }
}

fn bytes(range: Range<usize>) -> Vec<u8> {
    let mut unpacked = UNPACKED.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = unpacked.bytes.take().unwrap_or_else(|| match zstd::bulk::decompress(ARCHIVE, BYTES) {
        Ok(bytes) => bytes,
        Err(error) => unreachable!("the archive that the build script made: {error}"),
    });
    let file = bytes[range].to_vec();
    unpacked.bytes = (unpacked.users > 0).then_some(bytes);
    file
}

fn file(table: &[(&str, Range<usize>)], name: &str) -> Option<Vec<u8>> {
    table.iter().find(|(known, _)| *known == name).map(|(_, range)| bytes(range.clone()))
}

fn names(table: &'static [(&'static str, Range<usize>)]) -> impl Iterator<Item = &'static str> {
    table.iter().map(|(name, _)| *name)
}

/// Returns the component of a shipped policy or predictor.
pub fn component(name: &str) -> Option<Vec<u8>> {
    file(POLICIES, name).or_else(|| file(PREDICTORS, name))
}

/// Returns the names of the shipped policies.
pub fn policies() -> impl Iterator<Item = &'static str> {
    names(POLICIES)
}

/// Returns the names of the shipped predictors.
pub fn predictors() -> impl Iterator<Item = &'static str> {
    names(PREDICTORS)
}

/// Returns the weights of a file name, as in `policies/predictors/weights`.
pub fn weights(name: &str) -> Option<Vec<u8>> {
    file(WEIGHTS, name)
}

/// Returns the file names of all weights.
pub fn weight_names() -> impl Iterator<Item = &'static str> {
    names(WEIGHTS)
}

/// Returns the profile of a file name, as in `experiments/specs/profiles`.
pub fn profile(name: &str) -> Option<String> {
    String::from_utf8(file(PROFILES, name)?).ok()
}

/// Returns the file names of all profiles.
pub fn profile_names() -> impl Iterator<Item = &'static str> {
    names(PROFILES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_binary_carries_every_file_of_its_folders() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (mut files, mut carried) = (0, 0);
        let _in_use = InUse::new();
        for folder in ["policies/dist", "policies/predictors/weights", "experiments/specs/profiles"] {
            for path in sandtable_core::input::sorted(&root.join(folder)).expect("a folder") {
                let name = path.file_name().expect("a name").to_string_lossy().to_string();
                let found = match folder {
                    "policies/dist" => name.strip_suffix(".wasm").and_then(component),
                    "policies/predictors/weights" => weights(&name),
                    _ => profile(&name).map(String::into_bytes),
                };
                files += usize::from(folder != "policies/dist" || name.ends_with(".wasm"));
                let Some(found) = found else { continue };
                assert!(found == std::fs::read(&path).expect("a file"), "{name}");
                carried += 1;
            }
        }
        assert_eq!(carried, files);
        assert!(policies().count() >= 22 && predictors().count() >= 7 && files >= 46, "{files} files");
    }
}
