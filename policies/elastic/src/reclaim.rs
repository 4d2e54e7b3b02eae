//! Where inference tasks get idle GPUs, and which training jobs lose theirs where none is idle.

use sandtable_policy::{Draws, NodeId};

use crate::place::nodes_of;
use crate::rules::Reclaim;

/// A training job, and what it would lose.
pub struct Victim<'a> {
    /// Its GPUs, by node.
    pub list: Vec<NodeId>,
    /// Its speedup on so many nodes with so many GPUs.
    pub speedup: Box<dyn FnMut(u32, u32) -> f64 + 'a>,
}

/// Where a task goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An idle GPU of the node.
    Empty(NodeId),
    /// The GPU of the sleeping pod of this index.
    Evicts(usize),
    /// A GPU of the node that a job gave up.
    Taken(NodeId),
}

/// The sum in NumPy's order, pairwise: which of equal totals is the greater, rounding decides.
fn sum(values: &[f64]) -> f64 {
    let one_by_one = |from: f64, values: &[f64]| values.iter().fold(from, |sum, value| sum + value);
    match values.len() {
        ..8 => one_by_one(0.0, values),
        8..=128 => {
            let (whole, rest) = values.as_chunks::<8>();
            let mut r = whole[0];
            for chunk in &whole[1..] {
                r.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += value);
            }
            one_by_one(((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7])), rest)
        }
        all => {
            let half = all / 2;
            let (a, b) = values.split_at(half - half % 8);
            sum(a) + sum(b)
        }
    }
}

/// The cluster while GPUs are given to tasks.
pub struct Deal<'a, 'b> {
    /// Idle GPUs of each node, those of sleeping pods not included; 0 where tasks may not go.
    pub empty: Vec<u32>,
    /// Node of each sleeping pod; none: gone, or out of reach.
    pub sleeping: Vec<Option<NodeId>>,
    /// Training jobs in their order.
    pub victims: &'a mut [Victim<'b>],
    /// Whether tasks may take training jobs' GPUs there, by node.
    pub reach: Vec<bool>,
    /// Whether the node belongs to the inference pool.
    pub lent: Vec<bool>,
    /// Whether a job's last GPU is taken only where there is no other.
    pub guard: bool,
    /// Where nothing is weighed: by the order of nodes and jobs (DeepBoot's simulator), not drawn.
    pub in_order: bool,
}

impl Deal<'_, '_> {
    fn training(&self, node: usize) -> usize {
        self.victims.iter().flat_map(|victim| &victim.list).filter(|at| **at as usize == node).count()
    }

