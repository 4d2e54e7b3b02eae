//! Places on a fleet as if it were empty, by the rule of Tiresias' and Muri's simulators (`yarn`): a gang on the first node that has room for it; a larger one on
//! whole nodes, and the rest of it on the first other node that has room.

use std::collections::BTreeSet;

use sandtable_policy::{Cluster, GpuId, GpuTypeId, Job, NodeId};

/// GPUs that may be given away.
#[derive(Clone)]
pub struct Places {
    /// By node, ascending.
    gpus: Vec<GpuId>,
    nodes: Vec<Node>,
    types: Vec<Type>,
    /// How many are left.
    left: u32,
    /// Nodes of the place that was found last, and how many GPUs of each.
    found: Vec<(usize, u32)>,
}

/// What is left of a node: a part of [`Places::gpus`].
#[derive(Clone, Copy)]
struct Node {
    of_type: GpuTypeId,
    /// GPUs that it has at all.
    size: u32,
    first: u32,
    free: u32,
}

#[derive(Clone)]
struct Type {
    /// The most GPUs that one of its nodes has.
    node_size: u32,
    /// By size of a gang: the first node that may have room for one. Nodes only lose GPUs, so that none before it will.
    may_have_room: Vec<u32>,
}

impl Places {
    /// All GPUs of nodes that are up, but for those of jobs that keep theirs.
    pub fn empty(cluster: &Cluster, keeps: impl Fn(&Job) -> bool) -> Places {
        let kept: BTreeSet<GpuId> =
            cluster.holders().filter(|job| keeps(job)).flat_map(|job| job.held.clone()).collect();
        let mut node_size = vec![0; cluster.types()];
        let (mut gpus, mut nodes) = (Vec::new(), Vec::with_capacity(cluster.node_count()));
        for node in 0..cluster.node_count() as NodeId {
            let (all, of_type, first) = (cluster.node_gpus(node), cluster.node_type(node), gpus.len() as u32);
            let size = all.len() as u32;
            node_size[of_type as usize] = size.max(node_size[of_type as usize]);
            if cluster.is_up(node) {
                gpus.extend(all.filter(|gpu| !kept.contains(gpu)));
            }
            nodes.push(Node { of_type, size, first, free: gpus.len() as u32 - first });
        }
        let of_type = |node_size: u32| Type { node_size, may_have_room: vec![0; node_size as usize + 1] };
        let left = gpus.len() as u32;
        Places { gpus, nodes, types: node_size.into_iter().map(of_type).collect(), left, found: Vec::new() }
    }

    /// How many GPUs of these types are left.
    pub fn left_of(&self, types: &[GpuTypeId]) -> u32 {
        self.nodes.iter().filter(|node| types.contains(&node.of_type)).map(|node| node.free).sum()
    }

    /// Takes a place for so many GPUs of the first of these types that has one; returns them.
    pub fn take(&mut self, gpus: u32, types: &[GpuTypeId]) -> Option<Vec<GpuId>> {
        let mut taken = Vec::new();
        self.find_and_take(gpus, types, |gpus| taken.extend_from_slice(gpus)).then_some(taken)
    }

    /// As [`Places::take`]; returns whether there was one.
    pub fn reserve(&mut self, gpus: u32, types: &[GpuTypeId]) -> bool {
        self.find_and_take(gpus, types, |_| ())
    }

    fn find_and_take(&mut self, gpus: u32, types: &[GpuTypeId], mut hand_on: impl FnMut(&[GpuId])) -> bool {
        if !types.iter().any(|gpu_type| self.find(gpus, *gpu_type)) {
            return false;
        }
        for (node, count) in &self.found {
            let node = &mut self.nodes[*node];
            hand_on(&self.gpus[node.first as usize..(node.first + count) as usize]);
            (node.first, node.free) = (node.first + count, node.free - count);
        }
        self.left -= gpus;
        true
    }

    /// Takes exactly these GPUs; returns whether all of them were there.
    pub fn take_these(&mut self, cluster: &Cluster, gpus: &[GpuId]) -> bool {
        let are_there = self.has(cluster, gpus);
        if are_there {
            self.remove(cluster, gpus);
        }
        are_there
    }

    /// Whether all of these GPUs are there.
    pub fn has(&self, cluster: &Cluster, gpus: &[GpuId]) -> bool {
        gpus.iter().all(|gpu| self.free_of(cluster.node(*gpu) as usize).binary_search(gpu).is_ok())
    }

    /// Removes those of these GPUs that are there.
    pub fn remove(&mut self, cluster: &Cluster, gpus: &[GpuId]) {
        for gpu in gpus {
            let node = &mut self.nodes[cluster.node(*gpu) as usize];
            let free = &mut self.gpus[node.first as usize..(node.first + node.free) as usize];
            let Ok(at) = free.binary_search(gpu) else { continue };
            free.copy_within(at + 1.., at);
            node.free -= 1;
            self.left -= 1;
        }
    }

