//! The rows of jobs. Those of live jobs are as they are; that of an ended job is packed, and that of a future one is not there yet:
//! a run of a million jobs keeps some tens of bytes for each.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use sandtable_hardware::{Duration, Instant, Job, JobId};
use serde::{Deserialize, Serialize};
use slab::Slab;

use super::stays::GpuRuns;
use crate::row::{JobRow, Outcome, Unfinished};

/// What a job takes alone on the fastest type that it may run on.
pub(super) type Solo = Box<dyn Fn(&Job) -> Duration + Send + Sync>;

/// Where the row of a job is: from here on in `packed`, or with [`Place::LIVE`] the key in `live`.
#[derive(Clone, Copy, PartialEq)]
struct Place(u64);

impl Place {
    const FUTURE: Place = Place(u64::MAX);
    const LIVE: u64 = 1 << 63;

    /// The key in `live`, of a live job.
    fn live(self) -> Option<usize> {
        (self != Place::FUTURE && self.0 & Place::LIVE != 0).then_some((self.0 & !Place::LIVE) as usize)
    }
}

/// One row a job.
pub(super) struct Rows {
    jobs: Arc<[Job]>,
    solo: Solo,
    places: Vec<Place>,
    live: Slab<JobRow>,
    packed: Vec<u8>,
    /// GPU-µs that packed jobs have held.
    pub(super) gpu_time_packed: i128,
}

/// The row of a job that has ended: what its job does not say. Instants are relative to the submission.
#[derive(Serialize, Deserialize)]
struct Packed {
    outcome: Outcome,
    first_start: Option<i64>,
    first_run: Option<i64>,
    began: Option<i64>,
    end: Option<i64>,
    startup: Duration,
    held: Duration,
    productive: Duration,
    lost: Duration,
    preemptions: u32,
    reassignments: u32,
    failures: u32,
    out_of_memory: u32,
    contention: u128,
    last_gpus: GpuRuns,
}

impl Packed {
    fn of(row: JobRow) -> Packed {
        let relative =
            |at: Option<Instant>| at.map(|at| (at.as_micros() as i64).wrapping_sub(row.submit.as_micros() as i64));
        Packed {
            outcome: row.outcome,
            first_start: relative(row.first_start),
            first_run: relative(row.first_run),
            began: relative(row.began),
            end: relative(row.end),
            startup: row.startup,
            held: row.held,
            productive: row.productive,
            lost: row.lost,
            preemptions: row.preemptions,
            reassignments: row.reassignments,
            failures: row.failures,
            out_of_memory: row.out_of_memory,
            contention: row.contention,
            last_gpus: GpuRuns::of(&row.last_gpus),
        }
    }

    /// The row; `fresh` is that of the job before anything happened to it.
    fn unpack(self, fresh: JobRow) -> JobRow {
        let submit = fresh.submit;
        let at =
            |relative: Option<i64>| relative.map(|by| Instant::from_micros(submit.as_micros().wrapping_add_signed(by)));
        JobRow {
            outcome: self.outcome,
            first_start: at(self.first_start),
            first_run: at(self.first_run),
            began: at(self.began),
            end: at(self.end),
            startup: self.startup,
            held: self.held,
            productive: self.productive,
            lost: self.lost,
            preemptions: self.preemptions,
            reassignments: self.reassignments,
            failures: self.failures,
            out_of_memory: self.out_of_memory,
            contention: self.contention,
            last_gpus: self.last_gpus.list(),
            ..fresh
        }
    }
}

impl Rows {
    /// Those of jobs that are still to come.
    pub(super) fn new(jobs: Arc<[Job]>) -> Rows {
        Rows {
            solo: Box::new(|job| job.work),
            places: vec![Place::FUTURE; jobs.len()],
            live: Slab::new(),
            packed: Vec::new(),
            gpu_time_packed: 0,
            jobs,
        }
    }

    /// What jobs take alone, where that is not their work.
    pub(super) fn set_solo(&mut self, solo: Solo) {
        self.solo = solo;
    }

    /// When the first job is submitted, and the last.
    pub(super) fn submissions(&self) -> (Instant, Instant) {
        let submissions = || self.jobs.iter().map(|job| job.submit);
        (submissions().min().unwrap_or_default(), submissions().max().unwrap_or_default())
    }

    /// A job is in the system: from now on it has a row that can be changed.
    pub(super) fn begin(&mut self, job: JobId) -> &mut JobRow {
        let at = self.live.insert(self.fresh(job));
        self.places[job] = Place(at as u64 | Place::LIVE);
        &mut self.live[at]
    }

    /// Nothing happens to a live job any more.
    pub(super) fn end(&mut self, job: JobId) {
        let Some(at) = self.places[job].live() else { return };
        let row = self.live.remove(at);
        self.gpu_time_packed += row.gpu_time;
        self.places[job] = Place(self.packed.len() as u64);
        let packed = postcard::to_extend(&Packed::of(row), std::mem::take(&mut self.packed));
        self.packed = packed.expect("a row has nothing that can't be packed");
    }

