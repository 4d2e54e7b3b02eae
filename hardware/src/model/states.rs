//! The states of jobs, of which only those of live jobs take memory: ids are given by submission, so a page of them comes and goes
//! together.

use std::cell::OnceCell;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::{JobState, Phase, Work};
use crate::{Duration, Instant, Job, JobId};

/// Jobs of a page: few, since one long job keeps all of its page.
const PAGE: usize = 64;

struct Page {
    /// Made when the first of its jobs is asked for.
    states: OnceCell<Box<[JobState]>>,
    /// Jobs that have not ended.
    left: usize,
    /// Whether it stays when all have.
    stays: bool,
}

/// The state of each job.
pub(super) struct States {
    jobs: Arc<[Job]>,
    pages: Vec<Page>,
    /// That of a job whose page is gone.
    ended: JobState,
}

impl States {
    /// Those of jobs that wait.
    pub(super) fn new(jobs: Arc<[Job]>) -> States {
        let page = |jobs: &[Job]| Page { states: OnceCell::new(), left: jobs.len(), stays: false };
        // No event is of this generation.
        let ended = JobState { phase: Phase::Ended, generation: u32::MAX, ..JobState::waiting(0.0) };
        States { pages: jobs.chunks(PAGE).map(page).collect(), jobs, ended }
    }

    /// Keeps the state of a job after its end.
    pub(super) fn keep(&mut self, id: JobId) {
        self.pages[id.index() / PAGE].stays = true;
    }

    /// A job is over.
    pub(super) fn end(&mut self, id: JobId) {
        self[id].phase = Phase::Ended;
        let page = &mut self.pages[id.index() / PAGE];
        page.left -= 1;
        if page.left == 0 && !page.stays {
            page.states = OnceCell::new();
        }
    }

    /// The states in memory, by job: those of all jobs that hold GPUs.
    pub(super) fn live(&self) -> impl Iterator<Item = (JobId, &JobState)> {
        let pages = self.pages.iter().enumerate().filter_map(|(page, of)| Some((page, of.states.get()?)));
        pages.flat_map(|(page, states)| (page * PAGE..).map(JobId::at).zip(states))
    }

    fn waiting(&self, page: usize) -> Box<[JobState]> {
        let jobs = self.jobs[page * PAGE..].iter().take(PAGE);
        jobs.map(|job| JobState::waiting(job.work.as_micros_f64())).collect()
    }
}

impl Index<JobId> for States {
    type Output = JobState;

    fn index(&self, id: JobId) -> &JobState {
        let page = &self.pages[id.index() / PAGE];
        match page.states.get() {
            Some(states) => &states[id.index() % PAGE],
            None if page.left == 0 => &self.ended,
            None => &page.states.get_or_init(|| self.waiting(id.index() / PAGE))[id.index() % PAGE],
        }
    }
}

impl IndexMut<JobId> for States {
    fn index_mut(&mut self, id: JobId) -> &mut JobState {
        let _ = &self[id];
        match self.pages[id.index() / PAGE].states.get_mut() {
            Some(states) => &mut states[id.index() % PAGE],
            None => unreachable!("job {id} has ended"),
        }
    }
}

impl JobState {
    /// Of a job with so much work that was never started.
    fn waiting(work: f64) -> JobState {
        JobState {
            phase: Phase::Waiting,
            work: Work::Rigid,
            left: work,
            saved: work,
            unsaved: Duration::ZERO,
            started_before: false,
            progress_from: Instant::START,
            most: f64::INFINITY,
            redeploys: Duration::ZERO,
            gpus: Vec::new(),
            node: None,
            speed: 1.0,
            rate: 1.0,
            throttle: 1.0,
            died: false,
            generation: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECOND;

    #[test]
    fn a_page_is_there_from_the_first_question_to_the_last_end() {
        let jobs: Arc<[Job]> = (0..PAGE + 5).map(|_| Job::new("", Instant::START, 1, SECOND)).collect();
        let mut states = States::new(jobs);
        assert_eq!(states.live().count(), 0);
        let last = JobId::at(PAGE + 4);
        states[last].started_before = true;
        assert_eq!((states[last].left, states.live().count()), (1e6, 5));
        assert_eq!(states.live().next().map(|(id, _)| id), Some(JobId::at(PAGE)));
        // One that ends before anything is asked of it, as one that fits on no fleet.
        states.end(JobId::at(0));
        assert!(states[JobId::at(0)].phase == Phase::Ended && states[JobId::at(1)].phase == Phase::Waiting);
        JobId::first(PAGE).skip(1).for_each(|id| states.end(id));
        (PAGE..PAGE + 5).for_each(|id| states.end(JobId::at(id)));
        assert_eq!(states.live().count(), 0);
        assert!([JobId::at(0), last].iter().all(|id| states[*id].phase == Phase::Ended));
        assert_eq!(states[last].generation, u32::MAX);
    }
}
