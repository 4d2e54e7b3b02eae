//! What must hold whatever a policy does: a policy that draws its actions at random, legal or not, on random fleets
//! with costs and failures, judged leniently.
//!
//! Conservation itself (no GPU given twice, GPU-time of jobs, of GPUs and of the clock equal, time never back, every
//! job ends once) is checked by `Ledger::close` at the end of every run and makes `run` an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use sandtable_hardware::elastic::{Elastic, Learning, Rescale, Steps, Theta};
use sandtable_hardware::random::Stream;
use sandtable_hardware::{
    Communication, Costs, Failures, Fleet, GpuProfile, GpuType, Interference, Job, Law, Laws, Model, Pool, Profile,
    RestartRule, SECOND, Service, ShareMode, Sharing, Workload,
};
use sandtable_runtime::cluster::{Cluster, Phase};
use sandtable_runtime::contract::{
    Abilities, Action, Batch, BatchSplit, Cadence, Descriptor, Event, Knowledge, Plan, Preempt, PreemptMode, Protect,
    Readiness, SetBatch, Setup, Start, Throttle, Timer,
};
use sandtable_runtime::sandbox::{Fault, Limits};
use sandtable_runtime::schedule::{Finished, Inputs, Reveal, run};
use sandtable_runtime::{JobOutcome, Policy, Predictors, Remaining, Summary, World};

/// Starts what it can, and does anything else at random.
struct Wild {
    stream: Stream,
    nodes: Vec<(u32, u32)>,
    arrived: Vec<(u32, u32)>,
    mischief: u64,
}

impl Policy for Wild {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        Ok(Descriptor {
            name: "wild".into(),
            version: "0".into(),
            about: String::new(),
            uses: Abilities::all(),
            needs: Knowledge::empty(),
            config_schema: "{}".into(),
        })
    }

    fn init(&mut self, setup: &Setup) -> Result<Readiness, Fault> {
        self.nodes = setup.topology.nodes.iter().map(|node| (node.first_gpu, node.gpus)).collect();
        Ok(Readiness { cadence: Cadence { round: None, on_events: true } })
    }

    fn decide(&mut self, batch: &Batch, mut world: Box<World>) -> (Box<World>, Result<Plan, Fault>) {
        for event in &batch.events {
            if let Event::JobArrived(info) = event {
                self.arrived.push((info.id, info.demand.gpus));
            }
        }
        // Legal starts first: whatever is free now, lowest first.
        let (held, _) = world.occupancy();
        let free_by_node = world.free_gpus();
        let mut free: Vec<u32> = Vec::new();
        for (node, (first, gpus)) in self.nodes.iter().enumerate() {
            if free_by_node[node] > 0 {
                free.extend((*first..first + gpus).filter(|gpu| held.binary_search(gpu).is_err()));
            }
        }
        let mut actions = Vec::new();
        for (job, gpus) in &self.arrived {
            if free.len() >= *gpus as usize {
                let taken: Vec<u32> = free[..*gpus as usize].to_vec();
                let start = Action::Start(Start { job: *job, gpus: taken, batch: None });
                if world.check(std::slice::from_ref(&start)).is_empty() {
                    free.drain(..*gpus as usize);
                    actions.push(start);
                }
            }
        }
        for _ in 0..self.stream.integer() % (self.mischief + 1) {
            let mut any = |most: u64| (self.stream.integer() % most) as u32;
            let job = any(self.arrived.len() as u64 + 2);
            let mode = if any(2) == 0 { PreemptMode::Checkpoint } else { PreemptMode::Kill };
            actions.push(match any(11) {
                8 => {
                    // Swaps, growths, moves and nonsense, one to three at a time.
                    let some = |any: &mut dyn FnMut(u64) -> u32| {
                        let gpus = (0..=any(4)).map(|_| any(20)).collect();
                        let split = BatchSplit { local: any(12), accumulation: any(3) };
                        Start { job: any(30), gpus, batch: (any(3) == 0).then_some(split) }
                    };
                    Action::Reassign((0..=any(3)).map(|_| some(&mut any)).collect())
                }
                9 => Action::SetBatch(SetBatch { job, batch: BatchSplit { local: any(10), accumulation: any(3) } }),
                10 => Action::Protect(Protect { gpu: any(20), until: batch.now + u64::from(any(200)) * SECOND }),
                5 => Action::Throttle(Throttle { job, milli: any(1200) }),
                // Beside whoever is there: legal where GPUs are shared.
                6 | 7 => Action::Start(Start { job, gpus: vec![any(12)], batch: None }),
                0 | 1 => Action::Preempt(Preempt { job, mode }),
                2 => Action::Start(Start { job, gpus: (0..any(4)).map(|_| any(40)).collect(), batch: None }),
                3 => Action::SetTimer(Timer { token: u64::from(any(5)), at: batch.now + u64::from(any(100)) * SECOND }),
                _ => Action::CancelTimer(u64::from(any(5))),
            });
        }
        let before = world.cluster.clone();
        agrees_with_itself(&before, &self.nodes);
        // What the check foretells is what the plan gets, and checking moves nothing.
        let foretold = world.check(&actions);
        assert_eq!(before, world.cluster, "check moved something");
        assert_eq!(foretold, world.check(&actions));
        (world, Ok(Plan { base: batch.seq, actions }))
    }
}

