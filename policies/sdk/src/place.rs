//! Which GPUs a gang gets. A gang never mixes GPU types.

use std::rc::Rc;

use crate::node_set::NodeSet;
use crate::{Abilities, Ask, Cluster, GpuId, GpuTypeId, Job, Kind, NodeId, Param, rooms};

/// A rule of placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// Best fit on one node; where no node has room, the fewest nodes that have. Fails only for want of GPUs.
    Packed,
    /// The fewest nodes that could hold the gang, or not at all: best fit up to a node's size; beyond it, entirely
    /// free nodes, and the node with the most free GPUs after them for the remainder (Lucid's `consolidate`).
    Consolidate,
    /// Counts GPUs and ignores nodes: the lowest free ids (Tiresias' `count`).
    Count,
}

impl Placement {
    /// The words by which configurations name the rules.
    pub const WORDS: &'static [&'static str] = &["packed", "consolidate", "count", Placement::FASTEST];

    /// [`Placement::Packed`] on the type on which the job is fastest, of those with room. It needs `throughput`.
    pub const FASTEST: &'static str = "fastest";

    /// The parameter by which policies name the rule.
    pub const PARAM: Param = Param {
        name: "placement",
        kind: Kind::Choice(Placement::WORDS),
        default: "\"packed\"",
        about: "Which GPUs a gang gets: best fit, the fewest nodes or wait, any, or best fit on the type on which it is fastest (needs `throughput`).",
    };

    /// What placements found by these rules follow, demands and draining nodes: a part of what a policy that finds all of its placements so uses.
    pub fn follows() -> Abilities {
        Abilities::SHAPE | Abilities::HOST | Abilities::NEAR | Abilities::DRAIN | Abilities::PARTS
    }

    /// The rule of a word of [`Placement::WORDS`].
    pub fn named(word: &str) -> Placement {
        match word {
            "consolidate" => Placement::Consolidate,
            "count" => Placement::Count,
            _ => Placement::Packed,
        }
    }

    /// GPUs of one type for what is asked, ascending within a node; `None` where the rule finds no place
    /// now. A share or a part of a GPU goes where the least is left over, onto an empty one only if it must. A job that may not be preempted gets nodes
    /// that no owner may take back, where there is such a place.
    ///
    /// ```
    /// use sandtable_policy::testing::cluster;
    /// use sandtable_policy::{Ask, Placement};
    ///
    /// // Two idle nodes of 8 and 4 GPUs: the smaller one is the best fit for a gang of 4.
    /// let cluster = cluster(&[8, 4]);
    /// let ask = Ask::whole(4);
    /// assert_eq!(Placement::Packed.find(&cluster, 0, ask), Some(vec![8, 9, 10, 11]));
    /// assert_eq!(Placement::Count.find(&cluster, 0, ask), Some(vec![0, 1, 2, 3]));
    /// assert_eq!(Placement::Packed.find(&cluster, 0, Ask { gpus: 13, ..ask }), None);
    /// ```
    pub fn find(self, cluster: &Cluster, gpu_type: GpuTypeId, ask: Ask) -> Option<Vec<GpuId>> {
        cluster.own_first(ask, |own_only| self.find_on(cluster, gpu_type, ask, own_only))
    }

    /// The same on any nodes, or only on those that no owner may take back.
    fn find_on(self, cluster: &Cluster, gpu_type: GpuTypeId, ask: Ask, own_only: bool) -> Option<Vec<GpuId>> {
        let gpus = ask.gpus;
        if cluster.is_fraction(ask.share) && !ask.alone {
            let takes = |gpu| {
                let node = &cluster.nodes[cluster.node_of(gpu)];
                !(own_only && node.revocable)
                    && node.up
                    && rooms::most_gpus(node, ask, 1) == 1
                    && cluster.has_memory(gpu, ask.memory_mib)
            };
            if let Some(gpu) = cluster.residents.best_fit(gpu_type, ask, takes) {
                return Some(vec![gpu]);
            }
        }
        let pool = &cluster.pools[gpu_type as usize];
        if gpus == 0 || pool.free < gpus {
            return None;
        }
        if own_only || !ask.is_unbound() {
            return rooms::find(self, cluster, gpu_type, ask, own_only);
        }
        let mut found = Vec::with_capacity(gpus as usize);
        match self {
            Placement::Packed => packed(cluster, gpu_type, gpus, &mut found),
            Placement::Consolidate if gpus <= pool.node_size => {
                let node = best_fit(cluster, gpu_type, gpus)?;
                cluster.lowest_free(node, gpus, &mut found);
            }
            Placement::Consolidate => consolidate(cluster, gpu_type, gpus, &mut found)?,
            Placement::Count => {
                let mut left = gpus;
                for (index, node) in cluster.nodes.iter().enumerate() {
                    if node.up && node.gpu_type == gpu_type && node.free > 0 {
                        let take = left.min(node.free);
                        cluster.lowest_free(index as NodeId, take, &mut found);
                        left -= take;
                        if left == 0 {
                            break;
                        }
                    }
                }
            }
        }
        Some(found)
    }

    /// The first place among the types that a job allows.
    pub fn find_any(self, cluster: &Cluster, gpu_types: &[GpuTypeId], ask: Ask) -> Option<Vec<GpuId>> {
        let on = |own_only| gpu_types.iter().find_map(|gpu_type| self.find_on(cluster, *gpu_type, ask, own_only));
        cluster.own_first(ask, on)
    }
}

