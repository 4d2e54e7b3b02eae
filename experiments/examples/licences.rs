//! What the binary is made of: `licences` writes the notices of every package in it (`sandtable reference licences` prints them),
//! `licences --sbom` a CycloneDX bill of materials. Asks `cargo metadata`; run by `just licences` and `just sbom`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

fn main() {
    let metadata = metadata();
    let packages = linked(&metadata);
    let text = match std::env::args().nth(1).as_deref() {
        Some("--sbom") => sbom(&packages),
        _ => notices(&packages),
    };
    sandtable::ui::result(&text);
}

fn metadata() -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The packages of others that are linked into `sandtable`, or into a component that it carries, by name and version: over normal
/// dependencies alone.
fn linked(metadata: &Value) -> Vec<&Value> {
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let nodes: BTreeMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let normal = |dep: &&Value| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            let deps = list(&node["deps"]);
            let names = deps.iter().filter(normal).filter_map(|dep| dep["pkg"].as_str().map(str::to_string));
            (node["id"].as_str().unwrap_or_default().to_string(), names.collect())
        })
        .collect();
    let packages = metadata["packages"].as_array().expect("packages");
    let of = |id: &str| packages.iter().find(|package| package["id"] == id).expect("a package");
    // The components that the binary carries are made of packages too.
    let carried = |package: &&Value| {
        let name = package["name"].as_str().unwrap_or_default();
        package["source"].is_null()
            && (name == "sandtable"
                || ["sandtable-policy-", "sandtable-predictor-"].iter().any(|of| name.starts_with(of)))
    };
    let roots = packages.iter().filter(carried);
    let mut open: Vec<String> = roots.map(|root| root["id"].as_str().expect("an id").to_string()).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id.clone()) {
            // What a macro needs is not linked.
            let is_macro = list(&of(&id)["targets"]).iter().any(|target| target["kind"][0] == "proc-macro");
            open.extend(nodes[&id].iter().filter(|_| !is_macro).cloned());
        }
    }
    let mut found: Vec<&Value> = seen.iter().map(|id| of(id)).filter(|package| !package["source"].is_null()).collect();
    found.sort_by_key(|package| (package["name"].to_string(), package["version"].to_string()));
    found
}

fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or("")
}

/// Each text once, below the packages that have it.
fn notices(packages: &[&Value]) -> String {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut out = String::from(
        "Third-party notices\n\nWritten by `just licences`. Packages that are linked into `sandtable` and the components that it carries, with their\n\
         terms; the texts that come with them follow. What else is owed to whom: THIRD-PARTY.md.\n\n",
    );
    for package in packages {
        let name = format!("{} {}", text(package, "name"), text(package, "version"));
        out.push_str(&format!("{name}: {}\n", text(package, "license")));
        let folder = Path::new(text(package, "manifest_path")).parent().expect("a folder");
        let files = sandtable::input::sorted(folder).expect("a folder");
        for file in files.iter().filter(|file| is_notice(file)) {
            let words = String::from_utf8_lossy(&std::fs::read(file).expect("a file")).replace('\r', "");
            let words = words.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
            texts.entry(words.trim().to_string()).or_default().push(name.clone());
        }
    }
    // What is in the repository as others have it.
    out.push_str("uPlot 1.6.32 (in pages): MIT\n");
    let uplot = include_str!("../report/src/page/uplot/LICENSE").trim().to_string();
    texts.entry(uplot).or_default().push("uPlot 1.6.32".into());
    let mut texts: Vec<(String, Vec<String>)> = texts.into_iter().collect();
    texts.sort_by(|a, b| a.1.cmp(&b.1));
    for (words, names) in texts {
        out.push_str(&format!("\n{}\n{}\n\n{words}\n", "=".repeat(80), names.join(", ")));
    }
    out
}

fn is_notice(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    file.is_file()
        && ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT"].iter().any(|of| name.starts_with(of))
}

fn sbom(packages: &[&Value]) -> String {
    let component = |package: &&Value| {
        let (name, version) = (text(package, "name"), text(package, "version"));
        json!({
            "type": "library", "name": name, "version": version, "purl": format!("pkg:cargo/{name}@{version}"),
            "licenses": [{"expression": text(package, "license")}],
        })
    };
    let bill = json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {"type": "application", "name": "sandtable", "version": env!("CARGO_PKG_VERSION")}},
        "components": packages.iter().map(component).collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&bill).expect("JSON") + "\n"
}
