//! How much of a node's free GPUs is of no use to the jobs that typically come: the fragmentation of Weng et al. (Beware of Fragmentation,
//! ATC 2023, section 3).
//!
//! The policy `fgd` lessens it, and the host measures it: both take it from here.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What a typical job asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ask {
    /// Thousandths of a core; 0: none, or unknown.
    pub cpu_milli: u64,
    /// Thousandths of each GPU: 1000, or less of one; 0 of a job without GPUs.
    pub milli: u32,
    /// GPUs, on one node.
    pub gpus: u32,
    /// Kinds of GPU that it may run on, with a vertical bar between two; empty: any.
    pub kinds: String,
}

/// What is left of a node.
#[derive(Clone, Copy, Debug)]
pub struct Room<'a> {
    /// The type of its GPUs.
    pub gpu_type: u32,
    /// Thousandths of a core.
    pub cpu_milli: u64,
    /// Thousandths of each GPU.
    pub left: &'a [u32],
}

/// The jobs that typically come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Typical {
    jobs: Vec<Job>,
    /// What jobs ask for of each GPU, ascending: each a level of `Job::level`.
    levels: Vec<u32>,
    /// The jobs once more, where there are many: those that differ in their CPU alone are one.
    groups: Vec<Group>,
}

/// Jobs that differ in their CPU alone.
#[derive(Clone, Debug, PartialEq)]
struct Group {
    job: Job,
    /// CPU, ascending, and the part of the jobs that ask for as much or less.
    cpu: Vec<(u64, f64)>,
}

/// Beyond so many kinds of jobs, those that differ in their CPU alone are summed together.
const MANY: usize = 256;

#[derive(Clone, Debug, PartialEq)]
struct Job {
    /// Its part of the typical jobs.
    part: f64,
    cpu_milli: u64,
    gpus: usize,
    /// Where its thousandths are in the levels.
    level: usize,
    /// Types that it may run on; none: any.
    types: Option<Vec<u32>>,
}

/// GPUs of a node that have as much left as a level, and thousandths on the others.
#[derive(Clone, Copy, Default)]
struct Level {
    enough: usize,
    below: u64,
}

impl Typical {
    /// The jobs that come most often, until they are this part, 0 to 1, of all that have come; of as many, the one that asks for more. The names
    /// of types are by number.
    ///
    /// ```
    /// use sandtable_fragmentation::{Ask, Room, Typical};
    ///
    /// let half = Ask { milli: 500, gpus: 1, ..Ask::default() };
    /// let two = Ask { milli: 1000, gpus: 2, ..Ask::default() };
    /// let typical = Typical::of(&[(half, 3), (two, 1)].into(), 1.0, &["T4".into()]);
    /// let fragments = |left: &[u32]| typical.fragments(Room { gpu_type: 0, cpu_milli: u64::MAX, left });
    /// // The job of two GPUs can't have 400 + 1000: a quarter of it is of no use. A half can't have the 400.
    /// assert_eq!(fragments(&[400, 1000]), 0.25 * 1400.0 + 0.75 * 400.0);
    /// assert_eq!(fragments(&[1000, 1000]), 0.0);
    /// ```
    pub fn of(counts: &BTreeMap<Ask, u64>, share: f64, types: &[String]) -> Typical {
        let all: u64 = counts.values().sum();
        let mut sorted: Vec<(&Ask, u64)> = counts.iter().map(|(ask, count)| (ask, *count)).collect();
        sorted.sort_by_key(|(ask, count)| Reverse((*count, *ask)));
        let mut taken = 0;
        let enough = sorted.iter().position(|(_, count)| {
            taken += count;
            taken as f64 >= share * all as f64
        });
        sorted.truncate(enough.map_or(sorted.len(), |last| last + 1));
        let mut levels: Vec<u32> = sorted.iter().map(|(ask, _)| ask.milli).collect();
        levels.sort_unstable();
        levels.dedup();
        let job = |(ask, count): &(&Ask, u64)| Job {
            part: *count as f64 / taken as f64,
            cpu_milli: ask.cpu_milli,
            gpus: ask.gpus as usize,
            level: levels.partition_point(|level| *level < ask.milli),
            types: (!ask.kinds.is_empty()).then(|| {
                let number = |kind: &str| types.iter().position(|name| name == kind).map(|at| at as u32);
                ask.kinds.split('|').filter_map(number).collect()
            }),
        };
        let jobs: Vec<Job> = sorted.iter().map(job).collect();
        let groups = if jobs.len() > MANY { grouped(&jobs) } else { Vec::new() };
        Typical { jobs, levels, groups }
    }

    /// Thousandths of a node's GPUs that are free and of no use, in the mean over typical jobs: all that is free, to a job that can't
    /// run there, else what lies on GPUs with less left than it asks of each.
    ///
    /// Summed in the order of the artifact (commit 8f3d641), where there are few kinds of jobs: scores that are truncated depend on it.
    pub fn fragments(&self, room: Room<'_>) -> f64 {
        let free: u64 = room.left.iter().map(|left| u64::from(*left)).sum();
        if free == 0 {
            return 0.0;
        }
        let mut levels = [Level::default(); 64];
        let mut more = Vec::new();
        let levels = if self.levels.len() <= levels.len() {
            &mut levels[..self.levels.len()]
        } else {
            more.resize(self.levels.len(), Level::default());
            &mut more[..]
        };
        for left in room.left {
            let reached = self.levels.partition_point(|level| level <= left);
            levels[..reached].iter_mut().for_each(|level| level.enough += 1);
            levels[reached..].iter_mut().for_each(|level| level.below += u64::from(*left));
        }
        let free = free as f64;
        if !self.groups.is_empty() {
            return self.groups.iter().map(|group| group.fragments(room, free, levels[group.job.level])).sum();
        }
        let (mut both, mut gpu, mut cpu, mut idle, mut idle_without, mut elsewhere) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
        for job in &self.jobs {
            let enough_cpu = room.cpu_milli >= job.cpu_milli;
            let Level { enough, below } = levels[job.level];
            if job.gpus == 0 {
                *(if enough_cpu { &mut idle } else { &mut idle_without }) += job.part * free;
            } else if job.types.as_ref().is_some_and(|types| !types.contains(&room.gpu_type)) {
                elsewhere += job.part * free;
            } else {
                match (enough >= job.gpus, enough_cpu) {
                    (true, true) => gpu += job.part * below as f64,
                    (true, false) => cpu += job.part * free,
                    (false, true) => gpu += job.part * free,
                    (false, false) => both += job.part * free,
                }
            }
        }
        both + gpu + cpu + idle + idle_without + elsewhere
    }