/// Every table of the state says the same of who is where.
fn agrees_with_itself(cluster: &Cluster, nodes: &[(u32, u32)]) {
    let mut residents = vec![Vec::new(); cluster.residents.len()];
    for (job, phase) in cluster.phase.iter().enumerate() {
        let gpus = &cluster.held[job];
        match phase {
            Phase::Starting | Phase::Running => {
                assert!(!gpus.is_empty(), "job {job} is {phase:?} without GPUs");
                gpus.iter().for_each(|gpu| residents[*gpu as usize].push(job as u32));
            }
            // Its GPUs are given to others already; `held` says where it still is.
            Phase::Stopping => {}
            Phase::Future | Phase::Queued | Phase::Ended => {
                assert!(gpus.is_empty(), "job {job} is {phase:?} on {gpus:?}");
            }
        }
    }
    assert_eq!(cluster.residents, residents);
    let free = |(first, gpus): &(u32, u32)| {
        residents[*first as usize..(first + gpus) as usize].iter().filter(|there| there.is_empty()).count() as u32
    };
    assert_eq!(cluster.free, nodes.iter().map(free).collect::<Vec<_>>());
}

#[derive(Debug, Clone)]
struct Case {
    seed: u64,
    nodes: Vec<(u32, f64)>,
    costs: Costs,
    failing: bool,
    mischief: u64,
    sharing: Sharing,
    jobs: Vec<(u64, u32, u64)>,
}

