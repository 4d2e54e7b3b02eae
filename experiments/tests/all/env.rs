//! `sandtable env`, from what stands at the other end of its pipe: answers that are none, and what a network is beside its agent.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use crate::help::{CACHE, dist};

const SPEC: &str = "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 4, kind: \"T4\"), workload: Generate(jobs: 30, arrivals: AtOnce), \
    policies: [Policy(name: \"fifo\")], seeds: Range(0, 2))";

/// An environment in a process, and what it said first.
struct Environment {
    process: Child,
    hello: serde_json::Value,
    _folder: tempfile::TempDir,
}

impl Environment {
    fn new(args: &[&str]) -> Environment {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("spec.ron"), SPEC).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandtable"));
        command.current_dir(folder.path()).args(["env", "spec.ron", "--policies", &dist()]).args(args);
        command.env("XDG_CACHE_HOME", CACHE).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = command.spawn().expect("it runs");
        let mut made = Environment { process, hello: serde_json::Value::Null, _folder: folder };
        made.hello = serde_json::from_slice(&made.frame()).expect("JSON");
        made
    }

    fn frame(&mut self) -> Vec<u8> {
        let from = self.process.stdout.as_mut().expect("a pipe");
        let mut length = [0; 4];
        from.read_exact(&mut length).expect("a length");
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        from.read_exact(&mut bytes).expect("a message");
        bytes
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.process.stdin.as_mut().expect("a pipe").write_all(bytes).expect("it reads");
    }

    /// The answer to a message.
    fn says(&mut self, message: &[u8]) -> Vec<u8> {
        self.raw(&[&(message.len() as u32).to_le_bytes(), message].concat());
        self.frame()
    }

    fn error(&mut self, message: &[u8]) -> String {
        let said: serde_json::Value = serde_json::from_slice(&self.says(message)).expect("JSON");
        said["error"].as_str().expect("an error").to_string()
    }

    /// Its exit code and its words, once nothing more is said to it.
    fn ends(mut self) -> (Option<i32>, String) {
        drop(self.process.stdin.take());
        let output = self.process.wait_with_output().expect("it ends");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).to_string())
    }
}

/// The answer that chooses a slot.
fn slot(number: i32) -> Vec<u8> {
    [&[1][..], &number.to_le_bytes()].concat()
}

#[test]
fn what_is_no_answer_is_said_and_nothing_is_lost() {
    let mut it = Environment::new(&["--slots", "4"]);
    assert_eq!(it.hello["job"], serde_json::json!(["gpus", "waited"]));
    assert_eq!(it.error(&slot(0)), "no episode: {\"reset\": SEED}");
    assert!(it.error(b"{\"reset\": -1}").starts_with("expected {\"reset\": SEED}: invalid value"));
    assert!(it.error(b"{\"reset\": 1}").starts_with("seed 1 is one of the spec's"));
    assert_eq!(it.error(b""), "expected JSON, or a message that begins with a byte 0, 1 or 2");
    assert_eq!(it.error(b"{\"reset\": 9007199254740992}"), "expected a seed below 2^53, found 9007199254740992");
    let first = it.says(b"{\"reset\": 9}");
    let second = it.says(&slot(1));
    assert_eq!((first[0], second[0]), (1, 1));
    assert_eq!(it.error(&slot(-1)), "expected a slot from 0 to 4, found -1");
    assert_eq!(it.error(&[2, 0, 0]), "expected 4 scores of 8 bytes, found 2 bytes");
    assert_eq!(it.error(&[7; 100]), "expected JSON, or a message that begins with a byte 0, 1 or 2");
    // The same episode from its beginning, in the middle of it.
    assert_eq!(it.says(b"{\"reset\": 9}"), first);
    assert_eq!(it.says(&slot(1)), second);
    // Nothing more, while its input stays open.
    it.raw(&[1, 0, 0, 0, 0]);
    assert_eq!(it.process.wait().expect("it ends").code(), Some(0));
}

#[test]
fn scores_that_are_no_numbers_come_last() {
    let mut it = Environment::new(&["--slots", "2"]);
    let nan = f64::NAN.to_le_bytes();
    let mut said = it.says(b"{\"reset\": 9}");
    while said[0] == 1 {
        said = it.says(&[&[2][..], &nan, &1.0_f64.to_le_bytes()].concat());
    }
    let done: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
    assert_eq!((&done["done"], &done["metrics"]["completed"]), (&true.into(), &30.0.into()));
    assert_eq!(it.ends().0, Some(0));
}

#[test]
fn a_message_that_is_cut_off_or_too_long_ends_it_with_words() {
    let mut it = Environment::new(&[]);
    it.raw(&[9, 0, 0, 0, b'{']);
    let (code, said) = it.ends();
    assert!(code == Some(2) && said.starts_with("error: standard input: "), "{said}");
    let mut it = Environment::new(&[]);
    assert_eq!(it.says(b"{\"reset\": 9}")[0], 1);
    it.raw(b"{\"reset\": 9}");
    let (code, said) = it.ends();
    assert!(code == Some(2) && said.contains("expected a message of at most 1048576 bytes"), "{said}");
}
