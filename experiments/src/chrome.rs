//! A run as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
//!
//! # Format
//! The JSON object of the Trace Event Format: a process a node, a thread a GPU, a complete event (`X`) for every stay of a job
//! on it, with the job's row as arguments; counters (`C`) for GPUs held and for jobs that wait. Times in microseconds.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::results::{JobRow, Stay};

/// The trace of a run on nodes of so many GPUs each.
pub fn trace(title: &str, nodes: &[(String, u32)], jobs: &[JobRow], stays: &[Stay]) -> Value {
    let mut events = Vec::new();
    let name = |pid: usize, tid: Option<u32>, what: &str, name: &str| {
        let mut event = json!({"ph": "M", "pid": pid, "name": what, "args": {"name": name}});
        if let Some(tid) = tid {
            event["tid"] = json!(tid);
        }
        event
    };
    // Process 0 is the cluster: nodes begin at 1.
    events.push(name(0, None, "process_name", "cluster"));
    let mut place: Vec<usize> = Vec::new();
    for (at, (kind, gpus)) in nodes.iter().enumerate() {
        events.push(name(at + 1, None, "process_name", &format!("node {at} ({kind})")));
        for _ in 0..*gpus {
            let gpu = place.len() as u32;
            events.push(name(at + 1, Some(gpu), "thread_name", &format!("GPU {gpu}")));
            place.push(at + 1);
        }
    }
    let rows: BTreeMap<&str, &JobRow> = jobs.iter().map(|row| (row.job_id.as_str(), row)).collect();
    let micros = |seconds: f64| (seconds * 1e6).round() as u64;
    for stay in stays {
        let row = rows.get(stay.job.as_str());
        let args = row.map_or(Value::Null, |row| {
            json!({
                "gpus": row.gpus, "submitted_s": row.submit_s, "waited_s": row.wait(), "jct_s": row.jct(),
                "preemptions": row.preemptions, "outcome": row.outcome,
            })
        });
        for gpu in &stay.gpus {
            events.push(json!({
                "ph": "X", "pid": place.get(*gpu as usize).copied().unwrap_or(0), "tid": gpu, "name": stay.job, "cat": "job",
                "ts": micros(stay.from), "dur": micros(stay.to) - micros(stay.from).min(micros(stay.to)), "args": args,
            }));
        }
    }
    for (counter, steps) in [("GPUs held", held(stays)), ("jobs waiting", waiting(jobs, stays))] {
        for (at, count) in steps {
            events.push(json!({"ph": "C", "pid": 0, "name": counter, "ts": micros(at), "args": {"count": count}}));
        }
    }
    json!({"displayTimeUnit": "ms", "otherData": {"title": title, "by": "sandtable"}, "traceEvents": events})
}

/// A count over time from what is added at instants: the count from each instant on.
pub fn steps(mut changes: Vec<(f64, i64)>) -> Vec<(f64, i64)> {
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut out, mut count): (Vec<(f64, i64)>, i64) = (Vec::new(), 0);
    for (at, change) in changes {
        count += change;
        match out.last_mut() {
            Some(last) if last.0 == at => last.1 = count,
            _ => out.push((at, count)),
        }
    }
    out
}

/// Stays on GPUs over time, one a GPU: where GPUs are shared more than there are GPUs.
pub fn held(stays: &[Stay]) -> Vec<(f64, i64)> {
    let both = |stay: &Stay| [(stay.from, stay.gpus.len() as i64), (stay.to, -(stay.gpus.len() as i64))];
    steps(stays.iter().flat_map(both).collect())
}

/// Jobs that hold nothing, from their submission to their end.
pub fn waiting(jobs: &[JobRow], stays: &[Stay]) -> Vec<(f64, i64)> {
    let mut changes: Vec<(f64, i64)> = Vec::new();
    for row in jobs {
        if let Some(end) = row.end_s.filter(|_| row.first_start_s.is_some()) {
            changes.extend([(row.submit_s, 1), (end, -1)]);
        }
    }
    let ended = jobs.iter().filter(|row| row.end_s.is_some() && row.first_start_s.is_some());
    let ended: BTreeMap<&str, ()> = ended.map(|row| (row.job_id.as_str(), ())).collect();
    let there = stays.iter().filter(|stay| ended.contains_key(stay.job.as_str()));
    changes.extend(there.flat_map(|stay| [(stay.from, -1), (stay.to, 1)]));
    steps(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(job: &str, submit: f64, start: f64, end: f64) -> JobRow {
        JobRow {
            job_id: job.into(),
            submit_s: submit,
            gpus: 1,
            first_start_s: Some(start),
            end_s: Some(end),
            held_s: end - start,
            preemptions: 0,
            outcome: "completed".into(),
        }
    }

    #[test]
    fn every_stay_is_an_event_on_each_of_its_gpus_and_counters_end_at_nothing() {
        let jobs = [row("a", 0.0, 0.0, 10.0), row("b", 2.0, 10.0, 12.5)];
        let stay = |job: &str, from, to, gpus: &[u32]| Stay { job: job.into(), from, to, gpus: gpus.to_vec() };
        let stays = [stay("a", 0.0, 10.0, &[0, 2]), stay("b", 10.0, 12.5, &[2])];
        let trace = trace("t", &[("T4".into(), 2), ("T4".into(), 2)], &jobs, &stays);
        let events = trace["traceEvents"].as_array().expect("events");
        let of = |ph: &str| events.iter().filter(|event| event["ph"] == ph).collect::<Vec<_>>();
        let spans = of("X");
        assert_eq!(spans.len(), 3);
        assert_eq!((&spans[1]["pid"], &spans[1]["tid"], &spans[1]["dur"]), (&json!(2), &json!(2), &json!(10_000_000)));
        assert_eq!(waiting(&jobs, &stays), [(0.0, 0), (2.0, 1), (10.0, 0), (12.5, 0)]);
        assert_eq!(held(&stays), [(0.0, 2), (10.0, 1), (12.5, 0)]);
        assert!(of("C").iter().all(|event| event["args"]["count"].as_i64() >= Some(0)));
    }
}
