//! What must hold whatever a policy does: a policy that draws its actions at random, legal or not, on random fleets
//! with costs and failures, judged leniently. Every plan is judged by an oracle too, which knows the words of the
//! contract alone.
//!
//! Conservation itself (no GPU given twice, GPU-time of jobs, of GPUs and of the clock equal, time never back, every
//! job ends once) is checked by `Ledger::close` at the end of every run and makes `run` an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use sandtable_hardware::elastic::{Elastic, Learning, Rescale, Steps, Theta};
use sandtable_hardware::random::Stream;
use sandtable_hardware::{
    Communication, Costs, Duration, Failures, Fleet, GpuId, GpuProfile, GpuType, HostResources, Instant, Interference,
    InterferenceModel, Job, JobId, Leases, Maintenance, Nearness, NodeId, PartId, PartProfile, PerformanceModel, Pool,
    Profile, Queue, QueueId, Request, RestartRule, Revocable, SECOND, Service, ServiceId, Sharing, SimulatedBackend,
    Solo, TypeId, Workload, WorkloadId,
};
use sandtable_runtime::cluster::Phase;
use sandtable_runtime::contract::{
    Abilities, Action, Batch, Cadence, Descriptor, Plan, Preempt, PreemptMode, Readiness, Setup, Start,
};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::inputs::{After, Inputs, Reveal};
use sandtable_runtime::limits::Limits;
use sandtable_runtime::schedule::{Finished, run};
use sandtable_runtime::{DecisionContext, JobOutcome, Policy, Predictors, Remaining, Summary};

#[path = "invariants/cpu.rs"]
mod cpu;
#[path = "invariants/dependents.rs"]
mod dependents;
#[path = "invariants/mischief.rs"]
mod mischief;
#[path = "invariants/oracle.rs"]
mod oracle;
#[path = "invariants/oracle_nodes.rs"]
mod oracle_nodes;
#[path = "invariants/regressions.rs"]
mod regressions;
#[path = "invariants/wild.rs"]
mod wild;

use wild::Wild;

#[derive(Debug, Clone)]
struct Case {
    seed: u64,
    nodes: Vec<(u32, f64)>,
    costs: Costs,
    failing: bool,
    mischief: u64,
    sharing: Sharing,
    /// What the policy may use beside `start`.
    uses: Abilities,
    /// Most actions of a plan.
    actions: u32,
    /// Whether half of the actions are near what is legal.
    near: bool,
    jobs: Vec<(u64, u32, u64)>,
}

/// Rounds of half a minute.
fn leases(limited: bool) -> Leases {
    let (length, restart, brief) = (30 * SECOND, 4 * SECOND, 20 * SECOND);
    Leases { length, restart, brief, limit: limited.then_some(1.2) }
}

