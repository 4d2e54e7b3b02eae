//! Chronus-like: jobs with a deadline are admitted if whole leases for all of them fit before their deadlines, and run in the last that fit; jobs without one
//! have the GPUs until then (after Gao et al., SoCC 2021, and its artifact's rules of admission and order).
//!
//! At each multiple of the lease it is decided anew who runs: jobs whose plan has the next lease, then jobs without a deadline by the GPU-seconds that they
//! still need, then the others. Between, jobs that wait start where GPUs are free. Reconstructions, hence the name: soft deadlines, of which value is left when
//! they are missed, are not there; GPUs of all types are alike to the plan; places are found by the SDK's rule, not by a local search.

mod plan;

use std::collections::BTreeSet;

use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Event, GpuTypeId, JobId, Kind, Knowledge, Param, Placement,
    Policy, PolicyError, Rounds, Setup, Shapes, Trigger,
};

use plan::{Due, lay_out, leases};

/// Class of the jobs that have the present lease.
const DUE: u8 = 0;

/// Where a job stands: its class, the GPU-seconds that it still needs as the bits of a number of at least 0, its id.
type Rank = (u8, u64, JobId);

/// The policy.
pub struct ChronusLike {
    lease: u64,
    /// Whether a job that can't be admitted is refused; else it is served as if it had no deadline.
    refuses: bool,
    place: Placement,
    /// Jobs with a deadline that were admitted.
    admitted: BTreeSet<JobId>,
    /// Of these the ones that have the present lease.
    due: BTreeSet<JobId>,
    /// Jobs that wait, by rank.
    waiting: BTreeSet<Rank>,
}

impl Policy for ChronusLike {
    fn about() -> About {
        About {
            name: "chronus-like",
            about: "whole leases laid out backwards from deadlines, other jobs before them (after Chronus, SoCC 2021; soft deadlines and placement are not its own)",
            uses: Abilities::PREEMPT | Abilities::TIMERS | Abilities::REFUSE,
            needs: Knowledge::REMAINING,
            params: &[
                Param {
                    name: "lease",
                    kind: Kind::Number { min: 1.0, max: 1e7 },
                    default: "3600",
                    about: "Seconds of a lease: at multiples of it is decided which jobs run.",
                },
                Param {
                    name: "without_lease",
                    kind: Kind::Choice(&["refuse", "serve"]),
                    default: "\"refuse\"",
                    about: "What happens to a job whose leases do not fit before its deadline: it is refused, or served as if it had none.",
                },
                Placement::PARAM,
            ],
        }
    }

    fn new(config: &Config, _: &Setup) -> Result<Self, PolicyError> {
        Ok(ChronusLike {
            lease: config.micros("lease"),
            refuses: config.choice("without_lease") == "refuse",
            place: Placement::named(config.choice("placement")),
            admitted: BTreeSet::new(),
            due: BTreeSet::new(),
            waiting: BTreeSet::new(),
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence { round: Some(self.lease), ..Cadence::EVENTS }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let mut new: Vec<JobId> = Vec::new();
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) => new.push(arrival.job),
                Event::JobEnded(end) => {
                    self.admitted.remove(&end.job);
                    self.due.remove(&end.job);
                }
                _ => {}
            }
        }
        new.retain(|id| cluster.get(*id).is_some_and(|job| job.deadline.is_some()));
        if batch.trigger == Trigger::Resync {
            // Those that were here before have been admitted.
            self.admitted.extend(std::mem::take(&mut new));
        }
        self.admit(cluster, new);
        let queued = batch.events.iter().flat_map(|event| cluster.queued_by(event));
        let queued: Vec<JobId> = queued.map(|job| job.id).collect();
        if !queued.is_empty() {
            let ranks = self.ranks(cluster, &queued);
            self.waiting.retain(|(.., id)| !queued.contains(id));
            self.waiting.extend(ranks);
        }
        if batch.now.is_multiple_of(self.lease) || batch.trigger == Trigger::Resync {
            self.begin(cluster);
        } else {
            self.start(cluster);
        }
        Ok(())
    }
}

impl ChronusLike {
    /// Admits new jobs, one after the other, if then all that are admitted still have their leases.
    fn admit(&mut self, cluster: &mut Cluster, new: Vec<JobId>) {
        if new.is_empty() {
            return;
        }
        let gpus = cluster.all_up_gpus();
        let mut dues = self.dues(cluster);
        let (_, mut late) = lay_out(dues.clone(), gpus);
        for id in new {
            let Some(due) = self.due_of(cluster, &[id]).pop() else { continue };
            dues.push(due);
            let (_, then) = lay_out(dues.clone(), gpus);
            if then.is_subset(&late) {
                self.admitted.insert(id);
                late = then;
                continue;
            }
            dues.pop();
            if self.refuses && cluster.job(id).waits() {
                cluster.refuse(id);
            }
        }
    }

