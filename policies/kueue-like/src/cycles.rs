//! What starts in a call, cycle by cycle.

use sandtable_policy::driver::Driver;
use sandtable_policy::testing::{arrival, demand, setup};
use sandtable_policy::{
    Action, Arrival, Batch, ChangeCause, Event, Fresh, Introductions, JobId, JobPhase, NEVER, PhaseChange, Queue,
    QueueId, Setup, Trigger,
};

use crate::KueueLike;

/// A queue: its group, and what it is guaranteed.
fn queue(id: QueueId, parent: Option<QueueId>, guaranteed: f64) -> Queue {
    Queue { id, name: format!("q{id}"), parent, guaranteed, weight: 1.0, limit: f64::INFINITY, priority: 0 }
}

/// A job: its queue, its GPUs, its priority.
type Asked = (QueueId, u32, i32);

/// Which of the jobs start in each call, where each call brings some; what starts runs on.
fn starts(config: &str, gpus: u32, queues: Vec<Queue>, calls: &[&[Asked]]) -> Vec<Vec<JobId>> {
    let setup = Setup { queues, ..setup(config, &[gpus], 1000) };
    let (mut driver, _) = Driver::<KueueLike>::new(setup).expect("a policy");
    let mut new = Introductions {
        classes: (1..=8).map(demand).collect(),
        users: vec![String::new()],
        ..Introductions::default()
    };
    let (mut jobs, mut events, mut all) = (0, Vec::new(), Vec::new());
    for (call, asked) in (1u64..).zip(calls) {
        let now = call * 10_000_000;
        for (queue, gpus, priority) in *asked {
            let told = arrival(jobs, gpus - 1, now);
            events.push(Event::JobArrived(Arrival { queue: *queue, priority: *priority, ..told }));
            jobs += 1;
        }
        let batch =
            Batch { seq: call, now, trigger: Trigger::Event, fresh: Fresh::all(), events: std::mem::take(&mut events) };
        let plan = driver.decide(&batch, std::mem::take(&mut new)).expect("a plan");
        let start = |action: Action| match action {
            Action::Start(start) => Some(start.job),
            Action::SetTimer(_) => None,
            other => panic!("{other:?}"),
        };
        let started: Vec<JobId> = plan.actions.into_iter().filter_map(start).collect();
        events.extend(started.iter().map(|job| {
            let phase = JobPhase::Running;
            Event::JobChanged(PhaseChange { job: *job, phase, at: now, cause: ChangeCause::Asked, remaining: NEVER })
        }));
        all.push(started);
    }
    all
}

#[test]
fn each_queue_starts_one_job_before_any_starts_another() {
    let queues = || vec![queue(0, None, 0.0), queue(1, None, 0.0)];
    let jobs: &[Asked] = &[(0, 1, 10), (0, 1, 10), (0, 1, 10), (1, 1, 0)];
    for config in [r#"{"preemption": "classical"}"#, r#"{"preemption": "classical", "queueing": "strict"}"#] {
        assert_eq!(starts(config, 2, queues(), &[jobs]), [[0, 3]], "{config}");
        assert_eq!(starts(config, 3, queues(), &[jobs]), [vec![0, 3, 1]], "{config}");
    }
}

#[test]
fn a_job_that_can_t_take_its_quota_back_keeps_what_is_left_of_it() {
    let queues = || vec![queue(0, None, 2.0), queue(1, None, 0.0)];
    // Job 0 borrows one of the two GPUs that the other queue is guaranteed. Job 1 asks for both, and job 2 would borrow the other one.
    let calls: &[&[Asked]] = &[&[(1, 1, 0)], &[(0, 2, 0), (1, 1, 0)]];
    let of = |reclaim: &str, more: &str| {
        let config = format!(r#"{{"preemption": "classical", "reclaim": "{reclaim}"{more}}}"#);
        starts(&config, 2, queues(), calls)
    };
    for more in ["", r#", "queueing": "strict""#] {
        assert_eq!(of("lower-priority", more), [vec![0], vec![]], "{more}");
        assert_eq!(of("never", more), [vec![0], vec![]], "{more}");
    }
    // One that can take it back keeps nothing, even where those that have it may not go yet.
    let calls: &[&[Asked]] = &[&[(1, 1, 0)], &[(0, 2, 0), (1, 1, 0)]];
    let config = r#"{"preemption": "classical", "reclaim": "any", "least_run": 1000}"#;
    assert_eq!(starts(config, 2, queues(), calls), [vec![0], vec![2]]);
}

#[test]
fn of_those_that_borrow_the_one_that_borrows_of_the_lowest_cohort_comes_first() {
    // A cohort of two queues, and one beside it; all that is guaranteed is used, but for the second queue of the cohort and the root's own.
    let queues = vec![queue(0, None, 4.0), queue(1, Some(0), 2.0), queue(2, Some(0), 2.0), queue(3, None, 2.0)];
    let calls: &[&[Asked]] = &[&[(1, 2, 0), (3, 2, 0)], &[(3, 2, 0), (1, 2, 0)]];
    let found = starts(r#"{"preemption": "classical", "reclaim": "never", "within_queue": "never"}"#, 6, queues, calls);
    assert_eq!(found, [vec![0, 1], vec![3]]);
}

#[test]
fn heights_stand_until_the_cycle_is_over() {
    // Both queues of the cohort come before the one beside it, though the second borrows of the root once the first has started.
    let queues = || vec![queue(0, None, 2.0), queue(1, Some(0), 0.0), queue(2, Some(0), 0.0), queue(3, None, 0.0)];
    let calls: &[&[Asked]] = &[&[(3, 2, 0), (1, 2, 0), (2, 2, 0)]];
    let config = r#"{"preemption": "classical", "reclaim": "lower-priority"}"#;
    assert_eq!(starts(config, 4, queues(), calls), [[1, 2]]);
    // What the cohort is guaranteed is kept for a job of it, too.
    let calls: &[&[Asked]] = &[&[(3, 3, 0)], &[(1, 2, 0), (3, 1, 0)]];
    assert_eq!(starts(config, 4, queues(), calls), [vec![0], vec![]]);
}

#[test]
fn what_asks_for_more_than_there_is_keeps_nothing() {
    let queues = vec![queue(0, None, 0.0), queue(1, None, 0.0)];
    let calls: &[&[Asked]] = &[&[(0, 8, 0), (1, 2, 0)]];
    assert_eq!(starts(r#"{"reclaim": "lower-priority"}"#, 4, queues, calls), [[1]]);
}
