//! Cells where no file says what they are: halves of nodes, and halves of those, as far as their GPUs can be halved; each top queue owns as many GPUs as it is guaranteed.

use sandtable_policy::{Node, Queue, Topology};

use crate::cells::{Cells, Chain};
use crate::config::{Config, VirtualCluster};

/// The cells of a cluster and of its queues.
pub fn derived(topology: &Topology, queues: &[Queue]) -> Config {
    let mut config = Config::default();
    // Cells that no virtual cluster owns, by chain and level: whole nodes at first.
    let mut left: Vec<Vec<u32>> = Vec::new();
    for node in &topology.nodes {
        let chain = chain_of(&mut config.cells, topology, node);
        let top = config.cells.chains[chain].kinds.len();
        if left.len() == chain {
            left.push(vec![0; top]);
        }
        left[chain][top - 1] += 1;
        let mut numbers = 0..node.gpus;
        let at = config.nodes.len();
        let cell = config.cells.add_tree(chain, top, &mut || numbers.next().map(|number| (at, number)));
        config.cells.add_top(cell);
        config.nodes.push(node.name.clone());
    }
    config.cells.up = vec![true; topology.nodes.len()];
    for queue in queues.iter().filter(|queue| queue.parent.is_none()) {
        let mut owns = guaranteed(queue, queues) as u32;
        let mut cluster = VirtualCluster::default();
        for (chain, left) in left.iter_mut().enumerate() {
            let sizes = config.cells.chains[chain].sizes();
            for (at, size) in sizes.iter().enumerate().rev() {
                while owns >= *size && take(left, &config.cells.chains[chain], at) {
                    owns -= size;
                    cluster.cells.push(config.cells.add_tree(chain, at + 1, &mut || None));
                }
            }
        }
        config.clusters.insert(queue.name.clone(), cluster);
    }
    config
}

/// Takes a cell of a level, out of the smallest one that is left and has it; returns whether there is one.
fn take(left: &mut [u32], chain: &Chain, at: usize) -> bool {
    let Some(from) = (at..left.len()).find(|level| left[*level] > 0) else { return false };
    left[from] -= 1;
    // Of each cell that is cut one child is cut on, and its buddies are left.
    (at..from).for_each(|level| left[level] += chain.children[level + 1] as u32 - 1);
    true
}

/// GPUs that a queue is guaranteed, or the queues in it together where that is more.
fn guaranteed(queue: &Queue, queues: &[Queue]) -> f64 {
    let within: f64 =
        queues.iter().filter(|child| child.parent == Some(queue.id)).map(|child| guaranteed(child, queues)).sum();
    queue.guaranteed.max(within)
}

/// The chain of a node: pairs of GPUs, and pairs of those, as far as they divide its GPUs; the node is the last pair, or an odd number of them.
fn chain_of(cells: &mut Cells, topology: &Topology, node: &Node) -> usize {
    let kind = &topology.gpu_types[node.gpu_type as usize].name;
    let name = format!("{kind}, {} in a node", node.gpus);
    if let Some(known) = cells.chains.iter().position(|chain| chain.name == name) {
        return known;
    }
    let (mut kinds, mut children) = (vec![kind.clone()], vec![0]);
    let halvings = node.gpus.trailing_zeros();
    kinds.extend((1..=halvings).map(|level| format!("{} GPUs", 1u32 << level)));
    children.resize(kinds.len(), 2);
    let odd = node.gpus >> halvings;
    if odd > 1 {
        kinds.push(format!("{} GPUs", node.gpus));
        children.push(odd as usize);
    }
    let node_level = kinds.len();
    cells.add_chain(Chain { name, kinds, children, node_level })
}
