//! The queues of a spec, and which of them each job is in.

use sandtable_core::error::Error;
use sandtable_core::text::nearest;
use sandtable_hardware::{Fleet, Queue, QueueId};
use sandtable_inputs::trace::Row;
use serde_json::{Value, json};

use crate::number;
use crate::spec::{QueueSpec, Source};

/// Most queues and groups of an experiment.
const MOST_QUEUES: usize = 10_000;

/// The fleet, shared out among the queues of a spec.
pub(super) fn share_out(source: &Source, specs: &[QueueSpec], fleet: Fleet) -> Result<Fleet, Error> {
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
    Ok(fleet.queued(queues))
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
    for (field, found) in [("guaranteed", *guaranteed), ("weight", *weight)] {
        if !(0.0..=1e6).contains(&found) {
            return Err((field, format!("expected a number from 0 to 10^6, found {found}")));
        }
    }
    if let Some(found) = limit.filter(|limit| !(0.001..=1e6).contains(limit)) {
        return Err(("limit", format!("expected GPUs from 0.001 to 10^6, found {found}")));
    }
    Ok(Queue {
        name: name.clone(),
        parent: parent.transpose()?,
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
    let is_group = |at: usize| queues.iter().any(|queue| queue.parent == Some(QueueId::at(at)));
    let known = || queues.iter().enumerate().filter(|(at, _)| !is_group(*at)).map(|(_, queue)| queue.name.as_str());
    let listed = || {
        let names: Vec<&str> = known().take(10).collect();
        let more = if known().nth(10).is_some() { ", …" } else { "" };
        format!("the queues are {}{more}", names.join(", "))
    };
    let Some(name) = row.queue.as_deref().filter(|_| !queues.is_empty()) else {
        // A task of a service is in the queue of no team.
        if queues.is_empty() || row.service.is_some() {
            return Ok(None);
        }
        return Err(Error::usage(format!("job {:?} names no queue", row.name)).hint(listed()));
    };
    match queues.iter().position(|queue| queue.name == name) {
        Some(at) if is_group(at) => {
            let message = format!("job {:?} is submitted to {name:?}, a group of queues", row.name);
            Err(Error::usage(message).hint(listed()))
        }
        Some(at) => Ok(Some(QueueId::at(at))),
        None => {
            let error = Error::usage(format!("job {:?} is submitted to a queue {name:?} that there is not", row.name));
            Err(error.hint(nearest(name, known()).map_or_else(listed, |near| format!("did you mean {near:?}?"))))
        }
    }
}
