//! A real Slurm on loopback, private to a folder, stopped when it is dropped.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::help::root;

/// The daemons.
pub(super) struct Slurm {
    pub(super) folder: tempfile::TempDir,
    port: u16,
    scheduler: &'static str,
}

fn fixture() -> PathBuf {
    root().join(".ci/slurm-loopback.sh")
}

impl Slurm {
    pub(super) fn up(scheduler: &'static str) -> Slurm {
        let free = |port: &u16| (0..6).all(|next| TcpListener::bind(("127.0.0.1", port + next)).is_ok());
        let port = (16817..17800).step_by(10).find(free).expect("six free ports");
        let slurm =
            Slurm { folder: tempfile::Builder::new().prefix("sl").tempdir().expect("a folder"), port, scheduler };
        assert_eq!(slurm.fixture("up"), Some(0), "{}", slurm.logs());
        slurm
    }

    pub(super) fn fixture(&self, verb: &str) -> Option<i32> {
        let mut command = Command::new("bash");
        command.arg(fixture()).arg(verb).arg(self.folder.path()).arg("2").env("SLURM_PORT", self.port.to_string());
        command.env("SLURM_SCHEDULER", self.scheduler);
        // A daemon that inherits a pipe would keep us waiting.
        let ran = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("bash");
        let fine = ran.success() || std::thread::panicking();
        assert!(fine, "{verb}: {}", self.logs());
        ran.code()
    }

    pub(super) fn logs(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log/slurmctld.log")).unwrap_or_default();
        log.lines().rev().take(20).collect::<Vec<_>>().join("\n")
    }

    pub(super) fn with<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        // As the daemons: there the machine's name means itself.
        let hosts = self.folder.path().join("hosts");
        if hosts.exists() {
            command.env("LD_PRELOAD", "libnss_wrapper.so").env("NSS_WRAPPER_HOSTS", hosts);
        }
        command.env("SLURM_CONF", self.folder.path().join("slurm.conf"))
    }

    pub(super) fn tool(&self, args: &[&str]) -> String {
        let output = self.with(Command::new(args[0]).args(&args[1..])).output().expect("a tool of Slurm");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// When a job that is over started and ended.
    pub(super) fn ran(&self, job: &str) -> [jiff::Timestamp; 2] {
        let output = self.with(Command::new("scontrol").args(["show", "job", "-o", job]).env("TZ", "UTC")).output();
        let said = String::from_utf8(output.expect("scontrol").stdout).expect("UTF-8");
        let of = |key: &str| said.split_whitespace().find_map(|word| word.strip_prefix(key));
        ["StartTime=", "EndTime="].map(|key| format!("{}Z", of(key).expect("a time")).parse().expect("a time"))
    }

    /// How long a job that is over had its GPUs, in whole seconds: from its allocation to Slurm's next look after its end, and Slurm looks once a
    /// second. By the log, which has milliseconds: `scontrol` cuts both instants to whole seconds, so that a job that runs for 3.02 s may seem
    /// to run for 4 s, and each that waits for it to start later than it did.
    pub(super) fn held_s(&self, job: &str) -> f64 {
        let log = std::fs::read_to_string(self.folder.path().join("log/slurmctld.log")).expect("the log");
        let at = |what: String| -> jiff::civil::DateTime {
            let line = log.lines().find(|line| line.contains(&what)).expect("a job that ran");
            line[1..].split(']').next().expect("an instant").parse().expect("a time")
        };
        let (begun, ended) = (at(format!("Allocate JobId={job} ")), at(format!("_job_complete: JobId={job} done")));
        ended.duration_since(begun).as_secs_f64().ceil()
    }

    /// Until both nodes are idle.
    pub(super) fn is_idle(&self) {
        for _ in 0..600 {
            if self.tool(&["sinfo", "-h", "-t", "idle", "-o", "%D"]).trim() == "2" {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("nodes that don't come back: {}{}", self.tool(&["sinfo"]), self.logs());
    }

    /// Until nothing runs or waits any more.
    pub(super) fn rests(&self) {
        for _ in 0..3000 {
            if self.tool(&["squeue", "-h", "-o", "%i"]).is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("jobs that don't end: {}{}", self.tool(&["squeue"]), self.logs());
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.fixture("down");
    }
}
