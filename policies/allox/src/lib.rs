//! AlloX (Le et al., EuroSys 2020), in Gavel's reading: jobs are matched with places in the queues of the GPUs so that
//! completion times are short on average; place k of a GPU costs k times the job's run time there.
//!
//! It is made for jobs of one GPU. Larger gangs, which the paper does not have, start first come, first served on the
//! type with room on which they run the fastest, before any other job is matched; a node is reserved for a gang that has
//! waited too long.

pub mod matching;

use std::collections::BTreeSet;

use matching::assign;
use sandtable_policy::{
    Abilities, About, Batch, Cluster, Config, GpuTypeId, Instant, JobId, Kind, Knowledge, NodeId, Param, Placement,
    Policy, PolicyError, Quantity, Setup, host,
};

/// The policy.
pub struct AlloX {
    waiting: BTreeSet<(Instant, JobId)>,
    window: usize,
    patience: u64,
    /// The gang that has waited too long, and the node that is kept for it.
    kept: Option<(JobId, NodeId)>,
}

impl Policy for AlloX {
    fn about() -> About {
        About {
            name: "allox",
            about: "AlloX: min-cost matching of jobs with places by type of GPU (Le et al. 2020, in Gavel's reading; gangs by ours)",
            uses: Abilities::empty(),
            needs: Knowledge::REMAINING,
            params: &[
                Param {
                    name: "window",
                    kind: Kind::Number { min: 1.0, max: 1000.0 },
                    default: "64",
                    about: "Jobs that are matched: those that have waited the longest.",
                },
                Param {
                    name: "gang_patience",
                    kind: Kind::Number { min: 0.0, max: 1e9 },
                    default: "7200",
                    about: "Seconds that the first of the gangs waits before the node nearest to taking it is kept for it.",
                },
            ],
        }
    }

    fn new(config: &Config, _: &Setup) -> Result<Self, PolicyError> {
        let (window, patience) = (config.number("window") as usize, config.micros("gang_patience"));
        Ok(AlloX { waiting: BTreeSet::new(), window, patience, kept: None })
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        for event in &batch.events {
            for job in cluster.queued_by(event) {
                self.waiting.insert((job.submitted, job.id));
            }
        }
        self.start_gangs(cluster);
        self.start_matched(cluster);
        Ok(())
    }
}

/// Seconds assumed for an unknown run time.
const UNKNOWN: f64 = 3600.0;

/// Seconds of a job on each type; none where it may not run.
fn run_times(cluster: &Cluster, id: JobId) -> Vec<Option<f64>> {
    let types: Vec<GpuTypeId> = (0..cluster.types() as GpuTypeId).collect();
    let left = host::estimate(Quantity::Remaining, vec![id; types.len()], types.clone());
    let allowed = &cluster.job(id).gpu_types;
    let known = |left: f64| if left.is_nan() { UNKNOWN } else { left };
    types.iter().zip(left).map(|(kind, left)| allowed.contains(kind).then(|| known(left))).collect()
}

impl AlloX {
    fn start(&mut self, cluster: &mut Cluster, id: JobId, gpus: Vec<u32>) {
        self.waiting.remove(&(cluster.job(id).submitted, id));
        self.kept = self.kept.filter(|(head, _)| *head != id);
        cluster.start(id, gpus);
    }

    /// The head of the gangs blocks the gangs behind it, unless it is larger than what is up of every type that it may have.
    fn start_gangs(&mut self, cluster: &mut Cluster) {
        let gangs: Vec<JobId> = self.waiting.iter().map(|(_, id)| *id).filter(|id| cluster.job(*id).gpus > 1).collect();
        for id in gangs {
            let times = run_times(cluster, id);
            let mut kinds: Vec<(f64, usize)> =
                times.iter().enumerate().filter_map(|(kind, time)| Some(((*time)?, kind))).collect();
            kinds.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let ask = cluster.job(id).ask();
            let place = kinds.iter().find_map(|(_, kind)| Placement::Packed.find(cluster, *kind as GpuTypeId, ask));
            match place {
                Some(gpus) => self.start(cluster, id, gpus),
                None if kinds.iter().all(|(_, kind)| cluster.up_gpus(*kind as GpuTypeId) < cluster.job(id).gpus) => {}
                None => return self.guard(cluster, id),
            }
        }
    }

    fn guard(&mut self, cluster: &Cluster, head: JobId) {
        let job = cluster.job(head);
        let kept = self.kept.is_some_and(|(kept, _)| kept == head);
        if !kept && job.waited(cluster.now()) >= self.patience {
            self.kept = cluster.nearest_node(job).map(|node| (head, node));
        }
    }

