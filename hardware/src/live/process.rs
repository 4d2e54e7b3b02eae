//! Jobs as processes: each in a session of its own, so that signals reach it and nothing else, below a guard of its own. The
//! guard is the nearest ancestor to which the kernel gives what a job leaves behind, so that everything that a job starts is
//! found below it wherever that went; it ends all of it when the job has ended, or when this process is gone, however it
//! went. Where a job has killed its guard its control group is the second net, a mark in the environment the third.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus};

use super::group::Group;
use super::progress::Listener;
use crate::Duration;

/// What a process runs.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The command and its arguments.
    pub argv: Vec<String>,
    /// Set in its environment, beside what it is given of this process' own.
    pub environment: Vec<(String, String)>,
    /// More names of this process' environment that it is given.
    pub passed: Vec<String>,
    /// Bytes that a file which it writes may have.
    pub file_bytes: u64,
    /// Where the process begins.
    pub folder: PathBuf,
    /// Where what it prints is kept.
    pub output: Output,
}

/// The end of what a job prints, read through a pipe: a file would be the job's own, of any size, or lead elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Output(Arc<Mutex<VecDeque<u8>>>);

impl Output {
    /// Bytes that are kept.
    const KEPT: usize = 64 << 10;

    fn kept(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what was printed.
    pub fn add(&self, bytes: &[u8]) {
        let mut kept = self.kept();
        kept.extend(&bytes[bytes.len().saturating_sub(Output::KEPT)..]);
        let over = kept.len().saturating_sub(Output::KEPT);
        kept.drain(..over);
    }

    /// The last so many bytes.
    pub fn last(&self, most: usize) -> String {
        let mut kept = self.kept();
        let bytes = kept.make_contiguous();
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(most)..]).into_owned()
    }

    fn read(&self, mut pipe: PipeReader) {
        let own = self.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 8 << 10];
            while let Ok(count @ 1..) = pipe.read(&mut bytes) {
                own.add(&bytes[..count]);
            }
        });
    }
}

/// In the environment of a job and of all that it starts.
const MARK: &str = "SANDTABLE_MARK";

/// Names of the environment that every job is given, as are all that begin with one of [`FAMILIES`]: what programs need to be
/// found and to find the device. Whatever else the host knows, as credentials, is its own.
const NAMES: [&str; 16] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LOGNAME",
    "PATH",
    "PWD",
    "RUST_BACKTRACE",
    "SHELL",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
];
const FAMILIES: [&str; 4] = ["CUDA_", "LC_", "NVIDIA_", "SANDTABLE_"];

