//! A component's own core modules, instantiated and called without wasmtime's component layer: a call costs a fraction.
//! [`Wiring`] says what is instantiated and which imports are given, [`crate::contract::abi`] how values cross.

use std::collections::BTreeMap;
use std::sync::Arc;

use wasmparser::ExternalKind;
use wasmtime::{
    AsContextMut as _, Caller, Extern, Func, Instance, Memory, Module, Store, StoreContextMut, Trap, TypedFunc,
    WasmParams, WasmResults, bail,
};

use super::imports::{self, Guest};
use super::names::{ADVICE, CLUSTER, INTRODUCTIONS, LOG, PREDICTOR, PROVIDER, SCHEDULER};
use super::wiring::{Item, Name, Options, Step, Wiring};
use crate::contract::Action;
use crate::contract::abi::{GuestMemory, Lifting, Lowering, Value};

/// Compiled modules and how they are wired, shared by all threads.
#[derive(Clone)]
pub(super) struct Unwrapped {
    wiring: Arc<Wiring>,
    modules: Vec<Module>,
}

/// A component that does not fit together; the check of its types refuses one before.
fn broken(what: &str) -> wasmtime::Error {
    wasmtime::format_err!("the component's {what} is missing")
}

impl Unwrapped {
    /// Whether its imports and exports are those of the contract, by their very names; wasmtime also accepts those of a later version that
    /// is compatible, which are left to it.
    pub(super) fn knows(wiring: &Wiring) -> bool {
        let imports = wiring.steps.iter().all(|step| match step {
            Step::Lower { function: (interface, name), .. } => {
                IMPORTS.iter().any(|(known, names)| known == interface && names.contains(&name.as_str()))
            }
            _ => true,
        });
        imports && wiring.exports.keys().all(|(interface, _)| EXPORTS.contains(&interface.as_str()))
    }

    pub(super) fn new(wiring: Wiring, modules: Vec<Module>) -> Unwrapped {
        Unwrapped { wiring: wiring.into(), modules }
    }

    /// Instantiates all modules in the component's order.
    pub(super) fn instantiate(&self, store: &mut Store<Guest>) -> wasmtime::Result<Instances<'_>> {
        let mut made = Instances { of: self, instances: Vec::new(), spaces: Spaces::default() };
        for step in &self.wiring.steps {
            match step {
                Step::Instantiate { module, arguments } => {
                    let module = self.modules.get(*module).ok_or_else(|| broken("module"))?;
                    let given = |import: wasmtime::ImportType<'_>| {
                        let instance = arguments.get(import.module()).ok_or_else(|| broken("argument"))?;
                        made.export(store, *instance, import.name())
                    };
                    let given = module.imports().map(given).collect::<wasmtime::Result<Vec<_>>>()?;
                    made.instances.push(Made::Instance(Instance::new(&mut *store, module, &given)?));
                }
                Step::Bundle(items) => {
                    let items = items.iter().map(|(name, item)| Ok((name.clone(), made.spaces.get(*item)?)));
                    let items = items.collect::<wasmtime::Result<_>>()?;
                    made.instances.push(Made::Bundle(items));
                }
                Step::Alias { kind, instance, name } => {
                    let item = made.export(store, *instance, name)?;
                    made.spaces.add(*kind, item)?;
                }
                Step::Lower { function, options } => {
                    let border = made.border(store, *options)?;
                    let function = define(store, function, border)?;
                    made.spaces.functions.push(function);
                }
            }
        }
        Ok(made)
    }
}

/// Items by kind, in the order of the component's index spaces.
#[derive(Default)]
struct Spaces {
    functions: Vec<Func>,
    tables: Vec<Extern>,
    memories: Vec<Memory>,
    globals: Vec<Extern>,
}

impl Spaces {
    fn add(&mut self, kind: ExternalKind, item: Extern) -> wasmtime::Result<()> {
        match (kind, item) {
            (ExternalKind::Func, Extern::Func(function)) => self.functions.push(function),
            (ExternalKind::Memory, Extern::Memory(memory)) => self.memories.push(memory),
            (ExternalKind::Table, table @ Extern::Table(_)) => self.tables.push(table),
            (ExternalKind::Global, global @ Extern::Global(_)) => self.globals.push(global),
            _ => return Err(broken("item")),
        }
        Ok(())
    }

