//! How a component is made of core modules: which it instantiates, in which order, and what each is given. A component
//! without anything else (what wit-component, and so every Rust and C toolchain, makes) can be instantiated and called through
//! wasmtime's core API, at a fraction of the cost of a call.

use std::collections::BTreeMap;
use std::ops::Range;

use wasmparser::{
    CanonicalFunction, CanonicalOption, Chunk, ComponentAlias, ComponentExternalKind as Kind, ComponentInstance,
    ComponentTypeRef, Encoding, ExternalKind, Instance, Parser, Payload,
};

/// A function of an interface: the interface's full name, and its own.
pub(super) type Name = (String, String);

/// Where an item is in the index space of its kind.
pub(super) type Item = (ExternalKind, usize);

/// The memory, `realloc` and `post-return` of a canonical function, in the index spaces of core memories and functions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub(super) memory: Option<usize>,
    pub(super) realloc: Option<usize>,
    pub(super) post_return: Option<usize>,
}

/// What adds one item to an index space.
#[derive(Debug)]
pub(super) enum Step {
    /// An instance of a module; for each name of a module that it imports from, the instance that is given.
    Instantiate { module: usize, arguments: BTreeMap<String, usize> },
    /// An instance that has these items.
    Bundle(BTreeMap<String, Item>),
    /// An export of an instance.
    Alias { kind: ExternalKind, instance: usize, name: String },
    /// An import of the component, as a core function.
    Lower { function: Name, options: Options },
}

/// All of a component.
#[derive(Debug, Default)]
pub(super) struct Wiring {
    /// Where its modules are in the file: from where the section begins, and the module itself.
    modules: Vec<(usize, Range<usize>)>,
    /// In order.
    pub(super) steps: Vec<Step>,
    /// What it exports: a core function and how it is called.
    pub(super) exports: BTreeMap<Name, (usize, Options)>,
}

/// A function of the component itself.
#[derive(Clone)]
enum Function {
    Imported(Name),
    Lifted(usize, Options),
}

/// An instance of the component itself.
#[derive(Clone)]
enum Interface {
    Imported(String),
    Made(BTreeMap<String, Function>),
}

/// A component that only gives functions new names: wit-component makes one for each interface that is exported.
struct Renaming(BTreeMap<String, String>);

impl Wiring {
    /// Reads a component. None: it is malformed, or has anything that this module does not know; then it is called as a
    /// component.
    pub(super) fn read(bytes: &[u8]) -> Option<Wiring> {
        let mut reader = Reader::default();
        let mut parser = Parser::new(0);
        let mut at = 0;
        loop {
            let Chunk::Parsed { consumed, payload } = parser.parse(&bytes[at..], true).ok()? else { return None };
            let start = at;
            at += consumed;
            match payload {
                Payload::End(_) => break,
                Payload::ModuleSection { unchecked_range, .. } => {
                    at = unchecked_range.end;
                    bytes.get(unchecked_range.clone())?;
                    reader.wiring.modules.push((start, unchecked_range));
                }
                Payload::ComponentSection { unchecked_range, .. } => {
                    at = unchecked_range.end;
                    reader.components.push(Renaming::read(bytes.get(unchecked_range)?)?);
                }
                other => reader.section(other)?,
            }
            at_most(reader.wiring.steps.len(), STEPS)?;
        }
        Some(reader.wiring)
    }

    /// The modules.
    pub(super) fn modules<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.modules.iter().map(|(_, module)| &bytes[module.clone()])
    }

    /// The component with functions that do nothing: of the same types, and quick to compile. None: a module is malformed.
    pub(super) fn skeleton(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (mut out, mut copied) = (Vec::new(), 0);
        for (start, module) in &self.modules {
            out.extend(&bytes[copied..*start]);
            section(&mut out, 1, &without_code(&bytes[module.clone()])?);
            copied = module.end;
        }
        out.extend(&bytes[copied..]);
        Some(out)
    }
}

#[derive(Default)]
struct Reader {
    wiring: Wiring,
    functions: Vec<Function>,
    interfaces: Vec<Interface>,
    components: Vec<Renaming>,
}

