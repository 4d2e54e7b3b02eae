//! One binary for all integration tests: a link of wasmtime each would cost more than they do.

mod bad_specs;
mod cli;
mod components;
mod goldens;
mod help;
mod properties;