fn case() -> impl Strategy<Value = Case> {
    let rule = RestartRule { small: 40 * SECOND, large: 60 * SECOND, small_gpus: 2 };
    let seconds = prop::sample::select(vec![Duration::ZERO, SECOND, 7 * SECOND]);
    let costs = (seconds.clone(), seconds.clone(), seconds.clone(), any::<bool>(), any::<bool>());
    let costs = costs.prop_map(move |(start, checkpoint, restore, every, added)| Costs {
        start,
        checkpoint,
        restore,
        checkpoint_every: every.then_some(30 * SECOND),
        restart_adds_work: added.then_some(rule),
        relaunch: 9 * SECOND,
        linger: if added { SECOND } else { Duration::ZERO },
        rescale: match (every, added) {
            (true, true) => Some(Rescale::Afe),
            (true, false) => Some(Rescale::Gangs { first: 4 * SECOND, doubling: SECOND, again: SECOND }),
            (false, _) => None,
        },
        batch: if added { 2 * SECOND } else { Duration::ZERO },
        epochs_end_on: if added { SECOND } else { Duration::ZERO },
        slot: if every { 50 * SECOND } else { Duration::ZERO },
        leases: None,
        redeploy: every,
    });
    let leases = prop_oneof![3 => Just(None), 1 => any::<bool>().prop_map(|limited| Some(leases(limited)))];
    let nodes = prop::collection::vec((1u32..5, prop::sample::select(vec![0.37, 1.0, 2.2])), 1..5);
    let jobs = prop::collection::vec((0u64..500, prop_oneof![Just(1u32), 1u32..5], 0u64..300), 1..30);
    let packed = (2u32..4).prop_map(Sharing::Packed);
    let parts = Just(Sharing::Parts);
    let sharing = prop_oneof![4 => Just(Sharing::Exclusive), 3 => Just(Sharing::Shares), 3 => packed, 3 => parts];
    // Every second policy may do anything.
    let uses = prop_oneof![
        Just(Abilities::all()),
        prop::collection::vec(any::<bool>(), 8).prop_map(|some| {
            let each =
                [Abilities::PREEMPT, Abilities::TIMERS, Abilities::SHARE, Abilities::THROTTLE, Abilities::ELASTIC];
            let each = each.into_iter().chain([Abilities::PROTECT, Abilities::REFUSE, Abilities::DRAIN]).zip(some);
            // A policy that does not follow what jobs ask for does not begin.
            let follows = Abilities::SHAPE | Abilities::HOST | Abilities::NEAR | Abilities::QUEUES;
            let follows = follows | Abilities::PARTS | Abilities::CPU_JOBS;
            each.filter(|(_, may)| *may).fold(follows, |all, (one, _)| all | one)
        })
    ];
    let actions = prop_oneof![4 => Just(2000u32), 1 => 4u32..12];
    let whose = (jobs, sharing, uses, actions, prop::bool::weighted(0.75), leases);
    (any::<u64>(), nodes, costs, any::<bool>(), 0u64..12, whose).prop_map(
        |(seed, nodes, costs, failing, mischief, (jobs, sharing, uses, actions, near, leases))| {
            let mischief = if near { mischief } else { mischief % 6 };
            // Who does nothing wrong starts all that it can.
            let actions = if mischief == 0 { 2000 } else { actions };
            // Nothing else costs anything where GPUs are leased.
            let leases = leases.filter(|_| sharing == Sharing::Exclusive);
            let costs = if leases.is_some() { Costs { leases, ..Costs::default() } } else { costs };
            Case { seed, nodes, costs, failing, mischief, sharing, uses, actions, near, jobs }
        },
    )
}

/// Work that may change its size, on types of these names.
fn profile(kinds: &[String]) -> Profile {
    let elastic = Elastic {
        initial_batch: 4,
        most_batch: 64,
        least_local: 1,
        most_local: 8,
        epochs: 3,
        gpus: None,
        tunable: true,
        restart_s: 20.0,
        resize_s: 3.0,
        requests: vec![],
        steps: Steps::Fitted(Theta { compute: (0.3, 0.05), across: (0.2, 0.01), within: (0.05, 0.01), gamma: 1.5 }),
        on: Default::default(),
        learning: Learning::Fitted { steps: 40.0, noise: vec![(0.0, 20.0), (1.0, 200.0)] },
    };
    // One that takes few GPUs, and one batch only; one that is not elastic and does not run on the slowest type.
    let stiff =
        Elastic { least_local: 3, most_local: 4, most_batch: 20, gpus: Some(3), tunable: false, ..elastic.clone() };
    let named = |name: &str, elastic| Workload { name: name.into(), elastic, ..Workload::default() };
    let workloads = vec![named("w", Some(elastic)), named("stiff", Some(stiff)), named("picky", None)];
    let picky = |kind: &str| Solo {
        throughput: [(1, if kind == "speed 0.37" { 0.0 } else { 5.0 })].into(),
        memory_mib: Some(if kind == "speed 1" { 9_000 } else { 3_000 }),
        ..Solo::default()
    };
    let gpu = |kind: &String| GpuProfile {
        kind: kind.clone(),
        solo: [("picky".to_string(), picky(kind))].into(),
        ..GpuProfile::default()
    };
    let mut kinds = kinds.to_vec();
    kinds.dedup();
    let profile = Profile { about: String::new(), workloads, gpus: kinds.iter().map(gpu).collect() };
    profile.check().expect("a profile");
    profile
}

