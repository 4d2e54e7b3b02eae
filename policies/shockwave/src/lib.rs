//! Shockwave (Zheng et al., NSDI 2023): before each round of a window it is planned which jobs run in it, so that the progress of all is fair by a Nash social welfare, the longest job
//! does not delay the end, and jobs that are late by their finish-time fairness come first. What a job that changes its batch still needs is forecast from its planned epochs.
//!
//! Source: the paper and its artifact (commit 8a44f4a), whose two mixed-integer programs are solved here by their structure: see [`market`].

mod forecast;
mod market;

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::driver::needed;
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Event, GpuTypeId, JobId, Kind, Knowledge, Param, Policy,
    PolicyError, Rounds, Setup, Trigger, host,
};

use forecast::{Epochs, Measured};
use market::{Bidder, Horizon};

/// The part of its newest forecast in a job's target; the rest is the mean of all forecasts, by the time that they held.
const NEWEST: f64 = 0.1;

/// The exponent for a job that is late and has less than a round left.
const LAST_ROUND: f64 = 100.0;

/// The largest weight of a job that is late: a ratio to the power of a hundred may be beyond what numbers can say.
const HEAVIEST: f64 = 1e30;

/// Seconds left of a job of which nothing is known.
const UNKNOWN: f64 = 3600.0;

/// The policy.
pub struct Shockwave {
    round: u64,
    window: u32,
    replan: u64,
    makespan: f64,
    lateness: f64,
    unfair: f64,
    tolerance: f64,
    /// Whether finish times are counted from the start of the experiment.
    from_start: bool,
    knows_epochs: bool,
    jobs: BTreeMap<JobId, Account>,
    /// Jobs of the rounds to come, and the number of the first of them.
    plan: Vec<Vec<JobId>>,
    planned_at: u64,
    /// The round before which a plan is made anew: so many after it was last, or a job ended. Jobs that come have one made too, which does not count.
    replan_at: u64,
    /// Rounds that have begun.
    begun: u64,
    /// Whether jobs or nodes have come or gone since the plan was made.
    is_stale: bool,
    rounds: Rounds,
}

/// What is kept of a job.
#[derive(Default)]
struct Account {
    /// What it trained in leases.
    measured: Measured,
    /// The round from which on that is counted.
    came: u64,
    /// Seconds of work that it had when it came, where its epochs are not known.
    all_s: f64,
    epochs: Option<Epochs>,
    /// Seconds that are expected to be left.
    left_s: f64,
    /// The newest forecast of when it would have ended with its part of the cluster, and the round in which it was made.
    newest: (u64, f64),
    /// Rounds for which earlier forecasts held, and the sum of the forecasts over these.
    held: (f64, f64),
}

impl Account {
    /// Enters a forecast that is made in a round.
    fn note(&mut self, round: u64, forecast: f64) {
        let rounds = (round - self.newest.0) as f64;
        if self.newest.1 > 0.0 {
            self.held = (self.held.0 + rounds, self.held.1 + rounds * self.newest.1);
        }
        self.newest = (round, forecast);
    }

    /// When it should end, in a round.
    fn target(&self, round: u64) -> f64 {
        let rounds = (round - self.newest.0) as f64;
        let (held, sum) = (self.held.0 + rounds, self.held.1 + rounds * self.newest.1);
        let mean = if held > 0.0 { sum / held } else { self.newest.1 };
        (1.0 - NEWEST) * mean + NEWEST * self.newest.1
    }
}

