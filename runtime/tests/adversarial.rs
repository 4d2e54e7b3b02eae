//! Evil guests against the sandbox: each ends with the fault of its own, and neither hangs nor takes the host along.

#[path = "adversarial/advice.rs"]
mod advice;
#[path = "adversarial/calls.rs"]
mod calls;
#[path = "adversarial/guest.rs"]
mod guest;
#[path = "adversarial/load.rs"]
mod load;
#[path = "adversarial/mended.rs"]
mod mended;
#[path = "adversarial/plans.rs"]
mod plans;
#[path = "adversarial/simulate.rs"]
mod simulate;

use guest::{Act, Parts, TEXT, contract, endless, refuse, then_decide};
use sandtable_hardware::SECOND;
use sandtable_runtime::capsule::Capsule;
use sandtable_runtime::fault::Fault;
use sandtable_runtime::inputs::Inputs;
use sandtable_runtime::limits::Limits;
use sandtable_runtime::{JobOutcome, Policy};
use simulate::{LAST, SANDBOX, inputs, instance, limits, line, play, play_bytes};
use wit_parser::{SizeAlign, Type, TypeDefKind};

/// Holds lines against the snapshot of this name; offsets into files depend on whoever wrote them.
fn hold(name: &str, lines: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"offset (0x)?[0-9a-f]+|0x[0-9a-f]+", "[offset]");
    settings.add_filter(r"a{1000}", "[1,000 times a]");
    settings.bind(|| insta::assert_snapshot!(name, lines));
}

#[test]
fn layouts() {
    let (resolve, package) = contract();
    let interface = resolve.packages[package].interfaces["types"];
    let mut sizes = SizeAlign::default();
    sizes.fill(&resolve);
    let size = |name: &str| sizes.size(&Type::Id(resolve.interfaces[interface].types[name])).size_wasm32();
    let found = ["descriptor", "readiness", "policy-error", "plan", "action", "start", "preempt", "timer"].map(size);
    assert_eq!(found, [36, 32, 12, 16, guest::ACTION, 24, 8, 16]);
    let offsets = |name: &str| {
        let TypeDefKind::Record(record) = &resolve.types[resolve.interfaces[interface].types[name]].kind else {
            panic!("{name} is no record")
        };
        let offsets = sizes.field_offsets(record.fields.iter().map(|field| &field.ty));
        offsets.into_iter().map(|(offset, _)| offset.size_wasm32()).collect::<Vec<_>>()
    };
    assert_eq!(offsets("descriptor"), [0, 8, 16, 24, 26, 28]);
    assert_eq!(offsets("cadence"), [0, 16, 17]);
    assert_eq!(offsets("plan"), [0, 8]);
    assert_eq!(offsets("start"), [0, 4, 12]);
}

#[test]
fn a_well_behaved_guest_runs_a_whole_simulation() {
    let (policy, outcome) = play(&Parts::default(), inputs(limits()));
    let ran = outcome.expect("no fault");
    assert!(ran.ledger.rows().all(|row| matches!(row.outcome, JobOutcome::Unfinished(_))));
    let descriptor = policy.expect("an instance").describe().expect("a descriptor");
    assert_eq!((descriptor.name.as_str(), descriptor.config_schema.as_str()), ("guest", "{}"));

    let first =
        vec![Act::Start(0, vec![0]), Act::Start(1, vec![1, 2]), Act::Start(2, vec![4]), Act::Start(3, vec![5, 6])];
    // Calls: arrivals, the end of job 2, the end of the others, the last arrival.
    let plans =
        vec![first, vec![], vec![], vec![Act::SetTimer(1, LAST + 1), Act::CancelTimer(1), Act::Start(4, vec![7])]];
    let (_, outcome) = play(&Parts { plans, ..Parts::default() }, inputs(limits()));
    let ran = outcome.expect("no fault");
    let ends: Vec<_> = ran.ledger.rows().map(|row| row.end.map(|end| end.since_start() / SECOND)).collect();
    assert_eq!(ends, [Some(10), Some(10), Some(5), Some(10), Some(3610)]);
}

#[test]
fn load() {
    let lines: String =
        load::cases().iter().map(|(case, bytes)| line(case, &play_bytes(bytes, inputs(limits())).1)).collect();
    hold("load", &lines);
}

