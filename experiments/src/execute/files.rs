//! The files of a run: what its cell's folder in the store holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sandtable_hardware::{Fleet, GpuId, Job};
use sandtable_runtime::schedule::Finished;
use sandtable_runtime::{JobOutcome, Ledger, Pools, Summary, Use};

use crate::error::Error;
use crate::plan::Cell;
use crate::store::Files;
use crate::trace::{csv_cell, seconds};

/// Its metrics.
pub(super) fn summary(finished: &Finished) -> Summary {
    Summary { predictors: finished.scores.clone(), ..Summary::of(&finished.ledger) }
}

/// The files of a finished run.
pub(crate) fn results(cell: &Cell, finished: &Finished, jobs: &[Job]) -> Result<Files, Error> {
    let mut files = vec![("cell.json".into(), cell.inputs().into_bytes())];
    if let Some(agreement) = &finished.agreement {
        files.push(("agreement.json".into(), pretty(agreement)?));
    }
    files.extend([
        ("jobs.csv".into(), jobs_csv(&finished.ledger, jobs, &cell.fleet).into_bytes()),
        ("summary.json".into(), pretty(&summary(finished))?),
        ("timeline.csv".into(), timeline_csv(&finished.ledger, jobs).into_bytes()),
    ]);
    if let Some(pools) = &finished.ledger.pools {
        files.push(("uses.csv".into(), uses_csv(pools).into_bytes()));
    }
    files.sort();
    Ok(files)
}

/// GPUs by use, from each instant on at which a number changes.
fn uses_csv(pools: &Pools) -> String {
    let names = Use::ALL.map(Use::name).join(",");
    let mut out = format!("from_s,{names}\n");
    for (at, counts) in &pools.timeline {
        let _ = writeln!(out, "{},{}", seconds(*at), counts.map(|count| count.to_string()).join(","));
    }
    out
}

/// A stored JSON file: the schema first.
pub(super) fn pretty(value: &impl serde::Serialize) -> Result<Vec<u8>, Error> {
    #[derive(serde::Serialize)]
    struct Stored<'a, T> {
        schema: u32,
        #[serde(flatten)]
        body: &'a T,
    }
    let stored = Stored { schema: crate::producer::SCHEMA, body: value };
    let mut text = serde_json::to_vec_pretty(&stored).map_err(|error| Error::internal(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}

fn jobs_csv(ledger: &Ledger, jobs: &[Job], fleet: &Fleet) -> String {
    let mut out = String::from(
        "job_id,submit_s,gpus,first_start_s,end_s,held_s,productive_s,lost_s,preemptions,failures,out_of_memory,reassignments,first_run_s,service,outcome,last_placement\n",
    );
    for (row, job) in ledger.rows.iter().zip(jobs) {
        let at = |time: Option<u64>| time.map(seconds).unwrap_or_default();
        let outcome = match &row.outcome {
            JobOutcome::Completed => "completed".to_string(),
            JobOutcome::Rejected(why) => csv_cell(&format!("rejected: {why}")),
            JobOutcome::Failed(why) => csv_cell(&format!("failed: {why}")),
            JobOutcome::Unfinished(why) => csv_cell(&format!("unfinished: {why}")),
        };
        let name = csv_cell(&job.name);
        let service = row.service.map_or_else(String::new, |id| csv_cell(&fleet.services[id as usize].name));
        let _ = writeln!(
            out,
            "{name},{},{},{},{},{},{},{},{},{},{},{},{},{service},{outcome},{}",
            seconds(row.submit),
            row.gpus,
            at(row.first_start),
            at(row.end),
            seconds(row.held),
            seconds(row.productive),
            seconds(row.lost),
            row.preemptions,
            row.failures,
            row.out_of_memory,
            row.reassignments,
            at(row.first_run),
            placement(&row.last_gpus, fleet),
        );
    }
    out
}

/// `node:gpus;node:gpus`.
fn placement(gpus: &[GpuId], fleet: &Fleet) -> String {
    let mut nodes: BTreeMap<u32, u32> = BTreeMap::new();
    for gpu in gpus {
        *nodes.entry(fleet.node_of(*gpu)).or_default() += 1;
    }
    let parts: Vec<String> = nodes.iter().map(|(node, count)| format!("{node}:{count}")).collect();
    parts.join(";")
}

fn timeline_csv(ledger: &Ledger, jobs: &[Job]) -> String {
    let mut out = String::from("job_id,from_s,to_s,gpus\n");
    for stay in &ledger.segments {
        let name = csv_cell(&jobs[stay.job as usize].name);
        let _ = writeln!(out, "{name},{},{},{}", seconds(stay.from), seconds(stay.to), ranges(&stay.gpus));
    }
    out
}

/// `0-3 8`.
pub(crate) fn ranges(gpus: &[GpuId]) -> String {
    let mut sorted = gpus.to_vec();
    sorted.sort_unstable();
    let mut out = String::new();
    let mut at = 0;
    while at < sorted.len() {
        let mut end = at;
        while end + 1 < sorted.len() && sorted[end + 1] == sorted[end] + 1 {
            end += 1;
        }
        let space = if out.is_empty() { "" } else { " " };
        let _ = match end == at {
            true => write!(out, "{space}{}", sorted[at]),
            false => write!(out, "{space}{}-{}", sorted[at], sorted[end]),
        };
        at = end + 1;
    }
    out
}
