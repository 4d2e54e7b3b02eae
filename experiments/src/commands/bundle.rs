//! `sandtable bundle`.

mod appendix;

use std::path::PathBuf;

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::output;
use sandtable_results::bundle::{Published, Wanted, pack};

use super::{SpecArgs, StoreArgs};
use crate::ui;

/// Pack a spec with its components, profiles, traces and results; `verify FILE` checks it on another machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable bundle experiments/specs/quickstart.ron -o artifact.tar.zst
  sandtable bundle SPEC -o artifact.tar.zst --appendix appendix.md --license CC-BY-4.0 --date 2026-11-28
  sandtable verify artifact.tar.zst                      # on another machine, in another folder")]
pub(crate) struct BundleArgs {
    /// The spec; every cell needs a result.
    #[arg(value_name = "SPEC")]
    path: PathBuf,
    /// Output file, a `.tar.zst`.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Leave out traces and profiles from outside the spec's checkout; the bundle has their hashes only.
    #[arg(long)]
    without_data: bool,
    /// Write an artifact appendix in the form of ACM conferences to this file, a Markdown text with what can be filled in.
    #[arg(long, value_name = "FILE")]
    appendix: Option<PathBuf>,
    /// Say in the bundle's RO-Crate under which licence it is, by its SPDX id.
    #[arg(long, value_name = "ID", value_parser = licence)]
    license: Option<String>,
    /// Say in the bundle's RO-Crate when it was published.
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date)]
    date: Option<String>,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
}

fn licence(text: &str) -> Result<String, String> {
    let right = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || ".-+".contains(c));
    if right { Ok(text.into()) } else { Err("expected an SPDX id, such as CC-BY-4.0".into()) }
}

fn date(text: &str) -> Result<String, String> {
    let date: jiff::civil::Date = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    if date.to_string() == text { Ok(text.into()) } else { Err(format!("expected {date}")) }
}

pub(crate) fn run(args: &BundleArgs) -> Result<ExitCode, Error> {
    if !args.output.to_string_lossy().ends_with(".tar.zst") {
        return Err(Error::usage(format!("{}: expected a name that ends in .tar.zst", args.output.display())));
    }
    let at = |path: &std::path::Path| std::path::absolute(path).ok();
    if let Some(appendix) =
        args.appendix.as_deref().filter(|path| [&args.output, &args.path].iter().any(|other| at(path) == at(other)))
    {
        return Err(Error::usage(format!("--appendix: {} is the bundle's file or the spec's", appendix.display())));
    }
    let options = args.spec.options()?;
    let store = args.store.open(Some(&args.path))?;
    let published = Published { date: args.date.clone(), licence: args.license.clone() };
    let wanted = Wanted { spec: &args.path, options: &options, without_data: args.without_data, published };
    let packed = pack(&wanted, &store)?;
    let (bytes, manifest) = (&packed.bytes, &packed.manifest);
    output::write(&args.output, bytes)?;
    if let Some(path) = &args.appendix {
        let file = args.output.file_name().unwrap_or_default().to_string_lossy();
        let of = appendix::Appendix {
            plan: &packed.plan,
            store: &store,
            manifest,
            file: &file,
            bytes: (bytes.len() as u64, packed.unpacked),
            licence: args.license.as_deref(),
        };
        output::write(path, appendix::text(&of)?)?;
    }
    ui::result(&format!(
        "{}  {} B  {}\n",
        args.output.display(),
        bytes.len(),
        &sandtable_core::digest::digest(bytes)[..10]
    ));
    ui::note(&format!("{} cells, {} files", manifest.cells.len(), manifest.files.len()));
    for (name, hash) in &manifest.left_out {
        ui::note(&format!("left out: {} (blake3 {hash})", name.trim_start_matches("tree/")));
    }
    Ok(ExitCode::Done)
}
