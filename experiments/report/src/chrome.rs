//! A run as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
//!
//! # Format
//! The JSON object of the Trace Event Format: a process a node, a thread a GPU, a complete event (`X`) for every stay of a job
//! on it, with the job's row as arguments; counters (`C`) for GPUs held and for jobs that wait. Times in microseconds.

use std::collections::BTreeMap;

use sandtable_hardware::GpuId;
use sandtable_results::reader::rowed;
use sandtable_results::schema::{JobRecord, Seconds, StayRecord};
use sandtable_runtime::JobOutcome;
use serde_json::{Value, json};

/// The trace of a run on nodes of so many GPUs each.
pub fn trace(title: &str, nodes: &[(String, u32)], jobs: &[JobRecord], stays: &[StayRecord]) -> Value {
    let mut events = Vec::new();
    let name = |pid: usize, tid: Option<u64>, what: &str, name: &str| {
        let mut event = json!({"ph": "M", "pid": pid, "name": what, "args": {"name": name}});
        if let Some(tid) = tid {
            event["tid"] = json!(tid);
        }
        event
    };
    // Process 0 is the cluster: nodes begin at 1.
    events.push(name(0, None, "process_name", "cluster"));
    // Slices of one thread must nest: jobs that share a GPU get a thread each.
    let (placed, threads) = rowed(stays);
    let mut place: Vec<usize> = Vec::new();
    for (at, (kind, gpus)) in nodes.iter().enumerate() {
        events.push(name(at + 1, None, "process_name", &format!("node {at} ({kind})")));
        for _ in 0..*gpus {
            let gpu = GpuId::at(place.len());
            for row in 0..threads.get(&gpu).copied().unwrap_or(1) {
                let beside = if row == 0 { String::new() } else { format!(", beside {row}") };
                events.push(name(at + 1, Some(thread(gpu, row)), "thread_name", &format!("GPU {gpu}{beside}")));
            }
            place.push(at + 1);
        }
    }
    let rows: BTreeMap<&str, &JobRecord> = jobs.iter().map(|row| (row.job_id.as_str(), row)).collect();
    for (stay, gpu, beside) in placed {
        let row = rows.get(stay.job_id.as_str());
        let args = row.map_or(Value::Null, |row| {
            json!({
                "gpus": row.gpus, "submitted_s": row.submit_s.f64(), "waited_s": row.wait(), "jct_s": row.jct(),
                "preemptions": row.preemptions, "outcome": row.outcome.to_string(),
            })
        });
        let (from, to) = (stay.from_s.0, stay.to_s.0);
        events.push(json!({
            "ph": "X", "pid": place.get(gpu.index()).copied().unwrap_or(0), "tid": thread(gpu, beside), "name": stay.job_id,
            "cat": "job", "ts": from, "dur": to.saturating_sub(from), "args": args,
        }));
    }
    for (counter, steps) in [("GPUs held", held(stays)), ("jobs waiting", waiting(jobs, stays))] {
        for (at, count) in steps {
            events.push(json!({"ph": "C", "pid": 0, "name": counter, "ts": at.0, "args": {"count": count}}));
        }
    }
    json!({"displayTimeUnit": "ms", "otherData": {"title": title, "by": "sandtable"}, "traceEvents": events})
}