    fn get(&self, (kind, index): Item) -> wasmtime::Result<Extern> {
        let item = match kind {
            ExternalKind::Func => self.functions.get(index).map(|function| Extern::Func(*function)),
            ExternalKind::Memory => self.memories.get(index).map(|memory| Extern::Memory(*memory)),
            ExternalKind::Table => self.tables.get(index).cloned(),
            ExternalKind::Global => self.globals.get(index).cloned(),
            _ => None,
        };
        item.ok_or_else(|| broken("item"))
    }
}

enum Made {
    Instance(Instance),
    Bundle(BTreeMap<String, Extern>),
}

/// The modules of a component in a store.
pub(super) struct Instances<'a> {
    of: &'a Unwrapped,
    instances: Vec<Made>,
    spaces: Spaces,
}

impl Instances<'_> {
    fn export(&self, store: &mut Store<Guest>, instance: usize, name: &str) -> wasmtime::Result<Extern> {
        let found = match self.instances.get(instance) {
            Some(Made::Instance(instance)) => instance.get_export(store, name),
            Some(Made::Bundle(items)) => items.get(name).cloned(),
            None => None,
        };
        found.ok_or_else(|| broken("export"))
    }

    fn border(&self, store: &Store<Guest>, options: Options) -> wasmtime::Result<Border> {
        let memory =
            options.memory.map(|index| self.spaces.memories.get(index).copied().ok_or_else(|| broken("memory")));
        let realloc = options.realloc.map(|index| self.function(store, index));
        Ok(Border { memory: memory.transpose()?, realloc: realloc.transpose()? })
    }

    fn function<P: WasmParams, R: WasmResults>(
        &self,
        store: &Store<Guest>,
        index: usize,
    ) -> wasmtime::Result<TypedFunc<P, R>> {
        self.spaces.functions.get(index).ok_or_else(|| broken("function"))?.typed(store)
    }

    /// Whether the component exports an interface.
    pub(super) fn has(&self, interface: &str) -> bool {
        self.of.wiring.exports.keys().any(|(exported, _)| exported == interface)
    }

    /// A function that the component exports.
    pub(super) fn find<P: WasmParams, R: WasmParams + WasmResults>(
        &self,
        store: &Store<Guest>,
        interface: &str,
        name: &str,
    ) -> wasmtime::Result<Export<P, R>> {
        let name = (interface.to_owned(), name.to_owned());
        let (index, options) = self.of.wiring.exports.get(&name).ok_or_else(|| broken("exported function"))?;
        let post_return = options.post_return.map(|index| self.function(store, index));
        Ok(Export {
            function: self.function(store, *index)?,
            post_return: post_return.transpose()?,
            border: self.border(store, *options)?,
        })
    }
}

/// `cabi_realloc`: old address, old size, alignment, new size; returns the address.
type Realloc = TypedFunc<(u32, u32, u32, u32), u32>;

/// Where values of a function cross: the memory and the allocator that its component names for it.
#[derive(Clone)]
struct Border {
    memory: Option<Memory>,
    realloc: Option<Realloc>,
}

/// A guest's memory, while its store is lent.
struct StoreMemory<'a, 'b> {
    store: StoreContextMut<'a, Guest>,
    border: &'b Border,
}

impl GuestMemory for StoreMemory<'_, '_> {
    fn allocate(&mut self, align: usize, size: usize) -> wasmtime::Result<usize> {
        let realloc = self.border.realloc.as_ref().ok_or_else(|| broken("allocator"))?;
        // The canonical ABI forbids calls of imports from here.
        self.store.data_mut().may_leave = false;
        let parameters = (0, 0, u32::try_from(align)?, u32::try_from(size)?);
        let address = realloc.call(self.store.as_context_mut(), parameters)? as usize;
        self.store.data_mut().may_leave = true;
        if !address.is_multiple_of(align) {
            bail!("realloc return: result not aligned");
        }
        if self.border.memory()?.data(&self.store).len().checked_sub(address).is_none_or(|room| room < size) {
            bail!("realloc return: beyond end of memory")
        }
        Ok(address)
    }

