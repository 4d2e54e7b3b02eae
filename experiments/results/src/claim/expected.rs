//! Claims that are known not to hold: a list, so that a run can tell an unexpected failure, or pass, from an expected one.
//!
//! # Format
//! RON: `[(spec: "horus2022/batch", says: "…", of: "…", because: "…")]`. `spec` is the end of the spec's path without `.ron`, `of`
//! the policies and values of the sweep as a table of claims prints them. The list speaks of full runs.

use std::path::Path;

use sandtable_core::error::Error;
use serde::Deserialize;

use super::{Measured, Verdict, render::scope};

/// A claim that is known not to hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The end of the spec's path, without `.ron`.
    pub spec: String,
    /// The claim's sentence.
    pub says: String,
    /// Its policies and values of the sweep, as tables print them.
    pub of: String,
    /// What is known of the reason.
    pub because: String,
}

/// The list of a file.
#[derive(Clone, Debug, Default)]
pub struct ExpectedFailures(Vec<Expected>);

impl ExpectedFailures {
    /// Reads a list.
    ///
    /// # Errors
    /// A file that can't be read, or the place of what can't be understood.
    pub fn read(path: &Path) -> Result<ExpectedFailures, Error> {
        let text = sandtable_core::input::text(path, sandtable_core::input::SPEC)?;
        let list = ron::from_str(&text).map_err(|error| Error::usage(format!("{}:{error}", path.display())))?;
        Ok(ExpectedFailures(list))
    }

    /// Every entry, in the order of the file.
    pub fn entries(&self) -> &[Expected] {
        &self.0
    }

    /// The entries about a spec.
    fn about(&self, spec: &Path) -> impl Iterator<Item = &Expected> {
        let stem = spec.with_extension("");
        self.0.iter().filter(move |entry| stem.ends_with(&entry.spec))
    }

    /// What is known of a claim's failure; `None` where it is to hold.
    pub fn reason(&self, spec: &Path, measured: &Measured<'_>) -> Option<&str> {
        let of = scope(measured.claim);
        let entry = self.about(spec).find(|entry| entry.says == measured.claim.spec.says && entry.of == of)?;
        Some(&entry.because)
    }

    /// What is not as expected: claims that fail or could not be measured, claims that hold though they are listed, and entries
    /// about no claim; unless `lenient`, claims that are not settled and not listed.
    pub fn surprises(&self, spec: &Path, measured: &[Measured<'_>], lenient: bool) -> Vec<String> {
        let mut found = Vec::new();
        for one in measured {
            let name = || format!("`{}`, {}", one.claim.spec.says, scope(one.claim));
            match (one.verdict(), self.reason(spec, one)) {
                (verdict, Some(_)) if verdict.passes(false) => {
                    found.push(format!("{}: holds, expected to fail", name()));
                }
                (Verdict::Judged(..), Some(_)) => {}
                (verdict, None) if verdict.passes(lenient) => {}
                (verdict, _) => found.push(format!("{}: {}", name(), verdict.words())),
            }
        }
        for entry in self.about(spec) {
            let known = |one: &Measured<'_>| one.claim.spec.says == entry.says && scope(one.claim) == entry.of;
            if !measured.iter().any(known) {
                found.push(format!("`{}`, {}: expected to fail, but there is no such claim", entry.says, entry.of));
            }
        }
        found
    }
}
