//! Where the tasks of a job go, after the authors' simulator: the nodes with the cheapest GPUs are starting points,
//! each is tried with the others by distance of racks, and the plan on the fewest nodes wins.

use crate::score::{Gpu, Rules, Task};

/// A node as plans see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its rack.
    pub rack: u32,
    /// Its GPUs; none while it is down.
    pub gpus: Vec<Gpu>,
}

/// A plan for a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Node and GPU within it, for each task.
    pub placement: Vec<(usize, usize)>,
    /// On how many nodes.
    pub nodes: usize,
    /// What the cheapest GPU of the node that it starts from costs.
    pub cost: f64,
}

/// The cheapest GPU of a node that takes a task, and its cost; ties to the lowest. `placed`: GPUs that tasks of the same
/// job have been put on.
fn cheapest(rules: &Rules, node: &Node, task: &Task, placed: &[(usize, Gpu)]) -> Option<(f64, usize)> {
    let mut best: Option<(f64, usize)> = None;
    for (at, gpu) in node.gpus.iter().enumerate() {
        let changed = placed.iter().rev().find(|(known, _)| *known == at);
        if changed.is_some() && !rules.twice {
            continue;
        }
        let gpu = changed.map_or(gpu, |(_, gpu)| gpu);
        if rules.admits(gpu, task) {
            let cost = rules.cost(gpu, task);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, at));
            }
        }
    }
    best
}

/// The cheapest GPU of a node that no task of the job is on, and its cost.
pub fn cheapest_of(rules: &Rules, node: &Node, task: &Task) -> Option<(f64, usize)> {
    cheapest(rules, node, task, &[])
}

/// Places all tasks of a job on open nodes, or none. `cost_of` is [`cheapest_of`], or remembers what it said.
pub fn place(
    rules: &Rules,
    nodes: &[Node],
    open: impl Fn(usize) -> bool,
    task: &Task,
    tasks: u32,
    mut cost_of: impl FnMut(usize, &Node) -> Option<(f64, usize)>,
) -> Option<Plan> {
    let mut starts: Vec<(f64, usize, usize)> = Vec::new();
    for (at, node) in nodes.iter().enumerate().filter(|(at, _)| open(*at)) {
        if let Some((cost, gpu)) = cost_of(at, node) {
            starts.push((cost, at, gpu));
        }
    }
    if tasks == 1 {
        let cheapest = starts.into_iter().min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        return cheapest.map(|(cost, node, gpu)| Plan { placement: vec![(node, gpu)], nodes: 1, cost });
    }
    starts.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut best: Option<Plan> = None;
    for (cost, start, _) in starts.iter().take(tasks as usize) {
        let rack = nodes[*start].rack;
        // A start that has room for all can't be beaten by a later one.
        let others = (0..nodes.len()).filter(|at| at != start && open(*at));
        let mut order: Vec<usize> = vec![*start];
        let mut rest: Vec<usize> = others.collect();
        rest.sort_by_key(|at| (nodes[*at].rack.abs_diff(rack), nodes[*at].rack, *at));
        order.extend(rest);
        let mut plan = Plan { placement: Vec::new(), nodes: 0, cost: *cost };
        for at in order {
            fill(rules, &nodes[at], at, task, tasks as usize, &mut plan);
            if plan.placement.len() == tasks as usize {
                break;
            }
        }
        if plan.placement.len() == tasks as usize && best.as_ref().is_none_or(|known| plan.nodes < known.nodes) {
            let done = plan.nodes == 1;
            best = Some(plan);
            if done {
                break;
            }
        }
    }
    best
}

/// As many of the remaining tasks as a node takes.
fn fill(rules: &Rules, node: &Node, at: usize, task: &Task, tasks: usize, plan: &mut Plan) {
    let mut placed: Vec<(usize, Gpu)> = Vec::new();
    while plan.placement.len() < tasks {
        let Some((_, gpu)) = cheapest(rules, node, task, &placed) else { break };
        let known = placed.iter().rev().find(|(known, _)| *known == gpu).map(|(_, gpu)| gpu);
        let mut changed = *known.unwrap_or(&node.gpus[gpu]);
        changed.push(task);
        placed.push((gpu, changed));
        plan.placement.push((at, gpu));
    }
    plan.nodes += usize::from(!placed.is_empty());
}
