//! Muri (Zhao et al., SIGCOMM 2022): jobs with equally large gangs share GPUs and take turns at CPUs, GPUs and the network. Those that are first, by the GPU time that
//! they have left (Muri-S) or have had (Muri-L), are grouped so that they keep these busy.
//!
//! At every event all places are given anew, as if the fleet were empty. Source: Muri's simulator (commit 4e69a78). With `jobs: 1` and the preset `muri` the
//! schedules of its SRTF and SRSF are met, job by job. Groups are found by an exact matching, the simulator's compares with a tolerance, and looks at a job's rounded
//! duration until it first runs: whole schedules of groups differ.

mod groups;
mod places;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::{
    Abilities, About, Batch, Cadence, ChangeCause, Cluster, Config, Event, GpuId, Job, JobId, JobPhase, Kind,
    Knowledge, Param, Policy, PolicyError, Rounds, Setup, Trigger, ascending, driver::needed, host,
};

use groups::{Asked, Placed, Times};
use places::Places;

/// What jobs are in the order of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// GPU time left.
    Service,
    /// Time left.
    Time,
    /// GPU time that a job has had.
    Attained,
}

impl Order {
    const WORDS: &'static [&'static str] = &["service", "time", "attained"];

    fn named(word: &str) -> Order {
        match word {
            "time" => Order::Time,
            "attained" => Order::Attained,
            _ => Order::Service,
        }
    }
}

/// The policy.
pub struct Muri {
    order: Order,
    most: usize,
    /// Time between decisions, µs; 0: at every event.
    round: u64,
    /// Live jobs, as the latest decision left them; new ones come last.
    jobs: Vec<JobId>,
    times: Times,
    rounds: Rounds,
}

impl Policy for Muri {
    fn about() -> About {
        About {
            name: "muri",
            about: "groups of jobs that take turns at CPUs, GPUs and the network, shortest first (Muri-S) or least served first (Muri-L)",
            uses: Abilities::PREEMPT | Abilities::SHARE | Abilities::TIMERS,
            needs: Knowledge::empty(),
            params: &[
                Param {
                    name: "order",
                    kind: Kind::Choice(Order::WORDS),
                    default: "\"service\"",
                    about: "Which jobs come first: by the GPU time left (Muri-S; needs `remaining`), the time left (needs `remaining`), or the GPU time had (Muri-L).",
                },
                Param {
                    name: "jobs",
                    kind: Kind::Number { min: 1.0, max: 4.0 },
                    default: "4",
                    about: "Most jobs on the same GPUs, where the fleet lets them share; 1: each alone. Groups need `solo-profile` and the workloads' stages.",
                },
                Param {
                    name: "round",
                    kind: Kind::Number { min: 0.0, max: 1e6 },
                    default: "0",
                    about: "Seconds between decisions (360 in Muri's experiments on real GPUs); 0: whenever a job comes or ends (its simulator).",
                },
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let order = Order::named(config.choice("order"));
        if order != Order::Attained {
            needed(config.choice("order"), Knowledge::REMAINING, setup.knowledge)?;
        }
        let most = config.number("jobs") as usize;
        Ok(Muri {
            order,
            most,
            round: config.micros("round"),
            jobs: Vec::new(),
            times: Times::default(),
            rounds: Rounds::default(),
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence { round: Some(self.round).filter(|round| *round > 0), ..Cadence::EVENTS }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let news = self.take_in(batch, cluster);
        let is_time = if self.round > 0 { batch.trigger == Trigger::Round } else { news };
        if is_time {
            self.sort(cluster);
            self.place(cluster);
        } else {
            self.rounds.resume(cluster);
        }
        Ok(())
    }
}

impl Muri {
    /// Whether anything happened beside what the latest decision asked for.
    fn take_in(&mut self, batch: &Batch, cluster: &Cluster) -> bool {
        let mut news = false;
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) => self.jobs.push(arrival.job),
                Event::JobChanged(change) => {
                    news |= change.phase == JobPhase::Queued && change.cause != ChangeCause::Asked;
                    continue;
                }
                Event::LeaseEnded(_) | Event::RemainingChanged(_) | Event::Timer(_) => continue,
                _ => {}
            }
            news = true;
        }
        if news {
            self.jobs.retain(|id| cluster.get(*id).is_some());
        }
        news
    }

    /// Sorts what may be given GPUs; jobs that are alike stay as they were.
    fn sort(&mut self, cluster: &Cluster) {
        let keys: Vec<f64> = match self.order {
            Order::Attained => self.jobs.iter().map(|id| cluster.job(*id).service(cluster.now()) as f64).collect(),
            Order::Time | Order::Service => {
                let left = cluster.remaining(&self.jobs);
                // Beside others a job takes longer than alone.
                let shares = |id: &&JobId| cluster.job(**id).held.first().is_some_and(|gpu| cluster.tasks(*gpu) > 1);
                let sharing: Vec<JobId> = self.jobs.iter().filter(shares).copied().collect();
                let paces = if sharing.is_empty() { Vec::new() } else { host::speeds(sharing.clone()) };
                let paces: BTreeMap<JobId, f64> =
                    sharing.into_iter().zip(paces).filter(|(_, pace)| *pace > 0.0).collect();
                let weigh = |(id, left): (&JobId, f64)| {
                    let gpus = if self.order == Order::Service { cluster.job(*id).gpus } else { 1 };
                    left * paces.get(id).unwrap_or(&1.0) * f64::from(gpus)
                };
                self.jobs.iter().zip(left).map(weigh).collect()
            }
        };
        let mut keyed: Vec<(f64, JobId)> = keys.into_iter().zip(self.jobs.iter().copied()).collect();
        keyed.sort_by(|a, b| ascending(a.0, b.0));
        self.jobs = keyed.into_iter().map(|(_, id)| id).collect();
    }

    fn place(&mut self, cluster: &mut Cluster) {
        // A group stays as it is while one of its jobs starts, or may not be preempted.
        let fixed: BTreeSet<Vec<GpuId>> =
            cluster.holders().filter(|job| !job.may_be_moved()).map(|job| job.held.clone()).collect();
        let stands = |job: &Job| job.holds() && fixed.contains(&job.held);
        let places = Places::empty(cluster, stands);
        let is_asked = |id: &&JobId| !stands(cluster.job(**id));
        let order: Vec<JobId> = self.jobs.iter().filter(is_asked).copied().collect();
        let most = self.most.min(cluster.tenancy() as usize);
        let asked = Asked { cluster, order: &order, places: &places, most };
        let placed = if most > 1 { asked.in_groups(&mut self.times) } else { asked.alone() };
        let kept = keep(cluster, &placed, places.clone());
        let (mut stay, mut moves): (Vec<JobId>, BTreeMap<JobId, Vec<GpuId>>) = Default::default();
        for (at, (jobs, anew)) in placed.iter().enumerate() {
            let gpus = match &kept {
                Some(kept) => kept[at].as_deref().or_else(|| held(cluster, jobs)).unwrap_or_default(),
                None => anew,
            };
            for id in jobs {
                let job = cluster.job(*id);
                match job.holds() && job.held == gpus {
                    true => stay.push(*id),
                    false => drop(moves.insert(*id, gpus.to_vec())),
                }
            }
        }
        stay.sort_unstable();
        let leaves = |job: &&Job| job.may_be_moved() && !stands(job) && stay.binary_search(&job.id).is_err();
        let leave: Vec<JobId> = cluster.holders().filter(leaves).map(|job| job.id).collect();
        self.rounds.change(cluster, leave, moves);
    }
}

/// The GPUs that jobs of a group hold, if all that do hold the same.
fn held<'a>(cluster: &'a Cluster, jobs: &[JobId]) -> Option<&'a [GpuId]> {
    let mut all = jobs.iter().map(|id| &cluster.job(*id).held).filter(|held| !held.is_empty());
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

