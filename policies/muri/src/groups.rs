//! Which jobs share GPUs: those whose stages fit into each other, found by matchings of the greatest weight.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use arrayvec::ArrayVec;
use mwmatching::{Matching, SENTINEL};
use sandtable_policy::{Cluster, GpuId, GpuTypeId, Job};
use sandtable_stages::{Step, measured, period};

use crate::places::{Places, Rooms};

/// Weights of a matching are whole numbers.
const SCALE: f64 = 1e6;

/// Resources of a GPU's node that a group could keep busy, as the simulator counts them.
const RESOURCES: f64 = 4.0;

/// Most groups of one size that are matched at once, and what bounds that where there are many: the work of a matching grows with the cube of their number.
const MOST_MATCHED: usize = 256;
const WORK: usize = 1 << 22;

/// Most jobs of a group.
pub const MOST: usize = 4;

/// Most times of groups that are remembered.
const REMEMBERED: usize = 1 << 16;

/// What jobs of one workload take with so many GPUs.
type Class = u32;

/// Jobs that are to have the same GPUs.
#[derive(Clone)]
pub struct Group<'a> {
    /// Each with where it stands in the order.
    pub jobs: ArrayVec<(usize, &'a Job), MOST>,
    /// Where the one that stands first does.
    rank: usize,
    /// What its jobs take, ascending; empty: not known, and its job goes alone.
    classes: ArrayVec<Class, MOST>,
    /// The class of the one that stands first.
    first: Option<Class>,
}

impl<'a> Group<'a> {
    fn of(job: &'a Job, rank: usize, times: &mut Times) -> Group<'a> {
        Group::new(job, rank, times.class(job))
    }

    fn new(job: &'a Job, rank: usize, first: Option<Class>) -> Group<'a> {
        Group { jobs: [(rank, job)].into_iter().collect(), rank, classes: first.into_iter().collect(), first }
    }

    /// A job of the group: all of them ask for the same GPUs.
    pub fn job(&self) -> &'a Job {
        self.jobs[0].1
    }

    /// The GPUs that its jobs hold, if all that hold some hold the same.
    pub fn held(&self) -> Option<&'a [GpuId]> {
        let mut all = self.jobs.iter().map(|(_, job)| &job.held).filter(|held| !held.is_empty());
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }

    fn join(&mut self, other: Group<'a>) {
        if other.rank < self.rank {
            (self.rank, self.first) = (other.rank, other.first);
        }
        self.jobs.extend(other.jobs);
        self.classes.extend(other.classes);
        self.classes.sort_unstable();
    }
}

/// What is known of classes, and of groups of them.
#[derive(Default)]
pub struct Times {
    /// By workload and gang.
    numbers: BTreeMap<(u32, u32), Class>,
    /// Seconds of a step alone, and of each resource.
    steps: Vec<(f64, Vec<f64>)>,
    /// Seconds of a step of each job of a group, as computed.
    of_groups: BTreeMap<Vec<Class>, f64>,
}

impl Times {
    /// The class of a job, if its stages are known.
    fn class(&mut self, job: &Job) -> Option<Class> {
        let known = &job.profile.as_ref()?.stages;
        let of = known.iter().rfind(|stages| stages.gpus <= job.gpus).or(known.first())?;
        let next = self.steps.len() as Class;
        let class = *self.numbers.entry((job.workload?, of.gpus)).or_insert(next);
        if class == next {
            self.steps.push((of.step_time, of.uses.clone()));
        }
        Some(class)
    }

    fn step(&self, class: Class) -> Step<'_> {
        let (seconds, uses) = &self.steps[class as usize];
        Step { seconds: *seconds, uses }
    }

    /// Seconds of a step of each job of a group, as computed.
    fn of_group(&mut self, classes: &[Class]) -> f64 {
        if let Some(known) = self.of_groups.get(classes) {
            return *known;
        }
        let steps: Vec<Step<'_>> = classes.iter().map(|class| self.step(*class)).collect();
        let seconds = period(&steps);
        if self.of_groups.len() >= REMEMBERED {
            self.of_groups.clear();
        }
        self.of_groups.insert(classes.to_vec(), seconds);
        seconds
    }

    /// The part of a group's resources that it keeps busy; 0 where its steps take longer than as many of its first job
    /// would, so that this job would be done later than if all of the others went before it.
    fn used(&mut self, classes: &[Class], first: Class) -> f64 {
        let (busy, seconds): (f64, f64) =
            (classes.iter().flat_map(|class| &self.steps[*class as usize].1).sum(), self.of_group(classes));
        let most = classes.len() as f64 * self.steps[first as usize].0;
        if seconds > most { 0.0 } else { busy / (seconds * RESOURCES) }
    }

    /// Whether its jobs would be done sooner one after the other.
    fn is_slower(&mut self, classes: &[Class]) -> bool {
        if classes.len() < 2 {
            return false;
        }
        let alone: f64 = classes.iter().map(|class| measured(1) * self.step(*class).seconds).sum();
        measured(classes.len()) * self.of_group(classes) > alone
    }
}

