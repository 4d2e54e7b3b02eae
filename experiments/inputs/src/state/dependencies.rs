//! Jobs that wait for others.

use std::collections::BTreeMap;

use sandtable_hardware::Duration;

use super::document::State;
use super::jobs::{After, AfterWhen, JobState, StateJob};

/// A job that waits for others.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependent {
    /// Its name.
    pub job: String,
    /// What it waits for.
    pub all: Vec<Until>,
    /// One of them will do.
    pub any: bool,
}

/// What is to happen to another job.
#[derive(Clone, Debug, PartialEq)]
pub struct Until {
    /// Its name.
    pub job: String,
    /// That it starts; else that it ends.
    pub starts: bool,
    /// And so long after.
    pub plus: Duration,
}

/// The jobs that others may wait for.
pub(super) struct Others<'s> {
    by_id: BTreeMap<&'s str, &'s StateJob>,
    by_array: BTreeMap<&'s str, Vec<&'s StateJob>>,
    /// By user and name, in order.
    by_name: BTreeMap<(Option<&'s str>, &'s str), Vec<&'s StateJob>>,
}

impl<'s> Others<'s> {
    pub(super) fn of(state: &'s State) -> Others<'s> {
        let mut all = Others { by_id: BTreeMap::new(), by_array: BTreeMap::new(), by_name: BTreeMap::new() };
        for job in state.jobs.iter().filter(|job| job.state != JobState::Ended) {
            all.by_id.insert(&job.id, job);
            if let Some(name) = &job.name {
                all.by_name.entry((job.user.as_deref(), name)).or_default().push(job);
            }
            if let Some(array) = &job.array {
                all.by_array.entry(&array.id).or_default().push(job);
            }
        }
        all
    }

    /// What a job waits for; none: for something that is not in the model. Nothing: for jobs of its name that are all over. Of several that will do each, those that are not count for nothing.
    pub(super) fn waits(&self, job: &StateJob, modelled: &dyn Fn(&str) -> bool) -> Option<Dependent> {
        let mut all = Vec::new();
        let any = job.after.iter().any(|after| after.any == Some(true));
        for after in &job.after {
            let of = self.meant(job, after);
            // One of several tasks of an array is no task of it.
            let unclear = of.is_empty() || (any && of.len() > 1) || after.when == AfterWhen::Failed;
            if unclear || !of.iter().all(|of| modelled(of)) {
                if any {
                    continue;
                }
                return None;
            }
            let starts = after.when == AfterWhen::Started;
            let plus = Duration::from_micros_f64((after.plus_s.unwrap_or(0.0).max(0.0) * 1e6).min(9e15));
            all.extend(of.into_iter().map(|job| Until { job: job.to_string(), starts, plus }));
        }
        let single = job.single == Some(true);
        for other in if single { self.before(job) } else { Vec::new() } {
            if any || !modelled(&other.id) {
                return None;
            }
            all.push(Until { job: other.id.clone(), starts: false, plus: Duration::ZERO });
        }
        (single || !all.is_empty()).then(|| Dependent { job: job.id.clone(), all, any })
    }

    /// Jobs of the same user and name that run, or were submitted before.
    fn before(&self, job: &StateJob) -> Vec<&'s StateJob> {
        let known = job.name.as_deref().and_then(|name| self.by_name.get(&(job.user.as_deref(), name)));
        let all = known.map_or(&[][..], Vec::as_slice);
        let at = all.iter().position(|other| other.id == job.id).unwrap_or(all.len());
        let runs = |other: &StateJob| matches!(other.state, JobState::Running | JobState::Suspended | JobState::Ending);
        all.iter().enumerate().filter(|(other_at, other)| *other_at < at || runs(other)).map(|(_, of)| *of).collect()
    }

    /// The jobs that are meant: one, or the tasks of an array that have not ended.
    fn meant(&self, job: &StateJob, after: &After) -> Vec<&'s str> {
        if let Some(one) = self.by_id.get(after.job.as_str()) {
            return vec![&one.id];
        }
        let index = job.array.as_ref().map(|array| array.index);
        let is_meant = |other: &&&StateJob| {
            let of = other.array.as_ref().map(|array| array.index);
            after.when != AfterWhen::SameIndex || of == index
        };
        let tasks = self.by_array.get(after.job.as_str()).into_iter().flatten();
        tasks.filter(is_meant).map(|other| other.id.as_str()).collect()
    }
}
