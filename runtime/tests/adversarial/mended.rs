//! What the sandbox once got wrong.

use sandtable_runtime::limits::Limits;

use crate::calls::{decide, panicking};
use crate::guest::{ANSWER, HEAP, Parts, TEXT, then_decide};
use crate::simulate::{SANDBOX, inputs, limits, play, play_bytes};
use crate::{guest, load};

fn kind(parts: &Parts, limits: Limits) -> &'static str {
    kind_of(&guest::guest(parts), limits)
}

fn kind_of(bytes: &[u8], limits: Limits) -> &'static str {
    match play_bytes(bytes, inputs(limits)).1 {
        Ok(_) => "none",
        Err(fault) => fault.kind(),
    }
}

/// `memory.grow` and `table.grow` beyond what the guest itself declared answer -1, as WebAssembly has it.
#[test]
fn growing_beyond_the_declared_maximum_is_the_guests_own_affair() {
    let refused = |grow: &str| format!("(if (i32.ne {grow} (i32.const -1)) (then (unreachable)))");
    let memory = decide(then_decide(&refused("(memory.grow (i32.const 10))")));
    assert_eq!(kind(&Parts { memory: "16 20".into(), ..memory }, limits()), "none");
    let table = decide(then_decide(&refused("(table.grow $t (ref.null func) (i32.const 10))")));
    assert_eq!(kind(&Parts { declare: "(table $t 1 2 funcref)".into(), ..table }, limits()), "none");
}

/// What an import copies and looks at costs fuel, or a flood of such calls takes hours within one decision.
#[test]
fn what_an_import_copies_is_charged() {
    let little = Limits { decide_fuel: 100_000, ..limits() };
    let big = |parts: Parts| Parts { memory: "320".into(), ..parts };
    let words = decide(then_decide(&format!("(call $panic (i32.const {}) (i32.const 8388608))", 1 << 20)));
    assert_eq!(kind(&big(words), little), "out-of-fuel", "log.panic of 8 MiB");
    // One action, and a million GPUs to start it on.
    let mut text = vec![0; guest::ACTION];
    text[12..16].copy_from_slice(&(HEAP as u32).to_le_bytes());
    text[16..20].copy_from_slice(&1_000_000_u32.to_le_bytes());
    let check = format!("(call $check (i32.const {TEXT}) (i32.const 1) (i32.const {ANSWER}))");
    let check = Parts { text, ..decide(then_decide(&check)) };
    assert_eq!(kind(&big(check), little), "out-of-fuel", "cluster.check of 1,000,000 GPUs");
}

/// A guest writes the names of its functions; they reach the user's terminal in backtraces.
#[test]
fn names_of_functions_do_not_reach_the_terminal_raw() {
    let parts =
        Parts { declare: "(func $\"\\1b[2J\" (unreachable))".into(), ..decide("(call $\"\\1b[2J\") (unreachable)") };
    let (_, outcome) = play(&parts, inputs(limits()));
    let fault = outcome.err().expect("a fault");
    let frames = fault.backtrace().concat();
    assert!(!frames.chars().any(char::is_control), "{frames:?}");
}

/// The same in what is wrong with a file: names of exports are any text.
#[test]
fn names_in_files_do_not_reach_the_terminal_raw() {
    // wat refuses the name twice, so the second is renamed in the bytes.
    let text = "(component (core module (func (export \"\\1b[2Ja\")) (func (export \"\\1b[2Jb\"))))";
    let mut bytes = wat::parse_str(text).expect("a component");
    let at = bytes.windows(5).position(|window| window == b"\x1b[2Jb").expect("the second name");
    bytes[at + 4] = b'a';
    let fault = SANDBOX.load(&bytes).err().expect("a fault").to_string();
    assert!(!fault.chars().any(char::is_control), "{fault:?}");
}

/// A function of the wrong type makes a component of another world.
#[test]
fn wrong_types_are_found_at_load() {
    assert_eq!(kind_of(&load::wrong_types("sandtable:policy/scheduler@0.2.0"), limits()), "load-wrong-world");
    assert_eq!(kind_of(&load::of_another_event(), limits()), "load-wrong-world");
}

/// Too many memories, tables or instances have a fault, which is not that of a bad value.
#[test]
fn too_many_things_are_a_fault_of_their_own() {
    let found = [
        kind_of(&load::declaring("(memory 0)".repeat(8)), limits()),
        kind_of(&load::declaring("(table 0 funcref)".repeat(33)), limits()),
        kind_of(&load::with_instances(200), limits()),
    ];
    assert_eq!(found, ["too-many"; 3]);
}

/// No instant is 2^53 or later: neither is a round as long, nor may rounds lead there.
#[test]
fn rounds_end_before_time_does() {
    let ends = [u64::MAX, 1 << 63, 1 << 53, 1 << 52].map(|round| {
        let parts = Parts { round: Some(round), on_events: false, ..Parts::default() };
        std::panic::catch_unwind(|| kind(&parts, limits())).unwrap_or("a panic of the host")
    });
    assert_eq!(ends[..3], ["bad-value"; 3]);
    // That one may well begin; what ends it is open.
    assert_ne!(ends[3], "a panic of the host");
}

/// A line of the log is one line, in the letters that the policy wrote.
#[test]
fn a_line_of_the_log_is_one_line_as_written() {
    let body = then_decide("(call $write (i32.const 1) (i32.const 4096) (i32.const 12))");
    let parts = Parts { text: b"A\nerror: Lie".to_vec(), ..decide(body) };
    let (policy, _) = play(&parts, inputs(limits()));
    assert_eq!(policy.expect("an instance").log()[0], "info: A\\nerror: Lie");
}

/// What was wrong comes first, not where: offsets change with every build, and long backtraces push it out.
#[test]
fn bad_values_say_what_is_wrong() {
    let body = "(call $write (i32.const 4) (i32.const 0) (i32.const 0)) (i32.const 0)";
    let (_, outcome) = play(&decide(body), inputs(limits()));
    let fault = outcome.err().expect("a fault").to_string();
    assert_eq!(fault, "broke the contract in decide: unexpected discriminant: 4");
}

/// Direction marks turn a message around on the terminal as escapes do.
#[test]
fn direction_marks_are_escaped() {
    let (_, outcome) = play(&panicking("a\u{202e}b\u{2066}c"), inputs(limits()));
    assert_eq!(outcome.err().expect("a fault").to_string(), "panicked in decide: a\\u{202e}b\\u{2066}c");
}

/// Components within components cost time and memory by the square of the depth: 10,000 (120 kB) take two seconds,
/// 100,000 (1.2 MB) more memory than the machine has, and the kernel kills the host.
#[test]
fn deep_nesting_is_refused_before_it_is_compiled() {
    assert_eq!(kind_of(&load::nested(1000), limits()), "load-invalid");
}
