//! `sandtable completions`, `sandtable man` and `sandtable reference`.

mod fields;

use std::path::PathBuf;

use sandtable_core::error::{Error, ExitCode};

use crate::{complete, ui};

/// Print the function by which a shell completes commands, options, labels, metrics, policies, specs and the paths of their values.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  source <(sandtable completions bash)          # in ~/.bashrc; zsh likewise
  sandtable completions fish | source           # in ~/.config/fish/config.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Print the manual page.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Write the pages of all commands to this folder instead.
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode, Error> {
    let out = complete::function(args.shell)?;
    ui::result(&String::from_utf8_lossy(&out));
    Ok(ExitCode::Done)
}

pub(crate) fn man(args: &ManArgs, of: clap::Command) -> Result<ExitCode, Error> {
    if let Some(folder) = &args.folder {
        std::fs::create_dir_all(folder).map_err(|error| Error::file("make", folder, &error))?;
        clap_mangen::generate_to(of, folder).map_err(|error| Error::file("write", folder, &error))?;
        return Ok(ExitCode::Done);
    }
    let mut out = Vec::new();
    let page = clap_mangen::Man::new(of).render(&mut out);
    page.map_err(|error| Error::internal(error.to_string()))?;
    ui::result(&String::from_utf8_lossy(&out));
    Ok(ExitCode::Done)
}

/// Print a reference.
#[derive(Debug, clap::Args)]
pub(crate) struct ReferenceArgs {
    /// Reference to print.
    #[arg(value_enum)]
    of: Reference,
}

/// What there is a reference of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Reference {
    /// Every command and its options, as Markdown.
    Cli,
    /// Every field of a spec with its type and default, as Markdown.
    Fields,
    /// What a spec may say, as JSON Schema.
    Spec,
    /// A cluster at one instant, `sandtable/state@1`, as JSON Schema.
    State,
    /// The contract between host and policies, as Markdown.
    Contract,
    /// Every metric, as Markdown.
    Metrics,
    /// The notices of the packages that this program is made of.
    Licences,
}

pub(crate) fn reference(args: &ReferenceArgs, of: clap::Command) -> Result<ExitCode, Error> {
    ui::result(&match args.of {
        Reference::Cli => cli_reference(of),
        Reference::Fields => fields::page(schemars::schema_for!(sandtable_plan::spec::Spec).as_value()),
        Reference::Spec => schema(&schemars::schema_for!(sandtable_plan::spec::Spec))?,
        Reference::State => schema(&schemars::schema_for!(sandtable_inputs::state::State))?,
        Reference::Contract => contract_reference(include_str!("../../../wit/policy.wit")),
        Reference::Metrics => sandtable_results::metric::page(),
        Reference::Licences => include_str!("../../licences.txt").to_string(),
    });
    Ok(ExitCode::Done)
}

fn schema(of: &schemars::Schema) -> Result<String, Error> {
    Ok(serde_json::to_string_pretty(of).map_err(|error| Error::internal(error.to_string()))? + "\n")
}

/// A section a command, the options in a table.
fn cli_reference(mut root: clap::Command) -> String {
    let mut out = String::from("# Commands\n\nWritten by `sandtable reference cli`; a test compares.\n");
    root.build();
    section(&root, "sandtable", &mut out);
    out
}

fn section(command: &clap::Command, path: &str, out: &mut String) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let depth = "#".repeat(2.max(path.split(' ').count()).min(4));
    out.push_str(&format!("\n{depth} `{path}`\n\n{about}\n"));
    let mut rows = Vec::new();
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        if matches!(argument.get_id().as_str(), "help" | "version") {
            continue;
        }
        let values = argument.get_value_names().into_iter().flatten();
        let value = values.map(|value| format!("<{value}>")).collect::<Vec<_>>().join(" ");
        let takes = argument.get_action().takes_values();
        let value = if takes { format!(" {value}") } else { String::new() };
        let name = match (argument.get_short(), argument.get_long()) {
            (Some(short), Some(long)) => format!("-{short}, --{long}{value}"),
            (None, Some(long)) => format!("--{long}{value}"),
            (Some(short), None) => format!("-{short}{value}"),
            (None, None) => value.trim().to_string(),
        };
        let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let words: Vec<String> =
            argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
        if takes && !words.is_empty() {
            help.push_str(&format!(" One of {}.", words.join(", ")));
        }
        let defaults: Vec<String> =
            argument.get_default_values().iter().map(|value| value.to_string_lossy().to_string()).collect();
        if takes && !defaults.is_empty() {
            help.push_str(&format!(" Default: `{}`.", defaults.join(",")));
        }
        rows.push(format!("| `{name}` | {} |\n", help.replace('|', "\\|").replace('\n', " ")));
    }
    if !rows.is_empty() {
        out.push_str(&format!("\n| | |\n| --- | --- |\n{}", rows.concat()));
    }
    if let Some(after) = command.get_after_help() {
        out.push_str(&format!("\n```text\n{}\n```\n", after.to_string().trim_end()));
    }
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        section(below, &format!("{path} {}", below.get_name()), out);
    }
}

/// The contract's text by its parts: what is said of each, and the part itself.
fn contract_reference(wit: &str) -> String {
    let mut out = String::from(
        "# The contract\n\nWritten by `sandtable reference contract` from `wit/policy.wit`; a test compares.\n\n",
    );
    let mut code = String::new();
    let mut said: Vec<String> = Vec::new();
    let mut depth = 0usize;
    for line in wit.lines() {
        let text = line.trim();
        // Between parts: a comment belongs to what follows.
        if depth == 0 {
            if let Some(comment) = text.strip_prefix("///") {
                said.push(comment.strip_prefix(' ').unwrap_or(comment).to_string());
                continue;
            }
            if text.is_empty() {
                continue;
            }
            let words: Vec<&str> = text.trim_end_matches([';', '{']).split_whitespace().collect();
            match words.as_slice() {
                ["package", name, ..] => out.push_str(&format!("Package `{name}`.\n\n{}\n\n", prose(&said))),
                [kind, name, ..] => out.push_str(&format!("## {kind} `{name}`\n\n{}\n\n", prose(&said))),
                _ => {}
            }
            said.clear();
        }
        depth += line.matches('{').count();
        depth = depth.saturating_sub(line.matches('}').count());
        if !text.starts_with("package") {
            code.push_str(line);
            code.push('\n');
        }
        if depth == 0 && !code.is_empty() {
            out.push_str(&format!("```wit\n{code}```\n\n"));
            code.clear();
        }
    }
    out.trim_end().to_string() + "\n"
}

/// Comment lines as paragraphs; those that begin with `*` as a list.
fn prose(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| line.trim_start().strip_prefix("* ").map_or(line.clone(), |item| format!("- {item}")))
        .collect::<Vec<_>>()
        .join("\n")
}
