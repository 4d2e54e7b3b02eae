//! Checks a policy before it is used: each check says what it found and what to do about it.
//!
//! A policy is run under random legal histories: fleets, arrivals, gangs, failures and durations drawn from a seed, on
//! exclusive and on shared GPUs and with elastic jobs. Every plan is judged strictly; every job must end.

mod histories;
mod report;
mod trial;

use std::path::Path;

use sandtable_core::error::Error;
use sandtable_core::output;
use sandtable_hardware::{Instant, SECOND, SimulatedBackend};
use sandtable_plan::spec::value_as_ron;
use sandtable_plan::{Cell, Options, plan};
use sandtable_runtime::Policy as _;
use sandtable_runtime::contract::{Descriptor, PolicyError, Wake};
use sandtable_runtime::fault::{Fault, Place};
use sandtable_runtime::inputs::Successor;
use sandtable_runtime::limits::Limits;
use sandtable_runtime::sandbox::{Component, Sandbox, Sandboxed, Settings, Variation};
use sandtable_runtime::schedule::run;
use serde_json::{Value, json};

use crate::code;
use crate::execute::{Compiled, inputs};
use crate::observed_policy::{Call, ObservedPolicy};

pub use histories::FleetKind;
use histories::{Ended, Tally};
pub use report::{Check, Report, Verdict};
use trial::{Relay, Seen, Trial, waiters, waiting, wide};

/// How a policy is tried.
#[derive(Clone, Debug, Default)]
pub struct Effort {
    /// Histories of each kind.
    pub histories: u64,
    /// The weights that it is given; empty: none.
    pub weights: Vec<u8>,
    /// The script that the policy `script` runs; none: its own.
    pub script: Option<String>,
}

struct CheckSuite<'a> {
    folder: &'a Path,
    component: Component,
    /// The same component, every NaN made canonical, called through wasmtime's component layer.
    otherwise: Component,
    fifo: Component,
    descriptor: Descriptor,
    report: Report,
    /// The script that it runs, if it is one that runs scripts.
    script: Option<&'a str>,
    /// Whether it has weights.
    weighted: bool,
}

/// Checks a policy; `name` is what its file is called.
///
/// ```
/// use sandtable_plan::artifact::Finder;
/// use sandtable_run::policy_check::{Effort, check};
///
/// let file = Finder::new("/".as_ref(), None).find("fifo").expect("a shipped policy");
/// let report = check("fifo", &file.bytes, &Effort { histories: 1, ..Effort::default() })?;
/// assert!(report.passed());
/// # Ok::<(), sandtable_core::error::Error>(())
/// ```
///
/// # Errors
/// Defects of ours, and a machine that can't run components. Whatever the policy does wrong is in the report.
pub fn check(name: &str, bytes: &[u8], effort: &Effort) -> Result<Report, Error> {
    let mut report = Report { checks: Vec::new(), plans: Vec::new() };
    let internal = |fault: Fault| Error::internal(fault.to_string());
    let sandbox = Sandbox::new(&code::settings(code::quiet)).map_err(internal)?;
    let component = match sandbox.load(bytes) {
        Ok(component) => component,
        Err(fault) => {
            report.fault("loads", &fault);
            return Ok(report);
        }
    };
    report.add("loads", Verdict::Ok, format!("a policy of {} bytes", bytes.len()), "");
    let descriptor = match described(&component, name, &mut report) {
        Ok(Some(descriptor)) => descriptor,
        Ok(None) => return Ok(report),
        Err(fault) => {
            report.fault("describes itself", &fault);
            return Ok(report);
        }
    };
    let variation = Variation { canonical_nan: true, component: true, ..Variation::default() };
    let otherwise = Sandbox::new(&Settings { variation, ..code::settings(code::quiet) }).map_err(internal)?;
    let fifo = sandtable_plan::artifact::Finder::new(Path::new("."), None).find("fifo").map_err(Error::usage)?;
    let folder = output::scratch()?;
    histories::write_profiles(folder.path())?;
    output::write(&folder.path().join("policy.wasm"), bytes)?;
    output::write(&folder.path().join("weights"), &effort.weights)?;
    let mut battery = CheckSuite {
        folder: folder.path(),
        component,
        otherwise: otherwise.load(bytes).map_err(internal)?,
        fifo: sandbox.load(&fifo.bytes).map_err(internal)?,
        descriptor,
        report,
        weighted: !effort.weights.is_empty(),
        script: effort.script.as_deref(),
    };
    battery.configuration()?;
    battery.histories(effort.histories)?;
    Ok(battery.report)
}

