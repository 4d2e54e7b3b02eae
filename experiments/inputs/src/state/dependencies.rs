//! Jobs that wait for others.

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

/// What a job waits for; none: for something that is not in the model.
pub(super) fn waits(state: &State, job: &StateJob, modelled: &dyn Fn(&str) -> bool) -> Option<Dependent> {
    let mut all = Vec::new();
    let any = job.after.iter().any(|after| after.any == Some(true));
    for after in &job.after {
        let of = others(state, job, after);
        // One of several tasks of an array is no task of it.
        if of.is_empty()
            || (any && of.len() > 1)
            || after.when == AfterWhen::Failed
            || !of.iter().all(|of| modelled(of))
        {
            return None;
        }
        let starts = after.when == AfterWhen::Started;
        let plus = Duration::from_micros_f64((after.plus_s.unwrap_or(0.0).max(0.0) * 1e6).min(9e15));
        all.extend(of.into_iter().map(|job| Until { job: job.to_string(), starts, plus }));
    }
    (!all.is_empty()).then(|| Dependent { job: job.id.clone(), all, any })
}

/// The jobs that are meant: one, or the tasks of an array that have not ended.
fn others<'s>(state: &'s State, job: &StateJob, after: &After) -> Vec<&'s str> {
    let there = || state.jobs.iter().filter(|other| other.state != JobState::Ended);
    if let Some(one) = there().find(|other| other.id == after.job) {
        return vec![&one.id];
    }
    let index = job.array.as_ref().map(|array| array.index);
    let meant = |other: &&StateJob| {
        other.array.as_ref().is_some_and(|array| {
            array.id == after.job && (after.when != AfterWhen::SameIndex || Some(array.index) == index)
        })
    };
    there().filter(meant).map(|other| other.id.as_str()).collect()
}