#[test]
fn no_cut_and_no_flipped_bit_panics_the_compiler() {
    let valid = guest::guest(&Parts::default());
    let cuts = (1..16).map(|part| valid[..valid.len() * part / 16].to_vec());
    for (at, bytes) in cuts.enumerate() {
        match SANDBOX.load(&bytes) {
            Err(Fault::Load(why)) => assert!(!why.to_string().contains("panicked"), "cut {at}: {why}"),
            Err(other) => panic!("cut {at}: {other}"),
            Ok(_) => panic!("cut {at} is a policy"),
        }
    }
    for at in (0..valid.len()).step_by(valid.len() / 150) {
        let mut bytes = valid.clone();
        bytes[at] ^= 1 << (at % 8);
        // Some flips make another sound policy, or one that fails later: whatever comes, it is a value.
        if let (_, Err(fault)) = play_bytes(&bytes, inputs(limits())) {
            assert!(!fault.to_string().contains("panicked"), "flip at {at}: {fault}");
            assert!(!matches!(fault, Fault::Host(_)), "flip at {at}: {fault}");
        }
    }
}

#[test]
fn calls() {
    let mut lines = String::new();
    for (case, parts) in calls::faults() {
        let (policy, outcome) = play(&parts, inputs(limits()));
        assert!(outcome.is_err(), "{case} goes unpunished");
        lines += &line(case, &outcome);
        // What has failed is never called again: its memory may be half written.
        let again = policy.expect("an instance").describe();
        assert!(matches!(again, Err(Fault::Host(_))), "{case}: {again:?}");
    }
    hold("calls", &lines);
}

#[test]
fn sound() {
    let lines: String =
        calls::sound().iter().map(|(case, parts)| line(case, &play(parts, inputs(limits())).1)).collect();
    hold("sound", &lines);
}

#[test]
fn plans() {
    let mut lines = String::new();
    for (case, parts) in plans::rules() {
        let (_, strict) = play(&parts, inputs(limits()));
        let Err(Fault::BadPlan { rejections }) = &strict else { panic!("{case}: {}", line(case, &strict)) };
        assert!(rejections.iter().all(|rejection| rejection.message.starts_with(&case[..3])), "{rejections:?}");
        lines += &line(case, &strict);
        // The same policy under lenient judging: told, not ended.
        let (_, lenient) = play(&parts, Inputs { strict: false, ..inputs(limits()) });
        let ran = lenient.unwrap_or_else(|fault| panic!("{case}, lenient: {fault}"));
        assert!(ran.rejections >= 1, "{case}: nothing was refused under lenient judging");
    }
    hold("plans", &lines);
}

#[test]
fn getting_nowhere() {
    let lines: String =
        plans::nowhere().iter().map(|(case, parts, limits)| line(case, &play(parts, inputs(*limits)).1)).collect();
    hold("nowhere", &lines);
}

#[test]
fn lenient_judging_skips_what_is_refused_and_does_the_rest() {
    let actions =
        vec![Act::Start(99, vec![0]), Act::Start(0, vec![0]), Act::Start(1, vec![0, 1]), Act::Start(2, vec![5])];
    let parts = Parts { plans: vec![actions], ..Parts::default() };
    let (_, outcome) = play(&parts, Inputs { strict: false, ..inputs(limits()) });
    let ran = outcome.expect("no fault");
    assert_eq!(ran.rejections, 2);
    let completed: Vec<_> = ran.ledger.rows().map(|row| row.outcome == JobOutcome::Completed).collect();
    assert_eq!(completed, [true, false, true, false, false]);
}