/// Fuel of one history: they are small, and of the shipped policies only `pollux`, with its search, needs over 5·10⁹.
const RUN_FUEL: u64 = 100_000_000_000;
/// Parameters that are tried with a value of another type: the first ones.
const PARAMETERS: usize = 64;
/// Calls of one history.
const CALLS: u64 = 200_000;

fn described(component: &Component, name: &str, report: &mut Report) -> Result<Option<Descriptor>, Fault> {
    let limits = Default::default();
    let mut policy = Sandboxed::new(component, limits)?;
    let (first, second) = (policy.describe()?, policy.describe()?);
    let other = Sandboxed::new(component, limits)?.describe()?;
    let text = |of: &Descriptor| format!("{of:?}");
    if text(&first) != text(&second) || text(&first) != text(&other) {
        let advice = "the descriptor is a constant: it must not depend on what was called before";
        report.add("describes itself", Verdict::Fail, "two calls of `describe` differ", advice);
        return Ok(None);
    }
    let schema: Option<Value> = serde_json::from_str(&first.config_schema).ok();
    let what = "describes itself";
    if first.name.is_empty() || first.about.is_empty() {
        report.add(what, Verdict::Warn, "no name, or no line about it", "fill `name` and `about`: lists show them");
    } else if schema.as_ref().is_none_or(|schema| !schema.is_object()) {
        let advice = "`config-schema` is a JSON Schema: users see it in `policy inspect`";
        report.add(what, Verdict::Warn, "its `config-schema` is no JSON object", advice);
    } else if first.name != name {
        let found = format!("it calls itself {:?}, its file is {name}.wasm", first.name);
        report.add(what, Verdict::Warn, found, "one name everywhere: results show the file's");
    } else {
        report.add(what, Verdict::Ok, format!("{}: {}", first.name, first.about), "");
    }
    Ok(Some(first))
}

/// Whether other histories would go the same way, each at the cost of a whole budget.
fn endless(fault: &Fault) -> bool {
    matches!(fault, Fault::OutOfFuelOfRun { .. } | Fault::Livelock { .. } | Fault::TooManyStays { .. })
}

