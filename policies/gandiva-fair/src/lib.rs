//! Gandiva_fair (Chaudhary et al., EuroSys 2020): every user has an equal share of every type of GPU, users trade shares of
//! slow types for shares of fast ones, and in every round gangs run by stride: the user that has received
//! the smallest part of its share comes first.
//!
//! Users are those that jobs name; a job without a user is its own user. The paper's per-server queues and its balancing of
//! load between servers, and users' tickets, are not part of it: all gangs are in one queue by type.

pub mod share;

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Event, GpuTypeId, Job, JobId, Kind, Knowledge, Moves, Param,
    Policy, PolicyError, Quantity, Setup, Trigger, host,
};
use share::trade;

/// A user: a name, or a job without a user.
type User = (String, Option<JobId>);

/// The policy.
pub struct GandivaFair {
    round: u64,
    trades: bool,
    jobs: BTreeSet<JobId>,
    /// GPU-time that each user has had of each type over its share; least first.
    passes: BTreeMap<User, Vec<f64>>,
    types: usize,
    /// Rates by type of what can be told apart of jobs: workload and gang.
    rates: BTreeMap<(Option<u32>, u32, Option<JobId>), Vec<f64>>,
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
            jobs: BTreeSet::new(),
            passes: BTreeMap::new(),
            types: setup.topology.gpu_types.len(),
            rates: BTreeMap::new(),
            moves: Moves::default(),
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence { round: Some(self.round), on_events: true }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        for event in &batch.events {
            match event {
                Event::JobArrived(info) => {
                    self.jobs.insert(info.id);
                }
                Event::JobEnded(end) => {
                    self.jobs.remove(&end.job);
                    self.rates.retain(|(_, _, own), _| own.is_none_or(|own| own != end.job));
                }
                _ => {}
            }
        }
        if batch.trigger == Trigger::Round {
            self.begin_round(cluster);
        }
        self.moves.resume(cluster);
        // GPUs that would idle until the next round go to waiting jobs, first come, first served.
        let mut waiting: Vec<(u64, JobId)> = self.jobs.iter().map(|id| (cluster.job(*id).submitted, *id)).collect();
        waiting.sort_unstable();
        self.moves.fill(cluster, waiting.into_iter().map(|(_, id)| id));
        Ok(())
    }
}

fn user_of(job: &Job) -> User {
    (job.user.to_string(), if job.user.is_empty() { Some(job.id) } else { None })
}

impl GandivaFair {
    /// Jobs by user, each user's by submission.
    fn users(&self, cluster: &Cluster) -> BTreeMap<User, Vec<JobId>> {
        let mut users: BTreeMap<User, Vec<JobId>> = BTreeMap::new();
        let mut order: Vec<&Job> = self.jobs.iter().map(|id| cluster.job(*id)).collect();
        order.sort_by_key(|job| (job.submitted, job.id));
        order.into_iter().for_each(|job| users.entry(user_of(job)).or_default().push(job.id));
        users
    }

    /// Throughputs of a job by type; 0: it does not run there.
    fn rates(&mut self, job: &Job) -> &[f64] {
        let own = if job.workload.is_none() { Some(job.id) } else { None };
        let types = self.types as GpuTypeId;
        self.rates.entry((job.workload, job.gpus, own)).or_insert_with(|| {
            let asked = host::estimate(Quantity::Throughput, vec![job.id; types as usize], (0..types).collect());
            asked.into_iter().map(|rate| if rate > 0.0 { rate } else { 0.0 }).collect()
        })
    }

    /// What each user has of each type, after trading.
    fn shares(&mut self, cluster: &Cluster, users: &BTreeMap<User, Vec<JobId>>) -> Vec<Vec<f64>> {
        let types = self.types as GpuTypeId;
        let count = users.len() as f64;
        let own = |kind: GpuTypeId| vec![f64::from(cluster.up_gpus(kind)) / count; users.len()];
        let mut shares: Vec<Vec<f64>> = (0..types).map(own).collect();
        if !self.trades {
            return shares;
        }
        // A user's rate on a type is the mean of its jobs'.
        let mut rates: Vec<Vec<f64>> = Vec::with_capacity(users.len());
        for jobs in users.values() {
            let mut mean = vec![0.0; self.types];
            for id in jobs {
                let own = self.rates(cluster.job(*id));
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
        let users = self.users(cluster);
        let shares = self.shares(cluster, &users);
        self.passes.retain(|user, _| users.contains_key(user));
        // A new user starts at the lowest pass of the others: it has no claim on the past.
        let mut least = vec![f64::INFINITY; self.types];
        for passes in self.passes.values() {
            least.iter_mut().zip(passes).for_each(|(least, pass)| *least = least.min(*pass));
        }
        let begin: Vec<f64> = least.into_iter().map(|pass| if pass.is_finite() { pass } else { 0.0 }).collect();
        for user in users.keys() {
            self.passes.entry(user.clone()).or_insert_with(|| begin.clone());
        }
        let chosen = self.choose(cluster, &users, &shares);
        self.moves.begin(cluster, &chosen);
    }

    /// By type, the gangs of the user with the least pass there, as long as GPUs remain.
    fn choose(
        &mut self,
        cluster: &Cluster,
        users: &BTreeMap<User, Vec<JobId>>,
        shares: &[Vec<f64>],
    ) -> BTreeMap<JobId, GpuTypeId> {
        let mut chosen: BTreeMap<JobId, GpuTypeId> = BTreeMap::new();
        // Jobs of each user that are not chosen yet, in order.
        let mut left: Vec<Vec<JobId>> = users.values().cloned().collect();
        for kind in 0..self.types as GpuTypeId {
            let at = kind as usize;
            let mut free = cluster.up_gpus(kind);
            loop {
                let mut best: Option<(f64, usize, usize, &User, f64)> = None;
                for (index, user) in users.keys().enumerate() {
                    let (share, pass) = (shares[at][index], self.passes.get(user).map_or(0.0, |passes| passes[at]));
                    if share <= 1e-9 || best.as_ref().is_some_and(|(least, ..)| pass >= *least) {
                        continue;
                    }
                    let fits = |id: &JobId| {
                        let job = cluster.job(*id);
                        job.gpus <= free && job.gpu_types.contains(&kind)
                    };
                    if let Some(place) = left[index].iter().position(fits) {
                        best = Some((pass, index, place, user, share));
                    }
                }
                let Some((_, index, place, user, share)) = best else { break };
                let id = left[index].remove(place);
                let gang = cluster.job(id).gpus;
                free -= gang;
                chosen.insert(id, kind);
                if let Some(passes) = self.passes.get_mut(user) {
                    passes[at] += f64::from(gang) / share;
                }
            }
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
