//! Whether a job's device memory can really be moved to the host and back: tried on built-in work. That the driver has the
//! functions says less: each process, and each kind of virtual machine, may refuse.

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::{input, output};
use sandtable_hardware::live::{Clock, Process, wait};
use sandtable_hardware::{Duration, Instant, MoveMemory, Telemetry};
use serde::Serialize;

use crate::measure;

/// The family that is moved: the one that holds most.
const FAMILY: &str = "copy";
/// A process that takes no step for so long after it was brought back will not.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a suspended process is watched.
const STILL: Duration = Duration::from_millis(200);

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// The family that was moved.
    pub family: &'static str,
    /// Times that it was moved to the host and back.
    pub cycles: u32,
    /// Bytes that the device had free then and not before; none: the device does not tell.
    pub moved: Option<u64>,
    /// Median time to the host, in microseconds.
    pub away: Duration,
    /// Median time back, in microseconds.
    pub back: Duration,
    /// Why it ended before all cycles were done.
    pub failed: Option<String>,
}

/// Moves built-in work on the first device to the host and back, so many times.
///
/// # Errors
/// Work that does not run on the device. That it can't be moved is no error but an outcome.
pub fn suspension(telemetry: &mut dyn Telemetry, cycles: u32) -> Result<Trial, Error> {
    let folder = output::scratch()?;
    let launch = measure::launch(telemetry, 0, folder.path(), FAMILY, None)?;
    let clock = Clock::start();
    let mut process = measure::started(&input::program()?, &launch, FAMILY, clock)?;
    let Some(mover) = telemetry.mover() else {
        let error = Error::usage("this device has no way to move memory to the host");
        return Err(Error { exit: ExitCode::Hardware, ..error });
    };
    let (mut away, mut back, mut moved) = (Vec::new(), Vec::new(), None);
    let mut trial =
        Trial { family: FAMILY, cycles: 0, moved: None, away: Duration::ZERO, back: Duration::ZERO, failed: None };
    for _ in 0..cycles {
        match cycle(telemetry, mover, &mut process, clock) {
            Ok(found) => {
                away.push(found.0.as_micros_f64());
                back.push(found.1.as_micros_f64());
                moved = found.2.or(moved);
                trial.cycles += 1;
            }
            Err(why) => {
                trial.failed = Some(why);
                break;
            }
        }
    }
    (trial.moved, trial.away, trial.back) = (moved, measure::middle(&mut away), measure::middle(&mut back));
    if let Some(ending) = process.ending().filter(|_| trial.failed.is_none()) {
        let message = format!("{FAMILY} ended while it was tried: {ending:?}");
        return Err(Error { exit: ExitCode::Hardware, ..Error::usage(message) });
    }
    Ok(trial)
}

/// To the host and back once: both times, and the bytes that came free.
fn cycle(
    telemetry: &mut dyn Telemetry,
    mover: MoveMemory,
    process: &mut Process,
    clock: Clock,
) -> Result<(Duration, Duration, Option<u64>), String> {
    let used = |telemetry: &mut dyn Telemetry| telemetry.read(0, Instant::START).memory_used;
    let before = used(telemetry);
    let began = clock.now();
    mover(process.id(), true)?;
    let away = clock.now() - began;
    let moved = before.zip(used(telemetry)).map(|(before, after)| before.saturating_sub(after));
    // What it said before it was suspended may still be on its way.
    wait(STILL / 2);
    let said = process.listener.now().lines;
    wait(STILL);
    let still = process.listener.now().lines == said;
    let began = clock.now();
    mover(process.id(), false)?;
    let back = clock.now() - began;
    if !still {
        return Err("it went on while it was suspended".into());
    }
    let said = process.listener.now().lines;
    while process.listener.now().lines == said {
        if let Some(ending) = process.ending() {
            return Err(format!("it ended after it was brought back: {ending:?}"));
        }
        if clock.now() > began + PATIENCE {
            return Err("it took no step after it was brought back".into());
        }
        wait(Duration::from_millis(2));
    }
    Ok((away, back, moved))
}
