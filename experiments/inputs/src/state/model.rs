//! What a model goes on from: nodes that take jobs, jobs that wait or run, and what is left out or not modelled.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_hardware::{Duration, HostResources, Instant, SECOND};

use super::cpu_jobs::CpuQueues;
use super::dependencies::{Dependent, Others};
use super::document::{NodeState, SharingMode, SourceKind, State, StateNode, StateQueue};
use super::jobs::{JobState, StateJob, Why, WhyCode};
use super::queues::{KIND, NONE};
use super::ranks::Ranks;
use crate::trace::{Row, plain};

/// How long jobs really take, where nothing better is known than their limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunTimes {
    /// This part of their limit; one that has run for longer takes all of it.
    pub of_limit: f64,
    /// The limit of jobs without one.
    pub otherwise: Option<Duration>,
    /// Whether jobs may have no limit: then how long they take has to come from elsewhere.
    pub without_limits: bool,
}

/// What is known of a job beside its row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownJob {
    /// For how long it has made progress.
    pub age: Duration,
    /// What its user called it.
    pub name: Option<String>,
    /// Its account.
    pub account: Option<String>,
    /// It is ending.
    pub ends: bool,
    /// Why it waits, as its scheduler says.
    pub why: Option<Why>,
    /// When its scheduler plans to start it, seconds from the instant.
    pub planned_s: Option<f64>,
    /// The job of the document of which it is a part; none: it is all of one.
    pub part_of: Option<String>,
}

/// A job that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    /// Its name.
    pub job: String,
    /// Node, by its place among those of [`Modelled`], and GPU of it.
    pub on: Vec<(usize, u32)>,
    /// The node of a job that has no GPU.
    pub node: Option<usize>,
    /// When it was given them.
    pub since: Instant,
    /// For how long it has made progress.
    pub done: Duration,
}

/// A node that takes jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelledNode {
    /// Its name.
    pub name: String,
    /// Its GPUs, but for those that others hold.
    pub gpus: u32,
    /// Their kind.
    pub kind: String,
    /// CPU and memory that jobs may have.
    pub host: HostResources,
    /// When it takes no jobs: from and to. Those that run there go on.
    pub closed: Vec<(Instant, Instant)>,
}

/// What a model goes on from.
#[derive(Clone, Debug)]
pub struct Modelled {
    /// The instant of the document, counted from the hour before the first submission.
    pub at: Instant,
    /// The nodes that take jobs.
    pub nodes: Vec<ModelledNode>,
    /// The jobs, by submission.
    pub rows: Vec<Row>,
    /// Those that run.
    pub holders: Vec<Holder>,
    /// What is known of jobs beside their rows, by name.
    pub known: BTreeMap<String, KnownJob>,
    /// Jobs that wait for others of the model.
    pub after: Vec<Dependent>,
    /// What is left out, or not modelled, and of how many.
    pub not_modelled: BTreeMap<String, u32>,
}

impl Modelled {
    /// The names of the jobs that run.
    pub fn running(&self) -> BTreeSet<&str> {
        self.holders.iter().map(|holder| holder.job.as_str()).collect()
    }
}

/// What of queues is not modelled, where they share no GPUs out.
pub const QUEUES: &str = "queues: their limits, weights and order";
/// The jobs of which that is not modelled.
pub const QUOTA: &str = "jobs that wait for a quota, which start as others";

/// Jobs of which what they wait for is not in the model.
pub(super) const WAITS_FOR_OTHERS: &str = "jobs that wait for others that are not in the model";
/// Jobs that are not modelled where CPU and memory are not, or where they wait and the policy does not start such jobs.
pub(super) const WITHOUT_GPUS: &str = "jobs without GPUs";

/// How running jobs are taken whose place is not told, or is on nodes that take no jobs.
pub(super) const PUT: &str = "running jobs of which no place is told, put where there is room";
pub(super) const NONE_FOUND: &str = "running jobs of which no place is told, and that find none";
pub(super) const HELD_ELSEWHERE: &str = "running jobs that hold nothing another could have";
/// Jobs that ask for parts of more than one GPU.
pub(super) const OF_SEVERAL: &str = "jobs that wait for parts of several GPUs";
/// Where parts are of which the document says only the node: by job and the place in what it holds.
type PartPlaces<'a> = BTreeMap<(&'a str, usize), Vec<u32>>;

