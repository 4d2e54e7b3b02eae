//! The contract's types for policies in JavaScript, written from the contract.

use std::fmt::Write as _;

use wit_parser::{Docs, InterfaceId, Resolve, Type, TypeDefKind, TypeId};

use crate::help::root;

const HEAD: &str = "\
// The contract, wit/policy.wit, as componentize-qjs hands it to a policy in JavaScript; written from it, and a test compares.
//
// Numbers of 64 bits are plain numbers. What is optional and not there is null; of what a policy hands over it may be left out. A flag
// that is left out is false. An id of 2^32 - 1, which stands for none, comes as -1.
";

struct Types<'a>(&'a Resolve);

/// `gpu-type-id` as `gpuTypeId`.
fn camel(name: &str) -> String {
    let mut parts = name.split('-');
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |all, part| all + &pascal(part))
}

/// `gpu-type-id` as `GpuTypeId`.
fn pascal(name: &str) -> String {
    let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
    name.split('-').map(capital).collect()
}

fn said(docs: &Docs, indent: &str) -> String {
    let Some(text) = &docs.contents else { return String::new() };
    // Rules between the parts of the contract are no part of what is said.
    let lines: Vec<&str> = text.trim().lines().map(str::trim).filter(|line| !line.starts_with("----")).collect();
    match lines.as_slice() {
        [] => String::new(),
        [line] => format!("{indent}/** {line} */\n"),
        lines => format!("{indent}/**\n{indent} * {}\n{indent} */\n", lines.join(&format!("\n{indent} * "))),
    }
}

impl Types<'_> {
    fn of(&self, of: &Type) -> String {
        match of {
            Type::Bool => "boolean".into(),
            Type::String | Type::Char => "string".into(),
            Type::Id(id) => match &self.0.types[*id].name {
                Some(name) => pascal(name),
                None => self.kind(*id),
            },
            _ => "number".into(),
        }
    }

    fn list(&self, of: &[Type]) -> String {
        of.iter().map(|of| self.of(of)).collect::<Vec<_>>().join(", ")
    }

    /// What a type is, whatever its name.
    fn kind(&self, id: TypeId) -> String {
        match &self.0.types[id].kind {
            TypeDefKind::List(Type::U8) => "Uint8Array".into(),
            TypeDefKind::List(of) => format!("Array<{}>", self.of(of)),
            TypeDefKind::Tuple(of) => format!("[{}]", self.list(&of.types)),
            TypeDefKind::Option(of) => format!("{} | null", self.of(of)),
            TypeDefKind::Result(of) => of.ok.as_ref().map_or("void".into(), |ok| self.of(ok)),
            TypeDefKind::Type(of) => self.of(of),
            TypeDefKind::Enum(of) => {
                of.cases.iter().map(|case| format!("'{}'", case.name)).collect::<Vec<_>>().join(" | ")
            }
            kind => panic!("no type in JavaScript for a {}", kind.as_str()),
        }
    }

    /// A type by its name.
    fn named(&self, id: TypeId, interface: InterfaceId) -> String {
        let of = &self.0.types[id];
        let name = pascal(of.name.as_deref().expect("a name"));
        let docs = said(&of.docs, "  ");
        let mut out = match &of.kind {
            // Of another interface.
            TypeDefKind::Type(Type::Id(other))
                if self.0.types[*other].owner != wit_parser::TypeOwner::Interface(interface) =>
            {
                return format!("  export type {name} = import('{}').{name};\n", module("types"));
            }
            TypeDefKind::Record(_) | TypeDefKind::Flags(_) => format!("{docs}  export interface {name} {{\n"),
            TypeDefKind::Variant(_) => format!("{docs}  export type {name} =\n"),
            _ => return format!("{docs}  export type {name} = {};\n", self.kind(id)),
        };
        match &of.kind {
            TypeDefKind::Record(record) => {
                for field in &record.fields {
                    let is_optional = self.of(&field.ty).ends_with("| null");
                    let mark = if is_optional { "?" } else { "" };
                    let _ = writeln!(
                        out,
                        "{}    {}{mark}: {};",
                        said(&field.docs, "    "),
                        camel(&field.name),
                        self.of(&field.ty)
                    );
                }
            }
            TypeDefKind::Flags(flags) => {
                for flag in &flags.flags {
                    let _ = writeln!(out, "{}    {}?: boolean;", said(&flag.docs, "    "), camel(&flag.name));
                }
            }
            TypeDefKind::Variant(variant) => {
                let case = |case: &wit_parser::Case| {
                    let val = case.ty.as_ref().map(|of| format!("; val: {}", self.of(of))).unwrap_or_default();
                    format!("{}    | {{ tag: '{}'{val} }}", said(&case.docs, "    "), case.name)
                };
                return out + &variant.cases.iter().map(case).collect::<Vec<_>>().join("\n") + ";\n";
            }
            _ => {}
        }
        out + "  }\n"
    }

    fn interface(&self, id: InterfaceId) -> String {
        let of = &self.0.interfaces[id];
        let name = of.name.as_deref().expect("a name");
        let mut out = format!("\n{}declare module '{}' {{\n", said(&of.docs, ""), module(name));
        of.types.values().for_each(|of| out.push_str(&self.named(*of, id)));
        for function in of.functions.values() {
            let one = |param: &wit_parser::Param| format!("{}: {}", camel(&param.name), self.of(&param.ty));
            let params = function.params.iter().map(one).collect::<Vec<_>>().join(", ");
            let result = function.result.as_ref().map_or("void".into(), |of| self.of(of));
            let docs = said(&function.docs, "  ");
            let _ = writeln!(out, "{docs}  export function {}({params}): {result};", camel(&function.name));
        }
        out + "}\n"
    }
}

fn module(interface: &str) -> String {
    let (package, version) = sandtable_runtime::CONTRACT.split_once('@').expect("a version");
    format!("{package}/{interface}@{version}")
}

#[expect(clippy::disallowed_methods, reason = "as insta has it")]
#[test]
fn the_types_of_javascript_are_those_of_the_contract() {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(root().join("wit")).expect("the contract");
    let types = Types(&resolve);
    let mut text = HEAD.to_string();
    for interface in ["types", "cluster", "introductions", "predictor", "log", "scheduler"] {
        text.push_str(&types.interface(resolve.packages[package].interfaces[interface]));
    }
    let path = root().join("policies/templates/js/sandtable-contract.d.ts");
    if std::env::var("INSTA_UPDATE").is_ok_and(|word| word == "always") {
        std::fs::write(&path, &text).expect("written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "sandtable-contract.d.ts is not what wit/policy.wit says: `just bless`");
}
