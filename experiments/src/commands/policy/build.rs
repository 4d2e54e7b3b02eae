//! `sandtable policy build`.

use std::path::{Path, PathBuf};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::output;
use sandtable_plan::artifact::built::{Language, keep_built};
use sandtable_plan::artifact::manifest::{self, ManifestEntry};
use sandtable_plan::artifact::{sources_of, workspace_above};

use crate::authoring::guests::{build_folder, name_of, tool};
use crate::authoring::{build, quick};
use crate::ui;

/// Compile policies to components.
#[derive(Debug, clap::Args)]
pub(crate) struct BuildArgs {
    /// Folders of policies (`.`), or names of this workspace's policies [default: all of these].
    names: Vec<String>,
    /// Folder for components [default: the policy's own folder, or `policies/dist`].
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Write nothing; fail if a component or its sources differ from the workspace's manifest.
    #[arg(long, conflicts_with = "quick")]
    check: bool,
    /// For policies in Python: put the texts into an interpreter that was built before. The component reads them at its first call.
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(args: &BuildArgs) -> Result<ExitCode, Error> {
    let in_a_folder =
        |name: &&String| name.contains('/') || name.starts_with('.') || Language::of(Path::new(name)).is_some();
    let (folders, names): (Vec<&String>, Vec<&String>) = args.names.iter().partition(in_a_folder);
    if args.check && !folders.is_empty() {
        return Err(Error::usage("--check compares with the manifest of this workspace; a folder's policy has none"));
    }
    for folder in &folders {
        own(Path::new(folder), args)?;
    }
    // In a project of its own, as cargo has it: what is here.
    let bare = args.names.is_empty();
    if bare && workspace_above(Path::new(".")).is_none() && Language::of(Path::new(".")).is_some() {
        own(Path::new("."), args)?;
        return Ok(ExitCode::Done);
    }
    match bare || !names.is_empty() {
        true if args.quick => Err(Error::usage(NOT_QUICK)),
        true => shared(&names, args.output.as_deref(), args.check),
        false => Ok(ExitCode::Done),
    }
}

const NOT_QUICK: &str = "--quick is for policies in Python, in a folder of their own";

/// A policy in a folder of its own.
fn own(folder: &Path, args: &BuildArgs) -> Result<(), Error> {
    if !folder.is_dir() {
        return Err(Error::usage(format!("{}: no such folder", folder.display())));
    }
    let name = name_of(folder)?;
    let bytes = match Language::of(folder) {
        Some(Language::Python) if args.quick => quick::build(folder, ui::note)?,
        Some(_) if args.quick => return Err(Error::usage(format!("{}: {NOT_QUICK}", folder.display()))),
        language => {
            if let Some(language) = language {
                ui::note(&format!("{name}: building with {}", tool(language, folder)?));
            }
            build_folder(folder)?
        }
    };
    let place = args.output.as_deref().unwrap_or(folder);
    std::fs::create_dir_all(place).map_err(|error| Error::file("make", place, &error))?;
    let path = place.join(format!("{name}.wasm"));
    output::write(&path, &bytes)?;
    keep_built(folder, &path, &bytes)?;
    ui::result(&format!("{}  {} B  {}\n", path.display(), bytes.len(), &sandtable_core::digest::digest(&bytes)[..10]));
    Ok(())
}

/// Policies of this workspace, and the manifest.
fn shared(names: &[&String], output: Option<&Path>, check: bool) -> Result<ExitCode, Error> {
    let hint = "name the folder of a policy (`sandtable policy build .`), or be inside a Sandtable checkout";
    let root = workspace_above(Path::new(".")).ok_or_else(|| Error::usage("no policies here").hint(hint))?;
    let dist = output.map_or_else(|| root.join("policies/dist"), Path::to_path_buf);
    let all = names.is_empty();
    let is_there = |name: &str| root.join(sources_of(name)).join("Cargo.toml").exists();
    // The workspace's and not this program's, which may have been built before a new policy was.
    let known = manifest::read(&root.join("policies/dist"))?;
    let names: Vec<&str> = match all {
        true => known.keys().map(String::as_str).filter(|name| is_there(name)).collect(),
        false => names.iter().map(|name| name.as_str()).collect(),
    };
    if names.is_empty() {
        let dist = root.join("policies/dist");
        return Err(Error::usage(format!(
            "{} lists no policy whose sources are here",
            dist.join("manifest.json").display()
        )));
    }
    if let Some(name) = names.iter().find(|name| !is_there(name)) {
        return Err(Error::usage(format!("no policy `{name}` in {}", root.join("policies").display())));
    }
    let mut manifest = manifest::read(&dist)?;
    if check {
        return check_all(&root, &dist, &names, &manifest);
    }
    if all {
        // One that is no longer part of the workspace.
        manifest.retain(|name, _| names.contains(&name.as_str()));
    }
    let toolchain = build::toolchain()?;
    std::fs::create_dir_all(&dist).map_err(|error| Error::file("make", &dist, &error))?;
    build::build_each(&root, &names, &toolchain, |name, bytes| {
        let bytes = bytes?;
        let path = dist.join(format!("{name}.wasm"));
        output::write(&path, &bytes)?;
        let component = sandtable_core::digest::digest(&bytes);
        ui::result(&format!("{name}  {} B  {}\n", bytes.len(), &component[..10]));
        let sources = manifest::sources(&root, name)?;
        manifest.insert(name.to_string(), ManifestEntry { component, sources, rustc: toolchain.version.clone() });
        Ok(())
    })?;
    manifest::write(&dist, &manifest)?;
    Ok(ExitCode::Done)
}

/// The policy check: sources against the manifest; bytes too, where the compiler of the manifest is at hand.
fn check_all(root: &Path, dist: &Path, names: &[&str], manifest: &manifest::Manifest) -> Result<ExitCode, Error> {
    let toolchain = build::toolchain().ok();
    let mut code = ExitCode::Done;
    let mut say = |name: &str, verdict: Result<String, &str>| match verdict {
        Ok(how) => ui::result(&format!("{name}: {how}\n")),
        Err(why) => {
            code = ExitCode::CheckFailed;
            ui::note(&format!("error: {name}: {why}\nhint: `just policies {name}`"));
        }
    };
    let component = |name: &str| {
        let path = dist.join(format!("{name}.wasm"));
        std::fs::read(&path).map_err(|error| Error::file("read", &path, &error))
    };
    let mut built_again = Vec::new();
    for name in names {
        let digest = sandtable_core::digest::digest(&component(name)?);
        match manifest.get(*name) {
            None => say(name, Err("not in the manifest")),
            Some(entry) if entry.component != digest => say(name, Err("the component is not the manifest's")),
            Some(entry) if entry.sources != manifest::sources(root, name)? => {
                say(name, Err("its sources have changed"));
            }
            Some(entry) if toolchain.as_ref().is_some_and(|here| here.version == entry.rustc) => {
                built_again.push(*name);
            }
            Some(entry) => {
                say(name, Ok(format!("sources as in the manifest; bytes not compared, no {} here", entry.rustc)));
            }
        }
    }
    if let Some(toolchain) = toolchain {
        build::build_each(root, &built_again, &toolchain, |name, bytes| {
            let is_equal = bytes? == component(name)?;
            let equal = || "bytes rebuilt and equal".to_string();
            say(name, is_equal.then(equal).ok_or("a rebuild gives other bytes"));
            Ok(())
        })?;
    }
    Ok(code)
}
