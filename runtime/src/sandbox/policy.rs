//! The three functions of a policy, through wasmtime's component layer or directly.

use wasmtime::Store;

use super::advice::{Advice, advice};
use super::bindings::{self, PolicyIndices};
use super::component::Component;
use super::imports::Guest;
use super::names::{ADVICE, SCHEDULER};
use super::unwrapped::Export;
use crate::contract::{Batch, Descriptor, JobId, Plan, PolicyError, Readiness, Reason, Setup};

type List = (u32, u32);

/// A policy in a store.
pub(super) enum Exports {
    Component(bindings::Policy, Option<Advice>),
    Core(Box<Core>),
}

type DecideParameters = (u64, u64, u32, u32, u32, u32);

/// A policy whose core module is called directly, its parameters as the canonical ABI flattens them.
pub(super) struct Core {
    describe: Export<(), u32>,
    /// More than 16 parameters are one address of them all.
    init: Export<u32, u32>,
    decide: Export<DecideParameters, u32>,
    explain: Option<Export<List, u32>>,
}

impl Exports {
    pub(super) fn new(component: &Component, store: &mut Store<Guest>) -> wasmtime::Result<Exports> {
        let Some(unwrapped) = &component.unwrapped else {
            let instance = component.pre.instance_pre().instantiate(&mut *store)?;
            let policy = PolicyIndices::new(component.pre.instance_pre())?.load(&mut *store, &instance)?;
            return Ok(Exports::Component(policy, advice(store, &instance)?));
        };
        let made = unwrapped.instantiate(store)?;
        Ok(Exports::Core(Box::new(Core {
            describe: made.find(store, SCHEDULER, "describe")?,
            init: made.find(store, SCHEDULER, "init")?,
            decide: made.find(store, SCHEDULER, "decide")?,
            explain: made.has(ADVICE).then(|| made.find(store, ADVICE, "explain")).transpose()?,
        })))
    }

    pub(super) fn describe(&self, store: &mut Store<Guest>) -> wasmtime::Result<Descriptor> {
        match self {
            Exports::Component(policy, _) => policy.sandtable_policy_scheduler().call_describe(store),
            Exports::Core(core) => core.describe.call(store, |_| Ok(())),
        }
    }

    pub(super) fn init(
        &self,
        store: &mut Store<Guest>,
        setup: &Setup,
    ) -> wasmtime::Result<Result<Readiness, PolicyError>> {
        let core = match self {
            Exports::Component(policy, _) => return policy.sandtable_policy_scheduler().call_init(store, setup),
            Exports::Core(core) => core,
        };
        core.init.call(store, |to| Ok(to.list(std::slice::from_ref(setup))?.0))
    }

    pub(super) fn decide(
        &self,
        store: &mut Store<Guest>,
        batch: &Batch,
    ) -> wasmtime::Result<Result<Plan, PolicyError>> {
        let core = match self {
            Exports::Component(policy, _) => return policy.sandtable_policy_scheduler().call_decide(store, batch),
            Exports::Core(core) => core,
        };
        core.decide.call(store, |to| {
            let Batch { seq, now, trigger, fresh, events } = batch;
            let events: List = to.list(events)?;
            Ok((*seq, *now, *trigger as u32, fresh.bits().into(), events.0, events.1))
        })
    }

    /// None: it does not say why jobs wait.
    pub(super) fn explain(&self, store: &mut Store<Guest>, jobs: &[JobId]) -> wasmtime::Result<Option<Vec<Reason>>> {
        match self {
            Exports::Component(_, Some(explain)) => {
                let (reasons,) = explain.call(&mut *store, (jobs.to_vec(),))?;
                Ok(Some(reasons))
            }
            Exports::Core(core) => match &core.explain {
                Some(explain) => explain.call(store, |to| to.list(jobs)).map(Some),
                None => Ok(None),
            },
            Exports::Component(_, None) => Ok(None),
        }
    }
}
