//! The book and the README: every command in them is run, and what is generated is what is committed.
//!
//! A block ```` ```console ```` has commands, which are run one after the other in a small copy of the checkout; all must succeed.
//! `fails` after it: the last one must not. `needs=TOOL`: skipped where the tool is not there; what needs Slurm runs in
//! [`crate::slurm`]'s. A block ```` ```sh ```` only installs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::help::{root, sandtable, skipped};

/// What lines of a block that is not run begin with.
const INSTALLS: [&str; 6] = ["cargo install", "rustup target", "pip install", "npm install", "apt-get install", "sudo"];

struct Block {
    line: usize,
    fails: bool,
    needs: Option<String>,
    commands: Vec<String>,
}

fn blocks(page: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(page).expect("a page");
    let mut all = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let body: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```")).collect();
        let mut words = info.split_whitespace();
        let place = format!("{}:{}", page.display(), at + 1);
        match words.next() {
            Some("console") => {
                let words: Vec<&str> = words.collect();
                let commands: Vec<String> =
                    body.iter().filter_map(|line| line.strip_prefix("$ ")).map(str::to_string).collect();
                assert!(!commands.is_empty(), "{place}: no command in it");
                let needs = words.iter().find_map(|word| word.strip_prefix("needs=")).map(str::to_string);
                all.push(Block { line: at + 1, fails: words.contains(&"fails"), needs, commands });
            }
            Some("sh") => {
                for line in body {
                    assert!(
                        INSTALLS.iter().any(|begin| line.starts_with(begin)),
                        "{place}: `{line}` is not run by anybody"
                    );
                }
            }
            _ => {}
        }
    }
    all
}

/// Pages whose blocks of RON are fields of specs.
const SPEC_PAGES: [&str; 9] = [
    "experiments.md",
    "traces.md",
    "fleets.md",
    "sharing.md",
    "predictors.md",
    "models.md",
    "queues.md",
    "elastic.md",
    "policies/weights.md",
];

/// The presets that the page of semantics lists are those that there are.
#[test]
fn the_page_of_semantics_has_every_preset() {
    let folder = tempfile::tempdir().expect("a folder");
    let set = "semantics=Semantics(preset: \"nope\")";
    let planned = sandtable(folder.path(), &["plan", "quickstart", "--set", set]);
    let names = planned.stderr.split("expected one of: ").nth(1).and_then(|rest| rest.lines().next()).expect("a list");
    let page = std::fs::read_to_string(root().join("docs/src/semantics.md")).expect("a page");
    for name in names.split(", ") {
        assert!(page.contains(&format!("| `{name}` | ")), "{name} is not on the page");
    }
    let rows = page.split("| preset |").nth(1).expect("a table").lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, names.split(", ").count());
}

/// Fields of a spec, as a page shows them: with something plain for all that they leave out, they are one.
#[test]
fn what_the_pages_of_specs_show_can_be_planned() {
    let text = |name: &&str| std::fs::read_to_string(root().join("docs/src").join(name)).expect("a page");
    let page: String = SPEC_PAGES.iter().map(text).collect();
    let plain = [
        ("fleet", "Model(nodes: 8, gpus: 8, kind: \"T4\")"),
        ("workload", "Generate(jobs: 10)"),
        ("policies", "[Policy(name: \"fifo\"), Policy(name: \"srtf\")]"),
        ("predictors", "{\"remaining\": Oracle}"),
    ];
    let blocks: Vec<&str> = page.split("```ron\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 18, "{} blocks", blocks.len());
    let folder = tempfile::tempdir().expect("a folder");
    let scores = r#"{"inputs": ["gpus"], "hidden": "tanh", "layers": [{"weights": [[1.0]], "bias": [0]}]}"#;
    let pods = "name,num_gpu,gpu_milli,cpu_milli,memory_mib\na,1,500,4000,1024\nb,0,0,2000,512\n";
    let month = "submit_s,gpus,duration_s\n0,1,600\n60,8,1200\n";
    let nodes = "gpus,kind,cpus\n8,T4,64\n";
    for (file, text) in [("scores.json", scores), ("nodes.csv", nodes), ("pods.csv", pods), ("month.csv", month)] {
        std::fs::write(folder.path().join(file), text).expect("written");
    }
    for block in blocks {
        let said = |field: &str| block.lines().any(|line| line.trim_start().starts_with(&format!("{field}:")));
        let rest: String = plain
            .iter()
            .filter(|(field, _)| !said(field))
            .map(|(field, value)| format!("{field}: {value},\n"))
            .collect();
        let text = format!("Experiment(title: \"t\",\n{rest}{block})");
        std::fs::write(folder.path().join("spec.ron"), &text).expect("written");
        let planned = sandtable(folder.path(), &["plan", "spec.ron", "--policies", &crate::help::dist()]);
        assert_eq!(planned.code, 0, "{text}\n{}", planned.stderr);
    }
}

