//! `sandtable explain`.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::{SpecArgs, StoreArgs, select};
use crate::error::{Error, ExitCode};
use crate::explain::{Difference, Kept, components};
use crate::plan::Cell;
use crate::producer::Producer;
use crate::results;
use crate::store::Store;
use crate::table::Format;
use crate::text;
use crate::ui;

/// What went into a cell's id, and why a cell would run again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable explain experiments/specs/quickstart.ron --only fifo
  sandtable explain SPEC --only fifo --set fleet.nodes=9      # why would it run again?
  sandtable explain 3f9a2c11e0")]
pub(crate) struct ExplainArgs {
    /// A spec, or a cell's id.
    #[arg(value_name = "RESULT")]
    result: String,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// How it is printed; JSON is one object a cell.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode, Error> {
    let path = Path::new(&args.result);
    let store = select::store_of(&args.store, &[&args.result])?;
    if !path.is_file() {
        if !results::looks_like_an_id(&args.result) {
            let error = Error::usage(format!("`{}` is no spec and no cell's id", args.result));
            return Err(error.hint("`sandtable plan SPEC` has the ids of its cells"));
        }
        let id = results::find(&store, &args.result)?;
        let inputs = results::inputs(&store, &id)?;
        ui::result(&match args.format {
            Format::Json => json!({"id": id, "inputs": inputs}).to_string() + "\n",
            _ => format!("cell {id}\n{}{}", tree(&inputs), proof(&store, &id)),
        });
        return Ok(ExitCode::Done);
    }
    let plan = args.spec.expand(path)?;
    let mut kept = Kept::of(&store)?;
    if args.format == Format::Csv {
        ui::result("id,policy,variant,seed,status,nearest,path,before,now\n");
    }
    let others = components(&plan);
    // One cell in full; of the others only why they would run.
    for (at, cell) in plan.cells.iter().enumerate() {
        one(args, cell, at == 0, (&mut kept, &others), &store)?;
    }
    Ok(ExitCode::Done)
}

fn one(
    args: &ExplainArgs,
    cell: &Cell,
    whole: bool,
    (kept, others): (&mut Kept, &BTreeSet<String>),
    store: &Store,
) -> Result<(), Error> {
    let status = match (store.has(&cell.id), store.has_failed(&cell.id)) {
        (_, true) => "failed before: `run --retry-failed` runs it again",
        (true, _) => "done: nothing would run",
        (false, _) => "missing",
    };
    let near = if store.has(&cell.id) { None } else { kept.nearest(cell, others) };
    let (nearest, differences) = near.map_or((None, Vec::new()), |(id, all)| (Some(id), all));
    let inputs: Value = serde_json::from_str(&cell.inputs()).unwrap_or_default();
    match args.format {
        Format::Json => {
            let differences: Vec<Value> =
                differences.iter().map(|one| json!({"path": one.path, "before": one.before, "now": one.now})).collect();
            let object = json!({
                "id": cell.id, "policy": cell.label, "variant": cell.variant_text(), "seed": cell.seed, "status": status,
                "nearest": nearest, "differences": differences, "inputs": inputs,
            });
            ui::result(&(object.to_string() + "\n"));
        }
        Format::Csv => {
            let none = [Difference { path: String::new(), before: None, now: None }];
            for one in if differences.is_empty() { &none[..] } else { &differences[..] } {
                let (before, now) = (one.before.clone().unwrap_or_default(), one.now.clone().unwrap_or_default());
                let variant = cell.variant_text();
                let cells = [
                    &cell.label,
                    &variant,
                    &cell.seed.to_string(),
                    status,
                    nearest.unwrap_or(""),
                    &one.path,
                    &before,
                    &now,
                ];
                let cells = cells.map(crate::trace::csv_cell).join(",");
                ui::result(&format!("{},{cells}\n", cell.id));
            }
        }
        Format::Table => {
            let variant = cell.variant_text();
            let space = if variant.is_empty() { "" } else { " " };
            ui::result(&format!("{} {}{space}{variant} seed {}: {status}\n", cell.short(), cell.label, cell.seed));
            if let Some(near) = nearest {
                ui::result(&format!("  beside the nearest result, {}:\n", &near[..10]));
                if differences.iter().any(|one| one.path == "build") {
                    let before = store.producer(near)?.map_or("an unknown build".to_string(), |by| by.in_words());
                    ui::result(&format!("    computed by another build: {before}\n"));
                    ui::result(&format!("    this is {}\n", Producer::here().in_words()));
                }
                for one in differences.iter().filter(|one| one.path != "build") {
                    let text = |of: &Option<String>| of.as_ref().map_or("-".to_string(), |text| cut(text));
                    ui::result(&format!(
                        "    {}: {} -> {}\n",
                        text::line(&one.path),
                        text(&one.before),
                        text(&one.now)
                    ));
                }
            }
            if whole {
                ui::result(&format!(
                    "{}{}",
                    tree(&inputs),
                    if store.has(&cell.id) { proof(store, &cell.id) } else { String::new() }
                ));
            }
        }
    }
    Ok(())
}

/// What the id is the hash of, a line a leaf.
fn tree(inputs: &Value) -> String {
    let lines = results::leaves(inputs)
        .into_iter()
        .map(|(path, value)| format!("    {} = {}\n", text::line(&path), cut(&value)));
    format!("  its id is the blake3 of:\n{}", lines.collect::<String>())
}

fn proof(store: &Store, id: &str) -> String {
    format!("  the same: b3sum {}\n", store.folder(id).join("cell.json").display())
}

fn cut(text: &str) -> String {
    let mut short: String = text.chars().take(96).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
