//! What `policy check` says of policies that are evil, or ours.

use crate::guest::{Act, HEAP, Parts, endless, guest, raw_plan, refuse, then_decide};
use crate::help::root;
use sandtable::policy_check::{Effort, Verdict, check};

/// The report on each evil guest, as its author would read it.
#[test]
fn the_check_tells_authors_of_evil_policies_what_to_fix() {
    let parts = |decide: String| Parts { decide, ..Parts::default() };
    let plan = |acts: Vec<Act>| Parts { plans: vec![acts], ..parts(then_decide("")) };
    let words = "(call $panic (i32.const 4096) (i32.const 14)) (unreachable)";
    let memory = "(loop $again (drop (memory.grow (i32.const 64))) (br $again)) (unreachable)";
    let sound = guest(&Parts::default());
    let evil: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("core-module", wat::parse_str("(module)").expect("a module")),
        ("wrong-world", wat::parse_str("(component)").expect("a component")),
        ("truncated", sound[..200].to_vec()),
        ("accepts-any-configuration", sound.clone()),
        ("endless-loop", guest(&parts(endless("")))),
        ("endless-allocation", guest(&parts(memory.into()))),
        (
            "recursion",
            guest(&Parts {
                declare: "(func $deeper (call $deeper) (call $deeper))".into(),
                ..parts("(call $deeper) (unreachable)".into())
            }),
        ),
        ("panic", guest(&Parts { text: b"boom at x.rs:1".to_vec(), ..parts(words.into()) })),
        ("trap", guest(&parts("(unreachable)".into()))),
        ("million-actions", guest(&Parts { memory: "512".into(), ..parts(raw_plan(HEAP as u32, 1_000_000)) })),
        ("unknown-job", guest(&plan(vec![Act::Start(99, vec![0])]))),
        ("unknown-gpu", guest(&plan(vec![Act::Start(0, vec![4_000_000])]))),
        (
            "refuses-everything",
            guest(&Parts { init: refuse(ANSWER_OF_INIT, 0, 4096, 5), text: b"never".to_vec(), ..Parts::default() }),
        ),
    ];
    let mut out = String::new();
    for (name, bytes) in evil {
        let report = check(name, &bytes, &Effort { histories: 1, ..Effort::default() }).expect("a report");
        assert!(!report.passed(), "{name} passed");
        out.push_str(&format!("{name}\n"));
        for one in report.checks.iter().filter(|one| one.verdict != Verdict::Ok) {
            out.push_str(&format!("  {} {}: {}\n", one.verdict.word(), one.what, one.found));
            if !one.advice.is_empty() {
                out.push_str(&format!("    {}\n", one.advice));
            }
        }
    }
    insta::with_settings!({filters => vec![(r"offset 0x[0-9a-f]+", "offset [cut]")]}, {
        insta::assert_snapshot!(out);
    });
}

/// Where the guests' `init` puts its answer.
const ANSWER_OF_INIT: usize = crate::guest::ANSWER;

/// A network that prefers jobs that are small or have waited.
const SHORT_AND_OLD: &str =
    r#"{"inputs": ["gpus", "waited"], "hidden": "relu", "layers": [{"weights": [[-1, 0.5]], "bias": [0]}]}"#;

/// Every shipped policy passes; what it is warned of is known.
#[test]
fn shipped_policies_pass_the_check() {
    let mut out = String::new();
    for name in sandtable::artifact::shipped() {
        let bytes = std::fs::read(root().join(format!("policies/dist/{name}.wasm"))).expect("a component");
        let weights = match name {
            "mlp" => SHORT_AND_OLD.as_bytes().to_vec(),
            "recorded" => b"starts 1\n0 5000000\n2 90000000\n".to_vec(),
            _ => Vec::new(),
        };
        let report = check(name, &bytes, &Effort { histories: 2, weights, script: None }).expect("a report");
        let (ok, skipped) = (report.count(Verdict::Ok), report.count(Verdict::Skip));
        out.push_str(&format!("{name}: {ok} ok, {skipped} skipped\n"));
        for one in report.checks.iter().filter(|one| matches!(one.verdict, Verdict::Warn | Verdict::Fail)) {
            // Fuel depends on wasmtime's version.
            let found = if one.what == "budget" { "-" } else { &one.found };
            out.push_str(&format!("  {} {}: {found}\n", one.verdict.word(), one.what));
        }
        assert!(report.passed(), "{out}");
    }
    insta::assert_snapshot!(out);
}
