//! wasmtime's engine under deterministic settings.

use std::num::NonZeroUsize;

use wasmtime::{Config, Engine, OptLevel, PoolingAllocationConfig};

use crate::fault::Fault;
use crate::limits::Limits;

/// What of code and instances may be otherwise than in a run. None of it may change a result: `verify` and tests vary it to
/// prove that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variation {
    /// Every NaN is made the canonical one.
    pub canonical_nan: bool,
    /// Code is not optimised.
    pub plain: bool,
    /// Code is for wasmtime's interpreter, Pulley, and not for this machine.
    pub interpreted: bool,
    /// Instances are taken from a pool, which does not fit into the address space of a compiling process: only without one.
    pub pooled: bool,
    /// Memories begin as copies and not as maps of their image.
    pub copied: bool,
    /// All calls go through wasmtime's component layer, and none directly to a core module.
    pub component: bool,
}

/// The settings that change the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// How code is made.
    pub variation: Variation,
    /// A call can be interrupted by the clock.
    pub interruptible: bool,
}

impl Flags {
    /// The arguments by which the program that compiles is told.
    const WORDS: [&'static str; 7] =
        ["interruptible", "canonical-nan", "plain", "interpreted", "pooled", "copied", "component"];

    /// The flags that are named.
    pub fn named(words: &[String]) -> Flags {
        let [interruptible, canonical_nan, plain, interpreted, pooled, copied, component] =
            Flags::WORDS.map(|known| words.iter().any(|word| word == known));
        Flags { variation: Variation { canonical_nan, plain, interpreted, pooled, copied, component }, interruptible }
    }

    pub(super) fn arguments(self) -> impl Iterator<Item = &'static str> {
        let Variation { canonical_nan, plain, interpreted, pooled, copied, component } = self.variation;
        let set = [self.interruptible, canonical_nan, plain, interpreted, pooled, copied, component];
        Flags::WORDS.into_iter().zip(set).filter(|(_, set)| *set).map(|(argument, _)| argument)
    }
}

/// The engine whose code these flags steer.
pub(super) fn engine(flags: Flags) -> wasmtime::Result<Engine> {
    let Variation { canonical_nan, plain, interpreted, pooled, copied, component: _ } = flags.variation;
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
        .max_wasm_stack(if plain || interpreted || canonical_nan { 2 * Limits::STACK } else { Limits::STACK })
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
