//! One policy, alive in one store.

use wasmtime::{Store, Trap, WasmBacktrace};

use super::component::Component;
use super::engine::host;
use super::imports::{BadColumns, Closed, Denied, Guest, HostOutOfMemory, PredictorFailed, Resource};
use super::policy::Exports;
use crate::answers::{ImportAnswers, ImportLog};
use crate::contract::abi::TooMuchData;
use crate::contract::{Batch, Descriptor, JobId, Plan, PolicyError, Readiness, Reason, Setup};
use crate::fault::{Fault, LoadFault, Place};
use crate::limits::Limits;
use crate::{DecisionContext, Policy};
use sandtable_hardware::text::escape_control_chars;

/// Fuel that a call takes from that of the run, beside what the guest uses: it is the host that is busy then. As much as a call of an
/// import.
const CALL: u64 = 500;

/// A component of either world in a store of its own, called under limits until it fails.
pub(super) struct Live<B> {
    pub(super) store: Store<Guest>,
    bound: B,
    pub(super) limits: Limits,
    /// Turns of the engine's clock that a call may take.
    turns: Option<u64>,
    /// Fuel that its calls have used, and how much of it was asked for by `spent`.
    used: u64,
    told: u64,
    dead: bool,
}

impl<B> Live<B> {
    pub(super) fn new(
        engine: &wasmtime::Engine,
        turns: Option<u64>,
        limits: Limits,
        instantiate: impl FnOnce(&mut Store<Guest>) -> wasmtime::Result<B>,
    ) -> Result<Live<B>, Fault> {
        let mut store = Store::new(engine, Guest::new(limits));
        store.limiter(|guest| &mut guest.limiter);
        store.set_hostcall_fuel(limits.data);
        store.set_max_component_handles(Limits::HANDLES);
        store.set_fuel(limits.start_fuel).map_err(host)?;
        if let Some(turns) = turns {
            store.set_epoch_deadline(turns);
        }
        let place = (Place::Instantiate, limits.start_fuel);
        let bound = instantiate(&mut store).map_err(|error| name(error, place, &limits, &store))?;
        Ok(Live { store, bound, limits, turns, used: 0, told: 0, dead: false })
    }

    pub(super) fn call<T>(
        &mut self,
        place: Place,
        fuel: u64,
        call: impl FnOnce(&B, &mut Store<Guest>) -> wasmtime::Result<T>,
    ) -> Result<T, Fault> {
        if self.dead {
            return Err(Fault::Host("a component was called after it had failed".into()));
        }
        let left = self.limits.run_fuel.saturating_sub(self.used);
        let given = fuel.min(left);
        self.store.set_fuel(given).map_err(host)?;
        if let Some(turns) = self.turns {
            self.store.set_epoch_deadline(turns);
        }
        self.store.data_mut().log.turn();
        let answer = call(&self.bound, &mut self.store);
        self.used += CALL + given - self.store.get_fuel().map_err(host)?.min(given);
        answer.map_err(|error| {
            self.dead = true;
            match name(error, (place, fuel), &self.limits, &self.store) {
                Fault::OutOfFuel { .. } if given < fuel => Fault::OutOfFuelOfRun { budget: self.limits.run_fuel },
                fault => fault,
            }
        })
    }

    /// Fuel that its calls have used since this was asked last.
    pub(super) fn spent(&mut self) -> u64 {
        self.used - std::mem::replace(&mut self.told, self.used)
    }

    /// The guest's own error: it is not called again.
    pub(super) fn refused(&mut self, place: Place, error: PolicyError) -> Fault {
        self.dead = true;
        Fault::Refused { place, error }
    }
}

/// A policy component in a store of its own, with no world but the one that it is lent.
pub struct Sandboxed {
    live: Live<Exports>,
    fuel_used: u64,
}

impl Sandboxed {
    /// Brings a component to life.
    ///
    /// # Errors
    /// A fault of its start function or of the sizes that it begins with.
    pub fn new(component: &Component, limits: Limits) -> Result<Sandboxed, Fault> {
        let live = Live::new(component.pre.engine(), component.turns, limits, |store| Exports::new(component, store))?;
        Ok(Sandboxed { live, fuel_used: 0 })
    }

    /// Fuel that all calls of `decide` have used. Depends on the version of wasmtime: for people, never in a result.
    pub fn fuel_used(&self) -> u64 {
        self.fuel_used
    }

    /// Bytes of linear memory that it has; it never gives any back.
    pub fn memory(&self) -> usize {
        self.live.store.data().limiter.memory()
    }

    /// What the policy wrote to its log.
    pub fn log(&mut self) -> Vec<String> {
        self.live.store.data_mut().log.finish()
    }

    /// Decides with recorded answers in place of a world.
    ///
    /// # Errors
    /// The fault that the recording ends with, or one that says where the replay parts from it.
    pub fn replay(&mut self, batch: &Batch, answers: ImportAnswers) -> Result<Plan, Fault> {
        self.live.store.data_mut().import_log = ImportLog::Replay(answers.into());
        self.call_decide(batch)
    }

    fn call_decide(&mut self, batch: &Batch) -> Result<Plan, Fault> {
        let fuel = self.live.limits.decide_fuel;
        // What it used before is none of `decide`'s.
        self.live.spent();
        let plan = self.live.call(Place::Decide, fuel, |bound, store| bound.decide(store, batch))?;
        self.fuel_used += self.live.spent();
        plan.map_err(|error| self.live.refused(Place::Decide, error))
    }
}