/// The part of this process' environment that a job is given: what every job is, and these names.
fn inherited(passed: &[String]) -> impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)> {
    std::env::vars_os().filter(move |(name, _)| {
        let Some(name) = name.to_str() else { return false };
        NAMES.contains(&name)
            || FAMILIES.iter().any(|family| name.starts_with(family))
            || passed.iter().any(|other| other == name)
    })
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// The exit code that says: saved, to be gone on with later.
pub const SAVED: i32 = 75;

/// A running process with all that it starts.
pub struct Process {
    guard: Child,
    /// The other end is the guard's: it says which process the job is and how it ended, and ends it when this end is closed.
    control: BufReader<UnixStream>,
    group: Pid,
    /// Of all that the job starts, where this machine has such groups.
    control_group: Option<Group>,
    mark: String,
    /// What it says of itself.
    pub listener: Listener,
    ending: Option<Ending>,
}

impl Process {
    /// Starts a process through `program job-guard -- …`.
    ///
    /// # Errors
    /// Where it can't be started.
    pub fn start(program: &Path, launch: &Launch) -> std::io::Result<Process> {
        let (reader, writer) = std::io::pipe()?;
        let (printed, output) = std::io::pipe()?;
        let (here, there) = UnixStream::pair()?;
        let mark = format!("{}.{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new(program);
        command
            .args(["job-guard", "--file-bytes", &launch.file_bytes.to_string(), "--"])
            .args(&launch.argv)
            .current_dir(&launch.folder);
        command.env_clear().envs(inherited(&launch.passed)).env(MARK, &mark);
        command.envs(launch.environment.iter().map(|(key, value)| (key, value)));
        command.stdin(OwnedFd::from(there)).stdout(writer).stderr(output);
        // An interrupt at the terminal is the host's to answer.
        let guard = command.process_group(0).spawn()?;
        // The guard alone holds the other ends from here on.
        drop(command);
        launch.output.read(printed);
        let mut control = BufReader::new(here);
        let mut line = String::new();
        control.read_line(&mut line)?;
        let group = line.trim().parse().ok().and_then(Pid::from_raw);
        let group = group.ok_or_else(|| std::io::Error::other(format!("its guard says {:?}", line.trim())))?;
        let control_group = Group::of(guard.id()).filter(|group| group.path().exists());
        Ok(Process { guard, control, group, control_group, mark, listener: Listener::to(reader), ending: None })
    }

    /// Its number, and that of its session.
    pub fn id(&self) -> u32 {
        self.group.as_raw_nonzero().get() as u32
    }

    /// Sends a signal to its group; one that stops, continues or kills to all that it started, wherever that is.
    pub fn signal(&self, signal: Signal) {
        if self.ending.is_some() {
            return;
        }
        match signal {
            // Sent many times a second to a throttled job: the kernel's list of the group is short, that of all processes is not.
            Signal::STOP | Signal::CONT => {
                let members = self.control_group.as_ref().map(Group::members).filter(|members| !members.is_empty());
                let all = members.unwrap_or_else(|| below(self.guard.id()));
                all.into_iter().for_each(|pid| kill(pid, signal));
            }
            Signal::KILL => below(self.guard.id()).into_iter().for_each(|pid| kill(pid, signal)),
            _ => {}
        }
        // Until the shim has made its session there is no group.
        if rustix::process::kill_process_group(self.group, signal).is_err() {
            let _ = rustix::process::kill_process(self.group, signal);
        }
    }

    /// How it ended, if it has; what it started is ended with it.
    pub fn ending(&mut self) -> Option<Ending> {
        if self.ending.is_some() {
            return self.ending;
        }
        // One that can't be waited for is gone as well.
        if !matches!(self.guard.try_wait(), Ok(None)) {
            let mut line = String::new();
            let told = self.control.read_line(&mut line).ok().and_then(|_| told(line.trim()));
            // A guard that says nothing was killed, by its own job.
            self.ending = Some(told.unwrap_or(Ending::Signal(9)));
            self.sweep();
        } else if crate::telemetry::stat(self.guard.id()).starts_with('T') {
            // Only its job can have stopped it.
            kill(self.guard.id(), Signal::CONT);
        }
        self.ending
    }

    /// Ends it, and waits until it is gone.
    pub fn dismiss(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if self.ending.is_some() {
            return;
        }
        self.signal(Signal::KILL);
        let _ = self.control.get_ref().shutdown(std::net::Shutdown::Both);
        for _ in 0..5_000 {
            if !matches!(self.guard.try_wait(), Ok(None)) {
                break;
            }
            super::wait(Duration::from_millis(1));
        }
        // One that a job has stopped does not go by itself.
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        self.sweep();
        self.ending = Some(Ending::Signal(9));
    }

    /// Ends what a guard that was killed has left.
    fn sweep(&self) {
        Group::of(self.guard.id()).into_iter().for_each(|group| group.end());
        sweep(&self.mark);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// `code 3` or `signal 9`, as a guard says it.
fn told(line: &str) -> Option<Ending> {
    let (kind, number) = line.split_once(' ')?;
    let number = number.parse().ok()?;
    match kind {
        "code" => Some(Ending::Code(number)),
        "signal" => Some(Ending::Signal(number)),
        _ => None,
    }
}

/// Place of the number of threads in what the kernel says of a process after its name.
const THREADS: usize = 17;

/// All processes below this one, without it.
fn below(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in crate::telemetry::pids() {
        let stat = crate::telemetry::stat(pid);
        let words: Vec<&str> = stat.split(' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok());
        // The dead are only waited for; one whose first thread has ended looks dead while others run.
        let dead = words[0] == "Z" && number(THREADS).is_none_or(|threads| threads <= 1);
        if let (Some(parent), false) = (number(1), dead) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut todo = vec![root];
    while let Some(pid) = todo.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            found.push(child);
            todo.push(child);
        }
    }
    found
}

fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        // A process that has ended needs no signal.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Kills all that is below this process until nothing is. Everything is stopped first: what is stopped does not fork.
fn end_all_below() {
    let own = std::process::id();
    let mut stopped = BTreeSet::new();
    for _ in 0..1_000 {
        let found: BTreeSet<u32> = below(own).into_iter().collect();
        if found.is_empty() {
            return;
        }
        let grown = found.iter().any(|pid| !stopped.contains(pid));
        let signal = if grown { Signal::STOP } else { Signal::KILL };
        found.iter().for_each(|pid| kill(*pid, signal));
        // The children of a killed process become children of this one: the next round finds them.
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        if grown {
            stopped.extend(found);
        } else {
            super::wait(Duration::from_millis(1));
        }
    }
}

/// Ends all of a job, as its guard.
fn end_all(group: Option<&Group>) {
    group.into_iter().for_each(Group::end);
    end_all_below();
}

/// Processes with this mark in their environment.
fn marked(mark: &str) -> Vec<u32> {
    let entry = format!("{MARK}={mark}\0");
    let has = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(entry.len()).any(|window| window == entry.as_bytes())
    };
    crate::telemetry::pids().into_iter().filter(has).collect()
}

/// Kills every process with this mark until none is left. A process that forks faster than that escapes.
fn sweep(mark: &str) {
    for _ in 0..100 {
        let left = marked(mark);
        if left.is_empty() {
            return;
        }
        left.into_iter().for_each(|pid| kill(pid, Signal::KILL));
        super::wait(Duration::from_millis(1));
    }
}

/// Processes that this host has started.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// What is left of processes below this one becomes its child.
#[cfg(target_os = "linux")]
fn adopt() -> std::io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// This process ends when its parent does.
#[cfg(target_os = "linux")]
fn die_with_parent() -> std::io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Elsewhere there is no such call, and no process may outlive its run.
#[cfg(not(target_os = "linux"))]
fn adopt() -> std::io::Result<()> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "jobs run as processes on Linux alone"))
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent() -> std::io::Result<()> {
    adopt()
}

/// What `job-guard` does: it starts the command below itself, says which process that is, and ends all that is below itself when the
/// command has ended, of which it says how, or when the host has gone. Standard input is its line to the host, standard
/// output the job's progress, standard error what the job prints.
///
/// # Errors
/// Where the command can't be started.
pub fn guard(file_bytes: u64, argv: &[String]) -> std::io::Result<()> {
    adopt()?;
    let control = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    let (host, most) = (std::process::id().to_string(), file_bytes.to_string());
    let group = Group::make(std::process::id());
    command.args(["job-shim", "--host", &host, "--file-bytes", &most]);
    command.args(group.iter().flat_map(|group| ["--group".as_ref(), group.path().as_os_str()])).arg("--").args(argv);
    command.stdin(std::io::stdout().as_fd().try_clone_to_owned()?);
    command.stdout(std::io::stderr().as_fd().try_clone_to_owned()?).stderr(Stdio::inherit());
    let spawned = command.spawn();
    drop(command);
    let outcome = spawned.and_then(|job| attend(Pid::from_child(&job), &control, group.clone()));
    // Whatever went wrong, nothing stays.
    end_all(group.as_ref());
    let _ = writeln!(&control, "{}", said(outcome?));
    Ok(())
}

/// Tells the host which process the job is and waits for its end, or for the host's.
fn attend(job: Pid, control: &UnixStream, group: Option<Group>) -> std::io::Result<WaitStatus> {
    let mut host = control;
    writeln!(host, "{}", job.as_raw_nonzero())?;
    // Their readers wait for the job's end, not for this process'.
    let nothing = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    let line = control.try_clone()?;
    std::thread::spawn(move || {
        // The host never writes: what comes is the end.
        let _ = (&line).read(&mut [0]);
        end_all(group.as_ref());
        std::process::exit(1);
    });
    loop {
        match rustix::process::wait(WaitOptions::empty())? {
            Some((pid, status)) if pid == job => return Ok(status),
            _ => {}
        }
    }
}

fn said(status: WaitStatus) -> String {
    let status = std::process::ExitStatus::from_raw(status.as_raw());
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "code -1".into(),
    }
}