#[test]
fn a_flood_of_log_lines_is_kept_within_bounds() {
    let body = "(loop $again (call $write (i32.const 1) (i32.const 4096) (i32.const 14))
        (global.set $i (i32.add (global.get $i) (i32.const 1)))
        (br_if $again (i32.lt_u (global.get $i) (i32.const 100000))))";
    let parts = Parts { text: b"a line \x1b[31m\0\0".to_vec(), ..calls::decide(then_decide(body)) };
    // 100,000 lines at 500 and 1 a byte are within the fuel that a decision has by default.
    let (policy, outcome) = play(&parts, inputs(Limits::default()));
    outcome.expect("no fault");
    let log = policy.expect("an instance").log();
    let kept: usize = log.iter().map(String::len).sum();
    assert!(kept <= Limits::default().log + 100, "{kept} bytes");
    assert!(log[0].ends_with("info: a line \\u{1b}[31m\\u{0}\\u{0}"), "{}", log[0]);
    // Two calls, of which the second finds the counter at its end and writes once.
    assert_eq!(log.last().expect("a line"), &format!("({} more lines were dropped)", 100_001 - (log.len() - 1)));
    let (_, outcome) = play(&parts, inputs(limits()));
    assert_eq!(outcome.err().map(|fault| fault.kind()), Some("out-of-fuel"));
}

#[test]
fn capsules_replay_to_the_same_fault() {
    // Asks all there is, and fails at the second call.
    let asking = "(drop (call $now)) (call $free (i32.const 1280)) (call $occupancy (i32.const 1280))
        (call $idle (i32.const 1280)) (call $check (i32.const 8208) (i32.const 1) (i32.const 1280))
        (call $estimate (i32.const 0) (i32.const 4096) (i32.const 2) (i32.const 4096) (i32.const 2) (i32.const 4096) (i32.const 0) (i32.const 1280))
        (call $speeds (i32.const 4096) (i32.const 2) (i32.const 1280))
        (call $progress (i32.const 4096) (i32.const 2) (i32.const 1280)) (call $rejections (i32.const 1280))
        (call $classes (i32.const 1280)) (call $users (i32.const 1280)) (call $workloads (i32.const 1280))
        (call $samples (i32.const 1280)) (call $attained (i32.const 1280))
        (call $similarity (i32.const 0) (i32.const 4096) (i32.const 1) (i32.const 4096) (i32.const 1) (i32.const 1280))";
    let failing = |evil: &str| {
        let body = format!("{asking} (if (i64.eq (local.get $seq) (i64.const 2)) (then {evil}))");
        let plans = vec![vec![Act::Start(2, vec![0])], vec![]];
        Parts { plans, text: b"\0\0\0\0\xff\0\0\0".to_vec(), ..calls::decide(then_decide(&body)) }
    };
    let spin = endless("(call $free (i32.const 1280))");
    let boom = format!("(call $panic (i32.const {}) (i32.const 5)) (unreachable)", 2048);
    let text = format!("(return (block (result i32) {}))", refuse(guest::PLAN, 2, TEXT + 4, 1));
    for (kind, evil) in [("panicked", boom), ("out-of-fuel", spin), ("bad-value", text)] {
        let component = SANDBOX.load(&guest::guest(&failing(&evil))).expect("a policy");
        let mut policy = sandtable_runtime::sandbox::Sandboxed::new(&component, limits()).expect("an instance");
        let record = Some(component.digest().to_string());
        let finished = simulate::simulate(&mut policy, Inputs { record, ..inputs(limits()) });
        let capsule = finished.capsule.expect("a capsule");
        assert_eq!(capsule.fault.kind(), kind);
        assert_eq!(capsule.steps.len(), 2);
        let json = serde_json::to_string(&capsule).expect("JSON");
        let read: Capsule = serde_json::from_str(&json).expect("a capsule");
        assert_eq!(serde_json::to_string(&read).expect("JSON"), json);
        assert_eq!(read.replay(&component), Err(capsule.fault.clone()), "{kind}");
        // An instance that goes another way than the recording is found out.
        let other = SANDBOX.load(&guest::guest(&calls::decide(endless(asking)))).expect("a policy");
        assert_ne!(read.replay(&other), Err(capsule.fault));
    }
}

#[test]
fn every_instance_is_dead_on_its_own() {
    let bytes = guest::guest(&calls::panicking("boom"));
    let (policy, outcome) = play_bytes(&bytes, inputs(limits()));
    assert!(matches!(outcome, Err(Fault::Panicked { .. })));
    let mut dead = policy.expect("an instance");
    let mut alive = instance(&bytes, limits()).expect("an instance");
    assert!(matches!(dead.describe(), Err(Fault::Host(_))));
    assert!(matches!(dead.describe(), Err(Fault::Host(_))));
    assert!(alive.describe().is_ok());
}