/// GPUs of groups where those that run keep theirs (none), unless a larger gang needs them, and the others get what is left; none at all where that is too scattered for them.
fn keep(cluster: &Cluster, placed: &Placed, mut places: Places) -> Option<Vec<Option<Vec<GpuId>>>> {
    let wanted: Vec<Option<&[GpuId]>> = placed.iter().map(|(jobs, _)| held(cluster, jobs)).collect();
    let mut by_size: BTreeMap<Reverse<usize>, Vec<usize>> = BTreeMap::new();
    placed.iter().enumerate().for_each(|(at, (_, gpus))| by_size.entry(Reverse(gpus.len())).or_default().push(at));
    let sizes: Vec<Vec<usize>> = by_size.into_values().collect();
    // What none of these that run may keep: one that has lost a GPU keeps none.
    let unwanted = |places: &Places, sizes: &[Vec<usize>]| {
        let mut open = places.clone();
        let may_be_kept = sizes.iter().flatten().filter_map(|at| wanted[*at]).filter(|gpus| places.has(cluster, gpus));
        may_be_kept.for_each(|gpus| open.remove(cluster, gpus));
        open
    };
    let (mut open, mut is_stale) = (unwanted(&places, &sizes), false);
    let mut kept = vec![None; placed.len()];
    for (number, of_size) in sizes.iter().enumerate() {
        if std::mem::take(&mut is_stale) {
            open = unwanted(&places, &sizes[number..]);
        }
        let mut stays = |at: &usize| wanted[*at].is_some_and(|gpus| places.take_these(cluster, gpus));
        let others: Vec<usize> = of_size.iter().copied().filter(|at| !stays(at)).collect();
        for at in others {
            let job = cluster.job(placed[at].0[0]);
            let found = open.take(job.gpus, &job.gpu_types);
            is_stale |= found.is_none();
            let gpus = found.or_else(|| places.least_wanted(&open, job.gpus, &job.gpu_types))?;
            places.remove(cluster, &gpus);
            open.remove(cluster, &gpus);
            kept[at] = Some(gpus);
        }
    }
    Some(kept)
}

sandtable_policy::export!(Muri);

#[cfg(test)]
mod tests {
    use super::Muri;
    use sandtable_policy::testing::{SMALL, TINY, completion_times};

    #[test]
    fn alone_it_serves_the_least_first() {
        let config = "{\"order\": \"time\", \"jobs\": 1}";
        assert_eq!(completion_times::<Muri>(config, TINY.0, TINY.1), [7000, 2000]);
        assert_eq!(completion_times::<Muri>(config, SMALL.0, SMALL.1), [7100, 1500, 10390, 500, 100]);
    }

    #[test]
    fn every_job_of_gangs_that_come_and_go_ends() {
        let jobs: Vec<(u64, u32, u64)> = (0..40).map(|at| (at * 97, 1 + (at % 3) as u32, 1 + at * 31)).collect();
        for order in super::Order::WORDS {
            let config = format!("{{\"order\": {order:?}}}");
            let times = completion_times::<Muri>(&config, &[2, 2], &jobs);
            assert!(times.iter().zip(&jobs).all(|(time, job)| *time >= job.2), "{order}: {times:?}");
        }
    }
}
