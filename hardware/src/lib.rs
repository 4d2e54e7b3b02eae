//! What GPUs are and what jobs do on them. Knows no policy; only `live` reads the machine's clock.
//!
//! # Architecture
//! - [`catalogue`]: GPU models, each with its source.
//! - [`Fleet`]: nodes and their GPUs, what starting and stopping costs, how nodes fail.
//! - [`Parts`]: what GPUs can be cut into.
//! - [`HostResources`]: CPU and memory of nodes beside their GPUs.
//! - [`ModelFacts`]: what a model's computation graph shows.
//! - [`Profile`]: what workloads do alone and beside each other, measured or fitted, with sources.
//! - [`Stages`]: what a step takes of CPUs, GPUs and the network.
//! - [`regime`]: jobs whose batch changes while they train, by a rule of their own.
//! - [`elastic`]: jobs that change their size: throughput, statistical efficiency, the cost of a change.
//! - [`PerformanceModel`]: a profile as it holds on one fleet: which jobs slow each other down or run out of memory, what communication
//!   costs.
//! - [`Job`]: what a job really takes. Policies never see this.
//! - [`Backend`]: what the loop drives; [`SimulatedBackend`] is the simulated one, [`live`] runs processes on real devices,
//!   [`replay`] answers as a recorded run did.
//! - [`Telemetry`]: what devices say of themselves.
//! - [`random`]: seeded streams by name, and the distributions drawn from them.

mod backend;
mod beginning;
pub mod catalogue;
pub mod elastic;
mod facts;
mod fleet;
mod ids;
mod job;
mod links;
pub mod live;
mod model;
mod nodes;
#[cfg(feature = "nvidia")]
pub mod nvidia;
mod parts;
mod performance;
mod profile;
mod queue;
pub mod random;
mod rates;
pub mod regime;
pub mod replay;
mod stages;
mod telemetry;
pub mod text;
mod time;
pub mod work;

pub use backend::{Backend, BackendEvent, Cause, EpochsOfBatch, Move, Progress, StopMode, TimedEvent};
pub use beginning::{Beginning, Standing};
pub use elastic::{Elastic, Rescale, Sample, Split};
pub use facts::{Counts, Group, ModelFacts};
pub use fleet::{
    Costs, Failures, Fleet, FleetError, GpuType, Leases, Maintenance, Node, Pool, RestartRule, Revocable, Service,
    Sharing,
};
pub use ids::{GpuId, JobId, NodeId, PartId, QueueId, ServiceId, TypeId, WorkloadId};
pub use job::{Job, Request};
pub use links::Links;
pub use model::SimulatedBackend;
pub use nodes::{HostResources, HostUse, Nearness};
pub use parts::{PartProfile, Parts};
pub use performance::{Communication, Interference, InterferenceModel, LawError, PerformanceModel};
pub use profile::{GpuProfile, Measured, MeasuredCell, Pair, Profile, ProfileError, Ring, ShareMode, Solo, Workload};
pub use queue::{Queue, queue_and_groups};
pub use rates::DurationsOn;
pub use regime::Regime;
pub use stages::Stages;
pub use telemetry::{Device, MoveMemory, Reading, Settings, StandIn, Telemetry, differences};
pub use time::{Duration, Instant, SECOND};
