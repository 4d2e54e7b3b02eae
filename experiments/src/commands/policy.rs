//! `sandtable policy`.

mod bench;

use std::path::{Path, PathBuf};

use sandtable_runtime::Policy as _;
use sandtable_runtime::capsule::Capsule;
use sandtable_runtime::contract::{Abilities, Descriptor, Knowledge};
use sandtable_runtime::sandbox::{Component, Limits, Sandbox, Sandboxed, Settings};
use serde_json::{Value, json};

use crate::artifact::manifest::{self, Entry};
use crate::artifact::{Finder, build, predictors, shipped, sources_of, workspace_above};
use crate::error::{Error, ExitCode};
use crate::trace::{read_bytes, seconds};
use crate::ui;

/// Policies.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum PolicyCommand {
    /// The shipped policies, in a line each.
    List,
    /// What a component says about itself: parameters, abilities, digest.
    Inspect {
        /// A shipped policy's name, or a file.
        policy: String,
        /// As a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Compile policies of this workspace to components, and write the manifest.
    Build {
        /// Their names; all by default.
        names: Vec<String>,
        /// Where components go; `policies/dist` by default.
        #[arg(long, value_name = "DIR")]
        output: Option<PathBuf>,
        /// Write nothing: fail where a component or its sources are not those of the manifest.
        #[arg(long)]
        check: bool,
    },
    /// Run a failed policy again, from the capsule that it left.
    Replay {
        /// `capsule.json.zst` of a failed cell.
        capsule: PathBuf,
        /// The component: a name or a file; by default the shipped one whose digest fits.
        #[arg(long)]
        policy: Option<String>,
    },
    /// Fuel, time and memory of a policy's decisions, by the number of jobs that arrive at once.
    Bench(bench::BenchArgs),
}

pub(crate) fn run(command: &PolicyCommand) -> Result<ExitCode, Error> {
    match command {
        PolicyCommand::List => list(),
        PolicyCommand::Inspect { policy, json } => inspect(policy, *json),
        PolicyCommand::Build { names, output, check } => build_all(names, output.as_deref(), *check),
        PolicyCommand::Replay { capsule, policy } => replay(capsule, policy.as_deref()),
        PolicyCommand::Bench(args) => bench::run(args),
    }
}

fn open(sandbox: &Sandbox, policy: &str) -> Result<(Component, Descriptor), Error> {
    let mut finder = Finder::new(Path::new("."), None);
    let file = finder.find(policy).map_err(Error::usage)?;
    let failed = |fault: sandtable_runtime::sandbox::Fault| Error {
        exit: ExitCode::PolicyFailed,
        ..Error::usage(format!("{policy} {}: {fault}", fault.kind()))
    };
    let component = sandbox.load(&file.bytes).map_err(failed)?;
    let mut instance = Sandboxed::new(&component, Limits::default()).map_err(failed)?;
    let descriptor = instance.describe().map_err(failed)?;
    Ok((component, descriptor))
}

fn sandbox() -> Result<Sandbox, Error> {
    Sandbox::new(&Settings::default()).map_err(|fault| Error::internal(fault.to_string()))
}

fn list() -> Result<ExitCode, Error> {
    let sandbox = sandbox()?;
    let mut out = String::new();
    for name in shipped() {
        let (component, descriptor) = open(&sandbox, name)?;
        out.push_str(&format!("{name:<12} {}  {}\n", &component.digest()[..10], descriptor.about));
    }
    ui::result(&out);
    Ok(ExitCode::Done)
}

