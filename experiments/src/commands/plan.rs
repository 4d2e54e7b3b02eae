//! `sandtable plan`.

use std::path::{Path, PathBuf};

use comfy_table::{Table, presets};
use serde_json::json;

use super::{SpecInStore, begin, expand_noting};
use crate::engine::handed::{Handed, Line, line};
use crate::engine::{Page, State, Times};
use crate::error::{Error, ExitCode};
use crate::explain::{Kept, components, reason};
use crate::output;
use crate::plan::{Bound, Cell, Plan};
use crate::store::Store;
use crate::table::Format;
use crate::ui;

/// Show the cells of a spec and why each would run.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    of: SpecInStore,
    /// How rows are printed.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write the cells that have no result into a plan file, for `run --plan FILE --shard I/N`; its length is printed.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &PlanArgs) -> Result<ExitCode, Error> {
    let store = args.of.store.open(Some(&args.of.path))?;
    if let Some(file) = &args.output {
        return hand_out(args, file, &store);
    }
    let plan = args.of.spec.expand(&args.of.path)?;
    begin::lacking_begin(&plan, &store)?;
    let times = Times::of(&store);
    let kept = Kept::of(&store, plan.cells.iter().filter(|cell| !store.has(&cell.id)).count())?;
    let others = components(&plan);
    let row = |cell| {
        let status = status(cell, &store);
        let near = if status == "missing" { kept.nearest(cell, &others) } else { None };
        let cost = line(cell, 0, &times);
        Row { cell, status, cost, reason: near.map_or(String::new(), |(_, differences)| reason(&differences)) }
    };
    let rows: Vec<Row<'_>> = plan.cells.iter().map(row).collect();
    ui::result(&match args.format {
        Format::Table => for_people(&plan, &rows),
        Format::Json => rows.iter().map(|row| row.object().to_string() + "\n").collect(),
        Format::Csv => {
            let head = "id,policy,variant,seed,status,component,config,cost,seconds,gpus,reason\n".to_string();
            let cell = crate::trace::csv_cell;
            rows.iter().fold(head, |out, Row { cell: c, status, cost, reason }| {
                let (label, variant, config) = (cell(&c.label), cell(&c.variant_text()), cell(&c.config));
                let why = cell(reason);
                let seconds = cost.seconds.map_or_else(String::new, |seconds| seconds.to_string());
                let cost = format!("{},{seconds},{}", cost.cost, cost.needs.gpus);
                out + &format!(
                    "{},{label},{variant},{},{status},{},{config},{cost},{why}\n",
                    c.id, c.seed, c.policy.digest
                )
            })
        }
    });
    Ok(ExitCode::Done)
}

/// Writes the plan file of the cells that have no result.
fn hand_out(args: &PlanArgs, file: &Path, store: &Store) -> Result<ExitCode, Error> {
    let options = super::submit::elsewhere(&args.of.spec)?;
    let plan = expand_noting(&args.of.path, &options)?;
    begin::lacking_begin(&plan, store)?;
    let page = Page::new(store, &plan);
    let lines = page.lines(&page.places(State::Missing)?);
    let count = lines.len();
    output::write(file, &Handed::new(&page, &args.of.path, &options, lines)?.text()?)?;
    ui::result(&format!("{count}\n"));
    ui::note(&format!("{count} of {} cells have no result and are in {}", plan.cells.len(), file.display()));
    Ok(ExitCode::Done)
}

struct Row<'a> {
    cell: &'a Cell,
    status: &'static str,
    cost: Line,
    /// What is not as in the nearest result.
    reason: String,
}

impl Row<'_> {
    fn object(&self) -> serde_json::Value {
        let cell = self.cell;
        let inputs: serde_json::Value = serde_json::from_str(&cell.inputs).unwrap_or_default();
        json!({
            "id": cell.id, "policy": cell.label, "variant": cell.variant_text(), "seed": cell.seed,
            "status": self.status, "reason": self.reason, "cost": self.cost.cost, "seconds": self.cost.seconds,
            "needs": self.cost.needs, "inputs": inputs,
        })
    }
}

fn status(cell: &Cell, store: &Store) -> &'static str {
    if store.has_failed(&cell.id) {
        "failed before"
    } else if store.has(&cell.id) {
        "cached"
    } else {
        "missing"
    }
}

fn for_people(plan: &Plan, rows: &[Row<'_>]) -> String {
    let mut out = format!("{}\n", plan.title);
    if let Some(cell) = plan.cells.first() {
        for line in &cell.setting.semantics {
            out.push_str(&format!("  {line}\n"));
        }
    }
    let mut fleets: Vec<String> = Vec::new();
    for cell in &plan.cells {
        let kinds = cell.fleet.types.iter().zip(0..);
        let kind = |(kind, id): (&sandtable_hardware::GpuType, u32)| {
            format!("{} {} of speed {}", cell.fleet.gpus_of(id), kind.name, kind.speed)
        };
        let line = format!("  GPUs: {}", kinds.map(kind).collect::<Vec<_>>().join(", "));
        if !fleets.contains(&line) {
            fleets.push(line);
        }
    }
    out.push_str(&(fleets.join("\n") + "\n"));
    let mut policies: Vec<String> = Vec::new();
    for cell in &plan.cells {
        let place = cell.policy.path.as_ref().map_or("in this binary".into(), |path| path.display().to_string());
        let costs = cell.fleet.costs;
        let extra = match (costs.restart_adds_work, costs.linger) {
            (None, 0) => String::new(),
            (rule, linger) => {
                let rule = rule.map_or(String::new(), |rule| {
                    let second = sandtable_hardware::SECOND;
                    format!(
                        ", preemption adds {} s ({} s above {} GPUs)",
                        rule.small / second,
                        rule.large / second,
                        rule.small_gpus
                    )
                });
                format!("{rule}, a job ends {} s late", linger as f64 / 1e6)
            }
        };
        let bound = cell.predictors.all().filter(|(_, bound)| !matches!(bound, Bound::Nobody));
        let bound: String = bound.map(|(quantity, bound)| format!(", {quantity}: {}", bound.describe())).collect();
        let line = format!("  {}: {} {} {}{bound}{extra}", cell.label, place, &cell.policy.digest[..10], cell.config);
        if !policies.contains(&line) {
            policies.push(line);
        }
    }
    out.push_str(&policies.join("\n"));
    out.push('\n');
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["cell", "policy", "variant", "seed", "status"]);
    for Row { cell, status, reason, .. } in rows {
        let status = if reason.is_empty() { (*status).to_string() } else { format!("{status}, {reason}") };
        table.add_row([cell.short(), &cell.label, &cell.variant_text(), &cell.seed.to_string(), &status]);
    }
    out.push_str(&crate::table::lines(&table));
    let missing = rows.iter().filter(|row| row.status == "missing").count();
    let seconds: Option<f64> =
        rows.iter().filter(|row| row.status == "missing").map(|row| row.cost.seconds).sum::<Option<f64>>();
    let time = seconds
        .filter(|_| missing > 0)
        .map_or(String::new(), |s| format!(", about {} on one core", crate::metric::span(s)));
    out.push_str(&format!("{} cells, {missing} to run{time}\n", rows.len()));
    out
}
