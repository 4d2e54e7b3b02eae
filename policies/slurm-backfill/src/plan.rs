//! Plans of jobs on nodes, by time limits. Times are µs of the experiment's clock.

use std::ops::{AddAssign, SubAssign};

use sandtable_policy::{GpuTypeId, Instant, Job, Node};

/// Which of several nodes a job gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Of neighbours, one after the other, those with the fewest free CPUs in all that are enough.
    Neighbours,
    /// The first.
    First,
}

/// A part of a node: GPUs, and what is beside them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Part {
    /// GPUs.
    pub gpus: u32,
    /// Thousandths of a core; [`Part::PLENTY`] of a node of which it is not known, below 0 where jobs hold more than there is.
    pub cpu: i64,
    /// MiB of memory; likewise.
    pub memory: i64,
}

impl Part {
    /// More than all jobs together ask for.
    pub const PLENTY: i64 = 1 << 60;

    /// What a job takes of a node on which it has so many GPUs.
    pub fn of_job(job: &Job, gpus: u32) -> Part {
        let of = |all: u32| (u64::from(all) * u64::from(gpus)).div_ceil(u64::from(job.gpus.max(1))) as i64;
        Part { gpus, cpu: of(job.host.cpu_milli), memory: of(job.host.memory_mib) }
    }

    /// All of a node.
    pub fn of_all(node: &Node) -> Part {
        let known = |amount: u32| if amount == 0 { Part::PLENTY } else { i64::from(amount) };
        Part { gpus: node.gpus, cpu: known(node.host.cpu_milli), memory: known(node.host.memory_mib) }
    }

    /// GPUs alone, of a node of which the rest is not known or a job that asks for nothing else.
    #[cfg(test)]
    pub fn bare(gpus: u32) -> Part {
        Part { gpus, cpu: Part::PLENTY, memory: Part::PLENTY }
    }

    #[cfg(test)]
    pub fn gpus(gpus: u32) -> Part {
        Part { gpus, ..Part::default() }
    }

    /// Whether another is not more than this.
    pub fn holds(self, other: Part) -> bool {
        self.gpus >= other.gpus && self.cpu >= other.cpu && self.memory >= other.memory
    }

    /// Whether another is not more than what is left without a third.
    fn holds_beside(self, kept: Part, other: Part) -> bool {
        self.gpus >= kept.gpus + other.gpus
            && self.cpu >= kept.cpu + other.cpu
            && self.memory >= kept.memory + other.memory
    }

    /// What is left without another.
    fn less(self, other: Part) -> Part {
        Part {
            gpus: self.gpus.saturating_sub(other.gpus),
            cpu: self.cpu - other.cpu,
            memory: self.memory - other.memory,
        }
    }

    /// Whether it is known how many cores there are.
    fn has_cores(self) -> bool {
        self.cpu < Part::PLENTY / 2
    }
}

impl AddAssign for Part {
    fn add_assign(&mut self, other: Part) {
        *self = Part { gpus: self.gpus + other.gpus, cpu: self.cpu + other.cpu, memory: self.memory + other.memory };
    }
}

impl SubAssign for Part {
    fn sub_assign(&mut self, other: Part) {
        *self = self.less(other);
    }
}

/// What a job asks for: so many nodes with so much of each, and one more with the rest.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Need {
    /// Nodes.
    pub nodes: u32,
    /// Of each.
    pub each: Part,
    /// Of one more; without GPUs: of none.
    pub rest: Part,
    /// The types that it may run on.
    pub types: Vec<GpuTypeId>,
}

impl Need {
    /// The nodes that a job asks for. Without a shape it takes as large parts of nodes as there are enough of, those that are down counted: they come back.
    pub fn of(nodes: &[Node], job: &Job) -> Need {
        let types = job.gpu_types.to_vec();
        let most = |node: &Node| {
            let of = |has: u32, asked: u32| match (has, asked) {
                (0, _) | (_, 0) => node.gpus,
                _ => (u64::from(has) * u64::from(job.gpus) / u64::from(asked)).min(u64::from(node.gpus)) as u32,
            };
            of(node.host.cpu_milli, job.host.cpu_milli).min(of(node.host.memory_mib, job.host.memory_mib))
        };
        let suits = |node: &&Node| types.contains(&node.gpu_type);
        let largest = nodes.iter().filter(suits).map(most).max().unwrap_or(1).clamp(1, job.gpus.max(1));
        let is_there = |each: &u32| {
            let (count, rest) = (job.gpus / each, job.gpus % each);
            types.iter().any(|kind| {
                let with = |least: u32| {
                    nodes.iter().filter(|node| node.gpu_type == *kind && most(node) >= least).count() as u32
                };
                with(*each) >= count && (rest == 0 || with(rest) > count)
            })
        };
        let each = match job.gpus_per_node {
            0 if largest == job.gpus => largest,
            0 => (1..=largest).rev().find(is_there).unwrap_or(largest),
            each => each,
        };
        let (count, rest) = (job.gpus / each.max(1), job.gpus % each.max(1));
        Need { nodes: count, each: Part::of_job(job, each), rest: Part::of_job(job, rest), types }
    }
}

