//! Gavel's heterogeneity-aware policies (Narayanan et al., OSDI 2020): an allocation of time by job and type from a
//! linear program, carried out in rounds by priorities. Pairs on one GPU are not part of it here.

pub mod lp;

use std::collections::{BTreeMap, BTreeSet};

use lp::{Progress, Question};
use sandtable_policy::driver::needed;
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Event, GpuTypeId, Instant, JobId, Kind, Knowledge, Moves, Param,
    Policy, PolicyError, Quantity, Setup, Trigger, host,
};

/// What the allocation is the best for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Objective {
    MaxMin,
    Makespan,
    FinishTimeFairness,
}

/// What a job has had, counted in the time that its share of the cluster would have taken for it.
#[derive(Clone, Copy)]
struct Isolated {
    /// Seconds.
    time: f64,
    /// Steps that were left at the last solution.
    steps: f64,
    /// Steps a second of its share then.
    rate: f64,
}

/// The policy.
pub struct Gavel {
    objective: Objective,
    isolated: BTreeMap<JobId, Isolated>,
    round: u64,
    /// Not sooner than this after a reset are times counted anew.
    reset: u64,
    /// Unfinished jobs.
    jobs: BTreeSet<JobId>,
    /// Parts of the time by job and type, as last solved.
    allocation: BTreeMap<JobId, Vec<f64>>,
    /// Whether jobs have come or gone since.
    stale: bool,
    reset_at: Instant,
    last_round: Instant,
    /// Time on each type since the reset, µs, by job; half a round is credited at the start.
    spent: BTreeMap<JobId, Vec<f64>>,
    /// Jobs that ran in the round that ends, with their types.
    ran: Vec<(JobId, GpuTypeId)>,
    types: usize,
    moves: Moves,
    /// Types of GPU, the fastest first for the jobs of the last solution.
    fastest_first: Vec<GpuTypeId>,
}

impl Policy for Gavel {
    fn about() -> About {
        About {
            name: "gavel",
            about: "Gavel's max-min fairness, makespan and finish-time fairness in rounds (Narayanan et al. 2020, by the published code; makespan is solved exactly, no space sharing)",
            uses: Abilities::PREEMPT | Abilities::TIMERS,
            needs: Knowledge::THROUGHPUT,
            params: &[
                Param {
                    name: "objective",
                    kind: Kind::Choice(&["max-min", "makespan", "finish-time-fairness"]),
                    default: "\"max-min\"",
                    about: "What the allocation is the best for.",
                },
                Param {
                    name: "round",
                    kind: Kind::Number { min: 1.0, max: 1e6 },
                    default: "360",
                    about: "Seconds of a round.",
                },
                Param {
                    name: "reset",
                    kind: Kind::Number { min: 0.0, max: 1e9 },
                    default: "1920",
                    about: "Seconds before time received is counted anew at a new solution.",
                },
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let objective = match config.choice("objective") {
            "makespan" => Objective::Makespan,
            "finish-time-fairness" => Objective::FinishTimeFairness,
            _ => Objective::MaxMin,
        };
        if objective != Objective::MaxMin {
            needed(config.choice("objective"), Knowledge::REMAINING, setup.knowledge)?;
        }
        Ok(Gavel {
            fastest_first: Vec::new(),
            objective,
            isolated: BTreeMap::new(),
            round: config.micros("round"),
            reset: config.micros("reset"),
            jobs: BTreeSet::new(),
            allocation: BTreeMap::new(),
            stale: false,
            reset_at: 0,
            last_round: 0,
            spent: BTreeMap::new(),
            ran: Vec::new(),
            types: setup.topology.gpu_types.len(),
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
                    self.jobs.insert(arrival.job);
                    self.stale = true;
                }
                Event::JobEnded(end) => {
                    self.jobs.remove(&end.job);
                    self.spent.remove(&end.job);
                    self.isolated.remove(&end.job);
                    self.stale = true;
                }
                Event::NodeChanged(_) => self.stale = true,
                _ => {}
            }
        }
        // A round begins at its time; the first also when there is a job to begin it for.
        if batch.trigger == Trigger::Round || (cluster.holders().len() == 0 && !self.jobs.is_empty()) {
            self.begin_round(cluster);
        }
        self.moves.resume(cluster);
        // GPUs that no job was chosen for go to waiting jobs.
        self.moves.fill(cluster, self.jobs.iter().copied());
        self.ran = cluster.holders().map(|job| (job.id, cluster.type_of(job))).collect();
        Ok(())
    }
}

/// What is told apart of jobs: the bits of their rates by type, and the gang.
type Class = (Vec<u64>, u32);

/// Types by how fast they are for the jobs that there are, as Gavel's own list goes from V100 to K80: the mean over the jobs of
/// a type's rate over the job's best.
fn fastest_first(question: &Question) -> Vec<GpuTypeId> {
    let mut speeds = vec![0.0; question.capacity.len()];
    for (row, count) in question.throughput.iter().zip(&question.count) {
        let best = row.iter().copied().fold(0.0, f64::max);
        if best > 0.0 {
            speeds.iter_mut().zip(row).for_each(|(speed, rate)| *speed += count * rate / best);
        }
    }
    let mut order: Vec<GpuTypeId> = (0..speeds.len() as GpuTypeId).collect();
    order.sort_by(|a, b| speeds[*b as usize].total_cmp(&speeds[*a as usize]));
    order
}

impl Gavel {
    fn begin_round(&mut self, cluster: &mut Cluster) {
        let now = cluster.now();
        let length = now.saturating_sub(self.last_round) as f64;
        for (job, kind) in std::mem::take(&mut self.ran) {
            if let Some(spent) = self.spent.get_mut(&job) {
                spent[kind as usize] += length;
            }
        }
        self.last_round = now;
        if self.stale {
            self.solve(cluster);
            self.stale = false;
            if now.saturating_sub(self.reset_at) >= self.reset {
                self.spent.clear();
                self.reset_at = now;
            }
        }
        let credit = vec![self.round as f64 / 2.0 / self.types as f64; self.types];
        for job in &self.jobs {
            self.spent.entry(*job).or_insert_with(|| credit.clone());
        }
        let chosen = self.choose(cluster);
        self.moves.begin(cluster, &chosen);
    }

