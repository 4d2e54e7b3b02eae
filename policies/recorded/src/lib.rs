//! What a cluster did: each job starts when, and where it is known on the nodes on which, a log says that it started.
//!
//! A job whose GPUs are not free by then, since the model ends another later than the cluster did, starts as soon as they are. Jobs of which no
//! start is recorded wait until the last recorded one, and start then where there is room. Nothing is preempted: of a job that the cluster
//! preempted and began again, the first start is the one that counts.

use std::collections::{BTreeMap, BTreeSet};
use std::str::SplitWhitespace;

use sandtable_policy::{
    Abilities, About, Backfill, Backlog, Batch, Cadence, Cluster, Config, GpuId, Instant, Job, JobId, Knowledge, Lines,
    Node, NodeId, Placement, Policy, PolicyError, Reason, Setup, Shapes,
};

/// The first line of a table of starts; then a line a job: its id, µs, and the nodes where they are known, each with its GPUs as in `3:2`
/// where they are.
const HEAD: &str = "starts 1";
const NO_STARTS: &str = "it starts jobs as a log says: name that, `starts` of the policy";

/// When and where a job started.
#[derive(Clone, Debug, PartialEq)]
struct Start {
    at: Instant,
    /// With the GPUs on each, where that is known; empty: they are not known.
    nodes: Vec<(NodeId, Option<u32>)>,
}

/// The policy.
pub struct Recorded {
    starts: BTreeMap<JobId, Start>,
    nodes: Vec<Node>,
    /// The last start.
    last: Instant,
    /// Jobs that wait and have a recorded start, by that.
    waiting: BTreeSet<(Instant, JobId)>,
    others: Backlog,
}

impl Policy for Recorded {
    fn about() -> About {
        About {
            name: "recorded",
            about: "what a cluster did: each job starts when, and where that is known on the nodes on which, a log says that it started",
            uses: Placement::follows() | Abilities::TIMERS,
            needs: Knowledge::empty(),
            params: &[],
        }
    }

    fn new(_: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        if setup.weights.is_empty() {
            return Err(PolicyError::Unsupported(NO_STARTS.into()));
        }
        let starts = read(&setup.weights).map_err(|why| PolicyError::BadConfig(format!("starts: {why}")))?;
        let nodes = setup.topology.nodes.clone();
        if let Some(node) = starts.values().flat_map(|start| &start.nodes).find(|on| on.0 as usize >= nodes.len()) {
            let why = format!("starts: expected a node below {}, found {}", nodes.len(), node.0);
            return Err(PolicyError::BadConfig(why));
        }
        let last = starts.values().map(|start| start.at).max().unwrap_or(0);
        Ok(Recorded { starts, nodes, last, waiting: BTreeSet::new(), others: Backlog::new(Lines::One) })
    }

    fn cadence(&self) -> Cadence {
        Cadence::WHILE_WAITING
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        for job in batch.events.iter().flat_map(|event| cluster.queued_by(event)) {
            match self.starts.get(&job.id) {
                Some(start) => _ = self.waiting.insert((start.at, job.id)),
                None => self.others.push(job, job.submitted),
            }
        }
        let now = batch.now;
        let due: Vec<(Instant, JobId)> = self.waiting.range(..=(now, JobId::MAX)).copied().collect();
        let mut shapes = Shapes::default();
        for of in due {
            let Some(job) = cluster.get(of.1).filter(|job| job.waits()) else {
                self.waiting.remove(&of);
                continue;
            };
            let on = &self.starts[&job.id].nodes;
            let found = match on.is_empty() || !on.iter().all(|on| cluster.is_up(on.0)) {
                true => shapes.place(Placement::Packed, cluster, job),
                false => self.on(job, on, cluster),
            };
            if let Some(gpus) = found {
                cluster.start(of.1, gpus);
                self.waiting.remove(&of);
            }
        }
        if now >= self.last {
            self.others.start(cluster, Placement::Packed, Backfill::Skip);
        } else {
            let next = self.waiting.range((now + 1, 0)..).next().map(|of| of.0);
            cluster.call_by(next.unwrap_or(self.last));
        }
        Ok(())
    }

