//! Defects of the model and of the ledger that random plans have found, each by hand.

use std::sync::Arc;

use sandtable_hardware::{
    Communication, Costs, Fleet, GpuType, Instant, Interference, InterferenceModel, Job, JobId, PerformanceModel,
    SECOND, Sharing, SimulatedBackend, WorkloadId,
};
use sandtable_runtime::cluster::Phase;
use sandtable_runtime::contract::{
    Abilities, Action, Batch, BatchSplit, Cadence, Descriptor, Plan, Preempt, PreemptMode, Readiness, SetBatch, Setup,
    Start,
};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::inputs::{Inputs, Reveal, Succession, Successor};
use sandtable_runtime::limits::Limits;
use sandtable_runtime::schedule::{Finished, run};
use sandtable_runtime::{DecisionContext, Policy, Summary};

use super::profile;
use super::wild::agrees_with_itself;

/// Does at each instant what is written for it.
struct Written(Vec<(u64, Vec<Action>)>);

impl Policy for Written {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        Ok(Descriptor::stand_in("written", Abilities::all()))
    }

    fn init(&mut self, _: &Setup) -> Result<Readiness, Fault> {
        Ok(Readiness::of(Cadence { round: Some(SECOND.as_micros()), on_events: false, ..Cadence::EVENTS }))
    }

    fn decide(&mut self, batch: &Batch, world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        let due = self.0.iter_mut().find(|(at, _)| (*at * SECOND).as_micros() == batch.now);
        let actions = due.map(|(_, actions)| std::mem::take(actions)).unwrap_or_default();
        (world, Ok(Plan { base: batch.seq, actions }))
    }
}

fn start(job: u32, gpus: &[u32]) -> Start {
    Start { job, gpus: gpus.to_vec(), batch: None }
}

/// Elastic jobs, one a number of MiB, on a node of packed GPUs of 10,000 MiB each.
fn packed(gpus: u32, costs: Costs, memory: &[u32], written: Vec<(u64, Vec<Action>)>) -> Finished {
    let kind = GpuType { memory_mib: 10_000, ..GpuType::new("g", 1.0) };
    let fleet = Fleet::new(&[(1, gpus, kind)], costs, None).and_then(|fleet| fleet.shared(Sharing::Packed(3)));
    let fleet = fleet.expect("a fleet");
    let interference = Interference { law: InterferenceModel::Constant(0.3), ..Interference::NONE };
    let profile = Arc::new(crate::profile(&["g".into()]));
    let laws = Arc::new(
        PerformanceModel::new(profile, &fleet, &[WorkloadId::new(0)], interference, Communication::default())
            .expect("laws"),
    );
    let job = |mib: &u32| {
        Job::new("", Instant::START, 1, SECOND).asking(|request| {
            request.workload = Some(WorkloadId::new(0));
            request.batch = Some(4);
            request.memory_mib = Some(*mib);
        })
    };
    let jobs: Arc<[Job]> = memory.iter().map(job).collect();
    let reveal = Reveal { memory: true, ..Reveal::default() };
    let inputs = Inputs { laws: laws.clone(), reveal, ..Inputs::plain(jobs.clone(), Limits::default()) };
    let backend = Box::new(SimulatedBackend::new(fleet, jobs, &laws, 1));
    run(&mut Written(written), backend, inputs).expect("the books balance")
}

#[test]
fn a_job_waits_for_those_alone_who_drain_when_it_is_given_a_gpu() {
    // The second drains while the third, who waits for the first, begins: the model lets it, the ledger has it wait.
    let stop = |job| Action::Preempt(Preempt { job, mode: PreemptMode::Checkpoint });
    let costs = Costs { checkpoint: 300 * SECOND, ..Costs::default() };
    let written = vec![
        (0, vec![Action::Start(start(0, &[0])), Action::Start(start(1, &[0]))]),
        (5, vec![stop(0), Action::Start(start(2, &[0]))]),
        (9, vec![stop(1)]),
    ];
    let finished = packed(1, costs, &[0, 0, 0], written);
    let row = &finished.ledger.row(JobId::new(2));
    assert!(row.end.is_some() && row.productive <= row.held, "{row:?}");
}

#[test]
fn jobs_that_change_places_never_meet() {
    let written = vec![
        (0, vec![Action::Start(start(0, &[0])), Action::Start(start(1, &[1]))]),
        (5, vec![Action::Reassign(vec![start(0, &[1]), start(1, &[0])])]),
    ];
    let finished = packed(2, Costs::default(), &[6000, 6000], written);
    assert_eq!((finished.fault, Summary::of(&finished.ledger).out_of_memory), (None, 0));
}

