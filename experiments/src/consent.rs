//! A spec may name programs that run as the user. They run only where the user said so: with `--allow-commands`, or at the
//! terminal. What was allowed once is remembered, by the blake3 of the commands, in a folder of this user alone.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use sandtable_runtime::sandbox::private_folder;

use crate::error::Error;
use crate::output;
use crate::plan::{Cell, Machines, digest};
use crate::ui;

/// Whether a spec's own programs may run.
#[derive(Debug, clap::Args)]
pub(crate) struct ConsentArgs {
    /// Let the programs that the spec names in `commands` run on this machine. Needed once for the same commands.
    #[arg(long)]
    pub(crate) allow_commands: bool,
}

impl ConsentArgs {
    /// Lets the programs of these cells run, or not.
    ///
    /// # Errors
    /// Programs that nobody allowed.
    pub(crate) fn ask<'a>(&self, origin: &str, cells: impl Iterator<Item = &'a Cell>) -> Result<(), Error> {
        let fields = cells.filter_map(|cell| match &cell.machines {
            Machines::Live(field) if !field.commands.is_empty() => Some((&field.commands, &field.passed)),
            _ => None,
        });
        // The text is what is remembered: whoever looks finds what was allowed.
        let mut asked = BTreeMap::new();
        for (commands, environment) in fields {
            let value = serde_json::json!({ "commands": commands, "environment": environment });
            let text = format!("{value}\n");
            asked.entry(digest(text.as_bytes())).or_insert((text, commands));
        }
        if asked.is_empty() {
            return Ok(());
        }
        let folder = folder().filter(|folder| private_folder(folder).is_ok());
        let kept = |id: &String| folder.as_ref().is_some_and(|folder| folder.join(id).is_file());
        asked.retain(|id, _| !kept(id));
        if asked.is_empty() {
            return Ok(());
        }
        let commands = asked.values().flat_map(|(_, commands)| *commands);
        let listed: Vec<String> = commands.map(|(workload, words)| shown(workload, words)).collect();
        if !self.allow_commands && !agreed(origin, &listed)? {
            let first = listed.first().map_or("", String::as_str);
            let rest = if listed.len() > 1 { format!(" and {} more", listed.len() - 1) } else { String::new() };
            let error = Error::usage(format!("{origin} runs programs on this machine as you: {first}{rest}"));
            return Err(error.hint("read its `commands`; if you want them to run: --allow-commands, once"));
        }
        for (id, (text, _)) in &asked {
            // Where it can't be remembered it is asked for again.
            let _ = folder.as_ref().map(|folder| output::write(&folder.join(id), text));
        }
        Ok(())
    }
}

/// `"train": python train.py`, in one line.
fn shown(workload: &str, words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| crate::engine::quoted(word)).collect();
    ui::line(&format!("{workload:?}: {}", words.join(" ")))
}

/// Asks whoever sits at the terminal; nobody there is no.
fn agreed(origin: &str, listed: &[String]) -> Result<bool, Error> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(false);
    }
    ui::note(&format!("{origin} runs programs on this machine as you:"));
    listed.iter().for_each(|line| ui::note(&format!("  {line}")));
    ui::note("Run them? [y/N]");
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Error::usage(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// `$XDG_STATE_HOME/sandtable/commands`, or that of `~/.local/state`.
#[expect(clippy::disallowed_methods, reason = "what a user allowed is a fact of the machine and steers no result")]
fn folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(Path::new(".local/state"))))?;
    Some(state.join("sandtable").join("commands"))
}
