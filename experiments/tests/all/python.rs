//! The Python package: its own tests, its page, and a wheel in a fresh environment.

use std::path::Path;
use std::process::{Command, Output};

use sandtable_needs::needs;

use crate::help::{CACHE, root, told};

fn python(program: &Path, folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.current_dir(folder).args(args).env("XDG_CACHE_HOME", CACHE).env("PYTHONDONTWRITEBYTECODE", "1");
    command.output().expect("Python runs")
}

/// What Python prints with the package of this checkout and the command that is tested.
fn with_package(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("python3");
    command.current_dir(folder).args(args).env("XDG_CACHE_HOME", CACHE).env("PYTHONDONTWRITEBYTECODE", "1");
    // What is installed for the tests stays in reach.
    let others = option_env!("PYTHONPATH").map_or_else(String::new, |others| format!(":{others}"));
    command.env("PYTHONPATH", format!("{}{others}", root().join("python").display()));
    let built = Path::new(env!("CARGO_BIN_EXE_sandtable"));
    command.env("SANDTABLE", built);
    let folders = built.parent().map_or_else(String::new, |folder| format!("{}:", folder.display()));
    command.env("PATH", folders + env!("PATH"));
    command.output().expect("Python runs")
}

fn check(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_string();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[needs("tool:python3", "python:tqdm")]
#[test]
fn progress_is_a_bar() {
    passes("python/tests/test_progress.py", &[]);
}

/// What a program of the checkout prints, in a folder of its own; it ends well.
fn passes(program: &str, args: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let program = root().join(program).display().to_string();
    check(&with_package(folder.path(), &[&[program.as_str()], args].concat()))
}

/// What the blocks of a page print, one after the other, and then a program behind them.
fn blocks_and(page: &str, folder: &Path, more: &str) -> String {
    let page = std::fs::read_to_string(root().join(page)).expect("the page");
    let mut blocks = String::new();
    for part in page.split("```python\n").skip(1) {
        blocks.push_str(part.split("```").next().unwrap_or_default());
    }
    std::fs::write(folder.join("page.py"), blocks + more).expect("written");
    check(&with_package(folder, &["page.py"]))
}

fn blocks_of(page: &str, folder: &Path) -> String {
    blocks_and(page, folder, "")
}

#[needs("tool:python3")]
#[test]
fn the_block_of_the_readme_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = blocks_of("README.md", folder.path());
    assert!(said.contains("jct_mean_s"), "{said}");
}

#[needs("tool:python3")]
#[test]
fn an_evaluator_as_its_page_has_it_scores_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 4, kind: \"T4\"), workload: Generate(jobs: 20, arrivals: AtOnce), policies: [Policy(name: \"fifo\")])";
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    std::fs::write(folder.path().join("good.star"), "def key(job, c): return job.gpus").expect("written");
    std::fs::write(folder.path().join("bad.star"), "def key(job, c): return nothing").expect("written");
    let more = "for name in ('good.star', 'bad.star'): print(evaluate(name)['combined_score'])\nSCORE.stdin.close(); SCORE.wait()\n";
    let said = blocks_and("docs/src/score.md", folder.path(), more);
    let scores: Vec<f64> = said.lines().map(|line| line.parse().expect("a score")).collect();
    assert!(matches!(scores[..], [good, bad] if bad < good && good < 0.0), "{said}");
}

#[needs("tool:python3", "python:gymnasium")]
#[test]
fn the_blocks_of_the_page_of_agents_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = blocks_of("docs/src/agents.md", folder.path());
    let lines: Vec<&str> = said.lines().collect();
    let [inputs, rest, verdict] = lines[..] else { panic!("{said}") };
    assert_eq!(inputs, "['free', 'queue'] ['gpus', 'waited', 'seconds']");
    assert_eq!(rest, "0.0 observation");
    assert!(verdict.starts_with("learnt is ") && verdict.contains("% lower"), "{said}");
}

#[needs("tool:python3")]
#[test]
fn the_package_passes_its_tests() {
    passes("python/tests/test_package.py", &[]);
}

#[needs("tool:python3", "python:gymnasium")]
#[test]
fn agents_decide_in_environments_and_come_home_as_weights() {
    passes("python/tests/test_env.py", &[]);
}

#[needs("tool:python3", "python:gymnasium")]
#[test]
fn what_an_agent_learns_beats_fifo_on_seeds_that_it_has_not_seen() {
    let asked = ["--iterations", "20", "--episodes", "6", "--jobs", "80", "--slots", "48"];
    let said = passes("python/examples/train_queue.py", &asked);
    assert!(said.contains("'verdict': 'learnt is ") && said.contains("% lower"), "{said}");
    told(said.trim());
}

#[needs("tool:python3")]
#[test]
fn the_blocks_of_its_page_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = blocks_of("docs/src/python.md", folder.path());
    assert!(said.contains("fifo 0 ") && said.contains("at `job.nope`") && said.contains("'change': -"), "{said}");
    assert!(folder.path().join("report.html").exists());
}

#[needs("runs:python3 -c 'import venv, ensurepip'")]
#[test]
fn a_wheel_brings_the_package_and_the_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let wheel = root().join("python/wheel.py").display().to_string();
    check(&python(Path::new("python3"), folder.path(), &[&wheel, env!("CARGO_BIN_EXE_sandtable"), "0.1.0", "."]));
    check(&python(Path::new("python3"), folder.path(), &["-m", "venv", "fresh"]));
    let own = folder.path().join("fresh/bin/python3");
    let install = [
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        &at("sandtable_sched-0.1.0-py3-none-linux_x86_64.whl"),
    ];
    check(&python(&own, folder.path(), &install));
    let program = "import sandtable_sched as st\n\
        results = st.run({'title': 't', 'fleet': {'Model': {'nodes': 1, 'gpus': 4, 'kind': 'T4'}}, 'workload': {'Generate': {'jobs': 9}}, \
        'policies': [st.script('def key(job, c): return job.gpus')]}, store='store')\n\
        print(results, len(results.jobs('rows')))\n";
    let said = check(&python(&own, folder.path(), &["-c", program]));
    assert_eq!(said.trim(), "<1 cells of 1 policies> 9");
    told(&format!("a wheel of this build in a fresh environment: {}", said.trim()));
}

#[needs("tool:python3", "python:mypy", "python:gymnasium")]
#[test]
fn its_types_are_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = root().join("python/sandtable_sched").display().to_string();
    // Frames are made by libraries that need not be there.
    let args = ["-m", "mypy", "--strict", "--ignore-missing-imports", "--python-version", "3.10", &package];
    check(&with_package(folder.path(), &args));
}
