//! The results of every shipped spec, as its `test:` cut gives them: `experiments/specs/horus/makespan.ron` is the
//! test `horus::makespan` and the file `snapshots/horus/makespan.snap`.
//!
//! `INSTA_UPDATE=always cargo test -p snapshots` accepts what has changed; read the diff before you commit it.
