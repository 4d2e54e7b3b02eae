//! Compares recorded waits with modelled ones, by partition and size.

use std::collections::{BTreeMap, VecDeque};

use sandtable_inputs::trace::{Row, Trace, recorded_wait};
use sandtable_runtime::Distribution;

use crate::schema::JobRecord;

/// A group of jobs: how long they waited for their first GPUs, seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// `all`, `partition gpu`, `5 to 8 GPUs`.
    pub name: String,
    /// Jobs of which both waits are known.
    pub jobs: usize,
    /// As the log has it.
    pub recorded: Distribution,
    /// As the model has it.
    pub modelled: Distribution,
}

/// What a calibration says of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// All jobs, then by partition, then by size.
    pub groups: Vec<Group>,
    /// Jobs without a recorded start.
    pub unrecorded: usize,
    /// Jobs whose recorded start is a second or more before their submission.
    pub early: usize,
    /// Jobs that the model never started.
    pub unstarted: usize,
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

/// Compares the waits of a trace's log with those of a run of it.
pub fn calibrate(trace: &Trace, run: &[JobRecord]) -> Calibration {
    // A trace may give a name twice: the first is then the first of the run.
    let mut ran: BTreeMap<&str, VecDeque<&JobRecord>> = BTreeMap::new();
    run.iter().for_each(|row| ran.entry(&row.job_id).or_default().push_back(row));
    let mut known: Vec<(&Row, f64, f64)> = Vec::new();
    let (mut unrecorded, mut early, mut unstarted) = (0, 0, 0);
    for row in &trace.rows {
        let run = ran.get_mut(row.name.as_str()).and_then(VecDeque::pop_front);
        let Some(start) = row.recorded.as_ref().and_then(|recorded| recorded.start) else {
            unrecorded += 1;
            continue;
        };
        match (recorded_wait(row.submit, start), run.and_then(JobRecord::wait)) {
            (Some(recorded), Some(wait)) => known.push((row, recorded.as_secs_f64(), wait)),
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
    use sandtable_hardware::{Instant, SECOND};

    use super::*;
    use crate::schema::read_table;
    use sandtable_inputs::trace::Recorded;

    #[test]
    fn waits_are_compared_by_partition_and_size() {
        let job = |name: &str, gpus: u32, start: Option<u64>, partition: &str| Row {
            recorded: Some(Box::new(Recorded {
                start: start.map(|at| Instant::at(at * SECOND)),
                partition: Some(partition.into()),
                ..Recorded::default()
            })),
            ..Row::new(name.into(), Instant::at(10 * SECOND), gpus, SECOND)
        };
        let rows = vec![
            job("a", 1, Some(12), "x"),
            job("a", 3, Some(20), "y"),
            job("b", 4, None, "y"),
            job("c", 1, Some(5), "x"),
        ];
        let head = "job_id,submit_s,gpus,first_start_s,end_s,held_s,productive_s,lost_s,preemptions,failures,out_of_memory,\
                    reassignments,first_run_s,fair_s,service,outcome,last_placement\n";
        let ran = |(name, start): &(&str, u32)| format!("{name},10,1,{start},,0,0,0,0,0,0,0,,,,completed,\n");
        let ran: String = [("a", 10), ("a", 16), ("b", 11), ("c", 11)].iter().map(ran).collect();
        let run: Vec<JobRecord> = read_table((head.to_string() + &ran).as_bytes()).expect("rows");
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
