//! The language: Starlark, with functions of mathematics. A script is read once, and its functions are called.

use sandtable_policy::JobId;
use serde_json::Value as Json;
use starlark::environment::{Globals, GlobalsBuilder, LibraryExtension, Module};
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::syntax::{AstModule, Dialect, DialectTypes};
use starlark::values::float::UnpackFloat;
use starlark::values::list::ListRef;
use starlark::values::list_or_tuple::UnpackListOrTuple;
use starlark::values::none::NoneOr;
use starlark::values::tuple::TupleRef;
use starlark::values::{Heap, UnpackValue, Value, ValueLike as _};

use crate::trace;
use crate::values::{Action, Asks, JobView, Moment, NodeView};

/// What errors call a script.
const NAME: &str = "script";
/// Most numbers of a key.
pub(crate) const MOST: usize = 4;

/// Where a job stands: what a script says of it, in an order of integers; a job of which it says None comes last.
pub(crate) type Key = [u64; MOST];

const DIALECT: Dialect = Dialect {
    enable_def: true,
    enable_lambda: true,
    enable_load: false,
    enable_keyword_only_arguments: true,
    enable_positional_only_arguments: false,
    enable_types: DialectTypes::ParseOnly,
    enable_load_reexport: false,
    enable_top_level_stmt: true,
    enable_f_strings: true,
    _non_exhaustive: (),
};

#[starlark_module]
fn math(builder: &mut GlobalsBuilder) {
    fn log(#[starlark(require = pos)] x: UnpackFloat) -> starlark::Result<f64> {
        Ok(libm::log(x.0))
    }
    fn log2(#[starlark(require = pos)] x: UnpackFloat) -> starlark::Result<f64> {
        Ok(libm::log2(x.0))
    }
    fn exp(#[starlark(require = pos)] x: UnpackFloat) -> starlark::Result<f64> {
        Ok(libm::exp(x.0))
    }
    fn sqrt(#[starlark(require = pos)] x: UnpackFloat) -> starlark::Result<f64> {
        Ok(libm::sqrt(x.0))
    }
    fn floor(#[starlark(require = pos)] x: UnpackFloat) -> starlark::Result<f64> {
        Ok(libm::floor(x.0))
    }
    fn ceil(#[starlark(require = pos)] x: UnpackFloat) -> starlark::Result<f64> {
        Ok(libm::ceil(x.0))
    }
    fn tanh(#[starlark(require = pos)] x: UnpackFloat) -> starlark::Result<f64> {
        Ok(libm::tanh(x.0))
    }
    fn pow(
        #[starlark(require = pos)] x: UnpackFloat,
        #[starlark(require = pos)] y: UnpackFloat,
    ) -> starlark::Result<f64> {
        Ok(libm::pow(x.0, y.0))
    }
}

#[starlark_module]
fn more(builder: &mut GlobalsBuilder) {
    /// The sum of numbers.
    fn sum<'v>(
        #[starlark(require = pos)] values: UnpackListOrTuple<Value<'v>>,
        heap: &'v Heap,
    ) -> starlark::Result<Value<'v>> {
        values.items.into_iter().try_fold(heap.alloc(0), |sum, value| sum.add(value, heap))
    }
    /// A job starts, on these nodes.
    fn start<'v>(
        #[starlark(require = pos)] job: Value<'v>,
        #[starlark(default = NoneOr::None)] nodes: NoneOr<UnpackListOrTuple<i32>>,
    ) -> starlark::Result<Action> {
        let nodes = match nodes {
            NoneOr::None => None,
            NoneOr::Other(nodes) => {
                let all: Option<Vec<u32>> = nodes.items.into_iter().map(|node| u32::try_from(node).ok()).collect();
                Some(all.ok_or_else(|| wrong("start: expected a node for each GPU, found one below 0"))?)
            }
        };
        Ok(Action::Start(id_of(job)?, nodes))
    }
    /// A job gives its GPUs back.
    fn stop<'v>(#[starlark(require = pos)] job: Value<'v>) -> starlark::Result<Action> {
        Ok(Action::Stop(id_of(job)?))
    }
}

fn wrong(why: impl Into<String>) -> starlark::Error {
    starlark::Error::new_other(std::io::Error::other(why.into()))
}

/// The id of a job that a script names by itself or by that.
fn id_of(job: Value<'_>) -> starlark::Result<JobId> {
    let known = job.downcast_ref::<JobView>().map(|job| job.id);
    let known = known.or_else(|| job.unpack_i32().and_then(|id| u32::try_from(id).ok()));
    known.ok_or_else(|| wrong(format!("expected a job or its id, found {job}")))
}