    /// A place for so many GPUs of the first of these types that has one, with as few as can be that are not among the `open` ones.
    pub fn least_wanted(&self, open: &Places, gpus: u32, types: &[GpuTypeId]) -> Option<Vec<GpuId>> {
        types.iter().find_map(|gpu_type| {
            let size = self.types[*gpu_type as usize].node_size;
            // How many of each node that are wanted a gang would need.
            let displaced = |at: usize, gpus: u32| gpus.saturating_sub(open.nodes[at].free);
            let of_type = |(_, node): &(usize, &Node)| node.of_type == *gpu_type;
            let nodes = || self.nodes.iter().enumerate().filter(of_type);
            let (mut taken, mut rest): (Vec<(usize, u32)>, u32) = (Vec::new(), gpus);
            if gpus > size {
                let mut whole: Vec<(usize, u32)> =
                    nodes().filter(|(_, node)| node.free == node.size).map(|(at, node)| (at, node.free)).collect();
                whole.sort_by_key(|(at, free)| displaced(*at, *free));
                for (at, free) in whole.into_iter().filter(|(_, free)| *free > 0) {
                    if free <= rest {
                        taken.push((at, free));
                        rest -= free;
                    }
                }
            }
            if rest > 0 {
                let others =
                    nodes().filter(|(at, node)| node.free >= rest && taken.iter().all(|(taken, _)| taken != at));
                taken.push((others.min_by_key(|(at, _)| displaced(*at, rest))?.0, rest));
            }
            let of_node = |(at, count): (usize, u32)| {
                let (free, open) = (self.free_of(at), open.free_of(at));
                let wanted = free.iter().filter(|gpu| open.binary_search(gpu).is_err());
                let mut gpus: Vec<GpuId> = open.iter().chain(wanted).take(count as usize).copied().collect();
                gpus.sort_unstable();
                gpus
            };
            Some(taken.into_iter().flat_map(of_node).collect())
        })
    }

    fn free_of(&self, node: usize) -> &[GpuId] {
        let node = &self.nodes[node];
        &self.gpus[node.first as usize..(node.first + node.free) as usize]
    }

    /// Finds a place, if there is one: `found` has it then.
    fn find(&mut self, gpus: u32, gpu_type: GpuTypeId) -> bool {
        self.found.clear();
        let of = &mut self.types[gpu_type as usize];
        let size = of.node_size;
        if gpus > self.left || size == 0 {
            return false;
        }
        if gpus <= size {
            let from = &mut of.may_have_room[gpus as usize];
            let has_room = |node: &Node| node.of_type == gpu_type && node.free >= gpus;
            let skipped = self.nodes[*from as usize..].iter().take_while(|node| !has_room(node)).count();
            *from += skipped as u32;
            self.found.extend(((*from as usize) < self.nodes.len()).then_some((*from as usize, gpus)));
            return !self.found.is_empty();
        }
        let nodes = || self.nodes.iter().enumerate().filter(|(_, node)| node.of_type == gpu_type);
        let mut rest = gpus;
        for (at, node) in nodes().filter(|(_, node)| node.free > 0) {
            if node.free <= rest && node.free == node.size {
                self.found.push((at, node.free));
                rest -= node.free;
            }
        }
        // What is left is part of a node.
        if rest >= size {
            return false;
        }
        if rest > 0 {
            let is_taken = |at: usize| self.found.iter().any(|(taken, _)| *taken == at);
            let other = nodes().find(|(at, node)| node.free >= rest && !is_taken(*at)).map(|(at, _)| at);
            self.found.extend(other.map(|at| (at, rest)));
            return other.is_some();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use sandtable_policy::testing::cluster;

    use super::Places;

    #[test]
    fn nodes_of_one_type_may_differ() {
        let cluster = cluster(&[8, 4, 4]);
        let all = || Places::empty(&cluster, |_| false);
        assert_eq!(all().take(16, &[0]), Some((0..16).collect()));
        assert_eq!(all().take(10, &[0]), Some((0..10).collect()));
        assert_eq!(all().take(17, &[0]), None);
    }

    #[test]
    fn gangs_get_the_first_node_with_room_and_whole_nodes() {
        let cluster = cluster(&[4, 4, 4]);
        let mut places = Places::empty(&cluster, |_| false);
        assert_eq!(places.take(3, &[0]), Some(vec![0, 1, 2]));
        assert_eq!(places.take(2, &[0]), Some(vec![4, 5]));
        assert_eq!(places.take(1, &[0]), Some(vec![3]));
        assert_eq!(places.clone().take(6, &[0]), Some(vec![8, 9, 10, 11, 6, 7]));
        assert_eq!(places.take(7, &[0]), None);
        assert!(places.take_these(&cluster, &[6, 9]) && !places.take_these(&cluster, &[9]));
        assert_eq!((places.left_of(&[0]), places.take(4, &[0])), (4, None));
    }

    #[test]
    fn a_gang_takes_the_place_that_the_fewest_gpus_are_wanted_of() {
        let cluster = cluster(&[4, 4, 4, 2]);
        let places = Places::empty(&cluster, |_| false);
        let mut open = places.clone();
        open.remove(&cluster, &[0, 1, 6, 8, 9, 11]);
        assert_eq!(places.least_wanted(&open, 4, &[0]), Some(vec![4, 5, 6, 7]));
        // Whole nodes, and the two that are open of another.
        assert_eq!(places.least_wanted(&open, 6, &[0]), Some(vec![12, 13, 4, 5, 6, 7]));
        assert_eq!(places.least_wanted(&open, 3, &[0]), Some(vec![4, 5, 7]));
        assert_eq!(places.least_wanted(&open, 15, &[0]), None);
    }
}
