//! The SDK for predictors in Rust: a type that implements [`Predictor`] and one line,
//! `sandtable_policy::export_predictor!(Type)`.

use crate::config::{self, Config, Param};
use crate::{GpuType, GpuTypeId, PolicyError, WorkloadProfile};

#[expect(missing_docs, reason = "generated")]
pub mod bindings {
    //! Generated from `wit/policy.wit`: the other world, with the types of the first.
    wit_bindgen::generate!({
        world: "predictor-component",
        path: "wit",
        with: {
            "sandtable:policy/types@0.2.0": crate::bindings::sandtable::policy::types,
            "sandtable:policy/log@0.2.0": crate::bindings::sandtable::policy::log,
        },
        pub_export_macro: true,
        export_macro_name: "export_predictor_bindings",
        default_bindings_module: "sandtable_policy::predictor::bindings",
    });
}

pub use bindings::exports::sandtable::policy::provider::{Descriptor, Quantities, Setup, SoloQuantity, Sources};

/// What a predictor says about itself.
pub struct About {
    /// The name of the component's file.
    pub name: &'static str,
    /// One line for people; names the source of a published model.
    pub about: &'static str,
    /// What it answers for.
    pub answers: Quantities,
    /// What of a workload it reads; it is shown nothing else.
    pub reads: Sources,
    /// Whether it can't do without weights.
    pub needs_weights: bool,
    /// Every parameter.
    pub params: &'static [Param],
}

/// A predictor. Its answers depend on its weights, its parameters and the question alone.
pub trait Predictor: Sized + 'static {
    /// What the predictor says about itself; always the same.
    fn about() -> About;

    /// A predictor ready for its first question. The configuration has been checked.
    ///
    /// # Errors
    /// `BadConfig` where weights or parameters can't be used.
    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError>;

    /// Progress of a workload beside residents over its progress alone, 0 to 1; NaN: unknown.
    fn pair_speed(&self, _: &GpuType, _: &WorkloadProfile, _: &[&WorkloadProfile]) -> f64 {
        f64::NAN
    }

    /// A quantity of a workload alone, in its unit; NaN: unknown.
    fn estimate(&self, _: SoloQuantity, _: &GpuType, _: &WorkloadProfile) -> f64 {
        f64::NAN
    }

    /// How likely two workloads are to contend: what sharing costs both on average, unless the model says otherwise.
    fn similarity(&self, gpu_type: &GpuType, first: &WorkloadProfile, second: &WorkloadProfile) -> f64 {
        1.0 - (self.pair_speed(gpu_type, first, &[second]) + self.pair_speed(gpu_type, second, &[first])) / 2.0
    }
}

/// A predictor with the workloads that it has been introduced to.
pub struct Answering<P> {
    predictor: P,
    gpu_types: Vec<GpuType>,
    profiles: Vec<WorkloadProfile>,
}

/// The descriptor of a predictor.
pub fn describe<P: Predictor>(version: &str) -> Descriptor {
    let about = P::about();
    Descriptor {
        name: about.name.into(),
        version: version.into(),
        about: about.about.into(),
        answers: about.answers,
        reads: about.reads,
        needs_weights: about.needs_weights,
        config_schema: config::schema(about.params),
    }
}

impl<P: Predictor> Answering<P> {
    /// Checks the configuration and makes the predictor.
    ///
    /// # Errors
    /// Those of [`Predictor::new`], and missing weights.
    pub fn new(setup: Setup) -> Result<Self, PolicyError> {
        let about = P::about();
        if about.needs_weights && setup.weights.is_empty() {
            let name = about.name;
            return Err(PolicyError::BadConfig(format!("{name} needs weights, none are given")));
        }
        let config = Config::parse(&setup.config, about.params).map_err(PolicyError::BadConfig)?;
        let predictor = P::new(&config, &setup)?;
        Ok(Answering { predictor, gpu_types: setup.gpu_types, profiles: Vec::new() })
    }

    /// More workloads.
    pub fn introduce(&mut self, profiles: Vec<WorkloadProfile>) {
        self.profiles.extend(profiles);
    }

    /// Answers.
    pub fn estimate(&self, what: SoloQuantity, gpu_type: GpuTypeId, workloads: &[u32]) -> Vec<f64> {
        let kind = &self.gpu_types[gpu_type as usize];
        workloads.iter().map(|id| self.predictor.estimate(what, kind, &self.profiles[*id as usize])).collect()
    }

    /// Answers.
    pub fn similarity(&self, gpu_type: GpuTypeId, first: &[u32], second: &[u32]) -> Vec<f64> {
        let kind = &self.gpu_types[gpu_type as usize];
        let of = |id: &u32| &self.profiles[*id as usize];
        first.iter().zip(second).map(|(a, b)| clamp(self.predictor.similarity(kind, of(a), of(b)))).collect()
    }

    /// Answers.
    pub fn pair_speed(&self, gpu_type: GpuTypeId, jobs: &[u32], residents: &[Vec<u32>]) -> Vec<f64> {
        let kind = &self.gpu_types[gpu_type as usize];
        let of = |id: &u32| &self.profiles[*id as usize];
        let answer = |(job, beside): (&u32, &Vec<u32>)| match beside.is_empty() {
            true => 1.0,
            false => {
                let beside: Vec<&WorkloadProfile> = beside.iter().map(of).collect();
                clamp(self.predictor.pair_speed(kind, of(job), &beside))
            }
        };
        jobs.iter().zip(residents).map(answer).collect()
    }
}

/// Answers are shares; NaN stays what it is.
fn clamp(x: f64) -> f64 {
    x.clamp(0.0, 1.0)
}

/// Makes a [`Predictor`] the component's `provider`. Expands to nothing natively.
#[macro_export]
macro_rules! export_predictor {
    ($predictor:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::bindings::sandtable::policy::types;
            use $crate::predictor::bindings::exports::sandtable::policy::provider;
            struct Component;
            std::thread_local! {
                static ANSWERING: std::cell::RefCell<Option<$crate::predictor::Answering<$predictor>>> =
                    const { std::cell::RefCell::new(None) };
            }
            fn with<T>(ask: impl FnOnce(&mut $crate::predictor::Answering<$predictor>) -> T) -> T {
                ANSWERING.with_borrow_mut(|answering| match answering {
                    Some(answering) => ask(answering),
                    None => panic!("a question before init"),
                })
            }
            impl provider::Guest for Component {
                fn describe() -> provider::Descriptor {
                    $crate::predictor::describe::<$predictor>(env!("CARGO_PKG_VERSION"))
                }
                fn init(setup: provider::Setup) -> Result<(), types::PolicyError> {
                    $crate::host::report_panics();
                    ANSWERING.set(Some($crate::predictor::Answering::new(setup)?));
                    Ok(())
                }
                fn introduce(profiles: Vec<types::WorkloadProfile>) {
                    with(|answering| answering.introduce(profiles))
                }
                fn estimate(what: provider::SoloQuantity, gpu_type: u32, workloads: Vec<u32>) -> Vec<f64> {
                    with(|answering| answering.estimate(what, gpu_type, &workloads))
                }
                fn similarity(gpu_type: u32, first: Vec<u32>, second: Vec<u32>) -> Vec<f64> {
                    with(|answering| answering.similarity(gpu_type, &first, &second))
                }
                fn pair_speed(gpu_type: u32, job: Vec<u32>, residents: Vec<Vec<u32>>) -> Vec<f64> {
                    with(|answering| answering.pair_speed(gpu_type, &job, &residents))
                }
            }
            $crate::predictor::bindings::export_predictor_bindings!(Component with_types_in $crate::predictor::bindings);
        };
    };
}
