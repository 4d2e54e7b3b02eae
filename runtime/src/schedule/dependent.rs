//! Jobs that wait for others before they are submitted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sandtable_hardware::{Instant, Job, JobId};

use crate::inputs::{After, Happens};

/// What jobs wait for, and what of it has happened.
#[derive(Default)]
pub(super) struct Dependents {
    after: Arc<BTreeMap<JobId, After>>,
    /// Who waits for a job.
    of: BTreeMap<JobId, Vec<JobId>>,
    /// When each condition of a job was met, for those that wait.
    met: BTreeMap<JobId, Vec<Option<Instant>>>,
    /// When jobs can be submitted whose conditions are met.
    ready: BTreeSet<(Instant, JobId)>,
}

impl Dependents {
    pub(super) fn new(after: Arc<BTreeMap<JobId, After>>) -> Dependents {
        let mut of: BTreeMap<JobId, Vec<JobId>> = BTreeMap::new();
        for (job, waits) in after.iter() {
            waits.all.iter().for_each(|condition| of.entry(condition.job).or_default().push(*job));
        }
        let met = after.iter().map(|(job, waits)| (*job, vec![None; waits.all.len()])).collect();
        Dependents { after, of, met, ready: BTreeSet::new() }
    }

    /// Whether a job is not to be submitted yet.
    pub(super) fn holds(&self, job: JobId) -> bool {
        self.after.contains_key(&job)
    }

    /// A job began or ended: what waited for that may be submitted, at once or later.
    pub(super) fn happened(&mut self, job: JobId, what: Happens, at: Instant, jobs: &[Job]) {
        for waiting in self.of.get(&job).into_iter().flatten() {
            let (Some(after), Some(met)) = (self.after.get(waiting), self.met.get_mut(waiting)) else { continue };
            for (condition, met) in after.all.iter().zip(met.iter_mut()) {
                if condition.job == job && condition.what == what && met.is_none() {
                    *met = Some(at + condition.plus);
                }
            }
            let known = met.iter().flatten();
            let ready = match after.any {
                true => known.min().copied(),
                false => known.max().copied().filter(|_| met.iter().all(Option::is_some)),
            };
            if let Some(ready) = ready {
                self.met.remove(waiting);
                self.ready.insert((ready.max(jobs[*waiting].submit), *waiting));
            }
        }
    }

    /// When the next of them is submitted.
    pub(super) fn next(&self) -> Option<Instant> {
        self.ready.first().map(|(at, _)| *at)
    }

    /// Takes the next of them that is submitted by then.
    pub(super) fn due(&mut self, now: Instant) -> Option<JobId> {
        self.ready.first().filter(|(at, _)| *at <= now)?;
        self.ready.pop_first().map(|(_, job)| job)
    }
}
