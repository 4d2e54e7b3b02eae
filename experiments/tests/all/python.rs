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
    command.env("PYTHONPATH", root().join("python")).env("SANDTABLE", env!("CARGO_BIN_EXE_sandtable"));
    command.output().expect("Python runs")
}

fn check(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_string();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[needs("tool:python3")]
#[test]
fn the_package_passes_its_tests() {
    let folder = tempfile::tempdir().expect("a folder");
    let tests = root().join("python/tests/test_package.py");
    check(&with_package(folder.path(), &[&tests.display().to_string()]));
}

#[needs("tool:python3")]
#[test]
fn the_blocks_of_its_page_run() {
    let page = std::fs::read_to_string(root().join("docs/src/python.md")).expect("the page");
    let mut blocks = String::new();
    for part in page.split("```python\n").skip(1) {
        blocks.push_str(part.split("```").next().unwrap_or_default());
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("page.py"), blocks).expect("written");
    let said = check(&with_package(folder.path(), &["page.py"]));
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