impl Policy for Shockwave {
    fn about() -> About {
        About {
            name: "shockwave",
            about: "Shockwave (Zheng et al., NSDI 2023): plans a window of rounds for fair progress, a short makespan and jobs that are late",
            uses: Abilities::PREEMPT | Abilities::TIMERS,
            needs: Knowledge::empty(),
            params: &[
                Param {
                    name: "round",
                    kind: Kind::Number { min: 1.0, max: 1e6 },
                    default: "120",
                    about: "Seconds of a round.",
                },
                Param {
                    name: "window",
                    kind: Kind::Number { min: 1.0, max: 100.0 },
                    default: "20",
                    about: "Rounds that are planned ahead.",
                },
                Param {
                    name: "replan",
                    kind: Kind::Number { min: 1.0, max: 1000.0 },
                    default: "8",
                    about: "Rounds after which a plan is made anew, from the latest end of a job on; when a job comes one is made in any case.",
                },
                Param {
                    name: "makespan",
                    kind: Kind::Number { min: 0.0, max: 1e6 },
                    default: "0.001",
                    about: "What a second that the longest job has left after the window costs, in logarithms of progress.",
                },
                Param {
                    name: "lateness",
                    kind: Kind::Number { min: 0.0, max: 100.0 },
                    default: "12",
                    about: "Exponent of the weight of jobs that are late.",
                },
                Param {
                    name: "unfair",
                    kind: Kind::Number { min: 0.01, max: 100.0 },
                    default: "1",
                    about: "A job is late if it ends after so many times the time that it would have taken with its part of the cluster.",
                },
                Param {
                    name: "tolerance",
                    kind: Kind::Number { min: 0.0, max: 1e9 },
                    default: "0.4",
                    about: "Where a job has trained more or less than was planned for the same time, by more than this part, its plan is corrected.",
                },
                Param {
                    name: "since",
                    kind: Kind::Choice(&["submission", "start"]),
                    default: "\"submission\"",
                    about: "From when these times are counted: from the job's submission, as in the paper, or from the start of the experiment, as in the artifact.",
                },
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let knows_epochs = setup.knowledge.contains(Knowledge::EPOCHS);
        if !knows_epochs {
            needed("shockwave without `epochs`", Knowledge::REMAINING, setup.knowledge)?;
        }
        Ok(Shockwave {
            round: config.micros("round"),
            window: config.number("window") as u32,
            replan: config.number("replan") as u64,
            makespan: config.number("makespan"),
            lateness: config.number("lateness"),
            unfair: config.number("unfair"),
            tolerance: config.number("tolerance"),
            from_start: config.choice("since") == "start",
            knows_epochs,
            jobs: BTreeMap::new(),
            plan: Vec::new(),
            planned_at: 0,
            replan_at: config.number("replan") as u64,
            begun: 0,
            is_stale: false,
            rounds: Rounds::default(),
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence { round: Some(self.round), ..Cadence::EVENTS }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.take_in(batch, cluster);
        if batch.trigger == Trigger::Round {
            let chosen = self.choose(cluster);
            self.begun += 1;
            self.rounds.begin(cluster, &chosen);
        }
        self.rounds.resume(cluster);
        Ok(())
    }
}

impl Shockwave {
    fn take_in(&mut self, batch: &Batch, cluster: &Cluster) {
        let mut leased: BTreeMap<GpuTypeId, Vec<(JobId, f64)>> = BTreeMap::new();
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) if cluster.get(arrival.job).is_some_and(|job| job.gpus > 0) => {
                    let came = if self.from_start { 0 } else { self.begun };
                    self.jobs.insert(arrival.job, Account { came, ..Account::default() });
                    self.is_stale = true;
                }
                Event::JobEnded(end) => {
                    self.jobs.remove(&end.job);
                    self.is_stale = true;
                    self.replan_at = self.begun + self.replan;
                }
                Event::LeaseEnded(lease) => {
                    if self.knows_epochs
                        && let Some(job) = cluster.get(lease.job)
                    {
                        leased.entry(job.gpu_types[0]).or_default().push((lease.job, lease.seconds - lease.restart));
                    }
                }
                Event::NodeChanged(_) => self.is_stale = true,
                _ => {}
            }
        }
        let round_s = self.round as f64 / 1e6;
        for (kind, leases) in leased {
            let told = host::epochs(kind, leases.iter().map(|(id, _)| *id).collect());
            for ((id, seconds), told) in leases.into_iter().zip(told) {
                if let Some(account) = self.jobs.get_mut(&id) {
                    account.measured.look(&told, seconds, self.begun - account.came, round_s);
                }
            }
        }
    }

    /// The jobs of a round: those that are planned for it in the order of their arrival, then those with the longest time left that fit beside them.
    fn choose(&mut self, cluster: &Cluster) -> Vec<JobId> {
        let up = cluster.all_up_gpus();
        // Jobs that may not be preempted keep what they hold.
        let kept: BTreeSet<JobId> = cluster.pinned().filter(|job| job.holds()).map(|job| job.id).collect();
        let gpus = kept.iter().fold(up, |gpus, id| gpus.saturating_sub(cluster.job(*id).gpus));
        if gpus == 0 {
            return kept.into_iter().collect();
        }
        let asked: u64 = self.jobs.keys().map(|id| u64::from(cluster.job(*id).gpus)).sum();
        let all_run = asked <= u64::from(up);
        if all_run && !self.is_stale {
            return self.jobs.keys().copied().collect();
        }
        let is_due = self.begun >= self.replan_at;
        if is_due {
            self.replan_at = self.begun + self.replan;
        }
        let is_over = is_due || self.begun - self.planned_at >= self.plan.len() as u64;
        if self.is_stale || is_over {
            self.forecast(cluster);
        }
        if self.is_stale {
            self.note(cluster, up);
        }
        if all_run {
            self.plan.clear();
            self.is_stale = false;
            return self.jobs.keys().copied().collect();
        }
        if self.is_stale || is_over {
            self.make_plan(cluster, (up, gpus), &kept);
            self.is_stale = false;
        }
        let planned = self.plan.get((self.begun - self.planned_at) as usize).map_or(&[][..], Vec::as_slice);
        let is_there = |id: &JobId| self.jobs.contains_key(id) && !kept.contains(id);
        let mut chosen: Vec<JobId> = planned.iter().copied().filter(is_there).collect();
        let mut room = chosen.iter().fold(gpus, |room, id| room.saturating_sub(cluster.job(*id).gpus));
        chosen.extend(&kept);
        chosen.sort_unstable();
        if room == 0 {
            return chosen;
        }
        let mut others: Vec<(f64, JobId)> = self
            .jobs
            .iter()
            .filter(|(id, _)| chosen.binary_search(id).is_err())
            .map(|(id, account)| (account.left_s, *id))
            .collect();
        others.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, id) in others {
            let gang = cluster.job(id).gpus;
            if gang <= room {
                room -= gang;
                chosen.push(id);
            }
        }
        chosen
    }

