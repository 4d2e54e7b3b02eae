//! A spec may name programs that run as the user. They run only where the user said so: with `--allow-commands`, or at the
//! terminal. What was allowed once is remembered, by the blake3 of the commands, in a folder of this user alone.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_core::input;
use sandtable_core::output;
use sandtable_core::text;
use sandtable_hardware::text::escape_control_chars;
use sandtable_plan::{Cell, LiveDevices};
use sandtable_runtime::sandbox::private_folder;

use crate::ui;

/// Whether a spec's own programs may run.
#[derive(Debug, clap::Args)]
pub(crate) struct ConsentArgs {
    /// Allow the programs that the spec names in `commands` to run on this machine. Needed once for the same
    /// commands.
    #[arg(long)]
    pub(crate) allow_commands: bool,
}

impl ConsentArgs {
    /// Lets the programs of these cells run, or not.
    ///
    /// # Errors
    /// Programs that were not allowed.
    pub(crate) fn ask<'a>(&self, origin: &str, cells: impl Iterator<Item = &'a Cell>) -> Result<(), Error> {
        // The text is what is remembered: a user who looks finds what was allowed.
        let mut asked = BTreeMap::new();
        for devices in cells.filter_map(Cell::runs_commands) {
            let value = serde_json::json!({ "commands": devices.commands, "environment": devices.passed });
            let text = format!("{value}\n");
            asked.entry(digest(text.as_bytes())).or_insert((text, devices));
        }
        if asked.is_empty() {
            return Ok(());
        }
        let folder = folder().ok_or_else(|| "neither XDG_STATE_HOME nor HOME is an absolute path".to_string());
        let folder = folder.and_then(|folder| private_folder(&folder).map(|()| folder));
        let kept = |id: &String| folder.as_ref().is_ok_and(|folder| folder.join(id).is_file());
        asked.retain(|id, _| !kept(id));
        if asked.is_empty() {
            return Ok(());
        }
        let listed: Vec<String> = asked.values().flat_map(|(_, devices)| shown(devices)).collect();
        if !self.allow_commands && !agreed(origin, &listed)? {
            let first = listed.first().map_or("", String::as_str);
            let rest = if listed.len() > 1 { format!(" and {} more lines", listed.len() - 1) } else { String::new() };
            let first = text::line(first);
            let error = Error::usage(format!("{origin} runs programs on this machine as you: {first}{rest}"));
            return Err(error.hint("read its `commands`; if you want them to run: --allow-commands, once"));
        }
        for (id, (text, _)) in &asked {
            let kept = match &folder {
                Ok(folder) => output::write(&folder.join(id), text).map_err(|error| error.message),
                Err(why) => Err(why.clone()),
            };
            if let Err(why) = kept {
                ui::note(&format!("warning: these commands will be asked about again: {why}"));
                break;
            }
        }
        Ok(())
    }
}

/// `"train": python train.py` of each command, and the variables that they are given, a line each. Nothing is cut: what is
/// not shown was not agreed to.
fn shown(devices: &LiveDevices) -> Vec<String> {
    let commands = devices.commands.iter().map(|(workload, words)| {
        let words: Vec<String> = words.iter().map(|word| crate::engine::quoted(word)).collect();
        escape_control_chars(&format!("{workload:?}: {}", words.join(" ")), usize::MAX)
    });
    let passed = (!devices.passed.is_empty()).then(|| {
        escape_control_chars(
            &format!("with these variables of your environment: {}", devices.passed.join(", ")),
            usize::MAX,
        )
    });
    commands.chain(passed).collect()
}

/// Asks at the terminal; without a terminal the answer is no.
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
fn folder() -> Option<PathBuf> {
    Some(input::own_folder("XDG_STATE_HOME", ".local/state")?.join("commands"))
}
