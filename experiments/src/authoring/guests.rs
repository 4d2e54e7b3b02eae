//! Policies in folders of their own, in any language: how each is recognised and built, and where its tools are found.

use std::path::{Path, PathBuf};
use std::process::Command;

use sandtable_core::error::Error;
use sandtable_core::output;
use sandtable_plan::artifact::built::Language;

use super::tools::{answers, ran};
use super::{build, python};

/// How to get what is missing.
const QUICKJS: &str = "npm install componentize-qjs@0.4.5";
const CLANG: &str = "apt-get install -y --no-install-recommends clang lld wasi-libc, or pip install ziglang==0.15.2";

/// What builds a language's policies on this machine, in a line.
///
/// # Errors
/// What to install.
pub fn tool(language: Language, folder: &Path) -> Result<String, Error> {
    match language {
        Language::Rust => build::toolchain().map(|found| found.version),
        Language::Python => python::tool().map(str::to_string),
        Language::Js => js(folder).map(|path| path.display().to_string()),
        Language::C => clang().map(|words| words.join(" ")),
    }
}

/// What a folder's policy is called: as its package (`Cargo.toml`, `package.json`, `pyproject.toml`), else as the folder.
///
/// # Errors
/// A folder that is none, and a package whose name is no file's.
pub fn name_of(folder: &Path) -> Result<String, Error> {
    let whole = std::fs::canonicalize(folder).map_err(|error| Error::file("open", folder, &error))?;
    if let Some(name) = package(&whole) {
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        return match plain && !name.starts_with('.') {
            true => Ok(name),
            false => {
                Err(Error::usage(format!("{}: the package {name:?} can't be a component's name", whole.display())))
            }
        };
    }
    let name = whole.file_name().unwrap_or_default().to_string_lossy().to_string();
    match name.is_empty() {
        true => Err(Error::usage(format!("{} has no name", whole.display()))),
        false => Ok(name),
    }
}

/// The name of the package in a folder, if it has one.
fn package(folder: &Path) -> Option<String> {
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
    match Language::of(folder)? {
        Language::Rust => crate_name(&read("Cargo.toml")?),
        Language::Js => {
            let package: serde_json::Value = serde_json::from_str(&read("package.json")?).ok()?;
            // Without its scope: `@me/mine` is `mine`.
            package["name"].as_str().map(|name| name.rsplit('/').next().unwrap_or(name).to_string())
        }
        Language::Python => crate_name(&read("pyproject.toml")?),
        Language::C => None,
    }
}

fn crate_name(manifest: &str) -> Option<String> {
    manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).map(str::to_string)
}

/// Builds the policy of a folder.
///
/// # Errors
/// What to install, what the compiler said, or why the module is no component.
pub fn build_folder(folder: &Path) -> Result<Vec<u8>, Error> {
    let Some(language) = Language::of(folder) else {
        let names = "Cargo.toml, policy.py, policy.js or policy.c";
        let error = Error::usage(format!("{}: no policy there: expected {names}", folder.display()));
        return Err(error.hint("begin one with `sandtable policy new NAME`"));
    };
    let folder = std::fs::canonicalize(folder).map_err(|error| Error::file("open", folder, &error))?;
    let scratch = output::scratch()?;
    let output = scratch.path().join("policy.wasm");
    let wit = folder.join("wit");
    if language != Language::Rust && !wit.is_dir() {
        let error = Error::usage(format!("{}: no folder `wit` with the contract", folder.display()));
        return Err(error.hint("`sandtable policy new` puts it there"));
    }
    match language {
        Language::Rust => {
            let manifest = folder.join("Cargo.toml");
            let text = std::fs::read_to_string(&manifest).map_err(|error| Error::file("read", &manifest, &error))?;
            let name = crate_name(&text).ok_or_else(|| {
                Error::usage(format!("{}: expected a line `name = \"…\"` of a package", manifest.display()))
            })?;
            return build::build(&folder, &name, &name, &build::toolchain()?);
        }
        Language::Python => {
            let own = python::modules(&folder)?.join(" ");
            let entry = python::ENTRY.replace("OWN_MODULES", &own);
            return python::componentize(&wit, &[("sandtable_entry.py", &entry)], Some(&folder));
        }
        Language::Js => {
            // Beside the policy, whose imports are relative to it; both go when it is built.
            let beside = |text: &str| -> Result<tempfile::NamedTempFile, Error> {
                let mut name = tempfile::Builder::new();
                let file = name.prefix(".sandtable-").suffix(".js").tempfile_in(&folder);
                let file = file.map_err(|error| Error::file("write", &folder, &error))?;
                output::write(file.path(), text)?;
                Ok(file)
            };
            let prelude = beside(JS_PRELUDE)?;
            let name = prelude.path().file_name().unwrap_or_default().to_string_lossy().to_string();
            let entry = beside(&JS_ENTRY.replace("PRELUDE", &name))?;
            let mut command = Command::new(js(&folder)?);
            command.arg("--wit").arg(&wit).args(["-n", "policy", "--js"]).arg(entry.path());
            command.args(["--sync", "--stub-wasi", "--opt-size", "-o"]);
            ran(command.arg(&output).current_dir(&folder), "policy.js")?;
        }
        Language::C => {
            let words = clang()?;
            let bindings = folder.join("bindings");
            bind(&wit, &bindings)?;
            let module = scratch.path().join("core.wasm");
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).args(["-mexec-model=reactor", "-O2", "-s", "-I", "bindings", "-o"]).arg(&module);
            command.args(["policy.c", "bindings/policy.c", "bindings/policy_component_type.o"]);
            ran(command.current_dir(&folder), "policy.c")?;
            let module = std::fs::read(&module).map_err(|error| Error::file("read", &module, &error))?;
            return build::componentise(&module);
        }
    }
    std::fs::read(&output).map_err(|error| Error::file("read", &output, &error))
}

