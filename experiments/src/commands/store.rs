//! `sandtable store`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_results::reader;
use sandtable_results::schema::RunRecord;

use super::{SpecArgs, StoreArgs};
use crate::commands::Format;
use crate::ui;

/// Manage the store.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum StoreCommand {
    /// List every cell with its id, state and size.
    List {
        #[command(flatten)]
        store: StoreArgs,
        /// Output format.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Remove leftovers of crashes, and cells that none of these specs has.
    Gc {
        /// Specs whose cells are kept [default: keep all cells].
        #[arg(value_name = "SPEC")]
        keep: Vec<PathBuf>,
        #[command(flatten)]
        store: StoreArgs,
        /// Remove failed cells too.
        #[arg(long)]
        failed: bool,
        /// Also remove unfinished results of other machines; only if no process there uses the store.
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
    let mut table = Frame::new([
        Column::words("id"),
        Column::words("state"),
        Column::count("bytes"),
        Column::words("policy"),
        Column::count("seed"),
    ]);
    for entry in store.list()? {
        // What another version wrote is kept too.
        let run = reader::document::<RunRecord>(&store, &entry.id).ok();
        let policy = run.as_ref().map(|run| run.policy.chars().take(10).collect::<String>());
        table.push([
            Value::from(&entry.id).shown(entry.id.get(..10).unwrap_or(&entry.id)),
            (if entry.failed { "failed" } else { "done" }).into(),
            entry.bytes.into(),
            policy.into(),
            run.map(|run| run.seed).into(),
        ]);
    }
    ui::result(&format.of(&table));
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
