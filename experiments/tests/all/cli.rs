//! The command as its users meet it: results, exit codes, resuming, swapping, and the same bytes everywhere.

use std::path::Path;

use sandtable_needs::needs;

use crate::guest::{Parts, guest};
use crate::help::{cells, command, dist, ran, rewrite, root, sandtable};

const SPEC: &str = r#"Experiment(
    title: "small",
    fleet: Model(nodes: 2, gpus: 4, kind: "V100-SXM2-16GB"),
    workload: Generate(jobs: 60, arrivals: Poisson(load: 1.1), durations: LogNormal(median: "10min", sigma: 1.0), gpus: {1: 0.6, 2: 0.3, 4: 0.1}),
    policies: [Policy(name: "fifo"), Policy(name: "srtf"), Policy(name: "las")],
    predictors: {"remaining": Oracle},
    seeds: Range(0, 4),
)
"#;

fn folder(spec: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    folder
}

fn run(folder: &Path, args: &[&str]) -> crate::help::Ran {
    let dist = dist();
    let mut all = vec!["run", "spec.ron", "--policies", &dist];
    all.extend(args);
    sandtable(folder, &all)
}

#[test]
fn a_run_prints_a_table_and_a_second_one_executes_nothing() {
    let folder = folder(SPEC);
    let first = run(folder.path(), &["--jobs", "2"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(first.stderr.contains("12 cells, 0 cached"), "{}", first.stderr);
    let second = run(folder.path(), &["--jobs", "2"]);
    assert!(second.stderr.contains("\n0 cells executed"), "{}", second.stderr);
    assert_eq!(first.stdout, second.stdout);
    insta::assert_snapshot!(first.stdout);
}

#[test]
fn threads_and_working_directories_change_no_byte() {
    let one = folder(SPEC);
    assert_eq!(run(one.path(), &["--jobs", "1"]).code, 0);
    let two = folder(SPEC);
    let spec = two.path().join("spec.ron").display().to_string();
    let store = two.path().join("store").display().to_string();
    let ran = sandtable(&root(), &["run", &spec, "--jobs", "2", "--store", &store]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let (one, two) = (cells(&one.path().join("store")), cells(&two.path().join("store")));
    assert_eq!(one.len(), 12 * 6);
    assert!(one == two, "the stores differ");
}

#[test]
fn verify_proves_a_store_and_finds_a_changed_byte() {
    let folder = folder(SPEC);
    run(folder.path(), &[]);
    let dist = dist();
    let verify = ["verify", "spec.ron", "--policies", &dist];
    let ran = sandtable(folder.path(), &verify);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "small: 12 cells identical, 0 different, 0 missing\n"));
    let (path, mut bytes) =
        cells(&folder.path().join("store")).into_iter().find(|(path, _)| path.ends_with("jobs.csv")).expect("jobs.csv");
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    let store = folder.path().join("store");
    rewrite(&store, &path, &bytes);
    let differs = |why: &str| {
        let ran = sandtable(folder.path(), &verify);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, "small: 11 cells identical, 1 different, 0 missing\n"));
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    };
    differs("differs in jobs.csv");
    let packed = store.join(path).with_extension("csv.zst");
    let bytes = std::fs::read(&packed).expect("the table");
    std::fs::write(&packed, &bytes[..bytes.len() / 2]).expect("written");
    differs("differs in a table: cannot unpack ");
}

