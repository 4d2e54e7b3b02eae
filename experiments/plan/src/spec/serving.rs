//! Services and their demand in a spec.

use std::collections::BTreeMap;

use sandtable_core::units::Span;
use sandtable_inputs::trace::DemandSpec;
use schemars::JsonSchema;
use serde::Deserialize;

/// Services, and what is asked of them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename = "Serving", deny_unknown_fields)]
pub struct ServingSpec {
    /// By name.
    pub services: BTreeMap<String, ServiceSpec>,
    /// When which tasks come.
    #[serde(default)]
    pub demand: DemandSpec,
    /// Whether a GPU keeps a service's model until another job gets the GPU; else each task loads its own.
    #[serde(default)]
    pub keeps_models: Option<bool>,
}

/// One service.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename = "Service", deny_unknown_fields)]
pub struct ServiceSpec {
    /// Loading its model onto a GPU.
    pub cold_start: Span,
    /// The longest that a task may wait until it is served, loading included.
    #[serde(default)]
    pub slo: Option<Span>,
}

/// What a change of an elastic job's GPUs costs.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub enum RescaleSpec {
    /// The same for every change and every job.
    Constant(Span),
    /// The workload's restart, whatever changes.
    Full,
    /// Automatic fast elasticity: less where replicas stay (DeepBoot).
    Afe,
}
