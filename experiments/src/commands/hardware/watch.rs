//! `sandtable hardware watch`.

use std::io::IsTerminal;

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_core::units::span;
use sandtable_hardware::live::{Clock, wait};
use sandtable_hardware::{Device, Duration, Reading, StandIn, Telemetry};
use serde_json::json;

use super::LibraryArgs;
use crate::commands::Format;
use crate::ui;

/// Devices, again and again.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    library: LibraryArgs,
    /// Time between two readings.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span)]
    every: Duration,
    /// Number of readings [default: until interrupted].
    #[arg(long, value_name = "N")]
    times: Option<u64>,
    /// Watch this many CPU cores that stand in for GPUs, and the jobs on them.
    #[arg(long, value_name = "N")]
    stand_in: Option<u32>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &WatchArgs) -> Result<ExitCode, Error> {
    let mut telemetry: Box<dyn Telemetry> = match args.stand_in {
        Some(count) => Box::new(StandIn::new(count.clamp(1, 64), 4096).of_every_host()),
        None => sandtable_plan::gpus::open(args.library.path(), None)?,
    };
    if args.every < Duration::from_millis(10) {
        return Err(Error::usage("expected at least 10ms between two looks"));
    }
    let devices = telemetry.devices().to_vec();
    let clock = Clock::start();
    // Duty cycles are counted from one look to the next.
    (0..devices.len()).for_each(|device| drop(telemetry.read(device, clock.now())));
    if args.format == Format::Csv {
        ui::result(&columns().csv_header());
    }
    let mut looks = 0;
    while args.times.is_none_or(|times| looks < times) {
        wait(args.every);
        looks += 1;
        let mut table = columns();
        for (index, device) in devices.iter().enumerate() {
            let reading = telemetry.read(index, clock.now());
            let processes = telemetry.processes(index);
            match args.format {
                Format::Json => ui::result(&format!("{}\n", json!({"reading": reading, "processes": processes}))),
                _ => table.push(row(index, device, &reading, processes.as_deref())),
            }
        }
        if args.format == Format::Csv {
            ui::result(&table.csv_rows());
        }
        if args.format == Format::Table {
            // A terminal shows one table that changes, a file each of them.
            let again = if std::io::stdout().is_terminal() { "\x1b[2J\x1b[H" } else { "" };
            ui::result(&format!("{again}{}\n", table.text()));
        }
        if ui::is_closed() {
            break;
        }
    }
    Ok(ExitCode::Done)
}

fn columns() -> Frame {
    Frame::new([
        Column::number("at_s").in_text(false),
        Column::words("device"),
        Column::words("busy_percent").head("busy"),
        Column::words("memory_mib").head("memory"),
        Column::words("power_w").head("power"),
        Column::words("sm_mhz").head("SM clock").in_csv(false),
        Column::words("processes").head("jobs"),
    ])
}

fn row(index: usize, device: &Device, reading: &Reading, processes: Option<&[(u32, u64)]>) -> [Value; 7] {
    let jobs = processes.map(|list| {
        let each = list.iter().map(|(pid, bytes)| format!("{pid} ({} MiB)", bytes >> 20));
        each.collect::<Vec<_>>().join(", ")
    });
    let jobs = jobs.filter(|jobs| !jobs.is_empty()).unwrap_or("-".into());
    let percent =
        |busy: u32| Value::Number(f64::from(busy) / 1000.0).shown(format!("{:.1} %", f64::from(busy) / 1000.0));
    let used = |bytes: u64| Value::Count(bytes >> 20).shown(format!("{} of {} MiB", bytes >> 20, device.memory_mib));
    let watts =
        |power: u32| Value::Number(f64::from(power) / 1000.0).shown(format!("{:.1} W", f64::from(power) / 1000.0));
    [
        (reading.at.as_secs_f64()).into(),
        Value::from(reading.device).shown(format!("{} {index}", device.name)),
        reading.busy.map(percent).into(),
        reading.memory_used.map(used).into(),
        reading.power_mw.map(watts).into(),
        reading.sm_mhz.map(|megahertz| format!("{megahertz} MHz")).into(),
        Value::from(processes.map(<[_]>::len)).shown(jobs),
    ]
}
