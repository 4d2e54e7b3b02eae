//! Policies that attacked the host once (`attacks` of the data, which are components of contract 0.1), written for this contract.

use crate::guest::{Parts, TEXT, component, contract, endless, guest, refuse, then_decide};

const RESET: &str = "(global.set $heap (i32.const 65536))";

fn decide(body: String) -> Parts {
    Parts { decide: body, declare: "(global $j (mut i32) (i32.const 0))".into(), ..Parts::default() }
}

fn estimate(quantity: u32, rows: u32, at: u32) -> String {
    format!(
        "(call $estimate (i32.const {quantity}) (i32.const {at}) (i32.const {rows}) (i32.const {at}) (i32.const {rows})
         (i32.const {TEXT}) (i32.const 0) (i32.const 1280))"
    )
}

/// Does `body` so many times.
fn times(count: u32, body: &str) -> String {
    format!(
        "(global.set $j (i32.const {count}))
         (loop $again {body} (global.set $j (i32.sub (global.get $j) (i32.const 1))) (br_if $again (global.get $j)))"
    )
}

/// Fills what the host records of a call, and then fails.
pub fn tape_bomb() -> Vec<u8> {
    let body = times(240, &format!("{RESET} {}", estimate(0, 1_500_000, 16 << 20))) + "(unreachable)";
    guest(&Parts { memory: "600".into(), ..decide(body) })
}

/// Asks of a million residents, never of as many again: the host remembers each answer.
pub fn pair_speed_memo() -> Vec<u8> {
    let ask = format!(
        "{RESET} (i32.store (i32.const 4096) (i32.const 0)) (i32.store (i32.const 4104) (i32.const 16777216))
         (i32.store (i32.const 4108) (i32.sub (i32.const 1000000) (global.get $i)))
         (call $pairs (i32.const 0) (i32.const 4096) (i32.const 1) (i32.const 4104) (i32.const 1) (i32.const 1280))
         (global.set $i (i32.add (global.get $i) (i32.const 1)))"
    );
    guest(&Parts { memory: "600".into(), round: Some(1_000_000), ..decide(then_decide(&times(58, &ask))) })
}

/// Asks a lot for six thousand calls, and then fails.
pub fn fails_late() -> Vec<u8> {
    let body = format!(
        "{RESET} {} (if (i64.ge_u (local.get $seq) (i64.const 6000)) (then (unreachable)))",
        estimate(0, 50_000, 16 << 20)
    );
    guest(&Parts { memory: "600".into(), round: Some(1_000_000), ..decide(then_decide(&body)) })
}

/// Rounds of a microsecond, each of which takes a tenth of a decision's fuel.
pub fn burning() -> Vec<u8> {
    guest(&Parts { round: Some(1), ..decide(then_decide(&times(15_000_000, ""))) })
}

/// A predictor of similarity that burns half of a decision's fuel for every answer.
pub fn burning_predictor() -> Vec<u8> {
    let (resolve, package) = contract();
    let world = resolve.select_world(&[package], Some("predictor-component")).expect("the world");
    let export = |name: &str| format!("(export \"sandtable:policy/provider@0.2.0#{name}\")");
    let text = |at: usize, from: usize, length: usize| {
        format!(
            "(i32.store (i32.const {at}) (i32.const {from})) (i32.store (i32.const {}) (i32.const {length}))",
            at + 4
        )
    };
    // Its name, version and line are a letter; it answers for similarity, reads nothing, and its schema is {}.
    let words = [text(1024, 2048, 1), text(1032, 2048, 1), text(1040, 2048, 1), text(1052, 2049, 2)].concat();
    let wat = format!(
        "(module (memory (export \"memory\") 17) (global $heap (mut i32) (i32.const 65536)) (global $j (mut i32) (i32.const 0))
         (data (i32.const 2048) \"b{{}}\")
         (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) (local $at i32)
           (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
           (global.set $heap (i32.add (local.get $at) (local.get 3))) (local.get $at))
         (func {} (result i32) {words} (i32.store8 (i32.const 1048) (i32.const 1)) (i32.const 1024))
         (func {} (param i32 i32 i64 i32 i32 i32 i32) (result i32) (i32.const 1200))
         (func {} (param i32 i32) (global.set $heap (i32.const 65536)))
         (func {} (param i32 i32 i32 i32) (result i32) (unreachable))
         (func {} (param i32 i32 i32 i32 i32) (result i32) {}
           (global.set $heap (i32.const 65536))
           (f64.store (i32.const 524288) (f64.const 0.5))
           (i32.store (i32.const 1200) (i32.const 524288)) (i32.store (i32.const 1204) (local.get 2)) (i32.const 1200))
         (func {} (param i32 i32 i32 i32 i32) (result i32) (unreachable)))",
        export("describe"),
        export("init"),
        export("introduce"),
        export("estimate"),
        export("similarity"),
        times(70_000_000, ""),
        export("pair-speed"),
    );
    component(&wat, &resolve, world)
}

/// Rounds of a microsecond at which nothing is done.
pub fn idle() -> Vec<u8> {
    guest(&Parts { round: Some(1), ..Parts::default() })
}

/// Asks for ever for a quantity that nothing answers for.
pub fn asks_for_ever() -> Vec<u8> {
    guest(&decide(endless(&format!("{RESET} {}", estimate(1, 2000, 65536)))))
}

const ESCAPES: &str = "\x1b]0;OWNED\x07\x1b[2J\x1b[31mERROR\u{9b}2J\u{202e}\r\nerror: fake";

/// Describes itself in what a terminal would act on.
pub fn describes_itself_in_escapes() -> Vec<u8> {
    let schema =
        r#"{"properties":{"\u001b[2Jp":{"type":"\u001b[31mt","description":"\u001b]0;OWNED\u0007","default":1}}}"#;
    let text = |at: usize, from: usize, length: usize| {
        format!(
            "(i32.store (i32.const {}) (i32.const {from})) (i32.store (i32.const {}) (i32.const {length}))",
            1024 + at,
            1028 + at
        )
    };
    let words: String = [0, 8, 16].map(|at| text(at, TEXT, ESCAPES.len())).concat();
    let describe = words + &text(28, TEXT + ESCAPES.len(), schema.len()) + "(i32.const 1024)";
    guest(&Parts { describe, text: [ESCAPES, schema].concat().into_bytes(), ..Parts::default() })
}

/// Refuses with an error whose text a terminal would act on.
pub fn refuses_in_escapes() -> Vec<u8> {
    let body = refuse(crate::guest::PLAN, 2, TEXT, ESCAPES.len());
    guest(&Parts { text: ESCAPES.into(), ..decide(body) })
}
