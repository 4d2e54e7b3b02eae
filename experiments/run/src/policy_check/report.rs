//! What a check found, and what its author does about it.

use sandtable_runtime::contract::PolicyError;
use sandtable_runtime::fault::{Fault, LoadFault};

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It runs, and users will stumble over it.
    Warn,
    /// It breaks the contract, or would fail a user's run.
    Fail,
    /// Not tried: it does not apply, or something before it failed.
    Skip,
}

impl Verdict {
    /// A word for tables.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warn => "warning",
            Verdict::Fail => "FAIL",
            Verdict::Skip => "skipped",
        }
    }
}

/// One check.
#[derive(Clone, Debug)]
pub struct Check {
    /// What was asked.
    pub what: String,
    /// How it ended.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it; empty where nothing is to be done.
    pub advice: &'static str,
}

/// The checks of one policy.
pub struct Report {
    /// In the order in which they were made.
    pub checks: Vec<Check>,
    /// The blake3 of every plan of every history, in their order.
    pub plans: Vec<String>,
}

impl Report {
    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.verdict != Verdict::Fail)
    }

    /// How many ended so.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.checks.iter().filter(|check| check.verdict == verdict).count()
    }

    /// Adds a check.
    pub fn add(&mut self, what: impl Into<String>, verdict: Verdict, found: impl Into<String>, advice: &'static str) {
        // A guest's words, and names of its parameters, are in both.
        let [what, found] = [what.into(), found.into()].map(|text| sandtable_core::text::line(&text));
        self.checks.push(Check { what, verdict, found, advice });
    }

    pub(super) fn fault(&mut self, what: impl Into<String>, fault: &Fault) {
        let mut found = format!("{}: {fault}", fault.kind());
        if let Some(frame) = fault.backtrace().first() {
            found.push_str(&format!(", at {frame}"));
        }
        self.add(what, Verdict::Fail, found, advice(fault));
    }
}

/// What an author does about a fault.
fn advice(fault: &Fault) -> &'static str {
    match fault {
        Fault::Load(LoadFault::CoreModule) => {
            "make it a component: `sandtable policy build`, or `wasm-tools component new`"
        }
        Fault::Load(LoadFault::WrongWorld(_)) => {
            "build it against the world `policy` of wit/policy.wit, and give it no WASI: `sandtable policy new` begins a project that is"
        }
        Fault::Load(LoadFault::OlderContract(_)) => {
            "build it against wit/policy.wit of this sandtable: `sandtable policy new` shows what has changed"
        }
        Fault::Load(LoadFault::NewerContract(_)) => "install the sandtable that it was built for, or a later one",
        Fault::Load(_) => "build it anew: the file is cut off, too large or no WebAssembly",
        Fault::Refused { error: PolicyError::BadConfig(_), .. } => "every parameter needs a default: `{}` must do",
        Fault::Refused { error: PolicyError::Unsupported(_), .. } => "say in `needs` what it must be told",
        Fault::Refused { .. } => "the text is the policy's own: an error of `decide` ends the run",
        Fault::OutOfFuel { .. } => {
            "do less in one call: an endless loop, or work that grows with the cluster's history"
        }
        Fault::TooSlow { .. } => "do less in one call",
        Fault::StackOverflow { .. } => "make the recursion a loop",
        Fault::Memory { .. } | Fault::Table { .. } | Fault::TooMany { .. } => {
            "forget what has ended: state must not grow with time"
        }
        Fault::TooMuchData { .. } => "hand over less in one call: plans, log lines and questions count",
        Fault::Panicked { .. } => "see the message: a policy must answer every legal batch",
        Fault::Trap { .. } => {
            "a trap has no text of its own: report panics with `log.panic`, as the SDK and the templates do"
        }
        Fault::BadValue { .. } => {
            "a value that the contract does not know: are the bindings of this contract's version?"
        }
        Fault::Closed { .. } => "ask the cluster only while `decide` runs",
        Fault::BadPlan { .. } => {
            "plan against the cluster as it stands now: take in every event first, or ask `cluster.check`"
        }
        Fault::OutOfFuelOfRun { .. } => "do less in each call, or be called less often",
        Fault::TooManyStays { .. } => "leave jobs where they are for longer",
        Fault::Livelock { .. } => "set timers only for instants at which something is to be done",
        Fault::Predictor { .. } | Fault::Stopped | Fault::Machine(_) | Fault::Host(_) => "not the policy's: report it",
    }
}
