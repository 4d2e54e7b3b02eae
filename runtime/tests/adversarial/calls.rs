//! Guests that misbehave within a call.

use crate::guest::{
    ACTION, ANSWER, BUMP, PLAN, Parts, READINESS, TEXT, endless, once_ready, raw_plan, refuse, then_decide,
};

fn describe(body: impl Into<String>) -> Parts {
    Parts { describe: body.into(), ..Parts::default() }
}

fn init(body: impl Into<String>) -> Parts {
    Parts { init: body.into(), ..Parts::default() }
}

/// Makes text of what the host has lowered: a share of 1000 is no UTF-8.
const BLANK: &str = "(memory.fill (i32.const 65536) (i32.const 0) (i32.const 65536)) ";

/// A guest with this body of `decide`.
pub fn decide(body: impl Into<String>) -> Parts {
    Parts { decide: body.into(), ..Parts::default() }
}

fn realloc(evil: &str) -> Parts {
    Parts { realloc: once_ready(evil), ..Parts::default() }
}

/// Says its last words, then traps.
pub fn panicking(words: &str) -> Parts {
    let body = format!("(call $panic (i32.const {TEXT}) (i32.const {})) (unreachable)", words.len());
    Parts { decide: body, text: words.into(), ..Parts::default() }
}

/// `log.write` of the text in `Parts::text`.
fn write(length: usize) -> String {
    format!("(call $write (i32.const 1) (i32.const {TEXT}) (i32.const {length}))")
}

/// `predictor.similarity` or `pair-speed` on a type of so many jobs and so many others, all of the bytes at `TEXT`.
fn together(function: &str, kind: u32, jobs: u32, others: u32) -> String {
    format!(
        "(call ${function} (i32.const {kind}) (i32.const {TEXT}) (i32.const {jobs})
         (i32.const {TEXT}) (i32.const {others}) (i32.const {ANSWER}))"
    )
}

/// `cluster.speeds`, `progress` or `part-slices` of so many jobs, the bytes at `TEXT`.
fn of_jobs(function: &str, jobs: u32) -> String {
    format!("(call ${function} (i32.const {TEXT}) (i32.const {jobs}) (i32.const {ANSWER}))")
}

/// `predictor.estimate` of so many jobs and so many types, all of the bytes at `TEXT`.
fn estimate(quantity: u32, jobs: u32, types: u32) -> String {
    format!(
        "(call $estimate (i32.const {quantity}) (i32.const {TEXT}) (i32.const {jobs})
            (i32.const {TEXT}) (i32.const {types}) (i32.const {TEXT}) (i32.const 0) (i32.const {ANSWER}))"
    )
}

/// `predictor.epochs` of so many jobs, the bytes at `TEXT`.
fn epochs(jobs: u32) -> String {
    format!("(call $epochs (i32.const 0) (i32.const {TEXT}) (i32.const {jobs}) (i32.const {ANSWER}))")
}

/// Answers with an action whose bytes are `row`, at `TEXT`.
fn action(row: &[u8]) -> Parts {
    let mut text = row.to_vec();
    text.resize(ACTION, 0);
    Parts { decide: raw_plan(TEXT as u32, 1), text, ..Parts::default() }
}