/// What jobs ask for that have found no place in a call: none that asks for the same finds one until GPUs are given back.
#[derive(Default)]
pub struct Shapes(Vec<(Ask, Rc<[GpuTypeId]>)>);

impl Shapes {
    /// A place for a job by a rule; none where one that asks for the same has found none.
    pub fn place(&mut self, rule: Placement, cluster: &Cluster, job: &Job) -> Option<Vec<GpuId>> {
        if self.0.iter().any(|(ask, types)| *ask == job.ask() && *types == job.gpu_types) {
            return None;
        }
        let found = rule.find_any(cluster, &job.gpu_types, job.ask());
        if found.is_none() {
            self.0.push((job.ask(), job.gpu_types.clone()));
        }
        found
    }
}

/// The node with the fewest free GPUs that fits; among those the lowest.
fn best_fit(cluster: &Cluster, gpu_type: GpuTypeId, gpus: u32) -> Option<NodeId> {
    let by_free = &cluster.pools[gpu_type as usize].by_free;
    by_free.get(gpus as usize..)?.iter().find_map(NodeSet::first)
}

fn packed(cluster: &Cluster, gpu_type: GpuTypeId, gpus: u32, found: &mut Vec<GpuId>) {
    if let Some(node) = best_fit(cluster, gpu_type, gpus) {
        cluster.lowest_free(node, gpus, found);
        return;
    }
    let by_free = &cluster.pools[gpu_type as usize].by_free;
    let mut left = gpus;
    let mut taken = Vec::new();
    for free in (1..by_free.len()).rev() {
        for node in by_free[free].iter() {
            if left <= free as u32 {
                // The last piece goes where it fits best among the nodes that are left.
                let mut fits = by_free[left as usize..=free].iter().flat_map(NodeSet::iter);
                let rest = fits.find(|node| !taken.contains(node));
                cluster.lowest_free(rest.unwrap_or(node), left, found);
                return;
            }
            cluster.lowest_free(node, free as u32, found);
            taken.push(node);
            left -= free as u32;
        }
    }
}

