//! The contract, held against a golden copy: no change of it goes unnoticed.

use sandtable_runtime::contract::{Knowledge, Quantity};
use wit_component::WitPrinter;
use wit_parser::{Resolve, TypeDefKind};

#[test]
fn the_host_speaks_the_version_of_the_contract() {
    assert!(source("wit/policy.wit").contains(&format!("\npackage {};\n", sandtable_runtime::CONTRACT)));
}

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

/// A text without the marks of comments, in small letters, its words one space apart.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim().trim_start_matches('/').trim_start_matches('!'));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ").to_lowercase()
}

fn source(path: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(path).expect("a source")
}

/// What Rust says of a type, a field or a case of the contract is what the contract says.
#[test]
fn the_documentation_of_the_types_is_that_of_the_contract() {
    let contract = plain(&source("wit/policy.wit"));
    let mut sentences = 0;
    for file in ["exchange", "facts"] {
        let text = source(&format!("runtime/src/contract/{file}.rs"));
        let mut doc = String::new();
        for line in text.lines().map(str::trim) {
            match line.strip_prefix("///") {
                Some(words) => doc.push_str(&format!("{words}\n")),
                None => {
                    let said = plain(&std::mem::take(&mut doc));
                    assert!(contract.contains(&said), "{file}.rs: {said:?} is not in the contract");
                    sentences += usize::from(!said.is_empty());
                }
            }
        }
    }
    assert!(sentences > 70, "{sentences} pieces of documentation");
}

#[test]
fn the_oracle_quotes_the_contract() {
    let read = |path: &str| plain(&source(path));
    let oracle =
        ["oracle.rs", "oracle_nodes.rs"].map(|file| read(&format!("runtime/tests/invariants/{file}"))).concat();
    let contract = read("wit/policy.wit");
    let mut quotations = 0;
    for part in oracle.split('«').skip(1) {
        let (quotation, after) = part.split_once('»').expect("the end of a quotation");
        let other = after.strip_prefix(" (`").and_then(|rest| rest.split_once('`')).map(|(path, _)| read(path));
        let source = other.as_ref().unwrap_or(&contract);
        assert!(source.contains(quotation.trim_end_matches(['.', ','])), "«{quotation}» is not in the source");
        quotations += 1;
    }
    assert!(quotations > 35, "{quotations} quotations");
}
