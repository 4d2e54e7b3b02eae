//! What a guest may call, and what it pays for it.

use wasmtime::component::Linker;
use wasmtime::{ResourceLimiter, StoreContextMut, Trap};

use super::bindings::sandtable::policy::log::Level;
use super::bindings::sandtable::policy::predictor::{Quantity, Shapes};
use crate::DecisionContext;
use crate::answers::ImportLog;
use crate::contract;
use crate::limits::Limits;
use crate::predict::Alone;
use sandtable_hardware::text::escape_control_chars;
use sandtable_hardware::{JobId, TypeId};

/// The host's side of one instance.
pub(super) struct Guest {
    /// There only while `decide` runs.
    pub(super) world: Option<Box<DecisionContext>>,
    /// Answers of the imports, recorded or to be replayed.
    pub(super) import_log: ImportLog,
    pub(super) last_words: Option<String>,
    pub(super) log: Log,
    pub(super) limiter: Limiter,
}

/// Lines that a policy wrote: diagnostics, never part of a result.
#[derive(Default)]
pub(super) struct Log {
    pub(super) lines: Vec<String>,
    room: usize,
    /// What is left of this call's.
    in_call: usize,
    dropped: u64,
}

/// Bytes of log lines of one call.
const LOG_OF_A_CALL: usize = 64 << 10;

impl Log {
    pub(super) fn new(room: usize) -> Log {
        Log { lines: Vec::new(), room, in_call: LOG_OF_A_CALL, dropped: 0 }
    }

    /// Another call begins.
    pub(super) fn turn(&mut self) {
        self.in_call = LOG_OF_A_CALL;
    }

    fn write(&mut self, level: Level, message: &str) {
        let level = match level {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        // One line a call: a policy must not write what looks like another's.
        let line = format!("{level}: {}", escape_control_chars(message, 4096));
        let bytes = size_of::<String>() + line.len();
        if bytes > self.room.min(self.in_call) {
            self.dropped += 1;
        } else {
            self.room -= bytes;
            self.in_call -= bytes;
            self.lines.push(line);
        }
    }

    /// The lines, and a note of those that were dropped.
    pub(super) fn finish(&mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.lines);
        if self.dropped > 0 {
            lines.push(format!("({} more lines were dropped)", self.dropped));
        }
        lines
    }
}

