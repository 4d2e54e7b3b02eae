//! What produced a result: written beside it, never compared, never part of its identity but for the build.

use sandtable_plan::build_info;
use serde::{Deserialize, Serialize};

/// What produced a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Producer {
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
            version: env!("CARGO_PKG_VERSION").into(),
            build: build_info::BUILD.into(),
            commit: build_info::COMMIT.into(),
            wasmtime: build_info::WASMTIME.into(),
            target: build_info::TARGET.into(),
        }
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
