//! `sandtable hardware`: GPU models, the GPUs of this machine, and what jobs do to each other on them.

mod fidelity;
mod measure;
mod watch;

use std::path::PathBuf;

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_hardware::catalogue::{Figure, GpuModel, catalogue};
use serde_json::json;

use crate::commands::Format;
use crate::ui;

/// GPUs.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum HardwareCommand {
    /// List the catalogue of GPU models; `?` marks unverified figures.
    List(ListArgs),
    /// Print the driver, devices, links and working ways of preemption of this machine.
    Probe(ProbeArgs),
    /// Watch the devices of this machine.
    Watch(watch::WatchArgs),
    /// Measure built-in work alone and co-located, and write a profile for modelled fleets.
    Profile(measure::ProfileArgs),
    /// Run a live spec twice for real and once on the model, with a profile measured just before, and compare.
    Fidelity(fidelity::FidelityArgs),
}

/// The catalogue.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// List only models whose name contains this.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Output format; `json` has every figure with its source.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The driver's library.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct LibraryArgs {
    /// Path of the NVML library [default: as the loader finds it].
    #[arg(long, value_name = "FILE")]
    nvml: Option<PathBuf>,
}

impl LibraryArgs {
    pub(crate) fn path(&self) -> Option<&std::path::Path> {
        self.nvml.as_deref()
    }
}

/// This machine.
#[derive(Debug, clap::Args)]
pub(crate) struct ProbeArgs {
    #[command(flatten)]
    library: LibraryArgs,
    /// Folder of the MPS pipes.
    #[arg(long, value_name = "DIR", default_value = "/tmp/nvidia-mps")]
    mps: PathBuf,
    /// Also run built-in work on the first device, and move its memory to the host and back this many times.
    #[arg(long = "try", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    cycles: Option<u32>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(command: &HardwareCommand) -> Result<ExitCode, Error> {
    match command {
        HardwareCommand::List(args) => list(args),
        HardwareCommand::Probe(args) => probe(args),
        HardwareCommand::Watch(args) => watch::run(args),
        HardwareCommand::Profile(args) => measure::run(args),
        HardwareCommand::Fidelity(args) => fidelity::run(args),
    }
}

fn list(args: &ListArgs) -> Result<ExitCode, Error> {
    let wanted = args.name.as_deref().unwrap_or("").to_lowercase();
    let models: Vec<&GpuModel> =
        catalogue().models.iter().filter(|model| model.name.to_lowercase().contains(&wanted)).collect();
    if models.is_empty() {
        let known = catalogue().models.iter().map(|model| model.name.as_str());
        let error = Error::usage(format!("no GPU {:?} in the catalogue", args.name.as_deref().unwrap_or("")));
        let near = sandtable_core::text::nearest(args.name.as_deref().unwrap_or(""), known);
        return Err(near.map_or_else(
            || Error::usage(error.message.clone()),
            |near| Error::usage(error.message.clone()).hint(format!("did you mean {near:?}?")),
        ));
    }
    let figure = |figure: Option<&Figure>, scale: f64| match figure {
        None => "-".to_string(),
        Some(found) => {
            let value = libm::rint(found.0 / scale * 10.0) / 10.0;
            format!("{value}{}", if found.is_verified() { "" } else { "?" })
        }
    };
    ui::result(&match args.format {
        Format::Table => {
            let heads = ["SMs", "fp32 TF", "tf32", "bf16", "GiB", "GB/s", "L2 MB", "links", "PCIe", "W", "copied"];
            let mut columns = vec![Column::words("model")];
            columns.extend(heads.map(Column::number));
            let mut table = Frame::new(columns);
            for model in &models {
                let figures = [
                    figure(Some(&model.sms), 1.0),
                    figure(Some(&model.fp32_gflops), 1000.0),
                    figure(model.tf32_gflops.as_ref(), 1000.0),
                    figure(model.bf16_gflops.as_ref(), 1000.0),
                    figure(Some(&model.memory_mib), 1024.0),
                    figure(Some(&model.memory_gbps), 1.0),
                    figure(Some(&model.l2_mb), 1.0),
                    figure(model.link_gbps.as_ref(), 1.0),
                    figure(Some(&model.pcie), 1.0),
                    figure(Some(&model.watts), 1.0),
                    figure(model.achieved_gbps.as_ref(), 1.0),
                ];
                let mut row: Vec<Value> = vec![(&model.name).into()];
                row.extend(figures.map(Value::from));
                table.push(row);
            }
            table.text()
        }
        Format::Json => {
            let of = |(name, Figure(value, source)): (&'static str, &Figure)| {
                let said = catalogue().sources.get(source);
                (name.to_string(), json!({"value": value, "source": said, "verified": source != "m"}))
            };
            let line = |model: &&GpuModel| {
                let figures: serde_json::Map<_, _> = model.figures().into_iter().map(of).collect();
                json!({"model": model.name, "driver": model.driver, "figures": figures}).to_string() + "\n"
            };
            models.iter().map(line).collect()
        }
        Format::Csv => {
            let names = ["model", "figure", "value", "source"].map(Column::words);
            let mut table = Frame::new(names);
            for model in &models {
                for (name, Figure(value, source)) in model.figures() {
                    let said = catalogue().sources.get(source).map_or("", String::as_str);
                    table.push([(&model.name).into(), name.into(), (*value).into(), said.into()]);
                }
            }
            table.csv()
        }
    });
    Ok(ExitCode::Done)
}