/// A call at a time when there is nothing to read.
#[derive(Debug, thiserror::Error)]
#[error("{0} is closed")]
pub(super) struct Closed(pub(super) &'static str);

/// A growth that the limits forbid.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {wanted} of {limit}")]
pub(super) struct Denied {
    pub(super) what: Resource,
    pub(super) wanted: usize,
    pub(super) limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Memory,
    Table,
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Memory that the machine could not give: never the policy's fault.
#[derive(Debug, thiserror::Error)]
#[error("out of memory")]
pub(super) struct HostOutOfMemory;

/// Sums over all memories and tables; wasmtime's own limits count each alone.
pub(super) struct Limiter {
    limits: Limits,
    memory: usize,
    table: usize,
}

impl Limiter {
    pub(super) fn new(limits: Limits) -> Limiter {
        Limiter { limits, memory: 0, table: 0 }
    }

    pub(super) fn memory(&self) -> usize {
        self.memory
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, most: Option<usize>) -> wasmtime::Result<bool> {
        // Beyond what the guest itself declared: its own affair, as WebAssembly has it.
        if most.is_some_and(|most| desired > most) {
            return Ok(false);
        }
        let (wanted, limit) = (self.memory + (desired - current), self.limits.memory);
        if wanted > limit {
            return Err(Denied { what: Resource::Memory, wanted, limit }.into());
        }
        self.memory = wanted;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        Err(HostOutOfMemory.into())
    }

    fn table_growing(&mut self, current: usize, desired: usize, most: Option<usize>) -> wasmtime::Result<bool> {
        if most.is_some_and(|most| desired > most) {
            return Ok(false);
        }
        let (wanted, limit) = (self.table + (desired - current), self.limits.table_elements);
        if wanted > limit {
            return Err(Denied { what: Resource::Table, wanted, limit }.into());
        }
        self.table = wanted;
        Ok(true)
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        Err(HostOutOfMemory.into())
    }

    fn instances(&self) -> usize {
        Limits::INSTANCES
    }

    fn tables(&self) -> usize {
        Limits::TABLES
    }

    fn memories(&self) -> usize {
        Limits::MEMORIES
    }
}

/// A host call costs fuel like the instructions that it saves: 500, and 1 for each 8 bytes that it moves.
fn charge(cx: &mut StoreContextMut<'_, Guest>, bytes: usize) -> wasmtime::Result<()> {
    pay(cx, 500 + bytes as u64 / 8)
}

fn pay(cx: &mut StoreContextMut<'_, Guest>, cost: u64) -> wasmtime::Result<()> {
    let fuel = cx.get_fuel()?;
    match fuel.checked_sub(cost) {
        Some(left) => cx.set_fuel(left),
        None => {
            cx.set_fuel(0)?;
            Err(Trap::OutOfFuel.into())
        }
    }
}

/// Answers from the decision context, or from the import log of an earlier run.
fn answer<T: serde::Serialize + serde::de::DeserializeOwned>(
    cx: &mut StoreContextMut<'_, Guest>,
    function: &'static str,
    ask: impl FnOnce(&mut DecisionContext) -> T,
) -> wasmtime::Result<T> {
    let guest = cx.data_mut();
    if let Some(recorded) = guest.import_log.next_answer().map_err(wasmtime::Error::msg)? {
        return Ok(recorded);
    }
    let world = guest.world.as_mut().ok_or(Closed(function))?;
    let answer = ask(world);
    guest.import_log.record_answer(&answer);
    Ok(answer)
}

/// Defines every import of the world.
pub(super) fn define(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.instance("sandtable:policy/types@0.1.0")?;
    define_cluster(linker)?;
    define_predictor(linker)?;
    define_log(linker)
}

fn define_cluster(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let mut cluster = linker.instance("sandtable:policy/cluster@0.1.0")?;
    cluster.func_wrap("now", |mut cx: StoreContextMut<'_, Guest>, (): ()| {
        charge(&mut cx, 8)?;
        Ok((answer(&mut cx, "cluster.now", |world| world.cluster.now.as_micros())?,))
    })?;
    cluster.func_wrap("free-gpus", |mut cx: StoreContextMut<'_, Guest>, (): ()| {
        let free = answer(&mut cx, "cluster.free-gpus", |world| world.free_gpus())?;
        charge(&mut cx, free.len() * 4)?;
        Ok((free,))
    })?;
    cluster.func_wrap("occupancy", |mut cx: StoreContextMut<'_, Guest>, (): ()| {
        // All GPUs are looked at, held or free.
        let gpus = cx.data().world.as_ref().map_or(0, |world| world.cluster.residents.len());
        charge(&mut cx, gpus * 8)?;
        let pairs = answer(&mut cx, "cluster.occupancy", |world| world.occupancy())?;
        Ok((pairs,))
    })?;
    cluster.func_wrap("speeds", |mut cx: StoreContextMut<'_, Guest>, (jobs,): (Vec<u32>,)| {
        charge(&mut cx, jobs.len() * 64)?;
        let speeds = answer(&mut cx, "cluster.speeds", |world| bits(world.speeds(&JobId::list(jobs))))?;
        Ok((numbers(speeds),))
    })?;
    cluster.func_wrap("check", |mut cx: StoreContextMut<'_, Guest>, (actions,): (Vec<contract::Action>,)| {
        let gpus = |action: &contract::Action| match action {
            contract::Action::Start(start) => start.gpus.len(),
            contract::Action::Reassign(moves) => moves.iter().map(|start| start.gpus.len() + 8).sum(),
            _ => 0,
        };
        charge(&mut cx, actions.len() * 64 + actions.iter().map(gpus).sum::<usize>() * 8)?;
        let rejections = answer(&mut cx, "cluster.check", |world| world.check(&actions))?;
        // Each is a text that was made.
        charge(&mut cx, rejections.len() * 2048)?;
        Ok((rejections,))
    })
}

