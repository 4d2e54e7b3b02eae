//! Gandiva_fair (Chaudhary et al., EuroSys 2020): every user has an equal share of every type of GPU, users trade shares of
//! slow types for shares of fast ones, and in every round gangs run by stride: the user that has received
//! the smallest part of its share comes first.
//!
//! Users are those that jobs name; a job without a user is its own user. The paper's per-server queues and its balancing of
//! load between servers, and users' tickets, are not part of it: all gangs are in one queue by type.

pub mod share;
pub mod stride;

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Event, GpuTypeId, Job, JobId, Kind, Knowledge, Moves, Param,
    Policy, PolicyError, Quantity, Setup, Trigger, host,
};
use share::trade;

/// A user: a name, or a job without a user.
type User = (String, Option<JobId>);

/// What a user has.
#[derive(Default)]
struct Account {
    /// Its live jobs.
    jobs: BTreeSet<JobId>,
    /// GPU-time that it has had of each type over its share; empty before its first round.
    passes: Vec<f64>,
}

/// What can be told apart of jobs: workload and gang, or a job without a workload.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rated {
    Gang(u32, u32),
    Job(JobId),
}

/// The policy.
pub struct GandivaFair {
    round: u64,
    trades: bool,
    /// The user of each live job. Ids are in the order of submission.
    jobs: BTreeMap<JobId, User>,
    /// Users of the last round, and those that came since.
    users: BTreeMap<User, Account>,
    types: usize,
    /// Rates by type.
    rates: BTreeMap<Rated, Vec<f64>>,
    moves: Moves,
}

impl Policy for GandivaFair {
    fn about() -> About {
        About {
            name: "gandiva-fair",
            about: "Gandiva_fair: gang-aware stride over equal shares, and trade of GPU types (Chaudhary et al. 2020; no tickets, one queue by type, no balancing between servers)",
            uses: Abilities::PREEMPT | Abilities::TIMERS,
            needs: Knowledge::THROUGHPUT,
            params: &[
                Param {
                    name: "round",
                    kind: Kind::Number { min: 1.0, max: 1e6 },
                    default: "60",
                    about: "Seconds of a round.",
                },
                Param {
                    name: "trade",
                    kind: Kind::Flag,
                    default: "true",
                    about: "Whether users trade shares of types.",
                },
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        Ok(GandivaFair {
            round: config.micros("round"),
            trades: config.flag("trade"),
            jobs: BTreeMap::new(),
            users: BTreeMap::new(),
            types: setup.topology.gpu_types.len(),
            rates: BTreeMap::new(),
            moves: Moves::default(),
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence { round: Some(self.round), ..Cadence::EVENTS }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) => {
                    // One that has ended since came for nothing.
                    let Some(user) = cluster.get(arrival.job).map(user_of) else { continue };
                    self.users.entry(user.clone()).or_default().jobs.insert(arrival.job);
                    self.jobs.insert(arrival.job, user);
                }
                Event::JobEnded(end) => {
                    let account = self.jobs.remove(&end.job).and_then(|user| self.users.get_mut(&user));
                    account.map(|account| account.jobs.remove(&end.job));
                    self.rates.remove(&Rated::Job(end.job));
                }
                _ => {}
            }
        }
        if batch.trigger == Trigger::Round {
            self.begin_round(cluster);
        }
        self.moves.resume(cluster);
        // GPUs that would idle until the next round go to waiting jobs, first come, first served.
        self.moves.fill(cluster, self.jobs.keys().copied());
        Ok(())
    }
}

fn user_of(job: &Job) -> User {
    (job.user.to_string(), if job.user.is_empty() { Some(job.id) } else { None })
}

/// Throughputs of a job by type; 0: it does not run there.
fn rates_of<'a>(known: &'a mut BTreeMap<Rated, Vec<f64>>, types: GpuTypeId, job: &Job) -> &'a [f64] {
    let key = job.workload.map_or(Rated::Job(job.id), |workload| Rated::Gang(workload, job.gpus));
    known.entry(key).or_insert_with(|| {
        let asked = host::estimate(Quantity::Throughput, vec![job.id; types as usize], (0..types).collect());
        asked.into_iter().map(|rate| if rate > 0.0 { rate } else { 0.0 }).collect()
    })
}