fn globals() -> Globals {
    let extensions = [LibraryExtension::Map, LibraryExtension::Filter, LibraryExtension::StructType];
    let mut builder = GlobalsBuilder::extended_by(&extensions).with(more);
    builder.namespace("math", |builder| {
        math(builder);
        builder.set("pi", std::f64::consts::PI);
        builder.set("inf", f64::INFINITY);
    });
    builder.build()
}

/// A script that has been read. Its module is not frozen, since freezing one asks the machine for the time: a list at its top level keeps
/// what is put into it.
pub(crate) struct Script {
    source: String,
    /// Whether calls tell where they are.
    is_traced: bool,
    module: Module,
    globals: Globals,
    orders: &'static str,
    /// Whether it says where jobs go.
    pub(crate) places: bool,
    /// Whether it says which jobs make room for one that finds none.
    pub(crate) makes_room: bool,
    /// Whether it says that jobs that come first take GPUs from others.
    pub(crate) preempts: bool,
    /// µs between calls that it asks for.
    pub(crate) every: Option<u64>,
    /// Whether it is called when something happens too.
    pub(crate) on_events: bool,
    /// What of jobs it looks at.
    pub(crate) asks: Asks,
}

/// What went wrong, in one line, and where.
fn said(error: &starlark::Error) -> String {
    let message = error.without_diagnostic().to_string();
    // What follows an arrow is a picture of the place.
    let lines = message.trim_start_matches("error: ").lines().map(str::trim);
    let message = lines.take_while(|line| !line.starts_with("-->")).collect::<Vec<_>>().join(" ");
    let Some(span) = error.span() else { return message };
    let (begin, code) = (span.resolve_span().begin, span.source_span());
    let code = code.lines().next().unwrap_or_default().trim();
    let at = if code.is_empty() { String::new() } else { format!(", at `{code}`") };
    format!("line {}, column {}{at}: {message}", begin.line + 1, begin.column + 1)
}

fn evaluator(module: &Module, is_traced: bool) -> Evaluator<'_, '_, '_> {
    let mut eval = Evaluator::new(module);
    if is_traced {
        trace::follow(&mut eval);
    }
    eval
}

