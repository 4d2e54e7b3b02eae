//! Hosting components: deterministic settings, limits, host imports, and a name for everything that can go wrong.
//!
//! A guest gets no WASI, no clock and no entropy. Fuel is the only limit that may steer a result. Any error from a
//! call ends the store. Nothing of wasmtime is visible outside this crate, and beside this module only the derives and
//! layouts of `contract` name it.

mod advice;
mod bindings;
pub mod blank;
mod code;
mod compile;
mod component;
mod engine;
mod imports;
mod instance;
mod interfaces;
mod log;
mod names;
mod policy;
mod provider;
mod replay;
mod shape;

mod unwrapped;
mod version;
mod wiring;

pub use code::{CodeCache, private_folder};
pub use compile::{Budget, Compiler, serve};
pub use component::{Component, PredictorComponent, Sandbox, Settings};
pub use engine::{Flags, Variation};
pub use instance::Sandboxed;
pub use interfaces::interfaces;
pub use provider::{ProviderSetup, SandboxedProvider};
