//! `sandtable bundle`.

use std::path::PathBuf;

use super::{SpecArgs, StoreArgs};
use crate::bundle::{Wanted, pack};
use crate::error::{Error, ExitCode};
use crate::output;
use crate::ui;

/// Pack a spec with its components, profiles, traces and results; `verify FILE` runs it on another machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable bundle experiments/specs/quickstart.ron -o artifact.tar.zst
  sandtable verify artifact.tar.zst                      # on another machine, in another folder")]
pub(crate) struct BundleArgs {
    /// The spec; every cell must have its result.
    #[arg(value_name = "SPEC")]
    path: PathBuf,
    /// Where the bundle goes: a `.tar.zst`.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Leave out traces and profiles that are not in the spec's own checkout: only their hashes go in.
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
    ui::result(&format!("{}  {} B  {}\n", args.output.display(), bytes.len(), &crate::digest::digest(&bytes)[..10]));
    ui::note(&format!("{} cells, {} files", manifest.cells.len(), manifest.files.len()));
    for (name, hash) in &manifest.left_out {
        ui::note(&format!("left out: {} (blake3 {hash})", name.trim_start_matches("tree/")));
    }
    Ok(ExitCode::Done)
}
