//! `sandtable policy`.

mod bench;
mod build;
mod check;
mod dev;
mod layout;
mod new;

use std::path::{Path, PathBuf};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::text;
use sandtable_hardware::Duration;
use sandtable_inputs::trace::seconds;
use sandtable_plan::MAX_WEIGHTS;
use sandtable_plan::artifact::{Finder, SCRIPT, is_script, shipped};
use sandtable_run::code;
use sandtable_runtime::Policy as _;
use sandtable_runtime::contract::{Abilities, Descriptor, Knowledge};
use sandtable_runtime::limits::Limits;
use sandtable_runtime::sandbox::{Component, Sandbox, Sandboxed};
use serde_json::{Value, json};

use crate::commands::in_script;
use crate::ui;

/// Policies.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum PolicyCommand {
    /// List the shipped policies.
    List,
    /// Print what a component says about itself: parameters, abilities, digest.
    Inspect {
        /// A shipped policy's name, or a file.
        policy: String,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Create a policy: a folder that builds, passes `policy check` and runs.
    New(new::NewArgs),
    /// Compile policies to components: of folders, or of this workspace.
    Build(build::BuildArgs),
    /// Check a policy before it is used in experiments.
    Check(check::CheckArgs),
    /// Build, check and run a policy whenever a file of it changes.
    Dev(dev::DevArgs),
    /// Run a failed policy again from its capsule.
    Replay {
        /// `capsule.json.zst` of a failed cell.
        capsule: PathBuf,
        /// The component, a name or a file [default: the shipped one with the same digest].
        #[arg(long)]
        policy: Option<String>,
    },
    /// Put a policy into an OCI layout.
    Push(layout::PushArgs),
    /// Take a policy out of an OCI layout.
    Pull(layout::PullArgs),
    /// Measure fuel, time and memory of a policy's decisions by the number of jobs that arrive at once.
    Bench(bench::BenchArgs),
}

/// The weights of a file that was named, if one was.
fn weights(file: Option<&Path>) -> Result<Vec<u8>, Error> {
    file.map_or(Ok(Vec::new()), |file| sandtable_core::input::read(file, MAX_WEIGHTS as u64))
}

pub(crate) fn run(command: &PolicyCommand) -> Result<ExitCode, Error> {
    match command {
        PolicyCommand::List => list(),
        PolicyCommand::Inspect { policy, json } => inspect(policy, *json),
        PolicyCommand::New(args) => new::run(args),
        PolicyCommand::Build(args) => build::run(args),
        PolicyCommand::Check(args) => check::run(args),
        PolicyCommand::Dev(args) => dev::run(args),
        PolicyCommand::Replay { capsule, policy } => replay(capsule, policy.as_deref()),
        PolicyCommand::Push(args) => layout::push(args),
        PolicyCommand::Pull(args) => layout::pull(args),
        PolicyCommand::Bench(args) => bench::run(args),
    }
}

fn open(sandbox: &Sandbox, finder: &mut Finder, policy: &str) -> Result<(Component, Descriptor), Error> {
    // A script is what its interpreter is told.
    let name = if is_script(policy) { SCRIPT } else { policy };
    let file = finder.find(name).map_err(Error::usage)?;
    let failed = |fault: sandtable_runtime::fault::Fault| Error {
        exit: if fault.is_no_guests() { ExitCode::Usage } else { ExitCode::PolicyFailed },
        ..Error::usage(format!("{policy} {}: {fault}", fault.kind()))
    };
    let component = sandbox.load(&file.bytes).map_err(failed)?;
    let mut instance = Sandboxed::new(&component, Limits::default()).map_err(failed)?;
    let descriptor = instance.describe().map_err(failed)?;
    Ok((component, descriptor))
}

fn sandbox() -> Result<Sandbox, Error> {
    Sandbox::new(&code::settings(ui::note)).map_err(|fault| Error::internal(fault.to_string()))
}

fn list() -> Result<ExitCode, Error> {
    let (sandbox, mut finder) = (sandbox()?, Finder::new(Path::new("."), None));
    for name in shipped() {
        let (component, descriptor) = open(&sandbox, &mut finder, name)?;
        // Line by line: what was never compiled takes half a second each.
        ui::result(&format!("{name:<12} {}  {}\n", &component.digest()[..10], descriptor.about));
    }
    Ok(ExitCode::Done)
}