/// A fleet of which some types can be cut, each in its own way; as it is where it has none of those.
fn cut(fleet: Fleet) -> Fleet {
    let part = |name: &str, slices: u32, memory_mib: u32, starts: &[u32]| PartProfile {
        name: name.into(),
        slices,
        memory_mib,
        starts: starts.into(),
    };
    let of = |kind: &GpuType| match kind.name.as_str() {
        "speed 1" => vec![
            part("small", 1, 1_400, &[0, 1, 2, 3, 4, 5, 6]),
            part("third", 2, 3_000, &[0, 2, 4]),
            part("large", 4, 0, &[0, 4]),
            part("all", 8, 9_500, &[0]),
        ],
        // One that the other type has too, and one with as many slices of fewer.
        "speed 0.37" => vec![part("small", 2, 0, &[0, 1]), part("half", 1, 3_000, &[0, 2])],
        _ => vec![],
    };
    let tables: Vec<Vec<PartProfile>> = fleet.types.iter().map(of).collect();
    fleet.clone().cut(&tables).unwrap_or(fleet)
}

/// Some jobs of one GPU ask for a part, the others for whole GPUs.
fn of_part(fleet: &Fleet, seconds: u64, request: Request) -> Request {
    let all: Vec<PartId> = fleet.parts.names().into_iter().flat_map(|name| fleet.parts.named(name)).collect();
    let whole = Request { share: Job::WHOLE, ..request };
    if whole.gpus > 1 || whole.batch.is_some() || whole.service.is_some() || seconds % 5 == 4 {
        return whole;
    }
    let part = all[(seconds / 3) as usize % all.len()];
    let has = |kind: &TypeId| fleet.parts.has(*kind, part);
    // On one node a job that may run nowhere would wait for ever.
    let anywhere = seconds.is_multiple_of(2) && fleet.nodes.len() > 1;
    let gpu_types = if anywhere { vec![] } else { TypeId::first(fleet.types.len()).filter(has).collect() };
    Request { part: Some(part), share: fleet.parts.share(part), gpu_types, ..whole }
}

fn simulate(case: &Case) -> Finished {
    simulate_with(case, None, BTreeMap::new())
}

