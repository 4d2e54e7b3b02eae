//! Which ends of jobs call a policy, and that the others are told with the next call.

use std::sync::Arc;

use sandtable_hardware::{Costs, Fleet, GpuType, Instant, Job, PerformanceModel, SECOND, SimulatedBackend};
use sandtable_runtime::contract::{
    Abilities, Action, Batch, Cadence, Descriptor, Event, JobPhase, Plan, Preempt, PreemptMode, Readiness, Setup,
    Start, Wake,
};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::inputs::Inputs;
use sandtable_runtime::limits::Limits;
use sandtable_runtime::schedule::run;
use sandtable_runtime::{DecisionContext, Policy};

/// A call: its instant, and the jobs whose ends it was told of, with the instants; in seconds.
type Call = (u64, Vec<(u32, u64)>);

/// First come, first served, on GPUs that it looks up. `meddles`: at an end it moves the lowest running job to another GPU.
struct Simple {
    ends: Wake,
    meddles: bool,
    waiting: Vec<u32>,
    told: Vec<Call>,
}

impl Policy for Simple {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        Ok(Descriptor::stand_in("simple", Abilities::PREEMPT))
    }

    fn init(&mut self, _: &Setup) -> Result<Readiness, Fault> {
        Ok(Readiness::of(Cadence { ends: self.ends, ..Cadence::EVENTS }))
    }

    fn decide(&mut self, batch: &Batch, world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        let (mut ends, mut actions) = (Vec::new(), Vec::new());
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) => self.waiting.push(arrival.job),
                Event::JobChanged(change) if change.phase == JobPhase::Queued => self.waiting.push(change.job),
                Event::JobEnded(end) => ends.push((end.job, end.at / 1_000_000)),
                _ => {}
            }
        }
        let (held, jobs) = world.occupancy();
        if self.meddles && !ends.is_empty() {
            actions.extend(
                jobs.iter().take(1).map(|job| Action::Preempt(Preempt { job: *job, mode: PreemptMode::Checkpoint })),
            );
        }
        let mut free = (0..2).filter(|gpu| !held.contains(gpu));
        self.waiting.retain(|job| match free.next() {
            Some(gpu) => {
                actions.push(Action::Start(Start { job: *job, gpus: vec![gpu], batch: None }));
                false
            }
            None => true,
        });
        self.told.push((batch.now / 1_000_000, ends));
        (world, Ok(Plan { base: batch.seq, actions }))
    }
}

/// The calls, and each job's end in seconds, of jobs (submission, work) on two GPUs.
fn play(mut policy: Simple, every_end_calls: bool, jobs: &[(u64, u64)]) -> (Vec<Call>, Vec<u64>, u32) {
    let fleet = Fleet::new(&[(1, 2, GpuType::new("g", 1.0))], Costs::default(), None).expect("a fleet");
    let job = |(submit, work): &(u64, u64)| Job::new("", Instant::at(*submit * SECOND), 1, *work * SECOND);
    let jobs: Arc<[Job]> = jobs.iter().map(job).collect();
    let backend = Box::new(SimulatedBackend::new(fleet, jobs.clone(), &PerformanceModel::none(), 1));
    let inputs = Inputs { every_end_calls, ..Inputs::plain(jobs, Limits::default()) };
    let finished = run(&mut policy, backend, inputs).expect("the books balance");
    assert_eq!(finished.fault, None);
    let ends = finished.ledger.rows().map(|row| row.end.map_or(0, |end| end.since_start() / SECOND));
    let ends = ends.collect();
    (policy.told, ends, finished.ledger.rows().map(|row| row.preemptions).sum())
}

fn simple(ends: Wake, meddles: bool) -> Simple {
    Simple { ends, meddles, waiting: Vec::new(), told: Vec::new() }
}

/// Two jobs, of which the first ends while no job waits; a third that waits for the second.
const JOBS: [(u64, u64); 4] = [(0, 10), (0, 40), (20, 50), (30, 5)];

#[test]
fn an_end_while_no_job_waits_is_told_with_the_next_call() {
    let (always, ends, _) = play(simple(Wake::Always, false), false, &JOBS);
    assert_eq!(ends, [10, 40, 70, 45]);
    let instants = |calls: &[Call]| calls.iter().map(|call| call.0).collect::<Vec<_>>();
    // The last end is the end of the run, at which nothing is left to decide.
    assert_eq!(instants(&always), [0, 10, 20, 30, 40, 45, 70]);
    let (saving, same, _) = play(simple(Wake::WhileWaiting, false), false, &JOBS);
    assert_eq!(same, ends);
    // Job 0 ends at 10 and is told of at 20; at 40 job 3 waits; nothing waits at 45 and 70.
    assert_eq!(saving, [(0, vec![]), (20, vec![(0, 10)]), (30, vec![]), (40, vec![(1, 40)])]);
    let (called, same, _) = play(simple(Wake::WhileWaiting, false), true, &JOBS);
    assert_eq!((called, same), (always, ends));
}

/// What `policy check` looks for: a schedule that depends on the calls that the policy declined.
#[test]
fn a_policy_that_acts_at_such_an_end_has_another_schedule() {
    // The second job runs alone from 10 s on: called at that end, the policy preempts it.
    let run = |every_end_calls| play(simple(Wake::WhileWaiting, true), every_end_calls, &[(0, 10), (0, 40)]);
    let ((.., called), (.., saving)) = (run(true), run(false));
    assert_eq!((called, saving), (1, 0));
}
