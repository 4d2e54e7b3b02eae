//! `sandtable policy new`.

use std::path::PathBuf;

use sandtable_core::error::{Error, ExitCode};
use sandtable_plan::artifact::built::Language;

use crate::authoring::guests::tool;
use crate::authoring::template;
use crate::ui;

/// Begin a policy.
#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// Name: lower-case letters, digits and `-`.
    name: String,
    /// Language of the policy.
    #[arg(long, value_enum, default_value = "rust")]
    lang: Language,
    /// Begin with the sources of a shipped policy instead of the template, in Rust: `fifo`, `sjf`, `srtf`, `srsf`, `las`, `edf`,
    /// `priority` or `share`.
    #[arg(long, value_name = "SHIPPED")]
    from: Option<String>,
    /// Folder [default: NAME].
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

pub(crate) fn run(args: &NewArgs) -> Result<ExitCode, Error> {
    template::is_name(&args.name)?;
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    let called = folder.file_name().map(|name| name.to_string_lossy().to_string());
    if called.as_deref() != Some(args.name.as_str()) {
        let error = Error::usage(format!("{}: the folder of `{}` must be called so", folder.display(), args.name));
        return Err(error.hint(format!("--path {}", folder.with_file_name(&args.name).display())));
    }
    template::write(args.lang, &args.name, args.from.as_deref(), &folder)?;
    let (at, name) = (folder.display(), &args.name);
    ui::note(&format!("{at}: a policy in {}; what it decides is in {at}/{}", words(args.lang), source(args.lang)));
    if let Err(missing) = tool(args.lang, &folder) {
        ui::note(&format!("to build it:\n  {missing}"));
    }
    ui::note(&format!(
        "then:\n  sandtable policy build {at}\n  sandtable policy check {at}/{name}.wasm\n  sandtable run {at}/try.ron"
    ));
    Ok(ExitCode::Done)
}

fn words(language: Language) -> &'static str {
    match language {
        Language::Rust => "Rust",
        Language::Python => "Python",
        Language::Js => "JavaScript",
        Language::C => "C",
    }
}

fn source(language: Language) -> &'static str {
    match language {
        Language::Rust => "src/lib.rs",
        other => other.file(),
    }
}