/// Longest and shortest time between calls, seconds.
const EVERY: std::ops::RangeInclusive<f64> = 1e-3..=1e9;
/// Bytes of values from which on those that nothing refers to are given back.
const FULL: usize = 1 << 20;

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub(crate) fn read(source: &str, params: &Json, is_traced: bool) -> Result<Script, String> {
        let source = source.strip_prefix('\u{feff}').unwrap_or(source);
        let ast = AstModule::parse(NAME, source.to_string(), &DIALECT).map_err(|error| said(&error))?;
        let (module, globals) = (Module::new(), globals());
        module.set("params", module.heap().alloc(params.clone()));
        evaluator(&module, is_traced).eval_module(ast, &globals).map_err(|error| said(&error))?;
        let function = |name: &str| match module.get(name) {
            None => Ok(false),
            Some(found) if found.get_type() == "function" => Ok(true),
            Some(found) => Err(format!("`{name}`: expected a function, found {found}")),
        };
        let flag = |name: &str, otherwise: bool| match module.get(name) {
            None => Ok(otherwise),
            Some(value) => {
                value.unpack_bool().ok_or_else(|| format!("`{name}`: expected True or False, found {value}"))
            }
        };
        let every = module.get("EVERY").map(|value| {
            let seconds = number(value).filter(|seconds| EVERY.contains(seconds));
            let wrong = || format!("`EVERY`: expected seconds from 0.001 to 1000000000, found {value}");
            seconds.map(|seconds| (seconds * 1e6 + 0.5) as u64).ok_or_else(wrong)
        });
        let orders = match ["key", "order", "decide"].map(|name| function(name).map(|there| there.then_some(name))) {
            [Ok(Some(name)), Ok(None), Ok(None)]
            | [Ok(None), Ok(Some(name)), Ok(None)]
            | [Ok(None), Ok(None), Ok(Some(name))] => name,
            [Err(why), ..] | [_, Err(why), _] | [.., Err(why)] => return Err(why),
            [Ok(None), Ok(None), Ok(None)] => {
                return Err(
                    "expected a function `key(job, c)`, `order(job, c)` or `decide(waiting, running, nodes, c)`, found none".into()
                );
            }
            _ => return Err("it has two of `key`, `order` and `decide`: expected one of them".into()),
        };
        let (places, makes_room) = (function("place")?, function("preempt")?);
        let (preempts, on_events) = (flag("PREEMPT", false)?, flag("ON_EVENTS", true)?);
        let (every, asks) = (every.transpose()?, Asks::of(source));
        if !on_events && every.is_none() {
            return Err("`ON_EVENTS = False` without `EVERY`: it would never be called".into());
        }
        if preempts && (places || makes_room) {
            return Err("`PREEMPT = True` goes by the order alone: expected no `place` and no `preempt`".into());
        }
        if orders == "decide" && (preempts || places || makes_room) {
            return Err("`decide` says all: expected no `place`, no `preempt` and no `PREEMPT`".into());
        }
        Ok(Script {
            source: source.into(),
            is_traced,
            module,
            globals,
            orders,
            places,
            makes_room,
            preempts,
            every,
            on_events,
            asks,
        })
    }

    /// Whether jobs are ordered anew at each call.
    pub(crate) fn reorders(&self) -> bool {
        self.orders == "order"
    }

    /// Whether it says what starts and what stops.
    pub(crate) fn decides(&self) -> bool {
        self.orders == "decide"
    }

    /// What starts and what stops.
    ///
    /// # Errors
    /// What went wrong in the script, and where.
    pub(crate) fn actions(
        &self,
        waiting: Vec<JobView>,
        running: Vec<JobView>,
        nodes: Vec<NodeView>,
        moment: Moment,
    ) -> Result<Vec<Action>, String> {
        self.collect()?;
        let heap = self.module.heap();
        let asked = [heap.alloc(waiting), heap.alloc(running), heap.alloc(nodes), heap.alloc(moment)];
        let found = self.call("decide", &asked)?;
        if found.is_none() {
            return Ok(Vec::new());
        }
        let actions = UnpackListOrTuple::<Value<'_>>::unpack_value(found).ok().flatten();
        let actions: Option<Vec<Action>> =
            actions.and_then(|all| all.items.into_iter().map(|one| one.downcast_ref::<Action>().cloned()).collect());
        actions.ok_or_else(|| format!("expected None or a list of start(…) and stop(…), found {found}"))
    }

    /// Gives back what no value refers to: that happens between the statements of a module alone.
    fn collect(&self) -> Result<(), String> {
        if self.module.heap().allocated_bytes() < FULL {
            return Ok(());
        }
        let nothing = AstModule::parse(NAME, "pass\n".into(), &DIALECT).map_err(|error| said(&error))?;
        let collected = Evaluator::new(&self.module).eval_module(nothing, &self.globals);
        collected.map(drop).map_err(|error| said(&error))
    }

    /// Tells of each of these jobs where it stands, and whether that is a number alone.
    ///
    /// # Errors
    /// What went wrong in the script, and where.
    pub(crate) fn keys(
        &self,
        jobs: impl Iterator<Item = JobView>,
        moment: Moment,
        mut tell: impl FnMut(JobId, Key, bool),
    ) -> Result<(), String> {
        self.collect()?;
        let (mut eval, heap) = (evaluator(&self.module, self.is_traced), self.module.heap());
        let function = self.module.get(self.orders).ok_or("it is gone")?;
        let c = heap.alloc(moment);
        for job in jobs {
            let id = job.id;
            let found = eval.eval_function(function, &[heap.alloc(job), c], &[]);
            let found = found.map_err(|error| self.failed(self.orders, &error))?;
            let (key, plain) = key(found).map_err(|why| format!("of job {id}: {why}"))?;
            tell(id, key, plain);
        }
        Ok(())
    }

    /// The node of each GPU that a job is to have; none: it waits.
    ///
    /// # Errors
    /// What went wrong in the script, and where.
    pub(crate) fn place(&self, job: JobView, nodes: Vec<NodeView>, moment: Moment) -> Result<Option<Vec<u32>>, String> {
        self.collect()?;
        let heap = self.module.heap();
        let found = self.call("place", &[heap.alloc(job), heap.alloc(nodes), heap.alloc(moment)])?;
        if found.is_none() {
            return Ok(None);
        }
        numbers(found).map(Some).ok_or_else(|| format!("expected None or a node for each GPU, found {found}"))
    }

    /// The running jobs that make room for one.
    ///
    /// # Errors
    /// What went wrong in the script, and where.
    pub(crate) fn victims(&self, job: JobView, running: Vec<JobView>, moment: Moment) -> Result<Vec<JobId>, String> {
        self.collect()?;
        let heap = self.module.heap();
        let found = self.call("preempt", &[heap.alloc(job), heap.alloc(running), heap.alloc(moment)])?;
        if found.is_none() {
            return Ok(Vec::new());
        }
        numbers(found).ok_or_else(|| format!("expected ids of jobs, found {found}"))
    }

    fn call<'v>(&'v self, name: &str, args: &[Value<'v>]) -> Result<Value<'v>, String> {
        let function = self.module.get(name).ok_or("it is gone")?;
        let mut eval = evaluator(&self.module, self.is_traced);
        eval.eval_function(function, args, &[]).map_err(|error| self.failed(name, &error))
    }
}