fn simulate_with(case: &Case, until: Option<Instant>, after: BTreeMap<JobId, After>) -> Finished {
    let name = |speed: f64| format!("speed {speed}");
    // Of the fastest type nobody says what it has.
    let memory = |speed: f64| if speed > 2.0 { 0 } else { 10_000 - 4_000 * u32::from(speed < 1.0) };
    let groups: Vec<(u32, u32, GpuType)> = case
        .nodes
        .iter()
        .map(|(gpus, speed)| (1, *gpus, GpuType { memory_mib: memory(*speed), ..GpuType::new(&name(*speed), *speed) }))
        .collect();
    let failures = case.failing.then_some(Failures { mtbf: 600 * SECOND, repair: 60 * SECOND });
    let fleet = Fleet::new(&groups, case.costs, failures).expect("a fleet");
    let fleet = if case.sharing == Sharing::Parts { cut(fleet) } else { fleet.shared(case.sharing).expect("a fleet") };
    let mut kinds: Vec<String> = fleet.types.iter().map(|kind| kind.name.clone()).collect();
    kinds.sort_unstable();
    let serves = case.sharing == Sharing::Exclusive && !case.seed.is_multiple_of(5);
    let service = |name: &str| Service { name: name.into(), cold_start: 6 * SECOND, slo: Some(9 * SECOND) };
    let services = if serves { vec![service("a"), service("b")] } else { vec![] };
    let keeps = !case.seed.is_multiple_of(4);
    let fleet = fleet.serving(services, keeps, &[Pool::Training, Pool::Inference, Pool::Training]);
    // Of every third fleet nobody says what CPU it has, and of some nodes of the others.
    let host = |id: u64| HostResources {
        cpu_milli: if case.seed.is_multiple_of(3) { 0 } else { ((case.seed + id) % 8) as u32 },
        memory_mib: if case.seed.is_multiple_of(6) { 5 } else { 0 },
    };
    let fleet = fleet.hosted(&(0..case.nodes.len() as u64).map(host).collect::<Vec<_>>());
    // Racks of two nodes, in rows of four.
    let levels = [("row".to_string(), 4), ("rack".to_string(), 2)];
    let fleet = fleet.levelled(&levels).expect("levels");
    // Times of maintenance that meet each other, and failures.
    let maintenance = |at: u64| {
        let from = SECOND * (50 * at + case.seed % 40);
        let announced = Instant::at(from.saturating_sub(SECOND * (case.seed % 30)));
        let node = NodeId::at((case.seed / 3 + at) as usize % case.nodes.len());
        Maintenance {
            node,
            announced,
            from: Instant::at(from),
            to: Instant::at(from + SECOND * (1 + case.seed % 70)),
            jobs_go_on: case.seed.is_multiple_of(3),
        }
    };
    let fleet = fleet.maintained((0..case.seed % 4).map(maintenance).collect());
    // Of every other fleet some nodes are others'.
    let owner = |node: u64| {
        let (notice, held, away) = (SECOND * (case.seed % 3 * 20), 90 * SECOND, 30 * SECOND);
        ((case.seed / 2 + node) % 4 == 1).then_some(Revocable { notice, held, away })
    };
    let owners = (0..case.nodes.len() as u64).map(|node| if case.seed.is_multiple_of(2) { None } else { owner(node) });
    let fleet = fleet.owned(&owners.collect::<Vec<_>>());
    // A group with a limit of two queues, one of them with a limit too; a queue without.
    let queue = |name: &str, parent: Option<u32>, limit: f64| Queue {
        parent: parent.map(QueueId::new),
        limit,
        ..Queue::new(name)
    };
    let limit = 2.5 + (case.seed % 9) as f64 / 2.0;
    let queues =
        [("lab", None, limit), ("a", Some(0), limit / 2.0), ("b", Some(0), f64::INFINITY), ("c", None, f64::INFINITY)];
    let has_queues = !case.seed.is_multiple_of(3);
    let fleet = match has_queues {
        true => fleet.queued(queues.map(|(name, parent, limit)| queue(name, parent, limit)).into()),
        false => fleet,
    };
    let mut jobs: Vec<Job> = Vec::new();
    for (submit, gpus, seconds) in &case.jobs {
        // Some are elastic, some are tasks.
        let elastic = seconds.is_multiple_of(2) && case.costs.leases.is_none();
        let stiff = elastic && *gpus <= 3 && seconds.is_multiple_of(4);
        // With more GPUs than its user asks for a pass would be too small.
        let own = (3 * *gpus + (*seconds % 3) as u32).max(4);
        let task = serves && *gpus <= 2 && !elastic;
        let gpus = if task { &1 } else { gpus };
        let picky = !elastic && !task && seconds.is_multiple_of(3);
        let allowed = |kind: &TypeId| (seconds >> kind.number()).is_multiple_of(3);
        let request = Request {
            workload: if picky {
                Some(WorkloadId::new(2))
            } else {
                elastic.then_some(WorkloadId::new(u32::from(stiff)))
            },
            // Some kinds only; some that are not in this fleet.
            gpu_types: if seconds % 7 == 1 { TypeId::first(3).filter(allowed).collect() } else { vec![] },
            gpus_per_node: match (elastic, *gpus, seconds % 4) {
                (false, 1 | 2 | 4, 0 | 1) => gpus.div_ceil(1 + (*seconds % 2) as u32),
                _ => 0,
            },
            host: HostResources {
                cpu_milli: (*seconds % 6) as u32,
                memory_mib: if seconds.is_multiple_of(2) { 0 } else { 2 },
            },
            near: Nearness {
                required: (seconds % 3 == 0).then_some((*seconds / 3 % 2) as u32),
                preferred: (seconds % 4 == 0).then_some(1),
            },
            queue: (has_queues && !task).then(|| QueueId::new(1 + (*seconds % 3) as u32)),
            batch: elastic.then_some(if stiff { own } else { 4 + (*seconds % 9) as u32 }),
            service: task.then_some(ServiceId::new((*seconds / 2 % 2) as u32)),
            preemptible: !seconds.is_multiple_of(5),
            share: if *gpus == 1 { 100 + 100 * (*seconds % 10) as u32 } else { Job::WHOLE },
            // Two of the larger ones run out of memory together.
            memory_mib: (!picky).then_some(1_000 + 46 * (*seconds % 150) as u32),
            ..Request::new(*gpus)
        };
        let request = if fleet.sharing == Sharing::Parts { of_part(&fleet, *seconds, request) } else { request };
        let request = if case.costs.leases.is_none() { cpu::some_without_gpus(*seconds, request) } else { request };
        let job = Job::new("", Instant::at(*submit * SECOND), *gpus, *seconds * SECOND);
        jobs.push(Job { request: request.into(), ..job });
    }
    jobs.sort_by_key(|job| job.submit);
    let jobs: Arc<[Job]> = jobs.into();
    let stream = Stream::new(case.seed, "wild");
    let interference = Interference { law: InterferenceModel::Constant(0.3), ..Interference::NONE };
    let laws = PerformanceModel::new(
        Arc::new(profile(&kinds)),
        &fleet,
        &[WorkloadId::new(0), WorkloadId::new(1), WorkloadId::new(2)],
        interference,
        Communication::default(),
    );
    let laws = Arc::new(laws.expect("laws"));
    let mut policy = Wild::new(stream, (case.uses, case.mischief, case.near), (jobs.clone(), laws.clone()));
    let inputs = Inputs {
        laws: laws.clone(),
        predictors: Predictors::new(Remaining::Oracle),
        // Where memory is told the judge holds policies to it, and nobody runs out of it.
        reveal: Reveal { memory: case.seed.is_multiple_of(2), ..Reveal::default() },
        strict: false,
        until,
        after: after.into(),
        ..Inputs::plain(jobs.clone(), Limits { calls: 3000, actions: case.actions, ..Limits::default() })
    };
    run(&mut policy, Box::new(SimulatedBackend::new(fleet, jobs, &laws, case.seed)), inputs).expect("the books balance")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_books_balance_whatever_a_policy_does(case in case()) {
        let finished = simulate(&case);
        // A policy that preempts for ever is stopped by its number of calls; every other run ends by itself.
        prop_assert!(matches!(finished.fault, None | Some(Fault::Livelock { .. })), "{:?}", finished.fault);
        for row in finished.ledger.rows() {
            if row.outcome == JobOutcome::Completed {
                let end = row.end.expect("an end");
                prop_assert!(row.first_start.is_some_and(|start| row.submit <= start && start <= end));
                // An elastic job may be said to have ended at a tick that is over, before it lingered.
                prop_assert!(row.productive <= row.held, "{row:?}");
                prop_assert!(row.held <= end + 2 * SECOND - row.submit, "{row:?}");
            }
        }
        // Where nobody shares a GPU, who waits for one to drain has it only then.
        if case.sharing == Sharing::Exclusive {
            let mut stays: Vec<(GpuId, Instant, Instant)> = Vec::new();
            for stay in finished.ledger.segments() {
                stays.extend(stay.gpus.iter().map(|gpu| (*gpu, stay.from, stay.to)));
            }
            stays.sort_unstable();
            for pair in stays.windows(2) {
                prop_assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{pair:?}");
            }
        }
        if finished.fault.is_none() {
            let summary = Summary::of(&finished.ledger);
            let shares = [summary.utilisation, summary.utilisation_window, summary.fragmentation];
            prop_assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
            // Every job on a GPU counts as productive; the smallest share is a tenth of a GPU.
            let (jobs, work) = match case.sharing {
                Sharing::Exclusive => (1.0, 1.0),
                Sharing::Shares => (10.0, 1.0),
                Sharing::Parts => (8.0, 1.0),
                Sharing::Packed(most) => (f64::from(most), f64::from(most)),
            };
            prop_assert!(summary.productive <= jobs * summary.utilisation + 1e-12, "{}", summary.productive);
            let told = -1e-9..=work + 1e-9;
            prop_assert!(told.contains(&summary.throughput), "{}", summary.throughput);
            if case.seed.is_multiple_of(2) {
                prop_assert_eq!(summary.out_of_memory, 0);
            }
            let ended = summary.completed + summary.rejected + summary.refused;
            prop_assert_eq!(ended + summary.unfinished, summary.jobs);
            // On one node whatever fits is started sooner or later: nothing is lost.
            if case.nodes.len() == 1 && case.mischief == 0 {
                prop_assert_eq!(summary.unfinished, 0);
            }
        }
    }

    #[test]
    fn a_run_is_a_function_of_its_inputs(case in case()) {
        let (first, second) = (simulate(&case), simulate(&case));
        prop_assert!(first.ledger.rows().eq(second.ledger.rows()));
        prop_assert_eq!(first.calls, second.calls);
    }
}

