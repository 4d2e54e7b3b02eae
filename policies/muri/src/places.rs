//! Places on a fleet as if it were empty, by the rule of Tiresias' and Muri's simulators (`yarn`): a gang on the first node that has room for it; a larger one on
//! whole nodes, and the rest of it on the first other node that has room.

use std::collections::BTreeSet;

use sandtable_policy::{Cluster, GpuId, GpuTypeId, NodeId};

/// How many GPUs of each node may be given away.
#[derive(Clone)]
pub struct Rooms {
    nodes: Vec<Node>,
    types: Vec<Type>,
    /// How many are left.
    left: u32,
    /// Nodes of the place that was found last, and how many GPUs of each.
    found: Vec<(usize, u32)>,
}

#[derive(Clone, Copy)]
struct Node {
    of_type: GpuTypeId,
    /// GPUs that it has at all, from the first on.
    size: u32,
    first: GpuId,
    /// How many are left of it.
    free: u32,
}

#[derive(Clone)]
struct Type {
    /// The most GPUs that one of its nodes has.
    node_size: u32,
    /// By size of a gang: the first node that may have room for one. Nodes only lose GPUs, so that none before it will.
    may_have_room: Vec<u32>,
}

/// GPUs that may be given away.
#[derive(Clone)]
pub struct Places {
    rooms: Rooms,
    /// A bit of each GPU, by id.
    free: Vec<u64>,
}

impl Places {
    /// All GPUs of nodes that are up, but for these.
    pub fn all_but(cluster: &Cluster, kept: &BTreeSet<&[GpuId]>) -> Places {
        let mut node_size = vec![0; cluster.types()];
        let (mut free, mut nodes) = (Vec::new(), Vec::with_capacity(cluster.node_count()));
        for node in 0..cluster.node_count() as NodeId {
            let (all, of_type) = (cluster.node_gpus(node), cluster.node_type(node));
            let (first, size) = (all.start, all.len() as u32);
            node_size[of_type as usize] = size.max(node_size[of_type as usize]);
            free.resize(all.end.div_ceil(64) as usize, 0u64);
            let there = if cluster.is_up(node) { size } else { 0 };
            all.take(there as usize).for_each(|gpu| free[gpu as usize / 64] |= 1 << (gpu % 64));
            nodes.push(Node { of_type, size, first, free: there });
        }
        let of_type = |node_size: u32| Type { node_size, may_have_room: vec![0; node_size as usize + 1] };
        let (types, left) = (node_size.into_iter().map(of_type).collect(), nodes.iter().map(|node| node.free).sum());
        let mut places = Places { rooms: Rooms { nodes, types, left, found: Vec::new() }, free };
        kept.iter().for_each(|gpus| places.remove(cluster, gpus));
        places
    }

    /// How many there are on each node.
    pub fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    /// Takes a place for so many GPUs of the first of these types that has one; returns them.
    pub fn take(&mut self, gpus: u32, types: &[GpuTypeId]) -> Option<Vec<GpuId>> {
        if !self.rooms.reserve(gpus, types) {
            return None;
        }
        let mut taken = Vec::with_capacity(gpus as usize);
        for (node, count) in &self.rooms.found {
            let from = taken.len();
            taken.extend(free_of(&self.free, &self.rooms.nodes[*node]).take(*count as usize));
            taken[from..].iter().for_each(|gpu| self.free[*gpu as usize / 64] &= !(1 << (gpu % 64)));
        }
        Some(taken)
    }

    /// Takes exactly these GPUs; returns whether all of them were there.
    pub fn take_these(&mut self, cluster: &Cluster, gpus: &[GpuId]) -> bool {
        let are_there = self.has(gpus);
        if are_there {
            self.remove(cluster, gpus);
        }
        are_there
    }

    fn is_there(&self, gpu: GpuId) -> bool {
        self.free[gpu as usize / 64] >> (gpu % 64) & 1 == 1
    }

    /// Whether all of these GPUs are there.
    pub fn has(&self, gpus: &[GpuId]) -> bool {
        gpus.iter().all(|gpu| self.is_there(*gpu))
    }

    /// Removes those of these GPUs that are there.
    pub fn remove(&mut self, cluster: &Cluster, gpus: &[GpuId]) {
        for gpu in gpus {
            if self.is_there(*gpu) {
                self.free[*gpu as usize / 64] &= !(1 << (gpu % 64));
                self.rooms.nodes[cluster.node(*gpu) as usize].free -= 1;
                self.rooms.left -= 1;
            }
        }
    }

