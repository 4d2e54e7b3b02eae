//! Cells where no file says what they are: halves of nodes, and halves of those; each top queue owns as many GPUs as it is guaranteed.

use std::collections::BTreeMap;

use sandtable_policy::{Node, Queue, Topology};

use crate::cells::{CellId, Cells, Chain};
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
        let cell = add(&mut config.cells, chain, top, node.gpus, &mut |_| {
            numbers.next().map(|number| (config.nodes.len(), number))
        });
        config.cells.add_top(cell);
        config.nodes.push(node.name.clone());
    }
    config.cells.up = vec![true; topology.nodes.len()];
    for queue in queues.iter().filter(|queue| queue.parent.is_none()) {
        let mut owns = guaranteed(queue, queues) as u32;
        let mut cluster = VirtualCluster::default();
        for (chain, left) in left.iter_mut().enumerate() {
            let sizes = sizes(&config.cells, chain);
            let node = sizes[sizes.len() - 1];
            while owns >= node && *left > 0 {
                (owns, *left) = (owns - node, *left - 1);
                cluster.cells.push(add(&mut config.cells, chain, sizes.len(), node, &mut |_| None));
            }
            // What is less than a node, out of one.
            if owns > 0 && *left > 0 {
                *left -= 1;
                for (at, size) in sizes.iter().enumerate().rev() {
                    while owns >= *size {
                        owns -= size;
                        cluster.cells.push(add(&mut config.cells, chain, at + 1, *size, &mut |_| None));
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
    let mut kinds = vec![kind.clone()];
    if node.gpus.is_power_of_two() {
        kinds.extend((1..=node.gpus.trailing_zeros()).map(|level| format!("{} GPUs", 1u32 << level)));
    } else {
        kinds.push(format!("{} GPUs", node.gpus));
    }
    let node_level = kinds.len();
    cells.add_chain(Chain { name, kinds, node_level })
}

/// GPUs of a cell of each level of a chain.
fn sizes(cells: &Cells, chain: usize) -> Vec<u32> {
    let mut sizes: BTreeMap<usize, u32> = BTreeMap::new();
    for cell in cells.all.iter().filter(|cell| cell.chain == chain) {
        sizes.insert(cell.level, cell.leaves.len() as u32);
    }
    sizes.into_values().collect()
}

/// A cell of so many GPUs and all below it.
fn add(
    cells: &mut Cells,
    chain: usize,
    level: usize,
    gpus: u32,
    gpu: &mut impl FnMut(()) -> Option<(usize, u32)>,
) -> CellId {
    if level == 1 {
        let gpu = gpu(());
        return cells.add(chain, 1, vec![], gpu);
    }
    let each = if level == 2 { 1 } else { gpus / 2 };
    let children = (0..gpus / each).map(|_| add(cells, chain, level - 1, each, gpu)).collect();
    cells.add(chain, level, children, None)
}