fn consolidate(cluster: &Cluster, gpu_type: GpuTypeId, gpus: u32, found: &mut Vec<GpuId>) -> Option<()> {
    let pool = &cluster.pools[gpu_type as usize];
    let size = pool.node_size;
    let (whole, rest) = ((gpus / size) as usize, gpus % size);
    let empty = &pool.by_free[size as usize];
    if empty.len() < whole {
        return None;
    }
    for node in empty.iter().take(whole) {
        cluster.lowest_free(node, size, found);
    }
    if rest > 0 {
        let next = empty.iter().nth(whole);
        let next = next.or_else(|| pool.by_free[..size as usize].iter().rev().find_map(NodeSet::first))?;
        if cluster.nodes[next as usize].free < rest {
            return None;
        }
        cluster.lowest_free(next, rest, found);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{arrivals, demand, topology};

    /// Nodes of four GPUs with so many of them free.
    fn cluster(free: &[u32]) -> Cluster {
        let topology = topology(&vec![4; free.len()]);
        let mut cluster = Cluster::new(&topology);
        // A free node has a job too, which never starts: ids are those of nodes.
        let (batch, new) = arrivals(free.iter().map(|free| demand(4 - free)).collect());
        cluster.take_in(&batch, new);
        for (index, free) in free.iter().enumerate().filter(|(_, free)| **free < 4) {
            let first = index as u32 * 4;
            cluster.start(index as u32, (first..first + 4 - free).collect());
        }
        cluster
    }

    fn ask(gpus: u32) -> Ask {
        Ask::whole(gpus)
    }

    #[test]
    fn packed_takes_the_tightest_node() {
        assert_eq!(Placement::Packed.find(&cluster(&[4, 2, 3]), 0, ask(2)), Some(vec![6, 7]));
        assert_eq!(Placement::Packed.find(&cluster(&[4, 1, 3]), 0, ask(2)), Some(vec![9, 10]));
    }

    #[test]
    fn packed_spreads_over_few_nodes_when_it_must() {
        assert_eq!(Placement::Packed.find(&cluster(&[2, 2, 3]), 0, ask(4)), Some(vec![9, 10, 11, 2]));
        assert_eq!(Placement::Packed.find(&cluster(&[1, 2, 3]), 0, ask(4)), Some(vec![9, 10, 11, 3]));
        assert_eq!(Placement::Packed.find(&cluster(&[4, 4, 1]), 0, ask(8)), Some((0..8).collect()));
        assert_eq!(Placement::Packed.find(&cluster(&[1, 2, 3]), 0, ask(7)), None);
    }

    #[test]
    fn what_may_not_be_preempted_gets_nodes_that_stay_where_it_can() {
        let mut topology = crate::testing::topology(&[2, 4, 4]);
        topology.nodes[0].revocable = Some(60_000_000);
        topology.nodes[1].revocable = Some(0);
        let mut cluster = Cluster::new(&topology);
        let (batch, new) = arrivals(vec![demand(3)]);
        cluster.take_in(&batch, new);
        let (loose, pinned) = (ask(2), Ask { pinned: true, ..ask(2) });
        for rule in [Placement::Packed, Placement::Consolidate, Placement::Count] {
            assert_eq!(rule.find(&cluster, 0, loose), Some(vec![0, 1]));
            assert_eq!(rule.find(&cluster, 0, pinned), Some(vec![6, 7]));
            // There is no such place for six.
            assert_eq!(rule.find(&cluster, 0, Ask { gpus: 6, ..pinned }), rule.find(&cluster, 0, ask(6)));
        }
        cluster.start(0, vec![6, 7, 8]);
        assert_eq!(Placement::Packed.find(&cluster, 0, pinned), Some(vec![0, 1]));
    }

    #[test]
    fn consolidate_waits_for_whole_nodes() {
        assert_eq!(Placement::Consolidate.find(&cluster(&[2, 2, 3]), 0, ask(4)), None);
        assert_eq!(Placement::Consolidate.find(&cluster(&[4, 2, 4]), 0, ask(6)), Some(vec![0, 1, 2, 3, 8, 9]));
        assert_eq!(Placement::Consolidate.find(&cluster(&[4, 2, 3]), 0, ask(6)), Some(vec![0, 1, 2, 3, 9, 10]));
        assert_eq!(Placement::Consolidate.find(&cluster(&[3, 2, 3]), 0, ask(6)), None);
    }

    #[test]
    fn count_ignores_nodes() {
        assert_eq!(Placement::Count.find(&cluster(&[1, 2, 3]), 0, ask(4)), Some(vec![3, 6, 7, 9]));
    }
}