/// Nodes, and what is free of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nodes {
    /// What is free of each.
    pub free: Vec<Part>,
    /// All of it; without GPUs: it is down, or left out.
    pub all: Vec<Part>,
    /// Their type.
    pub types: Vec<GpuTypeId>,
}

impl Nodes {
    fn suits(&self, need: &Need, node: usize) -> bool {
        need.types.contains(&self.types[node])
    }

    /// Nodes for a job, and what to take of each.
    pub fn find(&self, need: &Need, place: Place) -> Option<Vec<(usize, Part)>> {
        find((&self.free, &self.types), |node| self.suits(need, node), need, place)
    }

    /// Leaves out the nodes that suit a job; returns whether there are others.
    pub fn leave_out(&mut self, need: &Need) -> bool {
        for node in 0..self.free.len() {
            if self.suits(need, node) {
                (self.free[node], self.all[node]) = (Part::default(), Part::default());
            }
        }
        self.all.iter().any(|all| all.gpus > 0)
    }

    /// Gives parts back, of nodes that are not left out.
    pub fn give_back(&mut self, on: &[(usize, Part)]) {
        on.iter().filter(|(node, _)| self.all[*node].gpus > 0).for_each(|(node, part)| self.free[*node] += *part);
    }

    /// Takes parts.
    pub fn take(&mut self, on: &[(usize, Part)]) {
        on.iter().for_each(|(node, part)| self.free[*node] -= *part);
    }
}

/// Nodes for a job among those that suit it, of which so much is free, and what to take of each. A gang is on nodes of one type.
fn find(
    (free, types): (&[Part], &[GpuTypeId]),
    suits: impl Fn(usize) -> bool,
    need: &Need,
    place: Place,
) -> Option<Vec<(usize, Part)>> {
    if need.types.len() == 1 || need.nodes + u32::from(need.rest.gpus > 0) == 1 {
        return find_any(free, suits, need, place);
    }
    let of = |kind: &GpuTypeId| find_any(free, |node| types[node] == *kind && suits(node), need, place);
    need.types.iter().find_map(of)
}

fn find_any(free: &[Part], suits: impl Fn(usize) -> bool, need: &Need, place: Place) -> Option<Vec<(usize, Part)>> {
    let mut found: Vec<(usize, Part)> = Vec::new();
    for (count, each) in [(need.nodes as usize, need.each), (usize::from(need.rest.gpus > 0), need.rest)] {
        if count == 0 {
            continue;
        }
        let fits = |node: &usize| free[*node].holds(each) && suits(*node);
        let other = |node: &usize| fits(node) && found.iter().all(|(known, _)| known != node);
        let fitting: Vec<usize> = (0..free.len()).filter(other).collect();
        if fitting.len() < count {
            return None;
        }
        let chosen = match place {
            Place::Neighbours => neighbours(free, &fitting, count, each),
            Place::First => fitting[..count].to_vec(),
        };
        found.extend(chosen.into_iter().map(|node| (node, each)));
    }
    Some(found)
}

