//! What a guest may call, and what it pays for it.

use wasmtime::component::Linker;
use wasmtime::{ResourceLimiter, StoreContextMut, Trap};

use super::bindings::sandtable::policy::log::Level;
use super::bindings::sandtable::policy::predictor::{Quantity, Shapes};
use super::log::Log;
use super::names::{CLUSTER, INTRODUCTIONS, LOG, PREDICTOR, TYPES};
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
    /// Whether it may call imports; not while it allocates or gives back for the host. Used where core modules are
    /// called directly; wasmtime's component layer keeps its own.
    pub(super) may_leave: bool,
    /// Room to lay out values in.
    pub(super) blocks: Vec<u8>,
}

impl Guest {
    pub(super) fn new(limits: Limits) -> Guest {
        Guest {
            world: None,
            import_log: ImportLog::Off,
            last_words: None,
            log: Log::new(limits.log),
            limiter: Limiter::new(limits),
            may_leave: true,
            blocks: Vec::new(),
        }
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

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
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

type Cx<'a, 'b> = &'a mut StoreContextMut<'b, Guest>;

/// `cluster.now`
pub(super) fn now(cx: Cx<'_, '_>) -> wasmtime::Result<u64> {
    charge(cx, 8)?;
    answer(cx, "cluster.now", |world| world.cluster.now.as_micros())
}

/// `cluster.free-gpus`
pub(super) fn free_gpus(cx: Cx<'_, '_>) -> wasmtime::Result<Vec<u32>> {
    let free = answer(cx, "cluster.free-gpus", |world| world.free_gpus())?;
    charge(cx, free.len() * 4)?;
    Ok(free)
}

/// `cluster.occupancy`
pub(super) fn occupancy(cx: Cx<'_, '_>) -> wasmtime::Result<(Vec<u32>, Vec<u32>)> {
    // All GPUs are looked at, held or free.
    let gpus = cx.data().world.as_ref().map_or(0, |world| world.cluster.residents.len());
    charge(cx, gpus * 8)?;
    answer(cx, "cluster.occupancy", |world| world.occupancy())
}

/// `cluster.cpu-jobs`
pub(super) fn cpu_jobs(cx: Cx<'_, '_>) -> wasmtime::Result<(Vec<u32>, Vec<u32>)> {
    let jobs = cx.data().world.as_ref().map_or(0, |world| world.cluster.cpu_jobs.len());
    charge(cx, 64 + jobs * 64)?;
    answer(cx, "cluster.cpu-jobs", |world| world.cpu_jobs())
}

/// `cluster.part-slices`
pub(super) fn part_slices(cx: Cx<'_, '_>, jobs: Vec<u32>) -> wasmtime::Result<Vec<u32>> {
    charge(cx, jobs.len() * 64)?;
    answer(cx, "cluster.part-slices", |world| world.part_slices(&JobId::list(jobs)))
}

/// `cluster.speeds`
pub(super) fn speeds(cx: Cx<'_, '_>, jobs: Vec<u32>) -> wasmtime::Result<Vec<f64>> {
    charge(cx, jobs.len() * 64)?;
    answer(cx, "cluster.speeds", |world| bits(world.speeds(&JobId::list(jobs)))).map(numbers)
}

/// `cluster.progress`
pub(super) fn progress(cx: Cx<'_, '_>, jobs: Vec<u32>) -> wasmtime::Result<(Vec<f64>, Vec<u64>)> {
    charge(cx, jobs.len() * 64)?;
    let told = answer(cx, "cluster.progress", |world| {
        let (done, unsaved) = world.progress(&JobId::list(jobs));
        (bits(done), unsaved)
    });
    told.map(|(done, unsaved)| (numbers(done), unsaved))
}

/// `cluster.check`
pub(super) fn check(cx: Cx<'_, '_>, actions: &[contract::Action]) -> wasmtime::Result<Vec<contract::Rejection>> {
    let gpus = |action: &contract::Action| match action {
        contract::Action::Start(start) => start.gpus.len(),
        contract::Action::Reassign(moves) => moves.iter().map(|start| start.gpus.len() + 8).sum(),
        _ => 0,
    };
    charge(cx, actions.len() * 64 + actions.iter().map(gpus).sum::<usize>() * 8)?;
    let rejections = answer(cx, "cluster.check", |world| world.check(actions))?;
    // Each is a text that was made.
    charge(cx, rejections.len() * 2048)?;
    Ok(rejections)
}

/// `cluster.rejections`
pub(super) fn rejections(cx: Cx<'_, '_>) -> wasmtime::Result<Vec<contract::Rejection>> {
    let rejections = answer(cx, "cluster.rejections", |world| world.rejections.clone())?;
    charge(cx, rejections.len() * 2048)?;
    Ok(rejections)
}

// Lists and texts are charged by what it takes to copy them, which is more than their bytes.

/// `introductions.classes`
pub(super) fn classes(cx: Cx<'_, '_>) -> wasmtime::Result<Vec<contract::Demand>> {
    let classes = answer(cx, "introductions.classes", |world| world.introductions.classes.clone())?;
    charge(cx, classes.iter().map(|class| 512 + size_of_val(class.gpu_types.as_slice())).sum())?;
    Ok(classes)
}

/// `introductions.workloads`
pub(super) fn workloads(cx: Cx<'_, '_>) -> wasmtime::Result<Vec<contract::WorkloadProfile>> {
    let workloads = answer(cx, "introductions.workloads", |world| world.introductions.workloads.clone())?;
    charge(cx, workloads.iter().map(weight).sum())?;
    Ok(workloads)
}

/// What it costs to hand a profile over, in bytes: what there is of it once, and its columns.
fn weight(profile: &contract::WorkloadProfile) -> usize {
    let (mib, rates) = (size_of_val(profile.memory_mib.as_slice()), size_of_val(profile.throughput.as_slice()));
    let columns = [&profile.gpu_utilisation, &profile.memory_utilisation, &profile.step_time];
    let stages: usize = profile.stages.iter().map(|stages| 512 + size_of_val(stages.uses.as_slice())).sum();
    8192 + mib + rates + stages + columns.iter().map(|column| size_of_val(column.as_slice())).sum::<usize>()
}

/// `introductions.users`
pub(super) fn users(cx: Cx<'_, '_>) -> wasmtime::Result<Vec<String>> {
    let users = answer(cx, "introductions.users", |world| world.introductions.users.clone())?;
    charge(cx, users.iter().map(|name| 512 + name.len()).sum())?;
    Ok(users)
}

/// `introductions.samples`
pub(super) fn samples(cx: Cx<'_, '_>) -> wasmtime::Result<Vec<contract::Sample>> {
    let samples = answer(cx, "introductions.samples", |world| world.introductions.samples.clone())?;
    charge(cx, samples.len() * 512)?;
    Ok(samples)
}

/// `introductions.attained`
pub(super) fn attained(cx: Cx<'_, '_>) -> wasmtime::Result<Vec<contract::AttainedTime>> {
    let attained = answer(cx, "introductions.attained", |world| world.introductions.attained.clone())?;
    charge(cx, attained.len() * 512)?;
    Ok(attained)
}

/// The quantity of this number in the contract.
pub(super) fn quantity(number: u32) -> wasmtime::Result<Quantity> {
    Ok(match number {
        0 => Quantity::Remaining,
        1 => Quantity::Throughput,
        2 => Quantity::Utilisation,
        3 => Quantity::Memory,
        4 => Quantity::StepTime,
        5 => Quantity::Steps,
        other => wasmtime::bail!("unexpected discriminant: {other}"),
    })
}

/// `predictor.estimate`, of columns of jobs, GPU types and numbers of GPUs.
pub(super) fn estimate(
    cx: Cx<'_, '_>,
    what: Quantity,
    (job, gpu_type, gpus): (Vec<u32>, Vec<u32>, Vec<u32>),
) -> wasmtime::Result<Vec<f64>> {
    charge(cx, job.len() * 128)?;
    if job.len() != gpu_type.len() {
        let (jobs, types) = (job.len(), gpu_type.len());
        return Err(BadColumns(format!("predictor.estimate: {jobs} jobs and {types} GPU types")).into());
    }
    if !gpus.is_empty() {
        equal("predictor.estimate", job.len(), gpus.len())?;
    }
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
    foretell(cx, "predictor.estimate", ask).map(numbers)
}

/// `predictor.similarity`
pub(super) fn similarity(cx: Cx<'_, '_>, kind: u32, first: Vec<u32>, second: Vec<u32>) -> wasmtime::Result<Vec<f64>> {
    charge(cx, first.len() * 128)?;
    equal("predictor.similarity", first.len(), second.len())?;
    let (first, second) = (JobId::list(first), JobId::list(second));
    let ask = |world: &mut DecisionContext| world.similarity(TypeId::new(kind), &first, &second).map(bits);
    foretell(cx, "predictor.similarity", ask).map(numbers)
}

/// `predictor.pair-speed`
pub(super) fn pair_speed(
    cx: Cx<'_, '_>,
    kind: u32,
    jobs: Vec<u32>,
    residents: Vec<Vec<u32>>,
) -> wasmtime::Result<Vec<f64>> {
    let all = jobs.len() + residents.iter().map(Vec::len).sum::<usize>();
    charge(cx, all * 128)?;
    equal("predictor.pair-speed", jobs.len(), residents.len())?;
    let (jobs, residents) = (JobId::list(jobs), residents.into_iter().map(JobId::list).collect::<Vec<_>>());
    let ask = |world: &mut DecisionContext| world.pair_speed(TypeId::new(kind), &jobs, &residents).map(bits);
    foretell(cx, "predictor.pair-speed", ask).map(numbers)
}

/// `predictor.epochs`
pub(super) fn epochs(cx: Cx<'_, '_>, kind: u32, jobs: Vec<u32>) -> wasmtime::Result<Vec<contract::TrainingEpochs>> {
    charge(cx, jobs.len() * 640)?;
    let (kind, jobs) = (TypeId::new(kind), JobId::list(jobs));
    // Paid for before it is made: one job may be asked for many times.
    let rows = cx.data_mut().world.as_mut().map_or(0, |world| world.rows_of_epochs(kind, &jobs));
    charge(cx, rows * size_of::<contract::EpochsOfBatch>() * 8)?;
    answer(cx, "predictor.epochs", |world| world.epochs(kind, &jobs))
}

/// The level of this number in the contract.
pub(super) fn level(number: u32) -> wasmtime::Result<Level> {
    Ok(match number {
        0 => Level::Debug,
        1 => Level::Info,
        2 => Level::Warn,
        3 => Level::Error,
        other => wasmtime::bail!("unexpected discriminant: {other}"),
    })
}

/// `log.write`
pub(super) fn write(cx: Cx<'_, '_>, level: Level, message: &str) -> wasmtime::Result<()> {
    charge(cx, message.len() * 8)?;
    cx.data_mut().log.write(level, message);
    Ok(())
}

/// `log.panic`
pub(super) fn panic(cx: Cx<'_, '_>, message: &str) -> wasmtime::Result<()> {
    charge(cx, message.len() * 8)?;
    cx.data_mut().last_words = Some(escape_control_chars(message, 4096));
    Ok(())
}

/// Defines every import of the world for components.
pub(super) fn define(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    type Cx<'a> = StoreContextMut<'a, Guest>;
    linker.instance(TYPES)?;

    let mut cluster = linker.instance(CLUSTER)?;
    cluster.func_wrap("now", |mut cx: Cx<'_>, (): ()| Ok((now(&mut cx)?,)))?;
    cluster.func_wrap("free-gpus", |mut cx: Cx<'_>, (): ()| Ok((free_gpus(&mut cx)?,)))?;
    cluster.func_wrap("occupancy", |mut cx: Cx<'_>, (): ()| Ok((occupancy(&mut cx)?,)))?;
    cluster.func_wrap("cpu-jobs", |mut cx: Cx<'_>, (): ()| Ok((cpu_jobs(&mut cx)?,)))?;
    cluster.func_wrap("speeds", |mut cx: Cx<'_>, (jobs,): (Vec<u32>,)| Ok((speeds(&mut cx, jobs)?,)))?;
    cluster.func_wrap("part-slices", |mut cx: Cx<'_>, (jobs,): (Vec<u32>,)| Ok((part_slices(&mut cx, jobs)?,)))?;
    cluster.func_wrap("progress", |mut cx: Cx<'_>, (jobs,): (Vec<u32>,)| Ok((progress(&mut cx, jobs)?,)))?;
    cluster
        .func_wrap("check", |mut cx: Cx<'_>, (actions,): (Vec<contract::Action>,)| Ok((check(&mut cx, &actions)?,)))?;
    cluster.func_wrap("rejections", |mut cx: Cx<'_>, (): ()| Ok((rejections(&mut cx)?,)))?;

    let mut introductions = linker.instance(INTRODUCTIONS)?;
    introductions.func_wrap("classes", |mut cx: Cx<'_>, (): ()| Ok((classes(&mut cx)?,)))?;
    introductions.func_wrap("workloads", |mut cx: Cx<'_>, (): ()| Ok((workloads(&mut cx)?,)))?;
    introductions.func_wrap("users", |mut cx: Cx<'_>, (): ()| Ok((users(&mut cx)?,)))?;
    introductions.func_wrap("samples", |mut cx: Cx<'_>, (): ()| Ok((samples(&mut cx)?,)))?;
    introductions.func_wrap("attained", |mut cx: Cx<'_>, (): ()| Ok((attained(&mut cx)?,)))?;

    let mut predictor = linker.instance(PREDICTOR)?;
    predictor.func_wrap("estimate", |mut cx: Cx<'_>, (what, shapes): (Quantity, Shapes)| {
        Ok((estimate(&mut cx, what, (shapes.job, shapes.gpu_type, shapes.gpus))?,))
    })?;
    type Pairs = (u32, Vec<u32>, Vec<u32>);
    predictor.func_wrap("similarity", |mut cx: Cx<'_>, (kind, first, second): Pairs| {
        Ok((similarity(&mut cx, kind, first, second)?,))
    })?;
    type Groups = (u32, Vec<u32>, Vec<Vec<u32>>);
    predictor.func_wrap("pair-speed", |mut cx: Cx<'_>, (kind, jobs, residents): Groups| {
        Ok((pair_speed(&mut cx, kind, jobs, residents)?,))
    })?;
    predictor
        .func_wrap("epochs", |mut cx: Cx<'_>, (kind, jobs): (u32, Vec<u32>)| Ok((epochs(&mut cx, kind, jobs)?,)))?;

    // The one import that predictors share with policies.
    let mut log = linker.instance(LOG)?;
    log.func_wrap("write", |mut cx: Cx<'_>, (level, message): (Level, String)| write(&mut cx, level, &message))?;
    log.func_wrap("panic", |mut cx: Cx<'_>, (message,): (String,)| panic(&mut cx, &message))
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