/// Each ends with the fault of its own, and its instance with it.
pub fn faults() -> Vec<(&'static str, Parts)> {
    let big = |parts: Parts| Parts { memory: "320".into(), ..parts };
    let table = |body: &str| Parts { declare: "(table $t 1 funcref)".into(), ..decide(body) };
    // Or what the imports answer fills the memory first.
    let afresh = "(global.set $heap (i32.const 65536))";
    let deep = "(func $deep (param i32) (result i32) (i32.add (i32.const 1) (call $deep (local.get 0))))";
    let even = "(func $even (param i32) (result i32) (i32.add (i32.const 1) (call $odd (local.get 0))))
                (func $odd (param i32) (result i32) (i32.add (i32.const 1) (call $even (local.get 0))))";
    let mut cases = vec![
        // Processor time.
        ("describe spins", describe(endless(""))),
        ("init spins", init(endless(""))),
        ("decide spins", decide(endless(""))),
        ("realloc spins", realloc(&endless(""))),
        ("post-return spins", Parts { post: endless(""), ..Parts::default() }),
        ("cluster.now flood", decide(endless("(drop (call $now))"))),
        ("cluster.free-gpus flood", decide(endless(&format!("{afresh} (call $free (i32.const {ANSWER}))")))),
        ("cluster.cpu-jobs flood", decide(endless("(call $idle (i32.const 1280))"))),
        ("cluster.check flood", decide(endless("(call $check (i32.const 0) (i32.const 0) (i32.const 1280))"))),
        ("predictor.estimate flood", decide(endless(&(afresh.to_string() + &estimate(0, 8, 8))))),
        ("cluster.speeds flood", decide(endless(&(afresh.to_string() + &of_jobs("speeds", 8))))),
        ("cluster.progress flood", decide(endless(&(afresh.to_string() + &of_jobs("progress", 8))))),
        ("cluster.part-slices flood", decide(endless(&(afresh.to_string() + &of_jobs("slices", 8))))),
        ("predictor.similarity flood", decide(endless(&(afresh.to_string() + &together("similarity", 0, 8, 8))))),
        ("predictor.pair-speed flood", decide(endless(&(afresh.to_string() + &together("pairs", 0, 8, 8))))),
        ("predictor.epochs flood", decide(endless(&(afresh.to_string() + &epochs(8))))),
        ("cluster.rejections flood", decide(endless("(call $rejections (i32.const 1280))"))),
        ("introductions.classes flood", decide(endless(&format!("{afresh} (call $classes (i32.const {ANSWER}))")))),
        ("introductions.users flood", decide(endless(&format!("{afresh} (call $users (i32.const {ANSWER}))")))),
        ("introductions.workloads flood", decide(endless("(call $workloads (i32.const 1280))"))),
        ("introductions.samples flood", decide(endless("(call $samples (i32.const 1280))"))),
        ("introductions.attained flood", decide(endless("(call $attained (i32.const 1280))"))),
        ("log.write flood", decide(endless(&write(5)))),
        ("log.write of 8 MiB, for ever", big(decide(BLANK.to_string() + &endless(&write(8 << 20))))),
        ("memory.grow by nothing", decide(endless("(drop (memory.grow (i32.const 0)))"))),
        ("memory.fill", decide(endless("(memory.fill (i32.const 65536) (i32.const 0) (i32.const 65536))"))),
        ("recursion", Parts { declare: deep.into(), ..decide("(call $deep (i32.const 0))") }),
        ("mutual recursion", Parts { declare: even.into(), ..decide("(call $even (i32.const 0))") }),
        // Memory.
        ("memory bomb in describe", describe(endless("(drop (memory.grow (i32.const 16)))"))),
        ("memory bomb in decide", decide(endless("(drop (memory.grow (i32.const 16)))"))),
        ("one page over the cap", decide("(drop (memory.grow (i32.const 2032))) (memory.grow (i32.const 1))")),
        ("memory.grow to 4 GiB", decide("(memory.grow (i32.const 65520))")),
        ("table bomb", table(&endless("(drop (table.grow $t (ref.null func) (i32.const 1000)))"))),
        ("table of 2^32", table("(table.grow $t (ref.null func) (i32.const -2))")),
        // Traps.
        ("unreachable", decide("(unreachable)")),
        ("panic", panicking("boom at x.rs:1")),
        ("panic with escapes", panicking("\x1b[2J\x1b]0;owned\x07 \r\u{9b}31m")),
        ("panic with 1,001 letters", panicking(&"a".repeat(1001))),
        ("panic in describe", Parts { describe: panicking("boom").decide, text: "boom".into(), ..Parts::default() }),
        ("division by zero", decide("(i32.div_u (i32.const 1) (global.get $i))")),
        ("division that overflows", decide("(i32.div_s (i32.const 0x80000000) (i32.const -1))")),
        ("load out of bounds", decide("(i32.load (i32.const -4))")),
        ("no such number", decide("(i32.trunc_f64_s (f64.const nan))")),
        ("call of a null", table("(call_indirect $t (result i32) (i32.const 0))")),
        ("call beyond the table", table("(call_indirect $t (result i32) (i32.const 9))")),
        ("import called from realloc", realloc("(drop (call $now))")),
        ("import called from post-return", Parts { post: "(drop (call $now))".into(), ..Parts::default() }),
        ("realloc traps", realloc("(unreachable)")),
        // Values.
        ("descriptor out of range", describe("(i32.const -4)")),
        ("descriptor misaligned", describe("(i32.const 1026)")),
        ("readiness out of range", init("(i32.const -8)")),
        ("plan out of range", decide("(i32.const -8)")),
        ("plan ends beyond the memory", decide("(i32.const 1048568)")),
        ("plan misaligned", decide(format!("(i32.const {})", PLAN + 1))),
        ("unknown case of the result", decide("(i32.store8 (i32.const 1152) (i32.const 7)) (i32.const 1152)")),
        ("unknown case of round", init("(i32.store8 (i32.const 1112) (i32.const 2)) (i32.const 1104)")),
        ("unknown case of ends", init("(i32.store8 (i32.const 1129) (i32.const 2)) (i32.const 1104)")),
        ("unknown case of the error", decide(refuse(PLAN, 3, TEXT, 0))),
        ("unknown case of an action", action(&[11])),
        ("unknown mode of a preemption", action(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9])),
        ("unknown quantity", decide(estimate(6, 0, 0) + "(i32.const 0)")),
        ("unknown level", decide("(call $write (i32.const 4) (i32.const 0) (i32.const 0)) (i32.const 0)")),
        ("2^31 actions", decide(raw_plan(HEAP_U32, 1 << 31))),
        ("2^32 - 1 actions", decide(raw_plan(HEAP_U32, u32::MAX))),
        ("actions misaligned", decide(raw_plan(TEXT as u32 + 4, 1))),
        ("actions beyond the memory", decide(raw_plan(1 << 20, 1))),
        ("GPUs beyond the memory", action(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 1])),
        ("GPUs misaligned", action(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1])),
        ("unknown action to check", checking(&[11])),
        ("text beyond the memory", decide(refuse(PLAN, 2, 1 << 20, 1))),
        ("realloc answers misaligned", realloc("(return (i32.const 65537))")),
        ("realloc answers out of range", realloc("(return (i32.const -16))")),
        ("similarity of columns of different length", decide(together("similarity", 0, 2, 1) + "(i32.const 0)")),
        ("pair-speed of columns of different length", decide(together("pairs", 0, 1, 3) + "(i32.const 0)")),
        (
            "residents beyond memory",
            decide(format!(
                "(i32.store (i32.const {TEXT}) (i32.const -16)) (i32.store (i32.const {}) (i32.const 9)) {} (i32.const 0)",
                TEXT + 4,
                together("pairs", 0, 1, 1)
            )),
        ),
        ("columns of different length", decide(estimate(0, 2, 1) + "(i32.const 0)")),
        // Amounts.
        ("a text of 17 MiB", big(decide(refuse(PLAN, 2, 65536, 17 << 20)))),
        ("a log line of 17 MiB", big(decide(write(17 << 20) + "(unreachable)"))),
        ("a log line of 12 MiB", big(decide(BLANK.to_string() + &write(12 << 20) + "(unreachable)"))),
        ("a name of 17 MiB", big(describe("(i32.store (i32.const 1028) (i32.const 17825792)) (i32.const 1024)"))),
        // At the wrong time.
        ("cluster.now in describe", describe("(drop (call $now)) (i32.const 1024)")),
        ("cluster.now in init", init("(drop (call $now)) (i32.const 1104)")),
        ("cluster.free-gpus in init", init("(call $free (i32.const 1280)) (i32.const 1104)")),
        ("cluster.occupancy in init", init("(call $occupancy (i32.const 1280)) (i32.const 1104)")),
        ("cluster.cpu-jobs in init", init("(call $idle (i32.const 1280)) (i32.const 1104)")),
        ("cluster.check in init", init("(call $check (i32.const 0) (i32.const 0) (i32.const 1280)) (i32.const 1104)")),
        ("cluster.rejections in init", init("(call $rejections (i32.const 1280)) (i32.const 1104)")),
        ("introductions.classes in init", init("(call $classes (i32.const 1280)) (i32.const 1104)")),
        ("introductions.workloads in init", init("(call $workloads (i32.const 1280)) (i32.const 1104)")),
        ("introductions.users in init", init("(call $users (i32.const 1280)) (i32.const 1104)")),
        ("introductions.samples in init", init("(call $samples (i32.const 1280)) (i32.const 1104)")),
        ("introductions.attained in init", init("(call $attained (i32.const 1280)) (i32.const 1104)")),
        ("cluster.speeds in init", init(of_jobs("speeds", 1) + "(i32.const 1104)")),
        ("cluster.progress in init", init(of_jobs("progress", 1) + "(i32.const 1104)")),
        ("cluster.part-slices in init", init(of_jobs("slices", 1) + "(i32.const 1104)")),
        ("predictor.similarity in init", init(together("similarity", 0, 1, 1) + "(i32.const 1104)")),
        ("predictor.pair-speed in init", init(together("pairs", 0, 1, 1) + "(i32.const 1104)")),
        ("predictor.epochs in init", init(epochs(1) + "(i32.const 1104)")),
        ("predictor.estimate in init", init(estimate(0, 1, 1) + "(i32.const 1104)")),
    ];
    for (name, bytes) in [
        ("a text with a byte of nothing", b"\xff".as_slice()),
        ("a text with an overlong letter", b"\xc0\xaf"),
        ("a text with a surrogate", b"\xed\xa0\x80"),
        ("a text cut within a letter", b"\xe2\x82"),
    ] {
        let body = refuse(PLAN, 2, TEXT, bytes.len());
        cases.push((name, Parts { text: bytes.into(), ..decide(body) }));
    }
    let why = b"because";
    let errors = [
        ("init: bad-config", "decide: bad-config"),
        ("init: unsupported", "decide: unsupported"),
        ("init: internal", "decide: internal"),
    ];
    for (case, (in_init, in_decide)) in (0..).zip(errors) {
        let text = why.to_vec();
        cases.push((in_init, Parts { text: text.clone(), ..init(refuse(READINESS, case, TEXT, why.len())) }));
        cases.push((in_decide, Parts { text, ..decide(refuse(PLAN, case, TEXT, why.len())) }));
    }
    cases
}