/// So many of these nodes, as `select/cons_tres` seems to choose them (a reconstruction): the row of neighbours with the fewest free CPUs in all that is long
/// enough, of it the first nodes, or the one with the fewest free CPUs; where none is, the row with the most free CPUs, and the rest likewise. GPUs count in
/// place of CPUs where these are not known.
fn neighbours(free: &[Part], nodes: &[usize], count: usize, asked: Part) -> Vec<usize> {
    let by_cores = asked.cpu > 0 && nodes.iter().any(|node| free[*node].has_cores());
    // Where others say how many there are a node that does not has plenty.
    let size_of = |node: usize| match by_cores {
        true => free[node].cpu.min(1 << 40),
        false => i64::from(free[node].gpus),
    };
    let size = |row: &[usize]| row.iter().map(|node| size_of(*node)).sum::<i64>();
    let mut rows: Vec<&[usize]> = nodes.chunk_by(|a, b| a + 1 == *b).collect();
    let mut chosen: Vec<usize> = Vec::with_capacity(count);
    while chosen.len() < count {
        let left = count - chosen.len();
        let rank = |row: &[usize]| match row.len() >= left {
            true => (0, size(row), row[0]),
            false => (1, -size(row), row[0]),
        };
        let Some(at) = (0..rows.len()).min_by_key(|at| rank(rows[*at])) else { break };
        let row = rows.swap_remove(at);
        match (left, row.iter().min_by_key(|node| (size_of(**node), **node))) {
            (1, Some(fullest)) => chosen.push(*fullest),
            _ => chosen.extend(row.iter().take(left)),
        }
    }
    chosen
}

/// A running job gives back what it holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    /// When, by its limit.
    pub at: Instant,
    /// Nodes, and what of them.
    pub on: Vec<(usize, Part)>,
}

/// A part of a node that is kept for a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserved {
    /// From.
    from: Instant,
    /// To.
    to: Instant,
    node: usize,
    part: Part,
}

/// The plans of a tick.
pub struct Planner {
    /// The tick.
    pub now: Instant,
    /// What is free now.
    pub free: Nodes,
    /// The ends of running jobs, ascending.
    pub ends: Vec<End>,
    /// What is planned so far.
    pub plans: Vec<Reserved>,
    /// Plans begin at multiples of this, and last so much longer.
    pub resolution: u64,
    /// Which nodes jobs get.
    pub place: Place,
    /// Whether plans keep whole nodes.
    pub whole_nodes: bool,
}

impl Planner {
    /// When a job of this limit can start beside what is planned, and where. From now, and then from the end of each plan, the first time
    /// is looked for at which ends of running jobs have made room on nodes that no plan keeps while it would run from there; where one
    /// keeps them while it would run from that time, the next is tried.
    pub fn earliest(&self, need: &Need, limit: u64) -> Option<(Instant, Vec<(usize, Part)>)> {
        let mut from: Vec<Instant> = self.plans.iter().map(|plan| plan.to).filter(|to| *to > self.now).collect();
        from.push(self.now);
        from.sort_unstable();
        from.dedup();
        let suited: Vec<bool> = (0..self.free.free.len()).map(|node| self.free.suits(need, node)).collect();
        // What is kept of each node, and what is free of it from then on: for each time anew.
        let (mut kept, mut later) = (vec![Part::default(); suited.len()], Vec::with_capacity(suited.len()));
        // What is free at each time, and the first end after it.
        let (mut then, mut next) = (self.free.free.clone(), 0);
        from.into_iter().find_map(|from| {
            self.keep(from, limit, &mut kept);
            while let Some(end) = self.ends.get(next).filter(|end| from > self.now && end.at <= from) {
                end.on.iter().for_each(|(node, part)| then[*node] += *part);
                next += 1;
            }
            later.clone_from(&then);
            let (at, on) = self.room((need, &suited), (from, next), &kept, &mut later)?;
            if at > from {
                self.keep(at, limit, &mut kept);
            }
            let has_room = |(node, part): &(usize, Part)| self.free.all[*node].holds_beside(kept[*node], *part);
            on.iter().all(has_room).then_some((at, on))
        })
    }

    /// What plans keep of each node while a job would run from a time on.
    fn keep(&self, from: Instant, limit: u64, kept: &mut [Part]) {
        kept.fill(Part::default());
        for plan in self.plans.iter().filter(|plan| plan.from < from + limit && from < plan.to) {
            match self.whole_nodes {
                true => kept[plan.node] = self.free.all[plan.node],
                false => kept[plan.node] += plan.part,
            }
        }
    }

