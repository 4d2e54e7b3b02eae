//! `sandtable plan`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_core::output;
use sandtable_core::text;
use sandtable_hardware::{Duration, TypeId};
use sandtable_plan::{Cell, Expansion, PredictorBinding};
use sandtable_results::claim;
use sandtable_results::explain::{Kept, components, reason};
use sandtable_results::store::Store;
use sandtable_results::sweep::State;
use serde_json::json;

use super::begin::Warned;
use super::{SpecInStore, begin, expand_noting, note_uncut, note_workloads};
use crate::commands::Format;
use crate::engine::plan_file::{Needs, PlanFile, cost};
use crate::engine::{Submitted, Times};
use crate::ui;

/// Show the cells of a spec and why each would run.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    of: SpecInStore,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write the cells without a result to a plan file for `run --plan FILE --shard I/N`, and print their number.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Cells that are shown at once: of a large sweep not all are kept.
const SHOWN: usize = 10_000;

pub(crate) fn run(args: &PlanArgs) -> Result<ExitCode, Error> {
    let store = args.of.store.open(Some(&args.of.path))?;
    if let Some(file) = &args.output {
        return hand_out(args, file, &store);
    }
    let options = args.of.spec.options()?;
    let mut expansion = Expansion::open(&args.of.path, &options)?;
    note_uncut(&args.of.path, &options, expansion.source())?;
    let times = Times::of(&store);
    let mut shown = Shown { format: args.format, said: BTreeSet::new(), cells: 0, missing: 0, seconds: Some(0.0) };
    let (mut noted, mut warned, mut others) = (Vec::new(), Warned::default(), BTreeSet::new());
    let mut kept = Kept::of(&store)?;
    while !expansion.is_done() {
        let plan = expansion.part(SHOWN)?;
        if expansion.is_done() {
            // Claims are the spec's mistakes or not before the last cell is shown.
            claim::check(expansion.source(), &expansion.claims()?)?;
        }
        note_workloads(&plan, &mut noted);
        begin::lacking_begin(&plan, &store, &mut warned)?;
        others.extend(components(&plan));
        let mut row = |cell| {
            let status = status(cell, &store);
            let near = if status == "missing" { kept.nearest(cell, &others) } else { None };
            let why = near.map_or(String::new(), |(_, differences)| reason(&differences));
            let (jobs, seconds) = cost(cell, &times);
            PlannedCell { cell, status, jobs, seconds, reason: why }
        };
        // A variant alone may have a million seeds.
        for cells in plan.cells.chunks(SHOWN) {
            shown.show(&plan.title, &cells.iter().map(&mut row).collect::<Vec<_>>());
        }
    }
    shown.end();
    Ok(ExitCode::Done)
}

/// Writes the plan file of the cells that have no result.
fn hand_out(args: &PlanArgs, file: &Path, store: &Store) -> Result<ExitCode, Error> {
    let options = super::submit::elsewhere(&args.of.spec)?;
    let plan = expand_noting(&args.of.path, &options)?;
    begin::lacking_begin(&plan, store, &mut Warned::default())?;
    let page = Submitted::new(store, &plan);
    let lines = page.lines(&page.places(State::Missing)?);
    let count = lines.len();
    output::write(file, &PlanFile::new(&page, &args.of.path, &options, lines)?.text()?)?;
    ui::result(&format!("{count}\n"));
    ui::note(&format!("{count} of {} cells have no result and are in {}", plan.cells.len(), file.display()));
    Ok(ExitCode::Done)
}

struct PlannedCell<'a> {
    cell: &'a Cell,
    status: &'static str,
    jobs: u64,
    /// How long it takes, where that is known.
    seconds: Option<f64>,
    /// What is not as in the nearest result.
    reason: String,
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

/// What was shown so far.
struct Shown {
    format: Format,
    /// Lines that are printed once.
    said: BTreeSet<String>,
    cells: usize,
    missing: usize,
    /// Of the missing, on one core; none where it is not known of all.
    seconds: Option<f64>,
}