fn define_predictor(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let mut predictor = linker.instance("sandtable:policy/predictor@0.1.0")?;
    predictor.func_wrap("estimate", |mut cx: StoreContextMut<'_, Guest>, (what, shapes): (Quantity, Shapes)| {
        charge(&mut cx, shapes.job.len() * 128)?;
        if shapes.job.len() != shapes.gpu_type.len() {
            let (jobs, types) = (shapes.job.len(), shapes.gpu_type.len());
            return Err(BadColumns(format!("predictor.estimate: {jobs} jobs and {types} GPU types")).into());
        }
        if !shapes.gpus.is_empty() {
            equal("predictor.estimate", shapes.job.len(), shapes.gpus.len())?;
        }
        let Shapes { job, gpu_type, gpus } = shapes;
        let (job, gpu_type) = (JobId::list(job), TypeId::list(gpu_type));
        let alone = match what {
            Quantity::Remaining | Quantity::StepTime | Quantity::Steps => None,
            Quantity::Throughput => Some(Alone::Throughput),
            Quantity::Utilisation => Some(Alone::Utilisation),
            Quantity::Memory => Some(Alone::Memory),
        };
        let ask = |world: &mut DecisionContext| match alone {
            None if what == Quantity::Remaining => Ok(bits(world.remaining(&job, &gpu_type))),
            None => Ok(bits(world.steps(what == Quantity::Steps, &job, &gpu_type, &gpus))),
            Some(what) => world.alone(what, &job, &gpu_type).map(bits),
        };
        Ok((numbers(foretell(&mut cx, "predictor.estimate", ask)?),))
    })?;
    type Pairs = (u32, Vec<u32>, Vec<u32>);
    predictor.func_wrap("similarity", |mut cx: StoreContextMut<'_, Guest>, (kind, first, second): Pairs| {
        charge(&mut cx, first.len() * 128)?;
        equal("predictor.similarity", first.len(), second.len())?;
        let (first, second) = (JobId::list(first), JobId::list(second));
        let ask = |world: &mut DecisionContext| world.similarity(TypeId::new(kind), &first, &second).map(bits);
        Ok((numbers(foretell(&mut cx, "predictor.similarity", ask)?),))
    })?;
    type Groups = (u32, Vec<u32>, Vec<Vec<u32>>);
    predictor.func_wrap("pair-speed", |mut cx: StoreContextMut<'_, Guest>, (kind, jobs, residents): Groups| {
        let all = jobs.len() + residents.iter().map(Vec::len).sum::<usize>();
        charge(&mut cx, all * 128)?;
        equal("predictor.pair-speed", jobs.len(), residents.len())?;
        let (jobs, residents) = (JobId::list(jobs), residents.into_iter().map(JobId::list).collect::<Vec<_>>());
        let ask = |world: &mut DecisionContext| world.pair_speed(TypeId::new(kind), &jobs, &residents).map(bits);
        Ok((numbers(foretell(&mut cx, "predictor.pair-speed", ask)?),))
    })
}

/// The one import that predictors share with policies.
fn define_log(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let mut log = linker.instance("sandtable:policy/log@0.1.0")?;
    log.func_wrap("write", |mut cx: StoreContextMut<'_, Guest>, (level, message): (Level, String)| {
        charge(&mut cx, message.len() * 8)?;
        cx.data_mut().log.write(level, &message);
        Ok(())
    })?;
    log.func_wrap("panic", |mut cx: StoreContextMut<'_, Guest>, (message,): (String,)| {
        charge(&mut cx, message.len() * 8)?;
        cx.data_mut().last_words = Some(escape_control_chars(&message, 4096));
        Ok(())
    })?;
    Ok(())
}

/// Floats as their bits: an import log keeps every one, NaN too.
fn bits(answers: Vec<f64>) -> Vec<u64> {
    answers.into_iter().map(f64::to_bits).collect()
}

fn numbers(bits: Vec<u64>) -> Vec<f64> {
    bits.into_iter().map(f64::from_bits).collect()
}

fn equal(function: &str, first: usize, second: usize) -> wasmtime::Result<()> {
    if first == second {
        return Ok(());
    }
    Err(BadColumns(format!("{function}: {first} and {second}")).into())
}

/// A predictor that failed while a policy asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct PredictorFailed(pub(super) crate::fault::Fault);

/// An answer that may fail, by no fault of the policy.
fn foretell(
    cx: &mut StoreContextMut<'_, Guest>,
    function: &'static str,
    ask: impl FnOnce(&mut DecisionContext) -> Result<Vec<u64>, crate::fault::Fault>,
) -> wasmtime::Result<Vec<u64>> {
    let mut fault = None;
    let fuel = cx.get_fuel()?;
    let (answers, spent) = answer(cx, function, |world| {
        world.allow(fuel);
        let answers = ask(world).unwrap_or_else(|error| {
            fault = Some(error);
            Vec::new()
        });
        (answers, world.spent())
    })?;
    if let Some(fault) = fault {
        return Err(PredictorFailed(fault).into());
    }
    // The policy that asks pays for what a predictor used for its answer.
    pay(cx, spent)?;
    Ok(answers)
}

/// Columns of different lengths.
#[derive(Debug, thiserror::Error)]
#[error("columns differ in length: {0}")]
pub(super) struct BadColumns(pub(super) String);