/// The origin of a model's time is a whole number of these before a document's instant.
const HOUR_S: f64 = 3600.0;
/// A job that has run for its limit ends so much later.
pub(super) const OVER: Duration = SECOND;

impl State {
    /// What a model goes on from.
    ///
    /// # Errors
    /// Jobs without a limit where none is given for them; GPUs that are shared.
    pub fn modelled(&self, run_times: RunTimes) -> Result<Modelled, String> {
        self.modelled_with(run_times, false)
    }

    /// What a model goes on from, in which jobs without GPUs that wait for one node are too, if `cpu_jobs`.
    ///
    /// # Errors
    /// As of [`State::modelled`].
    pub fn modelled_with(&self, run_times: RunTimes, cpu_jobs: bool) -> Result<Modelled, String> {
        let mut all = Modelling { cpu_jobs: cpu_jobs.then(|| self.cpu_queues()), ..self.with_nodes(run_times) };
        let there = || self.jobs.iter().filter(|job| job.state != JobState::Ended);
        there().for_each(|job| all.take_named(job));
        all.take_parts(there());
        // Those of which no place is told have one of those that are left.
        let placeless = |job: &&StateJob| job.on.is_empty();
        let has_place = there().filter(|job| !placeless(job));
        for job in has_place.chain(there().filter(placeless)).filter(|job| job.state != JobState::Dependent) {
            all.job(job).map_err(|why| format!("job {:?}: {why}", job.id))?;
        }
        all.dependents(self)?;
        all.count(QUEUES, self.queues.len() as u32);
        let [takes, limits] = self.qualities_not_followed();
        all.count("qualities of service that take GPUs from others, and are no levels", takes);
        all.count("qualities of service that limit GPUs beside a fair share", limits);
        let reserved = self.reservations.iter().filter(|of| of.to_s > 0.0);
        for of in reserved {
            all.count("reservations: their users, and time limits that reach into them", 1);
            all.count("reservations that name no nodes", u32::from(of.nodes.is_empty()));
            all.count("reservations that come again", u32::from(of.repeats_s.is_some()));
        }
        all.made.rows.sort_by_key(|row| row.submit);
        Ok(all.made)
    }

    /// The nodes that take jobs.
    pub fn modelled_nodes(&self) -> Vec<ModelledNode> {
        self.with_nodes(RunTimes { of_limit: 1.0, otherwise: None, without_limits: true }).made.nodes
    }

    /// The limits of jobs that say none. Slurm's jobs all say theirs: one without has none.
    fn defaults(&self) -> BTreeMap<&str, f64> {
        let slurm = self.source.kind == SourceKind::Slurm;
        let of = |queue: &StateQueue| if slurm { queue.most_s } else { queue.default_s };
        let sane = |limit: &f64| *limit > 0.0 && *limit <= super::check::FARTHEST_S;
        let all = self.queues.iter().filter_map(|queue| Some((queue.name.as_str(), of(queue).filter(sane)?)));
        all.collect()
    }

    /// The instant of the document, on the clock of a model of it.
    pub fn instant(&self) -> Instant {
        if let Some(known) = self.clock_from {
            return known;
        }
        let oldest = self.jobs.iter().flat_map(|job| [job.submitted_s, job.started_s]).flatten().fold(0.0, f64::min);
        Instant::at(seconds((-oldest / HOUR_S).ceil() * HOUR_S))
    }

    fn with_nodes(&self, run_times: RunTimes) -> Modelling<'_> {
        let at = self.instant();
        let mut all = Modelling {
            state: self,
            run_times,
            cpu_jobs: None,
            defaults: self.defaults(),
            ranks: Ranks::of(self),
            nodes: BTreeMap::new(),
            node_queues: BTreeSet::new(),
            kinds: BTreeSet::new(),
            taken: Vec::new(),
            free: Vec::new(),
            parts: PartPlaces::new(),
            used: BTreeMap::new(),
            made: Modelled {
                at,
                nodes: Vec::new(),
                rows: Vec::new(),
                holders: Vec::new(),
                known: BTreeMap::new(),
                after: Vec::new(),
                not_modelled: BTreeMap::new(),
            },
        };
        self.nodes.iter().for_each(|node| all.node(node));
        all
    }
}

