//! A cluster in forty lines, for a policy's own unit tests: nothing costs anything, estimates are true, and every
//! plan must be right. Experiments have the real one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::driver::Driver;
use crate::host::{Host, stand_in};
use crate::{
    Action, Arrival, Batch, ChangeCause, ClassId, Cluster, Demand, Event, Fresh, GpuId, GpuType, GpuTypeId,
    HostResources, Instant, Introductions, JobEnd, JobId, JobPhase, Knowledge, NEVER, NO_QUEUE, NO_WORKLOAD, Nearness,
    Node, NodeHealth, NodeId, PartId, PartProfile, PhaseChange, Policy, Pool, Quantity, Setup, Sharing, Topology,
    Trigger,
};

const SECOND: u64 = 1_000_000;

/// Seconds left of each job, shared with the stand-in for the imports.
type Left = Rc<RefCell<Vec<f64>>>;

struct Truth(Left);

impl Host for Truth {
    fn estimate(&self, what: Quantity, jobs: &[JobId], _: &[GpuTypeId]) -> Vec<f64> {
        let left = |job: &JobId| self.0.borrow()[*job as usize];
        jobs.iter().map(|job| if what == Quantity::Remaining { left(job) } else { 1.0 }).collect()
    }
}

/// What a test's jobs are: seconds of submission, GPUs, seconds of work.
pub type TestJob = (u64, u32, u64);

/// Runs a policy on nodes of these many GPUs; returns the seconds of each job from submission to completion.
///
/// # Panics
/// Where the policy refuses its configuration, fails, breaks a rule, or leaves a job behind.
pub fn completion_times<P: Policy>(config: &str, nodes: &[u32], jobs: &[TestJob]) -> Vec<u64> {
    let left: Left = Rc::new(RefCell::new(jobs.iter().map(|job| job.2 as f64).collect()));
    stand_in(Box::new(Truth(left.clone())));
    let (mut driver, readiness) =
        Driver::<P>::new(setup(config, nodes, 10_000)).unwrap_or_else(|error| panic!("init: {error:?}"));
    let mut run = TestRun {
        jobs,
        left,
        owner: vec![None; nodes.iter().sum::<u32>() as usize],
        now: 0,
        arrived: 0,
        ends: vec![None; jobs.len()],
        timers: BTreeMap::new(),
        events: Vec::new(),
        new: Introductions { users: vec![String::new()], ..Introductions::default() },
        classes: Vec::new(),
    };
    let mut seq = 0;
    while run.ends.iter().any(Option::is_none) {
        run.advance(readiness.cadence.round);
        seq += 1;
        let is_round = readiness.cadence.round.is_some_and(|period| run.now.is_multiple_of(period));
        let trigger = if is_round { Trigger::Round } else { Trigger::Event };
        let events = std::mem::take(&mut run.events);
        let new = std::mem::take(&mut run.new);
        let batch = Batch { seq, now: run.now, trigger, fresh: Fresh::all(), events };
        let plan = driver.decide(&batch, new).unwrap_or_else(|error| panic!("decide: {error:?}"));
        plan.actions.into_iter().for_each(|action| run.act(action));
    }
    run.ends.iter().zip(jobs).map(|(end, job)| end.unwrap_or_default() / SECOND - job.0).collect()
}

/// What [`completion_times`] keeps of a run.
struct TestRun<'a> {
    jobs: &'a [TestJob],
    left: Left,
    /// The job on each GPU.
    owner: Vec<Option<JobId>>,
    now: u64,
    /// Jobs that have arrived.
    arrived: usize,
    ends: Vec<Option<u64>>,
    /// Instants by token.
    timers: BTreeMap<u64, u64>,
    /// For the next batch.
    events: Vec<Event>,
    new: Introductions,
    /// GPUs of each class.
    classes: Vec<u32>,
}

