//! What a spec says of those who serve.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::units::Span;

/// Services, and what is asked of them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename = "Serving", deny_unknown_fields)]
pub struct ServingSpec {
    /// By name.
    pub services: BTreeMap<String, ServiceSpec>,
    /// When which tasks come.
    #[serde(default)]
    pub demand: DemandSpec,
    /// Whether a GPU keeps a service's model until somebody else gets it; else each task loads its own.
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

/// When which tasks come; each is of any service, as likely as of any other.
#[expect(missing_docs, reason = "the names are the spec's own, which the case's text explains")]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub enum DemandSpec {
    /// Those of the workload's trace.
    #[default]
    Recorded,
    /// So many, at any time alike; each takes whole seconds from the first number to the second.
    Uniform { tasks: u32, over: Span, seconds: (u32, u32) },
    /// As many as keep `trough` to `peak` GPUs busy, up and down once in a `period`, beginning at the trough.
    Diurnal {
        trough: f64,
        peak: f64,
        period: Span,
        over: Span,
        seconds: (u32, u32),
        #[serde(default)]
        bursts: Option<DemandBursts>,
    },
}

/// Times at which more is asked.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "Bursts", deny_unknown_fields)]
pub struct DemandBursts {
    /// Mean time from one to the next.
    pub every: Span,
    /// How long each lasts.
    pub lasting: Span,
    /// What the rate is multiplied by meanwhile.
    pub times: f64,
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
