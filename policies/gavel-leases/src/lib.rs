//! Gavel's mechanism of leases (Narayanan et al., OSDI 2020) as its simulator and Shockwave's have it: every job is due a share of the time, and in each round those
//! lease GPUs that have had the least of theirs. GPUs of all types are alike to it.
//!
//! Source: Shockwave's artifact (commit 8a44f4a). With the preset `shockwave` the rounds of its runs under `gandiva-fair` and `allox` are met, job by job and GPU
//! by GPU. Shares by other objectives are not unique, and those published are a solver's: see [`shares`].

mod allox;
mod rounds;
mod shares;

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::driver::needed;
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, GpuId, Job, JobId, JobPhase, Kind, Knowledge, Param, Policy,
    PolicyError, Setup, Trigger,
};

use rounds::{Accounts, Clock};
use shares::Objective;

/// The policy.
pub struct GavelLeases {
    round: u64,
    accounts: Accounts,
    clock: Clock,
    /// GPUs of jobs that move: they start there once they have let go of those that they held.
    moving: BTreeMap<JobId, Vec<GpuId>>,
}

impl Policy for GavelLeases {
    fn about() -> About {
        About {
            name: "gavel-leases",
            about: "shares of time by Gandiva_fair's, AlloX's and other objectives, carried out in leases as in Gavel's and Shockwave's simulators",
            uses: Abilities::PREEMPT | Abilities::TIMERS,
            needs: Knowledge::empty(),
            params: &[
                Param {
                    name: "objective",
                    kind: Kind::Choice(Objective::WORDS),
                    default: "\"gandiva-fair\"",
                    about: "What shares are the best for; allox, min-total-duration and finish-time-fairness need `remaining`, max-sum-throughput needs `steps`.",
                },
                Param {
                    name: "round",
                    kind: Kind::Number { min: 1.0, max: 1e6 },
                    default: "120",
                    about: "Seconds of a round, where the experiment does not lease GPUs.",
                },
                Param {
                    name: "reset",
                    kind: Kind::Number { min: 0.0, max: 1e9 },
                    default: "1000",
                    about: "Seconds for which shares hold at least; a job that comes meanwhile has none.",
                },
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let objective = Objective::named(config.choice("objective"));
        needed(config.choice("objective"), objective.needs(), setup.knowledge)?;
        let round = config.micros("round");
        Ok(GavelLeases {
            round,
            accounts: Accounts::new(objective, config.number("reset"), round as f64 / 2e6),
            clock: Clock::default(),
            moving: BTreeMap::new(),
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence { round: Some(self.round), ..Cadence::EVENTS }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.accounts.take_in(batch, cluster, &mut self.clock);
        if batch.trigger == Trigger::Round {
            self.clock.begin(cluster.now());
            self.begin_round(cluster);
        }
        self.resume(cluster);
        Ok(())
    }
}

impl GavelLeases {
    /// Gives the GPUs of a round to the jobs that lead.
    fn begin_round(&mut self, cluster: &mut Cluster) {
        self.moving.clear();
        let chosen = self.accounts.choose(cluster, self.clock.seconds());
        let places = places(cluster, &chosen);
        let stays = |job: &Job| !may_go(job) || places.get(&job.id).is_some_and(|gpus| *gpus == job.held);
        let mut leave: Vec<JobId> = cluster.holders().filter(|job| !stays(job)).map(|job| job.id).collect();
        leave.sort_unstable();
        leave.iter().for_each(|id| cluster.preempt(*id));
        if !leave.is_empty() {
            cluster.call_again();
        }
        for (id, gpus) in places {
            let job = cluster.job(id);
            if job.waits() && gpus.iter().all(|gpu| cluster.is_free(*gpu)) {
                cluster.start(id, gpus);
            } else if !job.holds() {
                self.moving.insert(id, gpus);
            }
        }
    }

    /// Starts jobs that move, where they have let go.
    fn resume(&mut self, cluster: &mut Cluster) {
        for (id, gpus) in std::mem::take(&mut self.moving) {
            match cluster.get(id) {
                Some(job) if job.waits() && gpus.iter().all(|gpu| cluster.is_free(*gpu)) => cluster.start(id, gpus),
                Some(job) if job.phase == JobPhase::Stopping => {
                    self.moving.insert(id, gpus);
                }
                _ => {}
            }
        }
    }
}

fn may_go(job: &Job) -> bool {
    job.preemptible && job.phase == JobPhase::Running
}

/// GPUs of the jobs that lead, the largest gangs first: those that it holds, if they are still free, else the lowest free ones of a type that it allows.
fn places(cluster: &Cluster, chosen: &[JobId]) -> BTreeMap<JobId, Vec<GpuId>> {
    let mut free: Vec<BTreeSet<GpuId>> = vec![BTreeSet::new(); cluster.types()];
    for node in (0..cluster.node_count() as u32).filter(|node| cluster.is_up(*node)) {
        free[cluster.node_type(node) as usize].extend(cluster.node_gpus(node));
    }
    for job in cluster.holders().filter(|job| !may_go(job)) {
        let kind = cluster.type_of(job) as usize;
        for gpu in &job.held {
            free[kind].remove(gpu);
        }
    }
    let mut sizes: BTreeMap<u32, Vec<&Job>> = BTreeMap::new();
    chosen.iter().map(|id| cluster.job(*id)).for_each(|job| sizes.entry(job.gpus).or_default().push(job));
    let mut places = BTreeMap::new();
    for jobs in sizes.into_values().rev() {
        for job in jobs.iter().filter(|job| job.holds()) {
            let kind = cluster.type_of(job) as usize;
            if !may_go(job) || job.held.iter().all(|gpu| free[kind].contains(gpu)) {
                for gpu in &job.held {
                    free[kind].remove(gpu);
                }
                places.insert(job.id, job.held.clone());
            }
        }
        for job in jobs {
            if places.contains_key(&job.id) {
                continue;
            }
            let enough = |kind: &&u32| free[**kind as usize].len() >= job.gpus as usize;
            let Some(kind) = job.gpu_types.iter().find(enough) else { continue };
            let pool = &mut free[*kind as usize];
            let gpus: Vec<GpuId> = pool.iter().copied().take(job.gpus as usize).collect();
            for gpu in &gpus {
                pool.remove(gpu);
            }
            places.insert(job.id, gpus);
        }
    }
    places
}

sandtable_policy::export!(GavelLeases);

#[cfg(test)]
mod tests {
    use super::GavelLeases;
    use sandtable_policy::testing::completion_times;

    #[test]
    fn two_jobs_of_one_size_take_turns() {
        let times = completion_times::<GavelLeases>("{}", &[1], &[(0, 1, 600), (0, 1, 600)]);
        assert_eq!(*times.iter().max().expect("two jobs"), 1200);
        assert!(times.iter().all(|time| *time >= 1080), "{times:?}");
    }

    #[test]
    fn under_allox_a_job_runs_to_its_end() {
        // Of two jobs that are as old only one is matched with the GPU.
        let config = "{\"objective\": \"allox\"}";
        let times = completion_times::<GavelLeases>(config, &[1], &[(0, 1, 600), (0, 1, 240)]);
        assert_eq!(times, [600, 840]);
    }

    #[test]
    fn every_objective_ends_every_job_of_gangs_that_come_and_go() {
        let jobs: Vec<(u64, u32, u64)> = (0..40).map(|at| (at * 97, 1 + (at % 3) as u32, 200 + at * 31)).collect();
        for objective in super::Objective::WORDS {
            let config = format!("{{\"objective\": {objective:?}, \"reset\": 120}}");
            let times = completion_times::<GavelLeases>(&config, &[2, 2], &jobs);
            assert!(times.iter().zip(&jobs).all(|(time, job)| *time >= job.2), "{objective}: {times:?}");
        }
    }
}
