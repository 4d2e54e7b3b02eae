//! A real queue that `sandtable shadow` watches, through the absence of its controller.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};
use std::time::Duration;

use super::daemons::Slurm;
use crate::help::{command, dist, sandtable};

/// A shadow of a cluster.
pub(super) struct Shadow {
    folder: tempfile::TempDir,
    child: Child,
    stderr: BufReader<ChildStderr>,
    address: String,
}

impl Shadow {
    /// It polls each second, and is told at once that a controller does not answer.
    pub(super) fn of(slurm: &Slurm) -> Shadow {
        let folder = tempfile::tempdir().expect("a folder");
        let conf = std::fs::read_to_string(slurm.folder.path().join("slurm.conf")).expect("a configuration");
        let hasty = folder.path().join("slurm.conf");
        std::fs::write(&hasty, conf + "MessageTimeout=2\n").expect("written");
        std::fs::copy(slurm.folder.path().join("gres.conf"), folder.path().join("gres.conf")).expect("copied");
        let dist = dist();
        let asked = ["shadow", "slurm", "-o", "polls", "--every", "1s", "--for", "1h", "--listen", "127.0.0.1:0"];
        let policies = ["--policies", &dist, "--policy", "fifo", "--policy", "fifo,backfill=skip"];
        let mut command = command(folder.path(), &[&asked[..], &policies].concat());
        slurm.with(&mut command).env("SLURM_CONF", hasty).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it begins");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("its first line");
        let address = line.trim().strip_prefix("metrics: http://").and_then(|rest| rest.strip_suffix("/metrics"));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_string();
        Shadow { folder, child, stderr, address }
    }

    /// A metric without labels.
    fn metric(&self, name: &str) -> f64 {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("asked");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("answered");
        let value = text.lines().find_map(|line| line.strip_prefix(&format!("sandtable_shadow_{name} ")));
        value.unwrap_or_else(|| panic!("{name}: {text}")).parse().expect("a number")
    }

    fn until(&self, what: &str, holds: impl Fn(&Shadow) -> bool) {
        for _ in 0..600 {
            if holds(self) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("not within 30 s: {what}");
    }

    /// The controller goes and comes back: the shadow says that what it knows is old, and goes on.
    pub(super) fn survives_the_controller(&self, slurm: &Slurm) {
        slurm.fixture("quit");
        self.until("a poll that fails", |shadow| shadow.metric("poll_failures_total") >= 1.0);
        assert!(self.metric("stale_seconds") > 1.0);
        let before = self.metric("polls_total");
        slurm.fixture("revive");
        self.until("a poll that is answered", |shadow| shadow.metric("polls_total") > before);
    }

    /// It is told to end, and says what it saw; the same is said of its folder.
    pub(super) fn ends(mut self, submitted: usize) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("told");
        let mut said = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut said).expect("a table");
        let mut noted = String::new();
        self.stderr.read_to_string(&mut noted).expect("notes");
        assert_eq!(self.child.wait().expect("it ended").code(), Some(130), "{noted}");
        assert!(noted.contains("warning: `scontrol") && noted.contains("the next poll is in"), "{noted}");
        let again = sandtable(
            self.folder.path(),
            &[
                "shadow",
                "report",
                "polls",
                "--policies",
                &dist(),
                "--policy",
                "fifo",
                "--policy",
                "fifo,backfill=skip",
                "--no-progress",
                "--format",
                "json",
            ],
        );
        assert_eq!(again.code, 0, "{}", again.stderr);
        let rows: Vec<serde_json::Value> =
            again.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let mut real: Vec<&str> = Vec::new();
        for row in rows.iter().filter(|row| row["policy"] == "fifo") {
            real.extend(row["real"].as_array().expect("jobs").iter().map(|job| job.as_str().expect("an id")));
        }
        // Every job is seen to start, once: those that were there and gone between two polls too.
        let all = real.len();
        real.sort_unstable();
        real.dedup();
        assert_eq!((real.len(), all), (submitted, submitted), "{}", again.stdout);
        crate::help::told(&format!(
            "a real queue, shadowed through the absence of its controller:\n{}",
            said.trim_end()
        ));
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
