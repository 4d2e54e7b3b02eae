//! The store against a model of it, a map: whatever writers, crashes, damage and strangers do, in whatever order, nothing is
//! lost, nothing is there twice, and what was damaged is told apart from what is whole. (`faults` kills the program at each
//! call; here is what follows each other.)

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use sandtable::error::ExitCode;
use sandtable::input::sorted;
use sandtable::store::{Files, Store};

/// What happens to a store.
#[derive(Clone, Debug)]
enum Step {
    /// Somebody has computed a cell, with these contents.
    Put(u8, u8),
    /// Two have, at once.
    PutTwice(u8, u8, u8),
    /// Somebody takes a failed cell out.
    Remove(u8),
    /// A writer of this machine was killed with some of a cell written.
    Crash(u8, u8),
    /// One of another machine, of which nobody here sees whether it goes on.
    CrashElsewhere(u8),
    /// A file of a cell loses its end.
    Cut(u8),
    /// Somebody puts a link, a file and a folder among the cells.
    Clutter(u8),
    /// What crashes left is removed.
    Sweep { everywhere: bool },
    /// A live run is kept.
    Observe(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cell = 0..4u8;
    let step = prop_oneof![
        6 => (cell.clone(), 0..3u8).prop_map(|(cell, version)| Step::Put(cell, version)),
        2 => (cell.clone(), 0..2u8, 0..2u8).prop_map(|(cell, a, b)| Step::PutTwice(cell, a, b)),
        2 => cell.clone().prop_map(Step::Remove),
        2 => (cell.clone(), 0..3u8).prop_map(|(cell, files)| Step::Crash(cell, files)),
        1 => cell.clone().prop_map(Step::CrashElsewhere),
        2 => cell.clone().prop_map(Step::Cut),
        1 => cell.clone().prop_map(Step::Clutter),
        2 => any::<bool>().prop_map(|everywhere| Step::Sweep { everywhere }),
        1 => cell.prop_map(Step::Observe),
    ];
    prop::collection::vec(step, 1..40)
}

fn id(cell: u8) -> String {
    blake3::hash(&[cell]).to_hex().to_string()
}

fn contents(cell: u8, version: u8) -> Files {
    let file = |name: &str| (name.to_string(), format!("{name} of {cell}, version {version}").into_bytes());
    ["cell.json", "jobs.csv", "summary.json"].map(file).to_vec()
}

/// What a store should have.
#[derive(Default)]
struct Model {
    cells: BTreeMap<String, Files>,
    conflicts: usize,
    observations: BTreeMap<String, usize>,
    /// Folders on their way that crashes left here, and elsewhere.
    left: (usize, usize),
}

impl Model {
    /// A second result that differs is kept beside the first, and told.
    fn put(&mut self, id: &str, files: &Files) -> Result<(), ExitCode> {
        match self.cells.get(id) {
            Some(first) if first != files => {
                self.conflicts += 1;
                Err(ExitCode::CheckFailed)
            }
            Some(_) => Ok(()),
            None => {
                self.cells.insert(id.to_string(), files.clone());
                Ok(())
            }
        }
    }
}

/// A process that has ended: its number is nobody's.
fn dead() -> u32 {
    let mut child = std::process::Command::new("true").spawn().expect("it runs");
    let pid = child.id();
    child.wait().expect("it ends");
    pid
}

/// A folder on its way, as a crash leaves it.
fn leave(store: &Store, id: &str, process: u32, host: Option<&str>, files: &[(String, Vec<u8>)]) {
    let made = store.temporary(id).expect("made");
    let name = made.file_name().expect("a name").to_string_lossy().to_string();
    let parts: Vec<&str> = name.split('.').collect();
    let name = format!("{}.{process}.{}.{}", parts[0], host.unwrap_or(parts[2]), parts[3]);
    let left = made.with_file_name(name);
    std::fs::rename(&made, &left).expect("renamed");
    for (name, bytes) in files {
        std::fs::write(left.join(name), &bytes[..bytes.len() / 2]).expect("written");
    }
}

fn carry_out(store: &Store, model: &mut Model, step: &Step, process: u32) {
    match step {
        Step::Put(cell, version) => {
            let files = contents(*cell, *version);
            let put = store.put(&id(*cell), &files).map_err(|error| error.exit);
            assert_eq!(put, model.put(&id(*cell), &files));
        }
        Step::PutTwice(cell, a, b) => {
            let writers = [*a, *b].map(|version| {
                let (store, id, files) = (store.clone(), id(*cell), contents(*cell, version));
                std::thread::spawn(move || store.put(&id, &files).map_err(|error| error.exit))
            });
            let puts = writers.map(|writer| writer.join().expect("no panic"));
            // Whoever was first, the model learns from what is there.
            let first = store.files(&id(*cell)).expect("one of them");
            model.cells.entry(id(*cell)).or_insert(first);
            let expected = [*a, *b].map(|version| model.put(&id(*cell), &contents(*cell, version)));
            assert_eq!(puts, expected);
        }
        Step::Remove(cell) => {
            store.remove(&id(*cell)).expect("removed, or nothing was there");
            model.cells.remove(&id(*cell));
        }
        Step::Crash(cell, files) => {
            leave(store, &id(*cell), process, None, &contents(*cell, 0)[..*files as usize]);
            model.left.0 += 1;
        }
        Step::CrashElsewhere(cell) => {
            leave(store, &id(*cell), 1, Some("elsewhere"), &[]);
            model.left.1 += 1;
        }
        Step::Cut(cell) => {
            if let Some(files) = model.cells.get_mut(&id(*cell)) {
                let (name, bytes) = &mut files[1];
                bytes.truncate(bytes.len() / 2);
                match name.ends_with(".csv") {
                    true => crate::help::rewrite(&store.folder(&id(*cell)), Path::new(name), bytes),
                    false => std::fs::write(store.folder(&id(*cell)).join(name), bytes).expect("cut"),
                }
            }
        }
        Step::Clutter(cell) => {
            let cells = store.root().join("cells");
            let _ = std::os::unix::fs::symlink("/", cells.join(format!("l{cell}")));
            let _ = std::fs::write(cells.join(format!("f{cell}")), "a note");
            let _ = std::fs::create_dir_all(cells.join("zz").join(id(*cell)));
        }
        Step::Sweep { everywhere } => {
            let swept = store.sweep_temporary(*everywhere).expect("swept");
            let (own, foreign) = std::mem::take(&mut model.left);
            let expected = if *everywhere { (own + foreign, 0) } else { (own, foreign) };
            assert_eq!(swept, expected);
            model.left.1 = expected.1;
        }
        Step::Observe(cell) => {
            let folder = store.observe(&id(*cell), &contents(*cell, 9)).expect("kept");
            let count = model.observations.entry(id(*cell)).or_default();
            *count += 1;
            assert!(folder.ends_with(format!("{count:04}")));
        }
    }
}

fn agrees(store: &Store, model: &Model) {
    let entries = store.list().expect("listed");
    let listed: Vec<&String> = entries.iter().map(|entry| &entry.id).collect();
    assert_eq!(listed, model.cells.keys().collect::<Vec<_>>());
    for (id, files) in &model.cells {
        assert!(store.has(id) && store.look_again(id));
        assert_eq!(store.files(id).expect("files"), *files);
    }
    assert_eq!(store.conflicts(|_| true).expect("a folder").len(), model.conflicts);
    for (id, count) in &model.observations {
        assert_eq!(store.observations(id).expect("a folder").len(), *count);
    }
    let tmp: BTreeSet<PathBuf> = sorted(&store.root().join("tmp")).expect("a folder").into_iter().collect();
    assert_eq!(tmp.len(), model.left.0 + model.left.1, "{tmp:?}");
    assert!(Path::new("/usr").exists(), "a link was followed");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn a_store_is_what_a_map_would_be(steps in steps()) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path()).expect("a store");
        let mut model = Model::default();
        let process = dead();
        for step in &steps {
            carry_out(&store, &mut model, step, process);
            agrees(&store, &model);
        }
    }
}
