//! What a reader takes for granted and nobody checks by hand: short files and functions, links that lead somewhere, documentation in
//! sentences, one name a concept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandtable::input::sorted;

use crate::help::root;

/// Most lines of a file and of a function.
const FILE: usize = 500;
const FUNCTION: usize = 70;

/// Functions that are longer, with their lines and why: `table` is a list of rows or of cases. A number may only fall.
const LONG_FUNCTIONS: [(&str, &str, usize, &str); 4] = [
    ("experiments/inputs/src/facts/shapes.rs", "outputs", 75, "table"),
    ("experiments/src/commands/hardware.rs", "list", 71, "table"),
    ("experiments/src/commands/hardware/fidelity.rs", "table", 81, "table"),
    ("runtime/src/judge.rs", "act", 77, "table"),
];

/// Names that were given up for those of the field, and what they are called now.
const OLD_NAMES: [(&str, &str); 29] = [
    ("World", "DecisionContext"),
    ("Told", "VisibleInfo"),
    ("Taped", "ImportAnswers"),
    ("Conservation", "AccountingError"),
    ("Areas", "TimeIntegrals"),
    ("LetDown", "PredictorFailed"),
    ("Laws", "PerformanceModel"),
    ("Occurrence", "TimedEvent"),
    ("What", "BackendEvent"),
    ("Machines", "CellBackend"),
    ("Field", "LiveDevices"),
    ("Ground", "LiveFleetShape"),
    ("Bound", "PredictorBinding"),
    ("Bundle", "PredictorArtifact"),
    ("Wish", "SubmitOptions"),
    ("Parcel", "ArrayJob"),
    ("Handed", "PlanFile"),
    ("Parting", "FirstDivergence"),
    ("Witness", "ObservedPolicy"),
    ("Battery", "CheckSuite"),
    ("Dress", "FigureStyle"),
    ("Stage", "ElasticScheduler"),
    ("Trainee", "ElasticJob"),
    ("Colocator", "ColocationQueue"),
    ("Micros", "Duration"),
    ("END_OF_TIME", "Instant::END"),
    ("HOUSE", "HOUSEKEEPING_PERIOD"),
    ("relieve", "try_handover"),
    ("urge", "escalate_stop"),
];

/// Files below a folder that end so; what was built or fetched is left out.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for path in sorted(folder).expect("a folder") {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        if path.is_dir() && !["target", ".git", "node_modules"].contains(&name.as_str()) {
            files(&path, ending, found);
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

/// Sources without their tests: path below the workspace, and text.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    ["hardware", "runtime", "experiments", "policies"]
        .iter()
        .for_each(|part| files(&root().join(part), ".rs", &mut found));
    let name = |path: &Path| path.strip_prefix(root()).expect("below").to_string_lossy().to_string();
    let is_source = |path: &String| path.contains("/src/") && !path.contains("/tests") && !path.contains("templates");
    let named = found.into_iter().map(|path| (name(&path), path)).filter(|(name, _)| is_source(name));
    named.map(|(name, path)| (name, std::fs::read_to_string(path).expect("a source"))).collect()
}

/// The functions of a source: name and lines. A function ends at the brace that stands as far to the right as it does.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(rest) = line.trim_start().split("fn ").nth(1).filter(|_| begins_a_function(line)) else { continue };
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let indent = line.len() - line.trim_start().len();
        let end = format!("{}}}", " ".repeat(indent));
        if let Some(length) = lines[at..].iter().position(|line| **line == end) {
            found.push((name, length + 1));
        }
    }
    found
}

fn begins_a_function(line: &str) -> bool {
    let words = line.trim_start().split("fn ").next().unwrap_or_default();
    words
        .split_whitespace()
        .all(|word| ["pub", "const", "unsafe", "extern", "\"C\""].contains(&word) || word.starts_with("pub("))
        && line.trim_start().contains("fn ")
        && !line.trim_end().ends_with(';')
}

