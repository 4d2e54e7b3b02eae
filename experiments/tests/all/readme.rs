//! README's policy is `lifo.rs`, word for word, and does what it says.

use sandtable_policy::testing::completion_times;

use crate::help::root;
use crate::lifo::Lifo;

#[test]
fn the_policy_of_the_readme_works() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README");
    assert!(readme.contains(include_str!("lifo.rs")), "README's policy is not experiments/tests/all/lifo.rs");
    // One GPU: the job that came last runs as soon as it is free.
    let jobs = [(0, 1, 100), (1, 1, 100), (2, 1, 100)];
    assert_eq!(completion_times::<Lifo>("{}", &[1], &jobs), [100, 299, 198]);
}
