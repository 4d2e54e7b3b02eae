//! `sandtable store`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{SpecArgs, StoreArgs};
use crate::error::{Error, ExitCode};
use crate::table::Format;
use crate::ui;

/// What the store keeps.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum StoreCommand {
    /// Every cell: its id, its state and its size.
    List {
        #[command(flatten)]
        store: StoreArgs,
        /// How rows are printed.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Remove what crashes left behind, and cells that none of these specs names.
    Gc {
        /// Specs whose cells are kept; without any, all cells are.
        #[arg(value_name = "SPEC")]
        keep: Vec<PathBuf>,
        #[command(flatten)]
        store: StoreArgs,
        /// Remove failed cells too.
        #[arg(long)]
        failed: bool,
        /// Also what processes of other machines have on the way: only where none of them runs.
        #[arg(long)]
        everywhere: bool,
    },
}

pub(crate) fn run(command: &StoreCommand) -> Result<ExitCode, Error> {
    match command {
        StoreCommand::List { store, format } => list(store, *format),
        StoreCommand::Gc { keep, store, failed, everywhere } => gc(keep, store, *failed, *everywhere),
    }
}

fn list(store: &StoreArgs, format: Format) -> Result<ExitCode, Error> {
    let store = store.there()?;
    let mut out = String::new();
    if format == Format::Csv {
        out.push_str("id,state,bytes,policy,seed\n");
    }
    for entry in store.list()? {
        let inputs: serde_json::Value =
            serde_json::from_slice(&store.read(&entry.id, "cell.json")?).unwrap_or_default();
        let state = if entry.failed { "failed" } else { "done" };
        let policy = inputs["policy"]["blake3"].as_str().unwrap_or_default();
        let policy = policy.get(..10).unwrap_or(policy);
        let (id, bytes, seed) = (&entry.id, entry.bytes, &inputs["seed"]);
        out.push_str(&match format {
            Format::Table => {
                format!("{}  {state:<6}  {bytes:>10} B  policy {policy}  seed {seed}\n", id.get(..10).unwrap_or(id))
            }
            Format::Json => {
                serde_json::json!({"id": id, "state": state, "bytes": bytes, "policy": policy, "seed": seed})
                    .to_string()
                    + "\n"
            }
            Format::Csv => format!("{id},{state},{bytes},{policy},{seed}\n"),
        });
    }
    ui::result(&out);
    Ok(ExitCode::Done)
}

fn gc(keep: &[PathBuf], store: &StoreArgs, failed: bool, everywhere: bool) -> Result<ExitCode, Error> {
    let store = store.open(keep.first().map(PathBuf::as_path))?;
    let (swept, foreign) = store.sweep_temporary(everywhere)?;
    let mut kept: BTreeSet<String> = BTreeSet::new();
    for spec in keep {
        // A spec and its cut for tests name different cells: both are kept.
        for test in [false, true] {
            let args = SpecArgs { test, ..SpecArgs::default() };
            kept.extend(args.expand(spec)?.cells.into_iter().map(|cell| cell.id));
        }
    }
    let (mut removed, mut bytes) = (0, 0);
    for entry in store.list()? {
        let unnamed = !keep.is_empty() && !kept.contains(&entry.id);
        if unnamed || (failed && entry.failed) {
            store.remove(&entry.id)?;
            removed += 1;
            bytes += entry.bytes;
        }
    }
    ui::result(&format!("{removed} cells removed ({bytes} B), {swept} unfinished ones swept\n"));
    if foreign > 0 {
        ui::note(&format!(
            "{foreign} unfinished ones are of other machines, which may still write them (`--everywhere`)"
        ));
    }
    Ok(ExitCode::Done)
}
