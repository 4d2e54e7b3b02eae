//! Gandiva_fair (Chaudhary et al., EuroSys 2020): every user has tickets for every type of GPU, users trade shares of
//! slow types for shares of fast ones, and in every round gangs run by stride: whoever has had the least of its share.
//!
//! Users are those that jobs name; a job of nobody is its own user. The paper's per-server queues and its balancing of
//! load between servers are not part of it: all gangs are in one queue by type.

pub mod share;

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Event, GpuTypeId, Job, JobId, JobPhase, Kind, Knowledge, Param,
    Placement, Policy, PolicyError, Quantity, Setup, Trigger, host,
};
use share::trade;

/// Whose jobs: a name, or a job that nobody owns.
type User = (String, Option<JobId>);

/// The policy.
pub struct GandivaFair {
    round: u64,
    trades: bool,
    jobs: BTreeSet<JobId>,
    /// GPU-time that each user has had of each type over its share; least first.
    passes: BTreeMap<User, Vec<f64>>,
    types: usize,
}

impl Policy for GandivaFair {
    fn about() -> About {
        About {
            name: "gandiva-fair",
            about: "Gandiva_fair: tickets, gang-aware stride and trade of GPU types (Chaudhary et al. 2020; one queue by type, no balancing between servers)",
            uses: Abilities::PREEMPT,
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
                }
                _ => {}
            }
        }
        if batch.trigger == Trigger::Round {
            self.begin_round(cluster);
        }
        self.start_what_fits(cluster);
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

    /// What each user has of each type, after trading.
    fn shares(&self, cluster: &Cluster, users: &BTreeMap<User, Vec<JobId>>) -> Vec<Vec<f64>> {
        let types = self.types as GpuTypeId;
        let count = users.len() as f64;
        let own = |kind: GpuTypeId| vec![f64::from(cluster.up_gpus(kind)) / count; users.len()];
        let mut shares: Vec<Vec<f64>> = (0..types).map(own).collect();
        if !self.trades {
            return shares;
        }
        // A user's rate on a type is the mean of its jobs'.
        let rates: Vec<Vec<f64>> = users
            .values()
            .map(|jobs| {
                let mut sums = vec![0.0; self.types];
                for id in jobs {
                    let asked = host::estimate(Quantity::Throughput, vec![*id; self.types], (0..types).collect());
                    sums.iter_mut().zip(asked).for_each(|(sum, rate)| *sum += if rate > 0.0 { rate } else { 0.0 });
                }
                sums
            })
            .collect();
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
        // Whoever is new begins where the others are: it has no claim on the past.
        let mut least = vec![f64::INFINITY; self.types];
        for passes in self.passes.values() {
            least.iter_mut().zip(passes).for_each(|(least, pass)| *least = least.min(*pass));
        }
        let begin: Vec<f64> = least.into_iter().map(|pass| if pass.is_finite() { pass } else { 0.0 }).collect();
        for user in users.keys() {
            self.passes.entry(user.clone()).or_insert_with(|| begin.clone());
        }
        let chosen = self.choose(cluster, &users, &shares);
        let moves = |job: &Job| job.preemptible && job.phase == JobPhase::Running;
        let stays = |job: &Job, kind: GpuTypeId| chosen.contains(&(job.id, kind));
        let mut leave: Vec<JobId> =
            cluster.holders().filter(|job| moves(job) && !stays(job, cluster.type_of(job))).map(|job| job.id).collect();
        leave.sort_unstable();
        leave.into_iter().for_each(|id| cluster.preempt(id));
        for (id, kind) in chosen {
            let job = cluster.job(id);
            if job.waits()
                && let Some(gpus) = Placement::Packed.find(cluster, kind, job.ask())
            {
                cluster.start(id, gpus);
            }
        }
    }

    /// By type, the gangs of whoever has the least pass there, as long as GPUs remain.
    fn choose(
        &mut self,
        cluster: &Cluster,
        users: &BTreeMap<User, Vec<JobId>>,
        shares: &[Vec<f64>],
    ) -> Vec<(JobId, GpuTypeId)> {
        let (mut chosen, mut taken): (Vec<(JobId, GpuTypeId)>, BTreeSet<JobId>) = (Vec::new(), BTreeSet::new());
        for kind in 0..self.types as GpuTypeId {
            let at = kind as usize;
            let mut free = cluster.up_gpus(kind);
            loop {
                let mut best: Option<(f64, JobId, &User, f64)> = None;
                for (index, (user, jobs)) in users.iter().enumerate() {
                    let share = shares[at][index];
                    let fits = |id: &&JobId| {
                        let job = cluster.job(**id);
                        job.gpus <= free && job.gpu_types.contains(&kind) && !taken.contains(*id)
                    };
                    let Some(id) = jobs.iter().find(fits).filter(|_| share > 1e-9) else { continue };
                    let pass = self.passes.get(user).map_or(0.0, |passes| passes[at]);
                    if best.is_none_or(|(least, ..)| pass < least) {
                        best = Some((pass, *id, user, share));
                    }
                }
                let Some((_, id, user, share)) = best else { break };
                let gang = cluster.job(id).gpus;
                free -= gang;
                taken.insert(id);
                chosen.push((id, kind));
                if let Some(passes) = self.passes.get_mut(user) {
                    passes[at] += f64::from(gang) / share;
                }
            }
        }
        chosen
    }

    /// GPUs that would idle until the next round go to whoever waits, first come, first served.
    fn start_what_fits(&mut self, cluster: &mut Cluster) {
        let mut waiting: Vec<(u64, JobId)> = Vec::new();
        for id in &self.jobs {
            let job = cluster.job(*id);
            if job.waits() {
                waiting.push((job.submitted, *id));
            }
        }
        waiting.sort_unstable();
        for (_, id) in waiting {
            let job = cluster.job(id);
            if let Some(gpus) = Placement::Packed.find_any(cluster, &job.gpu_types, job.ask()) {
                cluster.start(id, gpus);
            }
        }
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
