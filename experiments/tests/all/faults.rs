//! Writes of commands, failing: by `strace`, which has the kernel's calls return an error or kills the program at one.
//! Afterwards nothing is half there, the exit code is one of the documented, and the same command goes on to what it would
//! have left without the fault.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandtable_needs::needs;

use crate::guest::{Parts, guest};
use crate::help::{Ran, dist, ran, told};

/// What can change a file system, and what opens files. (`copy_file_range` and its like fall back to `write`.)
const CALLS: &str = "openat,write,pwrite64,rename,renameat,renameat2,mkdir,mkdirat,fsync,fdatasync,unlink,unlinkat,rmdir,\
                     linkat,ftruncate,fchmod,fchmodat,chmod";

const SPEC: &str = "Experiment(title: \"faults\", fleet: Model(nodes: 2, gpus: 4, kind: \"T4\", speed: 1.0), \
    workload: Generate(jobs: 10, arrivals: Poisson(load: 1.0), durations: Fixed(\"10min\"), gpus: {1: 3, 2: 1}), \
    policies: [Policy(name: \"fifo\"), Policy(name: \"./bad.wasm\")], seeds: Range(0, 2))";

/// A command, and whether it needs results.
const COMMANDS: [(&str, bool, &str); 13] = [
    ("run", false, "run spec.ron --store st --jobs 1 --no-progress"),
    ("run again", true, "run spec.ron --store st --jobs 1 --no-progress --retry-failed"),
    (
        "import",
        false,
        "trace import csv trace.csv --map submit=submit_s,gpus=gpus,duration=duration_s --output out.csv",
    ),
    ("page", true, "report spec.ron --store st --output page.html"),
    ("figure", true, "report spec.ron --store st --output figure.svg --figure utilisation"),
    ("rows", true, "report spec.ron --store st --output rows.csv"),
    ("pack", true, "bundle spec.ron --store st --output packed.tar.zst"),
    ("unpack", true, "verify before.tar.zst --jobs 1"),
    ("plan", false, "plan spec.ron --store st --output plan.jsonl"),
    ("merge", true, "merge spec.ron --store other --from st --format csv --output merged.csv"),
    ("gc", true, "store gc --store st"),
    ("new", false, "policy new mine"),
    ("submit", false, "submit spec.ron --store st --engine slurm --shards 2"),
];

/// A folder that is made anew for each fault, always at the same place: some files have its name in them.
struct Bench {
    root: tempfile::TempDir,
    files: Tree,
}

type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// The files below a folder, by path; estimates of time left out, since they have other bytes each time.
fn tree(root: &Path) -> Tree {
    fn walk(root: &Path, folder: &Path, found: &mut Tree) {
        for path in sandtable::input::sorted(folder).expect("a folder") {
            let name = path.strip_prefix(root).expect("below").to_path_buf();
            if path.is_dir() {
                walk(root, &path, found);
            } else if !name.starts_with("st/times") {
                found.insert(name, std::fs::read(&path).expect("a file"));
            }
        }
    }
    let mut found = Tree::new();
    walk(root, root, &mut found);
    found
}

impl Bench {
    fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    fn anew(&self) {
        let _ = std::fs::remove_dir_all(self.work());
        for (name, bytes) in &self.files {
            let path = self.work().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(&path, bytes).expect("written");
            if name.starts_with("bin") {
                use std::os::unix::fs::PermissionsExt as _;
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
            }
        }
        std::fs::create_dir_all(self.work().join("tmp")).expect("made");
    }

    /// The command, below `strace` with these options where there are any.
    fn run(&self, line: &str, strace: &[String]) -> Ran {
        let words = line.split(' ').map(str::to_string).chain(
            // Where the shipped policies are, for those commands that look for them.
            if line.starts_with("store")
                || line.starts_with("trace")
                || line.starts_with("policy")
                || line.starts_with("verify")
            {
                Vec::new()
            } else {
                vec!["--policies".to_string(), dist()]
            },
        );
        let program = env!("CARGO_BIN_EXE_sandtable");
        let mut command = match strace.is_empty() {
            true => Command::new(program),
            false => Command::new("strace"),
        };
        if !strace.is_empty() {
            command.args(["-f", "-y", "-qq", "-s", "0", "--seccomp-bpf"]).args(strace).arg(program);
        }
        command.args(words).current_dir(self.work()).env("SOURCE_DATE_EPOCH", "0");
        command.env("XDG_CACHE_HOME", self.root.path().join("cache")).env("TMPDIR", self.work().join("tmp"));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.work().join("bin").display()));
        ran(&mut command)
    }

    /// The places of a command's calls that concern its files: name of the call, how many calls of that name the thread
    /// has made; and whether it removes something or lists a folder, which is the beginning of removing it.
    fn places(&self, line: &str) -> BTreeMap<(String, usize), bool> {
        self.anew();
        let log = self.root.path().join("log");
        self.run(line, &["-o".into(), log.display().to_string(), "-e".into(), format!("trace={CALLS}")]);
        let text = std::fs::read_to_string(log).expect("a log");
        let here = self.work().display().to_string();
        let own = [self.root.path().display().to_string(), "memfd:".into()];
        let mut made: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut found = BTreeMap::new();
        for line in text.lines() {
            let Some((thread, rest)) = line.split_once(' ') else { continue };
            let Some((call, arguments)) = rest.trim_start().split_once('(') else { continue };
            if call.starts_with(['<', '+', '-']) {
                continue;
            }
            let count = made.entry((thread, call)).or_default();
            *count += 1;
            // A path that is not absolute is in the folder where the command runs, which is named beside `AT_FDCWD` always.
            let arguments = arguments.trim_start_matches("AT_FDCWD<").trim_start_matches(&here);
            let relative = arguments.split('"').nth(1).is_some_and(|path| !path.starts_with('/') && !path.is_empty());
            if relative || own.iter().any(|own| arguments.contains(own)) {
                let removing = call.starts_with("unlink") || call == "rmdir" || arguments.contains("O_DIRECTORY");
                *found.entry((call.to_string(), *count)).or_insert(false) |= removing;
            }
        }
        found
    }
}

