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
    /// By user and name, by their numbers.
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
        all.by_name.values_mut().for_each(|jobs| jobs.sort_by_key(|job| number(job)));
        all
    }

    /// What a job waits for; none: for something that is not in the model. Of several that will do each, those that are not count for nothing.
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
        if job.single == Some(true) {
            let others = self.of_its_name(job);
            // Where none is told of, it waits for one that is not.
            if any || others.is_empty() || !others.iter().all(|other| modelled(&other.id)) {
                return None;
            }
            let until = |other: &StateJob| Until { job: other.id.clone(), starts: false, plus: Duration::ZERO };
            all.extend(others.into_iter().map(until));
        }
        (!all.is_empty()).then(|| Dependent { job: job.id.clone(), all, any })
    }

    /// The jobs of the same user and name for which a job waits that is to run alone of them: those that run, and those with a lower number. Of the latter none before
    /// the last that is to run alone too: it waits for them.
    pub(super) fn of_its_name(&self, job: &StateJob) -> Vec<&'s StateJob> {
        let known = job.name.as_deref().and_then(|name| self.by_name.get(&(job.user.as_deref(), name)));
        let all = known.map_or(&[][..], Vec::as_slice);
        let at = all.partition_point(|other| number(other) < number(job));
        // The parts of one job start together.
        let is_other = |other: &&StateJob| other.together.is_none() || other.together != job.together;
        let mut found: Vec<&StateJob> = Vec::new();
        for other in all[..at].iter().rev().copied().filter(is_other) {
            found.push(other);
            if other.single == Some(true) {
                return found;
            }
        }
        let runs =
            |other: &&StateJob| matches!(other.state, JobState::Running | JobState::Suspended | JobState::Ending);
        found.extend(all[at..].iter().copied().filter(|other| other.id != job.id).filter(is_other).filter(runs));
        found
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

/// The number of a job, and its place in an array: what Slurm numbers later came later, whenever it was submitted anew.
fn number(job: &StateJob) -> (u64, u32) {
    let digits = job.id.find(|c: char| !c.is_ascii_digit()).map_or(job.id.as_str(), |end| &job.id[..end]);
    (digits.parse().unwrap_or(u64::MAX), job.array.as_ref().map_or(0, |array| array.index))
}
