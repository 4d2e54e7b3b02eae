//! From a component's bytes to code of this machine. Wasmtime does not bound what compiling costs, so files that are
//! not trusted are compiled in a process of its own, under limits of CPU time and memory.

use std::any::Any;
use std::ffi::OsString;
use std::hash::{Hash as _, Hasher};
use std::io::{Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use wasmtime::component::Component as Compiled;
use wasmtime::{Engine, Module};

use super::blank::Blank;
use super::code::CodeCache;
use super::engine::{Flags, engine, one_line};
use super::shape;
use super::unwrapped::Unwrapped;
use super::wiring::Wiring;
use crate::fault::{Fault, LoadFault};
use crate::limits::Limits;

/// The program that compiles a component, and what it may use: one that calls [`serve`] when it is started with these
/// arguments, `--seconds S --bytes B` and those of [`Flags`].
#[derive(Clone, Debug)]
pub struct Compiler {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<OsString>,
    /// What it may use.
    pub budget: Budget,
}

/// What compiling a component may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// CPU time of all threads together, seconds.
    pub seconds: u64,
    /// Address space, bytes.
    pub bytes: u64,
}

impl Budget {
    /// What is said of a component that takes more memory.
    fn exceeded_memory(&self) -> String {
        format!("compiling it takes more than {} MiB of memory", self.bytes >> 20)
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { seconds: 120, bytes: 2 << 30 }
    }
}

/// Most threads of the process that compiles: each takes address space of its limit.
const THREADS: usize = 4;

/// Exit status of the process that compiles where a component is wrong; standard output says what.
const REFUSED: u8 = 3;

/// A compiled component.
pub(super) struct Code {
    /// The component. It has the types alone, and no code, where it is called through its core modules.
    pub(super) component: Compiled,
    /// Its core modules, if it can be called through them.
    pub(super) unwrapped: Option<Unwrapped>,
}

/// Compiles, or takes from the cache what was compiled.
pub(super) fn load(
    engine: &Engine,
    flags: Flags,
    (cache, compiler): (Option<&CodeCache>, Option<&Compiler>),
    bytes: &[u8],
) -> Result<Code, Fault> {
    check_file(bytes).map_err(Fault::Load)?;
    let through_modules =
        || !flags.variation.component && Wiring::read(bytes).is_some_and(|wiring| Unwrapped::knows(&wiring));
    if let Some(blank) = Blank::of(bytes).filter(|_| !through_modules()) {
        let filled = |code: &[u8]| -> wasmtime::Result<Code> {
            let mut parts = unpacked(code).ok_or_else(broken)?.into_iter();
            let mut whole = parts.next().filter(|_| parts.len() == 0).ok_or_else(broken)?.to_vec();
            blank.fill_code(bytes, &mut whole).ok_or_else(broken)?;
            code_of(engine, bytes, &packed([whole]))
        };
        match compiled(engine, flags, (cache, compiler), &blank.emptied(bytes), filled) {
            // The code is not as it was expected: it is a component like any other.
            Err(Fault::Host(_)) => {}
            other => return other,
        }
    }
    compiled(engine, flags, (cache, compiler), bytes, |code| code_of(engine, bytes, code))
}

/// The code of these bytes, from the cache or compiled, and what `loaded` makes of it.
fn compiled(
    engine: &Engine,
    flags: Flags,
    (cache, compiler): (Option<&CodeCache>, Option<&Compiler>),
    bytes: &[u8],
    loaded: impl Fn(&[u8]) -> wasmtime::Result<Code>,
) -> Result<Code, Fault> {
    let key = key(engine, flags, bytes);
    if let Some(cache) = cache
        && let Some(code) = cache.get(&key)
        && let Ok(code) = loaded(&code)
    {
        return Ok(code);
    }
    shape::check(bytes).map_err(Fault::Load)?;
    let code = match compiler {
        Some(compiler) => compiler.compile(flags, bytes)?,
        None => compile(engine, flags, bytes).map_err(|why| Fault::Load(LoadFault::Invalid(why)))?,
    };
    if let Some(cache) = cache {
        cache.put(&key, &code);
    }
    loaded(&code).map_err(|error| Fault::Host(one_line(&error)))
}

fn broken() -> wasmtime::Error {
    wasmtime::format_err!("the compiled code is not as it was written")
}