pub(super) struct Modelling<'a> {
    pub(super) state: &'a State,
    run_times: RunTimes,
    /// Where jobs without GPUs may be, where those that wait are in the model.
    cpu_jobs: Option<CpuQueues<'a>>,
    /// The limits of jobs that say none, by queue.
    defaults: BTreeMap<&'a str, f64>,
    /// Priorities as whole numbers.
    ranks: Ranks,
    /// Places of nodes that take jobs, by name.
    pub(super) nodes: BTreeMap<&'a str, usize>,
    /// The queues that nodes which take jobs are in, and their kinds: of many nodes there are few of either.
    node_queues: BTreeSet<&'a [String]>,
    kinds: BTreeSet<&'a str>,
    /// GPUs of each that others hold.
    pub(super) taken: Vec<&'a [u32]>,
    /// GPUs of each that no job holds by name.
    pub(super) free: Vec<BTreeSet<u32>>,
    pub(super) parts: PartPlaces<'a>,
    /// Thousandths that jobs hold of GPUs of which they have a part, by node and GPU.
    pub(super) used: BTreeMap<(usize, u32), u32>,
    pub(super) made: Modelled,
}

impl<'a> Modelling<'a> {
    pub(super) fn count(&mut self, what: &str, jobs: u32) {
        if jobs > 0 {
            *self.made.not_modelled.entry(what.into()).or_default() += jobs;
        }
    }

    /// The jobs that wait for others: those that wait for jobs of the model alone are in it, at whatever depth.
    fn dependents(&mut self, state: &'a State) -> Result<(), String> {
        let mut left: Vec<&StateJob> = state.jobs.iter().filter(|job| job.state == JobState::Dependent).collect();
        let others = Others::of(state);
        loop {
            let (mut later, before) = (Vec::new(), left.len());
            for job in left {
                let Some(after) = others.waits(job, &|name| self.made.known.contains_key(name)) else {
                    later.push(job);
                    continue;
                };
                self.job(job).map_err(|why| format!("job {:?}: {why}", job.id))?;
                if self.made.known.contains_key(job.id.as_str()) {
                    self.made.after.push(after);
                }
            }
            left = later;
            if left.is_empty() || left.len() == before {
                break;
            }
        }
        left.iter().try_for_each(|_| self.leave_out(WAITS_FOR_OTHERS))
    }

    /// A job that is not in the model.
    pub(super) fn leave_out(&mut self, what: &str) -> Result<(), String> {
        self.count(what, 1);
        Ok(())
    }

    fn node(&mut self, node: &'a StateNode) {
        let shared = node.sharing.as_ref().is_some_and(|sharing| sharing.mode != SharingMode::Exclusive);
        let left_out = match node.state {
            _ if node.gpus == 0 => Some("nodes without GPUs"),
            NodeState::Up if shared => Some("nodes whose GPUs are shared"),
            NodeState::Up => None,
            _ => Some("nodes that take no jobs"),
        };
        if let Some(what) = left_out {
            return self.count(what, 1);
        }
        if node.gpus as usize == node.taken.len() {
            return self.count("nodes whose GPUs others hold", 1);
        }
        self.count("GPUs that others hold", node.taken.len() as u32);
        self.nodes.insert(&node.name, self.made.nodes.len());
        self.node_queues.insert(&node.queues);
        self.kinds.insert(node.kind.as_deref().unwrap_or(KIND));
        self.taken.push(&node.taken);
        self.free.push((0..node.gpus).filter(|gpu| !node.taken.contains(gpu)).collect());
        self.made.nodes.push(ModelledNode {
            name: node.name.clone(),
            gpus: node.gpus - node.taken.len() as u32,
            kind: node.kind.clone().unwrap_or_else(|| KIND.into()),
            // More CPUs than a fleet may have are no bound.
            host: self.host(node.cpus.map(f64::from).filter(|cpus| *cpus <= 4e6), node.ram_mib.map(|mib| mib as f64)),
            closed: self.closed(&node.name),
        });
    }

