//! What a policy of this family allocates in a round, and the placements that it may choose from.

use sandtable_policy::NodeId;

use crate::job::ElasticJob;
use crate::place::{Pack, keep_or_take, nodes_of, smallest_first, take};

/// What is to be allocated to training jobs.
pub struct Round<'a> {
    /// Now, µs.
    pub now: u64,
    /// GPUs of each node that training may have, those that it has among them.
    pub free: Vec<u32>,
    /// Whether the node belongs to the inference pool.
    pub lent: Vec<bool>,
    /// GPUs of a node.
    pub node: u32,
    /// GPUs of all nodes in reach.
    pub total: u32,
    /// GPUs of a fair share.
    pub share: u32,
    /// As DeepBoot's simulator does it.
    pub compat: bool,
    /// Tasks that wait for a GPU.
    pub waiting: u32,
    /// Where they go, if the policy places them.
    pub tasks: Vec<NodeId>,
    /// Those that may run, by id.
    pub jobs: &'a mut [ElasticJob],
    /// GPU-µs that each has had.
    pub attained: Vec<u64>,
}

impl Round<'_> {
    /// A job's speedup on so many GPUs, packed.
    pub fn packed(&mut self, job: usize, gpus: u32) -> f64 {
        self.jobs[job].speedup(gpus.div_ceil(self.node), gpus, self.share)
    }

    /// Lists of nodes for these counts, by job: a job with as many as before stays, the others follow, the smallest
    /// first.
    pub fn place(&self, counts: &[u32], pack: Pack) -> Vec<Vec<NodeId>> {
        let order: Vec<usize> = (0..counts.len()).collect();
        self.place_in(&smallest_first(&order, counts), counts, pack)
    }

    /// The same in this order of the jobs.
    pub fn place_in(&self, order: &[usize], counts: &[u32], pack: Pack) -> Vec<Vec<NodeId>> {
        let before: Vec<&[NodeId]> =
            order.iter().map(|job| self.jobs[*job].list.as_deref().unwrap_or_default()).collect();
        let sorted: Vec<u32> = order.iter().map(|job| counts[*job]).collect();
        let mut lists = vec![Vec::new(); self.jobs.len()];
        for (job, list) in order.iter().zip(keep_or_take(&mut self.free.clone(), &sorted, &before, pack)) {
            lists[*job] = list;
        }
        lists
    }

    /// The same where the policy places waiting tasks too, after the jobs that stay.
    pub fn place_with_tasks(&mut self, counts: &[u32], pack: Pack) -> Vec<Vec<NodeId>> {
        let stays = |job: usize| self.jobs[job].list.as_ref().is_some_and(|list| list.len() as u32 == counts[job]);
        let kept: Vec<u32> = (0..counts.len()).map(|job| if stays(job) { counts[job] } else { 0 }).collect();
        let mut free = self.free.clone();
        let before: Vec<&[NodeId]> = self.jobs.iter().map(|job| job.list.as_deref().unwrap_or_default()).collect();
        let mut lists = keep_or_take(&mut free, &kept, &before, pack);
        self.tasks = (0..self.waiting).flat_map(|_| take(&mut free, 1, pack)).collect();
        let all: Vec<usize> = (0..counts.len()).filter(|job| kept[*job] == 0).collect();
        for job in smallest_first(&all, counts) {
            lists[job] = take(&mut free, counts[job], pack);
        }
        lists
    }

    /// A job's speedup on these nodes.
    pub fn speedup(&mut self, job: usize, list: &[NodeId]) -> f64 {
        self.jobs[job].speedup(nodes_of(list), list.len() as u32, self.share)
    }
}
