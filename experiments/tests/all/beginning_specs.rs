//! Specs to begin with: the one that the binary carries, and those that `sandtable new` writes.

use crate::help::sandtable;

#[test]
fn the_quickstart_needs_no_checkout() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| sandtable(folder.path(), args);
    let ran = run(&["run", "quickstart", "--test", "--store", "store"]);
    assert!(ran.code == 0 && ran.stderr.contains("10 cells executed"), "{}", ran.stderr);
    assert_eq!(run(&["verify", "quickstart", "--test", "--store", "store"]).code, 0);
    let bundled = run(&["bundle", "quickstart", "--test", "--store", "store", "-o", "a.tar.zst"]);
    assert!(bundled.code == 2 && bundled.stderr.contains("`quickstart` is none"), "{}", bundled.stderr);
    // A file of that name is meant where there is one.
    std::fs::write(folder.path().join("quickstart"), "no spec").expect("written");
    assert_eq!(run(&["plan", "quickstart"]).code, 2);
}

#[test]
fn a_new_spec_runs_and_no_file_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| sandtable(folder.path(), args);
    assert_eq!(run(&["new"]).code, 0);
    let ran = run(&["run", "experiment.ron", "--test", "--store", "store"]);
    assert!(ran.code == 0 && ran.stderr.contains("8 cells executed"), "{}", ran.stderr);
    std::fs::write(folder.path().join("experiment.ron"), "mine").expect("written");
    let again = run(&["new"]);
    assert!(again.code == 2 && again.stderr.contains("experiment.ron is there already"), "{}", again.stderr);
    assert_eq!(std::fs::read_to_string(folder.path().join("experiment.ron")).expect("a file"), "mine");
}

#[test]
fn a_new_spec_of_a_trace_fits_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| sandtable(folder.path(), args);
    let tiresias = "job_id,num_gpu,submit_time,duration\n1,16,0,3600\n2,1,10,60\n3,40,7200,7200\n";
    let native = "submit_s,gpus,duration_s\n0,1,60\n5,2,1.5\n";
    for (format, name, written, fleet) in
        [("tiresias", "t.csv", tiresias, "nodes: 7, gpus: 8"), ("native", "n.csv", native, "nodes: 2, gpus: 8")]
    {
        std::fs::write(folder.path().join(name), written).expect("written");
        let spec = format!("{format}.ron");
        let made = run(&["new", &spec, "--trace", name, "--format", format]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        let text = std::fs::read_to_string(folder.path().join(&spec)).expect("a spec");
        let named = if format == "native" { "" } else { ", format: Tiresias" };
        assert!(text.contains(&format!("Trace(file: {name:?}{named})")) && text.contains(fleet), "{text}");
        let planned = run(&["plan", &spec]);
        assert_eq!(planned.code, 0, "{text}{}", planned.stderr);
    }
    let wrong = run(&["new", "x.ron", "--trace", "t.csv"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("--format FORMAT"), "{}", wrong.stderr);
    assert!(!folder.path().join("x.ron").exists());
    let none = run(&["new", "x.ron", "--format", "philly"]);
    assert!(none.code == 2 && none.stderr.contains("--trace"), "{}", none.stderr);
}
