//! Lists of nodes for counts of GPUs: one entry a GPU, in the order of the ring.

use sandtable_policy::NodeId;

/// Where gangs go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pack {
    /// Whole on the node with the least free GPUs that has enough; else all that the node with the most has, and on
    /// (DeepBoot's simulator).
    BestFit,
    /// From the node with the most free GPUs, and on (Pollux' simulator).
    MostFree,
}

/// The node of which to take GPUs next, and how many.
fn next(free: &[u32], missing: u32, pack: Pack) -> Option<(usize, u32)> {
    let first = |found: Option<(usize, u32)>, (node, free): (usize, u32), better: fn(u32, u32) -> bool| match found {
        Some((_, best)) if !better(free, best) => found,
        _ => Some((node, free)),
    };
    let with_room = || free.iter().copied().enumerate().filter(|(_, free)| *free > 0);
    if pack == Pack::BestFit {
        let fits = with_room().filter(|(_, free)| *free >= missing);
        if let Some((node, _)) = fits.fold(None, |found, at| first(found, at, |a, b| a < b)) {
            return Some((node, missing));
        }
    }
    let (node, most) = with_room().fold(None, |found, at| first(found, at, |a, b| a > b))?;
    Some((node, most.min(missing)))
}

/// Nodes for so many GPUs, which must be free.
pub fn take(free: &mut [u32], gpus: u32, pack: Pack) -> Vec<NodeId> {
    let mut nodes = Vec::with_capacity(gpus as usize);
    let mut missing = gpus;
    while missing > 0
        && let Some((node, count)) = next(free, missing, pack)
    {
        free[node] -= count;
        missing -= count;
        nodes.extend((0..count).map(|_| node as NodeId));
    }
    nodes
}

/// Lists of nodes for counts of GPUs: a job with as many as before keeps its own; the others follow in their order. `free`
/// is what all of them may have together.
pub fn keep_or_take(free: &mut [u32], counts: &[u32], before: &[&[NodeId]], pack: Pack) -> Vec<Vec<NodeId>> {
    let mut lists = vec![Vec::new(); counts.len()];
    let mut others: Vec<usize> = Vec::new();
    for (job, count) in counts.iter().enumerate() {
        if *count == 0 {
            continue;
        }
        let own = before[job];
        let fits = own.len() == *count as usize && own.iter().all(|node| free[*node as usize] > 0);
        if fits && keeps(free, own) {
            lists[job] = own.to_vec();
        } else {
            others.push(job);
        }
    }
    for job in others {
        lists[job] = take(free, counts[job], pack);
    }
    lists
}

/// The same jobs with the smallest first, among equals in their order.
pub fn smallest_first(order: &[usize], counts: &[u32]) -> Vec<usize> {
    let mut order = order.to_vec();
    order.sort_by_key(|job| counts[*job]);
    order
}

/// Takes these GPUs if all of them are there.
fn keeps(free: &mut [u32], own: &[NodeId]) -> bool {
    for (at, node) in own.iter().enumerate() {
        match free[*node as usize].checked_sub(1) {
            Some(left) => free[*node as usize] = left,
            None => {
                own[..at].iter().for_each(|node| free[*node as usize] += 1);
                return false;
            }
        }
    }
    true
}

/// How many nodes a list spans.
pub fn nodes_of(list: &[NodeId]) -> u32 {
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.len() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gangs_go_where_the_rule_says() {
        let mut free = [2, 4, 3];
        assert_eq!(take(&mut free.clone(), 3, Pack::BestFit), [2, 2, 2]);
        assert_eq!(take(&mut free.clone(), 3, Pack::MostFree), [1, 1, 1]);
        assert_eq!(take(&mut free.clone(), 6, Pack::BestFit), [1, 1, 1, 1, 0, 0]);
        assert_eq!(take(&mut free, 6, Pack::MostFree), [1, 1, 1, 1, 2, 2]);
        assert_eq!(free, [2, 0, 1]);
    }

    #[test]
    fn whoever_keeps_its_size_keeps_its_place() {
        let before: [&[NodeId]; 3] = [&[0, 0], &[1], &[]];
        assert_eq!(keep_or_take(&mut [2, 2], &[1, 1, 1], &before, Pack::BestFit), [vec![1], vec![1], vec![0]]);
        // A node that is gone keeps no job.
        assert_eq!(keep_or_take(&mut [0, 2], &[2, 0, 0], &before, Pack::BestFit), [vec![1, 1], vec![], vec![]]);
    }
}