    /// Jobs of equal rates and gangs are one row of the program: what is the best for them together is so for each.
    fn solve(&mut self, cluster: &Cluster) {
        let types = self.types as GpuTypeId;
        let ids: Vec<JobId> = self.jobs.iter().copied().collect();
        let left = if self.objective == Objective::MaxMin { vec![0.0; ids.len()] } else { cluster.remaining(&ids) };
        let mut classes: BTreeMap<Class, Vec<(JobId, f64)>> = BTreeMap::new();
        for (id, left) in ids.into_iter().zip(left) {
            let job = cluster.job(id);
            let rates = host::estimate(Quantity::Throughput, vec![id; types as usize], (0..types).collect());
            let runs = |kind: GpuTypeId| job.gpu_types.contains(&kind) && job.gpus <= cluster.up_gpus(kind);
            let rate = |kind: GpuTypeId| Some(rates[kind as usize]).filter(|rate| *rate > 0.0 && runs(kind));
            let row: Vec<f64> = (0..types).map(|kind| rate(kind).unwrap_or(0.0)).collect();
            let here = row[cluster.type_of(job) as usize];
            // An unknown run time counts as an hour.
            let left = if left.is_finite() { left.max(1.0) } else { 3600.0 };
            let steps = left * if here > 0.0 { here } else { 1.0 };
            let key = (row.iter().map(|rate| rate.to_bits()).collect(), job.gpus);
            classes.entry(key).or_default().push((id, steps));
        }
        let question = Question {
            throughput: classes.keys().map(|(row, _)| row.iter().map(|bits| f64::from_bits(*bits)).collect()).collect(),
            gang: classes.keys().map(|(_, gang)| f64::from(*gang)).collect(),
            weight: vec![1.0; classes.len()],
            count: classes.values().map(|jobs| jobs.len() as f64).collect(),
            capacity: (0..types).map(|kind| f64::from(cluster.up_gpus(kind))).collect(),
        };
        self.fastest_first = fastest_first(&question);
        let steps: Vec<Vec<f64>> =
            classes.values().map(|jobs| jobs.iter().map(|(_, steps)| *steps).collect()).collect();
        let solved = match self.objective {
            Objective::MaxMin => question.max_min(),
            Objective::Makespan => question.makespan(&steps),
            Objective::FinishTimeFairness => {
                let jobs: Vec<Vec<(JobId, f64)>> = classes.values().cloned().collect();
                question.finish_time_fairness(&self.progress(cluster, &question, &jobs))
            }
        };
        let allocation = solved.map_or_else(
            || {
                host::warn("the linear program was not solved: every job gets an equal share");
                let equal = question.equal_share();
                steps.iter().map(|jobs| vec![equal.clone(); jobs.len()]).collect()
            },
            |(_, allocation)| allocation,
        );
        let ids = classes.into_values().flatten().map(|(id, _)| id);
        self.allocation = ids.zip(allocation.into_iter().flatten()).collect();
    }