fn case() -> impl Strategy<Value = Case> {
    let rule = RestartRule { small: 40 * SECOND, large: 60 * SECOND, small_gpus: 2 };
    let seconds = prop::sample::select(vec![0, SECOND, 7 * SECOND]);
    let costs = (seconds.clone(), seconds.clone(), seconds.clone(), any::<bool>(), any::<bool>());
    let costs = costs.prop_map(move |(start, checkpoint, restore, every, added)| Costs {
        start,
        checkpoint,
        restore,
        checkpoint_every: every.then_some(30 * SECOND),
        restart_adds_work: added.then_some(rule),
        relaunch: 9 * SECOND,
        linger: if added { SECOND } else { 0 },
        rescale: if every { Some(Rescale::Afe) } else { None },
        batch: if added { 2 * SECOND } else { 0 },
        epochs_end_on: if added { SECOND } else { 0 },
    });
    let nodes = prop::collection::vec((1u32..5, prop::sample::select(vec![0.37, 1.0, 2.2])), 1..5);
    let jobs = prop::collection::vec((0u64..500, 1u32..5, 0u64..300), 1..30);
    let sharing =
        prop::sample::select(vec![Sharing::Exclusive, Sharing::Shares, Sharing::Packed(2), Sharing::Packed(3)]);
    (any::<u64>(), nodes, costs, any::<bool>(), 0u64..6, (jobs, sharing)).prop_map(
        |(seed, nodes, costs, failing, mischief, (jobs, sharing))| Case {
            seed,
            nodes,
            costs,
            failing,
            mischief,
            sharing,
            jobs,
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
        learning: Learning::Fitted { steps: 40.0, noise: vec![(0.0, 20.0), (1.0, 200.0)] },
    };
    let workload = Workload { name: "w".into(), elastic: Some(elastic), ..Workload::default() };
    let gpu = |kind: &String| GpuProfile {
        kind: kind.clone(),
        mode: ShareMode::TimeSlice,
        sources: BTreeMap::new(),
        noise: vec![],
        solo: BTreeMap::new(),
        pairs: vec![],
        measured: None,
    };
    let mut kinds = kinds.to_vec();
    kinds.dedup();
    let profile = Profile { about: String::new(), workloads: vec![workload], gpus: kinds.iter().map(gpu).collect() };
    profile.check().expect("a profile");
    profile
}

fn simulate(case: &Case) -> Finished {
    let name = |speed: f64| format!("speed {speed}");
    let groups: Vec<(u32, u32, GpuType)> = case
        .nodes
        .iter()
        .map(|(gpus, speed)| (1, *gpus, GpuType { memory_mib: 10_000, ..GpuType::new(&name(*speed), *speed) }))
        .collect();
    let failures = case.failing.then_some(Failures { mtbf: 600 * SECOND, repair: 60 * SECOND });
    let fleet =
        Fleet::new(&groups, case.costs, failures).and_then(|fleet| fleet.shared(case.sharing)).expect("a fleet");
    let mut kinds: Vec<String> = fleet.types.iter().map(|kind| kind.name.clone()).collect();
    kinds.sort_unstable();
    let serves = case.sharing == Sharing::Exclusive && case.seed.is_multiple_of(3);
    let service = |name: &str| Service { name: name.into(), cold_start: 6 * SECOND, slo: Some(9 * SECOND) };
    let services = if serves { vec![service("a"), service("b")] } else { vec![] };
    let keeps = !case.seed.is_multiple_of(4);
    let fleet = fleet.serving(services, keeps, &[Pool::Training, Pool::Inference, Pool::Training]);
    let mut jobs: Vec<Job> = Vec::new();
    for (submit, gpus, seconds) in &case.jobs {
        // Some are elastic, some are tasks.
        let elastic = seconds.is_multiple_of(3);
        let task = serves && *gpus == 1 && !elastic;
        jobs.push(Job {
            workload: elastic.then_some(0),
            batch: elastic.then_some(4 + (*seconds % 9) as u32),
            service: task.then_some((*seconds % 2) as u32),
            preemptible: !seconds.is_multiple_of(5),
            share: if *gpus == 1 { 100 + 100 * (*seconds % 10) as u32 } else { Job::WHOLE },
            // Two of the larger ones run out of memory together.
            memory_mib: Some(2_000 + 40 * (*seconds % 150) as u32),
            ..Job::new("", submit * SECOND, *gpus, seconds * SECOND)
        });
    }
    jobs.sort_by_key(|job| job.submit);
    let jobs: Arc<[Job]> = jobs.into();
    let stream = Stream::new(case.seed, "wild");
    let mut policy = Wild { stream, nodes: vec![], arrived: vec![], mischief: case.mischief };
    let interference = Interference { law: Law::Constant(0.3), ..Interference::NONE };
    let laws = Laws::new(Arc::new(profile(&kinds)), &fleet, &[0], interference, Communication::default());
    let laws = Arc::new(laws.expect("laws"));
    let inputs = Inputs {
        laws: laws.clone(),
        predictors: Predictors { remaining: Remaining::Oracle, ..Predictors::default() },
        // Where memory is told the judge holds policies to it, and nobody runs out of it.
        reveal: Reveal { memory: case.seed.is_multiple_of(2), ..Reveal::default() },
        strict: false,
        ..Inputs::plain(jobs.clone(), Limits { calls: 3000, ..Limits::default() })
    };
    run(&mut policy, Box::new(Model::new(fleet, jobs, &laws, case.seed)), inputs).expect("the books balance")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_books_balance_whatever_a_policy_does(case in case()) {
        let finished = simulate(&case);
        // A policy that preempts for ever is stopped by its number of calls; every other run ends by itself.
        prop_assert!(matches!(finished.fault, None | Some(Fault::Livelock { .. })), "{:?}", finished.fault);
        for row in &finished.ledger.rows {
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
            let mut stays: Vec<(u32, u64, u64)> = Vec::new();
            for stay in &finished.ledger.segments {
                stays.extend(stay.gpus.iter().map(|gpu| (*gpu, stay.from, stay.to)));
            }
            stays.sort_unstable();
            for pair in stays.windows(2) {
                prop_assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{pair:?}");
            }
        }
        if finished.fault.is_none() {
            let summary = Summary::of(&finished.ledger);
            let shares = [summary.utilisation, summary.utilisation_window, summary.productive, summary.fragmentation];
            let packed = matches!(case.sharing, Sharing::Packed(_));
            prop_assert!(packed || shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
            prop_assert!(case.sharing != Sharing::Exclusive || summary.productive <= summary.utilisation + 1e-12);
            let most = match case.sharing { Sharing::Packed(most) => f64::from(most), _ => 1.0 };
            prop_assert!(summary.throughput <= most + 1e-9 && summary.throughput >= -1e-9, "{}", summary.throughput);
            if case.seed.is_multiple_of(2) {
                prop_assert_eq!(summary.out_of_memory, 0);
            }
            prop_assert_eq!(summary.completed + summary.rejected + summary.unfinished, summary.jobs);
            // On one node whatever fits is started sooner or later: nothing is lost.
            if case.nodes.len() == 1 && case.mischief == 0 {
                prop_assert_eq!(summary.unfinished, 0);
            }
        }
    }

    #[test]
    fn a_run_is_a_function_of_its_inputs(case in case()) {
        let (first, second) = (simulate(&case), simulate(&case));
        prop_assert_eq!(first.ledger.rows, second.ledger.rows);
        prop_assert_eq!(first.calls, second.calls);
    }
}

/// Never starts anybody after the first.
struct Once(bool);

impl Policy for Once {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        Ok(Descriptor {
            name: "once".into(),
            version: "0".into(),
            about: String::new(),
            uses: Abilities::empty(),
            needs: Knowledge::empty(),
            config_schema: "{}".into(),
        })
    }

    fn init(&mut self, _: &Setup) -> Result<Readiness, Fault> {
        Ok(Readiness { cadence: Cadence { round: None, on_events: true } })
    }

    fn decide(&mut self, batch: &Batch, world: Box<World>) -> (Box<World>, Result<Plan, Fault>) {
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
    let jobs: Arc<[Job]> = [Job::new("a", 0, 1, 100 * SECOND), Job::new("b", 0, 1, 100 * SECOND)].into();
    let backend = Box::new(Model::new(fleet, jobs.clone(), &Laws::none(), 1));
    let finished = run(&mut Once(false), backend, Inputs::plain(jobs, Limits::default())).expect("the books balance");
    let summary = Summary::of(&finished.ledger);
    assert_eq!((summary.completed, summary.unfinished, summary.utilisation), (1, 1, 1.0));
}

/// Sets the batch of a running job and preempts it in the same plan.
struct Indecisive;

impl Policy for Indecisive {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        Ok(Descriptor {
            name: "indecisive".into(),
            version: "0".into(),
            about: String::new(),
            uses: Abilities::all(),
            needs: Knowledge::empty(),
            config_schema: "{}".into(),
        })
    }

    fn init(&mut self, _: &Setup) -> Result<Readiness, Fault> {
        Ok(Readiness { cadence: Cadence { round: Some(50 * SECOND), on_events: true } })
    }

    fn decide(&mut self, batch: &Batch, world: Box<World>) -> (Box<World>, Result<Plan, Fault>) {
        agrees_with_itself(&world.cluster, &[(0, 1)]);
        let actions = match (world.cluster.phase[0], batch.now) {
            (Phase::Queued, _) => vec![Action::Start(Start { job: 0, gpus: vec![0], batch: None })],
            (Phase::Running, now) if now == 50 * SECOND => vec![
                Action::SetBatch(SetBatch { job: 0, batch: BatchSplit { local: 8, accumulation: 0 } }),
                Action::Preempt(Preempt { job: 0, mode: PreemptMode::Checkpoint }),
            ],
            _ => vec![],
        };
        (world, Ok(Plan { base: batch.seq, actions }))
    }
}

#[test]
fn a_job_whose_batch_is_set_before_it_is_preempted_stops() {
    let costs = Costs { checkpoint: 7 * SECOND, batch: 2 * SECOND, ..Costs::default() };
    let fleet = Fleet::new(&[(1, 1, GpuType::new("g", 1.0))], costs, None).expect("a fleet");
    let laws = Laws::new(Arc::new(profile(&["g".into()])), &fleet, &[0], Interference::NONE, Communication::default());
    let laws = Arc::new(laws.expect("laws"));
    let job = Job { workload: Some(0), batch: Some(4), ..Job::new("a", 0, 1, 100 * SECOND) };
    let jobs: Arc<[Job]> = [job].into();
    let backend = Box::new(Model::new(fleet, jobs.clone(), &laws, 1));
    let inputs = Inputs { laws, ..Inputs::plain(jobs, Limits::default()) };
    let finished = run(&mut Indecisive, backend, inputs).expect("the books balance");
    assert_eq!(finished.fault, None);
    assert_eq!((finished.ledger.rows[0].preemptions, Summary::of(&finished.ledger).completed), (1, 1));
}