/// Jobs in order, the GPUs that they may have, and how many may have the same.
pub struct Asked<'a> {
    pub cluster: &'a Cluster,
    pub order: &'a [&'a Job],
    pub places: &'a Places,
    pub most: usize,
}

/// What is asked for of each set of types, and how much there is.
struct Crowd(Vec<(Rc<[GpuTypeId]>, u32, u32)>);

impl Crowd {
    fn of(rooms: &Rooms, sizes: &[Vec<Group<'_>>]) -> Crowd {
        let mut crowd = Crowd(Vec::new());
        for groups in sizes.iter().filter(|groups| !groups.is_empty()) {
            let (job, asked) = (groups[0].job(), groups[0].job().gpus * groups.len() as u32);
            match crowd.0.iter_mut().find(|(types, ..)| *types == job.gpu_types) {
                Some((_, asks, _)) => *asks += asked,
                None => crowd.0.push((job.gpu_types.clone(), asked, rooms.left_of(&job.gpu_types))),
            }
        }
        crowd
    }

    /// Whether more is asked for than there is of these types, or of these and others together.
    fn is_there(&self, types: &[GpuTypeId]) -> bool {
        let within = |types: &[GpuTypeId], all: &[GpuTypeId]| types.iter().all(|kind| all.contains(kind));
        self.0.iter().filter(|(all, ..)| within(types, all)).any(|(all, _, left)| {
            let of_them = self.0.iter().filter(|(types, ..)| within(types, all));
            of_them.map(|(_, asks, _)| asks).sum::<u32>() > *left
        })
    }

    fn asks_for_less(&mut self, types: &[GpuTypeId], gpus: u32) {
        self.0.iter_mut().filter(|(of, ..)| **of == *types).for_each(|(_, asks, _)| *asks -= gpus);
    }
}

impl<'a> Asked<'a> {
    /// Each job alone.
    pub fn alone(&self) -> Vec<Group<'a>> {
        self.order.iter().enumerate().map(|(rank, job)| Group::new(job, rank, None)).collect()
    }

