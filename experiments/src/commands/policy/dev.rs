//! `sandtable policy dev`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use sandtable_core::display::span;
use sandtable_core::error::{Error, ExitCode};
use sandtable_core::input;
use sandtable_plan::artifact::built::Language;

use crate::authoring::guests::name_of;
use crate::ui;

/// Watch a policy: whenever a file of it changes, build it, check it, and run its `try.ron`; a script in the quickstart's place of `fifo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable policy dev my-policy
  sandtable policy dev smallest.star                                     # a script is not built")]
pub(crate) struct DevArgs {
    /// Folder of the policy, or a script.
    #[arg(value_name = "DIR")]
    policy: PathBuf,
    /// Random histories of each kind of fleet to check it under.
    #[arg(long, value_name = "N", default_value_t = 1)]
    histories: u32,
    /// Do it once and end: the exit code is that of the first step that failed.
    #[arg(long)]
    once: bool,
}

/// What a step may end with.
const CODES: [ExitCode; 6] = [
    ExitCode::CheckFailed,
    ExitCode::Usage,
    ExitCode::PolicyFailed,
    ExitCode::Missing,
    ExitCode::Output,
    ExitCode::Interrupted,
];

/// How often files are looked at.
const EVERY: Duration = Duration::from_millis(300);

/// Folders in which nothing is written by hand.
const MADE: [&str; 6] = ["target", "store", "bindings", "node_modules", "__pycache__", ".git"];

pub(crate) fn run(args: &DevArgs) -> Result<ExitCode, Error> {
    let steps = steps(args)?;
    loop {
        let before = seen(&args.policy)?;
        let code = through(&steps)?;
        if args.once {
            return Ok(code);
        }
        ui::note(&format!("{}: waiting for a change, until Ctrl-C", args.policy.display()));
        while seen(&args.policy)? == before {
            std::thread::sleep(EVERY);
        }
    }
}

/// What is done: the words of a command each.
fn steps(args: &DevArgs) -> Result<Vec<Vec<String>>, Error> {
    let word = |path: &Path| path.display().to_string();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_string()).collect::<Vec<String>>();
    let histories = args.histories.to_string();
    if !args.policy.is_dir() {
        let whole = std::path::absolute(&args.policy).map_err(|error| Error::file("open", &args.policy, &error))?;
        // Beside the others of the quickstart, cut to its test.
        let first = format!("policies.fifo.name={}", word(&whole));
        return Ok(vec![
            words(&["policy", "check", &word(&args.policy), "--histories", &histories]),
            words(&["run", "quickstart", "--test", "--set", &first]),
        ]);
    }
    let component = args.policy.join(format!("{}.wasm", name_of(&args.policy)?));
    // A path with a slash is a folder, and no name of the workspace.
    let folder =
        if args.policy.components().count() > 1 { word(&args.policy) } else { format!("./{}", word(&args.policy)) };
    let quick = if Language::of(&args.policy) == Some(Language::Python) { &["--quick"][..] } else { &[] };
    let mut all = vec![
        words(&[&["policy", "build", &folder], quick].concat()),
        words(&["policy", "check", &word(&component), "--histories", &histories]),
    ];
    let spec = args.policy.join("try.ron");
    if spec.is_file() {
        all.push(words(&["run", &word(&spec)]));
    }
    Ok(all)
}

/// Does the steps until one fails.
#[expect(clippy::disallowed_methods, reason = "how long steps take is told and moves nothing")]
fn through(steps: &[Vec<String>]) -> Result<ExitCode, Error> {
    let program = std::env::current_exe().map_err(|error| Error::internal(format!("this program: {error}")))?;
    for step in steps {
        let began = Instant::now();
        let ran = Command::new(&program).args(step).status();
        let ended = ran.map_err(|error| Error::file("run", &program, &error))?;
        let (what, took) = (step[..2.min(step.len())].join(" "), span(began.elapsed().as_secs_f64()));
        if !ended.success() {
            let code = ended.code().unwrap_or(ExitCode::Internal as i32);
            ui::note(&format!("{what}: failed after {took}, exit code {code}"));
            return Ok(CODES.into_iter().find(|known| *known as i32 == code).unwrap_or(ExitCode::Internal));
        }
        ui::note(&format!("{what}: {took}"));
    }
    Ok(ExitCode::Done)
}

/// Every file that is written by hand, and when it was: a component is made, and is not looked at.
fn seen(policy: &Path) -> Result<Vec<(PathBuf, SystemTime, u64)>, Error> {
    let mut all = Vec::new();
    let mut open = vec![policy.to_path_buf()];
    while let Some(path) = open.pop() {
        // What is gone again is seen as gone.
        let Ok(of) = path.metadata() else { continue };
        let name = path.file_name().map(|name| name.to_string_lossy().to_string()).unwrap_or_default();
        if of.is_dir() {
            if path == policy || !MADE.contains(&name.as_str()) {
                open.extend(input::sorted(&path)?);
            }
        } else if !name.ends_with(".wasm") && !name.ends_with(".lock") {
            all.push((path, of.modified().unwrap_or(SystemTime::UNIX_EPOCH), of.len()));
        }
    }
    all.sort();
    Ok(all)
}