    /// Looks at what each job has done and has left.
    fn forecast(&mut self, cluster: &Cluster) {
        let round_s = self.round as f64 / 1e6;
        if self.knows_epochs {
            let mut of_type: BTreeMap<GpuTypeId, Vec<JobId>> = BTreeMap::new();
            self.jobs.keys().for_each(|id| of_type.entry(cluster.job(*id).gpu_types[0]).or_default().push(*id));
            for (kind, ids) in of_type {
                for (id, told) in ids.iter().zip(host::epochs(kind, ids.clone())) {
                    if let Some(account) = self.jobs.get_mut(id) {
                        account.epochs = Epochs::told(&told, &mut account.measured, round_s, self.tolerance);
                    }
                }
            }
        }
        let without = self.jobs.iter().filter(|(_, account)| account.epochs.is_none() || account.all_s > 0.0);
        let without: Vec<JobId> = without.map(|(id, _)| *id).collect();
        for (id, left) in without.iter().zip(cluster.remaining(&without)) {
            let left = if left.is_finite() { left } else { UNKNOWN };
            if let Some(account) = self.jobs.get_mut(id) {
                account.all_s = account.all_s.max(left);
                let done_s = account.all_s - left;
                match &mut account.epochs {
                    Some(epochs) => epochs.set_time(done_s, left),
                    None => account.epochs = Some(Epochs::of_time(done_s, left)),
                }
            }
        }
        for account in self.jobs.values_mut() {
            account.left_s = account.epochs.as_ref().map_or(1.0, Epochs::left_s);
        }
    }

    /// The part of its time for which each job would run if all had the same.
    fn part(&self, gpus: u32) -> f64 {
        (f64::from(gpus) / self.jobs.len().max(1) as f64).min(1.0)
    }

    /// Forecasts when each job would end with its part of the cluster.
    fn note(&mut self, cluster: &Cluster, gpus: u32) {
        let part = self.part(gpus);
        for (id, account) in &mut self.jobs {
            let Some(epochs) = &account.epochs else { continue };
            let isolated = (epochs.seconds_before(epochs.done) + account.left_s) / part;
            let origin = if self.from_start { cluster.job(*id).submitted as f64 / 1e6 } else { 0.0 };
            account.note(self.begun, origin + isolated);
        }
    }

