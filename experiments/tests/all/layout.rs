//! The modules of each crate use each other in one direction only: the graph of modules has no circle. Fuzz targets are built of what a release is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use sandtable::input::sorted;

use crate::help::root;

/// The path of a module from its crate's root.
type Module = Vec<String>;
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Every path of a source that begins with `crate` or `super`, those of `use` trees expanded. Tests are left out.
fn paths(tokens: TokenStream, found: &mut Vec<Vec<String>>) {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < trees.len() {
        let is_test = |tree: &TokenTree| tree.to_string().replace(' ', "") == "[cfg(test)]";
        if is(trees.get(at), '#') && trees.get(at + 1).is_some_and(is_test) {
            // The item that the attribute is of.
            while at < trees.len() && !is(trees.get(at), ';') && !is_group(trees.get(at), Delimiter::Brace) {
                at += 1;
            }
            at += 1;
            continue;
        }
        match trees.get(at) {
            Some(TokenTree::Ident(name)) if name == "crate" || name == "super" => {
                at = path(&trees, at, &[], found);
                continue;
            }
            Some(TokenTree::Group(group)) => paths(group.stream(), found),
            _ => {}
        }
        at += 1;
    }
}

/// The path, or the tree of paths, that begins here; the place behind it.
fn path(trees: &[TokenTree], mut at: usize, before: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut own = before.to_vec();
    loop {
        match trees.get(at) {
            Some(TokenTree::Ident(name)) => own.push(name.to_string()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                inner.split(|tree| is(Some(tree), ',')).filter(|one| !one.is_empty()).for_each(|one| {
                    path(one, 0, &own, found);
                });
                return at + 1;
            }
            _ => break,
        }
        at += 1;
        if !(is(trees.get(at), ':') && is(trees.get(at + 1), ':')) {
            break;
        }
        at += 2;
    }
    found.push(own);
    at.max(1)
}

fn is(tree: Option<&TokenTree>, wanted: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(found)) if found.as_char() == wanted)
}

fn is_group(tree: Option<&TokenTree>, wanted: Delimiter) -> bool {
    matches!(tree, Some(TokenTree::Group(found)) if found.delimiter() == wanted)
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in sorted(folder).expect("a folder") {
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|ending| ending == "rs") => found.push(path),
            false => {}
        }
    }
}

/// The modules of a crate, and which uses which. A module and those inside of it are one family: only uses across are told.
fn graph(source: &Path) -> Graph {
    let mut files = Vec::new();
    sources(source, &mut files);
    files.retain(|file| !file.ends_with("main.rs"));
    let module = |file: &PathBuf| -> Module {
        let path = file.strip_prefix(source).expect("below").with_extension("");
        let mut names: Module = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        names.pop_if(|name| name == "lib" || name == "mod");
        names
    };
    let modules: BTreeMap<Module, &PathBuf> = files.iter().map(|file| (module(file), file)).collect();
    let mut graph = Graph::new();
    for (own, file) in &modules {
        let text = std::fs::read_to_string(file).expect("a source");
        let mut found = Vec::new();
        paths(text.parse().expect("tokens"), &mut found);
        for path in found {
            let up = path.iter().take_while(|name| *name == "super").count();
            let mut target: Module = if up > 0 { own[..own.len().saturating_sub(up)].to_vec() } else { Vec::new() };
            target.extend(path.into_iter().skip(up.max(1)));
            // What is named is a module, or something in it.
            while !modules.contains_key(&target) {
                target.pop();
            }
            if !target.is_empty() && !own.is_empty() && !target.starts_with(own) && !own.starts_with(&target) {
                graph.entry(own.join("::")).or_default().insert(target.join("::"));
            }
        }
    }
    graph
}

/// The graph of the modules at the top, each with all that is inside of it.
fn top(graph: &Graph) -> Graph {
    let first = |name: &str| name.split("::").next().unwrap_or_default().to_string();
    let mut top = Graph::new();
    for (from, to) in graph.iter().flat_map(|(from, all)| all.iter().map(move |to| (first(from), first(to)))) {
        if from != to {
            top.entry(from).or_default().insert(to);
        }
    }
    top
}