    /// When a node takes no jobs.
    fn closed(&self, node: &str) -> Vec<(Instant, Instant)> {
        let drains = self.state.drains.iter().filter(|drain| drain.node == node);
        let drains = drains.map(|drain| (drain.from_s, drain.to_s));
        // The jobs for which nodes are reserved are not in the model.
        let reserved =
            self.state.reservations.iter().filter(|of| of.to_s > 0.0 && of.nodes.iter().any(|of| of == node));
        let reserved = reserved.map(|of| (of.from_s.max(0.0), Some(of.to_s)));
        let instants =
            |(from, to): (f64, Option<f64>)| (self.instant(from), to.map_or(Instant::END, |to| self.instant(to)));
        drains.chain(reserved).map(instants).collect()
    }

    fn job(&mut self, job: &'a StateJob) -> Result<(), String> {
        let waits = self.cpu_jobs.as_ref().is_some_and(|queues| queues.waits(job));
        // One that may run for ever is no reason to ask for a limit.
        if job.gpus == 0 && !(waits && self.limit(job).is_ok()) {
            return self.without_gpus(job);
        }
        let left_out = match job.state {
            JobState::Waiting | JobState::NotBefore | JobState::Dependent if job.reservation.is_some() => {
                Some("jobs that wait for a reservation")
            }
            JobState::Waiting | JobState::NotBefore | JobState::Dependent => {
                (job.gpus > 1 && job.share().is_some()).then_some(OF_SEVERAL)
            }
            JobState::Running | JobState::Suspended | JobState::Ending if job.share().is_some() => {
                return self.runs_in_parts(job);
            }
            JobState::Running | JobState::Suspended | JobState::Ending => return self.runs(job),
            JobState::Held => Some("jobs that are held"),
            JobState::Reserved => Some("jobs that wait for a reservation"),
            JobState::Ended => return Ok(()),
        };
        let closed = |queue: &String| self.state.queues.iter().any(|of| of.name == *queue && of.open == Some(false));
        let never = match job.why.as_ref().map(|why| why.code) {
            Some(WhyCode::Never) => Some("jobs that can never start"),
            _ if !job.queues.is_empty() && job.queues.iter().all(closed) => Some("jobs in closed queues"),
            _ if !self.has_kinds(job) => Some("jobs whose kinds of GPU no node has that takes jobs"),
            _ => None,
        };
        if let Some(what) = left_out.or(never) {
            return self.leave_out(what);
        }
        let limit = self.limit(job)?;
        let submitted = job.submitted_s.unwrap_or(0.0);
        let submit = job.not_before_s.map_or(submitted, |at| at.max(submitted));
        let mut row = self.row(job, job.gpus, submit);
        (row.declared, row.duration) = (limit, self.takes(limit, Duration::ZERO));
        let divides = |each: &u32| job.gpus > 1 && *each > 0 && job.gpus.is_multiple_of(*each);
        let each = job.nodes.as_ref().and_then(|shape| {
            // So many nodes, neither more nor fewer: as many GPUs on each.
            let exactly = shape.least.filter(|least| *least > 0 && shape.most == Some(*least));
            let even = exactly.filter(|nodes| job.gpus.is_multiple_of(*nodes)).map(|nodes| job.gpus / nodes);
            shape.gpus_each.or(even)
        });
        row.gpus_per_node = each.filter(divides).unwrap_or(0);
        row.share = job.share().unwrap_or(row.share);
        row.kinds.retain(|kind| self.kinds.contains(kind.as_str()));
        if job.gpus == 0 {
            row.host = self.host(job.cpus, job.ram_mib);
        }
        let kept = row.gpus_per_node > 0 || job.gpus <= 1;
        self.asks(job, job.nodes.is_none() || kept);
        self.keep(job, row, Duration::ZERO);
        Ok(())
    }

    /// Whether a node that takes jobs has GPUs that a job may run on.
    fn has_kinds(&self, job: &StateJob) -> bool {
        job.kinds.is_empty() || job.kinds.iter().any(|kind| self.kinds.contains(kind.as_str()))
    }

    /// Whether a job may be on every node that takes jobs, as far as its queues say.
    fn has_all_nodes(&self, job: &StateJob) -> bool {
        let allowed = |queues: &&[String]| queues.is_empty() || queues.iter().any(|queue| job.queues.contains(queue));
        job.queues.is_empty() || self.node_queues.iter().all(allowed)
    }

    /// A job that is in the model.
    pub(super) fn keep(&mut self, job: &StateJob, row: Row, age: Duration) {
        let (name, account, why) = (job.name.clone(), job.account.clone(), job.why.clone());
        let ends = job.state == JobState::Ending;
        self.made.known.insert(
            row.name.to_string(),
            KnownJob { age, name, account, ends, why, planned_s: job.planned_s, part_of: None },
        );
        self.made.rows.push(row);
    }

