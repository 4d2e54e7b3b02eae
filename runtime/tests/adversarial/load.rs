//! Files that are no policies, or not for long.

use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::{ManglingAndAbi, Resolve};

use crate::guest::{Parts, guest, guest_of_larger_world, leb};

/// A component in text form.
fn text(wat: &str) -> Vec<u8> {
    wat::parse_str(wat).expect("a component")
}

/// A component that holds this core module, which no instance is made of.
fn holding(module: &str) -> Vec<u8> {
    text(&format!("(component (core module {module}))"))
}

/// Declares these fields beside a well-behaved policy.
pub fn declaring(declare: impl Into<String>) -> Vec<u8> {
    guest(&Parts { declare: declare.into(), ..Parts::default() })
}

/// Exports a scheduler of this name with functions of another type.
pub fn wrong_types(name: &str) -> Vec<u8> {
    text(&format!(
        r#"(component
            (core module $m (func (export "f") (result i32) (unreachable)))
            (core instance $i (instantiate $m))
            (func $f (result u32) (canon lift (core func $i "f")))
            (instance $s (export "describe" (func $f)) (export "init" (func $f)) (export "decide" (func $f)))
            (export "{name}" (instance $s)))"#
    ))
}

/// Exports nothing, and imports an interface of this name.
fn import_of(name: &str) -> Vec<u8> {
    text(&format!("(component (import \"{name}\" (instance (export \"write\" (func)))))"))
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [vec![id], leb(content.len()), content.to_vec()].concat()
}

/// A policy, and behind it so many instances of an empty core module.
pub fn with_instances(count: usize) -> Vec<u8> {
    let mut bytes = guest(&Parts::default());
    let (mut at, mut modules) = (8, 0);
    while at < bytes.len() {
        let id = bytes[at];
        let (mut size, mut shift) = (0, 0);
        loop {
            at += 1;
            size |= usize::from(bytes[at] & 127) << shift;
            shift += 7;
            if bytes[at] < 128 {
                break;
            }
        }
        at += 1 + size;
        modules += usize::from(id == 1);
    }
    bytes.extend(section(1, b"\0asm\x01\0\0\0"));
    let instance = [vec![0], leb(modules), vec![0]].concat();
    bytes.extend(section(2, &[leb(count), instance.repeat(count)].concat()));
    bytes
}

/// Components within components.
pub fn nested(depth: usize) -> Vec<u8> {
    const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";
    let mut sizes = vec![HEADER.len()];
    for at in 0..depth {
        sizes.push(HEADER.len() + 1 + leb(sizes[at]).len() + sizes[at]);
    }
    let opening = |size: &usize| [HEADER, &[4], &leb(*size)].concat();
    let outer: Vec<u8> = sizes[..depth].iter().rev().flat_map(opening).collect();
    [outer.as_slice(), HEADER].concat()
}

/// A function whose type is a list of lists of lists ...
fn deep_type(depth: usize) -> Vec<u8> {
    let types: String = (1..depth).map(|at| format!("(type $t{at} (list $t{}))", at - 1)).collect();
    let last = depth - 1;
    text(&format!("(component (type $t0 (list u8)) {types} (import \"f\" (func (param \"x\" $t{last}))))"))
}

/// Every case with its name.
pub fn cases() -> Vec<(&'static str, Vec<u8>)> {
    let valid = guest(&Parts::default());
    let mut huge = valid[..8].to_vec();
    huge.resize(33 << 20, 0);
    let mut future = valid.clone();
    future[4] = 0x0e;
    vec![
        ("empty file", vec![]),
        ("text", b"(component)".to_vec()),
        ("wrong magic", [b"\x7fELF".as_slice(), &valid[4..]].concat()),
        ("cut after 1 byte", valid[..1].to_vec()),
        ("cut after 4 bytes", valid[..4].to_vec()),
        ("cut after 7 bytes", valid[..7].to_vec()),
        ("cut after the header", valid[..8].to_vec()),
        ("cut after 9 bytes", valid[..9].to_vec()),
        ("cut before the last byte", valid[..valid.len() - 1].to_vec()),
        ("33 MiB", huge),
        ("core module", text("(module)")),
        ("unknown binary version", future),
        ("empty component", text("(component)")),
        ("unknown interface", unknown_interface()),
        ("one import too many", guest_of_larger_world("import ask: func();", &asking())),
        ("one export too many", guest_of_larger_world("export more: func();", &more())),
        ("a newer version of the contract", wrong_types("sandtable:policy/scheduler@0.3.0")),
        ("an older version of the contract", wrong_types("sandtable:policy/scheduler@0.0.9")),
        ("a policy of contract 0.1", of_contract_0_1()),
        ("an import of an older contract", import_of("sandtable:policy/log@0.0.9")),
        ("a name without a version", wrong_types("sandtable:policy/scheduler")),
        ("memory64", holding("(memory i64 1)")),
        ("shared memory", holding("(memory 1 1 shared)")),
        ("atomics", holding("(memory 1) (func (drop (i32.atomic.load (i32.const 0))))")),
        ("relaxed SIMD", holding("(func (param v128) (drop (i8x16.relaxed_swizzle (local.get 0) (local.get 0))))")),
        ("garbage collection", holding("(type (struct (field i32)))")),
        ("threads", text("(component (core type $t (func (param i32))) (core func (canon thread.spawn-ref $t)))")),
        ("100 nested components", nested(100)),
        ("900 nested lists", deep_type(900)),
        ("start function spins", declaring("(func $boot (loop $again (br $again))) (start $boot)")),
        ("start function traps", declaring("(func $boot (unreachable)) (start $boot)")),
        ("start function reads the cluster", declaring("(func $boot (drop (call $now))) (start $boot)")),
        ("memory begins over the cap", guest(&Parts { memory: "2049".into(), ..Parts::default() })),
        ("memory begins with 4 GiB", guest(&Parts { memory: "65536".into(), ..Parts::default() })),
        ("table begins over the cap", declaring("(table 20001 funcref)")),
        ("data beyond the memory", declaring("(data (i32.const 16777216) \"x\")")),
    ]
}

/// A policy of the contract before this one, of which `contracts/policy-0.1.wit` is a copy.
fn of_contract_0_1() -> Vec<u8> {
    of_contract(include_str!("../contracts/policy-0.1.wit"))
}

/// A policy of this version of the contract, but for one field of an event.
pub fn of_another_event() -> Vec<u8> {
    let contract = include_str!("../../../wit/policy.wit");
    let other = contract.replace("submitted: instant,", "submitted: f64,");
    assert_ne!(contract, other);
    of_contract(&other)
}

fn of_contract(wit: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("policy.wit", wit).expect("a contract");
    let world = resolve.select_world(&[package], Some("policy")).expect("the world");
    let mut module = dummy_module(&resolve, world, ManglingAndAbi::Standard32);
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("metadata");
    ComponentEncoder::default().module(&module).expect("a module").encode().expect("a component")
}

fn unknown_interface() -> Vec<u8> {
    let parts = Parts { import: "(import \"foo:bar/baz@1.0.0\" \"f\" (func))".into(), ..Parts::default() };
    guest_of_larger_world("import foo:bar/baz@1.0.0;", &parts)
}

fn asking() -> Parts {
    Parts { import: "(import \"$root\" \"ask\" (func))".into(), ..Parts::default() }
}

fn more() -> Parts {
    Parts { declare: "(func (export \"more\"))".into(), ..Parts::default() }
}
