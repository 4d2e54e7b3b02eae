//! One predictor, alive in one store of its own: a fault of it ends the run, but never blames the policy.

use wasmtime::Store;

use super::bindings::predictor::PredictorComponent as Interface;
use super::bindings::predictor::exports::sandtable::policy::provider as wit;
use super::component::PredictorComponent;
use super::imports::Guest;
use super::instance::{Live, described};
use super::names::PROVIDER;
use super::unwrapped::Export;
use crate::Provider;
use crate::contract::{GpuType, PolicyError, ProviderDescriptor, Quantities, SoloQuantity, Sources, WorkloadProfile};
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

type List = (u32, u32);

/// The functions of a predictor, through wasmtime's component layer or directly.
enum Exports {
    Component(Interface),
    Core(Box<Core>),
}

/// The parameters of `init`: texts and lists are an address and a length each.
type InitParameters = (u32, u32, u64, u32, u32, u32, u32);

/// A predictor whose core module is called directly, its parameters as the canonical ABI flattens them.
struct Core {
    describe: Export<(), u32>,
    init: Export<InitParameters, u32>,
    introduce: Export<List, ()>,
    estimate: Export<(u32, u32, u32, u32), u32>,
    similarity: Export<(u32, u32, u32, u32, u32), u32>,
    pair_speed: Export<(u32, u32, u32, u32, u32), u32>,
}

impl Exports {
    fn new(component: &PredictorComponent, store: &mut Store<Guest>) -> wasmtime::Result<Exports> {
        let Some(unwrapped) = &component.unwrapped else {
            return component.pre.instantiate(store).map(Exports::Component);
        };
        let made = unwrapped.instantiate(store)?;
        Ok(Exports::Core(Box::new(Core {
            describe: made.find(store, PROVIDER, "describe")?,
            init: made.find(store, PROVIDER, "init")?,
            introduce: made.find(store, PROVIDER, "introduce")?,
            estimate: made.find(store, PROVIDER, "estimate")?,
            similarity: made.find(store, PROVIDER, "similarity")?,
            pair_speed: made.find(store, PROVIDER, "pair-speed")?,
        })))
    }

    fn describe(&self, store: &mut Store<Guest>) -> wasmtime::Result<ProviderDescriptor> {
        match self {
            Exports::Component(predictor) => predictor.sandtable_policy_provider().call_describe(store).map(descriptor),
            Exports::Core(core) => core.describe.call(store, |_| Ok(())),
        }
    }

    fn init(&self, store: &mut Store<Guest>, setup: &ProviderSetup) -> wasmtime::Result<Result<(), PolicyError>> {
        match self {
            Exports::Component(predictor) => {
                let ProviderSetup { config, seed, gpu_types, weights } = setup.clone();
                let setup = wit::Setup { config, seed, gpu_types, weights };
                predictor.sandtable_policy_provider().call_init(store, &setup)
            }
            Exports::Core(core) => core.init.call(store, |to| {
                let (config, gpu_types): (List, List) = (to.text(&setup.config)?, to.list(&setup.gpu_types)?);
                let weights: List = to.list(&setup.weights)?;
                Ok((config.0, config.1, setup.seed, gpu_types.0, gpu_types.1, weights.0, weights.1))
            }),
        }
    }

    fn introduce(&self, store: &mut Store<Guest>, profiles: &[WorkloadProfile]) -> wasmtime::Result<()> {
        match self {
            Exports::Component(predictor) => predictor.sandtable_policy_provider().call_introduce(store, profiles),
            Exports::Core(core) => core.introduce.call_without_answer(store, |to| to.list(profiles)),
        }
    }

    fn estimate(
        &self,
        store: &mut Store<Guest>,
        what: SoloQuantity,
        gpu_type: u32,
        workloads: &[u32],
    ) -> wasmtime::Result<Vec<f64>> {
        match self {
            Exports::Component(predictor) => {
                let what = match what {
                    SoloQuantity::Utilisation => wit::SoloQuantity::Utilisation,
                    SoloQuantity::Memory => wit::SoloQuantity::Memory,
                };
                predictor.sandtable_policy_provider().call_estimate(store, what, gpu_type, workloads)
            }
            Exports::Core(core) => core.estimate.call(store, |to| {
                let (address, count) = to.list(workloads)?;
                Ok((what as u32, gpu_type, address, count))
            }),
        }
    }