    /// The first time from `at` on, of which `next` is the first end after it and so much is free then, at which there is room, as running jobs end.
    fn room(
        &self,
        (need, suited): (&Need, &[bool]),
        (mut at, mut next): (Instant, usize),
        kept: &[Part],
        free: &mut [Part],
    ) -> Option<(Instant, Vec<(usize, Part)>)> {
        let enough = |free: Part, node: usize| suited[node] && free.holds_beside(kept[node], need.each);
        // Whether there may be room: counted, since to look for it takes longer.
        let mut count = (0..free.len()).filter(|node| enough(free[*node], *node)).count();
        loop {
            if count >= need.nodes as usize {
                let left: Vec<Part> = free.iter().zip(kept).map(|(free, kept)| free.less(*kept)).collect();
                if let Some(on) = find((&left, &self.free.types), |node| suited[node], need, self.place) {
                    return Some((at, on));
                }
            }
            at = self.ends.get(next)?.at;
            while let Some(end) = self.ends.get(next).filter(|end| end.at == at) {
                for (node, part) in &end.on {
                    count -= usize::from(enough(free[*node], *node));
                    free[*node] += *part;
                    count += usize::from(enough(free[*node], *node));
                }
                next += 1;
            }
        }
    }

    /// Keeps room for a job.
    pub fn reserve(&mut self, at: Instant, limit: u64, on: &[(usize, Part)]) {
        let (from, longer) = match self.resolution {
            // Slurm's second is the finest.
            0..=1_000_000 => (at, 0),
            resolution => (at / resolution * resolution, resolution),
        };
        let to = from + limit + longer;
        self.plans.extend(on.iter().map(|(node, part)| Reserved { from, to, node: *node, part: *part }));
    }