#[cfg(not(feature = "nvidia"))]
fn probe(args: &ProbeArgs) -> Result<ExitCode, Error> {
    let _ = (&args.mps, args.format, args.cycles);
    sandtable_plan::gpus::open(args.library.path(), None).map(|_| ExitCode::Done)
}

#[cfg(feature = "nvidia")]
fn probe(args: &ProbeArgs) -> Result<ExitCode, Error> {
    use sandtable_hardware::nvidia::{Ability, ProbedDevice, probe};
    let found = probe(args.library.path(), &args.mps);
    let found = found.map_err(|error| Error { exit: ExitCode::Hardware, ..Error::usage(error.to_string()) })?;
    let trial = match args.cycles {
        Some(cycles) => {
            let mut telemetry = sandtable_plan::gpus::open(args.library.path(), None)?;
            Some(sandtable_run::trial::suspension(&mut *telemetry, cycles)?)
        }
        None => None,
    };
    if args.format != Format::Table {
        let text = serde_json::to_value(&found).and_then(|mut text| {
            text["tried"] = serde_json::to_value(&trial)?;
            Ok(text)
        });
        ui::result(&format!("{}\n", text.map_err(|error| Error::internal(error.to_string()))?));
        return Ok(ExitCode::Done);
    }
    let mut table = Frame::new(["what", "found"].map(Column::words));
    let mut add = |what: &str, found: String| table.push([what.into(), found.into()]);
    let ability = |of: &Ability| format!("{}: {}", if of.works { "yes" } else { "no" }, of.because);
    found.versions.iter().for_each(|(name, version)| add(name, version.clone()));
    add("CUDA usable", ability(&found.cuda));
    for (index, ProbedDevice { device, facts, now, fine_metrics, processes }) in found.devices.iter().enumerate() {
        let none = || "not told".to_string();
        let of = |what: &str| format!("device {index} {what}");
        add(&of("is"), format!("{} ({}), {}", device.name, device.kind, device.uuid));
        add(&of("memory"), format!("{} MiB, {} kept by the driver", device.memory_mib, device.reserved_mib));
        facts.iter().for_each(|(name, fact)| add(&of(name), fact.clone()));
        add(&of("busy"), now.busy.map_or_else(none, |busy| format!("{} %", busy / 1000)));
        add(&of("memory in use"), now.memory_used.map_or_else(none, |bytes| format!("{} MiB", bytes >> 20)));
        add(&of("power"), now.power_mw.map_or_else(none, |milliwatts| format!("{} W", milliwatts / 1000)));
        add(&of("fine metrics"), ability(fine_metrics));
        add(&of("processes"), processes.as_ref().map_or_else(none, |list| list.len().to_string()));
    }
    found.links.iter().for_each(|(pair, link)| add(&format!("devices {pair} meet at"), link.clone()));
    add("MPS", ability(&found.mps));
    found.levels.iter().for_each(|(level, of)| add(&format!("preemption by {level}"), ability(of)));
    if let Some(trial) = &trial {
        let size = trial.moved.map_or_else(String::new, |bytes| format!(" with {} MiB", bytes >> 20));
        let times = format!("{:.2} s away, {:.2} s back", trial.away.as_secs_f64(), trial.back.as_secs_f64());
        let failed = trial.failed.as_ref().map_or_else(String::new, |why| format!("; then failed: {why}"));
        add("suspended, tried", format!("{} times{size}, {times}{failed}", trial.cycles));
    }
    found.settings.iter().for_each(|(setting, value)| add(&format!("setting {setting}"), value.clone()));
    ui::result(&table.text());
    Ok(ExitCode::Done)
}
