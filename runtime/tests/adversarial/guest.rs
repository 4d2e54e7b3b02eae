//! Guests written by hand: a well-behaved policy in WAT, of which a test replaces one piece.
//!
//! The addresses and offsets are those of the canonical ABI; `layouts` in the test file holds them against the
//! contract.

use std::fmt::Write as _;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

/// Where `describe` answers.
pub const DESCRIPTOR: usize = 1024;
/// Where `init` answers: the case of the result, then the payload at 8.
pub const READINESS: usize = 1104;
/// Where `decide` answers: the case of the result, then the payload at 8.
pub const PLAN: usize = 1152;
/// Where imports answer.
pub const ANSWER: usize = 1280;
/// Where [`Parts::text`] lies.
pub const TEXT: usize = 4096;
const STRINGS: usize = 2048;
const PLANS: usize = 8192;
/// From here on `cabi_realloc` hands out.
pub const HEAP: usize = 65536;
/// Size of an action.
pub const ACTION: usize = 32;

/// An action as the guest lays it out.
#[derive(Clone)]
pub enum Act {
    Start(u32, Vec<u32>),
    Preempt(u32),
    SetTimer(u64, u64),
    CancelTimer(u64),
}

/// The pieces of a guest. Function bodies are WAT.
#[derive(Clone)]
pub struct Parts {
    /// Limits of the memory.
    pub memory: String,
    /// More imports of the module.
    pub import: String,
    /// More fields of the module.
    pub declare: String,
    /// Old address `$old`, old size `$was`, `$align`, `$size`.
    pub realloc: String,
    pub describe: String,
    pub init: String,
    /// `$seq`, `$now`, `$trigger`, `$fresh`, `$events`, `$count`.
    pub decide: String,
    /// Runs after the host has read the answer of `decide`.
    pub post: String,
    /// Bytes at [`TEXT`].
    pub text: Vec<u8>,
    /// `descriptor.uses`, as bits.
    pub uses: u16,
    pub round: Option<u64>,
    pub on_events: bool,
    /// Actions of the first calls of `decide`; none in later ones.
    pub plans: Vec<Vec<Act>>,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts {
            memory: "16".into(),
            import: String::new(),
            declare: String::new(),
            realloc: BUMP.into(),
            describe: format!("(i32.const {DESCRIPTOR})"),
            init: format!("(i32.const {READINESS})"),
            decide: String::new(),
            post: String::new(),
            text: Vec::new(),
            uses: 3,
            round: None,
            on_events: true,
            plans: Vec::new(),
        }
    }
}

/// A bump allocator; `decide` starts it anew.
pub const BUMP: &str = "
    (global.set $heap (i32.and
        (i32.add (global.get $heap) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.get $heap)
    (global.set $heap (i32.add (global.get $heap) (local.get $size)))";

/// An evil `cabi_realloc` that behaves until `init` has been called.
pub fn once_ready(evil: &str) -> String {
    format!("(if (global.get $ready) (then {evil})) {BUMP}")
}

/// A body that does `action` and then answers as `decide` usually does.
pub fn then_decide(action: &str) -> String {
    format!("{action}\n{ANSWER_PLAN}")
}

/// `base` is the batch's; the actions are those of `Parts::plans`.
pub const ANSWER_PLAN: &str = "
    (i64.store (i32.const 1160) (local.get $seq))
    (i64.store (i32.const 1168) (if (result i64) (i64.le_u (local.get $seq) (global.get $plans))
        (then (i64.load (i32.add (i32.const 8184) (i32.shl (i32.wrap_i64 (local.get $seq)) (i32.const 3)))))
        (else (i64.const 0))))
    (i32.const 1152)";

/// A plan whose list of actions is this.
pub fn raw_plan(pointer: u32, count: u32) -> String {
    format!(
        "(i64.store (i32.const 1160) (local.get $seq)) (i32.store (i32.const 1168) (i32.const {pointer}))
         (i32.store (i32.const 1172) (i32.const {count})) (i32.const {PLAN})"
    )
}

/// Answers with an error: its case, and a text of so many bytes.
pub fn refuse(result: usize, case: u8, pointer: usize, length: usize) -> String {
    format!(
        "(i32.store8 (i32.const {result}) (i32.const 1)) (i32.store8 (i32.const {}) (i32.const {case}))
         (i32.store (i32.const {}) (i32.const {pointer})) (i32.store (i32.const {}) (i32.const {length}))
         (i32.const {result})",
        result + 8,
        result + 12,
        result + 16
    )
}

/// A body that never ends.
pub fn endless(action: &str) -> String {
    format!("(loop $again {action} (br $again)) (unreachable)")
}

fn data(at: usize, bytes: &[u8]) -> String {
    let escaped: String = bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "\\{byte:02x}");
        text
    });
    format!("(data (i32.const {at}) \"{escaped}\")\n")
}