/// Machine code that is executed as it is.
#[expect(unsafe_code, reason = "no compiled code can be loaded without")]
fn code_of(engine: &Engine, bytes: &[u8], code: &[u8]) -> wasmtime::Result<Code> {
    let mut parts = unpacked(code).ok_or_else(broken)?.into_iter();
    let component = parts.next().ok_or_else(broken)?;
    // SAFETY: these bytes are those that `precompile_component` and `precompile_module` made, in this process, in a child
    // of it that is the same program, or earlier: then the cache has checked that only this user can have written them,
    // and their digest. A blank is filled in the section of a module's data alone, which is never executed.
    let (component, modules) = unsafe {
        let modules = parts.map(|code| Module::deserialize(engine, code)).collect::<wasmtime::Result<Vec<_>>>()?;
        (Compiled::deserialize(engine, component)?, modules)
    };
    let unwrapped = match modules.is_empty() {
        true => None,
        false => Some(Unwrapped::new(Wiring::read(bytes).ok_or_else(broken)?, modules)),
    };
    Ok(Code { component, unwrapped })
}

/// Parts in one piece, each with its length before it.
fn packed(parts: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    parts.into_iter().flat_map(|part| [(part.len() as u64).to_le_bytes().to_vec(), part]).flatten().collect()
}

fn unpacked(mut code: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = code.split_first_chunk() {
        let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        parts.push(part);
        code = rest;
    }
    code.is_empty().then_some(parts)
}

/// What code is kept under: the component, and all of the engine that steers how it is compiled.
fn key(engine: &Engine, flags: Flags, bytes: &[u8]) -> String {
    struct Digest(blake3::Hasher);
    impl Hasher for Digest {
        fn finish(&self) -> u64 {
            0
        }
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
    }
    let mut hasher = Digest(blake3::Hasher::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.0.update(&[u8::from(flags.variation.component)]);
    hasher.0.update(blake3::hash(bytes).as_bytes());
    hasher.0.finalize().to_hex().to_string()
}

fn check_file(bytes: &[u8]) -> Result<(), LoadFault> {
    if bytes.is_empty() {
        return Err(LoadFault::Empty);
    }
    if bytes.len() > Limits::COMPONENT {
        return Err(LoadFault::TooLarge { found: bytes.len(), limit: Limits::COMPONENT });
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(LoadFault::NotWasm);
    }
    match bytes.get(4..8) {
        None => Err(LoadFault::Invalid("the file ends within its header".into())),
        Some([1, 0, 0, 0]) => Err(LoadFault::CoreModule),
        Some(_) => Ok(()),
    }
}

/// Compiles in this process: the core modules where the component can be called through them, else all of it.
fn compile(engine: &Engine, flags: Flags, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let compile = || {
        // The component as a whole says where it is malformed.
        let modules = (!flags.variation.component).then(|| modules(engine, bytes)).flatten();
        modules.map_or_else(|| engine.precompile_component(bytes).map(|whole| packed([whole])), Ok)
    };
    // Broken files have panicked compilers before.
    match catch_unwind(AssertUnwindSafe(compile)) {
        Ok(compiled) => compiled.map_err(|error| one_line(&error)),
        Err(payload) => Err(panicked(&*payload).into()),
    }
}

/// What a compiler says that finds no memory and does not abort.
const OUT_OF_MEMORY: &str = "the compiler ran out of memory";

/// What a panic of the compiler was about. Cranelift's arenas (`bumpalo`) panic with these words where the allocator of the standard
/// library aborts.
fn panicked(payload: &(dyn Any + Send)) -> &'static str {
    let words =
        payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    if words == Some("out of memory") { OUT_OF_MEMORY } else { "the compiler panicked" }
}

/// The component without its code, and the code of its modules.
fn modules(engine: &Engine, bytes: &[u8]) -> Option<Vec<u8>> {
    let wiring = Wiring::read(bytes).filter(Unwrapped::knows)?;
    let skeleton = engine.precompile_component(&wiring.skeleton(bytes)?).ok()?;
    let modules = wiring.modules(bytes).map(|module| engine.precompile_module(module).ok());
    Some(packed(std::iter::once(skeleton).chain(modules.collect::<Option<Vec<_>>>()?)))
}

