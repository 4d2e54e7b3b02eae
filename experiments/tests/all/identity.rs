//! Same id, same result: whatever can move a result moves the ids, and nothing else does.

use std::path::Path;
use std::process::Command;

use sandtable::digest::{canonical, digest};
use sandtable::fingerprint::{fingerprint, sources};
use sandtable::plan::build_info::BUILD;
use sandtable::plan::{Options, SCHEMA, plan};
use serde_json::Value;

use crate::help::{dist, root, sandtable};

/// A copy of what the fingerprint reads.
fn copy(to: &Path) {
    let all = sources(&root()).expect("sources").into_iter().chain([root().join("Cargo.lock")]);
    for path in all {
        let target = to.join(path.strip_prefix(root()).expect("below"));
        std::fs::create_dir_all(target.parent().expect("a folder")).expect("made");
        std::fs::copy(&path, &target).expect("copied");
    }
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).expect("a file");
    assert!(text.contains(from), "{}: no `{from}`", path.display());
    std::fs::write(path, text.replacen(from, to, 1)).expect("written");
}

#[test]
fn a_changed_constant_of_the_model_changes_every_id() {
    let folder = tempfile::tempdir().expect("a folder");
    copy(folder.path());
    // This build was made of these very sources.
    assert_eq!(fingerprint(folder.path()).expect("a fingerprint"), BUILD, "the build script did not run again");
    let model = folder.path().join("hardware/src/model/sharing.rs");
    assert!(model.exists(), "{}", model.display());
    let text = std::fs::read_to_string(&model).expect("a file");
    std::fs::write(&model, text.replacen('1', "2", 1)).expect("written");
    let other = fingerprint(folder.path()).expect("a fingerprint");
    assert_ne!(other, BUILD);
    // The fingerprint is in what every id is the hash of.
    let spec = root().join("experiments/specs/quickstart.ron");
    let of = |build: Option<String>| {
        let options = Options { build, policies: Some(dist().into()), ..Options::default() };
        plan(&spec, &options).expect("a plan").cells
    };
    for (mine, theirs) in of(None).iter().zip(of(Some(other))) {
        assert_ne!(mine.id, theirs.id);
        let inputs: Value = serde_json::from_str(&mine.inputs()).expect("JSON");
        assert_eq!(canonical(&inputs), mine.inputs());
        assert_eq!((inputs["build"].as_str(), mine.id.clone()), (Some(BUILD), digest(mine.inputs().as_bytes())));
    }
}

#[test]
fn versions_of_the_sandbox_and_of_mathematics_count_and_pages_do_not() {
    let folder = tempfile::tempdir().expect("a folder");
    copy(folder.path());
    let page = folder.path().join("experiments/report/src/page.html");
    std::fs::create_dir_all(page.parent().expect("a folder")).expect("made");
    std::fs::write(page, "another").expect("written");
    assert_eq!(fingerprint(folder.path()).expect("a fingerprint"), BUILD);
    let lock = folder.path().join("Cargo.lock");
    let text = std::fs::read_to_string(&lock).expect("a file");
    for package in ["wasmtime", "libm", "rand_chacha"] {
        edit(&lock, &format!("name = \"{package}\"\nversion = \""), &format!("name = \"{package}\"\nversion = \"9"));
        assert_ne!(fingerprint(folder.path()).expect("a fingerprint"), BUILD, "{package}");
        std::fs::write(&lock, &text).expect("written");
    }
    // A file that nobody has thought of counts.
    std::fs::write(folder.path().join("runtime/src/new.rs"), "").expect("written");
    assert_ne!(fingerprint(folder.path()).expect("a fingerprint"), BUILD);
}

const SPEC: &str = "Experiment(title: \"identity\", fleet: Model(nodes: 1, gpus: 4, kind: \"RTX-3090\", sharing: Packed(2)), \
    profile: File(\"profile.ron\"), workload: Trace(file: \"trace.csv\"), policies: [Policy(name: \"fifo\")])";

#[test]
fn what_a_profile_says_of_itself_and_how_a_trace_is_packed_move_no_id() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::copy(root().join("experiments/specs/profiles/synthetic.ron"), path("profile.ron")).expect("copied");
    let rows = "submit_s,gpus,duration_s\n0,1,100\n5,2,50\n";
    std::fs::write(path("trace.csv"), rows).expect("written");
    std::fs::write(path("spec.ron"), SPEC).expect("written");
    let id = || {
        let options = Options { policies: Some(dist().into()), ..Options::default() };
        plan(&path("spec.ron"), &options).unwrap_or_else(|error| panic!("{error}")).cells[0].id.clone()
    };
    let first = id();
    edit(&path("profile.ron"), "about: \"", "about: \"another text: ");
    edit(&path("profile.ron"), "assumed by us, not measured", "measured by us");
    assert_eq!(id(), first);
    std::fs::write(path("trace.csv"), zstd::encode_all(rows.as_bytes(), 1).expect("packed")).expect("written");
    assert_eq!(id(), first);
    edit(&path("profile.ron"), "utilisation: 1.0", "utilisation: 0.9");
    assert_ne!(id(), first);
}

