//! What a shell offers for a word that is begun, beside commands and options: labels of the spec that stands in the line.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap_complete::{ArgValueCompleter, CompletionCandidate};
use sandtable_plan::{Expansion, Options, is_spec};

/// The variable in which a shell's completions say which shell asks.
pub(crate) const VARIABLE: &str = "SANDTABLE_COMPLETE";

/// Offers the labels of policies.
pub(crate) fn labels() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| labels_in(std::env::args_os().skip(1), begun))
}

/// Labels that begin so, of the specs among the words of a line; a spec with mistakes has none.
fn labels_in(words: impl Iterator<Item = OsString>, begun: &OsStr) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    let mut labels: Vec<String> = Vec::new();
    // Standard input is the shell's.
    for spec in words.filter(|word| word != "-" && is_spec(Path::new(word))) {
        let options = Options::default();
        let Ok(expansion) = Expansion::open(Path::new(&spec), &options) else { continue };
        labels.extend(expansion.labels().unwrap_or_default().into_iter().map(str::to_string));
    }
    labels.retain(|label| label.starts_with(&*begun));
    labels.into_iter().map(CompletionCandidate::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_the_spec_in_the_line_are_offered() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("spec.ron");
        let spec = "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 4, kind: \"T4\"), workload: Generate(jobs: 5, arrivals: AtOnce), \
                    policies: [Policy(name: \"fifo\"), Policy(name: \"fifo\", label: \"fair\"), Policy(name: \"las\")])";
        std::fs::write(&path, spec).expect("written");
        let line = || ["sandtable", "run"].map(OsString::from).into_iter().chain([path.clone().into()]);
        let offered = |begun: &str| -> Vec<String> {
            let all = labels_in(line(), OsStr::new(begun));
            all.iter().map(|one| one.get_value().to_string_lossy().to_string()).collect()
        };
        assert_eq!(offered(""), ["fifo", "fair", "las"]);
        assert_eq!(offered("f"), ["fifo", "fair"]);
        std::fs::write(&path, "Experiment(").expect("written");
        assert!(offered("").is_empty());
    }
}
