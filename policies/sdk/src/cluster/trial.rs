//! What would be if jobs let go: tried on the mirror and taken back, without an action.

use super::Cluster;
use crate::{GpuId, Job, JobId, JobPhase};

impl Cluster {
    /// The first place that `find` finds while these jobs let their GPUs go, one after the other, and how many had to. Nothing changes.
    ///
    /// ```
    /// use sandtable_policy::testing::{arrivals, demand};
    /// use sandtable_policy::{Ask, Cluster, Placement};
    ///
    /// let mut cluster = sandtable_policy::testing::cluster(&[2, 2]);
    /// let (batch, new) = arrivals(vec![demand(1), demand(1), demand(2)]);
    /// cluster.take_in(&batch, new);
    /// cluster.start(0, vec![0]);
    /// cluster.start(1, vec![2]);
    /// let find = |cluster: &Cluster| Placement::Consolidate.find(cluster, 0, Ask::whole(2));
    /// assert_eq!(cluster.first_place(&[1, 0], find), Some((1, vec![2, 3])));
    /// assert!(cluster.job(1).holds() && cluster.free_gpus(0) == 2);
    /// ```
    pub fn first_place(
        &mut self,
        victims: &[JobId],
        find: impl Fn(&Cluster) -> Option<Vec<GpuId>>,
    ) -> Option<(usize, Vec<GpuId>)> {
        let now = self.now;
        let (mut gone, mut found): (Vec<Job>, _) = (Vec::new(), None);
        for id in victims {
            gone.push(self.job(*id).clone());
            self.release(*id, now, JobPhase::Stopping);
            found = find(self).map(|gpus| (gone.len(), gpus));
            if found.is_some() {
                break;
            }
        }
        for before in gone.into_iter().rev() {
            self.hold(before.id, &before.held);
            if let Some(job) = self.job_mut(before.id) {
                *job = Job { slot: job.slot, ..before };
            }
        }
        found
    }
}