    /// A job has started and is at its limit then.
    pub fn start(&mut self, on: &[(usize, Part)], end: Instant) {
        self.free.take(on);
        let at = self.ends.partition_point(|other| other.at <= end);
        self.ends.insert(at, End { at: end, on: on.to_vec() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planner(free: &[u32], ends: &[(u64, usize, u32)]) -> Planner {
        let (all, types) = (vec![Part::bare(4); free.len()], vec![0; free.len()]);
        let ends = ends.iter().map(|(at, node, gpus)| End { at: *at, on: vec![(*node, Part::gpus(*gpus))] }).collect();
        let free = Nodes { free: free.iter().map(|gpus| Part::bare(*gpus)).collect(), all, types };
        Planner { now: 0, free, ends, plans: Vec::new(), resolution: 0, place: Place::Neighbours, whole_nodes: true }
    }

    fn need(nodes: u32, each: u32) -> Need {
        Need { nodes, each: Part::gpus(each), rest: Part::default(), types: vec![0] }
    }

    /// Nodes, and GPUs of them.
    fn on(found: Option<Vec<(usize, Part)>>) -> Option<Vec<(usize, u32)>> {
        found.map(|on| on.into_iter().map(|(node, part)| (node, part.gpus)).collect())
    }

    #[test]
    fn a_job_goes_where_the_fewest_free_gpus_are_enough() {
        let nodes = planner(&[4, 2, 3], &[]).free;
        assert_eq!(on(nodes.find(&need(1, 2), Place::Neighbours)), Some(vec![(1, 2)]));
        assert_eq!(on(nodes.find(&need(1, 2), Place::First)), Some(vec![(0, 2)]));
        assert_eq!(on(nodes.find(&need(2, 3), Place::Neighbours)), Some(vec![(0, 3), (2, 3)]));
        assert_eq!(on(nodes.find(&need(2, 4), Place::Neighbours)), None);
        let rest = Need { rest: Part::gpus(1), ..need(1, 4) };
        assert_eq!(on(nodes.find(&rest, Place::Neighbours)), Some(vec![(0, 4), (1, 1)]));
        // The row with the fewest free GPUs that is long enough, though a node of another has fewer; none is: the row with the most, the first of equals, and what is left.
        let nodes = planner(&[2, 0, 3, 3, 0, 2, 2, 2], &[]).free;
        assert_eq!(on(nodes.find(&need(2, 2), Place::Neighbours)), Some(vec![(2, 2), (3, 2)]));
        assert_eq!(on(nodes.find(&need(4, 2), Place::Neighbours)), Some(vec![(2, 2), (3, 2), (5, 2), (6, 2)]));
        assert_eq!(
            on(nodes.find(&need(6, 2), Place::Neighbours)),
            Some(vec![(2, 2), (3, 2), (5, 2), (6, 2), (7, 2), (0, 2)])
        );
    }

    #[test]
    fn cores_and_memory_are_taken_with_gpus_and_cores_choose_the_node() {
        let part = |gpus, cpu, memory| Part { gpus, cpu, memory };
        let free = vec![part(4, 2000, 64), part(1, 9000, 64), part(4, 8000, 2)];
        let mut nodes = Nodes { free, all: vec![part(4, 16_000, 64); 3], types: vec![0; 3] };
        let need = |gpus, cpu, memory| Need { each: part(gpus, cpu, memory), ..need(1, gpus) };
        let found = |nodes: &Nodes, need: &Need| on(nodes.find(need, Place::Neighbours)).map(|on| on[0].0);
        // The fewest cores of a row of neighbours; without cores of its own the fewest GPUs.
        assert_eq!((found(&nodes, &need(1, 1000, 1)), found(&nodes, &need(1, 0, 1))), (Some(0), Some(1)));
        assert_eq!((found(&nodes, &need(1, 3000, 1)), found(&nodes, &need(2, 3000, 1))), (Some(2), Some(2)));
        assert_eq!((found(&nodes, &need(1, 3000, 3)), found(&nodes, &need(2, 3000, 3))), (Some(1), None));
        nodes.take(&[(1, part(1, 9000, 64))]);
        assert_eq!(nodes.free[1], part(0, 0, 0));
        nodes.give_back(&[(1, part(1, 4000, 3))]);
        assert_eq!(found(&nodes, &need(1, 3000, 3)), Some(1));
        // A plan keeps its cores from another beside it, where it keeps no whole nodes.
        let ends = vec![End { at: 100, on: vec![(1, part(3, 5000, 61))] }];
        let mut all = Planner { free: nodes, ends, whole_nodes: false, ..planner(&[], &[]) };
        let wide = need(2, 8000, 8);
        let (at, on) = all.earliest(&wide, 50).expect("a plan");
        assert_eq!((at, on.clone()), (100, vec![(1, part(2, 8000, 8))]));
        all.reserve(at, 50, &on);
        assert_eq!(all.earliest(&need(1, 3000, 3), 200).map(|(at, _)| at), Some(150));
        assert_eq!(all.earliest(&need(1, 2000, 3), 200).map(|(at, _)| at), Some(0));
    }

    #[test]
    fn a_gang_is_on_one_type_and_a_node_of_which_cores_are_unknown_has_plenty() {
        let mut nodes = planner(&[4, 4, 4, 4], &[]).free;
        nodes.types = vec![0, 1, 1, 0];
        let both = |count, gpus| Need { types: vec![0, 1], ..need(count, gpus) };
        assert_eq!(on(nodes.find(&both(2, 4), Place::First)), Some(vec![(0, 4), (3, 4)]));
        nodes.take(&[(0, Part::gpus(1))]);
        assert_eq!(on(nodes.find(&both(2, 4), Place::First)), Some(vec![(1, 4), (2, 4)]));
        assert_eq!(on(nodes.find(&both(3, 3), Place::First)), None);
        // Beside one with few cores.
        nodes.free[1].cpu = 3000;
        let with = Need { each: Part { cpu: 1000, ..Part::gpus(1) }, ..both(1, 1) };
        assert_eq!(on(nodes.find(&with, Place::Neighbours)), Some(vec![(1, 1)]));
    }

    #[test]
    fn plans_of_whole_nodes_keep_them_from_others() {
        // Both nodes are needed, and the second is free at 100.
        let mut all = planner(&[4, 1], &[(100, 1, 3)]);
        let (at, on) = all.earliest(&need(2, 4), 50).expect("a plan");
        assert_eq!((at, on.len()), (100, 2));
        all.reserve(at, 50, &on);
        // Until then a short job may be there; a long one is planned behind.
        assert_eq!(all.earliest(&need(1, 1), 100), Some((0, vec![(1, Part::gpus(1))])));
        assert_eq!(all.earliest(&need(1, 1), 101).map(|(at, _)| at), Some(150));
        // Where only GPUs are kept there is none beside four of four, either.
        all.whole_nodes = false;
        assert_eq!(all.earliest(&need(1, 1), 101).map(|(at, _)| at), Some(150));
    }

    #[test]
    fn plans_begin_at_multiples_of_the_resolution_and_last_longer() {
        let mut all = planner(&[0], &[(130_000_000, 0, 4)]);
        all.resolution = 60_000_000;
        let (at, on) = all.earliest(&need(1, 4), 60_000_000).expect("a plan");
        all.reserve(at, 60_000_000, &on);
        let kept: Vec<(u64, u64)> = all.plans.iter().map(|plan| (plan.from, plan.to)).collect();
        assert_eq!((at, kept), (130_000_000, vec![(120_000_000, 240_000_000)]));
    }
}