/// What `job-shim` does: the job's control group, a session of its own, death with its parent, a limit of the files that
/// it writes, the progress pipe off standard input, and then it is the command.
///
/// # Errors
/// Only if the command can't be run.
pub fn shim(host: u32, file_bytes: u64, group: Option<&Path>, argv: &[String]) -> std::io::Error {
    const PIPE: i32 = 3;
    let prepare = || -> std::io::Result<String> {
        group.into_iter().for_each(Group::enter);
        rustix::process::setsid()?;
        die_with_parent()?;
        // A host that was gone before that is not waited for.
        if rustix::process::getppid().is_none_or(|parent| parent.as_raw_nonzero().get() as u32 != host) {
            return Err(std::io::Error::other("the host is gone"));
        }
        let before = rustix::process::getrlimit(Resource::Fsize);
        // What was forbidden before stays so.
        let most = Some(before.maximum.map_or(file_bytes, |most| most.min(file_bytes)));
        rustix::process::setrlimit(Resource::Fsize, Rlimit { current: most, maximum: most })?;
        let pipe = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), PIPE)?;
        // The command is to inherit it.
        rustix::io::fcntl_setfd(&pipe, rustix::io::FdFlags::empty())?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        let number = std::os::fd::IntoRawFd::into_raw_fd(pipe);
        Ok(number.to_string())
    };
    let pipe = match prepare() {
        Ok(pipe) => pipe,
        Err(error) => return error,
    };
    let Some((program, arguments)) = argv.split_first() else {
        return std::io::Error::new(std::io::ErrorKind::InvalidInput, "no command");
    };
    Command::new(program).args(arguments).env("SANDTABLE_PROGRESS_FD", pipe).exec()
}
