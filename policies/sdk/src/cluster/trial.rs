//! What would be if jobs let go: tried on the mirror and taken back, without an action.

use super::Cluster;
use crate::{GpuId, Job, JobId, JobPhase};

/// Jobs that move, each with where to, and the place of the one for which they do.
pub type Resettled = (Vec<(JobId, Vec<GpuId>)>, Vec<GpuId>);

impl Cluster {
    /// A place that `find` finds once some of these jobs have let their GPUs go, and those. They go one after the other until there is
    /// a place; then those that it can do without get theirs back, the latest first. What jobs hold is afterwards as before.
    ///
    /// ```
    /// use sandtable_policy::testing::{arrivals, demand};
    /// use sandtable_policy::{Ask, Cluster, Placement};
    ///
    /// let mut cluster = sandtable_policy::testing::cluster(&[2, 2]);
    /// let (batch, new) = arrivals(vec![demand(1), demand(2), demand(2)]);
    /// cluster.take_in(&batch, new);
    /// cluster.start(0, vec![0]);
    /// cluster.start(1, vec![2, 3]);
    /// // Job 0 goes first, and leaves one node empty: job 1 may stay.
    /// let find = |cluster: &Cluster| Placement::Consolidate.find(cluster, 0, Ask::whole(2));
    /// assert_eq!(cluster.place_without(&[0, 1], find), Some((vec![0], vec![0, 1])));
    /// // Job 1 goes first: job 0 need not go after it.
    /// assert_eq!(cluster.place_without(&[1, 0], find), Some((vec![1], vec![2, 3])));
    /// assert!(cluster.job(0).holds() && cluster.job(1).holds() && cluster.free_gpus(0) == 1);
    /// ```
    pub fn place_without(
        &mut self,
        victims: &[JobId],
        find: impl Fn(&Cluster) -> Option<Vec<GpuId>>,
    ) -> Option<(Vec<JobId>, Vec<GpuId>)> {
        let mut gone: Vec<Job> = Vec::new();
        let mut found = None;
        for id in victims {
            gone.push(self.let_go(*id));
            found = find(self);
            if found.is_some() {
                break;
            }
        }
        if found.is_some() {
            // Without the last there was none.
            for at in (0..gone.len() - 1).rev() {
                self.give_back(gone[at].clone());
                match find(self) {
                    Some(place) => {
                        found = Some(place);
                        gone.remove(at);
                    }
                    None => drop(self.let_go(gone[at].id)),
                }
            }
        }
        let ids = gone.iter().map(|job| job.id).collect();
        gone.into_iter().for_each(|before| self.give_back(before));
        found.map(|place| (ids, place))
    }

    /// Which of these jobs move for a waiting one, and where to, and its place then. They let go one after the other, until `find` finds a place for the waiting job and one for
    /// each of them, but for those that may stay where they are. What jobs hold is afterwards as before.
    ///
    /// ```
    /// use sandtable_policy::testing::{arrivals, demand};
    /// use sandtable_policy::{Cluster, Job, Placement};
    ///
    /// let mut cluster = sandtable_policy::testing::cluster(&[2, 2]);
    /// let (batch, new) = arrivals(vec![demand(1), demand(1), demand(2)]);
    /// cluster.take_in(&batch, new);
    /// cluster.start(0, vec![0]);
    /// cluster.start(1, vec![2]);
    /// let find = |cluster: &Cluster, job: &Job| Placement::Consolidate.find(cluster, 0, job.ask());
    /// assert_eq!(cluster.place_by_moving(2, &[1, 0], find), Some((vec![(1, vec![1])], vec![2, 3])));
    /// assert!(cluster.job(2).waits() && cluster.job(1).held == [2] && cluster.free_gpus(0) == 2);
    /// ```
    pub fn place_by_moving(
        &mut self,
        id: JobId,
        others: &[JobId],
        find: impl Fn(&Cluster, &Job) -> Option<Vec<GpuId>>,
    ) -> Option<Resettled> {
        let waiting = self.job(id).clone();
        let mut gone: Vec<Job> = Vec::new();
        let mut found = None;
        for other in others {
            gone.push(self.let_go(*other));
            let Some(place) = find(self, &waiting) else { continue };
            self.hold(id, &place);
            let moves = self.resettle(&gone, &find);
            self.release(id, self.now, JobPhase::Stopping);
            if let Some(moves) = moves {
                found = Some((moves, place));
                break;
            }
        }
        gone.into_iter().for_each(|before| self.give_back(before));
        self.release(id, self.now, waiting.phase);
        if let Some(job) = self.job_mut(id) {
            *job = waiting;
        }
        found
    }

    /// Which of these jobs, that have let go, have to go on elsewhere, and where; none: not all find a place.
    fn resettle(
        &mut self,
        gone: &[Job],
        find: impl Fn(&Cluster, &Job) -> Option<Vec<GpuId>>,
    ) -> Option<Vec<(JobId, Vec<GpuId>)>> {
        let mut elsewhere: Vec<&Job> = Vec::new();
        for job in gone {
            let of_gpus_alone = job.host.cpu_milli == 0 && job.host.memory_mib == 0;
            match of_gpus_alone && job.held.iter().all(|gpu| self.is_free(*gpu)) {
                true => self.hold(job.id, &job.held),
                false => elsewhere.push(job),
            }
        }
        let mut places: Vec<(JobId, Vec<GpuId>)> = Vec::new();
        for job in &elsewhere {
            let Some(gpus) = find(self, job) else { break };
            self.hold(job.id, &gpus);
            places.push((job.id, gpus));
        }
        gone.iter().for_each(|job| self.release(job.id, self.now, JobPhase::Stopping));
        (places.len() == elsewhere.len()).then(|| {
            places
                .into_iter()
                .zip(elsewhere)
                .filter(|((_, gpus), before)| *gpus != before.held)
                .map(|(moved, _)| moved)
                .collect()
        })
    }

    /// Frees what a job holds; returns the job as it was.
    fn let_go(&mut self, id: JobId) -> Job {
        let before = self.job(id).clone();
        self.release(id, self.now, JobPhase::Stopping);
        before
    }

    /// A job holds what it held, as if it had never let go.
    fn give_back(&mut self, before: Job) {
        self.place(before.id, before.slice);
        self.hold(before.id, &before.held);
        if let Some(job) = self.job_mut(before.id) {
            *job = Job { slot: job.slot, ..before };
        }
    }
}