    pub(super) fn row(&self, job: &StateJob, gpus: u32, submitted_s: f64) -> Row {
        let mut row = Row::new(job.id.clone(), self.instant(submitted_s), gpus, Duration::ZERO);
        row.user = job.user.clone().map(plain);
        row.kinds = job.kinds.clone();
        // Of a job of which a part is here, that part of it.
        let part = |all: f64| all * f64::from(gpus) / f64::from(job.gpus.max(1));
        row.host = self.host(job.cpus.map(part), job.ram_mib.map(part));
        row.queue = Some(plain(self.state.queue_of(job).unwrap_or_else(|| NONE.into())));
        row.preemptible = job.preemptible.unwrap_or(true);
        row.deadline = job.deadline_s.map(|at| self.instant(at));
        row.priority = self.ranks.priority(job);
        row
    }

    /// CPU cores and memory, as far as the cluster gives jobs their own.
    pub(super) fn host(&self, cpus: Option<f64>, mib: Option<f64>) -> HostResources {
        let counts = self.state.source.scheduler.as_ref().and_then(|of| of.counts_cpus).unwrap_or(true);
        let cpus = cpus.filter(|_| counts).unwrap_or(0.0);
        // What is too large for it is as good as no bound.
        // 32.2 cores are 32,200 thousandths, whatever is behind the point of the product.
        let up = |value: f64| libm::ceil(value - 1e-6) as u32;
        HostResources { cpu_milli: up(cpus * 1000.0), memory_mib: up(mib.unwrap_or(0.0)) }
    }

    /// Counts what a job asks for and the model has not.
    fn asks(&mut self, job: &StateJob, shaped: bool) {
        let quota = job.why.as_ref().is_some_and(|why| why.code == WhyCode::Quota);
        let asked = [
            (QUOTA, !quota),
            ("jobs that may not be on all nodes, by their queue", self.has_all_nodes(job)),
            ("numbers of nodes that jobs ask for", shaped),
            ("features that jobs ask for", job.features.is_empty()),
            ("nodes that jobs name", job.nodes_in.is_empty() && job.nodes_out.is_empty()),
            ("whole nodes that jobs ask for", !job.whole_nodes.unwrap_or(false)),
            ("levels of topology that jobs ask for", job.level.is_none()),
            ("jobs that start together", job.together.is_none()),
            (
                "tasks of arrays of which only so many run at a time",
                job.array.as_ref().is_none_or(|of| of.at_most.is_none()),
            ),
            ("fewest GPUs with which jobs begin", job.least_gpus.is_none()),
        ];
        for (what, _) in asked.iter().filter(|(_, nothing)| !nothing) {
            self.count(what, 1);
        }
    }

    pub(super) fn instant(&self, seconds_from_at: f64) -> Instant {
        if seconds_from_at < 0.0 {
            Instant::at(self.made.at.since_start().saturating_sub(seconds(-seconds_from_at)))
        } else {
            self.made.at + seconds(seconds_from_at)
        }
    }

    pub(super) fn limit(&self, job: &StateJob) -> Result<Option<Duration>, String> {
        let default = || job.queues.iter().find_map(|queue| self.defaults.get(queue.as_str()).copied());
        match job.limit_s.or_else(default).map(seconds).or(self.run_times.otherwise) {
            None if self.run_times.without_limits => Ok(None),
            None => Err("it has no time limit: `otherwise` of the run times is for such jobs".into()),
            Some(limit) if limit.is_zero() => Err("its time limit is 0".into()),
            limit => Ok(limit),
        }
    }

    /// What a job takes that has this limit and has run for so long.
    pub(super) fn takes(&self, limit: Option<Duration>, done: Duration) -> Duration {
        let Some(limit) = limit else { return done + OVER };
        let part = Duration::from_micros_f64((limit.as_micros_f64() * self.run_times.of_limit).ceil().max(1.0));
        let takes = if done < part { part } else { limit };
        if done < takes { takes } else { done + OVER }
    }
}

pub(super) fn seconds(value: f64) -> Duration {
    Duration::from_micros_f64(libm::rint(value * 1e6))
}
