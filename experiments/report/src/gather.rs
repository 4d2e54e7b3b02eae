//! Collects everything that a report shows, as data; templates decide nothing.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_core::error::Error;
use sandtable_core::frame::Frame;
use sandtable_plan::{Cell, Plan, PredictorBinding};
use sandtable_results::claim::{self, ClaimRow};
use sandtable_results::status;
use sandtable_results::status::CellStatus;
use sandtable_results::store::Store;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::data::{Drawn, data, in_words, size};
use super::figures::{of_page, points, timelines};
use super::lanes::Timeline;
use crate::table;

/// All of a report.
#[derive(Serialize)]
pub struct Gathered {
    /// What the spec asks.
    pub title: String,
    /// What a reader must know before the numbers.
    pub notes: Vec<String>,
    /// What papers say, beside what was measured.
    pub claims: Vec<ClaimRow>,
    /// What a reader must know of claims.
    pub claim_notes: Vec<String>,
    /// Whether a claim has a reference.
    pub referenced: bool,
    /// The metrics of every policy and variant.
    pub metrics: Metrics,
    /// How many points of the sweep have figures.
    pub points: usize,
    /// Figures with their captions.
    pub figures: Vec<Drawn>,
    /// GPUs over time, by policy.
    pub timelines: Vec<Timeline>,
    /// What the page's script draws: columns of figures, metrics and timelines.
    pub data: Value,
    /// How queues fared, if there are any.
    pub queues: Metrics,
    /// How good predictors were: by, quantity, answers a run, MAE, bias.
    #[serde(serialize_with = "texts")]
    pub predictors: Frame,
    /// Where all of it comes from.
    pub provenance: Provenance,
}

/// A table of metrics, and what a reader must know before believing it.
pub struct Metrics {
    /// A row a policy and variant, or a queue of one.
    pub table: Frame,
    /// In the order of the table's marks.
    pub notes: Vec<String>,
}

/// As a template reads it: `head`, the number of columns of `words` at the left, `rows` of cells with their `text` and the number
/// by which they `sort`, `notes`.
impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cell = |(text, sort): (String, Option<f64>)| json!({"text": text, "sort": sort.filter(|x| x.is_finite())});
        let rows: Vec<Vec<Value>> = self.table.texts().map(|row| row.into_iter().map(cell).collect()).collect();
        let mut out = serializer.serialize_struct("Metrics", 4)?;
        out.serialize_field("head", &self.table.heads())?;
        out.serialize_field("words", &self.table.names())?;
        out.serialize_field("rows", &rows)?;
        out.serialize_field("notes", &self.notes)?;
        out.end()
    }
}

/// The texts of a table, a list a row.
fn texts<S: Serializer>(table: &Frame, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(table.texts().map(|row| row.into_iter().map(|(text, _)| text).collect::<Vec<String>>()))
}

/// Every hash, version and command.
#[derive(Serialize)]
pub struct Provenance {
    /// Name and value.
    pub facts: Vec<(String, String)>,
    /// Policy, component's blake3, where it was found, configuration.
    pub components: Vec<[String; 4]>,
    /// Id, policy, variant, seed of every cell.
    pub cells: Vec<[String; 4]>,
}

/// Reads the results of a plan. `command` is how the page was asked for, `when` the date that it shows.
///
/// # Errors
/// A file of the store that can't be read.
pub fn gather(plan: &Plan, store: &Store, spec: &Path, command: &str, when: &str) -> Result<Gathered, Error> {
    let known = status::known(plan, store)?;
    let count = |is: fn(&CellStatus) -> bool| known.iter().filter(|one| is(one)).count();
    let (failed, missing) =
        (count(|one| matches!(one, CellStatus::Failed(_))), count(|one| matches!(one, CellStatus::Missing)));
    let mut notes = Vec::new();
    let seeds: std::collections::BTreeSet<u64> = plan.cells.iter().map(|cell| cell.seed).collect();
    if seeds.len() == 1 {
        notes.push("A single run: one seed has no interval, and another may give another picture.".to_string());
    }
    if failed > 0 {
        notes.push(format!("{failed} cells failed: `sandtable run` says how."));
    }
    if missing > 0 {
        notes.push(format!("{missing} cells have not been run."));
    }
    notes.extend(left_out(plan, &known));
    if let Some(oracles) = oracles(plan) {
        notes.push(format!("Told the truth, which no real scheduler is: {oracles}."));
    }
    let page = of_page(plan, store, size)?;
    let left = points(plan, store).len() - page.points;
    if left > 0 {
        notes.push(format!(
            "Figures of jobs are of the first {} points of the sweep, not of {left} more: `--at PATH=VALUE` chooses.",
            page.points
        ));
    }
    let claims: Vec<ClaimRow> = claim::measure(plan, &known).iter().map(claim::in_words).collect();
    let (timelines, named) = timelines(plan, store)?;
    Ok(Gathered {
        title: plan.title.clone(),
        notes,
        claim_notes: claim::notes(&claims),
        referenced: claims.iter().any(|claim| claim.reference != "-"),
        claims,
        metrics: Metrics { table: table::metrics(plan, &known), notes: table::notes(plan, &known) },
        points: page.points,
        data: data(plan, store, &known, &page.figures, &timelines, named),
        figures: in_words(&page.figures),
        timelines,
        queues: Metrics { table: table::queues(plan, &known), notes: Vec::new() },
        predictors: table::predictors(plan, &known),
        provenance: provenance(plan, store, spec, command, when)?,
    })
}

