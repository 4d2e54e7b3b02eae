//! Engines under deterministic settings, and the components that they run.

use std::num::NonZeroUsize;
use std::time::Duration;

use wasmtime::component::{InstancePre, Linker};
use wasmtime::{Config, Engine, OptLevel, PoolingAllocationConfig};

use super::bindings::PolicyPre;
use super::bindings::predictor::PredictorComponentPre;
use super::code::CodeCache;
use super::compile::{self, Compiler, Flags, Variation};
use super::imports::{self, Guest};
use super::{Fault, Limits, LoadFault};

/// How components are compiled and run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Keep compiled code here.
    pub cache: Option<CodeCache>,
    /// Compile in a process of its own; none: in this one, for components that are trusted or refused by their shape.
    pub compiler: Option<Compiler>,
    /// How code is made and instances are kept, otherwise than in a run.
    pub variation: Variation,
    /// A call that takes longer by the wall's clock is a fault; for live runs alone.
    pub deadline: Option<Duration>,
}

/// An engine and the imports that it offers; one for all threads.
pub struct Sandbox {
    engine: Engine,
    linker: Linker<Guest>,
    turns: Option<u64>,
    settings: Settings,
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
    /// [`Fault::Host`] where this machine can't run compiled code.
    pub fn new(settings: &Settings) -> Result<Sandbox, Fault> {
        let engine = engine(Flags::of(settings)).map_err(host)?;
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
        Ok(Sandbox { engine, linker, turns, settings: settings.clone() })
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
        let compiled = compile::load(&self.engine, &self.settings, bytes)?;
        let wrong = |error: wasmtime::Error| Fault::Load(LoadFault::WrongWorld(one_line(&error)));
        self.linker.instantiate_pre(&compiled).map_err(wrong)
    }
}

/// The engine whose code these flags steer.
pub(super) fn engine(flags: Flags) -> wasmtime::Result<Engine> {
    let Variation { canonical_nan, plain, interpreted, pooled, copied } = flags.variation;
    let mut config = Config::new();
    if interpreted {
        config.target("pulley64")?;
    }
    if pooled {
        let mut pool = PoolingAllocationConfig::new();
        // Room for a policy and its predictors, on a few threads.
        pool.max_memory_size(Limits::MEMORY).total_memories(64).total_core_instances(256).table_elements(100_000);
        pool.total_tables(256).total_component_instances(64).max_unused_warm_slots(0);
        config.allocation_strategy(pool);
    }
    config
        .wasm_component_model(true)
        .consume_fuel(true)
        .cranelift_opt_level(if plain { OptLevel::None } else { OptLevel::Speed })
        .cranelift_nan_canonicalization(canonical_nan)
        .memory_init_cow(!copied)
        .relaxed_simd_deterministic(true)
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        // Frames of other code are larger: whatever fits here fits there too.
        .max_wasm_stack(if flags.variation == Variation::default() { Limits::STACK } else { 2 * Limits::STACK })
        .wasm_backtrace_max_frames(NonZeroUsize::new(Limits::FRAMES))
        .epoch_interruption(flags.interruptible);
    Engine::new(&config)
}

pub(super) fn host(error: wasmtime::Error) -> Fault {
    Fault::Host(one_line(&error))
}

/// An error with its causes, without line breaks.
pub(super) fn one_line(error: &wasmtime::Error) -> String {
    let text = format!("{error:#}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