#[test]
fn a_killed_run_goes_on_and_ends_the_same() {
    let whole = folder(SPEC);
    run(whole.path(), &["--jobs", "2"]);
    let killed = folder(SPEC);
    let dist = dist();
    let mut child = command(killed.path(), &["run", "spec.ron", "--policies", &dist, "--jobs", "1"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the command runs");
    // As soon as there is something to lose; the run may also be over by then, which is as good.
    let store = killed.path().join("store/cells");
    while child.try_wait().expect("a child").is_none()
        && !store.read_dir().is_ok_and(|mut entries| entries.next().is_some())
    {
        std::thread::yield_now();
    }
    let _ = child.kill();
    child.wait().expect("a child");
    assert_eq!(run(killed.path(), &["--jobs", "2"]).code, 0);
    assert!(cells(&killed.path().join("store")) == cells(&whole.path().join("store")), "the stores differ");
}

#[test]
fn an_interrupted_run_ends_with_130_and_goes_on() {
    let folder = folder(SPEC);
    let dist = dist();
    let mut child = command(folder.path(), &["run", "spec.ron", "--policies", &dist, "--jobs", "1", "--sweep", SWEEP])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the command runs");
    let store = folder.path().join("store/cells");
    while child.try_wait().expect("a child").is_none()
        && !store.read_dir().is_ok_and(|mut entries| entries.next().is_some())
    {
        std::thread::yield_now();
    }
    let interrupt = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.is_ok_and(|status| status.success()));
    assert_eq!(child.wait().expect("a child").code(), Some(130));
    let ran = run(folder.path(), &["--sweep", SWEEP]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!ran.stderr.contains(" 0 cached"), "{}", ran.stderr);
}

/// Many cells, so that an interruption comes before the last.
const SWEEP: &str =
    "workload.arrivals.load=0.50,0.51,0.52,0.53,0.54,0.55,0.56,0.57,0.58,0.59,0.60,0.61,0.62,0.63,0.64,0.65";

#[test]
fn another_component_under_the_same_name_is_another_cell() {
    let spec = r#"Experiment(
        title: "swap",
        fleet: Model(nodes: 1, gpus: 4, kind: "K80"),
        workload: Generate(jobs: 40, arrivals: Poisson(load: 1.2), durations: LogNormal(median: "10min", sigma: 1.0), gpus: {1: 0.5, 4: 0.5}),
        policies: [Policy(name: "./mine.wasm")],
        predictors: {"remaining": Oracle},
    )"#;
    let folder = folder(spec);
    let mut results = Vec::new();
    for policy in ["fifo", "srtf"] {
        std::fs::copy(Path::new(&dist()).join(format!("{policy}.wasm")), folder.path().join("mine.wasm"))
            .expect("copied");
        let plan = sandtable(folder.path(), &["plan", "spec.ron", "--format", "csv"]);
        let id = plan.stdout.lines().nth(1).and_then(|line| line.split(',').next()).expect("an id").to_string();
        results.push((id, run(folder.path(), &[]).stdout));
    }
    assert_ne!(results[0].0, results[1].0, "the ids");
    assert_ne!(results[0].1, results[1].1, "the results");
}

#[test]
fn the_id_is_the_digest_of_the_inputs() {
    let folder = folder(SPEC);
    run(folder.path(), &["--only", "fifo", "--set", "seeds=List([7])"]);
    let files = cells(&folder.path().join("store"));
    let (path, bytes) = files.iter().find(|(path, _)| path.ends_with("cell.json")).expect("cell.json");
    let id = path.parent().and_then(Path::file_name).expect("a folder").to_string_lossy().to_string();
    assert_eq!(sandtable::digest::digest(bytes), id);
}

