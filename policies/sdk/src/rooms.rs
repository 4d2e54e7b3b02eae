//! Places for gangs that ask for more than free GPUs: a number of them on each node, CPU and memory, nodes near each other.

use std::collections::BTreeMap;

use crate::cluster::MirrorNode;
use crate::{Ask, Cluster, GpuId, GpuTypeId, NodeId, Placement};

/// A node, and how many GPUs of a gang it has room for: by its free GPUs, its CPU and its memory.
#[derive(Clone, Copy)]
pub struct Room {
    /// The node.
    pub node: NodeId,
    /// How many GPUs of the gang it has room for; 0 if fewer than the gang asks for on each of its nodes.
    pub gpus: u32,
    /// How many it has room for where nothing else runs.
    empty: u32,
}

impl Cluster {
    /// A place for a gang by a rule of the policy's own, on the first type that has one. The rule is given the rooms for it on all nodes of a type, in the order of
    /// nodes, and returns nodes, each once, with the number of GPUs to take of each. A job that may not be preempted gets nodes that no owner may take back,
    /// where the rule finds such a place.
    pub fn place_by(
        &self,
        gpu_types: &[GpuTypeId],
        ask: Ask,
        rule: impl Fn(&[Room]) -> Option<Vec<(NodeId, u32)>>,
    ) -> Option<Vec<GpuId>> {
        let on_type = |gpu_type: GpuTypeId, own_only: bool| {
            let enough = self.pools[gpu_type as usize].free >= ask.gpus;
            let split = if enough { rule(&rooms(self, gpu_type, ask, own_only)) } else { None }?;
            let mut found = Vec::with_capacity(ask.gpus as usize);
            split.into_iter().for_each(|(node, gpus)| self.lowest_free(node, gpus, &mut found));
            Some(found)
        };
        self.own_first(ask, |own_only| gpu_types.iter().find_map(|gpu_type| on_type(*gpu_type, own_only)))
    }

    /// Whether a gang may have these GPUs, beside the jobs that are on them: by its shape, the CPU and memory that their nodes have left, and how near
    /// these are to each other.
    pub fn follows(&self, ask: Ask, gpus: &[GpuId]) -> bool {
        let mut nodes: BTreeMap<NodeId, u32> = BTreeMap::new();
        gpus.iter().for_each(|gpu| *nodes.entry(self.node(*gpu)).or_insert(0) += 1);
        let has_room = |(id, gpus): (&NodeId, &u32)| {
            let is_shaped = ask.gpus_per_node == 0 || *gpus == ask.gpus_per_node;
            is_shaped && most_gpus(&self.nodes[*id as usize], ask, *gpus) == *gpus
        };
        let is_one = |level: u32| {
            let mut domains = nodes.keys().map(|node| self.domains(*node).get(level as usize));
            let first = domains.next().flatten();
            first.is_some() && domains.all(|domain| domain == first)
        };
        ask.is_unbound() || (nodes.iter().all(has_room) && ask.required.is_none_or(is_one))
    }

    /// A place of a job: of one that may not be preempted first on nodes that no owner may take back, then on any.
    pub(crate) fn own_first<T>(&self, ask: Ask, on: impl Fn(bool) -> Option<T>) -> Option<T> {
        let found = if ask.pinned && self.has_owners { on(true) } else { None };
        found.or_else(|| on(false))
    }
}

/// Most GPUs, up to `free`, of a gang that a node has CPU and memory for. A node provides of the whole as large a part as it has of the
/// gang's GPUs, rounded up; what is 0 is unknown.
pub(crate) fn most_gpus(node: &MirrorNode, ask: Ask, free: u32) -> u32 {
    most_beside(node, node.taken, ask, free)
}

/// The same where jobs have so much of a node.
fn most_beside(node: &MirrorNode, taken: [u64; 2], ask: Ask, free: u32) -> u32 {
    let most = |has: u32, taken: u64, asked: u32| match (has, asked) {
        (0, _) | (_, 0) => u64::from(free),
        _ => u64::from(has).saturating_sub(taken) * u64::from(ask.gpus) / u64::from(asked),
    };
    let cpu = most(node.host.cpu_milli, taken[0], ask.cpu_milli);
    let memory = most(node.host.memory_mib, taken[1], ask.host_memory_mib);
    u64::from(free).min(cpu).min(memory) as u32
}

