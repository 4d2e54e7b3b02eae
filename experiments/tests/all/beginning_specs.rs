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
    // A log says what happened: that is a row too.
    let log = "JobID|Submit|Start|End|State|ReqTRES|AllocTRES\n1|2026-11-01T00:00:00|2026-11-01T00:02:00|2026-11-01T00:12:00|COMPLETED|gres/gpu=1|gres/gpu=1\n";
    std::fs::write(folder.path().join("log.txt"), log).expect("written");
    let made = run(&["new", "logged.ron", "--trace", "log.txt", "--format", "sacct"]);
    let text = std::fs::read_to_string(folder.path().join("logged.ron")).expect("a spec");
    assert!(made.code == 0 && text.contains("Policy(name: \"recorded\", starts: Log)"), "{text}{}", made.stderr);
    let planned = run(&["plan", "logged.ron"]);
    assert_eq!(planned.code, 0, "{text}{}", planned.stderr);
    let wrong = run(&["new", "x.ron", "--trace", "t.csv"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("--format FORMAT"), "{}", wrong.stderr);
    assert!(!folder.path().join("x.ron").exists());
    let none = run(&["new", "x.ron", "--format", "philly"]);
    assert!(none.code == 2 && none.stderr.contains("--trace"), "{}", none.stderr);
}

#[test]
fn every_spec_is_checked_though_one_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| sandtable(folder.path(), args);
    assert_eq!(run(&["new", "good.ron"]).code, 0);
    let good = std::fs::read_to_string(folder.path().join("good.ron")).expect("a spec");
    let refused = "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 4, kind: \"T4\"), workload: Generate(jobs: 5), \
        policies: [Policy(name: \"fifo\", with: {\"backfil\": \"skip\"})])";
    for (name, text) in [("wrong.ron", "Experiment(title: 1)"), ("refused.ron", refused), ("last.ron", &good)] {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let all = run(&["check", "good.ron", "wrong.ron", "refused.ron", "last.ron"]);
    assert_eq!(all.code, 2, "{}", all.stderr);
    let lines: Vec<&str> = all.stdout.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("good.ron: ") && lines[1].starts_with("last.ron: "), "{lines:?}");
    assert!(all.stderr.contains("wrong.ron:1") && all.stderr.contains("`backfil`"), "{}", all.stderr);
    assert!(!folder.path().join("store").exists(), "nothing runs");
    // Quiet says results and errors alone.
    let quiet = run(&["run", "good.ron", "--test", "--store", "store", "--quiet"]);
    assert!(quiet.code == 0 && quiet.stderr.is_empty() && quiet.stdout.contains("fifo"), "{}", quiet.stderr);
    let quiet = run(&["plan", "wrong.ron", "-q"]);
    assert!(quiet.code == 2 && quiet.stderr.contains("error"), "{}", quiet.stderr);
    let coloured = run(&["plan", "wrong.ron", "--color", "always"]);
    assert!(coloured.stderr.contains("\u{1b}[1;31merror\u{1b}[0m"), "{:?}", coloured.stderr);
}

#[test]
fn a_policy_is_checked_again_whenever_it_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| sandtable(folder.path(), args);
    std::fs::write(folder.path().join("mine.star"), "def key(job, c):\n    return job.gpus\n").expect("written");
    let good = run(&["policy", "dev", "mine.star", "--once"]);
    assert!(good.code == 0 && good.stderr.contains("policy check: "), "{}", good.stderr);
    // It stands beside the policies of the quickstart.
    let labels = ["mine ", "sjf ", "las "];
    assert!(labels.iter().all(|label| good.stdout.lines().any(|line| line.starts_with(label))), "{}", good.stdout);
    std::fs::write(folder.path().join("mine.star"), "def key(job, c)\n").expect("written");
    let bad = run(&["policy", "dev", "mine.star", "--once"]);
    assert!(bad.code != 0 && bad.stderr.contains("failed after"), "{}", bad.stderr);
    let from = run(&["policy", "new", "mine", "--from", "las"]);
    assert_eq!(from.code, 0, "{}", from.stderr);
    let source = std::fs::read_to_string(folder.path().join("mine/src/lib.rs")).expect("a source");
    assert!(source.contains("name: \"mine\",") && folder.path().join("mine/src/queues.rs").exists());
    let other = run(&["policy", "new", "other", "--from", "pollux"]);
    assert!(other.code == 2 && other.stderr.contains("fifo, sjf, srtf"), "{}", other.stderr);
    assert!(!folder.path().join("other").exists());
}

#[test]
fn the_page_of_the_quickstart_is_small_enough_to_mail() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| sandtable(folder.path(), args);
    assert_eq!(run(&["run", "quickstart", "--store", "store", "-q"]).code, 0);
    let written = run(&["report", "quickstart", "--store", "store", "-o", "page.html"]);
    assert_eq!(written.code, 0, "{}", written.stderr);
    let bytes = std::fs::metadata(folder.path().join("page.html")).expect("a page").len();
    assert!(bytes <= 400_000, "{bytes} bytes");
}
