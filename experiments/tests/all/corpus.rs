//! The inputs that fuzzing has found worth keeping, each through its target. `just fuzz MINUTES` looks for others.

use crate::help::root;

#[path = "../../../fuzz/src/lib.rs"]
mod targets;

#[test]
fn every_input_of_the_corpus_is_taken_or_refused() {
    let corpus = root().join("fuzz/corpus");
    for (name, target) in targets::TARGETS {
        let inputs = sandtable::input::sorted(&corpus.join(name)).expect("a corpus");
        assert!(!inputs.is_empty(), "{name} has no corpus");
        for input in inputs {
            let bytes = std::fs::read(&input).expect("a file");
            let taken = std::panic::catch_unwind(|| target(&bytes));
            assert!(taken.is_ok(), "{}", input.display());
        }
    }
    targets::clear();
}