impl Script {
    /// What went wrong in a call of a function, and where: where it begins, if it can't be called so.
    fn failed(&self, name: &str, error: &starlark::Error) -> String {
        let said = said(error);
        // Of several definitions the last one holds.
        let lines = || self.source.lines().zip(1..);
        let is = |line: &str, before: &str, after: char| {
            let rest = line.trim_start().strip_prefix(before).and_then(|rest| rest.trim_start().strip_prefix(name));
            rest.is_some_and(|rest| rest.trim_start().starts_with(after))
        };
        let defined = lines().filter(|(line, _)| is(line, "def ", '(')).last();
        match defined.or_else(|| lines().filter(|(line, _)| is(line, "", '=')).last()) {
            Some((line, at)) if error.span().is_none() => {
                let column = line.chars().take_while(|c| c.is_whitespace()).count() + 1;
                format!("line {at}, column {column}, at `{}`: {said}", line.trim())
            }
            _ => said,
        }
    }
}

fn number(value: Value<'_>) -> Option<f64> {
    let truth = value.unpack_bool().map(|truth| f64::from(u8::from(truth)));
    truth.or_else(|| Some(UnpackFloat::unpack_value(value).ok()??.0))
}

fn numbers(value: Value<'_>) -> Option<Vec<u32>> {
    let all = UnpackListOrTuple::<i32>::unpack_value(value).ok()??;
    all.items.into_iter().map(|number| u32::try_from(number).ok()).collect()
}

/// Where a script says that a job stands, and whether that is a number alone.
fn key(value: Value<'_>) -> Result<(Key, bool), String> {
    if value.is_none() {
        return Ok(([u64::MAX; MOST], false));
    }
    let mut found = [0; MOST];
    if let Some(number) = exact(value)? {
        found[0] = ordered(number)?;
        return Ok((found, true));
    }
    let items = ListRef::from_value(value).map(|list| list.content());
    let items = items.or_else(|| TupleRef::from_value(value).map(|tuple| tuple.content()));
    let wrong = || format!("expected a number, up to {MOST} of them, or None, found {value}");
    let items = items.filter(|items| (1..=MOST).contains(&items.len())).ok_or_else(wrong)?;
    for (place, item) in found.iter_mut().zip(items) {
        *place = ordered(exact(*item)?.ok_or_else(wrong)?)?;
    }
    Ok((found, false))
}

/// A number that is told apart from its neighbours.
fn exact(value: Value<'_>) -> Result<Option<f64>, String> {
    const MOST_WHOLE: f64 = (1u64 << 53) as f64;
    match number(value) {
        Some(number) if value.get_type() == "int" && number.abs() >= MOST_WHOLE => {
            Err(format!("whole numbers from 2^53 on are not told apart, found {value}: a tuple may have several"))
        }
        number => Ok(number),
    }
}

/// A number as an integer of the same order.
fn ordered(number: f64) -> Result<u64, String> {
    if number.is_nan() {
        return Err("expected a number, found NaN".into());
    }
    // Both zeros are one.
    let bits = (number + 0.0).to_bits();
    Ok(if bits >> 63 == 0 { bits | 1 << 63 } else { !bits })
}

#[cfg(test)]
mod tests {
    use super::ordered;

    #[test]
    fn numbers_keep_their_order() {
        let all = [f64::NEG_INFINITY, -2.0, -1.5, -1e-300, 0.0, 1e-300, 1.5, 2.0, 1e300, f64::INFINITY];
        let keys: Vec<u64> = all.iter().map(|number| ordered(*number).expect("a number")).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        assert_eq!(ordered(-0.0), ordered(0.0));
        assert!(ordered(f64::NAN).is_err());
        // What comes last comes after all of them.
        assert!(keys.iter().all(|key| *key < u64::MAX));
    }
}