const HEAP_U32: u32 = crate::guest::HEAP as u32;

/// Asks `cluster.check` about an action of these bytes.
fn checking(row: &[u8]) -> Parts {
    let body = format!("(call $check (i32.const {TEXT}) (i32.const 1) (i32.const {ANSWER})) (i32.const 0)");
    Parts { decide: body, ..action(row) }
}

/// Odd, but within the contract: they run to the end.
pub fn sound() -> Vec<(&'static str, Parts)> {
    let trap_if = |wrong: &str| format!("(if {wrong} (then (unreachable)))");
    // Job 99 was never announced; job 0 has ten seconds left.
    let asked = [99_u32, 0].map(u32::to_le_bytes).concat();
    let types = [0_u32, 0].map(u32::to_le_bytes).concat();
    let ask = format!(
        "(call $estimate (i32.const 0) (i32.const {TEXT}) (i32.const 2)
            (i32.const {}) (i32.const 2) (i32.const {TEXT}) (i32.const 0) (i32.const {ANSWER}))",
        TEXT + 8
    );
    let answer = format!("(i32.load (i32.const {ANSWER}))");
    let nan = [
        ask,
        trap_if(&format!("(f64.eq (f64.load {answer}) (f64.load {answer}))")),
        trap_if(&format!("(i64.ne (i64.load {answer}) (i64.const 0x7ff8000000000000))")),
        trap_if(&format!("(f64.ne (f64.load offset=8 {answer}) (f64.const 10))")),
        trap_if(&format!("(i32.ne (i32.load offset=4 (i32.const {ANSWER})) (i32.const 2))")),
    ];
    let to_the_cap = trap_if("(i32.ne (memory.grow (i32.const 2032)) (i32.const 16))")
        + &trap_if("(i32.ne (memory.size) (i32.const 2048))");
    // Jobs and types that never were: the canonical NaN, and nobody is hurt.
    let first_is_nan = trap_if(&format!("(i64.ne (i64.load {answer}) (i64.const 0x7ff8000000000000))"));
    let nobody = |call: &str| format!("(i32.store (i32.const {TEXT}) (i32.const 77)) {call} {first_is_nan}");
    let first_is_none = trap_if(&format!("(i32.ne (i32.load {answer}) (i32.const -1))"));
    let no_slice = format!("(i32.store (i32.const {TEXT}) (i32.const 77)) {} {first_is_none}", of_jobs("slices", 1));
    vec![
        ("similarity on no such type", decide(then_decide(&nobody(&together("similarity", 99, 1, 1))))),
        ("similarity of jobs that never were", decide(then_decide(&nobody(&together("similarity", 0, 1, 1))))),
        ("speeds of jobs that never were", decide(then_decide(&nobody(&of_jobs("speeds", 1))))),
        ("progress of jobs that never were", decide(then_decide(&nobody(&of_jobs("progress", 1))))),
        ("parts of jobs that never were", decide(then_decide(&no_slice))),
        ("well-behaved", Parts::default()),
        ("memory up to the cap", init(to_the_cap + "(i32.const 1104)")),
        ("memory begins at the cap", Parts { memory: "2048".into(), ..Parts::default() }),
        (
            "table up to the cap",
            Parts {
                declare: "(table $t 1 funcref)".into(),
                ..init("(drop (table.grow $t (ref.null func) (i32.const 19000))) (i32.const 1104)")
            },
        ),
        ("no idea about an unknown job", Parts { text: [asked, types].concat(), ..decide(then_decide(&nan.concat())) }),
        ("log.write in describe", describe(write(0) + "(i32.const 1024)")),
        ("last words without a trap", decide(then_decide("(call $panic (i32.const 0) (i32.const 0))"))),
        ("a truth of 2", init("(i32.store8 (i32.const 1128) (i32.const 2)) (i32.const 1104)")),
        ("unknown flags", Parts { uses: 0xffff, ..Parts::default() }),
        (
            "realloc always answers the same",
            Parts { realloc: format!("(return (i32.const 65536)) {BUMP}"), ..Parts::default() },
        ),
    ]
}