#[test]
fn jobs_that_part_leave_no_pace_behind() {
    let costs = Costs { restore: 5 * SECOND, ..Costs::default() };
    let throughput = |moves: Vec<Action>| {
        let written = vec![(0, vec![Action::Start(start(0, &[0])), Action::Start(start(1, &[0]))]), (5, moves)];
        Summary::of(&packed(3, costs, &[0, 0], written).ledger).throughput
    };
    let (first, second) = (start(0, &[1]), start(1, &[2]));
    let together = throughput(vec![Action::Reassign(vec![first.clone(), second.clone()])]);
    let each = throughput(vec![Action::Reassign(vec![first]), Action::Reassign(vec![second])]);
    assert_eq!(together, each);
}

/// Hands over to a policy that starts a job which nobody announced.
struct Handover(bool);

impl Succession for Handover {
    fn asked(&mut self, now: Instant) -> Option<Successor> {
        let wrong = Written(vec![(9, vec![Action::Start(start(7, &[0]))])]);
        (now == Instant::at(5 * SECOND) && !std::mem::replace(&mut self.0, true)).then(|| Successor {
            name: "wrong".into(),
            policy: Box::new(wrong),
            config: "{}".into(),
            weights: [].into(),
        })
    }

    fn due(&self) -> Option<Instant> {
        (!self.0).then_some(Instant::at(5 * SECOND))
    }

    fn fallback(&mut self, _: &Fault) -> Option<Successor> {
        None
    }
}

#[test]
fn a_capsule_is_of_one_policy_alone() {
    let fleet = Fleet::new(&[(1, 1, GpuType::new("g", 1.0))], Costs::default(), None).expect("a fleet");
    let jobs: Arc<[Job]> = [Job::new("a", Instant::START, 1, 100 * SECOND)].into();
    let finished = |succession: Option<Box<dyn Succession>>, at| {
        let record = Some("digest".to_string());
        let inputs = Inputs { record, succession, ..Inputs::plain(jobs.clone(), Limits::default()) };
        let backend = Box::new(SimulatedBackend::new(fleet.clone(), jobs.clone(), &PerformanceModel::none(), 1));
        run(&mut Written(vec![(at, vec![Action::Start(start(7, &[0]))])]), backend, inputs).expect("the books balance")
    };
    let one = finished(None, 9);
    assert!(matches!(one.fault, Some(Fault::BadPlan { .. })) && one.capsule.is_some(), "{:?}", one.fault);
    let two = finished(Some(Box::new(Handover(false))), 99);
    assert_eq!(two.takeovers.len(), 1);
    assert!(matches!(two.fault, Some(Fault::BadPlan { .. })), "{:?}", two.fault);
    assert!(two.capsule.is_none(), "what the first was told would replay as the second's");
}

/// Sets the batch of a running job and preempts it in the same plan.
struct Indecisive;

impl Policy for Indecisive {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        Ok(Descriptor::stand_in("indecisive", Abilities::all()))
    }

    fn init(&mut self, _: &Setup) -> Result<Readiness, Fault> {
        Ok(Readiness::of(Cadence { round: Some((50 * SECOND).as_micros()), ..Cadence::EVENTS }))
    }

    fn decide(&mut self, batch: &Batch, world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        agrees_with_itself(&world.cluster, &[(0, 1)]);
        let actions = match (world.cluster.phase[0], batch.now) {
            (Phase::Queued, _) => vec![Action::Start(Start { job: 0, gpus: vec![0], batch: None })],
            (Phase::Running, now) if now == (50 * SECOND).as_micros() => vec![
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
    let laws = PerformanceModel::new(
        Arc::new(profile(&["g".into()])),
        &fleet,
        &[WorkloadId::new(0)],
        Interference::NONE,
        Communication::default(),
    );
    let laws = Arc::new(laws.expect("laws"));
    let job = Job::new("a", Instant::START, 1, 100 * SECOND)
        .asking(|request| (request.workload, request.batch) = (Some(WorkloadId::new(0)), Some(4)));
    let jobs: Arc<[Job]> = [job].into();
    let backend = Box::new(SimulatedBackend::new(fleet, jobs.clone(), &laws, 1));
    let inputs = Inputs { laws, ..Inputs::plain(jobs, Limits::default()) };
    let finished = run(&mut Indecisive, backend, inputs).expect("the books balance");
    assert_eq!(finished.fault, None);
    assert_eq!((finished.ledger.row(JobId::new(0)).preemptions, Summary::of(&finished.ledger).completed), (1, 1));
}