/// A circle, if there is one.
fn circle(graph: &Graph) -> Option<Vec<String>> {
    fn follow(graph: &Graph, trail: &mut Vec<String>, done: &mut BTreeSet<String>) -> Option<Vec<String>> {
        let last = trail.last()?.clone();
        for next in graph.get(&last).into_iter().flatten() {
            if let Some(at) = trail.iter().position(|name| name == next) {
                return Some([&trail[at..], std::slice::from_ref(next)].concat());
            }
            if done.contains(next) {
                continue;
            }
            trail.push(next.clone());
            if let Some(found) = follow(graph, trail, done) {
                return Some(found);
            }
            trail.pop();
        }
        done.insert(last);
        None
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|name| follow(graph, &mut vec![name.clone()], &mut done))
}

#[test]
fn no_modules_use_each_other_in_a_circle() {
    let mut crates = vec![root().join("hardware"), root().join("runtime"), root().join("experiments")].into_iter();
    let stages = sorted(&root().join("experiments")).expect("stages");
    let others = sorted(&root().join("policies"))
        .expect("policies")
        .into_iter()
        .chain(sorted(&root().join("policies/predictors")).expect("predictors"))
        .chain(stages);
    let mut edges = 0;
    for folder in crates.by_ref().chain(others).map(|folder| folder.join("src")).filter(|folder| folder.is_dir()) {
        let graph = graph(&folder);
        edges += graph.values().map(BTreeSet::len).sum::<usize>();
        for graph in [top(&graph), graph] {
            let found = circle(&graph);
            assert!(found.is_none(), "{}: {}", folder.display(), found.unwrap_or_default().join(" -> "));
        }
    }
    // Uses are found at all.
    assert!(edges > 300, "{edges} uses");
}

#[test]
fn a_circle_is_found_wherever_its_uses_are_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    write("lib.rs", "mod a; mod b; mod c;");
    write("a.rs", "use crate::{b::{Y, Z as W}, c};\n#[cfg(test)] mod tests { use crate::a::x; }");
    write("b/mod.rs", "pub(crate) struct Y; fn f() { println!(\"{}\", crate::c::N) }");
    write("b/inner.rs", "use super::Y;");
    write("c.rs", "#[cfg(test)]\nmod tests { use crate::b::Y; }");
    let found = graph(folder.path());
    assert_eq!(found["a"], ["b", "c"].map(String::from).into());
    assert_eq!(found["b"], ["c"].map(String::from).into());
    assert_eq!(circle(&top(&found)), None);
    // Through a module inside of another.
    write("c.rs", "fn g(_: crate::a::T) {}");
    assert_eq!(circle(&top(&graph(folder.path()))).expect("a circle").join(" "), "a b c a");
    write("c.rs", "");
    write("b/inner.rs", "use super::super::c::f; use super::other::g;");
    write("b/other.rs", "use super::inner::f;");
    assert_eq!(circle(&graph(folder.path())).expect("a circle").join(" "), "b::inner b::other b::inner");
}

/// What is fuzzed is linked to what a release build has compiled: the same versions, at the same levels.
#[test]
fn fuzz_targets_are_built_of_the_dependencies_of_a_release() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).expect("a text");
    let packages = |file: &str| -> BTreeSet<String> {
        let named = |block: &str| block.lines().take(2).collect::<Vec<_>>().join(" ");
        read(file).split("[[package]]\n").skip(1).map(named).collect()
    };
    let theirs = packages("Cargo.lock");
    let own = ["name = \"libfuzzer-sys\" ", "name = \"sandtable-fuzz\" "];
    let is_own = |package: &String| own.iter().any(|own| package.starts_with(own));
    let others: Vec<String> = packages("fuzz/Cargo.lock")
        .into_iter()
        .filter(|package| !theirs.contains(package) && !is_own(package))
        .collect();
    assert!(others.is_empty(), "copy Cargo.lock to fuzz/ and run `cargo metadata` there: {others:?}");
    let levels = |file: &str| -> BTreeSet<String> {
        let text = read(file);
        let (_, rest) = text.split_once("[profile.release.package]\n").expect("the levels of packages");
        let lines = rest.lines().take_while(|line| !line.is_empty());
        lines
            .filter(|line| line.contains(".opt-level = ") && !line.starts_with("sandtable"))
            .map(String::from)
            .collect()
    };
    assert!(levels("Cargo.toml").len() > 5);
    assert_eq!(levels("Cargo.toml"), levels("fuzz/Cargo.toml"));
}