/// A place by a rule, on any nodes or only on those that no owner may take back. Of several domains the one with the least room that has
/// enough is tried first.
pub(crate) fn find(
    rule: Placement,
    cluster: &Cluster,
    gpu_type: GpuTypeId,
    ask: Ask,
    own_only: bool,
) -> Option<Vec<GpuId>> {
    let rooms = rooms(cluster, gpu_type, ask, own_only);
    // Levels nest: within one domain of a nearer level is within one of a wider.
    let nearer = ask.preferred.filter(|level| ask.required.is_none_or(|required| *level > required));
    let split = nearer.and_then(|level| within(rule, cluster, &rooms, ask, level)).or_else(|| match ask.required {
        Some(level) => within(rule, cluster, &rooms, ask, level),
        None => split(rule, &rooms, ask),
    })?;
    let mut found = Vec::with_capacity(ask.gpus as usize);
    split.into_iter().for_each(|Room { node, gpus, .. }| cluster.lowest_free(node, gpus, &mut found));
    Some(found)
}

/// The rooms of all nodes of a type, or only of those that no owner may take back.
fn rooms(cluster: &Cluster, gpu_type: GpuTypeId, ask: Ask, own_only: bool) -> Vec<Room> {
    let of_type = |(_, node): &(NodeId, &MirrorNode)| node.gpu_type == gpu_type && !(own_only && node.revocable);
    let room = |(id, node): (NodeId, &MirrorNode)| {
        let whole = |gpus: u32| if gpus >= ask.gpus_per_node { gpus } else { 0 };
        let gpus = if node.up { whole(most_gpus(node, ask, node.free)) } else { 0 };
        Room { node: id, gpus, empty: whole(most_beside(node, [0; 2], ask, node.gpus)) }
    };
    (0..).zip(&cluster.nodes).filter(of_type).map(room).collect()
}

/// A place within one domain of a level.
fn within(rule: Placement, cluster: &Cluster, rooms: &[Room], ask: Ask, level: u32) -> Option<Vec<Room>> {
    let mut domains: BTreeMap<u32, Vec<Room>> = BTreeMap::new();
    for room in rooms {
        let domain = cluster.nodes[room.node as usize].domains.get(level as usize)?;
        domains.entry(*domain).or_default().push(*room);
    }
    let gpus = |rooms: &Vec<Room>| rooms.iter().map(|room| u64::from(room.gpus)).sum::<u64>();
    let mut domains: Vec<Vec<Room>> =
        domains.into_values().filter(|rooms| gpus(rooms) >= u64::from(ask.gpus)).collect();
    domains.sort_by_key(gpus);
    domains.iter().find_map(|rooms| split(rule, rooms, ask))
}

/// How a gang is split over rooms, which are in the order of nodes, or `None`. Without a number of GPUs on each node, and where nothing but GPUs is
/// short, as [`Placement::find`] does it.
fn split(rule: Placement, rooms: &[Room], ask: Ask) -> Option<Vec<Room>> {
    let all = rooms;
    let rooms: Vec<Room> = all.iter().copied().filter(|room| room.gpus > 0).collect();
    if rooms.iter().map(|room| u64::from(room.gpus)).sum::<u64>() < u64::from(ask.gpus) {
        return None;
    }
    match (rule, ask.gpus_per_node) {
        (Placement::Packed, 0) => packed(&rooms, ask.gpus),
        (Placement::Consolidate, 0) => consolidate(all, &rooms, ask.gpus),
        (Placement::Count, 0) => Some(fill(rooms.into_iter(), ask.gpus)),
        (_, each) if !ask.gpus.is_multiple_of(each) => None,
        (_, each) => {
            let mut rooms = rooms;
            if rule != Placement::Count {
                rooms.sort_by_key(|room| room.gpus);
            }
            let nodes = (ask.gpus / each) as usize;
            let on = |room: &Room| Room { gpus: each, ..*room };
            (rooms.len() >= nodes).then(|| rooms.iter().take(nodes).map(on).collect())
        }
    }
}

/// The room with the fewest GPUs that has enough; among those the first.
fn best_fit(rooms: &[Room], gpus: u32) -> Option<Room> {
    let enough = rooms.iter().filter(|room| room.gpus >= gpus);
    enough.min_by_key(|room| room.gpus).map(|room| Room { gpus, ..*room })
}