/// Whether a tool that a block needs is on this machine.
pub fn has(tool: &str) -> bool {
    let runs =
        |words: &[&str]| Command::new(words[0]).args(&words[1..]).output().is_ok_and(|output| output.status.success());
    match tool {
        "componentize-py" => runs(&["componentize-py", "--version"]),
        "componentize-qjs" => runs(&["componentize-qjs", "--help"]),
        "clang-wasi" => Path::new("/usr/lib/wasm32-wasi/libc.a").exists() && runs(&["wasm-ld", "--version"]),
        // Its standard library is compiled first: minutes, which `.ci/run` spends on the shipped policies.
        "rust-wasm" => runs(&["sh", "-c", "test -n \"$SANDTABLE_SLOW_TESTS\""]),
        "nvidia-gpu" => false,
        "ray" | "distributed" => runs(&["python3", "-c", &format!("import {tool}")]),
        "snakemake" | "parallel" | "python3.11" | "node" => runs(&[tool, "--version"]),
        "kubernetes" => false,
        other => panic!("no tool `{other}` is known here"),
    }
}

/// What pages name of the checkout: copies, so that nothing is written into it.
fn small_checkout(folder: &Path) {
    let copy = |what: &str| {
        let to = folder.join(what);
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        assert!(Command::new("cp").arg("-r").arg(root().join(what)).arg(&to).status().expect("cp").success());
    };
    ["experiments/specs", "policies/dist", "policies/predictors/weights", "docs/ci", "docs/engines"]
        .into_iter()
        .for_each(copy);
    std::fs::write(folder.join("Cargo.toml"), "").expect("written");
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).expect("made");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sandtable"), bin.join("sandtable")).expect("linked");
}

#[expect(clippy::disallowed_methods, reason = "commands are found as a reader's shell finds them")]
fn path_with(bin: &Path) -> String {
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default())
}

/// Runs the blocks of a page: those that need `only`, or if that is none all but Slurm's.
pub(crate) fn run_page(page: &Path, only: Option<&str>, with: &dyn Fn(&mut Command)) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    small_checkout(folder.path());
    let path = path_with(&folder.path().join("bin"));
    let mut ran = 0;
    for block in blocks(page) {
        let needs = block.needs.as_deref();
        if only.map_or(needs == Some("slurm"), |only| needs != Some(only)) {
            continue;
        }
        if let Some(tool) = needs.filter(|tool| only.is_none() && !has(tool)) {
            skipped(&format!("{}:{}: no {tool} on this machine", page.display(), block.line));
            continue;
        }
        for (at, line) in block.commands.iter().enumerate() {
            // What CI and cargo are for is not run from inside of a test.
            if line.starts_with("cargo ") {
                continue;
            }
            let mut command = Command::new("sh");
            with(&mut command);
            command.env("PATH", &path).env("XDG_CACHE_HOME", crate::help::CACHE);
            let output = command.args(["-c", line]).current_dir(folder.path()).output();
            let output = output.expect("a shell");
            let fails = block.fails && at + 1 == block.commands.len();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), !fails, "{}:{}: `{line}`: {said}", page.display(), block.line);
            assert!(!said.contains("panicked"), "{line}: {said}");
            ran += 1;
        }
    }
    ran
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for path in sandtable::input::sorted(folder).expect("a folder") {
        match path.is_dir() {
            true => all.extend(pages(&path)),
            false => all.extend(path.extension().is_some_and(|ending| ending == "md").then_some(path)),
        }
    }
    all
}