/// Jobs without a completion time, by policy: every mean is over the others.
fn left_out(plan: &Plan, known: &[CellStatus]) -> Vec<String> {
    let mut all: BTreeMap<&str, [u64; 5]> = BTreeMap::new();
    for (cell, known) in plan.cells.iter().zip(known) {
        if let CellStatus::Done(summary) = known {
            let counts = all.entry(&cell.label).or_default();
            let own = [summary.unfinished, summary.refused, summary.rejected, summary.crashed, summary.jobs];
            counts.iter_mut().zip(own).for_each(|(count, own)| *count += own as u64);
        }
    }
    let words = |(label, [unfinished, refused, rejected, crashed, jobs]): (&str, [u64; 5])| {
        let parts = [
            (unfinished, "never ended"),
            (refused, "were refused by the policy"),
            (rejected, "could never run on this fleet"),
            (crashed, "failed"),
        ];
        let said: Vec<String> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        (!said.is_empty())
            .then(|| format!("{label}: of {jobs} jobs {}; its means are over the others.", said.join(", ")))
    };
    all.into_iter().filter_map(words).collect()
}

/// Quantities that the host answers truthfully, if there are any.
fn oracles(plan: &Plan) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for cell in &plan.cells {
        for (quantity, bound) in cell.predictors.all() {
            if matches!(bound, PredictorBinding::Oracle) && !all.iter().any(|known| known == quantity.name()) {
                all.push(quantity.to_string());
            }
        }
    }
    (!all.is_empty()).then(|| all.join(", "))
}

/// Where a policy's component is, and its weights.
fn place(cell: &Cell) -> String {
    let place = cell.policy.path.as_ref().map_or("in the binary".to_string(), |path| path.display().to_string());
    match cell.weights.bytes.is_empty() {
        true => place,
        false => format!("{place}, weights {}", sandtable_core::digest::digest(&cell.weights.bytes)),
    }
}

fn provenance(plan: &Plan, store: &Store, spec: &Path, command: &str, when: &str) -> Result<Provenance, Error> {
    let text = sandtable_plan::spec_text(spec)?;
    let mut facts = vec![
        ("command".to_string(), command.to_string()),
        ("contract".into(), sandtable_runtime::CONTRACT.into()),
        ("spec".into(), format!("{} (blake3 {})", spec.display(), sandtable_core::digest::digest(text.as_bytes()))),
    ];
    // The build that computed the results, which need not be the one that prints them.
    let mut producers: BTreeMap<String, usize> = BTreeMap::new();
    for cell in plan.cells.iter().filter(|cell| store.has(&cell.id)) {
        let words = store.producer(&cell.id)?.map_or("an unknown build".to_string(), |by| by.in_words());
        *producers.entry(words).or_default() += 1;
    }
    let whose = |(words, count): (String, usize)| ("computed by".to_string(), format!("{words}: {count} cells"));
    facts.extend(producers.into_iter().map(whose));
    if let Some(cell) = plan.cells.first() {
        facts.push(("rules".into(), cell.setting.semantics.join("; ")));
        let inputs: Value = serde_json::from_str(&cell.inputs()).unwrap_or_default();
        for (name, path) in [("profile", "/laws/profile"), ("trace", "/workload/trace/blake3")] {
            if let Some(digest) = inputs.pointer(path).and_then(Value::as_str) {
                facts.push((name.into(), digest.to_string()));
            }
        }
        let mut seen: Vec<String> = Vec::new();
        for trace in plan.cells.iter().filter_map(|cell| cell.setting.workload.of_trace()) {
            let mut line = trace.account.line();
            if let Some((file, account)) = trace.imported.as_deref() {
                line.push_str(&format!("; imported from {}: {}", file.display(), account.line()));
            }
            if !seen.contains(&line) {
                facts.push(("trace rows".into(), line.clone()));
                seen.push(line);
            }
        }
        facts.push(("machines".into(), cell.backend.about().into()));
    }
    if !when.is_empty() {
        facts.push(("written".into(), when.to_string()));
    }
    let mut components: BTreeMap<String, [String; 4]> = BTreeMap::new();
    for cell in &plan.cells {
        let row = [cell.label.clone(), cell.policy.digest.clone(), place(cell), cell.config.clone()];
        components.entry(cell.label.clone()).or_insert(row);
        for (quantity, bound) in cell.predictors.all() {
            if let PredictorBinding::Component(bundle) = bound {
                let weights = match bundle.weights.bytes.is_empty() {
                    true => "no weights".to_string(),
                    false => format!("weights {}", sandtable_core::digest::digest(&bundle.weights.bytes)),
                };
                let row = [
                    format!("{} for {quantity}", bundle.name),
                    bundle.file.digest.clone(),
                    weights,
                    bundle.config.clone(),
                ];
                components.entry(format!("~{} {quantity}", bundle.name)).or_insert(row);
            }
        }
    }
    let cell_row = |cell: &Cell| [cell.id.clone(), cell.label.clone(), cell.variant_text(), cell.seed.to_string()];
    Ok(Provenance {
        facts,
        components: components.into_values().collect(),
        cells: plan.cells.iter().map(cell_row).collect(),
    })
}
