//! `sandtable hardware watch`.

use std::io::IsTerminal;
use std::time::Duration;

use sandtable_hardware::live::{Clock, wait};
use sandtable_hardware::{Device, Reading, StandIn, Telemetry};
use serde_json::json;

use super::LibraryArgs;
use crate::columns::columns;
use crate::error::{Error, ExitCode};
use crate::spec::units::span;
use crate::table::Format;
use crate::ui;

/// Devices, again and again.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    library: LibraryArgs,
    /// Look so often.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span)]
    every: u64,
    /// Look so many times; by default until interrupted.
    #[arg(long, value_name = "N")]
    times: Option<u64>,
    /// Watch so many cores of the CPU that stand in for GPUs, and the jobs on them.
    #[arg(long, value_name = "N")]
    stand_in: Option<u32>,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &WatchArgs) -> Result<ExitCode, Error> {
    let mut telemetry: Box<dyn Telemetry> = match args.stand_in {
        Some(count) => Box::new(StandIn::new(count.clamp(1, 64), 4096).of_anybody()),
        None => crate::gpus::open(args.library.path(), None)?,
    };
    if args.every < 10_000 {
        return Err(Error::usage("expected at least 10ms between two looks"));
    }
    let devices = telemetry.devices().to_vec();
    let clock = Clock::start();
    // Duty cycles are counted from one look to the next.
    (0..devices.len()).for_each(|device| drop(telemetry.read(device, clock.now())));
    if args.format == Format::Csv {
        ui::result("at_s,device,busy_percent,memory_mib,power_w,processes\n");
    }
    let mut looks = 0;
    while args.times.is_none_or(|times| looks < times) {
        wait(Duration::from_micros(args.every));
        looks += 1;
        let mut rows = vec![["device", "busy", "memory", "power", "SM clock", "jobs"].map(str::to_string).to_vec()];
        for (index, device) in devices.iter().enumerate() {
            let reading = telemetry.read(index, clock.now());
            let processes = telemetry.processes(index);
            match args.format {
                Format::Table => rows.push(row(index, device, &reading, processes.as_deref())),
                Format::Json => ui::result(&format!("{}\n", json!({"reading": reading, "processes": processes}))),
                Format::Csv => ui::result(&line(&reading, processes.as_deref())),
            }
        }
        if args.format == Format::Table {
            // A terminal shows one table that changes, a file each of them.
            let again = if std::io::stdout().is_terminal() { "\x1b[2J\x1b[H" } else { "" };
            ui::result(&format!("{again}{}\n", columns(&rows)));
        }
        if ui::is_closed() {
            break;
        }
    }
    Ok(ExitCode::Done)
}

fn row(index: usize, device: &Device, reading: &Reading, processes: Option<&[(u32, u64)]>) -> Vec<String> {
    let none = || "-".to_string();
    let jobs = processes.map(|list| {
        let each = list.iter().map(|(pid, bytes)| format!("{pid} ({} MiB)", bytes >> 20));
        each.collect::<Vec<_>>().join(", ")
    });
    vec![
        format!("{} {index}", device.name),
        reading.busy.map_or_else(none, |busy| format!("{:.1} %", f64::from(busy) / 1000.0)),
        reading.memory_used.map_or_else(none, |bytes| format!("{} of {} MiB", bytes >> 20, device.memory_mib)),
        reading.power_mw.map_or_else(none, |milliwatts| format!("{:.1} W", f64::from(milliwatts) / 1000.0)),
        reading.sm_mhz.map_or_else(none, |megahertz| format!("{megahertz} MHz")),
        jobs.filter(|jobs| !jobs.is_empty()).unwrap_or_else(none),
    ]
}

fn line(reading: &Reading, processes: Option<&[(u32, u64)]>) -> String {
    let text = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    format!(
        "{},{},{},{},{},{}\n",
        crate::trace::seconds(reading.at),
        reading.device,
        text(reading.busy.map(|busy| f64::from(busy) / 1000.0)),
        text(reading.memory_used.map(|bytes| (bytes >> 20) as f64)),
        text(reading.power_mw.map(|milliwatts| f64::from(milliwatts) / 1000.0)),
        text(processes.map(|list| list.len() as f64)),
    )
}