/// All of each room, one after the other.
fn fill(rooms: impl Iterator<Item = Room>, gpus: u32) -> Vec<Room> {
    let mut left = gpus;
    let take = |room: Room| {
        let gpus = room.gpus.min(left);
        left -= gpus;
        (gpus > 0).then_some(Room { gpus, ..room })
    };
    rooms.map_while(take).collect()
}

fn largest_first(rooms: &[Room]) -> Vec<Room> {
    let mut rooms = rooms.to_vec();
    rooms.sort_by_key(|room| std::cmp::Reverse(room.gpus));
    rooms
}

fn packed(rooms: &[Room], gpus: u32) -> Option<Vec<Room>> {
    if let Some(room) = best_fit(rooms, gpus) {
        return Some(vec![room]);
    }
    let rooms = largest_first(rooms);
    let mut found = fill(rooms.iter().copied(), gpus);
    // The last piece goes where it fits best among the nodes that are left.
    let last = found.pop()?;
    let left = &rooms[found.len()..];
    let by_node = |room: &&Room| (room.gpus, room.node);
    let best = left.iter().filter(|room| room.gpus >= last.gpus).min_by_key(by_node);
    found.push(Room { node: best.map_or(last.node, |room| room.node), ..last });
    Some(found)
}

/// The fewest nodes that could hold the gang if nothing else ran: as much of each as it then had room for, the rest on the last.
fn consolidate(all: &[Room], rooms: &[Room], gpus: u32) -> Option<Vec<Room>> {
    let mut empty: Vec<u32> = all.iter().map(|room| room.empty).collect();
    empty.sort_unstable_by_key(|gpus| std::cmp::Reverse(*gpus));
    let mut left = gpus;
    let whole: Vec<u32> = empty
        .into_iter()
        .map_while(|room| {
            let part = room.min(left);
            left -= part;
            (part > 0).then_some(part)
        })
        .collect();
    if left > 0 {
        return None;
    }
    if whole.len() == 1 {
        return best_fit(rooms, gpus).map(|room| vec![room]);
    }
    let rooms = largest_first(rooms);
    let part = |(part, room): (u32, &Room)| (room.gpus >= part).then_some(Room { gpus: part, ..*room });
    if rooms.len() < whole.len() { None } else { whole.into_iter().zip(&rooms).map(part).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{arrivals, demand, topology};
    use crate::{Demand, Draws, HostResources};

    /// Eight nodes of four GPUs and three to six cores, in racks of two and rows of four.
    fn equipped() -> crate::Topology {
        let mut topology = topology(&[4; 8]);
        topology.levels = vec!["row".into(), "rack".into()];
        for node in &mut topology.nodes {
            node.domains = vec![node.id / 4, node.id / 2];
            node.host = HostResources { cpu_milli: [6000, 3000, 4000][node.id as usize % 3], memory_mib: 0 };
        }
        topology
    }

    /// The same, of which jobs hold some GPUs and cores.
    fn cluster(draws: &mut Draws) -> Cluster {
        let mut cluster = Cluster::new(&equipped());
        let held: Vec<u32> = (0..8).map(|_| draws.below(5) as u32).collect();
        let holder = |gpus: &u32| Demand {
            host: HostResources { cpu_milli: 700 * gpus, memory_mib: 1 },
            ..demand((*gpus).max(1))
        };
        let (batch, new) = arrivals(held.iter().map(holder).collect());
        cluster.take_in(&batch, new);
        for (id, gpus) in (0..).zip(&held).filter(|(_, gpus)| **gpus > 0) {
            cluster.start(id, (id * 4..id * 4 + gpus).collect());
        }
        cluster
    }

    fn ask(draws: &mut Draws) -> Ask {
        let each = [0, 0, 1, 2, 4][draws.below(5)];
        let gpus = if each > 0 { each * (1 + draws.below(4) as u32) } else { 1 + draws.below(12) as u32 };
        let level = |draws: &mut Draws| Some(draws.below(3) as u32).filter(|level| *level < 2);
        let cpu_milli = [0, 1, 1000, 1999][draws.below(4)] * gpus;
        Ask { gpus_per_node: each, cpu_milli, required: level(draws), preferred: level(draws), ..Ask::whole(gpus) }
    }

    /// GPUs on each node, each free and named once.
    fn counts(cluster: &Cluster, gpus: &[GpuId]) -> BTreeMap<usize, u32> {
        let mut counts = BTreeMap::new();
        for (at, gpu) in gpus.iter().enumerate() {
            assert!(cluster.is_free(*gpu) && !gpus[..at].contains(gpu), "{gpu} in {gpus:?}");
            *counts.entry(cluster.node_of(*gpu)).or_default() += 1;
        }
        counts
    }

    /// Whether nodes, of those in a domain of a level if one is given, have room for a gang: a look at each.
    fn fits(cluster: &Cluster, ask: Ask, level: Option<u32>) -> bool {
        let room = |node: &MirrorNode| {
            let takes = |gpus: u32| {
                let cpu = (u64::from(ask.cpu_milli) * u64::from(gpus)).div_ceil(u64::from(ask.gpus));
                cpu + node.taken[0] <= u64::from(node.host.cpu_milli)
            };
            let most = (0..=node.free).filter(|gpus| takes(*gpus)).max().unwrap_or(0);
            if ask.gpus_per_node == 0 || most < ask.gpus_per_node {
                most * u32::from(ask.gpus_per_node == 0)
            } else {
                ask.gpus_per_node
            }
        };
        let of = |domain: u32| {
            let inside = |node: &&MirrorNode| level.is_none_or(|level| node.domains[level as usize] == domain);
            cluster.nodes.iter().filter(inside).map(room).sum::<u32>() >= ask.gpus
        };
        (0..8).any(of)
    }

    #[test]
    fn a_place_is_found_where_there_is_one_and_is_what_was_asked_for() {
        let mut draws = Draws::new(1);
        let (mut found, empty) = ([0; 2], Cluster::new(&equipped()));
        for _ in 0..20_000 {
            let (cluster, ask) = (cluster(&mut draws), ask(&mut draws));
            for rule in [Placement::Packed, Placement::Consolidate, Placement::Count] {
                let place = find(rule, &cluster, 0, ask, false);
                if rule != Placement::Consolidate || ask.gpus_per_node > 0 {
                    assert_eq!(place.is_some(), fits(&cluster, ask, ask.required), "{rule:?} {ask:?}");
                }
                // Where nothing runs any rule finds a place for what there is room for at all.
                let place_of_empty = find(rule, &empty, 0, ask, false);
                assert_eq!(place_of_empty.is_some(), fits(&empty, ask, ask.required), "{rule:?} {ask:?}");
                found[usize::from(place.is_some())] += 1;
                let Some(gpus) = place else { continue };
                let counts = counts(&cluster, &gpus);
                assert_eq!(gpus.len(), ask.gpus as usize);
                if ask.gpus_per_node > 0 {
                    assert!(counts.values().all(|count| *count == ask.gpus_per_node), "{ask:?} {gpus:?}");
                }
                for (node, count) in &counts {
                    assert!(most_gpus(&cluster.nodes[*node], ask, 4) >= *count, "{ask:?} {gpus:?}");
                }
                let within = |level: u32| {
                    let mut domains = counts.keys().map(|node| cluster.nodes[*node].domains[level as usize]);
                    let first = domains.next();
                    domains.all(|domain| Some(domain) == first)
                };
                assert!(ask.required.is_none_or(within), "{ask:?} {gpus:?}");
                // What is preferred is had where there is a place that has it.
                if let Some(level) = ask.preferred.filter(|_| rule == Placement::Packed) {
                    let level = level.max(ask.required.unwrap_or(0));
                    assert_eq!(within(level), fits(&cluster, ask, Some(level)), "{ask:?} {gpus:?}");
                }
            }
        }
        assert!(found.iter().all(|count| *count > 5_000), "{found:?}");
    }

    #[test]
    fn without_demands_places_are_those_of_the_index() {
        let mut draws = Draws::new(2);
        for _ in 0..5_000 {
            let cluster = cluster(&mut draws);
            let ask = Ask::whole(1 + draws.below(32) as u32);
            for rule in [Placement::Packed, Placement::Consolidate, Placement::Count] {
                assert_eq!(find(rule, &cluster, 0, ask, false), rule.find(&cluster, 0, ask), "{rule:?} {ask:?}");
            }
        }
    }

    #[test]
    fn what_a_job_took_of_its_nodes_is_free_when_it_lets_go() {
        let mut draws = Draws::new(3);
        let mut cluster = cluster(&mut draws);
        let ids: Vec<u32> = cluster.holders().map(|job| job.id).collect();
        ids.into_iter().for_each(|id| cluster.preempt(id));
        assert!(cluster.nodes.iter().all(|node| node.taken == [0, 0]));
    }
}
