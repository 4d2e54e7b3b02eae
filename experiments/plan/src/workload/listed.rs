//! Jobs that a spec writes down.

use std::sync::Arc;

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_hardware::{Duration, Instant, Job};
use sandtable_inputs::trace::{Asked, Packed, Row, Trace};
use serde_json::json;

use super::{From, Keyed};
use crate::nodes;
use crate::spec::{JobSpec, Near, Source};

/// The jobs that a spec lists; the second is their part of the identity.
pub(super) fn read(source: &Source, list: &[JobSpec]) -> Result<Keyed, Error> {
    if list.is_empty() {
        return Err(source.error("workload", "a workload needs at least one job, found none", "no job"));
    }
    check(list).map_err(|why| source.error("workload", &why, "these jobs"))?;
    let mut trace = rows(list);
    let key = json!({"trace": {"blake3": digest(trace.to_csv().as_bytes()), "format": "Native"}});
    trace.rows.sort_by_key(|row| row.submit);
    Ok((From::Fixed(Arc::new(Packed::of(trace))), key))
}

/// Checks the jobs that a spec lists.
fn check(list: &[JobSpec]) -> Result<(), String> {
    for (index, job) in list.iter().enumerate() {
        let wrong = |share: f64| !(share > 0.0 && share <= 1.0) || (share < 1.0 && job.gpus != 1);
        if let Some(share) = job.share.filter(|share| wrong(*share)) {
            let found = format!("found {share} of {}", job.gpus);
            return Err(format!("job {index}: a share is a part of one GPU, above 0 and at most 1: {found}"));
        }
        if job.part.is_some() && (job.gpus != 1 || job.share.is_some()) {
            return Err(format!("job {index}: a part is one of one GPU, and in place of a share"));
        }
    }
    for (index, job) in list.iter().enumerate() {
        if job.gpus == 0 && job.cpus.is_none() && job.host_memory.is_none() {
            return Err(format!("job {index}: one of 0 GPUs takes `cpus` or `host_memory` of a node"));
        }
        if job.gpus == 0 && job.memory.is_some() {
            return Err(format!("job {index}: one of 0 GPUs has no device `memory`; that of a node is `host_memory`"));
        }
        if let Err(why) = nodes::host(job.cpus, job.host_memory) {
            return Err(format!("job {index}: {why}"));
        }
        let divides = |each: u32| each > 0 && job.gpus > 0 && job.gpus.is_multiple_of(each);
        if let Some(each) = job.gpus_per_node.filter(|each| !divides(*each)) {
            return Err(format!("job {index}: expected a divisor of its {} GPUs on each node, found {each}", job.gpus));
        }
    }
    let lacks = |job: &JobSpec| job.duration.is_none() && job.batch.is_none();
    if let Some(index) = list.iter().position(lacks) {
        return Err(format!("job {index} needs a `duration`, or as an elastic one a `batch`"));
    }
    match list.iter().position(|job| job.service.is_some() && job.gpus != 1) {
        Some(index) => Err(format!("job {index}: a task of a service has one GPU, found {}", list[index].gpus)),
        None => Ok(()),
    }
}

/// The jobs that a spec lists, as rows.
fn rows(list: &[JobSpec]) -> Trace {
    let asked = |job: &JobSpec| Asked {
        gpus: job.gpus,
        priority: job.priority,
        queue: job.queue.clone(),
        gpus_per_node: job.gpus_per_node.unwrap_or(0),
        host: nodes::host(job.cpus, job.host_memory).unwrap_or_default(),
        near: job.near.clone().filter(|near| *near != Near::default()).map(Box::new),
        kinds: job.kinds.clone(),
        preemptible: job.preemptible.unwrap_or(true),
        share: job.share.map_or(Job::WHOLE, |share| ((share * 1000.0 + 0.5) as u32).max(1)),
        part: job.part.clone(),
        memory_mib: job.memory.map(|bytes| (bytes.0 >> 20) as u32),
        workload: job.workload.clone(),
        user: job.user.clone(),
        batch: job.batch,
        service: job.service.clone(),
    };
    let rows = list.iter().enumerate().map(|(index, job)| Row {
        declared: job.declared.map(|span| span.0),
        deadline: job.deadline.map(|span| Instant::at(span.0)),
        asked: asked(job).into(),
        ..Row::new(
            job.name.clone().unwrap_or_else(|| index.to_string()),
            Instant::at(job.submit.0),
            job.gpus,
            job.duration.map_or(Duration::ZERO, |span| span.0),
        )
    });
    Trace { rows: rows.collect(), ..Trace::default() }
}