    fn explain(&self, job: &Job, cluster: &Cluster) -> Reason {
        cluster.why(job)
    }
}

impl Recorded {
    /// GPUs for a job on the nodes on which it ran: as many on each as it had, or in equal numbers where it asks for that or they divide it;
    /// none: they are not free, or there is too little CPU or memory beside them.
    fn on(&self, job: &Job, nodes: &[(NodeId, Option<u32>)], cluster: &Cluster) -> Option<Vec<GpuId>> {
        let count = nodes.len() as u32;
        let each = match job.gpus_per_node {
            0 if job.gpus.is_multiple_of(count) => job.gpus / count,
            each => each,
        };
        let mut gpus: Vec<GpuId> = Vec::new();
        for (node, known) in nodes {
            let node = &self.nodes[*node as usize];
            let left = job.gpus.saturating_sub(gpus.len() as u32);
            let most = known.unwrap_or(if each == 0 { left } else { each }).min(left) as usize;
            let free = (node.first_gpu..node.first_gpu + node.gpus).filter(|gpu| cluster.is_free(*gpu));
            let before = gpus.len();
            gpus.extend(free.take(most));
            // Cores and memory are taken by GPUs here, and may have been given otherwise there.
            let part = |all: u32| (u64::from(all) * (gpus.len() - before) as u64).div_ceil(u64::from(job.gpus.max(1)));
            let [cpu, memory] = cluster.host_left(node.id);
            if cpu < part(job.host.cpu_milli) || memory < part(job.host.memory_mib) {
                return None;
            }
        }
        (gpus.len() == job.gpus as usize).then_some(gpus)
    }
}

/// Reads a table of starts.
fn read(table: &[u8]) -> Result<BTreeMap<JobId, Start>, String> {
    let text = std::str::from_utf8(table).map_err(|_| "expected text, found other bytes".to_string())?;
    let mut lines = text.lines();
    if lines.next() != Some(HEAD) {
        return Err(format!("expected a table whose first line is {HEAD:?}"));
    }
    let mut starts = BTreeMap::new();
    for (index, line) in lines.enumerate() {
        let mut words = line.split_whitespace();
        let (job, start) = of_line(&mut words).ok_or_else(|| {
            format!("line {}: expected a job, microseconds and nodes, as numbers, found {line:?}", index + 2)
        })?;
        starts.insert(job, start);
    }
    Ok(starts)
}

fn of_line(words: &mut SplitWhitespace<'_>) -> Option<(JobId, Start)> {
    let job = words.next()?.parse().ok()?;
    let at = words.next()?.parse().ok()?;
    let node = |word: &str| match word.split_once(':') {
        Some((node, gpus)) => Some((node.parse().ok()?, Some(gpus.parse().ok()?))),
        None => Some((word.parse().ok()?, None)),
    };
    let nodes = words.map(node).collect::<Option<Vec<(NodeId, Option<u32>)>>>()?;
    Some((job, Start { at, nodes }))
}

sandtable_policy::export!(Recorded);

#[cfg(test)]
mod tests {
    use super::{Recorded, Start, read};
    use sandtable_policy::testing::refusal;

    #[test]
    fn a_table_has_a_line_a_job() {
        let found = read(b"starts 1\n0 1500000 2 3:1\n4 0\n").expect("a table");
        let start = |at, nodes: &[(u32, Option<u32>)]| Start { at, nodes: nodes.to_vec() };
        assert_eq!(found, [(0, start(1_500_000, &[(2, None), (3, Some(1))])), (4, start(0, &[]))].into());
        assert_eq!(read(b"").expect_err("no head"), "expected a table whose first line is \"starts 1\"");
        let why = "line 2: expected a job, microseconds and nodes, as numbers, found \"0 soon\"";
        assert_eq!(read(b"starts 1\n0 soon\n").expect_err("a word"), why);
    }

    #[test]
    fn without_a_table_it_does_not_begin() {
        assert_eq!(refusal::<Recorded>("{}"), super::NO_STARTS);
    }
}