fn inspect(policy: &str, as_json: bool) -> Result<ExitCode, Error> {
    let (component, descriptor) = open(&sandbox()?, &mut Finder::new(Path::new("."), None), policy)?;
    let schema: Value = serde_json::from_str(&descriptor.config_schema).unwrap_or(Value::Null);
    let named = |(name, is_on): (&'static str, bool)| is_on.then_some(name);
    let uses = Abilities::NAMES.iter().map(|(name, flag)| (*name, descriptor.uses.contains(*flag)));
    let needs = Knowledge::NAMES.iter().map(|(name, flag)| (*name, descriptor.needs.contains(*flag)));
    let (uses, needs): (Vec<&str>, Vec<&str>) = (uses.filter_map(named).collect(), needs.filter_map(named).collect());
    if as_json {
        let all = json!({
            "name": descriptor.name, "version": descriptor.version, "about": descriptor.about,
            "blake3": component.digest(), "uses": uses, "needs": needs, "schema": schema,
        });
        ui::result(&(all.to_string() + "\n"));
        return Ok(ExitCode::Done);
    }
    let list = |names: &[&str]| if names.is_empty() { "nothing".to_string() } else { names.join(", ") };
    let mut out = format!("{} {}\n{}\n\n", descriptor.name, descriptor.version, descriptor.about);
    out.push_str(&format!("blake3  {}\n", component.digest()));
    let uses: Vec<&str> = std::iter::once("start").chain(uses).collect();
    out.push_str(&format!("uses    {}\nneeds   {}\n", uses.join(", "), list(&needs)));
    if let Some(parameters) = schema["properties"].as_object().filter(|map| !map.is_empty()) {
        out.push_str("\nparameters\n");
        for (name, parameter) in parameters {
            let words = parameter["enum"]
                .as_array()
                .map(|words| words.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | "));
            let kind = words.unwrap_or_else(|| text::line(parameter["type"].as_str().unwrap_or("any")));
            let about = text::line(parameter["description"].as_str().unwrap_or_default());
            out.push_str(&format!("  {}: {kind} = {}\n      {about}\n", text::line(name), parameter["default"]));
        }
    }
    ui::result(&out);
    Ok(ExitCode::Done)
}

fn replay(path: &Path, policy: Option<&str>) -> Result<ExitCode, Error> {
    let capsule = sandtable_plan::recording::capsule(path)?;
    let mut finder = Finder::new(Path::new("."), None);
    let file = match policy {
        Some(name) => finder.find(name).map_err(Error::usage)?,
        None => {
            let mut all = shipped().filter_map(|name| finder.find(name).ok());
            let fits = all.find(|file| file.digest == capsule.component);
            fits.ok_or_else(|| {
                Error::usage(format!("no shipped policy has the digest {}", text::line(&capsule.component)))
                    .hint("name the file: --policy FILE")
            })?
        }
    };
    if file.digest != capsule.component {
        ui::note(&format!(
            "warning: the capsule is of {}, this is {}",
            capsule.component.get(..10).unwrap_or(&capsule.component),
            &file.digest[..10]
        ));
    }
    let sandbox = sandbox()?;
    let component = sandbox.load(&file.bytes).map_err(|fault| Error::usage(fault.to_string()))?;
    let calls = capsule.steps.len();
    let last = capsule.steps.last().map_or("init".to_string(), |step| {
        format!("batch {} at {} s", step.batch.seq, seconds(Duration::from_micros(step.batch.now)))
    });
    let ended = capsule.replay(&component);
    let same = match (&ended, &capsule.fault) {
        (Err(fault), recorded) => fault == recorded,
        // Plans are judged outside of the policy: that they break the rules is in the capsule, not in the replay.
        (
            Ok(()),
            sandtable_runtime::fault::Fault::BadPlan { .. } | sandtable_runtime::fault::Fault::Livelock { .. },
        ) => true,
        (Ok(()), _) => false,
    };
    let found = ended.err().unwrap_or(capsule.fault);
    let verdict = if same { "the same fault" } else { "ANOTHER end" };
    let said = format!("{calls} calls replayed, up to {last}: {verdict}: {found}");
    let drawn = in_script::script_in(&capsule.setup.config)
        .and_then(|script| in_script::drawn("script", &script, &found.to_string()));
    ui::result(&format!("{said}\n"));
    ui::result(&drawn.map_or_else(String::new, |drawn| format!("{drawn}\n")));
    for frame in in_script::named(found.backtrace()) {
        ui::result(&format!("    at {frame}\n"));
    }
    Ok(if same { ExitCode::Done } else { ExitCode::CheckFailed })
}
