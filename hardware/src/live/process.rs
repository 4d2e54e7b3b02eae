//! Jobs as processes: each in a session of its own, so that signals reach it and nothing else, and with a mark by which what
//! it started is found wherever that went. A guard, a process
//! that outlives this one by a moment, ends whatever is left when this one is gone, however it went.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal};

use super::progress::Listener;

/// What a process runs.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The command and its arguments.
    pub argv: Vec<String>,
    /// Beside the environment of this process.
    pub environment: Vec<(String, String)>,
    /// Where it begins.
    pub folder: PathBuf,
    /// Where what it prints goes.
    pub log: PathBuf,
}

/// In the environment of a job and of all that it starts: what left its group, or its session, is found by it.
const MARK: &str = "SANDTABLE_MARK";

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
    child: Child,
    group: Pid,
    mark: String,
    /// What it says of itself.
    pub listener: Listener,
    ending: Option<Ending>,
}

impl Process {
    /// Starts a process through the shim `program job-shim -- …`, and tells the guard of it.
    ///
    /// # Errors
    /// Where it can't be started.
    pub fn start(program: &Path, launch: &Launch, guard: &mut Guard) -> std::io::Result<Process> {
        let (reader, writer) = std::io::pipe()?;
        let log = File::options().create(true).append(true).open(&launch.log)?;
        let mut command = Command::new(program);
        let host = std::process::id();
        let mark = format!("{host}.{}", STARTED.fetch_add(1, Ordering::Relaxed));
        command.args(["job-shim", "--host", &host.to_string(), "--"]).args(&launch.argv).current_dir(&launch.folder);
        command.env(MARK, &mark).envs(launch.environment.iter().map(|(key, value)| (key, value)));
        command.stdin(writer).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn()?;
        let group = Pid::from_child(&child);
        guard.tell('+', group, &mark);
        Ok(Process { child, group, mark, listener: Listener::to(reader), ending: None })
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
        if matches!(signal, Signal::STOP | Signal::CONT | Signal::KILL) {
            for pid in marked(&self.mark) {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
        // Until the shim has made its session there is no group.
        if rustix::process::kill_process_group(self.group, signal).is_err() {
            let _ = rustix::process::kill_process(self.group, signal);
        }
    }

    /// How it ended, if it has; what it started is ended with it.
    pub fn ending(&mut self, guard: &mut Guard) -> Option<Ending> {
        if self.ending.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            let _ = rustix::process::kill_process_group(self.group, Signal::KILL);
            sweep(&self.mark);
            guard.tell('-', self.group, &self.mark);
            let code = status.code().map(Ending::Code);
            self.ending = code.or_else(|| status.signal().map(Ending::Signal)).or(Some(Ending::Code(-1)));
        }
        self.ending
    }
}

impl Process {
    /// Ends it, and waits until it is gone.
    pub fn dismiss(mut self, guard: &mut Guard) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        sweep(&self.mark);
        guard.tell('-', self.group, &self.mark);
        self.ending = Some(Ending::Signal(9));
    }
}

/// Processes with this mark in their environment.
fn marked(mark: &str) -> Vec<Pid> {
    let entry = format!("{MARK}={mark}\0");
    let has = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(entry.len()).any(|window| window == entry.as_bytes())
    };
    let all = crate::telemetry::pids().into_iter().filter(has);
    all.filter_map(|pid| Pid::from_raw(pid as i32)).collect()
}

/// Kills what has this mark until nothing has: whoever forks faster than that is not met.
fn sweep(mark: &str) {
    for _ in 0..100 {
        let left = marked(mark);
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        super::wait(std::time::Duration::from_millis(1));
    }
}

/// Processes that this host has started.
static STARTED: AtomicU64 = AtomicU64::new(0);

impl Drop for Process {
    fn drop(&mut self) {
        if self.ending.is_none() {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
            sweep(&self.mark);
        }
    }
}

/// The guard: `program job-guard`, which holds a list of sessions and ends them when its input ends.
pub struct Guard {
    child: Child,
    input: Option<ChildStdin>,
}

impl Guard {
    /// Starts it.
    ///
    /// # Errors
    /// Where it can't be started.
    pub fn start(program: &Path) -> std::io::Result<Guard> {
        let mut command = Command::new(program);
        command.arg("job-guard").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.process_group(0).spawn()?;
        let input = child.stdin.take();
        Ok(Guard { child, input })
    }

    fn tell(&mut self, sign: char, group: Pid, mark: &str) {
        if let Some(input) = &mut self.input {
            // A guard that is gone can't be helped; the processes still have their death signal.
            let _ = writeln!(input, "{sign}{} {mark}", group.as_raw_nonzero());
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

/// What `job-guard` does: reads `+PID MARK` and `-PID MARK` until the input ends, then ends what is left of them.
pub fn guard(input: impl std::io::BufRead) {
    let mut left = std::collections::BTreeSet::new();
    for line in input.lines().map_while(Result::ok) {
        let (Some(sign), Some((number, mark))) = (line.get(..1), line.get(1..).and_then(|rest| rest.split_once(' ')))
        else {
            continue;
        };
        let Ok(number) = number.parse::<i32>() else { continue };
        match sign {
            "+" => drop(left.insert((number, mark.to_string()))),
            _ => drop(left.remove(&(number, mark.to_string()))),
        }
    }
    for (number, mark) in left {
        if let Some(pid) = Pid::from_raw(number) {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        sweep(&mark);
    }
}

/// What `job-shim` does: a session of its own, death with its parent, the progress pipe off standard input, and then it is
/// the command.
///
/// # Errors
/// Only if the command can't be run.
pub fn shim(host: u32, argv: &[String]) -> std::io::Error {
    const PIPE: i32 = 3;
    let prepare = || -> std::io::Result<String> {
        rustix::process::setsid()?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // A host that was gone before that is not waited for.
        if rustix::process::getppid().is_none_or(|parent| parent.as_raw_nonzero().get() as u32 != host) {
            return Err(std::io::Error::other("the host is gone"));
        }
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