impl Shown {
    fn show(&mut self, title: &str, rows: &[PlannedCell<'_>]) {
        let first = self.cells == 0;
        self.cells += rows.len();
        ui::result(&match self.format {
            Format::Table if first => self.heading(title, rows, first) + &table(rows).text(),
            Format::Table => self.heading(title, rows, first) + &table(rows).text_rows(),
            Format::Csv if !first => table(rows).csv_rows(),
            format => format.of(&table(rows)),
        });
        for row in rows.iter().filter(|row| row.status == "missing") {
            self.missing += 1;
            self.seconds = self.seconds.zip(row.seconds).map(|(all, more)| all + more);
        }
    }

    /// The semantics, machines and policies, each once.
    fn heading(&mut self, title: &str, rows: &[PlannedCell<'_>], first: bool) -> String {
        let mut out = String::new();
        if let Some(row) = rows.first().filter(|_| first) {
            out = format!("{title}\n");
            row.cell.setting.semantics.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
        }
        let cells = || rows.iter().map(|row| row.cell);
        for line in cells().map(machines).chain(cells().map(policy)) {
            if !self.said.contains(&line) {
                out.push_str(&format!("{line}\n"));
                self.said.insert(line);
            }
        }
        out
    }

    fn end(&self) {
        if self.format == Format::Table {
            let known = self.seconds.filter(|_| self.missing > 0);
            let time =
                known.map_or(String::new(), |s| format!(", about {} on one core", sandtable_core::display::span(s)));
            ui::result(&format!("{} cells, {} to run{time}\n", self.cells, self.missing));
        }
    }
}

fn machines(cell: &Cell) -> String {
    let kind = |id: TypeId| {
        let kind = &cell.fleet.types[id];
        format!("{} {} of speed {}", cell.fleet.gpus_of(id), text::line(&kind.name), kind.speed)
    };
    format!("  GPUs: {}", TypeId::first(cell.fleet.types.len()).map(kind).collect::<Vec<_>>().join(", "))
}

fn policy(cell: &Cell) -> String {
    let place = cell.policy.path.as_ref().map_or("in this binary".into(), |path| path.display().to_string());
    let costs = cell.fleet.costs;
    let extra = match (costs.restart_adds_work, costs.linger) {
        (None, Duration::ZERO) => String::new(),
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
            format!("{rule}, a job ends {} s late", linger.as_secs_f64())
        }
    };
    let bound = cell.predictors.all().filter(|(_, bound)| !matches!(bound, PredictorBinding::Unbound));
    let bound: String = bound.map(|(quantity, bound)| format!(", {quantity}: {}", bound.describe())).collect();
    format!("  {}: {} {} {}{bound}{extra}", cell.label, place, &cell.policy.digest[..10], cell.config)
}

/// The rows as a table.
fn table(rows: &[PlannedCell<'_>]) -> Frame {
    let mut frame = Frame::new([
        Column::words("id").head("cell"),
        Column::words("policy"),
        Column::words("variant"),
        Column::count("seed"),
        Column::words("status"),
        Column::words("component").in_text(false).in_json(false),
        Column::words("config").in_text(false).in_json(false),
        Column::count("cost").in_text(false),
        Column::number("seconds").in_text(false),
        Column::count("gpus").in_text(false).in_json(false),
        Column::words("reason").in_text(false),
        Column::words("needs").only_in_json(),
        Column::words("inputs").only_in_json(),
    ]);
    for PlannedCell { cell, status, jobs, seconds, reason } in rows {
        let said = if reason.is_empty() { (*status).to_string() } else { format!("{status}, {reason}") };
        frame.push([
            Value::from(&cell.id).shown(cell.short()),
            (&cell.label).into(),
            cell.variant_text().into(),
            cell.seed.into(),
            Value::from(*status).shown(said),
            (&cell.policy.digest).into(),
            (&cell.config).into(),
            (*jobs).into(),
            (*seconds).into(),
            cell.backend.gpus_needed().into(),
            reason.into(),
            json!(Needs { gpus: cell.backend.gpus_needed() }).into(),
            serde_json::from_str::<serde_json::Value>(&cell.inputs()).unwrap_or_default().into(),
        ]);
    }
    frame
}
