//! Guests that are asked why jobs wait: directly and through the component layer they say the same, or fail in the same way.

use sandtable_runtime::contract::{Batch, Descriptor, Plan, Readiness, Reason, Setup};
use sandtable_runtime::fault::{Fault, LoadFault, Place};
use sandtable_runtime::sandbox::{Sandbox, Sandboxed};
use sandtable_runtime::{DecisionContext, Policy};
use wit_parser::Resolve;

use crate::guest::{ANSWER, Parts, TEXT, component, endless, guest, guest_of_larger_world, module};
use crate::simulate::{LAYERED, SANDBOX, inputs, limits, simulate};

/// A policy that is asked about jobs 0 and 1 after its first decision.
struct Asked {
    policy: Sandboxed,
    said: Option<Result<Option<Vec<Reason>>, Fault>>,
}

impl Policy for Asked {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        self.policy.describe()
    }

    fn init(&mut self, setup: &Setup) -> Result<Readiness, Fault> {
        self.policy.init(setup)
    }

    fn decide(&mut self, batch: &Batch, world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        let (world, plan) = self.policy.decide(batch, world);
        plan.as_ref().expect("it decides nothing");
        let (world, said) = self.policy.explain(&[0, 1], world);
        self.said = Some(said);
        (world, Err(Fault::Host("enough".into())))
    }
}

fn asked_in(sandbox: &Sandbox, bytes: &[u8]) -> Result<Option<Vec<Reason>>, Fault> {
    let policy = Sandboxed::new(&sandbox.load(bytes)?, limits()).expect("alive");
    let mut asked = Asked { policy, said: None };
    simulate(&mut asked, inputs(limits()));
    asked.said.expect("it was asked")
}

/// What a guest with this `explain` says; both ways the same.
fn asked(body: &str, text: &[u8]) -> Result<Option<Vec<Reason>>, Fault> {
    let explain = format!(
        "(func (export \"sandtable:policy/advice@0.2.0#explain\") (param $jobs i32) (param $count i32) (result i32) {body})"
    );
    let parts = Parts { declare: explain, text: text.to_vec(), ..Parts::default() };
    let bytes = guest_of_larger_world("export sandtable:policy/advice@0.2.0;", &parts);
    let [direct, layered] = [&*SANDBOX, &*LAYERED].map(|sandbox| asked_in(sandbox, &bytes));
    let kind = |said: &Result<Option<Vec<Reason>>, Fault>| said.as_ref().map_err(Fault::kind).cloned();
    assert_eq!(kind(&direct), kind(&layered));
    direct
}

/// Answers with so many of the reasons at `TEXT`, 12 bytes each.
fn answer(count: u32) -> String {
    format!(
        "(i32.store (i32.const {ANSWER}) (i32.const {TEXT})) (i32.store (i32.const {}) (i32.const {count})) (i32.const {ANSWER})",
        ANSWER + 4
    )
}

#[test]
fn what_a_guest_says_of_jobs_arrives_and_misbehaviour_has_its_fault() {
    // No free GPUs; behind job 1.
    let two = [[0u8; 12], [3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(asked(&answer(2), &two), Ok(Some(vec![Reason::NoFreeGpus, Reason::Behind(1)])));
    let queried = format!("(call $free (i32.const 1400)) {}", answer(2));
    assert_eq!(asked(&queried, &two).map(|said| said.map(|said| said.len())), Ok(Some(2)), "the cluster answers");
    let fault = |body: &str, text: &[u8]| asked(body, text).expect_err("a fault");
    let few = fault(&answer(1), &two);
    assert_eq!(few.to_string(), "broke the contract in explain: it gives 1 reasons, expected 2");
    assert!(matches!(fault(&answer(2), &[9; 24]), Fault::BadValue { place: Place::Explain, .. }));
    assert!(matches!(fault("(unreachable)", &[]), Fault::Trap { place: Place::Explain, .. }));
    assert!(matches!(fault(&endless(""), &[]), Fault::OutOfFuel { place: Place::Explain, .. }));
    // One that does not say.
    assert_eq!(asked_in(&SANDBOX, &guest(&Parts::default())), Ok(None));
}

#[test]
fn another_type_of_the_function_is_another_world() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit/policy.wit")).expect("the contract");
    let own = "explain: func(jobs: list<job-id>) -> list<reason>;";
    assert!(text.contains(own));
    let mut resolve = Resolve::default();
    let package = resolve.push_str("other.wit", &text.replace(own, "explain: func() -> u32;")).expect("a contract");
    let world = resolve.select_world(&[package], Some("advising-policy")).expect("the world");
    let explain = "(func (export \"sandtable:policy/advice@0.2.0#explain\") (result i32) (i32.const 7))";
    let bytes = component(&module(&Parts { declare: explain.into(), ..Parts::default() }), &resolve, world);
    let loaded = SANDBOX.load(&bytes).map(drop);
    assert!(matches!(loaded, Err(Fault::Load(LoadFault::WrongWorld(_)))), "{loaded:?}");
    let alive = LAYERED.load(&bytes).and_then(|component| Sandboxed::new(&component, limits()).map(drop));
    assert!(matches!(alive, Err(Fault::Load(LoadFault::WrongWorld(_)))), "{alive:?}");
}
