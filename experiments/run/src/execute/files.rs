//! The files of a run: what its cell's folder in the store holds.

use sandtable_core::error::Error;
use sandtable_hardware::{Fleet, Job};
use sandtable_plan::Cell;
use sandtable_results::schema::{
    CELL, GpuSet, JobRecord, NodesRecord, Placement, RunRecord, Seconds, StayRecord, UseRecord, document, table,
};
use sandtable_results::store::Files;
use sandtable_runtime::schedule::Finished;
use sandtable_runtime::{JobRow, Segment, Summary};

/// Its metrics.
pub(crate) fn summary(finished: &Finished) -> Summary {
    Summary::of(&finished.ledger).with_scores(finished.scores.clone())
}

/// The files that every cell has: its inputs, and what a reader of the others needs to know of them.
pub(super) fn of_cell(cell: &Cell) -> Result<Files, Error> {
    let run = RunRecord {
        policy: cell.policy.digest.clone(),
        seed: cell.seed,
        measured: cell.setting.measured,
        nodes: NodesRecord::of(&cell.fleet),
    };
    Ok(vec![(CELL.into(), cell.inputs().into_bytes()), document(&run)?])
}

/// The files of a finished run.
pub fn results(cell: &Cell, finished: &Finished, jobs: &[Job]) -> Result<Files, Error> {
    let mut files = of_cell(cell)?;
    if let Some(agreement) = &finished.agreement {
        files.push(document(agreement)?);
    }
    let ledger = &finished.ledger;
    files.push(table(ledger.rows.iter().zip(jobs).map(|(row, job)| record(row, job, &cell.fleet)))?);
    files.push(document(&summary(finished))?);
    files.push(table(ledger.segments.iter().map(|stay| stayed(stay, jobs)))?);
    if let Some(pools) = &ledger.pools {
        files.push(table(UseRecord::of(pools))?);
    }
    files.sort();
    Ok(files)
}

fn record(row: &JobRow, job: &Job, fleet: &Fleet) -> JobRecord {
    JobRecord {
        job_id: job.name.clone(),
        submit_s: row.submit.into(),
        gpus: row.gpus,
        first_start_s: row.first_start.map(Seconds::from),
        end_s: row.end.map(Seconds::from),
        held_s: row.held.into(),
        productive_s: row.productive.into(),
        lost_s: row.lost.into(),
        preemptions: row.preemptions,
        failures: row.failures,
        out_of_memory: row.out_of_memory,
        reassignments: row.reassignments,
        first_run_s: row.first_run.map(Seconds::from),
        service: row.service.map(|id| fleet.services[id].name.clone()),
        outcome: row.outcome.clone(),
        last_placement: Placement::of(&row.last_gpus, fleet),
    }
}

fn stayed(stay: &Segment, jobs: &[Job]) -> StayRecord {
    StayRecord {
        job_id: jobs[stay.job].name.clone(),
        from_s: stay.from.into(),
        to_s: stay.to.into(),
        gpus: GpuSet::of(&stay.gpus),
    }
}