#[test]
fn every_command_of_the_book_runs() {
    let mut ran = 0;
    for page in pages(&root().join("docs/src")) {
        ran += run_page(&page, None, &|_| ());
    }
    assert!(ran > 40, "only {ran} commands");
}

#[test]
fn every_command_of_the_readme_runs() {
    assert!(run_page(&root().join("README.md"), None, &|_| ()) > 10);
}

/// The README's five lines: same spec, another file, another result, and nothing rebuilt.
#[test]
fn the_swap_of_the_readme_is_another_result() {
    let folder = tempfile::tempdir().expect("a folder");
    small_checkout(folder.path());
    let mine = folder.path().join("mine.wasm");
    let set = format!("policies.fifo.name={}", mine.display());
    let mut results = Vec::new();
    for name in ["fifo", "srtf"] {
        std::fs::copy(root().join(format!("policies/dist/{name}.wasm")), &mine).expect("copied");
        let args =
            ["run", "experiments/specs/quickstart.ron", "--test", "--only", "mine", "--set", &set, "--format", "csv"];
        let ran = sandtable(folder.path(), &args);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stderr.contains("2 cells, 0 cached"), "{}", ran.stderr);
        results.push(ran.stdout);
    }
    assert_ne!(results[0], results[1]);
}

#[test]
fn links_of_the_book_lead_somewhere() {
    let mut found = 0;
    let mut all = pages(&root().join("docs/src"));
    all.push(root().join("README.md"));
    for page in &all {
        let text = std::fs::read_to_string(page).expect("a page");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("http") || link.starts_with('#') {
                continue;
            }
            let file = link.split('#').next().unwrap_or(link);
            assert!(page.parent().expect("a folder").join(file).exists(), "{}: no {file}", page.display());
            found += 1;
        }
    }
    assert!(found > 15);
    // Every page is in the table of contents.
    let summary = std::fs::read_to_string(root().join("docs/src/SUMMARY.md")).expect("a summary");
    for page in pages(&root().join("docs/src")) {
        let name = page.strip_prefix(root().join("docs/src")).expect("below").display().to_string();
        assert!(name == "SUMMARY.md" || summary.contains(&name), "{name} is not in SUMMARY.md");
    }
}

#[expect(clippy::disallowed_methods, reason = "as insta has it")]
#[test]
fn what_is_generated_is_what_is_committed() {
    let bless = std::env::var("INSTA_UPDATE").is_ok_and(|word| word == "always");
    let all = [
        ("cli", "cli.md"),
        ("contract", "contract.md"),
        ("fields", "fields.md"),
        ("metrics", "metrics.md"),
        ("spec", "spec.schema.json"),
        ("state", "state.schema.json"),
    ];
    for (what, file) in all {
        let ran = sandtable(&root(), &["reference", what]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let path = root().join("docs/src/reference").join(file);
        if bless {
            std::fs::write(&path, &ran.stdout).expect("written");
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == ran.stdout, "{file} is not what `sandtable reference {what}` prints: `just bless`");
    }
}

#[test]
fn the_citation_is_of_this_version() {
    let text = std::fs::read_to_string(root().join("CITATION.cff")).expect("a citation");
    assert!(text.contains(&format!("version: {}\n", env!("CARGO_PKG_VERSION"))), "{text}");
}
