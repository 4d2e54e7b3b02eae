//! Files of strangers: words that a terminal would act on, inputs without an end, bundles, stores and plan files that
//! others have filled, specs that name programs.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use sandtable::input::sorted;

use crate::attacks;
use crate::help::{cells, command, dist, ran, sandtable, skipped};
use crate::hostile::{folder, run, spec};

#[test]
fn the_store_of_a_plan_file_is_ones_own_or_named() {
    let folder = folder(&["fifo"]);
    let dist = dist();
    let plan = ["plan", "spec.ron", "--store", "theirs", "--policies", &dist, "--output", "plan.jsonl"];
    assert_eq!(sandtable(folder.path(), &plan).code, 0);
    let ran = sandtable(folder.path(), &["run", "--plan", "plan.jsonl", "--no-progress"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // A folder of somebody else's.
    let theirs = folder.path().join("theirs");
    let me = folder.path().metadata().expect("there").uid();
    // Root's own, for whoever is not root; root gives one away.
    let theirs = match me {
        0 if std::os::unix::fs::chown(&theirs, Some(65_534), None).is_ok() => theirs,
        0 => return skipped("this root may not give a folder to another user"),
        _ => "/usr/store".into(),
    };
    let text = std::fs::read_to_string(folder.path().join("plan.jsonl")).expect("a plan");
    let named = folder.path().join("theirs").display().to_string();
    std::fs::write(folder.path().join("plan.jsonl"), text.replace(&named, &theirs.display().to_string()))
        .expect("written");
    let ran = sandtable(folder.path(), &["run", "--plan", "plan.jsonl", "--no-progress"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("belongs to user") && ran.stderr.contains("--store DIR"), "{}", ran.stderr);
    let ran = sandtable(folder.path(), &["run", "--plan", "plan.jsonl", "--no-progress", "--store", "mine"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

/// Nothing that a terminal would act on, and no line that begins as `lie` does.
fn is_harmless(text: &str, lie: &str) {
    let acts = |c: char| (c.is_control() && c != '\n' && c != '\t') || sandtable_hardware::text::turns(c);
    assert!(!text.contains(acts), "{text:?}");
    assert!(!text.lines().any(|line| line.trim_start().starts_with(lie)), "{text}");
}

#[test]
fn the_words_of_a_guest_stay_in_their_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |name: &str| format!("./{name}");
    for (name, bytes) in [
        ("d01-describe-escapes.wasm", attacks::describes_itself_in_escapes()),
        ("v04-error-text-escapes.wasm", attacks::refuses_in_escapes()),
    ] {
        std::fs::write(folder.path().join(name), bytes).expect("written");
    }
    for args in [
        &["policy", "inspect", &of("d01-describe-escapes.wasm")][..],
        &["policy", "inspect", "--json", &of("d01-describe-escapes.wasm")],
        &["policy", "check", &of("d01-describe-escapes.wasm")],
        &["policy", "check", &of("v04-error-text-escapes.wasm")],
    ] {
        let ran = sandtable(folder.path(), args);
        assert!((ran.stdout.clone() + &ran.stderr).contains("fake"), "{args:?}: {}{}", ran.stdout, ran.stderr);
        is_harmless(&(ran.stdout + &ran.stderr), "error: fake");
    }
    let text = spec(&[&of("v04-error-text-escapes.wasm")]);
    std::fs::write(folder.path().join("spec.ron"), text).expect("written");
    let ran = run(folder.path(), "store", &[]);
    assert_eq!(ran.code, 3);
    is_harmless(&(ran.stdout + &ran.stderr), "error: fake");
}

#[test]
fn the_words_of_a_strangers_files_stay_in_their_line() {
    const ESCAPES: &str = "x\u{1b}[2J\u{9b}31m\u{202e}";
    let folder = folder(&["fifo"]);
    let plain = spec(&["fifo"]);
    // A title and a label are refused.
    for (what, text) in [
        ("title", plain.replace("\"hostile\"", &format!("\"{ESCAPES}\""))),
        ("a policy can't be called", plain.replace("name: \"fifo\"", &format!("name: \"fifo\", label: \"{ESCAPES}\""))),
        ("`--only` could not choose it", plain.replace("name: \"fifo\"", "name: \"fifo\", label: \"a,b\"")),
        ("`--only` could not choose it", plain.replace("name: \"fifo\"", "name: \"fifo\", label: \"-a\"")),
        ("no field", plain.replace("seeds:", "\"y\\nerror: lie\": 1, seeds:")),
    ] {
        std::fs::write(folder.path().join("spec.ron"), text).expect("written");
        let ran = run(folder.path(), "store", &[]);
        assert_eq!(ran.code, 2, "{what}: {}", ran.stderr);
        assert!(ran.stderr.contains(what) || what == "no field", "{what}: {}", ran.stderr);
        is_harmless(&ran.stderr, "error: lie");
    }
    // Names of jobs and users are kept as their escapes.
    let trace =
        format!("job_id,submit_s,gpus,duration_s,user\n\"{ESCAPES}\nerror: lie\",0,1,10,\"{ESCAPES}\nerror: lie\"\n");
    std::fs::write(folder.path().join("t.csv"), trace).expect("written");
    let (from, to) = (plain.find("Jobs(").expect("jobs"), plain.find(" seeds").expect("seeds"));
    let text = plain.replace(&plain[from..to], "Trace(file: \"t.csv\"),");
    std::fs::write(folder.path().join("spec.ron"), text).expect("written");
    assert_eq!(run(folder.path(), "store", &[]).code, 0);
    let dist = dist();
    for args in [
        &["show", "spec.ron", "--policies", &dist, "--store", "store"][..],
        &["trace", "stats", "t.csv"],
        &["trace", "import", "t.csv"],
        &["merge", "spec.ron", "--policies", &dist, "--store", "store", "--format", "csv"],
    ] {
        let ran = sandtable(folder.path(), args);
        is_harmless(&(ran.stdout + &ran.stderr), "error: lie");
    }
    let rows = cells(&folder.path().join("store")).into_iter().find(|(path, _)| path.ends_with("jobs.csv"));
    is_harmless(&String::from_utf8(rows.expect("rows").1).expect("UTF-8"), "error: lie");
    // A plan file, a capsule and a bundle that are none.
    let lie = "{\"plan\": 1, \"y\\nerror: lie\\u001b[2J\": 1}\n";
    std::fs::write(folder.path().join("plan.json"), lie).expect("written");
    for args in [&["run", "--plan", "plan.json"][..], &["policy", "replay", "plan.json"], &["verify", "their.tar.zst"]]
    {
        std::fs::write(folder.path().join("their.tar.zst"), lie).expect("written");
        let ran = sandtable(folder.path(), args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        is_harmless(&ran.stderr, "error: lie");
    }
}

/// What is no plain file, or is bounded before the first cell, is told at once; nothing of a cell is left of a store that can't
/// be written.
#[test]
fn inputs_without_an_end_are_told_at_once() {
    let folder = folder(&["fifo"]);
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let plain = spec(&["fifo"]);
    let fleet = "Model(nodes: 1, gpus: 2, kind: \"g\", speed: 1.0)";
    let jobs = &plain[plain.find("Jobs(").expect("jobs")..plain.find(" seeds").expect("seeds")];
    let trace = |file: &str| plain.replace(jobs, &format!("Trace(file: \"{file}\"),"));
    let specs = [
        (trace("pipe"), "expected a file, found a pipe"),
        (trace("/dev/zero"), "expected a file, found a pipe or a device"),
        (plain.replace("\"fifo\"", "\"./pipe\""), "expected a file, found a pipe"),
        (plain.replace("\"fifo\"", "\"/dev/zero\""), "expected a file, found a pipe or a device"),
        (plain.replace("Range(0, 2)", "Range(0, 1000000)"), "1000000 cells, at most 100000 are made"),
        (
            plain.replace(fleet, "Model(nodes: 1000, gpus: 1000, kind: \"g\", speed: 1.0, links: NvlinkPairs)"),
            "1000000000 links of 1000 nodes of 1000 GPUs, expected at most 16000000",
        ),
    ];
    for (text, why) in specs {
        std::fs::write(folder.path().join("spec.ron"), text).expect("written");
        let ran = run(folder.path(), "store", &[]);
        assert_eq!(ran.code, 2, "{why}: {}", ran.stderr);
        assert!(ran.stderr.contains(why), "{why}: {}", ran.stderr);
    }
    for args in [
        &["run", "pipe"][..],
        &["verify", "pipe.tar.zst"],
        &["run", "--plan", "pipe"],
        &["policy", "replay", "pipe"],
        &["policy", "inspect", "./pipe"],
        &["trace", "stats", "pipe"],
        &["model", "inspect", "pipe"],
    ] {
        let _ = std::fs::rename(&pipe, folder.path().join(args.last().expect("a file")));
        let ran = sandtable(folder.path(), args);
        let _ = std::fs::rename(folder.path().join(args.last().expect("a file")), &pipe);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
    }
}

/// A tar of one record of this kind, whose contents are so many zeros, packed.
fn record(kind: tar::EntryType, bytes: u64) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_path("././@LongLink").expect("a path");
    header.set_size(bytes);
    header.set_cksum();
    let mut out = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
    std::io::Write::write_all(&mut out, header.as_bytes()).expect("written");
    std::io::copy(&mut std::io::Read::take(std::io::repeat(b'a'), bytes), &mut out).expect("written");
    out.finish().expect("packed")
}

#[test]
fn records_of_a_bundle_are_not_read_without_a_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    for (kind, why) in [
        (tar::EntryType::GNULongName, "a name of more than 4096 bytes"),
        (tar::EntryType::XHeader, "has no place in one"),
        (tar::EntryType::GNULongLink, "has no place in one"),
        (tar::EntryType::XGlobalHeader, "has no place in one"),
    ] {
        std::fs::write(folder.path().join("b.tar.zst"), record(kind, 1 << 30)).expect("written");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -d 200000; exec \"$0\" verify b.tar.zst", env!("CARGO_BIN_EXE_sandtable")]);
        let output = shell.current_dir(folder.path()).output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{kind:?}: {said}");
    }
}

#[test]
fn names_in_a_store_that_are_none_of_ours_are_left_alone() {
    let folder = folder(&["fifo"]);
    assert_eq!(run(folder.path(), "store", &[]).code, 0);
    let before = cells(&folder.path().join("store"));
    let store = folder.path().join("store");
    // 64 bytes that are no id, a shelf that leads elsewhere, and a plain file on the way.
    std::fs::create_dir_all(store.join("cells/aa").join(format!("a€{}", "b".repeat(60)))).expect("made");
    let elsewhere = folder.path().join("elsewhere");
    let cell = sorted(&store.join("cells")).expect("shelves").remove(0);
    let cell = if cell.ends_with("aa") { sorted(&store.join("cells")).expect("shelves").remove(1) } else { cell };
    assert!(std::process::Command::new("cp").arg("-r").arg(&cell).arg(&elsewhere).status().expect("cp").success());
    std::os::unix::fs::symlink(&elsewhere, store.join("cells/zz")).expect("a link");
    std::fs::write(store.join("tmp/file"), "x").expect("written");
    std::fs::create_dir_all(store.join("code/modules")).expect("made");
    for args in [&["store", "list", "--store", "store"][..], &["store", "gc", "--store", "store"]] {
        let ran = sandtable(folder.path(), args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    }
    assert!(!store.join("tmp/file").exists() && !store.join("code").exists());
    // Cells that no spec names are removed; what a link leads to is not.
    let other = spec(&["las"]);
    std::fs::write(folder.path().join("spec.ron"), other).expect("written");
    let dist = dist();
    let ran = sandtable(folder.path(), &["store", "gc", "spec.ron", "--store", "store"]);
    assert_eq!(ran.code, 0, "{} {dist}", ran.stderr);
    assert!(cells(&store).len() < before.len() && sorted(&elsewhere).expect("there").len() == 1);
}

/// A stranger's spec runs nothing that one has not read.
#[test]
fn the_programs_of_a_spec_run_once_they_were_allowed() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = |word: &str| {
        let text = format!(
            "Experiment(title: \"live\", fleet: Nvidia(devices: StandIn(1), quiet: \"10ms\", commands: {{\"*\": \
             [\"sh\", \"-c\", \"{word} >> $0\", \"{}/ran\"]}}), workload: Jobs([Job(submit: \"0s\", gpus: 1, \
             duration: \"1s\")]), policies: [Policy(name: \"fifo\")])",
            folder.path().display()
        );
        std::fs::write(folder.path().join("spec.ron"), text).expect("written");
    };
    let lines = || std::fs::read_to_string(folder.path().join("ran")).map_or(0, |text| text.lines().count());
    let run = |more: &[&str]| {
        let policies = dist();
        let mut args = vec!["run", "spec.ron", "--policies", &policies, "--store", "store"];
        args.extend(more);
        ran(command(folder.path(), &args).env("XDG_STATE_HOME", folder.path().join("state")))
    };
    spec("echo \u{1b}[2J");
    let refused = run(&[]);
    assert_eq!((refused.code, lines()), (2, 0), "{}", refused.stderr);
    let shown = "runs programs on this machine as you: \"*\": sh -c 'echo \\u{1b}[2J >> $0' ";
    assert!(refused.stderr.contains(shown), "{}", refused.stderr);
    assert!(refused.stderr.contains("--allow-commands, once"), "{}", refused.stderr);
    assert_eq!((run(&["--allow-commands"]).code, lines()), (0, 1));
    assert_eq!((run(&[]).code, lines()), (0, 2), "it was allowed before");
    spec("echo other");
    assert_eq!((run(&[]).code, lines()), (2, 2), "other words are to be allowed anew");
    // What others can write to says nothing of what this user allowed.
    let kept = folder.path().join("state/sandtable/commands");
    std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o777)).expect("a mode");
    spec("echo \u{1b}[2J");
    assert_eq!((run(&[]).code, lines()), (2, 2));
}

/// All seeds of a policy share what it is, and rows are shown as they are made; each cell took 13 kB.
#[test]
fn a_plan_of_many_cells_needs_little_memory() {
    let folder = folder(&["fifo"]);
    let spec = std::fs::read_to_string(folder.path().join("spec.ron")).expect("written");
    let many = spec.replace("seeds: Range(0, 2)", "seeds: Range(0, 100000)");
    assert_ne!(many, spec);
    std::fs::write(folder.path().join("many.ron"), many).expect("written");
    for (how, lines) in
        [("--format table", 100_007), ("--format csv", 100_001), ("--format json", 100_000), ("-o plan.jsonl", 1)]
    {
        let line = format!("ulimit -d 250000; exec \"$0\" plan many.ron --store store {how}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &line, env!("CARGO_BIN_EXE_sandtable")]).current_dir(folder.path());
        let output = shell.env("XDG_CACHE_HOME", folder.path().join("cache")).output().expect("a shell");
        assert!(output.status.success(), "{how}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), lines, "{how}");
    }
}
