//! Recorded waits against modelled ones: the first thing to know of a model of one's own cluster.

use std::collections::{BTreeMap, VecDeque};

use sandtable_hardware::{Micros, SECOND};
use sandtable_runtime::Distribution;

use super::{Row, Trace};
use crate::results::JobRow;

/// A group of jobs: how long they waited for their first GPUs, seconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    /// `all`, `partition gpu`, `5 to 8 GPUs`.
    pub(crate) name: String,
    /// Jobs of which both waits are known.
    pub(crate) jobs: usize,
    /// As the log has it.
    pub(crate) recorded: Distribution,
    /// As the model has it.
    pub(crate) modelled: Distribution,
}

/// What a calibration says of one run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Calibration {
    /// All jobs, then by partition, then by size.
    pub(crate) groups: Vec<Group>,
    /// Jobs without a recorded start.
    pub(crate) unrecorded: usize,
    /// Jobs whose recorded start is a second or more before their submission.
    pub(crate) early: usize,
    /// Jobs that the model never started.
    pub(crate) unstarted: usize,
}

/// 1, 2, 3 to 4, 5 to 8, ...: the greatest of each.
fn size_class(gpus: u32) -> u32 {
    gpus.checked_next_power_of_two().unwrap_or(u32::MAX)
}

fn size_words(most: u32) -> String {
    match most {
        0 | 1 => "1 GPU".into(),
        2 => "2 GPUs".into(),
        most => format!("{} to {most} GPUs", most / 2 + 1),
    }
}

/// From submission to start. Logs know seconds: less than one before the submission is no wait; none where it is more.
pub(super) fn recorded_wait(submit: Micros, start: Micros) -> Option<Micros> {
    (start + SECOND > submit).then(|| start.saturating_sub(submit))
}

/// Compares the waits of a trace's log with those of a run of it.
pub(crate) fn calibrate(trace: &Trace, run: &[JobRow]) -> Calibration {
    // A trace may give a name twice: the first is then the first of the run.
    let mut ran: BTreeMap<&str, VecDeque<&JobRow>> = BTreeMap::new();
    run.iter().for_each(|row| ran.entry(&row.job_id).or_default().push_back(row));
    let mut known: Vec<(&Row, f64, f64)> = Vec::new();
    let (mut unrecorded, mut early, mut unstarted) = (0, 0, 0);
    for row in &trace.rows {
        let run = ran.get_mut(row.name.as_str()).and_then(VecDeque::pop_front);
        let Some(start) = row.recorded.as_ref().and_then(|recorded| recorded.start) else {
            unrecorded += 1;
            continue;
        };
        match (recorded_wait(row.submit, start), run.and_then(JobRow::wait)) {
            (Some(recorded), Some(wait)) => known.push((row, recorded as f64 / 1e6, wait)),
            (None, _) => early += 1,
            (_, None) => unstarted += 1,
        }
    }
    let group = |name: String, of: &dyn Fn(&Row) -> bool| {
        let waits: Vec<&(&Row, f64, f64)> = known.iter().filter(|(row, ..)| of(row)).collect();
        Group {
            name,
            jobs: waits.len(),
            recorded: Distribution::of_numbers(waits.iter().map(|(_, recorded, _)| *recorded).collect()),
            modelled: Distribution::of_numbers(waits.iter().map(|(.., modelled)| *modelled).collect()),
        }
    };
    let partition = |row: &Row| row.recorded.as_ref().and_then(|recorded| recorded.partition.clone());
    let mut partitions: Vec<String> = known.iter().filter_map(|(row, ..)| partition(row)).collect();
    partitions.sort();
    partitions.dedup();
    let mut sizes: Vec<u32> = known.iter().map(|(row, ..)| size_class(row.gpus)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut groups = vec![group("all".into(), &|_| true)];
    for name in partitions {
        groups.push(group(format!("partition {name}"), &|row| partition(row).as_ref() == Some(&name)));
    }
    for most in sizes {
        groups.push(group(size_words(most), &|row| size_class(row.gpus) == most));
    }
    Calibration { groups, unrecorded, early, unstarted }
}

#[cfg(test)]
mod tests {
    use super::super::Recorded;
    use super::*;

    #[test]
    fn waits_are_compared_by_partition_and_size() {
        let job = |name: &str, gpus: u32, start: Option<u64>, partition: &str| Row {
            recorded: Some(Box::new(Recorded {
                start: start.map(|at| at * SECOND),
                partition: Some(partition.into()),
                ..Recorded::default()
            })),
            ..Row::new(name.into(), 10 * SECOND, gpus, SECOND)
        };
        let rows = vec![
            job("a", 1, Some(12), "x"),
            job("a", 3, Some(20), "y"),
            job("b", 4, None, "y"),
            job("c", 1, Some(5), "x"),
        ];
        let ran = |name: &str, start: Option<f64>| JobRow {
            job_id: name.into(),
            submit_s: 10.0,
            gpus: 1,
            first_start_s: start,
            end_s: None,
            held_s: 0.0,
            preemptions: 0,
            service: None,
            outcome: "completed".into(),
        };
        let run = [ran("a", Some(10.0)), ran("a", Some(16.0)), ran("b", Some(11.0)), ran("c", Some(11.0))];
        let found = calibrate(&Trace { rows, ..Trace::default() }, &run);
        let of = |group: &Group| (group.name.clone(), group.jobs, group.recorded.mean, group.modelled.mean);
        let expected = [
            ("all", 2, 6.0, 3.0),
            ("partition x", 1, 2.0, 0.0),
            ("partition y", 1, 10.0, 6.0),
            ("1 GPU", 1, 2.0, 0.0),
            ("3 to 4 GPUs", 1, 10.0, 6.0),
        ];
        let expected: Vec<_> = expected.into_iter().map(|(name, n, a, b)| (name.to_string(), n, a, b)).collect();
        assert_eq!(found.groups.iter().map(of).collect::<Vec<_>>(), expected);
        assert_eq!((found.unrecorded, found.early, found.unstarted), (1, 1, 0));
    }
}
