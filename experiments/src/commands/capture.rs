//! `sandtable capture`: a cluster as it is, as a document that a run begins with.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::units::span;
use sandtable_core::{digest, input, output};
use sandtable_hardware::Duration;
use sandtable_hardware::live::{Clock, wait};
use sandtable_inputs::state::{self, Named, State, kube, pseudonymise, slurm};
use serde_json::Value;

use crate::ui;

/// A cluster as it is.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum CaptureCommand {
    /// Read a cluster that Slurm schedules, by `scontrol show`, `sdiag`, `sshare` and `sacctmgr show qos`.
    Slurm(SlurmArgs),
    /// Read a Kubernetes cluster from dumped objects: of Kueue, Volcano or KAI, or pods alone.
    #[command(visible_alias = "kai")]
    Kube(KubeArgs),
    /// Check a document, and say what a run from it would begin with.
    Check(CheckArgs),
}

/// Slurm's cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct SlurmArgs {
    /// Output file of the document.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Read what the commands printed, with times in UTC, from the files of this folder [default: run the commands].
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Instant of the files [default: as `scontrol show config` says].
    #[arg(long, value_name = "TIME", requires = "from")]
    at: Option<jiff::Timestamp>,
    /// Longest that one of the commands may take.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span, conflicts_with = "from")]
    timeout: Duration,
    /// Name of a kind of GPU by the site's word for it, as a100=A100-SXM4-80GB.
    #[arg(long = "kind", value_name = "WORD=NAME", value_delimiter = ',')]
    kinds: Vec<String>,
    #[command(flatten)]
    shared: SharedArgs,
}

/// Kubernetes' cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct KubeArgs {
    /// What `kubectl get nodes,pods,workloads,clusterqueues,… -A -o json` printed, or KAI's snapshot, a zip.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Output file of the document.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Instant at which the objects were listed: they do not say it.
    #[arg(long, value_name = "TIME")]
    at: jiff::Timestamp,
    /// Name of a kind of GPU by the word of the label nvidia.com/gpu.product, as NVIDIA-A100-SXM4-80GB=A100-SXM4-80GB.
    #[arg(long = "kind", value_name = "WORD=NAME", value_delimiter = ',')]
    kinds: Vec<String>,
    #[command(flatten)]
    shared: SharedArgs,
}

/// What is done to a document that is to be shared.
#[derive(Debug, clap::Args)]
pub(crate) struct SharedArgs {
    /// Replace these names by pseudonyms, as in user,account,job; free text and words of features are then left out or replaced too.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', requires = "salt")]
    pseudonymise: Vec<Named>,
    /// File with the secret of the pseudonyms, 16 bytes or more, which only its owner may read: equal names are equal under one.
    #[arg(long, value_name = "FILE")]
    salt: Option<PathBuf>,
}

/// A document.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// A document `sandtable/state@1`.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(command: &CaptureCommand) -> Result<ExitCode, Error> {
    match command {
        CaptureCommand::Slurm(args) => slurm(args),
        CaptureCommand::Kube(args) => kube(args),
        CaptureCommand::Check(args) => describe(&args.file, &state::read(&args.file, input::DATA)?),
    }
}

fn slurm(args: &SlurmArgs) -> Result<ExitCode, Error> {
    let document =
        of_slurm(args.from.as_deref(), args.at, &args.kinds, &Patience { most: args.timeout, stop: &|| false })?;
    written(args.from.as_deref().unwrap_or(Path::new("scontrol")), document, &args.shared, &args.output)
}

/// Slurm's cluster as it is, or as the files of a folder say that it was.
pub(super) fn of_slurm(
    from: Option<&Path>,
    at: Option<jiff::Timestamp>,
    words: &[String],
    patience: &Patience<'_>,
) -> Result<Value, Error> {
    let kinds = kinds(words)?;
    let mut outputs = slurm::Outputs::new();
    for command in &slurm::COMMANDS {
        let text = match from {
            Some(folder) => file(folder, command)?,
            None => asked(command, patience)?,
        };
        outputs.extend(text.map(|text| (command.file, text)));
    }
    let at = at.or_else(|| slurm::instant(&outputs));
    let at = at.ok_or_else(|| {
        let error = Error::usage("the files do not say when they were made: there is no scontrol-show-config.txt");
        error.hint("--at 2026-11-22T01:05:32Z")
    })?;
    slurm::state(&outputs, at, &kinds).map_err(|why| Error::usage(format!("slurm: {why}")))
}