    fn similarity(
        &self,
        store: &mut Store<Guest>,
        gpu_type: u32,
        first: &[u32],
        second: &[u32],
    ) -> wasmtime::Result<Vec<f64>> {
        match self {
            Exports::Component(predictor) => {
                predictor.sandtable_policy_provider().call_similarity(store, gpu_type, first, second)
            }
            Exports::Core(core) => core.similarity.call(store, |to| {
                let (first, second): (List, List) = (to.list(first)?, to.list(second)?);
                Ok((gpu_type, first.0, first.1, second.0, second.1))
            }),
        }
    }

    fn pair_speed(
        &self,
        store: &mut Store<Guest>,
        gpu_type: u32,
        job: &[u32],
        residents: &[Vec<u32>],
    ) -> wasmtime::Result<Vec<f64>> {
        match self {
            Exports::Component(predictor) => {
                predictor.sandtable_policy_provider().call_pair_speed(store, gpu_type, job, residents)
            }
            Exports::Core(core) => core.pair_speed.call(store, |to| {
                let (job, residents): (List, List) = (to.list(job)?, to.list(residents)?);
                Ok((gpu_type, job.0, job.1, residents.0, residents.1))
            }),
        }
    }
}

fn descriptor(said: wit::Descriptor) -> ProviderDescriptor {
    let wit::Descriptor { name, version, about, answers, reads, needs_weights, config_schema } = said;
    let (answers, reads) = (quantities(answers), sources(reads));
    ProviderDescriptor { name, version, about, answers, reads, needs_weights, config_schema }
}

/// A predictor component in a store of its own.
pub struct SandboxedProvider {
    live: Live<Exports>,
}

impl SandboxedProvider {
    /// Brings a predictor to life.
    ///
    /// # Errors
    /// A fault of its start function or of the sizes that it begins with.
    pub fn new(component: &PredictorComponent, limits: Limits) -> Result<SandboxedProvider, Fault> {
        let live = Live::new(component.pre.engine(), component.turns, limits, |store| Exports::new(component, store))?;
        Ok(SandboxedProvider { live })
    }

    /// What it says about itself.
    ///
    /// # Errors
    /// Any fault ends the predictor.
    pub fn describe(&mut self) -> Result<ProviderDescriptor, Fault> {
        let fuel = self.live.limits.start_fuel;
        let said = self.live.call(Place::Describe, fuel, Exports::describe)?;
        let ProviderDescriptor { name, version, about, config_schema, .. } = &said;
        described([("name", name), ("version", version), ("about", about), ("config-schema", config_schema)])?;
        let [name, version, about] = [name, version, about].map(|text| escape_control_chars(text, Limits::TEXT));
        Ok(ProviderDescriptor { name, version, about, ..said })
    }

    /// Hands over weights and parameters.
    ///
    /// # Errors
    /// [`Fault::Refused`] where the predictor does not accept them; any fault ends the predictor.
    pub fn init(&mut self, setup: &ProviderSetup) -> Result<(), Fault> {
        let fuel = self.live.limits.init_fuel;
        self.live
            .call(Place::Init, fuel, |bound, store| bound.init(store, setup))?
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
        self.live.call(Place::Predict, fuel, |bound, store| bound.introduce(store, profiles))
    }

    fn estimate(&mut self, what: SoloQuantity, gpu_type: TypeId, workloads: &[u32]) -> Result<Vec<f64>, Fault> {
        let fuel = self.live.limits.decide_fuel;
        let gpu_type = gpu_type.number();
        self.live.call(Place::Predict, fuel, |bound, store| bound.estimate(store, what, gpu_type, workloads))
    }

    fn similarity(&mut self, gpu_type: TypeId, first: &[u32], second: &[u32]) -> Result<Vec<f64>, Fault> {
        let fuel = self.live.limits.decide_fuel;
        let gpu_type = gpu_type.number();
        self.live.call(Place::Predict, fuel, |bound, store| bound.similarity(store, gpu_type, first, second))
    }

    fn pair_speed(&mut self, gpu_type: TypeId, job: &[u32], residents: &[Vec<u32>]) -> Result<Vec<f64>, Fault> {
        let fuel = self.live.limits.decide_fuel;
        let gpu_type = gpu_type.number();
        self.live.call(Place::Predict, fuel, |bound, store| bound.pair_speed(store, gpu_type, job, residents))
    }

    fn spent(&mut self) -> u64 {
        self.live.spent()
    }
}
