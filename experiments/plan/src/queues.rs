//! The queues of a spec, and which of them each job is in.

use sandtable_core::error::Error;
use sandtable_core::text::nearest;
use sandtable_hardware::{Fleet, Queue, QueueId, queue_and_groups};
use sandtable_inputs::trace::Row;
use serde_json::{Value, json};

use crate::number;
use crate::spec::{QueueSpec, Source, Spec, WorkloadSpec};

/// Most queues and groups of an experiment.
const MOST_QUEUES: usize = 1_000;

/// Most groups above a queue.
const MOST_GROUPS: usize = 32;

/// The fleet, shared out among the queues of a spec.
pub(super) fn share_out(source: &Source, spec: &Spec, fleet: Fleet) -> Result<Fleet, Error> {
    let specs = &spec.queues;
    if specs.len() > MOST_QUEUES {
        let message = format!("expected at most {MOST_QUEUES} queues, found {}", specs.len());
        return Err(source.error("queues", &message, "here"));
    }
    let mut queues: Vec<Queue> = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        let queue = queue(spec, &queues).map_err(|(field, message)| {
            let place = if field.is_empty() { format!("queues.{index}") } else { format!("queues.{index}.{field}") };
            source.error(&place, &message, "here")
        })?;
        queues.push(queue);
    }
    check_drawn(source, &spec.workload, &queues)?;
    Ok(fleet.queued(queues))
}

/// The fleet, shared out among the queues of the cluster whose jobs they are, where a spec says so.
pub(super) fn of_state(source: &Source, spec: &Spec, queues: &[Queue], fleet: Fleet) -> Result<Fleet, Error> {
    if queues.is_empty() {
        return Ok(fleet);
    }
    if !spec.queues.is_empty() {
        let why = "GPUs are shared out among the queues of the document";
        return Err(source.error("queues", why, "this is said twice"));
    }
    if queues.len() > MOST_QUEUES {
        let message = format!("expected at most {MOST_QUEUES} queues in the document, found {}", queues.len());
        return Err(source.error("workload.queues", &message, "here"));
    }
    let deep = |at: &usize| queue_and_groups(queues, QueueId::at(*at)).count() > MOST_GROUPS + 1;
    if let Some(at) = (0..queues.len()).find(deep) {
        let message = format!("expected at most {MOST_GROUPS} groups above {:?}", queues[at].name);
        return Err(source.error("workload.queues", &message, "here"));
    }
    Ok(fleet.queued(queues.to_vec()))
}

/// Checks the queues that drawn jobs are in: what is never drawn in a test may be in the full run.
fn check_drawn(source: &Source, workload: &WorkloadSpec, queues: &[Queue]) -> Result<(), Error> {
    let WorkloadSpec::Generate { queues: drawn, .. } = workload else { return Ok(()) };
    let wrong =
        |place: &str, error: Error| Err(Error { hint: error.hint, ..source.error(place, &error.message, "here") });
    match drawn.keys().find_map(|name| find(name, queues, "jobs are drawn").err()) {
        Some(error) => wrong("workload.queues", error),
        None if drawn.is_empty() && !queues.is_empty() => {
            let error = Error::usage("drawn jobs are in no queue: expected `queues` with the weight of each");
            wrong("workload", error.hint(listed(queues)))
        }
        None => Ok(()),
    }
}

/// A queue behind those before it, or the field that is wrong and why.
fn queue(spec: &QueueSpec, before: &[Queue]) -> Result<Queue, (&'static str, String)> {
    let QueueSpec { name, parent, guaranteed, weight, limit, priority } = spec;
    if name.is_empty() || name.contains(char::is_control) {
        return Err(("name", format!("expected a name without control characters, found {name:?}")));
    }
    let find = |name: &String| before.iter().position(|queue| queue.name == *name);
    if find(name).is_some() {
        return Err(("name", format!("two queues are called {name:?}")));
    }
    let parent = parent.as_ref().map(|group| {
        find(group).map(QueueId::at).ok_or_else(|| ("parent", format!("no queue {group:?} comes before {name:?}")))
    });
    let parent = parent.transpose()?;
    if parent.is_some_and(|parent| queue_and_groups(before, parent).count() > MOST_GROUPS) {
        return Err(("parent", format!("expected at most {MOST_GROUPS} groups above {name:?}")));
    }
    let in_thousandths = |gpus: f64| (gpus * 1000.0 - (gpus * 1000.0).round()).abs() < 1e-6;
    if !(0.0..=1e6).contains(weight) {
        return Err(("weight", format!("expected a number from 0 to 10^6, found {weight}")));
    }
    if !((0.0..=1e6).contains(guaranteed) && in_thousandths(*guaranteed)) {
        return Err(("guaranteed", format!("expected GPUs from 0 to 10^6, to a thousandth, found {guaranteed}")));
    }
    if let Some(found) = limit.filter(|limit| !((0.001..=1e6).contains(limit) && in_thousandths(*limit))) {
        return Err(("limit", format!("expected GPUs from 0.001 to 10^6, to a thousandth, found {found}")));
    }
    Ok(Queue {
        name: name.clone(),
        parent,
        guaranteed: *guaranteed,
        weight: *weight,
        limit: limit.unwrap_or(f64::INFINITY),
        priority: *priority,
    })
}

/// Their part of a fleet's identity.
pub(super) fn key(queues: &[Queue]) -> Value {
    let of = |queue: &Queue| {
        let limit = queue.limit.is_finite().then(|| number(queue.limit));
        json!([queue.name, queue.parent, number(queue.guaranteed), number(queue.weight), limit, queue.priority])
    };
    queues.iter().map(of).collect()
}

/// The queue of a row. Where there are none, what a row says of a queue moves nothing.
pub(super) fn of_row(row: &Row, queues: &[Queue]) -> Result<Option<QueueId>, Error> {
    match row.queue.as_deref() {
        _ if queues.is_empty() => Ok(None),
        Some(name) => find(name, queues, &format!("job {:?} is submitted", row.name)).map(Some),
        // A task of a service is in the queue of no team.
        None if row.service.is_some() => Ok(None),
        None => Err(Error::usage(format!("job {:?} names no queue", row.name)).hint(listed(queues))),
    }
}

/// The queue of a name, which is no group.
fn find(name: &str, queues: &[Queue], who: &str) -> Result<QueueId, Error> {
    let Some(id) = queues.iter().position(|queue| queue.name == name).map(QueueId::at) else {
        let error = Error::usage(format!("{who} to a queue {name:?} that there is not"));
        let near = nearest(name, queues.iter().map(|queue| queue.name.as_str()));
        return Err(error.hint(near.map_or_else(|| listed(queues), |near| format!("did you mean {near:?}?"))));
    };
    match queues.iter().any(|queue| queue.parent == Some(id)) {
        true => Err(Error::usage(format!("{who} to {name:?}, a group of queues")).hint(listed(queues))),
        false => Ok(id),
    }
}

/// The queues that jobs may be in, in words.
fn listed(queues: &[Queue]) -> String {
    let is_group = |at: usize| queues.iter().any(|queue| queue.parent == Some(QueueId::at(at)));
    let mut names = queues.iter().enumerate().filter(|(at, _)| !is_group(*at)).map(|(_, queue)| queue.name.as_str());
    let first: Vec<&str> = names.by_ref().take(10).collect();
    match (first.is_empty(), names.next()) {
        (true, _) => "queues: [Queue(name: \"NAME\")] of the experiment".into(),
        (false, None) => format!("the queues are {}", first.join(", ")),
        (false, Some(_)) => format!("the queues are {}, …", first.join(", ")),
    }
}
