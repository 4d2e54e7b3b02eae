//! The policy on the page of Rust is `lifo.rs`, word for word, and does what it says; the README is short.

use sandtable_policy::testing::completion_times;

use crate::help::root;
use crate::lifo::Lifo;

#[test]
fn the_policy_of_the_book_works() {
    let page = std::fs::read_to_string(root().join("docs/src/policies/rust.md")).expect("a page");
    assert!(page.contains(include_str!("lifo.rs")), "the policy of the page is not experiments/tests/all/lifo.rs");
    // One GPU: the job that came last runs as soon as it is free.
    let jobs = [(0, 1, 100), (1, 1, 100), (2, 1, 100)];
    assert_eq!(completion_times::<Lifo>("{}", &[1], &jobs), [100, 299, 198]);
}

#[test]
fn the_readme_is_read_to_its_end() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README");
    assert!(readme.lines().count() <= 120, "{} lines", readme.lines().count());
}
