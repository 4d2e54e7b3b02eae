//! A sandboxed policy whose calls are observed: what it was told, what it answered, what that cost.

use sandtable_runtime::answers::ImportAnswers;
use sandtable_runtime::contract::{Batch, Cadence, Descriptor, Plan, Readiness, Rejection, Setup};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::sandbox::Sandboxed;
use sandtable_runtime::{DecisionContext, Policy};

/// A call that was answered.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// What the policy was told.
    pub batch: &'a Batch,
    /// Why actions of its plan before were refused.
    pub rejections: &'a [Rejection],
    /// What it answered.
    pub plan: &'a Plan,
}

/// A sandboxed policy, watched.
pub struct ObservedPolicy<F> {
    policy: Sandboxed,
    seen: F,
    fuel: u64,
    /// When it is to be called, as it answered `init`.
    pub cadence: Option<Cadence>,
    /// Calls of `decide` that were answered.
    pub calls: u64,
    /// Fuel of the dearest of them.
    pub most_fuel: u64,
}

impl<F: FnMut(&Call<'_>) -> bool> ObservedPolicy<F> {
    /// Has `seen` told of every call that is answered; `false` ends the run there, by a fault of the host.
    pub fn new(policy: Sandboxed, seen: F) -> ObservedPolicy<F> {
        ObservedPolicy { policy, seen, fuel: 0, cadence: None, calls: 0, most_fuel: 0 }
    }

    /// Fuel that all of them used.
    pub fn fuel_used(&self) -> u64 {
        self.fuel
    }

    /// Bytes of linear memory that the policy has.
    pub fn memory(&self) -> usize {
        self.policy.memory()
    }
}

impl<F: FnMut(&Call<'_>) -> bool> Policy for ObservedPolicy<F> {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        self.policy.describe()
    }

    fn init(&mut self, setup: &Setup) -> Result<Readiness, Fault> {
        let readiness = self.policy.init(setup)?;
        self.cadence = Some(readiness.cadence);
        Ok(readiness)
    }

    fn decide(&mut self, batch: &Batch, world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        let (world, plan) = self.policy.decide(batch, world);
        if let Ok(plan) = &plan {
            let used = self.policy.fuel_used();
            self.most_fuel = self.most_fuel.max(used - self.fuel);
            (self.fuel, self.calls) = (used, self.calls + 1);
            if !(self.seen)(&Call { batch, rejections: &world.rejections, plan }) {
                return (world, Err(Fault::Host("enough was seen".into())));
            }
        }
        (world, plan)
    }

    fn record(&mut self, room: usize) {
        self.policy.record(room);
    }

    fn recorded(&mut self) -> Option<ImportAnswers> {
        self.policy.recorded()
    }
}
