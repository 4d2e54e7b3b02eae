//! What a shell is offered.

use std::path::Path;

use sandtable_needs::needs;

use crate::help::{command, dist, ran, root, sandtable};

/// What is offered for the last of these words, line by line.
fn offered(folder: &Path, words: &[&str]) -> Vec<String> {
    let asked = ["--", "sandtable"].iter().chain(words).copied().collect::<Vec<_>>();
    let mut asking = command(folder, &asked);
    asking
        .env("SANDTABLE_COMPLETE", "bash")
        .env("_CLAP_IFS", "\n")
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    let said = ran(&mut asking);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    said.stdout.lines().map(str::to_string).collect()
}

/// A folder with a spec, the same in JSON, and what is none.
fn specs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("q.ron", &std::fs::read_to_string(root().join("experiments/specs/quickstart.ron")).expect("a spec"));
    write(
        "q.json",
        r#"{"title": "t", "fleet": {"Model": {"nodes": 2, "gpus": 4, "kind": "T4"}},
            "workload": {"Generate": {"jobs": 5, "arrivals": "AtOnce"}}, "policies": [{"name": "fifo", "label": "first"}]}"#,
    );
    write("broken.ron", "Experiment(title: \"t\", policies: [");
    write("jobs.csv", "job_id\n");
    folder
}

#[test]
fn labels_are_those_of_the_spec_that_is_named() {
    let folder = specs();
    let of = |words: &[&str]| offered(folder.path(), words);
    assert_eq!(of(&["run", "q.ron", "--only", "f"]), ["fifo", "fifo-skip"]);
    assert_eq!(of(&["report", "q.ron", "--only", "fifo,l"]), ["fifo,las"]);
    assert_eq!(of(&["run", "quickstart", "--only=s"]), ["--only=sjf", "--only=srtf"]);
    assert_eq!(of(&["plan", "q.json", "--only", ""]), ["first"]);
    assert_eq!(of(&["compare", "--spec=q.ron", "fifo", "l"]), ["las"]);
    // Where the spec is broken, or there is none, nothing is said.
    assert_eq!(of(&["run", "broken.ron", "--only", ""]), Vec::<String>::new());
    assert_eq!(of(&["run", "--only", ""]), Vec::<String>::new());
}

#[test]
fn paths_metrics_policies_and_specs_are_offered() {
    let folder = specs();
    let of = |words: &[&str]| offered(folder.path(), words);
    assert_eq!(of(&["run", "q.ron", "--set", "workload.a"]), ["workload.arrivals.load="]);
    assert_eq!(of(&["run", "q.ron", "--sweep", "policies.fifo-skip.w"]), ["policies.fifo-skip.with.backfill="]);
    assert_eq!(of(&["compare", "q.ron", "q.json", "--metric", "makesp"]), ["makespan_s"]);
    assert_eq!(of(&["policy", "check", "tires"]), ["tiresias"]);
    assert_eq!(of(&["what-if", "now.json", "--policy", "slurm"]), ["slurm-backfill"]);
    assert_eq!(of(&["run", "q"]), ["quickstart", "q.json", "q.ron"]);
    assert_eq!(of(&["comp"]), ["compare", "completions"]);
    assert_eq!(of(&["policy", "new", "mine", "--from", "srt"]), ["srtf"]);
    assert_eq!(sandtable(folder.path(), &["run", "q.ron", "--test", "--only", "fifo", "--policies", &dist()]).code, 0);
    let listed = sandtable(
        folder.path(),
        &["report", "q.ron", "--test", "--only", "fifo", "--policies", &dist(), "--figure", "list"],
    );
    let there: Vec<&str> = listed.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let offered = of(&["report", "q.ron", "--figure", ""]);
    assert!(offered.iter().all(|figure| figure == "list" || there.contains(&figure.as_str())), "{offered:?} {there:?}");
    assert!(of(&["run", "--re"]).contains(&"--recheck".to_string()));
}

/// The function as Bash runs it.
#[needs("tool:bash")]
#[test]
fn bash_completes_labels() {
    let folder = specs();
    let program = command(folder.path(), &[]).get_program().to_string_lossy().to_string();
    let script = format!(
        "source <({program} completions bash)\nCOMP_WORDS=(sandtable run q.ron --only l) COMP_CWORD=4\n\
         _clap_complete_sandtable sandtable l --only\necho \"${{COMPREPLY[@]}}\""
    );
    let said = ran(std::process::Command::new("bash").args(["-c", &script]).current_dir(folder.path()));
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("las\n", ""));
}

#[test]
fn every_shell_has_its_function() {
    let folder = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let said = ran(&mut command(folder.path(), &["completions", shell]));
        assert!(said.code == 0 && said.stdout.contains("SANDTABLE_COMPLETE"), "{shell}: {}", said.stderr);
    }
    let said = ran(command(folder.path(), &[]).env("SANDTABLE_COMPLETE", "csh"));
    assert!(said.code == 2 && said.stderr.contains("csh"), "{}", said.stderr);
}
