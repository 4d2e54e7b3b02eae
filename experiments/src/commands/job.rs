//! Hidden commands through which the jobs of a live run are started.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::input;
use sandtable_hardware::live;
use sandtable_hardware::work::{self, Core, Kind, Orders, WorkEngine};

use crate::ui;

/// The command, in a session of its own.
#[derive(Debug, clap::Args)]
pub(crate) struct ShimArgs {
    /// The process that starts it: without it there is nothing to do.
    #[arg(long)]
    host: u32,
    /// Bytes that a file may have.
    #[arg(long)]
    file_bytes: u64,
    /// The folder of its control group.
    #[arg(long)]
    group: Option<PathBuf>,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// The process that ends all that a command starts.
#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    /// Bytes that a file may have.
    #[arg(long)]
    file_bytes: u64,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Built-in work.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkArgs {
    /// A family.
    family: String,
    /// Steps.
    #[arg(long)]
    steps: u64,
    /// One of the ranks that only keep the device as busy as a gang does.
    #[arg(long, hide = true)]
    rank: bool,
}

/// `job-shim`.
pub(crate) fn shim(args: &ShimArgs) -> Error {
    let error = live::shim(args.host, args.file_bytes, args.group.as_deref(), &args.command);
    Error::usage(format!("cannot run {}: {error}", args.command.join(" ")))
}

/// `job-guard`.
pub(crate) fn guard(args: &GuardArgs) -> Result<ExitCode, Error> {
    match live::guard(args.file_bytes, &args.command) {
        Ok(()) => Ok(ExitCode::Done),
        Err(error) => Err(Error::usage(format!("cannot run {}: {error}", args.command.join(" ")))),
    }
}

#[expect(clippy::disallowed_methods, reason = "the host tells a job by its environment: nothing here is a result")]
fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Ends the ranks of a gang.
fn end(ranks: &mut [Child]) {
    for rank in ranks {
        let _ = rank.kill();
        let _ = rank.wait();
    }
}

/// What a rank prints before its first step.
const READY: &str = "ready\n";

/// Starts all ranks of a gang but the first, and waits until each could take its first step: a gang begins together.
fn ranks(family: &str, slots: u32) -> Result<Vec<Child>, Error> {
    let mut ranks = Vec::new();
    for _ in 1..slots {
        let mut rank = std::process::Command::new(input::program()?);
        rank.args(["hw-job", family, "--rank", "--steps", &u64::MAX.to_string()]).stdout(Stdio::piped());
        rank.env("SANDTABLE_SLOTS", "1").env_remove("SANDTABLE_PROGRESS_FD").env_remove("SANDTABLE_RESTORE");
        // The first one saves for all.
        rank.env_remove("SANDTABLE_STATE");
        match rank.spawn() {
            Ok(rank) => ranks.push(rank),
            Err(error) => {
                end(&mut ranks);
                return Err(Error::usage(format!("no process for a rank: {error}")));
            }
        }
    }
    let mut ready = true;
    for rank in &mut ranks {
        let mut said = String::new();
        let read = rank.stdout.take().map(|pipe| BufReader::new(pipe).read_line(&mut said));
        ready &= matches!(read, Some(Ok(_))) && said == READY;
    }
    if ready {
        return Ok(ranks);
    }
    end(&mut ranks);
    Err(Error::usage(format!("a rank of {family} ended before its first step")))
}

/// `hw-job`: the process' exit code, which may be that of a saved job.
pub(crate) fn work(args: &WorkArgs) -> Result<u8, Error> {
    let Some(family) = work::find(&args.family) else {
        return Err(Error::usage(format!("no family {:?}", args.family)));
    };
    let number = |name: &str| told(name).and_then(|text| text.parse::<u32>().ok());
    let (slots, gang) = (number("SANDTABLE_SLOTS").unwrap_or(1).max(1), number("SANDTABLE_GANG").unwrap_or(1).max(1));
    let save = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, save.clone())
        .map_err(|error| Error::internal(error.to_string()))?;
    let mut engine: Box<dyn WorkEngine> = match family.kind {
        Kind::Cpu { busy_milli, mib } => {
            Box::new(Core::new(busy_milli, mib, number("SANDTABLE_CORE").map(|core| core as usize)))
        }
        Kind::Cuda => {
            let limit = told("SANDTABLE_MEM_LIMIT").and_then(|text| text.parse().ok());
            sandtable_plan::gpus::engine(family.name, limit)?
        }
    };
    // Of a gang on one device each rank takes its turns: the first one counts the steps of all.
    let mut ranks = if args.rank { Vec::new() } else { ranks(family.name, slots)? };
    if args.rank {
        ui::result(READY);
    }
    let orders = Orders {
        steps: args.steps,
        share: if args.rank { 1.0 } else { f64::from(slots) / f64::from(gang) },
        progress: told("SANDTABLE_PROGRESS_FD").and_then(|text| text.parse().ok()).filter(|_| !args.rank),
        state: told("SANDTABLE_STATE").map(PathBuf::from),
        restore: told("SANDTABLE_RESTORE").map(PathBuf::from).filter(|_| !args.rank),
    };
    let never = Arc::new(AtomicBool::new(false));
    let ended = work::run(&orders, &mut *engine, if args.rank { &never } else { &save });
    end(&mut ranks);
    match ended {
        Ok(code) => Ok(code as u8),
        Err(why) => {
            ui::note(&format!("error: {why}"));
            Ok(1)
        }
    }
}