    /// A place for so many GPUs of the first of these types that has one, with as few as can be that are not among the `open` ones.
    pub fn least_wanted(&self, open: &Places, gpus: u32, types: &[GpuTypeId]) -> Option<Vec<GpuId>> {
        types.iter().find_map(|gpu_type| {
            let size = self.rooms.types[*gpu_type as usize].node_size;
            // How many of each node that are wanted a gang would need.
            let displaced = |at: usize, gpus: u32| gpus.saturating_sub(open.rooms.nodes[at].free);
            let of_type = |(_, node): &(usize, &Node)| node.of_type == *gpu_type;
            let nodes = || self.rooms.nodes.iter().enumerate().filter(of_type);
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
                let wanted = self.free_of(at).filter(|gpu| !open.is_there(*gpu));
                let mut gpus: Vec<GpuId> = open.free_of(at).chain(wanted).take(count as usize).collect();
                gpus.sort_unstable();
                gpus
            };
            Some(taken.into_iter().flat_map(of_node).collect())
        })
    }

    fn free_of(&self, node: usize) -> impl Iterator<Item = GpuId> {
        free_of(&self.free, &self.rooms.nodes[node])
    }
}

/// GPUs of a node that have a bit, ascending.
fn free_of(free: &[u64], node: &Node) -> impl Iterator<Item = GpuId> {
    let (from, to) = (node.first, node.first + node.size);
    (from / 64..to.div_ceil(64)).flat_map(move |word| {
        let (first, last) = (from.max(word * 64), to.min(word * 64 + 64));
        let mut bits = free[word as usize] & u64::MAX << (first % 64) & u64::MAX >> (word * 64 + 64 - last);
        std::iter::from_fn(move || {
            let bit = bits.trailing_zeros();
            (bit < 64).then(|| {
                bits &= bits - 1;
                word * 64 + bit
            })
        })
    })
}

impl Rooms {
    /// How many GPUs of these types are left.
    pub fn left_of(&self, types: &[GpuTypeId]) -> u32 {
        self.nodes.iter().filter(|node| types.contains(&node.of_type)).map(|node| node.free).sum()
    }

    /// Takes room for so many GPUs of the first of these types that has it; returns whether there was any.
    pub fn reserve(&mut self, gpus: u32, types: &[GpuTypeId]) -> bool {
        let is_there = gpus <= self.left && types.iter().any(|gpu_type| self.reserve_of(gpus, *gpu_type));
        self.left -= if is_there { gpus } else { 0 };
        is_there
    }

    /// Takes room of a type, if there is any: `found` says where.
    fn reserve_of(&mut self, gpus: u32, gpu_type: GpuTypeId) -> bool {
        self.found.clear();
        let of = &mut self.types[gpu_type as usize];
        let size = of.node_size;
        if size == 0 {
            return false;
        }
        if gpus <= size {
            let from = &mut of.may_have_room[gpus as usize];
            while let Some(node) = self.nodes.get_mut(*from as usize) {
                if node.of_type == gpu_type && node.free >= gpus {
                    node.free -= gpus;
                    self.found.push((*from as usize, gpus));
                    return true;
                }
                *from += 1;
            }
            return false;
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
            let Some(other) = other else { return false };
            self.found.push((other, rest));
        }
        self.found.iter().for_each(|(node, count)| self.nodes[*node].free -= count);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sandtable_policy::testing::cluster;

    use super::Places;

    #[test]
    fn nodes_of_one_type_may_differ() {
        let cluster = cluster(&[8, 4, 4]);
        let all = || Places::all_but(&cluster, &BTreeSet::new());
        assert_eq!(all().take(16, &[0]), Some((0..16).collect()));
        assert_eq!(all().take(10, &[0]), Some((0..10).collect()));
        assert_eq!(all().take(17, &[0]), None);
    }

    #[test]
    fn gangs_get_the_first_node_with_room_and_whole_nodes() {
        let cluster = cluster(&[4, 4, 4]);
        let mut places = Places::all_but(&cluster, &BTreeSet::new());
        assert_eq!(places.take(3, &[0]), Some(vec![0, 1, 2]));
        assert_eq!(places.take(2, &[0]), Some(vec![4, 5]));
        assert_eq!(places.take(1, &[0]), Some(vec![3]));
        assert_eq!(places.clone().take(6, &[0]), Some(vec![8, 9, 10, 11, 6, 7]));
        assert_eq!(places.take(7, &[0]), None);
        assert!(places.take_these(&cluster, &[6, 9]) && !places.take_these(&cluster, &[9]));
        assert_eq!((places.rooms().left_of(&[0]), places.take(4, &[0])), (4, None));
    }

    #[test]
    fn a_gang_takes_the_place_that_the_fewest_gpus_are_wanted_of() {
        let cluster = cluster(&[4, 4, 4, 2]);
        let places = Places::all_but(&cluster, &BTreeSet::new());
        let mut open = places.clone();
        open.remove(&cluster, &[0, 1, 6, 8, 9, 11]);
        assert_eq!(places.least_wanted(&open, 4, &[0]), Some(vec![4, 5, 6, 7]));
        // Whole nodes, and the two that are open of another.
        assert_eq!(places.least_wanted(&open, 6, &[0]), Some(vec![12, 13, 4, 5, 6, 7]));
        assert_eq!(places.least_wanted(&open, 3, &[0]), Some(vec![4, 5, 7]));
        assert_eq!(places.least_wanted(&open, 15, &[0]), None);
    }
}