fn kube(args: &KubeArgs) -> Result<ExitCode, Error> {
    let kinds = kinds(&args.kinds)?;
    let read = |file: &PathBuf| Ok((file.display().to_string(), kube::read(file, input::DATA)?));
    let files: kube::Files = args.files.iter().map(read).collect::<Result<_, Error>>()?;
    let document = kube::state(&files, args.at, &kinds).map_err(|why| Error::usage(format!("kube: {why}")))?;
    written(&args.files[0], document, &args.shared, &args.output)
}

/// Names of kinds of GPU by a site's words.
fn kinds(pairs: &[String]) -> Result<BTreeMap<String, String>, Error> {
    let pair = |pair: &String| {
        let found = pair.split_once('=').filter(|(word, name)| !word.is_empty() && !name.is_empty());
        let found = found.map(|(word, name)| (word.to_string(), name.to_string()));
        found.ok_or_else(|| Error::usage(format!("--kind: expected WORD=NAME, found {pair:?}")))
    };
    pairs.iter().map(pair).collect()
}

/// Fewest bytes of a secret: a shorter one can be found by trying.
const SHORTEST: usize = 16;

/// A secret that only its owner may read.
fn secret(file: &Path) -> Result<Vec<u8>, Error> {
    let bytes = input::read(file, input::SPEC)?;
    let mode = std::fs::metadata(file).map_err(|error| Error::file("read", file, &error))?.mode();
    if mode & 0o077 != 0 {
        let error = Error::usage(format!("{}: others may read this secret", file.display()));
        return Err(error.hint(format!("chmod 600 {}", file.display())));
    }
    if bytes.len() < SHORTEST {
        let message =
            format!("{}: expected a secret of at least {SHORTEST} bytes, found {}", file.display(), bytes.len());
        return Err(Error::usage(message).hint("head -c 32 /dev/urandom"));
    }
    Ok(bytes)
}

/// Writes a document that was read from a place.
fn written(from: &Path, mut document: Value, shared: &SharedArgs, to: &Path) -> Result<ExitCode, Error> {
    if let Some(salt) = shared.salt.as_ref().filter(|_| !shared.pseudonymise.is_empty()) {
        let replaced = pseudonymise(&mut document, &shared.pseudonymise, &secret(salt)?);
        replaced.map_err(|why| Error::usage(format!("--pseudonymise: {why}")))?;
    }
    let mut text = serde_json::to_string_pretty(&document).map_err(|error| Error::internal(error.to_string()))?;
    text.push('\n');
    // What is written can be read.
    let state = state::of_bytes(from, text.as_bytes())?;
    output::write(to, &text)?;
    ui::note(&format!("{}: {} ({} bytes)", to.display(), digest::digest(text.as_bytes()), text.len()));
    // A document is what was read, whether or not a model can go on from it.
    describe(to, &state).or_else(|error| {
        ui::note(&format!("warning: no run can begin with it: {}", error.message));
        Ok(ExitCode::Done)
    })
}

/// What a command printed, by a file of a folder.
fn file(folder: &Path, command: &slurm::Command) -> Result<Option<String>, Error> {
    let path = folder.join(command.file);
    if !path.exists() {
        if !command.needed {
            return Ok(None);
        }
        let error = Error::usage(format!("{}: no such file", path.display()));
        return Err(error.hint(format!("TZ=UTC SLURM_BITSTR_LEN=0 {} > {}", command.argv.join(" "), command.file)));
    }
    input::text(&path, input::DATA).map(Some)
}

