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
    Knowledge, Param, Policy, PolicyError, Quantity, Rounds, Setup, Trigger, ascending, driver::needed, host,
};

use groups::{Asked, Group, Times};
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
            let order = self.order(cluster);
            self.jobs.clear();
            self.jobs.extend(order.iter().map(|job| job.id));
            let (leave, moves) = self.places(cluster, order);
            self.rounds.change(cluster, leave, moves);
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

    /// The jobs, those that are to be first first; jobs that are alike stay as they were.
    fn order<'a>(&self, cluster: &'a Cluster) -> Vec<&'a Job> {
        let mut keyed: Vec<(f64, &Job)> = self.jobs.iter().map(|id| (0.0, cluster.job(*id))).collect();
        if self.order == Order::Attained {
            keyed.iter_mut().for_each(|(key, job)| *key = job.service(cluster.now()) as f64);
        } else {
            let types = keyed.iter().map(|(_, job)| cluster.type_of(job)).collect();
            let left = host::estimate(Quantity::Remaining, self.jobs.clone(), types);
            // Beside others a job takes longer than alone.
            let shares = |job: &Job| job.held.first().is_some_and(|gpu| cluster.tasks(*gpu) > 1);
            let sharing: Vec<JobId> = keyed.iter().filter(|(_, job)| shares(job)).map(|(_, job)| job.id).collect();
            let paces = if sharing.is_empty() { Vec::new() } else { host::speeds(sharing.clone()) };
            let paces: BTreeMap<JobId, f64> = sharing.into_iter().zip(paces).filter(|(_, pace)| *pace > 0.0).collect();
            for ((key, job), left) in keyed.iter_mut().zip(left) {
                let gpus = if self.order == Order::Service { job.gpus } else { 1 };
                *key = left * paces.get(&job.id).unwrap_or(&1.0) * f64::from(gpus);
            }
        }
        sort_what_is_nearly_sorted(&mut keyed);
        keyed.into_iter().map(|(_, job)| job).collect()
    }

    /// Jobs that let go of their GPUs, and GPUs of those that get others; jobs in order.
    fn places(&mut self, cluster: &Cluster, mut order: Vec<&Job>) -> (Vec<JobId>, BTreeMap<JobId, Vec<GpuId>>) {
        // A group stays as it is while one of its jobs starts, or may not be preempted.
        let is_fixed = |job: &&&Job| job.holds() && !job.may_be_moved();
        let fixed: BTreeSet<&[GpuId]> = order.iter().filter(is_fixed).map(|job| &*job.held).collect();
        if !fixed.is_empty() {
            order.retain(|job| !job.holds() || !fixed.contains(&*job.held));
        }
        let places = Places::all_but(cluster, &fixed);
        let most = self.most.min(cluster.tenancy() as usize);
        let asked = Asked { cluster, order: &order, places: &places, most };
        let groups = if most > 1 { asked.in_groups(&mut self.times) } else { asked.alone() };
        let groups = asked.with_room(&groups);
        let kept = keep(cluster, &groups, places.clone());
        let anew = if kept.is_none() { asked.places_anew(&groups) } else { None };
        let given = kept.or(anew.map(|all| all.into_iter().map(Some).collect())).unwrap_or_default();
        let (mut stays, mut moves) = (vec![false; order.len()], BTreeMap::new());
        for (group, gpus) in groups.iter().zip(&given) {
            let gpus = gpus.as_deref().or_else(|| group.held()).unwrap_or_default();
            for (rank, job) in &group.jobs {
                match job.holds() && (std::ptr::eq(gpus, &*job.held) || job.held == gpus) {
                    true => stays[*rank] = true,
                    false => drop(moves.insert(job.id, gpus.to_vec())),
                }
            }
        }
        let leaves = |(job, stays): &(&&Job, bool)| job.holds() && !stays;
        (order.iter().zip(stays).filter(leaves).map(|(job, _)| job.id).collect(), moves)
    }
}

/// Sorts by the key; jobs that are alike stay as they were. Between two decisions few jobs pass each other: those that do are inserted where they belong, as long as that is
/// less work than to sort all.
fn sort_what_is_nearly_sorted<T: Copy>(keyed: &mut [(f64, T)]) {
    let mut work = 8 * keyed.len();
    for at in 1..keyed.len() {
        let new = keyed[at];
        if ascending(keyed[at - 1].0, new.0).is_le() {
            continue;
        }
        let from = keyed[..at].partition_point(|other| ascending(other.0, new.0).is_le());
        keyed.copy_within(from..at, from + 1);
        keyed[from] = new;
        let Some(left) = work.checked_sub(at - from + 8) else {
            return keyed.sort_by(|a, b| ascending(a.0, b.0));
        };
        work = left;
    }
}

/// GPUs of groups where those that run keep theirs (none), unless a larger gang needs them, and the others get what is left; none at all where that is too scattered for them.
fn keep(cluster: &Cluster, groups: &[&Group<'_>], mut places: Places) -> Option<Vec<Option<Vec<GpuId>>>> {
    let wanted: Vec<Option<&[GpuId]>> = groups.iter().map(|group| group.held()).collect();
    let mut by_size: BTreeMap<Reverse<u32>, Vec<usize>> = BTreeMap::new();
    groups.iter().enumerate().for_each(|(at, group)| by_size.entry(Reverse(group.job().gpus)).or_default().push(at));
    let sizes: Vec<Vec<usize>> = by_size.into_values().collect();
    // What none of these that run may keep: one that has lost a GPU keeps none.
    let unwanted = |places: &Places, sizes: &[Vec<usize>]| {
        let mut open = places.clone();
        let may_be_kept = sizes.iter().flatten().filter_map(|at| wanted[*at]).filter(|gpus| places.has(gpus));
        may_be_kept.for_each(|gpus| open.remove(cluster, gpus));
        open
    };
    let mut open: Option<Places> = None;
    let mut kept = vec![None; groups.len()];
    for (number, of_size) in sizes.iter().enumerate() {
        let mut stays = |at: &usize| wanted[*at].is_some_and(|gpus| places.take_these(cluster, gpus));
        let others: Vec<usize> = of_size.iter().copied().filter(|at| !stays(at)).collect();
        let mut is_stale = false;
        for at in others {
            let open = open.get_or_insert_with(|| unwanted(&places, &sizes[number + 1..]));
            let job = groups[at].job();
            let found = open.take(job.gpus, &job.gpu_types);
            is_stale |= found.is_none();
            let gpus = found.or_else(|| places.least_wanted(open, job.gpus, &job.gpu_types))?;
            places.remove(cluster, &gpus);
            open.remove(cluster, &gpus);
            kept[at] = Some(gpus);
        }
        if is_stale {
            open = None;
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
