//! Which GPUs a job gets.

use sandtable_policy::{Ask, Cluster, GpuId, Job, NodeId, Placement, Room};

use crate::topology::{self, Leaf, Nearness};

/// Where a job could start now.
pub fn place(cluster: &Cluster, job: &Job) -> Option<Vec<GpuId>> {
    if !cluster.queues().has_room(job) {
        return None;
    }
    let ask = job.ask();
    let is_part = ask.part.is_some() || (cluster.is_fraction(ask.share) && !ask.alone);
    if is_part || cluster.domains(0).is_empty() {
        return Placement::Packed.find_any(cluster, &job.gpu_types, ask);
    }
    cluster.place_by(&job.gpu_types, ask, |rooms| split(cluster, rooms, ask))
}

/// How Kueue splits a gang over nodes of a fleet with levels. A pod is what the gang has on each of its nodes, if it says how much that is;
/// otherwise one GPU.
fn split(cluster: &Cluster, rooms: &[Room], ask: Ask) -> Option<Vec<(NodeId, u32)>> {
    let each = ask.gpus_per_node.max(1);
    let pods = |room: &Room| if ask.gpus_per_node > 0 { room.gpus.min(each) / each } else { room.gpus };
    let path = |room: &Room| [cluster.domains(room.node), &[room.node]].concat();
    let paths: Vec<Vec<u32>> = rooms.iter().map(path).collect();
    let leaves: Vec<Leaf> =
        paths.iter().zip(rooms).map(|(path, room)| Leaf { path, pods: u64::from(pods(room)) }).collect();
    let widest = ask.required.map(|level| level as usize);
    // Within one domain of a nearer level is within one of a wider.
    let level = ask.preferred.map(|level| level as usize).max(widest);
    let near = level.map_or(Nearness::Unconstrained, |level| Nearness::Within { level, widest });
    let found = topology::assign(&leaves, u64::from(ask.gpus / each), near).ok()?;
    Some(found.into_iter().map(|(at, pods)| (rooms[at].node, each * pods as u32)).collect())
}
