//! A policy uses what its descriptor names, and of that what it said when it began.

use std::sync::Arc;

use sandtable_hardware::{Costs, Fleet, GpuType, Instant, Job, PerformanceModel, Queue, SECOND, SimulatedBackend};
use sandtable_runtime::contract::{
    Abilities, Action, Batch, Cadence, Descriptor, Event, Plan, Preempt, PreemptMode, Readiness, Setup, Start,
};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::inputs::Inputs;
use sandtable_runtime::limits::Limits;
use sandtable_runtime::schedule::run;
use sandtable_runtime::{DecisionContext, Policy};

/// Starts the first job, and preempts it when the second comes.
struct Preempts {
    names: Abilities,
    uses: Abilities,
}

impl Policy for Preempts {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        Ok(Descriptor::stand_in("preempts", self.names))
    }

    fn init(&mut self, _: &Setup) -> Result<Readiness, Fault> {
        Ok(Readiness { cadence: Cadence::EVENTS, uses: self.uses })
    }

    fn decide(&mut self, batch: &Batch, world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        let action = |event: &Event| match event {
            Event::JobArrived(arrival) if arrival.job == 0 => {
                Some(Action::Start(Start { job: 0, gpus: vec![0], batch: None }))
            }
            Event::JobArrived(_) => Some(Action::Preempt(Preempt { job: 0, mode: PreemptMode::Kill })),
            _ => None,
        };
        let actions = batch.events.iter().filter_map(action).collect();
        (world, Ok(Plan { base: batch.seq, actions }))
    }
}

/// How a run of two jobs on one GPU ends; with the limit of a queue, if there is one.
fn fault(mut policy: Preempts, limit: f64) -> Option<String> {
    let fleet = Fleet::new(&[(1, 1, GpuType::new("g", 1.0))], Costs::default(), None).expect("a fleet");
    let fleet = fleet.queued(vec![Queue { limit, ..Queue::new("q") }]);
    let job = |seconds: u64| Job::new("", Instant::at(seconds * SECOND), 1, 60 * SECOND);
    let jobs: Arc<[Job]> = [job(0), job(10)].into();
    let backend = Box::new(SimulatedBackend::new(fleet, jobs.clone(), &PerformanceModel::none(), 1));
    let finished = run(&mut policy, backend, Inputs::plain(jobs, Limits::default())).expect("the books balance");
    finished.fault.map(|fault| fault.to_string())
}

#[test]
fn an_action_that_a_policy_gave_up_when_it_began_is_refused() {
    let (some, none) = (Abilities::PREEMPT, Abilities::empty());
    assert_eq!(fault(Preempts { names: some, uses: some }, f64::INFINITY), None);
    // It may give up some, and get none that its descriptor does not name.
    for (names, uses) in [(some, none), (none, some)] {
        let fault = fault(Preempts { names, uses }, f64::INFINITY).expect("a fault");
        assert!(fault.contains("V26: preempt by a policy that does not say it uses it"), "{fault}");
    }
}

#[test]
fn a_policy_that_gives_up_limits_when_it_begins_does_not_begin_where_there_are_any() {
    let all = Abilities::all();
    let without = Abilities::PREEMPT;
    assert_eq!(fault(Preempts { names: all, uses: all }, 1.0), None);
    for (names, uses) in [(all, without), (without, all)] {
        assert_eq!(fault(Preempts { names, uses }, f64::INFINITY), None);
        let fault = fault(Preempts { names, uses }, 1.0).expect("a fault");
        assert!(fault.contains("it does not keep to the limits of queues"), "{fault}");
    }
}