    /// The admitted jobs in leases.
    fn dues(&self, cluster: &Cluster) -> Vec<Due> {
        let ids: Vec<JobId> = self.admitted.iter().copied().filter(|id| cluster.get(*id).is_some()).collect();
        self.due_of(cluster, &ids)
    }

    /// Jobs in leases; without those of unknown length. What a job that runs has done by the next lease it does not need.
    fn due_of(&self, cluster: &Cluster, ids: &[JobId]) -> Vec<Due> {
        let now = cluster.now();
        let until_next = now.div_ceil(self.lease) * self.lease - now;
        let due = |(id, left): (&JobId, f64)| {
            let job = cluster.job(*id);
            let left = if left.is_nan() { return None } else { (left.max(0.0) * 1e6).ceil() as u64 };
            let left = if job.holds() { left.saturating_sub(until_next) } else { left };
            let (need, latest) = leases(left, job.deadline?, now, self.lease);
            Some(Due { id: *id, gpus: job.gpus, need, latest })
        };
        ids.iter().zip(cluster.remaining(ids)).filter_map(due).collect()
    }

    /// A lease begins: the jobs that have it in the plan, then the others in their order, as long as there are GPUs.
    fn begin(&mut self, cluster: &mut Cluster) {
        let (next, late) = lay_out(self.dues(cluster), cluster.all_up_gpus());
        // A job whose leases do not fit any more is served at once.
        self.due = next.union(&late).copied().collect();
        let ids: Vec<JobId> = cluster.jobs().filter(|job| job.waits() || job.holds()).map(|job| job.id).collect();
        let mut ranked: Vec<Rank> = self.ranks(cluster, &ids);
        ranked.sort_unstable();
        self.waiting = ranked.iter().copied().filter(|(.., id)| cluster.job(*id).waits()).collect();
        let mut left = cluster.all_up_gpus();
        let mut chosen: Vec<JobId> = Vec::new();
        for (.., id) in ranked {
            let gpus = cluster.job(id).gpus;
            if gpus <= left {
                left -= gpus;
                chosen.push(id);
            }
        }
        // Jobs that move, and those whose GPUs are still being let go, start with the others that wait.
        Rounds::default().begin(cluster, &chosen);
        self.start(cluster);
    }

    /// Starts jobs that wait where GPUs are free; behind one that has the present lease, and no place yet, none starts.
    fn start(&mut self, cluster: &mut Cluster) {
        let mut shapes = Shapes::default();
        let mut started: Vec<Rank> = Vec::new();
        for rank in &self.waiting {
            let (class, _, id) = *rank;
            if !(0..cluster.types() as GpuTypeId).any(|gpu_type| cluster.free_gpus(gpu_type) > 0) {
                break;
            }
            let Some(job) = cluster.get(id).filter(|job| job.waits()) else {
                started.push(*rank);
                continue;
            };
            match shapes.place(self.place, cluster, job) {
                Some(gpus) => {
                    cluster.start(id, gpus);
                    started.push(*rank);
                }
                None if class == DUE => break,
                None => {}
            }
        }
        for rank in started {
            self.waiting.remove(&rank);
        }
    }

    /// Where jobs stand: those that have the present lease, those without a deadline, the others; each by the GPU-seconds that it still needs.
    fn ranks(&self, cluster: &Cluster, ids: &[JobId]) -> Vec<Rank> {
        let rank = |(id, left): (&JobId, f64)| {
            let class = match (self.due.contains(id), self.admitted.contains(id)) {
                (true, _) => DUE,
                (false, false) => DUE + 1,
                (false, true) => DUE + 2,
            };
            let gpus = f64::from(cluster.job(*id).gpus);
            let service = if left.is_nan() { f64::INFINITY } else { left.max(0.0) * gpus };
            (class, service.to_bits(), *id)
        };
        ids.iter().zip(cluster.remaining(ids)).map(rank).collect()
    }
}

sandtable_policy::export!(ChronusLike);

#[cfg(test)]
mod tests {
    use super::ChronusLike;
    use sandtable_policy::testing::{TINY, completion_times};

    #[test]
    fn without_deadlines_the_job_of_the_fewest_gpu_seconds_comes_first_at_each_lease() {
        assert_eq!(completion_times::<ChronusLike>("{}", TINY.0, TINY.1), [5000, 6000]);
        // At 100 s the short job gets the GPU of the long one.
        let jobs = [(0, 1, 1000), (10, 1, 50)];
        assert_eq!(completion_times::<ChronusLike>("{\"lease\": 100}", &[1], &jobs), [1050, 140]);
    }
}