    /// Whether no job is typical.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

/// The jobs, those that differ in their CPU alone together.
fn grouped(jobs: &[Job]) -> Vec<Group> {
    let mut jobs: Vec<&Job> = jobs.iter().collect();
    jobs.sort_by_key(|job| (job.level, job.gpus, &job.types, job.cpu_milli));
    let alike = |a: &&Job, b: &&Job| (a.level, a.gpus, &a.types) == (b.level, b.gpus, &b.types);
    let group = |jobs: &[&Job]| {
        let mut sum = 0.0;
        let mut cpu = Vec::with_capacity(jobs.len());
        for job in jobs {
            sum += job.part;
            cpu.push((job.cpu_milli, sum));
        }
        Group { job: Job { part: sum, cpu_milli: 0, ..jobs[0].clone() }, cpu }
    };
    jobs.chunk_by(alike).map(group).collect()
}

impl Group {
    fn fragments(&self, room: Room<'_>, free: f64, Level { enough, below }: Level) -> f64 {
        let Job { part: all, gpus, types, .. } = &self.job;
        let elsewhere = types.as_ref().is_some_and(|types| !types.contains(&room.gpu_type));
        if *gpus == 0 || elsewhere || enough < *gpus {
            return all * free;
        }
        let within = self.cpu.partition_point(|(cpu_milli, _)| *cpu_milli <= room.cpu_milli);
        let part = within.checked_sub(1).map_or(0.0, |last| self.cpu[last].1);
        part * below as f64 + (all - part) * free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(cpu_milli: u64, milli: u32, gpus: u32, kinds: &str) -> Ask {
        Ask { cpu_milli, milli, gpus, kinds: kinds.into() }
    }

    fn fragments(typical: &Typical, gpu_type: u32, cpu_milli: u64, left: &[u32]) -> f64 {
        typical.fragments(Room { gpu_type, cpu_milli, left })
    }

    #[test]
    fn a_job_that_can_run_nowhere_finds_all_of_no_use() {
        let counts = [(ask(2000, 0, 0, ""), 1), (ask(4000, 1000, 1, "A|B"), 1)].into();
        let typical = Typical::of(&counts, 1.0, &["A".into(), "B".into(), "C".into()]);
        // One without GPUs never uses them.
        assert_eq!(fragments(&typical, 0, 8000, &[1000]), 500.0);
        assert_eq!(fragments(&typical, 1, 3999, &[1000]), 1000.0);
        assert_eq!(fragments(&typical, 2, 8000, &[1000]), 1000.0);
        assert_eq!(fragments(&typical, 0, 8000, &[0, 0]), 0.0);
        assert_eq!(fragments(&Typical::default(), 0, 8000, &[1000]), 0.0);
    }

    #[test]
    fn many_kinds_of_jobs_are_summed_to_the_same() {
        let mut counts = BTreeMap::new();
        for at in 0..600u32 {
            let kinds = ["", "A", "A|B"][at as usize % 3];
            let asked = match at % 5 {
                0 => ask(u64::from(at * 37 % 900), 0, 0, ""),
                1 => ask(u64::from(at * 53 % 900), 1000, 1 + at % 4, kinds),
                _ => ask(u64::from(at * 71 % 900), 100 * (1 + at % 9), 1, kinds),
            };
            *counts.entry(asked).or_default() += u64::from(1 + at % 7);
        }
        let many = Typical::of(&counts, 1.0, &["A".into(), "B".into()]);
        assert!(!many.groups.is_empty());
        let plain = Typical { groups: vec![], ..many.clone() };
        for (kind, cpu, left) in
            [(0, 450, [300, 1000, 1000]), (1, 100, [1000, 0, 550]), (2, 899, [1000; 3]), (0, 0, [70; 3])]
        {
            let (quick, slow) = (fragments(&many, kind, cpu, &left), fragments(&plain, kind, cpu, &left));
            assert!((quick - slow).abs() < 1e-9, "{quick} {slow}");
        }
    }

    #[test]
    fn rare_jobs_are_not_typical() {
        let counts = [(ask(0, 1000, 1, ""), 95), (ask(0, 1000, 8, ""), 3), (ask(0, 300, 1, ""), 2)].into();
        let most = Typical::of(&counts, 0.95, &[]);
        assert_eq!((most.jobs.len(), most.jobs[0].part), (1, 1.0));
        assert_eq!(Typical::of(&counts, 0.96, &[]).jobs.len(), 2);
        // Of as many the one that asks for more comes first.
        let counts = [(ask(0, 1000, 1, ""), 5), (ask(0, 1000, 2, ""), 5)].into();
        assert_eq!(Typical::of(&counts, 0.5, &[]).jobs[0].gpus, 2);
    }
}