impl Reader {
    fn section(&mut self, payload: Payload<'_>) -> Option<()> {
        match payload {
            Payload::Version { .. }
            | Payload::CustomSection(_)
            | Payload::CoreTypeSection(_)
            | Payload::ComponentTypeSection(_) => {}
            Payload::InstanceSection(section) => {
                for instance in section {
                    let step = core_instance(instance.ok()?)?;
                    self.wiring.steps.push(step);
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    let import = import.ok()?;
                    match import.ty {
                        ComponentTypeRef::Instance(_) => {
                            self.interfaces.push(Interface::Imported(import.name.name.into()));
                        }
                        ComponentTypeRef::Type(_) => {}
                        _ => return None,
                    }
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section {
                    self.alias(alias.ok()?)?;
                }
            }
            Payload::ComponentCanonicalSection(section) => {
                for function in section {
                    self.canonical(function.ok()?)?;
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section {
                    self.instance(instance.ok()?)?;
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    let export = export.ok()?;
                    let interface = match export.kind {
                        Kind::Instance => self.interfaces.get(export.index as usize)?.clone(),
                        Kind::Type => continue,
                        _ => return None,
                    };
                    self.export(export.name.name, &interface)?;
                    self.interfaces.push(interface);
                    at_most(self.interfaces.len(), INTERFACES)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn alias(&mut self, alias: ComponentAlias<'_>) -> Option<()> {
        match alias {
            ComponentAlias::CoreInstanceExport { kind, instance_index, name } => {
                let (instance, name) = (instance_index as usize, name.into());
                self.wiring.steps.push(Step::Alias { kind, instance, name });
            }
            ComponentAlias::InstanceExport { kind: Kind::Func, instance_index, name } => {
                let function = match self.interfaces.get(instance_index as usize)? {
                    Interface::Imported(interface) => Function::Imported((interface.clone(), name.into())),
                    Interface::Made(functions) => functions.get(name)?.clone(),
                };
                self.functions.push(function);
            }
            ComponentAlias::InstanceExport { kind: Kind::Type, .. } => {}
            _ => return None,
        }
        Some(())
    }

    fn canonical(&mut self, function: CanonicalFunction) -> Option<()> {
        match function {
            CanonicalFunction::Lift { core_func_index, options, .. } => {
                self.functions.push(Function::Lifted(core_func_index as usize, settings(&options)?));
            }
            CanonicalFunction::Lower { func_index, options } => {
                let Function::Imported(function) = self.functions.get(func_index as usize)?.clone() else {
                    return None;
                };
                self.wiring.steps.push(Step::Lower { function, options: settings(&options)? });
            }
            _ => return None,
        }
        Some(())
    }

    fn instance(&mut self, instance: ComponentInstance<'_>) -> Option<()> {
        let mut made = BTreeMap::new();
        match instance {
            ComponentInstance::Instantiate { component_index, args } => {
                let Renaming(names) = self.components.get(component_index as usize)?;
                at_most(names.len(), FUNCTIONS)?;
                for (export, import) in names {
                    let given = args.iter().find(|given| given.name == import)?;
                    let Kind::Func = given.kind else { return None };
                    made.insert(export.clone(), self.functions.get(given.index as usize)?.clone());
                }
            }
            ComponentInstance::FromExports(exports) => {
                at_most(exports.len(), FUNCTIONS)?;
                for export in &exports {
                    match export.kind {
                        Kind::Func => {
                            let function = self.functions.get(export.index as usize)?.clone();
                            made.insert(export.name.name.into(), function);
                        }
                        Kind::Type => {}
                        _ => return None,
                    }
                }
            }
        }
        self.interfaces.push(Interface::Made(made));
        at_most(self.interfaces.len(), INTERFACES)
    }

    fn export(&mut self, name: &str, interface: &Interface) -> Option<()> {
        let Interface::Made(functions) = interface else { return None };
        for (function, definition) in functions {
            let Function::Lifted(core, options) = definition else { return None };
            self.wiring.exports.insert((name.into(), function.clone()), (*core, *options));
        }
        Some(())
    }
}

/// Most functions of an interface, interfaces of a component, and steps: the contract has six, two and a few dozen. Nothing has been
/// validated when a component is read.
const FUNCTIONS: usize = 100;
const INTERFACES: usize = 1_000;
const STEPS: usize = 100_000;

fn at_most(found: usize, most: usize) -> Option<()> {
    (found <= most).then_some(())
}

fn core_instance(instance: Instance<'_>) -> Option<Step> {
    Some(match instance {
        Instance::Instantiate { module_index, args } => {
            let arguments = args.iter().map(|given| (given.name.into(), given.index as usize)).collect();
            Step::Instantiate { module: module_index as usize, arguments }
        }
        Instance::FromExports(exports) => Step::Bundle(
            exports.iter().map(|export| (export.name.into(), (export.kind, export.index as usize))).collect(),
        ),
    })
}

/// The options of a canonical function. None: texts are not UTF-8, or it is not called synchronously.
fn settings(options: &[CanonicalOption]) -> Option<Options> {
    let mut settings = Options::default();
    for option in options {
        match *option {
            CanonicalOption::UTF8 => {}
            CanonicalOption::Memory(index) => settings.memory = Some(index as usize),
            CanonicalOption::Realloc(index) => settings.realloc = Some(index as usize),
            CanonicalOption::PostReturn(index) => settings.post_return = Some(index as usize),
            _ => return None,
        }
    }
    Some(settings)
}

impl Renaming {
    fn read(bytes: &[u8]) -> Option<Renaming> {
        let (mut functions, mut exports) = (Vec::new(), BTreeMap::new());
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.ok()? {
                Payload::Version { .. }
                | Payload::CustomSection(_)
                | Payload::ComponentTypeSection(_)
                | Payload::End(_) => {}
                Payload::ComponentImportSection(section) => {
                    for import in section {
                        let import = import.ok()?;
                        match import.ty {
                            ComponentTypeRef::Func(_) => functions.push(import.name.name.to_owned()),
                            ComponentTypeRef::Type(_) => {}
                            _ => return None,
                        }
                    }
                }
                Payload::ComponentExportSection(section) => {
                    for export in section {
                        let export = export.ok()?;
                        match export.kind {
                            Kind::Func => {
                                let function = functions.get(export.index as usize)?.clone();
                                functions.push(function.clone());
                                exports.insert(export.name.name.into(), function);
                            }
                            Kind::Type => {}
                            _ => return None,
                        }
                    }
                }
                _ => return None,
            }
        }
        Some(Renaming(exports))
    }
}

/// A module whose functions trap, whose memory and tables begin empty, and which has no start function.
fn without_code(module: &[u8]) -> Option<Vec<u8>> {
    let mut out = module.get(..8)?.to_vec();
    for payload in Parser::new(0).parse_all(module) {
        match payload.ok()? {
            // A component where a module should be.
            Payload::Version { encoding: Encoding::Component, .. } => return None,
            // None takes less than a byte: a larger count is malformed.
            Payload::CodeSectionStart { count, range, .. } if count as usize > range.len() => return None,
            Payload::DataSection(data) if data.count() as usize > data.range().len() => return None,
            Payload::ElementSection(elements) if elements.count() as usize > elements.range().len() => return None,
            Payload::CodeSectionStart { count, .. } => {
                let mut code = leb(count as usize);
                // Its size, no locals, `unreachable`, `end`.
                (0..count).for_each(|_| code.extend([3, 0, 0, 0x0b]));
                section(&mut out, 10, &code);
            }
            Payload::DataSection(data) => {
                let mut segments = leb(data.count() as usize);
                // Passive, and empty.
                (0..data.count()).for_each(|_| segments.extend([1, 0]));
                section(&mut out, 11, &segments);
            }
            Payload::ElementSection(elements) => {
                let mut segments = leb(elements.count() as usize);
                // Passive, of functions, and empty.
                (0..elements.count()).for_each(|_| segments.extend([1, 0, 0]));
                section(&mut out, 9, &segments);
            }
            Payload::CustomSection(_) | Payload::StartSection { .. } => {}
            other => {
                if let Some((id, range)) = other.as_section() {
                    section(&mut out, id, module.get(range)?);
                }
            }
        }
    }
    Some(out)
}

fn section(out: &mut Vec<u8>, id: u8, content: &[u8]) {
    out.push(id);
    out.extend(leb(content.len()));
    out.extend(content);
}

/// An unsigned number as WebAssembly writes it.
fn leb(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 127 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Wiring> {
        Wiring::read(&wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}")))
    }

    /// A component whose function `f` returns what another module's `g` does, with these options.
    fn two_modules(options: &str) -> String {
        format!(
            r#"(component
                (core module $a (func (export "g") (result i32) (i32.const 0)))
                (core module $b (import "x" "g" (func $g (result i32))) (memory (export "m") 1)
                    (func (export "f") (result i32) (call $g)))
                (core instance $a (instantiate $a))
                (core instance $b (instantiate $b (with "x" (instance $a))))
                (alias core export $b "m" (core memory $m))
                (func $f (result string) (canon lift (core func $b "f") (memory $m) {options}))
                (instance $i (export "f" (func $f)))
                (export "one:two/three" (instance $i)))"#
        )
    }

    #[test]
    fn instances_are_made_in_order_of_what_is_given() {
        let wiring = read(&two_modules("string-encoding=utf8")).expect("modules alone");
        assert_eq!(wiring.modules.len(), 2);
        let mut instances = wiring.steps.iter().filter_map(|step| match step {
            Step::Instantiate { module, arguments } => Some((*module, arguments.clone())),
            _ => None,
        });
        assert_eq!(instances.next(), Some((0, BTreeMap::new())));
        assert_eq!(instances.next(), Some((1, BTreeMap::from([("x".into(), 0)]))));
        let (function, options) = wiring.exports[&("one:two/three".into(), "f".into())];
        assert_eq!((function, options.memory, options.realloc), (0, Some(0), None));
    }

    #[test]
    fn what_is_unknown_is_left_to_the_component_layer() {
        assert!(read(&two_modules("string-encoding=utf16")).is_none());
        assert!(read("(component (import \"f\" (func)))").is_none());
        assert!(read("(component (type $r (resource (rep i32))) (core func (canon resource.drop $r)))").is_none());
        assert!(read("(component (component (core module)))").is_none());
        assert!(read("(component (import \"m\" (core module)))").is_none());
        assert!(Wiring::read(b"\0asm\x0d\0\x01\0\x01").is_none(), "cut within a section");
    }

    /// Found by fuzzing: its sections were taken for those of a module, with a range beyond the file.
    #[test]
    fn a_component_in_place_of_a_module_has_no_skeleton() {
        let inner = b"\0asm\x0d\0\x01\0\x01\x7f";
        assert_eq!(without_code(inner), None);
        let mut outer = b"\0asm\x0d\0\x01\0".to_vec();
        section(&mut outer, 1, inner);
        assert_eq!(Wiring::read(&outer).expect("one module").skeleton(&outer), None);
    }

    #[test]
    fn a_count_that_no_file_can_hold_takes_no_memory() {
        for id in [9, 10, 11] {
            let mut module = b"\0asm\x01\0\0\0".to_vec();
            section(&mut module, id, &leb(u32::MAX as usize));
            assert_eq!(without_code(&module), None, "section {id}");
        }
    }

    /// All shipped components are called directly.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "each file is looked at by itself")]
    fn shipped_components_are_modules_alone_and_their_skeletons_are_small() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../policies/dist");
        let mut read = 0;
        for file in std::fs::read_dir(folder).expect("the shipped components").map(|file| file.expect("a file").path())
        {
            if file.extension().is_none_or(|end| end != "wasm") {
                continue;
            }
            let bytes = std::fs::read(&file).expect("a component");
            let wiring = Wiring::read(&bytes).unwrap_or_else(|| panic!("{}", file.display()));
            let skeleton = wiring.skeleton(&bytes).expect("well-formed modules");
            assert!(skeleton.len() < bytes.len() / 4, "{}: {} of {}", file.display(), skeleton.len(), bytes.len());
            let again = Wiring::read(&skeleton).expect("the same wiring");
            assert_eq!(
                format!("{:?}{:?}", wiring.steps, wiring.exports),
                format!("{:?}{:?}", again.steps, again.exports)
            );
            read += 1;
        }
        assert!(read >= 29, "{read} components");
    }
}