#[test]
fn a_policy_that_fails_costs_its_cells_and_no_other() {
    let spec = SPEC.replace("Policy(name: \"las\")", "Policy(name: \"./trap.wasm\"), Policy(name: \"./core.wasm\")");
    let folder = folder(&spec);
    std::fs::write(folder.path().join("core.wasm"), b"\0asm\x01\0\0\0").expect("written");
    let trap = guest(&Parts { decide: "(unreachable)".into(), ..Parts::default() });
    std::fs::write(folder.path().join("trap.wasm"), trap).expect("written");
    let ran = run(folder.path(), &[]);
    assert_eq!(ran.code, 3);
    let stderr = ran.stderr.lines().filter(|line| line.starts_with("error")).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(format!("{stderr}\n{}", ran.stdout));
    // Failures are kept, and run again only when asked.
    assert!(run(folder.path(), &[]).stderr.contains("\n0 cells executed"));
    assert!(run(folder.path(), &["--retry-failed"]).stderr.contains("\n8 cells executed"));
    // The capsule replays to the same fault.
    let store = folder.path().join("store");
    let capsule = cells(&store).into_iter().find(|(path, _)| path.ends_with("capsule.json.zst")).expect("a capsule").0;
    let capsule = store.join(capsule).display().to_string();
    let ran = sandtable(folder.path(), &["policy", "replay", &capsule, "--policy", "trap.wasm"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("the same fault: "), "{}", ran.stdout);
}

#[test]
fn jobs_that_can_never_run_are_listed_and_said() {
    let spec = r#"Experiment(
        title: "too large",
        fleet: Model(nodes: 1, gpus: 4, kind: "K80"),
        workload: Jobs([Job(submit: "0s", gpus: 8, duration: "1min"), Job(submit: "1s", gpus: 1, duration: "1min")]),
        policies: [Policy(name: "fifo")],
    )"#;
    let folder = folder(spec);
    let ran = run(folder.path(), &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("warning: 1 jobs could never run on this fleet"), "{}", ran.stderr);
    let files = cells(&folder.path().join("store"));
    let jobs = files.iter().find(|(path, _)| path.ends_with("jobs.csv")).expect("jobs.csv");
    let jobs = String::from_utf8_lossy(&jobs.1).to_string();
    assert!(jobs.contains("it asks for 8 GPUs of one type that it allows, the fleet has 4"), "{jobs}");
}

#[test]
fn sweeps_and_formats() {
    let folder = folder(SPEC);
    let args = ["--only", "fifo,las", "--sweep", "workload.arrivals.load=0.5,1.5", "--set", "seeds=List([0])"];
    let table = run(folder.path(), &args);
    let csv = run(folder.path(), &[&args[..], &["--format", "csv"]].concat());
    let json = run(folder.path(), &[&args[..], &["--format", "json"]].concat());
    assert_eq!((csv.stdout.lines().count(), json.stdout.lines().count()), (5, 4));
    for line in json.stdout.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(row["jct_mean_s"]["mean"].as_f64().expect("a number") > 0.0);
    }
    insta::assert_snapshot!(table.stdout);
}

