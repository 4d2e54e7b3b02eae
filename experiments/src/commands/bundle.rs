//! `sandtable bundle`.

use std::path::PathBuf;

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::output;
use sandtable_results::bundle::{Wanted, pack};

use super::{SpecArgs, StoreArgs};
use crate::ui;

/// Pack a spec with its components, profiles, traces and results; `verify FILE` checks it on another machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable bundle experiments/specs/quickstart.ron -o artifact.tar.zst
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
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &BundleArgs) -> Result<ExitCode, Error> {
    if !args.output.to_string_lossy().ends_with(".tar.zst") {
        return Err(Error::usage(format!("{}: expected a name that ends in .tar.zst", args.output.display())));
    }
    let options = args.spec.options()?;
    let store = args.store.open(Some(&args.path))?;
    let wanted = Wanted { spec: &args.path, options: &options, without_data: args.without_data };
    let (bytes, manifest) = pack(&wanted, &store)?;
    output::write(&args.output, &bytes)?;
    ui::result(&format!(
        "{}  {} B  {}\n",
        args.output.display(),
        bytes.len(),
        &sandtable_core::digest::digest(&bytes)[..10]
    ));
    ui::note(&format!("{} cells, {} files", manifest.cells.len(), manifest.files.len()));
    for (name, hash) in &manifest.left_out {
        ui::note(&format!("left out: {} (blake3 {hash})", name.trim_start_matches("tree/")));
    }
    Ok(ExitCode::Done)
}
