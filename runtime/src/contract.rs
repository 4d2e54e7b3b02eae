//! The types of `wit/`, as the host has them.
//!
//! With the feature `sandbox` they cross the border of a component as they are; without it they are plain data, so that
//! planning and reading results need no wasmtime.

#[macro_use]
mod define;

#[cfg(feature = "sandbox")]
pub(crate) mod abi;
mod actions;
mod exchange;
mod facts;
mod provider;
mod quantity;

use serde::Deserialize as _;

pub use actions::*;
pub use exchange::*;
pub use facts::*;
pub use provider::{ProviderDescriptor, Quantities, SoloQuantity, Sources};
pub use quantity::Quantity;

/// Microseconds since the start of the experiment.
pub type Instant = u64;
/// Microseconds.
pub type Duration = u64;
/// The number of a job: jobs are numbered from 0 as they are announced.
pub type JobId = u32;
/// The number of a GPU: GPUs are numbered from 0, node by node.
pub type GpuId = u32;
/// The number of a node, from 0.
pub type NodeId = u32;
/// The number of a type of GPU, from 0.
pub type GpuTypeId = u32;
/// The number of a workload, from 0.
pub type WorkloadId = u32;
/// The number of a service, from 0.
pub type ServiceId = u32;
/// The number of a distinct demand, from 0.
pub type ClassId = u32;
/// The number of a user, from 0.
pub type UserId = u32;
/// The number of a queue, from 0.
pub type QueueId = u32;
/// The number of a part that GPUs can be cut into, from 0.
pub type PartId = u32;

/// The instant or duration that stands for never or unknown: 2^53 - 1 µs.
pub const NEVER: u64 = (1 << 53) - 1;
/// The workload of a job of whose workload nothing is known.
pub const NO_WORKLOAD: WorkloadId = WorkloadId::MAX;
/// The queue of a job that is in none.
pub const NO_QUEUE: QueueId = QueueId::MAX;
/// The first slice of a job that has no part of a GPU.
pub const NO_SLICE: u32 = u32::MAX;

/// Reads a number that may be NaN, for which JSON has `null`.
fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// Reads a limit that may be infinite, for which JSON has `null`.
fn limit<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

fn numbers<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let numbers = Vec::<Option<f64>>::deserialize(deserializer)?;
    Ok(numbers.into_iter().map(|number| number.unwrap_or(f64::NAN)).collect())
}

impl Cadence {
    /// Called on every event, and not in rounds.
    pub const EVENTS: Cadence = Cadence { round: None, on_events: true, ends: Wake::Always };
}

impl Readiness {
    /// Called so, and using all that its descriptor names.
    pub fn of(cadence: Cadence) -> Readiness {
        Readiness { cadence, uses: Abilities::all() }
    }
}

impl HostResources {
    /// Nothing is known.
    pub const UNKNOWN: HostResources = HostResources { cpu_milli: 0, memory_mib: 0 };
}

impl Demand {
    /// So many whole GPUs of any type on any nodes, by a job that may be preempted.
    pub fn whole(gpus: u32) -> Demand {
        Demand {
            gpus,
            gpus_per_node: 0,
            host: HostResources::UNKNOWN,
            near: Nearness { required: None, preferred: None },
            share_milli: 1000,
            part: None,
            memory_mib: 0,
            gpu_types: Vec::new(),
            preemptible: true,
            elastic: None,
            service: None,
        }
    }
}

impl Descriptor {
    /// What a policy that is compiled into the host says of itself at least: version 0, without
    /// configuration.
    pub fn stand_in(name: &str, uses: Abilities) -> Self {
        let (version, about, needs) = ("0".into(), String::new(), Knowledge::empty());
        Self { name: name.into(), version, about, uses, needs, config_schema: "{}".into() }
    }
}

#[cfg(test)]
mod tests {
    use super::{Abilities, Fresh, Knowledge};

    /// A capsule would replay a policy that was told less than the one that failed.
    #[test]
    fn every_flag_is_told_by_its_name() {
        fn again<T: serde::Serialize + serde::de::DeserializeOwned>(flags: &T) -> T {
            serde_json::from_str(&serde_json::to_string(flags).expect("JSON")).expect("flags")
        }
        assert_eq!(again(&Abilities::all()), Abilities::all());
        assert_eq!(again(&Knowledge::all()), Knowledge::all());
        assert_eq!(again(&Fresh::all()), Fresh::all());
    }
}
