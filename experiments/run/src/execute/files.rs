//! The files of a run: what its cell's folder in the store holds.

use std::io::{ErrorKind, Write};

use sandtable_core::error::Error;
use sandtable_hardware::{Duration, Fleet, Job, JobId, NodeId};
use sandtable_plan::Cell;
use sandtable_results::schema::{
    CELL, GpuSet, JobRecord, NodesRecord, Placement, Record as _, RunRecord, Seconds, StayRecord, UseRecord, document,
    write_table,
};
use sandtable_results::store::{Content, Files, in_memory};
use sandtable_runtime::schedule::Finished;
use sandtable_runtime::{JobRow, Ledger, Segment, Summary};

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

/// The tables of a finished run. They are made as they are written: as texts they would be most of what a large run takes.
pub(super) struct Tables<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) jobs: &'a [Job],
    pub(super) fleet: &'a Fleet,
}

impl Tables<'_> {
    /// Their names.
    pub(super) fn files(&self) -> Vec<&'static str> {
        let uses = self.ledger.pools.as_ref().map(|_| UseRecord::FILE);
        [JobRecord::FILE, StayRecord::FILE].into_iter().chain(uses).collect()
    }
}

impl Content for Tables<'_> {
    fn names(&self) -> Vec<&str> {
        self.files()
    }

    fn write(&self, name: &str, to: &mut dyn Write) -> std::io::Result<()> {
        let Tables { ledger, jobs, fleet } = self;
        match (name, &ledger.pools) {
            (JobRecord::FILE, _) => write_table(records(ledger, jobs, fleet), to),
            (StayRecord::FILE, _) => write_table(ledger.segments().map(|stay| stayed(&stay, jobs)), to),
            (UseRecord::FILE, Some(pools)) => write_table(UseRecord::of(pools), to),
            _ => Err(ErrorKind::NotFound.into()),
        }
    }
}

/// The files of a finished run that are no tables.
pub(super) fn documents(cell: &Cell, finished: &Finished, summary: &Summary) -> Result<Files, Error> {
    let mut files = of_cell(cell)?;
    if let Some(agreement) = &finished.agreement {
        files.push(document(agreement)?);
    }
    files.push(document(summary)?);
    Ok(files)
}

/// The files of a finished run.
pub(crate) fn results(cell: &Cell, finished: &Finished, jobs: &[Job]) -> Result<Files, Error> {
    let mut files = documents(cell, finished, &summary(finished))?;
    files.extend(in_memory(&Tables { ledger: &finished.ledger, jobs, fleet: &cell.fleet })?);
    files.sort();
    Ok(files)
}

fn records<'a>(ledger: &'a Ledger, jobs: &'a [Job], fleet: &'a Fleet) -> impl Iterator<Item = JobRecord> + 'a {
    let all = ledger.rows().zip(JobId::first(jobs.len()).zip(jobs));
    let gpus = f64::from(ledger.total_gpus());
    all.map(move |(row, (id, job))| {
        let fair = row.fair_micros(gpus).filter(|_| row.service.is_none());
        record(row, job, fair, (ledger.cpu_node(id), fleet))
    })
}

fn record(row: JobRow, job: &Job, fair: Option<f64>, (cpu_node, fleet): (Option<NodeId>, &Fleet)) -> JobRecord {
    JobRecord {
        job_id: job.name.to_string(),
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
        fair_s: fair.map(|micros| Duration::from_micros_f64(micros).into()),
        service: row.service.map(|id| fleet.services[id].name.clone()),
        outcome: row.outcome,
        last_placement: Placement::of(&row.last_gpus, cpu_node, fleet),
    }
}

fn stayed(stay: &Segment, jobs: &[Job]) -> StayRecord {
    StayRecord {
        job_id: jobs[stay.job].name.to_string(),
        from_s: stay.from.into(),
        to_s: stay.to.into(),
        gpus: GpuSet::of(&stay.gpus),
    }
}
