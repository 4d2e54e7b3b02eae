//! One predictor, alive in one store of its own: a fault of it ends the run, but never blames the policy.

use wasmtime::Store;

use super::bindings::predictor::PredictorComponent as Bound;
use super::bindings::predictor::exports::sandtable::policy::provider as wit;
use super::component::PredictorComponent;
use super::imports::Guest;
use super::instance::{Live, described};
use crate::Provider;
use crate::contract::{GpuType, ProviderDescriptor, Quantities, SoloQuantity, Sources, WorkloadProfile};
use crate::fault::{Fault, Place};
use crate::limits::Limits;
use sandtable_hardware::TypeId;
use sandtable_hardware::text::escape_control_chars;

/// What a predictor is given before its first question.
#[derive(Clone, Debug)]
pub struct ProviderSetup {
    /// A JSON object, canonical.
    pub config: String,
    /// All its randomness.
    pub seed: u64,
    /// The fleet's types of GPU.
    pub gpu_types: Vec<GpuType>,
    /// The file that the spec names; empty: none.
    pub weights: Vec<u8>,
}

/// A predictor component in a store of its own.
pub struct SandboxedProvider {
    live: Live<Bound>,
}

impl SandboxedProvider {
    /// Brings a predictor to life.
    ///
    /// # Errors
    /// A fault of its start function or of the sizes that it begins with.
    pub fn new(component: &PredictorComponent, limits: Limits) -> Result<SandboxedProvider, Fault> {
        let live =
            Live::new(component.pre.engine(), component.turns, limits, |store| component.pre.instantiate(store))?;
        Ok(SandboxedProvider { live })
    }

    /// What it says about itself.
    ///
    /// # Errors
    /// Any fault ends the predictor.
    pub fn describe(&mut self) -> Result<ProviderDescriptor, Fault> {
        let fuel = self.live.limits.start_fuel;
        let describe = |bound: &Bound, store: &mut Store<Guest>| bound.sandtable_policy_provider().call_describe(store);
        let said = self.live.call(Place::Describe, fuel, describe)?;
        let wit::Descriptor { name, version, about, answers, reads, needs_weights, config_schema } = said;
        described([("name", &name), ("version", &version), ("about", &about), ("config-schema", &config_schema)])?;
        let [name, version, about] = [&name, &version, &about].map(|text| escape_control_chars(text, Limits::TEXT));
        let (answers, reads) = (quantities(answers), sources(reads));
        Ok(ProviderDescriptor { name, version, about, answers, reads, needs_weights, config_schema })
    }

    /// Hands over weights and parameters.
    ///
    /// # Errors
    /// [`Fault::Refused`] where the predictor does not accept them; any fault ends the predictor.
    pub fn init(&mut self, setup: &ProviderSetup) -> Result<(), Fault> {
        let fuel = self.live.limits.init_fuel;
        let setup = wit::Setup {
            config: setup.config.clone(),
            seed: setup.seed,
            gpu_types: setup.gpu_types.clone(),
            weights: setup.weights.clone(),
        };
        self.live
            .call(Place::Init, fuel, |bound, store| bound.sandtable_policy_provider().call_init(store, &setup))?
            .map_err(|error| self.live.refused(Place::Init, error))?;
        // It has not been asked anything yet.
        self.live.spent();
        Ok(())
    }
}

fn quantities(said: wit::Quantities) -> Quantities {
    [
        (wit::Quantities::SIMILARITY, Quantities::SIMILARITY),
        (wit::Quantities::PAIR_SPEED, Quantities::PAIR_SPEED),
        (wit::Quantities::UTILISATION, Quantities::UTILISATION),
        (wit::Quantities::MEMORY, Quantities::MEMORY),
    ]
    .into_iter()
    .filter(|(flag, _)| said.contains(*flag))
    .fold(Quantities::empty(), |all, (_, own)| all | own)
}

fn sources(said: wit::Sources) -> Sources {
    [(wit::Sources::SOLO_PROFILE, Sources::SOLO_PROFILE), (wit::Sources::MODEL_FACTS, Sources::MODEL_FACTS)]
        .into_iter()
        .filter(|(flag, _)| said.contains(*flag))
        .fold(Sources::empty(), |all, (_, own)| all | own)
}

impl Provider for SandboxedProvider {
    fn introduce(&mut self, profiles: &[WorkloadProfile]) -> Result<(), Fault> {
        let fuel = self.live.limits.decide_fuel;
        self.live.call(Place::Predict, fuel, |bound, store| {
            bound.sandtable_policy_provider().call_introduce(store, profiles)
        })
    }

    fn estimate(&mut self, what: SoloQuantity, gpu_type: TypeId, workloads: &[u32]) -> Result<Vec<f64>, Fault> {
        let fuel = self.live.limits.decide_fuel;
        let what = match what {
            SoloQuantity::Utilisation => wit::SoloQuantity::Utilisation,
            SoloQuantity::Memory => wit::SoloQuantity::Memory,
        };
        self.live.call(Place::Predict, fuel, |bound, store| {
            bound.sandtable_policy_provider().call_estimate(store, what, gpu_type.number(), workloads)
        })
    }

    fn similarity(&mut self, gpu_type: TypeId, first: &[u32], second: &[u32]) -> Result<Vec<f64>, Fault> {
        let fuel = self.live.limits.decide_fuel;
        self.live.call(Place::Predict, fuel, |bound, store| {
            bound.sandtable_policy_provider().call_similarity(store, gpu_type.number(), first, second)
        })
    }

    fn pair_speed(&mut self, gpu_type: TypeId, job: &[u32], residents: &[Vec<u32>]) -> Result<Vec<f64>, Fault> {
        let fuel = self.live.limits.decide_fuel;
        self.live.call(Place::Predict, fuel, |bound, store| {
            bound.sandtable_policy_provider().call_pair_speed(store, gpu_type.number(), job, residents)
        })
    }

    fn spent(&mut self) -> u64 {
        self.live.spent()
    }
}
