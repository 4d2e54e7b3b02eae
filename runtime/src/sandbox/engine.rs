//! Compiling components under deterministic settings.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use wasmtime::component::{Component as Compiled, InstancePre, Linker};
use wasmtime::{Cache, CacheConfig, Config, Engine, OptLevel};

use super::bindings::PolicyPre;
use super::bindings::predictor::PredictorComponentPre;
use super::imports::{self, Guest};
use super::{Fault, Limits, LoadFault};

/// How code is generated. None of it may change a result; `verify` runs with other settings to prove it.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Keep compiled code in this folder, which must be absolute.
    pub cache: Option<PathBuf>,
    /// Make every NaN the canonical one.
    pub canonical_nan: bool,
    /// A call that takes longer by the wall's clock is a fault; for live runs alone.
    pub deadline: Option<Duration>,
}

/// An engine and the imports that it offers; one for all threads.
pub struct Sandbox {
    engine: Engine,
    linker: Linker<Guest>,
    turns: Option<u64>,
}

/// How often the clock of live calls turns.
const TURN: Duration = Duration::from_millis(10);

/// A compiled component, shared by all threads.
#[derive(Clone)]
pub struct Component {
    pub(super) pre: PolicyPre<Guest>,
    /// Turns of the engine's clock that a call may take.
    pub(super) turns: Option<u64>,
    digest: String,
}

impl Component {
    /// blake3 of the file, in hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// A compiled predictor, shared by all threads.
#[derive(Clone)]
pub struct PredictorComponent {
    pub(super) turns: Option<u64>,
    pub(super) pre: PredictorComponentPre<Guest>,
}

impl Sandbox {
    /// An engine.
    ///
    /// # Errors
    /// [`Fault::Host`] where this machine can't run compiled code, or the cache's folder can't be made.
    pub fn new(settings: &Settings) -> Result<Sandbox, Fault> {
        let mut config = Config::new();
        config
            .wasm_component_model(true)
            .consume_fuel(true)
            .cranelift_opt_level(OptLevel::Speed)
            .cranelift_nan_canonicalization(settings.canonical_nan)
            .relaxed_simd_deterministic(true)
            .wasm_relaxed_simd(false)
            .wasm_memory64(false)
            .max_wasm_stack(Limits::STACK)
            .wasm_backtrace_max_frames(NonZeroUsize::new(Limits::FRAMES));
        if let Some(folder) = &settings.cache {
            let mut cache = CacheConfig::new();
            cache.with_directory(folder);
            config.cache(Some(Cache::new(cache).map_err(host)?));
        }
        config.epoch_interruption(settings.deadline.is_some());
        let engine = Engine::new(&config).map_err(host)?;
        let turns = settings.deadline.map(|deadline| (deadline.as_millis() / TURN.as_millis()).max(1) as u64);
        if turns.is_some() {
            let clock = engine.weak();
            std::thread::spawn(move || {
                while let Some(engine) = clock.upgrade() {
                    engine.increment_epoch();
                    drop(engine);
                    std::thread::sleep(TURN);
                }
            });
        }
        let mut linker = Linker::new(&engine);
        imports::define(&mut linker).map_err(host)?;
        Ok(Sandbox { engine, linker, turns })
    }

    /// Compiles a component and checks that it is a policy.
    ///
    /// # Errors
    /// [`Fault::Load`] with the reason.
    pub fn load(&self, bytes: &[u8]) -> Result<Component, Fault> {
        let wrong = |error: wasmtime::Error| Fault::Load(LoadFault::WrongWorld(one_line(&error)));
        let pre = PolicyPre::new(self.prepare(bytes)?).map_err(wrong)?;
        Ok(Component { pre, turns: self.turns, digest: blake3::hash(bytes).to_hex().to_string() })
    }

    /// Compiles a component and checks that it is a predictor.
    ///
    /// # Errors
    /// [`Fault::Load`] with the reason.
    pub fn load_predictor(&self, bytes: &[u8]) -> Result<PredictorComponent, Fault> {
        let wrong = |error: wasmtime::Error| Fault::Load(LoadFault::WrongWorld(one_line(&error)));
        Ok(PredictorComponent {
            turns: self.turns,
            pre: PredictorComponentPre::new(self.prepare(bytes)?).map_err(wrong)?,
        })
    }

    fn prepare(&self, bytes: &[u8]) -> Result<InstancePre<Guest>, Fault> {
        check_file(bytes).map_err(Fault::Load)?;
        // Broken files have panicked compilers before.
        let compiled = catch_unwind(AssertUnwindSafe(|| Compiled::new(&self.engine, bytes)));
        let compiled = match compiled {
            Ok(Ok(compiled)) => compiled,
            Ok(Err(error)) => return Err(Fault::Load(LoadFault::Invalid(one_line(&error)))),
            Err(_) => return Err(Fault::Load(LoadFault::Invalid("the compiler panicked".into()))),
        };
        let wrong = |error: wasmtime::Error| Fault::Load(LoadFault::WrongWorld(one_line(&error)));
        self.linker.instantiate_pre(&compiled).map_err(wrong)
    }
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
        Some(_) => check_nesting(bytes),
    }
}

/// Compiling costs the square of the depth of nesting, and memory with it: looked at before anything is compiled.
fn check_nesting(bytes: &[u8]) -> Result<(), LoadFault> {
    const COMPONENT_SECTION: u8 = 4;
    // Where components begin and end that are still to be walked, and how deep they are.
    let mut todo = vec![(0, bytes.len(), 1)];
    while let Some((from, end, depth)) = todo.pop() {
        if depth > Limits::NESTING {
            return Err(LoadFault::Invalid(format!("components nested more than {} deep", Limits::NESTING)));
        }
        let mut at = from + 8;
        while at < end {
            let Some((size, length)) = leb(&bytes[(at + 1).min(end)..end]) else { break };
            let (begin, section) = (at + 1 + length, bytes[at]);
            at = begin.saturating_add(size);
            if section == COMPONENT_SECTION && at <= end {
                todo.push((begin, at, depth + 1));
            }
        }
    }
    Ok(())
}

/// An unsigned number and the bytes that it takes; the validator says what is wrong with a broken one.
fn leb(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0usize;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        value |= ((byte & 0x7f) as usize) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

pub(super) fn host(error: wasmtime::Error) -> Fault {
    Fault::Host(one_line(&error))
}

/// An error with its causes, without line breaks.
pub(super) fn one_line(error: &wasmtime::Error) -> String {
    let text = format!("{error:#}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