    /// What each job has had since the last solution, and how far it is.
    fn progress(&mut self, cluster: &Cluster, question: &Question, jobs: &[Vec<(JobId, f64)>]) -> Vec<Vec<Progress>> {
        let mut all = Vec::with_capacity(jobs.len());
        for (class, jobs) in jobs.iter().enumerate() {
            // One that runs nowhere now has no share: it counts as if it did a step a second.
            let rate = Some(question.isolated(class)).filter(|rate| *rate > 0.0).unwrap_or(1.0);
            let mut row = Vec::with_capacity(jobs.len());
            for (id, steps) in jobs {
                let known = self.isolated.entry(*id).or_insert(Isolated { time: 0.0, steps: *steps, rate });
                known.time += (known.steps - steps).max(0.0) / known.rate;
                (known.steps, known.rate) = (*steps, rate);
                let age = cluster.now().saturating_sub(cluster.job(*id).submitted) as f64 / 1e6;
                row.push(Progress { steps: *steps, age, isolated: known.time + steps / rate });
            }
            all.push(row);
        }
        all
    }

    /// Jobs by priority within each type, the fastest type first, as long as GPUs remain; a job runs on one type only.
    fn choose(&self, cluster: &Cluster) -> BTreeMap<JobId, GpuTypeId> {
        let mut chosen = BTreeMap::new();
        for kind in self.fastest_first.iter().copied() {
            let at = kind as usize;
            let total: f64 = self.spent.values().map(|spent| spent[at]).sum();
            let mut ranked: Vec<(f64, f64, f64, JobId)> = Vec::new();
            for (id, part) in self.allocation.iter().filter(|(id, _)| self.jobs.contains(*id)) {
                let own = self.spent.get(id).map_or(0.0, |spent| spent[at]);
                let fraction = if total > 0.0 { own / total } else { 0.0 };
                let priority = if fraction > 0.0 { part[at] / fraction } else { part[at] * 1e9 };
                if part[at] > 1e-9 {
                    ranked.push((priority, part[at] * total - own, part[at], *id));
                }
            }
            ranked.sort_by(|a, b| {
                b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)).then(b.2.total_cmp(&a.2)).then(a.3.cmp(&b.3))
            });
            let mut free = cluster.up_gpus(kind);
            for (_, _, _, id) in ranked {
                let gang = cluster.job(id).gpus;
                if !chosen.contains_key(&id) && gang <= free {
                    free -= gang;
                    chosen.insert(id, kind);
                }
            }
        }
        chosen
    }
}

sandtable_policy::export!(Gavel);

#[cfg(test)]
mod tests {
    use super::{Gavel, fastest_first};
    use crate::lp::Question;
    use sandtable_policy::testing::completion_times;

    #[test]
    fn the_fastest_type_is_dealt_out_first() {
        let question = Question {
            throughput: vec![vec![1.0, 2.0, 4.0], vec![3.0, 3.0, 2.0]],
            gang: vec![1.0, 1.0],
            weight: vec![1.0, 1.0],
            count: vec![5.0, 1.0],
            capacity: vec![1.0, 1.0, 1.0],
        };
        assert_eq!(fastest_first(&question), [2, 1, 0]);
    }

    #[test]
    fn by_finish_time_whoever_came_first_gets_more() {
        let config = "{\"objective\": \"finish-time-fairness\", \"round\": 60}";
        let times = completion_times::<Gavel>(config, &[1], &[(0, 1, 7200), (3600, 1, 7200)]);
        // With equal shares of what is left the first would end after 3 h, the second after 3 h too.
        assert!(times[0] < 10_800 && times[1] > 10_700, "{times:?}");
    }

    #[test]
    fn on_one_type_jobs_of_one_size_share_the_time() {
        let times = completion_times::<Gavel>("{}", &[1], &[(0, 1, 3600), (0, 1, 3600)]);
        assert_eq!(*times.iter().max().expect("two jobs"), 7200);
        // Rounds of six minutes in turn: the first ends one round before the second.
        assert!(times.iter().all(|time| *time >= 6480), "{times:?}");
    }
}
