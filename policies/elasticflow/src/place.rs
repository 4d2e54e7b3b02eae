//! Which GPUs jobs get.

use sandtable_policy::GpuId;

/// GPUs of a node that jobs may have.
pub(crate) struct Node {
    pub(crate) gpus: Vec<GpuId>,
    /// GPUs of the whole node.
    pub(crate) size: u32,
}

/// Places of jobs of these sizes, largest first, on an empty cluster, as ElasticFlow's simulator has them: whole nodes in order; then those of half a
/// node, of a quarter and so on, each on a node whose free GPUs fit such jobs exactly (the one with the most free), else on the first of those that fit the
/// largest jobs. None where sizes and nodes are no powers of two, nodes differ, or GPUs are missing.
pub(crate) fn anew(sizes: &[u32], nodes: &[Node]) -> Option<Vec<Vec<GpuId>>> {
    let size = nodes.first()?.size;
    let regular = size.is_power_of_two()
        && sizes.iter().all(|gpus| gpus.is_power_of_two())
        && nodes.iter().all(|node| node.size == size && node.gpus.len() as u32 == size);
    if !regular || sizes.iter().sum::<u32>() > size * nodes.len() as u32 {
        return None;
    }
    let mut places: Vec<Vec<GpuId>> = vec![Vec::new(); sizes.len()];
    let mut used = vec![0u32; nodes.len()];
    // Nodes by the largest jobs that divide their free GPUs: index i is of jobs of 2^i GPUs.
    let mut classes: Vec<Vec<usize>> = vec![Vec::new(); size.ilog2() as usize + 1];
    let whole = size.ilog2() as usize;
    let mut next = 0;
    for (at, gpus) in sizes.iter().enumerate().filter(|(_, gpus)| **gpus >= size) {
        for _ in 0..gpus / size {
            places[at].extend_from_slice(&nodes[next].gpus);
            next += 1;
        }
    }
    classes[whole] = (next..nodes.len()).collect();
    for class in (0..whole).rev() {
        for (at, gpus) in sizes.iter().enumerate().filter(|(_, gpus)| **gpus == 1 << class) {
            let partly = || (class + 1..whole).rev().find(|of| !classes[*of].is_empty());
            let exactly = (!classes[class].is_empty()).then_some(class);
            let of = exactly.or_else(partly).or_else(|| (!classes[whole].is_empty()).then_some(whole))?;
            let least_used = || classes[of].iter().enumerate().min_by_key(|(index, node)| (used[**node], *index));
            let index = if of == class { least_used().map_or(0, |(index, _)| index) } else { 0 };
            let node = classes[of].remove(index);
            let from = used[node] as usize;
            places[at].extend_from_slice(&nodes[node].gpus[from..from + *gpus as usize]);
            used[node] += gpus;
            let free = size - used[node];
            if free > 0 {
                classes[free.trailing_zeros() as usize].push(node);
            }
        }
    }
    Some(places)
}

/// Places of jobs of these sizes, largest first, beside those that keep theirs: on the node that has the fewest GPUs free of those that hold the job, else on
/// those that have the most.
pub(crate) fn beside(sizes: &[u32], nodes: &[Node]) -> Vec<Vec<GpuId>> {
    let mut free: Vec<Vec<GpuId>> = nodes.iter().map(|node| node.gpus.iter().rev().copied().collect()).collect();
    let place = |gpus: &u32| {
        let mut want = *gpus as usize;
        let mut place = Vec::new();
        while want > 0 {
            let tightest =
                (0..free.len()).filter(|node| free[*node].len() >= want).min_by_key(|node| free[*node].len());
            let emptiest = || (0..free.len()).rev().max_by_key(|node| free[*node].len());
            let Some(node) = tightest.or_else(emptiest).filter(|node| !free[*node].is_empty()) else { break };
            let take = want.min(free[node].len());
            let rest = free[node].len() - take;
            place.extend(free[node].drain(rest..).rev());
            want -= take;
        }
        place
    };
    sizes.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: u32, size: u32) -> Vec<Node> {
        (0..count).map(|node| Node { gpus: (node * size..(node + 1) * size).collect(), size }).collect()
    }

    #[test]
    fn small_jobs_share_nodes_by_classes() {
        let firsts = |sizes: &[u32]| -> Vec<GpuId> {
            anew(sizes, &nodes(4, 8)).expect("places").iter().map(|place| place[0]).collect()
        };
        assert_eq!(firsts(&[16, 8, 4, 2, 2]), [0, 16, 24, 28, 30]);
        assert_eq!(firsts(&[16, 4, 4, 2, 1, 1]), [0, 16, 20, 24, 26, 27]);
        assert!(anew(&[3], &nodes(1, 8)).is_none());
        assert!(anew(&[8, 8], &nodes(1, 8)).is_none());
    }

    #[test]
    fn jobs_fill_the_tightest_node_and_else_spread_over_few() {
        let two = [Node { gpus: vec![1, 2, 3], size: 4 }, Node { gpus: vec![4, 5], size: 4 }];
        assert_eq!(beside(&[4, 1], &two), [vec![1, 2, 3, 4], vec![5]]);
        assert_eq!(beside(&[2], &two), [vec![4, 5]]);
    }
}
