//! `sandtable explain`.

use std::collections::BTreeSet;
use std::path::Path;

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_core::text;
use sandtable_plan::Cell;
use sandtable_results::explain::{Difference, Kept, components};
use sandtable_results::producer::Producer;
use sandtable_results::reader;
use sandtable_results::schema::CELL;
use sandtable_results::store::Store;
use serde_json::{Value as Json, json};

use super::{SpecArgs, StoreArgs, select};
use crate::commands::Format;
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
    /// Output format; JSON has one object per cell.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode, Error> {
    let path = Path::new(&args.result);
    let store = select::store_of(&args.store, &[&args.result])?;
    if !sandtable_plan::is_spec(path) {
        if !reader::looks_like_an_id(&args.result) {
            let error = Error::usage(format!("`{}` is no spec and no cell's id", args.result));
            return Err(error.hint("`sandtable plan SPEC` has the ids of its cells"));
        }
        let id = reader::find(&store, &args.result)?;
        let inputs = reader::inputs(&store, &id)?;
        ui::result(&match args.format {
            Format::Json => json!({"id": id, "inputs": inputs}).to_string() + "\n",
            _ => format!("cell {id}\n{}{}", tree(&inputs), proof(&store, &id)),
        });
        return Ok(ExitCode::Done);
    }
    let plan = args.spec.expand(path)?;
    let mut kept = Kept::of(&store)?;
    if args.format == Format::Csv {
        ui::result(&columns().csv_header());
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
    let inputs: Json = serde_json::from_str(&cell.inputs()).unwrap_or_default();
    let known: [Value; 6] = [
        (&cell.id).into(),
        (&cell.label).into(),
        cell.variant_text().into(),
        cell.seed.into(),
        status.into(),
        nearest.into(),
    ];
    match args.format {
        Format::Json => {
            let of = |one: &Difference| json!({"path": one.path, "before": one.before, "now": one.now});
            let differences: Vec<Json> = differences.iter().map(of).collect();
            let row = [Value::Absent, Value::Absent, Value::Absent, json!(differences).into(), inputs.into()];
            let mut table = columns();
            table.push(known.into_iter().chain(row).collect::<Vec<Value>>());
            ui::result(&table.json_lines());
        }
        Format::Csv => {
            let mut table = columns();
            let none = [Difference { path: String::new(), before: None, now: None }];
            for one in if differences.is_empty() { &none[..] } else { &differences[..] } {
                let row = [
                    (&one.path).into(),
                    one.before.as_ref().into(),
                    one.now.as_ref().into(),
                    Value::Absent,
                    Value::Absent,
                ];
                table.push(known.iter().cloned().chain(row).collect::<Vec<Value>>());
            }
            ui::result(&table.csv_rows());
        }
        Format::Table => in_words(cell, status, (nearest, &differences), whole.then_some(&inputs), store)?,
    }
    Ok(())
}

/// Prints a cell, what differs from its nearest result, and `inputs` if all of them are wanted.
fn in_words(
    cell: &Cell,
    status: &str,
    (nearest, differences): (Option<&str>, &[Difference]),
    inputs: Option<&Json>,
    store: &Store,
) -> Result<(), Error> {
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
            let path = text::line(&one.path);
            ui::result(&format!("    {path}: {} -> {}\n", text(&one.before), text(&one.now)));
        }
    }
    if let Some(inputs) = inputs {
        let proof = if store.has(&cell.id) { proof(store, &cell.id) } else { String::new() };
        ui::result(&format!("{}{proof}", tree(inputs)));
    }
    Ok(())
}

/// CSV has a row a difference, JSON a row a cell.
fn columns() -> Frame {
    let of_cell = ["id", "policy", "variant", "seed", "status", "nearest"].map(Column::words);
    let of_difference = ["path", "before", "now"].map(|name| Column::words(name).in_json(false));
    let in_json = ["differences", "inputs"].map(|name| Column::words(name).only_in_json());
    Frame::new(of_cell.into_iter().chain(of_difference).chain(in_json).collect::<Vec<Column>>())
}

/// What the id is the hash of, a line a leaf.
fn tree(inputs: &Json) -> String {
    let lines = reader::leaves(inputs)
        .into_iter()
        .map(|(path, value)| format!("    {} = {}\n", text::line(&path), cut(&value)));
    format!("  its id is the blake3 of:\n{}", lines.collect::<String>())
}

fn proof(store: &Store, id: &str) -> String {
    format!("  the same: b3sum {}\n", store.folder(id).join(CELL).display())
}

fn cut(text: &str) -> String {
    let mut short: String = text.chars().take(96).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
