//! Everything that a policy can do wrong, each with one stable name: results and exit codes use it.

use std::fmt;

use sandtable_hardware::text::escape_control_chars;
use serde::{Deserialize, Serialize};

use crate::CONTRACT;
use crate::contract::{PolicyError, Quantity, RejectCode, Rejection};
use crate::limits::Limits;

/// Where in a policy's life a fault struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// While its memories and tables were made and its start function ran.
    Instantiate,
    /// In `describe`.
    Describe,
    /// In `init`.
    Init,
    /// In `decide`.
    Decide,
    /// In `explain`.
    Explain,
    /// While a predictor answered.
    Predict,
}

/// Why a file is no policy.
#[expect(missing_docs, reason = "the texts of the cases say what their fields are")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LoadFault {
    #[error("the file is empty")]
    Empty,
    #[error("not WebAssembly: expected a file that begins with \\0asm")]
    NotWasm,
    #[error("a core module, not a component (componentise it: `sandtable policy build`, `wasm-tools component new`)")]
    CoreModule,
    #[error("{found} bytes, more than the {limit} that a component may have")]
    TooLarge { found: usize, limit: usize },
    #[error("not a valid component: {0}")]
    Invalid(String),
    #[error("not a component of this world (sandtable:policy): {0}")]
    WrongWorld(String),
    #[error("built for version {0} of the contract; this host speaks {host}: build it anew (`sandtable policy build`)", host = CONTRACT)]
    OlderContract(String),
    #[error("built for version {0} of the contract; this host speaks {host}: a newer sandtable runs it", host = CONTRACT)]
    NewerContract(String),
}

/// What went wrong with a policy.
#[expect(missing_docs, reason = "the fields are what `Display` says of them")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The file can't be used.
    Load(LoadFault),
    /// The policy's own error.
    Refused { place: Place, error: PolicyError },
    /// It used up a call's fuel.
    OutOfFuel { place: Place, budget: u64, backtrace: Vec<String> },
    /// All its calls together used up the fuel of a run.
    OutOfFuelOfRun { budget: u64 },
    /// It took longer than a live run waits.
    TooSlow { place: Place, backtrace: Vec<String> },
    /// It recursed too deep.
    StackOverflow { place: Place, backtrace: Vec<String> },
    /// It asked for more memory than it may have.
    Memory { place: Place, wanted: usize, limit: usize, backtrace: Vec<String> },
    /// It asked for larger tables, or more instances, than it may have.
    Table { place: Place, wanted: usize, limit: usize },
    /// It has more memories, tables or instances than it may have.
    TooMany { place: Place, message: String },
    /// It handed over more data in one call than it may.
    TooMuchData { place: Place, limit: usize },
    /// It panicked; the message is its last words.
    Panicked { place: Place, message: String, backtrace: Vec<String> },
    /// Any other trap of WebAssembly.
    Trap { place: Place, trap: String, backtrace: Vec<String> },
    /// A value that the contract does not know: a pointer, a text, a case.
    BadValue { place: Place, message: String },
    /// It read the cluster when nothing was to be read.
    Closed { place: Place, function: String },
    /// A plan with actions that the rules forbid, under strict judging.
    BadPlan { rejections: Vec<Rejection> },
    /// It keeps itself busy and the cluster idle.
    Livelock { calls: u64 },
    /// It moved jobs so often that what happened to them fills the memory.
    TooManyStays { limit: usize },
    /// What the predictor that is bound to a quantity did wrong: not the policy's fault.
    Predictor {
        quantity: Quantity,
        /// The predictor's name, where it is known.
        name: Option<String>,
        fault: Box<Fault>,
    },
    /// The run was ended from outside: there is no result, and no guest is to blame.
    Stopped,
    /// What the machine lacks: memory, processes, a program. No result.
    Machine(String),
    /// A defect of the host: no result.
    Host(String),
}

impl Fault {
    /// Wraps the fault of a predictor whose name is not known here.
    pub(crate) fn of_predictor(quantity: Quantity, fault: Fault) -> Fault {
        Fault::Predictor { quantity, name: None, fault: Box::new(fault) }
    }