const SMALL: &str = "Experiment(title: \"builds\", fleet: Model(nodes: 1, gpus: 2, kind: \"any\", speed: 1.0), \
    workload: Generate(jobs: 20), policies: [Policy(name: \"fifo\"), Policy(name: \"las\")], seeds: Range(0, 2))";

/// Gives a cell of a store the id that another build's result of it would have; its new folder.
fn as_if_of_another_build(store: &Path, cell: &sandtable::plan::Cell) -> std::path::PathBuf {
    let inputs = cell.inputs().replace(BUILD, "0123456789abcdef");
    let id = digest(inputs.as_bytes());
    let folder = |id: &str| store.join("cells").join(&id[..2]).join(id);
    std::fs::create_dir_all(folder(&id).parent().expect("a shelf")).expect("made");
    std::fs::rename(folder(&cell.id), folder(&id)).expect("moved");
    std::fs::write(folder(&id).join("cell.json"), inputs).expect("written");
    folder(&id)
}

#[test]
fn results_of_another_build_are_compared_and_taken_over() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spec.ron"), SMALL).expect("written");
    let policies = dist();
    let run = |args: &[&str]| {
        let mut all = vec!["run", "spec.ron", "--store", "store", "--policies", policies.as_str()];
        all.extend(args);
        sandtable(folder.path(), &all)
    };
    assert_eq!(run(&[]).code, 0);
    let options = Options { policies: Some(policies.clone().into()), ..Options::default() };
    let cells = plan(&folder.path().join("spec.ron"), &options).expect("a plan").cells;
    let store = folder.path().join("store");
    let moved: Vec<_> = cells.iter().map(|cell| as_if_of_another_build(&store, cell)).collect();
    let why = sandtable(folder.path(), &["explain", "spec.ron", "--store", "store", "--policies", &policies]);
    assert!(why.stdout.contains("computed by another build: build"), "{}", why.stdout);
    let planned = sandtable(folder.path(), &["plan", "spec.ron", "--store", "store", "--policies", &policies]);
    assert!(planned.stdout.contains("computed by another build"), "{}", planned.stdout);
    // One result of the other build is another.
    edit(&moved[3].join("summary.json"), "\"makespan\": ", "\"makespan\": 1");
    let ran = run(&["--accept-build"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("3 results are the same and have this build's ids now, 1 differ"), "{}", ran.stderr);
    assert!(ran.stderr.contains("moved: las") && ran.stderr.contains("summary.json differ"), "{}", ran.stderr);
    assert_eq!(moved.iter().filter(|folder| folder.exists()).count(), 1);
}

#[test]
fn a_result_says_who_computed_it_and_a_report_prints_that() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spec.ron"), SMALL).expect("written");
    let policies = dist();
    let args = ["run", "spec.ron", "--store", "store", "--policies", policies.as_str()];
    assert_eq!(sandtable(folder.path(), &args).code, 0);
    let find = Command::new("find").arg(folder.path().join("store/cells")).args(["-name", "producer.json"]).output();
    let found = String::from_utf8(find.expect("find").stdout).expect("UTF-8");
    assert_eq!(found.lines().count(), 4);
    for path in found.lines() {
        let producer: Value = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
        assert_eq!((producer["schema"].as_u64(), producer["build"].as_str()), (Some(u64::from(SCHEMA)), Some(BUILD)));
        let text = std::fs::read_to_string(path).expect("a file");
        // Somebody else's, then.
        std::fs::write(path, text.replace(BUILD, "fedcba9876543210")).expect("written");
        let summary: Value =
            serde_json::from_slice(&std::fs::read(Path::new(path).with_file_name("summary.json")).expect("a file"))
                .expect("JSON");
        assert_eq!(summary["schema"].as_u64(), Some(u64::from(SCHEMA)));
    }
    let args = ["report", "spec.ron", "-o", "page.md", "--store", "store", "--policies", policies.as_str()];
    let told = sandtable(folder.path(), &args);
    assert_eq!(told.code, 0, "{}", told.stderr);
    let page = std::fs::read_to_string(folder.path().join("page.md")).expect("a page");
    assert!(page.contains("computed by: `build fedcba9876543210") && page.contains("4 cells`"), "{page}");
    // Nobody compares it.
    let verified = sandtable(folder.path(), &["verify", "spec.ron", "--store", "store", "--policies", &policies]);
    assert_eq!(verified.code, 0, "{}", verified.stderr);
}

/// README's example of sharing, where there is no checkout: the binary carries components, weights and profiles.
#[test]
fn the_example_of_sharing_runs_outside_of_a_checkout() {
    let page = std::fs::read_to_string(root().join("docs/src/sharing.md")).expect("the page");
    let start = page.find("    fleet: Model(nodes: 4, gpus: 4, kind: \"V100-SXM2-16GB\"").expect("the example");
    let example = &page[start..start + page[start..].find("```").expect("its end")];
    let folder = tempfile::tempdir().expect("a folder");
    let spec = format!("Experiment(title: \"sharing\", workload: Generate(jobs: 20),\n{example})");
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--store", "store"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let lines: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("clwp-nlwp")).collect();
    assert_eq!(lines.len(), 1, "{}", ran.stdout);
}
