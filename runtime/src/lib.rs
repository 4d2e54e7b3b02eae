//! Runs one policy against one backend.
//!
//! # Architecture
//! - [`contract`]: the types of `wit/`, as the host sees them; [`fault`]: what a guest can do wrong; [`limits`]: what it
//!   may use.
//! - [`answers`]: what imports answered, recorded for [`capsule`], which replays a failed policy.
//! - `sandbox` (a feature, on by default): the only place that names wasmtime, beside the derives of [`contract`]. Loads
//!   components, calls them under limits, names their faults.
//! - [`inputs`]: what a run is given beside the policy and the machines.
//! - [`Policy`]: what the loop asks for decisions; a `sandbox::Sandboxed` component, or a native stand-in.
//! - [`DecisionContext`]: what a policy may read while it decides.
//! - [`Predictors`]: what answers its questions; a [`Provider`] is a component or a native stand-in.
//! - [`judge`]: the validity rules. A plan is judged on a scratch copy before anything happens.
//! - [`schedule`]: the loop. Advance, collect events, decide, judge, apply, record.
//! - [`Ledger`]: what happened to each job and each GPU; [`Summary`]: every metric, computed from it alone.
//!
//! Knows no file and no RON; time is what the backend says.

#![cfg_attr(not(feature = "sandbox"), expect(dead_code, reason = "components alone ask for some of it"))]

/// The version of the contract in `wit/`.
macro_rules! contract_version {
    () => {
        "0.2.0"
    };
}

pub mod answers;
mod capacity;
pub mod capsule;
pub mod cluster;
mod context;
pub mod contract;
pub mod decision_log;
mod distribution;
pub mod fault;
mod fragments;
pub mod inputs;
mod introductions;
pub mod judge;
mod ledger;
pub mod limits;
mod metrics;
mod policy;
mod pools;
mod predict;
mod queue_tracker;
mod queue_use;
mod reclaims;
mod row;
#[cfg(feature = "sandbox")]
pub mod sandbox;
pub mod schedule;
mod serving;
mod utilisation;
mod visibility;
mod window;

pub use capacity::Capacities;
pub use context::{DecisionContext, Predictors, Remaining, VisibleInfo};
pub use distribution::Distribution;
pub use introductions::Introductions;
pub use ledger::{AccountingError, Ledger};
pub use metrics::{Deadlines, Summary};
pub use policy::Policy;
pub use pools::{Pools, Use};
pub use predict::{Answerer, Provider, Score, ScoreBin};
pub use queue_tracker::{QueueClaim, deserved};
pub use queue_use::QueueUse;
pub use row::{JobRow, Outcome as JobOutcome, Segment, Unfinished};
pub use serving::{Serving, Tasks};
pub use window::{Until, Window};

/// The contract's package, as components name it.
pub const CONTRACT: &str = concat!("sandtable:policy@", contract_version!());