const JS_PRELUDE: &str = include_str!("../../../policies/templates/wrap/prelude.js");
const JS_ENTRY: &str = include_str!("../../../policies/templates/wrap/entry.js");

fn js(folder: &Path) -> Result<PathBuf, Error> {
    const NAME: &str = "componentize-qjs";
    let installed = folder.ancestors().map(|above| above.join("node_modules/.bin").join(NAME));
    if let Some(path) = installed.into_iter().find(|path| path.exists()) {
        return Ok(path);
    }
    if answers(&[NAME], "--help") {
        return Ok(NAME.into());
    }
    let hint = format!("{QUICKJS}, in {} or above it, or with --global", folder.display());
    Err(Error::usage(format!("no {NAME} on this machine")).hint(hint))
}

fn clang() -> Result<Vec<String>, Error> {
    let owned = |words: &[&str]| Ok(words.iter().map(|word| (*word).to_string()).collect());
    let target = "--target=wasm32-wasi";
    for way in [&["zig", "version"][..], &["python3", "-m", "ziglang", "version"]] {
        let (asked, words) = way.split_last().unwrap_or((&"", &[]));
        if answers(words, asked) {
            return owned(&[words, &["cc", target, "-fno-sanitize=all"]].concat());
        }
    }
    let library = Path::new("/usr/lib/wasm32-wasi/libc.a").exists();
    match library && answers(&["clang"], "--version") && answers(&["wasm-ld"], "--version") {
        // Debian packs no compiler runtime for this target: nothing here needs one.
        true => owned(&["clang", target, "-nodefaultlibs", "-lc"]),
        false => Err(Error::usage("no C compiler for wasm32-wasi on this machine").hint(CLANG)),
    }
}

/// Writes the contract's C bindings.
#[cfg(not(feature = "authors"))]
fn bind(_: &Path, _: &Path) -> Result<(), Error> {
    Err(build::lacks_authors())
}

/// Writes the contract's C bindings.
#[cfg(feature = "authors")]
fn bind(wit: &Path, folder: &Path) -> Result<(), Error> {
    let wrong = |error: &dyn std::fmt::Display| Error::usage(format!("{}: {error:#}", wit.display()));
    let mut resolve = wit_bindgen_core::wit_parser::Resolve::default();
    let (package, _) = resolve.push_path(wit).map_err(|error| wrong(&error))?;
    let world = resolve.select_world(&[package], Some("policy")).map_err(|error| wrong(&error))?;
    let mut files = wit_bindgen_core::Files::default();
    wit_bindgen_c::Opts::default().build().generate(&mut resolve, world, &mut files).map_err(|error| wrong(&error))?;
    std::fs::create_dir_all(folder).map_err(|error| Error::file("make", folder, &error))?;
    for (name, bytes) in files.iter() {
        let path = folder.join(name);
        output::write(&path, bytes)?;
    }
    Ok(())
}
