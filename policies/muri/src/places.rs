//! Places on a fleet as if it were empty, by the rule of Tiresias' and Muri's simulators (`yarn`): a gang on the first node that has room for it; a larger one on
//! whole nodes, and the rest of it on the first other node that has room.

use std::collections::BTreeSet;

use sandtable_policy::{Cluster, GpuId, GpuTypeId, Job, NodeId};

/// GPUs that may be given away.
#[derive(Clone)]
pub struct Places {
    /// Of each node, ascending.
    free: Vec<Vec<GpuId>>,
    /// The most that a node of each type has.
    node_size: Vec<u32>,
    /// How many are left.
    left: u32,
}

impl Places {
    /// All GPUs of nodes that are up, but for those of jobs that keep theirs.
    pub fn empty(cluster: &Cluster, keeps: impl Fn(&Job) -> bool) -> Places {
        let kept: BTreeSet<GpuId> =
            cluster.holders().filter(|job| keeps(job)).flat_map(|job| job.held.clone()).collect();
        let mut node_size = vec![0; cluster.types()];
        let nodes = 0..cluster.node_count() as NodeId;
        let free: Vec<Vec<GpuId>> = nodes
            .map(|node| {
                let gpus = cluster.node_gpus(node);
                let size = &mut node_size[cluster.node_type(node) as usize];
                *size = (*size).max(gpus.len() as u32);
                if cluster.is_up(node) { gpus.filter(|gpu| !kept.contains(gpu)).collect() } else { Vec::new() }
            })
            .collect();
        let left = free.iter().map(|gpus| gpus.len() as u32).sum();
        Places { free, node_size, left }
    }

    /// How many GPUs of these types are left.
    pub fn left_of(&self, cluster: &Cluster, types: &[GpuTypeId]) -> u32 {
        let of_types = |(node, _): &(usize, &Vec<GpuId>)| types.contains(&cluster.node_type(*node as NodeId));
        self.free.iter().enumerate().filter(of_types).map(|(_, free)| free.len() as u32).sum()
    }

    /// Takes a place for so many GPUs of the first of these types that has one; returns them.
    pub fn take(&mut self, cluster: &Cluster, gpus: u32, types: &[GpuTypeId]) -> Option<Vec<GpuId>> {
        let found = types.iter().find_map(|gpu_type| self.find(cluster, gpus, *gpu_type))?;
        let mut taken = Vec::with_capacity(gpus as usize);
        for (node, count) in found {
            taken.extend(self.free[node].drain(..count));
        }
        self.left -= gpus;
        Some(taken)
    }

    /// Takes exactly these GPUs; returns whether all of them were there.
    pub fn take_these(&mut self, cluster: &Cluster, gpus: &[GpuId]) -> bool {
        let there = |gpu: &GpuId| self.free[cluster.node(*gpu) as usize].binary_search(gpu).is_ok();
        if !gpus.iter().all(there) {
            return false;
        }
        for gpu in gpus {
            self.free[cluster.node(*gpu) as usize].retain(|other| other != gpu);
        }
        self.left -= gpus.len() as u32;
        true
    }

    /// Nodes, and how many GPUs of each.
    fn find(&self, cluster: &Cluster, gpus: u32, gpu_type: GpuTypeId) -> Option<Vec<(usize, usize)>> {
        let size = self.node_size[gpu_type as usize];
        if gpus > self.left || size == 0 {
            return None;
        }
        let of_type = |(node, free): (usize, &Vec<GpuId>)| {
            (cluster.node_type(node as NodeId) == gpu_type).then_some((node, free.len() as u32))
        };
        let nodes = || self.free.iter().enumerate().filter_map(of_type);
        if gpus <= size {
            return nodes().find(|(_, free)| *free >= gpus).map(|(node, _)| vec![(node, gpus as usize)]);
        }
        let mut rest = gpus;
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (node, free) in nodes().filter(|(_, free)| *free > 0) {
            if free <= rest && free as usize == cluster.node_gpus(node as NodeId).len() {
                found.push((node, free as usize));
                rest -= free;
            }
        }
        // What is left is part of a node.
        if rest >= size {
            return None;
        }
        if rest > 0 {
            let other = |(node, free): &(usize, u32)| *free >= rest && found.iter().all(|(taken, _)| taken != node);
            let (node, _) = nodes().find(other)?;
            found.push((node, rest as usize));
        }
        Some(found)
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
        assert_eq!(all().take(&cluster, 16, &[0]), Some((0..16).collect()));
        assert_eq!(all().take(&cluster, 10, &[0]), Some((0..10).collect()));
        assert_eq!(all().take(&cluster, 17, &[0]), None);
    }

    #[test]
    fn gangs_get_the_first_node_with_room_and_whole_nodes() {
        let cluster = cluster(&[4, 4, 4]);
        let mut places = Places::empty(&cluster, |_| false);
        assert_eq!(places.take(&cluster, 3, &[0]), Some(vec![0, 1, 2]));
        assert_eq!(places.take(&cluster, 2, &[0]), Some(vec![4, 5]));
        assert_eq!(places.take(&cluster, 1, &[0]), Some(vec![3]));
        assert_eq!(places.clone().take(&cluster, 6, &[0]), Some(vec![8, 9, 10, 11, 6, 7]));
        assert_eq!(places.take(&cluster, 7, &[0]), None);
        assert!(places.take_these(&cluster, &[6, 9]) && !places.take_these(&cluster, &[9]));
        assert_eq!((places.left_of(&cluster, &[0]), places.take(&cluster, 4, &[0])), (4, None));
    }
}