    fn write(&mut self, address: usize, bytes: &[u8]) -> wasmtime::Result<()> {
        // The memory may have grown since, but never shrinks.
        self.border.memory()?.data_mut(&mut self.store)[address..address + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

impl Border {
    fn memory(&self) -> wasmtime::Result<Memory> {
        self.memory.ok_or_else(|| broken("memory"))
    }

    /// Reads arguments from the guest.
    fn lift<T>(
        &self,
        caller: &Caller<'_, Guest>,
        read: impl FnOnce(&mut Lifting<'_>) -> wasmtime::Result<T>,
    ) -> wasmtime::Result<T> {
        let data = caller.data().limiter.limits().data;
        read(&mut Lifting::new(self.memory()?.data(caller), data))
    }

    /// Writes values into the guest.
    fn lower<T>(
        &self,
        store: StoreContextMut<'_, Guest>,
        write: impl FnOnce(&mut Lowering<'_>) -> wasmtime::Result<T>,
    ) -> wasmtime::Result<T> {
        let mut store = store;
        let blocks = std::mem::take(&mut store.data_mut().blocks);
        let mut memory = StoreMemory { store, border: self };
        let mut to = Lowering::new(&mut memory, blocks);
        let written = write(&mut to)?;
        let blocks = to.finish();
        memory.store.data_mut().blocks = blocks;
        Ok(written)
    }

    /// Writes what an import answers with to where the guest wants it: pairs of address and length, one a list.
    fn answer<const N: usize>(
        &self,
        caller: &mut Caller<'_, Guest>,
        address: u32,
        write: impl FnOnce(&mut Lowering<'_>) -> wasmtime::Result<[(u32, u32); N]>,
    ) -> wasmtime::Result<()> {
        let memory = self.memory()?;
        let address = address as usize;
        if !address.is_multiple_of(4) {
            bail!("pointer not aligned");
        }
        if memory.data(&*caller).len().checked_sub(address).is_none_or(|room| room < 8 * N) {
            bail!("pointer out of bounds")
        }
        let pairs = self.lower(caller.as_context_mut(), write)?;
        let words = pairs.into_iter().flat_map(|(address, length)| [address, length]);
        for (to, word) in memory.data_mut(caller)[address..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        Ok(())
    }
}

/// A function that the component exports; its post-return function gives back what the answer takes.
pub(super) struct Export<P, R> {
    function: TypedFunc<P, R>,
    post_return: Option<TypedFunc<R, ()>>,
    border: Border,
}

impl<P: WasmParams, R: WasmParams + WasmResults> Export<P, R> {
    fn enter(
        &self,
        store: &mut Store<Guest>,
        arguments: impl FnOnce(&mut Lowering<'_>) -> wasmtime::Result<P>,
    ) -> wasmtime::Result<R> {
        let parameters = self.border.lower(store.as_context_mut(), arguments)?;
        self.function.call(&mut *store, parameters)
    }

    /// Imports must not be called from a post-return function.
    fn leave(&self, store: &mut Store<Guest>, answer: R) -> wasmtime::Result<()> {
        if let Some(post_return) = &self.post_return {
            store.data_mut().may_leave = false;
            post_return.call(&mut *store, answer)?;
            store.data_mut().may_leave = true;
        }
        Ok(())
    }
}

impl<P: WasmParams> Export<P, u32> {
    /// Calls it and reads its answer.
    pub(super) fn call<T: Value>(
        &self,
        store: &mut Store<Guest>,
        arguments: impl FnOnce(&mut Lowering<'_>) -> wasmtime::Result<P>,
    ) -> wasmtime::Result<T> {
        let address = self.enter(store, arguments)?;
        let data = store.data().limiter.limits().data;
        let answer = Lifting::new(self.border.memory()?.data(&*store), data).answer(address)?;
        self.leave(store, address)?;
        Ok(answer)
    }
}

impl<P: WasmParams> Export<P, ()> {
    /// Calls it; it answers nothing.
    pub(super) fn call_without_answer(
        &self,
        store: &mut Store<Guest>,
        arguments: impl FnOnce(&mut Lowering<'_>) -> wasmtime::Result<P>,
    ) -> wasmtime::Result<()> {
        self.enter(store, arguments)?;
        self.leave(store, ())
    }
}

/// Refuses a call of an import from where the canonical ABI forbids it.
fn may_leave(caller: &Caller<'_, Guest>) -> wasmtime::Result<()> {
    if caller.data().may_leave { Ok(()) } else { Err(Trap::CannotLeaveComponent.into()) }
}

const EXPORTS: [&str; 3] = [SCHEDULER, ADVICE, PROVIDER];

const IMPORTS: [(&str, &[&str]); 4] = [
    (
        CLUSTER,
        &["now", "free-gpus", "occupancy", "cpu-jobs", "part-slices", "speeds", "progress", "check", "rejections"],
    ),
    (INTRODUCTIONS, &["classes", "workloads", "users", "samples", "attained"]),
    (PREDICTOR, &["estimate", "similarity", "pair-speed", "epochs"]),
    (LOG, &["write", "panic"]),
];

/// An import as a core function.
fn define(store: &mut Store<Guest>, (interface, name): &Name, at: Border) -> wasmtime::Result<Func> {
    let defined = match interface.as_str() {
        CLUSTER => define_cluster(store, name, at),
        INTRODUCTIONS => define_introductions(store, name, at),
        PREDICTOR => define_predictor(store, name, at),
        LOG => define_log(store, name, at),
        _ => None,
    };
    defined.ok_or_else(|| broken("import"))
}

type C<'a> = Caller<'a, Guest>;

fn define_cluster(store: &mut Store<Guest>, name: &str, at: Border) -> Option<Func> {
    Some(match name {
        "now" => Func::wrap(store, |mut caller: C<'_>| {
            may_leave(&caller)?;
            imports::now(&mut caller.as_context_mut())
        }),
        "free-gpus" => a_list(store, at, imports::free_gpus),
        "occupancy" => pairs(store, at, imports::occupancy),
        "cpu-jobs" => pairs(store, at, imports::cpu_jobs),
        "part-slices" => Func::wrap(store, move |mut caller: C<'_>, jobs: u32, count: u32, to: u32| {
            may_leave(&caller)?;
            let jobs = at.lift(&caller, |from| from.list(jobs, count))?;
            let slices = imports::part_slices(&mut caller.as_context_mut(), jobs)?;
            at.answer(&mut caller, to, |lowering| Ok([lowering.list(&slices)?]))
        }),
        "speeds" => Func::wrap(store, move |mut caller: C<'_>, jobs: u32, count: u32, to: u32| {
            may_leave(&caller)?;
            let jobs = at.lift(&caller, |from| from.list(jobs, count))?;
            let speeds = imports::speeds(&mut caller.as_context_mut(), jobs)?;
            at.answer(&mut caller, to, |lowering| Ok([lowering.list(&speeds)?]))
        }),
        "progress" => Func::wrap(store, move |mut caller: C<'_>, jobs: u32, count: u32, to: u32| {
            may_leave(&caller)?;
            let jobs = at.lift(&caller, |from| from.list(jobs, count))?;
            let (done, unsaved) = imports::progress(&mut caller.as_context_mut(), jobs)?;
            at.answer(&mut caller, to, |lowering| Ok([lowering.list(&done)?, lowering.list(&unsaved)?]))
        }),
        "check" => Func::wrap(store, move |mut caller: C<'_>, actions: u32, count: u32, to: u32| {
            may_leave(&caller)?;
            let actions: Vec<Action> = at.lift(&caller, |from| from.list(actions, count))?;
            let rejections = imports::check(&mut caller.as_context_mut(), &actions)?;
            at.answer(&mut caller, to, |lowering| Ok([lowering.list(&rejections)?]))
        }),
        "rejections" => a_list(store, at, imports::rejections),
        _ => return None,
    })
}

/// An import without parameters that answers with pairs of numbers, in two columns.
fn pairs(
    store: &mut Store<Guest>,
    at: Border,
    ask: impl Fn(&mut StoreContextMut<'_, Guest>) -> wasmtime::Result<(Vec<u32>, Vec<u32>)> + Send + Sync + 'static,
) -> Func {
    Func::wrap(store, move |mut caller: C<'_>, to: u32| {
        may_leave(&caller)?;
        let (first, second) = ask(&mut caller.as_context_mut())?;
        at.answer(&mut caller, to, |lowering| Ok([lowering.list(&first)?, lowering.list(&second)?]))
    })
}

/// An import without parameters that answers with a list.
fn a_list<T: Value>(
    store: &mut Store<Guest>,
    at: Border,
    ask: impl Fn(&mut StoreContextMut<'_, Guest>) -> wasmtime::Result<Vec<T>> + Send + Sync + 'static,
) -> Func {
    Func::wrap(store, move |mut caller: C<'_>, to: u32| {
        may_leave(&caller)?;
        let list = ask(&mut caller.as_context_mut())?;
        at.answer(&mut caller, to, |lowering| Ok([lowering.list(&list)?]))
    })
}

fn define_introductions(store: &mut Store<Guest>, name: &str, at: Border) -> Option<Func> {
    Some(match name {
        "classes" => a_list(store, at, imports::classes),
        "workloads" => a_list(store, at, imports::workloads),
        "users" => a_list(store, at, imports::users),
        "samples" => a_list(store, at, imports::samples),
        "attained" => a_list(store, at, imports::attained),
        _ => return None,
    })
}

fn define_predictor(store: &mut Store<Guest>, name: &str, at: Border) -> Option<Func> {
    Some(match name {
        "estimate" => Func::wrap(
            store,
            move |mut caller: C<'_>, what: u32, j: u32, jobs: u32, t: u32, types: u32, g: u32, gpus: u32, to: u32| {
                may_leave(&caller)?;
                let what = imports::quantity(what)?;
                let shapes =
                    at.lift(&caller, |from| Ok((from.list(j, jobs)?, from.list(t, types)?, from.list(g, gpus)?)))?;
                let answers = imports::estimate(&mut caller.as_context_mut(), what, shapes)?;
                at.answer(&mut caller, to, |lowering| Ok([lowering.list(&answers)?]))
            },
        ),
        "similarity" => {
            Func::wrap(store, move |mut caller: C<'_>, kind: u32, f: u32, first: u32, s: u32, second: u32, to: u32| {
                may_leave(&caller)?;
                let (first, second) = at.lift(&caller, |from| Ok((from.list(f, first)?, from.list(s, second)?)))?;
                let answers = imports::similarity(&mut caller.as_context_mut(), kind, first, second)?;
                at.answer(&mut caller, to, |lowering| Ok([lowering.list(&answers)?]))
            })
        }
        "pair-speed" => Func::wrap(
            store,
            move |mut caller: C<'_>, kind: u32, j: u32, jobs: u32, r: u32, residents: u32, to: u32| {
                may_leave(&caller)?;
                let (jobs, residents) = at.lift(&caller, |from| Ok((from.list(j, jobs)?, from.list(r, residents)?)))?;
                let answers = imports::pair_speed(&mut caller.as_context_mut(), kind, jobs, residents)?;
                at.answer(&mut caller, to, |lowering| Ok([lowering.list(&answers)?]))
            },
        ),
        "epochs" => Func::wrap(store, move |mut caller: C<'_>, kind: u32, jobs: u32, count: u32, to: u32| {
            may_leave(&caller)?;
            let jobs = at.lift(&caller, |from| from.list(jobs, count))?;
            let epochs = imports::epochs(&mut caller.as_context_mut(), kind, jobs)?;
            at.answer(&mut caller, to, |lowering| Ok([lowering.list(&epochs)?]))
        }),
        _ => return None,
    })
}

fn define_log(store: &mut Store<Guest>, name: &str, at: Border) -> Option<Func> {
    Some(match name {
        "write" => Func::wrap(store, move |mut caller: C<'_>, level: u32, text: u32, length: u32| {
            may_leave(&caller)?;
            let level = imports::level(level)?;
            let message = at.lift(&caller, |from| from.text(text, length))?;
            imports::write(&mut caller.as_context_mut(), level, &message)
        }),
        "panic" => Func::wrap(store, move |mut caller: C<'_>, text: u32, length: u32| {
            may_leave(&caller)?;
            let message = at.lift(&caller, |from| from.text(text, length))?;
            imports::panic(&mut caller.as_context_mut(), &message)
        }),
        _ => return None,
    })
}
