//! An artifact appendix of a bundle, in the form that ACM conferences ask for: what can be known of it is filled in, and what its authors alone know is
//! marked.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use sandtable_core::display::span;
use sandtable_core::error::Error;
use sandtable_core::text::word;
use sandtable_plan::artifact::is_of_policy;
use sandtable_plan::{Cell, Plan};
use sandtable_results::bundle::Manifest;
use sandtable_results::claim::{ClaimRow, in_words, measure, notes, table};
use sandtable_results::status::known;
use sandtable_results::store::Store;

use crate::engine::Times;
use crate::engine::plan_file::cost;

/// What its authors have to say.
const AUTHORS: &str = "**[authors: ";

/// What an appendix is made of.
pub(super) struct Appendix<'a> {
    pub(super) plan: &'a Plan,
    pub(super) store: &'a Store,
    pub(super) manifest: &'a Manifest,
    /// The bundle's file.
    pub(super) file: &'a str,
    /// Its bytes, and those of what is in it.
    pub(super) bytes: (u64, u64),
    /// The SPDX id of its licence.
    pub(super) licence: Option<&'a str>,
}

/// A number of things in words.
fn counted(number: usize, one: &str) -> String {
    match (number, one.strip_suffix('y')) {
        (1, _) => format!("1 {one}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        _ => format!("{number} {one}s"),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// A text that means nothing else in Markdown.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\`*_<>[]#|".contains(c) {
            out.push('\\');
        }
        out.push(if c.is_control() { ' ' } else { c });
    }
    out
}

/// The options by which the spec was read.
fn options(manifest: &Manifest) -> String {
    let mut words: Vec<String> = Vec::new();
    let pair = |path: &str, value: &str| word(&format!("{path}={value}"));
    words.extend(manifest.test.then(|| "--test".to_string()));
    words.extend(manifest.only.iter().map(|label| format!("--only {}", word(label))));
    words.extend(manifest.set.iter().map(|(path, value)| format!("--set {}", pair(path, value))));
    words.extend(manifest.at.iter().map(|(path, value)| format!("--at {}", pair(path, value))));
    words.extend(manifest.sweep.iter().map(|(path, values)| format!("--sweep {}", pair(path, &values.join(",")))));
    words.into_iter().map(|word| format!(" {word}")).collect()
}

/// Names, each once and in their order.
fn once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(*name)).collect()
}

/// How long all cells take on one core, as far as the store knows.
fn time(packed: &Appendix<'_>) -> String {
    let times = Times::of(packed.store);
    let known: Option<Vec<f64>> = packed.plan.cells.iter().map(|cell| cost(cell, &times).1).collect();
    match known {
        Some(seconds) => format!("about {} on one core, and less on more", span(seconds.iter().sum::<f64>().max(1.0))),
        None => format!("{AUTHORS}how long `sandtable verify` takes]**"),
    }
}

/// The text.
pub(super) fn text(packed: &Appendix<'_>) -> Result<String, Error> {
    let Appendix { plan, manifest, file, .. } = packed;
    let labels = once(plan.cells.iter().map(|cell| cell.label.as_str()));
    let seeds: BTreeSet<u64> = plan.cells.iter().map(|cell| cell.seed).collect();
    let variants: BTreeSet<String> = plan.cells.iter().map(Cell::variant_text).collect();
    let runs = counted(plan.cells.len(), "run");
    let compared = format!(
        "{} ({}) on {} under {}, {runs}",
        counted(labels.len(), "policy"),
        plain(&labels.join(", ")),
        counted(variants.len(), "setting"),
        counted(seeds.len(), "seed"),
    );
    let elsewhere = match manifest.left_out.is_empty() {
        true => "",
        false => " Data that are not in the artifact are named by `--data DIR`.",
    };
    let (title, spec, file) = (plain(&plan.title), word(&manifest.spec), word(file));
    let options = options(manifest);
    let has = match manifest.left_out.is_empty() {
        true => "every policy, trace and profile that it names",
        false => "every policy that it names",
    };
    Ok(format!(
        "# Artifact appendix: {title}\n\n\
         ## Abstract\n\n\
         The artifact is one file, `{file}`: a spec of Sandtable that compares {compared}, with {} and the results of every run. \
         One command runs all of them again and compares every byte. {AUTHORS}what the paper claims with it]**\n\n\
         ## Check-list\n\n{}\n\
         ## Description\n\n{}\n\
         ## Installation\n\n```console\n$ cargo install --path experiments      # in a checkout of Sandtable\n```\n\n\
         ## Workflow\n\n```console\n$ sandtable verify {file}\n```\n\n\
         The bundle is unpacked into a folder of its own, the hash of each file is checked, the spec is expanded to the same {runs}, each is run again, and each byte of its \
         results is compared. The exit code is 0 if all are alike, and 1 if any differs.{elsewhere}\n\n\
         ## Evaluation and expected results\n\n{}\n\
         ## Customisation\n\n\
         The spec is a text: `tar --zstd -xf {file}`, then `sandtable run {spec}{options}` prints the table and the verdicts; with `--set PATH=VALUE` or `--sweep PATH=A,B` it runs other settings, and a further \
         `Policy(name: \"./mine.wasm\")` in its list another policy. `sandtable plan` says first what would run.\n",
        has,
        check_list(packed),
        what_is_in(manifest),
        claims(packed)?,
    ))
}

