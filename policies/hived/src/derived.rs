//! Cells where no file says what they are: halves of nodes, and halves of those; each top queue owns as many GPUs as it is guaranteed.

use sandtable_policy::{Node, Queue, Topology};

use crate::cells::{Cells, Chain};
use crate::config::{Config, VirtualCluster};

/// The cells of a cluster and of its queues.
pub fn derived(topology: &Topology, queues: &[Queue]) -> Config {
    let mut config = Config::default();
    // Whole nodes that no virtual cluster owns, by chain.
    let mut left: Vec<u32> = Vec::new();
    for node in &topology.nodes {
        let chain = chain_of(&mut config.cells, topology, node);
        left.resize(config.cells.chains.len(), 0);
        left[chain] += 1;
        let mut numbers = 0..node.gpus;
        let top = config.cells.chains[chain].kinds.len();
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
            let node = sizes[sizes.len() - 1];
            while owns >= node && *left > 0 {
                (owns, *left) = (owns - node, *left - 1);
                cluster.cells.push(config.cells.add_tree(chain, sizes.len(), &mut || None));
            }
            // What is less than a node, out of one.
            if owns > 0 && *left > 0 {
                *left -= 1;
                for (at, size) in sizes.iter().enumerate().rev() {
                    while owns >= *size {
                        owns -= size;
                        cluster.cells.push(config.cells.add_tree(chain, at + 1, &mut || None));
                    }
                }
            }
        }
        config.clusters.insert(queue.name.clone(), cluster);
    }
    config
}

/// GPUs that a queue is guaranteed, or the queues in it together where that is more.
fn guaranteed(queue: &Queue, queues: &[Queue]) -> f64 {
    let within: f64 =
        queues.iter().filter(|child| child.parent == Some(queue.id)).map(|child| guaranteed(child, queues)).sum();
    queue.guaranteed.max(within)
}

/// The chain of a node: halves down to a GPU, where its GPUs can be halved so.
fn chain_of(cells: &mut Cells, topology: &Topology, node: &Node) -> usize {
    let kind = &topology.gpu_types[node.gpu_type as usize].name;
    let name = format!("{kind}, {} in a node", node.gpus);
    if let Some(known) = cells.chains.iter().position(|chain| chain.name == name) {
        return known;
    }
    let (mut kinds, mut children) = (vec![kind.clone()], vec![0]);
    if node.gpus.is_power_of_two() {
        kinds.extend((1..=node.gpus.trailing_zeros()).map(|level| format!("{} GPUs", 1u32 << level)));
        children.resize(kinds.len(), 2);
    } else {
        kinds.push(format!("{} GPUs", node.gpus));
        children.push(node.gpus as usize);
    }
    let node_level = kinds.len();
    cells.add_chain(Chain { name, kinds, children, node_level })
}