impl GandivaFair {
    /// What each user has of each type, after trading.
    fn shares(&mut self, cluster: &Cluster) -> Vec<Vec<f64>> {
        let types = self.types as GpuTypeId;
        let count = self.users.len();
        let own = |kind: GpuTypeId| vec![f64::from(cluster.up_gpus(kind)) / count as f64; count];
        let mut shares: Vec<Vec<f64>> = (0..types).map(own).collect();
        if !self.trades {
            return shares;
        }
        // A user's rate on a type is the mean of its jobs'.
        let mut rates: Vec<Vec<f64>> = Vec::with_capacity(count);
        for Account { jobs, .. } in self.users.values() {
            let mut mean = vec![0.0; self.types];
            for id in jobs {
                let own = rates_of(&mut self.rates, types, cluster.job(*id));
                mean.iter_mut().zip(own).for_each(|(mean, rate)| *mean += rate / jobs.len() as f64);
            }
            rates.push(mean);
        }
        let mean = |kind: usize| rates.iter().map(|rates| rates[kind]).sum::<f64>();
        let mut by_speed: Vec<usize> = (0..self.types).collect();
        by_speed.sort_by(|a, b| mean(*a).total_cmp(&mean(*b)).then(a.cmp(b)));
        for (at, slow) in by_speed.iter().enumerate() {
            for fast in by_speed[at + 1..].iter().rev() {
                let gain = |rates: &Vec<f64>| if rates[*slow] > 0.0 { rates[*fast] / rates[*slow] } else { 1e9 };
                let speed_up: Vec<f64> = rates.iter().map(gain).collect();
                let mut cheap = std::mem::take(&mut shares[*slow]);
                trade(&mut cheap, &mut shares[*fast], &speed_up);
                shares[*slow] = cheap;
            }
        }
        shares
    }

    fn begin_round(&mut self, cluster: &mut Cluster) {
        if self.jobs.is_empty() {
            return;
        }
        self.users.retain(|_, account| !account.jobs.is_empty());
        let shares = self.shares(cluster);
        // A new user starts at the lowest pass of the others: it has no claim on the past.
        let mut least = vec![f64::INFINITY; self.types];
        for Account { passes, .. } in self.users.values() {
            least.iter_mut().zip(passes).for_each(|(least, pass)| *least = least.min(*pass));
        }
        let begin: Vec<f64> = least.into_iter().map(|pass| if pass.is_finite() { pass } else { 0.0 }).collect();
        for Account { passes, .. } in self.users.values_mut().filter(|account| account.passes.is_empty()) {
            passes.clone_from(&begin);
        }
        let chosen = self.choose(cluster, &shares);
        self.moves.begin(cluster, &chosen);
    }

    /// By type, the gangs of the user with the least pass there, as long as GPUs remain.
    fn choose(&mut self, cluster: &Cluster, shares: &[Vec<f64>]) -> BTreeMap<JobId, GpuTypeId> {
        let mut chosen: BTreeMap<JobId, GpuTypeId> = BTreeMap::new();
        let mut queues: Vec<Vec<&Job>> = Vec::with_capacity(self.users.len());
        let mut passes: Vec<&mut Vec<f64>> = Vec::with_capacity(self.users.len());
        for Account { jobs, passes: own } in self.users.values_mut() {
            queues.push(jobs.iter().map(|id| cluster.job(*id)).collect());
            passes.push(own);
        }
        for kind in 0..self.types {
            let gpu_type = kind as GpuTypeId;
            let gang = |job: &&Job| job.gpu_types.contains(&gpu_type).then_some(job.gpus);
            let gangs: Vec<Vec<Option<u32>>> = queues.iter().map(|queue| queue.iter().map(gang).collect()).collect();
            let mut own: Vec<f64> = passes.iter().map(|passes| passes[kind]).collect();
            for (user, place) in stride::choose(cluster.up_gpus(gpu_type), &gangs, &shares[kind], &mut own) {
                chosen.insert(queues[user][place].id, gpu_type);
            }
            passes.iter_mut().zip(own).for_each(|(passes, own)| passes[kind] = own);
            queues.iter_mut().for_each(|queue| queue.retain(|job| !chosen.contains_key(&job.id)));
        }
        chosen
    }
}

sandtable_policy::export!(GandivaFair);

#[cfg(test)]
mod tests {
    use super::GandivaFair;
    use sandtable_policy::testing::completion_times;

    #[test]
    fn two_jobs_of_one_size_take_turns() {
        let times = completion_times::<GandivaFair>("{}", &[1], &[(0, 1, 600), (0, 1, 600)]);
        assert_eq!(*times.iter().max().expect("two jobs"), 1200);
        assert!(times.iter().all(|time| *time >= 1080), "{times:?}");
    }

    #[test]
    fn a_gang_is_not_starved_by_single_jobs() {
        let times = completion_times::<GandivaFair>("{}", &[2], &[(0, 1, 3000), (0, 1, 3000), (10, 2, 600)]);
        assert!(times[2] < 3000, "{times:?}");
    }
}
