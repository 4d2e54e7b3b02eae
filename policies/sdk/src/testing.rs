//! A cluster in forty lines, for a policy's own unit tests: nothing costs anything, estimates are true, and every
//! plan must be right. Experiments have the real one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::driver::Driver;
use crate::host::{Host, stand_in};
use crate::{
    Action, Batch, ChangeCause, Demand, Event, GpuType, GpuTypeId, JobEnd, JobId, JobInfo, JobPhase, Knowledge, Node,
    NodeHealth, PhaseChange, Policy, Pool, Quantity, Setup, Sharing, Topology, Trigger,
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

/// Runs a policy on nodes of these many GPUs; the completion time of each job, in seconds.
///
/// # Panics
/// Where the policy refuses its configuration, fails, breaks a rule, or leaves a job behind.
pub fn completion_times<P: Policy>(config: &str, nodes: &[u32], jobs: &[TestJob]) -> Vec<u64> {
    let left: Left = Rc::new(RefCell::new(jobs.iter().map(|job| job.2 as f64).collect()));
    stand_in(Box::new(Truth(left.clone())));
    let setup = Setup {
        config: config.into(),
        seed: 0,
        topology: topology(nodes),
        knowledge: Knowledge::all(),
        references: vec![],
        services: vec![],
        max_actions: 10_000,
    };
    let (mut driver, readiness) = Driver::<P>::new(setup).unwrap_or_else(|error| panic!("init: {error:?}"));
    let mut owner: Vec<Option<JobId>> = vec![None; nodes.iter().sum::<u32>() as usize];
    let (mut now, mut seq, mut arrived) = (0u64, 0, 0);
    let mut ends: Vec<Option<u64>> = vec![None; jobs.len()];
    let mut timers: BTreeMap<u64, u64> = BTreeMap::new();
    let mut events: Vec<Event> = Vec::new();
    while ends.iter().any(Option::is_none) {
        let running = |job: usize| owner.contains(&Some(job as JobId));
        let done =
            (0..jobs.len()).filter(|job| running(*job)).map(|job| now + (left.borrow()[job] * 1e6).round() as u64);
        let round = readiness.cadence.round.map(|period| (now / period + 1) * period);
        let next = done.chain(jobs.get(arrived).map(|job| job.0 * SECOND)).chain(timers.values().copied()).chain(round);
        let next = next.min().expect("the policy leaves jobs behind");
        for job in (0..jobs.len()).filter(|job| running(*job)) {
            left.borrow_mut()[job] -= (next - now) as f64 / 1e6;
        }
        now = next;
        for (job, end) in ends.iter_mut().enumerate() {
            if running_in(&owner, job) && left.borrow()[job] < 5e-7 {
                owner.iter_mut().filter(|owner| **owner == Some(job as JobId)).for_each(|owner| *owner = None);
                *end = Some(now);
                events.push(Event::JobEnded(JobEnd { job: job as JobId, at: now }));
            }
        }
        while jobs.get(arrived).is_some_and(|job| job.0 * SECOND <= now) {
            let gpus = jobs[arrived].1;
            let demand = Demand { gpus, share_milli: 1000, memory_mib: 0, gpu_types: vec![], preemptible: true };
            let (id, submitted) = (arrived as JobId, now);
            let declared_run_time = Some(jobs[arrived].2 * SECOND);
            events.push(Event::JobArrived(JobInfo {
                id,
                submitted,
                demand,
                declared_run_time,
                workload: None,
                user: String::new(),
                elastic: None,
                service: None,
            }));
            arrived += 1;
        }
        let due: Vec<u64> = timers.iter().filter(|(_, at)| **at <= now).map(|(token, _)| *token).collect();
        for token in due {
            timers.remove(&token);
            events.push(Event::Timer(token));
        }
        seq += 1;
        let is_round = readiness.cadence.round.is_some_and(|period| now % period == 0);
        let trigger = if is_round { Trigger::Round } else { Trigger::Event };
        let batch =
            Batch { seq, now, trigger, events: std::mem::take(&mut events), workloads: vec![], samples: vec![] };
        let plan = driver.decide(batch).unwrap_or_else(|error| panic!("decide: {error:?}"));
        for action in plan.actions {
            let (job, phase) = match action {
                Action::Start(start) => {
                    assert_eq!(start.gpus.len(), jobs[start.job as usize].1 as usize, "job {}", start.job);
                    for gpu in start.gpus {
                        assert_eq!(owner[gpu as usize].replace(start.job), None, "GPU {gpu} is held");
                    }
                    (start.job, JobPhase::Running)
                }
                Action::Preempt(preempt) => {
                    assert!(running_in(&owner, preempt.job as usize), "job {} does not run", preempt.job);
                    owner.iter_mut().filter(|owner| **owner == Some(preempt.job)).for_each(|owner| *owner = None);
                    (preempt.job, JobPhase::Queued)
                }
                Action::Throttle(_) | Action::Protect(_) => continue,
                Action::Reassign(_) | Action::SetBatch(_) => panic!("these jobs are not elastic"),
                Action::SetTimer(timer) => {
                    assert!(timer.at > now && timers.insert(timer.token, timer.at).is_none(), "{timer:?} at {now}");
                    continue;
                }
                Action::CancelTimer(token) => {
                    assert!(timers.remove(&token).is_some(), "timer {token} is not set");
                    continue;
                }
            };
            events.push(Event::JobChanged(PhaseChange { job, phase, at: now, cause: ChangeCause::Asked }));
        }
    }
    ends.iter().zip(jobs).map(|(end, job)| end.unwrap_or_default() / SECOND - job.0).collect()
}

fn running_in(owner: &[Option<JobId>], job: usize) -> bool {
    owner.contains(&Some(job as JobId))
}

fn topology(nodes: &[u32]) -> Topology {
    let mut first_gpu = 0;
    let node = |(id, gpus): (usize, &u32)| {
        let (name, health, links) = (format!("n{id}"), NodeHealth::Up, vec![]);
        let node = Node {
            id: id as u32,
            name,
            gpu_type: 0,
            first_gpu,
            gpus: *gpus,
            health,
            links,
            rack: 0,
            pool: Pool::Training,
        };
        first_gpu += gpus;
        node
    };
    Topology {
        gpu_types: vec![GpuType { id: 0, name: "g".into(), memory_mib: 0, sharing: Sharing::Exclusive }],
        nodes: nodes.iter().enumerate().map(node).collect(),
    }
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
    let topology = topology(&[1]);
    let knowledge = Knowledge::REMAINING;
    let setup = Setup {
        config: config.into(),
        seed: 0,
        topology,
        knowledge,
        references: vec![],
        services: vec![],
        max_actions: 1,
    };
    match Driver::<P>::new(setup) {
        Ok(_) => panic!("{config} is accepted"),
        Err(crate::PolicyError::BadConfig(why) | crate::PolicyError::Unsupported(why)) => why,
        Err(crate::PolicyError::Internal(why)) => panic!("{why}"),
    }
}