    /// The stable name.
    pub fn kind(&self) -> &'static str {
        match self {
            Fault::Load(LoadFault::Empty) => "load-empty",
            Fault::Load(LoadFault::NotWasm) => "load-not-wasm",
            Fault::Load(LoadFault::CoreModule) => "load-core-module",
            Fault::Load(LoadFault::TooLarge { .. }) => "load-too-large",
            Fault::Load(LoadFault::Invalid(_)) => "load-invalid",
            Fault::Load(LoadFault::WrongWorld(_)) => "load-wrong-world",
            Fault::Load(LoadFault::OlderContract(_)) => "load-older-contract",
            Fault::Load(LoadFault::NewerContract(_)) => "load-newer-contract",
            Fault::Refused { error: PolicyError::BadConfig(_), .. } => "refused-configuration",
            Fault::Refused { error: PolicyError::Unsupported(_), .. } => "refused-unsupported",
            Fault::Refused { error: PolicyError::Internal(_), .. } => "refused-internal",
            Fault::OutOfFuel { .. } => "out-of-fuel",
            Fault::OutOfFuelOfRun { .. } => "out-of-fuel-of-run",
            Fault::TooSlow { .. } => "too-slow",
            Fault::StackOverflow { .. } => "stack-overflow",
            Fault::Memory { .. } => "memory",
            Fault::Table { .. } => "table",
            Fault::TooMany { .. } => "too-many",
            Fault::TooMuchData { .. } => "too-much-data",
            Fault::Panicked { .. } => "panicked",
            Fault::Trap { .. } => "trap",
            Fault::BadValue { .. } => "bad-value",
            Fault::Closed { .. } => "closed",
            Fault::BadPlan { .. } => "bad-plan",
            Fault::Livelock { .. } => "livelock",
            Fault::TooManyStays { .. } => "too-many-stays",
            Fault::Predictor { .. } => "predictor",
            Fault::Stopped => "stopped",
            Fault::Machine(_) => "machine",
            Fault::Host(_) => "host",
        }
    }

    /// Whether no guest is to blame: there is no result.
    pub fn is_no_guests(&self) -> bool {
        match self {
            Fault::Stopped | Fault::Machine(_) | Fault::Host(_) => true,
            Fault::Predictor { fault, .. } => fault.is_no_guests(),
            _ => false,
        }
    }

    /// Where it struck, if that was in a call.
    pub fn place(&self) -> Option<Place> {
        match self {
            Fault::Refused { place, .. }
            | Fault::OutOfFuel { place, .. }
            | Fault::TooSlow { place, .. }
            | Fault::StackOverflow { place, .. }
            | Fault::Memory { place, .. }
            | Fault::Table { place, .. }
            | Fault::TooMany { place, .. }
            | Fault::TooMuchData { place, .. }
            | Fault::Panicked { place, .. }
            | Fault::Trap { place, .. }
            | Fault::BadValue { place, .. }
            | Fault::Closed { place, .. } => Some(*place),
            Fault::BadPlan { .. } | Fault::Livelock { .. } | Fault::TooManyStays { .. } => Some(Place::Decide),
            Fault::OutOfFuelOfRun { .. }
            | Fault::Load(_)
            | Fault::Predictor { .. }
            | Fault::Stopped
            | Fault::Machine(_)
            | Fault::Host(_) => None,
        }
    }

    /// The guest's functions on the stack, innermost first.
    pub fn backtrace(&self) -> &[String] {
        match self {
            Fault::OutOfFuel { backtrace, .. }
            | Fault::TooSlow { backtrace, .. }
            | Fault::StackOverflow { backtrace, .. }
            | Fault::Memory { backtrace, .. }
            | Fault::Panicked { backtrace, .. }
            | Fault::Trap { backtrace, .. } => backtrace,
            Fault::Predictor { fault, .. } => fault.backtrace(),
            _ => &[],
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::Instantiate => "instantiation",
            Place::Describe => "describe",
            Place::Init => "init",
            Place::Decide => "decide",
            Place::Explain => "explain",
            Place::Predict => "an answer",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Load(fault) => f.write_str(&escape_control_chars(&fault.to_string(), 1000)),
            Fault::Refused { error: PolicyError::BadConfig(why), .. } => {
                write!(f, "refused its configuration: {}", escape_control_chars(why, 1000))
            }
            Fault::Refused { error: PolicyError::Unsupported(why), .. } => {
                write!(f, "can't run in this experiment: {}", escape_control_chars(why, 1000))
            }
            Fault::Refused { place, error: PolicyError::Internal(why) } => {
                write!(f, "gave up in {place}: {}", escape_control_chars(why, 1000))
            }
            Fault::OutOfFuel { place, budget, .. } => write!(f, "ran out of fuel in {place}: it may use {budget}"),
            Fault::OutOfFuelOfRun { budget } => {
                write!(
                    f,
                    "ran out of the fuel of a run: all its calls together may use {budget} (`limits: Limits(run_fuel: …)`)"
                )
            }
            Fault::TooSlow { place, .. } => write!(f, "took longer in {place} than this live run waits"),
            Fault::StackOverflow { place, .. } => {
                write!(f, "recursed too deep in {place}: the stack has {} bytes", Limits::STACK)
            }
            Fault::Memory { place, wanted, limit, .. } => {
                write!(f, "grew too large in {place}: it wanted {wanted} bytes of memory and may have {limit}")
            }
            Fault::Table { place, wanted, limit } => {
                write!(f, "grew too large in {place}: it wanted {wanted} table elements and may have {limit}")
            }
            Fault::TooMany { place, message } => {
                write!(f, "grew too large in {place}: {}", escape_control_chars(message, 300))
            }
            Fault::TooMuchData { place, limit } => {
                write!(f, "handed over too much data in {place}: one call may hand over {limit} bytes")
            }
            Fault::Panicked { place, message, .. } => {
                write!(f, "panicked in {place}: {}", escape_control_chars(message, 1000))
            }
            Fault::Trap { place, trap, .. } => write!(f, "trapped in {place}: {}", escape_control_chars(trap, 300)),
            Fault::BadValue { place, message } => {
                write!(f, "broke the contract in {place}: {}", escape_control_chars(message, 300))
            }
            Fault::Closed { place, function } => {
                let function = escape_control_chars(function, 100);
                write!(f, "broke the contract in {place}: `{function}` answers only while `decide` or `explain` runs")
            }
            Fault::BadPlan { rejections } => bad_plan(f, rejections),
            Fault::Livelock { calls } => {
                write!(f, "would never end: {calls} calls, and nothing came of the last of them")
            }
            Fault::TooManyStays { limit } => {
                write!(f, "moved jobs too often: the stays of all jobs and the GPUs of each are {limit} at most")
            }
            Fault::Predictor { quantity, name, fault } => {
                let name = name.as_ref().map(|name| format!(" ({})", escape_control_chars(name, 200)));
                write!(f, "predictor for {quantity}{} failed: {fault}", name.unwrap_or_default())
            }
            Fault::Stopped => f.write_str("was ended before its result"),
            Fault::Machine(why) => write!(f, "this machine failed: {}", escape_control_chars(why, 1000)),
            Fault::Host(why) => write!(f, "the host failed: {}", escape_control_chars(why, 1000)),
        }
    }
}

fn bad_plan(f: &mut fmt::Formatter<'_>, rejections: &[Rejection]) -> fmt::Result {
    write!(f, "broke the contract with its plan: ")?;
    match rejections.first() {
        // The first two rules are about the whole plan.
        Some(first) if matches!(first.code, RejectCode::StalePlan | RejectCode::PlanTooLarge) => {
            f.write_str(&escape_control_chars(&first.message, 1000))?;
        }
        Some(first) => write!(f, "action {}: {}", first.index, escape_control_chars(&first.message, 1000))?,
        None => write!(f, "no reason given")?,
    }
    if rejections.len() > 1 {
        write!(f, " (and {} more)", rejections.len() - 1)?;
    }
    Ok(())
}

impl std::error::Error for Fault {}