/// Never starts anybody after the first.
struct Once(bool);

impl Policy for Once {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        Ok(Descriptor::stand_in("once", Abilities::empty()))
    }

    fn init(&mut self, _: &Setup) -> Result<Readiness, Fault> {
        Ok(Readiness::of(Cadence::EVENTS))
    }

    fn decide(&mut self, batch: &Batch, world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        let first = !std::mem::replace(&mut self.0, true);
        let start = Action::Start(Start { job: 0, gpus: vec![0], batch: None });
        (world, Ok(Plan { base: batch.seq, actions: if first { vec![start] } else { vec![] } }))
    }
}

#[test]
fn waiting_for_a_job_that_nobody_starts_is_no_idle_time() {
    // Nodes fail and come back for ever; the second job waits until the run gives up.
    let failures = Some(Failures { mtbf: 1_000_000 * SECOND, repair: 60 * SECOND });
    let fleet = Fleet::new(&[(1, 1, GpuType::new("g", 1.0))], Costs::default(), failures).expect("a fleet");
    let jobs: Arc<[Job]> =
        [Job::new("a", Instant::START, 1, 100 * SECOND), Job::new("b", Instant::START, 1, 100 * SECOND)].into();
    let backend = Box::new(SimulatedBackend::new(fleet, jobs.clone(), &PerformanceModel::none(), 1));
    let finished = run(&mut Once(false), backend, Inputs::plain(jobs, Limits::default())).expect("the books balance");
    let summary = Summary::of(&finished.ledger);
    assert_eq!((summary.completed, summary.unfinished, summary.utilisation), (1, 1, 1.0));
}

