//! What must hold whatever a policy does: a policy that draws its actions at random, legal or not, on random fleets
//! with costs and failures, judged leniently.
//!
//! Conservation itself (no GPU given twice, GPU-time of jobs, of GPUs and of the clock equal, time never back, every
//! job ends once) is checked by `Ledger::close` at the end of every run and makes `run` an error.

use std::sync::Arc;

use proptest::prelude::*;
use sandtable_hardware::random::Stream;
use sandtable_hardware::{Costs, Failures, Fleet, GpuType, Job, Model, RestartRule, SECOND};
use sandtable_runtime::contract::{
    Abilities, Action, Batch, Cadence, Descriptor, Event, Knowledge, Plan, Preempt, PreemptMode, Readiness, Setup,
    Start, Timer,
};
use sandtable_runtime::sandbox::{Fault, Limits};
use sandtable_runtime::schedule::{Finished, Inputs, run};
use sandtable_runtime::{JobOutcome, Policy, Remaining, Summary, World};

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
            uses: Abilities::PREEMPT | Abilities::TIMERS,
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
                let start = Action::Start(Start { job: *job, gpus: taken });
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
            actions.push(match any(5) {
                0 | 1 => Action::Preempt(Preempt { job, mode }),
                2 => Action::Start(Start { job, gpus: (0..any(4)).map(|_| any(40)).collect() }),
                3 => Action::SetTimer(Timer { token: u64::from(any(5)), at: batch.now + u64::from(any(100)) * SECOND }),
                _ => Action::CancelTimer(u64::from(any(5))),
            });
        }
        // What the check foretells is what the plan gets, and checking moves nothing.
        let before = world.cluster.clone();
        let foretold = world.check(&actions);
        assert_eq!(before, world.cluster, "check moved something");
        assert_eq!(foretold, world.check(&actions));
        (world, Ok(Plan { base: batch.seq, actions }))
    }
}

#[derive(Debug, Clone)]
struct Case {
    seed: u64,
    nodes: Vec<(u32, f64)>,
    costs: Costs,
    failing: bool,
    mischief: u64,
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
        linger: if added { SECOND } else { 0 },
    });
    let nodes = prop::collection::vec((1u32..5, prop::sample::select(vec![0.37, 1.0, 2.2])), 1..5);
    let jobs = prop::collection::vec((0u64..500, 1u32..5, 0u64..300), 1..30);
    (any::<u64>(), nodes, costs, any::<bool>(), 0u64..6, jobs)
        .prop_map(|(seed, nodes, costs, failing, mischief, jobs)| Case { seed, nodes, costs, failing, mischief, jobs })
}

fn simulate(case: &Case) -> Finished {
    let name = |speed: f64| format!("speed {speed}");
    let groups: Vec<(u32, u32, GpuType)> =
        case.nodes.iter().map(|(gpus, speed)| (1, *gpus, GpuType { name: name(*speed), speed: *speed })).collect();
    let failures = case.failing.then_some(Failures { mtbf: 600 * SECOND, repair: 60 * SECOND });
    let fleet = Fleet::new(&groups, case.costs, failures).expect("a fleet");
    let mut jobs: Vec<Job> = Vec::new();
    for (submit, gpus, seconds) in &case.jobs {
        jobs.push(Job {
            name: String::new(),
            submit: submit * SECOND,
            gpus: *gpus,
            work: seconds * SECOND,
            declared: None,
            gpu_types: vec![],
            preemptible: !seconds.is_multiple_of(5),
        });
    }
    jobs.sort_by_key(|job| job.submit);
    let jobs: Arc<[Job]> = jobs.into();
    let stream = Stream::new(case.seed, "wild");
    let mut policy = Wild { stream, nodes: vec![], arrived: vec![], mischief: case.mischief };
    let inputs = Inputs {
        jobs: jobs.clone(),
        config: "{}".into(),
        seed: 0,
        remaining: Remaining::Oracle,
        reveal_declared: false,
        strict: false,
        limits: Limits { calls: 3000, ..Limits::default() },
        keep_segments: true,
        record: None,
    };
    run(&mut policy, Box::new(Model::new(fleet, jobs, case.seed)), inputs).expect("the books balance")
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
                prop_assert!(row.productive <= row.held && row.held <= end - row.submit);
            }
        }
        // Nobody shares a GPU: who waits for one to drain has it only then.
        {
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
            prop_assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
            prop_assert!(summary.productive <= summary.utilisation + 1e-12);
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