#[test]
fn files_and_functions_are_short() {
    let mut wrong = Vec::new();
    let (mut files, mut long) = (0, 0);
    for (path, text) in sources() {
        let lines = text.lines().count();
        files += 1;
        if lines > FILE {
            wrong.push(format!("{path}: {lines} lines: what second thing moved in?"));
        }
        for (name, lines) in functions(&text).into_iter().filter(|(_, lines)| *lines > FUNCTION) {
            long += 1;
            let most = LONG_FUNCTIONS.iter().find(|(file, function, ..)| *file == path && *function == name);
            if most.is_none_or(|(_, _, most, _)| lines > *most) {
                wrong.push(format!("{path}: {name} has {lines} lines"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files > 250, "{files} sources");
    assert_eq!(long, LONG_FUNCTIONS.len(), "a function is short now, or gone: it needs no excuse");
}

#[test]
fn links_of_pages_lead_somewhere() {
    let mut pages = Vec::new();
    files(&root(), ".md", &mut pages);
    let (mut links, mut wrong) = (0, Vec::new());
    for page in pages.iter().filter(|page| !page.starts_with(root().join("fuzz/corpus"))) {
        let text = std::fs::read_to_string(page).expect("a page");
        // Every second part is a block of code.
        let prose: String = text.split("```").step_by(2).collect();
        for target in prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target) {
            let path = target.split(['#', ' ']).next().unwrap_or_default();
            if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            links += 1;
            if !page.parent().expect("a folder").join(path).exists() {
                wrong.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(links > 50, "{links} links");
}

#[test]
fn public_items_are_documented_in_sentences() {
    let (mut items, mut wrong) = (0, Vec::new());
    for (path, text) in sources() {
        let mut doc: Vec<&str> = Vec::new();
        for (at, line) in text.lines().map(str::trim).enumerate() {
            if let Some(words) = line.strip_prefix("///") {
                doc.push(words.trim());
            } else if !line.starts_with("#[") {
                if line.starts_with("pub ") && !doc.is_empty() {
                    items += 1;
                    let first: Vec<&str> = doc.iter().copied().take_while(|line| !line.is_empty()).collect();
                    if !first.last().is_some_and(|last| last.ends_with(['.', ':', ')', '!', '?'])) {
                        wrong.push(format!("{path}:{}: {}", at + 1, first.join(" ")));
                    }
                }
                doc.clear();
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(items > 2000, "{items} items");
}

/// Types by name: the files below one of these folders that define one.
fn types(folders: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| folders.iter().any(|folder| path.starts_with(folder)))
    {
        for line in text.lines() {
            let words: Vec<&str> =
                line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
            let at =
                words.iter().position(|word| ["struct", "enum", "trait", "type"].contains(word)).filter(|at| *at <= 2);
            let is_definition = words.iter().take(at.unwrap_or(0)).all(|word| ["pub", "crate", "super"].contains(word));
            if let Some(name) =
                at.filter(|_| is_definition && !line.trim_start().starts_with('/')).and_then(|at| words.get(at + 1))
            {
                found.entry((*name).to_string()).or_default().push(path.clone());
            }
        }
    }
    found
}

#[test]
fn old_names_are_not_given_again() {
    let types = types(&["hardware", "runtime", "experiments", "policies"]);
    for (old, new) in OLD_NAMES {
        assert!(!types.contains_key(old), "{old} is called {new}: {:?}", types[old]);
        let defines = format!("fn {old}(");
        let found = sources().into_iter().find(|(_, text)| text.contains(&defines));
        assert!(found.is_none(), "{old} is called {new}: {}", found.expect("one").0);
    }
}

/// Terms of the glossary with the types that they name.
#[test]
fn the_glossary_names_types_that_there_are_once() {
    let text = std::fs::read_to_string(root().join("docs/src/glossary.md")).expect("the glossary");
    let types = types(&["hardware", "runtime", "experiments"]);
    let mut named = 0;
    for row in text.lines().filter(|line| line.starts_with("| ")).skip(2) {
        let columns: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [term, about, code] = columns[..] else { panic!("three columns: {row}") };
        assert!(!about.trim().is_empty(), "{term}");
        for name in code.split(", ").filter_map(|part| part.trim().strip_prefix('`')?.split('`').next()) {
            // A module is found by its name.
            if name.starts_with(|c: char| c.is_ascii_lowercase()) {
                continue;
            }
            named += 1;
            // A policy's plan and a spec's are both plans; the crate says whose.
            let most = if name == "Plan" { 2 } else { 1 };
            let found = types.get(name).map_or(&[][..], Vec::as_slice);
            assert!((1..=most).contains(&found.len()), "{term}: `{name}` is defined in {found:?}");
        }
    }
    assert!(named > 30, "{named} types");
}

/// Each crate of the library shows how its entry points are used; `cargo test` runs what they show.
#[test]
fn every_crate_has_five_examples() {
    let sources = sources();
    let parts = ["core", "inputs", "plan", "results", "run", "report"].map(|part| format!("experiments/{part}/src/"));
    let others = ["hardware/src/", "runtime/src/", "policies/sdk/src/"].map(String::from);
    for crate_ in others.iter().chain(&parts) {
        let own = sources.iter().filter(|(path, _)| path.starts_with(crate_));
        let fences: usize =
            own.map(|(_, text)| text.lines().filter(|line| line.trim().starts_with("/// ```")).count()).sum();
        assert!(fences >= 10, "{crate_}: {} examples", fences / 2);
    }
}

/// Words that hide which thing a sentence is about. A comment or a message names it: the job, the policy, the process, the user.
const VAGUE: [&str; 6] = ["whoever", "nobody", "somebody", "anybody", "everybody", "whom"];

#[test]
fn comments_and_messages_name_what_they_are_about() {
    let (mut comments, mut wrong) = (0, Vec::new());
    let contract = std::fs::read_to_string(root().join("wit/policy.wit")).expect("the contract");
    for (path, text) in &[sources(), vec![("wit/policy.wit".into(), contract)]].concat() {
        for (at, line) in text.lines().enumerate() {
            let comment = line.split_once("//").map(|(_, comment)| comment);
            comments += usize::from(comment.is_some());
            // Or a text: every second part between quotation marks.
            let texts: Vec<&str> =
                comment.map_or_else(|| line.split('"').skip(1).step_by(2).collect(), |one| vec![one]);
            let words = texts.join(" ").to_lowercase();
            let word = words.split(|c: char| !c.is_alphanumeric()).find(|word| VAGUE.contains(word));
            wrong.extend(word.map(|word| format!("{path}:{}: {word}", at + 1)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(comments > 7000, "{comments} comments");
}

/// The SDK carries a copy of the contract, so that it can be packaged alone.
#[test]
fn the_sdk_is_built_from_the_contract() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("a contract");
    assert!(read("policies/sdk/wit/policy.wit") == read("wit/policy.wit"), "`cp wit/policy.wit policies/sdk/wit/`");
    assert_eq!(sorted(&root().join("policies/sdk/wit")).expect("a folder").len(), 1);
    assert_eq!(sorted(&root().join("wit")).expect("a folder").len(), 1);
}