    /// Whether a job has been live and is not any more.
    pub(super) fn is_over(&self, job: JobId) -> bool {
        self.places[job] != Place::FUTURE && self.places[job].live().is_none()
    }

    /// The row of a job.
    pub(super) fn get(&self, job: JobId) -> JobRow {
        let place = self.places[job];
        match place.live() {
            Some(at) => self.live[at].clone(),
            None if place == Place::FUTURE => self.fresh(job),
            None => {
                let packed = postcard::from_bytes::<Packed>(&self.packed[place.0 as usize..]);
                packed.expect("what was packed").unpack(self.fresh(job))
            }
        }
    }

    /// The rows, by job.
    pub(super) fn iter(&self) -> impl Iterator<Item = JobRow> {
        JobId::first(self.places.len()).map(|job| self.get(job))
    }

    /// The jobs that are in the system and have not ended.
    pub(super) fn live(&self) -> Vec<JobId> {
        JobId::first(self.places.len()).filter(|job| self.places[*job].live().is_some()).collect()
    }

    fn fresh(&self, job: JobId) -> JobRow {
        let of = &self.jobs[job];
        JobRow {
            submit: of.submit,
            gpus: of.gpus,
            deadline: of.deadline,
            first_start: None,
            first_run: None,
            began: None,
            startup: Duration::ZERO,
            service: of.service,
            queue: of.queue,
            end: None,
            outcome: Outcome::Unfinished(Unfinished::NeverSubmitted),
            preemptions: 0,
            reassignments: 0,
            size: of.gpus,
            failures: 0,
            out_of_memory: 0,
            held: Duration::ZERO,
            productive: Duration::ZERO,
            lost: Duration::ZERO,
            last_gpus: Vec::new(),
            solo: (self.solo)(of),
            contention: 0,
            share: of.share,
            gpu_time: 0,
            had: Duration::ZERO,
            given_at: Instant::START,
            draining: false,
            pace: 1.0,
            awaited: 0,
            running_since: None,
            stopped_at: Instant::START,
        }
    }
}

/// The row of a live job.
impl Index<JobId> for Rows {
    type Output = JobRow;

    fn index(&self, job: JobId) -> &JobRow {
        &self.live[self.places[job].live().expect("a live job")]
    }
}

impl IndexMut<JobId> for Rows {
    fn index_mut(&mut self, job: JobId) -> &mut JobRow {
        &mut self.live[self.places[job].live().expect("a live job")]
    }
}

#[cfg(test)]
mod tests {
    use sandtable_hardware::{GpuId, SECOND};

    use super::*;

    #[test]
    fn rows_are_unpacked_as_they_were() {
        let second = |at: u64| Instant::at(at * SECOND);
        let jobs: Arc<[Job]> = (0..3).map(|at| Job::new("", second(at * 100), 3, 5 * SECOND)).collect();
        let mut rows = Rows::new(jobs);
        let first = JobId::new(0);
        assert!(rows.get(first) == rows.fresh(first) && rows.live().is_empty());
        for (job, outcome) in
            [(JobId::new(1), Outcome::Completed), (first, Outcome::Rejected("it is too large".into()))]
        {
            let row = rows.begin(job);
            row.outcome = outcome;
            row.first_start = Some(second(107));
            row.first_run = Some(second(110));
            row.began = Some(second(109));
            row.end = (job != first).then_some(second(250));
            (row.startup, row.held, row.productive, row.lost) = (SECOND, 140 * SECOND, 90 * SECOND, 7 * SECOND);
            (row.preemptions, row.reassignments, row.failures, row.out_of_memory) = (1, 2, 300, 4);
            row.last_gpus = GpuId::list(vec![9, 10, 11, 2, 70_000]);
            row.contention = u128::MAX - 5;
            row.gpu_time = 12;
        }
        // What only a live row says is not kept.
        let known = [rows[first].clone(), rows[JobId::new(1)].clone()].map(|row| JobRow { gpu_time: 0, ..row });
        assert_eq!(rows.live(), [first, JobId::new(1)]);
        rows.end(JobId::new(1));
        rows.end(first);
        assert_eq!(
            (rows.get(first), rows.get(JobId::new(1)), rows.gpu_time_packed),
            (known[0].clone(), known[1].clone(), 24)
        );
        rows.begin(JobId::new(2)).preemptions = 9;
        assert_eq!((rows.live(), rows.live.len()), (vec![JobId::new(2)], 1));
        assert_eq!(rows.iter().map(|row| row.preemptions).collect::<Vec<_>>(), [1, 1, 9]);
        assert_eq!(rows.get(JobId::new(2)).submit, second(200));
    }
}
