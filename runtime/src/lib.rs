//! Runs one policy against one backend.
//!
//! # Architecture
//! - [`contract`]: the types of `wit/`, as the host sees them; [`fault`]: what a guest can do wrong; [`limits`]: what it
//!   may use.
//! - [`answers`]: what imports answered, recorded for [`capsule`], which replays a failed policy.
//! - [`sandbox`]: the only place that names wasmtime, beside the generated code of [`contract`]. Loads components, calls
//!   them under limits, names their faults.
//! - [`inputs`]: what a run is given beside the policy and the machines.
//! - [`Policy`]: what the loop asks for decisions; a [`sandbox::Sandboxed`] component, or a native stand-in.
//! - [`World`]: what a policy may read while it decides.
//! - [`Predictors`]: who answers its questions; a [`Provider`] is a component or a native stand-in.
//! - [`judge`]: the validity rules. A plan is judged on a scratch copy before anything happens.
//! - [`schedule`]: the loop. Advance, collect events, decide, judge, apply, record.
//! - [`Ledger`]: what happened to each job and each GPU; [`Summary`]: every metric, computed from it alone.
//!
//! Knows no file and no RON; time is what the backend says.

pub mod answers;
mod busy;
pub mod capsule;
pub mod cluster;
pub mod contract;
mod distribution;
pub mod fault;
pub mod inputs;
pub mod judge;
mod ledger;
pub mod limits;
mod metrics;
mod policy;
mod pools;
mod predict;
mod row;
pub mod sandbox;
pub mod schedule;
mod serving;
pub mod tape;
mod told;
mod window;
mod world;

pub use distribution::Distribution;
pub use ledger::{Conservation, Ledger};
pub use metrics::Summary;
pub use policy::Policy;
pub use pools::{Pools, Use};
pub use predict::{Answerer, Provider, Score};
pub use row::{JobRow, Outcome as JobOutcome, Segment};
pub use serving::{Serving, Tasks};
pub use told::{capacities, never_fits};
pub use window::{Until, Window};
pub use world::{Predictors, Remaining, Told, World};

/// The contract's package, as components name it.
pub const CONTRACT: &str = "sandtable:policy@0.1.0";