impl TestRun<'_> {
    /// Goes on to the next event: a completion, an arrival, a timer or a round.
    fn advance(&mut self, round: Option<u64>) {
        let running: Vec<usize> = (0..self.jobs.len()).filter(|job| self.is_running(*job)).collect();
        let done = running.iter().map(|job| self.now + (self.left.borrow()[*job] * 1e6).round() as u64);
        let submission = self.jobs.get(self.arrived).map(|job| job.0 * SECOND);
        let round = round.map(|period| (self.now / period + 1) * period);
        let next = done.chain(submission).chain(self.timers.values().copied()).chain(round).min();
        let next = next.expect("the policy leaves jobs behind");
        for job in running {
            self.left.borrow_mut()[job] -= (next - self.now) as f64 / 1e6;
        }
        self.now = next;
        for job in 0..self.jobs.len() {
            if self.is_running(job) && self.left.borrow()[job] < 5e-7 {
                self.leave(job as JobId);
                self.ends[job] = Some(next);
                self.events.push(Event::JobEnded(JobEnd { job: job as JobId, at: next }));
            }
        }
        while let Some((_, gpus, seconds)) = self.jobs.get(self.arrived).filter(|job| job.0 * SECOND <= next) {
            let class = self.classes.iter().position(|class| class == gpus).unwrap_or_else(|| {
                self.new.classes.push(demand(*gpus));
                self.classes.push(*gpus);
                self.classes.len() - 1
            });
            let left = seconds * SECOND;
            let told = arrival(self.arrived as JobId, class as ClassId, next);
            self.events.push(Event::JobArrived(Arrival { declared_run_time: left, remaining: left, ..told }));
            self.arrived += 1;
        }
        let due: Vec<u64> = self.timers.iter().filter(|(_, at)| **at <= next).map(|(token, _)| *token).collect();
        for token in due {
            self.timers.remove(&token);
            self.events.push(Event::Timer(token));
        }
    }

    /// Carries out an action, which must be valid.
    fn act(&mut self, action: Action) {
        let now = self.now;
        let (job, phase) = match action {
            Action::Start(start) => {
                assert_eq!(start.gpus.len(), self.jobs[start.job as usize].1 as usize, "job {}", start.job);
                for gpu in start.gpus {
                    assert_eq!(self.owner[gpu as usize].replace(start.job), None, "GPU {gpu} is held");
                }
                (start.job, JobPhase::Running)
            }
            Action::Preempt(preempt) => {
                assert!(self.is_running(preempt.job as usize), "job {} does not run", preempt.job);
                self.leave(preempt.job);
                (preempt.job, JobPhase::Queued)
            }
            Action::Throttle(_) | Action::Protect(_) => return,
            Action::Refuse(job) => {
                self.ends[job as usize] = Some(now);
                self.events.push(Event::JobEnded(JobEnd { job, at: now }));
                return;
            }
            Action::Reassign(_) | Action::SetBatch(_) => panic!("these jobs are not elastic"),
            Action::StartPart(_) => panic!("these jobs ask for no parts"),
            Action::StartOn(_) => panic!("these jobs ask for GPUs"),
            Action::SetTimer(timer) => {
                assert!(timer.at > now && self.timers.insert(timer.token, timer.at).is_none(), "{timer:?} at {now}");
                return;
            }
            Action::CancelTimer(token) => {
                assert!(self.timers.remove(&token).is_some(), "timer {token} is not set");
                return;
            }
        };
        let remaining = (self.left.borrow()[job as usize] * 1e6).round() as u64;
        self.events.push(Event::JobChanged(PhaseChange { job, phase, at: now, cause: ChangeCause::Asked, remaining }));
    }

    fn is_running(&self, job: usize) -> bool {
        self.owner.contains(&Some(job as JobId))
    }

    fn leave(&mut self, job: JobId) {
        self.owner.iter_mut().filter(|owner| **owner == Some(job)).for_each(|owner| *owner = None);
    }
}

/// A preemptible gang of whole GPUs of any type.
pub fn demand(gpus: u32) -> Demand {
    Demand {
        gpus,
        gpus_per_node: 0,
        host: HostResources { cpu_milli: 0, memory_mib: 0 },
        near: Nearness { required: None, preferred: None },
        share_milli: 1000,
        part: None,
        memory_mib: 0,
        gpu_types: vec![],
        preemptible: true,
        elastic: None,
        service: None,
    }
}

/// A job of the first user, of which nothing else is known.
pub fn arrival(job: JobId, class: ClassId, submitted: Instant) -> Arrival {
    Arrival {
        job,
        class,
        submitted,
        user: 0,
        workload: NO_WORKLOAD,
        declared_run_time: NEVER,
        deadline: NEVER,
        priority: 0,
        queue: NO_QUEUE,
        remaining: NEVER,
    }
}

/// A batch of one arrival for each of these demands: the jobs are numbered from 0, submitted at 0 and known by nothing else.
pub fn arrivals(demands: Vec<Demand>) -> (Batch, Introductions) {
    let events = (0..demands.len() as JobId).map(|job| Event::JobArrived(arrival(job, job, 0))).collect();
    let new = Introductions { classes: demands, users: vec![String::new()], ..Introductions::default() };
    (Batch { seq: 1, now: 0, trigger: Trigger::Event, fresh: Fresh::CLASSES | Fresh::USERS, events }, new)
}