    /// Plans the next rounds for all but the jobs that keep their GPUs; of all GPUs that are up `gpus` are left to them.
    fn make_plan(&mut self, cluster: &Cluster, (up, gpus): (u32, u32), kept: &BTreeSet<JobId>) {
        let part = self.part(up);
        let origin = |id: &JobId| cluster.job(*id).submitted as f64 / 1e6;
        let round_s = self.round as f64 / 1e6;
        let horizon = Horizon { gpus, rounds: self.window, round_s, makespan: self.makespan };
        let now = |id: &JobId| cluster.now() as f64 / 1e6 - if self.from_start { 0.0 } else { origin(id) };
        let bidder = |(id, account): (&JobId, &Account)| {
            let epochs = account.epochs.as_ref();
            Bidder {
                gpus: cluster.job(*id).gpus,
                epochs: epochs.map_or(1.0, |epochs| f64::from(epochs.count)),
                done: epochs.map_or(0.0, |epochs| f64::from(epochs.done)),
                epoch_s: epochs.map_or(1.0, Epochs::mean_s),
                left_s: account.left_s,
                weight: 1.0,
                least: 0,
            }
        };
        let planned = || self.jobs.iter().filter(|(id, _)| !kept.contains(id));
        let fair: Vec<Bidder> = planned()
            .map(|(id, account)| {
                let bound = self.unfair * account.target(self.begun) - now(id) - f64::from(self.window) * round_s;
                let free = bidder((id, account));
                let least = ((free.left_s - bound * part) / round_s).ceil().max(0.0) as u32;
                Bidder { least: if bound < 0.0 { u32::MAX } else { least }, ..free }
            })
            .collect();
        let (bidders, rounds) = match market::rounds(&fair, &horizon) {
            Some(rounds) => (fair, rounds),
            None => {
                let late = |(id, account): (&JobId, &Account)| {
                    let ratio = (now(id) + account.left_s / part) / account.target(self.begun);
                    let exponent = if account.left_s < round_s { LAST_ROUND } else { self.lateness };
                    let weight = if ratio > self.unfair { libm::pow(ratio, exponent).min(HEAVIEST) } else { 1.0 };
                    Bidder { weight, ..bidder((id, account)) }
                };
                let bidders: Vec<Bidder> = planned().map(late).collect();
                let rounds = market::rounds(&bidders, &horizon).unwrap_or_else(|| vec![0; bidders.len()]);
                (bidders, rounds)
            }
        };
        let ids: Vec<JobId> = planned().map(|(id, _)| *id).collect();
        let named = |round: Vec<usize>| round.into_iter().map(|at| ids[at]).collect();
        self.plan = market::layout(&bidders, &rounds, &horizon).into_iter().map(named).collect();
        self.planned_at = self.begun;
    }
}

sandtable_policy::export!(Shockwave);

#[cfg(test)]
mod tests {
    use super::Shockwave;
    use sandtable_policy::testing::completion_times;

    #[test]
    fn every_job_of_gangs_that_come_and_go_ends() {
        let jobs: Vec<(u64, u32, u64)> = (0..40).map(|at| (at * 97, 1 + (at % 3) as u32, 1 + at * 31)).collect();
        let times = completion_times::<Shockwave>("{}", &[2, 2], &jobs);
        assert!(times.iter().zip(&jobs).all(|(time, job)| *time >= job.2), "{times:?}");
    }

    #[test]
    fn jobs_shorter_than_a_round_leave_the_makespan_in_sight() {
        // A long job, one that is a third of it, and many of 100 s that keep both GPUs wanted.
        let mut jobs = vec![(0, 1, 20_000), (0, 1, 6_000)];
        jobs.extend((0..200).map(|at| (at * 100, 1, 100)));
        let of_long = |makespan: &str| {
            let config = format!("{{\"makespan\": {makespan}}}");
            completion_times::<Shockwave>(&config, &[2], &jobs)[0]
        };
        assert!(of_long("1000") < of_long("0"), "{} {}", of_long("1000"), of_long("0"));
    }
}
