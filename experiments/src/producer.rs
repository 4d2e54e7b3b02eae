//! What produced a result: written beside it, never compared, never part of its identity but for the build.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The fingerprint of the sources that this build's results depend on (see [`crate::fingerprint`]).
pub const BUILD: &str = env!("SANDTABLE_BUILD");

/// The schema of stored files, raised when one of them changes its form.
pub const SCHEMA: u32 = 1;

/// The file's name in a cell.
pub const FILE: &str = "producer.json";

/// What produced a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Producer {
    /// The schema of the cell's files.
    pub schema: u32,
    /// The version of Sandtable.
    pub version: String,
    /// The fingerprint of its sources.
    pub build: String,
    /// The commit that was checked out where it was built; empty outside of a checkout.
    pub commit: String,
    /// The version of wasmtime.
    pub wasmtime: String,
    /// The machine's target triple.
    pub target: String,
}

impl Producer {
    /// This build.
    pub fn here() -> Producer {
        Producer {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            build: BUILD.into(),
            commit: env!("SANDTABLE_COMMIT").into(),
            wasmtime: env!("SANDTABLE_WASMTIME").into(),
            target: env!("SANDTABLE_TARGET").into(),
        }
    }

    /// As a file.
    ///
    /// # Errors
    /// None that can happen: texts and numbers are always JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, Error> {
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| Error::internal(error.to_string()))?;
        text.push(b'\n');
        Ok(text)
    }

    /// In a line.
    pub fn in_words(&self) -> String {
        let commit = match self.commit.get(..10) {
            Some(short) => format!(", commit {short}"),
            None => String::new(),
        };
        format!(
            "build {} (sandtable {}{commit}, wasmtime {}, {})",
            self.build, self.version, self.wasmtime, self.target
        )
    }
}