    /// Nodes by the GPUs that train there, the fewest first.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.empty.len()).collect();
        order.sort_by_key(|node| self.training(*node));
        order
    }

    fn take_empty(&mut self, node: usize) -> Place {
        self.empty[node] -= 1;
        Place::Empty(node as NodeId)
    }

    fn evict(&mut self, pod: usize) -> Place {
        self.sleeping[pod] = None;
        Place::Evicts(pod)
    }

    fn sleeper(&self, node: usize) -> Option<usize> {
        self.sleeping.iter().position(|at| at.map(|at| at as usize) == Some(node))
    }

    /// Places for so many tasks, in their order, as far as there are any.
    pub fn places(&mut self, tasks: usize, how: Reclaim, draws: &mut Draws) -> Vec<Place> {
        match how {
            Reclaim::LeastLoss => self.by_loss(tasks),
            Reclaim::Random if self.in_order => self.first_found(tasks),
            Reclaim::Random => self.at_random(tasks, draws),
            Reclaim::Node => self.by_node(tasks),
            Reclaim::Never => self.idle(tasks),
        }
    }

    /// Empty GPUs first, then those of sleeping pods.
    fn idle(&mut self, tasks: usize) -> Vec<Place> {
        let order = self.order();
        let mut places = Vec::new();
        for node in &order {
            while places.len() < tasks && self.empty[*node] > 0 {
                places.push(self.take_empty(*node));
            }
        }
        for node in &order {
            while places.len() < tasks
                && let Some(pod) = self.sleeper(*node)
            {
                places.push(self.evict(pod));
            }
        }
        places
    }

    /// Removes all training from the node; returns the number of GPUs that this frees.
    fn clear(&mut self, node: usize) -> u32 {
        let gpus = self.training(node) as u32;
        self.victims.iter_mut().for_each(|victim| victim.list.retain(|at| *at as usize != node));
        gpus
    }

    /// What a removal leaves: the job's list without one GPU of the node.
    fn without(list: &[NodeId], node: NodeId) -> Vec<NodeId> {
        let mut rest = list.to_vec();
        if let Some(at) = rest.iter().position(|other| *other == node) {
            rest.remove(at);
        }
        rest
    }

    /// Idle GPUs, then the replica whose loss costs the least speedup of all jobs together; of equals the first (ATS-I).
    fn by_loss(&mut self, tasks: usize) -> Vec<Place> {
        let mut places = self.idle(tasks);
        let speedup = |victim: &mut Victim<'_>, list: &[NodeId]| match list.is_empty() {
            true => 0.0,
            false => (victim.speedup)(nodes_of(list), list.len() as u32),
        };
        let mut present: Vec<f64> = Vec::new();
        if places.len() < tasks {
            for victim in self.victims.iter_mut() {
                let list = victim.list.clone();
                present.push(speedup(victim, &list));
            }
        }
        while places.len() < tasks {
            // (a last GPU, total speedup, job, node)
            let mut best: Option<(bool, f64, usize, NodeId)> = None;
            for job in 0..self.victims.len() {
                let mut nodes = self.victims[job].list.clone();
                nodes.sort_unstable();
                nodes.dedup();
                for node in nodes.into_iter().filter(|node| self.reach[*node as usize]) {
                    let rest = Self::without(&self.victims[job].list, node);
                    let last = self.guard && rest.is_empty();
                    let after = speedup(&mut self.victims[job], &rest);
                    let own = std::mem::replace(&mut present[job], after);
                    let total = sum(&present);
                    present[job] = own;
                    let better = |(was_last, most, ..): &(bool, f64, usize, NodeId)| {
                        (*was_last && !last) || (*was_last == last && total > *most)
                    };
                    if best.as_ref().is_none_or(better) {
                        best = Some((last, total, job, node));
                    }
                }
            }
            let Some((_, _, job, node)) = best else { break };
            self.victims[job].list = Self::without(&self.victims[job].list, node);
            let rest = self.victims[job].list.clone();
            present[job] = speedup(&mut self.victims[job], &rest);
            places.push(Place::Taken(node));
        }
        places
    }

    /// Idle GPUs, then those of a job drawn from all that could lose one.
    fn at_random(&mut self, tasks: usize, draws: &mut Draws) -> Vec<Place> {
        let mut places = self.idle(tasks);
        while places.len() < tasks {
            let nodes_of_victim = |(job, victim): (usize, &Victim<'_>)| {
                let reach = &self.reach;
                let list: Vec<NodeId> = victim.list.iter().copied().filter(|node| reach[*node as usize]).collect();
                list.into_iter().map(move |node| (job, node))
            };
            let mut all: Vec<(usize, NodeId)> = self.victims.iter().enumerate().flat_map(nodes_of_victim).collect();
            if self.guard && all.iter().any(|(job, _)| self.victims[*job].list.len() > 1) {
                all.retain(|(job, _)| self.victims[*job].list.len() > 1);
            }
            if all.is_empty() {
                break;
            }
            let (job, node) = all[draws.below(all.len())];
            self.victims[job].list = Self::without(&self.victims[job].list, node);
            places.push(Place::Taken(node));
        }
        places
    }

    /// What DeepBoot's simulator calls random: the first GPUs by node that hold no task. Of the jobs that train there the
    /// first keep theirs; sleeping pods come after them.
    fn first_found(&mut self, tasks: usize) -> Vec<Place> {
        let mut places = Vec::new();
        for node in 0..self.empty.len() {
            let asleep = self.sleeping.iter().filter(|at| at.map(|at| at as usize) == Some(node)).count();
            let mut gpus = self.training(node) + asleep + self.empty[node] as usize;
            if !self.reach[node] {
                continue;
            }
            while gpus > 0 && places.len() < tasks {
                gpus -= 1;
                if self.empty[node] > 0 {
                    places.push(self.take_empty(node));
                } else if let Some(pod) = self.last_sleeper(node) {
                    places.push(self.evict(pod));
                } else {
                    let victims = self.victims.iter_mut().rev();
                    let Some(victim) = { victims }.find(|victim| victim.list.contains(&(node as NodeId))) else {
                        break;
                    };
                    let at = victim.list.iter().rposition(|at| *at as usize == node).unwrap_or_default();
                    victim.list.remove(at);
                    places.push(Place::Taken(node as NodeId));
                }
            }
        }
        places
    }

    fn last_sleeper(&self, node: usize) -> Option<usize> {
        self.sleeping.iter().rposition(|at| at.map(|at| at as usize) == Some(node))
    }

    /// Idle GPUs on nodes of the inference pool, and those of sleeping pods; then whole nodes: all jobs that train on the
    /// node with the fewest training GPUs leave it (Aryl, EuroSys 2023, as DeepBoot's simulator has it).
    fn by_node(&mut self, tasks: usize) -> Vec<Place> {
        let mut places = Vec::new();
        let lent: Vec<usize> = (0..self.empty.len()).filter(|node| self.lent[*node]).collect();
        for node in &lent {
            while places.len() < tasks && self.empty[*node] > 0 {
                self.empty[*node] -= 1;
                places.push(Place::Empty(*node as NodeId));
                // The jobs that train there leave, and the next task may take those GPUs too.
                self.empty[*node] += self.clear(*node);
            }
        }
        for node in &lent {
            while places.len() < tasks
                && let Some(pod) = self.sleeper(*node)
            {
                places.push(self.evict(pod));
            }
        }
        while places.len() < tasks {
            let trains = |node: &usize| self.lent[*node] && self.reach[*node] && self.training(*node) > 0;
            let Some(node) = self.order().into_iter().find(trains) else { break };
            let gpus = self.clear(node) as usize;
            let taken = (0..gpus.min(tasks - places.len())).map(|_| Place::Taken(node as NodeId));
            places.extend(taken);
        }
        places
    }
}