/// Starts a job on all GPUs and takes them from it again.
struct Restless(u32);

impl Policy for Restless {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        Ok(Descriptor::stand_in("restless", Abilities::PREEMPT))
    }

    fn init(&mut self, _: &Setup) -> Result<Readiness, Fault> {
        Ok(Readiness::of(Cadence { round: Some(SECOND.as_micros()), on_events: false, ..Cadence::EVENTS }))
    }

    fn decide(&mut self, batch: &Batch, world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        let action = match world.cluster.phase[0] {
            Phase::Queued => Action::Start(Start { job: 0, gpus: (0..self.0).collect(), batch: None }),
            _ => Action::Preempt(Preempt { job: 0, mode: PreemptMode::Kill }),
        };
        (world, Ok(Plan { base: batch.seq, actions: vec![action] }))
    }
}

#[test]
fn a_run_that_would_fill_the_hosts_memory_with_stays_ends() {
    let gpus = 10_000;
    let fleet = Fleet::new(&[(1, gpus, GpuType::new("g", 1.0))], Costs::default(), None).expect("a fleet");
    let jobs: Arc<[Job]> = [Job::new("a", Instant::START, gpus, 1_000_000 * SECOND)].into();
    let backend = Box::new(SimulatedBackend::new(fleet, jobs.clone(), &PerformanceModel::none(), 1));
    let finished =
        run(&mut Restless(gpus), backend, Inputs::plain(jobs, Limits::default())).expect("the books balance");
    assert_eq!(finished.fault, Some(Fault::TooManyStays { limit: Limits::STAYS }));
    let kept: usize = finished.ledger.segments().map(|stay| 1 + stay.gpus.len()).sum();
    assert!((Limits::STAYS..Limits::STAYS + gpus as usize + 2).contains(&kept), "{kept}");
}
