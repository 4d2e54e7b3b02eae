//! `sandtable completions` and `sandtable man`.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::error::{Error, ExitCode};
use crate::ui;

/// Print the completions of a shell.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Print the manual page.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Write the pages of all commands here instead.
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode, Error> {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sandtable", &mut out);
    ui::result(&String::from_utf8_lossy(&out));
    Ok(ExitCode::Done)
}

pub(crate) fn man(args: &ManArgs) -> Result<ExitCode, Error> {
    if let Some(folder) = &args.folder {
        std::fs::create_dir_all(folder).map_err(|error| Error::file("make", folder, &error))?;
        clap_mangen::generate_to(Cli::command(), folder).map_err(|error| Error::file("write", folder, &error))?;
        return Ok(ExitCode::Done);
    }
    let mut out = Vec::new();
    let page = clap_mangen::Man::new(Cli::command()).render(&mut out);
    page.map_err(|error| Error::internal(error.to_string()))?;
    ui::result(&String::from_utf8_lossy(&out));
    Ok(ExitCode::Done)
}
