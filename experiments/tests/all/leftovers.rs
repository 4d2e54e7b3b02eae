//! Nothing that a live job started outlives it, however it, its guard or the host ended.

use std::process::Stdio;
use std::time::Duration;

use sandtable_needs::needs;

use crate::help::{command, dist};
use crate::live::{FIFO, job, live, shell, spec};

/// Whether a process is there, and no zombie.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Waits until it is so; a test that hangs is a test that fails.
fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..12_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("two minutes have gone by: {what}");
}

#[test]
fn a_host_that_is_killed_or_interrupted_leaves_no_process_behind() {
    for signal in ["-KILL", "-INT"] {
        let folder = tempfile::tempdir().expect("a folder");
        let pids = folder.path().join("pids");
        let script = format!(
            "sleep 1000 & echo $! >> {0}; echo $$ >> {0}; \
             setsid env -i /bin/sh -c 'echo $$ >> {0}; exec /bin/sleep 1000' & wait",
            pids.display()
        );
        let fleet = format!("quiet: \"50ms\", commands: {{\"own\": {}}}", shell(&script));
        std::fs::write(folder.path().join("spec.ron"), spec(&fleet, &job("a", "own", "0s", 1, "1h"), FIFO))
            .expect("written");
        let mut host =
            command(folder.path(), &["run", "spec.ron", "--policies", &dist(), "--store", "store", "--allow-commands"]);
        let mut host = host.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a host");
        let listed = || std::fs::read_to_string(&pids).unwrap_or_default();
        until("the job begins", || listed().lines().count() == 3);
        let text = listed();
        let all: Vec<&str> = text.lines().collect();
        assert!(all.iter().all(|pid| is_alive(pid)));
        let sent = std::process::Command::new("kill").args([signal, &host.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
        let code = host.wait().expect("the host ends").code();
        assert_eq!(code, if signal == "-INT" { Some(130) } else { None });
        until("the job and what it started are gone", || all.iter().all(|pid| !is_alive(pid)));
        assert!(!folder.path().join("store/observations").exists());
    }
}

/// A job may kill its guard, and its child may be nobody's and unmarked: the kernel still says who is in its group.
#[needs("cgroup:")]
#[test]
fn what_a_job_leaves_behind_ends_with_it_even_where_it_has_killed_its_guard() {
    let folder = tempfile::tempdir().expect("a folder");
    let pids = folder.path().join("pids");
    let script = format!(
        "setsid env -i /bin/sh -c 'echo $$ > {0}; exec /bin/sleep 1000' & \
         while ! test -s {0}; do sleep 0.01; done; kill -KILL $PPID; sleep 1000",
        pids.display()
    );
    let fleet = format!("quiet: \"50ms\", commands: {{\"own\": {}}}", shell(&script));
    let text = spec(&fleet, &job("a", "own", "0s", 1, "1h"), FIFO);
    let lived = live(&text, &[]);
    assert!(
        lived.column("outcome").values().all(|outcome| outcome.contains("signal 9")),
        "{:?}",
        lived.column("outcome")
    );
    let child = std::fs::read_to_string(&pids).expect("a process");
    assert!(!is_alive(child.trim()), "process {child} is still there");
}
