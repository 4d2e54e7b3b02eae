//! Plans that break the rules, and policies that never get anywhere.

use sandtable_hardware::SECOND;
use sandtable_runtime::limits::Limits;

use crate::calls::decide;
use crate::guest::Act::{CancelTimer, Preempt, SetTimer, Start};
use crate::guest::{Act, Parts, raw_plan, then_decide};
use crate::simulate::limits;

/// A rule, and actions that break it; the last plan is the one that does.
pub fn rules() -> Vec<(&'static str, Parts)> {
    let plans = |plans: Vec<Vec<Act>>| Parts { plans, ..Parts::default() };
    let plan = |actions: Vec<Act>| plans(vec![actions]);
    let silent = |actions: Vec<Act>| Parts { uses: 0, ..plan(actions) };
    // Job 2 ends after five seconds, and by that calls for the second plan.
    let first = || vec![Start(0, vec![0]), Start(2, vec![7])];
    vec![
        (
            "V01 base of the next batch",
            decide("(local.set $seq (i64.add (local.get $seq) (i64.const 1)))".to_string() + &then_decide("")),
        ),
        (
            "V01 base of the batch before",
            decide("(local.set $seq (i64.sub (local.get $seq) (i64.const 1)))".to_string() + &raw_plan(0, 0)),
        ),
        ("V02 200,000 actions", Parts { memory: "128".into(), ..decide(raw_plan(1 << 20, 200_000)) }),
        ("V03 no such job", plan(vec![Start(99, vec![0])])),
        ("V03 the largest id", plan(vec![Start(u32::MAX, vec![0])])),
        ("V03 a job to come", plan(vec![Start(4, vec![0])])),
        ("V03 preempt no such job", plan(vec![Preempt(99)])),
        ("V04 no such GPU", plan(vec![Start(0, vec![8])])),
        ("V04 the largest id", plan(vec![Start(0, vec![u32::MAX])])),
        ("V05 start twice in one plan", plan(vec![Start(0, vec![0]), Start(0, vec![1])])),
        ("V05 start what runs", plans(vec![first(), vec![Start(0, vec![1])]])),
        ("V05 start what has ended", plans(vec![first(), vec![Start(2, vec![1])]])),
        ("V05 preempt what waits", plan(vec![Preempt(0)])),
        ("V05 preempt what has ended", plans(vec![first(), vec![Preempt(2)]])),
        ("V05 start what is being stopped", plans(vec![first(), vec![Preempt(0), Start(0, vec![1])]])),
        ("V07 not preemptible", plan(vec![Start(2, vec![0]), Preempt(2)])),
        ("V08 too many GPUs", plan(vec![Start(0, vec![0, 1])])),
        ("V08 too few GPUs", plan(vec![Start(1, vec![0])])),
        ("V10 GPU twice", plan(vec![Start(1, vec![0, 0])])),
        ("V11 job twice", plan(vec![Start(0, vec![0]), Preempt(0)])),
        ("V12 type that is not allowed", plan(vec![Start(1, vec![4, 5])])),
        ("V12 several types", plan(vec![Start(3, vec![3, 4])])),
        ("V13 promised GPU", plan(vec![Start(0, vec![0]), Start(2, vec![0])])),
        ("V14 held GPU", plans(vec![first(), vec![Start(1, vec![1, 0])]])),
        ("V22 no GPU", plan(vec![Start(0, vec![])])),
        ("V23 timer now", plan(vec![SetTimer(1, 0)])),
        ("V23 timer in the past", plans(vec![first(), vec![SetTimer(1, SECOND.as_micros())]])),
        ("V23 timer at the end of time", plan(vec![SetTimer(1, u64::MAX)])),
        ("V23 token twice", plan(vec![SetTimer(1, 5), SetTimer(1, 6)])),
        ("V23 1,025 timers", plan((0..1025).map(|token| SetTimer(token, SECOND.as_micros())).collect())),
        ("V23 cancel what is not set", plan(vec![CancelTimer(1)])),
        ("V26 preempt", silent(vec![Start(0, vec![0]), Preempt(0)])),
        ("V26 set a timer", silent(vec![SetTimer(1, 5)])),
        ("V26 cancel a timer", silent(vec![CancelTimer(1)])),
    ]
}

/// Sets a timer for the next microsecond, each time.
fn timers_for_ever() -> Parts {
    let row = "(i32.store8 (i32.const 4096) (i32.const 2)) (i64.store (i32.const 4104) (local.get $seq))
        (i64.store (i32.const 4112) (i64.add (local.get $now) (i64.const 1)))";
    decide(format!("{row} {}", raw_plan(4096, 1)))
}

/// Policies whose plans are in order, and who yet get nowhere.
pub fn nowhere() -> Vec<(&'static str, Parts, Limits)> {
    let calls = |calls| Limits { calls, ..limits() };
    let cadence = |round, on_events| Parts { round, on_events, ..Parts::default() };
    let million = Parts { memory: "520".into(), ..decide(raw_plan(1 << 20, 1_000_000)) };
    vec![
        ("1,000,000 actions", million, limits()),
        ("timers for ever", timers_for_ever(), limits()),
        ("rounds for ever", cadence(Some(1), true), calls(5000)),
        ("a cadence that never calls", cadence(None, false), limits()),
        ("a round of nothing", cadence(Some(0), true), limits()),
    ]
}
