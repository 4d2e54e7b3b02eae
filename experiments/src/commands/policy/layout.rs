//! `sandtable policy push` and `pull`: components in OCI layouts.

use std::path::{Path, PathBuf};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::output;
use sandtable_plan::artifact::oci::{Described, Reference, SCHEME, pull as taken, push as put};
use sandtable_plan::artifact::{Finder, is_script};
use sandtable_runtime::limits::Limits;
use sandtable_runtime::sandbox::{Sandbox, SandboxedProvider, interfaces};

use crate::ui;

/// Put a policy, or a predictor, into an OCI layout, a folder that `skopeo` and `oras` copy to registries, and print its name for specs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable policy push ./mine.wasm oci:shared/policies
  sandtable policy push las oci:shared/policies#las:2026-11")]
pub(crate) struct PushArgs {
    /// A shipped policy's name, or a component's file.
    policy: String,
    /// The layout, which is made where there is none, and what the policy is called in it [default: its name and version].
    #[arg(value_name = "oci:FOLDER[#NAME]")]
    layout: String,
}

/// Take a policy out of an OCI layout.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable policy pull oci:shared/policies#las:2026-11 -o las.wasm")]
pub(crate) struct PullArgs {
    /// The policy.
    #[arg(value_name = "oci:FOLDER#NAME[@sha256:HEX]")]
    reference: String,
    /// The component's file.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn push(args: &PushArgs) -> Result<ExitCode, Error> {
    if is_script(&args.policy) {
        return Err(Error::usage(format!("{}: a script is no component, and a file by itself", args.policy)));
    }
    let mut finder = Finder::new(Path::new("."), None);
    if !args.layout.starts_with(SCHEME) {
        return Err(Error::usage(format!("expected `oci:FOLDER` or `oci:FOLDER#NAME`, found `{}`", args.layout)));
    }
    let file = finder.find(&args.policy).map_err(Error::usage)?;
    let sandbox = super::sandbox()?;
    let (name, version, about) = match super::open(&sandbox, &mut finder, &args.policy) {
        Ok((_, of)) => (of.name, of.version, of.about),
        // A predictor is named so too.
        Err(error) => predictor(&sandbox, &file.bytes).ok_or(error)?,
    };
    let usual = format!("{}#{name}:{version}", args.layout);
    let text = if args.layout.contains('#') { &args.layout } else { &usual };
    let reference = Reference::parse(text).map_err(Error::usage)?;
    if reference.sha256.is_some() {
        return Err(Error::usage(format!("{text}: the digest is what comes of it")));
    }
    let interfaces = interfaces(&file.bytes).map_err(Error::usage)?;
    let described = Described { name: reference.name, about: &about, interfaces };
    let sha256 = put(Path::new(reference.folder), &file.bytes, &described)?;
    ui::result(&format!("{text}@sha256:{sha256}\n"));
    Ok(ExitCode::Done)
}

/// The name, the version and the line of a component that is a predictor.
fn predictor(sandbox: &Sandbox, bytes: &[u8]) -> Option<(String, String, String)> {
    let component = sandbox.load_predictor(bytes).ok()?;
    let described = SandboxedProvider::new(&component, Limits::default()).ok()?.describe().ok()?;
    Some((described.name, described.version, described.about))
}

pub(super) fn pull(args: &PullArgs) -> Result<ExitCode, Error> {
    let reference = Reference::parse(&args.reference).map_err(Error::usage)?;
    let (bytes, sha256) = taken(Path::new("."), &reference)?;
    output::write(&args.output, &bytes)?;
    ui::result(&format!("{}  {} B  sha256:{sha256}\n", args.output.display(), bytes.len()));
    Ok(ExitCode::Done)
}