    fn start_matched(&mut self, cluster: &mut Cluster) {
        let jobs: Vec<JobId> = self.waiting.iter().map(|(_, id)| *id).filter(|id| cluster.job(*id).gpus == 1).collect();
        let jobs: Vec<JobId> = jobs.into_iter().take(self.window).collect();
        // Free GPUs first, then held ones by the time at which their jobs end.
        let mut workers: Vec<(GpuTypeId, f64, Option<NodeId>)> = Vec::new();
        let kept = self.kept.map(|(_, node)| node);
        for node in (0..cluster.node_count() as NodeId).filter(|node| kept != Some(*node)) {
            let kind = cluster.node_type(node);
            workers.extend((0..cluster.free_on(node)).map(|_| (kind, 0.0, Some(node))));
        }
        if jobs.is_empty() || workers.is_empty() {
            return;
        }
        let held: Vec<JobId> = cluster.holders().map(|job| job.id).collect();
        for (id, left) in held.iter().zip(cluster.remaining(&held)) {
            let job = cluster.job(*id);
            let left = if left.is_nan() { UNKNOWN } else { left };
            workers.extend(job.held.iter().map(|_| (cluster.type_of(job), left, None)));
        }
        let busy = |worker: &(GpuTypeId, f64, Option<NodeId>)| worker.1;
        workers.sort_by(|a, b| busy(a).total_cmp(&busy(b)));
        // So many of each type that all could go there; and as deep as it takes.
        let mut counts = vec![0; cluster.types()];
        workers.retain(|(kind, ..)| {
            counts[*kind as usize] += 1;
            counts[*kind as usize] <= jobs.len()
        });
        let depth = jobs.len().div_ceil(workers.len()) + 1;
        let now = cluster.now();
        // Where a job may not run costs more than any place.
        let never = 1e15;
        let costs: Vec<Vec<f64>> = jobs
            .iter()
            .map(|id| {
                let (times, waited) = (run_times(cluster, *id), cluster.job(*id).waited(now) as f64 / 1e6);
                let of = |(kind, busy, _): &(GpuTypeId, f64, Option<NodeId>), k: usize| match times[*kind as usize] {
                    Some(time) => k as f64 * time + busy + waited,
                    None => never,
                };
                workers.iter().flat_map(|worker| (1..=depth).map(move |k| of(worker, k))).collect()
            })
            .collect();
        let places = assign(&costs);
        // Place 1 is the last before the queue's end: the job with the deepest place of a GPU runs on it first.
        let mut first: Vec<Option<(usize, JobId)>> = vec![None; workers.len()];
        for (row, (id, column)) in jobs.iter().zip(places).enumerate() {
            let (worker, k) = (column / depth, column % depth);
            if costs[row][column] < never && first[worker].is_none_or(|(deepest, _)| k > deepest) {
                first[worker] = Some((k, *id));
            }
        }
        for ((_, _, node), first) in workers.into_iter().zip(first) {
            if let (Some(node), Some((_, id))) = (node, first) {
                let gpus = cluster.take_from(node, 1);
                self.start(cluster, id, gpus);
            }
        }
    }
}

sandtable_policy::export!(AlloX);

#[cfg(test)]
mod tests {
    use super::AlloX;
    use sandtable_policy::testing::{SMALL, completion_times};

    #[test]
    fn on_one_gpu_the_shortest_goes_first() {
        let times = completion_times::<AlloX>("{}", &[1], &[(0, 1, 100), (1, 1, 500), (2, 1, 50), (3, 1, 200)]);
        assert_eq!(times, [100, 849, 148, 347]);
    }

    #[test]
    fn a_gang_is_not_starved_by_single_jobs() {
        // Single jobs that keep all four GPUs busy for half an hour, and a gang that wants them all.
        let mut jobs: Vec<(u64, u32, u64)> = (0..30).map(|at| (at * 60, 1, 300)).collect();
        jobs.insert(1, (10, 4, 100));
        let waited = |config: &str| completion_times::<AlloX>(config, &[4], &jobs)[1] - 100;
        assert!(waited("{\"gang_patience\": 100}") <= 400, "a node is kept for it");
        assert!(waited("{\"gang_patience\": 1000000}") > 1000, "no node is reserved");
    }

    #[test]
    fn gangs_come_before_single_jobs() {
        let times = completion_times::<AlloX>("{}", SMALL.0, SMALL.1);
        assert_eq!(times[1], 9990 + 20, "it waits for the whole node, which no other job is started on");
    }
}