fn check_list(packed: &Appendix<'_>) -> String {
    let Appendix { plan, manifest, bytes: (packed_bytes, all), .. } = packed;
    let policies = once(plan.cells.iter().map(|cell| cell.policy.digest.as_str()));
    let (version, build) = (&manifest.sandtable, &manifest.build);
    let components = counted(policies.len(), "WebAssembly component");
    let (runs, verdicts) = (counted(plan.cells.len(), "run"), counted(plan.claims.len(), "claim"));
    let rows = [
        ("Program", format!("Sandtable {version} (build {build}); the policies are {components}, in the artifact")),
        ("Compilation", "none for the artifact; Sandtable from source needs Rust 1.95".into()),
        ("Data set", data(plan, manifest)),
        ("Run-time environment", "Linux on x86-64; no network, no root, no container".into()),
        ("Hardware", "one core; no GPU".into()),
        ("Execution", "deterministic: results do not depend on the machine or on the number of threads".into()),
        ("Metrics", metrics(plan)),
        (
            "Output",
            format!(
                "whether each byte of the results of {runs} is the same; and a table, and a verdict on {verdicts}, by `sandtable run`"
            ),
        ),
        ("Disk space", format!("{} packed, {} unpacked", size(*packed_bytes), size(*all))),
        ("Time to prepare", "about ten minutes on two cores where Sandtable is built from source".into()),
        ("Time to run", time(packed)),
        ("Publicly available", format!("{AUTHORS}where, with a DOI]**")),
        (
            "Licence",
            format!(
                "Sandtable: MIT or Apache-2.0; the artifact: {}",
                packed.licence.map_or_else(|| format!("{AUTHORS}which]**"), str::to_string)
            ),
        ),
    ];
    rows.iter().map(|(name, words)| format!("- **{name}**: {words}.\n")).collect()
}

fn metrics(plan: &Plan) -> String {
    let claimed = once(plan.claims.iter().map(|claim| claim.spec.metric.as_str()));
    if claimed.is_empty() { "completion times, makespan, utilisation, fairness".into() } else { claimed.join(", ") }
}

/// What the spec names, and what of it is not there.
fn data(plan: &Plan, manifest: &Manifest) -> String {
    let name =
        |path: &str| path.trim_start_matches("tree/").trim_start_matches("../").trim_start_matches("./").to_string();
    let given = |path: &&String| !is_of_policy(path) && !manifest.left_out.keys().any(|out| out.ends_with(&name(path)));
    let named = plan.files.iter().filter(given).map(|path| name(path));
    let left_out = manifest.left_out.keys().map(|path| format!("{} (not in the artifact)", name(path)));
    let all: Vec<String> = named.chain(left_out).collect();
    match all.is_empty() {
        true => "none: jobs are drawn from distributions that the spec has".into(),
        false => format!("{}; {AUTHORS}their sources and licences]**", all.join(", ")),
    }
}

fn what_is_in(manifest: &Manifest) -> String {
    let count = |folder: &str| counted(manifest.files.keys().filter(|name| name.starts_with(folder)).count(), "file");
    let mut out = format!(
        "`bundle.json` has the hash of each of {}; `{}` is the spec. `tree/` has it and what it names ({}), `policies/` the components and weights that it names \
         without a path ({}), `results/` the results ({}), `ro-crate-metadata.json` the same for archives.\n",
        counted(manifest.files.len(), "file"),
        manifest.spec,
        count("tree/"),
        count("policies/"),
        count("results/"),
    );
    for (name, hash) in &manifest.left_out {
        let _ = writeln!(out, "\nNot in the artifact: `{}`, blake3 `{hash}`.", name.trim_start_matches("tree/"));
    }
    out
}

/// The claims as a table of Markdown.
fn claims(packed: &Appendix<'_>) -> Result<String, Error> {
    let measured = measure(packed.plan, &known(packed.plan, packed.store)?);
    if measured.is_empty() {
        let policies = once(packed.plan.cells.iter().map(|cell| cell.label.as_str())).join(", ");
        return Ok(format!(
            "The spec has no claims; `sandtable run` prints the table of {policies}. {AUTHORS}what it shows]**\n"
        ));
    }
    let rows: Vec<ClaimRow> = measured.iter().map(in_words).collect();
    let mut out = table(&rows).markdown();
    let below = notes(&rows);
    if !below.is_empty() {
        out.push('\n');
        below.iter().for_each(|line| {
            let _ = writeln!(out, "- {line}");
        });
    }
    Ok(out)
}
