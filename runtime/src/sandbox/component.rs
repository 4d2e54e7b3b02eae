//! Components, compiled and checked for the imports that a sandbox offers.

use std::time::Duration;

use wasmtime::component::{Instance, InstancePre, Linker};
use wasmtime::{Engine, Store};

use super::advice::advice;
use super::bindings::predictor::{PredictorComponentIndices, PredictorComponentPre};
use super::bindings::{PolicyIndices, PolicyPre};
use super::code::CodeCache;
use super::compile::{self, Compiler};
use super::engine::{Flags, Variation, engine, host, one_line};
use super::imports::{self, Guest};
use super::unwrapped::Unwrapped;
use super::version;
use crate::fault::{Fault, LoadFault};
use crate::limits::Limits;

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

impl Settings {
    fn flags(&self) -> Flags {
        Flags { variation: self.variation, interruptible: self.deadline.is_some() }
    }
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
    pub(super) unwrapped: Option<Unwrapped>,
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
    pub(super) unwrapped: Option<Unwrapped>,
}

/// Checks the types of the functions that a component exports. It has no code, so that none of it runs. One that can't be
/// instantiated begins with more than any limits allow, and can't be with its code either.
fn check_types(
    pre: &InstancePre<Guest>,
    find: impl FnOnce(&mut Store<Guest>, &Instance) -> wasmtime::Result<()>,
) -> Result<(), Fault> {
    let mut store = Store::new(pre.engine(), Guest::new(Limits { memory: Limits::MEMORY, ..Limits::default() }));
    store.limiter(|guest| &mut guest.limiter);
    // To make its instances takes some, though no code of the component runs.
    store.set_fuel(u64::MAX).map_err(host)?;
    store.set_epoch_deadline(u64::from(u32::MAX));
    let Ok(instance) = pre.instantiate(&mut store) else { return Ok(()) };
    find(&mut store, &instance).map_err(|error| Fault::Load(LoadFault::WrongWorld(error.root_cause().to_string())))
}

fn wrong_world(error: wasmtime::Error) -> Fault {
    Fault::Load(LoadFault::WrongWorld(one_line(&error)))
}

impl Sandbox {
    /// An engine.
    ///
    /// # Errors
    /// [`Fault::Host`] where this machine can't run compiled code.
    pub fn new(settings: &Settings) -> Result<Sandbox, Fault> {
        let engine = engine(settings.flags()).map_err(host)?;
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
        let (pre, unwrapped) = self.prepare(bytes)?;
        let pre = PolicyPre::new(pre).map_err(wrong_world)?;
        if unwrapped.is_some() {
            check_types(pre.instance_pre(), |store, instance| {
                PolicyIndices::new(pre.instance_pre())?.load(&mut *store, instance)?;
                advice(store, instance).map(drop)
            })?;
        }
        Ok(Component { pre, unwrapped, turns: self.turns, digest: blake3::hash(bytes).to_hex().to_string() })
    }

    /// Compiles a component and checks that it is a predictor.
    ///
    /// # Errors
    /// [`Fault::Load`] with the reason.
    pub fn load_predictor(&self, bytes: &[u8]) -> Result<PredictorComponent, Fault> {
        let (pre, unwrapped) = self.prepare(bytes)?;
        let pre = PredictorComponentPre::new(pre).map_err(wrong_world)?;
        if unwrapped.is_some() {
            check_types(pre.instance_pre(), |store, instance| {
                PredictorComponentIndices::new(pre.instance_pre())?.load(store, instance).map(drop)
            })?;
        }
        Ok(PredictorComponent { turns: self.turns, pre, unwrapped })
    }

    fn prepare(&self, bytes: &[u8]) -> Result<(InstancePre<Guest>, Option<Unwrapped>), Fault> {
        let Settings { cache, compiler, .. } = &self.settings;
        let code = compile::load(&self.engine, self.settings.flags(), (cache.as_ref(), compiler.as_ref()), bytes)?;
        version::check(&code.component, &self.engine).map_err(Fault::Load)?;
        Ok((self.linker.instantiate_pre(&code.component).map_err(wrong_world)?, code.unwrapped))
    }
}