/// What a process does that compiles for another: a component is read from standard input, its code written to
/// standard output. Returns the exit status.
pub fn serve(flags: Flags, budget: Budget) -> u8 {
    match serve_within(flags, budget) {
        Ok(Ok(())) => 0,
        Ok(Err(wrong)) => {
            let wrong = if wrong == OUT_OF_MEMORY { budget.exceeded_memory() } else { wrong };
            let _ = std::io::stdout().write_all(wrong.as_bytes());
            REFUSED
        }
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "{why}");
            1
        }
    }
}

fn serve_within(flags: Flags, budget: Budget) -> std::io::Result<Result<(), String>> {
    // What was forbidden before stays so.
    let at_most = |resource, most: u64, hard: u64| {
        let hard = getrlimit(resource).maximum.map_or(hard, |before| before.min(hard));
        setrlimit(resource, Rlimit { current: Some(most.min(hard)), maximum: Some(hard) })
    };
    at_most(Resource::Core, 0, 0)?;
    // At the hard limit the signal would be SIGKILL, which others send too.
    at_most(Resource::Cpu, budget.seconds, budget.seconds + 5)?;
    at_most(Resource::As, budget.bytes, budget.bytes)?;
    // The code of a parent that is gone is not needed.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(THREADS));
    // Wasmtime compiles in this pool; one that can't be made is the machine's fault, and not the component's.
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(std::io::Error::other)?;
    let mut bytes = Vec::new();
    std::io::stdin().take(Limits::COMPONENT as u64).read_to_end(&mut bytes)?;
    let engine = engine(flags).map_err(std::io::Error::other)?;
    Ok(match compile(&engine, flags, &bytes) {
        Ok(code) => Ok(std::io::stdout().write_all(&code)?),
        Err(wrong) => Err(wrong),
    })
}

impl Compiler {
    fn compile(&self, flags: Flags, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
        let failed = |error: std::io::Error| Fault::Machine(format!("{}: {error}", self.program.display()));
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .args([
                "--seconds".into(),
                self.budget.seconds.to_string(),
                "--bytes".into(),
                self.budget.bytes.to_string(),
            ])
            .args(flags.arguments())
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // An interrupt at the terminal is the host's to answer.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        if let Some(mut input) = child.stdin.take() {
            // A child that ends before it has read all says why by its status.
            let _ = input.write_all(bytes);
        }
        let output = child.wait_with_output().map_err(failed)?;
        // A process that may use less than the budget does not show what the component needs.
        let lower = |resource, wanted| getrlimit(resource).maximum.is_some_and(|most| most < wanted);
        let cut = lower(Resource::As, self.budget.bytes) || lower(Resource::Cpu, self.budget.seconds);
        let invalid = |why: String| match cut {
            true => Err(Fault::Machine(format!("{why}, and the limits of this process are lower (ulimit -v, -t)"))),
            false => Err(Fault::Load(LoadFault::Invalid(why))),
        };
        match (output.status.code(), output.status.signal().and_then(Signal::from_named_raw)) {
            (Some(0), _) => Ok(output.stdout),
            (Some(code), _) if code == i32::from(REFUSED) => {
                Err(Fault::Load(LoadFault::Invalid(String::from_utf8_lossy(&output.stdout).into())))
            }
            (_, Some(Signal::XCPU)) => {
                invalid(format!("compiling it takes more than {} s of CPU time", self.budget.seconds))
            }
            (_, Some(Signal::ABORT | Signal::SEGV | Signal::BUS | Signal::ILL)) => invalid(self.last_words(&output)),
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                let why = said.lines().next().unwrap_or_default();
                Err(Fault::Machine(format!("the process that compiles ended with {}: {why}", output.status)))
            }
        }
    }

    /// Why the process that compiles ended by a signal: the standard library says it on standard error.
    fn last_words(&self, output: &Output) -> String {
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("memory allocation of") {
            return self.budget.exceeded_memory();
        }
        if said.contains("has overflowed its stack") {
            return "the compiler recursed too deep".into();
        }
        format!("the compiler ended with {}", output.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_for_want_of_memory_is_told_from_others() {
        let of = |panics: fn()| panicked(&*catch_unwind(panics).expect_err("a panic"));
        assert_eq!(of(|| panic!("out of memory")), OUT_OF_MEMORY);
        assert_eq!(of(|| panic!("out of {}", "memory")), OUT_OF_MEMORY);
        assert_eq!(of(|| panic!("index out of bounds")), "the compiler panicked");
    }
}