    /// Jobs in groups of one size of gang: those that are first in order, in groups while they ask for more GPUs than there are.
    pub fn in_groups(&self, times: &mut Times) -> Vec<Group<'a>> {
        let mut sizes = self.candidates(times);
        let mut crowd = Crowd::of(self.places.rooms(), &sizes);
        for _ in 0..self.most {
            let mut asked = sizes.iter().filter_map(|groups| groups.first());
            if !asked.any(|group| crowd.is_there(&group.job().gpu_types)) {
                break;
            }
            sizes = sizes.into_iter().map(|groups| self.pair_up(groups, &mut crowd, times)).collect();
        }
        let mut groups: Vec<Group<'a>> = Vec::with_capacity(sizes.iter().map(Vec::len).sum());
        for group in sizes.into_iter().flatten() {
            if times.is_slower(&group.classes) {
                // Its jobs are done sooner alone.
                groups.extend(group.jobs.iter().map(|(rank, job)| Group::of(job, *rank, times)));
            } else {
                groups.push(group);
            }
        }
        groups
    }

    /// In order, the groups that find a place.
    pub fn with_room<'g>(&self, groups: &'g [Group<'a>]) -> Vec<&'g Group<'a>> {
        let mut by_rank: Vec<Option<&Group<'a>>> = vec![None; self.order.len()];
        groups.iter().for_each(|group| by_rank[group.rank] = Some(group));
        let mut rooms = self.places.rooms().clone();
        let has_room = |group: &&Group<'a>| rooms.reserve(group.job().gpus, &group.job().gpu_types);
        by_rank.into_iter().flatten().filter(has_room).collect()
    }

    /// The GPUs of groups as on an empty fleet: whole nodes first, as in the simulator, if all find a place so; else, and where each job is alone, in order.
    pub fn places_anew(&self, groups: &[&Group<'a>]) -> Option<Vec<Vec<GpuId>>> {
        let in_order: Vec<usize> = (0..groups.len()).collect();
        let mut by_size = in_order.clone();
        if self.most > 1 {
            by_size.sort_by_key(|at| Reverse(groups[*at].job().gpus));
        }
        let all_of = |order: Vec<usize>| {
            let (mut places, mut taken) = (self.places.clone(), vec![Vec::new(); groups.len()]);
            for at in order {
                let job = groups[at].job();
                taken[at] = places.take(job.gpus, &job.gpu_types)?;
            }
            Some(taken)
        };
        all_of(by_size).or_else(|| all_of(in_order))
    }

    /// Of each size of gang and choice of types, in the order of the first of each: for every place that one of them finds, as many of the next as may share it.
    fn candidates(&self, times: &mut Times) -> Vec<Vec<Group<'a>>> {
        let mut rooms = self.places.rooms().clone();
        let mut sizes: Vec<(Vec<(usize, &Job)>, usize)> = Vec::new();
        let alike = |a: &Job, b: &Job| a.gpus == b.gpus && a.gpu_types == b.gpu_types;
        for (rank, job) in self.order.iter().enumerate() {
            let known = sizes.iter().position(|(jobs, _)| alike(jobs[0].1, job));
            let size = known.unwrap_or_else(|| {
                sizes.push((Vec::new(), 0));
                sizes.len() - 1
            });
            let (jobs, chosen) = &mut sizes[size];
            jobs.push((rank, *job));
            let is_next = *chosen < jobs.len();
            if is_next && rooms.reserve(job.gpus, &job.gpu_types) {
                *chosen += self.most;
            }
        }
        let of_size = |(jobs, chosen): (Vec<(usize, &'a Job)>, usize)| {
            let chosen = jobs.into_iter().take(chosen);
            chosen.map(|(rank, job)| Group::of(job, rank, times)).collect::<Vec<Group<'a>>>()
        };
        sizes.into_iter().map(of_size).collect()
    }

    /// Joins pairs of groups of one size that use the most of what they would share, while more is asked for than there is.
    fn pair_up(&self, groups: Vec<Group<'a>>, crowd: &mut Crowd, times: &mut Times) -> Vec<Group<'a>> {
        if groups.iter().all(|group| group.classes.is_empty()) {
            return groups;
        }
        let mates = self.mates(&groups, times);
        let mut left: Vec<Option<Group<'a>>> = groups.into_iter().map(Some).collect();
        let mut joined = Vec::new();
        for (at, mate) in mates.into_iter().enumerate() {
            // A pair comes where the second of it stood.
            if mate.is_some_and(|mate| mate > at) {
                continue;
            }
            let first = mate.and_then(|mate| left[mate].take());
            let Some(second) = left[at].take() else { continue };
            match first {
                Some(mut first) if crowd.is_there(&first.job().gpu_types) => {
                    crowd.asks_for_less(&first.job().gpu_types, first.job().gpus);
                    first.join(second);
                    joined.push(first);
                }
                Some(first) => joined.extend([first, second]),
                None => joined.push(second),
            }
        }
        joined
    }

    /// Of each group of one size the one that it is paired with: a matching of the greatest weight of as many in a row as a decision has time for.
    fn mates(&self, groups: &[Group<'_>], times: &mut Times) -> Vec<Option<usize>> {
        let block = (WORK / groups.len().max(1)).isqrt().clamp(2, MOST_MATCHED);
        let mut mates = vec![None; groups.len()];
        for first in (0..groups.len()).step_by(block) {
            let of = &groups[first..groups.len().min(first + block)];
            let edges = self.edges(of, times);
            if edges.is_empty() {
                continue;
            }
            let found = Matching::new(edges).solve().into_iter().enumerate();
            found.filter(|(_, mate)| *mate != SENTINEL).for_each(|(at, mate)| mates[first + at] = Some(first + mate));
        }
        mates
    }

    /// Pairs of groups that may share, and how much of what they would share they use.
    fn edges(&self, groups: &[Group<'_>], times: &mut Times) -> Vec<(usize, usize, i32)> {
        let types = groups.first().map_or(&[][..], |group| &group.job().gpu_types);
        let memory = types.iter().map(|kind| self.cluster.memory_of(*kind)).min().unwrap_or(0);
        let takes = |group: &Group<'_>| group.jobs.iter().map(|(_, job)| u64::from(job.memory_mib)).sum::<u64>();
        let shares =
            |group: &Group<'_>| !group.classes.is_empty() && group.jobs.iter().all(|(_, job)| job.out_of_memory == 0);
        let there: Vec<(usize, &Group<'_>, u64)> = groups
            .iter()
            .enumerate()
            .filter(|(_, group)| shares(group))
            .map(|(at, group)| (at, group, takes(group)))
            .collect();
        let mut known: BTreeMap<(&[Class], &[Class], Class), i32> = BTreeMap::new();
        let mut edges = Vec::new();
        for (index, (b, second, more)) in there.iter().enumerate() {
            for (a, first, some) in &there[..index] {
                let fits = memory == 0 || some + more <= u64::from(memory);
                if !fits || first.jobs.len() + second.jobs.len() > self.most {
                    continue;
                }
                let leads = if first.rank <= second.rank { first.first } else { second.first };
                let Some(leads) = leads else { continue };
                let weight = *known.entry((&first.classes, &second.classes, leads)).or_insert_with(|| {
                    let mut classes = [first.classes.as_slice(), &second.classes].concat();
                    classes.sort_unstable();
                    (times.used(&classes, leads) * SCALE).round() as i32
                });
                edges.push((*a, *b, weight));
            }
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use sandtable_policy::testing::{arrival, demand, topology};
    use sandtable_policy::{
        Batch, Communication, Event, Fresh, Introductions, JobId, Sharing, Stages, Trigger, WorkloadProfile,
    };

    use super::*;

    fn workload(name: &str, uses: [f64; 3]) -> WorkloadProfile {
        WorkloadProfile {
            workload: name.into(),
            family: name.into(),
            batch: f64::NAN,
            mixed_precision: false,
            gradient_gb: f64::NAN,
            communication: Communication::Ring,
            facts: None,
            gpu_utilisation: vec![],
            memory_utilisation: vec![],
            memory_mib: vec![],
            step_time: vec![],
            throughput: vec![],
            stages: vec![Stages { gpus: 1, step_time: uses.iter().sum(), uses: uses.to_vec() }],
        }
    }

    /// Jobs of one GPU, each of one of two workloads, on so many GPUs: the first computes, the second reads.
    fn groups(gpus: u32, workloads: &[u32], most: usize) -> Vec<Vec<JobId>> {
        let mut topology = topology(&[gpus]);
        topology.gpu_types[0].sharing = Sharing::Packed(4);
        let mut cluster = Cluster::new(&topology);
        let events = workloads.iter().enumerate().map(|(id, workload)| {
            let told = arrival(id as JobId, 0, 0);
            Event::JobArrived(sandtable_policy::Arrival { workload: *workload, ..told })
        });
        let batch = Batch { seq: 1, now: 0, trigger: Trigger::Event, fresh: Fresh::all(), events: events.collect() };
        let new = Introductions {
            classes: vec![demand(1)],
            users: vec![String::new()],
            workloads: vec![workload("computes", [1.0, 4.0, 0.0]), workload("reads", [4.0, 1.0, 0.0])],
            ..Introductions::default()
        };
        cluster.take_in(&batch, new);
        let order: Vec<&Job> = (0..workloads.len() as JobId).map(|id| cluster.job(id)).collect();
        let places = Places::all_but(&cluster, &Default::default());
        let asked = Asked { cluster: &cluster, order: &order, places: &places, most };
        let groups = asked.in_groups(&mut Times::default());
        let found = asked.with_room(&groups);
        let mut found: Vec<Vec<JobId>> =
            found.iter().map(|group| group.jobs.iter().map(|(_, job)| job.id).collect()).collect();
        found.iter_mut().for_each(|jobs| jobs.sort_unstable());
        found
    }

    #[test]
    fn jobs_that_fit_into_each_other_are_paired() {
        // In order one would pair those that compute, and those that read.
        assert_eq!(groups(2, &[0, 0, 1, 1], 2).concat().len(), 4);
        assert!(groups(2, &[0, 0, 1, 1], 2).iter().all(|jobs| jobs[0] < 2 && jobs[1] >= 2));
    }

    #[test]
    fn a_pair_that_keeps_its_first_job_longer_than_the_other_before_it_is_worth_nothing() {
        // A short job that computes, and a long one: 14 s for both, where twice the short one takes 8.
        let steps = vec![(4.0, vec![0.0, 4.0, 0.0]), (10.0, vec![0.0, 10.0, 0.0]), (6.0, vec![6.0, 0.0, 0.0])];
        let mut times = Times { steps, ..Times::default() };
        let (short, long, reads) = (0, 1, 2);
        assert_eq!(times.used(&[short, long], short), 0.0);
        assert_eq!(times.used(&[short, long], long), 14.0 / (14.0 * RESOURCES));
        // In turn they take 6 s: no more than twice the short one. What sharing costs does not count.
        assert_eq!(times.used(&[short, reads], short), 10.0 / (6.0 * RESOURCES));
    }

    #[test]
    fn no_group_is_made_without_need_or_where_it_is_slower() {
        assert_eq!(groups(4, &[0, 1, 0, 1], 4).len(), 4);
        // Two that compute are done sooner one after the other: the second waits.
        assert_eq!(groups(1, &[0, 0], 2), [[0]]);
        // Those that come later than all that may share the only GPU are not looked at.
        assert_eq!(groups(1, &[0, 0, 1], 2), [[0]]);
        assert_eq!(groups(1, &[0, 1, 1], 2), [[0, 1]]);
    }
}