impl CheckSuite<'_> {
    /// The cell of a history under a configuration.
    fn cell(&self, kind: FleetKind, seed: u64, predictors: &str, config: &str) -> Result<Cell, Error> {
        let path = self.folder.join("history.ron");
        let weights = if self.weighted { ", weights: \"./weights\"" } else { "" };
        let config = self.scripted(config);
        let text = histories::spec(kind, seed, predictors, &format!("{config}{weights}"));
        output::write(&path, text)?;
        let mut plan = plan(&path, &Options::default())?;
        plan.cells.pop().ok_or_else(|| Error::internal("a history without a cell"))
    }

    /// A configuration with the script.
    fn scripted(&self, config: &str) -> String {
        let Ok(Value::Object(mut all)) = serde_json::from_str::<Value>(config) else { return config.into() };
        if let Some(script) = self.script {
            all.entry("source").or_insert_with(|| script.into());
        }
        // A text of JSON has escapes that RON does not know.
        value_as_ron(&Value::Object(all))
    }

    fn live(&self, cell: &Cell, component: &Component, trial: Trial) -> Result<Result<Seen, Fault>, Error> {
        let jobs = cell.jobs()?;
        let compiled = Compiled::new(&Settings::default(), std::iter::empty())?;
        let predictors = compiled.predictors(cell).map_err(|fault| Error::internal(fault.to_string()))?;
        let mut inputs = inputs(cell, jobs.clone(), predictors);
        inputs.seed = trial.seed.unwrap_or(cell.seed);
        inputs.every_end_calls = trial.every_end_calls;
        let limits = Limits { run_fuel: RUN_FUEL, calls: CALLS, ..cell.setting.limits };
        inputs.limits = limits;
        let model = SimulatedBackend::new((*cell.fleet).clone(), jobs, &cell.setting.laws, cell.seed);
        let policy = match Sandboxed::new(component, limits) {
            Ok(policy) => policy,
            Err(fault) => return Ok(Err(fault)),
        };
        let mut hash = blake3::Hasher::new();
        let mut seen = |Call { batch, plan, .. }: &Call<'_>| {
            hash.update(json!([batch.seq, batch.now, plan.base, plan.actions]).to_string().as_bytes());
            true
        };
        let mut observed = ObservedPolicy::new(policy, &mut seen);
        let balance = |error: sandtable_runtime::AccountingError| Error::internal(format!("conservation: {error}"));
        let finished = match trial.after {
            None => run(&mut observed, Box::new(model), inputs).map_err(balance)?,
            Some(at) => {
                let fresh = match Sandboxed::new(component, limits) {
                    Ok(policy) => Box::new(policy),
                    Err(fault) => return Ok(Err(fault)),
                };
                let next = Successor {
                    name: "checked".into(),
                    policy: fresh,
                    config: cell.config.clone(),
                    weights: cell.weights.bytes.clone(),
                };
                inputs.succession = Some(Box::new(Relay(Some((at, next)))));
                inputs.config = "{}".into();
                let first = Sandboxed::new(&self.fifo, limits);
                let mut first = first.map_err(|fault| Error::internal(fault.to_string()))?;
                run(&mut first, Box::new(model), inputs).map_err(balance)?
            }
        };
        let (calls, most_fuel, memory) = (observed.calls, observed.most_fuel, observed.memory());
        let ends = observed.cadence.map(|cadence| cadence.ends);
        if let Some(fault) = &finished.fault {
            return Ok(Err(fault.clone()));
        }
        let plans = hash.finalize().to_hex().to_string();
        let stays = blake3::hash(format!("{:?}", finished.ledger.segments().collect::<Vec<_>>()).as_bytes())
            .to_hex()
            .to_string();
        Ok(Ok(Seen { finished, plans, stays, ends, calls, most_fuel, memory }))
    }

    /// Wrong configurations are refused, with a reason.
    fn configuration(&mut self) -> Result<(), Error> {
        // Where it would run: elsewhere it refuses before it reads its configuration.
        let mut home = FleetKind::Exclusive;
        for kind in FleetKind::ALL {
            let cell = self.cell(kind, 0, kind.oracles(), "{}")?;
            let seen = self.live(&cell, &self.component, Trial::default())?;
            if !matches!(seen, Err(Fault::Refused { error: PolicyError::Unsupported(_), .. })) {
                home = kind;
                break;
            }
        }
        let schema: Value = serde_json::from_str(&self.descriptor.config_schema).unwrap_or_default();
        let mut wrong = vec![("an unknown parameter".to_string(), "{\"no_such_parameter\": 1}".to_string())];
        for (name, of) in schema["properties"].as_object().into_iter().flatten().take(PARAMETERS) {
            if let Some(value) = ill_typed(of) {
                wrong.push((format!("`{name}` of another type"), format!("{{{name:?}: {value}}}")));
            }
        }
        for (what, config) in wrong {
            let cell = self.cell(home, 0, home.oracles(), &config)?;
            let what = format!("refuses {what}");
            match self.live(&cell, &self.component, Trial::default())? {
                Err(Fault::Refused { error: PolicyError::BadConfig(why), .. }) if !why.trim().is_empty() => {
                    self.report.add(what, Verdict::Ok, why, "");
                }
                Err(Fault::Refused { error: PolicyError::BadConfig(_), .. }) => {
                    self.report.add(what, Verdict::Warn, "refused without a word", "say what was expected");
                }
                Err(fault @ (Fault::Panicked { place: Place::Init, .. } | Fault::Refused { .. })) => {
                    let advice = "return `bad-config` with what was expected: a panic reads like a defect";
                    self.report.add(what, Verdict::Warn, format!("{}: {fault}", fault.kind()), advice);
                }
                Err(fault) => {
                    self.report.fault(what, &fault);
                    if endless(&fault) {
                        return Ok(());
                    }
                }
                Ok(_) => {
                    let advice = "check the configuration in `init`: a typo would give results of another policy";
                    self.report.add(what, Verdict::Fail, "accepted", advice);
                }
            }
        }
        Ok(())
    }

    fn histories(&mut self, of_each: u64) -> Result<(), Error> {
        let mut tally = Tally::default();
        for kind in FleetKind::ALL {
            let what = format!("random histories, {}", kind.name());
            let (mut ended, mut too_wide) = (Ended::All { wide: 0 }, 0);
            for seed in 0..of_each {
                ended = self.history(kind, seed, &what, &mut tally)?;
                match ended {
                    Ended::All { wide } => too_wide += wide,
                    Ended::Reported => break,
                    Ended::Never => return Ok(()),
                }
            }
            let runs = of_each;
            match (ended, too_wide) {
                (Ended::All { .. }, 0) => {
                    self.report.add(&what, Verdict::Ok, format!("{runs} runs, every job ended"), "");
                }
                (Ended::All { .. }, wide) => {
                    let found = format!("{runs} runs; {wide} gangs larger than a node never ran");
                    let advice = "place gangs on several nodes, or say in its description that it does not";
                    self.report.add(&what, Verdict::Warn, found, advice);
                }
                _ => {}
            }
        }
        let Tally { ran, calls, fuel, memory, follows, unlike, saving, woken } = tally;
        if ran == 0 {
            if self.report.passed() {
                let advice = "say in `needs` what it must be told: an experiment binds it";
                self.report.add("runs at all", Verdict::Fail, "it refused every fleet", advice);
            }
            return Ok(());
        }
        let what = "determinism";
        match unlike.first() {
            None => self.report.add(what, Verdict::Ok, format!("{ran} runs gave the same plans three times"), ""),
            Some(first) => {
                let advice = "no address, no hash order, no bit of a NaN may reach a plan";
                self.report.add(what, Verdict::Fail, format!("other plans: {first}"), advice);
            }
        }
        let found = match follows {
            0 => format!("the same plans under another seed in all of {ran} runs"),
            follows => format!("other plans under another seed in {follows} of {ran} runs"),
        };
        self.report.add("randomness", Verdict::Ok, found, "");
        match woken.first() {
            Some(first) => {
                let advice = "answer `ends: always`, or do nothing at an end while no job waits";
                self.report.add("ends while no job waits", Verdict::Fail, format!("they matter: {first}"), advice);
            }
            None if saving > 0 => {
                let found = format!("{saving} runs gave the same schedule when called for them");
                self.report.add("ends while no job waits", Verdict::Ok, found, "");
            }
            None => {}
        }
        if self.report.passed() {
            self.takeover()?;
            self.ignorance()?;
        }
        self.budget(fuel, memory, calls);
        Ok(())
    }

    /// One random history: reports what went wrong in it, and adds what it showed.
    fn history(&mut self, kind: FleetKind, seed: u64, what: &str, tally: &mut Tally) -> Result<Ended, Error> {
        let cell = self.cell(kind, seed, kind.oracles(), "{}")?;
        let seen = match self.live(&cell, &self.component, Trial::default())? {
            Ok(seen) => seen,
            Err(Fault::Refused { error: PolicyError::Unsupported(why), .. }) => {
                self.report.add(what, Verdict::Skip, format!("it says why: {why}"), "");
                return Ok(Ended::Reported);
            }
            Err(fault) => {
                self.report.fault(format!("{what}, seed {seed}"), &fault);
                return Ok(if endless(&fault) { Ended::Never } else { Ended::Reported });
            }
        };
        let (lost, wide) = (waiting(&seen), wide(&seen, &cell));
        if lost > wide {
            let idle = waiters(&seen).filter(|row| row.first_start.is_none()).count();
            let found = format!("seed {seed}: {lost} jobs never ended, {idle} of them never started");
            let advice = match idle >= lost {
                true => {
                    "a waiting job must be considered again when GPUs become free: at ends, and when a node is up again"
                }
                false => {
                    "a job that is put back (phase `queued`) waits again, and a node that fails takes its jobs with it"
                }
            };
            self.report.add(what, Verdict::Fail, found, advice);
            return Ok(Ended::Reported);
        }
        tally.ran += 1;
        tally.calls += seen.calls;
        (tally.fuel, tally.memory) = (seen.most_fuel.max(tally.fuel), seen.memory.max(tally.memory));
        self.report.plans.push(seen.plans.clone());
        let other_seed = Trial { seed: Some(seed + 1_000_003), ..Trial::default() };
        let other = self.live(&cell, &self.component, other_seed)?;
        tally.follows += usize::from(other.is_ok_and(|other| other.plans != seen.plans));
        let otherwise = "with canonical NaNs and through the component layer";
        for (how, component) in [("again", &self.component), (otherwise, &self.otherwise)] {
            let again = self.live(&cell, component, Trial::default())?;
            if again.map_or(true, |again| again.plans != seen.plans) {
                tally.unlike.push(format!("{}, seed {seed}, {how}", kind.name()));
            }
        }
        if seen.ends == Some(Wake::WhileWaiting) {
            tally.saving += 1;
            match self.live(&cell, &self.component, Trial { every_end_calls: true, ..Trial::default() })? {
                Ok(called) if called.stays == seen.stays => {}
                Ok(_) => tally.woken.push(format!("{}, seed {seed}", kind.name())),
                Err(fault) => self.report.fault(format!("{what}, seed {seed}, called for every end"), &fault),
            }
        }
        Ok(Ended::All { wide })
    }

    /// It takes over from FIFO in the middle of a run.
    fn takeover(&mut self) -> Result<(), Error> {
        let what = "takes over while jobs run (resync)";
        let mut ran = 0;
        for kind in FleetKind::ALL {
            for (seed, at) in [(0, 600), (1, 1800), (2, 3600)] {
                let cell = self.cell(kind, seed, kind.oracles(), "{}")?;
                let takeover = Trial { after: Some(Instant::at(at * SECOND)), ..Trial::default() };
                match self.live(&cell, &self.component, takeover)? {
                    Err(Fault::Refused { error: PolicyError::Unsupported(_), .. }) => break,
                    Err(fault) => {
                        self.report.fault(format!("{what}, {}, seed {seed}", kind.name()), &fault);
                        return Ok(());
                    }
                    Ok(seen) if !seen.finished.takeovers.iter().all(|takeover| takeover.begun) => break,
                    Ok(seen) if waiting(&seen) > wide(&seen, &cell) => {
                        let advice = "at trigger `resync` every live job is announced as new, then its phase: only `queued` ones wait";
                        let found = format!("{}, seed {seed}: jobs were left waiting", kind.name());
                        self.report.add(what, Verdict::Fail, found, advice);
                        return Ok(());
                    }
                    Ok(_) => ran += 1,
                }
            }
        }
        match ran {
            0 => self.report.add(what, Verdict::Skip, "nowhere could it begin", ""),
            ran => self.report.add(what, Verdict::Ok, format!("{ran} runs, every job ended"), ""),
        }
        Ok(())
    }

    /// Runs it without any prediction, and then with predictions that are far off.
    fn ignorance(&mut self) -> Result<(), Error> {
        for (what, wild) in [("predictions are unknown (NaN)", false), ("predictions are far off", true)] {
            let (mut ran, mut refused) = (0, None);
            for kind in FleetKind::ALL {
                let cell = self.cell(kind, 1, if wild { kind.noise() } else { "" }, "{}")?;
                match self.live(&cell, &self.component, Trial::default())? {
                    Err(Fault::Refused { error: PolicyError::Unsupported(why), .. }) => {
                        refused.get_or_insert(why);
                    }
                    Err(fault) => {
                        self.report.fault(format!("{what}, {}", kind.name()), &fault);
                        return Ok(());
                    }
                    Ok(seen) if waiting(&seen) > wide(&seen, &cell) => {
                        let found = format!("{}: jobs were left waiting", kind.name());
                        let advice = "NaN compares with nothing: decide what NaN (unknown) means, or say in `needs` that it must be told";
                        self.report.add(what, Verdict::Fail, found, advice);
                        return Ok(());
                    }
                    Ok(_) => ran += 1,
                }
            }
            match refused {
                Some(why) if ran == 0 => self.report.add(what, Verdict::Ok, format!("refused: {why}"), ""),
                _ => self.report.add(what, Verdict::Ok, "every job ended", ""),
            }
        }
        Ok(())
    }

    fn budget(&mut self, fuel: u64, memory: usize, calls: u64) {
        let limits = sandtable_runtime::limits::Limits::default();
        let (fuel_part, memory_part) =
            (fuel as f64 / limits.decide_fuel as f64 * 100.0, memory as f64 / limits.memory as f64 * 100.0);
        let found = format!(
            "{calls} calls; the dearest took {fuel_part:.2} % of its fuel, memory {:.1} MiB ({memory_part:.0} %)",
            memory as f64 / f64::from(1 << 20)
        );
        let tight = fuel_part > 10.0 || memory_part > 50.0;
        let advice = "these clusters are small: `sandtable policy bench` shows how it grows";
        match tight {
            true => self.report.add("budget", Verdict::Warn, found, advice),
            false => self.report.add("budget", Verdict::Ok, found, ""),
        }
    }
}

/// A value that a parameter's schema forbids for sure; none where it allows several types.
fn ill_typed(of: &Value) -> Option<&'static str> {
    match (of["enum"].as_array(), of["type"].as_str()) {
        (Some(words), _) if words.iter().all(Value::is_string) => Some("17"),
        (Some(_), _) => None,
        (None, Some("string")) => Some("17"),
        (None, Some("number" | "integer" | "boolean" | "array" | "object")) => Some("\"no such value\""),
        (None, _) => None,
    }
}
