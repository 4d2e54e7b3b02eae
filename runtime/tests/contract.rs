//! The contract, held against a golden copy: no change of it goes unnoticed.

use wit_component::WitPrinter;
use wit_parser::Resolve;

#[test]
fn the_contract_is_the_agreed_one() {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit")).expect("the contract");
    let mut printer = WitPrinter::default();
    printer.emit_docs(false);
    printer.print(&resolve, package, &[]).expect("text");
    insta::assert_snapshot!(String::from(printer.output));
}