/// For how long a command is waited for.
pub(super) struct Patience<'a> {
    /// At most.
    pub(super) most: Duration,
    /// And not when this holds.
    pub(super) stop: &'a dyn Fn() -> bool,
}

impl Patience<'_> {
    /// What a command printed, unless it is ended here.
    fn output(&self, command: &mut Command) -> std::io::Result<Output> {
        let clock = Clock::start();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr) = (std::thread::spawn(move || all(out)), std::thread::spawn(move || all(err)));
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if (self.stop)() || clock.now().since_start() > self.most {
                child.kill()?;
                child.wait()?;
                return Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "it did not answer in time"));
            }
            wait(LOOK);
        };
        let of = |thread: std::thread::JoinHandle<Vec<u8>>| thread.join().unwrap_or_default();
        Ok(Output { status, stdout: of(stdout), stderr: of(stderr) })
    }
}

/// How often it is looked whether a command has ended.
const LOOK: Duration = Duration::from_millis(5);

/// All that comes from a pipe.
fn all(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What was read before an error is what there is.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    bytes
}

/// What a command prints now.
fn asked(command: &slurm::Command, patience: &Patience<'_>) -> Result<Option<String>, Error> {
    let (program, arguments) = (command.argv[0], &command.argv[1..]);
    let mut command_line = Command::new(program);
    let ran = command_line.args(arguments).env("TZ", "UTC").env("SLURM_TIME_FORMAT", "standard");
    // Lists of an array's tasks are cut otherwise.
    let ran = patience.output(ran.env("SLURM_BITSTR_LEN", "0"));
    let lacking = |message: String| Error { exit: ExitCode::Hardware, ..Error::usage(message) };
    if ran.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) && !command.needed {
        return Ok(None);
    }
    let timed_out = ran.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::TimedOut);
    if timed_out && !(patience.stop)() {
        let (asked, most) = (command.argv.join(" "), patience.most.as_secs_f64());
        let message = format!("`{asked}` did not answer within {most} s");
        if command.needed {
            return Err(lacking(message));
        }
        ui::note(&format!("warning: {message}: the document lacks what it would say"));
        return Ok(None);
    }
    let ran = ran.map_err(|error| {
        let error = lacking(format!("`{program}` can't be run: {error}"));
        error.hint("--from DIR reads files that hold what the commands printed")
    })?;
    if ran.status.success() {
        return Ok(Some(String::from_utf8_lossy(&ran.stdout).into_owned()));
    }
    if !command.needed {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&ran.stderr).trim().to_string();
    Err(lacking(format!("`{}` failed: {said}", command.argv.join(" "))))
}

/// Prints what a run from a document begins with.
fn describe(file: &Path, state: &State) -> Result<ExitCode, Error> {
    let otherwise = Some(sandtable_hardware::SECOND);
    let modelled = state.modelled(state::RunTimes { of_limit: 1.0, otherwise, without_limits: false });
    let modelled = modelled.map_err(|why| Error::usage(format!("{}: {why}", file.display())))?;
    let gpus: u32 = modelled.nodes.iter().map(|node| node.gpus).sum();
    let (nodes, (running, waiting)) = (modelled.nodes.len(), modelled.counts());
    let mut text = format!("{nodes} nodes that take jobs, {gpus} GPUs, {running} running and {waiting} waiting jobs\n");
    modelled.not_modelled.iter().for_each(|(what, count)| text.push_str(&format!("not modelled: {count} {what}\n")));
    state.unknown.iter().for_each(|of| text.push_str(&format!("unknown: {}: {}\n", of.what, of.why)));
    for refused in &state.refused {
        let id = refused.id.as_deref().map_or_else(String::new, |id| format!(" {id}"));
        text.push_str(&format!("refused: {}{id}: {}\n", refused.what, refused.why));
    }
    if !state.ignored.is_empty() {
        let values: u64 = state.ignored.iter().map(|of| u64::from(of.count)).sum();
        text.push_str(&format!(
            "ignored: {values} values of {} fields, as `ignored` of the document says\n",
            state.ignored.len()
        ));
    }
    ui::result(&text);
    Ok(ExitCode::Done)
}