#[test]
fn the_plan_shows_what_a_preset_does() {
    let spec = SPEC.replace("seeds: Range(0, 4)", "semantics: Semantics(preset: \"lucid-consolidate\")");
    let folder = folder(&spec);
    let dist = dist();
    let ran = sandtable(folder.path(), &["plan", "spec.ron", "--policies", &dist]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // Digests and ids change with every build of a component.
    let shown: Vec<&str> = ran.stdout.lines().filter_map(|line| line.split_once('{').map(|(_, rest)| rest)).collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn help_is_a_reference() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut all = String::new();
    for args in [vec!["--help"], vec!["run", "--help"], vec!["trace", "import", "--help"], vec!["policy", "--help"]] {
        let ran = sandtable(folder.path(), &args);
        assert_eq!(ran.code, 0);
        all.push_str(&format!("=== sandtable {}\n{}\n", args.join(" "), ran.stdout));
    }
    insta::assert_snapshot!(all);
    assert!(sandtable(folder.path(), &["man"]).stdout.starts_with(".ie"));
}

/// The lines that a terminal of so many columns gets of a command's results.
fn on_a_terminal(folder: &Path, columns: u32, words: &str) -> Vec<String> {
    let program = command(folder, &[]).get_program().to_string_lossy().to_string();
    let line = format!("stty rows 24 cols {columns}; '{program}' {words} 2>/dev/null");
    let said = ran(std::process::Command::new("script").args(["-qec", &line, "/dev/null"]).current_dir(folder));
    assert_eq!(said.code, 0, "{}", said.stderr);
    said.stdout.lines().map(|line| line.trim_end().to_string()).collect()
}

#[needs("tool:script", "tool:stty")]
#[test]
fn tables_fit_the_terminal() {
    let folder = folder(SPEC);
    let words = format!("run spec.ron --policies '{}' --no-progress --color never", dist());
    let mut narrow = on_a_terminal(folder.path(), 80, &words);
    // A terminal breaks prose where it has to.
    narrow.retain(|line| !line.starts_with("note: "));
    assert!(narrow.iter().all(|line| line.chars().count() <= 80), "{narrow:#?}");
    let parts = narrow.iter().filter(|line| line.starts_with("policy ")).count();
    let wide = on_a_terminal(folder.path(), 400, &words);
    let whole = wide.iter().find(|line| line.starts_with("policy ")).expect("a table");
    assert!(parts > 1 && whole.len() > 80, "{parts} {whole}");
    // Nothing is lost.
    let heads: Vec<&str> = whole.split("  ").map(str::trim).filter(|head| !head.is_empty()).collect();
    assert!(heads.iter().all(|head| narrow.iter().any(|line| line.contains(head))), "{heads:?} {narrow:#?}");
    // A file and what is no terminal get it whole.
    let merge = format!("merge spec.ron --policies '{}' -o merged.txt", dist());
    on_a_terminal(folder.path(), 40, &merge);
    let merged = std::fs::read_to_string(folder.path().join("merged.txt")).expect("a table");
    assert_eq!(merged.lines().count(), 13, "{merged}");
    let ran = run(folder.path(), &[]);
    assert!(ran.stdout.lines().any(|line| line == whole), "{}", ran.stdout);
}

#[test]
fn a_folder_of_policies_has_to_be_there() {
    let folder = folder(SPEC);
    let ran = sandtable(folder.path(), &["plan", "spec.ron", "--policies", "fifo,las"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("--policies fifo,las: expected a folder of policies"), "{}", ran.stderr);
    assert!(ran.stderr.contains("`--only LABEL,LABEL` selects policies"), "{}", ran.stderr);
}

#[test]
fn policies_say_what_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let las = format!("{}/las.wasm", dist());
    let ran = sandtable(folder.path(), &["policy", "inspect", &las]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let text: String =
        ran.stdout.lines().filter(|line| !line.starts_with("blake3")).map(|line| line.to_string() + "\n").collect();
    insta::assert_snapshot!(text);
    let ran = sandtable(folder.path(), &["policy", "inspect", "los"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (2, "error: no policy or predictor `los`; did you mean `las`?\n"));
}

#[test]
fn traces_are_made_and_described() {
    let folder = folder(SPEC);
    let dist = dist();
    let ran = sandtable(folder.path(), &["trace", "generate", "spec.ron", "--policies", &dist, "-o", "t.csv"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = sandtable(folder.path(), &["trace", "stats", "t.csv"]);
    insta::assert_snapshot!(ran.stdout);
    std::fs::write(folder.path().join("bad.csv"), "submit_s,gpus,duration_s\n0,1,60\n5,two,60\n").expect("written");
    let ran = sandtable(folder.path(), &["trace", "stats", "bad.csv"]);
    let expected = "error: bad.csv:3: column `gpus`: expected a whole number, found \"two\"\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (2, expected));
}

#[test]
fn a_store_is_listed_and_swept() {
    let folder = folder(SPEC);
    run(folder.path(), &["--only", "fifo"]);
    let store = ["--store", "store"];
    let ran = sandtable(folder.path(), &[&["store", "list", "--format", "csv"], &store[..]].concat());
    assert_eq!(ran.stdout.lines().count(), 5, "{}", ran.stdout);
    std::fs::create_dir_all(folder.path().join("store/tmp/left")).expect("made");
    let ran = sandtable(folder.path(), &[&["store", "gc"], &store[..]].concat());
    assert!(ran.stdout.ends_with("1 unfinished ones swept\n"), "{}", ran.stdout);
}