fn inspect(policy: &str, as_json: bool) -> Result<ExitCode, Error> {
    let (component, descriptor) = open(&sandbox()?, policy)?;
    let schema: Value = serde_json::from_str(&descriptor.config_schema).unwrap_or(Value::Null);
    let names = |pairs: &[(&'static str, bool)]| -> Vec<&'static str> {
        pairs.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect()
    };
    let uses = names(&[
        ("preempt", descriptor.uses.contains(Abilities::PREEMPT)),
        ("timers", descriptor.uses.contains(Abilities::TIMERS)),
        ("share", descriptor.uses.contains(Abilities::SHARE)),
        ("throttle", descriptor.uses.contains(Abilities::THROTTLE)),
    ]);
    let needs = names(&[
        ("remaining", descriptor.needs.contains(Knowledge::REMAINING)),
        ("declared-run-time", descriptor.needs.contains(Knowledge::DECLARED_RUN_TIME)),
        ("solo-profile", descriptor.needs.contains(Knowledge::SOLO_PROFILE)),
        ("similarity", descriptor.needs.contains(Knowledge::SIMILARITY)),
        ("pair-speed", descriptor.needs.contains(Knowledge::PAIR_SPEED)),
    ]);
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
    out.push_str(&format!("uses    {} beside start\nneeds   {}\n", list(&uses), list(&needs)));
    if let Some(parameters) = schema["properties"].as_object().filter(|map| !map.is_empty()) {
        out.push_str("\nparameters\n");
        for (name, parameter) in parameters {
            let words = parameter["enum"]
                .as_array()
                .map(|words| words.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | "));
            let kind = words.unwrap_or_else(|| parameter["type"].as_str().unwrap_or("any").to_string());
            let about = parameter["description"].as_str().unwrap_or_default();
            out.push_str(&format!("  {name}: {kind} = {}\n      {about}\n", parameter["default"]));
        }
    }
    ui::result(&out);
    Ok(ExitCode::Done)
}

fn build_all(names: &[String], output: Option<&Path>, check: bool) -> Result<ExitCode, Error> {
    let hint = "policies are built inside a Sandtable checkout";
    let root = workspace_above(Path::new(".")).ok_or_else(|| Error::usage("no policies here").hint(hint))?;
    let dist = output.map_or_else(|| root.join("policies/dist"), Path::to_path_buf);
    let names: Vec<&str> = if names.is_empty() {
        shipped().chain(predictors()).collect()
    } else {
        names.iter().map(String::as_str).collect()
    };
    for name in &names {
        if !root.join(sources_of(name)).join("Cargo.toml").exists() {
            return Err(Error::usage(format!("no policy `{name}` in {}", root.join("policies").display())));
        }
    }
    let mut manifest = manifest::read(&dist)?;
    if check {
        return check_all(&root, &dist, &names, &manifest);
    }
    let toolchain = build::toolchain()?;
    std::fs::create_dir_all(&dist).map_err(|error| Error::file("make", &dist, &error))?;
    for name in names {
        let bytes = build::build(&root, name, &toolchain)?;
        let path = dist.join(format!("{name}.wasm"));
        std::fs::write(&path, &bytes).map_err(|error| Error::file("write", &path, &error))?;
        let component = crate::plan::digest(&bytes);
        ui::result(&format!("{name}  {} B  {}\n", bytes.len(), &component[..10]));
        let sources = manifest::sources(&root, name)?;
        manifest.insert(name.to_string(), Entry { component, sources, rustc: toolchain.version.clone() });
    }
    manifest::write(&dist, &manifest)?;
    Ok(ExitCode::Done)
}

/// The policy check: sources against the manifest; bytes too, where the compiler of the manifest is at hand.
fn check_all(root: &Path, dist: &Path, names: &[&str], manifest: &manifest::Manifest) -> Result<ExitCode, Error> {
    let toolchain = build::toolchain().ok();
    let mut code = ExitCode::Done;
    for name in names {
        let path = dist.join(format!("{name}.wasm"));
        let bytes = std::fs::read(&path).map_err(|error| Error::file("read", &path, &error))?;
        let digest = crate::plan::digest(&bytes);
        let verdict = match manifest.get(*name) {
            None => Err("not in the manifest".to_string()),
            Some(entry) if entry.component != digest => Err("the component is not the manifest's".into()),
            Some(entry) if entry.sources != manifest::sources(root, name)? => Err("its sources have changed".into()),
            Some(entry) => match toolchain.as_ref().filter(|toolchain| toolchain.version == entry.rustc) {
                Some(toolchain) if build::build(root, name, toolchain)? == bytes => {
                    Ok("bytes rebuilt and equal".to_string())
                }
                Some(_) => Err("a rebuild gives other bytes".into()),
                None => Ok(format!("sources as in the manifest; bytes not compared, no {} here", entry.rustc)),
            },
        };
        match verdict {
            Ok(how) => ui::result(&format!("{name}: {how}\n")),
            Err(why) => {
                code = ExitCode::CheckFailed;
                ui::note(&format!("error: {name}: {why}\nhint: `just policies {name}`"));
            }
        }
    }
    Ok(code)
}

fn replay(path: &Path, policy: Option<&str>) -> Result<ExitCode, Error> {
    let bytes = read_bytes(path)?;
    let capsule: Capsule = serde_json::from_slice(&bytes)
        .map_err(|error| Error::usage(format!("{}: no capsule: {error}", path.display())))?;
    let mut finder = Finder::new(Path::new("."), None);
    let file = match policy {
        Some(name) => finder.find(name).map_err(Error::usage)?,
        None => {
            let mut all = shipped().filter_map(|name| finder.find(name).ok());
            let fits = all.find(|file| file.digest == capsule.component);
            fits.ok_or_else(|| {
                Error::usage(format!("no shipped policy has the digest {}", capsule.component))
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
    let last = capsule
        .steps
        .last()
        .map_or("init".to_string(), |step| format!("batch {} at {} s", step.batch.seq, seconds(step.batch.now)));
    let ended = capsule.replay(&component);
    let same = match (&ended, &capsule.fault) {
        (Err(fault), recorded) => fault == recorded,
        // Plans are judged outside of the policy: that they break the rules is in the capsule, not in the replay.
        (
            Ok(()),
            sandtable_runtime::sandbox::Fault::BadPlan { .. } | sandtable_runtime::sandbox::Fault::Livelock { .. },
        ) => true,
        (Ok(()), _) => false,
    };
    let found = ended.err().unwrap_or(capsule.fault);
    let verdict = if same { "the same fault" } else { "ANOTHER end" };
    ui::result(&format!("{calls} calls replayed, up to {last}: {verdict}: {found}\n"));
    for frame in found.backtrace() {
        ui::result(&format!("    at {frame}\n"));
    }
    Ok(if same { ExitCode::Done } else { ExitCode::CheckFailed })
}