/// A count over time from what is added at instants: the count from each instant on.
///
/// ```
/// use sandtable_report::chrome::steps;
/// use sandtable_results::schema::Seconds;
///
/// let counts = steps(vec![(Seconds(5), -1), (Seconds(0), 1), (Seconds(0), 2)]);
/// assert_eq!(counts, [(Seconds(0), 3), (Seconds(5), 2)]);
/// ```
pub fn steps(mut changes: Vec<(Seconds, i64)>) -> Vec<(Seconds, i64)> {
    changes.sort_by_key(|change| change.0);
    let (mut out, mut count): (Vec<(Seconds, i64)>, i64) = (Vec::new(), 0);
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
///
/// ```
/// use sandtable_report::chrome::held;
/// use sandtable_results::schema::{Seconds, read_table};
///
/// let stays = read_table(b"job_id,from_s,to_s,gpus\na,0,10,0-3\nb,5,10,4\n")?;
/// let at = |seconds: u64| Seconds(seconds * 1_000_000);
/// assert_eq!(held(&stays), [(at(0), 4), (at(5), 5), (at(10), 0)]);
/// # Ok::<(), String>(())
/// ```
pub fn held(stays: &[StayRecord]) -> Vec<(Seconds, i64)> {
    let gpus = |stay: &StayRecord| stay.gpus.0.len() as i64;
    let both = |stay: &StayRecord| [(stay.from_s, gpus(stay)), (stay.to_s, -gpus(stay))];
    steps(stays.iter().flat_map(both).collect())
}

/// Jobs that hold nothing, from their submission to their end, or to the run's where they have none. Those that no fleet
/// like this could hold do not wait.
///
/// ```
/// assert!(sandtable_report::chrome::waiting(&[], &[]).is_empty());
/// ```
pub fn waiting(jobs: &[JobRecord], stays: &[StayRecord]) -> Vec<(Seconds, i64)> {
    let ends = jobs.iter().filter_map(|row| row.end_s).chain(stays.iter().map(|stay| stay.to_s));
    let last = ends.chain(jobs.iter().map(|row| row.submit_s)).max().unwrap_or_default();
    let counted = || jobs.iter().filter(|row| !matches!(row.outcome, JobOutcome::Rejected(_)));
    let mut changes: Vec<(Seconds, i64)> = Vec::new();
    changes.extend(counted().flat_map(|row| [(row.submit_s, 1), (row.end_s.unwrap_or(last), -1)]));
    changes.extend(stays.iter().flat_map(|stay| [(stay.from_s, -1), (stay.to_s, 1)]));
    steps(changes)
}

/// The thread of a row of a GPU.
fn thread(gpu: GpuId, row: usize) -> u64 {
    u64::from(gpu.number()) * 64 + row as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandtable_results::schema::{GpuSet, Placement};

    fn seconds(x: f64) -> Seconds {
        Seconds((x * 1e6) as u64)
    }

    fn row(job: &str, submit: f64, ran: Option<(f64, f64)>) -> JobRecord {
        JobRecord {
            job_id: job.into(),
            submit_s: seconds(submit),
            gpus: 1,
            first_start_s: ran.map(|(start, _)| seconds(start)),
            end_s: ran.map(|(_, end)| seconds(end)),
            held_s: ran.map(|(start, end)| seconds(end - start)).unwrap_or_default(),
            productive_s: Seconds(0),
            lost_s: Seconds(0),
            preemptions: 0,
            failures: 0,
            out_of_memory: 0,
            reassignments: 0,
            first_run_s: None,
            fair_s: None,
            service: None,
            outcome: if ran.is_some() {
                JobOutcome::Completed
            } else {
                JobOutcome::Unfinished(sandtable_runtime::Unfinished::Waited)
            },
            last_placement: Placement::default(),
        }
    }

    #[test]
    fn every_stay_is_an_event_on_each_of_its_gpus_and_counters_end_at_nothing() {
        let jobs = [row("a", 0.0, Some((0.0, 10.0))), row("b", 2.0, Some((10.0, 12.5)))];
        let stay = |job: &str, from, to, gpus: &[u32]| StayRecord {
            job_id: job.into(),
            from_s: seconds(from),
            to_s: seconds(to),
            gpus: GpuSet(GpuId::list(gpus.to_vec())),
        };
        let counted = |steps: Vec<(Seconds, i64)>| -> Vec<(f64, i64)> {
            steps.into_iter().map(|(at, count)| (at.f64(), count)).collect()
        };
        let stays = [stay("a", 0.0, 10.0, &[0, 2]), stay("b", 10.0, 12.5, &[2])];
        let trace = trace("t", &[("T4".into(), 2), ("T4".into(), 2)], &jobs, &stays);
        let events = trace["traceEvents"].as_array().expect("events");
        let of = |ph: &str| events.iter().filter(|event| event["ph"] == ph).collect::<Vec<_>>();
        let spans = of("X");
        assert_eq!(spans.len(), 3);
        assert_eq!(
            (&spans[1]["pid"], &spans[1]["tid"], &spans[1]["dur"]),
            (&json!(2), &json!(128), &json!(10_000_000))
        );
        assert_eq!(counted(waiting(&jobs, &stays)), [(0.0, 0), (2.0, 1), (10.0, 0), (12.5, 0)]);
        assert_eq!(counted(held(&stays)), [(0.0, 2), (10.0, 1), (12.5, 0)]);
        // Two on one GPU are two threads; a job that never runs waits to the end.
        let both = [stay("a", 0.0, 10.0, &[0]), stay("b", 5.0, 12.5, &[0])];
        let (placed, threads) = rowed(&both);
        assert_eq!((placed[1].2, threads[&GpuId::new(0)]), (1, 2));
        let late = [row("c", 0.0, None), row("a", 0.0, Some((0.0, 10.0)))];
        assert_eq!(counted(waiting(&late, &both[..1])), [(0.0, 1), (10.0, 0)]);
        assert!(of("C").iter().all(|event| event["args"]["count"].as_i64() >= Some(0)));
    }
}