/// The table of (pointer, length) by call, then the actions, then their lists of GPUs.
fn encode_plans(plans: &[Vec<Act>]) -> Vec<u8> {
    let actions: usize = plans.iter().map(Vec::len).sum();
    let (mut table, mut rows, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    let first_row = PLANS + plans.len() * 8;
    let first_list = first_row + actions * ACTION;
    for plan in plans {
        table.extend(((first_row + rows.len()) as u32).to_le_bytes());
        table.extend((plan.len() as u32).to_le_bytes());
        for action in plan {
            let mut row = [0; ACTION];
            let mut put = |at: usize, bytes: &[u8]| row[at..at + bytes.len()].copy_from_slice(bytes);
            match action {
                Act::Start(job, gpus) => {
                    put(8, &job.to_le_bytes());
                    put(12, &((first_list + lists.len()) as u32).to_le_bytes());
                    put(16, &(gpus.len() as u32).to_le_bytes());
                    lists.extend(gpus.iter().flat_map(|gpu| gpu.to_le_bytes()));
                }
                Act::Preempt(job) => {
                    put(0, &[1]);
                    put(8, &job.to_le_bytes());
                }
                Act::SetTimer(token, at) => {
                    put(0, &[2]);
                    put(8, &token.to_le_bytes());
                    put(16, &at.to_le_bytes());
                }
                Act::CancelTimer(token) => {
                    put(0, &[3]);
                    put(8, &token.to_le_bytes());
                }
            }
            rows.extend(row);
        }
    }
    let bytes = [table, rows, lists].concat();
    assert!(PLANS + bytes.len() <= HEAP, "the plans reach into the heap");
    bytes
}

/// The guest's core module as text.
pub fn module(parts: &Parts) -> String {
    const NAME: &str = "sandtable:policy";
    let strings = [("guest", 0), ("1", 8), ("A guest of the tests.", 16), ("{}", 40)];
    let mut descriptor = Vec::new();
    for (at, (text, offset)) in strings.iter().enumerate() {
        if at == 3 {
            descriptor.extend(parts.uses.to_le_bytes());
            descriptor.extend([0, 0]);
        }
        descriptor.extend(((STRINGS + offset) as u32).to_le_bytes());
        descriptor.extend((text.len() as u32).to_le_bytes());
    }
    let mut readiness = vec![0; 40];
    readiness[32..34].fill(0xff);
    readiness[8] = u8::from(parts.round.is_some());
    readiness[16..24].copy_from_slice(&parts.round.unwrap_or_default().to_le_bytes());
    readiness[24] = u8::from(parts.on_events);
    let mut segments = data(DESCRIPTOR, &descriptor) + &data(READINESS, &readiness) + &data(TEXT, &parts.text);
    segments += &data(PLANS, &encode_plans(&parts.plans));
    for (text, offset) in strings {
        segments += &data(STRINGS + offset, text.as_bytes());
    }
    let Parts { memory, import, declare, realloc, describe, init, decide, post, .. } = parts;
    let decide = if decide.is_empty() { ANSWER_PLAN } else { decide };
    format!(
        r#"(module
  (import "{NAME}/cluster@0.2.0" "now" (func $now (result i64)))
  (import "{NAME}/cluster@0.2.0" "free-gpus" (func $free (param i32)))
  (import "{NAME}/cluster@0.2.0" "occupancy" (func $occupancy (param i32)))
  (import "{NAME}/cluster@0.2.0" "cpu-jobs" (func $idle (param i32)))
  (import "{NAME}/cluster@0.2.0" "check" (func $check (param i32 i32 i32)))
  (import "{NAME}/cluster@0.2.0" "speeds" (func $speeds (param i32 i32 i32)))
  (import "{NAME}/cluster@0.2.0" "progress" (func $progress (param i32 i32 i32)))
  (import "{NAME}/cluster@0.2.0" "part-slices" (func $slices (param i32 i32 i32)))
  (import "{NAME}/cluster@0.2.0" "rejections" (func $rejections (param i32)))
  (import "{NAME}/introductions@0.2.0" "classes" (func $classes (param i32)))
  (import "{NAME}/introductions@0.2.0" "workloads" (func $workloads (param i32)))
  (import "{NAME}/introductions@0.2.0" "users" (func $users (param i32)))
  (import "{NAME}/introductions@0.2.0" "samples" (func $samples (param i32)))
  (import "{NAME}/introductions@0.2.0" "attained" (func $attained (param i32)))
  (import "{NAME}/predictor@0.2.0" "similarity" (func $similarity (param i32 i32 i32 i32 i32 i32)))
  (import "{NAME}/predictor@0.2.0" "pair-speed" (func $pairs (param i32 i32 i32 i32 i32 i32)))
  (import "{NAME}/predictor@0.2.0" "estimate" (func $estimate (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "{NAME}/predictor@0.2.0" "epochs" (func $epochs (param i32 i32 i32 i32)))
  (import "{NAME}/log@0.2.0" "write" (func $write (param i32 i32 i32)))
  (import "{NAME}/log@0.2.0" "panic" (func $panic (param i32 i32)))
  {import}
  (memory $memory (export "memory") {memory})
  (global $heap (mut i32) (i32.const {HEAP}))
  (global $ready (mut i32) (i32.const 0))
  (global $i (mut i32) (i32.const 0))
  (global $plans i64 (i64.const {plans}))
  (func $realloc (export "cabi_realloc")
    (param $old i32) (param $was i32) (param $align i32) (param $size i32) (result i32) {realloc})
  (func $describe (export "{NAME}/scheduler@0.2.0#describe") (result i32) {describe})
  (func $init (export "{NAME}/scheduler@0.2.0#init")
    (param i32) (result i32)
    (global.set $ready (i32.const 1)) {init})
  (func $decide (export "{NAME}/scheduler@0.2.0#decide")
    (param $seq i64) (param $now i64) (param $trigger i32) (param $fresh i32) (param $events i32) (param $count i32)
    (result i32)
    (global.set $heap (i32.const {HEAP})) {decide})
  (func $post (export "cabi_post_{NAME}/scheduler@0.2.0#decide") (param i32) {post})
  {declare}
  {segments})"#,
        plans = parts.plans.len(),
    )
}

/// The contract.
pub fn contract() -> (Resolve, wit_parser::PackageId) {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit")).expect("the contract");
    (resolve, package)
}

/// A component of a core module and a world.
pub fn component(wat: &str, resolve: &Resolve, world: WorldId) -> Vec<u8> {
    let mut module = wat::parse_str(wat).unwrap_or_else(|error| panic!("{error}\n{wat}"));
    embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8).expect("metadata");
    let mut encoder = ComponentEncoder::default();
    encoder.validate(false).module(&module).expect("a module").encode().expect("a component")
}

/// The component of these parts.
pub fn guest(parts: &Parts) -> Vec<u8> {
    let (resolve, package) = contract();
    let world = resolve.select_world(&[package], Some("policy")).expect("the world");
    component(&module(parts), &resolve, world)
}

/// A component of a world that includes ours and adds something.
pub fn guest_of_larger_world(addition: &str, parts: &Parts) -> Vec<u8> {
    let (mut resolve, _) = contract();
    let text = format!("package test:larger; world larger {{ include sandtable:policy/policy@0.2.0; {addition} }}");
    let _ =
        resolve.push_str("other.wit", "package foo:bar@1.0.0; interface baz { f: func(); }").expect("another package");
    let package = resolve.push_str("larger.wit", &text).expect("a larger world");
    let world = resolve.select_world(&[package], Some("larger")).expect("the world");
    component(&module(parts), &resolve, world)
}

/// An unsigned number as WebAssembly writes it.
pub fn leb(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 127 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
