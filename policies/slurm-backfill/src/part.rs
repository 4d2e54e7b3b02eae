//! Parts of nodes: what jobs ask for, what is free, and which nodes a job gets.

use std::ops::{AddAssign, SubAssign};

use sandtable_policy::{GpuTypeId, Job, Node};

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

    /// What a job without GPUs takes of its node.
    pub fn without_gpus(job: &Job) -> Part {
        Part { gpus: 0, ..Part::of_job(job, 1) }
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
    pub fn holds_beside(self, kept: Part, other: Part) -> bool {
        self.gpus >= kept.gpus + other.gpus
            && self.cpu >= kept.cpu + other.cpu
            && self.memory >= kept.memory + other.memory
    }

    /// What is left without another.
    pub fn less(self, other: Part) -> Part {
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
        if job.gpus == 0 {
            return Need { nodes: 1, each: Part::without_gpus(job), rest: Part::default(), types };
        }
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
    /// All of it; nothing: it is down, or left out.
    pub all: Vec<Part>,
    /// Their type.
    pub types: Vec<GpuTypeId>,
}

impl Nodes {
    /// Whether a job may run on a node.
    pub fn suits(&self, need: &Need, node: usize) -> bool {
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
        self.all.iter().any(|all| *all != Part::default())
    }

    /// Gives parts back, of nodes that are not left out.
    pub fn give_back(&mut self, on: &[(usize, Part)]) {
        on.iter()
            .filter(|(node, _)| self.all[*node] != Part::default())
            .for_each(|(node, part)| self.free[*node] += *part);
    }

    /// Takes parts.
    pub fn take(&mut self, on: &[(usize, Part)]) {
        on.iter().for_each(|(node, part)| self.free[*node] -= *part);
    }
}

/// Nodes for a job among those that suit it, of which so much is free, and what to take of each. A gang is on nodes of one type.
pub fn find(
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of four GPUs, of which so many are free.
    fn with_free(free: &[u32]) -> Nodes {
        let (all, types) = (vec![Part::bare(4); free.len()], vec![0; free.len()]);
        Nodes { free: free.iter().map(|gpus| Part::bare(*gpus)).collect(), all, types }
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
        let nodes = with_free(&[4, 2, 3]);
        assert_eq!(on(nodes.find(&need(1, 2), Place::Neighbours)), Some(vec![(1, 2)]));
        assert_eq!(on(nodes.find(&need(1, 2), Place::First)), Some(vec![(0, 2)]));
        assert_eq!(on(nodes.find(&need(2, 3), Place::Neighbours)), Some(vec![(0, 3), (2, 3)]));
        assert_eq!(on(nodes.find(&need(2, 4), Place::Neighbours)), None);
        let rest = Need { rest: Part::gpus(1), ..need(1, 4) };
        assert_eq!(on(nodes.find(&rest, Place::Neighbours)), Some(vec![(0, 4), (1, 1)]));
        // The row with the fewest free GPUs that is long enough, though a node of another has fewer; none is: the row with the most, the first of equals, and what is left.
        let nodes = with_free(&[2, 0, 3, 3, 0, 2, 2, 2]);
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
    }

    #[test]
    fn a_gang_is_on_one_type_and_a_node_of_which_cores_are_unknown_has_plenty() {
        let mut nodes = with_free(&[4, 4, 4, 4]);
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
}
