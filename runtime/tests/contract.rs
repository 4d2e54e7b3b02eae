//! The contract, held against a golden copy: no change of it goes unnoticed.

use sandtable_runtime::contract::{Knowledge, Quantity};
use wit_component::WitPrinter;
use wit_parser::{Resolve, TypeDefKind};

#[test]
fn the_contract_is_the_agreed_one() {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit")).expect("the contract");
    let mut printer = WitPrinter::default();
    printer.emit_docs(false);
    printer.print(&resolve, package, &[]).expect("text");
    insta::assert_snapshot!(String::from(printer.output));
}

/// The names in the contract of a type's flags or cases.
fn names(resolve: &Resolve, interface: &str, name: &str) -> Vec<String> {
    let of = |id: Option<wit_parser::InterfaceId>| id.and_then(|id| resolve.interfaces[id].name.as_deref());
    let mut found = resolve.types.iter().filter(|(_, of_type)| of_type.name.as_deref() == Some(name));
    let (_, found) = found
        .find(|(_, of_type)| match of_type.owner {
            wit_parser::TypeOwner::Interface(id) => of(Some(id)) == Some(interface),
            _ => false,
        })
        .expect("a type of the contract");
    match &found.kind {
        TypeDefKind::Flags(flags) => flags.flags.iter().map(|flag| flag.name.clone()).collect(),
        TypeDefKind::Enum(cases) => cases.cases.iter().map(|case| case.name.clone()).collect(),
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn quantities_have_the_names_of_the_contract() {
    let mut resolve = Resolve::default();
    resolve.push_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit")).expect("the contract");
    let known: Vec<&str> = Knowledge::NAMES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names(&resolve, "types", "knowledge"), known);
    for quantity in Quantity::ALL {
        assert!(Knowledge::NAMES.contains(&(quantity.name(), quantity.knowledge())), "{quantity}");
    }
    let answered: Vec<&str> =
        Quantity::ALL.into_iter().filter(|of| of.answers().is_some()).map(Quantity::name).collect();
    assert_eq!(names(&resolve, "provider", "quantities"), answered);
    let estimated = names(&resolve, "predictor", "quantity");
    let unknown: Vec<&String> = estimated.iter().filter(|name| Quantity::find(name).is_none()).collect();
    assert_eq!(unknown, ["step-time"], "which is bound together with `steps`");
}