/// A setup that grants all knowledge, on nodes of these many GPUs.
pub fn setup(config: &str, nodes: &[u32], max_actions: u32) -> Setup {
    Setup {
        config: config.into(),
        seed: 0,
        weights: vec![],
        topology: topology(nodes),
        knowledge: Knowledge::all(),
        references: vec![],
        services: vec![],
        queues: vec![],
        max_actions,
    }
}

/// An idle cluster with nodes of these many GPUs, all up and of one type.
pub fn cluster(nodes: &[u32]) -> Cluster {
    Cluster::new(&topology(nodes))
}

/// A node of the first type that is up, of which nothing else is known.
pub fn node(id: NodeId, first_gpu: GpuId, gpus: u32) -> Node {
    Node {
        id,
        name: format!("n{id}"),
        gpu_type: 0,
        first_gpu,
        gpus,
        health: NodeHealth::Up,
        links: vec![],
        domains: vec![],
        pool: Pool::Training,
        host: HostResources { cpu_milli: 0, memory_mib: 0 },
        revocable: None,
    }
}

/// Nodes of these many GPUs.
pub fn topology(nodes: &[u32]) -> Topology {
    let mut first_gpu = 0;
    let node = |(id, gpus): (usize, &u32)| {
        let node = node(id as NodeId, first_gpu, *gpus);
        first_gpu += gpus;
        node
    };
    Topology {
        gpu_types: vec![GpuType { id: 0, name: "g".into(), memory_mib: 0, sharing: Sharing::Exclusive }],
        levels: vec![],
        nodes: nodes.iter().enumerate().map(node).collect(),
    }
}

/// Nodes of these many GPUs of eight slices, with the parts of an A100 (NVIDIA's MIG).
pub fn mig(nodes: &[u32]) -> Topology {
    let places: [(&str, u32, &[u32]); 6] = [
        ("1g.5gb", 1, &[0, 1, 2, 3, 4, 5, 6]),
        ("1g.10gb", 2, &[0, 2, 4, 6]),
        ("2g.10gb", 2, &[0, 2, 4]),
        ("3g.20gb", 4, &[0, 4]),
        ("4g.20gb", 4, &[0]),
        ("7g.40gb", 8, &[0]),
    ];
    let part = |(id, (name, slices, starts)): (usize, (&str, u32, &[u32]))| PartProfile {
        id: id as PartId,
        name: name.into(),
        slices,
        memory_mib: 0,
        starts: starts.to_vec(),
    };
    let mut topology = topology(nodes);
    topology.gpu_types[0].sharing = Sharing::Parts(places.into_iter().enumerate().map(part).collect());
    topology
}

/// A file of the data that `SANDTABLE_DATA` names, by default `../shared/data` beside the checkout. Tests that read it are marked
/// `#[needs("data:…")]`.
///
/// # Panics
/// Where it is not there.
#[expect(clippy::disallowed_methods, reason = "where the data are is told by the environment")]
pub fn data(file: &str) -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var("SANDTABLE_DATA").map_or_else(|_| beside(), PathBuf::from).join(file);
    assert!(path.exists(), "{} is not there: SANDTABLE_DATA names the folder of the data", path.display());
    path
}

/// Two jobs on one GPU: seconds of arrival, GPUs, seconds of work. What becomes of them was worked out by hand.
pub const TINY: (&[u32], &[TestJob]) = (&[1], &[(0, 1, 5000), (1000, 1, 2000)]);

/// Five jobs on a node of four GPUs, likewise.
pub const SMALL: (&[u32], &[TestJob]) =
    (&[4], &[(0, 2, 6000), (10, 4, 1000), (20, 1, 9000), (30, 2, 500), (40, 1, 100)]);

/// Why a policy refuses a configuration.
///
/// # Panics
/// Where it does not.
pub fn refusal<P: Policy>(config: &str) -> String {
    let setup = Setup { knowledge: Knowledge::REMAINING, ..setup(config, &[1], 1) };
    match Driver::<P>::new(setup) {
        Ok(_) => panic!("{config} is accepted"),
        Err(crate::PolicyError::BadConfig(why) | crate::PolicyError::Unsupported(why)) => why,
        Err(crate::PolicyError::Internal(why)) => panic!("{why}"),
    }
}