impl Policy for Sandboxed {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        let fuel = self.live.limits.start_fuel;
        let said = self.live.call(Place::Describe, fuel, Exports::describe)?;
        let Descriptor { name, version, about, config_schema, .. } = &said;
        described([("name", name), ("version", version), ("about", about), ("config-schema", config_schema)])?;
        // Lists show them as they are.
        let [name, version, about] = [name, version, about].map(|text| escape_control_chars(text, Limits::TEXT));
        Ok(Descriptor { name, version, about, ..said })
    }

    fn init(&mut self, setup: &Setup) -> Result<Readiness, Fault> {
        let fuel = self.live.limits.init_fuel;
        self.live
            .call(Place::Init, fuel, |bound, store| bound.init(store, setup))?
            .map_err(|error| self.live.refused(Place::Init, error))
    }

    fn decide(&mut self, batch: &Batch, world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        self.live.store.data_mut().world = Some(world);
        let plan = self.call_decide(batch);
        match self.live.store.data_mut().world.take() {
            Some(world) => (world, plan),
            None => unreachable!("imports only borrow the world"),
        }
    }

    fn explain(
        &mut self,
        jobs: &[JobId],
        world: Box<DecisionContext>,
    ) -> (Box<DecisionContext>, Result<Option<Vec<Reason>>, Fault>) {
        self.live.store.data_mut().world = Some(world);
        let fuel = self.live.limits.decide_fuel;
        let reasons = self.live.call(Place::Explain, fuel, |bound, store| bound.explain(store, jobs));
        let reasons = reasons.and_then(|reasons| match reasons {
            Some(reasons) if reasons.len() != jobs.len() => {
                let (found, expected) = (reasons.len(), jobs.len());
                let message = format!("it gives {found} reasons, expected {expected}");
                Err(Fault::BadValue { place: Place::Explain, message })
            }
            reasons => Ok(reasons),
        });
        match self.live.store.data_mut().world.take() {
            Some(world) => (world, reasons),
            None => unreachable!("imports only borrow the world"),
        }
    }

    fn record(&mut self, room: usize) {
        self.live.store.data_mut().import_log = ImportLog::Record { answers: Vec::new(), room };
    }

    fn recorded(&mut self) -> Option<ImportAnswers> {
        std::mem::replace(&mut self.live.store.data_mut().import_log, ImportLog::Off).recorded()
    }
}

/// Checks the lengths of the texts in which a guest describes itself.
pub(super) fn described<'a>(texts: impl IntoIterator<Item = (&'a str, &'a String)>) -> Result<(), Fault> {
    for (what, text) in texts {
        let most = match what {
            "config-schema" => Limits::SCHEMA,
            "about" => Limits::TEXT,
            _ => Limits::NAME,
        };
        if text.len() > most {
            let message = format!("its `{what}` has {} bytes, expected at most {most}", text.len());
            return Err(Fault::BadValue { place: Place::Describe, message });
        }
    }
    Ok(())
}

/// The name of what went wrong.
pub(super) fn name(
    error: wasmtime::Error,
    (place, budget): (Place, u64),
    limits: &Limits,
    store: &Store<Guest>,
) -> Fault {
    let backtrace = frames(&error);
    if let Some(Denied { what, wanted, limit }) = error.downcast_ref() {
        let (wanted, limit) = (*wanted, *limit);
        return match what {
            Resource::Memory => Fault::Memory { place, wanted, limit, backtrace },
            Resource::Table => Fault::Table { place, wanted, limit },
        };
    }
    if error.downcast_ref::<HostOutOfMemory>().is_some() {
        return Fault::Machine("it has no memory left".into());
    }
    if let Some(PredictorFailed(fault)) = error.downcast_ref() {
        return fault.clone();
    }
    if let Some(Closed(function)) = error.downcast_ref() {
        return Fault::Closed { place, function: (*function).into() };
    }
    if error.downcast_ref::<TooMuchData>().is_some() {
        return Fault::TooMuchData { place, limit: limits.data };
    }
    if let Some(columns) = error.downcast_ref::<BadColumns>() {
        return Fault::BadValue { place, message: columns.to_string() };
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => return Fault::OutOfFuel { place, budget, backtrace },
        Some(Trap::Interrupt) => return Fault::TooSlow { place, backtrace },
        Some(Trap::StackOverflow) => return Fault::StackOverflow { place, backtrace },
        Some(Trap::UnreachableCodeReached) if store.data().last_words.is_some() => {
            let message = store.data().last_words.clone().unwrap_or_default();
            return Fault::Panicked { place, message, backtrace };
        }
        Some(trap) => return Fault::Trap { place, trap: trap.to_string(), backtrace },
        None => {}
    }
    // What is left has no type of its own in wasmtime, only a text.
    let message = error.root_cause().to_string();
    if message.contains("too much data is being copied") || message.contains("fuel allocated for hostcalls") {
        return Fault::TooMuchData { place, limit: limits.data };
    }
    if message.contains("resource limit exceeded") {
        return Fault::TooMany { place, message };
    }
    // What the system refuses, as memory, is no guest's doing.
    let refused = |cause: &(dyn std::error::Error + 'static)| cause.downcast_ref::<std::io::Error>().is_some();
    if error.chain().any(refused) || (backtrace.is_empty() && message.contains("(os error ")) {
        return Fault::Machine(message);
    }
    if place == Place::Instantiate && backtrace.is_empty() {
        return Fault::Load(LoadFault::WrongWorld(message));
    }
    Fault::BadValue { place, message }
}

fn frames(error: &wasmtime::Error) -> Vec<String> {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return Vec::new() };
    let names = backtrace.frames().iter().map(|frame| match frame.func_name() {
        // The alternate form leaves out the hash, which changes with every build.
        Some(name) => escape_control_chars(&format!("{:#}", rustc_demangle::demangle(name)), 200),
        None => format!("function {}", frame.func_index()),
    });
    names.collect()
}