fn bench() -> Bench {
    let root = tempfile::tempdir().expect("a folder");
    let mut files = Tree::new();
    files.insert("spec.ron".into(), SPEC.into());
    files.insert("bad.wasm".into(), guest(&Parts { decide: "unreachable".into(), ..Parts::default() }));
    let rows: String = (0..50).map(|job| format!("{job},{},{},1\n", job * 60, 600)).collect();
    files.insert("trace.csv".into(), format!("job_id,submit_s,duration_s,gpus\n{rows}").into());
    // A queue that takes everything.
    files.insert("bin/sbatch".into(), b"#!/bin/sh\necho 1\n".to_vec());
    files.insert("bin/squeue".into(), b"#!/bin/sh\n".to_vec());
    Bench { root, files }
}

#[needs("runs:strace -f --seccomp-bpf -qq -o /dev/null true")]
#[test]
fn whatever_write_fails_nothing_is_half_there_and_the_command_goes_on() {
    let mut bench = bench();
    bench.anew();
    let first = bench.run("run spec.ron --store st --jobs 1 --no-progress", &[]);
    assert_eq!(first.code, 3, "{}", first.stderr);
    let packed = bench.run("bundle spec.ron --store st --output before.tar.zst", &[]);
    assert_eq!(packed.code, 0, "{}", packed.stderr);
    let full = tree(&bench.work());
    let empty = std::mem::take(&mut bench.files);
    let mut tried = BTreeMap::new();
    for (name, results, line) in COMMANDS {
        bench.files = if results { full.clone() } else { empty.clone() };
        bench.anew();
        let reference = bench.run(line, &[]);
        assert!([0, 1, 3].contains(&reference.code), "{name}: {} {}", reference.code, reference.stderr);
        let expected = tree(&bench.work());
        let places = bench.places(line);
        assert!(places.len() > 2, "{name}: {places:?}");
        // With SANDTABLE_SLOW_TESTS every place in every way, else two dozen of each command.
        let (thorough, step) = match option_env!("SANDTABLE_SLOW_TESTS") {
            Some(_) => (true, 1),
            None => (false, places.len().div_ceil(24)),
        };
        for (at, ((call, count), removing)) in places.iter().enumerate().step_by(step) {
            // A thread that is the count-th to call, not the program, is hit.
            let mut ways = vec!["error=ENOSPC"];
            ways.extend((thorough || at % 2 == 0).then_some("signal=KILL"));
            ways.extend((thorough || at % 3 == 0).then_some("error=EIO"));
            ways.extend((thorough || at % 5 == 0).then_some("error=EACCES"));
            for way in ways {
                bench.anew();
                let what = format!("{name}: {call} number {count}, {way}");
                let inject = format!("inject={call}:{way}:when={count}");
                let hit = bench.run(
                    line,
                    &["-o".into(), "/dev/null".into(), "-e".into(), format!("trace={call}"), "-e".into(), inject],
                );
                let killed = way == "signal=KILL";
                let known = [reference.code, 2, 74];
                assert!(killed || known.contains(&hit.code), "{what}: exit {}\n{}", hit.code, hit.stderr);
                let left = tree(&bench.work());
                // What is on its way may be left by a kill, and where it can't be removed.
                let on_its_way = |path: &Path| {
                    let text = path.display().to_string();
                    ["st/tmp/", "other/tmp/", "tmp/"].iter().any(|folder| text.starts_with(folder))
                        || text.contains("/.new")
                        || text.starts_with(".new")
                };
                for (path, bytes) in &left {
                    let known = [expected.get(path), bench.files.get(path)];
                    let is_known = known.iter().flatten().any(|known| *known == bytes);
                    assert!(
                        is_known || (killed || *removing) && on_its_way(path),
                        "{what}: {}\n{}",
                        path.display(),
                        hit.stderr
                    );
                }
                for path in bench.files.keys().filter(|path| expected.contains_key(*path)) {
                    assert!(left.contains_key(path) || name == "run again", "{what}: {} is gone", path.display());
                }
                if hit.code == reference.code && !killed && !removing {
                    assert_eq!(
                        left.keys().collect::<Vec<_>>(),
                        expected.keys().collect::<Vec<_>>(),
                        "{what}\n{}",
                        hit.stderr
                    );
                }
                *tried.entry(name).or_insert(0) += 1;
                // A folder that was begun is not written into again: the user removes it.
                if name == "new" {
                    continue;
                }
                let again = bench.run(line, &[]);
                assert_eq!(again.code, reference.code, "{what}, then again: {}", again.stderr);
                let mut left = tree(&bench.work());
                left.retain(|path, _| !on_its_way(path));
                let differing: Vec<_> = left
                    .iter()
                    .filter(|(path, bytes)| expected.get(*path) != Some(bytes))
                    .map(|(path, _)| path)
                    .collect();
                assert!(differing.is_empty() && left.len() == expected.len(), "{what}, then again: {differing:?}");
            }
        }
    }
    told(&format!("faults by command: {tried:?}"));
    assert!(tried.values().sum::<i32>() > 500, "{tried:?}");
}
